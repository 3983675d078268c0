/*
 * QuantizeAndDequantizeV2, V3 and V4, and the gradient of V4. The ops round floats to the values
 * that integers of `num_bits` bits represent in a range. The range is an input, or is the range of
 * the elements. With `axis`, each slice along this axis has a range of its own.
 */
#include "kernels/quant/quant.h"

#include <float.h>
#include <string.h>

#include "kernels/cpu/types.h"

struct qdq {
    bool is_signed, narrow, given, half_up;
    int64_t bits, axis;
    int64_t outer, slices, inner; /* the input is [outer, slices, inner] */
};

/* ---- attributes and shapes ---- */

static bool is_v3(const struct rt_node *n)
{
    return strcmp(n->schema->name, "QuantizeAndDequantizeV3") == 0;
}

static bool is_grad(const struct rt_node *n)
{
    return strcmp(n->schema->name, "QuantizeAndDequantizeV4Grad") == 0;
}

static enum rt_status check_bits(int64_t bits, bool is_signed, const char *quote,
                                 struct rt_error *err)
{
    if (bits > 0 && bits < (is_signed ? 62 : 63))
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "num_bits is out of range: %lld with %ssigned_input_%s %d", (long long)bits,
                   quote, quote, is_signed);
}

static const char *const bound_name[] = {"input_min", "input_max"};

static enum rt_status check_axis(struct rt_infer *x, const struct rt_shape *in)
{
    const int64_t axis = rt_attr_int(x->node, "axis");

    if (axis < -1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Axis must be at least -1. Found %lld",
                       (long long)axis);
    if (in->rank < 0 || axis < in->rank + (is_v3(x->node) && in->rank == 0 ? -1 : 0))
        return RT_OK;
    if (is_v3(x->node))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Axis requested is larger than input dimensions. Axis: %lld Input "
                       "Dimensions: %d",
                       (long long)axis, in->rank);
    if (is_grad(x->node))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Axis should be -1 or 0 or a positive value less than %dbut given axis "
                       "value was %lld",
                       in->rank, (long long)axis);
    return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape must be at least rank %lld but is rank %d",
                   (long long)((uint64_t)axis + 1), in->rank);
}

/* Refuses bounds of a wrong rank. Bounds must be scalars without an axis, and vectors with one.
 * TensorFlow's kernels of V2 and V4 require scalars in both cases, and then refuse them if there is
 * an axis. */
static enum rt_status check_bound_ranks(struct rt_infer *x, int first)
{
    const bool any_axis = is_v3(x->node) || is_grad(x->node);
    const int64_t axis = rt_attr_int(x->node, "axis");

    for (int k = 0; is_grad(x->node) && k < 2; k++)
        if (x->in[first + k].shape.rank > 1)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Input %s tensor must have dimension 0 or 1. Received %d.",
                           k ? "max" : "min", x->in[first + k].shape.rank);
    for (int k = 0; (!any_axis || axis < 0) && k < 2; k++)
        if (x->in[first + k].shape.rank > 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "%s must be a scalar%s", bound_name[k],
                           any_axis ? " if axis is unspecified" : ".");
    for (int k = 0; axis >= 0 && k < 2; k++)
        if (x->in[first + k].shape.rank >= 0 && x->in[first + k].shape.rank != 1)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Shape must be rank 1 for %s_tensor when the axis is specified",
                           bound_name[k]);
    return RT_OK;
}

/* Checks the bounds, which are inputs `first` and `first + 1`, against the axis and the input. */
static enum rt_status check_bounds(struct rt_infer *x, const struct rt_shape *in, int first)
{
    const int64_t axis = rt_attr_int(x->node, "axis");
    const enum rt_status st = check_bound_ranks(x, first);

