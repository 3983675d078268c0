#include "kernels/quant/quant.h"

#include <string.h>

struct kn_q_type kn_q_type(enum rt_dtype dtype)
{
    switch (dtype) {
    case RT_QI8:
        return (struct kn_q_type){INT8_MIN, INT8_MAX, 0x1p8, true};
    case RT_QU8:
        return (struct kn_q_type){0, UINT8_MAX, 0x1p8, false};
    case RT_QI16:
        return (struct kn_q_type){INT16_MIN, INT16_MAX, 0x1p16, true};
    case RT_QU16:
        return (struct kn_q_type){0, UINT16_MAX, 0x1p16, false};
    default:
        return (struct kn_q_type){INT32_MIN, INT32_MAX, 0x1p32, true};
    }
}

struct kn_q_decode kn_q_decoding(enum rt_dtype dtype, struct kn_q_range range)
{
    const struct kn_q_type t = kn_q_type(dtype);
    struct kn_q_decode d = {.scale = (float)((double)(range.max - range.min) / (t.levels - 1))};

    d.min_rounded = range.min == range.max ? range.min : roundf(range.min / d.scale) * d.scale;
    d.offset = d.min_rounded - (float)t.lowest * d.scale;
    return d;
}

struct kn_q_encode kn_q_encoding(enum rt_dtype dtype, struct kn_q_range range)
{
    const struct kn_q_type t = kn_q_type(dtype);
    const float width = range.max - range.min;
    struct kn_q_encode e = {
        .scale = range.min == range.max ? 0 : (float)((t.levels - 1) / (double)width),
        .low = (float)t.lowest,
        /* 2^31 - 128 is the largest float that an int32 can hold. */
        .high = dtype == RT_QI32 ? 2147483520.0F : (float)t.highest,
    };

    e.shift = roundf(range.min * e.scale) - (float)t.lowest;
    return e;
}

float kn_q_value(enum rt_dtype dtype, double q, struct kn_q_range range)
{
    const struct kn_q_type t = kn_q_type(dtype);
    const double width = (double)(range.max - range.min) * (t.levels / (t.levels - 1));
    const double scale = width / t.levels;

    if (range.min == range.max)
        return range.min;
    /* The lowest value is rounded to float, so that it equals the lowest value in struct
     * kn_q_decode. */
    const double lowest = (double)(roundf(range.min / (float)scale) * (float)scale);
    /* As in TensorFlow, the integer is rounded to float. */
    return (float)(lowest + ((double)(float)q - t.lowest) * scale);
}

int64_t kn_q_unclamped(enum rt_dtype dtype, float x, struct kn_q_range range)
{
    const struct kn_q_type t = kn_q_type(dtype);
    const double width = (double)(range.max - range.min) * (t.levels / (t.levels - 1));
    const double scale = t.levels / width;

    if (range.min == range.max)
        return (int64_t)t.lowest;
    const double q = round((double)x * scale) - round((double)range.min * scale) + t.lowest;
    return (int64_t)(q >= -0x1p63 && q < 0x1p63 ? q : -0x1p63);
}

int64_t kn_q_integer(enum rt_dtype dtype, float x, struct kn_q_range range)
{
    const struct kn_q_type t = kn_q_type(dtype);
    const int64_t q = kn_q_unclamped(dtype, x, range);

    return q < (int64_t)t.lowest    ? (int64_t)t.lowest
           : q > (int64_t)t.highest ? (int64_t)t.highest
                                    : q;
}

float kn_q_step(enum rt_dtype dtype, struct kn_q_range range)
{
    const struct kn_q_type t = kn_q_type(dtype);

    return (float)((double)(range.max - range.min) / (t.highest - t.lowest));
}

struct kn_q_range kn_q_product_range(enum rt_dtype a, struct kn_q_range range_a, enum rt_dtype b,
                                     struct kn_q_range range_b, enum rt_dtype out)
{
    const struct kn_q_type t = kn_q_type(out);
    const float step = kn_q_step(a, range_a) * kn_q_step(b, range_b);

    return (struct kn_q_range){step * (float)t.lowest, step * (float)t.highest};
}

enum rt_status kn_q_scalar(struct rt_run *r, int k, const char *name)
{
    const struct rt_tensor *t = &r->in[k];

    if (t->rank == 0)
        return RT_OK;
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "`%s` must be rank 0 but is rank %d", name,
                   t->rank);
}

int32_t kn_q_at(const struct rt_tensor *t, int64_t i)
{
    switch ((enum rt_dtype)t->dtype) {
#define CASE(dt, T)                                                                                \
    case dt:                                                                                       \
        return ((const T *)t->data)[i];
        KN_QUANTISED(CASE)
#undef CASE
    default:
        return 0;
    }
}

static void set_steps(struct kn_q_each *e, int k, const struct rt_tensor *t)
{
    int64_t step = 1;

    for (int d = e->out.rank - 1; d >= 0; d--) {
        const int at = d - (e->out.rank - t->rank);
        e->step[k][d] = at >= 0 && t->dim[at] != 1 ? step : 0;
        step *= at >= 0 ? t->dim[at] : 1;
    }
}

void kn_q_each_of(const struct rt_run *r, struct kn_q_each *e)
{
    e->out.rank = r->out[0].rank;
    memcpy(e->out.dim, r->out[0].dim, sizeof e->out.dim);
    set_steps(e, 0, &r->in[0]);
    set_steps(e, 1, &r->in[1]);
}

void kn_q_advance(const struct kn_q_each *e, int64_t *place, int64_t *at)
{
    for (int d = e->out.rank - 1; d >= 0; d--) {
        at[0] += e->step[0][d];
        at[1] += e->step[1][d];
        if (++place[d] < e->out.dim[d])
            return;
        at[0] -= place[d] * e->step[0][d];
        at[1] -= place[d] * e->step[1][d];
        place[d] = 0;
    }
}

enum rt_status kn_q_infer_same(struct rt_infer *x)
{
    x->out[0].shape = x->in[0].shape;
    for (int k = 1; k < x->n_out; k++)
        x->out[k].shape.rank = 0;
    return RT_OK;
}

void kn_q_rows_same(struct rt_rows *r)
{
    rt_rows_same(r);
    for (int k = 1; k < r->n_out; k++)
        if (r->out_dep[0].kind != RT_DEP_MIXED)
            r->out_dep[k].kind = RT_DEP_NONE;
}
