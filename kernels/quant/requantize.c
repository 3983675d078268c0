/*
 * Ops that move quantised integers from one range to another: RequantizationRange,
 * RequantizationRangePerChannel, Requantize, RequantizePerChannel and QuantizeDownAndShrinkRange.
 */
#include "kernels/quant/quant.h"

#include <float.h>

enum { CHUNK = 4096 }; /* number of elements between two deadline checks */

/* Sets *low and *high to the smallest and largest integer of a qint32 tensor. */
static enum rt_status extremes(struct rt_run *r, const struct rt_tensor *t, int32_t *low,
                               int32_t *high)
{
    const int32_t *x = t->data;
    const int64_t n = rt_tensor_count(t);

    *low = INT32_MAX;
    *high = INT32_MIN;
    for (int64_t i = 0, m; i < n; i += m) {
        m = kn_min_i64(n - i, CHUNK);
        for (int64_t k = i; k < i + m; k++) {
            *low = x[k] < *low ? x[k] : *low;
            *high = x[k] > *high ? x[k] : *high;
        }
        if (rt_run_spend(r, &r->left, m))
            return r->err->code;
    }
    return RT_OK;
}

/* Computes the range of the values that occur in a qint32 tensor. The range always contains 0. */
static enum rt_status used_range(struct rt_run *r, struct kn_q_range *used)
{
    const struct kn_q_range range = kn_q_range_of(r, 1, 2);
    int32_t low, high;
    const enum rt_status st = extremes(r, &r->in[0], &low, &high);
    const float min = kn_q_value(RT_QI32, low, range);

    used->min = min < 0 ? min : 0;
    used->max = kn_q_value(RT_QI32, high, range);
    return st;
}

/*
 * The parameters of a conversion from qint32 to quint8 in fixed-point arithmetic, with 16
 * fractional bits. TensorFlow's kernels use this conversion on every processor. The conversion
 * through floats would round many ties differently.
 */
struct fixed {
    int64_t scale, offset;
};

/* Returns INT64_MIN if x is not in the range of int64, as the processor does for TensorFlow. */
static int64_t to_i64(double x)
{
    return (int64_t)(x >= -0x1p63 && x < 0x1p63 ? x : -0x1p63);
}

