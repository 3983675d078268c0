/*
 * Element-wise ops on quantised types: QuantizedAdd, QuantizedMul, QuantizedBiasAdd, QuantizedRelu,
 * QuantizedRelu6 and QuantizedReshape.
 */
#include "kernels/quant/quant.h"

#include <string.h>

#include "kernels/math/elementwise.h"

enum { CHUNK = 4096 }; /* number of elements between two deadline checks */

/* ---- addition and multiplication with broadcasting ---- */

static enum rt_status each_infer(struct rt_infer *x)
{
    for (int k = 1; k < x->n_out; k++)
        x->out[k].shape.rank = 0;
    return kn_infer_broadcast(x);
}

static enum rt_status check_ranges(struct rt_run *r, int first, const char *const *name)
{
    for (int k = 0; k < 4; k++)
        if (kn_q_scalar(r, first + k, name[k]))
            return r->err->code;
    return RT_OK;
}

static const char *const each_names[] = {"min_x", "max_x", "min_y", "max_y"};

/* Returns whether the shapes are equal without their leading dimensions of 1. */
static bool same_shape(const struct rt_tensor *a, const struct rt_tensor *b)
{
    for (int k = 1; k <= a->rank || k <= b->rank; k++)
        if ((k <= a->rank ? a->dim[a->rank - k] : 1) != (k <= b->rank ? b->dim[b->rank - k] : 1))
            return false;
    return true;
}

/* Refuses empty ranges. Refuses an empty operand unless the shapes are the same or the other
 * operand has one element. The arguments from min_x on are parts of TensorFlow's messages. */
static enum rt_status check_operands(struct rt_run *r, struct kn_q_range x, struct kn_q_range y,
                                     const char *max_y, const char *min_x, const char *min_y,
                                     const char *empty)
{
    const int64_t a = rt_tensor_count(&r->in[0]), b = rt_tensor_count(&r->in[1]);

    if (!(x.max > x.min))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "max_x must be larger than %s.", min_x);
    if (!(y.max > y.min))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must be larger than %s.", max_y, min_y);
    if (a != 1 && b != 1 && (a == 0 || b == 0) && !same_shape(&r->in[0], &r->in[1]))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s", empty);
    return RT_OK;
}

static enum rt_status mul_run(struct rt_run *r)
{
    const int64_t n = rt_tensor_count(&r->out[0]);
    int64_t place[RT_MAX_RANK] = {0}, at[2] = {0};
    struct kn_q_each e;

    for (int k = 0; k < 4; k++)
        if (r->in[2 + k].rank != 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must be a scalar", each_names[k]);
    const struct kn_q_range x = kn_q_range_of(r, 2, 3), y = kn_q_range_of(r, 4, 5);
    if (check_operands(r, x, y, "max_x", "min_a", "min_b", "vector must have at least 1 element"))
        return r->err->code;
    const int32_t zero[] = {(int32_t)kn_q_unclamped(RT_QU8, 0, x),
                            (int32_t)kn_q_unclamped(RT_QU8, 0, y)};
    kn_q_each_of(r, &e);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t a = (uint32_t)kn_q_at(&r->in[0], at[0]) - (uint32_t)zero[0];
        const uint32_t b = (uint32_t)kn_q_at(&r->in[1], at[1]) - (uint32_t)zero[1];
        ((int32_t *)r->out[0].data)[i] = (int32_t)(a * b);
        kn_q_advance(&e, place, at);
        if (rt_run_spend(r, &r->left, 4))
            return r->err->code;
    }
    kn_q_put_range(r, kn_q_product_range(kn_dtype(&r->in[0]), x, kn_dtype(&r->in[1]), y, RT_QI32));
    return RT_OK;
}

/* Returns b if it is larger than a, otherwise a. Thus, NaN in a is returned, and NaN in b is not.
 */
static float max_of(float a, float b)
{
    return a < b ? b : a;
}

/* Returns the qint32 range of sums. Its bounds are 2^bits times the largest absolute bound of a and
 * b, so that sums do not overflow. */
static struct kn_q_range sum_range(struct kn_q_range a, struct kn_q_range b, int bits)
{
    const float largest = max_of(a.max, max_of(-a.min, max_of(b.max, -b.min))) * (float)(1 << bits);

    return (struct kn_q_range){-largest, largest};
}

