#include "server/inference/inference.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "server/inference/steps.h"

static const char default_signature[] = "serving_default";

void srv_inference_init(struct srv_inference *inf, const struct srv_inference_steps *steps,
                        const struct srv_options *options, struct rt_arena *arena,
                        struct srv_job *job)
{
    memset(inf, 0, sizeof *inf);
    memset(job, 0, sizeof *job);
    inf->steps = steps;
    inf->options = options;
    inf->arena = arena;
    inf->job = job;
    job->arena = arena;
    job->allowance = &inf->allowance;
    job->err.arena = arena;
    job->deadline_ns = RT_NEVER;
}

enum rt_status srv_inference_read(struct srv_inference *inf, struct srv_cursor message,
                                  struct rt_error *err)
{
    inf->cancellation = srv_job_cancellation(inf->job);
    message.cancellation = &inf->cancellation;
    const enum rt_status st = inf->steps->read(inf, message, err);
    return inf->cancellation.over ? srv_cancellation_status(&inf->cancellation, err) : st;
}

enum rt_status srv_inference_find(struct srv_inference *inf, const struct srv_map *map,
                                  struct rt_error *err)
{
    enum rt_status st = inf->steps->check_spec ? inf->steps->check_spec(inf, err) : RT_OK;

    if (st)
        return st;
    st = srv_map_find(map, &inf->spec, &inf->job->version, err);
    return st && inf->steps->not_found ? inf->steps->not_found(inf, st, err) : st;
}

int64_t srv_inference_deadline_ns(const struct srv_inference *inf, int64_t received_ns)
{
    int64_t at;

    if (inf->timeout_us <= 0 || __builtin_mul_overflow(inf->timeout_us, 1000, &at) ||
        __builtin_add_overflow(at, received_ns, &at))
        return RT_NEVER;
    return at;
}

enum rt_status srv_find_signature(const struct rt_model *model, struct rt_span name,
                                  struct rt_arena *arena, const struct rt_model_signature **out,
                                  enum rt_status code, const char *unknown, struct rt_error *err)
{
    const char *wanted = default_signature;
    const struct rt_model_signature *sig = NULL;

    if (name.n) {
        wanted = rt_arena_strndup(arena, (const char *)name.p, name.n);
        if (!wanted)
            return rt_fail_memory(err, "a signature's name", name.n);
    }
    if (!name.n || strlen(wanted) == name.n)
        sig = rt_model_signature(model, wanted);
    if (!sig) {
        const char *hole = strstr(unknown, "%s");
        const struct rt_span shown = rt_error_name(err, name.n ? name : rt_span_str(wanted));
        return rt_fail(err, code, "%.*s%.*s%s", (int)(hole - unknown), unknown, (int)shown.n,
                       (const char *)shown.p, hole + 2);
    }
    if (!sig->call)
        return rt_fail(err, RT_UNIMPLEMENTED, "signature \"%s\" cannot run: %s", wanted,
                       sig->unsupported ? sig->unsupported : "it was left out");
    *out = sig;
    return RT_OK;
}

