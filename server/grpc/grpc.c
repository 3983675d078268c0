#include "server/grpc/grpc.h"

#include <dlfcn.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "server/base/send_group.h"
#include "server/config/settings.h"
#include "server/grpc/core_log.h"
#include "server/grpc/grpc_arguments.h"
#include "server/grpc/grpc_frames.h"
#include "server/grpc/read_turns.h"
#include "server/grpc/grpc_internal.h"
#include "server/protocol/admin.h"
#include "server/grpc/grpc_tls.h"

enum {
    /* Number of calls that an I/O loop requests from the core in advance. The loop requests this
     * number for each registered method, and for the unregistered methods of each port. */
    POSTED = 16,
    EVENTS_PER_TURN = 256,
    EVENTS_PER_FLUSH = 32, /* responses are transmitted after at most so many further events */
    /* memory quota for connections, in addition to the quota for their messages */
    QUOTA_EXTRA = 256 << 20,
    /* interval of the checks for stalled calls and of the streams' `look` functions */
    WATCH_NS = 500000000,
    CLOSING_NS = 2000000, /* maximum time for which a closing I/O loop waits for events */
};

/* ---- the loop ---- */

static void post_calls(struct srv_io_loop *io_loop, struct srv_message *loop_message)
{
    (void)loop_message;
    struct srv_grpc_loop *loop = io_loop->loop;
    struct srv_grpc *g = loop->grpc;

    for (int i = 0; i < POSTED; i++) {
        for (int k = 0; k < g->n_ports; k++)
            srv_grpc_post(loop, &g->ports[k], NULL);
        for (int k = 0; k < g->methods->n; k++)
            if (g->registered[k])
                srv_grpc_post(loop, &g->ports[0], &g->methods->row[k]);
    }
}

/* Called in each turn. Cuts off stalled calls and calls the `look` functions of streams. Does so at
 * most once per watch_ns nanoseconds, or in every turn after the server has stopped accepting
 * calls. */
static void look_around(struct srv_grpc_loop *loop)
{
    bool ending = atomic_load(&loop->grpc->quiesced);
    int64_t now = rt_now_ns();

    if (!ending && now - loop->watched_ns < loop->watch_ns)
        return;
    loop->watched_ns = now;
    srv_grpc_cut_stalled(loop, now);
    for (struct srv_call *c = loop->watchers, *next; c; c = next) {
        next = c->next;
        c->stream.look(c, ending);
    }
}

/*
 * Wakes an I/O loop. May be called on any thread. The core has no function that posts an
 * application's event to a completion queue. Instead, this function watches the state of a channel
 * that never connects, with a deadline in the past. The core then posts the result immediately.
 * Only messages to the I/O loop need this function, so it is called rarely.
 */
static void wake(struct srv_io_loop *io_loop)
{
    struct srv_grpc_loop *loop = io_loop->loop;
    grpc_channel_watch_connectivity_state(loop->grpc->wake_channel, GRPC_CHANNEL_IDLE,
                                          gpr_now(GPR_CLOCK_MONOTONIC), loop->cq, &loop->on_wake);
}

/* Handles the events in the list loop->at_once. The handling of an event may append further
 * events. */
static void take_at_once(struct srv_grpc_loop *loop)
{
    for (int i = 0; i < loop->n_at_once; i++)
        srv_grpc_on_event(loop, &loop->at_once[i]);
    loop->n_at_once = 0;
}

