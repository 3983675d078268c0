/* Elements in another order along dimensions: Reverse, ReverseV2, ReverseSequence, Roll. */
#include "kernels/cpu/array.h"
#include "kernels/entry.h"

/* ---- Reverse(tensor, dims: bool), ReverseV2(tensor, axis) ---- */

static enum rt_status axes_of(const struct rt_tensor *t, int rank, unsigned *axes,
                              struct rt_error *err)
{
    *axes = 0;
    if (t->rank != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "'dims' must be 1-dimension, not %d", t->rank);
    if (t->dtype == RT_BOOL && t->dim[0] != rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "'dims' must have the same number of values as 'input' has dimensions. "
                       "'input' has %d'dims' has %lld values",
                       rank, (long long)t->dim[0]);
    for (int64_t i = 0; i < t->dim[0]; i++) {
        int64_t a = kn_int_at(t, i);
        if (t->dtype == RT_BOOL) {
            *axes |= (unsigned)a << i;
            continue;
        }
        if (a < -rank || a >= rank)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "'axis'[%lld] = %lld is out of valid range [0, %d", (long long)i,
                           (long long)a, rank - 1);
        if (a < 0)
            a += rank;
        if (*axes >> a & 1)
            return rt_fail(err, RT_INVALID_ARGUMENT, "axis %lld specified more than once.",
                           (long long)a);
        *axes |= 1u << a;
    }
    return RT_OK;
}

static enum rt_status reverse_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    struct kn_walk w = {.rank = t->rank};
    unsigned axes;
    int64_t from = 0;
    enum rt_status st = axes_of(&r->in[1], t->rank, &axes, r->err);

    if (st)
        return st;
    if (axes == 0 || rt_tensor_count(t) == 0)
        return kn_view(r, 0, 0, t->rank, t->dim);
    if (!kn_out(r, 0, t->rank, t->dim))
        return r->err->code;
    kn_strides(t->rank, t->dim, w.dst);
    for (int i = 0; i < t->rank; i++) {
        w.dim[i] = t->dim[i];
        w.src[i] = w.dst[i];
        if (axes >> i & 1) {
            from += w.src[i] * (t->dim[i] - 1);
            w.src[i] = -w.src[i];
        }
    }
    return kn_walk_copy(kn_dtype(t), &w, r->out[0].data, kn_at(t, from), r->err);
}

static void reverse_rows(struct rt_rows *r)
{
    unsigned axes;

    if (kn_rows_settled(r) || r->in_dep[0].kind != RT_DEP_ROWS || !r->in[1].value ||
        r->in[0].shape.rank < 0 || !kn_rows_free(r, 1) ||
        axes_of(r->in[1].value, r->in[0].shape.rank, &axes, NULL))
        return;
    if (!(axes >> r->in_dep[0].axis & 1))
        kn_rows_set(r, RT_DEP_ROWS, r->in_dep[0].axis);
}

const struct kn_entry kn_reverse_v2 = {
    .op = {.name = "ReverseV2", .shape_in = 2, .infer = kn_infer_copy, .rows = reverse_rows},
    .kernels = KN_CPU("ReverseV2", "reverse_v2", 0, NULL, reverse_run),
};
const struct kn_entry kn_reverse = {
    .op = {.name = "Reverse", .shape_in = 2, .infer = kn_infer_copy, .rows = reverse_rows},
    .kernels = KN_CPU("Reverse", "reverse", 0, NULL, reverse_run),
};
