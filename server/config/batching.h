/*
 * How requests are merged: from the flags --enable_batching and --max_batch_rows, and from the
 * parameters of --batching_parameters_file (a text BatchingParameters) or of a version's own
 * batching_params.pbtxt.
 *
 * Plain data, read at start or when a version is loaded, and not changed afterwards.
 */
#ifndef SRV_BATCHING_H
#define SRV_BATCHING_H

#include "runtime/base/span.h"
#include "server/config/options.h"
#include "server/batching/scheduler_core.h"

enum srv_batching_mode {
    SRV_BATCHING_OFF, /* nothing is merged */
    /* signatures that row-wise analysis accepts are merged, depending on the load */
    SRV_BATCHING_ROW_WISE,
    /* every signature that writes nothing is merged, as in tensorflow_model_server */
    SRV_BATCHING_ALL,
};

struct srv_batching {
    enum srv_batching_mode mode;
    int64_t max_batch_size;       /* rows of a batch, and of a request unless splits_large */
    int64_t batch_timeout_micros; /* how long the first request of a batch waits for more */
    int64_t max_enqueued_batches; /* limit of waiting batches per queue */
    int64_t num_batch_threads;    /* batches of all models that run at a time; 0: no limit */
    int n_sizes;                  /* number of allowed_batch_sizes; 0: any size */
    int64_t sizes[SRV_MAX_BATCH_SIZES];
    bool pads;                        /* inputs that differ in shape are padded to the largest */
    bool splits_large;                /* a large request runs as sub-requests */
    int64_t max_execution_batch_size; /* row limit of a batch and of a sub-request */
};

struct Tensorflow__Serving__BatchingParameters;

/*
 * Reads a BatchingParameters message. INVALID_ARGUMENT with TensorFlow Serving's text where it has
 * one. thread_pool_name is accepted without effect: batches run on the workers. The metrics label
 * of that name is "" whatever the parameters say, in tensorflow_model_server as in Slipway.
 */
enum rt_status srv_batching_from_message(struct srv_batching *out,
                                         const struct Tensorflow__Serving__BatchingParameters *m,
                                         struct rt_error *err);
/* Parses the text of a BatchingParameters message; `path` is for errors. */
enum rt_status srv_batching_parse(struct srv_batching *out, struct rt_span text, const char *path,
                                  struct rt_error *err);
/* Determines the server's parameters from the flags and the file that they name. */
enum rt_status srv_batching_of_server(struct srv_batching *out, const struct srv_options *o,
                                      struct rt_error *err);
/*
 * Determines a version's parameters: the server's, or with --enable_per_model_batching_parameters
 * those of the file in the version's directory `dir`. With that flag, a version without a file
 * merges nothing.
 */
enum rt_status srv_batching_of_version(struct srv_batching *out, const struct srv_batching *server,
                                       const struct srv_options *o, const char *dir,
                                       struct rt_error *err);
void srv_batching_policy(const struct srv_batching *b, struct srv_core_policy *out);

#endif
