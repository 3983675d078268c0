#include "server/base/sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/files/file.h"
#include "server/base/number.h"

static int option_of(int fd, int option)
{
    int value = -1;
    socklen_t n = sizeof value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &n) ? -1 : value;
}

int srv_files_rest_share(int64_t max_connections)
{
    const int half = rt_file_unreserved(rt_file_limit()) / 2;
    return max_connections < half ? (int)max_connections : half;
}

int srv_files_grpc_share(int64_t max_connections, bool has_rest)
{
    const int rest = has_rest ? srv_files_rest_share(max_connections) : 0;
    return rt_file_unreserved(rt_file_limit()) - rest;
}

/* accept4 also returns pending network errors of the new socket (accept(2)) */
enum srv_accept_next srv_accept_failed(int error)
{
    switch (error) {
    case EAGAIN:
        return SRV_ACCEPT_WAIT;
    case EINTR:
    case ECONNABORTED:
    case EPERM: /* a firewall rule forbids the connection */
    case EPROTO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case ETIMEDOUT:
        return SRV_ACCEPT_AGAIN;
    default:
        return SRV_ACCEPT_PAUSE;
    }
}

int srv_sockets(int *fds, int capacity)
{
    DIR *all = opendir("/proc/self/fd");
    const struct dirent *e;
    int n = 0;

    while (all && n < capacity && (e = readdir(all))) {
        int64_t number;
        if (!srv_parse_int64(e->d_name, strlen(e->d_name), &number))
            continue; /* skips "." and ".." */
        int fd = (int)number;
        if (fd != dirfd(all) && option_of(fd, SO_TYPE) == SOCK_STREAM &&
            option_of(fd, SO_ACCEPTCONN) == 0) {
            if (fds)
                fds[n] = fd;
            n++;
        }
    }
    if (all)
        closedir(all);
    return all ? n : -1;
}

bool srv_socket_has_unread(int fd)
{
    int n = 0;

    return ioctl(fd, FIONREAD, &n) == 0 && n > 0;
}

bool srv_socket_is_over(int fd)
{
    struct pollfd now = {.fd = fd, .events = POLLRDHUP};

    return poll(&now, 1, 0) == 1 &&
           ((now.revents & (POLLERR | POLLHUP)) || !srv_socket_has_unread(fd));
}

bool srv_socket_acked(int fd, uint64_t *bytes)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n))
        return false;
    *bytes = info.tcpi_bytes_acked;
    return true;
}

void srv_socket_limit_unsent(int fd, int bytes)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

void srv_socket_peer(int fd, char *out, size_t capacity)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {.any.sa_family = AF_UNSPEC};
    socklen_t n = sizeof at;
    char ip[INET6_ADDRSTRLEN] = "";

    *out = '\0';
    if (getpeername(fd, &at.any, &n))
        return;
    if (at.any.sa_family == AF_UNIX) {
        snprintf(out, capacity, "unix:");
    } else if (at.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &at.v4.sin_addr, ip, sizeof ip);
        snprintf(out, capacity, "ipv4:%s:%d", ip, ntohs(at.v4.sin_port));
    } else if (at.any.sa_family == AF_INET6) {
        bool mapped = IN6_IS_ADDR_V4MAPPED(&at.v6.sin6_addr);
        inet_ntop(mapped ? AF_INET : AF_INET6, &at.v6.sin6_addr.s6_addr[mapped ? 12 : 0], ip,
                  sizeof ip);
        snprintf(out, capacity, mapped ? "ipv4:%s:%d" : "ipv6:[%s]:%d", ip, ntohs(at.v6.sin6_port));
    }
}

int srv_socket_listen(const struct addrinfo *address)
{
    int one = 1, zero = 0;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (address->ai_family == AF_INET6) /* lets "::" include the IPv4 addresses */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    const int e = errno;
    close(fd);
    errno = e;
    return -1;
}

int srv_socket_port(int fd)
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
