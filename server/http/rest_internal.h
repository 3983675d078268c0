/*
 * What the files of the REST transport share. Nobody else includes this: libmicrohttpd is known
 * here alone.
 *
 * | file               | does                                                               |
 * |--------------------|--------------------------------------------------------------------|
 * | rest.c             | the loops and their daemons; start and stop                        |
 * | rest_listen.c      | sockets                                                            |
 * | rest_accept.c      | accepting connections, and when not to                             |
 * | rest_tls.c         | keys and certificates                                              |
 * | rest_handshake.c   | TLS handshakes: their limit of time, when they run                 |
 * | rest_wire.c        | what libmicrohttpd gets to read                                    |
 * | rest_connections.c | connections: limits of time, what the peer's end means             |
 * | rest_refuse.c      | bodies refused before they are whole                               |
 * | rest_read.c        | a request's headers and body, what is refused of them              |
 * | rest_gzip.c        | compressed bodies                                                  |
 * | rest_handler.c     | a request from its first line to its end                           |
 * | rest_routes.c      | who answers it                                                     |
 * | rest_answer.c      | the answer: its headers, its way out, the access log               |
 *
 * Threads: everything here belongs to the loop's thread, but for a net's mailbox and `wake_fd`.
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
    SRV_REST_IDLE_SECONDS = 75,         /* between two requests of a connection */
    SRV_REST_MAX_IDLE_BYTES = 64 << 10, /* of a finished request's buffers, for the next one */
    SRV_REST_SWALLOW_BYTES = 1 << 20,   /* of a refused body, to keep the connection */
    SRV_REST_HANDSHAKES = 2,            /* of TLS, in a turn; and so many that have just begun */
};

/* ---- structures ---- */

enum srv_rest_stage {
    STAGE_NEW,     /* the handler was not called yet */
    STAGE_READING, /* the body */
    STAGE_REFUSED, /* the answer is set; the rest of the body is swallowed first */
    STAGE_WAITING, /* for a job, suspended */
    STAGE_SENT,    /* the answer is with libmicrohttpd */
    STAGE_OVER,    /* refused before the body was whole: the answer is out, or there is none */
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
    int refs; /* libmicrohttpd's request, and its response while our buffer is in it */
    enum srv_rest_stage stage;
    bool in_handler, finished, overdue;
    bool close, browser, expects;
    bool started; /* counted in server->rest_requests */
    int64_t waiting_since;
    uint64_t swallowed;
    bool accepts_gzip, deflated; /* the answer */
    bool sends_id;               /* in the answer: the client asked, or the access log has it */
    uint64_t n_pieces;           /* of the body */
    uint64_t length;             /* announced; UINT64_MAX: chunked */
};

struct srv_rest_conn {
    struct srv_link link; /* in a list of the loop's, by deadline */
    struct srv_link turn; /* in one of the loop's handshakes_... */
    struct MHD_Connection *mhd;
    bool is_handshake, is_suspended; /* of TLS, not ended; suspended until its socket reports */
    struct srv_http_stream stream;
    struct rt_bytes ready; /* what came out of the stream and was not read yet, but for `taken` */
    size_t taken, drained;
    bool is_reading;           /* a request has begun to come; its deadline is set */
    bool is_over;              /* nothing more of it is read */
    bool lingers;              /* over and suspended: what comes is dropped by rest_refuse.c */
    uint64_t dropped;          /* bytes, while it lingers */
    uint64_t n_requests;       /* that libmicrohttpd has found */
    struct srv_link end;       /* in loop->ended, once the peer has ended its side */
    struct srv_rest_call *req; /* being read, waiting or answered; NULL: between two */
    int fd;
    int64_t deadline_ns;
    int64_t quiet_ns; /* since when nothing more of it has been seen */
    uint64_t acked;   /* bytes that the peer has taken, when its answer was looked at */
};

struct srv_rest {
    struct srv_server *server;
    srv_rest_handler *handle;
    int n_loops;
    int most_open; /* connections of all loops */
    _Atomic int n_open;
    int most_fd; /* descriptors of connections are below it */
    struct srv_rest_loop *loops;
    _Atomic bool quiescing;
    _Atomic int n_closed; /* loops that take nothing new */
    uint64_t id_seed;
    struct srv_rest_tls tls; /* set before the loops start */
    struct rt_mutex mu;
    struct rt_cond reported;
    int n_reported, n_failed; /* guarded by mu: of srv_rest_listen */
};

