/*
 * FakeQuantWithMinMax* and their gradients. The ops round floats to the values that `num_bits` bits
 * can represent in a range. The range is given by attributes, by two scalars, or by two vectors
 * with an element for each channel of the last axis.
 */
#include "kernels/quant/quant.h"

#include <string.h>

/* A range whose bounds have been moved so that 0 is one of the values. */
struct fake_range {
    float min, max, scale, zero;
    /* The inverse of the scale, or 0 if elements are divided by the scale. TensorFlow divides if
     * the range is a pair of scalar inputs, and multiplies otherwise. The results of a division and
     * of a multiplication by the inverse may be rounded differently. */
    float inverse;
    bool is_empty; /* whether the range is [0, 0], in which case every output is 0 */
};

static bool has_attributes(const struct rt_node *n)
{
    return strncmp(n->schema->name, "FakeQuantWithMinMaxArgs", 23) == 0;
}

static bool is_per_channel(const struct rt_node *n)
{
    return strstr(n->schema->name, "PerChannel") != NULL;
}

static bool is_gradient(const struct rt_node *n)
{
    return strstr(n->schema->name, "Gradient") != NULL;
}

static bool divides(const struct rt_node *n)
{
    return !has_attributes(n) && !is_per_channel(n);
}

static struct fake_range nudge(const struct rt_node *n, float min, float max)
{
    const int64_t bits = rt_attr_int(n, "num_bits");
    const float lowest = rt_attr_bool(n, "narrow_range") ? 1 : 0;
    const float highest = (float)((INT64_C(1) << bits) - 1);
    struct fake_range f = {.scale = (max - min) / (highest - lowest),
                           .is_empty = min == 0 && max == 0};
    const float zero = lowest - min / f.scale;
    const float nudged = zero < lowest ? lowest : zero > highest ? highest : roundf(zero);

    f.min = (lowest - nudged) * f.scale;
    f.max = (highest - nudged) * f.scale;
    f.inverse = divides(n) ? 0 : (highest - lowest) / (max - min);
    f.zero = floorf((f.inverse != 0 ? -f.min * f.inverse : -f.min / f.scale) + 0.5F);
    return f;
}

static inline float fake_value(const struct fake_range *f, float x)
{
    x = x > f->max ? f->max : x;
    x = x < f->min ? f->min : x;
    x = f->inverse != 0 ? (x - f->min) * f->inverse : (x - f->min) / f->scale;
    return floorf(x - f->zero + 0.5F) * f->scale;
}

/* ---- shapes ---- */

static enum rt_status check_attributes(const struct rt_node *n, struct rt_error *err)
{
    const int64_t bits = rt_attr_int(n, "num_bits");

    if (has_attributes(n)) {
        const float min = rt_attr_float(n, "min"), max = rt_attr_float(n, "max");
        if (!(min < max))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "min has to be smaller than max, was: %g >= %g", (double)min,
                           (double)max);
    }
    if (bits < 2 || bits > 16)
        return rt_fail(err, RT_INVALID_ARGUMENT, "num_bits must be between 2 and 16, inclusive");
    return RT_OK;
}

/* Refuses a bound that is not a vector with an element for each channel. */
static enum rt_status check_channels(struct rt_infer *x, const struct rt_shape *in, int first)
{
    const int64_t depth = in->rank > 0 ? in->dim[in->rank - 1] : -1;

    for (int k = 0; k < 2; k++) {
        const struct rt_shape *s = &x->in[first + k].shape;
        if (s->rank < 0)
            continue;
        if (s->rank != 1)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape must be rank 1 but is rank %d",
                           s->rank);
        if (depth >= 0 && s->dim[0] >= 0 && s->dim[0] != depth)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "%s has incorrect size, expected %lld was %lld", k ? "max" : "min",
                           (long long)depth, (long long)s->dim[0]);
    }
    return RT_OK;
}

static enum rt_status check_scalars(struct rt_infer *x, int first)
{
    for (int k = 0; k < 2; k++)
        if (x->in[first + k].shape.rank > 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "`%s` must be rank 0 but is rank %d",
                           k ? "max" : "min", x->in[first + k].shape.rank);
    return RT_OK;
}

static enum rt_status fake_quant_infer(struct rt_infer *x)
{
    const int data = is_gradient(x->node) ? 1 : 0;
    const struct rt_shape *in = &x->in[data].shape;
    enum rt_status st = check_attributes(x->node, x->err);

    if (!st && data && kn_shape_known(in) && kn_shape_known(&x->in[0].shape) &&
        (in->rank != x->in[0].shape.rank ||
         memcmp(in->dim, x->in[0].shape.dim, (size_t)in->rank * sizeof *in->dim) != 0))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       has_attributes(x->node)
                           ? "Inputs to operation %s of type %s must have the same size and shape. "
                             " Input 0: %s != input 1: %s"
                           : "gradient and input must be the same size",
                       x->node->name, x->node->schema->name, KN_TEXT(&x->in[0].shape), KN_TEXT(in));
    if (!st && is_per_channel(x->node) && in->rank == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape must be at least rank 1 but is rank 0");
    if (!st && is_per_channel(x->node))
        st = check_channels(x, in, data + 1);
    else if (!st && !has_attributes(x->node))
        st = check_scalars(x, data + 1);
    if (st)
        return st;
    for (int k = 0; k < x->n_out; k++)
        x->out[k].shape = x->in[k ? data + k : data].shape;
    x->alias[0] = (int8_t)data;
    return RT_OK;
}

