/*
 * What Classify and Regress want of a signature and of its outputs, and those outputs as classes
 * with scores or as values. Texts are TensorFlow Serving's.
 *
 * Threads: pure.
 */
#ifndef SRV_CLASSIFY_H
#define SRV_CLASSIFY_H

#include "runtime/files/saved_model.h"
#include "server/batching/job.h"

/* One classification or regression of a run; MultiInference has several. */
struct srv_scoring {
    enum srv_api api; /* SRV_CLASSIFY or SRV_REGRESS */
    const struct rt_signature *sig;
    /* Where among the fetches of the run the labels and scores come out; -1: nowhere. A regression
     * has its values in `scores`. */
    int classes, scores;
};

/* "tensorflow/serving/classify" or ".../regress". */
const char *srv_scoring_method(enum srv_api api);

/*
 * The signature can be called so: one input `inputs`, and outputs `classes` or `scores` or both,
 * or the one output `outputs`. Sets classes and scores to indices of the signature's outputs.
 */
enum rt_status srv_scoring_check(struct srv_scoring *s, bool check_method_name,
                                 struct rt_error *err);

/* What came out is what the API wants, for `n` examples. */
enum rt_status srv_scoring_check_outputs(const struct srv_scoring *s,
                                         const struct rt_tensor *fetches, int64_t n,
                                         struct rt_error *err);

/* After check_outputs. Classes per example; 1 for a regression. */
int64_t srv_scoring_width(const struct srv_scoring *s, const struct rt_tensor *fetches);
/* Of example i, class k. "" when there are no labels; 0 when there are no scores. */
struct rt_span srv_scoring_label(const struct srv_scoring *s, const struct rt_tensor *fetches,
                                 int64_t i, int64_t k);
float srv_scoring_score(const struct srv_scoring *s, const struct rt_tensor *fetches, int64_t i,
                        int64_t k);

#endif
