#include "server/inference/inference.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "server/inference/inference_internal.h"

static const char default_signature[] = "serving_default";

void srv_inference_init(struct srv_inference *inf, enum srv_api api, enum srv_entry entry,
                        const struct srv_options *options, struct rt_arena *arena,
                        struct srv_job *job)
{
    memset(inf, 0, sizeof *inf);
    memset(job, 0, sizeof *job);
    inf->api = api;
    inf->entry = entry;
    inf->options = options;
    inf->arena = arena;
    inf->job = job;
    job->arena = arena;
    job->err.arena = arena;
}

static const struct srv_inference_ops *ops_of(const struct srv_inference *inf)
{
    switch (inf->api) {
    case SRV_CLASSIFY:
    case SRV_REGRESS:
        return &srv_examples_ops;
    case SRV_MULTI_INFERENCE:
        return &srv_multi_ops;
    case SRV_SESSION_RUN:
        return &srv_session_ops;
    default:
        return &srv_predict_ops;
    }
}

enum rt_status srv_inference_read(struct srv_inference *inf, struct srv_cursor message,
                                  struct rt_error *err)
{
    return ops_of(inf)->read(inf, message, err);
}

enum rt_status srv_inference_find(struct srv_inference *inf, const struct srv_map *map,
                                  struct rt_error *err)
{
    if (inf->entry == SRV_ENTRY_GRPC) {
        if (!inf->has_spec && inf->api != SRV_MULTI_INFERENCE)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Missing ModelSpec");
        if (!inf->spec.name.n)
            return rt_fail(err, RT_INVALID_ARGUMENT, "ModelSpec has no name specified.");
    }
    return srv_map_find(map, &inf->spec, &inf->job->version, err);
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

static enum rt_status prepare(struct srv_job *job)
{
    enum rt_status st = rt_model_make_dynamic(job->version->loaded, job->dynamic_spec,
                                              job->dynamic_shapes, &job->signature, &job->err);
    if (!st)
        job->prepare = NULL;
    return st;
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
    job->prepare = prepare;
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
    enum rt_status st = ops_of(inf)->resolve(inf, err);
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

enum rt_status srv_inference_bind(struct srv_inference *inf, size_t budget, size_t *bytes,
                                  struct rt_error *err)
{
    enum rt_status st = ops_of(inf)->bind(inf, budget, err);
    *bytes = st ? 0 : srv_inference_feed_bytes(inf);
    return st;
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
    if (!st && ops_of(inf)->finish)
        st = ops_of(inf)->finish(inf, err);
    return st;
}

enum rt_status srv_inference_write(const struct srv_inference *inf, unsigned char **out, size_t *n,
                                   struct rt_error *err)
{
    return ops_of(inf)->write(inf, out, n, err);
}

void srv_inference_write_request(const struct srv_inference *inf, struct rt_bytes *out)
{
    ops_of(inf)->write_request(inf, out);
}

void srv_inference_clear(struct srv_inference *inf)
{
    srv_job_clear(inf->job);
}

enum rt_status srv_inference_perform(struct srv_inference *inf, struct srv_cursor message,
                                     struct srv_version *version,
                                     const struct rt_run_options *options, unsigned char **out,
                                     size_t *n, struct rt_error *err)
{
    size_t bytes;
    enum rt_status st = srv_inference_read(inf, message, err);

    inf->job->version = version;
    if (!st)
        st = srv_inference_resolve(inf, err);
    if (!st)
        st = srv_inference_bind(inf, (size_t)inf->options->max_body_bytes * 2, &bytes, err);
    if (!st)
        st = srv_inference_run(inf, options, err);
    if (!st)
        st = srv_inference_finish(inf, err);
    if (!st)
        st = srv_inference_write(inf, out, n, err);
    return st;
}
