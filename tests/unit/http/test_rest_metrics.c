/*
 * Tests that metrics pages do not delay the other requests of their I/O loop, and how much memory
 * they take while clients do not read them. The test itself holds the lock that a page needs, so
 * the page cannot be written before the test releases the lock.
 */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/http/rest.h"
#include "server/http/rest_call.h"
#include "server/protocol/protocol.h"
#include "server/telemetry/metrics_page.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_cells.h"

enum {
    N_SCRAPERS = 3,
    SAFETY_LIMIT_S = 60,
    N_UNREAD = SRV_REST_FREE_SHARED_BODIES + 4,
    /* The names of the events enlarge the page to several megabytes. The kernel buffers less than
     * that for a client that does not read. */
    N_EVENTS = 4000,
    NAME_BYTES = 1000, /* at most as many as the page shows of a name */
    MOST_UNSENT = 512 << 10,
};

static struct srv_server server;
static struct srv_rest *rest;
static int port;
static _Atomic size_t largest_send; /* the largest number of bytes passed to send */

/* Replaces the C library's `send`, so that the test sees libmicrohttpd's calls. */
ssize_t send(int fd, const void *p, size_t n, int flags)
{
    size_t most = atomic_load(&largest_send);
    while (n > most && !atomic_compare_exchange_weak(&largest_send, &most, n))
        ;
    return sendto(fd, p, n, flags, NULL, 0);
}

/* While `epoll_is_full` is set, sockets cannot be added to libmicrohttpd's epoll instances. Only
 * these epoll instances wait for readiness to write (EPOLLOUT). */
static _Atomic bool epoll_is_full;
static _Atomic int n_not_added;

/* Replaces the C library's `epoll_ctl`, so that calls of libmicrohttpd can fail. */
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    if (op == EPOLL_CTL_ADD && event->events & EPOLLOUT && atomic_load(&epoll_is_full)) {
        atomic_fetch_add(&n_not_added, 1);
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

static int begin(void **state)
{
    static const struct srv_map empty;
    const char *argv[] = {"slipway", "--num_rest_threads=1"};
    struct rt_error err = {0};
    (void)state;
    memset(&server, 0, sizeof server);
    assert_int_equal(srv_options_parse(&server.options, false, 2, argv, stderr), SRV_PARSE_RUN);
    server.options.prometheus_path = "/metrics";
    server.protocols = &srv_protocols;
    atomic_store(&server.map, &empty);
    server.metrics = srv_metrics_new(1, 1);
    assert_non_null(server.metrics);
    assert_ok(srv_rest_start(&server, srv_rest_route, &rest, &err), &err);
    assert_ok(srv_rest_bind(rest, SRV_REST_PORT, "127.0.0.1", 0, &port, &err), &err);
    assert_ok(srv_rest_listen(rest, &err), &err);
    return 0;
}

static int end(void **state)
{
    (void)state;
    srv_rest_stop(rest);
    srv_metrics_free(server.metrics);
    return 0;
}

/* Connects and sends a request. The socket's receive buffer has `buffer` bytes, or the default size
 * if `buffer` is 0. */
static int ask_into(const char *request, int buffer)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_sec = SAFETY_LIMIT_S};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    if (buffer)
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
    return fd;
}

