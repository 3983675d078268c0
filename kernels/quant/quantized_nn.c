/*
 * QuantizedAvgPool, QuantizedMaxPool and QuantizedBatchNormWithGlobalNormalization. Pooling ops
 * return the range of their input.
 */
#include "kernels/quant/quant.h"

#include <string.h>

#include "kernels/nn/window.h"

/* ---- poolings ---- */

static enum rt_status pool_axes(const struct rt_node *n, const struct rt_shape *in,
                                struct kn_axis *axis, struct rt_error *err)
{
    const int64_t *k, *s;

    if (rt_attr_ints(n, "ksize", &k) != 4)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Sliding window ksize field must specify 4 dimensions");
    if (rt_attr_ints(n, "strides", &s) != 4)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Sliding window strides field must specify 4 dimensions");
    if (k[0] != 1 || s[0] != 1)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Pooling is not yet supported on the batch dimension.");
    if (k[3] != 1 || s[3] != 1)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Non-spatial pooling is not yet supported. Volunteers? :)");
    for (int i = 0; i < 2; i++) {
        if (kn_check_i32("ksize", k[1 + i], err) || kn_check_i32("strides", s[1 + i], err))
            return err->code;
        if (k[1 + i] <= 0 || s[1 + i] <= 0)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Sliding window ksize and strides must be positive");
        axis[i] = (struct kn_axis){
            .in = in->dim[1 + i], .size = k[1 + i], .stride = s[1 + i], .dilation = 1, .out = -1};
        const enum rt_status st = kn_axis_solve(&axis[i], kn_padding(n), err);
        if (st)
            return st;
    }
    return RT_OK;
}

static enum rt_status pool_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    struct kn_axis axis[2];

    for (int k = 1; k < 3; k++)
        x->out[k].shape.rank = 0;
    if (in->rank < 0)
        return RT_OK;
    if (in->rank != 4)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "tensor_in_shape must have 2 spatial dimensions. %d 0", in->rank);
    const enum rt_status st = pool_axes(x->node, in, axis, x->err);
    if (st)
        return st;
    x->out[0].shape =
        (struct rt_shape){.rank = 4, .dim = {in->dim[0], axis[0].out, axis[1].out, in->dim[3]}};
    return RT_OK;
}

/* Sets *out to the pooled value of a window of one channel. `first` is the first element of the
 * image. */
static enum rt_status pool_window(struct rt_run *r, const struct kn_axis *axis, int64_t row,
                                  int64_t column, int64_t channel, int64_t first, bool average,
                                  uint8_t *out)
{
    const int64_t channels = r->in[0].dim[3];
    int64_t top, bottom, left, right, sum = 0;
    int32_t most = (int32_t)kn_q_type(kn_dtype(&r->in[0])).lowest;

    kn_axis_inside(&axis[0], row, &top, &bottom);
    kn_axis_inside(&axis[1], column, &left, &right);
    for (int64_t i = top; i < bottom; i++)
        for (int64_t j = left; j < right; j++) {
            const int64_t at = (row * axis[0].stride - axis[0].lo + i) * axis[1].in +
                               column * axis[1].stride - axis[1].lo + j;
            const int32_t q = kn_q_at(&r->in[0], first + at * channels + channel);
            sum += q;
            most = q > most ? q : most;
            if (rt_run_spend(r, &r->left, 2))
                return r->err->code;
        }
    const int64_t n = (bottom - top) * (right - left);
    *out = (uint8_t)(!average ? most : n ? (int32_t)(sum / n) : 0);
    return rt_run_spend(r, &r->left, 1);
}

static enum rt_status pool_run(struct rt_run *r)
{
    const bool average = strcmp(r->node->schema->name, "QuantizedAvgPool") == 0;
    const struct rt_tensor *t = &r->in[0], *o = &r->out[0];
    const struct rt_shape in = {.rank = 4, .dim = {t->dim[0], t->dim[1], t->dim[2], t->dim[3]}};
    struct kn_axis axis[2];
    uint8_t *y = o->data;

    for (int k = 1; k < 3; k++)
        if (r->in[k].rank != 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "%s_input shape must be rank 0 but is rank %d, received shape: %s",
                           k == 1 ? "min" : "max", r->in[k].rank, KN_TEXT(&r->in[k]));
    if (pool_axes(r->node, &in, axis, r->err))
        return r->err->code;
    kn_q_put_range(r, kn_q_range_of(r, 1, 2));
    if (rt_tensor_count(o) == 0)
        return RT_OK;
    for (int64_t b = 0; b < o->dim[0]; b++)
        for (int64_t i = 0; i < o->dim[1]; i++)
            for (int64_t j = 0; j < o->dim[2]; j++)
                for (int64_t c = 0; c < o->dim[3]; c++) {
                    const int64_t first = b * t->dim[1] * t->dim[2] * t->dim[3];
                    if (pool_window(r, axis, i, j, c, first, average, y++))
                        return r->err->code;
                }
    return RT_OK;
}

