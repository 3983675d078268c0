/*
 * How many calls are open at a time. The core holds a peer to GRPC_ARG_MAX_CONCURRENT_STREAMS only
 * once that has acknowledged the setting, so that who never does had 60,000 calls open on one
 * connection; each holds 13 to 17 KB here and in the core, without a byte of a message.
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

#include "server/grpc_parts.h"
#include "server/metrics.h"
#include "server/number.h"

enum { LEAST = 8 };

/* The counter of the call's connection: by the descriptor that we accepted, or, of TLS, by a hash
 * of the peer's address. Connections that share one also share what one may have. */
static unsigned connection_of(struct srv_call *c)
{
    char *peer = grpc_call_get_peer(c->call);
    uint64_t h = UINT64_C(14695981039346656037);
    int64_t fd = 0;

    if (peer && strncmp(peer, "fd:", 3) == 0 && srv_parse_int64(peer + 3, strlen(peer + 3), &fd)) {
        h = (uint64_t)fd;
    } else {
        for (const char *p = peer; p && *p; p++)
            h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
        h ^= h >> 32;
    }
    gpr_free(peer);
    return (unsigned)(h % SRV_GRPC_CONNECTIONS);
}

bool srv_call_open_share(struct srv_call *c)
{
    struct srv_grpc *g = c->loop->grpc;
    int all = atomic_fetch_add(&g->n_calls, 1);

    c->connection = connection_of(c);
    int own = atomic_fetch_add(&g->calls_of[c->connection], 1);
    return own < LEAST || own < (int)g->server->options.max_grpc_calls - all;
}

void srv_call_close_share(struct srv_call *c)
{
    struct srv_grpc *g = c->loop->grpc;

    atomic_fetch_sub(&g->calls_of[c->connection], 1);
    atomic_fetch_sub(&g->n_calls, 1);
}
