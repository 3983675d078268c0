#include "kernels/array/slice.h"

#include "kernels/entry.h"

/* ---- StridedSlice ---- */

enum { MAX_SPEC = 31 };

/* A strided slice specification, expanded to all dimensions of the input. */
struct dense {
    int64_t begin[RT_MAX_RANK], end[RT_MAX_RANK], stride[RT_MAX_RANK];
    unsigned no_begin, no_end, shrink;
    /* for each axis of the result, the dimension of the input, or NEW for a new axis */
    int8_t gather[MAX_SPEC + RT_MAX_RANK + 1];
    int n_gather;
};
enum { NEW = -1 };

static enum rt_status expand_spec(const struct rt_node *node, int n, const int64_t *b,
                                  const int64_t *e, const int64_t *s, int rank, struct dense *d,
                                  struct rt_error *err)
{
    const uint64_t begin_mask = (uint64_t)rt_attr_int(node, "begin_mask");
    const uint64_t end_mask = (uint64_t)rt_attr_int(node, "end_mask");
    const uint64_t ellipses = (uint32_t)rt_attr_int(node, "ellipsis_mask");
    uint64_t ellipsis = ellipses & ((UINT64_C(1) << n) - 1);
    const uint64_t new_axis = (uint64_t)rt_attr_int(node, "new_axis_mask");
    const uint64_t shrink = (uint64_t)rt_attr_int(node, "shrink_axis_mask");
    int new_after = 0, at = 0;

    /* Like TensorFlow, also counts ellipsis bits beyond the n entries of the specification. */
    if (ellipses & (ellipses - 1))
        return rt_fail(err, RT_INVALID_ARGUMENT, "Multiple ellipses in slice spec not allowed");
    const int n_spec = ellipsis ? n : n + 1; /* a missing ellipsis is implied at the end */
    if (!ellipsis)
        ellipsis = UINT64_C(1) << n;
    for (int i = 0; i < n; i++)
        if (ellipsis < (UINT64_C(1) << i) && (new_axis >> i & 1))
            new_after++;

    for (int i = 0; i < n_spec; i++) {
        if (ellipsis >> i & 1) {
            int next = rank - (n_spec - i) + 1 + new_after;
            next = next < rank ? next : rank;
            for (; at < next; at++) {
                d->begin[at] = d->end[at] = 0;
                d->stride[at] = 1;
                d->no_begin |= 1u << at;
                d->no_end |= 1u << at;
                d->gather[d->n_gather++] = (int8_t)at;
            }
        } else if (new_axis >> i & 1) {
            d->gather[d->n_gather++] = NEW;
        } else {
            if (at == rank)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "Index out of range using input dim %d; input has only %d dims", at,
                               rank);
            d->begin[at] = b[i];
            d->end[at] = e[i];
            d->stride[at] = s[i];
            d->no_begin |= (unsigned)(begin_mask >> i & 1) << at;
            d->no_end |= (unsigned)(end_mask >> i & 1) << at;
            if (shrink >> i & 1)
                d->shrink |= 1u << at;
            else
                d->gather[d->n_gather++] = (int8_t)at;
            at++;
        }
    }
    return RT_OK;
}

static int64_t clamp(int64_t x, int64_t dim, int64_t lo, int64_t hi)
{
    if (x < 0)
        x += dim;
    return x < lo ? lo : x > hi ? hi : x;
}

enum rt_status kn_slice_of(const struct rt_node *node, int rank, const int64_t *dim,
                           const struct rt_tensor *begin, const struct rt_tensor *end,
                           const struct rt_tensor *strides, struct kn_slice *out,
                           struct rt_error *err)
{
    int64_t b[MAX_SPEC], e[MAX_SPEC], s[MAX_SPEC];
    struct dense d = {.n_gather = 0};

