/*
 * Declarations shared by the files of the gRPC transport that use gRPC's core. Only these files
 * include this header, and no other file of the server uses the core.
 *
 * | file             | purpose                                                            |
 * |------------------|--------------------------------------------------------------------|
 * | grpc.c           | runs the I/O loops, and starts and stops the core's servers        |
 * | grpc_arguments.c | builds the core's channel arguments (--grpc_channel_arguments)     |
 * | grpc_tls.c       | creates credentials from the keys and certificates                 |
 * | grpc_admin.c     | checks the permission for admin actions                            |
 * | grpc_listen.c    | opens listening sockets and accepts connections                    |
 * | grpc_frames.c    | cuts off connections that flood the core with frames or headers    |
 * | grpc_call.c      | handles calls from their first event to their last, and streams    |
 * | grpc_payload.c   | reads, inflates and charges messages; reads metadata and deadlines |
 * | grpc_share.c     | limits the number of open calls, in total and per connection       |
 * | grpc_stall.c     | cuts off peers that do not send a request or read a response       |
 * | grpc_aside.c     | runs work that would block an I/O loop on threads of its own       |
 * | grpc_drain.c     | closes an I/O loop                                                 |
 * | grpc_methods.c   | contains the table of methods                                      |
 * | grpc_inference.c, grpc_info.c, grpc_reload.c, grpc_health.c, grpc_reflection.c: handlers |
 *
 * These files do not use the core: h2_frames.c and h2_uploads.c follow HTTP/2, read_turns.c limits
 * the reads of a connection, send_hook.c counts sent bytes, and reflection.c answers reflection
 * requests.
 *
 * Each I/O loop thread has a completion queue. A call is a struct from the free list of its I/O
 * loop. The pending events of a call are counted, and the call returns to the free list when no
 * more events can arrive.
 */
#ifndef SRV_GRPC_INTERNAL_H
#define SRV_GRPC_INTERNAL_H

#include <pthread.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "server/grpc/grpc.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_methods.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"

enum { SRV_GRPC_AT_ONCE = 64, SRV_GRPC_MAX_UNREAD = 4096 };

/* State of an I/O loop that is closing (grpc_drain.c). */
struct srv_grpc_closing {
    bool is_closing;
    int64_t since_ns; /* time when the loop began to close, or 0 if it is not closing */
    int turns, quiet_turns;
    int n_new; /* number of calls that the core has delivered since the last turn */
    /* descriptors that had unread bytes when the loop began to close */
    int n_unread, unread[SRV_GRPC_MAX_UNREAD];
};

/* A queue of calls that need slow work, and the thread that performs the work (grpc_aside.c). */
struct srv_aside_queue {
    pthread_t thread;
    bool is_running;
    struct rt_mutex mu;
    struct rt_cond more;
    bool stopping; /* mu guards `stopping`, `first` and `last` */
    struct srv_call *first,
        *last; /* linked by `next`, oldest first; `last` is undefined if `first` is NULL */
};
struct srv_grpc_aside {
    struct srv_aside_queue queue[SRV_N_ASIDES];
};

enum { SRV_GRPC_MAX_METHODS = 32, SRV_GRPC_MAX_PORTS = 2, SRV_GRPC_CONNECTIONS = 1 << 16 };

struct srv_grpc_loop {
    struct srv_io_loop io_loop;
    struct srv_grpc *grpc;
    grpc_completion_queue *cq;
    pthread_t thread;
    bool is_running;
    struct srv_grpc_event on_wake;
    struct srv_message begin; /* makes the I/O loop request its first calls from the core */
    struct srv_call *free;
    int n_free;
    struct srv_call *watchers; /* streams that have a `look` function */
    /* Number of calls that could not be requested from the core for lack of memory: first the
     * catch-all requests per port, then the requests per method. The requests are repeated in each
     * turn, because the core delivers a call only if a call of its kind was requested. */
    int unposted[SRV_GRPC_MAX_PORTS + SRV_GRPC_MAX_METHODS];
    int n_unposted;        /* sum of the elements of `unposted` */
    struct srv_link calls; /* the calls of this loop that hold a grpc_call */
    /* number of large responses in progress, per descriptor (grpc_stall.c) */
    int *n_large, n_large_capacity;
    /* maps a peer's address to `1 + descriptor`, as listed at the time listed_ns; entries may be
     * outdated */
    struct rt_map sockets;
    int64_t listed_ns;
    /* watched_ns is the time of the last check of stalled calls and of streams with a `look`
     * function, and watch_ns is the interval between two checks */
    int64_t watched_ns, watch_ns;
    struct srv_grpc_closing closing;
    struct srv_message close;
    /* Events of batches that the core had already completed when grpc_call_start_batch returned
     * (start_batch in grpc_call.c). The I/O loop handles them before it reads further events from
     * the core. */
    grpc_event at_once[SRV_GRPC_AT_ONCE];
    int n_at_once;
};

enum { SRV_MAX_LISTEN = 16 };

/*
 * Slipway's own listening sockets, and the thread that accepts connections. The core's own listener
 * would permanently stop listening when no descriptor is free for a connection. It would also take
 * over the UNIX socket path of a running server, and remove the path when it ends. TLS connections,
 * however, must be accepted by the core itself.
 */
struct srv_listen_fd {
    int fd;
    grpc_server *core;
    /* path of the socket file, or "" for TCP */
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    /* identity of the socket file; when the server ends, the path is removed only if it still
     * refers to this file */
    struct stat made;
};
struct srv_listener {
    struct srv_grpc *grpc;
    int n, stop_fd;
    struct srv_listen_fd at[SRV_MAX_LISTEN];
    pthread_t thread;
    bool is_running;
};

