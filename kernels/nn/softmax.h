#ifndef KN_NN_SOFTMAX_H
#define KN_NN_SOFTMAX_H

#include <stdbool.h>
#include <stdint.h>

/* Computes the softmax of n_rows rows of n values, where n > 0, or their log-softmax if `logarithm`
 * is set. d may be s. */
void kn_softmax_f32(float *d, const float *s, int64_t n_rows, int64_t n, bool logarithm);

#endif
