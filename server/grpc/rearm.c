#include "server/grpc/rearm.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

void srv_socket_rearm(int fd)
{
    struct pollfd now = {.fd = fd};
    int one = 1;

    if (poll(&now, 1, 0) == 1 && now.revents & (POLLERR | POLLHUP))
        shutdown(fd, SHUT_RDWR);
    else
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
}

static bool connect_pair(int fds[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fds[0] = fds[1] = -1;
    if (listener >= 0 && bind(listener, (struct sockaddr *)&at, n) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&at, &n) == 0) {
        fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[0] >= 0 && connect(fds[0], (struct sockaddr *)&at, sizeof at) == 0)
            fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    if (listener >= 0)
        close(listener);
    return fds[1] >= 0;
}

static bool comes(int epoll)
{
    struct epoll_event event;

    return epoll_wait(epoll, &event, 1, 1000) == 1;
}

bool srv_socket_can_rearm(void)
{
    struct epoll_event want = {.events = EPOLLIN | EPOLLET};
    int fds[2], epoll = epoll_create1(EPOLL_CLOEXEC);
    bool ok = connect_pair(fds) && epoll >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, fds[1], &want) &&
              write(fds[0], "x", 1) == 1 && comes(epoll);

    if (ok) {
        srv_socket_rearm(fds[1]);
        ok = comes(epoll);
    }
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (epoll >= 0)
        close(epoll);
    return ok;
}
