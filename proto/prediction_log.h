/*
 * PredictionLog, the record of one request and its answer, as warm-up files, goldens and request
 * logs hold it: which of the APIs it was, and the two messages as they stand in the record.
 *
 * Source: tensorflow_serving/apis/prediction_log.proto.
 * Threads: pure.
 */
#ifndef PB_PREDICTION_LOG_H
#define PB_PREDICTION_LOG_H

#include <stdbool.h>

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

/* The fields of the record, of which one stands in it. */
enum pb_log_type {
    PB_LOG_NONE = 0,
    PB_LOG_METADATA = 1, /* beside the one */
    PB_LOG_CLASSIFY = 2,
    PB_LOG_REGRESS = 3,
    PB_LOG_MULTI_INFERENCE = 4,
    PB_LOG_SESSION_RUN = 5,
    PB_LOG_PREDICT = 6,
    PB_LOG_PREDICT_STREAMED = 7,
};

/* The fields of a log of each of these types. */
enum { PB_LOG_REQUEST = 1, PB_LOG_RESPONSE = 2 };

struct pb_prediction_log {
    enum pb_log_type type;            /* PB_LOG_NONE: nothing was logged */
    struct rt_span request, response; /* p NULL: not there */
};

/* Spans point into the record. Of what is there twice the last one holds. False: not a
 * PredictionLog. */
bool pb_prediction_log_read(struct rt_span record, struct pb_prediction_log *out);

/* Appends a record; p NULL: without that field. `metadata` is a serialized LogMetadata. A failure
 * of memory is in out->failed. */
void pb_prediction_log_write(const struct pb_prediction_log *log, struct rt_span metadata,
                             struct rt_bytes *out);

#endif
