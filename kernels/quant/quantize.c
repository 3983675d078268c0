/*
 * QuantizeV2 and Dequantize convert between floats and quantised integers, in the modes
 * MIN_COMBINED, MIN_FIRST and SCALED. With `axis`, each slice along this axis has a range of its
 * own.
 */
#include "kernels/quant/quant.h"

#include <float.h>
#include <string.h>

#include "kernels/cpu/types.h"

enum mode { MIN_COMBINED, MIN_FIRST, SCALED };

struct quantize {
    enum mode mode;
    bool half_to_even, narrow;
    enum rt_dtype dtype; /* the quantised type */
    int64_t axis;
    float at_least; /* ensure_minimum_range */
    int64_t outer, slices, inner;
};

enum { CHUNK = 4096 }; /* number of elements between two deadline checks */

/* ---- attributes and shapes ---- */

static bool attr_is(const struct rt_node *n, const char *name, const char *value)
{
    const struct rt_span s = rt_attr_str(n, name);

    return s.n == strlen(value) && memcmp(s.p, value, s.n) == 0;
}

static enum mode mode_of(const struct rt_node *n)
{
    return attr_is(n, "mode", "MIN_FIRST") ? MIN_FIRST
           : attr_is(n, "mode", "SCALED")  ? SCALED
                                           : MIN_COMBINED;
}

static bool is_quantize(const struct rt_node *n)
{
    return strcmp(n->schema->name, "QuantizeV2") == 0;
}

static enum rt_status check_node(const struct rt_node *n, struct rt_error *err)
{
    const int64_t axis = rt_attr_int(n, "axis");

    if (is_quantize(n) && attr_is(n, "round_mode", "HALF_TO_EVEN") && mode_of(n) != SCALED)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is "
                       "'%s'.",
                       rt_attr_str(n, "mode").p);
    if (axis < -1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Axis must be at least -1. Found %lld",
                       (long long)axis);
    if (!is_quantize(n) && rt_attr_dtype(n, "dtype") == RT_BF16 && mode_of(n) != MIN_COMBINED)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '%s'",
                       rt_attr_str(n, "mode").p);
    return RT_OK;
}

static enum rt_status check_back_bound(struct rt_infer *x, int k, const struct rt_shape *in)
{
    const struct rt_shape *s = &x->in[k].shape;
    const int64_t axis = rt_attr_int(x->node, "axis");
    const int64_t want = axis < 0 ? 1 : in->rank < 0 ? -1 : in->dim[axis];

    if (want >= 0 && kn_shape_known(s) && kn_shape_total(s) != want)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "input_%s_tensor must have as many elements as input on the dequantization "
                       "axis (%lld), got %lld, expected %lld",
                       k == 1 ? "min" : "max", (long long)axis, (long long)kn_shape_total(s),
                       (long long)want);
    return RT_OK;
}

static enum rt_status check_bound(struct rt_infer *x, int k, const struct rt_shape *in)
{
    const struct rt_shape *s = &x->in[k].shape;
    const int64_t axis = rt_attr_int(x->node, "axis");
    const char *name = k == 1 ? "min_range" : "max_range";

    if (axis < 0 && kn_shape_known(s) && kn_shape_total(s) != 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "If axis is not specified, %s must contain a single float element, but it "
                       "contains %lld elements",
                       name, (long long)kn_shape_total(s));
    if (axis < 0 || s->rank < 0)
        return RT_OK;
    if (s->rank != 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "If axis is specified, %s must be a 1-D tensor whose size matches the axis "
                       "dimension of the input and output tensors, but %s dims are %d",
                       name, name, s->rank);
    if (in->rank >= 0 && in->dim[axis] >= 0 && s->dim[0] >= 0 && s->dim[0] != in->dim[axis])
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "If axis is specified, %s must be a 1-D tensor whose size matches the axis "
                       "dimension of the input and output tensors, but %s is a 1-D tensor of size "
                       "%lld and input's axis dimension is of size %lld",
                       name, name, (long long)s->dim[0], (long long)in->dim[axis]);
    return RT_OK;
}

static enum rt_status quantize_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    const int64_t axis = rt_attr_int(x->node, "axis");
    enum rt_status st = check_node(x->node, x->err);

    if (!st && axis >= 0 && in->rank >= 0 && axis >= in->rank)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       is_quantize(x->node)
                           ? "Axis is on a zero-based index, so its value must always be less than "
                             "number of input's dims, but given axis value was %lld and input's "
                             "dims was %d"
                           : "Axis must be less than input dimension, got %lld of %d",
                       (long long)axis, in->rank);
    for (int k = 1; !st && k < 3; k++)
        st = is_quantize(x->node) ? check_bound(x, k, in) : check_back_bound(x, k, in);
    if (st)
        return st;
    x->out[0].shape = *in;
    for (int k = 1; k < x->n_out; k++) {
        struct rt_shape *o = &x->out[k].shape;
        *o = x->in[k].shape;
        if (axis < 0 || (o->rank == 1 && o->dim[0] == 1))
            o->rank = 0;
        else if (o->rank == 1 && o->dim[0] < 0)
            o->rank = -1; /* a single slice has scalars as bounds */
    }
    return RT_OK;
}