    for (int k = 0; !st && axis >= 0 && k < 2; k++) {
        const struct rt_shape *s = &x->in[first + k].shape;
        if (in->rank < 0 || in->dim[axis] < 0 || s->rank < 0 || s->dim[0] < 0 ||
            s->dim[0] == in->dim[axis])
            continue;
        if (is_grad(x->node))
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "%s has incorrect size, expected %lld was %lld", bound_name[k],
                           (long long)in->dim[axis], (long long)s->dim[0]);
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "%s_tensor has incorrect size, was %lld expected %lld to match dim %lld of "
                       "the input %s",
                       bound_name[k], (long long)s->dim[0], (long long)in->dim[axis],
                       (long long)axis, KN_TEXT(s));
    }
    return st;
}

static enum rt_status qdq_infer(struct rt_infer *x)
{
    enum rt_status st = RT_OK;

    if (!is_v3(x->node))
        st = check_bits(rt_attr_int(x->node, "num_bits"), rt_attr_bool(x->node, "signed_input"), "",
                        x->err);
    if (!st)
        st = check_axis(x, &x->in[0].shape);
    if (!st && rt_attr_bool(x->node, "range_given"))
        st = check_bounds(x, &x->in[0].shape, 1);
    x->out[0].shape = x->in[0].shape;
    return st;
}

static void qdq_rows(struct rt_rows *r)
{
    /* The range of an input without bounds is the range of all its elements. */
    if (rt_attr_bool(r->node, "range_given") &&
        (r->in_dep[0].kind != RT_DEP_ROWS || r->in_dep[0].axis != rt_attr_int(r->node, "axis")))
        rt_rows_same(r);
}

/* ---- values ---- */

/*
 * The loops for a type T. The scale maps one of the two bounds exactly to the last integer on its
 * side. Of the two possible scales, the one with the wider range is used. The other bound is then
 * moved to the end of this range.
 */
