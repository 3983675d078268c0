#include "server/batching/job.h"

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "server/batching/io_loop.h"
#include "server/batching/scheduler.h"
#include "server/tracing/request_span.h"

/* Returns dimension 0 of the feeds if it is equal in all feeds, and otherwise 0. Also returns 0 for
 * a job with a trace, and for a dynamic callable that did not pass row-wise analysis. */
static int64_t rows_of(const struct srv_job *job)
{
    if (job->trace || (job->signature->is_dynamic && !job->signature->rowwise))
        return 0;
    if (!job->n_feeds || !job->feeds[0].rank)
        return 0;
    for (int i = 1; i < job->n_feeds; i++)
        if (!job->feeds[i].rank || job->feeds[i].dim[0] != job->feeds[0].dim[0])
            return 0;
    return job->feeds[0].dim[0];
}

/* Prepares a job for queuing after its signature and feeds were set: sets the number of rows,
 * allocates the fetches, and checks admission. */
static enum rt_status make_ready(struct srv_job *job)
{
    job->n_rows = rows_of(job);
    if (!job->fetches) {
        job->n_fetches = job->signature->def->n_outputs;
        job->fetches = rt_arena_array(job->arena, (size_t)job->n_fetches + 1, sizeof *job->fetches);
        if (!job->fetches) {
            job->n_fetches = 0;
            return rt_fail_memory(&job->err, "a request's outputs", 0);
        }
    }
    return job->signature->is_dynamic ? RT_OK
                                      : srv_scheduler_admit(job->io_loop->server->scheduler, job);
}

void srv_job_end(struct srv_job *job)
{
    const bool is_prepared = job->kind == SRV_JOB_PREPARE;

    if (is_prepared) {
        job->kind = SRV_JOB_RUN;
        srv_request_span_decoded(job->span, job->started_ns);
        job->started_ns = 0;
        if (!job->status)
            job->status = make_ready(job);
    }
    if (!is_prepared || job->status) {
        job->done(job);
        return;
    }
    job->finished_ns = 0;
    job->next = NULL;
    srv_scheduler_submit(job->io_loop->server->scheduler, job);
}

void srv_job_submit(struct srv_job *job)
{
    static const struct rt_signature nothing = {.name = "", .method_name = ""};
    static const struct rt_model_signature unknown = {.def = &nothing, .is_dynamic = true};
    struct srv_io_loop *io_loop = job->io_loop;

    const int64_t default_ms = io_loop->server->options.default_deadline_ms;

    job->queued_ns = rt_now_ns();
    job->err.arena = job->arena;
    if (job->deadline_ns == RT_NEVER && default_ms) {
        job->deadline_ns = job->queued_ns + default_ms * 1000000;
        job->has_default_deadline = true;
    }
    job->kind = job->prepare ? SRV_JOB_PREPARE : SRV_JOB_RUN;
    if (job->kind == SRV_JOB_PREPARE) {
        if (!job->signature)
            job->signature = &unknown;
        srv_request_span_prepare(job->span);
        job->n_rows = 0;
    } else {
        job->status = make_ready(job);
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

void srv_job_clear(struct srv_job *job)
{
    for (int i = 0; job->feeds && i < job->n_feeds; i++)
        rt_tensor_clear(&job->feeds[i]);
    for (int i = 0; job->fetches && i < job->n_fetches; i++)
        rt_tensor_clear(&job->fetches[i]);
}
