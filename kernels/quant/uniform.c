/*
 * UniformQuantize, UniformDequantize, UniformRequantize and UniformQuantizedClipByValue. The value
 * of an integer q is (q - zero point) * scale. Scale and zero point are scalars, or vectors with an
 * element for each slice along an axis.
 */
#include "kernels/quant/quant.h"

#include <stdio.h>

/* ---- parameters ---- */

struct uniform {
    const float *scale;
    const int32_t *zero;
    int64_t n;     /* number of slices, or 1 if there is no axis */
    int64_t inner; /* number of elements between two adjacent positions along the axis */
    int32_t min, max;
};

static inline int64_t slice_of(const struct uniform *u, int64_t i)
{
    return u->n == 1 ? 0 : i / u->inner % u->n;
}

enum { NAME_BYTES = 64 };

/* Writes the name of an attribute, `prefix` followed by `name`, to `full` and returns it. */
static const char *attr_name(char full[NAME_BYTES], const char *prefix, const char *name)
{
    snprintf(full, NAME_BYTES, "%s%s", prefix, name);
    return full;
}

static int64_t axis_of(const struct rt_node *n, const char *prefix)
{
    char full[NAME_BYTES];

    return rt_attr_int(n, attr_name(full, prefix, "quantization_axis"));
}

/*
 * Reads how a tensor with the shape of `t` is quantised. Input k is the scale, and input k + 1 the
 * zero point. `prefix` is the beginning of the names of attributes such as input_quantization_axis.
 */
static enum rt_status read_uniform(struct rt_run *r, int k, const char *prefix,
                                   const struct rt_tensor *t, struct uniform *u)
{
    const int64_t axis = axis_of(r->node, prefix);
    const struct rt_tensor *scale = &r->in[k], *zero = &r->in[k + 1];

    *u = (struct uniform){.scale = scale->data, .zero = zero->data, .n = 1, .inner = 1};
    if (axis < -1 || axis >= t->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "quantization_axis must be -1 or in range [0, input.rank), but given %lld",
                       (long long)axis);
    if (scale->rank != zero->rank || rt_tensor_count(scale) != rt_tensor_count(zero))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "scales and zero_points shape must be same, but given scales shape %s and "
                       "zero_points shape %s",
                       KN_TEXT(scale), KN_TEXT(zero));
    if (axis < 0 && scale->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "If quantization_axis is -1, scales and zero_points must be scalar tensors, "
                       "but given scales shape %s and zero_points shape %s",
                       KN_TEXT(scale), KN_TEXT(zero));
    if (axis >= 0 && (scale->rank != 1 || scale->dim[0] != t->dim[axis]))
        return rt_fail(
            r->err, RT_INVALID_ARGUMENT,
            "If quantization_axis is not -1, scales and zero_points must be a tensor of "
            "rank 1 and the size must be equal to the input.dim_size(quantization_axis), "
            "but given quantization_axis %lld, scales shape %s and zero_points shape %s",
            (long long)axis, KN_TEXT(scale), KN_TEXT(zero));
    if (axis >= 0) {
        u->n = t->dim[axis];
        for (int d = (int)axis + 1; d < t->rank; d++)
            u->inner *= t->dim[d];
    }
    return RT_OK;
}

/* Reads the range of an output's integers. As in TensorFlow, the range of an input is ignored. */
static enum rt_status read_range(struct rt_run *r, const char *prefix, struct uniform *u)
{
    static const char *const names[] = {"quantization_min_val", "quantization_max_val"};
    int32_t *const to[] = {&u->min, &u->max};

    for (int k = 0; k < 2; k++) {
        char full[NAME_BYTES];
        const int64_t v = rt_attr_int(r->node, attr_name(full, prefix, names[k]));
        if (kn_check_i32(full, v, r->err))
            return r->err->code;
        *to[k] = (int32_t)v;
    }
    return RT_OK;
}

/* Fails unless all scales of input k are positive. `which` is part of TensorFlow's message. */
static enum rt_status check_scales(struct rt_run *r, int k, const char *which)
{
    const float *scale = r->in[k].data;
    const int64_t n = rt_tensor_count(&r->in[k]);

