/*
 * UniformQuantizedDot, UniformQuantizedDotHybrid and UniformQuantizedAdd. The right factor of a
 * product has one scale and zero point, or one of each for every column.
 */
#include <string.h>

#include "kernels/math/elementwise.h"
#include "kernels/quant/uniform.h"

/* ---- products ---- */

static bool is_hybrid(const struct rt_node *n)
{
    return n->n_in == 4;
}

static enum rt_status dot_check(const struct rt_node *n, struct rt_error *err)
{
    static const char *const prefix[] = {"rhs_", "output_"};

    if (!is_hybrid(n) && kn_u_axis(n, "lhs_") != -1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "lhs_quantization_axis Attr must be -1 (per-tensor).");
    for (int k = 0; k < (is_hybrid(n) ? 1 : 2); k++) {
        const int64_t axis = kn_u_axis(n, prefix[k]);
        if (axis != -1 && axis != 1)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "%squantization_axis Attr must be 1 (per-channel) or -1 (per-tensor).",
                           prefix[k]);
    }
    return RT_OK;
}

static enum rt_status dot_infer(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;
    struct rt_shape *o = &x->out[0].shape;

    if (dot_check(x->node, x->err))
        return x->err->code;
    for (int k = 0; k < 2; k++)
        if (x->in[k].shape.rank >= 0 && x->in[k].shape.rank != 2)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "%s rank must be 2, but given %s shape %s",
                           k ? "rhs" : "lhs", k ? "rhs" : "lhs", KN_TEXT(&x->in[k].shape));
    if (a->rank == 2 && b->rank == 2 && a->dim[1] >= 0 && b->dim[0] >= 0 && a->dim[1] != b->dim[0])
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "lhs.dim_size(1) and rhs.dim_size(0) must be equal, but given lhs shape %s "
                       "and rhs shape %s",
                       KN_TEXT(a), KN_TEXT(b));
    o->rank = 2;
    o->dim[0] = a->rank == 2 ? a->dim[0] : -1;
    o->dim[1] = b->rank == 2 ? b->dim[1] : -1;
    return RT_OK;
}

/* Reads the parameters at input k of a matrix whose columns may have scales of their own. As in
 * TensorFlow, the rank of the scales and not an attribute decides this. */
static enum rt_status read_columns(struct rt_run *r, int k, const struct rt_tensor *t,
                                   struct kn_uniform *u)
{
    return kn_u_read(r, k, r->in[k].rank == 0 ? -1 : 1, t, u);
}

/* Returns the product of two int32 numbers, which wraps around, as a float. */
static inline float product_of(int32_t a, int32_t b)
{
    return (float)(int32_t)((uint32_t)a * (uint32_t)b);
}

