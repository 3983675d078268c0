/*
 * Cuts off peers that do not complete a request or do not receive a response, so that the memory of
 * their calls is freed. The time limit is --request_read_timeout_ms, as for REST. It applies to the
 * complete arrival of a request, to the next request of a stream, and to the receipt of each 64 KiB
 * of a large response. The deadline of a call is also a limit, but most clients end a call at its
 * deadline themselves.
 *
 * While the server drains, an incomplete request is cut off when DRAIN_GRACE_NS nanoseconds have
 * passed both since the drain began and since the wait for the request began. The status is
 * UNAVAILABLE, because the request was not executed and the client may send it to another server.
 *
 * The core reports only when a message has been sent completely. For TCP, the kernel reports the
 * number of bytes that a peer has received. For UNIX sockets, the number of bytes that the core has
 * written is used instead. If n large responses are in progress on a connection, the peer must
 * receive n times 64 KiB within the time limit, in any of the responses. A peer that reads the
 * responses one after another must therefore read as fast as a peer that reads them in parallel.
 */
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "server/grpc/grpc_internal.h"
#include "server/grpc/grpc_stream.h"
#include "server/metrics/metrics.h"
#include "server/grpc/send_hook.h"
#include "server/base/sockets.h"

enum { LEAST_TAKEN = 64 << 10, MAX_SOCKETS = 1 << 17, DRAIN_GRACE_NS = 2000000000 };

void srv_call_awaits(struct srv_call *c, enum srv_awaited what)
{
    uint32_t was = atomic_load_explicit(&c->awaited, memory_order_relaxed);

    /* The number of waits in `awaited` distinguishes consecutive waits for the same event. */
    atomic_store_explicit(&c->awaited, ((was | SRV_AWAITED_MASK) + 1) | what, memory_order_release);
}

/* ---- connections ---- */

/* Returns the counter of large responses in progress on the connection `fd`. Returns NULL if `fd`
 * is -1 or memory runs out. */
static int *large_of(struct srv_grpc_loop *loop, int fd)
{
    if (fd >= loop->n_large_capacity) {
        int capacity = fd + 256;
        int *p = realloc(loop->n_large, (size_t)capacity * sizeof *p);
        if (!p)
            return NULL;
        memset(p + loop->n_large_capacity, 0,
               (size_t)(capacity - loop->n_large_capacity) * sizeof *p);
        loop->n_large = p;
        loop->n_large_capacity = capacity;
    }
    return fd >= 0 ? &loop->n_large[fd] : NULL;
}

void srv_call_forget_socket(struct srv_call *c)
{
    if (c->is_large)
        c->loop->n_large[c->socket]--;
    c->is_large = false;
}

void srv_grpc_forget_sockets(struct srv_grpc_loop *loop)
{
    free(loop->n_large);
    rt_map_clear(&loop->sockets);
}

/* Decodes the percent-encoded brackets in an address from the core, so that the address has the
 * format of srv_socket_peer. */
static void unescape(char *peer)
{
    char *to = peer;

    for (const char *from = peer; *from; from++) {
        bool open = strncmp(from, "%5B", 3) == 0, close = strncmp(from, "%5D", 3) == 0;
        *to++ = open ? '[' : close ? ']' : *from;
        from += open || close ? 2 : 0;
    }
    *to = '\0';
}

static void list_sockets(struct srv_grpc_loop *loop)
{
    int *fds = malloc(MAX_SOCKETS * sizeof *fds);
    int n = fds ? srv_sockets(fds, MAX_SOCKETS) : 0;
    char name[80];

    rt_map_clear(&loop->sockets);
    rt_map_init(&loop->sockets);
    for (int i = 0; i < n; i++) {
        srv_socket_peer(fds[i], name, sizeof name);
        if (!rt_map_put(&loop->sockets, name, (void *)(intptr_t)(fds[i] + 1)))
            break; /* memory ran out, so the remaining sockets are not listed */
    }
    free(fds);
}

/* Returns the descriptor of the connection to `peer` from the list of sockets, or -1 if it is
 * unknown. */