static void quantize_rows(struct rt_rows *r)
{
    const int64_t axis = rt_attr_int(r->node, "axis");

    if (r->in_dep[0].kind != RT_DEP_ROWS || axis != r->in_dep[0].axis)
        kn_q_rows_same(r);
}

static struct quantize read_node(const struct rt_node *n, enum rt_dtype dtype,
                                 const struct rt_tensor *in)
{
    struct quantize q = {.mode = mode_of(n),
                         .narrow = rt_attr_bool(n, "narrow_range"),
                         .dtype = dtype,
                         .axis = rt_attr_int(n, "axis"),
                         .outer = 1,
                         .slices = 1,
                         .inner = 1};

    if (is_quantize(n)) {
        q.half_to_even = attr_is(n, "round_mode", "HALF_TO_EVEN");
        q.at_least = rt_attr_float(n, "ensure_minimum_range");
    }
    if (q.axis < 0) {
        q.inner = rt_tensor_count(in);
        return q;
    }
    for (int d = 0; d < in->rank; d++)
        *(d < q.axis ? &q.outer : d == q.axis ? &q.slices : &q.inner) *= in->dim[d];
    if (rt_tensor_count(in) == 0)
        q.outer = 0; /* the product of the other dimensions of an empty input may be huge */
    return q;
}

/* ---- floats to integers ---- */

/* The parameters of one slice. An element is clamped to [min, max], scaled, shifted and rounded. */
struct forward {
    float min, max, scale, half;
    struct kn_q_encode first; /* for MIN_FIRST */
};

/* Returns INT32_MIN if the number does not fit, as TensorFlow's mode SCALED does for a single
 * slice. A float of 2^31 thus becomes -2^31. */
static inline int32_t to_int(float x)
{
    return (int32_t)(x >= -0x1p31f && x < 0x1p31f ? x : -0x1p31f);
}

static inline float clamp(float x, float min, float max)
{
    x = x < max ? x : max;
    return x > min ? x : min;
}

#define FORWARD(dt, T)                                                                             \
    static void forward_##dt(const struct quantize *q, const struct forward *f, const float *x,    \
                             T *y, int64_t n)                                                      \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            float v;                                                                               \
            if (q->mode == MIN_FIRST)                                                              \
                v = kn_q_from_float(&f->first, x[i]);                                              \
            else if (q->mode == SCALED && q->half_to_even)                                         \
                v = rintf(clamp(x[i], f->min, f->max) * f->scale);                                 \
            else if (q->mode == SCALED)                                                            \
                v = roundf(clamp(x[i], f->min, f->max) * f->scale);                                \
            else if (f->half > 0)                                                                  \
                v = roundf((clamp(x[i], f->min, f->max) - f->min) * f->scale - f->half);           \
            else                                                                                   \
                v = (clamp(x[i], f->min, f->max) - f->min) * f->scale + 0.5F;                      \
            y[i] = (T)to_int(v);                                                                   \
        }                                                                                          \
    }
KN_QUANTISED(FORWARD)

static void forward_span(const struct quantize *q, const struct forward *f, const float *x, void *y,
                         int64_t n)
{
    switch (q->dtype) {
#define CASE(dt, T)                                                                                \
    case dt:                                                                                       \
        forward_##dt(q, f, x, y, n);                                                               \
        break;
        KN_QUANTISED(CASE)
#undef CASE
    default:
        break;
    }
}

/* Widens a range so that it contains 0 and is not empty, and sets the parameters. */
static struct forward forward_of(const struct quantize *q, float min, float max)
{
    const struct kn_q_type t = kn_q_type(q->dtype);
    struct forward f = {.min = min < 0 ? min : 0};
    const float largest = fabsf(min) < fabsf(max) ? fabsf(max) : fabsf(min);
    const float least = f.min + (largest > 1 ? largest : 1) * q->at_least;

    f.max = max < least ? least : max;
    f.max = f.max > 0 ? f.max : 0;
    if (q->mode == MIN_COMBINED) {
        f.scale = (float)((t.highest - t.lowest) / (double)(f.max - f.min));
        f.half = t.is_signed ? (float)((t.highest - t.lowest + 1) / 2) : 0;
    } else if (q->mode == MIN_FIRST) {
        f.first = kn_q_encoding(q->dtype, (struct kn_q_range){f.min, f.max});
    } else {
        const float low = (float)(t.lowest + (q->narrow ? 1 : 0)), high = (float)t.highest;
        const float from_min = low * f.min > 0 ? low / f.min : FLT_MAX;
        const float from_max = high * f.max > 0 ? high / f.max : FLT_MAX;
        f.scale = from_max < from_min ? from_max : from_min;
        f.min = low / f.scale;
        f.max = high / f.scale;
    }
    return f;
}

static enum rt_status quantize_run(struct rt_run *r)
{
    const struct quantize q = read_node(r->node, kn_dtype(&r->out[0]), &r->in[0]);
    const size_t size = rt_dtype_size(q.dtype);

