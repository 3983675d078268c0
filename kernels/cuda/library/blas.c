/*
 * Computes GEMMs by cuBLASLt (blas.h).
 *
 * cuBLASLt's matrices are column-major. A row-major matrix is the transposed matrix in column-major
 * order, so C = A B is computed as the product of the transposed B and the transposed A. The A of
 * cuBLASLt is therefore the B of struct kc_product, the B of cuBLASLt is the A of struct
 * kc_product, and rows of cuBLASLt's matrices are columns of the row-major matrices.
 */
#include "kernels/cuda/library/blas.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "kernels/cuda/library/blas_api.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/library/library.h"
#include "runtime/base/log.h"

#define LIBRARY "libcublasLt.so.13"

enum { ALIGNMENT = 64, MOST_PROPOSALS = 8 };

struct cublas {
    struct kc_blas base;
    void *library;
    const char *path; /* path of the loaded library; valid as long as the library is loaded */
    struct cublasLtContext *handle;
#define X(result, name, params, args) result(*name) params;
    BLAS_FUNCTIONS(X)
#undef X
};

/* A GEMM has three layouts: one for cuBLASLt's A, one for cuBLASLt's B, and one for both C and D of
 * cuBLASLt. */
enum { LAYOUT_A, LAYOUT_B, LAYOUT_C, N_LAYOUTS };

struct cublas_plan {
    struct kc_blas_plan base;
    struct kc_product product;
    void *layout[N_LAYOUTS];
    struct blas_algorithm algorithm;
};

static struct cublas *cublas_of(struct kc_blas *b)
{
    return (struct cublas *)(void *)b;
}

static enum rt_status blas_fail(const struct cublas *c, int status, const char *what,
                                struct rt_error *err)
{
    return rt_fail(err, RT_INTERNAL, "%s: %s", what, c->GetStatusName(status));
}

/* ---- descriptors ---- */

static enum blas_type type_of(enum kc_precision precision)
{
    return precision == KC_FP16 ? BLAS_HALF : precision == KC_BF16 ? BLAS_BFLOAT16 : BLAS_FLOAT;
}

/* Makes the layout of a row-major matrix. cuBLASLt treats this matrix as a column-major matrix with
 * `columns` rows. */
static int make_layout(struct cublas *c, const struct kc_product *p, int64_t rows, int64_t columns,
                       int64_t step, void **out)
{
    const int32_t batches = (int32_t)p->batches;
    int status = c->MatrixLayoutCreate(out, (int)type_of(p->precision), (uint64_t)columns,
                                       (uint64_t)rows, columns);
    if (status == BLAS_OK)
        status = c->MatrixLayoutSetAttribute(*out, BLAS_LAYOUT_BATCHES, &batches, sizeof batches);
    if (status == BLAS_OK)
        status = c->MatrixLayoutSetAttribute(*out, BLAS_LAYOUT_STEP, &step, sizeof step);
    return status;
}

static int make_layouts(struct cublas *c, struct cublas_plan *plan)
{
    const struct kc_product *p = &plan->product;
    const bool ta = p->a_transposed, tb = p->b_transposed;
    int status =
        make_layout(c, p, tb ? p->n : p->k, tb ? p->k : p->n, p->b_step, &plan->layout[LAYOUT_A]);
    if (status == BLAS_OK)
        status = make_layout(c, p, ta ? p->k : p->m, ta ? p->m : p->k, p->a_step,
                             &plan->layout[LAYOUT_B]);
    if (status == BLAS_OK)
        status = make_layout(c, p, p->m, p->n, p->m * p->n, &plan->layout[LAYOUT_C]);
    return status;
}

/* Makes the descriptor of a GEMM. A descriptor contains the address of the bias, so each run makes
 * its own descriptor. */
