/*
 * Execution plans of cuDNN for convolutions. A plan consists of an engine, which is a kernel of
 * cuDNN, and the engine's settings. A plan is made for the GPU of a handle. It can also be made on
 * a machine without a GPU, from the description of a GPU.
 *
 * Owner: the caller owns the plans and the devices that these functions make. Threads: a plan may
 * be run on several threads at the same time, with different handles. A device is used on one
 * thread at a time.
 */
#ifndef KC_DNN_PLAN_H
#define KC_DNN_PLAN_H

#include "kernels/cuda/library/dnn_library.h"
#include "kernels/cuda/precision.h"
#include "kernels/nn/window.h"

/* A convolution with an epilogue: y = relu(conv(x, w) + residual + bias). x and y are
 * [batch, spatial..., channels], and w is [co, spatial..., ci / groups]. All tensors have the type
 * of the precision, and each begins at a multiple of 16 bytes. */
struct dnn_conv {
    int n_spatial; /* 2 or 3 */
    int64_t batch, ci, co, groups;
    struct kn_axis axis[KN_MAX_SPATIAL]; /* the first n_spatial elements are used */
    bool has_residual;                   /* whether the epilogue adds a tensor of y's shape */
    bool has_bias;                       /* whether the epilogue adds a vector of co elements */
    bool has_relu;
    enum kc_precision precision;
};

enum dnn_tensor { DNN_X, DNN_W, DNN_Y, DNN_RESIDUAL, DNN_BIAS, DNN_N_TENSORS };

enum { DNN_MOST_PARTS = 24 };

struct dnn_plan {
    const struct dnn_library *library;
    void *plan;
    bool has[DNN_N_TENSORS]; /* whether the plan reads or writes the tensor */
    size_t workspace_bytes;
    int64_t engine;             /* cuDNN's index of the engine */
    unsigned notes;             /* bit k is set if the engine has the dnn_numerical_note k */
    bool is_compiled;           /* whether the engine's code was compiled while the plan was made */
    void *part[DNN_MOST_PARTS]; /* the descriptors that the plan refers to */
    int n_parts;
};

/* dnn_device_of makes the descriptor of the GPU of `handle`. dnn_device_read makes the descriptor
 * of the GPU that `json` describes. */
enum rt_status dnn_device_of(const struct dnn_library *d, struct cudnnContext *handle, void **out,
                             struct rt_error *err);
enum rt_status dnn_device_read(const struct dnn_library *d, const char *json, size_t bytes,
                               void **out, struct rt_error *err);
void dnn_device_free(const struct dnn_library *d, void *device);

/*
 * Makes a plan from the first of cuDNN's proposals that meets these requirements:
 * - The workspace has at most DNN_MOST_WORKSPACE bytes.
 * - The sums are float32, and all runs add in the same order. The plan uses no FFT and no Winograd
 *   transform of tiles larger than 4 x 4, because their rounding errors are larger.
 * - With KC_FLOAT32, the plan does not use tensor cores, which would round the inputs to TF32.
 * - The code is not compiled at run time, because compilation takes 0.3 s to 0.7 s.
 *
 * Fails with RT_FAILED_PRECONDITION if no proposal meets these requirements. The caller must test
 * on a GPU whether the plan's ReLU returns NaN for NaN, because nearly all engines of cuDNN lack
 * DNN_NOTE_STRICT_NAN. For a residual or a ReLU without a bias, cuDNN 9.19 has no precompiled
 * engines.
 */
enum { DNN_MOST_WORKSPACE = 64 << 20 };
enum rt_status dnn_plan_new(const struct dnn_library *d, void *device, const struct dnn_conv *conv,
                            struct dnn_plan **out, struct rt_error *err);
void dnn_plan_free(struct dnn_plan *p);

/* Enqueues the plan on the handle's stream. `address` contains the addresses, in the GPU's
 * memory, of the tensors that the plan reads or writes. */
enum rt_status dnn_plan_run(const struct dnn_plan *p, struct cudnnContext *handle,
                            const void *const address[DNN_N_TENSORS], void *workspace,
                            struct rt_error *err);

#endif
