#include "server/http/rest_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int bind_one(const struct addrinfo *a)
{
    int one = 1, zero = 0;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int e = errno;
    close(fd);
    errno = e;
    return -1;
}

static enum rt_status open_socket(const char *what, const char *address, int port, int *out,
                                  struct rt_error *err)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *found;
    const char *const any[] = {"::", "0.0.0.0"};
    bool all = !address || !*address;
    char service[16];
    int fd = -1, e = 0;
    snprintf(service, sizeof service, "%d", port);
    for (int i = 0; i < (all ? 2 : 1) && fd < 0; i++) {
        e = getaddrinfo(all ? any[i] : address, service, &want, &found);
        if (e)
            continue;
        for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
            fd = bind_one(a);
        int saved = errno;
        freeaddrinfo(found);
        errno = saved;
    }
    if (fd < 0)
        return rt_fail(err, RT_UNAVAILABLE, "cannot listen for %s at %s:%d: %s", what,
                       all ? "[::]" : address, port, e ? gai_strerror(e) : strerror(errno));
    *out = fd;
    return RT_OK;
}

enum rt_status srv_rest_bind(struct srv_rest *r, enum srv_rest_address which, const char *address,
                             int port, int *bound, struct rt_error *err)
{
    static const char *const names[SRV_N_REST_ADDRESSES] = {"REST", "the page"};
    int fd = -1;
    const enum rt_status st = open_socket(names[which], address, port, &fd, err);
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name = {0};
    socklen_t n = sizeof name;

    if (st)
        return st;
    if (getsockname(fd, &name.any, &n) == 0)
        *bound = ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port : name.v4.sin_port);
    /* Each I/O loop has its own descriptor for the same listening socket. */
    for (int i = 0; i < r->n_loops; i++) {
        const int own = i == 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (own < 0)
            return rt_fail(err, RT_UNAVAILABLE, "cannot listen for %s at port %d: %s", names[which],
                           port, strerror(errno));
        r->loops[i].listen_fds[which] = own;
    }
    return RT_OK;
}
