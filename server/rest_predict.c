/* POST .../m:predict: JSON to a job, and its outputs to JSON. */
#include "server/request_log.h"
#include "server/rest_request.h"

/* Any thread. The outputs are written where they were made: on the worker. */
static void done(struct srv_job *job)
{
    struct srv_rest_request *r = job->owner;
    enum rt_status st = job->status;
    if (!st)
        st = srv_inference_finish(&r->inference, &job->err);
    if (!st)
        st =
            srv_json_encode_predict(&r->out, job->signature->def, job->fetches, r->form, &job->err);
    if (st) {
        rt_error_copy(&r->err, &job->err);
        srv_rest_fail(r, st);
    } else {
        srv_rest_ok(r, "application/json");
        if (srv_request_log_wants(job))
            srv_request_log_write_and_add(&r->inference);
    }
    srv_inference_clear(&r->inference);
    srv_rest_finished(r);
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
        return srv_rest_no_room(r, bytes, "the request as tensors");
    job->body_bytes = r->charged;
    return RT_OK;
}

bool srv_rest_predict(struct srv_rest_request *r)
{
    return srv_rest_inference(r, decode, done);
}
