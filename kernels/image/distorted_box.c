/*
 * SampleDistortedBoundingBox, SampleDistortedBoundingBoxV2 and StatelessSampleDistortedBoundingBox
 * draw a random window of an image. The window has an aspect ratio and an area in given ranges and
 * covers a given part of at least one of the objects whose boxes are given. If all attempts fail,
 * the window is the image.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/image/image.h"
#include "kernels/random/source.h"

struct rect { /* pixels [top, bottom) x [left, right) */
    int64_t top, left, bottom, right;
};

struct limits {
    int64_t h, w; /* the image */
    float ratio[2], area[2], covered;
};

static int64_t area_of(const struct rect *r)
{
    return (r->bottom - r->top) * (r->right - r->left);
}

/* ---- attributes ---- */

/* Copies both ends of a range from a list of floats. `words` names the range in messages. */
static enum rt_status read_range(const struct rt_node *n, const char *name, const char *words,
                                 float range[2], struct rt_error *err)
{
    const struct rt_attr *a = rt_attr(n, name);

    if (a->n != 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s range field must specify 2 dimensions", words);
    range[0] = a->v.floats[0];
    range[1] = a->v.floats[1];
    if (!(range[0] > 0) || !(range[1] > 0))
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s range must be non-negative: [%g, %g]", words,
                       (double)range[0], (double)range[1]);
    return RT_OK;
}

static enum rt_status check_covered(float covered, struct rt_error *err)
{
    if (covered >= 0)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT, "Min object covered must be non-negative: %g",
                   isnan(covered) ? (double)NAN : (double)covered);
}

static enum rt_status read_attrs(const struct rt_node *n, struct limits *l, struct rt_error *err)
{
    const int64_t attempts = rt_attr_int(n, "max_attempts");

    if (n->n_in == 2) {
        l->covered = rt_attr_float(n, "min_object_covered");
        if (check_covered(l->covered, err))
            return err->code;
    }
    if (read_range(n, "aspect_ratio_range", "Aspect ratio", l->ratio, err) ||
        read_range(n, "area_range", "Area", l->area, err))
        return err->code;
    if (l->area[0] > 1 || l->area[1] > 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Area range must be less then or equal to 1.0: [%g, %g]", (double)l->area[0],
                       (double)l->area[1]);
    if (attempts <= 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Max attempts must be non-negative: %lld",
                       (long long)attempts);
    return kn_check_i32("max_attempts", attempts, err);
}

static enum rt_status infer(struct rt_infer *x)
{
    const struct rt_shape *size = &x->in[0].shape, *boxes = &x->in[1].shape;
    struct limits l;

    if (read_attrs(x->node, &l, x->err))
        return x->err->code;
    kn_set_vector(&x->out[0], 3);
    kn_set_vector(&x->out[1], 3);
    kn_set_shape(&x->out[2], 3, (const int64_t[]){1, 1, 4});
    if (kn_image_rank_differs(size, 1))
        return kn_image_fail_shape(x->err, "image_size must be 1-dimensional", size);
    if (size->rank == 1 && size->dim[0] >= 0 && size->dim[0] != 3)
        return kn_image_fail_shape(x->err, "image_size must contain 3 elements", size);
    if (kn_image_rank_differs(boxes, 3))
        return kn_image_fail_shape(
            x->err, "input boxes must be 3-dimensional [batch, num_boxes, coords]: ", boxes);
    if (boxes->rank == 3 && boxes->dim[2] >= 0 && boxes->dim[2] != 4)
        return kn_image_fail_shape(x->err, "bounding boxes must have shape [4] or [*, 4], got ",
                                   boxes);
    if (x->n_in > 2 && kn_image_rank_differs(&x->in[2].shape, 0))
        return kn_image_fail_shape(x->err, "min_object_covered must be 0-D, got shape ",
                                   &x->in[2].shape);
    return RT_OK;
}

/* ---- random windows ---- */

