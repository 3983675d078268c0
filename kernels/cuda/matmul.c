#include "kernels/cuda/matmul.h"

#include <string.h>

#include "kernels/cuda/epilogue.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "runtime/base/checked.h"

struct state {
    struct kc_matmul product; /* without addresses */
    struct rt_epilogue epilogue;
};

/* Sets the batch axes. Returns false if there are too many of them. */
static bool set_batch(const struct rt_prep *p, struct kc_matmul *m)
{
    const struct rt_shape *a = &p->in[0].shape, *b = &p->in[1].shape;
    const int rank = a->rank > b->rank ? a->rank : b->rank;
    int64_t a_step = rt_mul_saturated(m->m, m->k), b_step = rt_mul_saturated(m->k, m->n);
    if (rank - 2 > KC_MATMUL_MOST_RANK)
        return false;
    m->batches = 1;
    m->rank = rank - 2;
    for (int i = rank - 3; i >= 0; i--) {
        const int ia = i - (rank - a->rank), ib = i - (rank - b->rank), at = rank - 3 - i;
        const int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
        m->dim[at] = da == 1 ? db : da;
        m->a_step[at] = da == 1 ? 0 : a_step;
        m->b_step[at] = db == 1 ? 0 : b_step;
        m->batches = rt_mul_saturated(m->batches, m->dim[at]);
        a_step = rt_mul_saturated(a_step, da);
        b_step = rt_mul_saturated(b_step, db);
    }
    return true;
}

bool kc_matmul_fill(const struct rt_prep *p, struct kc_matmul *m)
{
    const struct rt_shape *a = &p->in[0].shape, *b = &p->in[1].shape;
    const bool is_2d = strcmp(p->node->op->name, "MatMul") == 0;
    const bool ta = rt_attr_bool(p->node, is_2d ? "transpose_a" : "adj_x");
    const bool tb = rt_attr_bool(p->node, is_2d ? "transpose_b" : "adj_y");
    const int64_t a_columns = a->dim[a->rank - 1], b_columns = b->dim[b->rank - 1];
    *m = (struct kc_matmul){.m = a->dim[a->rank - (ta ? 1 : 2)],
                            .k = a->dim[a->rank - (ta ? 2 : 1)],
                            .n = b->dim[b->rank - (tb ? 2 : 1)],
                            .a_row = ta ? 1 : a_columns,
                            .a_column = ta ? a_columns : 1,
                            .b_row = tb ? 1 : b_columns,
                            .b_column = tb ? b_columns : 1};
    return set_batch(p, m);
}

int kc_matmul_can(const struct rt_prep *p)
{
    struct kc_matmul m;
    return kc_matmul_fill(p, &m) && kc_epilogue_can(p);
}

enum rt_status kc_matmul_prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    *state = s;
    const enum rt_status st = rt_epilogue_read(p->node, &s->epilogue, p->err);
    if (st)
        return st;
    return kc_matmul_fill(p, &s->product)
               ? RT_OK
               : rt_fail(p->err, RT_FAILED_PRECONDITION, "the batch has too many axes for the GPU");
}

enum rt_status kc_matmul_run(struct rt_run *r)
{
    enum { TILE = KC_MATMUL_TILE };
    _Static_assert((int)TILE * (int)TILE == (int)KC_THREADS, "each thread computes one element");
    const struct state *s = r->state;
    struct kc_matmul m = s->product;
    if (!rt_tensor_count(&r->out[0]))
        return RT_OK; /* `tiles` could overflow, because a dimension may be huge */
    const int64_t tiles = (m.m + TILE - 1) / TILE * ((m.n + TILE - 1) / TILE);
    m.a = r->in[0].data;
    m.b = r->in[1].data;
    m.c = r->out[0].data;
    m.epilogue = kc_epilogue_bind(&s->epilogue, r);
    return cuda_launch(r->stream, kc_matmul_module, tiles * m.batches, &m, r->err);
}
