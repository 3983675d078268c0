/*
 * TLS handshakes. libmicrohttpd (0.9.75) keeps a connection whose handshake waits for the peer in
 * its list of ready connections, and therefore asks to run again immediately, so that one byte from
 * a client would keep a core busy. So a connection is suspended after each turn in which its
 * handshake did not end, and resumed when its socket reports an event. A handshake has ended when
 * libmicrohttpd reads the session's first record.
 *
 * A turn runs few handshakes, because signing with an RSA key takes one to three milliseconds,
 * during which the I/O loop serves no other connection.
 */
#include <sys/epoll.h>

#include "server/http/rest_connection.h"
#include "server/http/rest_loop.h"

/* time limit for a TLS handshake, the same as in server/grpc/grpc_arguments.c */
enum { HANDSHAKE_MS = 10000 };

static struct srv_rest_conn *conn_of(struct srv_link *turn)
{
    return (struct srv_rest_conn *)(void *)((char *)turn - offsetof(struct srv_rest_conn, turn));
}

void srv_rest_begin_handshake(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    int64_t ms = l->io_loop.server->options.request_read_timeout_ms;

    c->is_handshake = true;
    c->since_ns = l->now_ns;
    c->deadline_ns = l->now_ns + (ms < HANDSHAKE_MS ? ms : HANDSHAKE_MS) * 1000000;
    srv_list_append(&l->handshakes, &c->link);
    srv_list_append(&l->handshakes_resumed, &c->turn);
}

void srv_rest_end_handshake(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    c->is_handshake = false;
    srv_list_remove(&c->turn);
    /* if epoll_ctl fails, the socket only reports extra events */
    (void)srv_rest_watch_socket(l, c, EPOLL_CTL_MOD);
    srv_rest_expect_request(l, c);
}

void srv_rest_suspend_handshakes(struct srv_rest_loop *l)
{
    while (l->handshakes_resumed.next != &l->handshakes_resumed) {
        struct srv_rest_conn *c = conn_of(l->handshakes_resumed.next);
        srv_list_append(&l->handshakes_suspended, &c->turn);
        c->is_suspended = true;
        MHD_suspend_connection(c->mhd);
    }
}

static void resume(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    srv_list_append(&l->handshakes_resumed, &c->turn);
    MHD_resume_connection(c->mhd);
}

void srv_rest_expect_handshake(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    if (!c->is_suspended)
        return;
    c->is_suspended = false;
    srv_list_append(&l->handshakes_ready, &c->turn);
}

void srv_rest_resume_handshakes(struct srv_rest_loop *l)
{
    for (int left = SRV_REST_HANDSHAKES; l->handshakes_ready.next != &l->handshakes_ready; left--) {
        if (left == 0) {
            l->again = true;
            return;
        }
        resume(l, conn_of(l->handshakes_ready.next));
    }
}

void srv_rest_resume_all_handshakes(struct srv_rest_loop *l)
{
    while (l->handshakes_ready.next != &l->handshakes_ready)
        resume(l, conn_of(l->handshakes_ready.next));
    while (l->handshakes_suspended.next != &l->handshakes_suspended)
        resume(l, conn_of(l->handshakes_suspended.next));
}
