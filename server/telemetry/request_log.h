/*
 * Writes request logs. For a model whose config has a logging_config, a sample of the answered
 * requests is written with their responses, as PredictionLogs in TFRecord files. Such a file, once
 * it has been renamed, can serve as a golden file or a warm-up file. `slipway bench --replay`
 * replays it.
 *
 * Files are named PREFIX-TIME-PID-N.tfrecord, where PREFIX is the filename_prefix of the
 * log_collector_config, or PREFIX/MODEL when filename_prefix is a directory. A new file is begun
 * when the current one reaches its size or age limit, or when the config changes the prefix. A file
 * contains only complete records.
 *
 * Threads: one thread of the log writes the files. Its queue is bounded; records that do not fit
 * are dropped and counted, so that no request ever waits for a disk.
 */
#ifndef SRV_REQUEST_LOG_H
#define SRV_REQUEST_LOG_H

#include "server/config/config.h"

struct rt_bytes;
struct srv_metrics;
struct srv_inference;
struct srv_job;
struct srv_request_log; /* the request logs of all models */
struct srv_model_log;   /* the request log of one model; valid as long as its srv_request_log */

struct srv_request_log_limits {
    size_t queue_bytes; /* maximum total size of the records that wait to be written */
    /* Size and age at which a log file is closed and a new one is created. */
    int64_t file_bytes, file_ns;
};

/* Creates the logs and starts their thread. Returns NULL if memory or threads run out. `metrics`
 * may be NULL. */
struct srv_request_log *srv_request_log_new(const struct srv_request_log_limits *limits,
                                            struct srv_metrics *metrics);
/* Writes all queued records and frees the log. `l` may be NULL. */
void srv_request_log_free(struct srv_request_log *l);

/* Returns the log of a model. The log is off until it is configured. Returns NULL if memory runs
 * out. May be called on any thread. */
struct srv_model_log *srv_request_log_model(struct srv_request_log *l, const char *model);
/* Installs the logging configurations in `config`; the logs of models that `config` does not
 * name are switched off. `l` may be NULL. May be called on any thread. */
void srv_request_log_configure(struct srv_request_log *l, const struct srv_config *config);

/* Returns whether an answered request should be logged. The call is cheap for models without a
 * log. */
bool srv_request_log_wants(const struct srv_job *job);
/* Logs a request with its response. `encoded` is the response that srv_inference_encode has
 * written. Must be called after srv_inference_finish and before srv_inference_clear. May be called
 * on any thread. */
void srv_request_log_add(struct srv_inference *inf, const struct rt_bytes *encoded);

/* Converts a sampling rate to a threshold in units of `2^-32`, so that about `threshold / 2^32` of
 * the requests are sampled. A threshold of 0 samples no requests, and `2^32` samples all of them.
 * The function is pure. */
uint64_t srv_request_log_threshold(double rate);
bool srv_request_log_samples(uint64_t threshold, uint64_t seed);

#endif
