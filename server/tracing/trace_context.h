/*
 * The headers of W3C Trace Context (https://www.w3.org/TR/trace-context/). `traceparent` names the
 * trace that a request belongs to, and the client's span in that trace. `tracestate` contains data
 * of tracing systems, which is passed on unchanged.
 *
 * Threads: all functions are pure.
 */
#ifndef SRV_TRACE_CONTEXT_H
#define SRV_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/span.h"

enum {
    SRV_TRACE_ID_BYTES = 16,
    SRV_SPAN_ID_BYTES = 8,
    SRV_TRACE_ID_TEXT = 33,    /* size of a trace id as text, with the terminating 0 */
    SRV_TRACEPARENT_TEXT = 56, /* size of a traceparent header, with the terminating 0 */
    SRV_TRACE_SAMPLED = 1,     /* the bit of `flags` that is set if the trace is recorded */
    /* The maximum length of a tracestate header. Longer headers are ignored. */
    SRV_TRACESTATE_MOST = 512,
};

struct srv_trace_context {
    unsigned char trace_id[SRV_TRACE_ID_BYTES];
    unsigned char span_id[SRV_SPAN_ID_BYTES];
    uint8_t flags;
};

/* Parses the value of a traceparent header. Headers of later versions of the format are read as far
 * as version 00 defines them, as the specification requires. If the value is invalid, returns false
 * and leaves *out unchanged. */
bool srv_traceparent_parse(struct rt_span value, struct srv_trace_context *out);

/* Writes a traceparent header of version 00. */
void srv_traceparent_write(const struct srv_trace_context *c, char out[SRV_TRACEPARENT_TEXT]);

/* Writes the trace id as 32 hexadecimal digits. */
void srv_trace_id_write(const struct srv_trace_context *c, char out[SRV_TRACE_ID_TEXT]);

/* Returns whether the value of a tracestate header is valid. */
bool srv_tracestate_is_valid(struct rt_span value);

/* Returns the span without the spaces and tabs at its ends, as around the members of lists in
 * headers. */
struct rt_span srv_without_blanks(struct rt_span s);

#endif