/* All of it belongs to its thread, but for `net`'s mailbox and `wake_fd`. */
struct srv_rest_loop {
    struct srv_io_loop io_loop;
    struct srv_rest *rest;
    pthread_t thread;
    bool running; /* the thread was started */
    int epoll, wake_fd, listen_fd;
    struct MHD_Daemon *daemon;
    struct srv_rest_conn **conns; /* n_conns of them, by descriptor */
    int n_conns;
    int n_open, most_open; /* connections that libmicrohttpd has; --max_connections of this loop */
    bool accepts;          /* the epoll reports connections that wait to be accepted */
    bool is_full;          /* it has as many connections as it may, and others wait */
    bool told_full;        /* the log has said so */
    int64_t accept_at_ns;  /* after a failure: when it is tried again; 0: none failed */
    char *raw;             /* a piece that has just been read */
    struct rt_bytes clean; /* and what came out of it */
    struct srv_message listen_message, quiesce_message, stop_message;
    bool closing, stopping;
    int closing_turn;
    bool again;     /* the next turn does not wait */
    int64_t now_ns; /* of this turn */
    /* Connections, by deadline: each list has one time-out. */
    struct srv_link handshakes, reading, idle, sending, lingering;
    /* Connections, by `turn`: those that libmicrohttpd runs, and those that are suspended: until
     * their turn has come, and until their socket reports something. */
    struct srv_link handshakes_resumed, handshakes_ready, handshakes_suspended;
    struct srv_link ended;            /* connections, by `end` */
    struct srv_link waiting, overdue; /* requests: with a job, oldest first */
    struct srv_rest_call *free_requests;
    int n_free;
    uint64_t next_id;
};

/* ---- rest_answer.c ---- */

/* rt_bytes' question, for a request's `out`; arg: the srv_rest_request. */
bool srv_rest_may_grow(void *arg, size_t capacity, size_t wanted);
/* Gives back what srv_rest_charge took. */
void srv_rest_discharge(struct srv_rest_request *r);
/* A refusal of HTTP itself, whose number is not the status's. */
void srv_rest_refuse(struct srv_rest_call *req, enum rt_status code, int http);
/* Hands the answer to libmicrohttpd. */
enum MHD_Result srv_rest_send(struct srv_rest_call *req);

/* ---- rest_outcome.c ---- */

/* Counts and logs an answer that is set, and lets go of the version. */
void srv_rest_count(struct srv_rest_call *req);
/* The headers of an answer that is set, but for its length, one after the other to `add`. False:
 * that was false for one of them. */
typedef bool srv_rest_add_header(void *arg, const char *name, const char *value);
bool srv_rest_headers(const struct srv_rest_call *req, srv_rest_add_header *add, void *arg);

/* ---- rest_refuse.c ---- */

/* In the handler, before the body has come whole: sends the answer that is set, and drops what
 * still comes for a while, so that the client hears it. */
enum MHD_Result srv_rest_refuse_now(struct srv_rest_call *req);
/* Something has come on a connection that lingers, or its end. */
void srv_rest_linger(struct srv_rest_loop *l, struct srv_rest_conn *c);

/* ---- rest_read.c ---- */

/* The first call of the handler: headers only. True: refused so that no body is read. */
bool srv_rest_open(struct srv_rest_call *req, const char *method);
/* The request is the one that its connection's stream refused; the answer is set then. */
bool srv_rest_is_refused(struct srv_rest_call *req);
enum MHD_Result srv_rest_take_body(struct srv_rest_call *req, const char *data, size_t n);
/* ---- rest_gzip.c ---- */

/* Any thread, once the answer is set: compresses it where the client takes that and it pays. */
void srv_rest_deflate(struct srv_rest_call *req);

/* ---- rest_handler.c ---- */

void srv_rest_unref(struct srv_rest_call *req);
void srv_rest_free_calls(struct srv_rest_loop *l); /* those kept for the next requests */
/* The handler is called again and sends the answer. */
void srv_rest_resume(struct srv_rest_call *req);
/* libmicrohttpd's callbacks; `arg` is the loop. */
void *srv_rest_on_uri(void *arg, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result srv_rest_on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n_data, void **state);
void srv_rest_on_completed(void *arg, struct MHD_Connection *mhd, void **state,
                           enum MHD_RequestTerminationCode why);

/* ---- rest_wire.c ---- */

