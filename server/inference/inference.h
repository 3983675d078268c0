/*
 * One inference of any protocol: the fields of the request, the version and signature that it
 * names, the feeds, and the response. gRPC, REST, warm-up, goldens and request logs all use this
 * module. It does not depend on any transport, protocol, network thread or scheduler.
 *
 * An inference consists of these steps, each performed once and in this order. Only
 * srv_inference_clear may follow a failed step.
 *   init      sets the steps, the options, and the job to be filled in
 *   read      parses a request
 *   find      finds the version in a serving map; or the caller sets job->version
 *   resolve   finds job->signature, checks it for the call, and allocates the tensors
 *   bind      fills job->feeds
 *   run       runs the job: srv_job_submit, or srv_inference_run on the calling thread
 *   finish    checks the outputs for the call; may be called on any thread
 *   encode    writes the response
 *   clear     frees the tensors
 *
 * A transport may perform `find` before `read`, to know whether the request can become a job. The
 * error of `read` takes precedence.
 *
 * The steps (steps.h) decide error codes and messages.
 */
#ifndef SRV_INFERENCE_H
#define SRV_INFERENCE_H

#include "server/base/budget.h"
#include "server/base/serving_map.h"
#include "server/batching/job.h"
#include "server/config/options.h"
#include "server/base/api.h"
#include "server/base/wire.h"

struct srv_manager;
struct srv_shared_memory;
struct srv_inference_steps; /* steps.h */

struct srv_inference {
    const struct srv_inference_steps *steps;
    const struct srv_options *options;
    struct rt_arena *arena; /* the request's arena; the inference itself may be allocated in it */
    /* the job, owned by the caller; the inference sets its version, signature, feeds and fetches */
    struct srv_job *job;

    bool has_spec;
    struct srv_model_spec spec; /* the spans in `spec` are valid as long as the request */
    /* the parsed request, allocated in `arena`; only the steps know the type */
    void *request;
    int64_t timeout_us; /* timeout of the request in microseconds, or 0 */
    /* The memory that `read` and `bind` may take for tensors. The caller sets it before `read`, and
     * may set it again before `bind`. */
    struct srv_allowance allowance;
    /* for each output of the signature, whether the response contains it */
    bool *wanted;
    /* The caller's budget, or NULL. A message whose size is known before it is written is charged
     * to this budget. */
    struct srv_growth *growth;
    /* shared memory that inputs and outputs may use; set by the transport, or NULL */
    struct srv_shared_memory *shared_memory;
    /* knows the states of versions that are not ready; set by the transport, or NULL */
    struct srv_manager *manager;
    /* cancellation of `read` and `bind`, which stop early when it is over; srv_inference_read and
     * srv_inference_bind set it and then return its status */
    struct srv_cancellation cancellation;
    /* Over REST, the value of the header srv_protocol.json_length_header. A request has this header
     * if binary data follow the JSON of its body. p is NULL if the request lacks the header or the
     * protocol has none. */
    struct rt_span json_length;
    /* Length of the JSON in a REST response in which binary data follow the JSON, or 0. Set by
     * srv_inference_encode. */
    size_t json_bytes;
};

/* Zeroes *inf and *job. Sets the job's arena to `arena` and its deadline to RT_NEVER. */
void srv_inference_init(struct srv_inference *inf, const struct srv_inference_steps *steps,
                        const struct srv_options *options, struct rt_arena *arena,
                        struct srv_job *job);

/* Parses a request. Stops if the job's deadline passes or the job is cancelled; srv_inference_bind
 * does the same. The parsed request contains spans of the message. The message must stay valid
 * until srv_inference_bind returns, and may be freed before the run. */
enum rt_status srv_inference_read(struct srv_inference *inf, struct srv_cursor message,
                                  struct rt_error *err);

/* Finds the version and sets job->version, without acquiring a handle. The caller must call
 * srv_hold in the same turn of its I/O loop. REST and gRPC choose the version of an inference only
 * in this function. */
enum rt_status srv_inference_find(struct srv_inference *inf, const struct srv_map *map,
                                  struct rt_error *err);

/* Returns the time at which the request's timeout ends, or RT_NEVER. `received_ns` is the time at
 * which the request was received. */
int64_t srv_inference_deadline_ns(const struct srv_inference *inf, int64_t received_ns);

/*
 * Finds the signature called `name`, or "serving_default" if `name` is empty. If there is no such
 * signature, fails with `code` and the message `unknown`, a format with one %s for the name.
 */
enum rt_status srv_find_signature(const struct rt_model *model, struct rt_span name,
                                  struct rt_arena *arena, const struct rt_model_signature **out,
                                  enum rt_status code, const char *unknown, struct rt_error *err);

enum rt_status srv_inference_resolve(struct srv_inference *inf, struct rt_error *err);

/* Fills the feeds. Takes their memory from inf->allowance, which afterwards is charged for exactly
 * this memory. Fails with RESOURCE_EXHAUSTED if the allowance is too small, or with the status with
 * which the budget refuses the charge. */
enum rt_status srv_inference_bind(struct srv_inference *inf, struct rt_error *err);
size_t srv_inference_feed_bytes(const struct srv_inference *inf);

/* Runs the inference on the calling thread and sets job->status. May block for a long time. */
enum rt_status srv_inference_run(struct srv_inference *inf, const struct rt_run_options *options,
                                 struct rt_error *err);

/* Loads the outputs into memory, and calls steps->finish, which checks them. job->status must be
 * RT_OK. */
enum rt_status srv_inference_finish(struct srv_inference *inf, struct rt_error *err);

/* Appends the response to `out`, which must be empty. Must be called after srv_inference_finish. */
enum rt_status srv_inference_encode(struct srv_inference *inf, struct rt_bytes *out,
                                    struct rt_error *err);

/*
 * Appends the request to `out`, as a serialized request of the API under which it is logged. Must
 * be called after srv_inference_bind and before srv_inference_clear. The message is built from the
 * feeds. It therefore does not depend on the transport or the protocol, and the context is already
 * merged into the examples.
 */
void srv_inference_log_request(const struct srv_inference *inf, struct rt_bytes *out);
/* Appends the response to `out`, as a message of the API under which the inference is logged. Must
 * be called after srv_inference_finish and before srv_inference_clear. */
enum rt_status srv_inference_log_response(struct srv_inference *inf, struct rt_bytes *out,
                                          struct rt_error *err);
/* Returns whether srv_inference_encode and srv_inference_log_response write the same bytes. */
bool srv_inference_logs_response(const struct srv_inference *inf);
/* Returns the API under which the inference is logged. */
enum srv_api srv_inference_api(const struct srv_inference *inf);

void srv_inference_clear(struct srv_inference *inf);

/*
 * Performs the steps from `read` to `bind` on the calling thread. The caller sets inf->allowance
 * before. The step `find` is skipped, and `version` is used instead. `version` may be unpublished,
 * and may differ from the version that the request names. Of the struct srv_version, only the
 * members `model`, `version` and `loaded` are read.
 */
enum rt_status srv_inference_decode(struct srv_inference *inf, struct srv_cursor message,
                                    struct srv_version *version, struct rt_error *err);

#endif
