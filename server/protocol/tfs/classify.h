/*
 * Checks a signature and its outputs for the Classify and Regress APIs. Reads the outputs as
 * classes with scores, or as values. Error messages are TensorFlow Serving's.
 *
 * Threads: the functions are pure, so any thread may call them.
 */
#ifndef SRV_CLASSIFY_H
#define SRV_CLASSIFY_H

#include "runtime/files/saved_model.h"
#include "server/base/budget.h"
#include "server/base/api.h"

/* One classification or regression. A MultiInference request contains several classifications and
 * regressions. */
struct srv_scoring {
    enum srv_api api;
    const struct rt_signature *sig;
    /* Indices of the labels and scores among the fetches of the run, or -1 if the signature has no
     * such output. For a regression, `scores` is the index of the values. */
    int classes, scores;
};

/* Returns the API's method name, "tensorflow/serving/classify" or "tensorflow/serving/regress". */
const char *srv_scoring_method(enum srv_api api);

/*
 * Checks that the signature supports the API. The signature's only input must be `inputs`. For
 * Classify, the signature must have one or two outputs, and `classes` or `scores` must be among
 * them. For Regress, the only output must be `outputs`. Sets s->classes and s->scores to indices of
 * the signature's outputs.
 */
enum rt_status srv_scoring_check(struct srv_scoring *s, bool check_method_name,
                                 struct rt_error *err);

/* Checks that the outputs have the types and shapes that the API requires for n examples. */
enum rt_status srv_scoring_check_outputs(const struct srv_scoring *s,
                                         const struct rt_tensor *fetches, int64_t n,
                                         struct rt_error *err);

/* Returns the number of classes per example, or 1 for a regression. Must be called after
 * srv_scoring_check_outputs. */
int64_t srv_scoring_width(const struct srv_scoring *s, const struct rt_tensor *fetches);
/* These functions return the label and the score of class k of example i. The label is "" if the
 * signature has no labels, and the score is 0 if it has no scores. */
struct rt_span srv_scoring_label(const struct srv_scoring *s, const struct rt_tensor *fetches,
                                 int64_t i, int64_t k);
float srv_scoring_score(const struct srv_scoring *s, const struct rt_tensor *fetches, int64_t i,
                        int64_t k);

#endif
