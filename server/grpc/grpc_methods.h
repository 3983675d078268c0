/*
 * The table of the gRPC methods that the server implements, and their handlers.
 *
 * Threads: the table is constant. Handlers run on the thread of the call's I/O loop.
 */
#ifndef SRV_GRPC_METHODS_H
#define SRV_GRPC_METHODS_H

#include <stddef.h>

#include "runtime/base/span.h"
#include "server/config/options.h"
#include "server/protocol/protocol.h"

struct srv_call;

/* How the core delivers the calls of a method. The number of messages in each direction depends
 * only on the handler. */
enum srv_grpc_kind {
    /* the core matches the path; a disabled method is not registered */
    SRV_GRPC_REGISTERED,
    /* the transport matches the path; the method is never registered with the core */
    SRV_GRPC_BY_PATH,
};

struct srv_grpc_method {
    const char *path; /* "/package.Service/Method" */
    enum srv_grpc_kind kind;
    int api; /* the value of enum srv_api under which metrics count the calls, or SRV_NOT_COUNTED */
    /* Maximum size in bytes of a message, or 0 if only --max_body_bytes limits it. A larger message
     * is refused, so that reading a message never blocks the I/O loop for long. */
    size_t max_bytes;
    /* Handles the first message, and every further message that the handler requests by
     * srv_stream_read. After the client's last message, the handler is called once more without a
     * payload. */
    void (*handle)(struct srv_call *c);
    /* Returns the message of the UNIMPLEMENTED error if the options disable the method, or NULL if
     * the method is enabled. The pointer `off` is NULL if no option can disable the method. */
    const char *(*off)(const struct srv_options *o);
    /* the protocol's call for this method, or NULL */
    const struct srv_endpoint *endpoint;
};
/* The methods of a server. srv_grpc_start receives them, so that the transport does not depend on
 * any service. */
struct srv_grpc_methods {
    const struct srv_grpc_method *row;
    int n; /* at most SRV_GRPC_MAX_METHODS */
    /* Returns the UNIMPLEMENTED error's message for calls whose path matches no method. */
    const char *(*why_unknown)(struct rt_span path);
};
/* Fills and returns the table of Slipway's methods: those of the protocols and those of gRPC's own
 * services. Must be called before the gRPC server starts. */
const struct srv_grpc_methods *srv_grpc_methods(const struct srv_protocols *protocols);

enum { SRV_GRPC_MAX_METHODS = 48, SRV_GRPC_MAX_SERVICES = 32 };
/* Writes the names of the services with an enabled method to `out`, which has SRV_GRPC_MAX_SERVICES
 * elements. Returns the number of services. */
int srv_grpc_services(const struct srv_options *o, struct rt_span *out);

/* ---- the handlers ---- */

void srv_grpc_inference(struct srv_call *c);
void srv_grpc_inference_stream(struct srv_call *c);
void srv_grpc_describe(struct srv_call *c);
void srv_grpc_act(struct srv_call *c);
void srv_grpc_health_check(struct srv_call *c);
void srv_grpc_health_watch(struct srv_call *c);
void srv_grpc_reflect(struct srv_call *c);
const char *srv_grpc_reflection_off(const struct srv_options *o);
const char *srv_grpc_health_off(const struct srv_options *o);

#endif
