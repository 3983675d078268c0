/* Ops that reorder elements along dimensions: Reverse, ReverseV2, ReverseSequence, Roll. */
#include "kernels/array/array.h"
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
    enum rt_status st;

    /* TensorFlow does not check the axes if the tensor is a scalar or, for ReverseV2, if it is
     * empty. */
    if (t->rank == 0 || (r->in[1].dtype != RT_BOOL && rt_tensor_count(t) == 0))
        return kn_view(r, 0, 0, t->rank, t->dim);
    st = axes_of(&r->in[1], t->rank, &axes, r->err);
    if (st)
        return st;
    if (r->in[1].dtype == RT_BOOL && t->dim[0] == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid input first dimension. Found 0.");
    /* As in TensorFlow, an alias of a variable is copied even if no axis is reversed. Scalars and
     * empty tensors are not copied. */
    if ((axes == 0 && !t->alias_of) || rt_tensor_count(t) == 0)
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
    return kn_walk_copy(kn_dtype(t), &w, r->out[0].data, kn_at(t, from), r);
}

static void reverse_rows(struct rt_rows *r)
{
    unsigned axes;

    if (kn_rows_independent(r) || r->in_dep[0].kind != RT_DEP_ROWS || !r->in[1].value ||
        r->in[0].shape.rank < 0 || !kn_rows_free(r, 1) ||
        axes_of(r->in[1].value, r->in[0].shape.rank, &axes, NULL))
        return;
    if (!(axes >> r->in_dep[0].axis & 1))
        kn_rows_set(r, RT_DEP_ROWS, r->in_dep[0].axis);
}

/* Unlike ReverseV2, TensorFlow's kernel of Reverse refuses a tensor whose first dimension is 0. */
static enum rt_status reverse_infer(struct rt_infer *x)
{
    if (x->in[0].shape.rank > 0 && x->in[0].shape.dim[0] == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Invalid input first dimension. Found 0.");
    return kn_infer_copy(x);
}

const struct kn_entry kn_reverse_v2 = {
    .op = {.name = "ReverseV2", .shape_in = 2, .infer = kn_infer_copy, .rows = reverse_rows},
    .kernels = KN_CPU("ReverseV2", "reverse_v2", 0, NULL, reverse_run),
};
const struct kn_entry kn_reverse = {
    .op = {.name = "Reverse", .shape_in = 2, .infer = reverse_infer, .rows = reverse_rows},
    .kernels = KN_CPU("Reverse", "reverse", 0, NULL, reverse_run),
};

/* ---- ReverseSequence(input, seq_lengths): the first seq_lengths[b] steps of each row ---- */

static enum rt_status sequence_check(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0], *len = &r->in[1];
    const int64_t b = rt_attr_int(r->node, "batch_dim"), s = rt_attr_int(r->node, "seq_dim");

    if (len->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "seq_lengths must be 1-dim, not %d", len->rank);
    if (b == s)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "batch_dim == seq_dim == %lld", (long long)s);
    if (s < 0 || s >= t->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "seq_dim must be < input rank ( %lld vs. %d)",
                       (long long)s, t->rank);
    if (b < 0 || b >= t->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "batch_dim must be < input rank ( %lld vs. %d)",
                       (long long)b, t->rank);
    if (len->dim[0] != t->dim[b])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Length of seq_lengths != input.dims(%lld), (%lld vs. %lld)", (long long)b,
                       (long long)len->dim[0], (long long)t->dim[b]);
    for (int64_t i = 0; i < len->dim[0]; i++) {
        const int64_t n = kn_int_at(len, i);
        if (n < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "seq_lens(%lld) < 0", (long long)i);
        if (n > t->dim[s])
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "seq_lens(%lld) > input.dims(%lld)",
                           (long long)i, (long long)s);
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status sequence_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const int b = (int)rt_attr_int(r->node, "batch_dim");
    const int s = (int)rt_attr_int(r->node, "seq_dim");
    int64_t stride[RT_MAX_RANK];
    enum rt_status st = sequence_check(r);
    int64_t left = RT_WORK;

    if (st)
        return st;
    if (!kn_out(r, 0, t->rank, t->dim))
        return r->err->code;
    if (rt_tensor_count(t) == 0)
        return RT_OK;
    kn_strides(t->rank, t->dim, stride);
    /* 64 is the cost of starting the two copies of a sequence, in units of rt_run_spend. */
    const int64_t work = 4 * rt_tensor_count(t) / t->dim[b] + 64;
    struct kn_walk w = {.rank = t->rank};
    for (int64_t i = 0; i < t->dim[b] && !st; i++) {
        const int64_t n = kn_int_at(&r->in[1], i), base = i * stride[b];
        /* The first pass copies the steps of the sequence that are reversed, and the second pass
         * copies the other steps. */
        for (int part = 0; part < 2 && !st; part++) {
            for (int k = 0; k < t->rank; k++) {
                w.dim[k] = k == b ? 1 : t->dim[k];
                w.dst[k] = w.src[k] = stride[k];
            }
            w.dim[s] = part == 0 ? n : t->dim[s] - n;
            int64_t from = base + n * stride[s], to = from;
            if (part == 0) {
                w.src[s] = -stride[s];
                from = base + (n - 1) * stride[s];
                to = base;
            }
            if (w.dim[s] > 0)
                st = kn_walk_copy(kn_dtype(t), &w, kn_at_mut(&r->out[0], to), kn_at(t, from), r);
        }
        st = st ? st : rt_run_spend(r, &left, work);
    }
    return st;
}

