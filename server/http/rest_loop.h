/*
 * The I/O loops of the REST transport, its listening sockets, and the functions that accept
 * connections. Only the following files include this header, rest_call.h and rest_connection.h, and
 * only they use libmicrohttpd:
 *
 * | file               | purpose                                                           |
 * |--------------------|-------------------------------------------------------------------|
 * | rest.c             | runs the I/O loops with their daemons, and starts and stops them  |
 * | rest_listen.c      | opens listening sockets                                           |
 * | rest_accept.c      | accepts connections, or pauses accepting                          |
 * | rest_tls.c         | reads the keys and certificates                                   |
 * | rest_handshake.c   | limits the time of TLS handshakes, and decides when they run      |
 * | rest_wire.c        | performs the reads of libmicrohttpd                               |
 * | rest_connections.c | limits the time of connections, and detects peers that close      |
 * | rest_refuse.c      | refuses bodies before they are complete                           |
 * | rest_read.c        | reads the headers and body of a request, or refuses them          |
 * | rest_gzip.c        | compresses response bodies and inflates request bodies            |
 * | rest_aside.c       | runs work that would block an I/O loop on threads of its own      |
 * | rest_metrics.c     | writes the metrics page on an aside thread                        |
 * | rest_handler.c     | handles a request from its first line to its end                  |
 * | rest_routes.c      | calls the handler of each route                                   |
 * | rest_response.c    | charges responses to the budget, and sends responses and refusals |
 * | rest_outcome.c     | writes response headers, metrics and the access log               |
 *
 * Owner: the server owns a srv_rest, which owns its loops.
 * Threads: only its own thread uses a loop, except for the mailbox and `wake_fd`.
 */
#ifndef SRV_REST_LOOP_H
#define SRV_REST_LOOP_H

#include <microhttpd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/thread.h"
#include "server/base/list.h"
#include "server/batching/io_loop.h"
#include "server/http/rest.h"
#include "server/http/rest_tls.h"

struct srv_rest_call;
struct srv_rest_conn;
struct srv_rest;

/* Kinds of slow work. Each kind has its own thread, so that no kind waits for another. */
enum srv_rest_aside { SRV_REST_PAGES, SRV_REST_DESCRIPTIONS, SRV_N_REST_ASIDES };

/* A queue of requests that need slow work, and the thread that performs the work. */
struct srv_rest_aside_queue {
    pthread_t thread;
    bool running; /* whether the thread was started */
    /* sends the response to each request of a list, linked by `next_free` */
    void (*work)(struct srv_rest *rest, struct srv_rest_call *first);
    struct srv_rest *rest;
    struct rt_mutex mu;
    struct rt_cond wake;
    struct srv_rest_call *first, *last; /* oldest first, linked by `next_free`; guarded by mu */
    bool stopping;                      /* guarded by mu */
};

struct srv_rest {
    struct srv_server *server;
    srv_rest_handler *handle;
    int n_loops;
    int most_open; /* maximum number of open connections of all I/O loops together */
    _Atomic int n_open;
    int most_fd; /* the descriptor of every connection must be below this number */
    struct srv_rest_loop *loops;
    _Atomic bool quiescing;
    _Atomic int n_closed; /* number of I/O loops that have stopped accepting connections */
    uint64_t id_seed;
    struct srv_rest_tls tls; /* keys and certificates, set before the I/O loops start */
    struct rt_mutex mu;
    struct rt_cond reported;
    /* n_reported I/O loops have reported whether their daemon started, and n_failed of these
     * daemons failed to start; both are guarded by mu */
    int n_reported, n_failed;
    struct srv_rest_aside_queue aside[SRV_N_REST_ASIDES];
};

