/*
 * The I/O loops of the REST transport, its listening sockets, and the acceptance of connections.
 * Only the files of the transport include this header, rest_call.h and rest_connection.h, and only
 * they use libmicrohttpd:
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
 * | rest_response.c    | responses: their share of the budget, refusals, sending            |
 * | rest_outcome.c     | responses: headers, metrics, the access log                        |
 *
 * Owner: the server owns a srv_rest, which owns its loops.
 * Threads: a loop belongs to its thread, except its mailbox and `wake_fd`.
 */
#ifndef SRV_REST_LOOP_H
#define SRV_REST_LOOP_H

#include <microhttpd.h>

#include "runtime/base/thread.h"
#include "server/base/list.h"
#include "server/batching/io_loop.h"
#include "server/http/rest.h"
#include "server/http/rest_tls.h"

struct srv_rest_call;
struct srv_rest_conn;

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
    bool full_is_logged;   /* the log has a line about the full state */
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

/* The loop of the calling thread; NULL on other threads. */
extern _Thread_local struct srv_rest_loop *srv_rest_this_loop;

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

/* ---- rest_listen.c ---- */

/* `address` NULL or "": all interfaces, IPv6 and IPv4, or IPv4 alone if there is no IPv6. */
enum rt_status srv_rest_bind(const char *address, int port, int *out, struct rt_error *err);

#endif
