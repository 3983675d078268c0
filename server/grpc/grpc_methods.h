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

/* How the core delivers the calls of a method. The handler decides how many messages a call has in
 * each direction. */
enum srv_grpc_kind {
    /* registered with the core unless disabled, so that the core matches the path */
    SRV_GRPC_REGISTERED,
    SRV_GRPC_BY_PATH, /* not registered with the core; the transport matches the path */
};

struct srv_grpc_method {
    const char *path; /* "/package.Service/Method" */
    enum srv_grpc_kind kind;
    int api; /* the value of enum srv_api under which metrics count the calls, or SRV_NOT_COUNTED */
    /* Maximum size of messages in bytes. Larger messages are refused, so that reading a message
     * never blocks the I/O loop for long. 0 means that only --max_body_bytes limits messages. */
    size_t max_bytes;
    /* Handles the first message, and every later message that the handler requests with
     * srv_stream_read. After the client's last message, the handler is called once more, without a
     * payload. */
    void (*handle)(struct srv_call *c);
    /* Returns the message of the UNIMPLEMENTED error if the options disable the method, or NULL if
     * it is enabled. The function pointer is NULL if the method is always enabled. */
    const char *(*off)(const struct srv_options *o);
    /* the call of a protocol that the method is, or NULL */
    const struct srv_endpoint *endpoint;
};
/* The methods of a server. They are passed to srv_grpc_start, so that the transport does not depend
 * on any service. */
struct srv_grpc_methods {
    const struct srv_grpc_method *row;
    int n; /* at most SRV_GRPC_MAX_METHODS */
    /* Returns the message of the UNIMPLEMENTED error for calls whose path matches no method. */
    const char *(*why_unknown)(struct rt_span path);
};
/* Fills and returns the table of the methods that Slipway serves: those of the protocols and those
 * of gRPC's own services. Must be called before the gRPC server is started. */
const struct srv_grpc_methods *srv_grpc_methods(const struct srv_protocols *protocols);

enum { SRV_GRPC_MAX_METHODS = 48, SRV_GRPC_MAX_SERVICES = 32 };
/* Writes the name of each service with an enabled method to `out`. The array `out` has
 * SRV_GRPC_MAX_SERVICES elements. Returns the number of services. */
int srv_grpc_services(const struct srv_options *o, struct rt_span *out);

/* ---- the handlers ---- */

void srv_grpc_inference(struct srv_call *c);
void srv_grpc_describe(struct srv_call *c);
void srv_grpc_reload_config(struct srv_call *c);
void srv_grpc_health_check(struct srv_call *c);
void srv_grpc_health_watch(struct srv_call *c);
void srv_grpc_reflect(struct srv_call *c);
const char *srv_grpc_reflection_off(const struct srv_options *o);
const char *srv_grpc_health_off(const struct srv_options *o);

#endif
