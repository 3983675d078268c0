/*
 * The span of a request: its place in a trace, and the times that its job does not contain. Both
 * transports embed it in their requests. A job points to the span of its request (struct srv_job)
 * if the request is recorded.
 *
 * Threads: the thread that works on the request owns the span.
 */
#ifndef SRV_REQUEST_SPAN_H
#define SRV_REQUEST_SPAN_H

#include "runtime/base/clock.h"
#include "server/tracing/trace_context.h"

struct srv_request_span {
    /* Whether `context` is set. This is the case if the client sent a valid traceparent header or
     * if the request is recorded. */
    bool has_trace;
    /* Whether the client sent a valid traceparent header. `parent_id` is then the client's span. */
    bool has_parent;
    bool had_traceparent, had_tracestate; /* whether such a header was read, valid or not */
    /* whether the request's spans will be exported (tracer.h) */
    bool is_recorded;
    bool is_profiled; /* whether the request may belong to a profile (profile.h) */
    /* The trace, and the span of this request in it. If the request has a traceparent header and
     * spans are not exported, the span is the client's. */
    struct srv_trace_context context;
    unsigned char parent_id[SRV_SPAN_ID_BYTES];
    /* the client's tracestate header; p is NULL if there is none, or if it is invalid */
    struct rt_span tracestate;

    /* The members below are used only if is_recorded or is_profiled is set. Times are those of
     * CLOCK_MONOTONIC, or 0 for an event that has not happened. */
    int64_t read_ns; /* the request has arrived, and decoding begins */
    /* If a worker decodes the request: when it began and ended. */
    int64_t decode_begin_ns, decode_end_ns;
    int64_t encoded_ns; /* the response is encoded */
    bool is_preparing;  /* whether the job is queued for decoding, and not for its run */
    /* The batch that the request was a member of: its span, its numbers of rows and of requests,
     * and the device that ran it, such as "cpu". n_requests is 0 if no batch has run. */
    struct {
        struct srv_trace_context context;
        int64_t rows;
        int n_requests;
        char device[16];
    } batch;
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

static inline void srv_request_span_clear_times(struct srv_request_span *s)
{
    s->read_ns = s->decode_begin_ns = s->decode_end_ns = s->encoded_ns = 0;
    s->is_preparing = false;
    s->batch.n_requests = 0;
}

/* Records that the request has arrived. Returns the span for its job, or NULL if the request is
 * neither recorded nor profiled. */
static inline struct srv_request_span *srv_request_span_read(struct srv_request_span *s)
{
    if (!s->is_recorded && !s->is_profiled)
        return NULL;
    s->read_ns = rt_now_ns();
    return s;
}

/* These functions record what happens to the job of a request. `s` is NULL if the request is
 * neither recorded nor profiled. */
/* A worker will decode the request. */
static inline void srv_request_span_prepare(struct srv_request_span *s)
{
    if (s)
        s->is_preparing = true;
}
/* The worker that began at `begin_ns` has decoded the request. `begin_ns` is 0 if no worker has
 * begun. */
static inline void srv_request_span_decoded(struct srv_request_span *s, int64_t begin_ns)
{
    if (!s || !begin_ns)
        return;
    s->is_preparing = false;
    s->decode_begin_ns = begin_ns;
    s->decode_end_ns = rt_now_ns();
}
/* The response is encoded. */
static inline void srv_request_span_encoded(struct srv_request_span *s)
{
    if (s)
        s->encoded_ns = rt_now_ns();
}

#endif
