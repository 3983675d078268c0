/*
 * TLS handshakes. libmicrohttpd (0.9.75) considers a connection ready while its handshake waits for
 * the peer, and asks to be run again immediately. One byte from a client could therefore keep a
 * core busy. For this reason, a connection is suspended if its handshake has not ended after a run
 * of libmicrohttpd. It is resumed after an event on its socket.
 *
 * Signing with an RSA key takes one to six milliseconds, during which the I/O loop serves no other
 * connection. So at most one handshake continues in each turn of the I/O loop. If the loop has
 * other work, a handshake continues only while handshakes have taken less than half of the thread's
 * time. A handshake whose peer has disconnected is ended without further computation.
 */
#include <gnutls/gnutls.h>
#include <poll.h>
#include <sys/epoll.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "server/base/log_limit.h"
#include "server/http/recv_hook.h"
#include "server/http/rest_connection.h"
#include "server/http/rest_loop.h"
#include "server/metrics/metrics.h"

enum {
    /* time limit in milliseconds for a TLS handshake, the same as in
     * server/grpc/grpc_arguments.c */
    HANDSHAKE_MS = 10000,
    /* While an I/O loop is busy, handshakes take at most `1 / SHARE` of its time. Unused time
     * accumulates up to SAVED_NS nanoseconds. */
    SHARE = 2,
    SAVED_NS = 20000000,
    /* Maximum number of handshakes resumed per turn. At most one continues. The others fail,
     * because their peers have disconnected. */
    MAX_RESUMED = 16,
};

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

static void end_handshake(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    c->is_handshake = false;
    srv_list_remove(&c->turn);
    /* If epoll_ctl fails, the epoll instance only reports unnecessary events. */
    (void)srv_rest_watch_socket(l, c, EPOLL_CTL_MOD);
    srv_rest_expect_request(l, c);
}

/* ---- steps ---- */

/* Returns which of the given `events` and which error events the socket reports now, as the bits of
 * poll's `revents`. */
static short state_of_socket(const struct srv_rest_conn *c, short events)
{
    struct pollfd now = {.fd = c->fd, .events = events};

    return poll(&now, 1, 0) == 1 ? now.revents : 0;
}

/* Returns whether the peer can no longer complete the handshake. The peer has then closed the
 * connection, or has closed its sending side before the server sent all messages that precede the
 * client's Finished message. */
static bool is_gone(const struct srv_rest_conn *c)
{
    const short is = state_of_socket(c, POLLRDHUP);

    return is & (POLLERR | POLLHUP) || (is && !c->has_sent_flight);
}

/* Adds to handshake_ns the handshakes' share of the time since the last call of this function.
 * Returns whether a handshake may continue in the current turn. */
static bool has_time(struct srv_rest_loop *l)
{
    l->handshake_ns += (l->now_ns - l->handshake_filled_ns) / SHARE;
    if (l->handshake_ns > SAVED_NS)
        l->handshake_ns = SAVED_NS;
    l->handshake_filled_ns = l->now_ns;
    return !l->is_busy || l->handshake_ns > 0;
}

/* Returns whether the server has sent all handshake messages that precede the client's Finished
 * message. The last one is the server's own Finished in TLS 1.3, and ServerHelloDone in TLS 1.2. */
static bool has_sent_flight(gnutls_session_t session)
{
    gnutls_handshake_description_t last = gnutls_handshake_get_last_out(session);

    return last == GNUTLS_HANDSHAKE_FINISHED || last == GNUTLS_HANDSHAKE_SERVER_HELLO_DONE;
}

/* Reports a failed handshake to the client by an alert, and in the log. libmicrohttpd only closes
 * the connection. A client that only disconnects is not logged, because load balancers probe ports
 * in this way. */
static void report_failure(const struct srv_rest_loop *l, gnutls_session_t session, int status)
{
    static struct srv_log_limit limit;

    if (status == GNUTLS_E_PREMATURE_TERMINATION || status == GNUTLS_E_PULL_ERROR ||
        status == GNUTLS_E_PUSH_ERROR)
        return;
    if (has_sent_flight(session)) /* A client that does not speak TLS cannot read an alert. */
        gnutls_alert_send_appropriate(session, status);
    srv_metrics_event(l->io_loop.server->metrics, "rest_handshake_failed");
    if (srv_log_admits(&limit, "REST"))
        RT_LOG(RT_LOG_WARNING, "REST: a TLS handshake failed: %s", gnutls_strerror(status));
}

int srv_rest_handshake(int fd, void *session)
{
    struct srv_rest_loop *l = srv_rest_this_loop;
    struct srv_rest_conn *c = fd >= 0 && fd < l->n_conns ? l->conns[fd] : NULL;

    if (!c || c->is_gone)
        return GNUTLS_E_PREMATURE_TERMINATION;
    if (!c->may_handshake) /* the handshake of a new connection begins in a later turn */
        return GNUTLS_E_AGAIN;
    l->n_small_reads = 0;
    int64_t begun_ns = rt_now_ns();
    int status = srv_handshake_unhooked(fd, session);
    int64_t took_ns = rt_now_ns() - begun_ns;
    l->handshake_ns -= took_ns;
    /* Handshakes may exceed their share of the time while the loop has no other work. The excess is
     * limited to the duration of the last handshake step. */
    if (l->handshake_ns < -took_ns)
        l->handshake_ns = -took_ns;
    c->has_sent_flight = has_sent_flight(session);
    if (status == GNUTLS_E_SUCCESS && c->is_handshake)
        end_handshake(l, c);
    else if (status < 0 && gnutls_error_is_fatal(status))
        report_failure(l, session, status);
    return status;
}

/* ---- turns ---- */

/* Returns whether the socket has unread bytes. A handshake message may span several TLS records.
 * GnuTLS returns after each record, and the socket reports no new event for a record that has
 * already arrived. */
static bool is_readable(const struct srv_rest_conn *c)
{
    return state_of_socket(c, POLLIN) != 0;
}

void srv_rest_suspend_handshakes(struct srv_rest_loop *l)
{
    while (l->handshakes_resumed.next != &l->handshakes_resumed) {
        struct srv_rest_conn *c = conn_of(l->handshakes_resumed.next);
        c->is_suspended = !is_readable(c);
        c->may_handshake = false;
        l->again |= !c->is_suspended;
        srv_list_append(c->is_suspended ? &l->handshakes_suspended : &l->handshakes_ready,
                        &c->turn);
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
    bool may = has_time(l);

    for (int i = 0; i < MAX_RESUMED && l->handshakes_ready.next != &l->handshakes_ready; i++) {
        struct srv_rest_conn *c = conn_of(l->handshakes_ready.next);
        c->is_gone = is_gone(c);
        if (!c->is_gone && !may)
            break;
        c->may_handshake = true;
        may &= c->is_gone;
        resume(l, c);
    }
    l->again |= l->handshakes_ready.next != &l->handshakes_ready;
}

void srv_rest_resume_all_handshakes(struct srv_rest_loop *l)
{
    while (l->handshakes_ready.next != &l->handshakes_ready)
        resume(l, conn_of(l->handshakes_ready.next));
    while (l->handshakes_suspended.next != &l->handshakes_suspended)
        resume(l, conn_of(l->handshakes_suspended.next));
}
