/* Shape inference and kernel of "_LastAxes" (runtime/fusion/last_axes.h). */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "runtime/fusion/last_axes.h"

static enum rt_status last_axes_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[RT_LAST_AXES_X].shape;
    struct rt_shape *out = &x->out[0].shape;
    struct rt_last_axes op;

    rt_last_axes_read(x->node, &op);
    const int n_from = (int)op.from.n, n_to = (int)op.to.n;
    if (in->rank < 0)
        return RT_OK;
    bool fits = in->rank == op.rank;
    for (int i = 0; fits && i < n_from; i++) {
        const int64_t d = in->dim[in->rank - n_from + i];
        fits = d < 0 || d == op.from.v[i];
    }
    if (!fits)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Expected an input of rank %lld whose last dimensions are those of the "
                       "weights, but got shape %s",
                       (long long)op.rank, KN_TEXT(in));
    out->rank = in->rank - n_from + n_to;
    for (int i = 0; i < in->rank - n_from; i++)
        out->dim[i] = in->dim[i];
    for (int i = 0; i < n_to; i++)
        out->dim[in->rank - n_from + i] = op.to.v[i];
    return RT_OK;
}

static enum rt_status last_axes_run(struct rt_run *r)
{
    struct rt_info out;
    const enum rt_status st = kn_infer_now(r, last_axes_infer, &out);
    return st ? st : rt_out_view(r, 0, 0, out.shape.rank, out.shape.dim);
}

const struct kn_entry kn_last_axes = {
    .op = {.name = "_LastAxes",
           .infer = last_axes_infer,
           .rows = rt_rows_reshape,
           .is_view = true,
           .internal_schema = &rt_last_axes_schema},
    .kernels = KN_KERNELS({.op = "_LastAxes",
                           .device = "CPU",
                           .name = "last_axes",
                           .flags = RT_K_VIEWS,
                           .run = last_axes_run}),
};
