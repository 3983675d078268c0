/*
 * ExtractImagePatches and ExtractVolumePatches copy the window around each position of an image to
 * the channels of that position. An image is treated as a volume of one plane. Positions outside
 * the image are 0.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "kernels/nn/window.h"
#include "runtime/base/checked.h"

enum { AXES = 3 };

/* Returns the number of spatial axes, 2 or 3. */
static int spatial_of(const struct rt_node *n)
{
    return strcmp(n->schema->name, "ExtractVolumePatches") == 0 ? 3 : 2;
}

/* ---- attributes and shapes ---- */

/* Checks one of the attributes "ksizes", "strides" and "rates". */
static enum rt_status check_list(const struct rt_node *n, const char *name, int spatial,
                                 struct rt_error *err)
{
    const int64_t *v;
    const size_t n_v = rt_attr_ints(n, name, &v);

    if (n_v != (size_t)spatial + 2)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "%s requires the %s attribute to contain %d values, but got: %zu",
                       n->schema->name, name, spatial + 2, n_v);
    for (size_t i = 0; i < n_v; i++)
        if (kn_check_i32(name, v[i], err))
            return RT_INVALID_ARGUMENT;
    if (v[0] != 1 || v[n_v - 1] != 1)
        return rt_fail(err, RT_UNIMPLEMENTED, "Only support %s across space.", name);
    for (int i = 1; i <= spatial; i++)
        if (v[i] < 1)
            return rt_fail(err, RT_OUT_OF_RANGE, "%s is out of range.", name);
    return RT_OK;
}

static enum rt_status check_patches(const struct rt_node *n, struct rt_error *err)
{
    const int spatial = spatial_of(n);
    enum rt_status st = check_list(n, "ksizes", spatial, err);

    if (!st)
        st = check_list(n, "strides", spatial, err);
    if (!st && rt_attr(n, "rates"))
        st = check_list(n, "rates", spatial, err);
    return st;
}

/* Computes the windows of all axes. Axis 0 of an image has one window of one plane. */
static enum rt_status solve(const struct rt_node *n, const struct rt_shape *in, struct kn_axis *a,
                            struct rt_error *err)
{
    const int spatial = spatial_of(n), first = AXES - spatial;
    const int64_t *sizes, *strides, *rates = NULL;

    rt_attr_ints(n, "ksizes", &sizes);
    rt_attr_ints(n, "strides", &strides);
    if (rt_attr(n, "rates"))
        rt_attr_ints(n, "rates", &rates);
    a[0] = (struct kn_axis){.in = 1, .out = 1, .size = 1, .stride = 1, .dilation = 1};
    for (int i = 1; i <= spatial; i++) {
        struct kn_axis *x = &a[first + i - 1];
        *x = (struct kn_axis){.in = in->dim[i],
                              .size = sizes[i],
                              .stride = strides[i],
                              .dilation = rates ? rates[i] : 1};
        const enum rt_status st = kn_axis_solve(x, kn_padding(n), err);
        if (st)
            return st;
        /* If windows are further apart than their size, TensorFlow centres the windows of volumes.
         * Then the first elements of the input are in no window. */
        if (spatial == 3 && kn_padding(n) == KN_SAME && x->out > 0)
            x->lo = ((x->out - 1) * x->stride + x->size - x->in) / 2;
    }
    return RT_OK;
}

static enum rt_status infer_patches(struct rt_infer *x)
{
    const int spatial = spatial_of(x->node), rank = spatial + 2;
    const struct rt_shape *in = &x->in[0].shape;
    struct rt_shape *o = &x->out[0].shape;
    struct kn_axis a[AXES];
    int64_t depth = 1;
    enum rt_status st = check_patches(x->node, x->err);

    if (st)
        return st;
    if (kn_image_rank_differs(in, rank))
        return kn_image_fail_shape(
            x->err, spatial == 3 ? "input must be 5-dimensional" : "input must be 4-dimensional",
            in);
    *o = kn_image_unknown(rank);
    if (in->rank < 0)
        return RT_OK;
    st = solve(x->node, in, a, x->err);
    if (st)
        return st;
    o->dim[0] = in->dim[0];
    for (int i = 0; i < spatial; i++)
        o->dim[1 + i] = a[AXES - spatial + i].out;
    for (int i = 0; i < AXES; i++)
        depth = rt_mul_saturated(depth, a[i].size);
    if (in->dim[rank - 1] >= 0)
        o->dim[rank - 1] = rt_mul_saturated(depth, in->dim[rank - 1]);
    return RT_OK;
}

/* ---- run ---- */