#define QDQ(dt, T, LARGEST, ROUND_EVEN, FLOOR)                                                     \
    struct scale_##dt {                                                                            \
        T min, max, scale, inverse;                                                                \
    };                                                                                             \
    static struct scale_##dt scale_of_##dt(const struct qdq *q, T min, T max)                      \
    {                                                                                              \
        const int64_t top = q->is_signed ? (INT64_C(1) << (q->bits - 1)) - 1                       \
                                         : (int64_t)((UINT64_C(1) << q->bits) - 1);                \
        const int64_t bottom = !q->is_signed ? 0 : q->narrow ? -top : -top - 1;                    \
        const T low = (T)bottom, high = (T)top;                                                    \
        const T from_min = low * min > 0 ? low / min : LARGEST;                                    \
        const T from_max = high * max > 0 ? high / max : LARGEST;                                  \
        struct scale_##dt s = {.min = min, .max = max};                                            \
        if (from_min < from_max) {                                                                 \
            s.scale = from_min;                                                                    \
            s.inverse = min / low;                                                                 \
            s.max = high * s.inverse;                                                              \
        } else {                                                                                   \
            s.scale = from_max;                                                                    \
            s.inverse = max / high;                                                                \
            s.min = low * s.inverse;                                                               \
        }                                                                                          \
        return s;                                                                                  \
    }                                                                                              \
    static void map_##dt(const struct qdq *q, const struct scale_##dt *s, const void *src,         \
                         void *dst, int64_t n)                                                     \
    {                                                                                              \
        const T *x = src;                                                                          \
        T *y = dst;                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T v = x[i];                                                                            \
            if (q->given) {                                                                        \
                v = v > s->max ? s->max : v;                                                       \
                v = v < s->min ? s->min : v;                                                       \
            }                                                                                      \
            v *= s->scale;                                                                         \
            y[i] = (q->half_up ? FLOOR(v + (T)0.5) : ROUND_EVEN(v)) * s->inverse;                  \
        }                                                                                          \
    }                                                                                              \
    /* Sets *min and *max to the range of slice `slice` of the input. */                           \
    static enum rt_status range_##dt(struct rt_run *r, const struct qdq *q, int64_t slice, T *min, \
                                     T *max)                                                       \
    {                                                                                              \
        const T *x = r->in[0].data;                                                                \
        T low = (T)INFINITY, high = -(T)INFINITY;                                                  \
        for (int64_t o = 0; o < q->outer; o++) {                                                   \
            const T *row = x + (o * q->slices + slice) * q->inner;                                 \
            for (int64_t i = 0; i < q->inner; i++) {                                               \
                low = row[i] < low ? row[i] : low;                                                 \
                high = row[i] > high ? row[i] : high;                                              \
                if (rt_run_spend(r, &r->left, 1))                                                  \
                    return r->err->code;                                                           \
            }                                                                                      \
        }                                                                                          \
        *min = low;                                                                                \
        *max = high;                                                                               \
        return RT_OK;                                                                              \
    }                                                                                              \
    static enum rt_status slice_##dt(struct rt_run *r, const struct qdq *q, int64_t slice)         \
    {                                                                                              \
        T min = 0, max = 0;                                                                        \
        if (q->given) {                                                                            \
            min = ((const T *)r->in[1].data)[slice];                                               \
            max = ((const T *)r->in[2].data)[slice];                                               \
            if (!(min <= max))                                                                     \
                return rt_fail(r->err, RT_INVALID_ARGUMENT,                                        \
                               "Invalid range: input_min %g > input_max %g", (double)min,          \
                               (double)max);                                                       \
        } else if (range_##dt(r, q, slice, &min, &max)) {                                          \
            return r->err->code;                                                                   \
        }                                                                                          \
        const struct scale_##dt s = scale_of_##dt(q, min, max);                                    \
        for (int64_t o = 0; o < q->outer; o++) {                                                   \
            const int64_t at = (o * q->slices + slice) * q->inner;                                 \
            for (int64_t i = 0, n; i < q->inner; i += n) {                                         \
                n = kn_min_i64(q->inner - i, KN_CHUNK_QDQ);                                        \
                map_##dt(q, &s, (const T *)r->in[0].data + at + i, (T *)r->out[0].data + at + i,   \
                         n);                                                                       \
                if (rt_run_spend(r, &r->left, 4 * n))                                              \
                    return r->err->code;                                                           \
            }                                                                                      \
        }                                                                                          \
        return RT_OK;                                                                              \
    }                                                                                              \
    static void grad_##dt(struct rt_run *r, int64_t at, int64_t n, int64_t slice)                  \
    {                                                                                              \
        const T *g = (const T *)r->in[0].data + at, *x = (const T *)r->in[1].data + at;            \
        const T min = ((const T *)r->in[2].data)[slice], max = ((const T *)r->in[3].data)[slice];  \
        T *y = (T *)r->out[0].data + at;                                                           \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = g[i] * (T)(x[i] >= min && x[i] <= max);                                         \
    }
enum { KN_CHUNK_QDQ = 4096 }; /* number of elements between two deadline checks */
QDQ(RT_F32, float, FLT_MAX, rintf, floorf)
QDQ(RT_F64, double, DBL_MAX, rint, floor)

static void set_slices(struct qdq *q, const struct rt_tensor *t)
{
    q->outer = q->slices = q->inner = 1;
    if (q->axis < 0) {
        q->inner = rt_tensor_count(t);
        return;
    }
    for (int d = 0; d < t->rank; d++)
        *(d < q->axis ? &q->outer : d == q->axis ? &q->slices : &q->inner) *= t->dim[d];
    if (rt_tensor_count(t) == 0)
        q->outer = 0; /* the product of the other dimensions of an empty tensor may be huge */
}

static enum rt_status qdq_run(struct rt_run *r)
{
    const struct rt_node *n = r->node;
    struct qdq q = {.is_signed = rt_attr_bool(n, "signed_input"),
                    .narrow = rt_attr_bool(n, "narrow_range"),
                    .given = rt_attr_bool(n, "range_given"),
                    .axis = rt_attr_int(n, "axis")};

