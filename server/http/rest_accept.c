/*
 * Accepts connections and passes them to libmicrohttpd. This module, not libmicrohttpd, calls
 * accept. At the limit of open files, libmicrohttpd would accept no connections until one of its
 * connections ends. Clients that keep their connections open, such as proxies, would then shut out
 * all other clients.
 */
#include "server/http/rest_connection.h"
#include "server/http/rest_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/files/file.h"
#include "server/base/sockets.h"
#include "server/metrics/metrics.h"

enum {
    /* Maximum number of connections that an I/O loop accepts per turn before it serves the open
     * ones. */
    BURST = 16,
    /* Maximum number of connections per turn that are accepted although the client has already
     * closed them. Closing such a connection costs much less than serving an open connection. */
    MOST_OVER = 256,
    RETRY_MS = 100,
    /* Times in milliseconds after which a connection may be closed in favour of a new one. FRESH_MS
     * applies to connections that wait for their first request, IDLE_MS to those that wait for
     * another request, and INCOMPLETE_MS to those with an incomplete request. Uploads and clients
     * that reuse their connections have more time than new connections. */
    FRESH_MS = 100,
    IDLE_MS = 500,
    INCOMPLETE_MS = 1000,
    /* A limit of open files that leaves fewer connections is reported at the start, even if
     * --max_connections is not given. */
    ENOUGH_OPEN = 1000,
};

void srv_rest_accept_init(struct srv_rest *r)
{
    int64_t wanted = r->server->options.max_connections;
    int files = rt_file_limit();

    r->most_fd = rt_file_unreserved(files);
    r->most_open = srv_files_rest_share(wanted);
    if (r->most_open >= wanted || (r->most_open >= ENOUGH_OPEN &&
                                   !srv_options_is_given(&r->server->options, "max_connections")))
        return;
    RT_LOG(RT_LOG_WARNING,
           "--max_connections=%lld is too many for the limit of open files (%d): REST has at most "
           "%d connections at a time; raise the limit to %lld (ulimit -n, or LimitNOFILE= of a "
           "systemd unit), or set a smaller --max_connections",
           (long long)wanted, files, r->most_open,
           (long long)(2 * wanted + files - rt_file_unreserved(files)));
}

/* Returns whether the I/O loop has a listening socket. */
static bool listens(const struct srv_rest_loop *l)
{
    for (int i = 0; i < SRV_N_REST_ADDRESSES; i++)
        if (l->listen_fds[i] >= 0)
            return true;
    return false;
}

/* Applies epoll_ctl's operation `op` to all listening sockets. Returns false if epoll_ctl fails. */
static bool listen_event(struct srv_rest_loop *l, int op, uint32_t events)
{
    bool good = true;

    for (int i = 0; i < SRV_N_REST_ADDRESSES; i++) {
        struct epoll_event ev = {.events = events, .data.ptr = &l->listen_fds[i]};
        if (l->listen_fds[i] >= 0)
            good &= epoll_ctl(l->epoll, op, l->listen_fds[i], &ev) == 0;
    }
    return good;
}

bool srv_rest_accept_open(struct srv_rest_loop *l)
{
    l->accepts = listens(l) && listen_event(l, EPOLL_CTL_ADD, EPOLLIN);
    return l->accepts;
}

/* Stops accepting connections. A descriptor must be removed from the epoll instance before it is
 * closed. Closing alone does not remove it, because other I/O loops have descriptors for the same
 * socket. */
void srv_rest_accept_close(struct srv_rest_loop *l)
{
    listen_event(l, EPOLL_CTL_DEL, 0);
    for (int i = 0; i < SRV_N_REST_ADDRESSES; i++) {
        if (l->listen_fds[i] >= 0)
            close(l->listen_fds[i]);
        l->listen_fds[i] = -1;
    }
    l->accepts = false;
}

/*
 * Pauses accepting for RETRY_MS milliseconds after descriptors or memory ran out, because no event
 * reports when they are available again.
 */
static void pause_accepting(struct srv_rest_loop *l, const char *why)
{
    if (l->accept_at_ns == 0)
        RT_LOG(RT_LOG_WARNING, "REST: cannot accept a connection: %s; tried again every %d ms", why,
               RETRY_MS);
    l->accept_at_ns = l->now_ns + RETRY_MS * 1000000LL;
}

