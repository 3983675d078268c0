/*
 * A connection: its TLS handshake, its time limits, what libmicrohttpd reads from it, and how it
 * ends. The files of the REST transport share this header (rest_loop.h lists them).
 *
 * Owner: the I/O loop, from libmicrohttpd's notification that it begins to the one that it ends.
 * Threads: the loop's.
 */
#ifndef SRV_REST_CONNECTION_H
#define SRV_REST_CONNECTION_H

#include <microhttpd.h>

#include "server/base/list.h"
#include "server/http/http_stream.h"

struct srv_rest_call;
struct srv_rest_loop;

enum {
    SRV_REST_IDLE_SECONDS = 75, /* the longest time between two requests of a connection */
    /* TLS handshakes run per turn, and TLS connections accepted per turn */
    SRV_REST_HANDSHAKES = 2,
};

struct srv_rest_conn {
    struct srv_link link; /* link in one of the loop's lists by deadline */
    struct srv_link turn; /* link in one of the loop's handshakes_... lists */
    struct MHD_Connection *mhd;
    /* the connection is in a TLS handshake; it waits for its socket */
    bool is_handshake, is_suspended;
    struct srv_http_stream stream;
    struct rt_bytes ready; /* output of the stream, of which `taken` bytes were read */
    size_t taken, drained;
    bool is_reading;     /* a request has begun to arrive and has a deadline */
    bool is_over;        /* nothing more is read from it */
    bool lingers;        /* over and suspended: rest_refuse.c drops what arrives */
    uint64_t dropped;    /* bytes dropped while it lingers */
    uint64_t n_requests; /* requests that libmicrohttpd has found */
    struct srv_link end; /* link in loop->ended, once the peer has closed its side */
    /* the request that is being read, waits or is answered; NULL: none */
    struct srv_rest_call *req;
    int fd;
    int64_t deadline_ns;
    int64_t quiet_ns; /* time of the last event: the end of a request, or of the peer's side */
    uint64_t acked;   /* bytes that the peer had taken at the last check of its response */
};

/* ---- rest_connections.c ---- */

/* Applies epoll_ctl's `op` to the loop's epoll. The epoll reports the peer's end; during a
 * handshake also readiness to read and write; while the connection lingers only readiness to read.
 * False: epoll_ctl failed for lack of memory. */
bool srv_rest_watch_socket(struct srv_rest_loop *l, struct srv_rest_conn *c, int op);
/* A connection on which no byte of the first request has arrived. */
void srv_rest_expect_request(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* The I/O loop begins to close: shortens the deadlines of requests that have not arrived whole. */
void srv_rest_hurry_reading(struct srv_rest_loop *l);
/* The first bytes of a request have arrived: the rest must arrive by a deadline. */
void srv_rest_begin_reading(struct srv_rest_loop *l, struct srv_rest_conn *c);

void srv_rest_on_connection(void *arg, struct MHD_Connection *mhd, void **context,
                            enum MHD_ConnectionNotificationCode what);
/* Ends a connection by shutting down its socket, because libmicrohttpd has no call for it. */
void srv_rest_hang_up(struct srv_rest_conn *c);
/* Before the daemon is stopped: ends all connections that linger. */
void srv_rest_end_lingering(struct srv_rest_loop *l);
/* A refusal was sent: the connection lingers for a while. */
void srv_rest_begin_lingering(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* Ends all connections between two requests of which nothing more has arrived. */
void srv_rest_hang_up_idle(struct srv_rest_loop *l);
/* Ends the connections of `list` whose deadline has passed. */
void srv_rest_expire(struct srv_rest_loop *l, struct srv_link *list, int64_t now);
/* A response begins to be sent: from now on the peer must take it at a minimum rate. */
void srv_rest_begin_sending(struct srv_rest_loop *l, struct srv_rest_conn *c, bool is_large);
/* Once a turn: ends connections whose peer takes a response too slowly. */
void srv_rest_watch_sending(struct srv_rest_loop *l, int64_t now);
/* Once a turn: the first function ends connections whose peer has closed its side, the second
 * cancels jobs of such connections after a while. */
void srv_rest_end_connections(struct srv_rest_loop *l);
void srv_rest_watch(struct srv_rest_loop *l, int64_t now);
void srv_rest_cancel_if_ended(struct srv_rest_call *req);
/* Moves *until to the time at which a list must be checked next, if that is earlier. */
void srv_rest_next_look(const struct srv_rest_loop *l, int64_t *until, int64_t now);

/* ---- rest_handshake.c ---- */

/* A new connection starts a handshake, which ends when the first record is read. */
void srv_rest_begin_handshake(struct srv_rest_loop *l, struct srv_rest_conn *c);
void srv_rest_end_handshake(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* After the daemon has run: suspends all unfinished handshakes. */
void srv_rest_suspend_handshakes(struct srv_rest_loop *l);
/* The socket has reported an event. Does nothing unless the connection waits for one. */
void srv_rest_expect_handshake(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* Before the daemon runs: resumes SRV_REST_HANDSHAKES of the handshakes with an event. */
void srv_rest_resume_handshakes(struct srv_rest_loop *l);
/* Before the daemon is stopped: resumes all suspended handshakes. */
void srv_rest_resume_all_handshakes(struct srv_rest_loop *l);

/* ---- rest_refuse.c ---- */

/* Bytes, or the peer's end, have arrived on a connection that lingers. */
void srv_rest_linger(struct srv_rest_loop *l, struct srv_rest_conn *c);

/* ---- rest_wire.c ---- */

/* Once per I/O loop. False: out of memory. */
bool srv_rest_wire_init(struct srv_rest_loop *l);
void srv_rest_wire_clear(struct srv_rest_loop *l);
/* A new connection. False: out of memory. srv_rest_wire_remove ends it. */
bool srv_rest_wire_add(struct srv_rest_loop *l, struct srv_rest_conn *c);
void srv_rest_wire_remove(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* A srv_recv_hook_fn: how the daemon of an I/O loop reads. */
ssize_t srv_rest_read(int fd, void *session, void *p, size_t n);

#endif