    if (begin->rank != 1 || end->rank != 1 || strides->rank != 1 || begin->dim[0] != end->dim[0] ||
        begin->dim[0] != strides->dim[0])
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expected begin, end, and strides to be 1D equal size tensors, but got "
                       "shapes %s, %s, and %s instead.",
                       KN_TEXT(begin), KN_TEXT(end), KN_TEXT(strides));
    const int n = kn_ints(begin, b, MAX_SPEC);
    if (n < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: a slice of %lld dimensions is not supported",
                       node->schema->name, (long long)begin->dim[0]);
    kn_ints(end, e, MAX_SPEC);
    kn_ints(strides, s, MAX_SPEC);
    enum rt_status st = expand_spec(node, n, b, e, s, rank, &d, err);
    if (st)
        return st;

    out->rank = rank;
    for (int i = 0; i < rank; i++) {
        const int64_t size = dim[i], step = d.stride[i];
        int64_t from, to;
        if (step == 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "strides[%d] must be non-zero", i);
        if (d.shrink >> i & 1) {
            if (step < 0)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "only stride 1 allowed on non-range indexing.");
            from = d.begin[i] < 0 ? size + d.begin[i] : d.begin[i];
            if (from < 0 || from >= size)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "slice index %lld of dimension %d out of bounds.", (long long)from,
                               i);
            to = from + 1;
        } else {
            const int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? size : size - 1;
            from = d.no_begin >> i & 1 ? (step > 0 ? lo : hi) : clamp(d.begin[i], size, lo, hi);
            to = d.no_end >> i & 1 ? (step > 0 ? hi : lo) : clamp(d.end[i], size, lo, hi);
        }
        const int64_t len = to - from;
        out->begin[i] = from;
        out->stride[i] = step;
        out->count[i] = len == 0 || (len < 0) != (step < 0) ? 0 : len / step + (len % step != 0);
        out->out_axis[i] = -1;
    }
    if (d.n_gather > RT_MAX_RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       node->schema->name, RT_MAX_RANK);
    out->shape.rank = d.n_gather;
    for (int i = 0; i < d.n_gather; i++) {
        out->shape.dim[i] = d.gather[i] == NEW ? 1 : out->count[d.gather[i]];
        if (d.gather[i] != NEW)
            out->out_axis[d.gather[i]] = (int8_t)i;
    }
    return RT_OK;
}

bool kn_slice_source(const struct kn_slice *s, const struct rt_tensor *t, int64_t *src)
{
    const int more = s->shape.rank - t->rank;
    int64_t stride[RT_MAX_RANK];

    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] != 1 && (i + more < 0 || t->dim[i] != s->shape.dim[i + more]))
            return false;
    kn_strides(t->rank, t->dim, stride);
    for (int i = 0; i < s->rank; i++) {
        const int at = s->out_axis[i] - more;
        src[i] = s->out_axis[i] < 0 || at < 0 || t->dim[at] == 1 ? 0 : stride[at];
    }
    return true;
}

void kn_slice_walk(const struct kn_slice *s, const int64_t *dim, struct kn_walk *w, int64_t *first)
{
    int64_t stride[RT_MAX_RANK];

    w->rank = s->rank;
    kn_strides(s->rank, dim, stride);
    kn_strides(s->rank, s->count, w->dst);
    *first = 0;
    for (int i = 0; i < s->rank; i++) {
        w->dim[i] = s->count[i];
        w->src[i] = s->count[i] > 1 ? stride[i] * s->stride[i] : 0;
        *first += stride[i] * s->begin[i];
    }
}

/* Copies the slice of input 0 to the output, unless the slice is contiguous and the output can be a
 * view of it. */
static enum rt_status take(struct rt_run *r, const struct kn_slice *s)
{
    const struct rt_tensor *t = &r->in[0];
    const int64_t n = rt_count(s->rank, s->count);
    struct kn_walk w;
    int64_t first = 0;

    if (n > 0) {
        kn_slice_walk(s, t->dim, &w, &first);
        bool whole = t->buf && (t->alias_of || (size_t)n * rt_dtype_size(kn_dtype(t)) >= 4096);
        bool one = true; /* true as long as all dimensions seen so far have length 1 */
        for (int i = 0; whole && i < s->rank; i++) {
            if (!one && s->count[i] != t->dim[i])
                whole = false;
            if (s->count[i] > 1 && s->stride[i] != 1)
                whole = false;
            one = one && s->count[i] == 1;
        }
        if (whole)
            return kn_out_slice(r, 0, 0, first, s->shape.rank, s->shape.dim);
    }
    if (!kn_out(r, 0, s->shape.rank, s->shape.dim))
        return r->err->code;
    if (n == 0)
        return RT_OK;
    return kn_walk_copy(kn_dtype(t), &w, r->out[0].data, kn_at(t, first), r);
}

enum { FAR = INT32_MAX };

