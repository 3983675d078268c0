/*
 * NVIDIA's libraries that compute convolutions and GEMMs on a GPU. A library is loaded when a model
 * first needs it. If the library is missing, Slipway logs this once and runs its plain kernels
 * instead.
 *
 * Owner: struct cuda_gpu. Threads: any.
 */
#ifndef KC_LIBRARIES_H
#define KC_LIBRARIES_H

#include <stdbool.h>

#include "runtime/base/thread.h"

struct cuda_gpu;
struct kc_blas;
struct kc_dnn;

struct kc_libraries {
    struct rt_mutex mu;
    struct kc_dnn *dnn;   /* NULL if not loaded; guarded by mu */
    struct kc_blas *blas; /* NULL if not loaded; guarded by mu */
    /* whether loading has been tried; guarded by mu */
    bool has_tried_dnn, has_tried_blas;
};

void kc_libraries_init(struct kc_libraries *l);
/* Closes the libraries. The GPU's context must be current. */
void kc_libraries_clear(struct kc_libraries *l);

/* Returns the interface to cuDNN (dnn.h) for the GPU, or NULL if cuDNN cannot be used. */
struct kc_dnn *kc_dnn_of(struct cuda_gpu *g);
/* Returns the interface to cuBLASLt (blas.h) for the GPU, or NULL if cuBLASLt cannot be used. */
struct kc_blas *kc_blas_of(struct cuda_gpu *g);

#endif
