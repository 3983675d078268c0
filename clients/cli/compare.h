/*
 * Whether two answers say the same: numbers within a tolerance, everything else exactly.
 * Pure; a difference is told in words. Threads: pure.
 */
#ifndef CL_COMPARE_H
#define CL_COMPARE_H

#include "clients/c/slipway_client.h"
#include "clients/cli/json.h"
#include "proto/prediction_log.h"

/* |a - b| <= tolerance * (1 + |b|), NaN being equal to NaN. */
bool cl_near(double a, double b, double tolerance);

/* False: `why` says where they differ. */
bool cl_same_tensors(const struct slipway_tensor *a, int n_a, const struct slipway_tensor *b,
                     int n_b, double tolerance, struct rt_error *why);
bool cl_same_json(json_t *a, json_t *b, double tolerance, struct rt_error *why);

/* Calls of PredictionService and SessionService, as logs know them. */
enum cl_api {
    CL_API_NONE,
    CL_CLASSIFY = PB_LOG_CLASSIFY,
    CL_REGRESS = PB_LOG_REGRESS,
    CL_MULTI_INFERENCE = PB_LOG_MULTI_INFERENCE,
    CL_SESSION_RUN = PB_LOG_SESSION_RUN,
    CL_PREDICT = PB_LOG_PREDICT,
};
const char *cl_api_method(enum cl_api api); /* gRPC's path of it */

/* Serialized answers; `want` was recorded, so which version gave it does not matter. */
bool cl_same_answers(enum cl_api api, struct rt_span got, struct rt_span want, double tolerance,
                     struct rt_error *why);

/* A PredictionLog. False: not one, or of an API that is not known. */
struct cl_log {
    enum cl_api api;
    struct rt_span request, response; /* response.p NULL: none was recorded */
};
bool cl_log_read(struct rt_span record, struct cl_log *out);

#endif
