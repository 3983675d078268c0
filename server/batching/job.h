/*
 * A job is one inference request inside the server. It contains the input tensors and, after its
 * run, the output tensors.
 *
 * Owner: the transport that created the job. The scheduler owns the job from srv_job_submit until
 * `done` is called. A job holds a reference to everything outside its arena that it points to.
 */
#ifndef SRV_JOB_H
#define SRV_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/files/saved_model.h"
#include "server/batching/scheduler_core.h"
#include "server/base/cancellation.h"
#include "server/base/quota.h"

struct srv_allowance;
struct srv_inference;
struct srv_io_loop;
struct srv_request_span;
struct srv_version;

/* What a worker does next with a job. The kind only ever changes to one that is listed before it. A
 * job is queued at most twice: once for decoding and preparation together, and once for the run. */
enum srv_job_kind {
    SRV_JOB_RUN,     /* runs the signature */
    SRV_JOB_PREPARE, /* calls `prepare`, and then queues the job for its run */
    SRV_JOB_DECODE,  /* calls `decode`, and then continues as SRV_JOB_PREPARE */
};

struct srv_job {
    struct srv_job *next;
    enum srv_job_kind kind; /* set by srv_job_submit, from `decode` and `prepare` */
    struct srv_io_loop *io_loop;
    struct srv_version *version; /* io_loop holds a handle to the version until the job has ended */
    /* may be NULL until the request is decoded; see srv_job_signature */
    const struct rt_model_signature *signature;
    /* Decodes a long request on a worker, or NULL if the request is decoded. Sets `signature`,
     * `feeds` and, if more slow work is left, `prepare`. Set by the transport. */
    enum rt_status (*decode)(struct srv_job *job);
    /* Slow work that the decoded request needs before its run, or NULL. Builds the plan of a
     * dynamic callable and sets `signature`, or reads feeds from shared memory. Set by the steps of
     * the inference. */
    enum rt_status (*prepare)(struct srv_job *job);
    struct srv_inference *inference; /* the request, if `prepare` needs it */
    const struct rt_call_spec *dynamic_spec;
    /* shapes of the feeds for rt_model_make_dynamic */
    const struct rt_shape *dynamic_shapes;
    struct rt_arena *arena; /* the request's arena */
    /* number of bytes charged to the budget for bytes in flight (server/base/budget.h) */
    size_t body_bytes;

    /* the allowance from which the memory of the feeds was taken, or NULL */
    struct srv_allowance *allowance;

    /* feeds[i] is input i of the signature; srv_job_clear clears the feeds */
    int n_feeds;
    struct rt_tensor *feeds;
    /* fetches[i] is output i of the signature. It is zeroed unless `status` is RT_OK. The transport
     * may provide the array. Otherwise srv_job_submit allocates it in the arena. */
    int n_fetches;
    struct rt_tensor *fetches;
    /* Maximum size in bytes of the outputs of an inline run. With this limit, `done` can encode the
     * outputs quickly on the thread of the I/O loop. */
    size_t max_inline_bytes;
    /* Dimension 0 of the feeds if it is equal in all feeds, and otherwise 0. A job with 0 rows is
     * never merged. */
    int64_t n_rows;

    /* trace of the run, or NULL; a job with a trace is never merged */
    struct rt_trace *trace;

    struct srv_request_span *span; /* span of a request that is recorded, or NULL */

    struct srv_quota_client client; /* the client that sent the request, if there are quotas */
    /* seconds after which a client whose share of the queue was full may retry, or 0 */
    int64_t retry_s;
    uint32_t level;      /* as in srv_core_job */
    int64_t deadline_ns; /* time on CLOCK_MONOTONIC; RT_NEVER means no deadline */
    /* whether deadline_ns was set by --default_deadline_seconds */
    bool has_default_deadline;
    _Atomic bool cancelled; /* the client has disconnected, so the job must not be started */
    /* the job that was split into this sub-request (sub_requests.h), or NULL */
    struct srv_job *parent;

    int64_t received_ns, queued_ns, started_ns, finished_ns; /* times on CLOCK_MONOTONIC */
    int accelerator;                                         /* rt_run_options.accelerator */
    int batch_rows; /* number of rows of the batch that contained this job */

    enum rt_status status;
    struct rt_error err; /* err.arena must be the job's arena */

    /* Called exactly once. The caller is a worker, or, if the job ran inline or was refused, the
     * thread of the I/O loop. If work remains for the thread of the I/O loop, `done` must post a
     * message to the loop. */
    void (*done)(struct srv_job *job);
    void *owner; /* the transport's own data (REST or gRPC) */

    struct srv_core_job sched; /* private data of the scheduler */
};

/* Returns the flag that is set when the job's client has disconnected. */
static inline const _Atomic bool *srv_job_cancelled(const struct srv_job *job)
{
    return job->parent ? &job->parent->cancelled : &job->cancelled;
}

/* Returns the cancellation of the response. The response is cancelled at the job's deadline, or
 * when its client disconnects. */
static inline struct srv_cancellation srv_job_cancellation(const struct srv_job *job)
{
    return (struct srv_cancellation){.deadline_ns = job->deadline_ns,
                                     .cancelled = srv_job_cancelled(job)};
}

/* Returns the job's signature, or NULL if the job's request waits to be decoded, so that such a job
 * is counted and traced without a signature. */
static inline const struct rt_model_signature *srv_job_signature(const struct srv_job *job)
{
    return job->kind == SRV_JOB_DECODE ? NULL : job->signature;
}

/*
 * Submits a request as a job, on the thread of the I/O loop and during a turn. Sets the default
 * deadline if the job has none. If the request is refused, calls `done` with an error. If the job
 * is cheap and its bucket is empty, runs the job on this thread and calls `done`. A job whose run
 * takes too long or has large outputs there, and every other job, is added to the turn. At the end
 * of the turn, the job is queued, or refused with UNAVAILABLE if the queue is full.
 */
void srv_job_submit(struct srv_job *job);

/* Frees the tensors of the job. */
static inline void srv_job_clear(struct srv_job *job)
{
    for (int i = 0; job->feeds && i < job->n_feeds; i++)
        rt_tensor_clear(&job->feeds[i]);
    for (int i = 0; job->fetches && i < job->n_fetches; i++)
        rt_tensor_clear(&job->fetches[i]);
}

#endif
