/* StringJoin joins the strings of several tensors, ReduceJoin the strings of one tensor along axes,
 * and UnsortedSegmentJoin those with equal segment ids. */
#include "kernels/string/each.h"
#include "kernels/math/elementwise.h"
#include "runtime/base/checked.h"

#include <string.h>

/* ---- StringJoin ---- */

static enum rt_status join_infer(struct rt_infer *x)
{
    const struct rt_shape *s = NULL;

    if (!kn_known(x, 0))
        return RT_OK;
    x->out[0].shape.rank = 0;
    for (int k = 0; k < x->n_in; k++) {
        const struct rt_shape *k_shape = &x->in[k].shape;
        if (k_shape->rank == 0)
            continue;
        if (s && !kn_shape_eq(s, k_shape))
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input shapes do not match: %s vs. %s",
                           KN_TEXT(s), KN_TEXT(k_shape));
        s = k_shape;
        x->out[0].shape = *s;
    }
    return RT_OK;
}

static enum rt_status join_run(struct rt_run *r)
{
    const struct rt_span sep = rt_attr_str(r->node, "separator");
    enum rt_status st = kn_outputs(r, join_infer);
    int64_t left = RT_WORK;

    if (st)
        return st;
    for (int64_t i = 0; i < rt_tensor_count(&r->out[0]); i++) {
        size_t n = r->n_in ? sep.n * (size_t)(r->n_in - 1) : 0;
        for (int k = 0; k < r->n_in; k++)
            n += rt_strs(&r->in[k])[r->in[k].rank ? i : 0].n;
        if (kn_spend_string(r, &left, 2 * (size_t)r->n_in))
            return r->err->code;
        char *p = rt_str_resize((struct rt_str *)r->out[0].data + i, rt_run_pool(r), n, r->err);
        if (!p)
            return r->err->code;
        for (int k = 0; k < r->n_in; k++) {
            const struct rt_str *s = &rt_strs(&r->in[k])[r->in[k].rank ? i : 0];
            if (k && sep.n) {
                memcpy(p, sep.p, sep.n);
                p += sep.n;
            }
            if (kn_copy_text(r, &left, p, rt_str_data(s), s->n))
                return r->err->code;
            p += s->n;
        }
    }
    return RT_OK;
}

const struct kn_entry kn_string_join = {
    .op = {.name = "StringJoin", .infer = join_infer, .rows = rt_rows_each},
    .kernels = KN_CPU("StringJoin", "string_join", 0, NULL, join_run),
};

/* ---- ReduceJoin(inputs, reduction_indices) ---- */

static enum rt_status reduce_axes(const struct rt_tensor *t, int rank, int *axis, int *n_axis,
                                  struct rt_error *err)
{
    unsigned seen = 0;

    *n_axis = 0;
    for (int64_t i = 0; i < rt_tensor_count(t); i++) {
        const int64_t a = kn_int_at(t, i);
        if (a < -rank || a >= rank)
            return rt_fail(err, RT_OUT_OF_RANGE,
                           "Invalid reduction dimension %lld for input with %d dimension(s)",
                           (long long)a, rank);
        const int at = (int)(a < 0 ? a + rank : a);
        if (seen >> at & 1)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Duplicate reduction dimension %lld",
                           (long long)a);
        seen |= 1u << at;
        axis[(*n_axis)++] = at;
    }
    return RT_OK;
}

static enum rt_status reduce_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    int axis[RT_MAX_RANK], n_axis;
    unsigned reduced = 0;

    if (!kn_known(x, 2))
        return RT_OK;
    enum rt_status st = reduce_axes(x->in[1].value, in->rank, axis, &n_axis, x->err);
    if (st)
        return st;
    for (int i = 0; i < n_axis; i++)
        reduced |= 1u << axis[i];
    x->out[0].shape.rank = 0;
    for (int i = 0; i < in->rank; i++) {
        if (!(reduced >> i & 1))
            x->out[0].shape.dim[x->out[0].shape.rank++] = in->dim[i];
        else if (rt_attr_bool(x->node, "keep_dims"))
            x->out[0].shape.dim[x->out[0].shape.rank++] = 1;
    }
    return RT_OK;
}

/* The elements that ReduceJoin joins into one string, in order. The index along the first axis
 * changes fastest. */
struct joined {
    struct rt_span separator;
    int rank;
    int64_t n, dim[RT_MAX_RANK], stride[RT_MAX_RANK];
};

