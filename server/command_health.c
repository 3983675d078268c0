/* `slipway health`, the image's health check: asks the server on this machine whether it is ready.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "server/command.h"

/* --NAME=N or --NAME N, the last one counts. */
static void take_port(int64_t *port, const char *name, const char *arg, const char *next)
{
    size_t n = strlen(name);
    const char *value = NULL;
    char *end;

    if (strncmp(arg, name, n) != 0)
        return;
    if (arg[n] == '=')
        value = arg + n + 1;
    else if (arg[n] == '\0')
        value = next;
    if (!value)
        return;
    long long v = strtoll(value, &end, 10);
    if (end != value && *end == '\0' && v >= 0 && v <= 65535)
        *port = v;
}

struct srv_health_ports srv_health_ports(const char *cmdline, size_t n)
{
    struct srv_health_ports p = {.rest = 8501, .grpc = 8500};

    for (size_t at = 0; at < n;) {
        size_t length = strnlen(cmdline + at, n - at);
        size_t next = at + length + 1;
        if (at + length == n)
            break; /* cut off */
        const char *after =
            next < n && memchr(cmdline + next, '\0', n - next) ? cmdline + next : NULL;
        take_port(&p.rest, "--rest_api_port", cmdline + at, after);
        take_port(&p.grpc, "--port", cmdline + at, after);
        at = next;
    }
    return p;
}

static int connect_to(int64_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 4};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) ||
        connect(fd, (const struct sockaddr *)&to, sizeof to)) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

/* The status line's code; 0: no HTTP came back. */
static int ask_ready(int fd)
{
    static const char request[] = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n"
                                  "Connection: close\r\n\r\n";
    char answer[64];
    size_t n = 0;
    int major, minor, code;

    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1)
        return 0;
    while (n < sizeof answer - 1) {
        ssize_t got = recv(fd, answer + n, sizeof answer - 1 - n, 0);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    answer[n] = '\0';
    return sscanf(answer, "HTTP/%1d.%1d %3d", &major, &minor, &code) == 3 ? code : 0;
}

static size_t read_cmdline(char *to, size_t size)
{
    FILE *f = fopen("/proc/1/cmdline", "re");
    size_t n = f ? fread(to, 1, size, f) : 0;

    if (f)
        fclose(f);
    return n;
}

int srv_command_health(int argc, const char *const *argv, const struct rt_registry *registry)
{
    static char cmdline[64 << 10];
    (void)registry;
    struct srv_health_ports p = srv_health_ports(cmdline, read_cmdline(cmdline, sizeof cmdline));

    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--rest_api_port", 15) != 0 && strncmp(argv[i], "--port", 6) != 0) {
            fprintf(stderr, "usage: slipway health [--rest_api_port=N] [--port=N]\n"
                            "Exit status 0: the server on this machine is ready. Without ports: "
                            "those of process 1's flags, or 8501 and 8500.\n");
            return strcmp(argv[i], "--help") == 0 ? 0 : 255;
        }
        take_port(&p.rest, "--rest_api_port", argv[i], NULL);
        take_port(&p.grpc, "--port", argv[i], NULL);
    }
    /* Without REST: the gRPC port is only open once every model has loaded. */
    int64_t port = p.rest ? p.rest : p.grpc;
    if (!port) {
        fprintf(stderr, "there is no port to ask\n");
        return 1;
    }
    int fd = connect_to(port);
    if (fd < 0) {
        fprintf(stderr, "port %lld: %s\n", (long long)port, strerror(errno));
        return 1;
    }
    int code = p.rest ? ask_ready(fd) : 200;
    close(fd);
    if (code == 200) {
        printf("ready\n");
        return 0;
    }
    if (code)
        fprintf(stderr, "/readyz answers %d\n", code);
    else
        fprintf(stderr, "port %lld answers no HTTP\n", (long long)port);
    return 1;
}