static inline int32_t minus(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

/* Computes a row of sums. TensorFlow adds each product to a sum in float, so that sums of more than
 * 24 bits are rounded. */
static enum rt_status dot_row(struct rt_run *r, const int8_t *a, const struct kn_uniform *left,
                              const struct kn_uniform *right, int32_t *sum)
{
    const int64_t depth = r->in[1].dim[0], n = r->in[1].dim[1];
    const int8_t *b = r->in[1].data;

    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t k = 0; k < depth; k++, b += n) {
        const int32_t v = minus(a[k], left->zero[0]);
        for (int64_t j = 0; j < n; j++) {
            const int32_t w = minus(b[j], right->zero[right->n == 1 ? 0 : j]);
            sum[j] = kn_u_to_int((float)sum[j] + product_of(v, w));
        }
        if (rt_run_spend(r, &r->left, 6 * n + 1))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status dot_read(struct rt_run *r, struct kn_uniform *u)
{
    if (r->in[2].rank != 0 || r->in[3].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "lhs scales/zero_points must be all scalar tensors. Given: %s%s",
                       KN_TEXT(&r->in[2]), KN_TEXT(&r->in[3]));
    if (kn_u_read(r, 2, -1, &r->in[0], &u[0]) || kn_u_check_scales(r, 2, "lhs") ||
        read_columns(r, 4, &r->in[1], &u[1]) || kn_u_check_scales(r, 4, "rhs") ||
        read_columns(r, 6, &r->out[0], &u[2]) || kn_u_check_scales(r, 6, "output"))
        return r->err->code;
    if (r->in[4].rank == 0 && r->in[6].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "If rhs is per-tensor quantized, output must be also per-tensor quantized. "
                       "Given rhs scales and zero_points of shape %s but given output scales and "
                       "zero_points of shape %s",
                       KN_TEXT(&r->in[4]), KN_TEXT(&r->in[6]));
    return kn_u_read_range(r, "output_", &u[2]);
}

static enum rt_status dot_run(struct rt_run *r)
{
    const int64_t depth = r->in[0].dim[1], n = r->out[0].dim[1];
    const int8_t *a = r->in[0].data;
    int32_t *y = r->out[0].data;
    struct kn_uniform u[3];

    if (dot_read(r, u))
        return r->err->code;
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    for (int64_t i = 0; i < r->in[0].dim[0]; i++, a += depth, y += n) {
        if (dot_row(r, a, &u[0], &u[1], y))
            return r->err->code;
        for (int64_t j = 0; j < n; j++) {
            struct kn_u_factor f;
            if (kn_u_product_factor(r, &u[0], &u[1], &u[2], j, &f))
                return r->err->code;
            y[j] = kn_u_output(&u[2], j, &f, y[j]);
        }
        if (rt_run_spend(r, &r->left, 20 * n))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- products of floats with integers ---- */

static enum rt_status hybrid_run(struct rt_run *r)
{
    const int64_t depth = r->in[0].dim[1], n = r->out[0].dim[1];
    const float *a = r->in[0].data;
    float *y = r->out[0].data;
    struct kn_uniform u;

    if (read_columns(r, 2, &r->in[1], &u) || kn_u_check_scales(r, 2, "rhs"))
        return r->err->code;
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    for (int64_t i = 0; i < r->in[0].dim[0]; i++, a += depth, y += n) {
        struct kn_u_dynamic d;
        int32_t *const sum = (int32_t *)y;
        const int8_t *b = r->in[1].data;
        if (kn_u_dynamic_of(r, a, 1, depth, depth, &d))
            return r->err->code;
        memset(sum, 0, (size_t)n * sizeof *sum);
        for (int64_t k = 0; k < depth; k++, b += n) {
            const uint32_t v = (uint32_t)kn_u_dynamic_q(&d, a[k]);
            for (int64_t j = 0; j < n; j++)
                sum[j] = (int32_t)((uint32_t)sum[j] +
                                   v * (uint32_t)minus(b[j], u.zero[u.n == 1 ? 0 : j]));
            if (rt_run_spend(r, &r->left, 3 * n + 4))
                return r->err->code;
        }
        for (int64_t j = 0; j < n; j++)
            y[j] = (float)sum[j] * d.scale * u.scale[u.n == 1 ? 0 : j];
    }
    return RT_OK;
}

/* ---- sums ---- */

enum { LEFT, RIGHT, OUT };

static enum rt_status add_check(const struct rt_node *n, struct rt_error *err)
{
    static const char *const prefix[] = {"lhs_", "rhs_", "output_"};

    for (int k = 0; k < 3; k++)
        if (kn_u_axis(n, prefix[k]) < -1)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "lhs, rhs and output quantization_axis must be -1 or within [0, dims)");
    return RT_OK;
}

static enum rt_status add_infer(struct rt_infer *x)
{
    struct rt_error ignored;
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;

    if (add_check(x->node, x->err))
        return x->err->code;
    if (kn_broadcast(&x->out[0].shape, a, b, &ignored))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Cannot Add tensors of shapes: %s%s",
                       KN_TEXT(a), KN_TEXT(b));
    return RT_OK;
}

/* The axes of the output along which the scales of an input and of the output lie must be the
 * same. Axes are counted from the end, because shapes are broadcast from there. */
static enum rt_status check_add_axes(struct rt_run *r)
{
    static const char *const name[] = {"lhs", "rhs"};
    const int64_t out = kn_u_axis(r->node, "output_");

    for (int k = 0; k < 2; k++) {
        const int64_t axis = kn_u_axis(r->node, k ? "rhs_" : "lhs_");
        if (axis >= 0 && out >= 0 && axis - r->in[k].rank != out - r->out[0].rank)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "If %s and output is both per-axis quantized, the quantization axis "
                           "must match.",
                           name[k]);
    }
    return RT_OK;
}

static enum rt_status read_add(struct rt_run *r, struct kn_uniform *u)
{
    if (kn_u_read(r, 2, kn_u_axis(r->node, "lhs_"), &r->in[0], &u[LEFT]) ||
        kn_u_read(r, 4, kn_u_axis(r->node, "rhs_"), &r->in[1], &u[RIGHT]) ||
        kn_u_read(r, 6, kn_u_axis(r->node, "output_"), &r->out[0], &u[OUT]) || check_add_axes(r))
        return r->err->code;
    for (int k = 2; k < 8; k += 2)
        if (kn_u_check_scales(r, k, "lhs/rhs/output"))
            return r->err->code;
    return kn_u_read_range(r, "output_", &u[OUT]);
}

/* Converts element `at` of input k to the scale that element i of the output has. */
static enum rt_status add_term(struct rt_run *r, const struct kn_uniform *u, int k, int64_t at,
                               int64_t i, uint32_t *term)
{
    const int64_t a = kn_u_slice(&u[k], at);
    /* If the input has a single slice along the axis, TensorFlow uses the output's first scale. */
    const bool is_single = r->in[2 + 2 * k].rank == 1 && u[k].n == 1;
    const int64_t b = is_single ? 0 : kn_u_slice(&u[OUT], i);
    struct kn_u_factor f;

    if (kn_u_check_factor(r, (double)u[k].scale[a] / (double)u[OUT].scale[b], &f))
        return r->err->code;
    const int32_t q = kn_u_scaled(&f, minus(kn_u_rounded_at(&r->in[k], at), u[k].zero[a]));
    *term = (uint32_t)kn_u_to_int((float)q); /* TensorFlow keeps the term in a float */
    return RT_OK;
}

static enum rt_status add_run(struct rt_run *r)
{
    const int64_t n = rt_tensor_count(&r->out[0]);
    int64_t place[RT_MAX_RANK] = {0}, at[2] = {0};
    struct kn_uniform u[3];
    struct kn_q_each e;

    if (read_add(r, u))
        return r->err->code;
    kn_q_each_of(r, &e);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t zero = (uint32_t)u[OUT].zero[kn_u_slice(&u[OUT], i)];
        uint32_t a, b;
        if (add_term(r, u, LEFT, at[0], i, &a) || add_term(r, u, RIGHT, at[1], i, &b))
            return r->err->code;
        const int32_t sum = (int32_t)(a + b + zero);
        ((int32_t *)r->out[0].data)[i] = sum < u[OUT].min   ? u[OUT].min
                                         : sum > u[OUT].max ? u[OUT].max
                                                            : sum;
        kn_q_advance(&e, place, at);
        if (rt_run_spend(r, &r->left, 40))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- registry entries ---- */

const struct kn_entry kn_uniform_quantized_dot = {
    .op = {.name = "UniformQuantizedDot", .infer = dot_infer, .rows = rt_rows_first},
    .kernels = KN_KERNELS({.op = "UniformQuantizedDot",
                           .device = "CPU",
                           .name = "uniform_dot",
                           .type_attr = "Tin",
                           .types = RT_T(RT_QI8),
                           .run = dot_run}),
};
const struct kn_entry kn_uniform_quantized_dot_hybrid = {
    .op = {.name = "UniformQuantizedDotHybrid", .infer = dot_infer, .rows = rt_rows_first},
    .kernels = KN_KERNELS({.op = "UniformQuantizedDotHybrid",
                           .device = "CPU",
                           .name = "uniform_dot_hybrid",
                           .type_attr = "Tlhs",
                           .types = RT_T(RT_F32),
                           .and_type_attr = "Trhs",
                           .and_types = RT_T(RT_QI8),
                           .run = hybrid_run}),
};
const struct kn_entry kn_uniform_quantized_add = {
    .op = {.name = "UniformQuantizedAdd", .infer = add_infer},
    .kernels = KN_CPU("UniformQuantizedAdd", "uniform_add", RT_T(RT_QI32), NULL, add_run),
};
