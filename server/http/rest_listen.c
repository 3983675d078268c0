#include "server/http/rest_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/sockets.h"

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
            fd = srv_socket_listen(a);
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

    if (st)
        return st;
    *bound = srv_socket_port(fd);
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
