#include "kernels/cuda/library/dnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/driver/copier.h"
#include "kernels/cuda/driver/stream.h"
#include "runtime/base/checked.h"
#include "runtime/base/log.h"

enum {
    MOST_STREAMS = 2 * RT_MAX_STREAMS,
    /* the number of elements at each end of an output that output_is_nan checks */
    CHECKED_ELEMENTS = 1024,
};

/* A handle with the stream on which it enqueues work. */
struct stream_handle {
    const struct CUstream_st *stream;
    struct cudnnContext *handle;
};

struct cudnn {
    struct kc_dnn base;
    struct dnn_library library;
    struct rt_mutex mu;
    void *device; /* the GPU's properties; guarded by mu */
    /* the handle on which plans are tried, of the stream cuda_gpu.trial; guarded by mu */
    struct stream_handle trial;
    struct stream_handle by_stream[MOST_STREAMS]; /* guarded by mu */
    int n_streams;                                /* guarded by mu */
};

struct cudnn_plan {
    struct kc_dnn_plan base;
    struct dnn_plan *plan;
};

static struct cudnn *cudnn_of(struct kc_dnn *d)
{
    return (struct cudnn *)(void *)d;
}

static enum rt_status handle_new(const struct dnn_library *l, struct CUstream_st *stream,
                                 struct stream_handle *out, struct rt_error *err)
{
    struct cudnnContext *handle = NULL;
    int status = l->Create(&handle);
    if (status == DNN_OK)
        status = l->SetStream(handle, stream);
    if (status != DNN_OK) {
        const enum rt_status st = dnn_fail(l, status, "a handle of cuDNN", err);
        if (handle)
            l->Destroy(handle);
        return st;
    }
    *out = (struct stream_handle){stream, handle};
    return RT_OK;
}

/* Finds or makes the handle of a stream. */
static enum rt_status find_handle(struct cudnn *c, struct CUstream_st *stream,
                                  struct cudnnContext **out, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    rt_mutex_lock(&c->mu);
    int k = 0;
    while (k < c->n_streams && c->by_stream[k].stream != stream)
        k++;
    if (k == MOST_STREAMS) {
        st = rt_fail(err, RT_INTERNAL, "cuDNN is used on too many streams");
    } else if (k == c->n_streams) {
        st = handle_new(&c->library, stream, &c->by_stream[k], err);
        c->n_streams += !st;
    }
    *out = st ? NULL : c->by_stream[k].handle;
    rt_mutex_unlock(&c->mu);
    return st;
}

static enum rt_status cudnn_run(const struct kc_dnn_plan *p, const struct cuda_stream *stream,
                                const void *const address[DNN_N_TENSORS], void *workspace,
                                struct rt_error *err)
{
    const struct cudnn_plan *plan = (const struct cudnn_plan *)(const void *)p;
    struct cudnnContext *handle;
    const enum rt_status st = find_handle(cudnn_of(p->dnn), stream->handle, &handle, err);
    return st ? st : dnn_plan_run(plan->plan, handle, address, workspace, err);
}

/* ---- whether a ReLU returns NaN for NaN ---- */

struct trial {
    struct cuda_gpu *gpu;
    cuda_address address[DNN_N_TENSORS], workspace;
};

/* Returns the number of elements of a tensor of the convolution, or -1 if it overflows. */
static int64_t count(const struct dnn_conv *c, enum dnn_tensor which)
{
    int64_t n = which == DNN_BIAS ? c->co
                : which == DNN_W  ? rt_mul_saturated(c->co, c->ci / c->groups)
                                  : rt_mul_saturated(c->batch, which == DNN_X ? c->ci : c->co);
    for (int i = 0; i < c->n_spatial && which != DNN_BIAS; i++)
        n = rt_mul_saturated(n, which == DNN_W   ? c->axis[i].size
                                : which == DNN_X ? c->axis[i].in
                                                 : c->axis[i].out);
    return n < INT64_MAX / (int64_t)sizeof(float) ? n : -1;
}

