/*
 * What the files of the gRPC transport share. Nobody else includes this: gRPC's core is known here
 * and to the handlers alone.
 *
 * | file              | does                                                                |
 * |-------------------|---------------------------------------------------------------------|
 * | grpc.c            | the loops and the core's servers; start and stop                    |
 * | grpc_arguments.c  | the core's settings, ours and --grpc_channel_arguments              |
 * | grpc_tls.c        | keys and certificates                                               |
 * | grpc_admin.c      | who may do what an operator does                                    |
 * | grpc_listen.c     | sockets, and who is let in                                          |
 * | grpc_frames.c     | who floods the core with frames or headers is cut off               |
 * | grpc_call.c       | calls from their first event to their last; answers, streams        |
 * | grpc_payload.c    | messages in: their bytes, inflated and counted; metadata, deadlines |
 * | grpc_share.c      | how many calls are open, in all and on a connection                 |
 * | grpc_stall.c      | who does not send its request or take its answer is cut off         |
 * | grpc_aside.c      | threads for what would hold up a loop                               |
 * | grpc_drain.c      | the end of a loop                                                   |
 * | grpc_methods.c    | the table of methods                                                |
 * | grpc_inference.c, grpc_info.c, grpc_reload.c, grpc_health.c, grpc_reflection.c: handlers |
 *
 * Each loop thread has a completion queue; each call is one struct from the loop's own list. A
 * call's events are counted, so that it goes back to the list only when none can come any more.
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

/* See grpc_drain.c. */
struct srv_grpc_closing {
    bool is_closing;
    int64_t since_ns; /* when it was told to close; 0: not yet */
    int turns, quiet_turns;
    int n_new;                                 /* calls handed out since the last turn */
    int n_unread, unread[SRV_GRPC_MAX_UNREAD]; /* descriptors */
};

/* See grpc_aside.c: a queue of calls, and the thread that takes from it. */
struct srv_aside_queue {
    pthread_t thread;
    bool is_running;
    struct rt_mutex mu;
    struct rt_cond more;
    bool stopping;                 /* guarded by mu, so below */
    struct srv_call *first, *last; /* by `next`, oldest first; last: undefined without first */
};
struct srv_grpc_aside {
    struct srv_aside_queue queue[SRV_N_ASIDES];
};

enum { SRV_GRPC_MAX_METHODS = 32, SRV_GRPC_MAX_PORTS = 2, SRV_GRPC_CONNECTIONS = 1 << 16 };

struct srv_grpc_loop {
    struct srv_io_loop io_loop; /* first */
    struct srv_grpc *grpc;
    grpc_completion_queue *cq;
    pthread_t thread;
    bool is_running;
    struct srv_grpc_event on_wake;
    struct srv_message begin; /* asks for the first calls */
    struct srv_call *free;
    int n_free;
    struct srv_call *watchers; /* streams with `look` */
    int n_streams;
    /* Calls that could not be posted for want of memory, by catch-all port, then by method: posted
     * again in each turn, for a kind without posted calls would never be answered again. */
    int unposted[SRV_GRPC_MAX_PORTS + SRV_GRPC_MAX_METHODS];
    int n_unposted;                 /* their sum */
    struct srv_link calls;          /* that hold a grpc_call */
    int *n_large, n_large_capacity; /* by descriptor: large answers under way, grpc_stall.c */
    struct rt_map sockets;          /* by peer: the descriptor + 1, as of listed_ns; may be gone */
    int64_t listed_ns;
    int64_t watched_ns, watch_ns; /* when watchers and stalls were looked at, and how often */
    struct srv_grpc_closing closing;
    struct srv_message close;
    /* Events of batches that were over when they had been started (start_batch in grpc_call.c): the
     * loop handles them before it asks the core for more. */
    grpc_event at_once[SRV_GRPC_AT_ONCE];
    int n_at_once;
};

enum { SRV_MAX_LISTEN = 16 };

/*
 * Our own listening sockets, and the thread that accepts from them. The core's would stop listening
 * for good when there are no descriptors for one connection more, and take a live server's UNIX
 * path over and remove it when they end. TLS alone has to go through them.
 */