/* ---- batch normalisation ---- */

static enum rt_status norm_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    static const char *const name[] = {"mean", "var", "beta", "gamma"};

    for (int k = 1; k < 3; k++)
        x->out[k].shape.rank = 0;
    if (in->rank >= 0 && in->rank != 4)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "input must be 4-dimensional%s", KN_TEXT(in));
    for (int k = 0; k < 4; k++) {
        const struct rt_shape *s = &x->in[3 * (k + 1)].shape;
        if (s->rank >= 0 && s->rank != 1)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "%s must be 1-dimensional%s", name[k],
                           KN_TEXT(s));
        if (in->rank == 4 && s->rank == 1 && in->dim[3] >= 0 && s->dim[0] >= 0 &&
            s->dim[0] != in->dim[3])
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Must provide as many %s as the last dimension of the input tensor: %s "
                           "vs. %s",
                           name[k], KN_TEXT(s), KN_TEXT(in));
    }
    x->out[0].shape = *in;
    return RT_OK;
}

/* Returns the value of element i of the quantised vector at input k. Inputs k + 1 and k + 2 hold
 * the vector's range. */
static float norm_value(const struct rt_run *r, int k, int64_t i)
{
    return kn_q_value(kn_dtype(&r->in[k]), kn_q_at(&r->in[k], i), kn_q_range_of(r, k + 1, k + 2));
}

static enum rt_status norm_run(struct rt_run *r)
{
    const struct kn_q_range to = {-(1 << 20), 1 << 20};
    const int64_t depth = r->in[0].dim[3], n = rt_tensor_count(&r->in[0]);
    const float epsilon = rt_attr_float(r->node, "variance_epsilon");
    const bool with_gamma = rt_attr_bool(r->node, "scale_after_normalization");
    const int64_t one = kn_q_integer(RT_QI32, 1, to);

    for (int k = 1; k < 15; k += k % 3 == 1 ? 1 : 2)
        if (r->in[k].rank != 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "input %d must be rank 0 but is rank %d", k,
                           r->in[k].rank);
    static const char *const names[] = {"mean", "variance", "beta", "gamma"};
    for (int k = 0; k < 4; k++)
        if (rt_tensor_count(&r->in[3 * (k + 1)]) < 2) /* as in TensorFlow, one element is refused */
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Must have at least a %s value%s", names[k],
                           KN_TEXT(&r->in[3 * (k + 1)]));
    const struct kn_q_range from = kn_q_range_of(r, 1, 2);
    for (int64_t c = 0; c < depth; c++) {
        const float deviation = sqrtf(norm_value(r, 6, c) + epsilon);
        const float scale = (with_gamma ? norm_value(r, 12, c) : 1) / deviation;
        const float offset = -norm_value(r, 3, c) * scale + norm_value(r, 9, c);
        const int64_t scale_q = kn_q_integer(RT_QI32, scale, to);
        const int64_t offset_q = kn_q_integer(RT_QI32, offset, to);
        for (int64_t i = c; i < n; i += depth) {
            const float value = kn_q_value(RT_QU8, kn_q_at(&r->in[0], i), from);
            const int64_t q = kn_q_integer(RT_QI32, value, to);
            ((int32_t *)r->out[0].data)[i] = (int32_t)(q * scale_q / one + offset_q);
            if (rt_run_spend(r, &r->left, 16))
                return r->err->code;
        }
    }
    kn_q_put_range(r, to);
    return RT_OK;
}

/* ---- registry entries ---- */

#define EIGHT_BITS (RT_T(RT_QU8) | RT_T(RT_QI8))
const struct kn_entry kn_quantized_avg_pool = {
    .op = {.name = "QuantizedAvgPool", .infer = pool_infer},
    .kernels = KN_CPU("QuantizedAvgPool", "quantized_avg_pool", EIGHT_BITS, NULL, pool_run),
};
const struct kn_entry kn_quantized_max_pool = {
    .op = {.name = "QuantizedMaxPool", .infer = pool_infer},
    .kernels = KN_CPU("QuantizedMaxPool", "quantized_max_pool", EIGHT_BITS, NULL, pool_run),
};
const struct kn_entry kn_quantized_batch_norm_with_global_normalization = {
    .op = {.name = "QuantizedBatchNormWithGlobalNormalization", .infer = norm_infer},
    .kernels = KN_KERNELS({.op = "QuantizedBatchNormWithGlobalNormalization",
                           .device = "CPU",
                           .name = "quantized_batch_norm",
                           .type_attr = "Tinput",
                           .types = RT_T(RT_QU8),
                           .and_type_attr = "out_type",
                           .and_types = RT_T(RT_QI32),
                           .run = norm_run}),
};
