/*
 * Limits the number of open calls. The core enforces GRPC_ARG_MAX_CONCURRENT_STREAMS only after a
 * peer has acknowledged the setting (see also h2_frames.h), and only per connection. Even without a
 * message, an open call takes 13 to 17 KB in Slipway and the core together.
 *
 * The maximum number of open calls of a connection is the common limit of all connections minus the
 * number of open calls of all connections. A single connection may thus use half of the limit, and
 * a second connection a quarter. Each connection may always have LEAST open calls, so that a client
 * with few calls is served regardless of other clients.
 *
 * A call beyond the limit is refused immediately by cancelling it with a status. The core sends the
 * status as trailers and forgets the stream, even if the request never becomes complete.
 *
 * A client may keep a stream open indefinitely. Therefore the streams of each method have their own
 * limit, which connections share by the same rule. Streams of one method do not displace those of
 * another, and no connection can hold all streams of a method.
 */
#include <grpc/support/alloc.h>
#include <string.h>

#include "runtime/base/siphash.h"
#include "server/grpc/grpc_internal.h"
#include "server/metrics/metrics.h"
#include "server/base/number.h"
#include "server/base/sockets.h"

enum {
    LEAST = 8,
    MAX_STREAMS = 2000, /* maximum number of open streams of a method on all connections */
};

static unsigned index_of_peer(const char *peer, size_t n)
{
    return (unsigned)(rt_siphash(rt_siphash_key(), peer, n) % SRV_GRPC_CONNECTIONS);
}

/* Sets c->connection, the index of the connection's counter, and c->socket, the connection's
 * descriptor. c->socket is -1 if the connection is encrypted. The index is the descriptor or, for
 * TLS, a hash of the peer's address. Connections with the same index share a limit. */
static void find_connection(struct srv_call *c)
{
    char *peer = grpc_call_get_peer(c->call);
    size_t n = peer ? strlen(peer) : 0;
    int64_t fd = -1;

    /* The core names the peer of a plaintext connection "fd:N". */
    if (n < 3 || memcmp(peer, "fd:", 3) != 0 || !srv_parse_int64(peer + 3, n - 3, &fd))
        fd = -1;
    c->connection = fd >= 0 ? (unsigned)(fd % SRV_GRPC_CONNECTIONS) : index_of_peer(peer, n);
    gpr_free(peer);
    c->socket = (int)fd;
}

bool srv_grpc_has_calls(const struct srv_grpc *g, int fd)
{
    char peer[80];

    if (atomic_load(&g->calls_of[fd % SRV_GRPC_CONNECTIONS]))
        return true;
    srv_socket_peer(fd, peer, sizeof peer);
    return atomic_load(&g->calls_of[index_of_peer(peer, strlen(peer))]) > 0;
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
