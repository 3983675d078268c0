/*
 * Decides which requests are recorded, gives ids to their spans, and makes the records that the
 * exporter sends. The calls are few: a transport begins the span of a request and reports its end,
 * the scheduler reports each batch.
 *
 * Threads: any thread may call these functions. They never wait for the collector.
 */
#ifndef SRV_TRACER_H
#define SRV_TRACER_H

#include "server/tracing/exporter.h"
#include "server/tracing/request_span.h"

struct srv_access;
struct srv_job;
struct srv_tracer;

struct srv_tracer_options {
    struct srv_exporter_options exporter;
    double ratio;   /* fraction of the traces that are recorded, from 0 to 1 */
    bool by_parent; /* whether the client's traceparent header decides, if the request has one */
};

/* Checks the options as srv_tracer_start does, without starting a thread or connecting to the
 * collector. */
enum rt_status srv_tracer_check(const struct srv_tracer_options *o, struct rt_error *err);
enum rt_status srv_tracer_start(const struct srv_tracer_options *o, struct srv_tracer **out,
                                struct rt_error *err);
void srv_tracer_stop(struct srv_tracer *t); /* `t` may be NULL */

/* Begins the span of a request after its headers were read, and decides whether it is recorded. The
 * decision by the ratio depends only on the trace id, so that all servers decide alike. `t` may be
 * NULL. */
void srv_tracer_begin(struct srv_tracer *t, struct srv_request_span *s);

/* Exports a request that has ended, if it is recorded. `job` may be NULL. The record then has no
 * version, signature or phases. The texts of `a` are copied, but its version is not used. `t` may
 * be NULL. */
void srv_tracer_request(struct srv_tracer *t, const struct srv_access *a,
                        const struct srv_job *job);

/* Sets the phases of a request that has ended, which is recorded or profiled. The function is
 * pure. `job` must not be NULL. `phase` is zeroed before the call. */
void srv_tracer_phases(const struct srv_access *a, const struct srv_job *job,
                       struct srv_trace_times phase[SRV_N_PHASES]);

/* Exports a batch that has run, if it has recorded members, and notes the batch in their spans.
 * The jobs are linked by `next`. Must be called before the jobs are completed. `gpu` is the index
 * of the GPU, or -1 for the CPU. `t` may be NULL. */
void srv_tracer_batch(struct srv_tracer *t, const struct srv_job *first, int n_jobs, int64_t rows,
                      int64_t start_ns, int64_t end_ns, int gpu);

void srv_tracer_count(const struct srv_tracer *t, struct srv_exporter_counts *out);

/* Returns the number below which the first 8 bytes of a recorded trace's random part must lie. The
 * function is pure. */
uint64_t srv_tracer_threshold(double ratio);

#endif
