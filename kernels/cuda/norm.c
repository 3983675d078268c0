/* "_LayerNorm" (runtime/fusion/layer_norm.h) on a GPU, for tensors in which the elements that are
 * normalised together are contiguous. */
#include "runtime/fusion/layer_norm.h"

#include "kernels/cuda/device/norm.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/math/elementwise.h"
#include "runtime/base/checked.h"

struct state {
    struct kc_norm norm;     /* without addresses */
    struct rt_layer_norm op; /* contains the indices of the inputs */
};

/* Fills in the state, except for the addresses of the tensors. Returns false if the GPU cannot run
 * the node. */
static bool fill(const struct rt_prep *p, struct state *s)
{
    const struct rt_shape *x = &p->in[RT_LAYER_NORM_X].shape;
    rt_layer_norm_read(p->node, &s->op);
    const bool has_vectors = s->op.in.scale >= 0 || s->op.in.offset >= 0;
    const int axis = (int)(s->op.axis < 0 ? s->op.axis + x->rank : s->op.axis);
    if (!x->rank || axis < 0 || axis >= x->rank || !kn_shape_eq(x, &p->out[0].shape) ||
        (axis != x->rank - 1 && (!s->op.joins || has_vectors)))
        return false;
    s->norm = (struct kc_norm){
        .rows = 1, .columns = 1, .epsilon = s->op.epsilon, .no_mean = s->op.no_mean};
    for (int i = 0; i < x->rank; i++) {
        int64_t *n = i < axis ? &s->norm.rows : &s->norm.columns;
        *n = rt_mul_saturated(*n, x->dim[i]);
    }
    for (int k = 1; k < p->n_in; k++)
        if (kn_shape_count(&p->in[k].shape) != s->norm.columns)
            return false;
    return true;
}

int kc_norm_can(const struct rt_prep *p)
{
    struct state s;
    return fill(p, &s);
}

enum rt_status kc_norm_prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    *state = s;
    return fill(p, s) ? RT_OK
                      : rt_fail(p->err, RT_FAILED_PRECONDITION,
                                "the GPU cannot normalise along this axis");
}

enum rt_status kc_norm_run(struct rt_run *r)
{
    const struct state *s = r->state;
    struct kc_norm n = s->norm;
    n.in = r->in[RT_LAYER_NORM_X].data;
    n.scale = s->op.in.scale < 0 ? NULL : r->in[s->op.in.scale].data;
    n.offset = s->op.in.offset < 0 ? NULL : r->in[s->op.in.offset].data;
    n.out = r->out[0].data;
    return cuda_launch(r->stream, kc_norm_module, n.columns ? n.rows : 0, &n, r->err);
}
