/* Ops that write or accumulate slices into a tensor by index: ScatterNd, TensorScatter*. */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"

enum mode { PUT, ADD, SUB, MIN, MAX };

/* Combines n updates with n elements of dst by the operation `mode`. */
static bool combine(enum rt_dtype dtype, enum mode mode, void *dst, const void *src, int64_t n)
{
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const KN_U(dt) a = (KN_U(dt))KN_GET(dt, ((T *)dst)[i]);                                \
            const KN_U(dt) b = (KN_U(dt))KN_GET(dt, ((const T *)src)[i]);                          \
            ((T *)dst)[i] = KN_PUT(dt, mode == ADD ? a + b : a - b);                               \
        }                                                                                          \
        return true;
    if (mode == ADD || mode == SUB) {
        switch (dtype) {
            KN_NUMBERS(X)
        default:
            return false;
        }
    }
#undef X
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const KN_C(dt) a = KN_GET(dt, ((T *)dst)[i]);                                          \
            const KN_C(dt) b = KN_GET(dt, ((const T *)src)[i]);                                    \
            if (mode == MIN ? b < a : a < b)                                                       \
                ((T *)dst)[i] = ((const T *)src)[i];                                               \
        }                                                                                          \
        return true;
    switch (dtype) {
        KN_REALS(X)
    default:
        return false;
    }
#undef X
}

static enum rt_status apply(struct rt_run *r, enum mode mode, struct rt_tensor *o, int64_t at,
                            const void *src, int64_t n)
{
    const enum rt_dtype dt = kn_dtype(o);
    void *dst = kn_at_mut(o, at);

    if (mode == PUT)
        return kn_copy_run(r, dt, dst, src, n);
    if (dt == RT_BOOL && mode == ADD) {
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)dst)[i] |= ((const uint8_t *)src)[i];
        return RT_OK;
    }
    if (dt == RT_STRING && mode == ADD) {
        for (int64_t i = 0; i < n; i++) {
            struct rt_str *a = (struct rt_str *)dst + i, joined = {.n = 0};
            const struct rt_str *b = (const struct rt_str *)src + i;
            char *p = rt_str_resize(&joined, rt_run_pool(r), a->n + b->n, r->err);
            if (!p)
                return r->err->code;
            enum rt_status st = kn_copy_text(r, &r->left, p, rt_str_data(a), a->n);
            st = st ? st : kn_copy_text(r, &r->left, p + a->n, rt_str_data(b), b->n);
            rt_str_clear(st ? &joined : a);
            if (st)
                return st;
            *a = joined;
        }
        return RT_OK;
    }
    return combine(dt, mode, dst, src, n)
               ? RT_OK
               : rt_fail(r->err, RT_UNIMPLEMENTED, "%s: no kernel for %s", r->node->schema->name,
                         rt_dtype_name(dt));
}

/* Scatters the updates into *o. The caller has checked the shapes. */
static enum rt_status scatter(struct rt_run *r, enum mode mode, const struct rt_tensor *index,
                              const struct rt_tensor *updates, struct rt_tensor *o)
{
    const int depth = (int)(index->rank ? index->dim[index->rank - 1] : 1);
    int64_t stride[RT_MAX_RANK], each = 1, n = 1, left = RT_WORK;
    bool skips_bad;
    enum rt_status st = kn_bad_indices(r->node, &skips_bad, r->err);

    kn_strides(o->rank, o->dim, stride);
    for (int i = depth; i < o->rank; i++)
        each *= o->dim[i];
    for (int i = 0; i < index->rank - 1; i++)
        n *= index->dim[i];
    for (int64_t i = 0; i < n && !st; i++) {
        int64_t at = 0;
        bool bad = false;
        for (int k = 0; k < depth; k++) {
            const int64_t v = kn_int_at(index, i * depth + k);
            bad = bad || v < 0 || v >= o->dim[k];
            at += bad ? 0 : v * stride[k];
        }
        if (bad && skips_bad)
            continue;
        if (bad)
            return kn_fail_outside(r->err, index, index->rank - 1, depth, i, o, NULL);
        if (each)
            st = apply(r, mode, o, at, kn_at(updates, i * each), each);
        if (!st)
            st = rt_run_spend(r, &left, each + 8 * depth);
    }
    return st;
}

/* ---- ScatterNd(indices, updates, shape) ---- */

static enum rt_status nd_infer(struct rt_infer *x)
{
    if (!kn_known(x, 4))
        return RT_OK;
    const struct rt_tensor *t = x->in[2].value;
    const struct rt_shape *index = &x->in[0].shape, *updates = &x->in[1].shape;
    struct rt_shape s;

