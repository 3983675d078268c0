/* Replaces cuDNN in tests (reference_dnn.h). */
#include "tests/gpu/reference_dnn.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/library/library.h"
#include "tests/gpu/fake_driver.h"

enum { WORKSPACE = 1000, ALIGNMENT = 16, WORKSPACE_ALIGNMENT = 256 };

struct reference {
    struct kc_dnn base;
    const char *mode;         /* the value of SLIPWAY_TEST_DNN */
    const intptr_t *distance; /* see emulated_distance (emulation.h) */
    int n_plans;
};

struct reference_plan {
    struct kc_dnn_plan base;
    struct dnn_conv conv;
};

/* The kernel's parameter. It describes the convolution, with addresses on the host. */
struct args {
    struct dnn_conv conv;
    const float *x, *w, *residual, *bias;
    float *y;
    char *workspace;
};

/* Returns the sum for output channel `k` at position `at` of image `b`. */
static float sum_at(const struct args *a, int64_t b, const int64_t at[KN_MAX_SPATIAL], int64_t k)
{
    const struct dnn_conv *c = &a->conv;
    const int64_t each = c->ci / c->groups, first = k / (c->co / c->groups) * each;
    int64_t n_taps = 1;
    float sum = 0;
    for (int i = 0; i < c->n_spatial; i++)
        n_taps *= c->axis[i].size;
    for (int64_t tap = 0; tap < n_taps; tap++) {
        int64_t left = tap, from = 0, step = 1;
        bool is_inside = true;
        for (int i = c->n_spatial - 1; i >= 0; i--) {
            const struct kn_axis *x = &c->axis[i];
            const int64_t in = at[i] * x->stride - x->lo + left % x->size * x->dilation;
            left /= x->size;
            is_inside &= in >= 0 && in < x->in;
            from += in * step;
            step *= x->in;
        }
        for (int64_t q = 0; q < each && is_inside; q++)
            sum +=
                a->x[(b * step + from) * c->ci + first + q] * a->w[(k * n_taps + tap) * each + q];
    }
    return sum;
}

static void convolve(const void *args)
{
    const struct args *a = args;
    const struct dnn_conv *c = &a->conv;
    int64_t n_positions = 1;
    memset(a->workspace, 0xdb, WORKSPACE);
    for (int i = 0; i < c->n_spatial; i++)
        n_positions *= c->axis[i].out;
    for (int64_t p = 0; p < c->batch * n_positions; p++) {
        int64_t at[KN_MAX_SPATIAL], left = p;
        for (int i = c->n_spatial - 1; i >= 0; i--) {
            at[i] = left % c->axis[i].out;
            left /= c->axis[i].out;
        }
        for (int64_t k = 0; k < c->co; k++) {
            float y = sum_at(a, left, at, k);
            if (c->has_residual)
                y += a->residual[p * c->co + k];
            if (c->has_bias)
                y += a->bias[k];
            a->y[p * c->co + k] = c->has_relu && y < 0 ? 0 : y;
        }
    }
}

static int n_runs;

int reference_dnn_runs(void)
{
    return __atomic_load_n(&n_runs, __ATOMIC_RELAXED);
}

static struct CUfunc_st kernel = {"convolve", sizeof(struct args), convolve, false};

static void *on_host(const struct reference *r, const void *address)
{
    assert(address && (uintptr_t)address % ALIGNMENT == 0);
    return (void *)((intptr_t)address + *r->distance); // NOLINT: the integer is an address
}

static enum rt_status run(const struct kc_dnn_plan *p, const struct cuda_stream *stream,
                          const void *const address[DNN_N_TENSORS], void *workspace,
                          struct rt_error *err)
{
    const struct reference *r = (const struct reference *)(const void *)p->dnn;
    const struct dnn_conv *c = &((const struct reference_plan *)(const void *)p)->conv;
    struct args a = {.conv = *c,
                     .x = on_host(r, address[DNN_X]),
                     .w = on_host(r, address[DNN_W]),
                     .y = on_host(r, address[DNN_Y]),
                     .workspace = on_host(r, workspace)};
    void *params[] = {&a};
    assert((uintptr_t)workspace % WORKSPACE_ALIGNMENT == 0);
    if (c->has_residual) {
        assert(address[DNN_RESIDUAL] != address[DNN_Y]);
        a.residual = on_host(r, address[DNN_RESIDUAL]);
    }
    if (c->has_bias)
        a.bias = on_host(r, address[DNN_BIAS]);
    __atomic_fetch_add(&n_runs, 1, __ATOMIC_RELAXED);
    const int result = stream->gpu->driver->LaunchKernel(&kernel, 1, 1, 1, 1, 1, 1, 0,
                                                         stream->handle, params, NULL);
    return result ? cuda_fail(stream->gpu->driver, result, "a reference convolution", err) : RT_OK;
}

static bool can(const struct reference *r, const struct dnn_conv *c)
{
    if (strcmp(r->mode, "bare") == 0)
        return !c->has_residual && !c->has_bias && !c->has_relu;
    return strcmp(r->mode, "none") != 0 && (c->has_bias || (!c->has_residual && !c->has_relu)) &&
           !(c->has_relu && strcmp(r->mode, "no_relu") == 0);
}

static enum rt_status plan(struct kc_dnn *d, const struct dnn_conv *conv, struct kc_dnn_plan **out,
                           struct rt_error *err)
{
    struct reference *r = (struct reference *)(void *)d;
    *out = NULL;
    if (!can(r, conv))
        return rt_fail(err, RT_FAILED_PRECONDITION, "the reference has no plan");
    struct reference_plan *p = calloc(1, sizeof *p);
    if (!p)
        return rt_fail_memory(err, "a plan", sizeof *p);
    p->base = (struct kc_dnn_plan){.dnn = d, .workspace_bytes = WORKSPACE};
    p->conv = *conv;
    __atomic_fetch_add(&r->n_plans, 1, __ATOMIC_RELAXED);
    *out = &p->base;
    return RT_OK;
}

static void free_plan(struct kc_dnn_plan *p)
{
    __atomic_fetch_sub(&((struct reference *)(void *)p->dnn)->n_plans, 1, __ATOMIC_RELAXED);
    free(p);
}

static void close_reference(struct kc_dnn *d)
{
    const struct reference *r = (const struct reference *)(const void *)d;
    assert(r->n_plans == 0);
    free(d);
}

enum rt_status __wrap_kc_dnn_open(struct kc_dnn **out, struct cuda_gpu *gpu, struct rt_error *err)
{
    const char *mode = getenv("SLIPWAY_TEST_DNN");
    if (!mode)
        return __real_kc_dnn_open(out, gpu, err);
    struct reference *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return rt_fail_memory(err, "the reference", sizeof *r);
    r->base = (struct kc_dnn){
        .gpu = gpu, .plan = plan, .free_plan = free_plan, .run = run, .close = close_reference};
    r->mode = mode;
    if (!kc_library_find(gpu->driver->library, "emulated_distance", (void *)&r->distance)) {
        free(r);
        return rt_fail(err, RT_FAILED_PRECONDITION, "the driver is not the fake driver");
    }
    *out = &r->base;
    return RT_OK;
}
