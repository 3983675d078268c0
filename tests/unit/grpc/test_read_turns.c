/* Tests that connections take turns reading. As in gRPC core, epoll is edge-triggered. The sockets
 * are loopback sockets. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/grpc/read_turns.h"

enum {
    MANY = 1000,
    WAIT_MS = 20000,
    CROWD = 8,
    LARGE_CROWD = 40,
    SENDERS = 64,
    BULK = 1 << 20,
    STEP_NS = 1000000
};

struct ends {
    int client, server;
};

static int epoll;

static struct ends connect_ends(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct ends e = {.client = socket(AF_INET, SOCK_STREAM, 0)};

    assert_int_equal(bind(listener, (struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &n), 0);
    assert_int_equal(connect(e.client, (struct sockaddr *)&at, sizeof at), 0);
    e.server = accept(listener, NULL, NULL);
    assert_true(e.server >= 0);
    close(listener);
    struct epoll_event want = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = e.server};
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, e.server, &want), 0);
    srv_turns_begin(e.server);
    return e;
}

static void close_ends(struct ends e)
{
    close(e.client);
    close(e.server);
}

/* Waits for an epoll event and returns the descriptor that it reports, or -1 if no event
 * arrives. */
static int next_edge(void)
{
    struct epoll_event event;

    return epoll_wait(epoll, &event, 1, WAIT_MS) == 1 ? event.data.fd : -1;
}

static void say(struct ends e)
{
    assert_int_equal(write(e.client, "x", 1), 1);
    assert_int_equal(next_edge(), e.server);
}

/* Asserts that the connection is paused and that an epoll event ends the pause. */
static void expect_pause(int fd)
{
    assert_int_equal(srv_turns_limit(fd), 0);
    assert_int_equal(next_edge(), fd);
    assert_true(srv_turns_limit(fd) > 0);
}

static int begin(void **state)
{
    (void)state;
    epoll = epoll_create1(0);
    return srv_turns_start(NULL, false) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    srv_turns_stop();
    close(epoll);
    return 0;
}

/* This test must run first. The connections of an earlier test could count as a crowd (CROWD in
 * read_turns.c). */
static void test_the_end_waits_if_many_frames_came(void **state)
{
    (void)state;
    for (int frames = 0; frames <= MANY; frames += MANY) {
        struct ends e = connect_ends();
        srv_turns_took(e.server, 100, frames, true);
        close(e.client);
        assert_int_equal(next_edge(), e.server);
        assert_int_equal(srv_turns_end(e.server), frames > 0);
        if (frames) { /* the pause may have ended already, but its end is reported in any case */
            assert_int_equal(next_edge(), e.server);
            assert_true(srv_turns_limit(e.server) > 0);
        }
        /* The read that finds the end of the stream is postponed only once. */
        assert_false(srv_turns_end(e.server));
        close(e.server);
    }
}

static void test_many_frames_are_a_turn(void **state)
{
    (void)state;
    struct ends e = connect_ends();

    say(e);
    assert_true(srv_turns_limit(e.server) > 0);
    srv_turns_held_frames(e.server, MANY);
    expect_pause(e.server);
    close_ends(e);
}

static void test_reads_that_leave_nothing_begin_a_turn(void **state)
{
    (void)state;
    struct ends e = connect_ends();

    for (int i = 0; i < MANY; i++) {
        srv_turns_took(e.server, 100, 2, true);
        assert_true(srv_turns_limit(e.server) > 0);
    }
    close_ends(e);
}

/* A connection's reads are short at first. They become longer when many bytes arrive in few frames,
 * and short again after many frames. */
static void test_frames_make_reads_short(void **state)
{
    (void)state;
    struct ends e = connect_ends();
    size_t few = srv_turns_limit(e.server);

    for (int i = 0; i < MANY; i++)
        srv_turns_took(e.server, few, 0, false);
    size_t bulk = srv_turns_limit(e.server);
    assert_true(few < bulk);
    say(e);
    srv_turns_took(e.server, few, MANY, false);
    expect_pause(e.server);
    assert_int_equal(srv_turns_limit(e.server), few);
    close_ends(e);
}

/* With TLS, the number of frames is known only after decryption, so a limit on encrypted bytes may
 * end a turn earlier. */
