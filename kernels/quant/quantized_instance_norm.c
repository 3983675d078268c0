/*
 * QuantizedInstanceNorm normalises each channel of each image to a mean of 0 and a variance of 1.
 * The range of the output is given by attributes, or contains the numbers that occur.
 */
#include <string.h>

#include "kernels/quant/quant.h"

/* The mean of a channel of an image, and the inverse of its standard deviation. */
struct moments {
    double mean, inverse;
};

struct norm {
    int64_t images, pixels, channels;
    struct kn_q_decode decode;
    struct moments *moments; /* one for each channel of each image */
};

static enum rt_status infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;

    if (in->rank >= 0 && in->rank != 4)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "`x` must be rank 4 but is rank %d", in->rank);
    return kn_q_infer_same(x);
}

static enum rt_status fill_moments(struct rt_run *r, const struct norm *n)
{
    const double epsilon = (double)rt_attr_float(r->node, "variance_epsilon");
    const uint8_t *x = r->in[0].data;

    for (int64_t b = 0; b < n->images; b++, x += n->pixels * n->channels)
        for (int64_t c = 0; c < n->channels; c++) {
            double sum = 0, squares = 0;
            for (int64_t i = 0; i < n->pixels; i++) {
                const double v = (double)kn_q_to_float(&n->decode, x[i * n->channels + c]);
                sum += v;
                squares += v * v;
                if (rt_run_spend(r, &r->left, 4))
                    return r->err->code;
            }
            const double mean = sum / (double)n->pixels;
            const double variance = squares / (double)n->pixels - mean * mean;
            n->moments[b * n->channels + c] =
                (struct moments){mean, 1 / sqrt((variance > 0 ? variance : 0) + epsilon)};
        }
    return RT_OK;
}

/* Returns the normalised element i of the input. */
static float value_at(const struct rt_run *r, const struct norm *n, int64_t i)
{
    const int64_t image = i / (n->pixels * n->channels);
    const struct moments *m = &n->moments[image * n->channels + i % n->channels];
    const float x = kn_q_to_float(&n->decode, ((const uint8_t *)r->in[0].data)[i]);

    return (float)(((double)x - m->mean) * m->inverse);
}

/* Sets *range to the range of all normalised numbers, which is infinite if there are none. */
static enum rt_status used_range(struct rt_run *r, const struct norm *n, struct kn_q_range *range)
{
    const int64_t count = rt_tensor_count(&r->in[0]);

    *range = (struct kn_q_range){HUGE_VALF, -HUGE_VALF};
    for (int64_t i = 0; i < count; i++) {
        const float v = value_at(r, n, i);
        range->min = v < range->min ? v : range->min;
        range->max = v > range->max ? v : range->max;
        if (rt_run_spend(r, &r->left, 16))
            return r->err->code;
    }
    const float least = range->min + rt_attr_float(r->node, "min_separation");
    range->max = range->max < least ? least : range->max;
    return RT_OK;
}

static enum rt_status check(struct rt_run *r, struct kn_q_range in, struct kn_q_range given)
{
    if (kn_q_scalar(r, 1, "x_min") || kn_q_scalar(r, 2, "x_max"))
        return r->err->code;
    if (!(in.min < in.max))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "input_min must be less than input_max : %g >= %g",
                       isnan(in.min) ? (double)NAN : (double)in.min,
                       isnan(in.max) ? (double)NAN : (double)in.max);
    if (rt_attr_bool(r->node, "output_range_given") && !(given.min < given.max))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "given_y_min must be less than given_y_max : %g >= %g", (double)given.min,
                       (double)given.max);
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const int64_t count = rt_tensor_count(t);
    struct kn_q_range to = {rt_attr_float(r->node, "given_y_min"),
                            rt_attr_float(r->node, "given_y_max")};
    struct norm n = {.images = t->dim[0], .channels = t->dim[3]};

    if (rt_tensor_count(&r->in[1]) == 0 || rt_tensor_count(&r->in[2]) == 0)
        return kn_q_scalar(r, 1, "x_min") ? r->err->code : kn_q_scalar(r, 2, "x_max");
    const struct kn_q_range in = kn_q_range_of(r, 1, 2);
    if (check(r, in, to))
        return r->err->code;
    if (count) {
        n.pixels = t->dim[1] * t->dim[2];
        n.decode = kn_q_decoding(RT_QU8, in);
        n.moments = rt_scratch(r, (size_t)(n.images * n.channels) * sizeof *n.moments);
        if (!n.moments || fill_moments(r, &n))
            return r->err->code;
    }
    if (!rt_attr_bool(r->node, "output_range_given") && used_range(r, &n, &to))
        return r->err->code;
    const struct kn_q_encode e = kn_q_encoding(RT_QU8, to);
    for (int64_t i = 0; i < count; i++) {
        ((uint8_t *)r->out[0].data)[i] = (uint8_t)kn_q_from_float(&e, value_at(r, &n, i));
        if (rt_run_spend(r, &r->left, 16))
            return r->err->code;
    }
    kn_q_put_range(r, to);
    return RT_OK;
}

const struct kn_entry kn_quantized_instance_norm = {
    .op = {.name = "QuantizedInstanceNorm", .infer = infer},
    .kernels = KN_CPU("QuantizedInstanceNorm", "quantized_instance_norm", RT_T(RT_QU8), NULL, run),
};