    if (is_v3(n)) {
        const struct rt_tensor *bits = &r->in[3];
        if (bits->rank != 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Invalid shape. The `num_bits` tensor should be a scalar. Got "
                           "dimensions: %d",
                           bits->rank);
        q.bits = kn_int_at(bits, 0);
        if (check_bits(q.bits, q.is_signed, "`", r->err))
            return r->err->code;
    } else {
        const struct rt_span mode = rt_attr_str(n, "round_mode");
        q.bits = rt_attr_int(n, "num_bits");
        q.half_up = mode.n == 7 && memcmp(mode.p, "HALF_UP", 7) == 0;
    }
    set_slices(&q, &r->in[0]);
    for (int64_t s = 0; s < (q.given || q.outer ? q.slices : 0); s++) {
        const enum rt_status st =
            r->in[0].dtype == RT_F64 ? slice_RT_F64(r, &q, s) : slice_RT_F32(r, &q, s);
        if (st)
            return st;
    }
    return RT_OK;
}

/* ---- the gradient ---- */

static enum rt_status grad_infer(struct rt_infer *x)
{
    const struct rt_shape *g = &x->in[0].shape, *in = &x->in[1].shape;
    enum rt_status st = check_axis(x, in);

    if (!st && kn_shape_known(g) && kn_shape_known(in) &&
        (g->rank != in->rank || memcmp(g->dim, in->dim, (size_t)g->rank * sizeof *g->dim) != 0))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "gradient and input must be the same size");
    if (!st)
        st = check_bounds(x, in, 2);
    if (st)
        return st;
    x->out[0].shape = x->in[1].shape;
    x->out[1].shape = x->in[2].shape;
    x->out[2].shape = x->in[3].shape;
    return RT_OK;
}

static enum rt_status grad_run(struct rt_run *r)
{
    struct qdq q = {.axis = rt_attr_int(r->node, "axis")};

    set_slices(&q, &r->in[1]);
    for (int k = 1; k < 3; k++)
        memset(r->out[k].data, 0, rt_tensor_bytes(&r->out[k]));
    for (int64_t o = 0; o < q.outer * q.slices; o++)
        for (int64_t i = 0, n; i < q.inner; i += n) {
            n = kn_min_i64(q.inner - i, KN_CHUNK_QDQ);
            if (r->in[1].dtype == RT_F64)
                grad_RT_F64(r, o * q.inner + i, n, o % q.slices);
            else
                grad_RT_F32(r, o * q.inner + i, n, o % q.slices);
            if (rt_run_spend(r, &r->left, 3 * n))
                return r->err->code;
        }
    return RT_OK;
}

/* ---- registry entries ---- */

#define QDQ_ENTRY(symbol, op_, name_, infer_, rows_, run_)                                         \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_, .infer = infer_, .rows = rows_},                                       \
        .kernels = KN_CPU(op_, name_, RT_T(RT_F32) | RT_T(RT_F64), NULL, run_),                    \
    }
QDQ_ENTRY(quantize_and_dequantize_v2, "QuantizeAndDequantizeV2", "quantize_dequantize", qdq_infer,
          qdq_rows, qdq_run);
QDQ_ENTRY(quantize_and_dequantize_v3, "QuantizeAndDequantizeV3", "quantize_dequantize_bits",
          qdq_infer, qdq_rows, qdq_run);
QDQ_ENTRY(quantize_and_dequantize_v4, "QuantizeAndDequantizeV4", "quantize_dequantize_v4",
          qdq_infer, qdq_rows, qdq_run);
QDQ_ENTRY(quantize_and_dequantize_v4_grad, "QuantizeAndDequantizeV4Grad",
          "quantize_dequantize_grad", grad_infer, NULL, grad_run);
