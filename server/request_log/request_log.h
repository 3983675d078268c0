/*
 * Writes request logs. If a model's config has a logging_config, a sample of the answered requests
 * is written with their responses, as PredictionLogs in TFRecord files. A log file can serve as a
 * golden file or a warm-up file after it is renamed. `slipway bench --replay` replays it.
 *
 * Files are named PREFIX-TIME-PID-N.tfrecord. PREFIX is the filename_prefix of the
 * log_collector_config, or PREFIX/MODEL if filename_prefix is a directory. A new file begins when
 * the current one reaches its size or age limit, or when the config changes the prefix. A file
 * contains only complete records.
 *
 * Owner: the logs are found by the name of the model and are counted by references. A log is freed
 * when its model has no version, no logging_config, no queued record and no open file.
 *
 * Threads: one thread writes the files. Its queue is bounded. Records that do not fit are dropped
 * and counted, so that no request ever waits for a disk.
 */
#ifndef SRV_REQUEST_LOG_H
#define SRV_REQUEST_LOG_H

#include "server/config/config.h"

struct rt_bytes;
struct srv_metrics;
struct srv_inference;
struct srv_job;
struct srv_request_log; /* the request logs of all models */
struct srv_model_log;   /* the request log of a model */

struct srv_request_log_limits {
    size_t queue_bytes; /* maximum total size of the queued records */
    /* size and age at which a log file is closed and a new one is created */
    int64_t file_bytes, file_ns;
};

/* Creates the logs and starts their thread. Returns NULL if memory or threads run out. `metrics`
 * may be NULL. */
struct srv_request_log *srv_request_log_new(const struct srv_request_log_limits *limits,
                                            struct srv_metrics *metrics);
/* Writes all queued records and frees the log. `l` may be NULL. */
void srv_request_log_free(struct srv_request_log *l);

/* Returns a reference to a model's log, which is off until it is configured. The caller must
 * release the reference. Returns NULL if memory runs out. May be called on any thread. */
struct srv_model_log *srv_request_log_acquire(struct srv_request_log *l, const char *model);
void srv_request_log_release(struct srv_model_log *log); /* may be called on any thread */
/* Installs the logging configurations in `config`, and switches off the logs of all other models.
 * `l` may be NULL. Must not be called on two threads at once. */
void srv_request_log_configure(struct srv_request_log *l, const struct srv_config *config);
/* Returns the number of models that have a log: those with a loaded version, and those whose
 * requests are logged. May be called on any thread. */
size_t srv_request_log_models(struct srv_request_log *l);

/* Returns whether to log an answered request. Fast for models without a log. */
bool srv_request_log_wants(const struct srv_job *job);
/* Logs a request with its response. `encoded` is the response from srv_inference_encode. Must be
 * called after srv_inference_finish and before srv_inference_clear. May be called on any thread. */
void srv_request_log_add(struct srv_inference *inf, const struct rt_bytes *encoded);

/* Converts a sampling rate to a threshold in units of `2^-32`. About `threshold / 2^32` of the
 * requests are sampled: none for 0, and all for `2^32`. The function is pure. */
uint64_t srv_request_log_threshold(double rate);
bool srv_request_log_samples(uint64_t threshold, uint64_t seed);

#endif
