/*
 * Declarations shared by the files of the gRPC transport. Only files of this table include this
 * header. Besides them, only core_log.c and server/commands/health_grpc.c use gRPC's core.
 *
 * | file              | purpose                                                            |
 * |-------------------|--------------------------------------------------------------------|
 * | grpc.c            | runs the I/O loops, and starts and stops the core's servers        |
 * | grpc_arguments.c  | builds the core's channel arguments (--grpc_channel_arguments)     |
 * | grpc_tls.c        | creates credentials from the keys and certificates                 |
 * | grpc_admin.c      | checks the permission for admin actions                            |
 * | grpc_listen.c     | opens listening sockets and accepts connections                    |
 * | grpc_frames.c     | cuts off connections that flood the core with frames or headers    |
 * | grpc_call.c       | handles all events of calls, and sends responses                   |
 * | grpc_stream.c     | begins and ends streams, and sends their messages                  |
 * | grpc_payload.c    | reads, inflates and charges messages; reads metadata and deadlines |
 * | grpc_share.c      | limits the number of open calls, in total and per connection       |
 * | grpc_stall.c      | cuts off peers that do not send a request or read a response       |
 * | grpc_background.c | uses separate threads for work that would block an I/O loop        |
 * | grpc_drain.c      | closes an I/O loop                                                 |
 * | grpc_methods.c    | contains the table of methods                                      |
 * | grpc_inference.c  | handles inferences                                                 |
 * | grpc_describe.c   | handles requests for information                                   |
 * | grpc_health.c     | handles the service grpc.health.v1                                 |
 * | grpc_reflection.c | handles the service of gRPC reflection                             |
 *
 * These files do not use the core: h2_frames.c and h2_uploads.c parse HTTP/2 frames and count
 * request bodies, read_turns.c limits the reads of a connection, rearm.c makes the kernel report a
 * socket again, send_hook.c counts sent bytes, and reflection.c computes the responses to
 * reflection requests.
 *
 * Each I/O loop thread has a completion queue and a free list of calls. A call counts its pending
 * events, and returns to the free list when no more events can arrive.
 */
#ifndef SRV_GRPC_INTERNAL_H
#define SRV_GRPC_INTERNAL_H

#include <pthread.h>

#include "server/grpc/grpc.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_listen.h"
#include "server/grpc/grpc_methods.h"
#include "server/grpc/grpc_stream.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"

enum { SRV_GRPC_AT_ONCE = 64, SRV_GRPC_MAX_UNREAD = 4096 };

struct srv_grpc_closing {
    bool is_closing;
    int64_t since_ns; /* time when the loop began to close, or 0 if it is not closing */
    int turns, quiet_turns;
    int n_new; /* number of calls that the core delivered in the current turn */
    /* descriptors that had unread bytes when the loop began to close */
    int n_unread, unread[SRV_GRPC_MAX_UNREAD];
};

enum { SRV_GRPC_MAX_PORTS = 2, SRV_GRPC_CONNECTIONS = 1 << 16 };

/* The calls that need slow work, and the thread that performs the work (grpc_background.c). The
 * waiting calls of a connection form a queue, linked by `next`, oldest first. Connections take
 * turns. A turn is one step of the work for one call. */
struct srv_background_queue {
    pthread_t thread;
    bool is_running;
    struct rt_mutex mu;
    struct rt_cond more;
    /* mu guards the members below. */
    bool stopping;
    /* The connections that wait for their turn, in the order of their turns. The oldest waiting
     * call of a connection represents the connection. The calls are linked by `next_turn`. `last`
     * is undefined if `first` is NULL. */
    struct srv_call *first, *last;
    int at_work;             /* index of the connection whose turn it is, or -1 */
    struct srv_call *behind; /* oldest waiting call of the connection whose turn it is, or NULL */
    /* each connection's newest waiting call, or NULL; only used pages take memory */
    struct srv_call *last_of[SRV_GRPC_CONNECTIONS];
};
struct srv_grpc_background {
    struct srv_background_queue queue[SRV_N_BACKGROUND_KINDS];
};

