/*
 * Declarations shared by the files that implement inference. inference.c performs the steps common
 * to all APIs; the file of each API (inference_predict.c, inference_examples.c,
 * inference_session.c) implements the other steps.
 */
#ifndef SRV_INFERENCE_INTERNAL_H
#define SRV_INFERENCE_INTERNAL_H

#include "server/inference/inference.h"

struct srv_inference_ops {
    enum rt_status (*read)(struct srv_inference *inf, struct srv_cursor message,
                           struct rt_error *err);
    /* Sets job->signature. */
    enum rt_status (*resolve)(struct srv_inference *inf, struct rt_error *err);
    enum rt_status (*bind)(struct srv_inference *inf, size_t budget, struct rt_error *err);
    enum rt_status (*finish)(struct srv_inference *inf, struct rt_error *err);
    enum rt_status (*write)(const struct srv_inference *inf, unsigned char **out, size_t *n,
                            struct rt_error *err);
    void (*write_request)(const struct srv_inference *inf, struct rt_bytes *out);
};
extern const struct srv_inference_ops srv_predict_ops, srv_examples_ops, srv_multi_ops,
    srv_session_ops;

/* Calls srv_find_signature with the model and the arena of `inf`. */
enum rt_status srv_inference_signature(const struct srv_inference *inf, struct rt_span name,
                                       const struct rt_model_signature **out, enum rt_status code,
                                       const char *unknown, struct rt_error *err);

/* Sorts the names and removes duplicates, so that all requests for the same tensors share one
 * callable. Returns the number of remaining names. */
int srv_sort_names(const char **names, int n);
/* Returns the index of `name` in a sorted list, or -1 if the list does not contain it. */
int srv_place_of(const char *const *names, int n, const char *name);

/* Resolves a dynamic callable, which is specified by the names of tensors. If the model already has
 * this callable, it becomes job->signature. Otherwise job->prepare builds the callable. `spec` and
 * `shapes` (as in rt_model_make_dynamic) must live as long as the request. */
enum rt_status srv_inference_dynamic(struct srv_inference *inf, const struct rt_call_spec *spec,
                                     const struct rt_shape *shapes, struct rt_error *err);

#endif
