/*
 * Request logs: of a model whose config has a logging_config, a sample of the requests that were
 * answered is written, with the answers, as PredictionLogs to TFRecord files. Renamed, such a file
 * is one of goldens or of a warm-up, and `slipway bench --replay` plays it.
 *
 * Files are called PREFIX-TIME-PID-N.tfrecord, PREFIX being the collector's filename_prefix, or
 * PREFIX/MODEL where that is a directory. A new one is begun when one has become large or old, and
 * when the config says otherwise. A record is whole in its file or not there.
 *
 * Threads: one of its own writes; what waits for it is bounded, and what does not fit is dropped
 * and counted, so that no request ever waits for a disk.
 */
#ifndef SRV_REQUEST_LOG_H
#define SRV_REQUEST_LOG_H

#include "server/config/config.h"

struct srv_metrics;
struct srv_inference;
struct srv_job;
struct srv_request_log; /* of all models */
struct srv_model_log;   /* of one; lives as long as the whole */

struct srv_request_log_limits {
    size_t queue_bytes;          /* what may wait for the disk */
    int64_t file_bytes, file_ns; /* a file that has so much, or is so old, is ended */
};

/* NULL: out of memory or threads. `metrics` may be NULL. */
struct srv_request_log *srv_request_log_new(const struct srv_request_log_limits *limits,
                                            struct srv_metrics *metrics);
/* Writes what waits; NULL is fine. */
void srv_request_log_free(struct srv_request_log *l);

/* The model's, logging nothing until configured. NULL: out of memory. Any thread. */
struct srv_model_log *srv_request_log_model(struct srv_request_log *l, const char *model);
/* What the models of `config` say holds from now on; those that it does not name log nothing. `l`
 * may be NULL. Any thread. */
void srv_request_log_configure(struct srv_request_log *l, const struct srv_config *config);

/* Whether a request that has been answered is to be logged. Cheap where nothing is. */
bool srv_request_log_wants(const struct srv_job *job);
/* Logs it: after finish, before clear; any thread. `response` as of srv_inference_write. */
void srv_request_log_add(const struct srv_inference *inf, struct rt_span response);
/* As srv_request_log_add, for those who have not written the API's response. */
void srv_request_log_write_and_add(const struct srv_inference *inf);

/* One in 2^32 parts: of the requests with any seeds, about threshold / 2^32 are chosen; none of
 * 0, all of 2^32. Pure. */
uint64_t srv_request_log_threshold(double rate);
bool srv_request_log_samples(uint64_t threshold, uint64_t seed);

#endif