static void *run_loop(void *arg)
{
    struct srv_grpc_loop *loop = arg;
    srv_grpc_this_loop = loop;
    const gpr_timespec zero = gpr_time_0(GPR_CLOCK_MONOTONIC);

    srv_turns_begin_loop();
    for (;;) {
        int64_t longest = loop->n_at_once            ? 0
                          : loop->closing.is_closing ? CLOSING_NS
                                                     : loop->watch_ns;
        gpr_timespec until =
            gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(longest, GPR_TIMESPAN));
        grpc_event e = grpc_completion_queue_next(loop->cq, until, NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            break;
        srv_send_group_begin();
        srv_io_loop_begin_turn(&loop->io_loop);
        take_at_once(loop);
        for (int i = 0; e.type == GRPC_OP_COMPLETE; i++) {
            srv_grpc_on_event(loop, &e);
            take_at_once(loop);
            if (i == EVENTS_PER_TURN)
                break;
            if (i % EVENTS_PER_FLUSH == 0)
                srv_send_group_flush();
            e = grpc_completion_queue_next(loop->cq, zero, NULL);
        }
        look_around(loop);
        if (loop->n_unposted)
            srv_grpc_post_again(loop);
        /* inline jobs send their responses during srv_io_loop_end_turn */
        srv_io_loop_end_turn(&loop->io_loop);
        srv_send_group_end();
        if (loop->closing.is_closing)
            srv_grpc_close_turn(loop);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            break;
    }
    return NULL;
}

/* ---- start and stop ---- */

/*
 * Switches off the deadlock detection of abseil's mutexes, which the core uses. Debian enables it
 * when building abseil. A thread that locks a mutex while it holds another one then updates a
 * process-wide graph. These updates account for a sixth of the instructions of a small call. This
 * function looks up absl::SetMutexDeadlockDetectionMode by its mangled name in Debian's build, and
 * calls it. In other builds, this name does not exist or the detection is already off.
 */
static void stop_lock_graph(void)
{
    enum { IGNORE = 0 }; /* the value of absl::OnDeadlockCycle::kIgnore */
    static const char *const name =
        "_ZN4absl7debian329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE";
    void (*set_mode)(int) = NULL;

    *(void **)&set_mode = dlsym(RTLD_DEFAULT, name);
    if (set_mode)
        set_mode(IGNORE);
}

/* Returns the limit on the total number of bytes of incomplete requests on all connections. One
 * connection may use half of this limit. The largest permitted request must fit into this half, so
 * that a client with a larger request receives an error that states the size limit. A sixteenth is
 * added for the request's frames and slices, which also count. */
static int64_t max_arriving(const struct srv_options *o)
{
    const int64_t most = o->max_body_bytes < INT32_MAX ? o->max_body_bytes : INT32_MAX;
    const int64_t bodies = 2 * (most + most / 16);

    return o->max_bytes_in_flight > bodies ? o->max_bytes_in_flight : bodies;
}

static grpc_server *make_server(struct srv_grpc_port *port, const grpc_channel_args *args,
                                struct rt_arena *arena)
{
    grpc_channel_args all = {.num_args = args->num_args + 1};

    all.args = rt_arena_array(arena, all.num_args, sizeof *all.args);
    if (!all.args)
        return NULL;
    memcpy(all.args, args->args, args->num_args * sizeof *all.args);
    all.args[args->num_args] = srv_grpc_secure_argument(port);
    return grpc_server_create(&all, NULL);
}

static enum rt_status make_ports(struct srv_grpc *g, struct rt_error *err)
{
    const struct srv_options *o = &g->server->options;
    struct rt_arena *arena = rt_arena_new(1 << 20);
    grpc_resource_quota *quota = grpc_resource_quota_create("messages");
    grpc_channel_args args;
    enum rt_status st = arena ? srv_grpc_arguments(o, quota, arena, &args, err)
                              : rt_fail_memory(err, "the arguments of gRPC", 0);

