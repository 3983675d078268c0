/*
 * Calls a server over REST: forms paths, sends requests, and reads the JSON responses that describe
 * models. Threads: only one thread at a time may use a cl_remote.
 */
#ifndef CL_REST_H
#define CL_REST_H

#include "clients/cli/remote.h"

/* Returns the REST path of a model, "/v1/models/NAME[/versions/N]SUFFIX", or NULL if memory runs
 * out. */
const char *cl_rest_path(struct rt_arena *arena, const struct slipway_model *m, const char *suffix);
/* Makes a REST call. An HTTP status other than 200 fails with the corresponding code and the
 * server's error message. */
enum rt_status cl_rest(struct cl_remote *r, const char *method, const char *path,
                       struct rt_span body, struct rt_bytes *response, struct rt_error *err);

/* The REST implementations of functions in remote.h. For example, cl_rest_status implements
 * cl_remote_status. */
enum rt_status cl_rest_status(struct cl_remote *r, const struct slipway_model *m,
                              struct rt_arena *arena, struct slipway_status *out,
                              struct rt_error *err);
enum rt_status cl_rest_metadata(struct cl_remote *r, const struct slipway_model *m,
                                struct rt_arena *arena, struct slipway_metadata *out,
                                struct rt_error *err);
/* Reads the names of all models from the server's metrics page. */
enum rt_status cl_rest_models(struct cl_remote *r, struct rt_arena *arena, const char ***out,
                              int *n, struct rt_error *err);

#endif
