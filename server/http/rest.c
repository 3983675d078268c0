#include "server/http/rest.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "server/http/recv_hook.h"
#include "server/http/rest_call.h"
#include "server/http/rest_connection.h"
#include "server/http/rest_loop.h"
#include "server/protocol/protocol.h"

/* ---- the loop ---- */

static int wait_ms(struct srv_rest_loop *l)
{
    /* The wait begins now, but the time at which the current turn began is precise enough. */
    int64_t until = RT_NEVER, now = l->now_ns;
    MHD_UNSIGNED_LONG_LONG ms;
    l->is_busy = l->deferred.next != &l->deferred;
    if (l->daemon && MHD_get_timeout(l->daemon, &ms) == MHD_YES) {
        l->is_busy |= ms == 0;
        until = now + (ms < 3600000 ? (int64_t)ms : 3600000) * 1000000;
    }
    if (l->again)
        return 0;
    srv_rest_next_look(l, &until, now);
    if (until == RT_NEVER)
        return -1;
    if (until <= now)
        return 0;
    return (int)((until - now + 999999) / 1000000);
}

static void read_events(struct srv_rest_loop *l, const struct epoll_event *events, int n)
{
    for (int i = 0; i < n; i++) {
        void *what = events[i].data.ptr;
        if (what == &l->wake_fd) {
            uint64_t count;
            l->is_busy = true;
            if (read(l->wake_fd, &count, sizeof count) < 0)
                continue;
        } else if (what == &l->listen_fds[SRV_REST_PORT]) {
            srv_rest_accept(l, SRV_REST_PORT);
        } else if (what == &l->listen_fds[SRV_REST_PAGE]) {
            srv_rest_accept(l, SRV_REST_PAGE);
        } else if (what == &l->daemon) {
            l->is_busy = true;
        } else {
            struct srv_rest_conn *c = what;
            if (c->lingers) {
                l->is_busy = true;
                srv_rest_linger(l, c);
                continue;
            }
            srv_rest_expect_handshake(l, c);
            if (!(events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
                continue;
            c->since_ns = l->now_ns;
            srv_list_append(&l->ended, &c->end);
            if (c->req && c->req->overdue)
                srv_rest_cancel_if_ended(c->req);
        }
    }
}

/* Closes the I/O loop in three steps, one per turn. The loop still answers requests that arrived
 * before closing began. */
static void close_down(struct srv_rest_loop *l)
{
    if (l->closing_turn > 2)
        return;
    l->again = true;
    if (l->closing_turn == 0)
        srv_rest_shorten_deadlines(l);
    /* accepts waiting connections before the listening sockets are closed */
    if (l->closing_turn == 1) {
        for (int i = 0; i < SRV_N_REST_ADDRESSES; i++)
            while (l->listen_fds[i] >= 0 && l->daemon && srv_rest_accept(l, i))
                ;
        srv_rest_accept_close(l);
        srv_rest_hang_up_idle(l);
    } else if (l->closing_turn == 2) {
        atomic_fetch_add(&l->rest->n_closed, 1);
    }
    l->closing_turn++;
}

static void run_daemon(struct srv_rest_loop *l)
{
    srv_rest_resume_handshakes(l);
    srv_rest_resume_deferred(l);
    srv_recv_hook = srv_rest_read;
    srv_handshake_hook = srv_rest_handshake;
    MHD_run(l->daemon);
    srv_recv_hook = NULL;
    srv_handshake_hook = NULL;
    srv_rest_suspend_handshakes(l);
}

static void *loop_main(void *arg)
{
    struct srv_rest_loop *l = arg;
    srv_rest_this_loop = l;
    l->now_ns = rt_now_ns();
    while (!l->stopping) {
        struct epoll_event events[32];
        int n = epoll_wait(l->epoll, events, 32, wait_ms(l));
        l->now_ns = rt_now_ns();
        l->again = false;
        read_events(l, events, n);
        srv_io_loop_begin_turn(&l->io_loop);
        srv_rest_expire(l, &l->handshakes, l->now_ns);
        if (l->daemon)
            run_daemon(l);
        if (l->closing)
            close_down(l);
        srv_io_loop_end_turn(&l->io_loop);
        srv_rest_accept_again(l);
        srv_rest_end_connections(l);
        srv_rest_expire(l, &l->fresh, l->now_ns);
        srv_rest_expire(l, &l->reading, l->now_ns);
        srv_rest_expire(l, &l->idle, l->now_ns);
        srv_rest_expire(l, &l->lingering, l->now_ns);
        srv_rest_watch_sending(l, l->now_ns);
        srv_rest_watch(l, l->now_ns);
    }
    /* All jobs have been completed. Suspended connections must be resumed before the daemon
     * stops. */
    struct srv_link *const lists[] = {&l->deferred, &l->waiting, &l->overdue};
    for (int i = 0; i < 3; i++)
        while (lists[i]->next != lists[i])
            srv_rest_resume((struct srv_rest_call *)(void *)lists[i]->next);
    if (l->daemon) {
        srv_rest_end_lingering(l);
        run_daemon(l);
        srv_rest_resume_all_handshakes(l);
        MHD_stop_daemon(l->daemon);
    }
    srv_rest_free_calls(l);
    return NULL;
}

static void wake(struct srv_io_loop *io_loop)
{
    struct srv_rest_loop *l = io_loop->loop;
    uint64_t one = 1;
    if (write(l->wake_fd, &one, sizeof one) < 0)
        return; /* if the eventfd's counter is full, the I/O loop is already awake */
}

/* ---- orders to an I/O loop, by message ---- */

static void log_daemon(void *arg, const char *fmt, va_list ap) RT_PRINTF(2, 0);
static void log_daemon(void *arg, const char *fmt, va_list ap) RT_PRINTF(2, 0);
static void log_daemon(void *arg, const char *fmt, va_list ap)
{
    (void)arg;
    char text[256];
    vsnprintf(text, sizeof text, fmt, ap);
    size_t n = strlen(text);
    while (n && text[n - 1] == '\n')
        text[--n] = '\0';
    RT_LOG(RT_LOG_DEBUG, "event=http detail=\"%s\"", text);
}

/* GnuTLS's default priorities without deprecated protocols and without Diffie-Hellman over finite
 * fields. With Diffie-Hellman over finite fields, a client could choose a group of 8192 bits, and
 * each handshake would take the server 190 ms. */
static char priorities[] = "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1:-GROUP-DH-ALL:-DHE-RSA:-DHE-DSS";

static bool start_daemon(struct srv_rest_loop *l)
{
    const struct srv_options *o = &l->io_loop.server->options;
    int connections = l->rest->most_open / l->rest->n_loops;
    l->most_open = connections < 1 ? 1 : connections;
    /* Size in bytes of libmicrohttpd's memory for a connection. It contains the headers of the
     * request and the response, and a part of the body. libmicrohttpd clears it for each request,
     * so a larger size costs time. */
    size_t memory = (size_t)o->max_header_bytes + (8 << 10);
    const struct srv_rest_tls *tls = &l->rest->tls;
    struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, tls->cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, tls->key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, priorities},
        {tls->client_ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, tls->client_ca},
        {MHD_OPTION_END, 0, NULL},
    };
    if (!tls->cert)
        secure[0].option = MHD_OPTION_END;
    /* With its own timeouts, libmicrohttpd would read the clock at every system call. This server
     * checks its lists of connections by deadline instead. */
    l->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_SUPPRESS_DATE_NO_CLOCK |
            MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET | (tls->cert ? MHD_USE_TLS : 0),
        0, NULL, NULL, srv_rest_on_request, l, MHD_OPTION_EXTERNAL_LOGGER, log_daemon, NULL,
        MHD_OPTION_URI_LOG_CALLBACK, srv_rest_on_uri, l, MHD_OPTION_NOTIFY_COMPLETED,
        srv_rest_on_completed, l, MHD_OPTION_NOTIFY_CONNECTION, srv_rest_on_connection, l,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)l->most_open, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        memory, MHD_OPTION_ARRAY, secure, MHD_OPTION_END);
    if (!l->daemon)
        return false;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD_LINUX_ONLY);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &l->daemon};
    return info && epoll_ctl(l->epoll, EPOLL_CTL_ADD, info->epoll_fd, &ev) == 0 &&
           srv_rest_accept_open(l);
}