    /* This quota is large enough that the core never fails a stream for exceeding it.
     * server->in_flight does not include the bytes of incomplete messages. grpc_frames.c limits the
     * number of these bytes. */
    grpc_resource_quota_resize(quota,
                               (size_t)(o->max_bytes_in_flight + max_arriving(o)) + QUOTA_EXTRA);
    g->n_ports = srv_admin_has_address(o) ? 2 : 1;
    for (int i = 0; i < g->n_ports && !st; i++) {
        struct srv_grpc_port *port = &g->ports[i];
        port->is_admin = i == 1;
        port->on_shutdown.kind = SRV_EV_SHUTDOWN;
        port->core = make_server(port, &args, arena);
        if (!port->core)
            st = rt_fail(err, RT_INTERNAL, "gRPC's core cannot make a server");
    }
    if (!st) {
        srv_grpc_frames_start(g->server->metrics, &args, max_arriving(o));
        srv_turns_start(&g->n_calls, *o->ssl_config_file != '\0');
    }
    grpc_resource_quota_unref(quota);
    rt_arena_free(arena);
    return st;
}

static enum rt_status register_methods(struct srv_grpc *g, struct rt_error *err)
{
    for (int i = 0; i < g->methods->n; i++) {
        const struct srv_grpc_method *m = &g->methods->row[i];
        /* Disabled methods are not registered. The transport refuses their calls by path. */
        if (m->kind != SRV_GRPC_REGISTERED || (m->off && m->off(&g->server->options)))
            continue;
        g->registered[i] =
            grpc_server_register_method(g->ports[0].core, m->path, NULL, GRPC_SRM_PAYLOAD_NONE, 0);
        if (!g->registered[i])
            return rt_fail(err, RT_INTERNAL, "gRPC's core takes no method");
    }
    return RT_OK;
}

/* Makes the loops. Their threads start later. A failed start shuts the core down through a
 * completion queue, so the loops are made before the core listens. */
static void make_loops(struct srv_grpc *g, int n)
{
    for (int i = 0; i < n; i++) {
        struct srv_grpc_loop *loop = &g->loops[i];
        loop->grpc = g;
        loop->on_wake.kind = SRV_EV_WAKE;
        loop->cq = grpc_completion_queue_create_for_next(NULL);
        for (int k = 0; k < g->n_ports; k++)
            grpc_server_register_completion_queue(g->ports[k].core, loop->cq, NULL);
        srv_io_loop_init(&loop->io_loop, g->server, "GRPC", wake, loop);
        srv_list_init(&loop->calls);
        rt_map_init(&loop->sockets);
        loop->watch_ns = srv_grpc_stall_limit_ns(g->server) / 4;
        if (loop->watch_ns > WATCH_NS)
            loop->watch_ns = WATCH_NS;
    }
    g->n_loops = n;
}

static enum rt_status start_loops(struct srv_grpc *g, struct rt_error *err)
{
    struct srv_server *server = g->server;

    for (int i = 0; i < g->n_loops; i++) {
        struct srv_grpc_loop *loop = &g->loops[i];
        loop->io_loop.index = server->n_io_loops;
        if (rt_thread_start(&loop->thread, "grpc-loop", run_loop, loop))
            return rt_fail(err, RT_RESOURCE_EXHAUSTED, "cannot start a gRPC thread");
        loop->is_running = true;
        server->io_loops[server->n_io_loops++] = &loop->io_loop;
    }
    return RT_OK;
}

static enum rt_status make_core(struct srv_grpc *g, int n_loops, struct rt_error *err)
{
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();

    g->wake_channel = grpc_channel_create("unix:/nowhere", plain, NULL);
    grpc_channel_credentials_release(plain);
    if (!g->wake_channel)
        return rt_fail(err, RT_INTERNAL, "gRPC's core cannot make a channel");
    enum rt_status st = make_ports(g, err);
    if (st)
        return st;
    make_loops(g, n_loops);
    st = register_methods(g, err);
    if (!st)
        st = srv_grpc_credentials(&g->server->options, &g->credentials, err);
    for (int i = 0; i < g->n_ports && !st && srv_grpc_is_secure(&g->server->options); i++)
        st = srv_grpc_listen_secure(&g->ports[i], g->credentials, err);
    return st;
}

