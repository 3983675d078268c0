#include <errno.h>
#include <fcntl.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "server/base/sockets.h"
#include "server/grpc/grpc_frames.h"
#include "server/grpc/grpc_internal.h"
#include "server/grpc/read_turns.h"
#include "server/versions/manager.h"

enum {
    PAUSE_US = 100000,
    /* minimum idle time of a connection that is closed for a new one, as for REST */
    IDLE_MS = 1000,
    /* The core must free a closed descriptor within FREED_STEPS steps of FREED_STEP_US us. */
    FREED_STEP_US = 1000,
    FREED_STEPS = 100,
};

/* ---- accepting ---- */

static void give_to_core(grpc_server *core, int fd)
{
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    int one = 1;

    /* the option has no effect on a UNIX socket */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    srv_grpc_frames_begin(fd);
    grpc_server_add_channel_from_fd(core, fd, plain);
    grpc_server_credentials_release(plain);
}

static bool has_calls(const void *arg, int fd)
{
    const struct srv_grpc *g = arg;

    return atomic_load(&g->calls_of[fd % SRV_GRPC_CONNECTIONS]) > 0;
}

/* Closes an idle connection for a new one, and moves the new connection to the descriptor that
 * becomes free. Returns the new descriptor, or -1 if none below max_fd becomes free. In any case fd
 * is closed. */
static int make_room(const struct srv_listener *l, int fd, int max_fd)
{
    int to = -1;

    if (srv_grpc_frames_close_idle(max_fd, IDLE_MS, has_calls, l->grpc))
        for (int i = 0; i < FREED_STEPS && to < 0; i++) {
            usleep(FREED_STEP_US);
            to = fcntl(fd, F_DUPFD_CLOEXEC, 0);
            if (to >= max_fd) {
                close(to);
                to = -1;
            }
        }
    close(fd);
    if (to >= 0)
        srv_turns_begin(to);
    return to;
}

/* Accepts all waiting connections. Returns false if no descriptor is free for another
 * connection. */
static bool accept_from(const struct srv_listener *l, const struct srv_listen_fd *at, int max_fd)
{
    for (;;) {
        int fd = accept4(at->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0 && errno == EAGAIN)
            return true;
        if (fd < 0)
            srv_grpc_frames_close_idle(max_fd, IDLE_MS, has_calls, l->grpc);
        else if (fd >= max_fd)
            fd = make_room(l, fd, max_fd);
        if (fd < 0)
            return false;
        atomic_fetch_add_explicit(&l->grpc->server->n_accepted, 1, memory_order_relaxed);
        srv_manager_expect_close(l->grpc->server);
        give_to_core(at->core, fd);
    }
}

static int most_fds(void)
{
    int most = srv_files_left(srv_files_left(srv_files_limit()));

    return most < SRV_GRPC_MAX_FD ? most : SRV_GRPC_MAX_FD;
}

static void *accept_all(void *arg)
{
    struct srv_listener *l = arg;
    struct pollfd fds[SRV_MAX_LISTEN + 1];
    int max_fd = most_fds();
    bool warned = false, stopping = false;

    for (int i = 0; i < l->n; i++)
        fds[i] = (struct pollfd){.fd = l->at[i].fd, .events = POLLIN};
    fds[l->n] = (struct pollfd){.fd = l->stop_fd, .events = POLLIN};
    while (!stopping) {
        bool has_capacity = true;
        if (poll(fds, (nfds_t)l->n + 1, -1) < 0 && errno != EINTR)
            break;
        /* connections that are already waiting are accepted before the socket is closed */
        stopping = fds[l->n].revents != 0;
        for (int i = 0; i < l->n; i++)
            has_capacity &= !(fds[i].revents & POLLIN) || accept_from(l, &l->at[i], max_fd);
        if (has_capacity || stopping)
            continue;
        if (!warned)
            RT_LOG(RT_LOG_WARNING, "gRPC: too many connections for the limit of open files; "
                                   "no more are taken until others close");
        warned = true;
        usleep(PAUSE_US);
    }
    return NULL;
}

void srv_listener_init(struct srv_listener *l, struct srv_grpc *grpc)
{
    *l = (struct srv_listener){.grpc = grpc, .stop_fd = -1};
}

enum rt_status srv_listener_start(struct srv_listener *l, struct rt_error *err)
{
    if (!l->n)
        return RT_OK;
    l->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (l->stop_fd < 0 || rt_thread_start(&l->thread, "grpc-accept", accept_all, l))
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "cannot start a thread that accepts");
    l->is_running = true;
    return RT_OK;
}