/* Allocates the tensors of a trial, and sets all bits of the bias to 1, so that every element of
 * the bias is NaN in every type. The other tensors may have any values, because a sum with NaN is
 * NaN. */
static bool make_tensors(struct trial *t, const struct dnn_plan *p, const struct dnn_conv *c)
{
    const struct cuda_driver *d = t->gpu->driver;
    struct rt_error err = {0};
    bool is_made = !p->workspace_bytes || d->MemAlloc(&t->workspace, p->workspace_bytes) == CUDA_OK;
    for (int k = 0; k < DNN_N_TENSORS && is_made; k++) {
        const int64_t n = count(c, (enum dnn_tensor)k);
        if (p->has[k])
            is_made = n > 0 && d->MemAlloc(&t->address[k], (size_t)n * sizeof(float)) == CUDA_OK;
    }
    unsigned char nan[CHECKED_ELEMENTS * sizeof(float)];
    memset(nan, 0xff, sizeof nan);
    const size_t bytes = (size_t)c->co * sizeof(float);
    for (size_t at = 0; at < bytes && is_made; at += sizeof nan)
        is_made =
            !cuda_copy(&t->gpu->device, RT_COPY_IN,
                       (void *)(uintptr_t)(t->address[DNN_BIAS] + at), // NOLINT: a GPU address
                       nan, bytes - at < sizeof nan ? bytes - at : sizeof nan, &err);
    return is_made;
}

static bool is_nan(const unsigned char *element, enum kc_precision precision)
{
    float value;
    uint16_t half;
    if (precision == KC_FP16 || precision == KC_BF16) {
        const unsigned infinity = precision == KC_FP16 ? 0x7c00 : 0x7f80;
        memcpy(&half, element, sizeof half);
        return (half & 0x7fffu) > infinity;
    }
    memcpy(&value, element, sizeof value);
    return isnan(value);
}

/* Returns whether the first and last elements of the output are NaN. */
static bool output_is_nan(const struct trial *t, const struct dnn_conv *c)
{
    const size_t size = c->precision == KC_FP16 || c->precision == KC_BF16 ? 2 : sizeof(float);
    const int64_t n = count(c, DNN_Y), n_checked = n < CHECKED_ELEMENTS ? n : CHECKED_ELEMENTS;
    unsigned char bytes[CHECKED_ELEMENTS * sizeof(float)];
    for (int end = 0; end < 2; end++) {
        const cuda_address from = t->address[DNN_Y] + (end ? (size_t)(n - n_checked) * size : 0);
        struct rt_error err = {0};
        if (cuda_copy(&t->gpu->device, RT_COPY_OUT, bytes,
                      (const void *)(uintptr_t)from, // NOLINT: an address in the GPU's memory
                      (size_t)n_checked * size, &err))
            return false;
        for (int64_t k = 0; k < n_checked; k++)
            if (!is_nan(bytes + (size_t)k * size, c->precision))
                return false;
    }
    return true;
}

/* Frees the memory of a trial, unless the GPU has failed: the driver would wait for a plan that
 * hangs. */
static void free_tensors(const struct trial *t)
{
    struct rt_error ignored = {0};
    if (cuda_enter(t->gpu, &ignored))
        return;
    for (int k = 0; k < DNN_N_TENSORS; k++)
        if (t->address[k])
            t->gpu->driver->MemFree(t->address[k]);
    if (t->workspace)
        t->gpu->driver->MemFree(t->workspace);
}

/* Returns whether the plan's ReLU returns NaN for NaN. For most engines, cuDNN does not report
 * how NaN is treated, so the function runs the plan. The caller must have locked mu. */
