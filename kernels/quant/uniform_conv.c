/*
 * UniformQuantizedConvolution and UniformQuantizedConvolutionHybrid: convolutions with any number
 * of spatial axes, any order of dimensions, dilated inputs and windows, and groups of features or
 * batches. Zeros of a dilated input and padding are the zero point, so they contribute nothing to a
 * sum.
 */
#include "kernels/quant/uniform_conv.h"

#include "kernels/array/array.h"

/* A run of the convolution, with the strides of all dimensions. */
struct work {
    struct kn_u_conv c;
    int64_t in_step[RT_MAX_RANK], kernel_step[RT_MAX_RANK], out_step[RT_MAX_RANK];
    int64_t batch, features, features_in; /* images; features of the output and of a kernel */
    struct kn_uniform left, right, to;
    struct kn_u_dynamic dynamic; /* the parameters of the current image of a hybrid op */
    bool is_hybrid;
};

static struct rt_shape shape_of(const struct rt_tensor *t)
{
    struct rt_shape s = {.rank = t->rank};

    for (int d = 0; d < t->rank; d++)
        s.dim[d] = t->dim[d];
    return s;
}

static enum rt_status start(struct rt_run *r, struct work *w)
{
    const struct rt_shape lhs = shape_of(&r->in[0]), rhs = shape_of(&r->in[1]);
    struct rt_shape out;

    *w = (struct work){.is_hybrid = r->n_in == 4};
    if (kn_u_conv_read(r->node, &lhs, &rhs, &w->c, &out, r->err))
        return r->err->code;
    kn_strides(lhs.rank, lhs.dim, w->in_step);
    kn_strides(rhs.rank, rhs.dim, w->kernel_step);
    kn_strides(out.rank, out.dim, w->out_step);
    w->batch = lhs.dim[w->c.input.batch];
    w->features = rhs.dim[w->c.kernel.batch];
    w->features_in = rhs.dim[w->c.kernel.feature];
    return RT_OK;
}

static enum rt_status read_scales(struct rt_run *r, struct work *w)
{
    const int rhs = w->is_hybrid ? 2 : 4;
    const int64_t rhs_axis = kn_u_axis(r->node, "rhs_");

    if (!w->is_hybrid) {
        if (r->in[2].rank != 0 || r->in[3].rank != 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "lhs scales/zero_points must be all scalar tensors. Given: %s%s",
                           KN_TEXT(&r->in[2]), KN_TEXT(&r->in[3]));
        if (kn_u_read(r, 2, -1, &r->in[0], &w->left) || kn_u_check_scales(r, 2, "lhs"))
            return r->err->code;
    }
    if (kn_u_read(r, rhs, rhs_axis, &r->in[1], &w->right) || kn_u_check_scales(r, rhs, "rhs"))
        return r->err->code;
    if (w->is_hybrid)
        return RT_OK;
    const int64_t out_axis = kn_u_axis(r->node, "output_");
    if (kn_u_read(r, 6, out_axis, &r->out[0], &w->to) || kn_u_check_scales(r, 6, "output"))
        return r->err->code;
    if (r->in[4].rank == 0 && r->in[6].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "If rhs is per-tensor quantized, output must be also per-tensor quantized. "
                       "Given output scales/zero_points of rank %d",
                       r->in[6].rank);
    return kn_u_read_range(r, "output_", &w->to);
}

/* Adds the products of all features at one position of a window. */
static uint32_t add_features(const struct rt_run *r, const struct work *w, int64_t in,
                             int64_t kernel, uint32_t zero)
{
    const int64_t step = w->in_step[w->c.input.feature];
    const int8_t *k = (const int8_t *)r->in[1].data + kernel;
    const int64_t kernel_step = w->kernel_step[w->c.kernel.feature];
    uint32_t sum = 0;

    if (w->is_hybrid) {
        const float *x = (const float *)r->in[0].data + in;
        for (int64_t f = 0; f < w->features_in; f++)
            sum += (uint32_t)kn_u_dynamic_q(&w->dynamic, x[f * step]) *
                   ((uint32_t)k[f * kernel_step] - zero);
        return sum;
    }
    const int8_t *x = (const int8_t *)r->in[0].data + in;
    for (int64_t f = 0; f < w->features_in; f++)
        sum += ((uint32_t)x[f * step] - (uint32_t)w->left.zero[0]) *
               ((uint32_t)k[f * kernel_step] - zero);
    return sum;
}

/* Advances an odometer whose digit i counts to `n` of window i, either its `out` or its `size`.
 * Returns false after the last position. */
static bool next(const struct kn_u_conv *c, bool outputs, int64_t *place)
{
    for (int i = c->n_spatial - 1; i >= 0; i--) {
        if (++place[i] < (outputs ? c->window[i].out : c->window[i].size))
            return true;
        place[i] = 0;
    }
    return false;
}

