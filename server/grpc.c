#include "server/grpc.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "server/grpc_parts.h"
#include "server/number.h"

enum {
    POSTED = 16, /* calls that wait for a request, per loop and kind */
    EVENTS_PER_TURN = 256,
    WATCH_NS = 500000000, /* how often watched services are looked at */
    MAX_ARGS = 64,
};

/* ---- the loop ---- */

static void post_calls(struct srv_net *net, struct srv_mail *mail)
{
    (void)mail;
    for (int i = 0; i < POSTED; i++) {
        srv_grpc_post(net->loop, NULL);
        for (int k = 0; k < srv_grpc_n_methods; k++)
            if (srv_grpc_methods[k].kind == SRV_GRPC_FAST)
                srv_grpc_post(net->loop, &srv_grpc_methods[k]);
    }
}

static void look_at_watchers(struct srv_grpc_loop *loop)
{
    bool ending = atomic_load(&loop->grpc->quiesced);
    int64_t now = rt_now_ns();

    if (!loop->watchers || (!ending && now - loop->watched_ns < WATCH_NS))
        return;
    loop->watched_ns = now;
    srv_grpc_look_at_watchers(loop->watchers, ending);
}

/*
 * Any thread. The core has no way to enqueue an event of one's own; a watch of a channel that never
 * connects, with a deadline that has passed, comes near it. It happens rarely: for mail only.
 */
static void wake(struct srv_net *net)
{
    struct srv_grpc_loop *loop = net->loop;
    grpc_channel_watch_connectivity_state(loop->grpc->nowhere, GRPC_CHANNEL_IDLE,
                                          gpr_now(GPR_CLOCK_MONOTONIC), loop->cq, &loop->on_wake);
}

static void *run_loop(void *arg)
{
    struct srv_grpc_loop *loop = arg;
    const gpr_timespec zero = gpr_time_0(GPR_CLOCK_MONOTONIC);

    for (;;) {
        gpr_timespec until =
            gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(WATCH_NS, GPR_TIMESPAN));
        grpc_event e = grpc_completion_queue_next(loop->cq, until, NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            break;
        srv_net_begin(&loop->net);
        for (int i = 0; e.type == GRPC_OP_COMPLETE; i++) {
            srv_grpc_on_event(loop, &e);
            if (i == EVENTS_PER_TURN)
                break;
            e = grpc_completion_queue_next(loop->cq, zero, NULL);
        }
        look_at_watchers(loop);
        srv_net_end(&loop->net);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            break;
    }
    return NULL;
}

/* ---- start and stop ---- */

/* --grpc_channel_arguments=key=value,...: an integer where it is one. `text` is cut up. */
static size_t parse_arguments(char *text, grpc_arg *args, size_t room)
{
    size_t n = 0;

    for (char *at = text; at && *at && n < room;) {
        char *comma = strchr(at, ','), *equals;
        int64_t number;
        if (comma)
            *comma = '\0';
        equals = strchr(at, '=');
        if (equals) {
            *equals = '\0';
            args[n].key = at;
            if (srv_parse_int64(equals + 1, strlen(equals + 1), &number) && number <= INT32_MAX &&
                number >= INT32_MIN) {
                args[n].type = GRPC_ARG_INTEGER;
                args[n].value.integer = (int)number;
            } else {
                args[n].type = GRPC_ARG_STRING;
                args[n].value.string = equals + 1;
            }
            n++;
        }
        at = comma ? comma + 1 : NULL;
    }
    return n;
}

