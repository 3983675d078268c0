/* QuantizedConcat and QuantizedConcatV2 join inputs along an axis. Each input has a range of its
 * own. The output's range contains the ranges of all inputs. */
#include "kernels/quant/quant.h"

#include <float.h>
#include <string.h>

/* The number of tensors to join, and the indices of inputs: the first tensor, the axis, the first
 * tensor's minimum and the first tensor's maximum. */
struct concat_inputs {
    int n, values, axis, mins, maxes;
    bool v2; /* whether the op is QuantizedConcatV2 */
};

static struct concat_inputs inputs_of(const struct rt_node *node)
{
    const bool v2 = strcmp(node->schema->name, "QuantizedConcatV2") == 0;
    const int n = (node->n_in - 1) / 3;

    return (struct concat_inputs){.n = n,
                                  .values = v2 ? 0 : 1,
                                  .axis = v2 ? n : 0,
                                  .mins = n + 1,
                                  .maxes = 2 * n + 1,
                                  .v2 = v2};
}

/* Fails if an input does not fit the first one. The ops name the difference in different words. */
static enum rt_status check_fit(const struct rt_infer *x, const struct concat_inputs *c,
                                int64_t axis, int k)
{
    const struct rt_shape *first = &x->in[c->values].shape, *s = &x->in[c->values + k].shape;

    if (c->v2 && s->rank != first->rank)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "_MklConcatOp : Ranks of all input tensors should match: input dimensions = "
                       "%d vs. expected rank = %d",
                       s->rank, first->rank);
    for (int d = 0; d < s->rank && s->rank == first->rank; d++) {
        if (d == axis || s->dim[d] == first->dim[d])
            continue;
        if (c->v2)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "_MklConcatOp : Dimensions of inputs should match: shape[0][%d]= %lld "
                           "vs. shape[%d][%d] = %lld",
                           d, (long long)first->dim[d], k, d, (long long)s->dim[d]);
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "ConcatOp : Dimensions of inputs should match: shape[0] = %s vs. shape[%d] "
                       "= %s",
                       KN_TEXT(first), k, KN_TEXT(s));
    }
    return RT_OK;
}

/* QuantizedConcat does not count axes from the end. */
static enum rt_status joined_shape(struct rt_infer *x, const struct concat_inputs *c, int64_t axis)
{
    const struct rt_info *v = x->in + c->values;
    const struct rt_shape *first = &v[0].shape;
    const int lowest = c->v2 && first->rank > 0 ? -first->rank : 0;

    if (first->rank >= 0 && (axis < lowest || axis >= first->rank))
        return rt_fail(
            x->err, RT_INVALID_ARGUMENT,
            "ConcatOp : Expected concatenating dimensions in the range [%d, %d), but got "
            "%lld",
            lowest, first->rank, (long long)axis);
    axis = axis < 0 && first->rank > 0 ? axis + first->rank : axis;
    for (int k = 1; k < c->n; k++) {
        const struct rt_shape *s = &v[k].shape;
        const enum rt_status st =
            kn_shape_known(first) && kn_shape_known(s) ? check_fit(x, c, axis, k) : RT_OK;
        if (st)
            return st;
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

/* Fails unless the minimum or the maximum of tensor k is a single number. */
static enum rt_status check_bound(struct rt_run *r, const struct concat_inputs *c, int k, bool max)
{
    const struct rt_tensor *t = &r->in[(max ? c->maxes : c->mins) + k];
    const char *name = max ? "maxes" : "mins";

    if (c->v2 && t->rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "`input_%s[%d]` must be rank 0 but is rank %d",
                       name, k, t->rank);
    if (rt_tensor_count(t) != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "input_%s each tensor's num elements must be 1, given num elements %lld in "
                       "index %d",
                       name, (long long)rt_tensor_count(t), k);
    return RT_OK;
}

/* Sets *all to the range of the output, which contains the ranges of all inputs, except that
 * QuantizedConcatV2 begins the range of unsigned integers at 0. The minimum is at most 0. As in
 * TensorFlow, the maximum may be below 0. */
static enum rt_status joined_range(struct rt_run *r, const struct concat_inputs *c,
                                   struct kn_q_range *all)
{
    *all = (struct kn_q_range){FLT_MAX, -FLT_MAX};
    for (int k = 0; k < c->n; k++) {
        for (int b = 0; b < 2; b++) {
            const enum rt_status st = check_bound(r, c, k, b);
            if (st)
                return st;
        }
        const float min = kn_q_float(r, c->mins + k), max = kn_q_float(r, c->maxes + k);
        all->min = min < all->min ? min : all->min;
        all->max = max > all->max ? max : all->max;
    }
    all->min = all->min < 0 ? all->min : 0;
    if (kn_q_type(kn_dtype(&r->in[c->values])).is_signed) {
        const float max = c->v2 ? fabsf(all->max) : all->max;
        const float largest = -all->min > max ? -all->min : max;
        *all = (struct kn_q_range){-largest, largest};
    } else if (c->v2) {
        all->min = 0;
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
const struct kn_entry kn_quantized_concat_v2 = {
    .op = {.name = "QuantizedConcatV2", .infer = concat_infer},
    .kernels = KN_CPU("QuantizedConcatV2", "quantized_concat_v2", RT_T(RT_QU8) | RT_T(RT_QI8), NULL,
                      concat_run),
};
