/*
 * Encodes records of requests and batches as an ExportTraceServiceRequest of OTLP, and decodes the
 * collector's response.
 *
 * Threads: the functions are pure.
 */
#ifndef SRV_OTLP_H
#define SRV_OTLP_H

#include "runtime/base/arena.h"
#include "server/tracing/trace_record.h"

struct srv_otlp_resource {
    /* "" if `attributes` contain service.name, or if the name is the default, "slipway" */
    const char *service_name;
    /* further attributes as key=value,key=value with percent-encoded values, as in the environment
     * variable OTEL_RESOURCE_ATTRIBUTES */
    const char *attributes;
};

/* Encodes the records, linked by `next`. `offset_ns` is added to times of CLOCK_MONOTONIC to make
 * them times since 1970. The caller must free(*out). `arena` is used for temporary memory. */
enum rt_status srv_otlp_encode(const struct srv_trace_record *first,
                               const struct srv_otlp_resource *resource, int64_t offset_ns,
                               struct rt_arena *arena, char **out, size_t *n, struct rt_error *err);

/* Returns the number of spans that the collector has rejected, according to its response. Returns 0
 * if the response is not an ExportTraceServiceResponse. */
int64_t srv_otlp_rejected(struct rt_span response);

/* Finds the next pair of key=value,key=value in *list, and advances *list. Blanks around keys and
 * values are left out, and percent-encoded bytes of values are decoded. Pairs without a key are
 * skipped. Returns false at the end of the list, or if memory runs out. */
bool srv_otlp_next_pair(const char **list, struct rt_arena *arena, const char **key,
                        const char **value);
/* Refuses a list with an element that is neither blank nor key=value. The message names the flag
 * and the number of the element, but not its text, which may be secret. */
enum rt_status srv_otlp_check_pairs(const char *list, const char *flag, struct rt_error *err);

#endif