/* Adds with wraparound. */
static int64_t sum_of(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static struct fixed fixed_of(struct kn_q_range from, struct kn_q_range to)
{
    const double one = 0x1p16;
    const float width = from.max - from.min, out = to.max - to.min;
    const float per_unit = out == 0 ? 0 : (float)(255.0 / (double)out);
    const float middle = (from.min + from.max) / 2;
    const int64_t in_offset = to_i64((double)(middle * per_unit) * one);

    if (out == 0)
        return (struct fixed){0, in_offset};
    const int64_t out_offset = to_i64(round((double)to.min * 255.0 * one / (double)out));
    return (struct fixed){.scale = to_i64(255.0 * one * (double)width / (double)out),
                          .offset = sum_of(in_offset, (int64_t) - (uint64_t)out_offset)};
}

static uint8_t fixed_value(const struct fixed *f, int32_t q)
{
    /* TensorFlow rounds the integer to a float first. The product may wrap around, as in
     * TensorFlow, if the range of the output is tiny. */
    const int64_t product = (int64_t)((uint64_t)(int64_t)(float)q * (uint64_t)f->scale) >> 32;
    const int64_t v = sum_of(sum_of(product, f->offset), 1 << 15) >> 16;

    return (uint8_t)(v < 0 ? 0 : v > UINT8_MAX ? UINT8_MAX : v);
}

/* Converts a qint32 to qint8 through a float. NaN becomes 0, as in this kernel of TensorFlow. */
static uint8_t float_value(const struct kn_q_decode *d, const struct kn_q_encode *e, int32_t q)
{
    const float x = kn_q_to_float(d, q);

    return isnan(x * e->scale - e->shift) ? 0 : (uint8_t)(int32_t)kn_q_from_float(e, x);
}

/* Converts qint32 input 0 from range `from` to the type of output 0 in range `to`. */
static enum rt_status convert(struct rt_run *r, struct kn_q_range from, struct kn_q_range to)
{
    const bool is_signed = r->out[0].dtype == RT_QI8;
    const struct kn_q_decode d = kn_q_decoding(RT_QI32, from);
    const struct kn_q_encode e = kn_q_encoding(RT_QI8, to);
    const struct fixed f = fixed_of(from, to);
    const int32_t *x = r->in[0].data;
    uint8_t *y = r->out[0].data;
    const int64_t n = rt_tensor_count(&r->in[0]);

    for (int64_t i = 0, m; i < n; i += m) {
        m = kn_min_i64(n - i, CHUNK);
        for (int64_t k = i; k < i + m; k++)
            y[k] = is_signed ? float_value(&d, &e, x[k]) : fixed_value(&f, x[k]);
        if (rt_run_spend(r, &r->left, 6 * m))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- for the complete tensor ---- */

static enum rt_status check_range(struct rt_run *r)
{
    for (int k = 1; k < 3; k++)
        if (rt_tensor_count(&r->in[k]) == 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input %s must not be empty.",
                           k == 1 ? "min" : "max");
    return RT_OK;
}

static enum rt_status range_run(struct rt_run *r)
{
    struct kn_q_range used;
    enum rt_status st = check_range(r);

    if (!st)
        st = used_range(r, &used);
    if (st)
        return st;
    kn_q_put(r, 0, used.min);
    kn_q_put(r, 1, used.max);
    return RT_OK;
}

static enum rt_status shrink_run(struct rt_run *r)
{
    struct kn_q_range used;
    enum rt_status st = kn_q_scalar(r, 1, "input_min");

    if (!st)
        st = kn_q_scalar(r, 2, "input_max");

    if (!st)
        st = used_range(r, &used);
    if (st)
        return st;
    kn_q_put_range(r, used);
    return convert(r, kn_q_range_of(r, 1, 2), used);
}

static enum rt_status requantize_run(struct rt_run *r)
{
    static const char *const name[] = {"input_min", "input_max", "requested_output_min",
                                       "requested_output_max"};

    for (int k = 1; k < 5; k++)
        if (kn_q_scalar(r, k, name[k - 1]))
            return r->err->code;
    const struct kn_q_range to = kn_q_range_of(r, 3, 4);
    if (!(to.min <= 0))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "requested_output_min must be <= 0, but got %g",
                       (double)to.min);
    if (!(to.max >= to.min))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "requested_output_max must be >= requested_output_min, but got %g and %g",
                       (double)to.max, (double)to.min);
    kn_q_put_range(r, to);
    return convert(r, kn_q_range_of(r, 1, 2), to);
}

/* ---- for each channel of the last axis ---- */

/* Sets *depth to the number of channels of input 0, and *n to the number of elements per
 * channel. */
static void channels_of(const struct rt_run *r, int64_t *depth, int64_t *n)
{
    const struct rt_tensor *t = &r->in[0];

    *depth = t->dim[t->rank - 1];
    *n = *depth ? rt_tensor_count(t) / *depth : 0;
}

/* Returns the larger of the absolute values of a range's bounds, or NaN if `min` is NaN. */
static float range_bound(float min, float max)
{
    return fabsf(min) < fabsf(max) ? fabsf(max) : fabsf(min);
}

static float channel_bound(const struct rt_run *r, int64_t channel)
{
    const int64_t at = rt_tensor_count(&r->in[1]) == 1 ? 0 : channel;

    return range_bound(((const float *)r->in[1].data)[at], ((const float *)r->in[2].data)[at]);
}

static enum rt_status check_channel_range(struct rt_run *r)
{
    static const char *const names[] = {"input_min", "input_max"};
    const int64_t depth = rt_tensor_count(&r->in[2]);

    /* TensorFlow compares the first dimension of each bound, so it also refuses a scalar. */
    for (int k = 0; k < 2; k++) {
        const int64_t n = r->in[1 + k].rank > 0 ? r->in[1 + k].dim[0] : 0;
        if (n != depth)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "%s has incorrect size, expected %lld was %lld", names[k],
                           (long long)depth, (long long)n);
    }
    if (rt_tensor_count(&r->in[1]) != depth)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "input_min must have the same number of elements as input_max, got %lld and "
                       "%lld",
                       (long long)rt_tensor_count(&r->in[1]), (long long)depth);
    if (rt_tensor_count(&r->in[0]) == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "input must not be empty");
    if (r->in[0].rank != 4)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "input must be in NHWC format");
    if (depth != r->in[0].dim[3])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "input must have same number of channels as length of input_min: %lld vs "
                       "%lld",
                       (long long)r->in[0].dim[3], (long long)depth);
    return RT_OK;
}

static enum rt_status channel_range_run(struct rt_run *r)
{
    const float clip = rt_attr_float(r->node, "clip_value_max");
    int64_t depth, n;
    float top = FLT_MIN;
    bool any_negative = false;

