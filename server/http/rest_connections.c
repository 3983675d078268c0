#include "server/http/rest_call.h"
#include "server/http/rest_connection.h"
#include "server/http/rest_loop.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "runtime/base/log.h"
#include "server/metrics/metrics.h"
#include "server/base/sockets.h"

_Thread_local struct srv_rest_loop *srv_rest_this_loop;

enum {
    /* time in milliseconds for which an idle connection stays open after its peer has closed its
     * side */
    LINGER_MS = 100,
    /* time in milliseconds after which a disconnected client's job is cancelled */
    WATCH_AFTER_MS = 20,
    /* minimum number of bytes of a response that the peer must read per
     * --request_read_timeout_ms */
    LEAST_TAKEN = 64 << 10,
    /* maximum number of unsent bytes of a large response that the kernel may hold */
    MAX_UNSENT = 128 << 10,
    /* During a drain, an incomplete request must arrive within this time in milliseconds. gRPC has
     * the same limit. */
    DRAIN_GRACE_MS = 2000,
    /* maximum time in milliseconds for which a connection lingers after its request was refused */
    LINGER_REFUSED_MS = 10000,
};

/* Returns the deadline for receiving a request that begins to arrive now. */
static int64_t reading_deadline(const struct srv_rest_loop *l)
{
    int64_t ms = l->io_loop.server->options.request_read_timeout_ms;

    if (l->closing && ms > DRAIN_GRACE_MS)
        ms = DRAIN_GRACE_MS;
    return l->now_ns + ms * 1000000;
}

bool srv_rest_watch_socket(struct srv_rest_loop *l, struct srv_rest_conn *c, int op)
{
    uint32_t events = EPOLLRDHUP | EPOLLET | (c->is_handshake ? EPOLLIN | EPOLLOUT : 0);
    if (c->lingers)
        /* The event is level-triggered, because dropping a connection's bytes may take several
         * turns. */
        events = EPOLLIN;
    struct epoll_event ev = {.events = events, .data.ptr = c};

    return epoll_ctl(l->epoll, op, c->fd, &ev) == 0;
}

void srv_rest_expect_request(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    c->since_ns = l->now_ns;
    c->deadline_ns = reading_deadline(l);
    srv_list_append(&l->fresh, &c->link);
}

void srv_rest_complete(struct srv_rest_call *req)
{
    struct srv_rest_loop *l = req->loop;
    struct srv_rest_conn *c = req->conn;
    c->req = NULL;
    c->since_ns = l->now_ns;
    c->deadline_ns = l->now_ns + SRV_REST_IDLE_SECONDS * INT64_C(1000000000);
    srv_list_append(&l->idle, &c->link);
    c->is_reading = false;
    /* The next request has already begun to arrive. */
    if (srv_http_stream_is_inside(&c->stream))
        srv_rest_begin_reading(l, c);
    atomic_fetch_sub_explicit(&l->io_loop.server->rest_requests, 1, memory_order_relaxed);
    if (req->pub.job.version) /* the request has ended without a response */
        srv_release(&l->io_loop, req->pub.job.version);
    req->pub.job.version = NULL;
    srv_rest_unref(req);
}

static void begin_tls(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    if (info) {
        srv_rest_wire_add_session(info->tls_session);
        if (l->rest->tls.client_ca)
            srv_rest_tls_request_client_cert(info->tls_session);
    } else {
        shutdown(c->fd, SHUT_RDWR);
    }
    srv_rest_begin_handshake(l, c);
}

void srv_rest_on_connection(void *arg, struct MHD_Connection *mhd, void **context,
                            enum MHD_ConnectionNotificationCode what)
{
    struct srv_rest_loop *l = arg;
    struct srv_rest_conn *c = *context;
    int one = what == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1;
    l->n_open += one;
    atomic_fetch_add_explicit(&l->rest->n_open, one, memory_order_relaxed);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        c = calloc(1, sizeof *c);
        if (c) {
            c->fd = info->connect_fd;
            c->mhd = mhd;
            c->is_page = srv_rest_is_page(l, c->fd);
        }
        if (!c || !srv_rest_wire_add(l, c)) {
            /* refuses the connection, which would have no time limit without a srv_rest_conn */
            shutdown(info->connect_fd, SHUT_RDWR);
            free(c);
            return;
        }
        if (l->rest->tls.cert)
            begin_tls(l, c);
        else
            srv_rest_expect_request(l, c);
        if (!srv_rest_watch_socket(l, c, EPOLL_CTL_ADD)) {
            /* ends the connection, because without events a suspended handshake would never be
             * resumed */
            srv_list_remove(&c->turn);
            c->is_gone = true;
            shutdown(c->fd, SHUT_RDWR);
        }
        *context = c;
    } else if (c) {
        /* An epoll instance reports events of a closed descriptor while the open file is in use
         * elsewhere, for example by a system call on another thread or in a forked process. */
        epoll_ctl(l->epoll, EPOLL_CTL_DEL, c->fd, NULL);
        /* libmicrohttpd adds the socket of a resumed connection to its epoll instance again if the
         * socket is not ready. If this fails, libmicrohttpd closes the connection and does not
         * report that the request has ended. */
        if (c->req)
            srv_rest_complete(c->req);
        srv_list_remove(&c->link);
        srv_list_remove(&c->turn);
        srv_list_remove(&c->end);
        srv_rest_wire_remove(l, c);
        free(c);
        *context = NULL;
    }
}

