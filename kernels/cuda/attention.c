/* "_Attention" (runtime/fusion/attention.h) on a GPU. */
#include "kernels/fused/attention.h"

#include "kernels/cuda/device/attention.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/math/elementwise.h"

_Static_assert((int)KC_ATTENTION_MOST_STEPS == (int)RT_ATTENTION_MOST, "every attention fits");

struct state {
    struct kc_attention attention;                    /* without addresses */
    struct rt_attention_step step[RT_ATTENTION_MOST]; /* only the operands' indices are used */
};

static struct kc_attention_places places(const struct rt_attention *op, const struct rt_prep *p,
                                         int k)
{
    const struct rt_shape *shape = k == RT_ATTENTION_OUT ? &p->out[0].shape : &p->in[k].shape;
    const struct kn_attention_places at = kn_attention_places(op, k, shape);
    return (struct kc_attention_places){at.batch, at.head, at.row};
}

static void set_steps(const struct rt_attention *op, const struct rt_prep *p, struct state *s)
{
    int n;
    const struct rt_attention_step *step = rt_attention_steps(op, &n);
    s->attention.n_steps = n;
    for (int k = 0; k < n; k++) {
        s->step[k] = step[k];
        s->attention.step[k].op = step[k].op;
        kn_attention_strides(&p->in[step[k].a].shape, s->attention.step[k].stride);
    }
}

enum rt_status kc_attention_prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    struct rt_shape before, behind;
    struct rt_attention op;
    if (!s)
        return p->err->code;
    *state = s;
    rt_attention_read(p->node, &op);
    const enum rt_status st = kn_attention_scores(&op, p->in, &before, &behind, p->err);
    if (st || kn_shape_count(&p->out[0].shape) < 1)
        return st;
    struct kc_attention *a = &s->attention;
    a->batches = p->out[0].shape.dim[0];
    a->heads = p->out[0].shape.dim[kn_attention_heads(&op, RT_ATTENTION_OUT)];
    a->rows = behind.dim[2];
    a->keys = behind.dim[3];
    a->h = p->in[RT_ATTENTION_QUERIES].shape.dim[3];
    a->d = p->out[0].shape.dim[3];
    a->q_at = places(&op, p, RT_ATTENTION_QUERIES);
    a->k_at = places(&op, p, RT_ATTENTION_KEYS);
    a->v_at = places(&op, p, RT_ATTENTION_VALUES);
    a->out_at = places(&op, p, RT_ATTENTION_OUT);
    /* The steps may broadcast the scores to more rows or keys. */
    if (before.dim[2] != a->rows)
        a->q_at.row = 0;
    if (before.dim[3] != a->keys)
        a->k_at.row = 0;
    set_steps(&op, p, s);
    return RT_OK;
}

int kc_attention_can(const struct rt_prep *p)
{
    (void)p;
    return 1;
}

enum rt_status kc_attention_run(struct rt_run *r)
{
    const struct state *s = r->state;
    struct kc_attention a = s->attention;
    if (!rt_tensor_count(&r->out[0]))
        return RT_OK;
    a.q = r->in[RT_ATTENTION_QUERIES].data;
    a.k = r->in[RT_ATTENTION_KEYS].data;
    a.v = r->in[RT_ATTENTION_VALUES].data;
    a.out = r->out[0].data;
    for (int k = 0; k < a.n_steps; k++) {
        a.step[k].operand = r->in[s->step[k].a].data;
        a.step[k].other = s->step[k].b < 0 ? NULL : r->in[s->step[k].b].data;
    }
    const int64_t tiles = (a.rows + KC_ATTENTION_ROWS - 1) / KC_ATTENTION_ROWS *
                          ((a.d + KC_ATTENTION_COLUMNS - 1) / KC_ATTENTION_COLUMNS);
    return cuda_launch(r->stream, kc_attention_module, a.batches * a.heads * tiles, &a, r->err);
}