struct patches {
    struct kn_axis a[AXES];
    size_t pixel; /* size of a pixel, in bytes */
};

static enum rt_status prepare_patches(struct rt_prep *p, void **state)
{
    const struct rt_shape *in = &p->in[0].shape;
    struct patches *s = rt_prep_alloc(p, sizeof *s);

    if (!s)
        return p->err->code;
    s->pixel = (size_t)in->dim[in->rank - 1] * rt_dtype_size(p->in[0].dtype);
    *state = s;
    return solve(p->node, in, s->a, p->err);
}

/* Copies the pixels of window x of one row. `line` is NULL for a row outside the image. Returns the
 * end of the written bytes. */
static char *copy_line(const struct patches *s, const char *line, int64_t x, char *dst)
{
    const struct kn_axis *w = &s->a[2];
    const int64_t start = x * w->stride - w->lo;
    int64_t from = 0, to = 0;

    if (line)
        kn_axis_inside(w, x, &from, &to);
    memset(dst, 0, (size_t)from * s->pixel);
    if (w->dilation == 1)
        memcpy(dst + (size_t)from * s->pixel,
               line ? line + (start + from) * (int64_t)s->pixel : dst,
               (size_t)(to - from) * s->pixel);
    else
        for (int64_t k = from; k < to; k++)
            memcpy(dst + (size_t)k * s->pixel, line + (size_t)(start + k * w->dilation) * s->pixel,
                   s->pixel);
    memset(dst + (size_t)to * s->pixel, 0, (size_t)(w->size - to) * s->pixel);
    return dst + (size_t)w->size * s->pixel;
}

/* Copies the patch at plane z, row y and column x of a volume. */
static enum rt_status copy_patch(struct rt_run *r, int64_t *left, const struct patches *s,
                                 const char *volume, const int64_t *at, char *dst)
{
    const struct kn_axis *d = &s->a[0], *h = &s->a[1], *w = &s->a[2];
    const int64_t work = rt_mul_saturated(w->size, (int64_t)s->pixel / 4 + 4) + 16;

    for (int64_t i = 0; i < d->size; i++) {
        const int64_t z = at[0] * d->stride - d->lo + i * d->dilation;
        for (int64_t j = 0; j < h->size; j++) {
            const int64_t y = at[1] * h->stride - h->lo + j * h->dilation;
            const bool is_inside = z >= 0 && z < d->in && y >= 0 && y < h->in;
            const size_t line = (size_t)(z * h->in + y) * (size_t)w->in * s->pixel;
            dst = copy_line(s, is_inside ? volume + line : NULL, at[2], dst);
            if (rt_run_spend(r, left, work))
                return r->err->code;
        }
    }
    return RT_OK;
}

/* Computes rows [from, to) of the output, counted over planes and volumes. */
static enum rt_status run_lines(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct patches *s = r->state;
    const struct kn_axis *a = s->a;
    const size_t volume = (size_t)(a[0].in * a[1].in * a[2].in) * s->pixel;
    const size_t patch = (size_t)(a[0].size * a[1].size * a[2].size) * s->pixel;
    const char *src = r->in[0].data;
    char *dst = (char *)r->out[0].data + (size_t)from * (size_t)a[2].out * patch;
    int64_t left = RT_WORK;

    (void)arg;
    for (int64_t i = from; i < to; i++) {
        const int64_t plane = i / a[1].out;
        const char *from_volume = src + (size_t)(plane / a[0].out) * volume;
        for (int64_t x = 0; x < a[2].out; x++, dst += patch) {
            const int64_t at[AXES] = {plane % a[0].out, i % a[1].out, x};
            if (copy_patch(r, &left, s, from_volume, at, dst))
                return r->err->code;
        }
    }
    return RT_OK;
}

static enum rt_status run_patches(struct rt_run *r)
{
    const struct rt_tensor *o = &r->out[0];
    const int64_t n = rt_tensor_count(o);

    if (n == 0)
        return RT_OK;
    const int64_t line = o->dim[o->rank - 2] * o->dim[o->rank - 1];
    return kn_parallel_rows(r, n / line, line, 1, run_lines, NULL);
}

#define PATCHES(symbol, op_, name_, types_)                                                        \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_, .infer = infer_patches, .rows = rt_rows_first},                        \
        .kernels = KN_CPU(op_, name_, types_, prepare_patches, run_patches),                       \
    }
PATCHES(extract_image_patches, "ExtractImagePatches", "image_patches", KN_SET(KN_NUMBERS));
PATCHES(extract_volume_patches, "ExtractVolumePatches", "volume_patches", KN_SET(KN_REALS));
