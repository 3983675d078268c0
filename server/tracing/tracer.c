#include "server/tracing/tracer.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "runtime/base/siphash.h"
#include "server/base/serving_map.h"
#include "server/base/uri.h"
#include "server/batching/job.h"
#include "server/tracing/access.h"

struct srv_tracer {
    struct srv_exporter *exporter;
    uint64_t threshold;
    bool records_all, by_parent;
    /* Ids are a hash of the number of ids made so far, so that they are unpredictable and need no
     * lock. */
    uint64_t key[2];
    _Atomic uint64_t n_ids;
};

/* ---- ids and sampling ---- */

uint64_t srv_tracer_threshold(double ratio)
{
    return ratio >= 1 ? UINT64_MAX : ratio > 0 ? (uint64_t)(ratio * 0x1p64) : 0;
}

/* Writes 8 random bytes, which are not all 0. */
static void make_id(struct srv_tracer *t, unsigned char out[8])
{
    const uint64_t n = atomic_fetch_add_explicit(&t->n_ids, 1, memory_order_relaxed);
    uint64_t id = rt_siphash_end(rt_siphash_begin(t->key), n & UINT64_C(0xffffffffffffff), 7);

    id += !id;
    for (int i = 7; i >= 0; i--, id >>= 8)
        out[i] = (unsigned char)id;
}

/* Returns whether the ratio selects a trace. The last 8 bytes of a trace id are random. */
static bool is_selected(const struct srv_tracer *t, const unsigned char *trace_id)
{
    uint64_t random = 0;

    for (int i = 8; i < SRV_TRACE_ID_BYTES; i++)
        random = random << 8 | trace_id[i];
    return t->records_all || random < t->threshold;
}

void srv_tracer_begin(struct srv_tracer *t, struct srv_request_span *s)
{
    if (!t)
        return;
    s->has_trace = s->has_parent;
    if (s->has_parent && t->by_parent) {
        s->is_recorded = s->context.flags & SRV_TRACE_SAMPLED;
    } else {
        if (!s->has_parent)
            make_id(t, s->context.trace_id + 8);
        s->is_recorded = is_selected(t, s->context.trace_id);
    }
    if (!s->is_recorded && !s->has_parent)
        return;
    if (!s->has_parent)
        make_id(t, s->context.trace_id);
    s->has_trace = true;
    s->context.flags = s->is_recorded ? SRV_TRACE_SAMPLED : 0;
    make_id(t, s->context.span_id);
    srv_request_span_clear_times(s);
}

/* ---- records ---- */

static void add_job(struct srv_trace_record *r, const struct srv_job *job)
{
    const struct srv_version *v = job->version;
    const struct rt_model_signature *sig = srv_job_signature(job);

    if (v) {
        srv_trace_text(r->model, sizeof r->model, rt_span_str(v->model));
        r->has_version = true;
        r->version = v->version;
    }
    if (sig && sig->def)
        srv_trace_text(r->signature, sizeof r->signature, rt_span_str(sig->def->name));
}

static void set_phase(struct srv_trace_times *phase, int64_t begin_ns, int64_t end_ns)
{
    if (begin_ns && end_ns >= begin_ns)
        *phase = (struct srv_trace_times){begin_ns, end_ns};
}

void srv_tracer_phases(const struct srv_access *a, const struct srv_job *job,
                       struct srv_trace_times phase[SRV_N_PHASES])
{
    const struct srv_request_span *s = a->span;

    set_phase(&phase[SRV_PHASE_RECEIVE], a->begin_ns, s->read_ns);
    if (s->decode_end_ns)
        set_phase(&phase[SRV_PHASE_DECODE], s->decode_begin_ns, s->decode_end_ns);
    else if (!s->is_preparing)
        set_phase(&phase[SRV_PHASE_DECODE], s->read_ns, job->queued_ns);
    /* A job that was refused or has expired in the queue has never started. */
    const int64_t queued_ns = s->decode_end_ns ? s->decode_end_ns : job->queued_ns;
    const bool has_run = job->started_ns && !s->is_preparing;
    set_phase(&phase[SRV_PHASE_QUEUE], queued_ns, has_run ? job->started_ns : job->finished_ns);
    if (has_run)
        set_phase(&phase[SRV_PHASE_RUN], job->started_ns, job->finished_ns);
    if (has_run && !a->code)
        set_phase(&phase[SRV_PHASE_ENCODE], job->finished_ns, s->encoded_ns);
}

static void add_phases(struct srv_tracer *t, struct srv_trace_record *r, const struct srv_access *a,
                       const struct srv_job *job)
{
    srv_tracer_phases(a, job, r->phase);
    for (int k = 0; k < SRV_N_PHASES; k++)
        if (r->phase[k].end_ns)
            make_id(t, r->phase_id[k]);
}

