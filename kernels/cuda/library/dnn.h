/*
 * Convolutions on a GPU by a library. The library is cuDNN (dnn.c). cuDNN does not run without a
 * GPU, so the tests without a GPU replace it by tests/gpu/reference_dnn.h.
 *
 * Owner: the caller of kc_dnn_open, which closes the library after freeing all its plans. Threads:
 * any. `run` may be called on several threads at the same time, with different streams.
 */
#ifndef KC_DNN_H
#define KC_DNN_H

#include "kernels/cuda/library/dnn_plan.h"

struct cuda_gpu;
struct cuda_stream;

struct kc_dnn_plan {
    struct kc_dnn *dnn;
    /* Size of the workspace. The caller of `run` provides the workspace, whose address must be a
     * multiple of 256. */
    size_t workspace_bytes;
};

struct kc_dnn {
    struct cuda_gpu *gpu;
    /* Makes a plan. Fails with RT_FAILED_PRECONDITION if the library cannot compute the convolution
     * under the requirements of dnn_plan_new, or if the convolution's ReLU does not return NaN for
     * NaN. */
    enum rt_status (*plan)(struct kc_dnn *d, const struct dnn_conv *conv, struct kc_dnn_plan **out,
                           struct rt_error *err);
    void (*free_plan)(struct kc_dnn_plan *p);
    /* Enqueues the convolution on the stream. `address` contains the addresses of the tensors in
     * the GPU's memory. The addresses of tensors that the convolution lacks are not read. */
    enum rt_status (*run)(const struct kc_dnn_plan *p, const struct cuda_stream *stream,
                          const void *const address[DNN_N_TENSORS], void *workspace,
                          struct rt_error *err);
    void (*close)(struct kc_dnn *d);
};

/* Loads cuDNN for a GPU. Fails if dnn_library_open fails, or if cuDNN refuses the GPU. */
enum rt_status kc_dnn_open(struct kc_dnn **out, struct cuda_gpu *gpu, struct rt_error *err);

#endif
