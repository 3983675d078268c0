/* Tests that a metrics page does not delay the other requests of its I/O loop. The test itself
 * holds the lock that the page needs, so the page cannot be written before the test releases the
 * lock. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/rest.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_cells.h"

enum { N_SCRAPERS = 3, SAFETY_LIMIT_S = 60 };

static struct srv_server server;
static struct srv_rest *rest;
static int port;

static int begin(void **state)
{
    static const struct srv_map empty;
    const char *argv[] = {"slipway", "--num_rest_threads=1"};
    struct rt_error err = {0};
    (void)state;
    memset(&server, 0, sizeof server);
    assert_int_equal(srv_options_parse(&server.options, false, 2, argv, stderr), SRV_PARSE_RUN);
    server.options.prometheus_path = "/metrics";
    atomic_store(&server.map, &empty);
    atomic_store(&server.has_connections, true); /* no manager counts connections here */
    server.metrics = srv_metrics_new(1, 1);
    assert_non_null(server.metrics);
    assert_ok(srv_rest_start(&server, srv_rest_route, &rest, &err), &err);
    assert_ok(srv_rest_listen(rest, "127.0.0.1", 0, &port, &err), &err);
    return 0;
}

static int end(void **state)
{
    (void)state;
    srv_rest_stop(rest);
    srv_metrics_free(server.metrics);
    return 0;
}

static int ask(const char *request)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_sec = SAFETY_LIMIT_S};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
    return fd;
}

/* Reads the response until the server closes the connection. Checks that the response begins with
 * `start` and contains `text`. Closes `fd`. */
static void expect_response(int fd, const char *start, const char *text)
{
    char all[64 << 10];
    size_t n = 0;
    for (ssize_t got; n < sizeof all - 1; n += (size_t)got) {
        got = recv(fd, all + n, sizeof all - 1 - n, 0);
        assert_true(got >= 0);
        if (!got)
            break;
    }
    all[n] = '\0';
    close(fd);
    assert_int_equal(strncmp(all, start, strlen(start)), 0);
    assert_non_null(strstr(all, text));
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

static void await_requests(int n)
{
    while (atomic_load(&server.rest_requests) < n)
        usleep(1000);
}

static void other_requests_are_answered_while_a_page_is_written(void **state)
{
    (void)state;
    int scrapers[N_SCRAPERS];
    rt_mutex_lock(&server.metrics->mu);
    for (int i = 0; i < N_SCRAPERS; i++)
        scrapers[i] = ask(GET("/metrics"));
    await_requests(N_SCRAPERS);
    expect_response(ask(GET("/healthz")), "HTTP/1.1 200", "ok\n");
    srv_metrics_event(server.metrics, "counted_meanwhile");
    rt_mutex_unlock(&server.metrics->mu);
    for (int i = 0; i < N_SCRAPERS; i++)
        expect_response(scrapers[i], "HTTP/1.1 200", "# TYPE :tensorflow:core:graph_runs counter");
    expect_response(ask(GET("/metrics")), "HTTP/1.1 200", "{event=\"counted_meanwhile\"} 1\n");
}

static void a_page_that_nobody_waits_for_is_no_trouble(void **state)
{
    (void)state;
    rt_mutex_lock(&server.metrics->mu);
    int fd = ask(GET("/metrics"));
    await_requests(1);
    close(fd);
    expect_response(ask(GET("/healthz")), "HTTP/1.1 200", "ok\n");
    rt_mutex_unlock(&server.metrics->mu);
    expect_response(ask(GET("/metrics")), "HTTP/1.1 200", "# TYPE slipway_ready gauge");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(other_requests_are_answered_while_a_page_is_written, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_page_that_nobody_waits_for_is_no_trouble, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