static void receive_listen(struct srv_io_loop *io_loop, struct srv_message *message)
{
    (void)message;
    struct srv_rest_loop *l = io_loop->loop;
    struct srv_rest *r = l->rest;
    bool good = start_daemon(l);
    rt_mutex_lock(&r->mu);
    r->n_reported++;
    r->n_failed += !good;
    rt_cond_signal(&r->reported);
    rt_mutex_unlock(&r->mu);
}

static void receive_quiesce(struct srv_io_loop *io_loop, struct srv_message *message)
{
    (void)message;
    struct srv_rest_loop *l = io_loop->loop;
    l->closing = true;
}

static void receive_stop(struct srv_io_loop *io_loop, struct srv_message *message)
{
    (void)message;
    struct srv_rest_loop *l = io_loop->loop;
    l->stopping = true;
}

/* ---- start and stop ---- */

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void free_rest(struct srv_rest *r)
{
    for (int i = 0; i < r->n_loops; i++) {
        close_fd(r->loops[i].epoll);
        close_fd(r->loops[i].wake_fd);
        for (int k = 0; k < SRV_N_REST_ADDRESSES; k++)
            close_fd(r->loops[i].listen_fds[k]);
        srv_rest_wire_clear(&r->loops[i]);
        free(r->loops[i].page_fds);
    }
    srv_rest_tls_clear(&r->tls);
    srv_rest_files_close(r);
    rt_mutex_clear(&r->mu);
    rt_cond_clear(&r->reported);
    srv_rest_background_clear(r);
    free(r->loops);
    free(r);
}

