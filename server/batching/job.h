/*
 * A job is one request inside the server: decoded tensors in, tensors out.
 *
 * Owner: the transport that made the job; between srv_job_submit and `done` the scheduler owns it.
 * Everything that a job points to lives in its arena or holds a reference of its own.
 */
#ifndef SRV_JOB_H
#define SRV_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/files/saved_model.h"
#include "server/protocol/tfs/api.h"
#include "server/batching/scheduler_core.h"
#include "server/base/cancellation.h"

struct srv_io_loop;
struct srv_version;

struct srv_job {
    struct srv_job *next;
    struct srv_io_loop *io_loop;
    struct srv_version *version; /* io_loop holds a handle of it until the job is over */
    const struct rt_model_signature *signature;
    /* NULL, or slow work that a worker does before the job can be queued: decoding a long body
     * (`signature` and `feeds` are unknown before), or building the plan of a dynamic callable
     * (`signature->call` is NULL before). The function sets `prepare` to NULL. Afterwards the job
     * is submitted again with `then`, the transport's callback, as its `done`. */
    enum rt_status (*prepare)(struct srv_job *job);
    void (*then)(struct srv_job *job);
    const struct rt_call_spec *dynamic_spec;
    const struct rt_shape *dynamic_shapes; /* as in rt_model_make_dynamic */
    struct rt_arena *arena;                /* the request's arena */
    size_t body_bytes;                     /* bytes counted against the budget of bytes in flight */

    /* feeds[i] is input i of the signature. srv_job_clear drops the feeds. */
    int n_feeds;
    struct rt_tensor *feeds;
    /* fetches[i] is output i of the signature, zero unless `status` is RT_OK. The array is the
     * transport's, or srv_job_submit allocates it in the arena when it is NULL. */
    int n_fetches;
    struct rt_tensor *fetches;
    /* dimension 0 of every feed; 0: the feeds share none, the job is never merged */
    int64_t n_rows;

    /* NULL, or the trace that the run fills in: a traced job is never merged */
    struct rt_trace *trace;

    int64_t deadline_ns;    /* CLOCK_MONOTONIC; RT_NEVER: none */
    _Atomic bool cancelled; /* the client has gone: the job does not start any more */
    /* the request that this sub-request is part of (sub_requests.h); NULL: a whole request */
    struct srv_job *parent;

    int64_t received_ns, queued_ns, started_ns, finished_ns; /* CLOCK_MONOTONIC */
    int batch_rows; /* rows of the batch in which the job ran */

    enum rt_status status;
    struct rt_error err; /* err.arena is the job's arena */

    /* Called exactly once, on any thread: on a worker, or on the loop thread when the job ran
     * inline or was refused. It must hand work that needs the loop thread over to that thread. */
    void (*done)(struct srv_job *job);
    void *owner; /* the transport's own data */

    struct srv_core_job sched; /* the scheduler's own data */
};

/* Returns the flag that ends the job when its client has gone. */
static inline const _Atomic bool *srv_job_cancelled(const struct srv_job *job)
{
    return job->parent ? &job->parent->cancelled : &job->cancelled;
}

/* The conditions that end the writing of the job's response: deadline and cancelled client. */
static inline struct srv_cancellation srv_job_cancellation(const struct srv_job *job)
{
    return (struct srv_cancellation){.deadline_ns = job->deadline_ns,
                                     .cancelled = srv_job_cancelled(job)};
}

/*
 * Submits a decoded request as a job. Loop thread, inside a turn. The function fills n_rows and
 * adds the job to the turn. A cheap job whose bucket is empty runs at once on this thread, and
 * `done` is called before the function returns. A job refused here also gets `done` before the
 * return; a full queue refuses the job with UNAVAILABLE at the end of the turn.
 */
void srv_job_submit(struct srv_job *job);
/* Clears the feeds and fetches. */
void srv_job_clear(struct srv_job *job);

#endif
