/* Tests that the exporter ends although the collector's name is still being looked up. */
#include "tests/support/test.h"

#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/tracing/exporter.h"

static atomic_bool is_looked_up, may_end, has_ended;

/* Replaces the C library's function. Waits until the test permits the lookup to end. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    (void)name, (void)service, (void)hints;
    *out = NULL;
    atomic_store(&is_looked_up, true);
    while (!atomic_load(&may_end))
        usleep(1000);
    atomic_store(&has_ended, true);
    return EAI_AGAIN;
}

static struct srv_exporter *left_behind; /* keeps the memory reachable for the leak check */

static void a_lookup_that_does_not_end_is_left_behind(void **state)
{
    char url[] = "http://collector.invalid:4318/v1/traces";
    const struct srv_exporter_options options = {
        .url = url,
        .endpoint = url,
        .headers = "",
        .ca_file = "",
        .resource = {.service_name = "s", .attributes = ""},
        .timeout_ns = 1000000000,
        .interval_ns = 1000000,
        .queue_length = 8};
    struct srv_trace_record *r = calloc(1, sizeof *r);
    struct rt_error err = {0};
    struct srv_exporter_counts counts;

    (void)state;
    assert_non_null(r);
    assert_ok(srv_exporter_start(&options, &left_behind, &err), &err);
    srv_exporter_add(left_behind, r);
    while (!atomic_load(&is_looked_up))
        usleep(1000);
    srv_exporter_stop(left_behind);
    assert_false(atomic_load(&has_ended));
    memset(url, 'x', sizeof url - 1); /* the thread may no longer use the options */
    atomic_store(&may_end, true);
    do {
        usleep(1000);
        srv_exporter_count(left_behind, &counts);
    } while (!counts.failed);
    assert_true(atomic_load(&has_ended));
    assert_int_equal(counts.failed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_lookup_that_does_not_end_is_left_behind)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
