/*
 * GEMMs on a GPU by a library (blas.h). The library adds the residual and the bias, unless the
 * epilogue begins with a scale. The device kernel `finish` applies the other steps of the epilogue,
 * because cuBLASLt's ReLU returns 0 for NaN, and its GELU is the approximation with tanh.
 */
#include "kernels/cuda/library/blas.h"
#include "kernels/cuda/epilogue.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/workspace.h"
#include "kernels/math/elementwise.h"
#include "runtime/base/checked.h"

enum {
    RANK = 2, /* tried before the plain kernel (matmul.c) */
};

struct state {
    struct kc_blas_plan *plan;
    struct rt_epilogue epilogue;
    struct kc_epilogue_part done; /* the steps that the plan applies */
    bool must_finish;             /* whether there are steps that `finish` must apply */
    /* whether the GEMM would overwrite a residual that `finish` must add */
    bool copies_residual;
    size_t residual_at; /* offset of the residual's copy from the start of the workspace */
};

/* Merges the batch axes into one. Returns false if a single stride cannot describe the matrices of
 * A or of B. */
static bool merge_batch(const struct kc_matmul *m, struct kc_product *p)
{
    p->batches = 1;
    p->a_step = p->b_step = 0;
    for (int d = 0; d < m->rank; d++) {
        if (m->dim[d] == 1)
            continue;
        if (p->batches == 1) {
            p->a_step = m->a_step[d];
            p->b_step = m->b_step[d];
        } else if (m->a_step[d] != rt_mul_saturated(p->a_step, p->batches) ||
                   m->b_step[d] != rt_mul_saturated(p->b_step, p->batches)) {
            return false;
        }
        p->batches = rt_mul_saturated(p->batches, m->dim[d]);
    }
    /* If all GEMMs of the batch share B, the rows of all matrices A form one matrix. */
    if (p->batches > 1 && !p->b_step && !p->a_transposed &&
        p->a_step == rt_mul_saturated(p->m, p->k)) {
        p->m = rt_mul_saturated(p->m, p->batches);
        p->batches = 1;
        p->a_step = 0;
    }
    return true;
}

static bool describe(const struct rt_prep *p, const struct rt_epilogue *e, struct kc_product *out)
{
    struct kc_matmul m;
    if (!kc_matmul_fill(p, &m) || kn_shape_count(&p->out[0].shape) < 1 || m.k < 1)
        return false;
    const bool is_scaled = e->in[RT_EPILOGUE_MUL] != 0;
    *out = (struct kc_product){.m = m.m,
                               .n = m.n,
                               .k = m.k,
                               .a_transposed = m.a_row == 1 && m.a_column != 1,
                               .b_transposed = m.b_row == 1 && m.b_column != 1,
                               .has_residual = !is_scaled && e->in[RT_EPILOGUE_RESIDUAL],
                               .has_bias = !is_scaled && e->in[RT_EPILOGUE_ADD]};
    return merge_batch(&m, out);
}

int kc_matmul_blas_can(const struct rt_prep *p)
{
    struct rt_epilogue e;
    struct kc_product product;
    return p->device && kc_epilogue_can(p) && !rt_epilogue_read(p->node, &e, p->err) &&
                   describe(p, &e, &product)
               ? RANK
               : 0;
}

static void release(void *state)
{
    const struct state *s = state;
    if (s->plan)
        s->plan->blas->free_plan(s->plan);
}

/* Makes a plan that applies as much of the epilogue as the library can. */
static enum rt_status make_plan(struct state *s, struct kc_blas *blas, struct kc_product *product,
                                struct rt_error *err)
{
    enum rt_status st = blas->plan(blas, product, &s->plan, err);
    if (st == RT_FAILED_PRECONDITION && (product->has_bias || product->has_residual)) {
        product->has_bias = product->has_residual = false;
        st = blas->plan(blas, product, &s->plan, err);
    }
    s->done = (struct kc_epilogue_part){.has_add = product->has_bias,
                                        .has_residual = product->has_residual};
    s->must_finish = kc_epilogue_is_left(&s->epilogue, &s->done);
    return st;
}

/* Reserves scratch memory for the plan's workspace. If the output shares the residual's memory and
 * the plan does not add the residual, also reserves memory for a copy of the residual. */
static enum rt_status reserve(struct rt_prep *p, struct state *s)
{
    size_t bytes = s->plan->workspace_bytes;
    const size_t out_bytes = (size_t)kn_shape_count(&p->out[0].shape) * sizeof(float);
    s->copies_residual = s->epilogue.in[RT_EPILOGUE_RESIDUAL] && !s->done.has_residual;
    if (s->copies_residual) {
        s->residual_at = kc_workspace_offset(bytes);
        if (!rt_add_size(s->residual_at, out_bytes, &bytes))
            return rt_fail_memory(p->err, p->node->name, out_bytes);
    }
    if (!rt_add_size(bytes, KC_WORKSPACE_ALIGNMENT, &p->scratch_bytes))
        return rt_fail_memory(p->err, p->node->name, bytes);
    return RT_OK;
}

enum rt_status kc_matmul_blas_prepare(struct rt_prep *p, void **state)
{
    struct cuda_gpu *gpu = p->device->state;
    struct kc_blas *blas = kc_blas_of(gpu);
    struct kc_product product;
    if (!blas)
        return rt_fail(p->err, RT_FAILED_PRECONDITION, "cuBLASLt cannot be used");
    struct state *s = rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    *state = s;
    p->release = release;
    enum rt_status st = rt_epilogue_read(p->node, &s->epilogue, p->err);
    if (!st && !describe(p, &s->epilogue, &product))
        st = rt_fail(p->err, RT_FAILED_PRECONDITION, "cuBLASLt cannot compute this product");
    if (st)
        return st;
    product.precision = cuda_precision(p);
    st = make_plan(s, blas, &product, p->err);
    return st ? st : reserve(p, s);
}

enum rt_status kc_matmul_blas_run(struct rt_run *r)
{
    const struct state *s = r->state;
    const int bias = s->epilogue.in[RT_EPILOGUE_ADD];
    const int residual = s->epilogue.in[RT_EPILOGUE_RESIDUAL];
    char *workspace = kc_workspace(r->scratch);
    const void *left = NULL;
    void *const address[KC_PRODUCT_N_TENSORS] = {
        [KC_PRODUCT_A] = r->in[0].data,
        [KC_PRODUCT_B] = r->in[1].data,
        [KC_PRODUCT_C] = r->out[0].data,
        [KC_PRODUCT_RESIDUAL] = residual ? r->in[residual].data : NULL,
        [KC_PRODUCT_BIAS] = bias ? r->in[bias].data : NULL};
    enum rt_status st = RT_OK;
    if (s->copies_residual)
        st = kc_epilogue_residual(&s->epilogue, r, workspace + s->residual_at, &left);
    if (!st)
        st = s->plan->blas->run(s->plan, r->stream, address, workspace, r->err);
    return st || !s->must_finish ? st : kc_epilogue_finish(&s->epilogue, &s->done, r, left);
}
