/*
 * Shared by the files of the gRPC transport that use gRPC's core, and included by nothing else. No
 * other file of the server uses the core.
 *
 * | file              | does                                                                |
 * |-------------------|---------------------------------------------------------------------|
 * | grpc.c            | the I/O loops and the core's servers; start and stop                |
 * | grpc_arguments.c  | the core's channel arguments, with --grpc_channel_arguments         |
 * | grpc_tls.c        | keys and certificates                                               |
 * | grpc_admin.c      | permission for admin actions                                        |
 * | grpc_listen.c     | listening sockets, accepting connections                            |
 * | grpc_frames.c     | cuts off connections that flood the core with frames or headers     |
 * | grpc_call.c       | calls from their first event to their last; responses, streams      |
 * | grpc_payload.c    | messages in: bytes, inflating, budget; metadata, deadlines          |
 * | grpc_share.c      | the number of open calls, in all and per connection                 |
 * | grpc_stall.c      | cuts off peers that do not send a request or take a response        |
 * | grpc_aside.c      | threads for work that would block an I/O loop                       |
 * | grpc_drain.c      | the end of an I/O loop                                              |
 * | grpc_methods.c    | the table of methods                                                |
 * | grpc_inference.c, grpc_info.c, grpc_reload.c, grpc_health.c, grpc_reflection.c: handlers |
 *
 * These files do not use the core: h2_frames.c and h2_uploads.c follow HTTP/2, read_turns.c limits
 * the reads of a connection, send_hook.c counts sent bytes, and reflection.c answers reflection
 * requests.
 *
 * Each I/O loop thread has a completion queue. A call is a struct from the free list of its I/O
 * loop. The pending events of a call are counted, and the call returns to the free list when none
 * can come any more.
 */
#ifndef SRV_GRPC_INTERNAL_H
#define SRV_GRPC_INTERNAL_H

#include <pthread.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "server/grpc/grpc.h"
#include "server/grpc/grpc_call.h"
#include "runtime/base/map.h"
#include "runtime/base/thread.h"

enum { SRV_GRPC_AT_ONCE = 64, SRV_GRPC_MAX_UNREAD = 4096 };

/* The state of an I/O loop that closes, see grpc_drain.c. */
struct srv_grpc_closing {
    bool is_closing;
    int64_t since_ns; /* time when the loop was told to close; 0: not yet */
    int turns, quiet_turns;
    int n_new; /* calls that the core delivered since the last turn */
    int n_unread, unread[SRV_GRPC_MAX_UNREAD]; /* descriptors with unread bytes */
};

/* A queue of calls, and the thread that works on them; see grpc_aside.c. */
struct srv_aside_queue {
    pthread_t thread;
    bool is_running;
    struct rt_mutex mu;
    struct rt_cond more;
    bool stopping; /* this and the next two: guarded by mu */
    struct srv_call *first,
        *last; /* by `next`, oldest first; `last` is undefined if `first` is NULL */
};
struct srv_grpc_aside {
    struct srv_aside_queue queue[SRV_N_ASIDES];
};

enum { SRV_GRPC_MAX_METHODS = 32, SRV_GRPC_MAX_PORTS = 2, SRV_GRPC_CONNECTIONS = 1 << 16 };

struct srv_grpc_loop {
    struct srv_io_loop io_loop; /* the first member */
    struct srv_grpc *grpc;
    grpc_completion_queue *cq;
    pthread_t thread;
    bool is_running;
    struct srv_grpc_event on_wake;
    struct srv_message begin; /* requests the first calls from the core */
    struct srv_call *free;
    int n_free;
    struct srv_call *watchers; /* streams with a `look` */
    int n_streams;
    /* Calls that could not be requested from the core for lack of memory: by port for catch-all
     * requests, then by method. Each turn tries again, because the core never delivers a kind of
     * which no call is requested. */
    int unposted[SRV_GRPC_MAX_PORTS + SRV_GRPC_MAX_METHODS];
    int n_unposted;        /* sum of `unposted` */
    struct srv_link calls; /* calls that hold a grpc_call */
    /* number of large responses being sent, by descriptor (grpc_stall.c) */
    int *n_large, n_large_capacity;
    /* descriptor + 1 by peer address, listed at listed_ns; entries may be outdated */
    struct rt_map sockets;
    int64_t listed_ns;
    int64_t watched_ns, watch_ns; /* time of the last check of watchers and stalls; its interval */
    struct srv_grpc_closing closing;
    struct srv_message close;
    /* Events of batches that had completed as soon as they were started (start_batch in
     * grpc_call.c). The I/O loop handles them before it takes further events from the core. */
    grpc_event at_once[SRV_GRPC_AT_ONCE];
    int n_at_once;
};

enum { SRV_MAX_LISTEN = 16 };

