/* POST .../m:predict: JSON to a job, and its outputs to JSON. */
#include <string.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "server/rest_request.h"

static const char default_signature[] = "serving_default";

/* Any thread. The outputs are written where they were made: on the worker. */
static void done(struct srv_job *job)
{
    struct srv_rest_request *r = job->owner;
    if (job->status) {
        rt_error_copy(&r->err, &job->err);
        srv_rest_fail(r, job->status);
    } else {
        const struct rt_signature *sig = job->signature->def;
        enum rt_status st = RT_OK;
        for (int i = 0; i < job->n_fetches && !st; i++)
            st = rt_tensor_load(&job->fetches[i], &r->err);
        if (!st)
            st = srv_json_encode_predict(&r->out, sig, job->fetches, r->form, &r->err);
        if (st)
            srv_rest_fail(r, st);
        else
            srv_rest_ok(r, "application/json");
    }
    srv_job_clear(job);
    srv_rest_finished(r);
}

/* The version and signature that the request names. */
static enum rt_status resolve(struct srv_rest_request *r, const struct srv_json_doc *doc,
                              struct rt_span *name)
{
    struct srv_version *version;
    enum rt_status st = srv_json_signature(doc, r->arena, name, &r->err);
    if (st)
        return st;
    st = srv_map_find(r->net->map, &r->route.spec, &version, &r->err);
    if (st)
        return st;
    const char *wanted = name->n ? (const char *)name->p : default_signature;
    const struct rt_model_signature *sig = name->n && memchr(name->p, '\0', name->n)
                                               ? NULL
                                               : rt_model_signature(version->loaded, wanted);
    if (!sig)
        return rt_fail(&r->err, RT_INVALID_ARGUMENT,
                       "Serving signature name: \"%s\" not found in signature def", wanted);
    if (!sig->call)
        return rt_fail(&r->err, RT_UNIMPLEMENTED, "Serving signature name: \"%s\" cannot run: %s",
                       wanted, sig->unsupported ? sig->unsupported : "it was left out");
    srv_hold(r->net, version); /* until it has been answered */
    r->job.version = version;
    r->job.signature = sig;
    return RT_OK;
}

static enum rt_status decode(struct srv_rest_request *r, const struct srv_json_doc *doc,
                             struct rt_span name)
{
    struct srv_job *job = &r->job;
    const struct rt_signature *sig = job->signature->def;
    job->n_feeds = sig->n_inputs;
    job->n_fetches = sig->n_outputs;
    job->feeds = rt_arena_array(r->arena, (size_t)sig->n_inputs, sizeof *job->feeds);
    job->fetches = rt_arena_array(r->arena, (size_t)sig->n_outputs, sizeof *job->fetches);
    if (!job->feeds || !job->fetches) {
        job->n_feeds = job->n_fetches = 0;
        return rt_fail_memory(&r->err, "the tensors of a request", sizeof *job->feeds);
    }
    int64_t left = r->server->options.max_bytes_in_flight -
                   atomic_load_explicit(&r->server->bytes_in_flight, memory_order_relaxed);
    enum rt_status st = srv_json_decode_predict(doc, sig, name, left > 0 ? (size_t)left : 0,
                                                job->feeds, &r->form, &r->err);
    if (st)
        return st == RT_RESOURCE_EXHAUSTED ? RT_UNAVAILABLE : st;
    size_t bytes = 0;
    for (int i = 0; i < job->n_feeds; i++)
        bytes += rt_tensor_bytes(&job->feeds[i]);
    if (!srv_rest_charge(r, bytes))
        return rt_fail(&r->err, RT_UNAVAILABLE,
                       "%zu bytes of tensors do not fit beside the other requests", bytes);
    job->body_bytes = r->charged;
    return RT_OK;
}

bool srv_rest_predict(struct srv_rest_request *r)
{
    struct srv_job *job = &r->job;
    struct srv_json_doc doc;
    struct rt_span name;
    memset(job, 0, sizeof *job);
    enum rt_status st = srv_json_check(&doc, rt_span_of(r->body.p, r->body.n), &r->err);
    if (!st)
        st = resolve(r, &doc, &name);
    if (!st)
        st = decode(r, &doc, name);
    if (st) {
        srv_job_clear(job);
        srv_rest_fail(r, st);
        return false;
    }
    job->net = r->net;
    job->arena = r->arena;
    job->owner = r;
    job->done = done;
    job->err.arena = r->arena;
    job->received_ns = r->received_ns;
    int64_t limit_ms = r->server->options.rest_api_timeout_in_ms;
    if (limit_ms <= 0 || __builtin_mul_overflow(limit_ms, 1000000, &job->deadline_ns) ||
        __builtin_add_overflow(job->deadline_ns, r->received_ns, &job->deadline_ns))
        job->deadline_ns = RT_NEVER;
    srv_job_submit(job);
    return true;
}
