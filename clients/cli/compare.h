/*
 * Compares a response with a recorded one. Floating-point numbers are equal within the limits of
 * runtime/base/tolerance.h: they may differ by `tolerance` times the largest magnitude that was
 * recorded in the output, and NaN equals NaN. Everything else must be equal exactly. Outputs that
 * were not recorded are ignored, and so are names and versions of models. A server compares its
 * goldens by the same rules (server/inference/golden_compare.h). A difference is reported as text.
 *
 * Threads: pure.
 */
#ifndef CL_COMPARE_H
#define CL_COMPARE_H

#include "clients/c/slipway_client.h"
#include "clients/cli/json.h"
#include "proto/prediction_log.h"

/* Compares two tensors of one output. False: `why` describes the difference. */
bool cl_same_tensor(const struct slipway_tensor *got, const struct slipway_tensor *want,
                    double tolerance, struct rt_error *why);
bool cl_same_json(json_t *got, json_t *want, double tolerance, struct rt_error *why);
/* Compares the serialized responses of a call whose type request logs can hold. */
bool cl_same_responses(enum pb_log_type type, struct rt_span got, struct rt_span want,
                       double tolerance, struct rt_error *why);

/* The gRPC path of the calls that this type of log records. NULL: such calls cannot be repeated. */
const char *cl_log_method(enum pb_log_type type);

#endif
