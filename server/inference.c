#include "server/inference.h"

#include <string.h>

#include "runtime/base/arena.h"

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

enum rt_status srv_inference_read(struct srv_inference *inf, struct srv_cursor message,
                                  struct rt_error *err)
{
    enum rt_status st = srv_predict_read(message, &inf->request.predict, inf->arena, err);

    inf->has_spec = inf->request.predict.has_spec;
    inf->spec = inf->request.predict.spec;
    return st;
}

enum rt_status srv_inference_find(struct srv_inference *inf, const struct srv_map *map,
                                  struct rt_error *err)
{
    if (inf->entry == SRV_ENTRY_GRPC) {
        if (!inf->has_spec)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Missing ModelSpec");
        if (!inf->spec.name.n)
            return rt_fail(err, RT_INVALID_ARGUMENT, "ModelSpec has no name specified.");
    }
    return srv_map_find(map, &inf->spec, &inf->job->version, err);
}

/* ---- the signature ---- */

static enum rt_status unknown_signature(const struct srv_inference *inf, const char *name,
                                        struct rt_error *err)
{
    if (inf->entry == SRV_ENTRY_REST)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Serving signature name: \"%s\" not found in signature def", name);
    return rt_fail(err, RT_FAILED_PRECONDITION, "Serving signature key \"%s\" not found.", name);
}

static enum rt_status check_method(const struct srv_inference *inf, const struct rt_signature *sig,
                                   struct rt_error *err)
{
    const char *name = sig->method_name ? sig->method_name : "";

    if (!inf->options->enable_signature_method_name_check ||
        strcmp(name, "tensorflow/serving/predict") == 0 ||
        strcmp(name, "tensorflow/serving/classify") == 0 ||
        strcmp(name, "tensorflow/serving/regress") == 0)
        return RT_OK;
    return rt_fail(err, RT_INTERNAL,
                   "Expected prediction signature method_name to be one of "
                   "{tensorflow/serving/predict, tensorflow/serving/classify, "
                   "tensorflow/serving/regress}. Was: %s",
                   name);
}

/* The signature that a spec names, or the default one. */
static enum rt_status named_signature(const struct srv_inference *inf, struct rt_span name,
                                      const struct rt_model_signature **out, struct rt_error *err)
{
    const char *wanted = default_signature;

    if (name.n) {
        wanted = rt_arena_strndup(inf->arena, (const char *)name.p, name.n);
        if (!wanted)
            return rt_fail_memory(err, "a signature's name", name.n);
    }
    const struct rt_model_signature *sig =
        name.n && strlen(wanted) != name.n ? NULL
                                           : rt_model_signature(inf->job->version->loaded, wanted);
    if (!sig)
        return unknown_signature(inf, wanted, err);
    if (!sig->call)
        return rt_fail(err, RT_UNIMPLEMENTED, "signature \"%s\" cannot run: %s", wanted,
                       sig->unsupported ? sig->unsupported : "it was left out");
    *out = sig;
    return RT_OK;
}

static enum rt_status make_room(struct srv_inference *inf, struct rt_error *err)
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
    enum rt_status st = named_signature(inf, inf->spec.signature, &inf->job->signature, err);

    if (!st)
        st = check_method(inf, inf->job->signature->def, err);
    return st ? st : make_room(inf, err);
}

/* ---- tensors ---- */

size_t srv_inference_feed_bytes(const struct srv_inference *inf)
{
    size_t bytes = 0;
    for (int i = 0; i < inf->job->n_feeds; i++)
        bytes += rt_tensor_bytes(&inf->job->feeds[i]);
    return bytes;
}

enum rt_status srv_inference_bind(struct srv_inference *inf, size_t budget, size_t *bytes,
                                  struct rt_error *err)
{
    struct srv_job *job = inf->job;
    enum rt_status st = srv_predict_bind(&inf->request.predict, job->signature->def, budget,
                                         job->feeds, inf->wanted, err);
    *bytes = st ? 0 : srv_inference_feed_bytes(inf);
    return st;
}

enum rt_status srv_inference_run(struct srv_inference *inf, const struct rt_run_options *options,
                                 struct rt_error *err)
{
    struct srv_job *job = inf->job;
    job->status = rt_callable_run(job->signature->call, job->feeds, job->fetches, options, err);
    return job->status;
}

enum rt_status srv_inference_finish(struct srv_inference *inf, struct rt_error *err)
{
    struct srv_job *job = inf->job;
    enum rt_status st = RT_OK;

    for (int i = 0; i < job->n_fetches && !st; i++)
        if (inf->wanted[i])
            st = rt_tensor_load(&job->fetches[i], err);
    return st;
}

/* ---- messages ---- */

enum rt_status srv_inference_write(const struct srv_inference *inf, unsigned char **out, size_t *n,
                                   struct rt_error *err)
{
    const struct srv_job *job = inf->job;
    const struct srv_predict_response r = {
        .echo = {job->version->model, job->signature->def->name, job->version->version},
        .sig = job->signature->def,
        .fetches = job->fetches,
        .wanted = inf->wanted,
        .as_content = inf->options->enable_serialization_as_tensor_content,
    };
    return srv_predict_write(&r, out, n, err);
}

void srv_inference_write_request(const struct srv_inference *inf, struct rt_bytes *out)
{
    const struct srv_job *job = inf->job;
    const struct srv_predict_request_parts parts = {
        .echo = {job->version->model, job->signature->def->name, job->version->version},
        .sig = job->signature->def,
        .feeds = job->feeds,
        .wanted = inf->wanted,
    };
    srv_predict_write_request(&parts, out);
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
