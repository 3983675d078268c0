/*
 * Shared by the files of the REST transport, and included by nothing else. Only these files use
 * libmicrohttpd.
 *
 * | file               | does                                                               |
 * |--------------------|--------------------------------------------------------------------|
 * | rest.c             | the I/O loops and their daemons; start and stop                    |
 * | rest_listen.c      | listening sockets                                                  |
 * | rest_accept.c      | accepting connections, and when not to                             |
 * | rest_tls.c         | keys and certificates                                              |
 * | rest_handshake.c   | TLS handshakes: their time limit, when they run                    |
 * | rest_wire.c        | what libmicrohttpd reads                                           |
 * | rest_connections.c | connections: time limits, peers that close their side              |
 * | rest_refuse.c      | bodies refused before they are whole                               |
 * | rest_read.c        | a request's headers and body, and refusals of them                 |
 * | rest_gzip.c        | compressed bodies                                                  |
 * | rest_handler.c     | a request from its first line to its end                           |
 * | rest_routes.c      | the handler of each route                                          |
 * | rest_response.c    | responses: headers, sending, the access log                        |
 *
 * Threads: everything here belongs to the thread of the I/O loop, except the loop's mailbox and
 * `wake_fd`.
 */
#ifndef SRV_REST_INTERNAL_H
#define SRV_REST_INTERNAL_H

#include <microhttpd.h>

#include "runtime/base/thread.h"
#include "server/http/http_stream.h"
#include "server/base/list.h"
#include "server/http/rest.h"
#include "server/http/rest_request.h"
#include "server/http/rest_tls.h"

enum {
    SRV_REST_IDLE_SECONDS = 75,         /* the longest time between two requests of a connection */
    SRV_REST_MAX_IDLE_BYTES = 64 << 10, /* buffers of a finished request kept for the next one */
    SRV_REST_SWALLOW_BYTES = 1 << 20,   /* bytes of a refused body read to keep the connection */
    SRV_REST_HANDSHAKES = 2,            /* run per turn; TLS connections accepted per turn */
};

/* ---- structures ---- */

enum srv_rest_stage {
    STAGE_NEW,     /* the handler was not called yet */
    STAGE_READING, /* reads the body */
    STAGE_REFUSED, /* refused: the rest of the body is read before the response is sent */
    STAGE_WAITING, /* suspended, waits for a job */
    STAGE_SENT,    /* libmicrohttpd has the response */
    STAGE_OVER,    /* refused before the body was whole; the response was sent or failed */
};

struct srv_rest_loop;
struct srv_rest_conn;

struct srv_rest_call {
    struct srv_link link; /* in loop->waiting or loop->overdue */
    struct srv_rest_request pub;
    struct srv_message message;
    struct srv_rest_loop *loop;
    struct srv_rest_conn *conn;
    struct MHD_Connection *mhd;
    struct srv_rest_call *next_free;
    int refs; /* libmicrohttpd's request, and its response while it uses `pub.out` */
    enum srv_rest_stage stage;
    bool in_handler, finished, overdue;
    bool close, browser, expects;
    int64_t waiting_since;
    uint64_t swallowed;
    bool accepts_gzip, deflated; /* the client accepts gzip; the response is compressed */
    bool sends_id;     /* the response has X-Request-Id: by request, or for the access log */
    uint64_t n_pieces; /* pieces in which the body arrived */
    uint64_t length;   /* Content-Length; UINT64_MAX: chunked */
};

struct srv_rest_conn {
    struct srv_link link; /* in one of the loop's lists by deadline */
    struct srv_link turn; /* in one of the loop's handshakes_... lists */
    struct MHD_Connection *mhd;
    bool is_handshake, is_suspended; /* in a TLS handshake; waits for its socket */
    struct srv_http_stream stream;
    struct rt_bytes ready; /* output of the stream, of which `taken` bytes were read */
    size_t taken, drained;
    bool is_reading;           /* a request has begun to arrive and has a deadline */
    bool is_over;              /* nothing more is read from it */
    bool lingers;              /* over and suspended: rest_refuse.c drops what arrives */
    uint64_t dropped;          /* bytes dropped while it lingers */
    uint64_t n_requests;       /* requests that libmicrohttpd has found */
    struct srv_link end;       /* in loop->ended, once the peer has closed its side */
    struct srv_rest_call *req; /* being read, waiting or answered; NULL: none */
    int fd;
    int64_t deadline_ns;
    int64_t quiet_ns; /* time of the last event: the end of a request, or of the peer's side */
    uint64_t acked;   /* bytes that the peer had taken at the last check of its response */
};

struct srv_rest {
    struct srv_server *server;
    srv_rest_handler *handle;
    int n_loops;
    int most_open; /* most connections of all I/O loops */
    _Atomic int n_open;
    int most_fd; /* connections have lower descriptors */
    struct srv_rest_loop *loops;
    _Atomic bool quiescing;
    _Atomic int n_closed; /* I/O loops that accept nothing new */
    uint64_t id_seed;
    struct srv_rest_tls tls; /* set before the I/O loops start */
    struct rt_mutex mu;
    struct rt_cond reported;
    int n_reported, n_failed; /* guarded by mu: I/O loops that started their daemon or failed to */
};

