/*
 * Request logs. For a model whose config has a logging_config, a sample of the answered requests is
 * written with the responses, as PredictionLogs in TFRecord files. Renamed, such a file serves as a
 * golden or a warm-up file, and `slipway bench --replay` replays it.
 *
 * Files are called PREFIX-TIME-PID-N.tfrecord, where PREFIX is the collector's filename_prefix, or
 * PREFIX/MODEL when that is a directory. A new file is begun when the current one is large or old,
 * and when the config changes the prefix. A record is in its file as a whole or not at all.
 *
 * Threads: one thread of the log writes. The queue before it is bounded; records that do not fit
 * are dropped and counted, so that no request ever waits for a disk.
 */
#ifndef SRV_REQUEST_LOG_H
#define SRV_REQUEST_LOG_H

#include "server/config/config.h"

struct srv_metrics;
struct srv_inference;
struct srv_job;
struct srv_request_log; /* the logs of all models */
struct srv_model_log;   /* the log of one model; lives as long as srv_request_log */

struct srv_request_log_limits {
    size_t queue_bytes;          /* limit of the records that wait for the disk */
    int64_t file_bytes, file_ns; /* size and age at which a file is ended */
};

/* NULL: out of memory or threads. `metrics` may be NULL. */
struct srv_request_log *srv_request_log_new(const struct srv_request_log_limits *limits,
                                            struct srv_metrics *metrics);
/* Writes the waiting records and frees the log; NULL is allowed. */
void srv_request_log_free(struct srv_request_log *l);

/* Returns the model's log, which logs nothing until it is configured. NULL: out of memory. Any
 * thread. */
struct srv_model_log *srv_request_log_model(struct srv_request_log *l, const char *model);
/* Installs the logging configurations of `config`; models that it does not name log nothing from
 * now on. `l` may be NULL. Any thread. */
void srv_request_log_configure(struct srv_request_log *l, const struct srv_config *config);

/* Returns whether an answered request is to be logged. Cheap for models without a log. */
bool srv_request_log_wants(const struct srv_job *job);
/* Logs the request: call after finish and before clear; any thread. `response` is as in
 * srv_inference_write. */
void srv_request_log_add(const struct srv_inference *inf, struct rt_span response);
/* Like srv_request_log_add, for callers that have not written the API's response. */
void srv_request_log_write_and_add(const struct srv_inference *inf);

/* Converts a sampling rate to units of 2^-32: about threshold / 2^32 of the requests are sampled; 0
 * samples none, 2^32 all. Pure. */
uint64_t srv_request_log_threshold(double rate);
bool srv_request_log_samples(uint64_t threshold, uint64_t seed);

#endif
