/* Tests that admissions by quotas fail as they should and count events. */
#include "tests/support/test.h"

#include "server/inference/admission.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_cells.h"

#define S INT64_C(1000000000)

static struct srv_server server;

static uint64_t n_events(const char *name)
{
    const uint64_t *n = rt_map_get(&server.metrics->events, name);

    return n ? *n : 0;
}

static void refusals_and_shared_buckets_are_counted(void **state)
{
    const struct srv_quota_limits limits = {1, 0, 1, "x-client"};
    struct srv_quota_client client[2];
    struct rt_error err = {0};
    int64_t retry_s = 0;

    (void)state;
    server.metrics = srv_metrics_new(1, 1);
    server.quota = srv_quota_new(&limits);
    assert_non_null(server.metrics);
    assert_non_null(server.quota);
    for (int i = 0; i < 200; i++) { /* more clients than buckets */
        char key[8];
        snprintf(key, sizeof key, "c%d", i);
        srv_admit(&server, rt_span_str(key), 0, S, &client[0], &retry_s, &err);
    }
    assert_true(n_events("quota_shared") > 0);
    const uint64_t n_refused = n_events("quota_refused");
    assert_int_equal(srv_admit(&server, rt_span_str("c0"), 0, S, &client[1], &retry_s, &err),
                     RT_RESOURCE_EXHAUSTED);
    assert_int_equal(retry_s, 1);
    assert_int_equal(n_events("quota_refused"), n_refused + 1);
    assert_non_null(strstr(err.msg, "the client \"c0\" has used up its quota"));
    assert_ok(srv_admit(&server, rt_span_str("c0"), 0, 2 * S, &client[0], &retry_s, &err), &err);
    assert_memory_equal(&client[0], &client[1], sizeof client[0]);
    srv_quota_free(server.quota);
    srv_metrics_free(server.metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refusals_and_shared_buckets_are_counted)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