struct srv_rest_loop {
    struct srv_io_loop io_loop;
    struct srv_rest *rest;
    pthread_t thread;
    bool running; /* whether the thread was started */
    int epoll, wake_fd, listen_fd;
    struct MHD_Daemon *daemon;
    struct srv_rest_conn **conns; /* connections by descriptor; the array has n_conns entries */
    int n_conns;
    /* n_open is the number of libmicrohttpd's connections in this I/O loop, and most_open is the
     * limit of this number */
    int n_open, most_open;
    bool accepts; /* whether the epoll instance watches the listening socket for new connections */
    bool is_full; /* the connection limit is reached, and more connections wait */
    bool full_is_logged; /* whether the log already reports that the connection limit is reached */
    /* time of the next attempt after a failed accept, or 0 if no accept failed */
    int64_t accept_at_ns;
    char *raw;             /* buffer for bytes just read from a connection */
    struct rt_bytes clean; /* output of the stream for the bytes in `raw` */
    struct srv_message listen_message, quiesce_message, stop_message;
    bool closing, stopping;
    int closing_turn;
    bool again;     /* the next turn does not wait for events */
    int64_t now_ns; /* time at which this turn began */
    /* Lists of connections by deadline; all connections in one list have the same timeout. `fresh`
     * holds those that have not received any byte of their first request. */
    struct srv_link handshakes, fresh, reading, idle, sending, lingering;
    /* Lists of connections in a TLS handshake, linked by `turn`: those that libmicrohttpd runs,
     * those suspended until a later turn, and those suspended until their socket reports an
     * event. */
    struct srv_link handshakes_resumed, handshakes_ready, handshakes_suspended;
    /* handshake_ns is the time for which handshakes may still run while the loop is busy;
     * handshake_filled_ns is the time at which handshake_ns was last increased */
    int64_t handshake_ns, handshake_filled_ns;
    bool is_busy; /* this turn has work other than handshakes and new connections */
    /* connections whose peer has closed its side, linked by `end` */
    struct srv_link ended;
    struct srv_link waiting, overdue; /* requests that wait for a job, oldest first */
    struct srv_link deferred;         /* metadata and status requests that wait for a later turn */
    /* n_described is the number of metadata and status requests answered in the current turn, and
     * describing_ns is the time spent on them */
    int64_t n_described, describing_ns;
    struct srv_rest_call *free_requests;
    int n_free;
    uint64_t next_id;
};

/* The I/O loop of the calling thread, or NULL if the thread runs none. */
extern _Thread_local struct srv_rest_loop *srv_rest_this_loop;

/* ---- rest_accept.c ---- */

/* Sets the limit of connections. Called before the I/O loops start. */
void srv_rest_accept_init(struct srv_rest *r);
/* Adds `listen_fd` to the epoll instance. Called when the daemon has started. Returns false if
 * adding failed. */
bool srv_rest_accept_open(struct srv_rest_loop *l);
/* Stops accepting connections. */
void srv_rest_accept_close(struct srv_rest_loop *l);
/* Accepts some of the waiting connections. Returns whether more connections may be waiting. */
bool srv_rest_accept(struct srv_rest_loop *l);
/* Called once per turn. Stops watching the listening socket at the connection limit or after a
 * failed accept, and watches it again once connections can be accepted. */
void srv_rest_accept_again(struct srv_rest_loop *l);
/* Returns the time at which the next waiting connection may be accepted, or RT_NEVER. */
int64_t srv_rest_accept_look(const struct srv_rest_loop *l, int64_t now);

/* ---- rest_aside.c ---- */

/* Starts the threads that perform slow work. Called before the I/O loops start. */
enum rt_status srv_rest_aside_start(struct srv_rest *rest, struct rt_error *err);
/* Answers the requests that wait for slow work and ends the threads. Later requests are refused as
 * UNAVAILABLE. Must be called before the I/O loops stop. */
void srv_rest_aside_stop(struct srv_rest *rest);
void srv_rest_aside_clear(struct srv_rest *rest); /* called after srv_rest_aside_stop */
/* Queues the request for slow work, after all requests queued earlier for the same kind. If the
 * server is stopping, sets the response instead. The return value has the same meaning as a
 * handler's. */
bool srv_rest_aside(struct srv_rest_call *req, enum srv_rest_aside kind);

/* ---- rest_metrics.c ---- */

/* Sends a metrics page to each request of the list, which is linked by `next_free`. Called on an
 * aside thread. */
void srv_rest_write_pages(struct srv_rest *rest, struct srv_rest_call *first);

/* ---- rest_listen.c ---- */

/* Opens a listening socket. An `address` of NULL or "" means all interfaces, with IPv6 and IPv4, or
 * with IPv4 alone if there is no IPv6. */
enum rt_status srv_rest_bind(const char *address, int port, int *out, struct rt_error *err);

#endif