/* A server object of the core and its addresses. ports[0] serves --port and --grpc_socket_path. If
 * admin addresses are set, ports[1] serves --admin_address and --admin_socket. */
struct srv_grpc_port {
    grpc_server *core;
    bool is_admin;
    struct srv_grpc_event on_shutdown;
};

struct srv_grpc {
    struct srv_server *server;
    const struct srv_grpc_methods *methods;
    struct srv_grpc_port ports[SRV_GRPC_MAX_PORTS];
    int n_ports;
    struct srv_listener listener;
    /* registration of each method at ports[0], or NULL; indices are those of the table of
     * methods */
    void *registered[SRV_GRPC_MAX_METHODS];
    /* credentials of the TCP ports; UNIX sockets do not use them */
    grpc_server_credentials *credentials;
    /* a channel that never connects, used by the function `wake` in grpc.c */
    grpc_channel *nowhere;
    _Atomic int n_calls; /* number of calls that hold a grpc_call */
    /* number of calls that hold a grpc_call, per connection (grpc_share.c) */
    _Atomic int calls_of[SRV_GRPC_CONNECTIONS];
    /* number of open streams per method, and per connection (grpc_share.c) */
    _Atomic int n_streams[SRV_GRPC_MAX_METHODS], streams_of[SRV_GRPC_CONNECTIONS];
    _Atomic int n_shut_down; /* number of ports that have shut down */
    _Atomic bool quiesced;
    _Atomic int n_closed;      /* number of I/O loops that have closed */
    _Atomic bool is_shut_down; /* whether the shutdown of the core's servers has begun */
    struct srv_grpc_aside aside;
    int n_loops;
    struct srv_grpc_loop *loops;
};

/* Requests one more call from the core: a call of `method` or, if that is NULL, of any other
 * method at `port`. If memory runs out, the missing request is counted in `unposted`. */
void srv_grpc_post(struct srv_grpc_loop *loop, struct srv_grpc_port *port,
                   const struct srv_grpc_method *method);
/* Repeats the requests for calls that are counted in `unposted`. Called once per turn. */
void srv_grpc_post_again(struct srv_grpc_loop *loop);
void srv_grpc_on_event(struct srv_grpc_loop *loop, const grpc_event *e);
void srv_grpc_free_call(struct srv_call *c);
/* Makes the core's servers accept no more calls. Only the first call has an effect. */
void srv_grpc_shut_down(struct srv_grpc *g);
/* The I/O loop that runs on this thread, or NULL if the thread runs none. */
extern _Thread_local struct srv_grpc_loop *srv_grpc_this_loop;

/* ---- grpc_share.c ---- */

/* Counts a call that holds a grpc_call, and sets its `connection` and `socket`. Called on the I/O
 * loop thread. Returns false if the connection has reached its limit of open calls. */
bool srv_call_open_share(struct srv_call *c);
void srv_call_close_share(struct srv_call *c);
/* Counts a call that becomes a stream of its method. Returns false, without counting it, if the
 * connection has reached its limit of streams of the method. */
bool srv_stream_open_share(struct srv_call *c);
void srv_stream_close_share(struct srv_call *c);

/* ---- grpc_stall.c ---- */

int64_t srv_grpc_stall_limit_ns(const struct srv_server *server);
/* Cuts off the calls whose peer has stalled for longer than the time limit. Called at intervals
 * during a turn. */
void srv_grpc_cut_stalled(struct srv_grpc_loop *loop, int64_t now);
/* Records `what`, the event for which the call waits. May be called on any thread, but never on two
 * threads at the same time for the same call. */
void srv_call_awaits(struct srv_call *c, enum srv_awaited what);
/* Stops counting the large response of a call when the call ends. */
void srv_call_forget_socket(struct srv_call *c);
/* Frees the counters of the I/O loop. Must be called when the loop ends. */
void srv_grpc_forget_sockets(struct srv_grpc_loop *loop);

/* ---- grpc_aside.c ---- */

enum rt_status srv_grpc_aside_start(struct srv_grpc_aside *a, struct rt_error *err);
/* Stops the aside threads. Must be called after all calls have ended. */
void srv_grpc_aside_stop(struct srv_grpc_aside *a);

/* ---- grpc_drain.c ---- */

/* Performs the next step of closing the I/O loop. Called at the end of each turn of a loop that is
 * closing. */
void srv_grpc_close_turn(struct srv_grpc_loop *loop);

/* Checks at startup that the files named by the admin options exist. Implemented in
 * grpc_admin.c. */
enum rt_status srv_grpc_check_admin_files(const struct srv_options *o, struct rt_error *err);
/* Like srv_grpc_check_admin_files, but also logs a warning if every client that can reach the port
 * may perform admin actions. */
enum rt_status srv_grpc_start_admin(const struct srv_options *o, struct rt_error *err);
bool srv_grpc_has_admin(const struct srv_options *o);

void srv_listener_init(struct srv_listener *l, struct srv_grpc *grpc);
/* Listens on a TCP address without TLS. *bound receives the port, which the kernel chooses if
 * `port` is 0. */
enum rt_status srv_listen_tcp(struct srv_listener *l, grpc_server *core, const char *address,
                              int port, int *bound, struct rt_error *err);
/* Listens on a UNIX socket. `mode` is the permission mode of the socket file, or 0 to apply the
 * umask. `flag` is the name of the flag with the path, for errors. */
enum rt_status srv_listen_unix(struct srv_listener *l, grpc_server *core, const char *path,
                               int mode, const char *flag, struct rt_error *err);
enum rt_status srv_listener_start(struct srv_listener *l, struct rt_error *err);
void srv_listener_close(struct srv_listener *l);

#endif