/* Marks the op as row-wise if the slice contains the complete batch axis in order for every batch
 * size. `s` must be resolved for a batch axis of length FAR, which is longer than any batch:
 * constant bounds may include all of a small batch, but only a part of a large one. */
static void slice_rows(struct rt_rows *r, const struct kn_slice *s)
{
    const int a = r->in_dep[0].axis;

    if (s->begin[a] == 0 && s->stride[a] == 1 && s->out_axis[a] >= 0 &&
        (s->count[a] == FAR || s->count[a] == r->in[0].shape.dim[a]))
        kn_rows_set(r, RT_DEP_ROWS, s->out_axis[a]);
}

static bool may_be_rows(struct rt_rows *r, int64_t *dim)
{
    if (kn_rows_independent(r) || r->in_dep[0].kind != RT_DEP_ROWS ||
        !kn_shape_known(&r->in[0].shape))
        return false;
    for (int k = 1; k < r->n_in; k++)
        if (r->in_dep[k].kind > RT_DEP_SIZE || !r->in[k].value)
            return false;
    memcpy(dim, r->in[0].shape.dim, sizeof r->in[0].shape.dim);
    dim[r->in_dep[0].axis] = FAR;
    return true;
}

static enum rt_status strided_infer(struct rt_infer *x)
{
    struct kn_slice s;

    if (!kn_known(x, 14))
        return RT_OK;
    const struct rt_shape *in = &x->in[0].shape;
    enum rt_status st = kn_slice_of(x->node, in->rank, in->dim, x->in[1].value, x->in[2].value,
                                    x->in[3].value, &s, x->err);
    if (!st)
        x->out[0].shape = s.shape;
    return st;
}

static enum rt_status strided_run(struct rt_run *r)
{
    struct kn_slice s;
    enum rt_status st = kn_slice_of(r->node, r->in[0].rank, r->in[0].dim, &r->in[1], &r->in[2],
                                    &r->in[3], &s, r->err);

    return st ? st : take(r, &s);
}

static void strided_rows(struct rt_rows *r)
{
    struct kn_slice s;
    int64_t dim[RT_MAX_RANK];

    if (may_be_rows(r, dim) && !kn_slice_of(r->node, r->in[0].shape.rank, dim, r->in[1].value,
                                            r->in[2].value, r->in[3].value, &s, NULL))
        slice_rows(r, &s);
}

const struct kn_entry kn_strided_slice = {
    .op = {.name = "StridedSlice",
           .shape_in = 14,
           .infer = strided_infer,
           .rows = strided_rows,
           .is_gather = true},
    .kernels = KN_CPU("StridedSlice", "strided_slice", 0, NULL, strided_run),
};

/* ---- StridedSliceGrad(shape, begin, end, strides, dy): zeros with dy in the slice ---- */

static enum rt_status grad_slice(const struct rt_node *n, const struct rt_tensor *const *v,
                                 const struct rt_shape *dy, struct rt_shape *shape,
                                 struct kn_slice *s, struct rt_error *err)
{
    if (v[0]->rank != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "shape must be 1-D, got shape.shape = %s",
                       KN_TEXT(v[0]));
    shape->rank = kn_ints(v[0], shape->dim, RT_MAX_RANK);
    if (shape->rank < 0 || rt_count(shape->rank, shape->dim) < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "StridedSliceGrad: shape is not valid");
    enum rt_status st = kn_slice_of(n, shape->rank, shape->dim, v[1], v[2], v[3], s, err);
    if (st)
        return st;
    if (s->shape.rank != dy->rank ||
        memcmp(s->shape.dim, dy->dim, (size_t)dy->rank * sizeof dy->dim[0]) != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "shape of dy was %s instead of %s", KN_TEXT(dy),
                       KN_TEXT(&s->shape));
    return RT_OK;
}

static enum rt_status grad_infer(struct rt_infer *x)
{
    struct kn_slice s;
    struct rt_shape shape;

    if (!kn_known(x, 15))
        return RT_OK;
    const struct rt_tensor *v[] = {x->in[0].value, x->in[1].value, x->in[2].value, x->in[3].value};
    enum rt_status st = grad_slice(x->node, v, &x->in[4].shape, &shape, &s, x->err);
    if (!st)
        x->out[0].shape = shape;
    return st;
}

