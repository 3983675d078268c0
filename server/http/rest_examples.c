/* Handles POST .../m:classify and .../m:regress: decodes JSON examples into a job and writes the
 * job's scores as JSON. */
#include "server/protocol/tfs/json_examples.h"
#include "server/http/rest_request.h"

/* Writes the job's scores as JSON. May be called on any thread. */
static void done(struct srv_job *job)
{
    struct srv_rest_request *r = job->owner;
    const struct srv_inference *inf = &r->inference;
    struct srv_cancellation cancellation = srv_job_cancellation(job);
    enum rt_status st = job->status;

    if (!st)
        st = srv_inference_finish(&r->inference, &job->err);
    if (!st)
        st = srv_json_encode_scores(&r->out, inf->scorings, job->fetches, job->feeds[0].dim[0],
                                    &cancellation, &job->err);
    srv_rest_inferred(r, st);
}

static enum rt_status read_examples(struct srv_rest_request *r, struct rt_tensor *examples)
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

static enum rt_status decode(struct srv_rest_request *r)
{
    struct srv_inference *inf = &r->inference;
    struct rt_tensor examples = {.dtype = 0};
    enum rt_status st = read_examples(r, &examples);

    if (!st)
        st = r->found;
    if (!st)
        st = srv_inference_resolve(inf, &r->err);
    if (st) {
        rt_tensor_clear(&examples);
        return st;
    }
    r->job.feeds[0] = examples;
    const size_t bytes = srv_inference_feed_bytes(inf);
    if (!srv_rest_charge(r, bytes))
        return srv_rest_over_budget(r, bytes, "the request as tensors");
    r->job.body_bytes = r->charged;
    return RT_OK;
}

bool srv_rest_examples(struct srv_rest_request *r)
{
    return srv_rest_inference(r, decode, done);
}
