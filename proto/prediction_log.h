/*
 * Reads and writes PredictionLog, the record of a request and its response in warm-up files,
 * goldens and request logs. A record identifies the called API, and contains the two messages as
 * bytes.
 *
 * Source: tensorflow_serving/apis/prediction_log.proto.
 * Threads: any thread may call these functions.
 */
#ifndef PB_PREDICTION_LOG_H
#define PB_PREDICTION_LOG_H

#include <stdbool.h>

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

/* Field numbers of PredictionLog. A record has exactly one of the fields PB_LOG_CLASSIFY to
 * PB_LOG_PREDICT_STREAMED. */
enum pb_log_type {
    PB_LOG_NONE = 0,
    PB_LOG_METADATA = 1, /* a record may have this field in addition to another field */
    PB_LOG_CLASSIFY = 2,
    PB_LOG_REGRESS = 3,
    PB_LOG_MULTI_INFERENCE = 4,
    PB_LOG_SESSION_RUN = 5,
    PB_LOG_PREDICT = 6,
    PB_LOG_PREDICT_STREAMED = 7,
};

/* Field numbers of the request and the response in the log messages of all types. */
enum { PB_LOG_REQUEST = 1, PB_LOG_RESPONSE = 2 };

struct pb_prediction_log {
    /* PB_LOG_NONE if the record has neither a request nor a response */
    enum pb_log_type type;
    struct rt_span request, response; /* p is NULL if the field is missing */
};

/* Reads a record. The spans in *out point into it. If a field is repeated, its last value counts.
 * Returns false if the bytes are not a PredictionLog. */
bool pb_prediction_log_read(struct rt_span record, struct pb_prediction_log *out);

/* Appends a record to *out. Omits a request, response or metadata whose p is NULL. `metadata` is a
 * serialized LogMetadata. Sets out->failed if memory runs out. */
void pb_prediction_log_write(const struct pb_prediction_log *log, struct rt_span metadata,
                             struct rt_bytes *out);

#endif