/* Everything here belongs to the loop's thread, except the mailbox of `io_loop` and `wake_fd`. */
struct srv_rest_loop {
    struct srv_io_loop io_loop;
    struct srv_rest *rest;
    pthread_t thread;
    bool running; /* the thread was started */
    int epoll, wake_fd, listen_fd;
    struct MHD_Daemon *daemon;
    struct srv_rest_conn **conns; /* n_conns entries, by descriptor */
    int n_conns;
    int n_open, most_open; /* connections of libmicrohttpd; their limit in this I/O loop */
    bool accepts;          /* the epoll reports connections to accept */
    bool is_full;          /* the limit is reached, and connections wait */
    bool full_is_logged;   /* the log has reported it */
    int64_t accept_at_ns;  /* time of the next attempt after a failed accept; 0: none failed */
    char *raw;             /* bytes that were just read */
    struct rt_bytes clean; /* the stream's output for them */
    struct srv_message listen_message, quiesce_message, stop_message;
    bool closing, stopping;
    int closing_turn;
    bool again;     /* the next turn does not wait for events */
    int64_t now_ns; /* time of this turn */
    /* Connections by deadline; all connections of a list have the same timeout. */
    struct srv_link handshakes, reading, idle, sending, lingering;
    /* Connections by `turn`: those that libmicrohttpd runs; those suspended until a turn runs
     * them; those suspended until their socket reports an event. */
    struct srv_link handshakes_resumed, handshakes_ready, handshakes_suspended;
    struct srv_link ended;            /* connections, by `end` */
    struct srv_link waiting, overdue; /* requests that wait for a job, oldest first */
    struct srv_rest_call *free_requests;
    int n_free;
    uint64_t next_id;
};

/* ---- rest_response.c ---- */

/* The may_grow callback of a request's `out`; arg: the srv_rest_request. */
bool srv_rest_may_grow(void *arg, size_t capacity, size_t wanted);
/* Gives back everything that srv_rest_charge took. */
void srv_rest_discharge(struct srv_rest_request *r);
/* Sets a response whose HTTP status differs from that of `code`. */
void srv_rest_refuse(struct srv_rest_call *req, enum rt_status code, int http);
/* Passes the response to libmicrohttpd. */
enum MHD_Result srv_rest_send(struct srv_rest_call *req);

/* ---- rest_outcome.c ---- */

/* Reports a finished response to metrics and access log, and releases the version. */
void srv_rest_count(struct srv_rest_call *req);
/* Calls `add` for each header of a finished response, except its length. False: `add` failed for
 * one of them. */
typedef bool srv_rest_add_header(void *arg, const char *name, const char *value);
bool srv_rest_headers(const struct srv_rest_call *req, srv_rest_add_header *add, void *arg);

/* ---- rest_refuse.c ---- */

/* In the handler, before the whole body has arrived: sends the response that is set, and for a
 * while drops what still arrives, so that the client can read the response. */
enum MHD_Result srv_rest_refuse_now(struct srv_rest_call *req);
/* Bytes, or the peer's end, have arrived on a connection that lingers. */
void srv_rest_linger(struct srv_rest_loop *l, struct srv_rest_conn *c);

/* ---- rest_read.c ---- */

/* The handler's first call, with the headers only. True: the response is set and no body is read.
 */
bool srv_rest_open(struct srv_rest_call *req, const char *method);
/* Whether the connection's stream refused this request; if so, the response is set. */
bool srv_rest_is_refused(struct srv_rest_call *req);
enum MHD_Result srv_rest_take_body(struct srv_rest_call *req, const char *data, size_t n);
/* ---- rest_gzip.c ---- */

/* Any thread, once the response is set: compresses it if the client accepts that and it gets
 * smaller. */
void srv_rest_deflate(struct srv_rest_call *req);

/* ---- rest_handler.c ---- */

void srv_rest_unref(struct srv_rest_call *req);
void srv_rest_free_calls(struct srv_rest_loop *l); /* frees the unused requests of the free list */
/* Resumes the connection, so that the handler is called again and sends the response. */
void srv_rest_resume(struct srv_rest_call *req);
/* The callbacks of libmicrohttpd; `arg` is the I/O loop. */
void *srv_rest_on_uri(void *arg, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result srv_rest_on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n_data, void **state);
void srv_rest_on_completed(void *arg, struct MHD_Connection *mhd, void **state,
                           enum MHD_RequestTerminationCode why);

/* ---- rest_wire.c ---- */

/* Once per I/O loop. False: out of memory. */
bool srv_rest_wire_init(struct srv_rest_loop *l);
void srv_rest_wire_clear(struct srv_rest_loop *l);
/* A new connection. False: out of memory. srv_rest_wire_remove ends it. */
bool srv_rest_wire_add(struct srv_rest_loop *l, struct srv_rest_conn *c);
void srv_rest_wire_remove(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* A srv_recv_hook_fn: how the daemon of an I/O loop reads. */
ssize_t srv_rest_read(int fd, void *session, void *p, size_t n);

/* ---- rest_accept.c ---- */

/* Before the I/O loops start: sets the limit of connections. */
void srv_rest_accept_init(struct srv_rest *r);
/* Once the daemon runs: adds `listen_fd` to the epoll. False: that failed. */
bool srv_rest_accept_open(struct srv_rest_loop *l);
/* Stops accepting connections. */
void srv_rest_accept_close(struct srv_rest_loop *l);
/* Accepts some of the waiting connections. True: more may wait. */
bool srv_rest_accept(struct srv_rest_loop *l);
/* Once a turn: watches the listening socket again when the limit of connections or a failure
 * permits it. */
void srv_rest_accept_again(struct srv_rest_loop *l);
/* The time at which a waiting connection may be accepted, or RT_NEVER. */
int64_t srv_rest_accept_look(const struct srv_rest_loop *l, int64_t now);

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

/* ---- rest_listen.c ---- */

/* `address` NULL or "": all interfaces, IPv6 and IPv4, or IPv4 alone if there is no IPv6. */
enum rt_status srv_rest_bind(const char *address, int port, int *out, struct rt_error *err);

extern _Thread_local struct srv_rest_loop *srv_rest_this_loop;

#endif
