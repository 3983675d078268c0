/*
 * The parameters that control how requests are merged. Their sources are the flags
 * --enable_batching and --max_batch_rows, a BatchingParameters message in
 * --batching_parameters_file or --platform_config_file, and a version's own batching_params.pbtxt.
 *
 * The parameters are read when the server starts or a version is loaded, and do not change
 * afterwards.
 */
#ifndef SRV_BATCHING_H
#define SRV_BATCHING_H

#include "runtime/base/span.h"
#include "server/config/options.h"

/* maximum numbers of allowed and of preferred batch sizes */
enum { SRV_MAX_BATCH_SIZES = 1024, SRV_MAX_PREFERRED_SIZES = 64 };

enum srv_batching_mode {
    SRV_BATCHING_OFF, /* nothing is merged */
    /* The waiting requests for a signature are merged if the signature passes row-wise analysis. */
    SRV_BATCHING_ROW_WISE,
    /* as in tensorflow_model_server, requests of every signature that writes no variables are
     * merged */
    SRV_BATCHING_ALL,
};

struct srv_batching {
    enum srv_batching_mode mode;
    /* maximum number of rows of a batch and, unless splits_large is set, of a request */
    int64_t max_batch_size;
    /* time in microseconds for which the first request of a batch waits for others */
    int64_t batch_timeout_micros;
    int64_t max_enqueued_batches; /* maximum number of waiting batches per callable */
    /* maximum number of running batches of all models; 0 means no limit */
    int64_t num_batch_threads;
    int n_sizes; /* number of allowed_batch_sizes; 0 means that any size is allowed */
    int64_t sizes[SRV_MAX_BATCH_SIZES];
    /* whether inputs of different shapes are padded to the largest shape */
    bool pads;
    bool splits_large; /* whether a request with too many rows is split into sub-requests */
    /* maximum number of rows of an executed batch and of a sub-request */
    int64_t max_execution_batch_size;
    /* ---- set by a model's config.pbtxt (server/triton/triton.h), otherwise 0 ---- */
    /* The signature to which the mode SRV_BATCHING_ALL and the limit on a request's rows apply. The
     * requests of other signatures are merged as in SRV_BATCHING_ROW_WISE. NULL means all
     * signatures. */
    const char *signature;
    bool limits_rows; /* whether a request with more than max_batch_size rows is refused */
    int n_preferred;
    int64_t preferred[SRV_MAX_PREFERRED_SIZES]; /* in ascending order */
    /* These become max_jobs, max_running, max_queued_ns and level of srv_core_policy
     * (server/batching/scheduler_core.h). */
    int64_t max_queue_jobs, max_running, max_queue_micros;
    uint32_t default_level;
    uint32_t n_levels; /* highest permitted level of a request; 0 means no limit */
};

struct Tensorflow__Serving__BatchingParameters;

/*
 * Reads a BatchingParameters message. Fails with INVALID_ARGUMENT if a parameter is invalid. The
 * error message is TensorFlow Serving's if TensorFlow Serving makes the same check.
 * thread_pool_name has no effect, because batches run on the workers. The metrics label
 * thread_pool_name is always "", as in tensorflow_model_server.
 */
enum rt_status srv_batching_from_message(struct srv_batching *out,
                                         const struct Tensorflow__Serving__BatchingParameters *m,
                                         struct rt_error *err);
/* Parses a BatchingParameters message in protobuf's text format. `path` is used only in
 * error messages. */
enum rt_status srv_batching_parse(struct srv_batching *out, struct rt_span text, const char *path,
                                  struct rt_error *err);
/* Determines the server's batching parameters from the flags and the files that the flags name. */
enum rt_status srv_batching_of_server(struct srv_batching *out, const struct srv_options *o,
                                      struct rt_error *err);
/*
 * Determines the batching parameters of a model version. With --enable_batching=true and
 * --enable_per_model_batching_parameters, they are in the file batching_params.pbtxt in the
 * version's directory `dir`. If this file does not exist, the version's requests are not merged. If
 * it is larger than 64 KiB, the function fails with RESOURCE_EXHAUSTED.
 * Without these flags, the parameters are the server's.
 */
enum rt_status srv_batching_of_version(struct srv_batching *out, const struct srv_batching *server,
                                       const struct srv_options *o, const char *dir,
                                       struct rt_error *err);
/* Returns whether requests of the signature `name` may be merged if its rows are independent
 * (`rowwise`), or in any case. */
bool srv_batching_merges(const struct srv_batching *b, const char *name, bool rowwise);
/* Returns whether requests of the signature `name` are batched as in tensorflow_model_server. */
bool srv_batching_is_for_all(const struct srv_batching *b, const char *name);

#endif
