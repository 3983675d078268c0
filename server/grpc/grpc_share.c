/*
 * How many calls are open at a time. The core holds a peer to GRPC_ARG_MAX_CONCURRENT_STREAMS only
 * once that has acknowledged the setting (see h2_frames.h, too), and that of each connection;
 * a call holds 13 to 17 KB here and in the core, without a byte of a message.
 *
 * A connection may have as many calls open as all connections leave free: alone it gets half of the
 * calls, the next one a quarter. LEAST it may have in any case, so that who asks for little is
 * served however many others flood.
 *
 * What is beyond is refused at once by a cancellation with a status: the core sends it as trailers
 * and forgets the stream, also when its request has not come whole and never will.
 */
#include <grpc/support/alloc.h>
#include <string.h>

#include "runtime/base/siphash.h"
#include "server/grpc/grpc_internal.h"
#include "server/metrics/metrics.h"
#include "server/base/number.h"

enum { LEAST = 8 };

/* The descriptor, if we accepted the connection, and the counter: by the descriptor, or, of TLS, by
 * a hash of the peer's address. Connections that share one also share what one may have. */
static void find_connection(struct srv_call *c)
{
    char *peer = grpc_call_get_peer(c->call);
    size_t n = peer ? strlen(peer) : 0;
    int64_t fd = -1;

    /* Of the connections that we accept the core knows only the descriptor. */
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
