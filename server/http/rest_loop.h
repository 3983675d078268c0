/*
 * The I/O loops of the REST transport, its listening sockets, and the functions that accept
 * connections. Of the server's files, only those of the table include this header, rest_call.h or
 * rest_connection.h, and use libmicrohttpd.
 *
 * | file               | purpose                                                           |
 * |--------------------|-------------------------------------------------------------------|
 * | rest.c             | runs the I/O loops with their daemons, and starts and stops them  |
 * | rest_listen.c      | opens listening sockets                                           |
 * | rest_accept.c      | accepts connections, or pauses accepting                          |
 * | rest_tls.c         | reads the keys and certificates                                   |
 * | rest_handshake.c   | limits the time of TLS handshakes, and decides when they run      |
 * | rest_wire.c        | reads from connections for libmicrohttpd                          |
 * | rest_connections.c | sets the deadlines of connections, and detects disconnected peers |
 * | rest_refuse.c      | refuses bodies before they are complete                           |
 * | rest_read.c        | reads or refuses the headers and the body of a request            |
 * | rest_gzip.c        | compresses response bodies and inflates request bodies            |
 * | rest_calls.c       | allocates and frees calls, and charges them to the budget         |
 * | rest_background.c  | uses separate threads for work that would block an I/O loop       |
 * | rest_metrics.c     | answers requests for the metrics page                             |
 * | rest_shared_body.c | creates and releases bodies that several responses share          |
 * | rest_shared_send.c | writes, compresses, charges and sends shared bodies               |
 * | rest_viewers.c     | serves the web page: files, events, errors, plans and profiles    |
 * | rest_handler.c     | handles a request from its first line to its end                  |
 * | rest_routes.c      | calls the handler of each route, and reports the server's health  |
 * | rest_response.c    | sets and sends responses and refusals                             |
 * | rest_outcome.c     | writes response headers, metrics and the access log               |
 *
 * The other files of the folder are the handlers rest_inference.c, rest_describe.c and
 * rest_action.c, which see only rest_request.h; http_stream.c and http_header.c, which parse HTTP;
 * and recv_hook.c, which redirects libmicrohttpd's reads.
 *
 * Owner: the server owns a srv_rest, which owns its loops.
 * Threads: each loop has a thread. Other threads may use only the mailbox and `wake_fd` of a loop.
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
#include "server/page/page.h"

struct srv_rest_call;
struct srv_rest_conn;
struct srv_rest;

/* Kinds of slow work. Each kind has its own thread, so the kinds do not delay each other. */
enum srv_rest_background {
    SRV_REST_PAGES,
    SRV_REST_DESCRIPTIONS,       /* gathering and writing long descriptions */
    SRV_REST_SHORT_DESCRIPTIONS, /* the same for short ones (protocol.h) */
    SRV_REST_ACTIONS,            /* admin actions */
    SRV_REST_EVENTS,             /* writing events of the web page */
    SRV_REST_PLANS,              /* building and describing plans for the web page */
    SRV_REST_FREE,               /* freeing the memory of calls that use much memory */
    SRV_N_REST_BACKGROUND_KINDS
};

/* A queue of requests that need slow work, and the thread that performs the work. */
struct srv_rest_background_queue {
    pthread_t thread;
    bool running; /* whether the thread was started */
    /* sends the responses to a list of requests, linked by `next_free` */
    void (*work)(struct srv_rest *rest, struct srv_rest_call *first);
    struct srv_rest *rest;
    struct rt_mutex mu;
    struct rt_cond wake;
    /* the queued requests, oldest first, linked by `next_free`; guarded by mu */
    struct srv_rest_call *first, *last;
    bool stopping; /* guarded by mu */
    /* minimum time between two calls of `work`, and the time of the next one; both 0 for no pause
     */
    int64_t pause_ns, not_before_ns;
};

enum { SRV_REST_MAX_ALSO_KEPT = 8 };