static bool passes_nan(struct cudnn *c, const struct dnn_plan *p, const struct dnn_conv *conv)
{
    struct trial t = {.gpu = c->base.gpu};
    const void *address[DNN_N_TENSORS];
    struct rt_error err = {0};
    if (p->notes >> DNN_NOTE_STRICT_NAN & 1)
        return true;
    bool passes = conv->has_bias && make_tensors(&t, p, conv);
    for (int k = 0; k < DNN_N_TENSORS; k++)
        address[k] = (const void *)(uintptr_t)t.address[k]; // NOLINT: a GPU address
    passes = passes &&
             !dnn_plan_run(p, c->trial.handle, address,
                           (void *)(uintptr_t)t.workspace, // NOLINT: an address in the GPU's memory
                           &err) &&
             !cuda_finish(&t.gpu->trial, "a plan of cuDNN", &err) && output_is_nan(&t, conv);
    free_tensors(&t);
    return passes;
}

/* ---- plans ---- */

static void cudnn_free_plan(struct kc_dnn_plan *p)
{
    struct cudnn_plan *plan = (struct cudnn_plan *)(void *)p;
    dnn_plan_free(plan->plan);
    free(plan);
}

static enum rt_status cudnn_plan(struct kc_dnn *d, const struct dnn_conv *conv,
                                 struct kc_dnn_plan **out, struct rt_error *err)
{
    struct cudnn *c = cudnn_of(d);
    struct cudnn_plan *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return rt_fail_memory(err, "a plan of cuDNN", sizeof *p);
    rt_mutex_lock(&c->mu);
    const int result = d->gpu->driver->CtxSetCurrent(d->gpu->context);
    enum rt_status st = result ? cuda_fail(d->gpu->driver, result, "cuCtxSetCurrent", err)
                               : dnn_plan_new(&c->library, c->device, conv, &p->plan, err);
    if (!st && conv->has_relu && !passes_nan(c, p->plan, conv))
        st = rt_fail(err, RT_FAILED_PRECONDITION, "cuDNN's ReLU turns NaN to 0");
    rt_mutex_unlock(&c->mu);
    if (st) {
        cudnn_free_plan(&p->base);
        return st;
    }
    p->base = (struct kc_dnn_plan){.dnn = d, .workspace_bytes = p->plan->workspace_bytes};
    *out = &p->base;
    return RT_OK;
}

static void cudnn_close(struct kc_dnn *d)
{
    struct cudnn *c = cudnn_of(d);
    if (c->device)
        dnn_device_free(&c->library, c->device);
    for (int k = 0; k < c->n_streams; k++)
        c->library.Destroy(c->by_stream[k].handle);
    if (c->trial.handle)
        c->library.Destroy(c->trial.handle);
    dnn_library_close(&c->library);
    rt_mutex_clear(&c->mu);
    free(c);
}

enum rt_status kc_dnn_open(struct kc_dnn **out, struct cuda_gpu *gpu, struct rt_error *err)
{
    struct cudnn *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return rt_fail_memory(err, "cuDNN", sizeof *c);
    c->base = (struct kc_dnn){.gpu = gpu,
                              .plan = cudnn_plan,
                              .free_plan = cudnn_free_plan,
                              .run = cudnn_run,
                              .close = cudnn_close};
    rt_mutex_init(&c->mu);
    enum rt_status st = dnn_library_open(&c->library, err);
    if (!st) {
        const int result = gpu->driver->CtxSetCurrent(gpu->context);
        st = result ? cuda_fail(gpu->driver, result, "cuCtxSetCurrent", err) : RT_OK;
    }
    if (!st)
        st = handle_new(&c->library, gpu->trial.handle, &c->trial, err);
    if (!st)
        st = dnn_device_of(&c->library, c->trial.handle, &c->device, err);
    if (st) {
        if (c->library.library)
            rt_fail_prefix(err, "%s: ", c->library.path);
        cudnn_close(&c->base);
        return st;
    }
    RT_LOG(RT_LOG_INFO, "GPU %d: cuDNN %zu.%zu.%zu, %s", gpu->device.index,
           c->library.version / 10000, c->library.version / 100 % 100, c->library.version % 100,
           c->library.path);
    *out = &c->base;
    return RT_OK;
}