/* Computes the sum of the window at `place`. `in` is the offset of the features in their image,
 * and `kernel` the offset of the kernel's output feature. */
static enum rt_status window_sum(struct rt_run *r, const struct work *w, const int64_t *place,
                                 int64_t in, int64_t kernel, uint32_t zero, uint32_t *sum)
{
    const struct kn_u_conv *c = &w->c;
    int64_t at[KN_U_SPATIAL] = {0};

    *sum = 0;
    for (int i = 0; i < c->n_spatial; i++)
        if (c->window[i].size == 0)
            return RT_OK;
    do {
        int64_t x = in, k = kernel;
        bool inside = true;
        for (int i = 0; i < c->n_spatial && inside; i++) {
            const struct kn_u_window *v = &c->window[i];
            const int64_t p = place[i] * v->stride - v->lo + at[i] * v->dilation;
            inside = p >= 0 && p % v->in_dilation == 0 && p / v->in_dilation < v->in;
            x += p / v->in_dilation * w->in_step[c->input.spatial[i]];
            k += at[i] * w->kernel_step[c->kernel.spatial[i]];
        }
        if (inside)
            *sum += add_features(r, w, x, k, zero);
        if (rt_run_spend(r, &r->left, 20 + (inside ? 8 * w->features_in : 0)))
            return r->err->code;
    } while (next(c, false, at));
    return RT_OK;
}

static void put(struct rt_run *r, const struct work *w, int64_t feature, int64_t at,
                const struct kn_u_factor *f, int32_t sum)
{
    if (w->is_hybrid)
        ((float *)r->out[0].data)[at] =
            (float)sum * w->dynamic.scale * w->right.scale[w->right.n == 1 ? 0 : feature];
    else
        ((int32_t *)r->out[0].data)[at] = kn_u_output(&w->to, feature, f, sum);
}

/* Computes one feature of the output for image `image` of the input. */
static enum rt_status run_feature(struct rt_run *r, const struct work *w, int64_t image,
                                  int64_t feature)
{
    const struct kn_u_conv *c = &w->c;
    const int64_t of_group = w->features / c->feature_groups;
    const int64_t in = image * w->in_step[c->input.batch] +
                       feature / of_group * w->features_in * w->in_step[c->input.feature];
    const int64_t kernel = feature * w->kernel_step[c->kernel.batch];
    const int64_t out = image % (w->batch / c->batch_groups) * w->out_step[c->output.batch] +
                        feature * w->out_step[c->output.feature];
    const uint32_t zero = (uint32_t)w->right.zero[w->right.n == 1 ? 0 : feature];
    int64_t place[KN_U_SPATIAL] = {0};
    struct kn_u_factor f = {0, 0};

    if (!w->is_hybrid && kn_u_product_factor(r, &w->left, &w->right, &w->to, feature, &f))
        return r->err->code;
    do {
        int64_t at = out;
        uint32_t sum;
        for (int i = 0; i < c->n_spatial; i++)
            at += place[i] * w->out_step[c->output.spatial[i]];
        if (window_sum(r, w, place, in, kernel, zero, &sum))
            return r->err->code;
        put(r, w, feature, at, &f, (int32_t)sum);
        if (rt_run_spend(r, &r->left, 20))
            return r->err->code;
    } while (next(c, true, place));
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    struct work w;

    if (start(r, &w) || read_scales(r, &w))
        return r->err->code;
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    const int64_t images = w.batch / w.c.batch_groups, features = w.features / w.c.batch_groups;
    const int64_t step = w.in_step[w.c.input.batch];
    for (int64_t image = 0; image < w.batch; image++) {
        const int64_t first = image / images * features;
        if (w.is_hybrid && rt_tensor_count(&r->in[0]) != 0) {
            const float *x = (const float *)r->in[0].data + image * step;
            const int64_t blocks = rt_tensor_count(&r->in[0]) / (w.batch * step);
            if (kn_u_dynamic_of(r, x, blocks, step, w.batch * step, &w.dynamic))
                return r->err->code;
        }
        for (int64_t f = first; f < first + features; f++)
            if (run_feature(r, &w, image, f))
                return r->err->code;
    }
    return RT_OK;
}

/* ---- registry entries ---- */

#define CONV(symbol, op_, name_, attr_, type_)                                                     \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_, .infer = kn_u_conv_infer, .rows = kn_u_conv_rows},                     \
        .kernels = KN_KERNELS({.op = op_,                                                          \
                               .device = "CPU",                                                    \
                               .name = name_,                                                      \
                               .type_attr = attr_,                                                 \
                               .types = RT_T(type_),                                               \
                               .run = run}),                                                       \
    }
CONV(uniform_quantized_convolution, "UniformQuantizedConvolution", "uniform_conv", "Tin", RT_QI8);
CONV(uniform_quantized_convolution_hybrid, "UniformQuantizedConvolutionHybrid",
     "uniform_conv_hybrid", "Tlhs", RT_F32);