static int listed_socket(const struct srv_grpc_loop *loop, const char *peer)
{
    int fd = (int)(intptr_t)rt_map_get(&loop->sockets, peer) - 1;
    char name[80];

    if (fd < 0)
        return -1;
    /* the descriptor may have been reused for another connection */
    srv_socket_peer(fd, name, sizeof name);
    return strcmp(name, peer) == 0 ? fd : -1;
}

/* The core does not report the descriptor of a TLS connection, so this function searches all
 * sockets of the process. It lists them at most once per check. */
static void find_socket(struct srv_call *c, int64_t now)
{
    struct srv_grpc_loop *loop = c->loop;
    char *peer = c->socket < 0 ? grpc_call_get_peer(c->call) : NULL;

    if (!peer)
        return;
    unescape(peer);
    c->socket = listed_socket(loop, peer);
    if (c->socket < 0 && loop->listed_ns != now) {
        list_sockets(loop);
        loop->listed_ns = now;
        c->socket = listed_socket(loop, peer);
    }
    gpr_free(peer);
}

/* ---- the limit ---- */

static bool has_large(const struct srv_call *c, uint32_t awaited)
{
    return (awaited & SRV_AWAITED_MASK) == SRV_AWAITS_SENT && c->n_out > LEAST_TAKEN;
}

/* Sets *bytes to the number of bytes that the peer has received. For UNIX sockets, sets *bytes to
 * the number of bytes that were written. The kernel may still buffer about 200 KB of the written
 * bytes. */
static bool taken_of(int fd, uint64_t *bytes)
{
    return srv_socket_acked(fd, bytes) || srv_socket_sent(fd, bytes);
}

static void begin_look(struct srv_call *c, uint32_t awaited, int64_t now)
{
    int *n;

    srv_call_forget_socket(c);
    c->seen_awaited = awaited;
    c->seen_ns = now;
    if (!has_large(c, awaited))
        return;
    find_socket(c, now);
    n = large_of(c->loop, c->socket);
    if (!n || !taken_of(c->socket, &c->seen_taken))
        return;
    ++*n;
    c->is_large = true;
}

/* Returns whether a large response on an unknown descriptor is within its time limit. The limit is
 * the time in which the slowest permitted peer reads the whole response. */
static bool has_time(const struct srv_call *c, int64_t now, int64_t limit)
{
    return (now - c->seen_ns) / limit < (int64_t)(c->n_out / LEAST_TAKEN);
}

static bool goes_on(struct srv_call *c, int64_t now, int64_t limit)
{
    uint64_t taken = 0;

    if (!has_large(c, c->seen_awaited))
        return false;
    if (!c->is_large || !taken_of(c->socket, &taken))
        return has_time(c, now, limit);
    if (taken - c->seen_taken < (uint64_t)LEAST_TAKEN * (uint64_t)c->loop->n_large[c->socket])
        return false;
    c->seen_taken = taken;
    c->seen_ns = now;
    return true;
}

static void cut_response(struct srv_call *c)
{
    static const char text[] = "the answer was not taken within --request_read_timeout_ms";

    /* The event is counted first, so that a client that sees the error also finds the event in the
     * metrics. */
    srv_metrics_event(c->server->metrics, "slow_answer_cut_off");
    c->code = RT_DEADLINE_EXCEEDED;
    grpc_call_cancel_with_status(c->call, GRPC_STATUS_DEADLINE_EXCEEDED, text, NULL);
}

/* Ends a stream whose next message has not arrived. */
static void cut_stream(struct srv_call *c)
{
    srv_metrics_event(c->server->metrics, "idle_stream_cut_off");
    c->was_cut = true;
    srv_stream_end(c, RT_DEADLINE_EXCEEDED,
                   "the stream had no further request within --request_read_timeout_ms");
}

