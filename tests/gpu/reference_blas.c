/* Replaces cuBLASLt in tests (reference_blas.h). */
#include "tests/gpu/reference_blas.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/library/library.h"
#include "tests/gpu/fake_driver.h"

enum { WORKSPACE = 1000, ALIGNMENT = 64, WORKSPACE_ALIGNMENT = 256 };

struct reference {
    struct kc_blas base;
    const char *mode;         /* the value of SLIPWAY_TEST_BLAS */
    const intptr_t *distance; /* see emulated_distance (emulation.h) */
    int n_plans;
};

struct reference_plan {
    struct kc_blas_plan base;
    struct kc_product product;
};

/* The kernel's parameter. It describes the GEMM, with addresses on the host. */
struct args {
    struct kc_product product;
    const float *a, *b, *residual, *bias;
    float *c;
    char *workspace;
    bool rounds; /* whether A and B are rounded to TF32 */
};

static int n_runs;

int reference_blas_runs(void)
{
    return __atomic_load_n(&n_runs, __ATOMIC_RELAXED);
}

/* Returns the number, or the nearest number with 10 bits after the point of its significand. */
static float rounded(float x, bool rounds)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x1000) & ~UINT32_C(0x1fff);
    if (rounds)
        memcpy(&x, &bits, sizeof x);
    return x;
}

static void multiply(const void *args)
{
    const struct args *x = args;
    const struct kc_product *p = &x->product;
    memset(x->workspace, 0xdb, WORKSPACE);
    for (int64_t i = 0; i < p->batches * p->m * p->n; i++) {
        const int64_t batch = i / (p->m * p->n), row = i / p->n % p->m, column = i % p->n;
        const float *a = x->a + batch * p->a_step, *b = x->b + batch * p->b_step;
        float sum = 0;
        for (int64_t k = 0; k < p->k; k++)
            sum += rounded(a[p->a_transposed ? k * p->m + row : row * p->k + k], x->rounds) *
                   rounded(b[p->b_transposed ? column * p->k + k : k * p->n + column], x->rounds);
        if (p->has_residual)
            sum += x->residual[i];
        if (p->has_bias)
            sum += x->bias[column];
        x->c[i] = sum;
    }
}

static struct CUfunc_st kernel = {"multiply", sizeof(struct args), multiply, false};

static void *on_host(const struct reference *r, void *address)
{
    assert(address && (uintptr_t)address % ALIGNMENT == 0);
    return (void *)((intptr_t)address + *r->distance); // NOLINT: the integer is an address
}

static enum rt_status run(const struct kc_blas_plan *p, const struct cuda_stream *stream,
                          void *const address[KC_PRODUCT_N_TENSORS], void *workspace,
                          struct rt_error *err)
{
    const struct reference *r = (const struct reference *)(const void *)p->blas;
    const struct kc_product *product = &((const struct reference_plan *)(const void *)p)->product;
    struct args x = {.product = *product,
                     .a = on_host(r, address[KC_PRODUCT_A]),
                     .b = on_host(r, address[KC_PRODUCT_B]),
                     .c = on_host(r, address[KC_PRODUCT_C]),
                     .workspace = on_host(r, workspace),
                     .rounds = strcmp(r->mode, "tf32") == 0 && product->precision == KC_TF32};
    void *params[] = {&x};
    assert((uintptr_t)workspace % WORKSPACE_ALIGNMENT == 0);
    if (product->has_residual)
        x.residual = on_host(r, address[KC_PRODUCT_RESIDUAL]);
    if (product->has_bias)
        x.bias = on_host(r, address[KC_PRODUCT_BIAS]);
    __atomic_fetch_add(&n_runs, 1, __ATOMIC_RELAXED);
    const int result = stream->gpu->driver->LaunchKernel(&kernel, 1, 1, 1, 1, 1, 1, 0,
                                                         stream->handle, params, NULL);
    return result ? cuda_fail(stream->gpu->driver, result, "a reference product", err) : RT_OK;
}

static enum rt_status plan(struct kc_blas *b, const struct kc_product *product,
                           struct kc_blas_plan **out, struct rt_error *err)
{
    struct reference *r = (struct reference *)(void *)b;
    *out = NULL;
    if (strcmp(r->mode, "none") == 0 ||
        (strcmp(r->mode, "bare") == 0 && (product->has_bias || product->has_residual)))
        return rt_fail(err, RT_FAILED_PRECONDITION, "the reference has no plan");
    struct reference_plan *p = calloc(1, sizeof *p);
    if (!p)
        return rt_fail_memory(err, "a plan", sizeof *p);
    p->base = (struct kc_blas_plan){.blas = b, .workspace_bytes = WORKSPACE};
    p->product = *product;
    __atomic_fetch_add(&r->n_plans, 1, __ATOMIC_RELAXED);
    *out = &p->base;
    return RT_OK;
}

static void free_plan(struct kc_blas_plan *p)
{
    __atomic_fetch_sub(&((struct reference *)(void *)p->blas)->n_plans, 1, __ATOMIC_RELAXED);
    free(p);
}

static void close_reference(struct kc_blas *b)
{
    const struct reference *r = (const struct reference *)(const void *)b;
    assert(r->n_plans == 0);
    free(b);
}

enum rt_status __wrap_kc_blas_open(struct kc_blas **out, struct cuda_gpu *gpu, struct rt_error *err)
{
    const char *mode = getenv("SLIPWAY_TEST_BLAS");
    if (!mode)
        return __real_kc_blas_open(out, gpu, err);
    struct reference *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return rt_fail_memory(err, "the reference", sizeof *r);
    r->base = (struct kc_blas){
        .gpu = gpu, .plan = plan, .free_plan = free_plan, .run = run, .close = close_reference};
    r->mode = mode;
    if (!kc_library_find(gpu->driver->library, "emulated_distance", (void *)&r->distance)) {
        free(r);
        return rt_fail(err, RT_FAILED_PRECONDITION, "the driver is not the fake driver");
    }
    *out = &r->base;
    return RT_OK;
}