static void fake_quant_rows(struct rt_rows *r)
{
    const struct rt_dep *d = &r->in_dep[0];

    if (is_gradient(r->node)) {
        if (has_attributes(r->node))
            rt_rows_each(r);
        return;
    }
    if (d->kind == RT_DEP_ROWS && is_per_channel(r->node) && d->axis == r->in[0].shape.rank - 1)
        return;
    rt_rows_same(r);
}

/* ---- values ---- */

struct fake {
    const float *in, *grad;
    float *out;
    const struct fake_range *range; /* one element for each channel */
    int64_t channels;
};

enum { SPAN = 4096 }; /* number of elements that are computed between deadline checks */

static enum rt_status fake_rows(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct fake *f = arg;
    const int64_t width = f->channels;
    int64_t left = RT_WORK;

    for (int64_t i = from, n; i < to; i += n) {
        const float *x = f->in + i * width;
        float *y = f->out + i * width;
        n = width == 1 ? kn_min_i64(to - i, SPAN) : 1;
        for (int64_t k = 0; k < n * width; k++) {
            const struct fake_range *at = &f->range[width == 1 ? 0 : k];
            y[k] = at->is_empty ? 0 : fake_value(at, x[k]);
        }
        if (rt_run_spend(r, &left, 2 * n * width))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status grad_rows(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct fake *f = arg;
    const int64_t width = f->channels;
    int64_t left = RT_WORK;

    for (int64_t i = from, n; i < to; i += n) {
        const float *x = f->in + i * width, *g = f->grad + i * width;
        float *y = f->out + i * width;
        n = width == 1 ? kn_min_i64(to - i, SPAN) : 1;
        for (int64_t k = 0; k < n * width; k++) {
            const struct fake_range *at = &f->range[width == 1 ? 0 : k];
            const bool inside = at->is_empty || (x[k] >= at->min && x[k] <= at->max);
            y[k] = g[k] * (inside ? 1.0F : 0.0F);
        }
        if (rt_run_spend(r, &left, 3 * n * width))
            return r->err->code;
    }
    return RT_OK;
}

/* For each channel, adds up the gradients of the elements below the range and of those above it. */
static enum rt_status grad_bounds(struct rt_run *r, const struct fake *f, int64_t n)
{
    float *low = r->out[1].data, *high = r->out[2].data;

    memset(low, 0, rt_tensor_bytes(&r->out[1]));
    memset(high, 0, rt_tensor_bytes(&r->out[2]));
    for (int64_t c = 0; c < f->channels; c++) {
        const struct fake_range *at = &f->range[c];
        double below = 0, above = 0;
        for (int64_t i = 0; !at->is_empty && i < n; i++) {
            const float x = f->in[i * f->channels + c], g = f->grad[i * f->channels + c];
            below += (double)(g * (x < at->min ? 1.0F : 0.0F));
            above += (double)(g * (x > at->max ? 1.0F : 0.0F));
            if (rt_run_spend(r, &r->left, 4))
                return r->err->code;
        }
        low[c] = (float)below;
        high[c] = (float)above;
    }
    return RT_OK;
}

static enum rt_status fake_quant_run(struct rt_run *r)
{
    const int data = is_gradient(r->node) ? 1 : 0;
    const struct rt_tensor *in = &r->in[data];
    const int64_t n = rt_tensor_count(in);
    const bool each = is_per_channel(r->node);
    const int64_t channels = each ? in->dim[in->rank - 1] : 1;
    struct fake_range one, *range = &one;

    if (each && channels > 0) {
        range = rt_scratch(r, (size_t)channels * sizeof *range);
        if (!range)
            return r->err->code;
        for (int64_t c = 0; c < channels; c++)
            range[c] = nudge(r->node, ((const float *)r->in[data + 1].data)[c],
                             ((const float *)r->in[data + 2].data)[c]);
    } else if (has_attributes(r->node)) {
        one = nudge(r->node, rt_attr_float(r->node, "min"), rt_attr_float(r->node, "max"));
        one.is_empty = false;
    } else if (!each) {
        one = nudge(r->node, kn_q_float(r, data + 1), kn_q_float(r, data + 2));
    }
    struct fake f = {.in = in->data,
                     .grad = r->in[0].data,
                     .out = r->out[0].data,
                     .range = range,
                     .channels = channels};
    /* the bounds come first, because the gradient of the input may overwrite the input */
    if (r->n_out == 3) {
        const enum rt_status st = grad_bounds(r, &f, channels ? n / channels : 0);
        if (st)
            return st;
    }
    return kn_parallel_rows(r, channels ? n / channels : 0, 4 * channels, 1,
                            data ? grad_rows : fake_rows, &f);
}

/* ---- registry entries ---- */

#define FAKE(symbol, op_, name_)                                                                   \
    const struct kn_entry kn_fake_quant_with_min_max_##symbol = {                                  \
        .op = {.name = op_, .infer = fake_quant_infer, .rows = fake_quant_rows},                   \
        .kernels = KN_KERNELS({.op = op_, .device = "CPU", .name = name_, .run = fake_quant_run}), \
    }
FAKE(args, "FakeQuantWithMinMaxArgs", "fake_quant");
FAKE(vars, "FakeQuantWithMinMaxVars", "fake_quant_vars");
FAKE(vars_per_channel, "FakeQuantWithMinMaxVarsPerChannel", "fake_quant_channels");
FAKE(args_gradient, "FakeQuantWithMinMaxArgsGradient", "fake_quant_grad");
FAKE(vars_gradient, "FakeQuantWithMinMaxVarsGradient", "fake_quant_vars_grad");
FAKE(vars_per_channel_gradient, "FakeQuantWithMinMaxVarsPerChannelGradient",
     "fake_quant_channels_grad");
