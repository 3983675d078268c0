/*
 * Plays the requests of `model_warmup` in a model's config.pbtxt (server/triton/triton.h) against a
 * version that is not published yet. The requests have zeros, random numbers from 0 to 1, or the
 * contents of files in the directory `warmup` of the model. The first failure makes the load fail.
 *
 * Threads: the functions are called on a load thread.
 */
#ifndef SRV_MODEL_WARMUP_H
#define SRV_MODEL_WARMUP_H

#include "server/server.h"

/* Does nothing if the model has no configuration, the configuration has no requests, or
 * --enable_model_warmup is off. Records the result in the metrics, and logs a success. If a request
 * fails, fails with its status. The error message names the configuration's file and the request.
 */
enum rt_status srv_model_warmup_run(struct srv_server *s, struct srv_version *v, const char *dir,
                                    const _Atomic bool *cancelled, struct rt_error *err);

#endif