void srv_listener_close(struct srv_listener *l)
{
    struct stat now;
    uint64_t one = 1;

    if (l->is_running && write(l->stop_fd, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(l->thread, NULL);
    for (int i = 0; i < l->n; i++) {
        struct srv_listen_fd *at = &l->at[i];
        close(at->fd);
        /* The path is not removed if it now refers to the socket file of another server. */
        if (*at->path && stat(at->path, &now) == 0 && now.st_ino == at->made.st_ino &&
            now.st_dev == at->made.st_dev)
            unlink(at->path);
    }
    if (l->stop_fd >= 0)
        close(l->stop_fd);
    srv_listener_init(l, l->grpc);
}

/* ---- TCP ---- */

static int bind_tcp(const struct addrinfo *a)
{
    int one = 1, zero = 0;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (a->ai_family == AF_INET6) /* "::" also includes the IPv4 addresses */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int e = errno;
    close(fd);
    errno = e;
    return -1;
}

static int port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
    socklen_t n = sizeof at;

    if (getsockname(fd, &at.any, &n))
        return 0;
    return ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
}

/* Listens on every address of a host name, on one port. Addresses that this machine does not have
 * are skipped; an address that is in use is an error. */
enum rt_status srv_listen_tcp(struct srv_listener *l, grpc_server *core, const char *address,
                              int port, int *bound, struct rt_error *err)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *found = NULL;
    char service[16];
    int saved = 0;

    errno = 0;
    *bound = 0;
    snprintf(service, sizeof service, "%d", port);
    int e = getaddrinfo(address, service, &want, &found);
    for (const struct addrinfo *a = e ? NULL : found; a && l->n < SRV_MAX_LISTEN; a = a->ai_next) {
        /* if `port` is 0, the kernel chooses the port, and only one address is bound */
        int fd = *bound && !port ? -1 : bind_tcp(a);
        if (fd < 0) {
            saved = saved == EADDRINUSE ? saved : errno;
            continue;
        }
        l->at[l->n++] = (struct srv_listen_fd){.fd = fd, .core = core};
        *bound = port_of(fd);
    }
    if (!e)
        freeaddrinfo(found);
    if (*bound && saved != EADDRINUSE)
        return RT_OK;
    return rt_fail(err, RT_UNAVAILABLE,
                   strchr(address, ':') ? "cannot listen on [%s]:%d for gRPC: %s"
                                        : "cannot listen on %s:%d for gRPC: %s",
                   address, port, e ? gai_strerror(e) : strerror(saved));
}

/* ---- UNIX sockets ---- */

static enum rt_status check_path(const char *path, const char *flag, struct rt_error *err)
{
    struct stat there;

    if (lstat(path, &there) == 0 && !S_ISSOCK(there.st_mode))
        return rt_fail(err, RT_INVALID_ARGUMENT, "--%s=%s is there and is not a socket", flag,
                       path);
    return RT_OK;
}

/* Listens on a UNIX socket. The core's own listener would take over the path of a running server,
 * and remove the path when it closes. This socket is bound to a temporary path and renamed to
 * `path`, so that `path` always refers to a listening socket. */
enum rt_status srv_listen_unix(struct srv_listener *l, grpc_server *core, const char *path,
                               int mode, const char *flag, struct rt_error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char beside[sizeof at.sun_path];
    int n = snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    enum rt_status st = check_path(path, flag, err);

    if (st)
        return st;
    if (l->n == SRV_MAX_LISTEN)
        return rt_fail(err, RT_INTERNAL, "too many listeners");
    if (n < 0 || (size_t)n >= sizeof beside)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--%s=%s is too long for a socket", flag, path);
    struct srv_listen_fd *made = &l->at[l->n];
    *made = (struct srv_listen_fd){.core = core};
    memcpy(at.sun_path, beside, (size_t)n + 1);
    snprintf(made->path, sizeof made->path, "%s", path);
    unlink(beside); /* a crashed process with the same process ID may have left this file */
    made->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made->fd < 0 || bind(made->fd, (const struct sockaddr *)&at, sizeof at) ||
        (mode && chmod(beside, (mode_t)mode)) || listen(made->fd, SOMAXCONN) ||
        stat(beside, &made->made) || rename(beside, path)) {
        int e = errno;
        unlink(beside);
        if (made->fd >= 0)
            close(made->fd);
        return rt_fail(err, RT_UNAVAILABLE, "cannot listen on UNIX socket %s: %s", path,
                       strerror(e));
    }
    l->n++;
    return RT_OK;
}
