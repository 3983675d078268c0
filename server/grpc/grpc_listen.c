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
#include "runtime/files/file.h"
#include "server/base/sockets.h"
#include "server/config/settings.h"
#include "server/grpc/grpc_frames.h"
#include "server/grpc/grpc_internal.h"
#include "server/grpc/read_turns.h"

enum {
    PAUSE_US = 100000,
    /* minimum idle time in milliseconds of a connection that is closed in favour of a new one */
    IDLE_MS = 1000,
    /* The core must free a closed descriptor within FREED_STEPS waits of FREED_STEP_US microseconds
     * each. */
    FREED_STEP_US = 1000,
    FREED_STEPS = 100,
    /* maximum number of consecutive failures of accept4 before a pause */
    MOST_FAILURES = 16,
    /* Maximum number of connections accepted from one listener, before the thread serves the other
     * listeners and checks whether the server is stopping. */
    MOST_AT_ONCE = 64,
    /* maximum number of waiting connections that each listener accepts when the server stops */
    MOST_LAST = 4096,
};

/* ---- secure connections ---- */

/*
 * grpc_server_add_channel_from_fd accepts only plaintext connections. The C++ library has an
 * "external connection acceptor", which passes the connections of other listeners to the core. This
 * file uses the same interface. If the address of a port begins with "external:", the core does not
 * listen. Instead, the core creates a grpc_core::TcpServerFdHandler. The channel argument whose key
 * is the port's address contains the place where the core stores a pointer to the handler. In the
 * table of virtual functions of TcpServerFdHandler, the first two entries belong to the virtual
 * destructor. The third entry is the function that takes over a connection. The table has had this
 * layout since gRPC 1.25.
 */
static const char secure_address[] = "external:slipway";

struct fd_handler {
    const struct {
        void (*destructors[2])(struct fd_handler *handler);
        /* takes ownership of `fd`, even if the function fails */
        void (*handle)(struct fd_handler *handler, int listener_fd, int fd,
                       grpc_byte_buffer *pending);
    } * functions;
};

static void *copy_pointer(void *p)
{
    return p;
}

static void keep_pointer(void *p)
{
    (void)p;
}

static int compare_pointers(void *a, void *b)
{
    return (a > b) - (a < b);
}

grpc_arg srv_grpc_secure_argument(struct srv_grpc_port *port)
{
    static const grpc_arg_pointer_vtable functions = {copy_pointer, keep_pointer, compare_pointers};

    return (grpc_arg){.type = GRPC_ARG_POINTER,
                      .key = (char *)(uintptr_t)secure_address,
                      .value.pointer = {&port->secure, &functions}};
}

enum rt_status srv_grpc_listen_secure(struct srv_grpc_port *port,
                                      grpc_server_credentials *credentials, struct rt_error *err)
{
    grpc_server_add_http2_port(port->core, secure_address, credentials);
    return port->secure ? RT_OK : rt_fail(err, RT_INTERNAL, "gRPC's core takes no connections");
}

/* ---- accepting ---- */

static void give_to_core(const struct srv_listen_fd *at, int fd)
{
    int one = 1;

    /* TCP_NODELAY has no effect on a UNIX socket */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    srv_grpc_frames_begin(fd, !at->is_secure);
    if (at->is_secure) {
        struct fd_handler *handler = at->port->secure;
        handler->functions->handle(handler, at->fd, fd, NULL);
        return;
    }
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    grpc_server_add_channel_from_fd(at->port->core, fd, plain);
    grpc_server_credentials_release(plain);
}

static bool has_calls(const void *arg, int fd)
{
    return srv_grpc_has_calls(arg, fd);
}

/* The maximum number of connections. Each connection has a descriptor below max_fd. */
struct limits {
    int max_fd, most_open;
};

/* Closes an idle connection in favour of the new connection `fd`. Unless `fd` is below max_fd,
 * moves `fd` to the descriptor that becomes free, and closes `fd`. Returns the descriptor of the
 * new connection. If no connection is idle or no descriptor becomes free, closes `fd` and returns
 * -1. */
static int make_room(const struct srv_listener *l, int fd, int max_fd)
{
    const bool is_closed = srv_grpc_frames_close_idle(max_fd, IDLE_MS, has_calls, l->grpc);
    int to = -1;

    if (is_closed && fd < max_fd)
        return fd;
    for (int i = 0; is_closed && i < FREED_STEPS && to < 0; i++) {
        usleep(FREED_STEP_US);
        to = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (to >= max_fd) {
            close(to);
            to = -1;
        }
    }
    close(fd);
    return to;
}

/* Accepts at most `most` waiting connections, so that other listeners do not wait during a flood.
 * Returns false if no descriptor or memory is free for another connection. */
