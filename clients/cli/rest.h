/*
 * The REST side of a remote: paths, calls, and the descriptions of models that the server returns
 * as JSON. Threads: used by one thread at a time.
 */
#ifndef CL_REST_H
#define CL_REST_H

#include "clients/cli/remote.h"

/* The REST path of a model: "/v1/models/NAME[/versions/N]SUFFIX". NULL: out of memory. */
const char *cl_rest_path(struct rt_arena *arena, const struct slipway_model *m, const char *suffix);
/* Makes a REST call. An HTTP status other than 200 becomes the matching status code, with the
 * server's text. */
enum rt_status cl_rest(struct cl_remote *r, const char *method, const char *path,
                       struct rt_span body, struct rt_bytes *response, struct rt_error *err);

/* These functions do over REST what those of the same name in remote.h do. */
enum rt_status cl_rest_status(struct cl_remote *r, const struct slipway_model *m,
                              struct rt_arena *arena, struct slipway_status *out,
                              struct rt_error *err);
enum rt_status cl_rest_metadata(struct cl_remote *r, const struct slipway_model *m,
                                struct rt_arena *arena, struct slipway_metadata *out,
                                struct rt_error *err);
/* Reads the names of all models from the server's metrics. */
enum rt_status cl_rest_models(struct cl_remote *r, struct rt_arena *arena, const char ***out,
                              int *n, struct rt_error *err);

#endif