/* Converts an integer quantised in the range `from` to qint32 in the range `to`. */
static int32_t widened(enum rt_dtype dtype, int32_t q, struct kn_q_range from, struct kn_q_range to)
{
    return (int32_t)kn_q_integer(RT_QI32, kn_q_value(dtype, q, from), to);
}

/* For each integer of quint8, stores the qint32 integer of equal value in the range of the sum. If
 * `linear` is set, all entries are extrapolated from those of 0 and 1, as in TensorFlow. */
static void fill_table(int32_t *table, bool linear, struct kn_q_range from, struct kn_q_range to)
{
    const int64_t zero = kn_q_unclamped(RT_QI32, kn_q_value(RT_QU8, 0, from), to);
    const int64_t one = kn_q_unclamped(RT_QI32, kn_q_value(RT_QU8, 1, from), to);
    const int32_t step = (int32_t)(one - zero);

    for (int k = 0; k < 256; k++) {
        const int64_t v = zero + (int64_t)k * step;
        table[k] = !linear         ? widened(RT_QU8, k, from, to)
                   : v < INT32_MIN ? INT32_MIN
                   : v > INT32_MAX ? INT32_MAX
                                   : (int32_t)v;
    }
}

static enum rt_status add_run(struct rt_run *r)
{
    const int64_t n = rt_tensor_count(&r->out[0]);
    int64_t place[RT_MAX_RANK] = {0}, at[2] = {0};
    struct kn_q_each e;

    if (check_ranges(r, 2, each_names))
        return r->err->code;
    const struct kn_q_range x = kn_q_range_of(r, 2, 3), y = kn_q_range_of(r, 4, 5);
    const struct kn_q_range to = sum_range(x, y, 14);
    const bool one_x = rt_tensor_count(&r->in[0]) == 1, one_y = rt_tensor_count(&r->in[1]) == 1;
    int32_t table[2][256];
    if (check_operands(r, x, y, "max_y", "min_x", "min_y", "Must have some elements to add"))
        return r->err->code;
    fill_table(table[0], !one_x, x, to);
    fill_table(table[1], !one_y || one_x, y, to);
    kn_q_each_of(r, &e);
    for (int64_t i = 0; i < n; i++) {
        const uint8_t a = ((const uint8_t *)r->in[0].data)[at[0]];
        const uint8_t b = ((const uint8_t *)r->in[1].data)[at[1]];
        ((int32_t *)r->out[0].data)[i] = (int32_t)((uint32_t)table[0][a] + (uint32_t)table[1][b]);
        kn_q_advance(&e, place, at);
        if (rt_run_spend(r, &r->left, 4))
            return r->err->code;
    }
    kn_q_put_range(r, to);
    return RT_OK;
}

/* ---- bias ---- */

static enum rt_status bias_infer(struct rt_infer *x)
{
    for (int k = 1; k < x->n_out; k++)
        x->out[k].shape.rank = 0;
    const struct rt_shape *v = &x->in[0].shape, *b = &x->in[1].shape;
    if (v->rank >= 0 && v->rank < 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input tensor must be at least 2D: %s",
                       KN_TEXT(v));
    if (b->rank >= 0 && b->rank != 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Biases must be 1D: %s", KN_TEXT(b));
    if (v->rank > 0 && b->rank == 1 && v->dim[v->rank - 1] >= 0 && b->dim[0] >= 0 &&
        v->dim[v->rank - 1] != b->dim[0])
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Must provide as many biases as the last dimension of the input tensor: %s "
                       "vs. %s",
                       KN_TEXT(b), KN_TEXT(v));
    x->out[0].shape = *v;
    return RT_OK;
}

static enum rt_status bias_run(struct rt_run *r)
{
    static const char *const names[] = {"min_input", "max_input", "min_bias", "max_bias"};
    const int64_t n = rt_tensor_count(&r->out[0]), width = r->in[1].dim[0];
    const enum rt_dtype dtype = kn_dtype(&r->in[0]);