static void test_encrypted_bytes_are_a_turn_at_first(void **state)
{
    (void)state;
    struct ends e = connect_ends();
    size_t few = srv_turns_limit(e.server);

    for (int frames = 0; frames <= MANY; frames += MANY) {
        say(e);
        for (int i = 0; i < MANY && srv_turns_limit(e.server) == few; i++)
            srv_turns_took(e.server, few, -1, false);
        srv_turns_held_frames(e.server, MANY - frames);
        assert_int_equal(next_edge(), e.server);
    }
    size_t bulk = srv_turns_limit(e.server);
    assert_true(few < bulk);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(srv_turns_limit(e.server), bulk);
        srv_turns_took(e.server, bulk, -1, false);
        srv_turns_held_frames(e.server, i % 8 == 0);
    }
    close_ends(e);
}

/* The connections of a small crowd may send 200 frames each per turn, those of a large crowd may
 * not. */
static void test_in_a_large_crowd_turns_are_shorter(void **state)
{
    (void)state;
    struct ends crowd[LARGE_CROWD], e = connect_ends();

    for (int i = 0; i < LARGE_CROWD; i++) {
        crowd[i] = connect_ends();
        srv_turns_held_frames(crowd[i].server, 100);
        if (i >= CROWD - 2)
            continue;
        srv_turns_held_frames(crowd[i].server, 100);
        assert_true(srv_turns_limit(crowd[i].server) > 0);
    }
    say(e);
    srv_turns_held_frames(e.server, 100);
    expect_pause(e.server);
    close_ends(e);
    for (int i = 0; i < LARGE_CROWD; i++)
        close_ends(crowd[i]);
}

/* Connections that send many bytes in few frames are paused only if there are several of them. */
static void test_in_a_crowd_bulk_is_a_turn(void **state)
{
    (void)state;
    struct ends crowd[CROWD], e = connect_ends();

    for (int i = 0; i < CROWD; i++) {
        crowd[i] = connect_ends();
        srv_turns_took(crowd[i].server, BULK, 1, false);
    }
    say(e);
    for (int i = 0; i < BULK / 1024 - 1; i++) {
        srv_turns_took(e.server, 1024, 0, false);
        assert_true(srv_turns_limit(e.server) > 0);
    }
    srv_turns_took(e.server, 1024, 0, true);
    assert_true(srv_turns_limit(e.server) > 0); /* the socket is empty, so a new turn has begun */
    srv_turns_took(e.server, BULK, 0, false);
    expect_pause(e.server);
    close_ends(e);
    for (int i = 0; i < CROWD; i++)
        close_ends(crowd[i]);
}

/* While many connections send, a connection is paused once it has sent its share of bytes, even if
 * each of its reads empties the socket. Connections that send little are not paused. */
static void test_many_senders_have_shares(void **state)
{
    (void)state;
    struct ends senders[SENDERS], e = connect_ends(), quiet = connect_ends();
    const size_t least = srv_turns_limit(e.server);

    for (int i = 0; i < MANY; i++) {
        srv_turns_took(e.server, least, 0, true);
        assert_true(srv_turns_limit(e.server) > 0); /* no other connection sends yet */
    }
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = connect_ends();
        srv_turns_took(senders[i].server, BULK, 0, true);
    }
    say(e);
    for (int i = 0; i < MANY && srv_turns_limit(e.server); i++)
        srv_turns_took(e.server, least, 0, true);
    assert_int_equal(next_edge(), e.server); /* the pause may have ended already */
    assert_true(srv_turns_limit(e.server) > 0);
    for (int i = 0; i < MANY; i++) {
        srv_turns_took(quiet.server, 8, 2, true);
        assert_true(srv_turns_limit(quiet.server) > 0);
    }
    close_ends(e);
    close_ends(quiet);
    for (int i = 0; i < SENDERS; i++)
        close_ends(senders[i]);
}

/* With SO_RCVLOWAT, epoll reports no event for a socket that was reset and has nothing left to
 * read. The pause must end nevertheless. */
