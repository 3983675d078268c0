/* Local response normalisation: LRN and LRNGrad. */
#include <math.h>

#include "kernels/array/array.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/math/elementwise.h"
#include "kernels/matmul/gemm.h"

/* ---- LRN ---- */

static enum rt_status infer_lrn(struct rt_infer *x)
{
    const struct rt_shape *s = &x->in[0].shape;
    if (s->rank >= 0 && s->rank != 4)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "in must be 4-dimensional");
    x->out[0].shape = *s;
    return RT_OK;
}

static enum rt_status prepare_lrn(struct rt_prep *p, void **state)
{
    (void)state;
    p->scratch_bytes = (size_t)p->in[0].shape.dim[3] * 2 * sizeof(float);
    return RT_OK;
}

struct lrn {
    int64_t radius;
    float bias, alpha, beta;
    bool rounds; /* whether the tensor is float16 */
};

/* Returns `base` to the power `by`. If `base` is positive, and `base` and `by` are finite, uses
 * powf, which is more exact than TensorFlow's formula exp(log(base) * by). Otherwise uses
 * TensorFlow's formula, which yields NaN if `base` is negative or the product is 0 * infinity. */
static float lrn_power(float base, float by)
{
    const bool ordinary = base > 0 && isfinite(base) && isfinite(by);
    return ordinary ? powf(base, by) : expf(logf(base) * by);
}

static enum rt_status lrn_pixel(struct rt_run *r, int64_t *left, const struct lrn *l,
                                const float *x, float *y, int64_t n)
{
    /* TensorFlow multiplies the squares by a band matrix, whose zeros turn infinite and NaN squares
     * into NaN. Therefore, even channels whose window contains no such square become NaN. */
    int64_t first_odd = n, last_odd = -1;

    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i] * x[i])) {
            first_odd = first_odd < i ? first_odd : i;
            last_odd = i;
        }
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = i > l->radius ? i - l->radius : 0;
        const int64_t to = n - 1 - i > l->radius ? i + l->radius : n - 1;
        float sum = first_odd < from || last_odd > to ? NAN : 0;
        for (int64_t j = from; j <= to; j++)
            sum += x[j] * x[j];
        float base = l->bias + l->alpha * sum;
        if (l->rounds) /* a base too large for float16 becomes an infinity, as in TensorFlow */
            base = kn_from_f16(kn_to_f16(base));
        /* As in TensorFlow, a subnormal factor is treated as 0. For example, 1 / base is subnormal
         * for a base above 2^126. */
        y[i] = x[i] * (l->beta == 1      ? 1 / base
                       : l->beta == 0.5f ? 1 / sqrtf(base)
                                         : lrn_power(base, -l->beta));
        if (rt_run_spend(r, left, 16 + to - from))
            return r->err->code;
    }
    return RT_OK;
}

/* Returns an attribute of LRN, rounded to the type of the tensor as in TensorFlow. */
static float lrn_attr(const struct rt_run *r, const char *name)
{
    const float value = rt_attr_float(r->node, name);
    return r->in[0].dtype == RT_F16 ? kn_from_f16(kn_to_f16(value)) : value;
}

static struct lrn lrn_of(const struct rt_run *r)
{
    return (struct lrn){.radius = rt_attr_int(r->node, "depth_radius"),
                        .bias = lrn_attr(r, "bias"),
                        .alpha = lrn_attr(r, "alpha"),
                        .beta = lrn_attr(r, "beta"),
                        .rounds = r->in[0].dtype == RT_F16};
}

static enum rt_status run_lrn(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    if (rt_tensor_count(t) == 0)
        /* Skips the loop over the pixels: an empty tensor may have many pixels without channels,
         * and r->scratch may be NULL. */
        return RT_OK;
    const enum rt_dtype d = (enum rt_dtype)t->dtype;
    const struct lrn l = lrn_of(r);
    const int64_t n = t->dim[3], pixels = t->dim[0] * t->dim[1] * t->dim[2];
    const int64_t step = n * (int64_t)rt_dtype_size(d);
    const char *src = t->data;
    char *dst = r->out[0].data;
    float *x = r->scratch, *y = x + n;
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < pixels; i++, src += step, dst += step) {
        if (kn_to_float_rows(r, d, src, n, x, 1, n) || lrn_pixel(r, &left, &l, x, y, n) ||
            kn_from_float_rows(r, d, y, dst, n, 1, n))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status check_lrn(const struct rt_node *n, struct rt_error *err)
{
    const int64_t r = rt_attr_int(n, "depth_radius");
    if (r < 0 || r >= INT32_MAX)
        return rt_fail(err, RT_INVALID_ARGUMENT, "depth_radius = %lld larger than int max",
                       (long long)r);
    return RT_OK;
}

const struct kn_entry kn_lrn = {
    .op = {.name = "LRN", .check = check_lrn, .infer = infer_lrn, .rows = rt_rows_first},
    .kernels = KN_CPU("LRN", "lrn", RT_T(RT_F32) | RT_T(RT_F16), prepare_lrn, run_lrn),
};

/* ---- LRNGrad: the gradient, the input and the output of LRN ---- */

static enum rt_status infer_lrn_grad(struct rt_infer *x)
{
    const struct rt_shape *s = &x->in[0].shape;

    for (int k = 0; k < 3; k++)
        if (x->in[k].shape.rank >= 0 && x->in[k].shape.rank != 4)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "inputs must be 4-dimensional");
    for (int k = 1; k < 3; k++)
        if (kn_shape_known(s) && kn_shape_known(&x->in[k].shape) &&
            !kn_shape_eq(s, &x->in[k].shape))
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "input_grads, input_image, and out_image should have the same shape");
    x->out[0].shape = *s;
    return RT_OK;
}

