/* Concat, ConcatV2, ConcatOffset. */
#include "kernels/array/array.h"
#include "kernels/cpu/parallel.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

#include <stdio.h>

/* Returns whether the axis is the first input, as in Concat, rather than the last, as in
 * ConcatV2. */
static bool axis_is_first(const struct rt_node *n)
{
    return n->schema->name[6] == '\0';
}

static enum rt_status scalar(struct rt_error *err)
{
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "ConcatOp : Can't concatenate scalars (use tf.stack instead)");
}

static enum rt_status check_axis(int64_t a, int rank, int *axis, struct rt_error *err)
{
    if (rank == 0 && a == 0)
        return scalar(err);
    if (a < -rank || a >= rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "ConcatOp : Expected concatenating dimensions in the range [%d, %d), but "
                       "got %lld",
                       -rank, rank, (long long)a);
    *axis = (int)(a < 0 ? a + rank : a);
    return RT_OK;
}

static enum rt_status concat_axis(const struct rt_node *node, const struct rt_tensor *t, int rank,
                                  int *axis, struct rt_error *err)
{
    if (rt_tensor_count(t) != 1 || t->rank > 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s tensor should be a scalar integer, but got shape %s",
                       axis_is_first(node) ? "concat_dim" : "axis", KN_TEXT(t));
    return check_axis(kn_int_at(t, 0), rank, axis, err);
}

enum rt_status kn_concat_shape(const struct rt_info *v, int n, int64_t at, struct rt_shape *out,
                               struct rt_error *err)
{
    const struct rt_shape *s0 = &v[0].shape;
    int axis = 0;

    out->rank = -1;
    for (int k = 0; k < n; k++)
        if (!kn_shape_known(&v[k].shape))
            return RT_OK;
    enum rt_status st = check_axis(at, s0->rank, &axis, err);
    if (st)
        return st;
    struct rt_shape s = *s0;
    for (int k = 1; k < n; k++) {
        const struct rt_shape *sk = &v[k].shape;
        if (sk->rank == 0)
            return scalar(err);
        if (sk->rank != s.rank)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "ConcatOp : Ranks of all input tensors should match: shape[0] = %s vs. "
                           "shape[%d] = %s",
                           KN_TEXT(s0), k, KN_TEXT(sk));
        for (int i = 0; i < s.rank; i++)
            if (i != axis && sk->dim[i] != s.dim[i])
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "ConcatOp : Dimension %d in both shapes must be equal: shape[0] = "
                               "%s vs. shape[%d] = %s",
                               i, KN_TEXT(s0), k, KN_TEXT(sk));
        if (!rt_add(s.dim[axis], sk->dim[axis], &s.dim[axis]))
            return rt_fail(err, RT_INVALID_ARGUMENT, "ConcatOp : too many elements");
    }
    *out = s;
    return RT_OK;
}

static enum rt_status concat_infer(struct rt_infer *x)
{
    const bool first = axis_is_first(x->node);
    const int n = x->n_in - 1, ai = first ? 0 : n;
    const struct rt_info *v = x->in + (first ? 1 : 0);
    int axis = 0;

    if (!kn_known(x, 0) || !x->in[ai].value)
        return RT_OK;
    const enum rt_status st = concat_axis(x->node, x->in[ai].value, v[0].shape.rank, &axis, x->err);
    return st ? st : kn_concat_shape(v, n, axis, &x->out[0].shape, x->err);
}

struct joined {
    const struct rt_tensor *v;
    int n, axis;
    /* An output row has `inner` elements. Each index along the concatenation axis has `unit`
     * elements. */
    int64_t inner, unit;
};

static enum rt_status concat_shard(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct joined *j = arg;
    const struct rt_tensor *o = &r->out[0];
    enum rt_status st = RT_OK;

    for (int64_t k = 0, at = from * j->inner; k < j->n && !st; k++) {
        const int64_t len = j->unit * j->v[k].dim[j->axis];
        const struct kn_walk w = {
            .rank = 2, .dim = {to - from, len}, .dst = {j->inner, 1}, .src = {len, 1}};
        if (len)
            st = kn_walk_copy(kn_dtype(o), &w, kn_at_mut(o, at), kn_at(&j->v[k], from * len), r);
        at += len;
    }
    return st;
}

static enum rt_status concat_run(struct rt_run *r)
{
    const bool first = axis_is_first(r->node);
    const int n = r->n_in - 1;
    const struct rt_tensor *v = r->in + (first ? 1 : 0);
    int axis = 0;
    enum rt_status st = kn_outputs(r, concat_infer);

