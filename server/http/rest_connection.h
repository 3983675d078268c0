/*
 * State of a connection: its TLS handshake, its time limits, and the bytes that libmicrohttpd reads
 * from it. The files of the REST transport share this header (rest_loop.h lists them).
 *
 * Owner: the I/O loop. libmicrohttpd notifies it when a connection starts and when it is closed.
 * Threads: only the thread of the I/O loop uses a connection.
 */
#ifndef SRV_REST_CONNECTION_H
#define SRV_REST_CONNECTION_H

#include <microhttpd.h>

#include "server/base/list.h"
#include "server/http/http_stream.h"

struct srv_rest_call;
struct srv_rest_loop;

enum { SRV_REST_IDLE_SECONDS = 75 }; /* maximum time between two requests on a connection */

struct srv_rest_conn {
    struct srv_link link; /* link in one of the loop's lists of connections by deadline */
    struct srv_link turn; /* link in one of the loop's lists of TLS handshakes */
    struct MHD_Connection *mhd;
    /* is_handshake: the TLS handshake has not ended. is_suspended: the handshake waits for an event
     * on its socket. may_handshake: the handshake may continue in the current turn. */
    bool is_handshake, is_suspended, may_handshake;
    /* the server has sent all messages that precede the client's Finished message */
    bool has_sent_flight;
    bool is_page; /* the connection has come to SRV_REST_PAGE */
    bool is_gone; /* the peer has disconnected, so it cannot complete the handshake */
    struct srv_http_stream stream;
    /* output of `stream`; libmicrohttpd has read the first `taken` bytes of this output */
    struct rt_bytes ready;
    size_t taken, drained;
    bool is_reading; /* a request has begun to arrive and has a deadline */
    bool is_over;    /* libmicrohttpd reads no more bytes from this connection */
    /* whether the connection is suspended while rest_refuse.c drops the bytes that arrive */
    bool lingers;
    uint64_t dropped;
    uint64_t n_requests; /* number of requests whose request line libmicrohttpd has read */
    /* link in loop->ended, the list of connections whose peer has closed its side */
    struct srv_link end;
    /* the current request, or NULL; the request is being read, waits for a job, or is being
     * answered */
    struct srv_rest_call *req;
    int fd;
    int64_t deadline_ns;
    /* Time at which the connection began to wait for its peer. This wait begins when the connection
     * is accepted, when a request begins to arrive, when a request ends or is refused, and when the
     * peer closes its side. */
    int64_t since_ns;
    /* number of bytes that the peer had acknowledged at the last check of the response */
    uint64_t acked;
};

/* ---- rest_connections.c ---- */

/* Applies epoll_ctl's operation `op` to the connection's socket. The loop's epoll instance reports
 * when the peer closes its side, and during a handshake also when the socket is readable or
 * writable. While the connection lingers, the epoll instance reports only that the socket is
 * readable. Returns false if epoll_ctl fails. */
bool srv_rest_watch_socket(struct srv_rest_loop *l, struct srv_rest_conn *c, int op);
/* Sets the deadline of a connection that has not received any byte of its first request. */
void srv_rest_expect_request(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* Shortens the deadlines of connections with incomplete requests, when the I/O loop begins to
 * close. */
void srv_rest_shorten_deadlines(struct srv_rest_loop *l);
/* Sets the deadline for receiving a request whose first bytes have arrived. */
void srv_rest_begin_reading(struct srv_rest_loop *l, struct srv_rest_conn *c);

void srv_rest_on_connection(void *arg, struct MHD_Connection *mhd, void **context,
                            enum MHD_ConnectionNotificationCode what);
/* Ends the request of a connection, and releases its reference to the call. */
void srv_rest_complete(struct srv_rest_call *req);
/* Ends a connection by shutting down its socket, because libmicrohttpd has no function for this. */
void srv_rest_hang_up(struct srv_rest_conn *c);
/* Ends all lingering connections, before the daemon stops. */
void srv_rest_end_lingering(struct srv_rest_loop *l);
/* Keeps a connection open for a limited time after a refusal was sent, and drops the bytes that
 * arrive. */
void srv_rest_begin_lingering(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* Ends all idle connections that have received no byte of another request. */
void srv_rest_hang_up_idle(struct srv_rest_loop *l);
/* Ends the connections in `list` whose deadline has passed. */
void srv_rest_expire(struct srv_rest_loop *l, struct srv_link *list, int64_t now);
/* Requires the peer to read the response at a minimum rate. Called when sending begins. */
void srv_rest_begin_sending(struct srv_rest_loop *l, struct srv_rest_conn *c, bool is_large);
/* Ends connections whose peer reads a response too slowly. Called once per turn of the I/O loop. */
void srv_rest_watch_sending(struct srv_rest_loop *l, int64_t now);
/* Called once per turn of the I/O loop. srv_rest_end_connections ends connections whose peer has
 * closed its side. srv_rest_watch cancels the jobs of such connections after WATCH_AFTER_MS
 * milliseconds. */
void srv_rest_end_connections(struct srv_rest_loop *l);
void srv_rest_watch(struct srv_rest_loop *l, int64_t now);
void srv_rest_cancel_if_ended(struct srv_rest_call *req);
/* Reduces *until to the time of the next check of a list, if that time is earlier. */
void srv_rest_next_look(const struct srv_rest_loop *l, int64_t *until, int64_t now);

/* ---- rest_handshake.c ---- */

void srv_rest_begin_handshake(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* The srv_handshake_hook_fn of the I/O loops' daemons. */
int srv_rest_handshake(int fd, void *session);
/* Suspends all unfinished handshakes. Called after the daemon has run. */
void srv_rest_suspend_handshakes(struct srv_rest_loop *l);
/* Makes a suspended handshake ready to run after an event on its socket. Does nothing if the
 * handshake does not wait for an event. */
void srv_rest_expect_handshake(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* Resumes handshakes whose sockets have reported events. All handshakes whose peers have
 * disconnected are resumed, and fail. At most one other handshake is resumed, if the current turn
 * has time left for handshakes. Called before the daemon runs. */
void srv_rest_resume_handshakes(struct srv_rest_loop *l);
/* Resumes all suspended handshakes. Called before the daemon is stopped. */
void srv_rest_resume_all_handshakes(struct srv_rest_loop *l);

/* ---- rest_refuse.c ---- */

/* Drops the bytes that have arrived on a lingering connection. Ends the connection if the peer has
 * closed its side or too many bytes were dropped. */
void srv_rest_linger(struct srv_rest_loop *l, struct srv_rest_conn *c);

/* ---- rest_wire.c ---- */

/* Allocates the read buffers of an I/O loop. Returns false if memory runs out. */
bool srv_rest_wire_init(struct srv_rest_loop *l);
void srv_rest_wire_clear(struct srv_rest_loop *l);
/* Adds a new connection. srv_rest_wire_remove removes it. Returns false if memory runs out. */
bool srv_rest_wire_add(struct srv_rest_loop *l, struct srv_rest_conn *c);
void srv_rest_wire_remove(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* Makes GnuTLS read from the socket through rest_wire.c. `session` is the gnutls_session_t of a new
 * connection. */
void srv_rest_wire_add_session(void *session);
/* The srv_recv_hook_fn of the I/O loops' daemons. */
ssize_t srv_rest_read(int fd, void *session, void *p, size_t n);

#endif