void srv_rest_begin_reading(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    if (c->is_reading)
        return;
    c->is_reading = true;
    c->since_ns = l->now_ns;
    c->deadline_ns = reading_deadline(l);
    srv_list_append(&l->reading, &c->link);
}

static void shorten_deadlines(struct srv_rest_loop *l, struct srv_link *list)
{
    int64_t most = reading_deadline(l);

    for (struct srv_link *at = list->next; at != list; at = at->next) {
        struct srv_rest_conn *c = (struct srv_rest_conn *)(void *)at;
        if (c->deadline_ns > most)
            c->deadline_ns = most;
    }
}

void srv_rest_shorten_deadlines(struct srv_rest_loop *l)
{
    shorten_deadlines(l, &l->fresh);
    shorten_deadlines(l, &l->reading);
    shorten_deadlines(l, &l->lingering);
}

/* libmicrohttpd cannot end a connection on request. Shutting down the socket makes libmicrohttpd
 * read the end of the stream. */
void srv_rest_hang_up(struct srv_rest_conn *c)
{
    srv_list_remove(&c->link);
    shutdown(c->fd, SHUT_RDWR);
    if (!c->lingers)
        return;
    c->lingers = false;
    srv_rest_this_loop->again = true;
    MHD_resume_connection(c->mhd);
}

void srv_rest_begin_lingering(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    int64_t ms = l->io_loop.server->options.request_read_timeout_ms;

    c->lingers = true;
    c->since_ns = l->now_ns;
    srv_list_remove(&c->end);
    MHD_suspend_connection(c->mhd);
    if (l->closing && ms > DRAIN_GRACE_MS)
        ms = DRAIN_GRACE_MS;
    c->deadline_ns = l->now_ns + (ms < LINGER_REFUSED_MS ? ms : LINGER_REFUSED_MS) * 1000000;
    srv_list_append(&l->lingering, &c->link);
    if (!srv_rest_watch_socket(l, c, EPOLL_CTL_MOD))
        srv_rest_hang_up(c);
}

void srv_rest_end_lingering(struct srv_rest_loop *l)
{
    while (l->lingering.next != &l->lingering)
        srv_rest_hang_up((struct srv_rest_conn *)(void *)l->lingering.next);
}

