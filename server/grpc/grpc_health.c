/* Implements the service grpc.health.v1. It reports the health of the server (named ""), of each
 * service and of each model. */
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_methods.h"
#include "server/grpc/grpc_stream.h"
#include "server/protocol/protocol.h"
#include "server/versions/manager.h"

enum health { UNREPORTED = 0, SERVING = 1, NOT_SERVING = 2, UNKNOWN = 3 };

static enum rt_status read_service(struct srv_call *c, struct rt_span *service)
{
    struct srv_cursor at;
    struct srv_field f;
    enum rt_status st = srv_call_open(c, &at);
    int got = 0;

    *service = rt_span_of("", 0);
    while (!st && (got = srv_field_next(&at, &f)) > 0)
        if (f.number == 1 && f.type == SRV_BYTES)
            st = srv_field_span(&f, service, c->arena, &c->err);
    if (!st && got < 0)
        st = srv_wire_malformed(&c->err, "HealthCheckRequest");
    return st;
}

static bool is_health_name(const struct srv_protocol *p, struct rt_span name)
{
    for (const char *const *at = p->health_names; at && *at; at++)
        if (rt_span_is(name, *at))
            return true;
    return false;
}

/* Returns whether `name` names the server ("") or a service. */
static bool is_service(const struct srv_server *server, struct rt_span name)
{
    const struct srv_protocols *protocols = server->protocols;
    struct rt_span services[SRV_GRPC_MAX_SERVICES];
    int n = srv_grpc_services(&server->options, services);

    if (!name.n)
        return true;
    for (int i = 0; i < protocols->n; i++)
        if (is_health_name(protocols->row[i], name))
            return true;
    for (int i = 0; i < n; i++)
        if (rt_span_eq(name, services[i]))
            return true;
    return false;
}

static enum health health_of(struct srv_server *server, struct rt_span service)
{
    if (is_service(server, service))
        return srv_is_ready(server->manager) ? SERVING : NOT_SERVING;
    if (srv_model_is_ready(server->manager, service))
        return SERVING;
    return srv_has_model(server->manager, service) ? NOT_SERVING : UNKNOWN;
}

static void write_health(struct rt_bytes *out, enum health health)
{
    srv_put_int(out, 1, health);
}

void srv_grpc_health_check(struct srv_call *c)
{
    struct rt_span service;
    struct rt_bytes out;
    enum rt_status st = read_service(c, &service);
    enum health health = st ? UNKNOWN : health_of(c->server, service);

    if (!st && health == UNKNOWN)
        st = rt_fail(&c->err, RT_NOT_FOUND, "unknown service");
    if (st) {
        srv_call_fail(c, st);
        return;
    }
    rt_bytes_init(&out, 64);
    write_health(&out, health);
    srv_call_respond(c, &out);
}

/* ---- Watch ---- */

struct watch {
    struct rt_span service;
    enum health reported;
};

static void look(struct srv_call *c, bool ending)
{
    struct watch *w = c->state;

    if (c->stream.is_sending || c->stream.is_ended || !c->stream.is_open)
        return;
    enum health now = health_of(c->server, w->service);
    if (now != w->reported) {
        struct rt_bytes out;
        rt_bytes_init(&out, 64);
        write_health(&out, now);
        w->reported = now;
        srv_stream_send(c, &out);
    } else if (ending) {
        srv_stream_end(c, RT_UNAVAILABLE, "the server is stopping");
    }
}

static void look_again(struct srv_call *c)
{
    /* The server's health may have changed while the previous message was being sent. */
    look(c, srv_call_is_ending(c));
}

void srv_grpc_health_watch(struct srv_call *c)
{
    struct watch *w = rt_arena_alloc(c->arena, sizeof *w);
    struct rt_span service;
    enum rt_status st = read_service(c, &service);

    if (!st && !w)
        st = rt_fail_memory(&c->err, "a call of Watch", sizeof *w);
    if (st) {
        srv_call_fail(c, st);
        return;
    }
    if (!srv_stream_begin(c, look_again, NULL))
        return;
    *w = (struct watch){.service = service, .reported = UNREPORTED};
    c->state = w;
    srv_stream_watch(c, look);
    look_again(c);
}