    for (int64_t i = 0; i < n; i++) {
        if (!(scale[i] > 0))
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s scales elements must be all positive.",
                           which);
        if (rt_run_spend(r, &r->left, 1))
            return r->err->code;
    }
    return RT_OK;
}

static void put(const struct rt_tensor *t, int64_t i, int64_t v)
{
    if (t->dtype == RT_QI32)
        ((int32_t *)t->data)[i] = (int32_t)v;
    else
        ((uint8_t *)t->data)[i] = (uint8_t)v;
}

/* If the minimum exceeds the maximum, returns the minimum. */
static int64_t clamp(const struct uniform *u, int64_t v)
{
    const int64_t low = v > u->max ? u->max : v;
    return low < u->min ? u->min : low;
}

static int32_t to_int(float x)
{
    return (int32_t)(x >= -0x1p31f && x < 0x1p31f ? x : -0x1p31f);
}

/* Returns element i after a conversion to float and back, as in TensorFlow. Integers of more than
 * 24 bits are rounded, and the largest qint32 becomes the smallest. */
static int32_t rounded_at(const struct rt_tensor *t, int64_t i)
{
    return to_int((float)kn_q_at(t, i));
}

/* ---- floats to integers and back ---- */

static enum rt_status quantize_run(struct rt_run *r)
{
    const float *x = r->in[0].data;
    const int64_t n = rt_tensor_count(&r->in[0]);
    struct uniform u;

