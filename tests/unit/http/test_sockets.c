/* Tests the queries about connections (server/base/sockets.h). */
#include "tests/support/test.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/sockets.h"

struct pair {
    int client, server;
};

static struct pair connect_pair(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct pair p = {.client = socket(AF_INET, SOCK_STREAM, 0)};

    assert_int_equal(bind(listener, (struct sockaddr *)(void *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)(void *)&at, &n), 0);
    assert_int_equal(connect(p.client, (struct sockaddr *)(void *)&at, sizeof at), 0);
    p.server = accept(listener, NULL, NULL);
    assert_true(p.server >= 0);
    close(listener);
    return p;
}

static void wait_for(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    assert_int_equal(poll(&p, 1, -1), 1);
}

static void an_open_connection_is_not_over(void **state)
{
    (void)state;
    struct pair p = connect_pair();
    assert_false(srv_socket_is_over(p.server));
    assert_int_equal(write(p.client, "x", 1), 1);
    wait_for(p.server, POLLIN);
    assert_false(srv_socket_is_over(p.server));
    close(p.client);
    close(p.server);
}

static void a_half_closed_connection_is_over_once_all_is_read(void **state)
{
    (void)state;
    struct pair p = connect_pair();
    char byte;
    assert_int_equal(write(p.client, "x", 1), 1);
    assert_int_equal(shutdown(p.client, SHUT_WR), 0);
    wait_for(p.server, POLLRDHUP);
    assert_false(srv_socket_is_over(p.server));
    assert_int_equal(read(p.server, &byte, 1), 1);
    assert_true(srv_socket_is_over(p.server));
    close(p.client);
    close(p.server);
}

static void a_connection_that_its_peer_has_reset_is_over(void **state)
{
    (void)state;
    struct pair p = connect_pair();
    const struct linger at_once = {.l_onoff = 1};
    assert_int_equal(write(p.client, "x", 1), 1);
    wait_for(p.server, POLLIN);
    assert_int_equal(setsockopt(p.client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(p.client);
    wait_for(p.server, POLLRDHUP);
    assert_true(srv_socket_is_over(p.server));
    close(p.server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_connection_is_not_over),
        cmocka_unit_test(a_half_closed_connection_is_over_once_all_is_read),
        cmocka_unit_test(a_connection_that_its_peer_has_reset_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
