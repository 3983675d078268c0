/*
 * The steps of an inference that depend on the protocol and the call: how the bytes of a request
 * become tensors, which checks are made, which errors are reported, and how the outputs become the
 * bytes of a response. Each protocol (server/protocol/protocol.h) has a table of steps for each
 * call and encoding. inference.c performs the other steps.
 */
#ifndef SRV_STEPS_H
#define SRV_STEPS_H

#include "server/inference/inference.h"

struct srv_inference_steps {
    /* The API under which request logs record the inference. log_request and log_response write
     * this API's messages. */
    enum srv_api api;
    /* Parses a request, and sets the model's spec and the timeout. */
    enum rt_status (*read)(struct srv_inference *inf, struct srv_cursor message,
                           struct rt_error *err);
    /* Checks the spec before the version is looked up. May be NULL. Not called for a warm-up, which
     * does not look up the version. */
    enum rt_status (*check_spec)(const struct srv_inference *inf, struct rt_error *err);
    /* Returns the error to report if the version was not found. If this pointer is NULL, the error
     * of the search for the version is reported. */
    enum rt_status (*not_found)(const struct srv_inference *inf, enum rt_status st,
                                struct rt_error *err);
    /* Sets job->signature. */
    enum rt_status (*resolve)(struct srv_inference *inf, struct rt_error *err);
    /* Fills job->feeds. */
    enum rt_status (*bind)(struct srv_inference *inf, struct rt_error *err);
    /* Checks the outputs. May be NULL. */
    enum rt_status (*finish)(struct srv_inference *inf, struct rt_error *err);
    /* Appends the response to `out`, which is empty. */
    enum rt_status (*encode)(struct srv_inference *inf, struct rt_bytes *out, struct rt_error *err);
    void (*log_request)(const struct srv_inference *inf, struct rt_bytes *out);
    /* the same function as `encode` if the log contains the response unchanged */
    enum rt_status (*log_response)(struct srv_inference *inf, struct rt_bytes *out,
                                   struct rt_error *err);
    /* Frees what `read` has allocated outside the arena. May be NULL. */
    void (*clear)(struct srv_inference *inf);
};

/* Calls srv_find_signature with the model and the arena of `inf`. */
enum rt_status srv_inference_signature(const struct srv_inference *inf, struct rt_span name,
                                       const struct rt_model_signature **out, enum rt_status code,
                                       const char *unknown, struct rt_error *err);

/* Sorts the names and removes duplicates, so that all requests for the same tensors share one
 * callable. Returns the number of names left. */
int srv_sort_names(const char **names, int n);
/* Returns the index of `name` in a sorted list, or -1. */
int srv_place_of(const char *const *names, int n, const char *name);

/* Resolves a dynamic callable. The names of its tensors identify the callable. If the model already
 * has this callable, sets job->signature to it. Otherwise job->prepare builds the callable. `spec`
 * and `shapes` have the same meaning as for rt_model_make_dynamic, and must live as long as the
 * request. */
enum rt_status srv_inference_dynamic(struct srv_inference *inf, const struct rt_call_spec *spec,
                                     const struct rt_shape *shapes, struct rt_error *err);

#endif
