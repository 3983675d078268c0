/* Softmax of rows of float32. */
#ifndef KN_NN_SOFTMAX_H
#define KN_NN_SOFTMAX_H

#include <stdbool.h>
#include <stdint.h>

/* Softmax of n_rows rows of n values, n > 0; d may be s. `logarithm`: log-softmax. */
void kn_softmax_f32(float *d, const float *s, int64_t n_rows, int64_t n, bool logarithm);

#endif
