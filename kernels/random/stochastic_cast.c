/* StochasticCastToInt rounds floating-point numbers to one of the two nearest integers, at random.
 * The expected value of the result is the number. */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/random/source.h"

struct limits { /* the smallest and the largest integer of the output's type */
    double low, high;
};

static struct limits limits_of(enum rt_dtype dtype)
{
    const double half = ldexp(1, 8 * (int)rt_dtype_size(dtype) - 1);
    return (struct limits){-half, half - 1};
}

/* Returns v, rounded to the type of the input. */
static double in_input_type(enum rt_dtype dtype, double v)
{
    switch (dtype) {
    case RT_F32:
        return (float)v;
    case RT_F16:
        return kn_from_f16(kn_to_f16((float)v));
    case RT_BF16:
        return kn_from_bf16(kn_to_bf16((float)v));
    default:
        return v;
    }
}

static double element_at(const struct rt_tensor *t, int64_t i)
{
    switch (kn_dtype(t)) {
    case RT_F32:
        return ((const float *)t->data)[i];
    case RT_F16:
        return kn_from_f16(((const struct kn_half *)t->data)[i]);
    case RT_BF16:
        return kn_from_bf16(((const struct kn_bfloat *)t->data)[i]);
    default:
        return ((const double *)t->data)[i];
    }
}

static void put_integer(struct rt_tensor *t, int64_t i, int32_t v)
{
    switch (kn_dtype(t)) {
    case RT_I8:
        ((int8_t *)t->data)[i] = (int8_t)v;
        break;
    case RT_I16:
        ((int16_t *)t->data)[i] = (int16_t)v;
        break;
    default:
        ((int32_t *)t->data)[i] = v;
        break;
    }
}

/* Rounds x away from zero if `random`, which is in [0, 1), is less than x's fractional part. */
static double rounded(double x, double random)
{
    const double whole = trunc(x);

    if (isinf(x) || random >= fabs(x - whole))
        return whole;
    return whole + copysign(1, x);
}

static enum rt_status cast_run(struct rt_run *r)
{
    enum { COST = 32 }; /* work per element */
    const struct rt_tensor *in = &r->in[0];
    const enum rt_dtype dtype = kn_dtype(in);
    struct kn_singles random = {.n_left = 0};
    enum rt_status st = kn_source_check(r, KN_FROM_KEY);

    if (!st)
        st = kn_source_take(r, KN_FROM_KEY, 0, &random.philox);
    if (st)
        return st;
    if (!kn_out(r, 0, in->rank, in->dim))
        return r->err->code;
    const struct limits out = limits_of(kn_dtype(&r->out[0]));
    /* TensorFlow clamps in the input's type. The largest integer, rounded to that type, can be
     * larger than every integer of the output's type. The conversion then yields the smallest. */
    const double highest = in_input_type(dtype, out.high);
    for (int64_t i = 0, n = rt_tensor_count(in); i < n; i++) {
        const double u =
            dtype == RT_F64 ? kn_single_double(&random) : kn_unit_float(kn_next_bits(&random));
        double v = rounded(element_at(in, i), u);
        v = v > highest ? highest : v < out.low ? out.low : v;
        put_integer(&r->out[0], i, isnan(v) ? 0 : v > out.high ? (int32_t)out.low : (int32_t)v);
        if (rt_run_spend(r, &r->left, COST))
            return r->err->code;
    }
    return RT_OK;
}

const struct kn_entry kn_stochastic_cast_to_int = {
    .op = {.name = "StochasticCastToInt", .infer = kn_infer_copy},
    .kernels = KN_KERNELS({.op = "StochasticCastToInt",
                           .device = "CPU",
                           .name = "stochastic_cast_to_int",
                           .type_attr = "Tin",
                           .types = RT_T(RT_F32) | RT_T(RT_F64) | RT_T(RT_F16) | RT_T(RT_BF16),
                           .run = cast_run}),
};