/* Returns a random number below n, without bias. */
static int64_t below(struct kn_singles *s, int64_t n)
{
    const uint32_t m = (uint32_t)n;
    uint32_t v = kn_next_bits(s);

    if ((m & (m - 1)) == 0)
        return v & (m - 1);
    while (v < UINT32_MAX % m + 1)
        v = kn_next_bits(s);
    return v % m;
}

/* Draws a window of the given aspect ratio. Returns false if none was found. */
static bool draw_window(struct kn_singles *s, const struct limits *l, float ratio, struct rect *r)
{
    const float image = (float)l->w * (float)l->h;
    const float least = l->area[0] * image, most = l->area[1] * image;
    int64_t h, w;

    if (!(l->area[0] <= l->area[1]) || !(ratio > 0) || l->h <= 0 || l->w <= 0)
        return false;
    h = lrintf(sqrtf(least / ratio));
    int64_t max_h = lrintf(sqrtf(most / ratio));
    if (lrintf((float)max_h * ratio) > l->w)
        max_h = (int64_t)(((double)l->w + 0.5 - 1e-7) / (double)ratio);
    max_h = max_h < l->h ? max_h : l->h;
    h = h < max_h ? h : max_h;
    if (h < max_h)
        h += below(s, max_h - h + 1);
    w = lrintf((float)h * ratio);
    /* Rounding may have moved the area out of its range. */
    if ((float)(w * h) < least)
        w = lrintf((float)++h * ratio);
    if ((float)(w * h) > most)
        w = lrintf((float)--h * ratio);
    const float area = (float)(w * h);
    if (area < least || area > most || w > l->w || h > l->h || w <= 0 || h <= 0)
        return false;
    r->top = h < l->h ? below(s, l->h - h) : 0;
    r->left = w < l->w ? below(s, l->w - w) : 0;
    r->bottom = r->top + h;
    r->right = r->left + w;
    return true;
}

/* Returns the pixels of a box, whose coordinates are fractions of the image. */
static struct rect pixels_of(const struct limits *l, const float *box)
{
    return (struct rect){.top = (int64_t)(box[0] * (float)l->h),
                         .left = (int64_t)(box[1] * (float)l->w),
                         .bottom = (int64_t)(box[2] * (float)l->h),
                         .right = (int64_t)(box[3] * (float)l->w)};
}

/* Returns whether the window covers enough of one of the objects. */
static enum rt_status covers(struct rt_run *r, const struct limits *l, const struct rect *window,
                             const float *box, int64_t n, bool *found)
{
    *found = false;
    for (int64_t i = 0; i < n && !*found; i++, box += 4) {
        const struct rect object = pixels_of(l, box);
        const struct rect both = {
            .top = object.top > window->top ? object.top : window->top,
            .left = object.left > window->left ? object.left : window->left,
            .bottom = object.bottom < window->bottom ? object.bottom : window->bottom,
            .right = object.right < window->right ? object.right : window->right};
        const bool meets = both.bottom > both.top && both.right > both.left;
        const float area = (float)area_of(&object), part = meets ? (float)area_of(&both) : 0;
        const bool is_object = object.bottom > object.top && object.right > object.left;
        *found = is_object && part / area >= l->covered;
        if (rt_run_spend(r, &r->left, 20))
            return r->err->code;
    }
    return RT_OK;
}

/* Sets *window to a random window, or to the image if all attempts fail. */
static enum rt_status sample(struct rt_run *r, const struct limits *l, struct kn_singles *s,
                             const float *box, int64_t n, struct rect *window)
{
    const int64_t attempts = rt_attr_int(r->node, "max_attempts");
    bool found = false;

    for (int64_t i = 0; i < attempts && !found; i++) {
        const float ratio =
            kn_unit_float(kn_next_bits(s)) * (l->ratio[1] - l->ratio[0]) + l->ratio[0];
        if (draw_window(s, l, ratio, window) && covers(r, l, window, box, n, &found))
            return r->err->code;
        if (rt_run_spend(r, &r->left, 100))
            return r->err->code;
    }
    if (!found)
        *window = (struct rect){.bottom = l->h, .right = l->w};
    return RT_OK;
}