static grpc_arg integer(const char *key, int value)
{
    return (grpc_arg){
        .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

static enum rt_status make_core(struct srv_grpc *g, struct rt_error *err)
{
    const struct srv_options *o = &g->server->options;
    struct rt_arena *arena = rt_arena_new(1 << 20);
    grpc_arg args[MAX_ARGS];
    int64_t limit = o->max_body_bytes < INT32_MAX ? o->max_body_bytes : INT32_MAX;
    size_t n = 0;
    char *user = arena && o->grpc_channel_arguments
                     ? rt_arena_strdup(arena, o->grpc_channel_arguments)
                     : NULL;

    args[n++] = integer(GRPC_ARG_ALLOW_REUSEPORT, 0);
    args[n++] = integer(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)limit);
    args[n++] = integer(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
    args[n++] = integer(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    n += parse_arguments(user, args + n, MAX_ARGS - n);
    grpc_channel_args all = {.num_args = n, .args = args};
    g->core = grpc_server_create(&all, NULL);
    rt_arena_free(arena);
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();
    g->nowhere = grpc_channel_create("unix:/nowhere", plain, NULL);
    grpc_channel_credentials_release(plain);
    if (!g->core || !g->nowhere)
        return rt_fail(err, RT_INTERNAL, "gRPC's core cannot make a server");
    for (int i = 0; i < srv_grpc_n_methods; i++) {
        if (srv_grpc_methods[i].kind != SRV_GRPC_FAST)
            continue;
        g->registered[i] = grpc_server_register_method(
            g->core, srv_grpc_methods[i].path, NULL, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
        if (!g->registered[i])
            return rt_fail(err, RT_INTERNAL, "gRPC's core takes no method");
    }
    return RT_OK;
}

enum rt_status srv_grpc_start(struct srv_server *server, struct srv_grpc **out,
                              struct rt_error *err)
{
    int n = (int)server->options.num_grpc_threads;
    struct srv_grpc *g = calloc(1, sizeof *g);
    enum rt_status st;

    if (n < 1)
        n = 1;
    if (!g)
        return rt_fail_memory(err, "the gRPC server", sizeof *g);
    g->server = server;
    g->socket.listen_fd = g->socket.stop_fd = -1;
    g->on_shutdown.kind = SRV_EV_SHUTDOWN;
    g->loops = calloc((size_t)n, sizeof *g->loops);
    if (!g->loops || server->n_nets + n > SRV_MAX_NETS) {
        free(g->loops);
        free(g);
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "%d gRPC threads are too many", n);
    }
    grpc_init();
    st = make_core(g, err);
    for (int i = 0; i < n && !st; i++) {
        struct srv_grpc_loop *loop = &g->loops[i];
        loop->grpc = g;
        loop->on_wake.kind = SRV_EV_WAKE;
        loop->cq = grpc_completion_queue_create_for_next(NULL);
        grpc_server_register_completion_queue(g->core, loop->cq, NULL);
        srv_net_init(&loop->net, server, "GRPC", wake, loop);
        loop->net.index = server->n_nets;
        g->n_loops++;
        if (rt_thread_start(&loop->thread, "grpc-loop", run_loop, loop) == 0) {
            loop->is_running = true;
            server->nets[server->n_nets++] = &loop->net;
        } else {
            st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "cannot start a gRPC thread");
        }
    }
    if (st)
        srv_grpc_stop(g);
    else
        *out = g;
    return st;
}

enum rt_status srv_grpc_listen(struct srv_grpc *g, const char *address, int port, int *bound,
                               struct rt_error *err)
{
    const char *path = g->server->options.grpc_socket_path;
    grpc_server_credentials *plain;
    char at[300];

    *bound = 0;
    if (port || !path || !*path) {
        snprintf(at, sizeof at, strchr(address, ':') ? "[%s]:%d" : "%s:%d", address, port);
        plain = grpc_insecure_server_credentials_create();
        *bound = grpc_server_add_http2_port(g->core, at, plain);
        grpc_server_credentials_release(plain);
        if (!*bound)
            return rt_fail(err, RT_UNAVAILABLE, "cannot listen on %s for gRPC: is it in use?", at);
    }
    grpc_server_start(g->core);
    g->is_started = true;
    for (int i = 0; i < g->n_loops; i++) {
        g->loops[i].begin.open = post_calls;
        srv_mail_post(&g->loops[i].net, &g->loops[i].begin);
    }
    return path && *path ? srv_unix_listen(&g->socket, g->core, path, "grpc_socket_path", err)
                         : RT_OK;
}

void srv_grpc_quiesce(struct srv_grpc *g)
{
    if (atomic_exchange(&g->quiesced, true))
        return;
    srv_unix_close(&g->socket);
    grpc_server_shutdown_and_notify(g->core, g->loops[0].cq, &g->on_shutdown);
    for (int i = 0; i < g->n_loops; i++)
        wake(&g->loops[i].net); /* streams of Watch end */
}

int srv_grpc_in_flight(struct srv_grpc *g)
{
    return atomic_load(&g->in_flight);
}

void srv_grpc_cancel_all(struct srv_grpc *g)
{
    grpc_server_cancel_all_calls(g->core);
}

void srv_grpc_stop(struct srv_grpc *g)
{
    if (!g)
        return;
    bool runs = g->n_loops && g->loops[0].is_running;
    if (g->core && g->n_loops)
        srv_grpc_quiesce(g);
    if (g->core && g->n_loops)
        srv_grpc_cancel_all(g);
    /* A call ends when its job has been answered; jobs still run on workers. */
    while (runs && (!atomic_load(&g->shut_down) || atomic_load(&g->n_calls)))
        usleep(1000);
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
    if (g->core)
        grpc_server_destroy(g->core);
    if (g->nowhere)
        grpc_channel_destroy(g->nowhere);
    for (int i = 0; i < g->n_loops; i++) {
        grpc_completion_queue_destroy(g->loops[i].cq);
        for (struct srv_call *c = g->loops[i].free, *next; c; c = next) {
            next = c->next;
            srv_grpc_free_call(c);
        }
    }
    grpc_shutdown();
    free(g->loops);
    free(g);
}
