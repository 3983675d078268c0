/*
 * ExtractGlimpse and ExtractGlimpseV2 cut a window of a given size out of each image. Pixels of the
 * window that lie outside the image are noise: uniformly distributed between the smallest and the
 * largest number of the image, normally distributed with the image's mean and deviation, or zero.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "kernels/random/source.h"
#include "runtime/base/checked.h"

static bool is_noise(const struct rt_node *n, const char *name)
{
    return rt_span_is(rt_attr_str(n, "noise"), name);
}

static enum rt_status check_noise(const struct rt_node *n, struct rt_error *err)
{
    const struct rt_span s = rt_attr_str(n, "noise");

    if (rt_attr_bool(n, "uniform_noise") && !is_noise(n, "uniform"))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "The uniform_noise should not be True when noise is not uniform");
    if (!is_noise(n, "uniform") && !is_noise(n, "gaussian") && !is_noise(n, "zero"))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "The noise could only be uniform, gaussian, or zero, got%.*s",
                       (int)(s.n < 100 ? s.n : 100), (const char *)s.p);
    return RT_OK;
}

static enum rt_status check_shapes(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape, *size = &x->in[1].shape, *at = &x->in[2].shape;

    if (kn_image_rank_differs(in, 4))
        return kn_image_fail_shape(
            x->err, "input must be 4-dimensional (batch_size, height, width, depth)", in);
    if (kn_image_rank_differs(size, 1) ||
        (size->rank == 1 && size->dim[0] >= 0 && size->dim[0] != 2))
        return kn_image_fail_shape(x->err, "input must be a vector of size 2 (height, width)",
                                   size);
    if (kn_image_rank_differs(at, 2))
        return kn_image_fail_shape(x->err, "input must be a matrix", at);
    if (at->rank == 2 && in->rank == 4 && at->dim[0] >= 0 && in->dim[0] >= 0 &&
        at->dim[0] != in->dim[0])
        return kn_image_fail_shape(x->err, "first dimension should be batch", at);
    if (at->rank == 2 && at->dim[1] >= 0 && at->dim[1] != 2)
        return kn_image_fail_shape(x->err, "second dimension should be of size 2 (y,x)", at);
    return RT_OK;
}

static enum rt_status infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    struct rt_shape *o = &x->out[0].shape;

    if (check_noise(x->node, x->err) || check_shapes(x))
        return x->err->code;
    *o = kn_image_unknown(4);
    if (in->rank == 4) {
        o->dim[0] = in->dim[0];
        o->dim[3] = in->dim[3];
    }
    for (int i = 0; i < 2 && x->in[1].value; i++) {
        o->dim[1 + i] = ((const int32_t *)x->in[1].value->data)[i];
        if (o->dim[1 + i] < 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Expected a non-negative size, got %lld",
                           (long long)o->dim[1 + i]);
    }
    return RT_OK;
}

/* Each image has a row of offsets. */
static void rows(struct rt_rows *r)
{
    if (r->in_dep[0].kind == RT_DEP_ROWS && r->in_dep[0].axis == 0 &&
        r->in_dep[1].kind == RT_DEP_NONE && r->in_dep[2].kind == RT_DEP_ROWS &&
        r->in_dep[2].axis == 0)
        r->out_dep[0] = r->in_dep[0];
}

/*
 * Returns the first position of the window along an axis of the image with `in` pixels. The
 * position is rounded towards 0. By mistake, the first version of the op also moves windows by half
 * their size that are not centred.
 */
static int64_t first_of(const struct rt_node *n, float offset, int64_t in, int64_t size)
{
    const int64_t far = INT64_C(1) << 40;
    const bool centered = rt_attr_bool(n, "centered"), normalized = rt_attr_bool(n, "normalized");
    const bool is_first = strcmp(n->schema->name, "ExtractGlimpse") == 0;
    float at = normalized ? offset * (float)in : offset;

    if (centered)
        at = (is_first || normalized ? at / 2 : at) + (float)in / 2;
    if (is_first || (centered && normalized))
        at -= (float)size / 2;
    const int64_t v = rt_int64_of((double)at);
    return v < -far ? -far : v > far ? far : v;
}

