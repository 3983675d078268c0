/* What the REST handlers of inferences share: from a model's name to a held version, and from a
 * filled job to the scheduler. */
#include "runtime/base/clock.h"
#include "server/rest_request.h"

enum rt_status srv_rest_admit(struct srv_rest_request *r)
{
    enum rt_status st = srv_inference_find(&r->inference, r->net->map, &r->err);
    if (st)
        return st;
    srv_hold(r->net, r->job.version); /* until it has been answered */
    return srv_inference_resolve(&r->inference, &r->err);
}

void srv_rest_submit(struct srv_rest_request *r, void (*done)(struct srv_job *job))
{
    struct srv_job *job = &r->job;
    int64_t limit_ms = r->server->options.rest_api_timeout_in_ms;

    job->net = r->net;
    job->owner = r;
    job->done = done;
    job->received_ns = r->received_ns;
    if (limit_ms <= 0 || __builtin_mul_overflow(limit_ms, 1000000, &job->deadline_ns) ||
        __builtin_add_overflow(job->deadline_ns, r->received_ns, &job->deadline_ns))
        job->deadline_ns = RT_NEVER;
    srv_job_submit(job);
}