/* Returns `c` or the first connection in `list`, whichever has waited longer. `c` may be NULL. */
static struct srv_rest_conn *older(struct srv_rest_conn *c, const struct srv_link *list)
{
    struct srv_rest_conn *first = (struct srv_rest_conn *)(void *)list->next;
    if (list->next == list)
        return c;
    return c && c->since_ns <= first->since_ns ? c : first;
}

/* Returns the connection that has waited longest for the rest of a request, a handshake or a
 * refused body. Returns NULL if there is none. */
static struct srv_rest_conn *longest_incomplete(const struct srv_rest_loop *l)
{
    return older(older(older(NULL, &l->reading), &l->handshakes), &l->lingering);
}

static int64_t closable_ns(const struct srv_rest_conn *c, int ms)
{
    return c ? c->since_ns + ms * INT64_C(1000000) : RT_NEVER;
}

/*
 * Returns the connection to close in favour of a new one: one that is idle after a request, else
 * one that waits for its first request, else one with an incomplete request. A connection whose
 * request has arrived completely is never closed. Returns NULL if no connection has waited for the
 * time of its state (FRESH_MS and others).
 */
static struct srv_rest_conn *longest_waiting(const struct srv_rest_loop *l)
{
    struct srv_rest_conn *idle = older(NULL, &l->idle), *fresh = older(NULL, &l->fresh);
    struct srv_rest_conn *incomplete = longest_incomplete(l);

    if (closable_ns(idle, IDLE_MS) <= l->now_ns)
        return idle;
    if (closable_ns(fresh, FRESH_MS) <= l->now_ns)
        return fresh;
    return closable_ns(incomplete, INCOMPLETE_MS) <= l->now_ns ? incomplete : NULL;
}

/* Returns the connection to close when the I/O loop has its maximum number of connections. Returns
 * NULL if there is none, or if another I/O loop has capacity for the new connection. */
static struct srv_rest_conn *to_close(const struct srv_rest_loop *l)
{
    if (atomic_load_explicit(&l->rest->n_open, memory_order_relaxed) <
        l->most_open * l->rest->n_loops)
        return NULL;
    return longest_waiting(l);
}

/* Called when a connection waits, and the connection limit is reached or no descriptor is free.
 * Closes the connection `c`, so that a later turn can accept the waiting one. Returns false if `c`
 * is NULL or has just begun a request. */
