#include <errno.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/thread.h"
#include "server/grpc_parts.h"

static void *accept_all(void *arg)
{
    struct srv_unix *u = arg;

    for (;;) {
        struct pollfd fds[2] = {{.fd = u->listen_fd, .events = POLLIN},
                                {.fd = u->stop_fd, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents)
            break;
        if (!(fds[0].revents & POLLIN))
            continue;
        int fd = accept4(u->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                usleep(100000);
            continue;
        }
        grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
        grpc_server_add_channel_from_fd(u->core, fd, plain);
        grpc_server_credentials_release(plain);
    }
    return NULL;
}

/* Bound beside and renamed into place, so that the path always names a socket that listens. */
enum rt_status srv_unix_listen(struct srv_unix *u, grpc_server *core, const char *path,
                               const char *flag, struct rt_error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char beside[sizeof at.sun_path];
    int n = snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());

    if (n < 0 || (size_t)n >= sizeof beside)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--%s=%s is too long for a socket", flag, path);
    u->core = core;
    memcpy(at.sun_path, beside, (size_t)n + 1);
    snprintf(u->path, sizeof u->path, "%s", path);
    unlink(beside); /* left by a process of our number that died */
    u->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    u->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (u->listen_fd < 0 || u->stop_fd < 0 ||
        bind(u->listen_fd, (const struct sockaddr *)&at, sizeof at) || listen(u->listen_fd, 1024) ||
        stat(beside, &u->socket) || rename(beside, path) ||
        rt_thread_start(&u->acceptor, "grpc-accept", accept_all, u)) {
        int e = errno;
        unlink(beside);
        if (u->listen_fd >= 0)
            close(u->listen_fd);
        if (u->stop_fd >= 0)
            close(u->stop_fd);
        u->listen_fd = u->stop_fd = -1;
        return rt_fail(err, RT_UNAVAILABLE, "cannot listen on UNIX socket %s: %s", path,
                       strerror(e));
    }
    return RT_OK;
}

void srv_unix_close(struct srv_unix *u)
{
    struct stat now;
    uint64_t one = 1;

    if (u->listen_fd < 0)
        return;
    if (write(u->stop_fd, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(u->acceptor, NULL);
    close(u->listen_fd);
    close(u->stop_fd);
    u->listen_fd = u->stop_fd = -1;
    if (stat(u->path, &now) == 0 && now.st_ino == u->socket.st_ino &&
        now.st_dev == u->socket.st_dev)
        unlink(u->path);
}