struct srv_rest {
    struct srv_server *server;
    srv_rest_handler *handle;
    int n_loops;
    int most_open; /* maximum number of open connections in all I/O loops together */
    _Atomic int n_open;
    int most_fd; /* a connection is accepted only if a descriptor below this number is free */
    struct srv_rest_loop *loops;
    _Atomic bool quiescing;
    _Atomic int n_closed; /* number of I/O loops that have stopped accepting connections */
    _Atomic bool cancels; /* whether srv_rest_cancel_all was called */
    uint64_t id_seed;
    /* names of the headers that quotas and protocols read, a list that ends with NULL */
    const char *also_kept[SRV_REST_MAX_ALSO_KEPT + 1];
    struct srv_rest_tls tls; /* keys and certificates, set before the I/O loops start */
    struct rt_mutex mu;
    struct rt_cond reported;
    /* number of I/O loops that have tried to start their daemon, and number of loops that failed;
     * guarded by mu */
    int n_reported, n_failed;
    struct srv_rest_background_queue background[SRV_N_REST_BACKGROUND_KINDS];
    /* files of the web page, plain and compressed; NULL if they do not become smaller */
    struct srv_shared_body *files[SRV_PAGE_FILES][2];
    _Atomic int n_viewers; /* number of requests that wait for an event of the web page */
    int n_waiting;         /* n_viewers before the current event; used by the events' thread */
    _Atomic int
        n_free_shared_bodies; /* number of shared bodies for which the budget is not charged */
};

struct srv_rest_loop {
    struct srv_io_loop io_loop;
    struct srv_rest *rest;
    pthread_t thread;
    bool running; /* whether the thread was started */
    int epoll, wake_fd;
    int listen_fds[SRV_N_REST_ADDRESSES]; /* -1 if the address is not used */
    /* Bit fd is set if the connection with this descriptor has come to SRV_REST_PAGE. Bits beyond
     * the n_page_fds bytes are 0. */
    unsigned char *page_fds;
    size_t n_page_fds;
    struct MHD_Daemon *daemon;
    struct srv_rest_conn **conns; /* connections by descriptor; the array has n_conns entries */
    int n_conns;
    /* number of libmicrohttpd's connections in this I/O loop, and the limit of this number */
    int n_open, most_open;
    bool accepts; /* whether the epoll instance watches the listening sockets */
    bool is_full; /* whether more connections wait although the connection limit is reached */
    /* whether the log has reported that the connection limit is reached */
    bool full_is_logged;
    /* time of the next attempt after a failed accept, or 0 if no accept failed */
    int64_t accept_at_ns;
    char *raw;
    /* output of the connection's srv_http_stream after it has consumed `raw` */
    struct rt_bytes clean;
    /* whether the current call of GnuTLS has read from the socket, and has not found it empty */
    bool may_have_more;
    /* number of small reads for GnuTLS in the current call of srv_rest_read or step of a handshake
     */
    int n_small_reads;
    struct srv_message listen_message, quiesce_message, stop_message;
    bool closing, stopping;
    int closing_turn;
    bool again;     /* whether the next turn begins without waiting for events */
    int64_t now_ns; /* time at which the loop's current turn began */
    /* Lists of connections in the order of their deadlines. All connections of a list have the same
     * timeout. `fresh` contains the connections that have received no byte of their first
     * request. */
    struct srv_link handshakes, fresh, reading, idle, sending, lingering;
    /* Lists of connections in a TLS handshake, linked by `turn`: running, suspended until a later
     * turn, and suspended until an event on their socket. */
    struct srv_link handshakes_resumed, handshakes_ready, handshakes_suspended;
    /* handshake_ns is the time in nanoseconds that handshakes may still take while the loop is
     * busy. handshake_filled_ns is the time at which handshake_ns was last increased. */
    int64_t handshake_ns, handshake_filled_ns;
    bool is_busy; /* whether the current turn has work other than handshakes and new connections */
    /* connections whose peer has closed its side, linked by `end` */
    struct srv_link ended;
    struct srv_link waiting, overdue; /* requests that wait for a job, oldest first */
    struct srv_link deferred;         /* requests in STAGE_DEFERRED, oldest first */
    /* number of metadata and status requests answered in the current turn, and the time spent on
     * them */
    int64_t n_described, describing_ns;
    struct srv_rest_call *free_requests;
    int n_free;
    uint64_t next_id;
};