/*
 * Slipway's own listening sockets, and the thread that accepts from them. The core's own listener
 * would stop listening for good when no descriptor is left for a connection, and it would take
 * over the UNIX socket path of a live server and remove the path when it ends. Only TLS
 * connections must be accepted by the core.
 */
struct srv_listen_fd {
    int fd;
    grpc_server *core;
    char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* "": TCP */
    struct stat made; /* unlinked at the end only if it is still this file */
};
struct srv_listener {
    struct srv_server *server;
    int n, stop_fd;
    struct srv_listen_fd at[SRV_MAX_LISTEN];
    pthread_t thread;
    bool is_running;
};

/* A server of the core with its addresses: ports[0] has --port and --grpc_socket_path, and if
 * there are admin addresses, ports[1] has --admin_address and --admin_socket. */
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
    void *registered[SRV_GRPC_MAX_METHODS]; /* by index in the table of methods, with ports[0]; or
                                               NULL */
    grpc_server_credentials *credentials;   /* for TCP */
    grpc_channel *nowhere;                  /* a channel that never connects; see wake */
    _Atomic int n_calls;                    /* calls that hold a grpc_call */
    /* the number of these calls by connection (grpc_share.c) */
    _Atomic int calls_of[SRV_GRPC_CONNECTIONS];
    _Atomic int n_shut_down; /* ports that have shut down */
    _Atomic bool quiesced;
    _Atomic int n_closed;      /* I/O loops that have closed */
    _Atomic bool is_shut_down; /* the core's servers were told to shut down */
    struct srv_grpc_aside aside;
    int n_loops;
    struct srv_grpc_loop *loops;
};

/* Requests one more call from the core: of `method`, or, if it is NULL, of any other method at
 * `port`. Out of memory, `unposted` counts the call. */
void srv_grpc_post(struct srv_grpc_loop *loop, struct srv_grpc_port *port,
                   const struct srv_grpc_method *method);
/* Once a turn: tries again to request the calls in `unposted`. */
void srv_grpc_post_again(struct srv_grpc_loop *loop);
void srv_grpc_on_event(struct srv_grpc_loop *loop, const grpc_event *e);
void srv_grpc_free_call(struct srv_call *c);
/* Tells the core's servers to accept no more calls. Further calls of this function do nothing. */
void srv_grpc_shut_down(struct srv_grpc *g);
/* The I/O loop of this thread; NULL on threads that run none. */
extern _Thread_local struct srv_grpc_loop *srv_grpc_this_loop;

/* ---- grpc_share.c ---- */

/* I/O loop thread: counts a call that holds a grpc_call, and sets its `connection` and `socket`.
 * False: the connection has exceeded its share of open calls. */
bool srv_call_open_share(struct srv_call *c);
void srv_call_close_share(struct srv_call *c);

/* ---- grpc_stall.c ---- */

int64_t srv_grpc_stall_limit_ns(const struct srv_server *server);
/* At intervals, inside a turn: cuts off the calls whose peer has stalled for the limit. */
void srv_grpc_cut_stalled(struct srv_grpc_loop *loop, int64_t now);
/* Any thread, one at a time per call: sets what the call waits for from now on. */
void srv_call_awaits(struct srv_call *c, enum srv_awaited what);
/* When the call ends: its large response counts no more. */
void srv_call_forget_socket(struct srv_call *c);
void srv_grpc_forget_sockets(struct srv_grpc_loop *loop); /* called when the I/O loop ends */

/* ---- grpc_aside.c ---- */

enum rt_status srv_grpc_aside_start(struct srv_grpc_aside *a, struct rt_error *err);
void srv_grpc_aside_stop(struct srv_grpc_aside *a); /* called when no calls are left */

/* ---- grpc_drain.c ---- */

/* At the end of each turn of an I/O loop that is closing. */
void srv_grpc_close_turn(struct srv_grpc_loop *loop);

/* grpc_admin.c, at start: the files that options name must exist. */
enum rt_status srv_grpc_check_admin_files(const struct srv_options *o, struct rt_error *err);
/* Like srv_grpc_check_admin_files, and logs a warning if everyone who reaches the port may perform
 * admin actions. */
enum rt_status srv_grpc_start_admin(const struct srv_options *o, struct rt_error *err);
bool srv_grpc_has_admin(const struct srv_options *o);

void srv_listener_init(struct srv_listener *l, struct srv_server *server);
/* Without TLS. *bound: the port, also if `port` is 0 and the kernel chose one. */
enum rt_status srv_listen_tcp(struct srv_listener *l, grpc_server *core, const char *address,
                              int port, int *bound, struct rt_error *err);
/* `mode`: permissions of the socket; 0: as the umask says. `flag`: its flag's name, for errors. */
enum rt_status srv_listen_unix(struct srv_listener *l, grpc_server *core, const char *path,
                               int mode, const char *flag, struct rt_error *err);
enum rt_status srv_listener_start(struct srv_listener *l, struct rt_error *err);
void srv_listener_close(struct srv_listener *l);

#endif
