/*
 * One inference of any API: the fields of the request, the version and signature that they name,
 * the feeds, and the API's response message. gRPC, REST, warm-up, goldens and request logs all use
 * this module; it knows no transport, no network thread and no scheduler.
 *
 * The steps, each once, in this order (after a failed step only srv_inference_clear may follow):
 *   init      sets the API and options, and the job that the inference fills in
 *   read      parses a serialized request; a caller with its own decoder sets `spec` instead
 *   find      finds the version in a serving map; or the caller sets job->version
 *   resolve   finds job->signature, checks it for the API, and allocates the tensors
 *   bind      fills job->feeds; a caller with its own decoder fills job->feeds instead
 *   run       srv_job_submit, or srv_inference_run on the calling thread
 *   finish    checks the outputs for the API; any thread
 *   write     writes the response message
 *   clear     drops the tensors
 *
 * Codes and texts are TensorFlow Serving's; where gRPC and REST differ, `entry` decides.
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
    struct rt_arena *arena; /* the request's; the inference itself may live in it */
    /* the caller's; the inference sets its version, signature, feeds and fetches */
    struct srv_job *job;

    bool has_spec;
    struct srv_model_spec spec; /* its spans are valid as long as the request */

    union { /* the parsed request; `api` says which member is valid */
        struct srv_predict_request predict;
        struct srv_examples_request examples;
        struct srv_session_request session;
    } request;
    int64_t timeout_ms; /* SessionRun: the timeout in the request's RunOptions; 0: none */
    struct srv_session_call *session; /* private to SessionRun */
    int n_scorings;                   /* Classify and Regress: 1; MultiInference: one per task */
    struct srv_scoring *scorings;
    bool *wanted;              /* per output of the signature: whether it goes into the response */
    struct srv_growth *growth; /* budget that `write` takes from, the caller's; NULL: no budget */
};

/* Zeroes *inf and *job and sets the job's arena to `arena`. */
void srv_inference_init(struct srv_inference *inf, enum srv_api api, enum srv_entry entry,
                        const struct srv_options *options, struct rt_arena *arena,
                        struct srv_job *job);

/* Keeps spans of the message, so the message must stay valid until bind has returned. */
enum rt_status srv_inference_read(struct srv_inference *inf, struct srv_cursor message,
                                  struct rt_error *err);

/* Sets job->version without a handle: the caller calls srv_hold in the same turn. */
enum rt_status srv_inference_find(struct srv_inference *inf, const struct srv_map *map,
                                  struct rt_error *err);

/*
 * Finds the signature of that name ("serving_default" when the name is empty) that can run. When
 * there is none, fails with `code` and the text `unknown`, which has one %s for the name.
 */
enum rt_status srv_find_signature(const struct rt_model *model, struct rt_span name,
                                  struct rt_arena *arena, const struct rt_model_signature **out,
                                  enum rt_status code, const char *unknown, struct rt_error *err);

enum rt_status srv_inference_resolve(struct srv_inference *inf, struct rt_error *err);

/* Fills the feeds, which may take at most `budget` bytes of memory (else RESOURCE_EXHAUSTED).
 * *bytes receives what they take. */
enum rt_status srv_inference_bind(struct srv_inference *inf, size_t budget, size_t *bytes,
                                  struct rt_error *err);
size_t srv_inference_feed_bytes(const struct srv_inference *inf);

/* Runs the inference on the calling thread, which may take long, and sets job->status. */
enum rt_status srv_inference_run(struct srv_inference *inf, const struct rt_run_options *options,
                                 struct rt_error *err);

/* Call when job->status is RT_OK. Loads the outputs into memory and checks them for the API. */
enum rt_status srv_inference_finish(struct srv_inference *inf, struct rt_error *err);

/* Call after finish. *out receives the response message, allocated by malloc. */
enum rt_status srv_inference_write(const struct srv_inference *inf, unsigned char **out, size_t *n,
                                   struct rt_error *err);

/*
 * Appends the request as its API's message, for request logs; call after bind and before clear. The
 * message is built from the feeds, so it does not depend on the transport, and examples come out
 * merged with their context.
 */
void srv_inference_write_request(const struct srv_inference *inf, struct rt_bytes *out);

void srv_inference_clear(struct srv_inference *inf);

/*
 * Takes all steps but init on the calling thread: `message` is a serialized request, and `version`
 * computes the response. The version need not be published (only model, version and loaded are
 * read) and need not be the one that the request names. *out is as in srv_inference_write.
 */
enum rt_status srv_inference_perform(struct srv_inference *inf, struct srv_cursor message,
                                     struct srv_version *version,
                                     const struct rt_run_options *options, unsigned char **out,
                                     size_t *n, struct rt_error *err);

#endif