static enum rt_status grad_run(struct rt_run *r)
{
    const struct rt_tensor *v[] = {&r->in[0], &r->in[1], &r->in[2], &r->in[3]};
    const enum rt_dtype dt = kn_dtype(&r->in[4]);
    struct kn_slice s;
    struct rt_shape shape, dy = {.rank = r->in[4].rank};
    struct kn_walk get, put;
    int64_t first = 0;

    memcpy(dy.dim, r->in[4].dim, sizeof dy.dim);
    enum rt_status st = grad_slice(r->node, v, &dy, &shape, &s, r->err);
    if (st)
        return st;
    if (!kn_out(r, 0, shape.rank, shape.dim))
        return r->err->code;
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    if (rt_dtype_is_plain(dt) && kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0])))
        return r->err->code;
    if (rt_tensor_count(&r->in[4]) == 0)
        return RT_OK;
    kn_slice_walk(&s, shape.dim, &get, &first);
    put = get;
    memcpy(put.dst, get.src, sizeof put.dst);
    memcpy(put.src, get.dst, sizeof put.src);
    return kn_walk_copy(dt, &put, kn_at_mut(&r->out[0], first), r->in[4].data, r);
}

const struct kn_entry kn_strided_slice_grad = {
    .op = {.name = "StridedSliceGrad", .shape_in = 15, .infer = grad_infer},
    .kernels = KN_CPU("StridedSliceGrad", "strided_slice_grad", 0, NULL, grad_run),
};

/* ---- Slice(input, begin, size) ---- */

static enum rt_status plain_of(int rank, const int64_t *dim, const struct rt_tensor *begin,
                               const struct rt_tensor *size, struct kn_slice *s,
                               struct rt_error *err)
{
    if (begin->rank != 1 || size->rank != 1 || begin->dim[0] != rank || size->dim[0] != rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expected begin and size arguments to be 1-D tensors of size %d, but got "
                       "shapes %s and %s instead.",
                       rank, KN_TEXT(begin), KN_TEXT(size));
    s->rank = s->shape.rank = rank;
    for (int i = 0; i < rank; i++) {
        const int64_t b = kn_int_at(begin, i);
        int64_t n = kn_int_at(size, i);
        if (dim[i] == 0) {
            if (b != 0 || (n != 0 && n != -1))
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "Expected begin[%d] == 0 (got %lld) and size[%d] == 0 (got %lld) "
                               "when input.dim_size(%d) == 0",
                               i, (long long)b, i, (long long)n, i);
            n = 0;
        } else {
            if (b < 0 || b > dim[i])
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "Expected begin[%d] in [0, %lld], but got %lld", i,
                               (long long)dim[i], (long long)b);
            if (n == -1)
                n = dim[i] - b;
            if (n < 0 || n > dim[i] - b)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "Expected size[%d] in [0, %lld], but got %lld", i,
                               (long long)(dim[i] - b), (long long)n);
        }
        s->begin[i] = b;
        s->stride[i] = 1;
        s->count[i] = s->shape.dim[i] = n;
        s->out_axis[i] = (int8_t)i;
    }
    return RT_OK;
}

static enum rt_status slice_infer(struct rt_infer *x)
{
    struct kn_slice s;

    if (!kn_known(x, 6))
        return RT_OK;
    const struct rt_shape *in = &x->in[0].shape;
    enum rt_status st = plain_of(in->rank, in->dim, x->in[1].value, x->in[2].value, &s, x->err);
    if (!st)
        x->out[0].shape = s.shape;
    return st;
}

static enum rt_status slice_run(struct rt_run *r)
{
    struct kn_slice s;
    enum rt_status st = plain_of(r->in[0].rank, r->in[0].dim, &r->in[1], &r->in[2], &s, r->err);

    return st ? st : take(r, &s);
}

static void plain_rows(struct rt_rows *r)
{
    struct kn_slice s;
    int64_t dim[RT_MAX_RANK];

    if (may_be_rows(r, dim) &&
        !plain_of(r->in[0].shape.rank, dim, r->in[1].value, r->in[2].value, &s, NULL))
        slice_rows(r, &s);
}

const struct kn_entry kn_slice = {
    .op = {.name = "Slice",
           .shape_in = 6,
           .infer = slice_infer,
           .rows = plain_rows,
           .is_gather = true},
    .kernels = KN_CPU("Slice", "slice", 0, NULL, slice_run),
};
