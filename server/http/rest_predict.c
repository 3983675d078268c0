/* Handles POST .../m:predict: decodes a JSON body into a job and writes the job's outputs as
 * JSON. */
#include "server/http/rest_request.h"

/* Writes the job's outputs as JSON. May be called on any thread, usually on the worker that has
 * computed the outputs. */
static void done(struct srv_job *job)
{
    struct srv_rest_request *r = job->owner;
    struct srv_cancellation cancellation = srv_job_cancellation(job);
    enum rt_status st = job->status;
    if (!st)
        st = srv_inference_finish(&r->inference, &job->err);
    if (!st)
        st = srv_json_encode_predict(&r->out, job->signature->def, job->fetches, r->form,
                                     &cancellation, &job->err);
    srv_rest_inferred(r, st);
}

static enum rt_status decode(struct srv_rest_request *r)
{
    struct srv_inference *inf = &r->inference;
    struct srv_job *job = &r->job;
    struct srv_json_doc doc;
    enum rt_status st = srv_json_check(&doc, rt_span_of(r->body.p, r->body.n), &r->err);
    if (!st)
        st = srv_json_signature(&doc, r->arena, &inf->spec.signature, &r->err);
    if (!st)
        st = r->found;
    if (!st)
        st = srv_inference_resolve(inf, &r->err);
    if (st)
        return st;
    const size_t left = srv_budget_left(&r->server->in_flight);
    st = srv_json_decode_predict(&doc, job->signature->def, inf->spec.signature, left, job->feeds,
                                 &r->form, &r->err);
    if (st)
        return srv_rest_decoded(r, left, st);
    const size_t bytes = srv_inference_feed_bytes(inf);
    if (!srv_rest_charge(r, bytes))
        return srv_rest_over_budget(r, bytes, "the request as tensors");
    job->body_bytes = r->charged;
    return RT_OK;
}

bool srv_rest_predict(struct srv_rest_request *r)
{
    return srv_rest_inference(r, decode, done);
}