static void sequence_rows(struct rt_rows *r)
{
    if (kn_rows_independent(r))
        return;
    const int b = (int)rt_attr_int(r->node, "batch_dim");
    if (r->in_dep[0].kind == RT_DEP_ROWS && r->in_dep[0].axis == b &&
        (r->in_dep[1].kind == RT_DEP_NONE || r->in_dep[1].kind == RT_DEP_ROWS))
        kn_rows_set(r, RT_DEP_ROWS, b);
}

const struct kn_entry kn_reverse_sequence = {
    .op = {.name = "ReverseSequence", .infer = kn_infer_copy, .rows = sequence_rows},
    .kernels = KN_CPU("ReverseSequence", "reverse_sequence", 0, NULL, sequence_run),
};

/* ---- Roll(input, shift, axis) ---- */

/* Computes the shift of each rolled axis modulo the length of the axis. Several shifts of one axis
 * are added up. */
static enum rt_status shifts_of(struct rt_run *r, int64_t *shift)
{
    const struct rt_tensor *t = &r->in[0], *s = &r->in[1], *a = &r->in[2];

    if (t->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "input must be 1-D or higher");
    if (s->rank > 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "shift must be a scalar or a 1-D vector. Found: %s", KN_TEXT(s));
    if (a->rank > 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "axis must be a scalar or a 1-D vector. Found: %s", KN_TEXT(a));
    if (s->rank != a->rank || rt_tensor_count(s) != rt_tensor_count(a))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "shift and axis must have the same size");
    memset(shift, 0, RT_MAX_RANK * sizeof *shift);
    for (int64_t i = 0; i < rt_tensor_count(s); i++) {
        int64_t axis = kn_int_at(a, i);
        if (axis < 0)
            axis += t->rank;
        if (axis < 0 || axis >= t->rank)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "axis %lld is out of range",
                           (long long)axis);
        if (rt_run_tick(r, i))
            return r->err->code;
        if (rt_tensor_count(t) == 0) /* in an empty tensor, the sums of shifts could overflow */
            continue;
        const int64_t n = t->dim[axis];
        shift[axis] = ((shift[axis] + kn_int_at(s, i) % n) % n + n) % n;
    }
    return RT_OK;
}

static enum rt_status roll_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    int64_t shift[RT_MAX_RANK], stride[RT_MAX_RANK];
    int64_t left = RT_WORK;
    int moved[RT_MAX_RANK], n_moved = 0;
    enum rt_status st = shifts_of(r, shift);

    if (st)
        return st;
    if (!kn_out(r, 0, t->rank, t->dim))
        return r->err->code;
    if (rt_tensor_count(t) == 0)
        return RT_OK;
    kn_strides(t->rank, t->dim, stride);
    for (int i = 0; i < t->rank; i++)
        if (shift[i])
            moved[n_moved++] = i;
    for (unsigned piece = 0; piece < 1u << n_moved && !st; piece++) {
        struct kn_walk w = {.rank = t->rank};
        int64_t from = 0, to = 0, n = 1;
        for (int i = 0; i < t->rank; i++) {
            w.dim[i] = t->dim[i];
            w.dst[i] = w.src[i] = stride[i];
        }
        /* The shift divides each rolled axis into two parts, which are swapped. */
        for (int k = 0; k < n_moved; k++) {
            const int i = moved[k];
            const int64_t head = t->dim[i] - shift[i];
            if (piece >> k & 1) {
                w.dim[i] = shift[i];
                from += head * stride[i];
            } else {
                w.dim[i] = head;
                to += shift[i] * stride[i];
            }
        }
        for (int i = 0; i < t->rank; i++)
            n *= w.dim[i];
        st = kn_walk_copy(kn_dtype(t), &w, kn_at_mut(&r->out[0], to), kn_at(t, from), r);
        st = st ? st : rt_run_spend(r, &left, n);
    }
    return st;
}

static void roll_rows(struct rt_rows *r)
{
    const struct rt_tensor *a = r->in[2].value;

    if (kn_rows_independent(r) || r->in_dep[0].kind != RT_DEP_ROWS || !a || !kn_rows_free(r, 1))
        return;
    for (int64_t i = 0; i < rt_tensor_count(a); i++) {
        const int64_t axis = kn_int_at(a, i);
        if ((axis < 0 ? axis + r->in[0].shape.rank : axis) == r->in_dep[0].axis)
            return;
    }
    kn_rows_set(r, RT_DEP_ROWS, r->in_dep[0].axis);
}

const struct kn_entry kn_roll = {
    .op = {.name = "Roll", .shape_in = 4, .infer = kn_infer_copy, .rows = roll_rows},
    .kernels = KN_CPU("Roll", "roll", 0, NULL, roll_run),
};