/* Rows along any axis but that of the channels are independent. */
static void rows_lrn_grad(struct rt_rows *r)
{
    rt_rows_each(r);
    if (r->out_dep[0].kind == RT_DEP_ROWS && r->out_dep[0].axis == 3)
        r->out_dep[0] = (struct rt_dep){RT_DEP_MIXED, 0};
}

/*
 * Computes the gradient of one pixel with n channels. Output j of LRN is x_j / norm_j^beta, and
 * norm_j is bias + alpha * (sum of x_k^2 over the window of j). The derivative of output j with
 * respect to x_k is therefore -2 alpha beta x_k y_j / norm_j, plus norm_j^-beta if k = j. In
 * float16, every step is rounded as in TensorFlow.
 */
#define LRN_GRAD_PIXEL(dt, T)                                                                      \
    static enum rt_status grad_pixel_##dt(struct rt_run *r, const struct lrn *l, const T *g,       \
                                          const T *x, const T *y, T *out, int64_t n)               \
    {                                                                                              \
        const float by = KN_ROUND(dt, KN_ROUND(dt, -2 * l->alpha) * l->beta);                      \
                                                                                                   \
        for (int64_t k = 0; k < n; k++)                                                            \
            out[k] = KN_PUT(dt, 0);                                                                \
        for (int64_t j = 0; j < n; j++) {                                                          \
            const int64_t from = j > l->radius ? j - l->radius : 0;                                \
            const int64_t to = n - 1 - j > l->radius ? j + l->radius : n - 1;                      \
            float norm = 0;                                                                        \
            for (int64_t k = from; k <= to; k++) {                                                 \
                const float v = KN_GET(dt, x[k]);                                                  \
                norm = KN_ROUND(dt, norm + KN_ROUND(dt, v * v));                                   \
            }                                                                                      \
            norm = KN_ROUND(dt, KN_ROUND(dt, norm * l->alpha) + l->bias);                          \
            const float power = KN_ROUND(dt, powf(norm, -l->beta));                                \
            for (int64_t k = from; k <= to; k++) {                                                 \
                float d = KN_ROUND(dt, KN_ROUND(dt, by * KN_GET(dt, x[k])) * KN_GET(dt, y[j]));    \
                d = KN_ROUND(dt, d / norm);                                                        \
                d = k == j ? KN_ROUND(dt, d + power) : d;                                          \
                d = KN_ROUND(dt, d * KN_GET(dt, g[j]));                                            \
                out[k] = KN_PUT(dt, KN_GET(dt, out[k]) + d);                                       \
            }                                                                                      \
            if (rt_run_spend(r, &r->left, 32 + 16 * (to - from)))                                  \
                return r->err->code;                                                               \
        }                                                                                          \
        return RT_OK;                                                                              \
    }
LRN_GRAD_PIXEL(RT_F32, float)
LRN_GRAD_PIXEL(RT_F16, struct kn_half)

static enum rt_status grad_pixels(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct lrn *l = arg;
    const int64_t n = r->in[0].dim[3];
    enum rt_status st = RT_OK;

    for (int64_t i = from; i < to && !st; i++) {
        const void *g = kn_at(&r->in[0], i * n), *x = kn_at(&r->in[1], i * n);
        const void *y = kn_at(&r->in[2], i * n);
        void *out = kn_at_mut(&r->out[0], i * n);
        st = l->rounds ? grad_pixel_RT_F16(r, l, g, x, y, out, n)
                       : grad_pixel_RT_F32(r, l, g, x, y, out, n);
    }
    return st;
}

static enum rt_status run_lrn_grad(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    struct lrn l = lrn_of(r);

    if (rt_tensor_count(t) == 0)
        return RT_OK;
    r->left = RT_WORK;
    return kn_parallel_rows(r, t->dim[0] * t->dim[1] * t->dim[2], 64 * t->dim[3], 1, grad_pixels,
                            &l);
}

const struct kn_entry kn_lrn_grad = {
    .op = {.name = "LRNGrad", .check = check_lrn, .infer = infer_lrn_grad, .rows = rows_lrn_grad},
    .kernels = KN_CPU("LRNGrad", "lrn_grad", RT_T(RT_F32) | RT_T(RT_F16), NULL, run_lrn_grad),
};