static enum rt_status start_loop(struct srv_rest *r, struct srv_rest_loop *l, int index,
                                 struct rt_error *err)
{
    struct srv_server *server = r->server;
    srv_io_loop_init(&l->io_loop, server, "REST", wake, l);
    l->io_loop.index = index;
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &l->wake_fd};
    if (l->epoll < 0 || l->wake_fd < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake_fd, &ev) < 0)
        return rt_fail(err, RT_INTERNAL, "a REST loop cannot start: %s", strerror(errno));
    srv_list_init(&l->handshakes);
    srv_list_init(&l->handshakes_resumed);
    srv_list_init(&l->handshakes_ready);
    srv_list_init(&l->handshakes_suspended);
    srv_list_init(&l->fresh);
    srv_list_init(&l->reading);
    srv_list_init(&l->idle);
    srv_list_init(&l->sending);
    srv_list_init(&l->lingering);
    srv_list_init(&l->waiting);
    srv_list_init(&l->overdue);
    srv_list_init(&l->deferred);
    srv_list_init(&l->ended);
    if (!srv_rest_wire_init(l))
        return rt_fail_memory(err, "a REST loop", 0);
    char name[32];
    snprintf(name, sizeof name, "rest %d", index);
    int e = rt_thread_start(&l->thread, name, loop_main, l);
    if (e)
        return rt_fail(err, RT_INTERNAL, "a REST thread cannot start: %s", strerror(e));
    l->running = true;
    return RT_OK;
}

/* Lists the headers that the quotas and the protocols read, in addition to those that
 * libmicrohttpd always receives. */
static void list_headers(struct srv_rest *r)
{
    const struct srv_protocols *protocols = r->server->protocols;
    int n = 0;

    if (r->server->quota)
        r->also_kept[n++] = r->server->options.quota_client;
    for (int i = 0; i < protocols->n; i++)
        if (protocols->row[i]->json_length_header) {
            assert(n < SRV_REST_MAX_ALSO_KEPT);
            r->also_kept[n++] = protocols->row[i]->json_length_header;
        }
}