    if (check_ranges(r, 2, names))
        return r->err->code;
    if (width == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Must provide at least 1 bias");
    const struct kn_q_range x = kn_q_range_of(r, 2, 3), y = kn_q_range_of(r, 4, 5);
    const struct kn_q_range to = sum_range(x, y, 17);
    const struct kn_q_decode d[] = {kn_q_decoding(dtype, x), kn_q_decoding(dtype, y)};
    const struct kn_q_encode e = kn_q_encoding(RT_QI32, to);
    /* The integer of 0 in the range of the sum differs from 0 where the bounds are rounded. */
    const uint32_t zero = (uint32_t)kn_q_integer(RT_QI32, 0, to);
    int32_t table[2][256];
    for (int k = 0; k < 256; k++) {
        const int q = dtype == RT_QI8 ? (int8_t)k : k;
        table[0][k] = (int32_t)kn_q_from_float(&e, kn_q_to_float(&d[0], q));
        table[1][k] = (int32_t)kn_q_from_float(&e, kn_q_to_float(&d[1], q));
    }
    for (int64_t i = 0; i < n; i++) {
        const uint8_t a = ((const uint8_t *)r->in[0].data)[i];
        const uint8_t b = ((const uint8_t *)r->in[1].data)[i % width];
        const uint32_t sum = (uint32_t)table[0][a] + (uint32_t)table[1][b];
        ((int32_t *)r->out[0].data)[i] = (int32_t)(sum + zero);
        if (rt_run_spend(r, &r->left, 4))
            return r->err->code;
    }
    kn_q_put_range(r, to);
    return RT_OK;
}

/* ---- activations ---- */

/* Clamps integers to the quantised value of 0 and, for Relu6, to the quantised value of 6. */
static enum rt_status relu_run(struct rt_run *r)
{
    const enum rt_dtype dtype = kn_dtype(&r->in[0]);
    const int64_t n = rt_tensor_count(&r->in[0]);
    const bool six = strcmp(r->node->schema->name, "QuantizedRelu6") == 0;

    if (kn_q_scalar(r, 1, "min_input") || kn_q_scalar(r, 2, "max_input"))
        return r->err->code;
    const struct kn_q_range range = kn_q_range_of(r, 1, 2);
    const int32_t low = (int32_t)kn_q_integer(dtype, 0, range);
    const int32_t high = six ? (int32_t)kn_q_integer(dtype, 6, range) : INT32_MAX;
    for (int64_t i = 0; i < n; i++) {
        int32_t q = kn_q_at(&r->in[0], i);
        q = q < low ? low : q;
        q = q > high ? high : q;
        if (dtype == RT_QI32)
            ((int32_t *)r->out[0].data)[i] = q;
        else
            ((uint8_t *)r->out[0].data)[i] = (uint8_t)q;
        if (rt_run_spend(r, &r->left, 2))
            return r->err->code;
    }
    kn_q_put_range(r, range);
    return RT_OK;
}

/* ---- registry entries ---- */

#define EACH(symbol, op_, name_, infer_, rows_, attr_, types_, and_, and_types_, run_)             \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_, .infer = infer_, .rows = rows_},                                       \
        .kernels = KN_KERNELS({.op = op_,                                                          \
                               .device = "CPU",                                                    \
                               .name = name_,                                                      \
                               .type_attr = attr_,                                                 \
                               .types = types_,                                                    \
                               .and_type_attr = and_,                                              \
                               .and_types = and_types_,                                            \
                               .takes = takes,                                                     \
                               .run = run_}),                                                      \
    }

/* Accepts the combinations of types that TensorFlow's kernels accept. Arithmetic takes two equal
 * types of 8 bits and returns qint32. Activations take and return the same type. */
static bool takes(const struct rt_node *n)
{
    if (n->n_in == 3)
        return n->in_dtype[0] == n->out_dtype[0];
    return n->in_dtype[0] == n->in_dtype[1] && n->out_dtype[0] == RT_QI32;
}

EACH(quantized_add, "QuantizedAdd", "quantized_add", each_infer, NULL, "T1", RT_T(RT_QU8), "T2",
     RT_T(RT_QU8), add_run);
EACH(quantized_mul, "QuantizedMul", "quantized_mul", each_infer, NULL, "T1", RT_T(RT_QU8), "T2",
     RT_T(RT_QU8), mul_run);
EACH(quantized_bias_add, "QuantizedBiasAdd", "quantized_bias_add", bias_infer, kn_q_rows_same, "T1",
     RT_T(RT_QU8) | RT_T(RT_QI8), NULL, 0, bias_run);
EACH(quantized_relu, "QuantizedRelu", "quantized_relu", kn_q_infer_same, kn_q_rows_same, "Tinput",
     RT_T(RT_QU8) | RT_T(RT_QI32), NULL, 0, relu_run);
EACH(quantized_relu6, "QuantizedRelu6", "quantized_relu6", kn_q_infer_same, kn_q_rows_same,
     "Tinput", RT_T(RT_QU8) | RT_T(RT_QI32), NULL, 0, relu_run);
