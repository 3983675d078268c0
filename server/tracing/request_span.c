#include "server/tracing/request_span.h"

void srv_request_span_init(struct srv_request_span *s)
{
    s->has_trace = s->has_parent = s->is_recorded = s->is_profiled = false;
    s->had_traceparent = s->had_tracestate = false;
    s->tracestate = rt_span_of(NULL, 0);
}

void srv_request_span_traceparent(struct srv_request_span *s, struct rt_span value)
{
    s->has_trace = s->has_parent = !s->had_traceparent && srv_traceparent_parse(value, &s->context);
    s->had_traceparent = true;
    if (s->has_parent)
        memcpy(s->parent_id, s->context.span_id, sizeof s->parent_id);
}

void srv_request_span_tracestate(struct srv_request_span *s, struct rt_span value)
{
    s->tracestate =
        !s->had_tracestate && srv_tracestate_is_valid(value) ? value : rt_span_of(NULL, 0);
    s->had_tracestate = true;
}

bool srv_request_span_response(const struct srv_request_span *s, char out[SRV_TRACEPARENT_TEXT])
{
    if (s->has_trace)
        srv_traceparent_write(&s->context, out);
    return s->has_trace;
}
