/*
 * What is exported about a request or a batch, as plain data. A record of a request becomes a span
 * for the request, and one for each of its phases. A record of a batch becomes one span.
 *
 * Threads: a record has one owner.
 */
#ifndef SRV_TRACE_RECORD_H
#define SRV_TRACE_RECORD_H

#include "runtime/base/status.h"
#include "server/tracing/trace_context.h"

enum {
    SRV_TRACE_TEXT = 128, /* maximum size of a text in a record; longer texts are truncated */
    /* maximum number of links of a batch; a batch counts the members that have no link */
    SRV_TRACE_LINKS = 64,
};

/* the phases of a request, in order */
enum srv_trace_phase {
    SRV_PHASE_RECEIVE,
    SRV_PHASE_DECODE,
    SRV_PHASE_QUEUE,
    SRV_PHASE_RUN,
    SRV_PHASE_ENCODE,
    SRV_N_PHASES
};

/* Returns the name of a phase, such as "receive". */
const char *srv_trace_phase_name(enum srv_trace_phase phase);

struct srv_trace_times {
    int64_t begin_ns, end_ns; /* on CLOCK_MONOTONIC; `end_ns` is 0 for a phase that is missing */
};

struct srv_trace_record {
    struct srv_trace_record *next;
    bool is_batch;
    struct srv_trace_context context;
    bool has_parent;
    unsigned char parent_id[SRV_SPAN_ID_BYTES];
    struct srv_trace_times times;

    /* The texts are UTF-8, and empty if they are unknown. */
    char name[32]; /* the name of the span */
    char model[SRV_TRACE_TEXT], signature[SRV_TRACE_TEXT], device[16];
    bool has_version;
    int64_t version;
    int64_t rows;   /* number of rows of the batch; 0 if no batch has run */
    int n_requests; /* number of requests in the batch */

    /* The members from here to `batch` are set only in records of requests. */
    struct srv_trace_times phase[SRV_N_PHASES];
    unsigned char phase_id[SRV_N_PHASES][SRV_SPAN_ID_BYTES];
    char tracestate[SRV_TRACESTATE_MOST + 1];
    bool is_http;
    int http; /* HTTP status */
    enum rt_status code;
    char method[16];           /* HTTP method */
    char path[SRV_TRACE_TEXT]; /* path of the URI without its query, or of the gRPC method */
    bool has_batch;
    struct srv_trace_context batch;

    /* The members below are set only in records of batches. The links are the spans of requests. */
    int n_links, n_dropped_links;
    struct srv_trace_context link[SRV_TRACE_LINKS];
};

/* Copies a text, truncated at the beginning of a character, and with a question mark for each byte
 * that is not part of a character in UTF-8. */
void srv_trace_text(char *to, size_t size, struct rt_span text);

/* Returns the number of spans that the record becomes. */
int srv_trace_record_spans(const struct srv_trace_record *r);

#endif
