/* Implements Predict: feeds the named inputs of a signature and fetches its named outputs. */
#include <string.h>

#include "server/inference/inference_internal.h"

static enum rt_status read(struct srv_inference *inf, struct srv_cursor message,
                           struct rt_error *err)
{
    enum rt_status st = srv_predict_read(message, &inf->request.predict, inf->arena, err);

    inf->has_spec = inf->request.predict.has_spec;
    inf->spec = inf->request.predict.spec;
    return st;
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
    bool rest = inf->entry == SRV_ENTRY_REST;
    enum rt_status st =
        srv_inference_signature(inf, inf->spec.signature, &inf->job->signature,
                                rest ? RT_INVALID_ARGUMENT : RT_FAILED_PRECONDITION,
                                rest ? "Serving signature name: \"%s\" not found in signature def"
                                     : "Serving signature key \"%s\" not found.",
                                err);
    return st ? st : check_method(inf, inf->job->signature->def, err);
}

static enum rt_status bind(struct srv_inference *inf, size_t budget, struct rt_error *err)
{
    struct srv_job *job = inf->job;
    return srv_predict_bind(&inf->request.predict, job->signature->def, job->signature->call,
                            budget, job->feeds, inf->wanted, err);
}

static struct srv_model_echo echo_of(const struct srv_job *job)
{
    return (struct srv_model_echo){job->version->model, job->signature->def->name,
                                   job->version->version};
}

static enum rt_status write(const struct srv_inference *inf, unsigned char **out, size_t *n,
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
    return srv_predict_write(&r, out, n, err);
}

static void write_request(const struct srv_inference *inf, struct rt_bytes *out)
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

const struct srv_inference_ops srv_predict_ops = {
    .read = read,
    .resolve = resolve,
    .bind = bind,
    .write = write,
    .write_request = write_request,
};
