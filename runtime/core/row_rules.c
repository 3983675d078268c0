/* Row rules that many ops share (infer.h). A rule determines how outputs depend on the rows of the
 * batch. */
#include "runtime/core/infer.h"

static bool is_rows(const struct rt_dep *d)
{
    return d->kind == RT_DEP_ROWS;
}

void rt_rows_same(struct rt_rows *r)
{
    for (int k = 1; k < r->n_in; k++)
        if (r->in_dep[k].kind != RT_DEP_NONE)
            return;
    for (int o = 0; o < r->n_out; o++)
        r->out_dep[o] = r->in_dep[0];
}

/* Rule for element-wise ops. The row axes of all inputs must correspond to one axis of the output.
 * Inputs that do not depend on the batch must be broadcast along this axis. */
void rt_rows_each(struct rt_rows *r)
{
    int rank = 0, axis = -1;
    for (int k = 0; k < r->n_in; k++) {
        if (r->in[k].shape.rank < 0)
            return;
        if (r->in[k].shape.rank > rank)
            rank = r->in[k].shape.rank;
    }
    for (int k = 0; k < r->n_in; k++) {
        if (r->in_dep[k].kind == RT_DEP_NONE)
            continue;
        if (!is_rows(&r->in_dep[k]))
            return;
        int at = r->in_dep[k].axis + rank - r->in[k].shape.rank;
        if (axis >= 0 && axis != at)
            return;
        axis = at;
    }
    if (axis < 0)
        return;
    for (int k = 0; k < r->n_in; k++) {
        int at = axis - (rank - r->in[k].shape.rank);
        if (r->in_dep[k].kind == RT_DEP_NONE && at >= 0 && r->in[k].shape.dim[at] != 1)
            return;
    }
    for (int o = 0; o < r->n_out; o++)
        r->out_dep[o] = (struct rt_dep){RT_DEP_ROWS, axis};
}

void rt_rows_first(struct rt_rows *r)
{
    for (int k = 1; k < r->n_in; k++)
        if (r->in_dep[k].kind != RT_DEP_NONE)
            return;
    if (!is_rows(&r->in_dep[0]) || r->in_dep[0].axis != 0)
        return;
    for (int o = 0; o < r->n_out; o++)
        if (r->out[o].shape.rank >= 1 && r->out[o].shape.dim[0] == r->n_rows)
            r->out_dep[o] = (struct rt_dep){RT_DEP_ROWS, 0};
}

void rt_rows_reshape(struct rt_rows *r)
{
    const struct rt_shape *in = &r->in[0].shape, *out = &r->out[0].shape;
    for (int k = 1; k < r->n_in; k++)
        if (r->in_dep[k].kind != RT_DEP_NONE && r->in_dep[k].kind != RT_DEP_SIZE)
            return;
    if (!is_rows(&r->in_dep[0]) || in->rank < 0 || out->rank < 0)
        return;
    int64_t before = 1, so_far = 1;
    for (int d = 0; d < r->in_dep[0].axis; d++) {
        if (in->dim[d] < 0)
            return;
        before *= in->dim[d];
    }
    for (int d = 0; d < out->rank; d++) {
        if (out->dim[d] < 0)
            return;
        if (so_far == before && out->dim[d] == in->dim[r->in_dep[0].axis]) {
            r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, d};
            return;
        }
        so_far *= out->dim[d];
    }
}

void rt_rows_shape(struct rt_rows *r)
{
    for (int k = 0; k < r->n_in; k++)
        if (r->in_dep[k].kind == RT_DEP_MIXED)
            return;
    for (int o = 0; o < r->n_out; o++)
        r->out_dep[o].kind = RT_DEP_SIZE;
}
