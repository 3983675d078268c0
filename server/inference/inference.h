/*
 * One inference of any API: the fields of the request, the version and signature that it names,
 * the feeds, and the API's response message. gRPC, REST, warm-up, goldens and request logs all use
 * this module; it depends on no transport, network thread or scheduler.
 *
 * An inference consists of these steps, each performed once and in this order (after a failed step
 * only srv_inference_clear may follow):
 *   init      sets the API, the options, and the job to be filled in
 *   read      parses a serialized request; a caller with its own decoder sets `spec` instead
 *   find      finds the version in a serving map; or the caller sets job->version
 *   resolve   finds job->signature, checks it for the API, and allocates the tensors
 *   bind      fills job->feeds; a caller with its own decoder fills job->feeds instead
 *   run       runs the job: srv_job_submit, or srv_inference_run on the calling thread
 *   finish    checks the outputs for the API; may be called on any thread
 *   write     writes the response message
 *   clear     frees the tensors
 *
 * Error codes and messages are those of TensorFlow Serving. Where they differ between gRPC and
 * REST, `entry` selects them.
 */
#ifndef SRV_INFERENCE_H
#define SRV_INFERENCE_H

#include "server/base/budget.h"
#include "server/protocol/tfs/classify_proto.h"
#include "server/batching/job.h"
#include "server/base/serving_map.h"
#include "server/config/options.h"
#include "server/protocol/tfs/predict_proto.h"
#include "server/protocol/tfs/session_proto.h"

enum srv_entry { SRV_ENTRY_GRPC, SRV_ENTRY_REST };

struct srv_inference {
    enum srv_api api;
    enum srv_entry entry;
    const struct srv_options *options;
    struct rt_arena *arena; /* the request's arena; the inference itself may be allocated in it */
    /* the job, owned by the caller; the inference sets the job's version, signature, feeds and
     * fetches */
    struct srv_job *job;

    bool has_spec;
    struct srv_model_spec spec; /* the spans in `spec` are valid as long as the request */

    union { /* the parsed request; `api` determines which member is valid */
        struct srv_predict_request predict;
        struct srv_examples_request examples;
        struct srv_session_request session;
    } request;
    /* timeout in milliseconds from the RunOptions of a SessionRun request, or 0 if there is none */
    int64_t timeout_ms;
    struct srv_session_call *session; /* used only by inference_session.c */
    /* number of `scorings`: one for Classify and Regress, and one per task for MultiInference */
    int n_scorings;
    struct srv_scoring *scorings;
    /* for each output of the signature, whether the response includes it */
    bool *wanted;
    /* the caller's budget, to which srv_inference_write charges memory, or NULL */
    struct srv_growth *growth;
};

/* Zeroes *inf and *job and sets the job's arena to `arena`. */
void srv_inference_init(struct srv_inference *inf, enum srv_api api, enum srv_entry entry,
                        const struct srv_options *options, struct rt_arena *arena,
                        struct srv_job *job);

/* Parses a serialized request. The parsed request contains spans of the message, so the message
 * must stay valid until srv_inference_bind has returned. */
enum rt_status srv_inference_read(struct srv_inference *inf, struct srv_cursor message,
                                  struct rt_error *err);

/* Finds the version and sets job->version without taking a handle, so the caller must call srv_hold
 * in the same turn of its I/O loop. The inference requests of REST and gRPC choose a version only
 * in this function. */
enum rt_status srv_inference_find(struct srv_inference *inf, const struct srv_map *map,
                                  struct rt_error *err);

/*
 * Finds the executable signature called `name`, or "serving_default" if `name` is empty. If there
 * is no such signature, fails with `code` and the message `unknown`, a format with one %s for the
 * name.
 */
enum rt_status srv_find_signature(const struct rt_model *model, struct rt_span name,
                                  struct rt_arena *arena, const struct rt_model_signature **out,
                                  enum rt_status code, const char *unknown, struct rt_error *err);

enum rt_status srv_inference_resolve(struct srv_inference *inf, struct rt_error *err);

/* Fills the feeds. Fails with RESOURCE_EXHAUSTED if they need more than `budget` bytes of memory.
 * *bytes receives the number of bytes used. */
enum rt_status srv_inference_bind(struct srv_inference *inf, size_t budget, size_t *bytes,
                                  struct rt_error *err);
size_t srv_inference_feed_bytes(const struct srv_inference *inf);

/* Runs the inference on the calling thread and sets job->status. May block for a long time. */
enum rt_status srv_inference_run(struct srv_inference *inf, const struct rt_run_options *options,
                                 struct rt_error *err);

/* Loads the outputs into memory and checks them for the API. Must be called only if job->status is
 * RT_OK. */
enum rt_status srv_inference_finish(struct srv_inference *inf, struct rt_error *err);

/* Writes the response message. *out receives the message, which is allocated by malloc. Must be
 * called after srv_inference_finish. */
enum rt_status srv_inference_write(const struct srv_inference *inf, unsigned char **out, size_t *n,
                                   struct rt_error *err);

/*
 * Appends the request to `out` as a serialized request message of the request's API, for request
 * logs. Must be called after srv_inference_bind and before srv_inference_clear. The message is
 * built from the feeds, so it does not depend on the transport, and the context of its examples is
 * already merged into them.
 */
void srv_inference_write_request(const struct srv_inference *inf, struct rt_bytes *out);

void srv_inference_clear(struct srv_inference *inf);

/*
 * Performs the steps from read to write (see above) on the calling thread, with `version` in place
 * of the find step. `message` is a serialized request. The version need not be published (only its
 * model, version and loaded members are read) and need not be the one that the request names. *out
 * is allocated as in srv_inference_write.
 */
enum rt_status srv_inference_perform(struct srv_inference *inf, struct srv_cursor message,
                                     struct srv_version *version,
                                     const struct rt_run_options *options, unsigned char **out,
                                     size_t *n, struct rt_error *err);

#endif
