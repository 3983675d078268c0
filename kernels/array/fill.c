/* Ops that create tensors: Fill, Empty, ZerosLike, OnesLike, Range, LinSpace. */
#include <math.h>

#include "kernels/math/elementwise.h"
#include "kernels/list/list.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"

/* ---- Fill(dims, value), Empty(shape) ---- */

static enum rt_status dims_infer(struct rt_infer *x)
{
    struct rt_shape s;
    const struct rt_tensor *t = x->in[0].value;

    if (!t)
        return RT_OK;
    if (t->rank > 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "dims must represent a vector, got shape %s",
                       KN_TEXT(t));
    if (t->rank == 0 && strcmp(x->node->schema->name, "Empty") == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "shape must be a vector of int32, got shape []");
    s.rank = kn_ints(t, s.dim, RT_MAX_RANK);
    if (s.rank < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       x->node->schema->name, RT_MAX_RANK);
    for (int i = 0; i < s.rank; i++)
        if (s.dim[i] < 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                           (long long)s.dim[i]);
    if (kn_shape_total(&s) < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape %s has too many elements", KN_TEXT(&s));
    x->out[0].shape = s;
    return RT_OK;
}

static enum rt_status fill_infer(struct rt_infer *x)
{
    const struct rt_shape *v = &x->in[1].shape;

    if (kn_shape_known(v) && !(v->rank == 0 || (v->rank == 1 && v->dim[0] == 1)))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "value must represent a scalar, got shape %s",
                       KN_TEXT(v));
    return dims_infer(x);
}

static enum rt_status fill_run(struct rt_run *r)
{
    enum rt_status st = kn_outputs(r, fill_infer);

    if (st)
        return st;
    return kn_repeat(kn_dtype(&r->out[0]), r->out[0].data, r->in[1].data,
                     rt_tensor_count(&r->out[0]), r);
}

/* If exactly one axis has the length of the batch, marks the op as row-wise along this axis. All
 * rows are equal, so no row depends on another row. */
static void fill_rows(struct rt_rows *r)
{
    const struct rt_shape *o = &r->out[0].shape;
    int axis = -1;

    if (r->in_dep[0].kind != RT_DEP_SIZE || r->in_dep[r->n_in - 1].kind > RT_DEP_SIZE ||
        (r->n_in > 1 && r->in_dep[1].kind != RT_DEP_NONE)) {
        kn_rows_independent(r);
        return;
    }
    if (!kn_shape_known(o))
        return;
    for (int i = 0; i < o->rank; i++)
        if (o->dim[i] == r->n_rows) {
            if (axis >= 0)
                return;
            axis = i;
        }
    kn_rows_set(r, axis >= 0 ? RT_DEP_ROWS : RT_DEP_SIZE, axis >= 0 ? axis : 0);
}

const struct kn_entry kn_fill = {
    .op = {.name = "Fill", .shape_in = 1, .infer = fill_infer, .rows = fill_rows},
    .kernels = KN_CPU("Fill", "fill", 0, NULL, fill_run),
};

static enum rt_status zero(struct rt_run *r)
{
    const struct rt_tensor *t = &r->out[0];

    return rt_dtype_is_plain(kn_dtype(t)) ? kn_zero_chunks(r, t->data, rt_tensor_bytes(t)) : RT_OK;
}

/* Without `init`, TensorFlow leaves the memory uninitialised. Slipway writes zeros, so that no
 * other data is disclosed. */
static enum rt_status empty_run(struct rt_run *r)
{
    enum rt_status st = kn_outputs(r, dims_infer);

    return st ? st : zero(r);
}

const struct kn_entry kn_empty = {
    .op = {.name = "Empty", .shape_in = 1, .infer = dims_infer, .rows = fill_rows},
    .kernels = KN_CPU("Empty", "empty", 0, NULL, empty_run),
};

/* ---- ZerosLike, OnesLike ---- */

static enum rt_status zeros_like_run(struct rt_run *r)
{
    if (r->in[0].dtype == RT_VARIANT && r->in[0].rank > 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "ZerosLike non-scalar Tensor with dtype=DT_VARIANT is not supported.");
    if (r->in[0].dtype == RT_VARIANT)
        return kn_variant_zeros_like(r);
    if (!kn_out(r, 0, r->in[0].rank, r->in[0].dim))
        return r->err->code;
    return zero(r);
}

static enum rt_status ones_like_run(struct rt_run *r)
{
    unsigned char one[16];

    if (!kn_out(r, 0, r->in[0].rank, r->in[0].dim))
        return r->err->code;
    if (!kn_one(kn_dtype(&r->in[0]), one))
        return rt_fail(r->err, RT_UNIMPLEMENTED, "OnesLike: no kernel for %s",
                       rt_dtype_name(kn_dtype(&r->in[0])));
    return kn_repeat(kn_dtype(&r->in[0]), r->out[0].data, one, rt_tensor_count(&r->out[0]), r);
}