static void cut_request(struct srv_call *c, bool drains)
{
    static const char late[] = "the request did not arrive whole within --request_read_timeout_ms";
    static const char drain[] = "the server is shutting down, and the request did not arrive whole";
    enum rt_status st = rt_fail(&c->err, drains ? RT_UNAVAILABLE : RT_DEADLINE_EXCEEDED, "%s",
                                drains ? drain : late);

    srv_metrics_event(c->server->metrics,
                      drains ? "drain_request_cut_off" : "slow_request_cut_off");
    c->was_cut = true;
    srv_call_fail(c, st);
}

/* Returns whether a call waits for its peer although its deadline has passed. A call whose response
 * is being sent counts only if the last check found the same wait. Otherwise a response could be
 * cancelled immediately after its sending began. */
static bool waits_too_long(const struct srv_call *c, uint32_t awaited)
{
    const enum srv_awaited what = awaited & SRV_AWAITED_MASK;

    return (what == SRV_AWAITS_MESSAGE ||
            (what == SRV_AWAITS_SENT && awaited == c->seen_awaited)) &&
           srv_call_is_late(c);
}

static void cut_late(struct srv_call *c, enum srv_awaited what)
{
    static const char text[] = "Deadline Exceeded";

    if (what == SRV_AWAITS_SENT) {
        c->code = RT_DEADLINE_EXCEEDED;
        grpc_call_cancel_with_status(c->call, GRPC_STATUS_DEADLINE_EXCEEDED, text, NULL);
        return;
    }
    c->was_cut = true;
    srv_call_fail(c, rt_fail(&c->err, RT_DEADLINE_EXCEEDED, "%s", text));
}

/* Returns whether DRAIN_GRACE_NS nanoseconds have passed since the drain began and since the wait
 * for the request began. */
static bool is_late_to_drain(const struct srv_call *c, enum srv_awaited what, int64_t now)
{
    int64_t since = c->loop->closing.since_ns;

    return what == SRV_AWAITS_MESSAGE && since && now - since >= DRAIN_GRACE_NS &&
           now - c->seen_ns >= DRAIN_GRACE_NS;
}

int64_t srv_grpc_stall_limit_ns(const struct srv_server *server)
{
    return server->options.request_read_timeout_ms * 1000000;
}

void srv_grpc_cut_stalled(struct srv_grpc_loop *loop, int64_t now)
{
    struct srv_server *server = loop->io_loop.server;
    int64_t limit = srv_grpc_stall_limit_ns(server);
    int n_requests = 0, n_responses = 0, n_drained = 0;

    for (struct srv_link *at = loop->calls.next, *next; at != &loop->calls; at = next) {
        /* `link` is the first member of struct srv_call */
        struct srv_call *c = (struct srv_call *)(void *)at;
        uint32_t awaited = atomic_load_explicit(&c->awaited, memory_order_acquire);
        enum srv_awaited what = awaited & SRV_AWAITED_MASK;
        next = at->next;
        if (what == SRV_AWAITS_NOTHING)
            continue;
        if (waits_too_long(c, awaited)) {
            cut_late(c, what);
        } else if (awaited != c->seen_awaited) {
            begin_look(c, awaited, now);
        } else if (is_late_to_drain(c, what, now)) {
            cut_request(c, true);
            n_drained++;
        } else if (now - c->seen_ns >= limit && !goes_on(c, now, limit)) {
            c->seen_ns = now;
            if (what == SRV_AWAITS_SENT)
                cut_response(c);
            else if (what == SRV_AWAITS_MESSAGE)
                cut_request(c, false);
            else
                cut_stream(c);
            n_responses += what == SRV_AWAITS_SENT;
            n_requests += what == SRV_AWAITS_MESSAGE;
        }
    }
    if (n_requests || n_responses)
        RT_LOG(RT_LOG_WARNING,
               "gRPC: cut off after --request_read_timeout_ms: %d calls whose request did not "
               "arrive whole, %d whose answer was not taken",
               n_requests, n_responses);
    if (n_drained)
        RT_LOG(RT_LOG_WARNING,
               "gRPC: %d calls whose request did not arrive whole were refused: the server ends",
               n_drained);
}
