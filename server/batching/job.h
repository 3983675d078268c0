/*
 * One request on its way through the server: decoded tensors in, tensors out.
 *
 * Owner: the transport that made it, except between srv_job_submit and `done`, when the scheduler
 * has it. Everything a job points to lives in its arena or holds references of its own.
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
    struct srv_version *version; /* held by net until the job is over */
    const struct rt_model_signature *signature;
    /* Not NULL: something that takes a while comes first, and a worker does it: a long body is
     * decoded (`signature` and feeds are not known before), or a plan made for a call by names of
     * tensors (`signature` has no call before). It sets this to NULL; the job is submitted again
     * then, to `then`, its `done`. */
    enum rt_status (*prepare)(struct srv_job *job);
    void (*then)(struct srv_job *job);
    const struct rt_call_spec *dynamic_spec;
    const struct rt_shape *dynamic_shapes; /* as of rt_model_make_dynamic */
    struct rt_arena *arena;                /* of the request */
    size_t body_bytes;                     /* counted against the budget of bytes in flight */

    /* feeds[i] is the signature's input i. Cleared by srv_job_clear. */
    int n_feeds;
    struct rt_tensor *feeds;
    /* fetches[i] is the signature's output i. Zero unless status is RT_OK. The array: the
     * transport's, or made in the arena by srv_job_submit when NULL. */
    int n_fetches;
    struct rt_tensor *fetches;
    int64_t n_rows; /* dimension 0 of every feed; 0: they have no common one, never merged */

    struct rt_trace *trace; /* NULL, or what the run is to fill in: then never merged */

    int64_t deadline_ns;    /* CLOCK_MONOTONIC; RT_NEVER */
    _Atomic bool cancelled; /* the client is gone: not started any more */
    struct srv_job *parent; /* the request that this is a piece of (pieces.h); NULL: of its own */

    int64_t received_ns, queued_ns, started_ns, finished_ns; /* CLOCK_MONOTONIC */
    int batch_rows;                                          /* rows of the batch it ran in */

    enum rt_status status;
    struct rt_error err; /* its arena is set to the job's */

    /* Called exactly once, on any thread (a worker's, or the loop's when it ran inline or was
     * refused): must hand over to the loop thread what needs it. */
    void (*done)(struct srv_job *job);
    void *owner; /* the transport's */

    struct srv_core_job sched; /* the scheduler's */
};

/* The flag that ends the job when its client has gone. */
static inline const _Atomic bool *srv_job_cancelled(const struct srv_job *job)
{
    return job->parent ? &job->parent->cancelled : &job->cancelled;
}

/* For who writes the job's answer. */
static inline struct srv_cancellation srv_job_cancellation(const struct srv_job *job)
{
    return (struct srv_cancellation){.deadline_ns = job->deadline_ns,
                                     .cancelled = srv_job_cancelled(job)};
}

/*
 * Makes a job of a decoded request: loop thread, inside a turn. Fills n_rows and queues it in the
 * turn; tiny jobs of idle buckets run here and now (done is called before this returns).
 * Full queues answer at once with UNAVAILABLE through done.
 */
void srv_job_submit(struct srv_job *job);
/* Drops the tensors. */
void srv_job_clear(struct srv_job *job);

#endif