    if (read_uniform(r, 1, "", &r->in[0], &u) || read_range(r, "", &u))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const int64_t s = slice_of(&u, i);
        const float inverse = 1 / u.scale[s];
        const int32_t q = to_int(floorf(x[i] * inverse + 0.5F));
        put(&r->out[0], i, clamp(&u, (int32_t)((uint32_t)q + (uint32_t)u.zero[s])));
        if (rt_run_spend(r, &r->left, 4))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status dequantize_run(struct rt_run *r)
{
    float *y = r->out[0].data;
    const int64_t n = rt_tensor_count(&r->in[0]);
    struct uniform u;

    if (read_uniform(r, 1, "", &r->in[0], &u) || check_scales(r, 1, "rhs"))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const int64_t s = slice_of(&u, i);
        const uint32_t q = (uint32_t)rounded_at(&r->in[0], i) - (uint32_t)u.zero[s];
        y[i] = (float)(int32_t)q * u.scale[s];
        if (rt_run_spend(r, &r->left, 4))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- integers of one scale to another ---- */

/* The factor m * 2^(shift - 31), with m in [2^30, 2^31). */
struct factor {
    int64_t m;
    int shift;
};

/* Returns the factor of a positive, finite number. */
static struct factor factor_of(double v)
{
    struct factor f = {0, 0};
    const double fraction = frexp(v, &f.shift);

    f.m = (int64_t)round(fraction * 0x1p31);
    if (f.m == INT64_C(1) << 31) {
        f.m /= 2;
        f.shift++;
    }
    if (f.shift < -31)
        f = (struct factor){0, 0};
    if (f.shift > 30)
        f = (struct factor){INT32_MAX, 30};
    return f;
}

/* Multiplies by the factor, rounds ties up, and clamps the product to the range of int32. */
static int32_t scaled(const struct factor *f, int32_t q)
{
    const int shift = 31 - f->shift;
    const int64_t v = (q * f->m + (INT64_C(1) << (shift - 1))) >> shift;

    return (int32_t)(v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v);
}

/* Returns the quotient of the scales of two slices. */
static double quotient(const struct uniform *from, int64_t a, const struct uniform *to, int64_t b)
{
    return (double)from->scale[a] / (double)to->scale[b];
}

static enum rt_status check_axes(struct rt_run *r)
{
    const int64_t in = axis_of(r->node, "input_");
    const int64_t out = axis_of(r->node, "output_");

    if (in >= 0 && out >= 0 && in != out)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "If input and output is both per-axis quantized, the quantization axis must "
                       "be same.");
    return RT_OK;
}

static enum rt_status check_factors(struct rt_run *r, const struct uniform *from,
                                    const struct uniform *to)
{
    const bool is_each = r->in[1].rank == 1, is_each_out = r->in[3].rank == 1;
    const int64_t n = is_each ? from->n : to->n;

    if (check_scales(r, 1, "input/output") || check_scales(r, 3, "input/output"))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const double v = quotient(from, is_each ? i : 0, to, is_each_out ? i : 0);
        if (!(v > 0) || isinf(v))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "double_multiplier must be a poisitive finite number. Given %g",
                           isnan(v) ? (double)NAN : v);
        if (rt_run_spend(r, &r->left, 1))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status requantize_run(struct rt_run *r)
{
    const int64_t n = rt_tensor_count(&r->in[0]);
    struct uniform from, to;

    if (check_axes(r) || read_uniform(r, 1, "input_", &r->in[0], &from) ||
        read_uniform(r, 3, "output_", &r->in[0], &to) || read_range(r, "output_", &to) ||
        check_factors(r, &from, &to))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const int64_t a = slice_of(&from, i), b = slice_of(&to, i);
        const struct factor f = factor_of(quotient(&from, a, &to, b));
        const int32_t q = (int32_t)((uint32_t)rounded_at(&r->in[0], i) - (uint32_t)from.zero[a]);
        put(&r->out[0], i, clamp(&to, (int32_t)((uint32_t)scaled(&f, q) + (uint32_t)to.zero[b])));
        if (rt_run_spend(r, &r->left, 20))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- clipping ---- */

static enum rt_status clip_run(struct rt_run *r)
{
    const int64_t n = rt_tensor_count(&r->in[0]);
    const int32_t *x = r->in[0].data, *low = r->in[1].data, *high = r->in[2].data;
    struct uniform u;

    if (read_uniform(r, 3, "", &r->in[0], &u))
        return r->err->code;
    for (int k = 1; k < 3; k++)
        if (r->in[k].rank != r->in[3].rank ||
            rt_tensor_count(&r->in[k]) != rt_tensor_count(&r->in[3]))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input min shape must be same as that of scales/zero_points.");
    for (int64_t i = 0; i < n; i++) {
        const int64_t s = slice_of(&u, i);
        const int32_t q = x[i] < low[s] ? low[s] : x[i];
        ((int32_t *)r->out[0].data)[i] = q > high[s] ? high[s] : q;
        if (rt_run_spend(r, &r->left, 3))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- registry entries ---- */

#define UNIFORM(symbol, op_, name_, rows_, attr_, types_, and_, and_types_, run_)                  \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_, .infer = kn_q_infer_same, .rows = rows_},                              \
        .kernels = KN_KERNELS({.op = op_,                                                          \
                               .device = "CPU",                                                    \
                               .name = name_,                                                      \
                               .type_attr = attr_,                                                 \
                               .types = types_,                                                    \
                               .and_type_attr = and_,                                              \
                               .and_types = and_types_,                                            \
                               .run = run_}),                                                      \
    }
#define ANY (RT_T(RT_QI8) | RT_T(RT_QU8) | RT_T(RT_QI32))
UNIFORM(uniform_quantize, "UniformQuantize", "uniform_quantize", NULL, "Tin", RT_T(RT_F32), "Tout",
        ANY, quantize_run);
UNIFORM(uniform_dequantize, "UniformDequantize", "uniform_dequantize", NULL, "Tin", ANY, "Tout",
        RT_T(RT_F32), dequantize_run);
UNIFORM(uniform_requantize, "UniformRequantize", "uniform_requantize", NULL, "Tin",
        RT_T(RT_QI8) | RT_T(RT_QI32), "Tout", RT_T(RT_QI8), requantize_run);
UNIFORM(uniform_quantized_clip_by_value, "UniformQuantizedClipByValue", "uniform_clip", NULL, "T",
        RT_T(RT_QI32), NULL, 0, clip_run);