const struct kn_entry kn_zeros_like = {
    .op = {.name = "ZerosLike", .infer = kn_infer_copy, .rows = rt_rows_same},
    .kernels = KN_CPU("ZerosLike", "zeros_like", 0, NULL, zeros_like_run),
};
const struct kn_entry kn_ones_like = {
    .op = {.name = "OnesLike", .infer = kn_infer_copy, .rows = rt_rows_same},
    .kernels = KN_CPU("OnesLike", "ones_like", 0, NULL, ones_like_run),
};

/* ---- Range(start, limit, delta) ---- */

static enum rt_status range_size(const struct rt_tensor *const *v, int64_t *n, struct rt_error *err)
{
    static const char *const name[] = {"start", "limit", "delta"};

    for (int k = 0; k < 3; k++)
        if (v[k]->rank > 1 || rt_tensor_count(v[k]) != 1)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%s must be a scalar, not shape %s", name[k],
                           KN_TEXT(v[k]));
    double f[3];
    bool is_float = true;
    switch (kn_dtype(v[0])) {
    case RT_F32:
        for (int k = 0; k < 3; k++)
            f[k] = (double)*(const float *)v[k]->data;
        break;
    case RT_F64:
        for (int k = 0; k < 3; k++)
            f[k] = *(const double *)v[k]->data;
        break;
    case RT_F16:
        for (int k = 0; k < 3; k++)
            f[k] = (double)kn_from_f16(*(const struct kn_half *)v[k]->data);
        break;
    case RT_BF16:
        for (int k = 0; k < 3; k++)
            f[k] = (double)kn_from_bf16(*(const struct kn_bfloat *)v[k]->data);
        break;
    default:
        is_float = false;
    }
    if (!is_float) {
        const int64_t a = kn_int_at(v[0], 0), b = kn_int_at(v[1], 0), d = kn_int_at(v[2], 0);
        if (d == 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Requires delta != 0: 0");
        if (d > 0 ? a > b : a < b)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Requires start %s limit when delta %s 0: %lld/%lld",
                           d > 0 ? "<=" : ">=", d > 0 ? ">" : "<", (long long)a, (long long)b);
        const uint64_t span = d > 0 ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
        const uint64_t step = d > 0 ? (uint64_t)d : -(uint64_t)d;
        const uint64_t size = span / step + (span % step != 0);
        if (size > INT64_MAX)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Requires ((limit - start) / delta) <= %lld",
                           (long long)INT64_MAX);
        *n = (int64_t)size;
        return RT_OK;
    }
    if (f[2] == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Requires delta != 0: 0");
    if (f[2] > 0 ? f[0] > f[1] : f[0] < f[1])
        return rt_fail(err, RT_INVALID_ARGUMENT, "Requires start %s limit when delta %s 0: %g/%g",
                       f[2] > 0 ? "<=" : ">=", f[2] > 0 ? ">" : "<", f[0], f[1]);
    double size; /* number of elements, computed with the precision of the output type */
    switch (kn_dtype(v[0])) {
    case RT_F64:
        size = ceil(fabs((f[1] - f[0]) / f[2]));
        break;
    case RT_F32:
        size = (double)ceilf(fabsf(((float)f[1] - (float)f[0]) / (float)f[2]));
        break;
    case RT_F16: {
        const float span = kn_from_f16(kn_to_f16((float)f[1] - (float)f[0]));
        const float steps = kn_from_f16(kn_to_f16(span / (float)f[2]));
        size = (double)ceilf(fabsf(steps));
        break;
    }
    default: {
        const float span = kn_from_bf16(kn_to_bf16((float)f[1] - (float)f[0]));
        const float steps = kn_from_bf16(kn_to_bf16(span / (float)f[2]));
        size = (double)kn_from_bf16(kn_to_bf16(ceilf(fabsf(steps))));
        break;
    }
    }
    if (!(size <= 0x1p62))
        return rt_fail(err, RT_INVALID_ARGUMENT, "Requires ((limit - start) / delta) <= %lld",
                       (long long)INT64_MAX);
    *n = (int64_t)size;
    return RT_OK;
}

static enum rt_status range_infer(struct rt_infer *x)
{
    int64_t n = 0;

    if (!x->in[0].value || !x->in[1].value || !x->in[2].value)
        return RT_OK;
    const struct rt_tensor *v[] = {x->in[0].value, x->in[1].value, x->in[2].value};
    enum rt_status st = range_size(v, &n, x->err);
    if (!st)
        kn_set_vector(&x->out[0], n);
    return st;
}