enum rt_status srv_inference_signature(const struct srv_inference *inf, struct rt_span name,
                                       const struct rt_model_signature **out, enum rt_status code,
                                       const char *unknown, struct rt_error *err)
{
    return srv_find_signature(inf->job->version->loaded, name, inf->arena, out, code, unknown, err);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int srv_sort_names(const char **names, int n)
{
    int kept = 0;

    if (n)
        qsort(names, (size_t)n, sizeof *names, compare_names);
    for (int i = 0; i < n; i++)
        if (!kept || strcmp(names[i], names[kept - 1]) != 0)
            names[kept++] = names[i];
    return kept;
}

int srv_place_of(const char *const *names, int n, const char *name)
{
    const char *const *at = bsearch(&name, names, (size_t)n, sizeof *names, compare_names);
    return at ? (int)(at - names) : -1;
}

/* Builds the callable of a dynamic call. */
static enum rt_status make_dynamic(struct srv_job *job)
{
    return rt_model_make_dynamic(job->version->loaded, job->dynamic_spec, job->dynamic_shapes,
                                 &job->signature, &job->err);
}

enum rt_status srv_inference_dynamic(struct srv_inference *inf, const struct rt_call_spec *spec,
                                     const struct rt_shape *shapes, struct rt_error *err)
{
    struct srv_job *job = inf->job;
    struct rt_model_signature *sig;
    struct rt_signature *def;

    job->signature = rt_model_find_dynamic(job->version->loaded, spec);
    if (job->signature)
        return RT_OK;
    sig = rt_arena_alloc(inf->arena, sizeof *sig);
    def = rt_arena_alloc(inf->arena, sizeof *def);
    if (!sig || !def)
        return rt_fail_memory(err, "a call", sizeof *def);
    *def = (struct rt_signature){
        .name = "", .method_name = "", .n_inputs = spec->n_feeds, .n_outputs = spec->n_fetches};
    *sig = (struct rt_model_signature){.def = def, .is_dynamic = true};
    job->signature = sig;
    job->prepare = make_dynamic;
    job->dynamic_spec = spec;
    job->dynamic_shapes = shapes;
    return RT_OK;
}

static enum rt_status allocate_tensors(struct srv_inference *inf, struct rt_error *err)
{
    struct srv_job *job = inf->job;
    const struct rt_signature *sig = job->signature->def;

    job->feeds = rt_arena_array(inf->arena, (size_t)sig->n_inputs + 1, sizeof *job->feeds);
    job->fetches = rt_arena_array(inf->arena, (size_t)sig->n_outputs + 1, sizeof *job->fetches);
    inf->wanted = rt_arena_array(inf->arena, (size_t)sig->n_outputs + 1, sizeof *inf->wanted);
    if (!job->feeds || !job->fetches || !inf->wanted)
        return rt_fail_memory(err, "the tensors of a request", 0);
    job->n_feeds = sig->n_inputs;
    job->n_fetches = sig->n_outputs;
    for (int i = 0; i < sig->n_outputs; i++)
        inf->wanted[i] = true;
    return RT_OK;
}

enum rt_status srv_inference_resolve(struct srv_inference *inf, struct rt_error *err)
{
    enum rt_status st = inf->steps->resolve(inf, err);
    return st ? st : allocate_tensors(inf, err);
}

size_t srv_inference_feed_bytes(const struct srv_inference *inf)
{
    size_t bytes = 0;
    for (int i = 0; i < inf->job->n_feeds; i++) {
        const struct rt_tensor *t = &inf->job->feeds[i];
        bytes += rt_tensor_bytes(t) + rt_tensor_text_bytes(t);
    }
    return bytes;
}

enum rt_status srv_inference_bind(struct srv_inference *inf, struct rt_error *err)
{
    inf->cancellation.deadline_ns =
        inf->job->deadline_ns; /* `read` may have found an earlier one */
    enum rt_status st = inf->steps->bind(inf, err);
    if (inf->cancellation.over)
        st = srv_cancellation_status(&inf->cancellation, err);
    return st ? st : srv_allowance_settle(&inf->allowance, srv_inference_feed_bytes(inf), err);
}

enum rt_status srv_inference_run(struct srv_inference *inf, const struct rt_run_options *options,
                                 struct rt_error *err)
{
    struct srv_job *job = inf->job;
    if (job->prepare && (job->status = job->prepare(job)) != RT_OK) {
        rt_error_copy(err, &job->err);
        return job->status;
    }
    struct rt_run_options with_trace = options ? *options : (struct rt_run_options){0};
    with_trace.trace = job->trace;
    with_trace.accelerator = job->accelerator;
    job->status = rt_callable_run(job->signature->call, job->feeds, job->fetches, &with_trace, err);
    return job->status;
}

enum rt_status srv_inference_finish(struct srv_inference *inf, struct rt_error *err)
{
    struct srv_job *job = inf->job;
    enum rt_status st = RT_OK;

    for (int i = 0; i < job->n_fetches && !st; i++)
        if (inf->wanted[i])
            st = rt_tensor_load(&job->fetches[i], err);
    if (!st && inf->steps->finish)
        st = inf->steps->finish(inf, err);
    return st;
}

enum rt_status srv_inference_encode(struct srv_inference *inf, struct rt_bytes *out,
                                    struct rt_error *err)
{
    return inf->steps->encode(inf, out, err);
}

void srv_inference_log_request(const struct srv_inference *inf, struct rt_bytes *out)
{
    inf->steps->log_request(inf, out);
}

enum rt_status srv_inference_log_response(struct srv_inference *inf, struct rt_bytes *out,
                                          struct rt_error *err)
{
    return inf->steps->log_response(inf, out, err);
}

bool srv_inference_logs_response(const struct srv_inference *inf)
{
    return inf->steps->log_response == inf->steps->encode;
}

enum srv_api srv_inference_api(const struct srv_inference *inf)
{
    return inf->steps->api;
}

void srv_inference_clear(struct srv_inference *inf)
{
    if (inf->steps->clear)
        inf->steps->clear(inf);
    srv_job_clear(inf->job);
}

enum rt_status srv_inference_decode(struct srv_inference *inf, struct srv_cursor message,
                                    struct srv_version *version, struct rt_error *err)
{
    enum rt_status st = srv_inference_read(inf, message, err);

    inf->job->version = version;
    if (!st)
        st = srv_inference_resolve(inf, err);
    return st ? st : srv_inference_bind(inf, err);
}
