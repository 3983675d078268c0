/*
 * Checks that the ops of connectionist temporal classification (CTC) share. Their input 0 holds
 * logits of shape [max_time, batch, classes]; the last class is the blank unless an op says
 * otherwise.
 */
#ifndef KN_NN_CTC_H
#define KN_NN_CTC_H

#include "kernels/array/array.h"

struct kn_ctc {
    int64_t max_time, batch, classes;
    const int32_t *length; /* number of time steps of each batch element */
};

/* Checks the inputs of a decoder, which are the logits and the lengths. */
enum rt_status kn_ctc_read(struct rt_run *r, struct kn_ctc *c);
/* Makes the three parts of a sparse tensor [batch, longest] as outputs k, k + step and
 * k + 2 * step, where sequence b consists of the n[b] values that follow those of sequence b - 1.
 * Sets *values to the values, for the caller to fill. */
enum rt_status kn_ctc_sparse(struct rt_run *r, int k, int step, int64_t batch, const int64_t *n,
                             int64_t **values);
/* Shape inference of both decoders, which have `paths` decoded sequences per batch element. `run`
 * refuses shapes that do not go together, because TensorFlow's kernels have their own words. */
enum rt_status kn_ctc_infer_decoder(struct rt_infer *x, int64_t paths);

#endif
