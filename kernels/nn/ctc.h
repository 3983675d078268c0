/*
 * Functions shared by the ops of connectionist temporal classification (CTC). Their input 0 holds
 * logits of shape [max_time, batch, classes]. The last class is the blank unless an op has another
 * rule.
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
/* Makes outputs k, k + step and k + 2 * step, which are the three parts of a sparse tensor [batch,
 * longest]. Sequence b has n[b] values, which follow the values of sequence b - 1. Sets *values to
 * the memory of the values, which the caller fills. */
enum rt_status kn_ctc_sparse(struct rt_run *r, int k, int step, int64_t batch, const int64_t *n,
                             int64_t **values);
/* Infers the shapes of both decoders, which return `paths` sequences per batch element. Does not
 * refuse shapes that do not match: the kernels refuse them with the messages of TensorFlow's
 * kernels. */
enum rt_status kn_ctc_infer_decoder(struct rt_infer *x, int64_t paths);

#endif