    if (index->rank < 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Indices shape must have rank at least one. Found:%s", KN_TEXT(index));
    if (updates->rank < 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Updates shape must have rank at least one. Found:%s", KN_TEXT(updates));
    if (t->rank != 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape must be a vector");
    s.rank = kn_ints(t, s.dim, RT_MAX_RANK);
    if (s.rank < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "ScatterNd: more than %d dimensions are not supported", RT_MAX_RANK);
    for (int i = 0; i < s.rank; i++)
        if (s.dim[i] < 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                           (long long)s.dim[i]);
    const int64_t n = kn_shape_total(&s);
    if (n < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape %s has too many elements", KN_TEXT(&s));
    if (n == 0 && (kn_shape_total(index) > 0 || kn_shape_total(updates) > 0))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Indices and updates specified for empty output.  indices shape: %s",
                       KN_TEXT(index));
    if (kn_shape_total(index) == 0 && kn_shape_total(updates) > 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Indices and updates specified for empty output shape");
    const int outer = index->rank - 1;
    const int64_t depth = index->dim[outer];
    for (int i = 0; i < outer; i++)
        if (updates->rank < outer || updates->dim[i] != index->dim[i])
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Dimensions [0,%d) of indices[shape=%s] must match dimensions [0,%d) of "
                           "updates[shape=%s]",
                           outer, KN_TEXT(index), outer, KN_TEXT(updates));
    bool fits = depth <= s.rank && updates->rank - outer == s.rank - depth;
    for (int i = (int)depth; fits && i < s.rank; i++)
        fits = updates->dim[outer + i - depth] == s.dim[i];
    if (!fits)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Dimensions [%lld,%d) of input[shape=%s] must match dimensions [%d,%d) of "
                       "updates[shape=%s]",
                       (long long)depth, s.rank, KN_TEXT(&s), outer, updates->rank,
                       KN_TEXT(updates));
    x->out[0].shape = s;
    return RT_OK;
}

static enum rt_status nd_run(struct rt_run *r)
{
    enum rt_status st = kn_outputs(r, nd_infer);
    struct rt_tensor *o = &r->out[0];

    if (st)
        return st;
    if (rt_dtype_is_plain(kn_dtype(o)) && rt_tensor_count(o))
        st = kn_zero_chunks(r, o->data, rt_tensor_bytes(o));
    return st ? st : scatter(r, ADD, &r->in[0], &r->in[1], o);
}

const struct kn_entry kn_scatter_nd = {
    .op = {.name = "ScatterNd", .shape_in = 4, .infer = nd_infer},
    .kernels = KN_CPU("ScatterNd", "scatter_nd", 0, NULL, nd_run),
};

/* ---- TensorScatter*(tensor, indices, updates), ScatterNdNonAliasingAdd ---- */

/* Returns the shape of the indices. For ScatterNdNonAliasingAdd, a vector is a list of indices into
 * the first dimension. */
static struct rt_shape index_shape(const struct rt_node *n, const struct rt_shape *s)
{
    struct rt_shape out = *s;

    if (n->schema->name[0] == 'S' && s->rank == 1) {
        out.dim[1] = 1;
        out.rank = 2;
    }
    return out;
}

static enum rt_status tensor_infer(struct rt_infer *x)
{
    const struct rt_shape *t = &x->in[0].shape, *u = &x->in[2].shape;
    const struct rt_shape indices = index_shape(x->node, &x->in[1].shape), *index = &indices;

    x->out[0].shape = *t;
    if (!kn_known(x, 0))
        return RT_OK;
    if (index->rank < 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Indices shape must have rank at least one. Found:%s", KN_TEXT(index));
    if (u->rank < 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Updates shape must have rank at least one. Found:%s", KN_TEXT(u));
    const bool has_indices = kn_shape_total(index) > 0, has_updates = kn_shape_total(u) > 0;
    if ((has_updates && !has_indices) || (kn_shape_total(t) == 0 && (has_indices || has_updates)))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Indices and updates specified for empty output shape");
    const int outer = index->rank - 1;
    const int64_t depth = index->dim[outer];
    bool fits = u->rank >= outer;
    for (int i = 0; i < outer && fits; i++)
        fits = u->dim[i] == index->dim[i];
    if (!fits)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Outer dimensions of indices and update must match. Indices shape: %s, "
                       "updates shape:%s",
                       KN_TEXT(index), KN_TEXT(u));
    fits = depth <= t->rank && u->rank - outer == t->rank - depth;
    for (int i = (int)depth; fits && i < t->rank; i++)
        fits = u->dim[outer + i - depth] == t->dim[i];
    if (!fits)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Inner dimensions of output shape must match inner dimensions of updates "
                       "shape. Output: %s updates: %s",
                       KN_TEXT(t), KN_TEXT(u));
    x->alias[0] = 0;
    return RT_OK;
}

static enum rt_status tensor_run(struct rt_run *r)
{
    static const struct {
        const char *name;
        enum mode mode;
    } modes[] = {{"Update", PUT}, {"Add", ADD}, {"Sub", SUB}, {"Min", MIN}, {"Max", MAX}};
    const bool is_nd = r->node->schema->name[0] == 'S'; /* ScatterNdNonAliasingAdd */
    const char *name = r->node->schema->name + (is_nd ? 0 : strlen("TensorScatter"));
    enum mode mode = is_nd ? ADD : PUT;
    enum rt_status st = kn_outputs(r, tensor_infer);
    struct rt_tensor *o = &r->out[0];

    if (st)
        return st;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].name, name) == 0)
            mode = modes[i].mode;
    if (o->data != r->in[0].data)
        st = kn_copy_run(r, kn_dtype(o), o->data, r->in[0].data, rt_tensor_count(o));
    struct rt_tensor index = r->in[1];
    if (is_nd && index.rank == 1) {
        index.dim[1] = 1;
        index.rank = 2;
    }
    return st ? st : scatter(r, mode, &index, &r->in[2], o);
}

#define SCATTER(symbol, op_, types_)                                                               \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = tensor_infer},                                              \
        .kernels = KN_CPU(op_, #symbol, types_, NULL, tensor_run),                                 \
    };
SCATTER(tensor_scatter_update, "TensorScatterUpdate", 0)
SCATTER(tensor_scatter_add, "TensorScatterAdd",
        KN_SET(KN_NUMBERS) | RT_T(RT_BOOL) | RT_T(RT_STRING))
SCATTER(tensor_scatter_sub, "TensorScatterSub", KN_SET(KN_NUMBERS))
SCATTER(tensor_scatter_min, "TensorScatterMin", KN_SET(KN_REALS))
SCATTER(tensor_scatter_max, "TensorScatterMax", KN_SET(KN_REALS))
SCATTER(scatter_nd_non_aliasing_add, "ScatterNdNonAliasingAdd", KN_SET(KN_NUMBERS) | RT_T(RT_BOOL))
