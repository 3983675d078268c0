/* Tests the groups of sends on TCP connections. */
#include "server/base/send_group.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

struct ends {
    int client, server;
};

/* Connects two TCP sockets. The server's sends are not delayed without a group. */
static struct ends connect_ends(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr *address = (struct sockaddr *)&at;
    socklen_t n = sizeof at;
    const int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct ends e = {.client = socket(AF_INET, SOCK_STREAM, 0)};

    assert_int_equal(bind(listener, address, n), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, address, &n), 0);
    assert_int_equal(connect(e.client, address, n), 0);
    e.server = accept(listener, NULL, NULL);
    assert_true(e.server >= 0);
    assert_int_equal(setsockopt(e.server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    close(listener);
    return e;
}

static void close_ends(struct ends e)
{
    close(e.client);
    close(e.server);
}

static void respond(struct ends e)
{
    assert_int_equal(send(e.server, "x", 1, srv_send_group_flags(e.server)), 1);
}

/* Returns the number of bytes that the server's kernel has not transmitted. */
static int unsent(struct ends e)
{
    int n = -1;

    assert_int_equal(ioctl(e.server, SIOCOUTQNSD, &n), 0);
    return n;
}

static void expect_bytes(struct ends e, size_t n)
{
    char bytes[64];

    for (size_t got = 0; got < n;) {
        ssize_t k = recv(e.client, bytes, n - got, 0);
        assert_true(k > 0);
        got += (size_t)k;
    }
}

static void without_a_group_nothing_waits(void **state)
{
    (void)state;
    struct ends e = connect_ends();

    for (int i = 0; i < 3; i++) {
        assert_int_equal(srv_send_group_flags(e.server), 0);
        respond(e);
        assert_int_equal(unsent(e), 0);
    }
    srv_send_group_flush();
    expect_bytes(e, 3);
    close_ends(e);
}

/* The kernel itself transmits collected bytes after 0.2 s, so a machine that stops the test for so
 * long makes it see none. The test therefore repeats the attempt. */
static void all_sends_but_the_first_wait_for_the_end(void **state)
{
    (void)state;
    struct ends a = connect_ends(), b = connect_ends();
    bool has_waited = false;

    for (int i = 0; i < 20 && !has_waited; i++) {
        srv_send_group_begin();
        respond(a);
        assert_int_equal(unsent(a), 0);
        srv_send_group_begin(); /* belongs to the outer group */
        respond(a);
        respond(b);
        respond(b);
        srv_send_group_end();
        has_waited = unsent(a) == 1 && unsent(b) == 2;
        srv_send_group_end();
        assert_int_equal(unsent(a), 0);
        assert_int_equal(unsent(b), 0);
        expect_bytes(a, 2);
        expect_bytes(b, 2);
    }
    assert_true(has_waited);
    close_ends(a);
    close_ends(b);
}

static void a_flush_transmits_and_the_next_send_does_not_wait(void **state)
{
    (void)state;
    struct ends e = connect_ends();

    srv_send_group_begin();
    respond(e);
    respond(e);
    srv_send_group_flush();
    assert_int_equal(unsent(e), 0);
    respond(e);
    assert_int_equal(unsent(e), 0);
    srv_send_group_end();
    expect_bytes(e, 3);
    close_ends(e);
}

static void a_response_waits_for_a_limited_number_of_others(void **state)
{
    (void)state;
    struct ends e[SRV_SEND_GROUP_MOST + 1];

    for (int i = 0; i <= SRV_SEND_GROUP_MOST; i++)
        e[i] = connect_ends();
    srv_send_group_begin();
    for (int i = 0; i <= SRV_SEND_GROUP_MOST; i++)
        respond(e[i]);
    for (int i = 0; i <= SRV_SEND_GROUP_MOST; i++)
        assert_int_equal(unsent(e[i]), 0);
    srv_send_group_end();
    for (int i = 0; i <= SRV_SEND_GROUP_MOST; i++) {
        expect_bytes(e[i], 1);
        close_ends(e[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_group_nothing_waits),
        cmocka_unit_test(all_sends_but_the_first_wait_for_the_end),
        cmocka_unit_test(a_flush_transmits_and_the_next_send_does_not_wait),
        cmocka_unit_test(a_response_waits_for_a_limited_number_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
