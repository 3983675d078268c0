/* The parameter of the device kernel for GEMMs with an epilogue. */
#ifndef KC_MATMUL_H
#define KC_MATMUL_H

#include "kernels/cuda/device/epilogue.h"

/* A block of KC_MATMUL_TILE * KC_MATMUL_TILE threads computes a square tile of C. */
enum { KC_MATMUL_MOST_RANK = 6, KC_MATMUL_TILE = 16 };

/* For each matrix in a batch, C [m, n] = A [m, k] B [k, n]. Strides are in elements. */
struct kc_matmul {
    float *c;
    const float *a, *b;
    int64_t m, n, k;
    int64_t a_row, a_column, b_row, b_column; /* strides between rows and between columns */
    int64_t batches;
    int64_t dim[KC_MATMUL_MOST_RANK]; /* sizes of the batch axes, innermost first */
    int64_t a_step[KC_MATMUL_MOST_RANK], b_step[KC_MATMUL_MOST_RANK];
    int32_t rank; /* number of batch axes */
    int32_t unused;
    struct kc_epilogue epilogue;
};

#endif