static const struct rt_str *next_joined(const struct rt_run *r, const struct joined *j,
                                        int64_t base, int64_t *in)
{
    int64_t from = base;

    for (int i = 0; i < j->rank; i++)
        from += in[i] * j->stride[i];
    for (int i = 0; i < j->rank && ++in[i] == j->dim[i]; i++)
        in[i] = 0;
    return &rt_strs(&r->in[0])[from];
}

/* Joins strings into one. Adds up their lengths first, so that the output string is allocated
 * once. */
static enum rt_status join_one(struct rt_run *r, int64_t base, const struct joined *j,
                               struct rt_str *out, int64_t *left)
{
    int64_t in[RT_MAX_RANK] = {0};
    size_t n = 0;

    for (int64_t i = 0; i < j->n; i++) {
        n += next_joined(r, j, base, in)->n + (i ? j->separator.n : 0);
        if (rt_run_spend(r, left, KN_STRING_WORK))
            return r->err->code;
    }
    char *p = rt_str_resize(out, rt_run_pool(r), n, r->err);
    if (!p)
        return r->err->code;
    for (int64_t i = 0; i < j->n; i++) {
        const struct rt_str *s = next_joined(r, j, base, in);
        if (i && j->separator.n) {
            memcpy(p, j->separator.p, j->separator.n);
            p += j->separator.n;
        }
        if (kn_copy_text(r, left, p, rt_str_data(s), s->n) || kn_spend_string(r, left, 0))
            return r->err->code;
        p += s->n;
    }
    return RT_OK;
}

static enum rt_status reduce_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    struct joined j = {.separator = rt_attr_str(r->node, "separator"), .n = 1};
    int axis[RT_MAX_RANK], n_axis, kept[RT_MAX_RANK], n_kept = 0;
    int64_t stride[RT_MAX_RANK], at[RT_MAX_RANK] = {0};
    unsigned reduced = 0;
    int64_t left = RT_WORK;
    enum rt_status st = reduce_axes(&r->in[1], t->rank, axis, &n_axis, r->err);

    if (st || (st = kn_outputs(r, reduce_infer)))
        return st;
    kn_strides(t->rank, t->dim, stride);
    for (int i = 0; i < n_axis; i++) {
        reduced |= 1u << axis[i];
        j.dim[i] = t->dim[axis[i]];
        j.stride[i] = stride[axis[i]];
        if (!rt_mul(j.n, j.dim[i], &j.n))
            /* The product of some dimensions of an existing tensor can overflow only if another
             * dimension is 0. The tensor then has no elements. */
            j.n = 0;
    }
    j.rank = n_axis;
    for (int i = 0; i < t->rank; i++)
        if (!(reduced >> i & 1))
            kept[n_kept++] = i;
    if (rt_tensor_count(t) == 0) /* without input elements, the output strings stay empty */
        return RT_OK;
    for (int64_t k = 0; k < rt_tensor_count(&r->out[0]) && !st; k++) {
        int64_t base = 0;
        for (int i = 0; i < n_kept; i++)
            base += at[i] * stride[kept[i]];
        st = join_one(r, base, &j, (struct rt_str *)r->out[0].data + k, &left);
        for (int i = n_kept - 1; i >= 0 && ++at[i] == t->dim[kept[i]]; i--)
            at[i] = 0;
    }
    return st;
}

static void reduce_rows(struct rt_rows *r)
{
    int axis[RT_MAX_RANK], n_axis, out = r->in_dep[0].axis;

    if (kn_rows_independent(r) || r->in_dep[0].kind != RT_DEP_ROWS || !kn_rows_free(r, 1) ||
        !r->in[1].value || r->in[0].shape.rank < 0 ||
        reduce_axes(r->in[1].value, r->in[0].shape.rank, axis, &n_axis, NULL))
        return;
    for (int i = 0; i < n_axis; i++) {
        if (axis[i] == r->in_dep[0].axis)
            return;
        out -= axis[i] < r->in_dep[0].axis && !rt_attr_bool(r->node, "keep_dims");
    }
    kn_rows_set(r, RT_DEP_ROWS, out);
}

const struct kn_entry kn_reduce_join = {
    .op = {.name = "ReduceJoin", .shape_in = 2, .infer = reduce_infer, .rows = reduce_rows},
    .kernels = KN_CPU("ReduceJoin", "reduce_join", 0, NULL, reduce_run),
};

