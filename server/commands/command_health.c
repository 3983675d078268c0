/* Implements `slipway health`, the health check of the container image: queries the readiness of
 * the server on this machine. */
#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "server/commands/command.h"
#include "server/commands/health_grpc.h"
#include "runtime/base/print.h"

/* Returns VALUE if `arg` is NAME=VALUE, and `next` if `arg` is NAME. Otherwise returns NULL. `next`
 * may be NULL. */
static const char *value_of(const char *name, const char *arg, const char *next)
{
    const size_t n = strlen(name);
    if (strncmp(arg, name, n) != 0)
        return NULL;
    return arg[n] == '=' ? arg + n + 1 : arg[n] == '\0' ? next : NULL;
}

/* If `arg` is the flag `name` with a valid port number, sets *port and returns true. Otherwise
 * returns false. A later flag overrides an earlier one. */
static bool take_port(int64_t *port, const char *name, const char *arg, const char *next)
{
    const char *value = value_of(name, arg, next);
    char *end;
    const long long v = value ? strtoll(value, &end, 10) : 0;
    if (!value || end == value || *end || v < 0 || v > 65535)
        return false;
    *port = v;
    return true;
}

/* If `arg` is the flag `name`, sets *tls to whether its path is not empty, and returns true.
 * Otherwise returns false. */
static bool take_tls(bool *tls, const char *name, const char *arg, const char *next)
{
    const char *value = value_of(name, arg, next);
    if (value)
        *tls = *value != '\0';
    return value != NULL;
}

/* Parses one argument of a server's command line or of `slipway health`, and returns whether it is
 * known. `next` is the following argument. If it is NULL, the value must follow "=" in `arg`. */
static bool take(struct srv_health_ports *p, const char *arg, const char *next)
{
    return take_port(&p->rest, "--rest_api_port", arg, next) ||
           take_port(&p->grpc, "--port", arg, next) ||
           take_tls(&p->tls, "--rest_tls_cert_file", arg, next) ||
           take_tls(&p->grpc_tls, "--ssl_config_file", arg, next);
}

struct srv_health_ports srv_health_ports(const char *cmdline, size_t n)
{
    struct srv_health_ports p = {.rest = 8501, .grpc = 8500};