static int make_product(const struct cublas *c, const struct kc_product *p, const void *bias,
                        void **out)
{
    const int32_t transform_a = p->b_transposed ? BLAS_TRANSPOSED : BLAS_PLAIN;
    const int32_t transform_b = p->a_transposed ? BLAS_TRANSPOSED : BLAS_PLAIN;
    const uint32_t epilogue = p->has_bias ? BLAS_EPILOGUE_BIAS : BLAS_EPILOGUE_NONE;
    int status = c->MatmulDescCreate(
        out, p->precision == KC_TF32 ? BLAS_COMPUTE_TF32 : BLAS_COMPUTE_FLOAT, BLAS_FLOAT);
    if (status == BLAS_OK)
        status = c->MatmulDescSetAttribute(*out, BLAS_PRODUCT_TRANSFORM_A, &transform_a,
                                           sizeof transform_a);
    if (status == BLAS_OK)
        status = c->MatmulDescSetAttribute(*out, BLAS_PRODUCT_TRANSFORM_B, &transform_b,
                                           sizeof transform_b);
    if (status == BLAS_OK)
        status = c->MatmulDescSetAttribute(*out, BLAS_PRODUCT_EPILOGUE, &epilogue, sizeof epilogue);
    if (status == BLAS_OK && p->has_bias)
        status =
            c->MatmulDescSetAttribute(*out, BLAS_PRODUCT_BIAS, (const void *)&bias, sizeof bias);
    return status;
}

static int make_preference(struct cublas *c, void **out)
{
    static const int alignments[] = {BLAS_PREFERENCE_ALIGNMENT_A, BLAS_PREFERENCE_ALIGNMENT_B,
                                     BLAS_PREFERENCE_ALIGNMENT_C, BLAS_PREFERENCE_ALIGNMENT_D};
    const uint64_t most_bytes = KC_BLAS_MOST_WORKSPACE;
    const uint32_t reduction = BLAS_REDUCTION_COMPUTE_TYPE, alignment = ALIGNMENT;
    int status = c->MatmulPreferenceCreate(out);
    if (status == BLAS_OK)
        status = c->MatmulPreferenceSetAttribute(*out, BLAS_PREFERENCE_WORKSPACE, &most_bytes,
                                                 sizeof most_bytes);
    if (status == BLAS_OK)
        status = c->MatmulPreferenceSetAttribute(*out, BLAS_PREFERENCE_REDUCTION, &reduction,
                                                 sizeof reduction);
    for (size_t k = 0; k < sizeof alignments / sizeof *alignments && status == BLAS_OK; k++)
        status = c->MatmulPreferenceSetAttribute(*out, alignments[k], &alignment, sizeof alignment);
    return status;
}

/* ---- plans ---- */

static void cublas_free_plan(struct kc_blas_plan *p)
{
    struct cublas_plan *plan = (struct cublas_plan *)(void *)p;
    for (int k = 0; k < N_LAYOUTS; k++)
        if (plan->layout[k])
            cublas_of(p->blas)->MatrixLayoutDestroy(plan->layout[k]);
    free(plan);
}

/* Takes the first algorithm that cuBLASLt proposes and that can be used. Returns a status of
 * cuBLASLt. If there is no algorithm, plan->base.workspace_bytes is SIZE_MAX. */
static int find_algorithm(struct cublas *c, struct cublas_plan *plan)
{
    struct blas_proposal proposal[MOST_PROPOSALS];
    void *product = NULL, *preference = NULL;
    int n = 0;
    /* The heuristic reads only the alignment of the bias's address. */
    int status = make_product(c, &plan->product,
                              (const void *)(uintptr_t)ALIGNMENT, // NOLINT: an alignment
                              &product);
    plan->base.workspace_bytes = SIZE_MAX;
    if (status == BLAS_OK)
        status = make_preference(c, &preference);
    if (status == BLAS_OK)
        status = c->MatmulAlgoGetHeuristic(c->handle, product, plan->layout[LAYOUT_A],
                                           plan->layout[LAYOUT_B], plan->layout[LAYOUT_C],
                                           plan->layout[LAYOUT_C], preference, MOST_PROPOSALS,
                                           proposal, &n);
    for (int k = 0; k < n && status == BLAS_OK && plan->base.workspace_bytes == SIZE_MAX; k++)
        if (proposal[k].status == BLAS_OK &&
            proposal[k].workspace_bytes <= KC_BLAS_MOST_WORKSPACE) {
            plan->algorithm = proposal[k].algorithm;
            plan->base.workspace_bytes = proposal[k].workspace_bytes;
        }
    if (preference)
        c->MatmulPreferenceDestroy(preference);
    if (product)
        c->MatmulDescDestroy(product);
    return status;
}