/* The I/O loop that the calling thread runs, or NULL if it runs none. */
extern _Thread_local struct srv_rest_loop *srv_rest_this_loop;

/* ---- rest_accept.c ---- */

/* Sets the maximum number of connections. Called before the I/O loops start. */
void srv_rest_accept_init(struct srv_rest *r);
/* Adds `listen_fds` to the epoll instance after the daemon has started. Returns false on failure.
 */
bool srv_rest_accept_open(struct srv_rest_loop *l);
/* Stops accepting connections. */
void srv_rest_accept_close(struct srv_rest_loop *l);
/* Returns whether the connection `fd` has come to SRV_REST_PAGE. */
bool srv_rest_is_page(const struct srv_rest_loop *l, int fd);
/* Accepts some of the connections that wait at an address. Returns whether more may be waiting. */
bool srv_rest_accept(struct srv_rest_loop *l, enum srv_rest_address which);
/* Called once per turn of the I/O loop. Stops watching the listening sockets at the connection
 * limit or after a failed accept. Watches them again when connections can be accepted. */
void srv_rest_accept_again(struct srv_rest_loop *l);
/* Returns the time at which the loop may accept connections again. Returns RT_NEVER if the loop has
 * not paused accepting or the time is unknown. */
int64_t srv_rest_accept_look(const struct srv_rest_loop *l, int64_t now);

/* ---- rest_background.c ---- */

/* Starts the threads that perform slow work. Called before the I/O loops start. */
enum rt_status srv_rest_background_start(struct srv_rest *rest, struct rt_error *err);
/* Answers the queued requests and ends the threads. Later requests are refused with UNAVAILABLE.
 * Must be called before the I/O loops stop. */
void srv_rest_background_stop(struct srv_rest *rest);
void srv_rest_background_clear(struct srv_rest *rest); /* called after srv_rest_background_stop */
/* Queues the request for a thread of the given kind. If the server is stopping, sets the response
 * instead. Returns the same values as a handler. */
bool srv_rest_background(struct srv_rest_call *req, enum srv_rest_background kind);
/* Queues the request for a thread of the given kind, which calls `work` as srv_rest_in_background
 * does. */
bool srv_rest_background_work(struct srv_rest_call *req, enum srv_rest_background kind,
                              bool (*work)(struct srv_rest_request *r));

/* ---- rest_calls.c ---- */

/* Queues the request for a thread of the given kind. Returns false if the server is stopping. */
bool srv_rest_append(struct srv_rest_call *req, enum srv_rest_background kind);

/* ---- rest_metrics.c ---- */

/* Sends a metrics page to each request of the list, linked by `next_free`. Called on a background
 * thread. */
void srv_rest_write_pages(struct srv_rest *rest, struct srv_rest_call *first);

/* ---- rest_viewers.c ---- */

enum {
    SRV_REST_MAX_VIEWERS = 256,          /* requests that may wait for an event at a time */
    SRV_REST_EVENT_PAUSE_NS = 1000000000 /* time between two events */
};

/* Compresses the files of the web page, if it is served. */
enum rt_status srv_rest_files_open(struct srv_rest *rest, struct rt_error *err);
void srv_rest_files_close(struct srv_rest *rest);
/* Sends one event to each request of the list, linked by `next_free`. Called on a background
 * thread. */
void srv_rest_write_events(struct srv_rest *rest, struct srv_rest_call *first);

#endif