enum rt_status srv_rest_start(struct srv_server *server, srv_rest_handler *handle,
                              struct srv_rest **out, struct rt_error *err)
{
    int64_t n = server->options.num_rest_threads;
    if (n <= 0)
        n = (rt_machine_cores() + 3) / 4;
    if (n > SRV_MAX_IO_LOOPS - server->n_io_loops)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%lld network threads, %d are possible",
                       (long long)n, SRV_MAX_IO_LOOPS - server->n_io_loops);
    struct srv_rest *r = calloc(1, sizeof *r);
    struct srv_rest_loop *loops = calloc((size_t)n, sizeof *loops);
    if (!r || !loops) {
        free(r);
        free(loops);
        return rt_fail_memory(err, "the REST server", (size_t)n * sizeof *loops);
    }
    r->server = server;
    r->handle = handle;
    r->loops = loops;
    r->n_loops = (int)n;
    r->id_seed = (uint64_t)rt_wall_ns() << 8;
    list_headers(r);
    srv_rest_accept_init(r);
    rt_mutex_init(&r->mu);
    rt_cond_init(&r->reported);
    for (int i = 0; i < r->n_loops; i++) {
        loops[i].rest = r;
        loops[i].epoll = loops[i].wake_fd = -1;
        for (int k = 0; k < SRV_N_REST_ADDRESSES; k++)
            loops[i].listen_fds[k] = -1;
    }
    enum rt_status st = srv_rest_background_start(r, err);
    if (!st)
        st = srv_rest_files_open(r, err);
    if (!st)
        st = srv_rest_tls_read(&r->tls, &server->options, err);
    if (st) {
        srv_rest_stop(r);
        return st;
    }
    for (int i = 0; i < r->n_loops; i++) {
        st = start_loop(r, &loops[i], server->n_io_loops, err);
        if (st) {
            srv_rest_stop(r);
            return st;
        }
        server->io_loops[server->n_io_loops++] = &loops[i].io_loop;
    }
    *out = r;
    return RT_OK;
}

enum rt_status srv_rest_listen(struct srv_rest *r, struct rt_error *err)
{
    for (int i = 0; i < r->n_loops; i++) {
        r->loops[i].listen_message.receive = receive_listen;
        srv_message_post(&r->loops[i].io_loop, &r->loops[i].listen_message);
    }
    rt_mutex_lock(&r->mu);
    while (r->n_reported < r->n_loops)
        rt_cond_wait(&r->reported, &r->mu);
    int failed = r->n_failed;
    rt_mutex_unlock(&r->mu);
    if (failed)
        return rt_fail(err, RT_UNAVAILABLE, "the REST server cannot start");
    return RT_OK;
}

void srv_rest_quiesce(struct srv_rest *r)
{
    if (atomic_exchange(&r->quiescing, true))
        return;
    for (int i = 0; i < r->n_loops; i++) {
        r->loops[i].quiesce_message.receive = receive_quiesce;
        srv_message_post(&r->loops[i].io_loop, &r->loops[i].quiesce_message);
    }
}

int srv_rest_in_flight(struct srv_rest *r)
{
    /* An I/O loop that has not finished closing counts as one request, because it may still receive
     * requests. */
    int receive = atomic_load(&r->quiescing) ? r->n_loops - atomic_load(&r->n_closed) : 0;
    return receive + atomic_load(&r->server->rest_requests);
}

void srv_rest_cancel_all(struct srv_rest *r)
{
    atomic_store(&r->cancels, true);
    for (int i = 0; i < r->n_loops; i++)
        wake(&r->loops[i].io_loop); /* each loop cancels its requests at the end of its turn */
}

void srv_rest_stop(struct srv_rest *r)
{
    if (!r)
        return;
    srv_rest_background_stop(r);
    for (int i = 0; i < r->n_loops; i++)
        if (r->loops[i].running) {
            r->loops[i].stop_message.receive = receive_stop;
            srv_message_post(&r->loops[i].io_loop, &r->loops[i].stop_message);
        }
    for (int i = 0; i < r->n_loops; i++)
        if (r->loops[i].running)
            pthread_join(r->loops[i].thread, NULL);
    free_rest(r);
}
