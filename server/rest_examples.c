/* POST .../m:classify and .../m:regress: JSON examples to a job, and its scores to JSON. */
#include "server/json_examples.h"
#include "server/request_log.h"
#include "server/rest_request.h"

/* Any thread. */
static void done(struct srv_job *job)
{
    struct srv_rest_request *r = job->owner;
    const struct srv_inference *inf = &r->inference;
    enum rt_status st = job->status;

    if (!st)
        st = srv_inference_finish(&r->inference, &job->err);
    if (!st)
        st = srv_json_encode_scores(&r->out, inf->scorings, job->fetches, job->feeds[0].dim[0],
                                    &job->err);
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

/* What the JSON says is wrong comes first, whether or not there is such a model. */
static enum rt_status decode(struct srv_rest_request *r, struct rt_tensor *examples)
{
    struct srv_json_doc doc;
    size_t left = srv_budget_left(&r->server->in_flight);
    enum rt_status st = srv_json_check(&doc, rt_span_of(r->body.p, r->body.n), &r->err);

    if (!st)
        st = srv_json_signature(&doc, r->arena, &r->inference.spec.signature, &r->err);
    if (!st)
        st = srv_json_decode_examples(&doc, left, examples, &r->err);
    return srv_rest_decoded(r, left, st);
}

bool srv_rest_examples(struct srv_rest_request *r)
{
    struct srv_inference *inf = &r->inference;
    struct rt_tensor examples = {.dtype = 0};

    srv_inference_init(inf, r->route.api, SRV_ENTRY_REST, &r->server->options, r->arena, &r->job);
    inf->spec = r->route.spec;
    enum rt_status st = decode(r, &examples);
    if (!st)
        st = srv_rest_admit(r);
    if (st)
        rt_tensor_clear(&examples);
    else
        r->job.feeds[0] = examples;
    if (!st && !srv_rest_charge(r, srv_inference_feed_bytes(inf)))
        st = srv_rest_no_room(r, srv_inference_feed_bytes(inf), "the request as tensors");
    if (st) {
        srv_inference_clear(inf);
        srv_rest_fail(r, st);
        return false;
    }
    r->job.body_bytes = r->charged;
    srv_rest_submit(r, done);
    return true;
}