/* ---- UnsortedSegmentJoin(inputs, segment_ids, num_segments) ---- */

static enum rt_status segment_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape, *ids = &x->in[1].shape;
    struct rt_shape *out = &x->out[0].shape;

    if (!kn_known(x, 1 << 2))
        return RT_OK;
    if (x->in[2].shape.rank != 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Number of segments must be a scalar");
    const int64_t n = kn_int_at(x->in[2].value, 0);
    if (n < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Number of segments must be non-negative but got %lld", (long long)n);
    if (ids->rank == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Segment_id cannot have rank 0");
    if (ids->rank > in->rank)
        return rt_fail(x->err, RT_OUT_OF_RANGE,
                       "Invalid segment_id rank %d for input with %d dimension(s)", ids->rank,
                       in->rank);
    for (int i = 0; i < ids->rank; i++)
        if (ids->dim[i] != in->dim[i]) /* TensorFlow calls the input's rank its dimension */
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Segment dimension is %lld while input dimension is %d in rank %d",
                           (long long)ids->dim[i], in->rank, i);
    out->rank = in->rank - ids->rank + 1;
    out->dim[0] = n;
    for (int i = 1; i < out->rank; i++)
        out->dim[i] = in->dim[ids->rank + i - 1];
    return RT_OK;
}

/* What has been joined into one output string. `at` is the address of its bytes, or NULL while the
 * lengths are added up. */
struct part {
    char *at;
    size_t n;
};

/* Adds a string to a part. As in TensorFlow, no separator follows a part that is still empty. */
static enum rt_status join_string(struct rt_run *r, struct part *p, struct rt_span sep,
                                  const struct rt_str *s, int64_t *left)
{
    const size_t n_sep = p->n ? sep.n : 0;

    if (p->at && n_sep)
        memcpy(p->at + p->n, sep.p, n_sep);
    if (p->at && kn_copy_text(r, left, p->at + p->n + n_sep, rt_str_data(s), s->n))
        return r->err->code;
    p->n += n_sep + s->n;
    return kn_spend_string(r, left, n_sep);
}

/* Adds each string to the part that its segment id selects. */
static enum rt_status join_segments(struct rt_run *r, struct part *part, int64_t *left)
{
    const struct rt_span sep = rt_attr_str(r->node, "separator");
    const int64_t n = rt_tensor_count(&r->in[1]), n_segments = r->out[0].dim[0];
    const int64_t width = n ? rt_tensor_count(&r->in[0]) / n : 0;

    for (int64_t i = 0; i < n; i++) {
        const int64_t id = kn_int_at(&r->in[1], i);
        if (id < 0 || id >= n_segments)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "segment_ids are not allowed to exceed num_segments or to have negative "
                           "values.");
        for (int64_t j = 0; j < width; j++)
            if (join_string(r, &part[id * width + j], sep, &rt_strs(&r->in[0])[i * width + j],
                            left))
                return r->err->code;
        if (rt_run_spend(r, left, 1))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status segment_run(struct rt_run *r)
{
    enum rt_status st = kn_outputs(r, segment_infer);
    int64_t left = RT_WORK;
    size_t bytes;

    if (st)
        return st;
    const int64_t n = rt_tensor_count(&r->out[0]);
    if (!rt_mul_size((size_t)n, sizeof(struct part), &bytes))
        return rt_fail_memory(r->err, r->node->name, SIZE_MAX);
    struct part *part = rt_scratch(r, bytes + 1);
    if (!part)
        return r->err->code;
    if ((st = kn_zero_chunks(r, part, bytes)) || (st = join_segments(r, part, &left)))
        return st;
    for (int64_t i = 0; i < n; i++) {
        struct rt_str *s = (struct rt_str *)r->out[0].data + i;
        part[i] = (struct part){.at = rt_str_resize(s, rt_run_pool(r), part[i].n, r->err)};
        if (!part[i].at || kn_spend_string(r, &left, 0))
            return r->err->code;
    }
    return join_segments(r, part, &left);
}

const struct kn_entry kn_unsorted_segment_join = {
    .op = {.name = "UnsortedSegmentJoin", .shape_in = 1 << 2, .infer = segment_infer},
    .kernels = KN_CPU("UnsortedSegmentJoin", "unsorted_segment_join", 0, NULL, segment_run),
};