    if (check_channel_range(r))
        return r->err->code;
    channels_of(r, &depth, &n);
    for (int64_t c = 0; c < depth; c++) {
        int32_t low = INT32_MAX, high = INT32_MIN;
        for (int64_t i = 0; i < n; i++) {
            const int32_t q = ((const int32_t *)r->in[0].data)[i * depth + c];
            low = q < low ? q : low;
            high = q > high ? q : high;
            if (rt_run_spend(r, &r->left, 1))
                return r->err->code;
        }
        any_negative |= n && low < 0;
        const float largest = fmaxf(fabsf((float)low), fabsf((float)high));
        /* TensorFlow converts `largest` to int32, where 2^31 overflows. TensorFlow therefore
         * ignores a channel that contains the smallest or largest qint32. */
        if (!n || largest >= 0x1p31F)
            continue;
        const float value = channel_bound(r, c) * largest / 0x1p31F;
        top = value > top ? value : top;
    }
    top = top > clip ? clip : top;
    kn_q_put(r, 0, any_negative ? -top : 0);
    kn_q_put(r, 1, top);
    return RT_OK;
}

static enum rt_status check_requantize_channels(struct rt_run *r)
{
    const int64_t mins = rt_tensor_count(&r->in[1]), maxes = rt_tensor_count(&r->in[2]);

    if (r->in[0].rank != 4)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Current RequantizePerChannel operatorsupports 4D tensors only.");
    if (maxes != mins)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "input_max has incorrect size, expected %lld was %lld", (long long)mins,
                       (long long)maxes);
    for (int k = 3; k < 5; k++)
        if (rt_tensor_count(&r->in[k]) != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "requested_output_%s must be a scalar",
                           k == 3 ? "min" : "max");
    /* TensorFlow's kernel reads beyond the end of bounds that have too few elements. */
    if (mins != 1 && (mins == 0 || mins < r->in[0].dim[3]))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "input_min has incorrect size, expected %lld was %lld",
                       (long long)r->in[0].dim[3], (long long)mins);
    if (r->out[0].dtype == RT_QI8 && !(kn_q_float(r, 3) < 0))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "If out_type is QINT8, requested_output_max must be non negative, got %g",
                       (double)kn_q_float(r, 3));
    return RT_OK;
}

static enum rt_status requantize_channels_run(struct rt_run *r)
{
    const bool is_signed = r->out[0].dtype == RT_QI8;
    const float factor = is_signed ? 127 : 255, low = is_signed ? -128 : 0;
    int64_t depth, n;

    if (check_requantize_channels(r))
        return r->err->code;
    const struct kn_q_range to = kn_q_range_of(r, 3, 4);
    const float largest = range_bound(to.min, to.max);
    channels_of(r, &depth, &n);
    for (int64_t c = 0; c < (n ? depth : 0); c++) {
        const float scale = factor * (channel_bound(r, c) / largest / 0x1p31F);
        for (int64_t i = 0; i < n; i++) {
            float v = rintf((float)((const int32_t *)r->in[0].data)[i * depth + c] * scale);
            v = v > low ? v : low; /* NaN becomes the lowest integer */
            v = v > low + 255 ? low + 255 : v;
            ((uint8_t *)r->out[0].data)[i * depth + c] = (uint8_t)(int32_t)v;
            if (rt_run_spend(r, &r->left, 4))
                return r->err->code;
        }
    }
    kn_q_put_range(r, to);
    return RT_OK;
}

/* ---- registry entries ---- */

#define REQUANTIZE(symbol, op_, name_, infer_, rows_, attr_, types_, out_, out_types_, run_)       \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_, .infer = infer_, .rows = rows_},                                       \
        .kernels = KN_KERNELS({.op = op_,                                                          \
                               .device = "CPU",                                                    \
                               .name = name_,                                                      \
                               .type_attr = attr_,                                                 \
                               .types = types_,                                                    \
                               .and_type_attr = out_,                                              \
                               .and_types = out_types_,                                            \
                               .run = run_}),                                                      \
    }
#define EIGHT_BITS (RT_T(RT_QI8) | RT_T(RT_QU8))
REQUANTIZE(requantization_range, "RequantizationRange", "requantization_range", kn_infer_scalars,
           NULL, "Tinput", RT_T(RT_QI32), NULL, 0, range_run);
REQUANTIZE(requantization_range_per_channel, "RequantizationRangePerChannel",
           "requantization_range_channels", kn_infer_scalars, NULL, "T", RT_T(RT_QI32), NULL, 0,
           channel_range_run);
REQUANTIZE(requantize, "Requantize", "requantize", kn_q_infer_same, kn_q_rows_same, "Tinput",
           RT_T(RT_QI32), "out_type", EIGHT_BITS, requantize_run);
REQUANTIZE(requantize_per_channel, "RequantizePerChannel", "requantize_channels", kn_q_infer_same,
           NULL, "T", RT_T(RT_QI32), "out_type", EIGHT_BITS, requantize_channels_run);
REQUANTIZE(quantize_down_and_shrink_range, "QuantizeDownAndShrinkRange", "quantize_down",
           kn_q_infer_same, NULL, "Tinput", RT_T(RT_QI32), "out_type", RT_T(RT_QU8), shrink_run);