enum rt_status srv_grpc_start(struct srv_server *server, const struct srv_grpc_methods *methods,
                              struct srv_grpc **out, struct rt_error *err)
{
    int n = (int)server->options.num_grpc_threads;
    struct srv_grpc *g = calloc(1, sizeof *g);
    enum rt_status st;

    if (n < 1)
        n = 1;
    if (!g)
        return rt_fail_memory(err, "the gRPC server", sizeof *g);
    g->server = server;
    g->methods = methods;
    srv_listener_init(&g->listener, g);
    g->loops = calloc((size_t)n, sizeof *g->loops);
    if (!g->loops || server->n_io_loops + n > SRV_MAX_IO_LOOPS) {
        free(g->loops);
        free(g);
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "%d gRPC threads are too many", n);
    }
    srv_core_log_start();
    stop_lock_graph();
    grpc_init();
    st = make_core(g, n, err);
    if (!st)
        st = srv_grpc_background_start(&g->background, err);
    if (!st)
        st = start_loops(g, err);
    if (st)
        srv_grpc_stop(g);
    else
        *out = g;
    return st;
}

static enum rt_status listen_tcp(struct srv_grpc *g, struct srv_grpc_port *port,
                                 const char *address, int number, int *bound, struct rt_error *err)
{
    return srv_listen_tcp(&g->listener, port, srv_grpc_is_secure(&g->server->options), address,
                          number, bound, err);
}

static enum rt_status listen_admin(struct srv_grpc *g, struct rt_error *err)
{
    const char *given = g->server->options.admin_address;
    char host[SRV_MAX_HOST];
    int64_t port = 0;
    int bound;

    if (!*given)
        return RT_OK;
    enum rt_status st =
        srv_settings_split_address("admin_address", given, host, sizeof host, &port, err);
    if (!st)
        st = listen_tcp(g, &g->ports[1], host, (int)port, &bound, err);
    if (!st)
        RT_LOG(RT_LOG_INFO, "admin actions at %s:%d", host, bound);
    return st;
}

enum rt_status srv_grpc_check(const struct srv_options *o, struct rt_error *err)
{
    struct rt_arena *arena = rt_arena_new(1 << 20);
    grpc_server_credentials *credentials = NULL;
    grpc_channel_args args;
    enum rt_status st = arena ? srv_grpc_arguments(o, NULL, arena, &args, err)
                              : rt_fail_memory(err, "the arguments of gRPC", 0);

    srv_core_log_start();
    grpc_init();
    if (!st)
        st = srv_grpc_credentials(o, &credentials, err);
    if (credentials)
        grpc_server_credentials_release(credentials);
    grpc_shutdown();
    rt_arena_free(arena);
    return st;
}

static enum rt_status listen_sockets(struct srv_grpc *g, struct rt_error *err)
{
    const struct srv_options *o = &g->server->options;
    enum rt_status st = RT_OK;

    if (*o->grpc_socket_path)
        st = srv_listen_unix(&g->listener, &g->ports[0], o->grpc_socket_path, 0, "grpc_socket_path",
                             err);
    if (!st && *o->grpc_socket_path)
        RT_LOG(RT_LOG_INFO, "Running gRPC ModelServer at UNIX socket %s ...", o->grpc_socket_path);
    if (!st && *o->admin_socket)
        st =
            srv_listen_unix(&g->listener, &g->ports[1], o->admin_socket, 0600, "admin_socket", err);
    return st ? st : srv_listener_start(&g->listener, err);
}

enum rt_status srv_grpc_listen(struct srv_grpc *g, const char *address, int port, int *bound,
                               struct rt_error *err)
{
    enum rt_status st = RT_OK;