static bool close_one(struct srv_rest_loop *l, struct srv_rest_conn *c)
{
    struct srv_metrics *metrics = l->io_loop.server->metrics;
    char byte;

    if (!l->full_is_logged)
        RT_LOG(RT_LOG_WARNING,
               "REST: %d connections are open, and others wait: --max_connections, the limit of "
               "open files",
               l->n_open);
    if (!l->is_full)
        srv_metrics_event(metrics, "connections_full");
    l->full_is_logged = l->is_full = true;
    if (!c)
        return false;
    const bool is_idle = !c->is_reading && !c->is_handshake && !c->lingers;
    if (is_idle && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
        return false; /* a request has begun to arrive */
    srv_metrics_event(metrics, is_idle ? "idle_connection_closed" : "incomplete_request_closed");
    srv_rest_hang_up(c);
    return true;
}

/* Returns whether a descriptor is free for a connection. The check comes before accept4, so that a
 * client for which there is none stays in the queue of the listening socket. */
static bool has_descriptor(const struct srv_rest_loop *l)
{
    const int fd = fcntl(l->wake_fd, F_DUPFD_CLOEXEC, 0);

    if (fd >= 0)
        close(fd);
    return fd >= 0 && fd < l->rest->most_fd;
}

/* Called when a connection waits, and connections of gRPC and files have taken the descriptors
 * before REST has its maximum number of connections. */
static void close_idle(struct srv_rest_loop *l)
{
    if (!close_one(l, longest_waiting(l)))
        pause_accepting(l, "the limit of open files leaves no more beside other connections and "
                           "files");
}

/*
 * Notes at which address the connection `fd` has arrived, before MHD_add_connection is called.
 * Version 0.9.75 of libmicrohttpd calls srv_rest_on_connection inside of that call. Versions since
 * 0.9.77 call it later, when further connections, to the other address too, may have been accepted.
 * Returns false if memory runs out.
 */
static bool note_address(struct srv_rest_loop *l, int fd, enum srv_rest_address which)
{
    const size_t at = (size_t)fd / 8;
    const unsigned char bit = (unsigned char)(1U << fd % 8);

    if (which == SRV_REST_PAGE && at >= l->n_page_fds) {
        const size_t n = 2 * (at + 1);
        unsigned char *grown = realloc(l->page_fds, n);
        if (!grown)
            return false;
        memset(grown + l->n_page_fds, 0, n - l->n_page_fds);
        l->page_fds = grown;
        l->n_page_fds = n;
    }
    if (at < l->n_page_fds)
        l->page_fds[at] = (unsigned char)(which == SRV_REST_PAGE ? l->page_fds[at] | bit
                                                                 : l->page_fds[at] & ~bit);
    return true;
}

bool srv_rest_is_page(const struct srv_rest_loop *l, int fd)
{
    const size_t at = (size_t)fd / 8;

    return at < l->n_page_fds && (l->page_fds[at] >> fd % 8 & 1);
}

bool srv_rest_accept(struct srv_rest_loop *l, enum srv_rest_address which)
{
    if (l->n_open >= l->most_open) {
        close_one(l, to_close(l));
        return false;
    }
    int left = BURST, left_over = MOST_OVER;
    while (left > 0 && l->n_open < l->most_open) {
        if (!has_descriptor(l)) {
            close_idle(l);
            return false;
        }
        l->is_full = false;
        struct sockaddr_storage from;
        socklen_t n = sizeof from;
        int fd = accept4(l->listen_fds[which], (struct sockaddr *)(void *)&from, &n,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            enum srv_accept_next next = srv_accept_failed(errno);
            left--;
            if (next == SRV_ACCEPT_AGAIN && left > 0)
                continue;
            if (next != SRV_ACCEPT_WAIT)
                pause_accepting(l, strerror(errno));
            return false;
        }
        l->accept_at_ns = 0;
        if (srv_socket_is_over(fd)) {
            close(fd);
            if (--left_over == 0)
                return true;
            continue;
        }
        left--;
        if (!note_address(l, fd, which)) {
            close(fd);
            pause_accepting(l, "memory ran out");
            return false;
        }
        /* MHD_add_connection calls srv_rest_on_connection, or closes the descriptor if it fails. */
        MHD_add_connection(l->daemon, fd, (struct sockaddr *)(void *)&from, n);
    }
    return left == 0;
}

void srv_rest_accept_again(struct srv_rest_loop *l)
{
    bool has_capacity = l->n_open < l->most_open || !l->is_full || to_close(l);
    bool may = has_capacity && l->accept_at_ns <= l->now_ns;
    /* `daemon` may be NULL, because listen_fds are set before `daemon` */
    if (!l->daemon || !listens(l) || may == l->accepts)
        return;
    if (listen_event(l, EPOLL_CTL_MOD, may ? EPOLLIN : 0))
        l->accepts = may;
}

int64_t srv_rest_accept_look(const struct srv_rest_loop *l, int64_t now)
{
    /* `daemon` may be NULL, because listen_fds are set before `daemon` */
    if (!l->daemon || !listens(l))
        return RT_NEVER;
    if (l->accept_at_ns > now)
        return l->accept_at_ns;
    if (l->accepts)
        return RT_NEVER;
    const int64_t at[] = {closable_ns(older(NULL, &l->idle), IDLE_MS),
                          closable_ns(older(NULL, &l->fresh), FRESH_MS),
                          closable_ns(longest_incomplete(l), INCOMPLETE_MS)};
    int64_t first = RT_NEVER;
    for (int i = 0; i < 3; i++)
        /* Only a time in the future needs a check. At a time in the past, a connection was closed
         * in favour of a new one, or another I/O loop had capacity for the new connection. */
        if (at[i] > now && at[i] < first)
            first = at[i];
    return first;
}
