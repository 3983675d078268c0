/* Implements Predict: feeds the named inputs of a signature and fetches its named outputs. */
#include <string.h>

#include "runtime/base/arena.h"
#include "server/protocol/tfs/json_tensor.h"
#include "server/protocol/tfs/predict_proto.h"
#include "server/protocol/tfs/tfs.h"

enum rt_status srv_tfs_check_spec(const struct srv_inference *inf, struct rt_error *err)
{
    if (!inf->has_spec)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Missing ModelSpec");
    if (!inf->spec.name.n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "ModelSpec has no name specified.");
    return RT_OK;
}

struct json_predict {
    struct srv_json_doc doc;
    enum srv_json_form form;
};

static enum rt_status read(struct srv_inference *inf, struct srv_cursor message,
                           struct rt_error *err)
{
    struct srv_predict_request *r = rt_arena_alloc(inf->arena, sizeof *r);

    if (!r)
        return rt_fail_memory(err, "a request", sizeof *r);
    inf->request = r;
    enum rt_status st = srv_predict_read(message, r, inf->arena, err);
    inf->has_spec = r->has_spec;
    inf->spec = r->spec;
    return st;
}

static enum rt_status read_json(struct srv_inference *inf, struct srv_cursor message,
                                struct rt_error *err)
{
    struct json_predict *r = rt_arena_alloc(inf->arena, sizeof *r);
    struct rt_span text;

    if (!r)
        return rt_fail_memory(err, "a request", sizeof *r);
    inf->request = r;
    enum rt_status st = srv_cursor_span(message, &text, inf->arena, err);
    if (!st)
        st = srv_json_check(&r->doc, text, &inf->cancellation, err);
    return st ? st : srv_json_signature(&r->doc, inf->arena, &inf->spec.signature, err);
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

static enum rt_status resolve(struct srv_inference *inf, struct rt_error *err)
{
    enum rt_status st = srv_inference_signature(inf, inf->spec.signature, &inf->job->signature,
                                                RT_FAILED_PRECONDITION,
                                                "Serving signature key \"%s\" not found.", err);
    return st ? st : check_method(inf, inf->job->signature->def, err);
}

static enum rt_status resolve_json(struct srv_inference *inf, struct rt_error *err)
{
    enum rt_status st =
        srv_inference_signature(inf, inf->spec.signature, &inf->job->signature, RT_INVALID_ARGUMENT,
                                "Serving signature name: \"%s\" not found in signature def", err);
    return st ? st : check_method(inf, inf->job->signature->def, err);
}

static enum rt_status bind(struct srv_inference *inf, struct rt_error *err)
{
    const struct rt_model_signature *sig = inf->job->signature;
    return srv_predict_bind(inf->request, sig->def, sig->call, &inf->allowance, inf->job->feeds,
                            inf->wanted, err);
}

static enum rt_status bind_json(struct srv_inference *inf, struct rt_error *err)
{
    struct json_predict *r = inf->request;
    return srv_json_decode_predict(&r->doc, inf->job->signature->def, inf->spec.signature,
                                   &inf->allowance, inf->job->feeds, &r->form, err);
}

static struct srv_model_echo echo_of(const struct srv_job *job)
{
    return (struct srv_model_echo){job->version->model, job->signature->def->name,
                                   job->version->version};
}

enum rt_status srv_tfs_write_predict(struct srv_inference *inf, struct rt_bytes *out,
                                     struct rt_error *err)
{
    const struct srv_job *job = inf->job;
    const struct srv_predict_response r = {
        .echo = echo_of(job),
        .sig = job->signature->def,
        .fetches = job->fetches,
        .wanted = inf->wanted,
        .as_content = inf->options->enable_serialization_as_tensor_content,
        .growth = inf->growth,
    };
    unsigned char *p = NULL;
    size_t n = 0;
    enum rt_status st = srv_predict_write(&r, &p, &n, err);
    if (!st)
        rt_bytes_own(out, p, n);
    return st;
}

static enum rt_status encode_json(struct srv_inference *inf, struct rt_bytes *out,
                                  struct rt_error *err)
{
    const struct json_predict *r = inf->request;
    struct srv_cancellation cancellation = srv_job_cancellation(inf->job);
    return srv_json_encode_predict(out, inf->job->signature->def, inf->job->fetches, r->form,
                                   &cancellation, err);
}

void srv_tfs_write_predict_request(const struct srv_inference *inf, struct rt_bytes *out)
{
    const struct srv_job *job = inf->job;
    const struct srv_predict_request_parts parts = {
        .echo = echo_of(job),
        .sig = job->signature->def,
        .feeds = job->feeds,
        .wanted = inf->wanted,
    };
    srv_predict_write_request(&parts, out);
}

const struct srv_inference_steps srv_tfs_predict = {
    .api = SRV_PREDICT,
    .read = read,
    .check_spec = srv_tfs_check_spec,
    .resolve = resolve,
    .bind = bind,
    .encode = srv_tfs_write_predict,
    .log_request = srv_tfs_write_predict_request,
    .log_response = srv_tfs_write_predict,
};

const struct srv_inference_steps srv_tfs_predict_json = {
    .api = SRV_PREDICT,
    .read = read_json,
    .resolve = resolve_json,
    .bind = bind_json,
    .encode = encode_json,
    .log_request = srv_tfs_write_predict_request,
    .log_response = srv_tfs_write_predict,
};