/* ---- run ---- */

static enum rt_status read_image(struct rt_run *r, struct limits *l)
{
    static const char *const names[] = {"height", "width"};
    int64_t *const to[] = {&l->h, &l->w};

    for (int k = 0; k < 2; k++) {
        *to[k] = kn_int_at(&r->in[0], k);
        if (*to[k] < 0 || *to[k] >= INT32_MAX)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "image %s cannot be >= int32 max",
                           names[k]);
    }
    return RT_OK;
}

static enum rt_status check_boxes(struct rt_run *r)
{
    const int64_t n = rt_tensor_count(&r->in[1]);
    const float *box = r->in[1].data;

    for (int64_t i = 0; i < n; i++) {
        if (!(box[i] >= 0 && box[i] <= 1))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "All bounding box coordinates must be in [0.0, 1.0]: %g",
                           isnan(box[i]) ? (double)NAN : (double)box[i]);
        if (rt_run_spend(r, &r->left, 1))
            return r->err->code;
    }
    if (n == 0 && !rt_attr_bool(r->node, "use_image_if_no_bounding_boxes"))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "No bounding boxes provided as input. One must enable "
                       "use_image_if_no_bounding_boxes if you wish to not provide any bounding "
                       "boxes.");
    return RT_OK;
}

static enum rt_status take(struct rt_run *r, struct kn_philox *philox)
{
    if (r->n_in < 4) {
        const uint64_t attempts = (uint64_t)rt_attr_int(r->node, "max_attempts");
        return kn_source_take(r, KN_FROM_NODE, attempts, philox);
    }
    if (r->in[3].rank != 1 || r->in[3].dim[0] != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "seed must have shape [2], not %s",
                       KN_TEXT(&r->in[3]));
    *philox = kn_seeded_philox(&r->in[3]);
    return RT_OK;
}

static void put(struct rt_run *r, const struct limits *l, const struct rect *window)
{
    const int64_t begin[] = {window->top, window->left, 0};
    const int64_t size[] = {window->bottom - window->top, window->right - window->left, -1};
    float *box = r->out[2].data;

    for (int i = 0; i < 3; i++) {
        kn_put_int(&r->out[0], i, begin[i]);
        kn_put_int(&r->out[1], i, size[i]);
    }
    box[0] = (float)window->top / (float)l->h;
    box[1] = (float)window->left / (float)l->w;
    box[2] = (float)window->bottom / (float)l->h;
    box[3] = (float)window->right / (float)l->w;
}

static enum rt_status run(struct rt_run *r)
{
    static const float whole[] = {0, 0, 1, 1};
    const int64_t n = rt_tensor_count(&r->in[1]) / 4;
    struct kn_singles s = {.n_left = 0};
    struct rect window = {0, 0, 0, 0};
    struct limits l;

    if (read_attrs(r->node, &l, r->err) || read_image(r, &l))
        return r->err->code;
    if (r->n_in > 2) {
        l.covered = ((const float *)r->in[2].data)[0];
        if (check_covered(l.covered, r->err))
            return r->err->code;
    }
    if (check_boxes(r) || take(r, &s.philox) ||
        sample(r, &l, &s, n ? r->in[1].data : whole, n ? n : 1, &window))
        return r->err->code;
    put(r, &l, &window);
    return RT_OK;
}

/* ---- registry entries ---- */

#define SAMPLE(symbol, op_, name_, effect_)                                                        \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_, .effect = effect_, .infer = infer},                                    \
        .kernels = KN_CPU(op_, name_, KN_SET(KN_INTS), NULL, run),                                 \
    }
SAMPLE(sample_distorted_bounding_box, "SampleDistortedBoundingBox", "distorted_box", RT_RANDOM);
SAMPLE(sample_distorted_bounding_box_v2, "SampleDistortedBoundingBoxV2", "distorted_box_v2",
       RT_RANDOM);
SAMPLE(stateless_sample_distorted_bounding_box, "StatelessSampleDistortedBoundingBox",
       "stateless_distorted_box", RT_PURE);
