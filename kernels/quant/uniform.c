/*
 * UniformQuantize, UniformDequantize, UniformRequantize and UniformQuantizedClipByValue. The value
 * of an integer q is (q - zero point) * scale. Scale and zero point are scalars, or vectors with an
 * element for each slice along an axis.
 */
#include "kernels/quant/uniform.h"

static void put(const struct rt_tensor *t, int64_t i, int64_t v)
{
    if (t->dtype == RT_QI32)
        ((int32_t *)t->data)[i] = (int32_t)v;
    else
        ((uint8_t *)t->data)[i] = (uint8_t)v;
}

/* ---- floats to integers and back ---- */

static enum rt_status quantize_run(struct rt_run *r)
{
    const float *x = r->in[0].data;
    const int64_t n = rt_tensor_count(&r->in[0]);
    struct kn_uniform u;

    if (kn_u_read(r, 1, kn_u_axis(r->node, ""), &r->in[0], &u) || kn_u_read_range(r, "", &u))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const int64_t s = kn_u_slice(&u, i);
        const float inverse = 1 / u.scale[s];
        const int32_t q = kn_u_to_int(floorf(x[i] * inverse + 0.5F));
        put(&r->out[0], i, kn_u_clamp(&u, (int32_t)((uint32_t)q + (uint32_t)u.zero[s])));
        if (rt_run_spend(r, &r->left, 4))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status dequantize_run(struct rt_run *r)
{
    float *y = r->out[0].data;
    const int64_t n = rt_tensor_count(&r->in[0]);
    struct kn_uniform u;

    if (kn_u_read(r, 1, kn_u_axis(r->node, ""), &r->in[0], &u) || kn_u_check_scales(r, 1, "rhs"))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const int64_t s = kn_u_slice(&u, i);
        const uint32_t q = (uint32_t)kn_u_rounded_at(&r->in[0], i) - (uint32_t)u.zero[s];
        y[i] = (float)(int32_t)q * u.scale[s];
        if (rt_run_spend(r, &r->left, 4))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- integers of one scale to another ---- */

/* Returns the quotient of the scales of two slices. */
static double quotient(const struct kn_uniform *from, int64_t a, const struct kn_uniform *to,
                       int64_t b)
{
    return (double)from->scale[a] / (double)to->scale[b];
}

static enum rt_status check_axes(struct rt_run *r)
{
    const int64_t in = kn_u_axis(r->node, "input_");
    const int64_t out = kn_u_axis(r->node, "output_");

    if (in >= 0 && out >= 0 && in != out)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "If input and output is both per-axis quantized, the quantization axis must "
                       "be same.");
    return RT_OK;
}

static enum rt_status check_factors(struct rt_run *r, const struct kn_uniform *from,
                                    const struct kn_uniform *to)
{
    const bool is_each = r->in[1].rank == 1, is_each_out = r->in[3].rank == 1;
    const int64_t n = is_each ? from->n : to->n;

    if (kn_u_check_scales(r, 1, "input/output") || kn_u_check_scales(r, 3, "input/output"))
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
    struct kn_uniform from, to;

    if (check_axes(r) || kn_u_read(r, 1, kn_u_axis(r->node, "input_"), &r->in[0], &from) ||
        kn_u_read(r, 3, kn_u_axis(r->node, "output_"), &r->in[0], &to) ||
        kn_u_read_range(r, "output_", &to) || check_factors(r, &from, &to))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const int64_t a = kn_u_slice(&from, i), b = kn_u_slice(&to, i);
        const struct kn_u_factor f = kn_u_factor_of(quotient(&from, a, &to, b));
        const int32_t q =
            (int32_t)((uint32_t)kn_u_rounded_at(&r->in[0], i) - (uint32_t)from.zero[a]);
        put(&r->out[0], i,
            kn_u_clamp(&to, (int32_t)((uint32_t)kn_u_scaled(&f, q) + (uint32_t)to.zero[b])));
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
    struct kn_uniform u;

    if (kn_u_read(r, 3, kn_u_axis(r->node, ""), &r->in[0], &u))
        return r->err->code;
    for (int k = 1; k < 3; k++)
        if (r->in[k].rank != r->in[3].rank ||
            rt_tensor_count(&r->in[k]) != rt_tensor_count(&r->in[3]))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Input min shape must be same as that of scales/zero_points.");
    for (int64_t i = 0; i < n; i++) {
        const int64_t s = kn_u_slice(&u, i);
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
