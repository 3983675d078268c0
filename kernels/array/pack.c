/* Pack stacks tensors of one shape along a new axis, and Unpack splits a tensor along an axis. */
#include "kernels/array/array.h"
#include "kernels/entry.h"

static enum rt_status axis_of(const struct rt_node *n, int rank, int64_t *axis,
                              struct rt_error *err)
{
    *axis = rt_attr_int(n, "axis");
    if (*axis < -rank || *axis >= rank)
        return rt_fail(err, RT_INVALID_ARGUMENT, "axis = %lld not in [%d, %d)", (long long)*axis,
                       -rank, rank);
    if (*axis < 0)
        *axis += rank;
    return RT_OK;
}

/* ---- Pack ---- */

static enum rt_status pack_infer(struct rt_infer *x)
{
    int64_t axis = 0;

    if (!kn_known(x, 0))
        return RT_OK;
    const struct rt_shape *in = &x->in[0].shape;
    struct rt_shape *o = &x->out[0].shape;
    enum rt_status st = axis_of(x->node, in->rank + 1, &axis, x->err);
    if (st)
        return st;
    for (int k = 1; k < x->n_in; k++) {
        const struct rt_shape *s = &x->in[k].shape;
        if (s->rank != in->rank ||
            memcmp(s->dim, in->dim, (size_t)in->rank * sizeof in->dim[0]) != 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Shapes of all inputs must match: values[0].shape = %s != "
                           "values[%d].shape = %s",
                           KN_TEXT(in), k, KN_TEXT(s));
    }
    if (in->rank == RT_MAX_RANK)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Pack: more than %d dimensions are not supported", RT_MAX_RANK);
    for (int i = 0; i <= in->rank; i++)
        o->dim[i] = i < axis ? in->dim[i] : i == axis ? x->n_in : in->dim[i - 1];
    o->rank = in->rank + 1;
    return RT_OK;
}

static enum rt_status pack_run(struct rt_run *r)
{
    int64_t axis = 0;
    enum rt_status st = kn_outputs(r, pack_infer);

    if (st || (st = axis_of(r->node, r->in[0].rank + 1, &axis, r->err)))
        return st;
    const enum rt_dtype dt = kn_dtype(&r->out[0]);
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < r->in[0].rank; i++)
        *(i < axis ? &outer : &inner) *= r->in[0].dim[i];
    if (outer * inner == 0 || (r->n_in == 1 && kn_hand_on(r, 0)))
        return RT_OK;
    /* fast path for scalars, which are usually the dimensions of a shape */
    if (inner == 1 && outer == 1 && rt_dtype_size(dt) == 4) {
        uint32_t *o = r->out[0].data;
        for (int k = 0; k < r->n_in; k++)
            o[k] = *(const uint32_t *)r->in[k].data;
        return RT_OK;
    }
    for (int k = 0; k < r->n_in; k++) {
        const struct kn_walk w = {
            .rank = 2, .dim = {outer, inner}, .dst = {r->n_in * inner, 1}, .src = {inner, 1}};
        st = kn_walk_copy(dt, &w, kn_at_mut(&r->out[0], k * inner), r->in[k].data, r);
        if (st)
            return st;
    }
    return RT_OK;
}

/* Marks the op as row-wise if all inputs that depend on the batch have their rows along one axis.
 * If the new axis is inserted before the axis of the rows, the number of that axis grows by one. */
static void pack_rows(struct rt_rows *r)
{
    int axis = -1;

    if (kn_rows_independent(r))
        return;
    const struct rt_shape *o = &r->out[0].shape;
    if (o->rank < 1)
        return;
    for (int k = 0; k < r->n_in; k++) {
        if (r->in_dep[k].kind == RT_DEP_NONE)
            continue;
        if (r->in_dep[k].kind != RT_DEP_ROWS)
            return; /* the op is not row-wise */
        if (axis >= 0 && axis != r->in_dep[k].axis)
            return;
        axis = r->in_dep[k].axis;
    }
    int64_t at = rt_attr_int(r->node, "axis");
    if (at < 0)
        at += o->rank;
    kn_rows_set(r, RT_DEP_ROWS, axis >= at ? axis + 1 : axis);
}

const struct kn_entry kn_pack = {
    .op = {.name = "Pack", .infer = pack_infer, .rows = pack_rows},
    .kernels = KN_CPU("Pack", "pack", 0, NULL, pack_run),
};

/* ---- Unpack ---- */

static enum rt_status unpack_infer(struct rt_infer *x)
{
    int64_t axis = 0;

    if (!kn_known(x, 0))
        return RT_OK;
    const struct rt_shape *in = &x->in[0].shape;
    enum rt_status st = axis_of(x->node, in->rank, &axis, x->err);
    if (st)
        return st;
    if (in->dim[axis] != x->n_out)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Input shape axis %lld must equal %d, got shape %s", (long long)axis,
                       x->n_out, KN_TEXT(in));
    for (int k = 0; k < x->n_out; k++) {
        struct rt_shape *o = &x->out[k].shape;
        o->rank = in->rank - 1;
        for (int i = 0; i < o->rank; i++)
            o->dim[i] = in->dim[i < axis ? i : i + 1];
    }
    return RT_OK;
}

static enum rt_status unpack_run(struct rt_run *r)
{
    int64_t axis = 0;
    enum rt_status st = kn_outputs(r, unpack_infer);

    if (st || (st = axis_of(r->node, r->in[0].rank, &axis, r->err)))
        return st;
    const enum rt_dtype dt = kn_dtype(&r->in[0]);
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < r->in[0].rank; i++) {
        if (i != axis)
            *(i < axis ? &outer : &inner) *= r->in[0].dim[i];
    }
    if (outer * inner == 0)
        return RT_OK;
    /* whether TensorFlow shares the input's buffer instead of copying it */
    const bool shares = r->in[0].alias_of && axis == 0 && kn_is_aligned(dt, inner);
    for (int k = 0; k < r->n_out; k++) {
        const struct kn_walk w = {
            .rank = 2, .dim = {outer, inner}, .dst = {inner, 1}, .src = {r->n_out * inner, 1}};
        const struct rt_tensor o = r->out[k];
        st = shares ? kn_out_slice(r, k, 0, k * inner, o.rank, o.dim)
                    : kn_walk_copy(dt, &w, r->out[k].data, kn_at(&r->in[0], k * inner), r);
        if (st)
            return st;
    }
    return RT_OK;
}

static void unpack_rows(struct rt_rows *r)
{
    if (kn_rows_independent(r))
        return;
    int64_t at = rt_attr_int(r->node, "axis");
    const int axis = r->in_dep[0].axis;
    if (at < 0)
        at += r->in[0].shape.rank;
    if (at != axis)
        kn_rows_set(r, RT_DEP_ROWS, axis > at ? axis - 1 : axis);
}

const struct kn_entry kn_unpack = {
    .op = {.name = "Unpack", .infer = unpack_infer, .rows = unpack_rows},
    .kernels = KN_CPU("Unpack", "unpack", 0, NULL, unpack_run),
};