    *bound = 0;
    if (port)
        st = listen_tcp(g, &g->ports[0], address, port, bound, err);
    if (!st && g->n_ports > 1)
        st = listen_admin(g, err);
    if (st)
        return st;
    for (int i = 0; i < g->n_ports; i++)
        grpc_server_start(g->ports[i].core);
    for (int i = 0; i < g->n_loops; i++) {
        g->loops[i].begin.receive = post_calls;
        srv_message_post(&g->loops[i].io_loop, &g->loops[i].begin);
    }
    return listen_sockets(g, err);
}

static void receive_close(struct srv_io_loop *io_loop, struct srv_message *loop_message)
{
    struct srv_grpc_loop *loop = io_loop->loop;

    (void)loop_message;
    loop->closing.n_new = 0;
    loop->closing.since_ns = rt_now_ns();
    loop->closing.is_closing = true;
}

void srv_grpc_shut_down(struct srv_grpc *g)
{
    if (atomic_exchange(&g->is_shut_down, true))
        return;
    for (int i = 0; i < g->n_ports; i++) {
        struct srv_grpc_port *port = &g->ports[i];
        if (port->core)
            grpc_server_shutdown_and_notify(port->core, g->loops[0].cq, &port->on_shutdown);
    }
}

/* Stops accepting calls. Posts a message to each I/O loop. The message wakes the loop, and the loop
 * then ends its Watch streams. */
void srv_grpc_quiesce(struct srv_grpc *g)
{
    if (atomic_exchange(&g->quiesced, true))
        return;
    srv_listener_close(&g->listener);
    for (int i = 0; i < g->n_loops; i++) {
        g->loops[i].close.receive = receive_close;
        srv_message_post(&g->loops[i].io_loop, &g->loops[i].close);
    }
}

int srv_grpc_in_flight(struct srv_grpc *g)
{
    /* From srv_grpc_quiesce until the shutdown of the core, sockets may have unread requests. All
     * unread requests together count as one request. */
    bool receive = atomic_load(&g->quiesced) && !atomic_load(&g->is_shut_down);
    return receive + atomic_load(&g->server->grpc_requests);
}

void srv_grpc_cancel_all(struct srv_grpc *g)
{
    for (int i = 0; i < g->n_ports; i++)
        grpc_server_cancel_all_calls(g->ports[i].core);
}

void srv_grpc_stop(struct srv_grpc *g)
{
    if (!g)
        return;
    bool runs = g->n_loops && g->loops[0].is_running;
    if (g->n_loops) {
        srv_grpc_quiesce(g);
        srv_grpc_shut_down(g);
        srv_grpc_cancel_all(g);
    }
    /* Waits until all calls have ended. If a call's job is still running on a worker, the call ends
     * after its response has been sent. */
    while (runs && (atomic_load(&g->n_shut_down) < g->n_ports || atomic_load(&g->n_calls)))
        usleep(1000);
    srv_grpc_background_stop(&g->background);
    srv_turns_stop();
    for (int i = 0; i < g->n_loops; i++)
        grpc_completion_queue_shutdown(g->loops[i].cq);
    for (int i = 0; i < g->n_loops; i++) {
        struct srv_grpc_loop *loop = &g->loops[i];
        if (loop->is_running)
            pthread_join(loop->thread, NULL);
        else
            while (grpc_completion_queue_next(loop->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL)
                       .type != GRPC_QUEUE_SHUTDOWN)
                ;
    }
    for (int i = 0; i < g->n_ports; i++)
        if (g->ports[i].core)
            grpc_server_destroy(g->ports[i].core);
    if (g->wake_channel)
        grpc_channel_destroy(g->wake_channel);
    if (g->credentials)
        grpc_server_credentials_release(g->credentials);
    for (int i = 0; i < g->n_loops; i++) {
        grpc_completion_queue_destroy(g->loops[i].cq);
        for (struct srv_call *c = g->loops[i].free, *next; c; c = next) {
            next = c->next;
            srv_grpc_free_call(c);
        }
        srv_grpc_forget_sockets(&g->loops[i]);
    }
    grpc_shutdown();
    free(g->loops);
    free(g);
}