/* Once per loop. False: no memory. */
bool srv_rest_wire_init(struct srv_rest_loop *l);
void srv_rest_wire_clear(struct srv_rest_loop *l);
/* A new connection, and its end. False: no memory. */
bool srv_rest_wire_add(struct srv_rest_loop *l, struct srv_rest_conn *c);
void srv_rest_wire_remove(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* A srv_recv_hook_fn: what a loop's daemon reads. */
ssize_t srv_rest_read(int fd, void *session, void *p, size_t n);

/* ---- rest_accept.c ---- */

/* Before the loops start: how many connections there may be. */
void srv_rest_accept_init(struct srv_rest *r);
/* Once the daemon runs: the epoll reports `listen_fd`. False: it cannot. */
bool srv_rest_accept_open(struct srv_rest_loop *l);
/* No connection is accepted any more. */
void srv_rest_accept_close(struct srv_rest_loop *l);
/* Takes connections that wait, some of them. True: more may wait. */
bool srv_rest_accept(struct srv_rest_loop *l);
/* Once a turn: as there is room for connections, or time to try again. */
void srv_rest_accept_again(struct srv_rest_loop *l);
/* When there may be room for one that waits. */
int64_t srv_rest_accept_look(const struct srv_rest_loop *l, int64_t now);

/* ---- rest_handshake.c ---- */

/* A new connection's, and its end: the first record is read. */
void srv_rest_begin_handshake(struct srv_rest_loop *l, struct srv_rest_conn *c);
void srv_rest_end_handshake(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* After the daemon has run: all that have not ended. */
void srv_rest_suspend_handshakes(struct srv_rest_loop *l);
/* Its socket has reported something. Does nothing if it does not wait for that. */
void srv_rest_expect_handshake(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* Before the daemon runs: SRV_REST_HANDSHAKES of those that have something to do. */
void srv_rest_resume_handshakes(struct srv_rest_loop *l);
/* Before the daemon is stopped. */
void srv_rest_resume_all_handshakes(struct srv_rest_loop *l);

/* ---- rest_connections.c ---- */

/* epoll_ctl's `op` on the loop's epoll: the peer's end is reported, during a handshake all that
 * comes and that there is room to write, while it lingers all that comes. False: the epoll cannot,
 * for want of memory. */
bool srv_rest_watch_socket(struct srv_rest_loop *l, struct srv_rest_conn *c, int op);
/* A connection on which nothing of its first request has come. */
void srv_rest_expect_request(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* The loop begins to close: requests that have not arrived whole have a short time left. */
void srv_rest_hurry_reading(struct srv_rest_loop *l);
/* The first bytes of a request have come: the rest must within its time. */
void srv_rest_begin_reading(struct srv_rest_loop *l, struct srv_rest_conn *c);

void srv_rest_on_connection(void *arg, struct MHD_Connection *mhd, void **context,
                            enum MHD_ConnectionNotificationCode what);
/* libmicrohttpd has no call to end a connection: its socket reports the end instead. */
void srv_rest_hang_up(struct srv_rest_conn *c);
/* All that linger, before the daemon is stopped. */
void srv_rest_end_lingering(struct srv_rest_loop *l);
/* A refusal has been sent: its connection stays a while longer. */
void srv_rest_begin_lingering(struct srv_rest_loop *l, struct srv_rest_conn *c);
/* All between two requests, of whom nothing more has come. */
void srv_rest_hang_up_idle(struct srv_rest_loop *l);
/* Hangs up on those whose deadline has passed. */
void srv_rest_expire(struct srv_rest_loop *l, struct srv_link *list, int64_t now);
/* An answer begins to be sent: the peer must go on taking it. */
void srv_rest_begin_sending(struct srv_rest_loop *l, struct srv_rest_conn *c, bool is_large);
/* Once a turn: peers that do not. */
void srv_rest_watch_sending(struct srv_rest_loop *l, int64_t now);
/* Once a turn: connections whose peer has ended its side, jobs that take long. */
void srv_rest_end_connections(struct srv_rest_loop *l);
void srv_rest_watch(struct srv_rest_loop *l, int64_t now);
void srv_rest_cancel_if_ended(struct srv_rest_call *req);
/* When the lists want to be looked at again. */
void srv_rest_next_look(const struct srv_rest_loop *l, int64_t *until, int64_t now);

/* ---- rest_listen.c ---- */

/* address NULL or "": every interface, IPv6 and IPv4, or IPv4 alone where there is no IPv6. */
enum rt_status srv_rest_bind(const char *address, int port, int *out, struct rt_error *err);

extern _Thread_local struct srv_rest_loop *srv_rest_this_loop;

#endif
