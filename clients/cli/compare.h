/*
 * Whether an answer says what was recorded: numbers of a floating type as near as
 * runtime/base/tolerance.h wants them, that is within `tolerance` times the largest magnitude that
 * was recorded in the output, NaN equal to NaN; everything else exactly. Outputs that were not
 * recorded do not matter, nor do the names and versions of models. A server's goldens
 * (server/inference/golden_compare.h) are held to the same. A difference is told in words.
 *
 * Threads: pure.
 */
#ifndef CL_COMPARE_H
#define CL_COMPARE_H

#include "clients/c/slipway_client.h"
#include "clients/cli/json.h"
#include "proto/prediction_log.h"

/* False: `why` says where they differ. Tensors: of one output. */
bool cl_same_tensor(const struct slipway_tensor *got, const struct slipway_tensor *want,
                    double tolerance, struct rt_error *why);
bool cl_same_json(json_t *got, json_t *want, double tolerance, struct rt_error *why);
/* Serialized answers of a call that logs know. */
bool cl_same_responses(enum pb_log_type type, struct rt_span got, struct rt_span want,
                       double tolerance, struct rt_error *why);

/* gRPC's path of the call that such a log is of. NULL: of none that can be made again. */
const char *cl_log_method(enum pb_log_type type);

#endif
