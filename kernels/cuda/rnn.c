/*
 * "_RNN" (runtime/fusion/rnn/recurrent.h) on a GPU. One GEMM multiplies the inputs of all steps
 * by the input weights, and one kernel launch computes each step. The GPU does not support masks,
 * peephole connections, projections, or a reset gate that is applied before the GEMM of the
 * candidate. Layers with one of these features run on the CPU.
 */
#include "kernels/rnn/rnn.h"

#include "kernels/cuda/library/blas.h"
#include "kernels/cuda/device/matmul.h"
#include "kernels/cuda/device/rnn.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/workspace.h"
#include "kernels/math/elementwise.h"
#include "runtime/base/checked.h"

enum {
    MOST_STEPS = 1024,
};

struct state {
    struct kn_layer layer;
    struct kc_rnn step;        /* without addresses */
    struct kc_matmul product;  /* the GEMM of the input, without addresses */
    struct kc_blas_plan *plan; /* the library's plan for the GEMM of the input, or NULL */
    int64_t w_at, r_at;        /* offset of each weight in its input, in elements */
    int64_t sums_step, y_step; /* distances between two steps, in elements */
    size_t sums_at, h_at;      /* offsets in scratch memory, after the library's workspace */
    bool has_bias, has_r_bias;
};

static bool is_vector(const struct rt_shape *s, int64_t n)
{
    return s->rank == 1 && s->dim[0] == n;
}

static bool is_matrix(const struct rt_shape *s)
{
    return s->rank == 2;
}

/* Returns whether the state has one row of `units` elements for each row of the batch, or a single
 * row for all of them. */
static bool is_state(const struct rt_shape *s, const struct kn_layer *y)
{
    return s->rank == 2 && s->dim[1] == y->units && (s->dim[0] == y->batch || s->dim[0] == 1);
}

/* Returns whether the step kernel can run the layer. */
static bool is_plain(const struct rt_prep *p, const struct rt_rnn *op, const struct kn_layer *y)
{
    static const int absent[] = {
        RT_RNN_W_RESET_BEFORE, RT_RNN_R_RESET_BEFORE, RT_RNN_BIAS_RESET_BEFORE,
        RT_RNN_PEEP_IN,        RT_RNN_PEEP_FORGET,    RT_RNN_PEEP_LET,
        RT_RNN_PROJECT};
    for (size_t k = 0; k < sizeof absent / sizeof *absent; k++)
        if (!kn_is_none(&p->in[absent[k]].shape))
            return false;
    return y->known && y->steps > 0 && y->steps <= MOST_STEPS && y->mask == RT_RNN_ALL &&
           y->width == y->units && y->x_batch == y->batch && y->batch > 0 && y->units > 0 &&
           y->length == (y->keep == RT_RNN_KEEP_EACH ? y->steps : 1) &&
           is_state(&p->in[RT_RNN_H].shape, y) && is_matrix(&p->in[RT_RNN_W].shape) &&
           is_matrix(&p->in[RT_RNN_R].shape) &&
           p->in[RT_RNN_W].shape.dim[1] == p->in[RT_RNN_R].shape.dim[1] &&
           op->x_row + y->depth <= p->in[RT_RNN_W].shape.dim[0] &&
           op->h_row + y->units <= p->in[RT_RNN_R].shape.dim[0] &&
           (y->cell->n_states > 1 ? is_state(&p->in[RT_RNN_C].shape, y)
                                  : kn_shape_count(&p->in[RT_RNN_C].shape) == 0);
}

/* Fills in the state, except for the members that need the GPU. Returns false if the GPU cannot run
 * the layer. */
static bool fill(const struct rt_prep *p, struct state *s)
{
    struct rt_rnn op;
    struct kn_layer *y = &s->layer;
    rt_rnn_read(p->node, &op);
    if (kn_layer_of(p->node, p->in, y, p->err) || !is_plain(p, &op, y))
        return false;
    const int64_t n = p->in[RT_RNN_W].shape.dim[1];
    s->has_bias = !kn_is_none(&p->in[RT_RNN_BIAS].shape);
    s->has_r_bias = !kn_is_none(&p->in[RT_RNN_R_BIAS].shape);
    if ((s->has_bias && !is_vector(&p->in[RT_RNN_BIAS].shape, n)) ||
        (s->has_r_bias && !is_vector(&p->in[RT_RNN_R_BIAS].shape, n)))
        return false;
    s->w_at = op.x_row * n;
    s->r_at = op.h_row * n;
    s->product = (struct kc_matmul){.m = rt_mul_saturated(y->batch, y->time),
                                    .n = n,
                                    .k = y->depth,
                                    .a_row = y->depth,
                                    .a_column = 1,
                                    .b_row = n,
                                    .b_column = 1,
                                    .batches = 1};
    s->step = (struct kc_rnn){.rows = y->batch,
                              .units = y->units,
                              .sums_row = y->x_by_time ? n : y->time * n,
                              .h_row = y->units,
                              .c_row = y->units,
                              .r_row = n,
                              .y_row = y->y_by_time ? y->units : y->length * y->units,
                              .cell = y->cell->id,
                              .n_gates = y->cell->n_gates,
                              .gate_act = (int32_t)op.gate_activation,
                              .act = (int32_t)op.activation,
                              .forget_bias = op.forget_bias,
                              .clip = op.clip};
    s->sums_step = y->x_by_time ? y->batch * n : n;
    s->y_step = y->keep == RT_RNN_KEEP_LAST ? 0 : y->y_by_time ? y->batch * y->units : y->units;
    kn_layer_gates(y, &op, s->step.at);
    return true;
}

