#include "server/job.h"

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "server/net.h"
#include "server/scheduler.h"

/* Dimension 0 of all feeds, when they have the same. */
static int64_t common_rows(const struct srv_job *job)
{
    if (!job->n_feeds || !job->feeds[0].rank)
        return 0;
    for (int i = 1; i < job->n_feeds; i++)
        if (!job->feeds[i].rank || job->feeds[i].dim[0] != job->feeds[0].dim[0])
            return 0;
    return job->feeds[0].dim[0];
}

void srv_job_submit(struct srv_job *job)
{
    struct srv_net *net = job->net;

    job->n_rows = job->trace ? 0 : common_rows(job);
    job->queued_ns = rt_now_ns();
    job->err.arena = job->arena;
    if (!job->fetches) {
        job->n_fetches = job->signature->def->n_outputs;
        job->fetches = rt_arena_array(job->arena, (size_t)job->n_fetches + 1, sizeof *job->fetches);
        if (!job->fetches) {
            job->n_fetches = 0;
            job->status = rt_fail_memory(&job->err, "a request's outputs", 0);
            job->done(job);
            return;
        }
    }
    job->status = srv_scheduler_admit(net->server->scheduler, job);
    if (job->status) {
        job->done(job);
        return;
    }
    if (!job->prepare && srv_scheduler_run_inline(net->server->scheduler, job))
        return;
    job->next = NULL;
    *net->turn_end = job;
    net->turn_end = &job->next;
}

void srv_job_clear(struct srv_job *job)
{
    for (int i = 0; job->feeds && i < job->n_feeds; i++)
        rt_tensor_clear(&job->feeds[i]);
    for (int i = 0; job->fetches && i < job->n_fetches; i++)
        rt_tensor_clear(&job->fetches[i]);
}