static void test_a_pause_in_which_the_peer_resets_ends(void **state)
{
    (void)state;
    struct ends e = connect_ends();
    struct linger reset = {.l_onoff = 1};
    char byte;

    say(e);
    assert_int_equal(read(e.server, &byte, 1), 1);
    srv_turns_held_frames(e.server, MANY);
    setsockopt(e.client, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(e.client);
    assert_int_equal(next_edge(), e.server);
    expect_pause(e.server);
    close(e.server);
}

static void test_sockets_of_other_kinds_are_never_paused(void **state)
{
    (void)state;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    srv_turns_begin(fds[0]);
    srv_turns_held_frames(fds[0], MANY);
    assert_true(srv_turns_limit(fds[0]) > 0);
    srv_turns_held_frames(-1, MANY); /* -1 is not a connection and is ignored */
    close(fds[0]);
    close(fds[1]);
}

static void test_while_loops_are_busy_pauses_end_by_time(void **state)
{
    (void)state;
    struct ends e = connect_ends();

    srv_turns_begin_loop();
    say(e);
    srv_turns_held_frames(e.server, MANY);
    expect_pause(e.server);
    int other = epoll_create1(0); /* an epoll instance that watches no descriptor */
    srv_turns_wait_begins(other);
    srv_turns_held_frames(e.server, MANY);
    expect_pause(e.server);
    srv_turns_wait_ends();
    close(other);
    close_ends(e);
}

static void test_nothing_stays_paused_at_the_end(void **state)
{
    (void)state;
    struct ends e = connect_ends();

    say(e);
    srv_turns_held_frames(e.server, MANY);
    assert_int_equal(srv_turns_limit(e.server), 0);
    srv_turns_stop();
    assert_int_equal(next_edge(), e.server);
    assert_true(srv_turns_limit(e.server) > 0);
    assert_true(srv_turns_start(NULL, false));
    close_ends(e);
}

static void *register_loop(void *arg)
{
    srv_turns_begin_loop();
    return arg;
}

/* Registers an I/O loop that never waits for events, so that it is always busy. */
static int begin_tls(void **state)
{
    pthread_t busy;

    (void)state;
    epoll = epoll_create1(0);
    return srv_turns_start(NULL, true) && pthread_create(&busy, NULL, register_loop, NULL) == 0
               ? pthread_join(busy, NULL)
               : -1;
}

/* While the I/O loop is busy, one handshake at a time may continue, in the order in which the
 * connections requested it. */
static void test_handshakes_wait_for_each_other(void **state)
{
    (void)state;
    struct ends e[3];

    for (int i = 0; i < 3; i++)
        e[i] = connect_ends();
    for (int i = 0; i < 3; i++)
        say(e[i]);
    assert_true(srv_turns_limit(e[0].server) > 0);
    assert_int_equal(srv_turns_limit(e[1].server), 0);
    assert_int_equal(srv_turns_limit(e[2].server), 0);
    struct ends silent = connect_ends();
    assert_true(srv_turns_limit(silent.server) > 0); /* a read that will find no data */
    close_ends(silent);
    srv_turns_handshake(e[0].server, STEP_NS, false);
    assert_int_equal(next_edge(), e[1].server);
    assert_true(srv_turns_limit(e[1].server) > 0);
    srv_turns_handshake(e[1].server, STEP_NS, true);
    assert_int_equal(next_edge(), e[2].server);
    assert_true(srv_turns_limit(e[2].server) > 0);
    /* The second connection's handshake has ended, so its reads are not paused. */
    for (int i = 0; i < MANY; i++)
        assert_true(srv_turns_limit(e[1].server) > 0);
    /* The test never reports the end of the third connection's handshake. The first connection
     * waits for this end, but not forever. */
    expect_pause(e[0].server);
    for (int i = 0; i < 3; i++)
        close_ends(e[i]);
}

static void test_a_handshake_waits_for_time_or_an_idle_loop(void **state)
{
    (void)state;
    struct ends e = connect_ends();
    struct pollfd at = {.fd = epoll, .events = POLLIN};

    say(e);
    assert_true(srv_turns_limit(e.server) > 0);
    srv_turns_handshake(e.server, WAIT_MS * INT64_C(1000000), false);
    assert_int_equal(srv_turns_limit(e.server), 0);
    /* This call to poll does not count as a wait of the I/O loop. */
    assert_int_equal(poll(&at, 1, 200), 0);
    int other = epoll_create1(0); /* an epoll instance that watches no descriptor */
    srv_turns_begin_loop();
    srv_turns_wait_begins(other);
    assert_int_equal(poll(&at, 1, WAIT_MS), 1);
    srv_turns_wait_ends();
    assert_int_equal(next_edge(), e.server);
    assert_true(srv_turns_limit(e.server) > 0);
    close(other);
    close_ends(e);
}

static void test_a_handshake_without_a_peer_ends(void **state)
{
    (void)state;
    struct ends first = connect_ends(), waits = connect_ends(), gone[CROWD];

    say(first);
    assert_true(srv_turns_limit(first.server) > 0);
    /* No time for handshakes is left, so no connection may continue. */
    srv_turns_handshake(first.server, WAIT_MS * INT64_C(1000000), false);
    say(waits);
    assert_int_equal(srv_turns_limit(waits.server), 0);
    for (int i = 0; i < CROWD; i++) {
        gone[i] = connect_ends();
        say(gone[i]);
        assert_int_equal(srv_turns_limit(gone[i].server), 0);
    }
    for (int i = 0; i < CROWD; i++)
        close(gone[i].client);
    for (int i = 0; i < CROWD; i++)
        while (!srv_turns_is_gone(gone[i].server))
            assert_true(next_edge() >= 0);
    assert_int_equal(srv_turns_limit(waits.server), 0);
    assert_false(srv_turns_is_gone(waits.server));
    for (int i = 0; i < CROWD; i++)
        close(gone[i].server);
    close_ends(waits);
    close_ends(first);
}

static void test_a_connection_without_a_peer_does_not_wait_for_its_turn(void **state)
{
    (void)state;
    struct ends e[MANY / 10];
    const int n = MANY / 10;

    srv_turns_begin_loop(); /* this loop is never idle */
    for (int i = 0; i < n; i++) {
        e[i] = connect_ends();
        assert_int_equal(write(e[i].client, "x", 1), 1);
        srv_turns_took(e[i].server, 10, MANY, false);
        assert_int_equal(srv_turns_limit(e[i].server), 0);
    }
    close(e[n - 1].client);
    while (!srv_turns_is_gone(e[n - 1].server))
        assert_true(next_edge() >= 0);
    int n_paused = 0;
    for (int i = 0; i < n - 1; i++)
        n_paused += !srv_turns_limit(e[i].server);
    assert_true(n_paused > 0);
    assert_false(srv_turns_end(e[n - 1].server));
    close(e[n - 1].server);
    for (int i = 0; i < n - 1; i++)
        close_ends(e[i]);
}

/* gRPC core may close a paused connection, and a new connection may get its descriptor. */
static void test_a_new_connection_takes_over_the_pause_of_its_descriptor(void **state)
{
    (void)state;
    struct ends first = connect_ends(), old = connect_ends(), new = connect_ends();

    say(first);
    assert_true(srv_turns_limit(first.server) > 0);
    say(old);
    assert_int_equal(srv_turns_limit(old.server), 0);
    close(old.client);
    /* `old.server` and `new.server` now refer to the same socket, but epoll reports only
     * `new.server`. */
    assert_int_equal(dup2(new.server, old.server), old.server);
    srv_turns_begin(old.server);
    assert_int_equal(write(new.client, "x", 1), 1);
    assert_int_equal(next_edge(), new.server);
    assert_int_equal(srv_turns_limit(old.server), 0);
    srv_turns_handshake(first.server, STEP_NS, true);
    assert_int_equal(next_edge(), new.server);
    assert_true(srv_turns_limit(old.server) > 0);
    close(old.server);
    close_ends(first);
    close_ends(new);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_end_waits_if_many_frames_came, begin, end),
        cmocka_unit_test_setup_teardown(test_many_frames_are_a_turn, begin, end),
        cmocka_unit_test_setup_teardown(test_reads_that_leave_nothing_begin_a_turn, begin, end),
        cmocka_unit_test_setup_teardown(test_frames_make_reads_short, begin, end),
        cmocka_unit_test_setup_teardown(test_encrypted_bytes_are_a_turn_at_first, begin, end),
        cmocka_unit_test_setup_teardown(test_in_a_large_crowd_turns_are_shorter, begin, end),
        cmocka_unit_test_setup_teardown(test_in_a_crowd_bulk_is_a_turn, begin, end),
        cmocka_unit_test_setup_teardown(test_many_senders_have_shares, begin, end),
        cmocka_unit_test_setup_teardown(test_a_pause_in_which_the_peer_resets_ends, begin, end),
        cmocka_unit_test_setup_teardown(test_sockets_of_other_kinds_are_never_paused, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_stays_paused_at_the_end, begin, end),
        cmocka_unit_test_setup_teardown(test_handshakes_wait_for_each_other, begin_tls, end),
        cmocka_unit_test_setup_teardown(test_a_handshake_without_a_peer_ends, begin_tls, end),
        cmocka_unit_test_setup_teardown(
            test_a_new_connection_takes_over_the_pause_of_its_descriptor, begin_tls, end),
        /* These tests come last, because they register their own thread as an I/O loop until the
         * program ends. */
        cmocka_unit_test_setup_teardown(test_a_handshake_waits_for_time_or_an_idle_loop, begin_tls,
                                        end),
        cmocka_unit_test_setup_teardown(test_a_connection_without_a_peer_does_not_wait_for_its_turn,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_while_loops_are_busy_pauses_end_by_time, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
