/*
 * A job is one inference request inside the server: decoded input tensors and, after its run,
 * output tensors.
 *
 * Owner: the transport that created the job; between srv_job_submit and the call of `done` the
 * scheduler owns it. A job holds a reference to everything outside its arena that it points to.
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
    struct srv_version *version; /* io_loop holds a handle to the version until the job has ended */
    const struct rt_model_signature *signature;
    /* Slow work that a worker performs before the job can be queued, or NULL if there is none. The
     * work is either decoding a long body, which yields `signature` and `feeds`, or building the
     * plan of a dynamic callable, which sets `signature->call`. The function sets `prepare` to
     * NULL. Afterwards the job is submitted again, with the transport's callback `then` as the new
     * `done`. */
    enum rt_status (*prepare)(struct srv_job *job);
    void (*then)(struct srv_job *job);
    const struct rt_call_spec *dynamic_spec;
    const struct rt_shape *dynamic_shapes; /* shapes of the feeds, as in rt_model_make_dynamic */
    struct rt_arena *arena;                /* the request's arena */
    /* number of bytes charged to the budget of bytes in flight */
    size_t body_bytes;

    /* feeds[i] is input i of the signature. srv_job_clear releases the feeds. */
    int n_feeds;
    struct rt_tensor *feeds;
    /* fetches[i] is output i of the signature, and zero unless `status` is RT_OK. The transport may
     * provide the array; otherwise srv_job_submit allocates it in the arena. */
    int n_fetches;
    struct rt_tensor *fetches;
    /* dimension 0 if all feeds share it; otherwise 0, and the job is never merged */
    int64_t n_rows;

    /* trace of the run, or NULL; a job with a trace is never merged */
    struct rt_trace *trace;

    int64_t deadline_ns; /* on CLOCK_MONOTONIC; RT_NEVER means no deadline */
    /* whether srv_job_submit has set deadline_ns from --default_deadline_seconds */
    bool has_default_deadline;
    _Atomic bool cancelled; /* the client has disconnected, so the job must not be started */
    /* the request that this sub-request is part of (sub_requests.h), or NULL if the job is not a
     * sub-request */
    struct srv_job *parent;

    int64_t received_ns, queued_ns, started_ns, finished_ns; /* times on CLOCK_MONOTONIC */
    int batch_rows; /* number of rows in the batch that contains this job */

    enum rt_status status;
    struct rt_error err; /* err.arena must be the same as the job's arena */

    /* Called exactly once, either on a worker or, if the job ran inline or was refused, on the
     * thread of the I/O loop. Work that needs the thread of the I/O loop must be posted to it. */
    void (*done)(struct srv_job *job);
    void *owner; /* the transport's own data (REST or gRPC) */

    struct srv_core_job sched; /* data that only the scheduler uses */
};

/* Returns the flag that is set when the client of the job has disconnected. */
static inline const _Atomic bool *srv_job_cancelled(const struct srv_job *job)
{
    return job->parent ? &job->parent->cancelled : &job->cancelled;
}

/* Returns the conditions that cancel the response of a job: its deadline, and the disconnection of
 * its client. */
static inline struct srv_cancellation srv_job_cancellation(const struct srv_job *job)
{
    return (struct srv_cancellation){.deadline_ns = job->deadline_ns,
                                     .cancelled = srv_job_cancelled(job)};
}

/*
 * Submits a decoded request as a job, on the thread of the I/O loop during a turn. Sets n_rows, and
 * the default deadline if the job has none, and adds the job to the turn. A cheap job whose bucket
 * is empty runs immediately on this thread, and `done` is called before the function returns. If
 * the queue is full, the job is refused with UNAVAILABLE at the end of the turn. If the job is
 * refused for another reason, `done` is called before the function returns.
 */
void srv_job_submit(struct srv_job *job);
/* Clears the job's feeds and fetches. */
void srv_job_clear(struct srv_job *job);

#endif
