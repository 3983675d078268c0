/*
 * Tests that the threads of the REST I/O loops do not free the memory of large requests, and that
 * the bytes stay charged to the budget until the memory is free. The test sees every call of free
 * and rt_heap_free in Slipway's own libraries (-Wl,--wrap in tests/CMakeLists.txt).
 */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/rest.h"
#include "server/protocol/protocol.h"
#include "server/http/rest_loop.h"
#include "server/metrics/metrics.h"

enum {
    LARGE_BYTES = 3 << 20, /* memory blocks of at least this size are counted */
    BODY_BYTES = 6 << 20,
    MORE_BYTES = 2 << 20, /* BODY_BYTES + MORE_BYTES exceeds --max_body_bytes */
    SAFETY_LIMIT_S = 60,
};

static struct srv_server server;
static struct srv_rest *rest;
static int port;
/* numbers of large blocks freed on the thread of an I/O loop, and on another thread */
static _Atomic int n_on_loop, n_in_background;
/* the smallest number of bytes that were charged when a large block was freed */
static _Atomic int64_t least_held;

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_rt_heap_free(void *p);

void __wrap_free(void *p)
{
    if (p && malloc_usable_size(p) >= LARGE_BYTES) {
        const int64_t held = atomic_load(&server.in_flight.held);
        if (held < atomic_load(&least_held))
            atomic_store(&least_held, held);
        atomic_fetch_add(srv_rest_this_loop ? &n_on_loop : &n_in_background, 1);
    }
    __real_free(p);
}

void __wrap_rt_heap_free(void *p)
{
    __wrap_free(p);
}

static int begin(void **state)
{
    static const struct srv_map empty;
    const char *argv[] = {"slipway", "--num_rest_threads=1", "--max_body_bytes=7M"};
    struct rt_error err = {0};
    (void)state;
    memset(&server, 0, sizeof server);
    assert_int_equal(srv_options_parse(&server.options, false, 3, argv, stderr), SRV_PARSE_RUN);
    server.options.prometheus_path = "/metrics";
    server.protocols = &srv_protocols;
    server.in_flight.limit = server.options.max_bytes_in_flight;
    atomic_store(&server.map, &empty);
    server.metrics = srv_metrics_new(1, 1);
    assert_non_null(server.metrics);
    assert_ok(srv_rest_start(&server, srv_rest_route, &rest, &err), &err);
    assert_ok(srv_rest_bind(rest, SRV_REST_PORT, "127.0.0.1", 0, &port, &err), &err);
    assert_ok(srv_rest_listen(rest, &err), &err);
    atomic_store(&n_on_loop, 0);
    atomic_store(&n_in_background, 0);
    atomic_store(&least_held, INT64_MAX);
    return 0;
}

static int end(void **state)
{
    (void)state;
    srv_rest_stop(rest);
    srv_metrics_free(server.metrics);
    return 0;
}

static int send_request(const char *head, size_t n)
{
    static char body[BODY_BYTES + MORE_BYTES];
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_sec = SAFETY_LIMIT_S};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(send(fd, head, strlen(head), 0), strlen(head));
    for (size_t at = 0; at < n;) {
        const ssize_t sent = send(fd, body + at, n - at, 0);
        assert_true(sent > 0);
        at += (size_t)sent;
    }
    return fd;
}

#define PREDICT "POST /v1/models/none:predict HTTP/1.1\r\nHost: x\r\n"

static void expect_status(int fd, const char *status)
{
    char start[13] = "";
    assert_int_equal(recv(fd, start, 12, MSG_WAITALL), 12);
    assert_string_equal(start, status);
}

/* Waits until no bytes are charged. Then checks that exactly one large block was freed, that its
 * bytes were still charged at that time, and that no I/O loop freed it. */
static void expect_freed_in_background(void)
{
    while (atomic_load(&server.in_flight.held))
        usleep(1000);
    assert_int_equal(atomic_load(&n_on_loop), 0);
    assert_int_equal(atomic_load(&n_in_background), 1);
    assert_true(atomic_load(&least_held) >= LARGE_BYTES);
}

static void a_large_body_is_freed_in_background(void **state)
{
    char head[200];
    (void)state;
    snprintf(head, sizeof head, PREDICT "Content-Length: %d\r\n\r\n", BODY_BYTES);
    int fd = send_request(head, BODY_BYTES);
    expect_status(fd, "HTTP/1.1 404");
    expect_freed_in_background();
    close(fd);
}

static void a_body_that_stops_is_freed_in_background(void **state)
{
    char head[200];
    (void)state;
    snprintf(head, sizeof head, PREDICT "Content-Length: %d\r\n\r\n", BODY_BYTES);
    int fd = send_request(head, BODY_BYTES - 1);
    while (atomic_load(&server.in_flight.held) < BODY_BYTES - (1 << 20))
        usleep(1000);
    close(fd);
    expect_freed_in_background();
}

/* The body is refused before it has arrived completely, and the connection stays open for a
 * while. */
static void a_refused_body_is_freed_in_background(void **state)
{
    char head[200];
    (void)state;
    snprintf(head, sizeof head, PREDICT "Transfer-Encoding: chunked\r\n\r\n%x\r\n", 1 << 30);
    int fd = send_request(head, BODY_BYTES + MORE_BYTES);
    expect_status(fd, "HTTP/1.1 413");
    expect_freed_in_background();
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_large_body_is_freed_in_background, begin, end),
        cmocka_unit_test_setup_teardown(a_body_that_stops_is_freed_in_background, begin, end),
        cmocka_unit_test_setup_teardown(a_refused_body_is_freed_in_background, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
