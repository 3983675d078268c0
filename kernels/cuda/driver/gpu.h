/*
 * A GPU as an accelerator of the runtime (runtime/core/device.h), and kernel launches on its
 * streams.
 *
 * Owner: gpus.c opens and closes GPUs. Threads: as in device.h. Each function makes the GPU's
 * primary context current on the calling thread.
 */
#ifndef KC_GPU_H
#define KC_GPU_H

#include "kernels/cuda/device/fault.h"
#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/driver/pacing.h"
#include "kernels/cuda/library/libraries.h"
#include "kernels/cuda/precision.h"
#include "runtime/base/thread.h"
#include "runtime/core/device.h"

/*
 * X(module, is_cooperative) for each file kernels/cuda/device/MODULE.cu. The file defines one
 * kernel, kc_MODULE, whose parameter is a struct of the same name. In a cooperative kernel, the
 * threads of a block use barriers or shuffles.
 */
#define KC_MODULES(X)                                                                              \
    X(attention, true)                                                                             \
    X(conv, false)                                                                                 \
    X(copy, false)                                                                                 \
    X(depthwise, false)                                                                            \
    X(elementwise, false)                                                                          \
    X(finish, false)                                                                               \
    X(gather, true)                                                                                \
    X(matmul, true)                                                                                \
    X(norm, true)                                                                                  \
    X(pool, false)                                                                                 \
    X(reduce, true)                                                                                \
    X(rnn, true)                                                                                   \
    X(softmax, true)

enum kc_module {
#define X(name, is_cooperative) kc_##name##_module,
    KC_MODULES(X) KC_N_MODULES
#undef X
};

enum { KC_THREADS = 256 }; /* number of threads per block */

enum { CUDA_NAME_BYTES = 256, CUDA_UUID_TEXT = 41 }; /* "GPU-", 8-4-4-4-12 digits, NUL */

struct cuda_gpu;
struct cuda_nvml;

/* The type of the object to which rt_run.stream points while a GPU kernel runs. */
struct cuda_stream {
    struct cuda_gpu *gpu;
    struct CUstream_st *handle;
    _Atomic int64_t waiting_since_ns; /* when a thread began to wait for the stream, or 0 */
    /* `fault` is in the GPU's memory, and describes the first fault that device code has found in
     * its inputs. `found` is a copy of *fault on the host, made after the steps of the region
     * `checked`. If `checked` is NULL, `found` is not valid. */
    struct kc_fault *fault, found;
    const struct rt_region_steps *checked;
    /* how long the region took whose end the next wait is for, or NULL */
    struct cuda_pacing *pacing;
    int64_t step; /* number of the step whose kernels are being launched, counted from 1 */
};

enum { CUDA_COPIERS = 4 };

/* A stream for copies outside regions (copier.h). The thread that has taken the copier uses it. */
struct cuda_copier {
    struct cuda_stream stream;
    void *buffer;   /* memory of the host, or NULL before the first copy */
    bool is_locked; /* whether the pages of the buffer are locked */
    bool is_taken;  /* guarded by copier_mu */
};

struct cuda_gpu {
    struct rt_device device;
    const struct cuda_driver *driver;
    int ordinal; /* the driver's index of the GPU */
    char model[CUDA_NAME_BYTES], uuid[CUDA_UUID_TEXT];
    bool has_tf32;
    struct cuda_nvml *nvml; /* NULL if NVML is not available */
    struct CUctx_st *context;
    struct CUmod_st *module[KC_N_MODULES];
    struct CUfunc_st *kernel[KC_N_MODULES];
    struct cuda_stream stream[RT_MAX_STREAMS];
    struct cuda_stream trial; /* the stream on which plans of libraries are tried */
    struct rt_mutex copier_mu;
    struct rt_cond copier_free;
    bool has_copiers; /* whether copier_mu and copier_free are initialised */
    struct cuda_copier copier[CUDA_COPIERS];
    _Atomic int64_t longest_ns; /* the longest time that a thread has waited for a stream */
    struct kc_libraries libraries;
};

/* Opens GPU `ordinal` of the driver as GPU `index` of the process: retains its primary context,
 * loads the device code and creates the streams. Fails with RT_FAILED_PRECONDITION if the GPU
 * cannot be used. */
enum rt_status cuda_gpu_open(struct cuda_gpu **out, const struct cuda_driver *driver, int ordinal,
                             int index, const struct rt_accelerator_options *options,
                             struct rt_error *err);
/* Closes the GPU and returns true. If the GPU has failed, returns false instead, and leaves
 * everything as it is: functions of the driver may not return, and a hanging thread may still use
 * the memory. */
bool cuda_gpu_close(struct cuda_gpu *g);
/*
 * Sets err from a result of the driver that is not CUDA_OK, as cuda_fail does. If the process
 * cannot use the GPU any more after the error, marks the GPU as failed and returns RT_UNAVAILABLE.
 */
enum rt_status cuda_gpu_fail(struct cuda_gpu *g, int result, const char *what,
                             struct rt_error *err);

/* Launches a module's kernel on the stream. `args` is the kernel's parameter, which is copied
 * before the function returns. The number of blocks in the grid is limited, so it may be less than
 * `blocks`. A kernel must work with any number of blocks. */
enum rt_status cuda_launch(const struct cuda_stream *s, enum kc_module module, int64_t blocks,
                           void *args, struct rt_error *err);
/* Returns the precision in which the session of a kernel multiplies and convolves on its GPU:
 * KC_FLOAT32 or KC_TF32. */
static inline enum kc_precision cuda_precision(const struct rt_prep *p)
{
    const struct cuda_gpu *g = p->device->state;
    return g->has_tf32 && !p->tuning->full_precision ? KC_TF32 : KC_FLOAT32;
}
/* Returns the number of blocks that have at least n threads together. */
static inline int64_t cuda_blocks(int64_t n)
{
    return n / KC_THREADS + (n % KC_THREADS != 0);
}

#endif