    if (st || (st = concat_axis(r->node, &r->in[first ? 0 : n], v[0].rank, &axis, r->err)))
        return st;
    const struct rt_tensor *o = &r->out[0];
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < o->rank; i++)
        *(i < axis ? &outer : &inner) *= o->dim[i];
    if (outer * inner == 0)
        return RT_OK;
    struct joined j = {v, n, axis, inner, inner / o->dim[axis]};
    return rt_dtype_is_plain(kn_dtype(o))
               ? kn_parallel_rows(r, outer, 2 * inner, 1, concat_shard, &j)
               : concat_shard(r, &j, 0, outer);
}

/* Marks the op as row-wise if all inputs that depend on the batch have their rows along one axis,
 * and this axis is not the concatenation axis. Other inputs need no check: their axes have fixed
 * lengths, and shape inference refuses to concatenate these inputs with rows of the batch. */
static void concat_rows(struct rt_rows *r)
{
    const int ai = axis_is_first(r->node) ? 0 : r->n_in - 1;
    int row = -1;

    if (kn_rows_independent(r) || r->in_dep[ai].kind > RT_DEP_SIZE || !r->in[ai].value ||
        r->out[0].shape.rank < 1)
        return;
    for (int k = 0; k < r->n_in; k++) {
        if (r->in_dep[k].kind == RT_DEP_NONE || k == ai)
            continue;
        if (r->in_dep[k].kind != RT_DEP_ROWS)
            return; /* the op is not row-wise */
        if (row >= 0 && row != r->in_dep[k].axis)
            return;
        row = r->in_dep[k].axis;
    }
    int64_t axis = kn_int_at(r->in[ai].value, 0);
    if (axis < 0)
        axis += r->out[0].shape.rank;
    if (axis != row)
        kn_rows_set(r, RT_DEP_ROWS, row);
}

const struct kn_entry kn_concat_v2 = {
    .op = {.name = "ConcatV2", .infer = concat_infer, .rows = concat_rows, .shape_in_last = true},
    .kernels = KN_CPU("ConcatV2", "concat_v2", 0, NULL, concat_run),
};
const struct kn_entry kn_concat = {
    .op = {.name = "Concat", .shape_in = 1, .infer = concat_infer, .rows = concat_rows},
    .kernels = KN_CPU("Concat", "concat", 0, NULL, concat_run),
};

/* ---- ConcatOffset(concat_dim, shapes...) ---- */

static enum rt_status offset_infer(struct rt_infer *x)
{
    for (int k = 0; k < x->n_out; k++)
        x->out[k].shape = x->in[k + 1].shape;
    return RT_OK;
}

static const char *sizes_text(char *buf, size_t n, const struct rt_tensor *t)
{
    size_t at = (size_t)snprintf(buf, n, "[");
    for (int64_t i = 0; i < rt_tensor_count(t) && at + 24 < n; i++)
        at +=
            (size_t)snprintf(buf + at, n - at, "%s%lld", i ? " " : "", (long long)kn_int_at(t, i));
    snprintf(buf + at, n - at, "]");
    return buf;
}

static enum rt_status offset_run(struct rt_run *r)
{
    enum rt_status st = kn_outputs(r, offset_infer);

    if (st)
        return st;
    if (r->in[0].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Concat dim tensor should be a scalar integer, but got shape %s",
                       KN_TEXT(&r->in[0]));
    const struct rt_tensor *s0 = &r->in[1];
    for (int k = 1; k < r->n_in; k++)
        if (r->in[k].rank != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "input %d should be a vector, but got "
                           "shape %s",
                           k - 1, KN_TEXT(&r->in[k]));
    const int64_t rank = s0->dim[0], want = kn_int_at(&r->in[0], 0);
    const int64_t axis = want < 0 ? want + rank : want;
    if (axis < 0 || axis >= rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Concat dim is out of range: %lld vs. %lld",
                       (long long)want, (long long)rank);
    int64_t at = 0;
    for (int k = 0; k < r->n_out; k++) {
        const struct rt_tensor *s = &r->in[k + 1];
        if (s->dim[0] != rank)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "input %d should contain %lld elements, but got %lld", k,
                           (long long)rank, (long long)s->dim[0]);
        for (int64_t i = 0; i < rank; i++) {
            if (i != axis && kn_int_at(s, i) != kn_int_at(s0, i)) {
                char a[256], b[256];
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "All dimensions except %lld must match. Input %d has shape %s and "
                               "doesn't match input 0 with shape %s.",
                               (long long)axis, k, sizes_text(a, sizeof a, s),
                               sizes_text(b, sizeof b, s0));
            }
            kn_put_int(&r->out[k], i, i == axis ? at : 0);
            if (rt_run_spend(r, &r->left, 16))
                return r->err->code;
        }
        at = rt_add_wrapped(at, kn_int_at(s, axis));
    }
    return RT_OK;
}

const struct kn_entry kn_concat_offset = {
    .op = {.name = "ConcatOffset", .infer = offset_infer},
    .kernels = KN_CPU("ConcatOffset", "concat_offset", 0, NULL, offset_run),
};
