/*
 * A remote's REST: paths, calls, and what the server tells of its models in JSON.
 * Threads: whoever holds the remote.
 */
#ifndef CL_REST_H
#define CL_REST_H

#include "clients/cli/remote.h"

/* REST's path of a model: "/v1/models/NAME[/versions/N]SUFFIX". NULL: out of memory. */
const char *cl_rest_path(struct rt_arena *arena, const struct slipway_model *m, const char *suffix);
/* A REST call; an HTTP status other than 200 is the status it means, with the server's words. */
enum rt_status cl_rest(struct cl_remote *r, const char *method, const char *path,
                       struct rt_span body, struct rt_bytes *response, struct rt_error *err);

/* As those of remote.h. */
enum rt_status cl_rest_status(struct cl_remote *r, const struct slipway_model *m,
                              struct rt_arena *arena, struct slipway_status *out,
                              struct rt_error *err);
enum rt_status cl_rest_metadata(struct cl_remote *r, const struct slipway_model *m,
                                struct rt_arena *arena, struct slipway_metadata *out,
                                struct rt_error *err);
/* From the server's metrics. */
enum rt_status cl_rest_models(struct cl_remote *r, struct rt_arena *arena, const char ***out,
                              int *n, struct rt_error *err);

#endif
