/* QuantizedConcat and QuantizedConcatV2 join inputs along an axis. Each input has a range of its
 * own. The output's range contains the ranges of all inputs. */
#include "kernels/quant/quant.h"

#include <float.h>
#include <string.h>

/* The number of tensors to join, and the indices of inputs: the first tensor, the axis, the first
 * tensor's minimum and the first tensor's maximum. */
struct concat_inputs {
    int n, values, axis, mins, maxes;
};

static struct concat_inputs inputs_of(const struct rt_node *node)
{
    const bool v2 = strcmp(node->schema->name, "QuantizedConcatV2") == 0;
    const int n = (node->n_in - 1) / 3;

    return (struct concat_inputs){
        .n = n, .values = v2 ? 0 : 1, .axis = v2 ? n : 0, .mins = n + 1, .maxes = 2 * n + 1};
}

/* Unlike ConcatV2, these ops do not count axes from the end. */
static enum rt_status joined_shape(struct rt_infer *x, const struct concat_inputs *c, int64_t axis)
{
    const struct rt_info *v = x->in + c->values;
    const struct rt_shape *first = &v[0].shape;

    if (first->rank >= 0 && (axis < 0 || axis >= first->rank))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "ConcatOp : Expected concatenating dimensions in the range [0, %d), but got "
                       "%lld",
                       first->rank, (long long)axis);
    for (int k = 1; k < c->n; k++) {
        const struct rt_shape *s = &v[k].shape;
        if (!kn_shape_known(first) || !kn_shape_known(s) || s->rank != first->rank)
            continue;
        for (int d = 0; d < s->rank; d++)
            if (d != axis && s->dim[d] != first->dim[d])
                return rt_fail(x->err, RT_INVALID_ARGUMENT,
                               "ConcatOp : Dimensions of inputs should match: shape[0] = %s vs. "
                               "shape[%d] = %s",
                               KN_TEXT(first), k, KN_TEXT(s));
    }
    return kn_concat_shape(v, c->n, axis, &x->out[0].shape, x->err);
}

static enum rt_status concat_infer(struct rt_infer *x)
{
    const struct concat_inputs c = inputs_of(x->node);
    const struct rt_tensor *axis = x->in[c.axis].value;

    x->out[1].shape.rank = x->out[2].shape.rank = 0;
    if (!axis)
        return RT_OK;
    if (axis->rank != 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Concat dim tensor should be a scalar integer, but got shape %s",
                       KN_TEXT(axis));
    return joined_shape(x, &c, kn_int_at(axis, 0));
}

/* Sets *all to the range of the output, which contains the ranges of all inputs. The minimum of
 * this range is at most 0. As in TensorFlow, its maximum may be below 0. */
static enum rt_status joined_range(struct rt_run *r, const struct concat_inputs *c,
                                   struct kn_q_range *all)
{
    *all = (struct kn_q_range){FLT_MAX, -FLT_MAX};
    for (int k = 0; k < c->n; k++) {
        for (int b = 0; b < 2; b++) {
            const int64_t n = rt_tensor_count(&r->in[(b ? c->maxes : c->mins) + k]);
            if (n != 1)
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "input_%s each tensor's num elements must be 1, given num elements "
                               "%lld in index %d",
                               b ? "maxes" : "mins", (long long)n, k);
        }
        const float min = kn_q_float(r, c->mins + k), max = kn_q_float(r, c->maxes + k);
        all->min = min < all->min ? min : all->min;
        all->max = max > all->max ? max : all->max;
    }
    all->min = all->min < 0 ? all->min : 0;
    if (kn_q_type(kn_dtype(&r->in[c->values])).is_signed) {
        const float largest = -all->min > all->max ? -all->min : all->max;
        *all = (struct kn_q_range){-largest, largest};
    }
    return RT_OK;
}

/* Converts n integers from one range to another. */
static void convert(enum rt_dtype dtype, struct kn_q_range from, struct kn_q_range to,
                    const void *src, void *dst, int64_t n)
{
    const struct kn_q_decode d = kn_q_decoding(dtype, from);
    const struct kn_q_encode e = kn_q_encoding(dtype, to);

    if (from.min == to.min && from.max == to.max) {
        memcpy(dst, src, (size_t)n * rt_dtype_size(dtype));
        return;
    }
    switch (dtype) {
#define CASE(dt, T)                                                                                \
    case dt:                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((T *)dst)[i] =                                                                        \
                (T)(int32_t)kn_q_from_float(&e, kn_q_to_float(&d, ((const T *)src)[i]));           \
        break;
        KN_QUANTISED(CASE)
#undef CASE
    default:
        break;
    }
}

static enum rt_status concat_run(struct rt_run *r)
{
    enum { CHUNK = 4096 };
    const struct concat_inputs c = inputs_of(r->node);
    const enum rt_dtype dtype = kn_dtype(&r->in[c.values]);
    struct kn_q_range all;
    enum rt_status st = kn_outputs(r, concat_infer);
    int64_t outer = 1, row = 1, start = 0;

    if (!st)
        st = joined_range(r, &c, &all);
    if (st)
        return st;
    const struct rt_tensor *o = &r->out[0];
    const int64_t at = kn_int_at(&r->in[c.axis], 0), axis = at < 0 ? at + o->rank : at;
    for (int d = 0; d < o->rank; d++)
        *(d < axis ? &outer : &row) *= o->dim[d];
    for (int k = 0, used = 0; k < c.n; k++) {
        const struct rt_tensor *t = &r->in[c.values + k];
        int64_t len = 1;
        if (rt_tensor_count(t) == 0)
            continue;
        /* As in TensorFlow, ranges are assigned only to inputs that have elements. */
        const struct kn_q_range range = kn_q_range_of(r, c.mins + used, c.maxes + used);
        used++;
        for (int d = (int)axis; d < t->rank; d++)
            len *= t->dim[d];
        for (int64_t i = 0; i < outer; i++)
            for (int64_t from = 0, n; from < len; from += n) {
                n = kn_min_i64(len - from, CHUNK);
                convert(dtype, range, all, kn_at(t, i * len + from),
                        kn_at_mut(o, i * row + start + from), n);
                if (rt_run_spend(r, &r->left, 4 * n))
                    return r->err->code;
            }
        start += len;
    }
    kn_q_put_range(r, all);
    return RT_OK;
}

const struct kn_entry kn_quantized_concat = {
    .op = {.name = "QuantizedConcat", .shape_in = 1, .infer = concat_infer},
    .kernels = KN_CPU("QuantizedConcat", "quantized_concat", RT_T(RT_QU8) | RT_T(RT_QI32), NULL,
                      concat_run),
};