void srv_tracer_request(struct srv_tracer *t, const struct srv_access *a, const struct srv_job *job)
{
    const struct srv_request_span *s = a->span;

    if (!t || !s->is_recorded)
        return;
    struct srv_trace_record *r = calloc(1, sizeof *r);
    if (!r) {
        srv_exporter_lost(t->exporter);
        return;
    }
    r->context = s->context;
    r->has_parent = s->has_parent;
    memcpy(r->parent_id, s->parent_id, sizeof r->parent_id);
    r->times = (struct srv_trace_times){a->begin_ns, a->end_ns};
    snprintf(r->name, sizeof r->name, "%s", a->api);
    srv_trace_text(r->model, sizeof r->model, a->model);
    srv_trace_text(r->tracestate, sizeof r->tracestate, s->tracestate);
    r->is_http = a->http != 0;
    r->http = a->http;
    r->code = a->code;
    srv_trace_text(r->method, sizeof r->method, a->method);
    srv_trace_text(r->path, sizeof r->path, srv_uri_path(a->path));
    r->has_batch = s->batch.n_requests != 0;
    if (r->has_batch) {
        r->rows = s->batch.rows;
        r->n_requests = s->batch.n_requests;
        r->batch = s->batch.context;
        memcpy(r->device, s->batch.device, sizeof r->device);
    }
    if (job) {
        add_job(r, job);
        add_phases(t, r, a, job);
    }
    srv_exporter_add(t->exporter, r);
}

/* Returns the span of a member of a batch, or NULL if its request is not recorded, or if the member
 * was queued only to be decoded. A sub-request has the span of the job that was split. */
static struct srv_request_span *span_of(const struct srv_job *job)
{
    struct srv_request_span *s = job->parent ? job->parent->span : job->span;
    return s && s->is_recorded && !s->is_preparing ? s : NULL;
}

void srv_tracer_batch(struct srv_tracer *t, const struct srv_job *first, int n_jobs, int64_t rows,
                      int64_t start_ns, int64_t end_ns, int gpu)
{
    struct srv_trace_record *r = NULL;

    for (const struct srv_job *j = first; j && t; j = j->next) {
        struct srv_request_span *s = span_of(j);
        if (!s)
            continue;
        if (!r) {
            r = calloc(1, sizeof *r);
            if (!r) {
                srv_exporter_lost(t->exporter);
                return;
            }
            r->is_batch = r->has_parent = true;
            r->context = s->context;
            memcpy(r->parent_id, s->context.span_id, sizeof r->parent_id);
            make_id(t, r->context.span_id);
        }
        if (r->n_links < SRV_TRACE_LINKS)
            r->link[r->n_links++] = s->context;
        else
            r->n_dropped_links++;
        /* several batches may run sub-requests of one request at the same time */
        if (j->parent)
            continue;
        s->batch.context = r->context;
        s->batch.rows = rows;
        s->batch.n_requests = n_jobs;
        snprintf(s->batch.device, sizeof s->batch.device, gpu < 0 ? "cpu" : "gpu:%d", gpu);
    }
    if (!r)
        return;
    r->times = (struct srv_trace_times){start_ns, end_ns};
    r->rows = rows;
    r->n_requests = n_jobs;
    snprintf(r->device, sizeof r->device, gpu < 0 ? "cpu" : "gpu:%d", gpu);
    add_job(r, first);
    srv_exporter_add(t->exporter, r);
}

/* ---- start and stop ---- */

static enum rt_status check_ratio(double ratio, struct rt_error *err)
{
    return ratio <= 1
               ? RT_OK
               : rt_fail(err, RT_INVALID_ARGUMENT,
                         "--trace_sampling_ratio=%g: a number from 0 to 1 is expected", ratio);
}

enum rt_status srv_tracer_check(const struct srv_tracer_options *o, struct rt_error *err)
{
    const enum rt_status st = check_ratio(o->ratio, err);

    return st ? st : srv_exporter_check(&o->exporter, err);
}

enum rt_status srv_tracer_start(const struct srv_tracer_options *o, struct srv_tracer **out,
                                struct rt_error *err)
{
    enum rt_status st = check_ratio(o->ratio, err);
    if (st)
        return st;
    struct srv_tracer *t = calloc(1, sizeof *t);
    if (!t)
        return rt_fail_memory(err, "the tracer", sizeof *t);
    t->threshold = srv_tracer_threshold(o->ratio);
    t->records_all = o->ratio >= 1;
    t->by_parent = o->by_parent;
    if (getrandom(t->key, sizeof t->key, 0) != (ssize_t)sizeof t->key)
        st = rt_fail(err, RT_INTERNAL, "getrandom: %s", strerror(errno));
    if (!st)
        st = srv_exporter_start(&o->exporter, &t->exporter, err);
    if (st) {
        free(t);
        return st;
    }
    *out = t;
    return RT_OK;
}

void srv_tracer_stop(struct srv_tracer *t)
{
    if (!t)
        return;
    srv_exporter_stop(t->exporter);
    free(t);
}

void srv_tracer_count(const struct srv_tracer *t, struct srv_exporter_counts *out)
{
    srv_exporter_count(t->exporter, out);
}