void srv_rest_hang_up_idle(struct srv_rest_loop *l)
{
    for (struct srv_link *at = l->idle.next, *next; at != &l->idle; at = next) {
        struct srv_rest_conn *c = (struct srv_rest_conn *)(void *)at;
        char byte;
        next = at->next;
        /* unread bytes are the beginning of another request */
        if (recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
            srv_rest_hang_up(c);
    }
}

void srv_rest_expire(struct srv_rest_loop *l, struct srv_link *list, int64_t now)
{
    struct srv_metrics *metrics = l->io_loop.server->metrics;
    int n_drained = 0;

    while (list->next != list) {
        struct srv_rest_conn *c = (struct srv_rest_conn *)(void *)list->next;
        if (c->deadline_ns > now)
            break;
        if (c->is_handshake)
            srv_metrics_event(metrics, "slow_handshake_cut_off");
        else if (c->lingers)
            srv_metrics_event(metrics, "refused_body_cut_off");
        else if (c->is_reading)
            srv_metrics_event(metrics,
                              l->closing ? "drain_request_cut_off" : "slow_request_cut_off");
        n_drained += c->is_reading && !c->lingers && l->closing;
        srv_rest_hang_up(c);
    }
    if (n_drained)
        RT_LOG(RT_LOG_WARNING,
               "REST: %d requests that did not arrive whole were cut off: the server ends",
               n_drained);
}

/*
 * Ends connections whose peer has closed its side. libmicrohttpd does not notice the closed side
 * while a request waits for its job, or if the end of the stream arrived together with the last
 * bytes. An incomplete request is dropped, because the rest of the request cannot arrive. A request
 * that waits for a job is cancelled only after WATCH_AFTER_MS, because a client that has closed
 * only its sending side may still read the response.
 */
void srv_rest_end_connections(struct srv_rest_loop *l)
{
    for (struct srv_link *at = l->ended.next, *next; at != &l->ended; at = next) {
        struct srv_rest_conn *c =
            (struct srv_rest_conn *)(void *)((char *)at - offsetof(struct srv_rest_conn, end));
        char byte;
        next = at->next;
        if (c->req && (c->req->stage == STAGE_DEFERRED || c->req->stage == STAGE_WAITING ||
                       c->req->stage == STAGE_SENT))
            continue;
        if (!c->req && l->now_ns - c->since_ns < LINGER_MS * 1000000)
            continue; /* libmicrohttpd's buffer may contain more requests */
        if (recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
            continue; /* libmicrohttpd must read the received bytes before the connection ends */
        srv_list_remove(&c->end);
        srv_rest_hang_up(c);
    }
}

void srv_rest_cancel_if_ended(struct srv_rest_call *req)
{
    if (req->conn->end.next)
        atomic_store(&req->pub.job.cancelled, true);
}

static void cancel_each(struct srv_link *list)
{
    for (struct srv_link *at = list->next; at != list; at = at->next)
        /* `link` is the first member of struct srv_rest_call */
        atomic_store(&((struct srv_rest_call *)(void *)at)->pub.job.cancelled, true);
}

void srv_rest_watch(struct srv_rest_loop *l, int64_t now)
{
    if (atomic_load_explicit(&l->rest->cancels, memory_order_relaxed)) {
        cancel_each(&l->waiting);
        cancel_each(&l->overdue);
    }
    while (l->waiting.next != &l->waiting) {
        struct srv_rest_call *req = (struct srv_rest_call *)(void *)l->waiting.next;
        if (now - req->waiting_since < WATCH_AFTER_MS * 1000000)
            break;
        srv_list_append(&l->overdue, &req->link);
        req->overdue = true;
        srv_rest_cancel_if_ended(req);
    }
}

static uint64_t acked_of(const struct srv_rest_conn *c)
{
    uint64_t bytes = 0;

    /* srv_socket_acked succeeds for every TCP socket */
    return srv_socket_acked(c->fd, &bytes) ? bytes : 0;
}

static void expect_progress(struct srv_rest_loop *l, struct srv_rest_conn *c, uint64_t acked)
{
    c->acked = acked;
    c->deadline_ns = l->now_ns + l->io_loop.server->options.request_read_timeout_ms * 1000000;
    srv_list_append(&l->sending, &c->link);
}

/* Begins to check how fast the peer reads a response. For a small response, the number of
 * acknowledged bytes is not read at the beginning, to save a system call. A stalled peer is then
 * detected up to one period later. */
void srv_rest_begin_sending(struct srv_rest_loop *l, struct srv_rest_conn *c, bool is_large)
{
    if (is_large) {
        srv_socket_limit_unsent(c->fd, MAX_UNSENT);
        expect_progress(l, c, acked_of(c));
    } else if (!c->link.next) { /* a connection in a list keeps its deadline for reading */
        expect_progress(l, c, 0);
    }
}

void srv_rest_watch_sending(struct srv_rest_loop *l, int64_t now)
{
    while (l->sending.next != &l->sending) {
        struct srv_rest_conn *c = (struct srv_rest_conn *)(void *)l->sending.next;
        if (c->deadline_ns > now)
            break;
        uint64_t before = c->acked;
        /* expect_progress moves the connection to the end of the list */
        expect_progress(l, c, acked_of(c));
        if (c->acked - before < LEAST_TAKEN) {
            srv_metrics_event(l->io_loop.server->metrics, "slow_answer_cut_off");
            srv_rest_hang_up(c);
        }
    }
}

static void sooner(int64_t *until, int64_t at)
{
    if (at < *until)
        *until = at;
}

void srv_rest_next_look(const struct srv_rest_loop *l, int64_t *until, int64_t now)
{
    if (l->handshakes.next != &l->handshakes)
        sooner(until, ((struct srv_rest_conn *)(void *)l->handshakes.next)->deadline_ns);
    if (l->fresh.next != &l->fresh)
        sooner(until, ((struct srv_rest_conn *)(void *)l->fresh.next)->deadline_ns);
    if (l->reading.next != &l->reading)
        sooner(until, ((struct srv_rest_conn *)(void *)l->reading.next)->deadline_ns);
    if (l->idle.next != &l->idle)
        sooner(until, ((struct srv_rest_conn *)(void *)l->idle.next)->deadline_ns);
    if (l->sending.next != &l->sending)
        sooner(until, ((struct srv_rest_conn *)(void *)l->sending.next)->deadline_ns);
    if (l->lingering.next != &l->lingering)
        sooner(until, ((struct srv_rest_conn *)(void *)l->lingering.next)->deadline_ns);
    if (l->ended.next != &l->ended)
        sooner(until, now + LINGER_MS * 1000000);
    sooner(until, srv_rest_accept_look(l, now));
    if (l->waiting.next != &l->waiting)
        sooner(until, ((struct srv_rest_call *)(void *)l->waiting.next)->waiting_since +
                          WATCH_AFTER_MS * 1000000);
}