struct srv_grpc_loop {
    struct srv_io_loop io_loop;
    struct srv_grpc *grpc;
    grpc_completion_queue *cq;
    pthread_t thread;
    bool is_running;
    struct srv_grpc_event on_wake;
    /* message that makes the I/O loop request its first calls from the core */
    struct srv_message begin;
    struct srv_call *free;
    int n_free;
    struct srv_call *watchers; /* streams that have a `look` function */
    /* Numbers of calls that could not be requested from the core for lack of memory. The first
     * elements, one per port, count the calls of unregistered methods. The other elements, one per
     * method, count the calls of that method. The requests are repeated in each turn. The core
     * delivers a call only if a call of its kind was requested. */
    int unposted[SRV_GRPC_MAX_PORTS + SRV_GRPC_MAX_METHODS];
    int n_unposted;        /* sum of the numbers in `unposted` */
    struct srv_link calls; /* the loop's open calls */
    /* number of large responses in progress, indexed by descriptor (grpc_stall.c) */
    int *n_large, n_large_capacity;
    /* Maps a peer's address to `1 + descriptor`. Built at the time listed_ns, so entries may be
     * outdated. */
    struct rt_map sockets;
    int64_t listed_ns;
    /* The time of the last check for stalled calls, and the interval between these checks. The
     * `look` functions of streams are called at the same times. */
    int64_t watched_ns, watch_ns;
    struct srv_grpc_closing closing;
    struct srv_message close;
    /* Events of batches that the core had completed before grpc_call_start_batch returned
     * (start_batch in grpc_call.c). The I/O loop handles them before it reads further events from
     * the core. */
    grpc_event at_once[SRV_GRPC_AT_ONCE];
    int n_at_once;
};

/* A server object of the core, and its addresses. ports[0] serves --port and --grpc_socket_path.
 * ports[1] serves --admin_address and --admin_socket, if these are set. */
struct srv_grpc_port {
    grpc_server *core;
    /* The core's object that takes over secure connections, or NULL (srv_grpc_listen_secure). Owned
     * by `core`. */
    void *secure;
    bool is_admin;
    struct srv_grpc_event on_shutdown;
};

struct srv_grpc {
    struct srv_server *server;
    const struct srv_grpc_methods *methods;
    struct srv_grpc_port ports[SRV_GRPC_MAX_PORTS];
    int n_ports;
    struct srv_listener listener;
    /* each method's registration at ports[0], or NULL, in the order of the table of methods */
    void *registered[SRV_GRPC_MAX_METHODS];
    /* credentials of the TCP ports, but not of UNIX sockets */
    grpc_server_credentials *credentials;
    /* a channel that never connects; wake() in grpc.c uses it */
    grpc_channel *wake_channel;
    _Atomic int n_calls;
    /* number of open calls per connection (grpc_share.c) */
    _Atomic int calls_of[SRV_GRPC_CONNECTIONS];
    /* number of open streams per method, and per connection (grpc_share.c) */
    _Atomic int n_streams[SRV_GRPC_MAX_METHODS], streams_of[SRV_GRPC_CONNECTIONS];
    _Atomic int n_shut_down; /* number of ports that the core has shut down */
    _Atomic bool quiesced;
    _Atomic int n_closed; /* number of I/O loops that have closed */
    _Atomic bool is_shut_down;
    struct srv_grpc_background background;
    int n_loops;
    struct srv_grpc_loop *loops;
};

/* Requests one more call of `method` from the core. If `method` is NULL, requests a call of any
 * unregistered method at `port`. If memory runs out, counts the missing request in `unposted`. */
void srv_grpc_post(struct srv_grpc_loop *loop, struct srv_grpc_port *port,
                   const struct srv_grpc_method *method);
/* Repeats the requests that `unposted` counts. Called once per turn. */
void srv_grpc_post_again(struct srv_grpc_loop *loop);
void srv_grpc_on_event(struct srv_grpc_loop *loop, const grpc_event *e);
void srv_grpc_free_call(struct srv_call *c);
/* Makes the core's servers accept no more calls. Only the first call has an effect. */
void srv_grpc_shut_down(struct srv_grpc *g);
extern _Thread_local struct srv_grpc_loop *srv_grpc_this_loop;
/* Returns whether the deadline that the client sent has passed. May be called on any thread. The
 * core rounds deadlines, so a client may end its calls up to a millisecond before the deadline that
 * the core reports. If a call ended before its first message, a deadline within the next
 * millisecond counts as passed. */