/* Writes elements [first, end) of a Range. */
static enum rt_status range_part(struct rt_run *r, const struct rt_tensor *const *v, int64_t first,
                                 int64_t end)
{
    void *o = r->out[0].data;
    switch (kn_dtype(v[0])) {
#define X(dt, T)                                                                                   \
    case dt: {                                                                                     \
        const uint64_t a = (uint64_t) * (const T *)v[0]->data;                                     \
        const uint64_t d = (uint64_t) * (const T *)v[2]->data;                                     \
        for (int64_t i = first; i < end; i++)                                                      \
            ((T *)o)[i] = (T)(a + (uint64_t)i * d);                                                \
        break;                                                                                     \
    }
        KN_INTS(X)
#undef X
#define X(dt, T)                                                                                   \
    case dt: {                                                                                     \
        const T a = *(const T *)v[0]->data, d = *(const T *)v[2]->data;                            \
        for (int64_t i = first; i < end; i++)                                                      \
            ((T *)o)[i] = a + (T)i * d;                                                            \
        break;                                                                                     \
    }
        KN_FLOATS(X)
#undef X
#define X(dt, T, from, to)                                                                         \
    case dt: {                                                                                     \
        const float a = from(*(const T *)v[0]->data), d = from(*(const T *)v[2]->data);            \
        for (int64_t i = first; i < end; i++)                                                      \
            ((T *)o)[i] = to(a + from(to(from(to((float)i)) * d)));                                \
        break;                                                                                     \
    }
        X(RT_F16, struct kn_half, kn_from_f16, kn_to_f16)
        X(RT_BF16, struct kn_bfloat, kn_from_bf16, kn_to_bf16)
#undef X
    default:
        return rt_fail(r->err, RT_UNIMPLEMENTED, "Range: no kernel for this type");
    }
    return RT_OK;
}

static enum rt_status range_run(struct rt_run *r)
{
    const struct rt_tensor *v[] = {&r->in[0], &r->in[1], &r->in[2]};
    int64_t n = 0;
    enum rt_status st = range_size(v, &n, r->err);

    if (st)
        return st;
    if (!kn_out(r, 0, 1, &n))
        return r->err->code;
    for (int64_t i = 0; i < n && !st; i += KN_CHUNK) {
        st = range_part(r, v, i, n - i < KN_CHUNK ? n : i + KN_CHUNK);
        if (!st && n > KN_CHUNK)
            st = rt_run_check(r);
    }
    return st;
}

const struct kn_entry kn_range = {
    .op = {.name = "Range", .shape_in = 7, .infer = range_infer},
    .kernels = KN_KERNELS({.op = "Range",
                           .device = "CPU",
                           .name = "range",
                           .type_attr = "Tidx",
                           .types = KN_SET(KN_REALS),
                           .run = range_run}),
};

/* ---- LinSpace(start, stop, num) ---- */

static enum rt_status lin_space_size(const struct rt_tensor *const *v, int64_t *n,
                                     struct rt_error *err)
{
    static const char *const name[] = {"start", "stop", "num"};

    for (int k = 0; k < 3; k++)
        if (v[k] && v[k]->rank != 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%s must be a scalar, not shape %s", name[k],
                           KN_TEXT(v[k]));
    *n = kn_int_at(v[2], 0);
    if (*n <= 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Requires num > 0: %lld", (long long)*n);
    return RT_OK;
}

static enum rt_status lin_space_infer(struct rt_infer *x)
{
    int64_t n = 0;

    if (!x->in[2].value)
        return RT_OK;
    const struct rt_tensor *v[] = {x->in[0].value, x->in[1].value, x->in[2].value};
    enum rt_status st = lin_space_size(v, &n, x->err);
    if (!st)
        kn_set_vector(&x->out[0], n);
    return st;
}

static enum rt_status lin_space_run(struct rt_run *r)
{
    const struct rt_tensor *v[] = {&r->in[0], &r->in[1], &r->in[2]};
    int64_t n = 0;
    enum rt_status st = lin_space_size(v, &n, r->err);

    if (st)
        return st;
    if (!kn_out(r, 0, 1, &n))
        return r->err->code;
    void *o = r->out[0].data;
    int64_t left = RT_WORK;
#define X(T)                                                                                       \
    do {                                                                                           \
        const T a = *(const T *)v[0]->data, b = *(const T *)v[1]->data;                            \
        const T d = n > 1 ? (b - a) / (T)(n - 1) : 0;                                              \
        for (int64_t i = 0, end; i < n && !st; i = end) {                                          \
            end = n - i < KN_CHUNK ? n : i + KN_CHUNK;                                             \
            for (int64_t j = i; j < end; j++)                                                      \
                ((T *)o)[j] = a + d * (T)j;                                                        \
            st = rt_run_spend(r, &left, 2 * (end - i));                                            \
        }                                                                                          \
        if (n > 1)                                                                                 \
            ((T *)o)[n - 1] = b;                                                                   \
        ((T *)o)[0] = a; /* a step that is not finite must not affect element 0 */                 \
    } while (0)
    if (kn_dtype(v[0]) == RT_F32)
        X(float);
    else
        X(double);
#undef X
    return st;
}

const struct kn_entry kn_lin_space = {
    .op = {.name = "LinSpace", .shape_in = 4, .infer = lin_space_infer},
    .kernels = KN_CPU("LinSpace", "lin_space", KN_SET(KN_FLOATS), NULL, lin_space_run),
};
