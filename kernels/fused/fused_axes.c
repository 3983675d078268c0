/*
 * "_LastAxes" (runtime/fusion/fuse_einsum.c): a view of x, which has "rank" axes; the last of them,
 * as long as "from" says, become those of "to".
 */
#include "kernels/array/array.h"
#include "kernels/entry.h"

static enum rt_status infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    const int64_t rank = rt_attr_int(x->node, "rank");
    const int64_t *from, *to;
    const int n_from = (int)rt_attr_ints(x->node, "from", &from);
    const int n_to = (int)rt_attr_ints(x->node, "to", &to);
    struct rt_shape *out = &x->out[0].shape;

    if (in->rank < 0)
        return RT_OK;
    bool fits = in->rank == rank;
    for (int i = 0; fits && i < n_from; i++) {
        const int64_t d = in->dim[in->rank - n_from + i];
        fits = d < 0 || d == from[i];
    }
    if (!fits)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Expected an input of rank %lld whose last dimensions are those of the "
                       "weights, but got shape %s",
                       (long long)rank, KN_TEXT(in));
    out->rank = in->rank - n_from + n_to;
    for (int i = 0; i < in->rank - n_from; i++)
        out->dim[i] = in->dim[i];
    for (int i = 0; i < n_to; i++)
        out->dim[in->rank - n_from + i] = to[i];
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    struct rt_info out;
    const enum rt_status st = kn_infer_now(r, infer, &out);
    return st ? st : rt_out_view(r, 0, 0, out.shape.rank, out.shape.dim);
}

static const struct rt_schema schema = {
    .name = "_LastAxes",
    .attr = (const struct rt_attr_schema[]){{.name = "rank", .type = RT_ATTR_INT},
                                            {.name = "from", .type = RT_ATTR_INT | RT_ATTR_LIST},
                                            {.name = "to", .type = RT_ATTR_INT | RT_ATTR_LIST}},
    .n_attr = 3,
};

const struct kn_entry kn_last_axes = {
    .op = {.name = "_LastAxes",
           .infer = infer,
           .rows = rt_rows_reshape,
           .is_view = true,
           .own = &schema},
    .kernels = KN_KERNELS(
        {.op = "_LastAxes", .device = "CPU", .name = "last_axes", .flags = RT_K_VIEWS, .run = run}),
};
