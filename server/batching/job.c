#include "server/batching/job.h"

#include "runtime/base/clock.h"
#include "server/batching/io_loop.h"
#include "server/batching/scheduler.h"
#include "server/tracing/request_span.h"

void srv_job_submit(struct srv_job *job)
{
    struct srv_io_loop *io_loop = job->io_loop;

    const int64_t default_ms = io_loop->server->options.default_deadline_ms;

    job->queued_ns = rt_now_ns();
    job->err.arena = job->arena;
    if (job->deadline_ns == RT_NEVER && default_ms) {
        job->deadline_ns = job->queued_ns + default_ms * 1000000;
        job->has_default_deadline = true;
    }
    job->kind = job->decode ? SRV_JOB_DECODE : job->prepare ? SRV_JOB_PREPARE : SRV_JOB_RUN;
    if (job->kind != SRV_JOB_RUN) {
        srv_request_span_prepare(job->span);
        job->n_rows = 0;
    } else {
        job->status = srv_scheduler_make_ready(job);
        if (job->status) {
            job->done(job);
            return;
        }
        if (srv_scheduler_run_inline(io_loop->server->scheduler, job))
            return;
    }
    job->next = NULL;
    *io_loop->turn_end = job;
    io_loop->turn_end = &job->next;
}
