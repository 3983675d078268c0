#include <stdlib.h>

#include "server/grpc_call.h"
#include "server/scheduler.h"

enum { TENSOR_FACTOR = 2 }; /* a request's tensors may take so many times the largest body */

/* Of one Predict, in the call's arena. */
struct predict {
    struct srv_predict_request request;
    bool *wanted;
};

static const char default_signature[] = "serving_default";

/* Any thread. The outputs are written where they were made, on the worker. */
static void done(struct srv_job *job)
{
    struct srv_call *c = job->owner;
    const struct predict *p = c->state;
    struct srv_server *s = c->server;
    enum rt_status st = job->status;
    unsigned char *bytes = NULL;
    size_t n = 0;

    for (int i = 0; i < job->n_fetches && !st; i++)
        if (p->wanted[i])
            st = rt_tensor_load(&job->fetches[i], &job->err);
    if (!st) {
        struct srv_predict_response r = {
            .model = job->version->model,
            .signature = job->signature->def->name,
            .version = job->version->version,
            .sig = job->signature->def,
            .fetches = job->fetches,
            .wanted = p->wanted,
            .as_content = s->options.enable_serialization_as_tensor_content,
        };
        st = srv_predict_write(&r, &bytes, &n, &job->err);
    }
    /* Before the answer: the loop may end the call as soon as that is sent. */
    srv_job_clear(job);
    srv_call_answer_expected(c, bytes, n, st, st ? rt_error_text(&job->err) : NULL);
}

static enum rt_status check_method(const struct srv_server *s, const struct rt_signature *sig,
                                   struct rt_error *err)
{
    const char *name = sig->method_name ? sig->method_name : "";

    if (!s->options.enable_signature_method_name_check ||
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

/* The version, held, and the signature that the request names. */
static enum rt_status resolve(struct srv_call *c, const struct predict *p)
{
    struct srv_net *net = c->net;
    const struct srv_model_spec *spec = &p->request.spec;
    struct srv_version *version;
    const char *name = default_signature;

    if (!p->request.has_spec)
        return rt_fail(&c->err, RT_INVALID_ARGUMENT, "Missing ModelSpec");
    if (!spec->name.n)
        return rt_fail(&c->err, RT_INVALID_ARGUMENT, "ModelSpec has no name specified.");
    enum rt_status st = srv_map_find(net->map, spec, &version, &c->err);
    if (st)
        return st;
    if (spec->signature.n) {
        name = rt_arena_strndup(c->arena, (const char *)spec->signature.p, spec->signature.n);
        if (!name)
            return rt_fail_memory(&c->err, "a signature's name", spec->signature.n);
    }
    srv_hold(net, version); /* until the call is over */
    c->job.version = version;
    const struct rt_model_signature *sig = spec->signature.n && strlen(name) != spec->signature.n
                                               ? NULL
                                               : rt_model_signature(version->loaded, name);
    if (!sig)
        return rt_fail(&c->err, RT_FAILED_PRECONDITION, "Serving signature key \"%s\" not found.",
                       name);
    c->job.signature = sig;
    if (!sig->call)
        return rt_fail(&c->err, RT_UNIMPLEMENTED, "signature \"%s\" cannot run: %s", name,
                       sig->unsupported ? sig->unsupported : "it was left out");
    return check_method(net->server, sig->def, &c->err);
}

static enum rt_status bind_tensors(struct srv_call *c, struct predict *p)
{
    struct srv_job *job = &c->job;
    const struct rt_signature *sig = job->signature->def;
    size_t payload = c->charged, bytes = 0;

    job->feeds = rt_arena_array(c->arena, (size_t)sig->n_inputs + 1, sizeof *job->feeds);
    job->fetches = rt_arena_array(c->arena, (size_t)sig->n_outputs + 1, sizeof *job->fetches);
    p->wanted = rt_arena_array(c->arena, (size_t)sig->n_outputs + 1, sizeof *p->wanted);
    if (!job->feeds || !job->fetches || !p->wanted)
        return rt_fail_memory(&c->err, "the tensors of a request", 0);
    job->n_feeds = sig->n_inputs;
    job->n_fetches = sig->n_outputs;
    enum rt_status st = srv_predict_bind(
        &p->request, sig, (size_t)c->server->options.max_body_bytes * (size_t)TENSOR_FACTOR,
        job->feeds, p->wanted, c->arena, &c->err);
    if (st)
        return st;
    for (int i = 0; i < job->n_feeds; i++)
        bytes += rt_tensor_bytes(&job->feeds[i]);
    srv_call_drop_payload(c);
    srv_call_uncharge(c, payload);
    if (!srv_call_charge(c, bytes))
        return rt_fail(&c->err, RT_UNAVAILABLE,
                       "%zu bytes of tensors do not fit beside the other requests that are being "
                       "served",
                       bytes);
    job->body_bytes = bytes;
    return RT_OK;
}

void srv_grpc_predict(struct srv_call *c)
{
    struct predict *p = rt_arena_alloc(c->arena, sizeof *p);
    struct srv_cursor message;
    enum rt_status st = p ? srv_call_open(c, &message) : rt_fail_memory(&c->err, "a request", 0);

    c->state = p;
    if (!st)
        st = srv_predict_read(message, &p->request, c->arena, &c->err);
    if (!st) {
        c->model = p->request.spec.name;
        st = resolve(c, p);
    }
    if (!st)
        st = bind_tensors(c, p);
    if (st)
        srv_call_fail(c, st);
    else
        srv_call_submit(c, done);
}
