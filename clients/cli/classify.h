/*
 * Converts between JSON and the messages of Classify and Regress, in TensorFlow Serving's format:
 * an example is an object of features, and a feature is a value or a list of values of one kind.
 * Threads: pure functions.
 */
#ifndef CL_CLASSIFY_H
#define CL_CLASSIFY_H

#include <jansson.h>

#include "clients/c/slipway_client.h"
#include "proto/prediction_log.h"
#include "runtime/base/bytes.h"

/*
 * Appends a ClassificationRequest, which has the same serialized form as a RegressionRequest.
 * `body` has the members "examples" and, optionally, "context". Integers and booleans are int64
 * values, other numbers are floats, and texts and {"b64": "..."} are bytes, as over REST. Fails
 * with INVALID_ARGUMENT, and with the server's message for REST, if an example is invalid. NaN and
 * Infinity are refused, because cl_json_load makes texts of them.
 */
enum rt_status cl_write_examples(struct rt_bytes *out, const struct slipway_model *model,
                                 const json_t *body, struct rt_error *err);
/* Appends {"results": [...]} for a ClassificationResponse or a RegressionResponse, which `type`
 * selects. Fails with DATA_LOSS if the response is malformed. */
enum rt_status cl_json_results(struct rt_bytes *out, enum pb_log_type type, struct rt_span response,
                               struct rt_error *err);

#endif