static bool accept_from(const struct srv_listener *l, const struct srv_listen_fd *at,
                        const struct limits *limits, int most)
{
    int n_failed = 0;

    for (int n = 0; n < most; n++) {
        int fd = accept4(at->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            enum srv_accept_next next = srv_accept_failed(errno);
            if (next == SRV_ACCEPT_WAIT)
                return true;
            if (next == SRV_ACCEPT_AGAIN && ++n_failed < MOST_FAILURES)
                continue;
            if (next == SRV_ACCEPT_PAUSE)
                srv_grpc_frames_close_idle(limits->max_fd, IDLE_MS, has_calls, l->grpc);
            return false;
        }
        n_failed = 0;
        /* During a flood, most waiting connections are already closed. The core takes much longer
         * than this check to begin and end a connection. */
        if (srv_socket_is_over(fd)) {
            close(fd);
            continue;
        }
        if (fd >= limits->max_fd || srv_grpc_frames_n_open() >= limits->most_open)
            fd = make_room(l, fd, limits->max_fd);
        if (fd < 0)
            return false;
        srv_turns_begin(fd);
        give_to_core(at, fd);
    }
    return true;
}

static struct limits limits_of(const struct srv_options *o)
{
    const int most = rt_file_unreserved(rt_file_unreserved(rt_file_limit()));

    return (struct limits){
        .max_fd = most < SRV_GRPC_MAX_FD ? most : SRV_GRPC_MAX_FD,
        .most_open = srv_files_grpc_share(o->max_connections, srv_settings_wants_http(o)),
    };
}

static void *accept_all(void *arg)
{
    struct srv_listener *l = arg;
    struct pollfd fds[SRV_MAX_LISTEN + 1];
    const struct limits limits = limits_of(&l->grpc->server->options);
    bool warned = false, stopping = false;

    for (int i = 0; i < l->n; i++)
        fds[i] = (struct pollfd){.fd = l->at[i].fd, .events = POLLIN};
    fds[l->n] = (struct pollfd){.fd = l->stop_fd, .events = POLLIN};
    while (!stopping) {
        bool has_capacity = true;
        if (poll(fds, (nfds_t)l->n + 1, -1) < 0) { /* poll may fail for lack of memory */
            usleep(PAUSE_US);
            stopping = atomic_load(&l->grpc->quiesced);
            continue;
        }
        /* the loop accepts waiting connections once more before it closes the sockets */
        stopping = fds[l->n].revents != 0;
        for (int i = 0; i < l->n; i++)
            has_capacity &= !(fds[i].revents & POLLIN) ||
                            accept_from(l, &l->at[i], &limits, stopping ? MOST_LAST : MOST_AT_ONCE);
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
        /* A path that now refers to the socket file of another server is not removed. */
        if (*at->path && stat(at->path, &now) == 0 && now.st_ino == at->made.st_ino &&
            now.st_dev == at->made.st_dev)
            unlink(at->path);
    }
    if (l->stop_fd >= 0)
        close(l->stop_fd);
    srv_listener_init(l, l->grpc);
}

/* ---- TCP ---- */

/* Listens on every address of a host name, on one port. Skips addresses that this machine does not
 * have, but fails if an address is in use. */
enum rt_status srv_listen_tcp(struct srv_listener *l, struct srv_grpc_port *port, bool is_secure,
                              const char *address, int number, int *bound, struct rt_error *err)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *found = NULL;
    char service[16];
    int saved = 0;

    errno = 0;
    *bound = 0;
    snprintf(service, sizeof service, "%d", number);
    int e = getaddrinfo(address, service, &want, &found);
    for (const struct addrinfo *a = e ? NULL : found; a && l->n < SRV_MAX_LISTEN; a = a->ai_next) {
        /* if `number` is 0, the kernel chooses the port, so only one address is bound */
        int fd = *bound && !number ? -1 : srv_socket_listen(a);
        if (fd < 0) {
            saved = saved == EADDRINUSE ? saved : errno;
            continue;
        }
        l->at[l->n++] = (struct srv_listen_fd){.fd = fd, .port = port, .is_secure = is_secure};
        *bound = srv_socket_port(fd);
    }
    if (!e)
        freeaddrinfo(found);
    if (*bound && saved != EADDRINUSE)
        return RT_OK;
    return rt_fail(err, RT_UNAVAILABLE,
                   strchr(address, ':') ? "cannot listen on [%s]:%d for gRPC: %s"
                                        : "cannot listen on %s:%d for gRPC: %s",
                   address, number, e ? gai_strerror(e) : strerror(saved));
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
 * and remove the path when closed. This function binds the socket to a temporary path and renames
 * this path to `path`, so that `path` always refers to a listening socket. */
enum rt_status srv_listen_unix(struct srv_listener *l, struct srv_grpc_port *port, const char *path,
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
    *made = (struct srv_listen_fd){.port = port};
    memcpy(at.sun_path, beside, (size_t)n + 1);
    snprintf(made->path, sizeof made->path, "%s", path);
    unlink(beside); /* a crashed process with the same process ID may have left a file */
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