    for (int64_t s = 0; s < q.slices; s++) {
        const float min = ((const float *)r->in[1].data)[s],
                    max = ((const float *)r->in[2].data)[s];
        const struct forward f = forward_of(&q, min, max);
        if (min > max)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "input_max_range must be larger than input_min_range.");
        ((float *)r->out[1].data)[s] = f.min;
        ((float *)r->out[2].data)[s] = f.max;
        for (int64_t o = 0; o < q.outer; o++) {
            const int64_t at = (o * q.slices + s) * q.inner;
            for (int64_t i = 0, n; i < q.inner; i += n) {
                n = kn_min_i64(q.inner - i, CHUNK);
                forward_span(&q, &f, (const float *)r->in[0].data + at + i,
                             (char *)r->out[0].data + (size_t)(at + i) * size, n);
                if (rt_run_spend(r, &r->left, 4 * n))
                    return r->err->code;
            }
        }
    }
    return RT_OK;
}

/* ---- integers to floats ---- */

/* The float of an integer q is (q + half) * scale + min. The mode MIN_FIRST uses kn_q_to_float with
 * `first` instead. */
struct backward {
    float half, scale, min;
    struct kn_q_decode first;
};

static struct backward backward_of(const struct quantize *q, float min, float max)
{
    const struct kn_q_type t = kn_q_type(q->dtype);
    struct backward b = {.min = min};

    if (q->mode == MIN_COMBINED) {
        b.scale = (max - min) / ((float)t.highest - (float)t.lowest);
        b.half = t.is_signed ? ((float)t.highest - (float)t.lowest + 1) / 2 : 0;
    } else if (q->mode == MIN_FIRST) {
        b.first = kn_q_decoding(q->dtype, (struct kn_q_range){min, max});
    } else {
        const float low = (float)t.lowest + (q->narrow ? 1 : 0);
        const float from_min = min / low, from_max = max / (float)t.highest;
        b.scale = t.lowest == 0 || from_min < from_max ? from_max : from_min;
        b.min = 0;
    }
    return b;
}

#define WRAP(q, x) ((q)->slices == 1 ? (float)to_int(x) : (x))
#define BACKWARD(dt, T)                                                                            \
    static void backward_##dt(const struct quantize *q, const struct backward *b, const T *x,      \
                              float *y, int64_t n)                                                 \
    {                                                                                              \
        if (q->mode == MIN_FIRST)                                                                  \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = kn_q_to_float(&b->first, x[i]);                                             \
        else if (q->mode == SCALED)                                                                \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = WRAP(q, (float)x[i]) * b->scale;                                            \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = ((float)x[i] + b->half) * b->scale + b->min;                                \
    }
KN_QUANTISED(BACKWARD)

static void backward_span(const struct quantize *q, const struct backward *b, const void *x,
                          float *y, int64_t n)
{
    switch (q->dtype) {
#define CASE(dt, T)                                                                                \
    case dt:                                                                                       \
        backward_##dt(q, b, x, y, n);                                                              \
        break;
        KN_QUANTISED(CASE)
#undef CASE
    default:
        break;
    }
}

static enum rt_status dequantize_run(struct rt_run *r)
{
    const struct quantize q = read_node(r->node, kn_dtype(&r->in[0]), &r->in[0]);
    const size_t size = rt_dtype_size(q.dtype);
    const bool is_bf16 = r->out[0].dtype == RT_BF16;

    for (int64_t s = 0; s < q.slices; s++) {
        const struct backward b =
            backward_of(&q, ((const float *)r->in[1].data)[s], ((const float *)r->in[2].data)[s]);
        for (int64_t o = 0; o < q.outer; o++) {
            const int64_t at = (o * q.slices + s) * q.inner;
            for (int64_t i = 0, n; i < q.inner; i += n) {
                float wide[CHUNK];
                float *y = is_bf16 ? wide : (float *)r->out[0].data + at + i;
                n = kn_min_i64(q.inner - i, CHUNK);
                backward_span(&q, &b, (const char *)r->in[0].data + (size_t)(at + i) * size, y, n);
                for (int64_t k = 0; is_bf16 && k < n; k++)
                    ((struct kn_bfloat *)r->out[0].data)[at + i + k] = kn_to_bf16(wide[k]);
                if (rt_run_spend(r, &r->left, 4 * n))
                    return r->err->code;
            }
        }
    }
    return RT_OK;
}

/* ---- registry entries ---- */

const struct kn_entry kn_quantize_v2 = {
    .op = {.name = "QuantizeV2", .infer = quantize_infer, .rows = quantize_rows},
    .kernels = KN_CPU("QuantizeV2", "quantize", KN_ANY_QUANTISED, NULL, quantize_run),
};
const struct kn_entry kn_dequantize = {
    .op = {.name = "Dequantize", .infer = quantize_infer, .rows = quantize_rows},
    .kernels = KN_CPU("Dequantize", "dequantize", KN_ANY_QUANTISED, NULL, dequantize_run),
};
