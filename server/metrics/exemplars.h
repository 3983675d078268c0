/*
 * The exemplars of a histogram of times: for each bucket, the trace of the last sampled request
 * that the bucket counts. Memory is allocated at the histogram's first sampled request, and is
 * bounded by the number of buckets.
 *
 * Threads: any thread may read the exemplars while another one sets them.
 */
#ifndef SRV_EXEMPLARS_H
#define SRV_EXEMPLARS_H

#include <stdatomic.h>

#include "server/tracing/request_span.h"

struct srv_exemplar {
    struct srv_trace_context context;
    int64_t value_ns; /* the time that was measured */
    int64_t at_ms;    /* time in milliseconds since 1970, or 0 if the bucket has no exemplar */
};

struct srv_exemplars; /* NULL until the first sampled request */

/* Returns whether the trace of a request is recorded, by this server or by its client. `s` may be
 * NULL. */
static inline bool srv_exemplars_wants(const struct srv_request_span *s)
{
    return s && s->has_trace && s->context.flags & SRV_TRACE_SAMPLED;
}
/* Sets the exemplar of a bucket, which must be less than `n`, the number of buckets. Threads must
 * not call this function for the same `at` at the same time. Does nothing if memory runs out. */
void srv_exemplars_set(_Atomic(struct srv_exemplars *) *at, int n, int bucket, int64_t value_ns,
                       const struct srv_request_span *s);
/* Replaces those of the n exemplars in `to` that are older than the histogram's. */
void srv_exemplars_add(struct srv_exemplar *to, int n, const _Atomic(struct srv_exemplars *) *at);
void srv_exemplars_free(_Atomic(struct srv_exemplars *) *at);

#endif