bool srv_call_is_late(const struct srv_call *c);

/* ---- grpc_call.c, for grpc_stream.c ---- */

/* Converts an error message to a slice. If the message is too long to be sent, it is truncated, and
 * the string "...TRUNCATED" is appended. */
grpc_slice srv_grpc_details_of(const char *text);
grpc_op srv_grpc_op_status(enum rt_status code, grpc_slice *details);
/* Creates a message from a copy of `head`, and the bytes at p, of which the core takes
 * ownership. */
grpc_byte_buffer *srv_grpc_message_of(struct rt_span head, void *p, size_t n);
void srv_grpc_start_batch(struct srv_call *c, const grpc_op *ops, size_t n,
                          struct srv_grpc_event *event);
/* Starts RECV_CLOSE, through which the core reports whether the client disconnected during the
 * call. Called on the I/O loop thread. */
void srv_grpc_start_close(struct srv_call *c);
void srv_grpc_read_message(struct srv_call *c, enum srv_awaited what);
/* Stops counting the call as a request that delays the drain. */
void srv_grpc_uncount(struct srv_call *c);
/* Subtracts one from c->pending after an expected event. Ends the call if no event is pending. */
void srv_grpc_unpend(struct srv_call *c);
void srv_stream_unwatch(struct srv_call *c);

/* ---- grpc_payload.c ---- */

/* Reads the call's traceparent and tracestate metadata. srv_call_end_span frees what it keeps. */
void srv_call_begin_span(struct srv_call *c);
void srv_call_end_span(struct srv_call *c);
/* Returns the operation that sends the response's initial metadata. Called once per call. */
grpc_op srv_call_op_metadata(struct srv_call *c);

/* ---- grpc_share.c ---- */

/* Counts an open call, and sets c->connection and c->socket. Called on the I/O loop thread. Returns
 * false if the connection has reached its limit of open calls. */
bool srv_call_open_share(struct srv_call *c);
/* Returns whether the connection with the descriptor `fd` has open calls. May be called on any
 * thread. May wrongly return true, because several connections can share a counter. */
bool srv_grpc_has_calls(const struct srv_grpc *g, int fd);
void srv_call_close_share(struct srv_call *c);
/* Counts a call as a stream of its method. Returns false, without counting it, if the connection
 * has reached its limit of streams. */
bool srv_stream_open_share(struct srv_call *c);
void srv_stream_close_share(struct srv_call *c);

/* ---- grpc_stall.c ---- */

int64_t srv_grpc_stall_limit_ns(const struct srv_server *server);
/* Cuts off the calls that have waited for their peer longer than the time limit or beyond the
 * call's deadline. The I/O loop calls this function at intervals. */
void srv_grpc_cut_stalled(struct srv_grpc_loop *loop, int64_t now);
/* Records the event `what` for which the call waits. May be called on any thread, but not on two
 * threads at once for the same call. */
void srv_call_awaits(struct srv_call *c, enum srv_awaited what);
/* Stops counting a call's response among the large responses in progress. */
void srv_call_forget_socket(struct srv_call *c);
/* Frees the counters of the I/O loop. Must be called when the loop ends. */
void srv_grpc_forget_sockets(struct srv_grpc_loop *loop);

/* ---- grpc_background.c ---- */

enum rt_status srv_grpc_background_start(struct srv_grpc_background *a, struct rt_error *err);
/* Stops the background threads. Must be called after all calls have ended. */
void srv_grpc_background_stop(struct srv_grpc_background *a);

/* ---- grpc_drain.c ---- */

/* Performs the next step of closing the I/O loop. Called at the end of each turn of a closing
 * loop. */
void srv_grpc_close_turn(struct srv_grpc_loop *loop);

#endif
