/*
 * The span of a request: its place in a trace, and the times that its job does not contain. Both
 * transports embed it in their requests, and a job points to it (struct srv_job) if the request is
 * recorded.
 *
 * Threads: the thread that works on the request owns the span.
 */
#ifndef SRV_REQUEST_SPAN_H
#define SRV_REQUEST_SPAN_H

#include "server/tracing/trace_context.h"

struct srv_request_span {
    /* Whether `context` is set. Without an exporter, this is the case if the request has a valid
     * traceparent header. */
    bool has_trace;
    /* Whether the client sent a valid traceparent header. `parent_id` is then the client's span. */
    bool has_parent;
    bool had_traceparent, had_tracestate; /* whether such a header was read, valid or not */
    /* The trace, and the span of this request in it. If the request has a traceparent header and
     * spans are not exported, the span is the client's. */
    struct srv_trace_context context;
    unsigned char parent_id[SRV_SPAN_ID_BYTES];
    /* the client's tracestate header; p is NULL if there is none, or if it is invalid */
    struct rt_span tracestate;
};

/* Prepares the span of a new request, before its headers are read. */
void srv_request_span_init(struct srv_request_span *s);

/* These functions take the value of a header, and must be called for each header of the name. An
 * invalid header is ignored. If a request has several headers of the name, all of them are ignored.
 * The bytes of a tracestate header must outlive the span. */
void srv_request_span_traceparent(struct srv_request_span *s, struct rt_span value);
void srv_request_span_tracestate(struct srv_request_span *s, struct rt_span value);

/* Writes the traceparent header of the response to `out`. Returns false if the response has no such
 * header. */
bool srv_request_span_response(const struct srv_request_span *s, char out[SRV_TRACEPARENT_TEXT]);

#endif