static int ask(const char *request)
{
    return ask_into(request, 0);
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

static void await_requests_end(void)
{
    while (atomic_load(&server.rest_requests))
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

/* Adds many models, so that the metrics page is large. Returns its size in bytes. */
static size_t enlarge_page(void)
{
    static char names[N_EVENTS][NAME_BYTES + 1];
    struct rt_bytes page;
    for (int i = 0; i < N_EVENTS; i++) {
        snprintf(names[i], sizeof names[i], "%0*d", NAME_BYTES, i);
        srv_metrics_event(server.metrics, names[i]);
    }
    srv_metrics_page(&server, SRV_TEXT_PROMETHEUS, &page);
    const size_t n = page.n;
    rt_bytes_clear(&page);
    assert_true(n > 3 << 20);
    return n;
}

static int ask_unread(void)
{
    return ask_into(GET("/metrics"), 4096);
}

/* Waits for the first bytes of a response and checks that its HTTP status is 200. Leaves the bytes
 * unread. */
static void expect_ok(int fd)
{
    char start[13] = "";
    assert_int_equal(recv(fd, start, 12, MSG_PEEK | MSG_WAITALL), 12);
    assert_string_equal(start, "HTTP/1.1 200");
}

/* Reads and drops the response, and closes `fd`. Returns the number of bytes. */
static size_t read_all(int fd)
{
    static char piece[64 << 10];
    size_t n = 0;
    for (ssize_t got; (got = recv(fd, piece, sizeof piece, 0)) > 0;)
        n += (size_t)got;
    close(fd);
    return n;
}

/* Requests the page N_UNREAD times without reading the responses. The responses share one page, so
 * all of them are sent. */
static void ask_many_unread(int unread[N_UNREAD])
{
    rt_mutex_lock(&server.metrics->mu);
    for (int i = 0; i < N_UNREAD; i++)
        unread[i] = ask_unread();
    await_requests(N_UNREAD);
    rt_mutex_unlock(&server.metrics->mu);
    for (int i = 0; i < N_UNREAD; i++)
        expect_ok(unread[i]);
}

static void clients_that_do_not_read_share_a_page(void **state)
{
    (void)state;
    int unread[N_UNREAD];
    const size_t n = enlarge_page();
    /* No page fits into the budget. The responses share at most SRV_REST_FREE_SHARED_BODIES pages,
     * which may exceed the budget. */
    ask_many_unread(unread);
    assert_true(read_all(ask(GET("/metrics"))) > n);
    for (int i = 0; i < N_UNREAD; i++)
        assert_true(read_all(unread[i]) > n);
}

static void different_pages_that_are_not_read_are_few(void **state)
{
    (void)state;
    int unread[SRV_REST_FREE_SHARED_BODIES + 1];
    const size_t n = enlarge_page();
    server.in_flight.limit = (int64_t)(n + n / 2);
    for (int i = 0; i <= SRV_REST_FREE_SHARED_BODIES; i++) {
        unread[i] = ask_unread();
        expect_ok(unread[i]);
    }
    assert_true(atomic_load(&server.in_flight.held) >= (int64_t)n);
    expect_response(ask(GET("/metrics")), "HTTP/1.1 503", "the metrics page");
    expect_response(ask(GET("/healthz")), "HTTP/1.1 200", "ok\n");
    for (int i = 0; i <= SRV_REST_FREE_SHARED_BODIES; i++)
        assert_true(read_all(unread[i]) > n);
    await_requests_end();
    assert_int_equal(atomic_load(&server.in_flight.held), 0);
    assert_true(read_all(ask(GET("/metrics"))) > n);
}

static void a_page_that_is_too_large_is_refused_with_its_limit(void **state)
{
    (void)state;
    const size_t n = enlarge_page();
    server.metrics->max_page = 2 << 20;
    for (int i = 0; i < 2; i++)
        expect_response(ask(i ? GET("/metrics")
                              : "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n"
                                "Connection: close\r\n\r\n"),
                        "HTTP/1.1 429", "the metrics page has more than 2097152 bytes");
    server.metrics->max_page = 8 << 20;
    assert_true(read_all(ask(GET("/metrics"))) > n);
}

/* Returns the number of bytes for `client` that the kernel has accepted from the server but not
 * sent. */
static int unsent_to(int client)
{
    struct sockaddr_in own = {0}, peer;
    socklen_t n = sizeof own;
    assert_int_equal(getsockname(client, (struct sockaddr *)&own, &n), 0);
    for (int fd = 0; fd < 1024; fd++) {
        int bytes;
        n = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &n) == 0 && peer.sin_port == own.sin_port &&
            ioctl(fd, SIOCOUTQNSD, &bytes) == 0)
            return bytes;
    }
    fail_msg("the server has no socket of this client");
    return 0;
}

static void a_page_is_sent_in_pieces(void **state)
{
    (void)state;
    int unread[N_UNREAD];
    const size_t n = enlarge_page();
    atomic_store(&largest_send, 0);
    ask_many_unread(unread);
    /* When the I/O loop responds to another request, it has already passed to the kernel all bytes
     * that the kernel accepts. */
    for (int i = 0; i < 50; i++)
        expect_response(ask(GET("/healthz")), "HTTP/1.1 200", "ok\n");
    for (int i = 0; i < N_UNREAD; i++)
        assert_true(unsent_to(unread[i]) < MOST_UNSENT);
    for (int i = 0; i < N_UNREAD; i++)
        assert_true(read_all(unread[i]) > n);
    assert_in_range(atomic_load(&largest_send), SRV_REST_PIECE_BYTES / 2, SRV_REST_PIECE_BYTES);
}

static void a_page_that_cannot_be_sent_further_is_released(void **state)
{
    (void)state;
    const size_t n = enlarge_page();
    rt_mutex_lock(&server.metrics->mu);
    int unread = ask_unread();
    await_requests(1);
    atomic_store(&epoll_is_full, true);
    rt_mutex_unlock(&server.metrics->mu);
    await_requests_end();
    atomic_store(&epoll_is_full, false);
    assert_int_equal(atomic_load(&n_not_added), 1);
    assert_true(read_all(unread) < n);
    assert_true(read_all(ask(GET("/metrics"))) > n);
    await_requests_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(other_requests_are_answered_while_a_page_is_written, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_page_that_nobody_waits_for_is_no_trouble, begin, end),
        cmocka_unit_test_setup_teardown(clients_that_do_not_read_share_a_page, begin, end),
        cmocka_unit_test_setup_teardown(different_pages_that_are_not_read_are_few, begin, end),
        cmocka_unit_test_setup_teardown(a_page_that_is_too_large_is_refused_with_its_limit, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_page_is_sent_in_pieces, begin, end),
        cmocka_unit_test_setup_teardown(a_page_that_cannot_be_sent_further_is_released, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
