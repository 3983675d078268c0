/* Every method that runs a model: Predict, Classify, Regress, MultiInference, SessionRun. */
#include "runtime/base/clock.h"
#include "server/grpc_call.h"
#include "server/inference.h"
#include "server/request_log.h"

enum { TENSOR_FACTOR = 2 }; /* a request's tensors may take so many times the largest body */

/* Any thread. The outputs are written where they were made, on the worker. */
static void done(struct srv_job *job)
{
    struct srv_call *c = job->owner;
    struct srv_inference *inf = c->state;
    enum rt_status st = job->status;
    unsigned char *bytes = NULL;
    size_t n = 0;
    struct srv_growth growth = {&c->server->in_flight, &c->charged, 0};

    inf->growth = &growth; /* given back at the call's end, when the answer is sent */
    if (!st)
        st = srv_inference_finish(inf, &job->err);
    if (!st)
        st = srv_inference_write(inf, &bytes, &n, &job->err);
    if (!st && srv_request_log_wants(job))
        srv_request_log_add(inf, rt_span_of(bytes, n));
    /* Before the answer: the loop may end the call as soon as that is sent. */
    srv_inference_clear(inf);
    srv_call_answer_expected(c, bytes, n, st, st ? rt_error_text(&job->err) : NULL);
}

static enum rt_status bind_tensors(struct srv_call *c, struct srv_inference *inf)
{
    size_t payload = c->charged, bytes = 0;
    enum rt_status st = srv_inference_bind(
        inf, (size_t)c->server->options.max_body_bytes * (size_t)TENSOR_FACTOR, &bytes, &c->err);

    if (st)
        return st;
    srv_call_drop_payload(c);
    srv_budget_give(&c->server->in_flight, &c->charged, payload);
    c->job.body_bytes = bytes;
    return srv_call_charge(c, bytes, "the request as tensors");
}

/* The request as a job, its version held. */
static enum rt_status admit(struct srv_call *c, struct srv_inference *inf)
{
    struct srv_cursor message;
    enum rt_status st = srv_call_open(c, &message);

    if (!st)
        st = srv_inference_read(inf, message, &c->err);
    c->model = inf->spec.name;
    if (!st)
        st = srv_inference_find(inf, c->net->map, &c->err);
    if (st)
        return st;
    srv_hold(c->net, c->job.version); /* until the call is over */
    if (inf->timeout_ms > 0 &&
        (__builtin_mul_overflow(inf->timeout_ms, 1000000, &c->job.deadline_ns) ||
         __builtin_add_overflow(c->job.deadline_ns, c->received_ns, &c->job.deadline_ns)))
        c->job.deadline_ns = RT_NEVER;
    st = srv_inference_resolve(inf, &c->err);
    return st ? st : bind_tensors(c, inf);
}

const char *srv_grpc_session_off(const struct srv_options *o)
{
    return o->enable_session_service
               ? NULL
               : "the service lets a client run any node of a model, so it is off unless "
                 "--enable_session_service";
}

void srv_grpc_inference(struct srv_call *c)
{
    struct srv_inference *inf = rt_arena_alloc(c->arena, sizeof *inf);
    enum rt_status st;

    if (!inf) {
        srv_call_fail(c, rt_fail_memory(&c->err, "a request", sizeof *inf));
        return;
    }
    c->state = inf;
    srv_inference_init(inf, (enum srv_api)c->method->api, SRV_ENTRY_GRPC, &c->server->options,
                       c->arena, &c->job);
    st = admit(c, inf);
    if (st)
        srv_call_fail(c, st);
    else
        srv_call_submit(c, done);
}