struct srv_listen_fd {
    int fd;
    grpc_server *core;
    char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* "": TCP */
    struct stat made; /* to be unlinked only while it still is ours */
};
struct srv_listener {
    struct srv_server *server;
    int n, stop_fd;
    struct srv_listen_fd at[SRV_MAX_LISTEN];
    pthread_t thread;
    bool is_running;
};

/* One server of the core, with addresses of its own: that of --port and --grpc_socket_path, and
 * beside it that of --admin_address and --admin_socket. */
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
    void *registered[SRV_GRPC_MAX_METHODS];     /* by the table's index, with ports[0]; or NULL */
    grpc_server_credentials *credentials;       /* of TCP */
    grpc_channel *nowhere;                      /* see wake */
    _Atomic int n_calls;                        /* calls that hold a grpc_call */
    _Atomic int calls_of[SRV_GRPC_CONNECTIONS]; /* of these, by connection: see grpc_share.c */
    _Atomic int n_shut_down;                    /* ports */
    _Atomic bool quiesced;
    _Atomic int n_closed;      /* loops */
    _Atomic bool is_shut_down; /* the core's servers have been told to */
    struct srv_grpc_aside aside;
    int n_loops;
    struct srv_grpc_loop *loops;
};

/* Asks for one more request of the kind: of `method`, or of any other at `port`. Out of memory, the
 * loop notes it in `unposted`. */
void srv_grpc_post(struct srv_grpc_loop *loop, struct srv_grpc_port *port,
                   const struct srv_grpc_method *method);
/* Once a turn: what is in `unposted` is tried again. */
void srv_grpc_post_again(struct srv_grpc_loop *loop);
void srv_grpc_on_event(struct srv_grpc_loop *loop, const grpc_event *e);
void srv_grpc_free_call(struct srv_call *c);
/* Tells the core's servers to take no calls; once. */
void srv_grpc_shut_down(struct srv_grpc *g);
/* The loop that runs on this thread; NULL on all others. */
extern _Thread_local struct srv_grpc_loop *srv_grpc_this_loop;

/* ---- grpc_share.c ---- */

/* Loop thread: counts a call that holds a grpc_call, and finds its `connection` and `socket`.
 * False: it is beyond its connection's share. */
bool srv_call_open_share(struct srv_call *c);
void srv_call_close_share(struct srv_call *c);

/* ---- grpc_stall.c ---- */

int64_t srv_grpc_stall_limit_ns(const struct srv_server *server);
/* Once in a while, inside a turn: cuts off the calls whose peer has stalled for that long. */
void srv_grpc_cut_stalled(struct srv_grpc_loop *loop, int64_t now);
/* Any thread, one at a time per call: what the call waits for from now on. */
void srv_call_awaits(struct srv_call *c, enum srv_awaited what);
/* At the call's end. */
void srv_call_forget_socket(struct srv_call *c);
void srv_grpc_forget_sockets(struct srv_grpc_loop *loop); /* at the loop's */

/* ---- grpc_aside.c ---- */

enum rt_status srv_grpc_aside_start(struct srv_grpc_aside *a, struct rt_error *err);
void srv_grpc_aside_stop(struct srv_grpc_aside *a); /* when there are no calls */

/* ---- grpc_drain.c ---- */

/* At the end of each turn of a loop that is closing. */
void srv_grpc_close_turn(struct srv_grpc_loop *loop);

/* grpc_admin.c: at start; files that are named must be there. */
enum rt_status srv_grpc_check_admin_files(const struct srv_options *o, struct rt_error *err);
/* The same, and tells where anybody may do what an operator does. */
enum rt_status srv_grpc_start_admin(const struct srv_options *o, struct rt_error *err);
bool srv_grpc_has_admin(const struct srv_options *o);

void srv_listener_init(struct srv_listener *l, struct srv_server *server);
/* Plain. *bound: the port, also where any was asked for. */
enum rt_status srv_listen_tcp(struct srv_listener *l, grpc_server *core, const char *address,
                              int port, int *bound, struct rt_error *err);
/* `mode`: of the socket; 0: as the umask has it. `flag`: its name, for the error. */
enum rt_status srv_listen_unix(struct srv_listener *l, grpc_server *core, const char *path,
                               int mode, const char *flag, struct rt_error *err);
enum rt_status srv_listener_start(struct srv_listener *l, struct rt_error *err);
void srv_listener_close(struct srv_listener *l);

#endif
