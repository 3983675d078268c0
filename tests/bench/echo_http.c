/*
 * A minimal echo server on libmicrohttpd, as a reference for the speed of Slipway's REST server.
 * One thread runs an external epoll loop, and every body is sent back unchanged. `echo_http PORT`
 * runs until its standard input ends.
 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

struct request {
    size_t n, capacity;
    char *body;
};

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *n_data, void **state)
{
    (void)arg;
    (void)url;
    (void)method;
    (void)version;
    struct request *r = *state;
    if (!r) {
        *state = calloc(1, sizeof *r);
        return *state ? MHD_YES : MHD_NO;
    }
    if (*n_data) {
        if (*n_data > r->capacity - r->n) {
            size_t capacity = r->capacity * 2 > r->n + *n_data ? r->capacity * 2 : r->n + *n_data;
            char *body = realloc(r->body, capacity);
            if (!body)
                return MHD_NO;
            r->body = body;
            r->capacity = capacity;
        }
        memcpy(r->body + r->n, data, *n_data);
        r->n += *n_data;
        *n_data = 0;
        return MHD_YES;
    }
    struct MHD_Response *answer =
        MHD_create_response_from_buffer(r->n, r->body, MHD_RESPMEM_MUST_FREE);
    if (!answer)
        return MHD_NO;
    r->body = NULL;
    MHD_add_response_header(answer, "Content-Type", "application/json");
    enum MHD_Result result = MHD_queue_response(c, 200, answer);
    MHD_destroy_response(answer);
    return result;
}

static void on_completed(void *arg, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    (void)arg;
    (void)c;
    (void)why;
    struct request *r = *state;
    if (r)
        free(r->body);
    free(r);
    *state = NULL;
}

int main(int argc, char **argv)
{
    int port = 8600;
    if (argc > 1 && sscanf(argv[1], "%d", &port) != 1)
        return 2;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct MHD_Daemon *d =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_SUPPRESS_DATE_NO_CLOCK, (unsigned short)port, NULL,
                         NULL, on_request, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
                         MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_END);
    if (!d) {
        fprintf(stderr, "echo_http: cannot listen at port %d\n", port);
        return 1;
    }
    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = 0};
    epoll_ctl(ep, EPOLL_CTL_ADD, 0, &ev);
    ev.data.fd = MHD_get_daemon_info(d, MHD_DAEMON_INFO_EPOLL_FD_LINUX_ONLY)->epoll_fd;
    epoll_ctl(ep, EPOLL_CTL_ADD, ev.data.fd, &ev);
    for (;;) {
        MHD_UNSIGNED_LONG_LONG ms;
        int wait = MHD_get_timeout(d, &ms) == MHD_YES ? (int)ms : -1;
        int n = epoll_wait(ep, &ev, 1, wait);
        char c;
        if (n > 0 && ev.data.fd == 0 && read(0, &c, 1) <= 0)
            break;
        MHD_run(d);
    }
    MHD_stop_daemon(d);
    close(ep);
    return 0;
}