int kc_rnn_can(const struct rt_prep *p)
{
    struct rt_error err = {0};
    struct rt_prep own = *p;
    struct state s = {0};
    own.err = &err;
    return fill(&own, &s);
}

static void release(void *state)
{
    const struct state *s = state;
    if (s->plan)
        s->plan->blas->free_plan(s->plan);
}

/* Sets s->plan to the library's plan for the GEMM of the input. Leaves s->plan NULL if the library
 * cannot compute the GEMM. */
static void plan_product(const struct rt_prep *p, struct state *s)
{
    struct cuda_gpu *gpu = p->device->state;
    struct kc_blas *blas = kc_blas_of(gpu);
    struct rt_error err = {0};
    const struct kc_product product = {.m = s->product.m,
                                       .n = s->product.n,
                                       .k = s->product.k,
                                       .batches = 1,
                                       .has_bias = s->has_bias,
                                       .precision = cuda_precision(p)};
    if (blas && s->product.k > 0 && s->w_at * sizeof(float) % 64 == 0 &&
        blas->plan(blas, &product, &s->plan, &err))
        s->plan = NULL;
}

enum rt_status kc_rnn_prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    *state = s;
    p->release = release;
    if (!fill(p, s))
        return rt_fail(p->err, RT_FAILED_PRECONDITION, "the GPU cannot run this layer");
    if (p->device)
        plan_product(p, s);
    const int64_t h = rt_mul_saturated(s->layer.batch, s->layer.units);
    const int64_t sums = rt_mul_saturated(s->product.m, s->product.n);
    const int64_t floats = rt_mul_saturated(2, h);
    s->sums_at = s->plan ? s->plan->workspace_bytes : 0;
    s->sums_at = kc_workspace_offset(s->sums_at);
    if (sums > INT64_MAX / 8 || floats > INT64_MAX / 8 ||
        !rt_add_size(s->sums_at, ((size_t)sums * sizeof(float) + 63) & ~(size_t)63, &s->h_at) ||
        !rt_add_size(s->h_at, (size_t)floats * sizeof(float) + KC_WORKSPACE_ALIGNMENT,
                     &p->scratch_bytes))
        return rt_fail(p->err, RT_RESOURCE_EXHAUSTED, "a recurrent layer of too many elements");
    return RT_OK;
}

static enum rt_status multiply_input(const struct state *s, struct rt_run *r, char *workspace,
                                     float *sums)
{
    const float *w = (const float *)r->in[RT_RNN_W].data + s->w_at;
    const float *bias = s->has_bias ? r->in[RT_RNN_BIAS].data : NULL;
    if (s->plan) {
        void *const address[KC_PRODUCT_N_TENSORS] = {[KC_PRODUCT_A] = r->in[RT_RNN_X].data,
                                                     [KC_PRODUCT_B] = (void *)(uintptr_t)w,
                                                     [KC_PRODUCT_C] = sums,
                                                     [KC_PRODUCT_BIAS] = (void *)(uintptr_t)bias};
        return s->plan->blas->run(s->plan, r->stream, address, workspace, r->err);
    }
    struct kc_matmul m = s->product;
    m.a = r->in[RT_RNN_X].data;
    m.b = w;
    m.c = sums;
    m.epilogue.add = bias;
    const int64_t tiles = ((m.m + KC_MATMUL_TILE - 1) / KC_MATMUL_TILE) *
                          ((m.n + KC_MATMUL_TILE - 1) / KC_MATMUL_TILE);
    return cuda_launch(r->stream, kc_matmul_module, tiles, &m, r->err);
}

enum rt_status kc_rnn_run(struct rt_run *r)
{
    const struct state *s = r->state;
    const struct kn_layer *y = &s->layer;
    char *workspace = kc_workspace(r->scratch);
    float *sums = (float *)(workspace + s->sums_at), *spare = (float *)(workspace + s->h_at);
    const int64_t tiles =
        (y->units + KC_RNN_UNITS - 1) / KC_RNN_UNITS * ((y->batch + KC_RNN_ROWS - 1) / KC_RNN_ROWS);
    struct kc_rnn step = s->step;
    enum rt_status st = multiply_input(s, r, workspace, sums);
    step.r = (const float *)r->in[RT_RNN_R].data + s->r_at;
    step.r_bias = s->has_r_bias ? r->in[RT_RNN_R_BIAS].data : NULL;
    step.h = r->in[RT_RNN_H].data;
    step.c = r->in[RT_RNN_C].data;
    step.c_new = r->out[2].data;
    step.h_row = r->in[RT_RNN_H].dim[0] == 1 ? 0 : y->units;
    step.c_row = r->in[RT_RNN_C].rank < 2 || r->in[RT_RNN_C].dim[0] == 1 ? 0 : y->units;
    for (int64_t t = 0; t < y->steps && !st; t++) {
        const bool is_last = t == y->steps - 1;
        step.sums = sums + t * s->sums_step;
        step.h_new = is_last ? (float *)r->out[1].data : spare + t % 2 * y->batch * y->units;
        step.y = y->read == RT_RNN_UNREAD || (y->keep == RT_RNN_KEEP_LAST && !is_last)
                     ? NULL
                     : (float *)r->out[0].data + t * s->y_step;
        st = cuda_launch(r->stream, kc_rnn_module, tiles, &step, r->err);
        step.h = step.h_new;
        step.c = step.c_new;
        step.h_row = step.c_row = y->units;
    }
    return st;
}