static enum rt_status cublas_plan(struct kc_blas *b, const struct kc_product *product,
                                  struct kc_blas_plan **out, struct rt_error *err)
{
    struct cublas *c = cublas_of(b);
    *out = NULL;
    if (product->batches > INT32_MAX)
        return rt_fail(err, RT_FAILED_PRECONDITION, "the batch is too large for cuBLASLt");
    const int result = b->gpu->driver->CtxSetCurrent(b->gpu->context);
    if (result)
        return cuda_fail(b->gpu->driver, result, "cuCtxSetCurrent", err);
    struct cublas_plan *p = calloc(1, sizeof *p);
    if (!p)
        return rt_fail_memory(err, "a plan of cuBLASLt", sizeof *p);
    p->base.blas = b;
    p->product = *product;
    int status = make_layouts(c, p);
    if (status == BLAS_OK)
        status = find_algorithm(c, p);
    if (status != BLAS_OK || p->base.workspace_bytes == SIZE_MAX) {
        cublas_free_plan(&p->base);
        return rt_fail(err, RT_FAILED_PRECONDITION, "cuBLASLt has no algorithm for the product: %s",
                       c->GetStatusName(status));
    }
    *out = &p->base;
    return RT_OK;
}

static enum rt_status cublas_run(const struct kc_blas_plan *p, const struct cuda_stream *stream,
                                 void *const address[KC_PRODUCT_N_TENSORS], void *workspace,
                                 struct rt_error *err)
{
    const struct cublas *c = (const struct cublas *)(const void *)p->blas;
    const struct cublas_plan *plan = (const struct cublas_plan *)(const void *)p;
    const struct kc_product *product = &plan->product;
    const float one = 1, beta = product->has_residual ? 1 : 0;
    const void *residual = address[product->has_residual ? KC_PRODUCT_RESIDUAL : KC_PRODUCT_C];
    void *descriptor = NULL;
    int status = make_product(c, product, address[KC_PRODUCT_BIAS], &descriptor);
    if (status == BLAS_OK)
        status =
            c->Matmul(c->handle, descriptor, &one, address[KC_PRODUCT_B], plan->layout[LAYOUT_A],
                      address[KC_PRODUCT_A], plan->layout[LAYOUT_B], &beta, residual,
                      plan->layout[LAYOUT_C], address[KC_PRODUCT_C], plan->layout[LAYOUT_C],
                      &plan->algorithm, workspace, p->workspace_bytes, stream->handle);
    if (descriptor)
        c->MatmulDescDestroy(descriptor);
    return status == BLAS_OK ? RT_OK : blas_fail(c, status, "a product by cuBLASLt", err);
}

/* ---- the library ---- */

static void cublas_close(struct kc_blas *b)
{
    struct cublas *c = cublas_of(b);
    if (c->handle)
        c->Destroy(c->handle);
    if (c->library)
        dlclose(c->library);
    free(c);
}

static enum rt_status load(struct cublas *c, struct rt_error *err)
{
    c->library = kc_library_open(LIBRARY, &c->path, err);
    if (!c->library)
        return err->code;
#define X(result, name, params, args)                                                              \
    if (!kc_library_find(c->library, "cublasLt" #name, &c->name))                                  \
        return rt_fail(err, RT_FAILED_PRECONDITION, "%s has no cublasLt" #name, c->path);
    BLAS_FUNCTIONS(X)
#undef X
    const struct cuda_gpu *gpu = c->base.gpu;
    const int result = gpu->driver->CtxSetCurrent(gpu->context);
    if (result)
        return cuda_fail(gpu->driver, result, "cuCtxSetCurrent", err);
    const int status = c->Create(&c->handle);
    if (status != BLAS_OK)
        return rt_fail(err, RT_FAILED_PRECONDITION, "%s: cublasLtCreate: %s", c->path,
                       c->GetStatusName(status));
    return RT_OK;
}

enum rt_status kc_blas_open(struct kc_blas **out, struct cuda_gpu *gpu, struct rt_error *err)
{
    struct cublas *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return rt_fail_memory(err, "cuBLASLt", sizeof *c);
    c->base = (struct kc_blas){.gpu = gpu,
                               .plan = cublas_plan,
                               .free_plan = cublas_free_plan,
                               .run = cublas_run,
                               .close = cublas_close};
    const enum rt_status st = load(c, err);
    if (st) {
        cublas_close(&c->base);
        return st;
    }
    const size_t version = c->GetVersion();
    RT_LOG(RT_LOG_INFO, "GPU %d: cuBLASLt %zu.%zu.%zu, %s", gpu->device.index, version / 10000,
           version / 100 % 100, version % 100, c->path);
    *out = &c->base;
    return RT_OK;
}
