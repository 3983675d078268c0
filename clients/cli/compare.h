/*
 * Compares a response with a recorded response. Floating-point numbers may differ by `tolerance`
 * times the largest magnitude in the recorded output, and NaN equals NaN
 * (runtime/base/tolerance.h). All other values must be identical. Model names, model versions and
 * outputs without a recorded value are ignored. The server compares its golden responses by the
 * same rules (server/replay/golden_compare.h). An error message describes a difference.
 *
 * Threads: pure functions.
 */
#ifndef CL_COMPARE_H
#define CL_COMPARE_H

#include "clients/c/slipway_client.h"
#include "clients/cli/json.h"
#include "proto/prediction_log.h"

/* Compares an output with its recorded value. If they differ, returns false and sets `why`. */
bool cl_same_tensor(const struct slipway_tensor *got, const struct slipway_tensor *want,
                    double tolerance, struct rt_error *why);
bool cl_same_json(json_t *got, json_t *want, double tolerance, struct rt_error *why);
/* Compares two serialized responses. `type` is the type of the PredictionLog record, which
 * determines the message type. */
bool cl_same_responses(enum pb_log_type type, struct rt_span got, struct rt_span want,
                       double tolerance, struct rt_error *why);

/* Returns the path of the gRPC method for PredictionLog records of `type`, or NULL if such records
 * cannot be replayed. */
const char *cl_log_method(enum pb_log_type type);

#endif
