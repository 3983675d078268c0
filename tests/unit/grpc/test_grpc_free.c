/*
 * Tests that the threads of the gRPC I/O loops do not free large responses, and that the bytes stay
 * charged to the budget until the memory is free. The test sees every call of free and
 * rt_heap_free in Slipway's own libraries (-Wl,--wrap in tests/CMakeLists.txt).
 */
#include "tests/support/test.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/grpc/grpc.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_internal.h"
#include "server/grpc/grpc_methods.h"
#include "server/metrics/metrics.h"

enum { RESPONSE_BYTES = 3 << 20 };

static struct srv_server server;
static struct srv_grpc *grpc;
static char folder[32], path[64];
/* numbers of large blocks freed on the thread of an I/O loop, and on another thread */
static _Atomic int n_on_loop, n_in_background;
/* the smallest number of bytes that were charged when a large block was freed */
static _Atomic int64_t least_held;

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_rt_heap_free(void *p);

void __wrap_free(void *p)
{
    if (p && malloc_usable_size(p) >= RESPONSE_BYTES) {
        const int64_t held = atomic_load(&server.in_flight.held);
        if (held < atomic_load(&least_held))
            atomic_store(&least_held, held);
        atomic_fetch_add(srv_grpc_this_loop ? &n_on_loop : &n_in_background, 1);
    }
    __real_free(p);
}

void __wrap_rt_heap_free(void *p)
{
    __wrap_free(p);
}

static void respond(struct srv_call *c)
{
    static const char bytes[RESPONSE_BYTES];
    struct rt_bytes message;
    rt_bytes_init(&message, SIZE_MAX);
    assert_int_equal(srv_call_charge(c, RESPONSE_BYTES, "the response"), RT_OK);
    rt_bytes_add(&message, bytes, sizeof bytes);
    srv_call_respond(c, &message);
}

static const char *why_unknown(struct rt_span name)
{
    (void)name;
    return "unknown";
}

static int begin(void **state)
{
    static const struct srv_map empty;
    static const struct srv_grpc_method large = {.path = "/t.T/Large",
                                                 .kind = SRV_GRPC_REGISTERED,
                                                 .api = SRV_NOT_COUNTED,
                                                 .handle = respond};
    static const struct srv_grpc_methods methods = {&large, 1, why_unknown};
    const char *argv[] = {"slipway", "--num_grpc_threads=1"};
    struct rt_error err = {0};
    int port;
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/grpc-free-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    memset(&server, 0, sizeof server);
    assert_int_equal(srv_options_parse(&server.options, false, 2, argv, stderr), SRV_PARSE_RUN);
    server.options.grpc_socket_path = path;
    server.in_flight.limit = server.options.max_bytes_in_flight;
    atomic_store(&server.map, &empty);
    server.metrics = srv_metrics_new(1, 1);
    assert_non_null(server.metrics);
    assert_ok(srv_grpc_start(&server, &methods, &grpc, &err), &err);
    assert_ok(srv_grpc_listen(grpc, "127.0.0.1", 0, &port, &err), &err);
    atomic_store(&n_on_loop, 0);
    atomic_store(&n_in_background, 0);
    atomic_store(&least_held, INT64_MAX);
    return 0;
}

static int end(void **state)
{
    (void)state;
    srv_grpc_stop(grpc);
    srv_metrics_free(server.metrics);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
    return 0;
}

static void add_frame(struct rt_bytes *out, int type, int flags, int stream, const void *p,
                      size_t n)
{
    const unsigned char head[9] = {0,
                                   (unsigned char)(n >> 8),
                                   (unsigned char)n,
                                   (unsigned char)type,
                                   (unsigned char)flags,
                                   0,
                                   0,
                                   0,
                                   (unsigned char)stream};
    rt_bytes_add(out, head, sizeof head);
    rt_bytes_add(out, p, n);
}

/*
 * Connects and makes a call. The client is a plain socket, because a gRPC client in this process
 * would run part of the server's work on its own threads. If `window` is set, the server may send
 * the whole response. Otherwise, the server may send at most 64 KiB.
 */
static int begin_call(bool window)
{
    /* INITIAL_WINDOW_SIZE and the increment of a WINDOW_UPDATE, both 1 GiB */
    static const char settings[] = "\0\4\x40\0\0\0", more[] = "\x40\0\0\0";
    /* HPACK: two entries of the static table, then literals with and without an indexed name */
    static const char headers[] = "\x83\x86\x04\x0a/t.T/Large\x01\x01x"
                                  "\x00\x0c"
                                  "content-type\x10"
                                  "application/grpc"
                                  "\x00\x02te\x08trailers";
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const struct timeval limit = {.tv_sec = 60};
    struct rt_bytes out;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    rt_bytes_init(&out, SIZE_MAX);
    rt_bytes_adds(&out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    add_frame(&out, 4, 0, 0, settings, window ? sizeof settings - 1 : 0);
    if (window)
        add_frame(&out, 8, 0, 0, more, sizeof more - 1);
    add_frame(&out, 1, 4, 1, headers, sizeof headers - 1);
    add_frame(&out, 0, 1, 1, "\0\0\0\0", 5);
    assert_int_equal(send(fd, out.p, out.n, 0), out.n);
    rt_bytes_clear(&out);
    return fd;
}

static void read_bytes(int fd, size_t n)
{
    static char piece[64 << 10];
    while (n) {
        const ssize_t got = recv(fd, piece, n < sizeof piece ? n : sizeof piece, 0);
        assert_true(got > 0);
        n -= (size_t)got;
    }
}

/* Waits until no bytes are charged. Then checks that exactly one large block was freed, that its
 * bytes were still charged at that time, and that no I/O loop freed it. */
static void expect_freed_in_background(void)
{
    while (atomic_load(&server.in_flight.held))
        usleep(1000);
    assert_int_equal(atomic_load(&n_on_loop), 0);
    assert_int_equal(atomic_load(&n_in_background), 1);
    assert_true(atomic_load(&least_held) >= RESPONSE_BYTES);
}

static void a_large_response_is_freed_in_background(void **state)
{
    (void)state;
    int fd = begin_call(true);
    read_bytes(fd, RESPONSE_BYTES);
    expect_freed_in_background();
    close(fd);
}

static void a_response_that_is_not_read_is_freed_in_background(void **state)
{
    (void)state;
    int fd = begin_call(false);
    read_bytes(fd, 60000);
    close(fd);
    expect_freed_in_background();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_large_response_is_freed_in_background, begin, end),
        cmocka_unit_test_setup_teardown(a_response_that_is_not_read_is_freed_in_background, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