/* The noise of an image: a factor and a summand for random numbers of the distribution. */
struct noise {
    bool is_normal;
    float factor, summand;
};

static enum rt_status noise_of(struct rt_run *r, const float *x, int64_t n, struct noise *noise)
{
    double sum = 0, squares = 0;
    float min = n ? x[0] : 0, max = min;

    *noise = (struct noise){.is_normal = is_noise(r->node, "gaussian")};
    if (is_noise(r->node, "zero") || n == 0)
        return RT_OK;
    for (int64_t i = 0; i < n; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        if (rt_run_spend(r, &r->left, 4))
            return r->err->code;
    }
    const double mean = sum / (double)n, variance = squares / (double)n - mean * mean;
    noise->factor = noise->is_normal ? (float)sqrt(variance > 0 ? variance : 0) : max - min;
    noise->summand = noise->is_normal ? (float)mean : min;
    return RT_OK;
}

static float draw(const struct noise *noise, struct kn_singles *s)
{
    float v[2] = {0, 0};

    if (noise->factor == 0)
        return noise->summand;
    const uint32_t a = kn_next_bits(s);
    if (noise->is_normal)
        kn_normal_floats(a, kn_next_bits(s), v);
    else
        v[0] = kn_unit_float(a);
    return v[0] * noise->factor + noise->summand;
}

/* Writes the window of one image, whose first pixel is at (top, left) of the image. */
static enum rt_status cut(struct rt_run *r, const float *image, int64_t top, int64_t left,
                          const struct noise *noise, struct kn_singles *s, float *dst)
{
    const struct rt_tensor *in = &r->in[0], *o = &r->out[0];
    const int64_t channels = in->dim[3];

    for (int64_t y = top; y < top + o->dim[1]; y++)
        for (int64_t x = left; x < left + o->dim[2]; x++, dst += channels) {
            const bool inside = y >= 0 && y < in->dim[1] && x >= 0 && x < in->dim[2];
            if (inside)
                memcpy(dst, image + (y * in->dim[2] + x) * channels,
                       (size_t)channels * sizeof *dst);
            for (int64_t c = 0; c < channels && !inside; c++)
                dst[c] = draw(noise, s);
            if (rt_run_spend(r, &r->left, 8 + (inside ? channels : 32 * channels)))
                return r->err->code;
        }
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    const struct rt_tensor *in = &r->in[0], *o = &r->out[0];
    const int64_t picture = in->dim[1] * in->dim[2] * in->dim[3];
    const int64_t window = o->dim[1] * o->dim[2] * o->dim[3];
    const float *offset = r->in[2].data;
    struct kn_singles s = {.n_left = 0};
    struct noise noise;

    if (rt_tensor_count(o) == 0)
        return RT_OK;
    if (!is_noise(r->node, "zero") &&
        kn_source_take(r, KN_FROM_NODE, (uint64_t)rt_tensor_count(o), &s.philox))
        return r->err->code;
    for (int64_t b = 0; b < in->dim[0]; b++, offset += 2) {
        const float *image = (const float *)in->data + b * picture;
        const int64_t top = first_of(r->node, offset[0], in->dim[1], o->dim[1]);
        const int64_t left = first_of(r->node, offset[1], in->dim[2], o->dim[2]);
        if (noise_of(r, image, picture, &noise) ||
            cut(r, image, top, left, &noise, &s, (float *)o->data + b * window))
            return r->err->code;
    }
    return RT_OK;
}

#define GLIMPSE(symbol, op_, name_)                                                                \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_, .effect = RT_RANDOM, .shape_in = 2, .infer = infer, .rows = rows},     \
        .kernels = KN_KERNELS({.op = op_, .device = "CPU", .name = name_, .run = run}),            \
    }
GLIMPSE(extract_glimpse, "ExtractGlimpse", "glimpse");
GLIMPSE(extract_glimpse_v2, "ExtractGlimpseV2", "glimpse_v2");
