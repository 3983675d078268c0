/* Implements grpc.reflection.v1 and v1alpha. A client sends a stream of requests. The server
 * answers each request before it reads the next one. */
#include "proto/descriptors.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_methods.h"
#include "server/grpc/grpc_stream.h"
#include "server/reflection/reflection.h"

enum { MAX_RESPONSE = 16 << 20 };

const char *srv_grpc_reflection_off(const struct srv_options *o)
{
    return o->enable_grpc_reflection ? NULL : "reflection is off: --enable_grpc_reflection";
}

static void read_next(struct srv_call *c)
{
    srv_stream_read(c);
}

/* A request of a stream and its response. The struct is in the call's arena, and is valid until the
 * next request is read. */
struct exchange {
    struct srv_cursor request;
    struct rt_bytes response;
    enum rt_status status;
};

static bool compute(struct srv_call *c)
{
    struct rt_span services[SRV_GRPC_MAX_SERVICES];
    struct exchange *x = c->state;

    x->status = srv_reflection_respond(rt_span_of(pb_descriptors, pb_descriptors_size), services,
                                       srv_grpc_services(&c->server->options, services), x->request,
                                       &x->response, c->arena, &c->err);
    return false;
}

static void send(struct srv_call *c)
{
    struct exchange *x = c->state;

    if (c->stream.is_open && x->status)
        srv_stream_end(c, x->status, rt_error_text(&c->err));
    else if (c->stream.is_open)
        srv_stream_send(c, &x->response);
    rt_bytes_clear(&x->response);
}

void srv_grpc_reflect(struct srv_call *c)
{
    struct exchange *x = rt_arena_alloc(c->arena, sizeof *x);
    enum rt_status st;

    if (!c->stream.has_begun && !srv_stream_begin(c, read_next, NULL))
        return;
    if (!c->payload) { /* the client will send no more requests */
        srv_stream_end(c, RT_OK, NULL);
        return;
    }
    st = x ? srv_call_open(c, &x->request) : rt_fail_memory(&c->err, "a request", sizeof *x);
    if (st) {
        srv_stream_end(c, st, rt_error_text(&c->err));
        return;
    }
    c->state = x;
    rt_bytes_init(&x->response, MAX_RESPONSE);
    /* A response may be a thousand times as large as its request. The thread for large messages
     * therefore computes the responses, one after another. */
    srv_call_detour(c, SRV_BACKGROUND_LARGE, compute, send);
}
