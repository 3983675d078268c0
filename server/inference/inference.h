/*
 * One inference of any API, whichever way it comes: a request's parts, the version and signature
 * that they name, the tensors to feed, and what comes out as the API's response message. gRPC and
 * REST, warm-up, goldens and request logs all go through here; nothing here knows a transport, a
 * network thread or the scheduler.
 *
 * The steps, each once, in this order (a failed one ends it: then only srv_inference_clear):
 *   init      what is asked for, and the job that it fills in
 *   read      the parts of a serialized request; who decodes its own sets `spec` instead
 *   find      the version, in a serving map; or job->version is set to one that is in none
 *   resolve   the signature (job->signature), checked as the API wants it; room for tensors
 *   bind      job->feeds from what was read; who decodes its own fills job->feeds instead
 *   run       srv_job_submit, or srv_inference_run here and now
 *   finish    what came out is checked as the API wants it; any thread
 *   write     the response's message
 *   clear     drops the tensors
 *
 * Codes and texts are TensorFlow Serving's; where they differ by the way that the request came,
 * `entry` decides.
 */
#ifndef SRV_INFERENCE_H
#define SRV_INFERENCE_H

#include "server/base/budget.h"
#include "server/protocol/tfs/classify_proto.h"
#include "server/batching/job.h"
#include "server/base/map.h"
#include "server/config/options.h"
#include "server/protocol/tfs/predict_proto.h"
#include "server/protocol/tfs/session_proto.h"

enum srv_entry { SRV_ENTRY_GRPC, SRV_ENTRY_REST };

struct srv_inference {
    enum srv_api api;
    enum srv_entry entry;
    const struct srv_options *options;
    struct rt_arena *arena; /* of the request; the inference itself may live in it */
    struct srv_job *job;    /* the caller's: version, signature, feeds and fetches are set in it */

    bool has_spec;
    struct srv_model_spec spec; /* spans live as long as the request */

    union { /* what was read, by api */
        struct srv_predict_request predict;
        struct srv_examples_request examples;
        struct srv_session_request session;
    } request;
    int64_t timeout_ms;               /* that the request itself asks for (SessionRun); 0: none */
    struct srv_session_call *session; /* SessionRun's own */
    int n_scorings;                   /* Classify and Regress: 1; MultiInference: one per task */
    struct srv_scoring *scorings;
    bool *wanted;              /* per output of the signature: goes into the response */
    struct srv_growth *growth; /* what `write` takes; the caller's; NULL: nobody counts */
};

/* *job is zeroed; its arena is `arena`. */
void srv_inference_init(struct srv_inference *inf, enum srv_api api, enum srv_entry entry,
                        const struct srv_options *options, struct rt_arena *arena,
                        struct srv_job *job);

/* Keeps spans of the message: it must stay until bind has ended. */
enum rt_status srv_inference_read(struct srv_inference *inf, struct srv_cursor message,
                                  struct rt_error *err);

/* Sets job->version. It is not held: srv_hold it in the same turn. */
enum rt_status srv_inference_find(struct srv_inference *inf, const struct srv_map *map,
                                  struct rt_error *err);

/*
 * The signature of that name, "serving_default" for none, if it can run. `unknown` has one %s, for
 * the name, and is refused with `code`.
 */
enum rt_status srv_find_signature(const struct rt_model *model, struct rt_span name,
                                  struct rt_arena *arena, const struct rt_model_signature **out,
                                  enum rt_status code, const char *unknown, struct rt_error *err);

enum rt_status srv_inference_resolve(struct srv_inference *inf, struct rt_error *err);

/* The feeds take at most `budget` bytes of memory (RESOURCE_EXHAUSTED). *bytes: what they take. */
enum rt_status srv_inference_bind(struct srv_inference *inf, size_t budget, size_t *bytes,
                                  struct rt_error *err);
size_t srv_inference_feed_bytes(const struct srv_inference *inf);

/* Runs it on this thread, which may take long. Sets job->status. */
enum rt_status srv_inference_run(struct srv_inference *inf, const struct rt_run_options *options,
                                 struct rt_error *err);

/* job->status is RT_OK: what came out is in memory, and as the API wants it. */
enum rt_status srv_inference_finish(struct srv_inference *inf, struct rt_error *err);

/* After finish. The bytes of the response, from malloc. */
enum rt_status srv_inference_write(const struct srv_inference *inf, unsigned char **out, size_t *n,
                                   struct rt_error *err);

/*
 * After bind, and until clear: appends the request as its API's message, made anew from the feeds,
 * whichever way it came (for request logs; examples with a context come out merged).
 */
void srv_inference_write_request(const struct srv_inference *inf, struct rt_bytes *out);

void srv_inference_clear(struct srv_inference *inf);

/*
 * All steps but init in one, on this thread: `message` is a serialized request, answered by
 * `version`, which need not be published (only model, version and loaded are looked at) and need
 * not be the one that the request names. *out as of srv_inference_write.
 */
enum rt_status srv_inference_perform(struct srv_inference *inf, struct srv_cursor message,
                                     struct srv_version *version,
                                     const struct rt_run_options *options, unsigned char **out,
                                     size_t *n, struct rt_error *err);

#endif
