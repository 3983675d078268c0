/*
 * Limits the number of open calls. The core enforces GRPC_ARG_MAX_CONCURRENT_STREAMS only after a
 * peer has acknowledged the setting (see also h2_frames.h), and enforces it for each connection
 * separately. An open call takes 13 to 17 KB in Slipway and in the core together, even without a
 * message.
 *
 * A connection may have as many open calls as remain unused in the limit for all connections. So a
 * single connection may have half of the limit, and a second one a quarter. A connection may always
 * have LEAST open calls, so that a client with few calls is served regardless of how many calls
 * other clients open.
 *
 * A call beyond the limit is refused immediately by cancelling it with a status. The core sends the
 * status as trailers and forgets the stream, even if the request is incomplete and remains so.
 *
 * A client may keep a stream open indefinitely. So the streams of each method have a separate limit
 * with the same rule. Then streams of one method do not displace those of another, and no
 * connection can hold all streams of a method.
 */
#include <grpc/support/alloc.h>
#include <string.h>

#include "runtime/base/siphash.h"
#include "server/grpc/grpc_internal.h"
#include "server/metrics/metrics.h"
#include "server/base/number.h"

enum {
    LEAST = 8,
    MAX_STREAMS = 2000, /* maximum number of open streams of a method on all connections together */
};

/* Sets the call's descriptor, if this server accepted the call's connection itself, and the
 * index of the connection's counter. The index is the descriptor or, for TLS, a hash of the
 * peer's address. Connections with the same counter share a limit. */
static void find_connection(struct srv_call *c)
{
    char *peer = grpc_call_get_peer(c->call);
    size_t n = peer ? strlen(peer) : 0;
    int64_t fd = -1;

    /* In the core, the peer of a connection that this server accepted has the name "fd:N". */
    if (n < 3 || memcmp(peer, "fd:", 3) != 0 || !srv_parse_int64(peer + 3, n - 3, &fd))
        fd = -1;
    uint64_t h = fd >= 0 ? (uint64_t)fd : rt_siphash(rt_siphash_key(), peer, n);
    gpr_free(peer);
    c->socket = (int)fd;
    c->connection = (unsigned)(h % SRV_GRPC_CONNECTIONS);
}

bool srv_call_open_share(struct srv_call *c)
{
    struct srv_grpc *g = c->loop->grpc;
    int all = atomic_fetch_add(&g->n_calls, 1);

    find_connection(c);
    int own = atomic_fetch_add(&g->calls_of[c->connection], 1);
    return own < LEAST || own < (int)g->server->options.max_grpc_calls - all;
}

void srv_call_close_share(struct srv_call *c)
{
    struct srv_grpc *g = c->loop->grpc;

    atomic_fetch_sub(&g->calls_of[c->connection], 1);
    atomic_fetch_sub(&g->n_calls, 1);
}

static _Atomic int *streams_of_method(struct srv_call *c)
{
    struct srv_grpc *g = c->loop->grpc;

    return &g->n_streams[c->method - g->methods->row];
}

bool srv_stream_open_share(struct srv_call *c)
{
    int all = atomic_fetch_add(streams_of_method(c), 1);
    int own = atomic_fetch_add(&c->loop->grpc->streams_of[c->connection], 1);

    if (own < LEAST || own < MAX_STREAMS - all)
        return true;
    srv_stream_close_share(c);
    return false;
}

void srv_stream_close_share(struct srv_call *c)
{
    atomic_fetch_sub(&c->loop->grpc->streams_of[c->connection], 1);
    atomic_fetch_sub(streams_of_method(c), 1);
}