    for (size_t at = 0; at < n;) {
        size_t length = strnlen(cmdline + at, n - at);
        size_t next = at + length + 1;
        if (at + length == n)
            break; /* the command line was truncated, so the last argument is incomplete */
        const char *after =
            next < n && memchr(cmdline + next, '\0', n - next) ? cmdline + next : NULL;
        take(&p, cmdline + at, after);
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

static const char request[] = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n"
                              "Connection: close\r\n\r\n";

/* Returns the status code in an HTTP status line, or 0 if the text is not a status line. */
static int status_code(const char *response)
{
    int major, minor, code;
    return sscanf(response, "HTTP/%1d.%1d %3d", &major, &minor, &code) == 3 ? code : 0;
}

/* Queries readiness over plain HTTP. Returns the status code, or 0 if no HTTP response arrived. */
static int query_plain(int fd)
{
    char response[64];
    size_t n = 0;

    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1)
        return 0;
    while (n < sizeof response - 1) {
        ssize_t got = recv(fd, response + n, sizeof response - 1 - n, 0);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    response[n] = '\0';
    return status_code(response);
}

static int talk_tls(gnutls_session_t s)
{
    char response[64];
    size_t n = 0;
    ssize_t got;
    /* Maximum number of attempts after errors that are not fatal: timeouts, and TLS messages
     * without application data. */
    int tries = 3;

    do
        got = gnutls_handshake(s);
    while (got < 0 && !gnutls_error_is_fatal((int)got) && --tries);
    if (got >= 0)
        got = gnutls_record_send(s, request, sizeof request - 1);
    while (n < sizeof response - 1 && (got >= 0 || (!gnutls_error_is_fatal((int)got) && --tries))) {
        got = gnutls_record_recv(s, response + n, sizeof response - 1 - n);
        if (got == 0)
            break;
        if (got > 0)
            n += (size_t)got;
    }
    response[n] = '\0';
    /* A server that requires a client certificate sends no response, because this command has no
     * certificate. The server is running, so it counts as ready. */
    if (!n && gnutls_certificate_client_get_request_status(s))
        return 200;
    return status_code(response);
}

/* Queries readiness over TLS. Returns the same values as query_plain. Does not verify the server's
 * certificate, because nothing secret is sent. */
static int query_tls(int fd)
{
    gnutls_certificate_credentials_t none;
    gnutls_session_t s;
    int code = 0;

    if (gnutls_certificate_allocate_credentials(&none) < 0)
        return 0;
    /* A server that refuses the handshake may close the connection before the first write.
     * GNUTLS_NO_SIGNAL prevents a SIGPIPE. */
    if (gnutls_init(&s, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL) >= 0) {
        if (gnutls_set_default_priority(s) >= 0 &&
            gnutls_credentials_set(s, GNUTLS_CRD_CERTIFICATE, none) >= 0) {
            gnutls_transport_set_int(s, fd);
            gnutls_handshake_set_timeout(s, 4000);
            code = talk_tls(s);
        }
        gnutls_deinit(s);
    }
    gnutls_certificate_free_credentials(none);
    return code;
}

/* Connects to a port of this machine. Returns -1 and prints the error if the port is not open. */
static int open_port(int64_t port)
{
    int fd = connect_to(port);

    if (fd < 0)
        rt_print(stderr, "port %lld: %s\n", (long long)port, strerror(errno));
    return fd;
}

static bool by_rest(const struct srv_health_ports *p)
{
    const int fd = open_port(p->rest);

    if (fd < 0)
        return false;
    const int code = p->tls ? query_tls(fd) : query_plain(fd);
    close(fd);
    if (code && code != 200)
        rt_print(stderr, "/readyz answers %d\n", code);
    else if (!code)
        rt_print(stderr, "port %lld answers no HTTP%s\n", (long long)p->rest,
                 p->tls ? " by TLS" : "");
    return code == 200;
}

/* Queries readiness over gRPC. A TLS port counts as ready if it is open. A complete handshake would
 * require the CA's certificate and possibly a client certificate. */
static bool by_grpc(const struct srv_health_ports *p)
{
    struct rt_error err = {0};
    const int fd = open_port(p->grpc);

    if (fd < 0)
        return false;
    close(fd);
    if (p->grpc_tls || !srv_health_by_grpc(p->grpc, &err))
        return true;
    rt_print(stderr, "port %lld: %s\n", (long long)p->grpc, rt_error_text(&err));
    return false;
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
        if (!take(&p, argv[i], NULL)) {
            const bool help = strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
            if (!help)
                rt_print(stderr,
                         "slipway health: cannot use argument %s: it takes the flags below\n",
                         argv[i]);
            fprintf(
                help ? stdout : stderr,
                "usage: slipway health [--rest_api_port=N] [--port=N]\n"
                "                      [--rest_tls_cert_file=FILE] [--ssl_config_file=FILE]\n"
                "Tells whether the server on this machine is ready. Flags that are not given "
                "are those of\nprocess 1, and the ports otherwise 8501 and 8500. REST is asked "
                "by TLS if there is a\ncertificate. Without REST (port 0) gRPC's health service "
                "is asked; an open gRPC port with\nTLS counts as ready.\n"
                "Exit status: 0 it is ready, 1 it is not, 2 wrong arguments\n");
            return help ? SRV_EXIT_OK : SRV_EXIT_USAGE;
        }
    }
    if (!p.rest && !p.grpc) {
        rt_print(stderr, "there is no port to ask\n");
        return SRV_EXIT_FAILED;
    }
    if (!(p.rest ? by_rest(&p) : by_grpc(&p)))
        return SRV_EXIT_FAILED;
    rt_print(stdout, "ready\n");
    return SRV_EXIT_OK;
}
