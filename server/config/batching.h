/*
 * How requests are merged: the flags --enable_batching and --max_batch_rows, and the parameters of
 * --batching_parameters_file (a text BatchingParameters) or of a version's own
 * batching_params.pbtxt.
 *
 * Plain data, read at start or when a version is loaded, then const.
 */
#ifndef SRV_BATCHING_H
#define SRV_BATCHING_H

#include "runtime/base/span.h"
#include "server/config/options.h"
#include "server/batching/scheduler_core.h"

enum srv_batching_mode {
    SRV_BATCHING_OFF,      /* nothing is merged */
    SRV_BATCHING_ROW_WISE, /* signatures whose rows are proved independent, by load */
    SRV_BATCHING_ALL, /* every signature that writes nothing, as tensorflow_model_server does */
};

struct srv_batching {
    enum srv_batching_mode mode;
    int64_t max_batch_size;       /* rows of a batch, and of a request unless it is cut */
    int64_t batch_timeout_micros; /* how long the first request of a batch waits for more */
    int64_t max_enqueued_batches; /* per queue */
    int64_t num_batch_threads;    /* batches that run at a time, of all models; 0: no limit */
    int n_sizes;                  /* allowed_batch_sizes; 0: any */
    int64_t sizes[SRV_MAX_BATCH_SIZES];
    bool pads;                        /* inputs that differ in shape are padded to the largest */
    bool splits_large;                /* a large request runs in pieces ... */
    int64_t max_execution_batch_size; /* ... of so many rows at most */
};

struct Tensorflow__Serving__BatchingParameters;

/*
 * INVALID_ARGUMENT with TensorFlow Serving's text where it has one. thread_pool_name is taken and
 * has no effect: batches run on the workers, and the label of that name is "" in
 * tensorflow_model_server's metrics whatever the parameters say, as in ours.
 */
enum rt_status srv_batching_from_message(struct srv_batching *out,
                                         const struct Tensorflow__Serving__BatchingParameters *m,
                                         struct rt_error *err);
/* The same of their text; `path` is for errors. */
enum rt_status srv_batching_parse(struct srv_batching *out, struct rt_span text, const char *path,
                                  struct rt_error *err);
/* The server's: of the flags, and of the file that they name. */
enum rt_status srv_batching_of_server(struct srv_batching *out, const struct srv_options *o,
                                      struct rt_error *err);
/*
 * A version's: the server's, or with --enable_per_model_batching_parameters those of the file in
 * its directory `dir`; without one nothing of it is merged.
 */
enum rt_status srv_batching_of_version(struct srv_batching *out, const struct srv_batching *server,
                                       const struct srv_options *o, const char *dir,
                                       struct rt_error *err);
void srv_batching_policy(const struct srv_batching *b, struct srv_core_policy *out);

#endif
