/* Implements grpc.reflection.v1 and v1alpha: a client sends a stream of requests, and each is
 * answered before the next one is read. */
#include "proto/descriptors.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/reflection.h"

enum { MAX_RESPONSE = 16 << 20 };

const char *srv_grpc_reflection_off(const struct srv_options *o)
{
    return o->enable_grpc_reflection ? NULL : "reflection is off: --enable_grpc_reflection";
}

static void read_next(struct srv_call *c)
{
    srv_stream_read(c);
}

void srv_grpc_reflect(struct srv_call *c)
{
    struct rt_span services[SRV_GRPC_MAX_SERVICES];
    struct srv_cursor request;
    struct rt_bytes out;

    if (!c->stream.has_begun && !srv_stream_begin(c, read_next, NULL))
        return;
    if (!c->payload) { /* the client will send no more requests */
        srv_stream_end(c, RT_OK, NULL);
        return;
    }
    rt_bytes_init(&out, MAX_RESPONSE);
    enum rt_status st = srv_call_open(c, &request);
    if (!st)
        st = srv_reflection_respond(rt_span_of(pb_descriptors, pb_descriptors_size), services,
                                    srv_grpc_services(&c->server->options, services), request, &out,
                                    c->arena, &c->err);
    if (!st && out.failed)
        st = rt_fail_memory(&c->err, "the response", MAX_RESPONSE);
    if (st)
        srv_stream_end(c, st, rt_error_text(&c->err));
    else
        srv_stream_send(c, &out);
    rt_bytes_clear(&out);
}
