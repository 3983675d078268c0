/* Computes the gradients of pooling ops, window by window. */
#include "kernels/nn/pool_grad.h"

#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/parallel.h"
#include "kernels/math/elementwise.h"
#include "runtime/base/checked.h"

/*
 * Channels are processed in chunks of at most CHANNELS, so that the data of a window fits on the
 * stack. The costs, in units of rt_run_spend, are those of locating a window, of advancing to one
 * of its elements, and of processing a channel.
 */
enum { CHANNELS = 256, PLACE_WORK = 16, PIXEL_WORK = 4, CHANNEL_WORK = 4 };

/* ---- one pixel of a window, for n channels ---- */

/* Where x is greater than *most, replaces *most by x, and *best by the pixel's index `at`. */
typedef void better_fn(void *most, int64_t *best, const void *x, int64_t at, int64_t n);
/* Adds g[i] to channel i of pixel best[i] of d. */
typedef void add_fn(void *d, const int64_t *best, const void *g, int64_t channels, int64_t n);
/* Adds g to d where x equals y (see EQUAL). */
typedef void equal_fn(void *d, const void *x, const void *y, const void *g, int64_t n);
/* Sets d to g where x equals y and best is negative, that is, where no earlier element was
 * equal. */
typedef void pick_fn(void *d, int64_t *best, const void *x, const void *y, const void *g,
                     int64_t n);
/* Adds g * by to d. */
typedef void spread_fn(void *d, const void *g, double by, int64_t n);

#define MAXIMUM(dt, T, X)                                                                          \
    KN_FAST(dt)                                                                                    \
    static void better_##dt(void *restrict most, int64_t *restrict best, const void *restrict src, \
                            int64_t at, int64_t n)                                                 \
    {                                                                                              \
        T *m = most;                                                                               \
        const T *x = src;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const bool more = KN_GET(dt, x[i]) > KN_GET(dt, m[i]);                                 \
            m[i] = more ? x[i] : m[i];                                                             \
            best[i] = more ? at : best[i];                                                         \
        }                                                                                          \
    }                                                                                              \
    static void add_##dt(void *dst, const int64_t *best, const void *src, int64_t channels,        \
                         int64_t n)                                                                \
    {                                                                                              \
        const T *g = src;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T *d = (T *)dst + best[i] * channels + i;                                              \
            *d = KN_PUT(dt, (KN_U(dt))KN_GET(dt, *d) + (KN_U(dt))KN_GET(dt, g[i]));                \
        }                                                                                          \
    }                                                                                              \
    static void pick_##dt(void *dst, int64_t *best, const void *src, const void *out,              \
                          const void *grad, int64_t n)                                             \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *x = src, *y = out, *g = grad;                                                     \
        for (int64_t i = 0; i < n; i++)                                                            \
            if (best[i] < 0 && KN_GET(dt, x[i]) == KN_GET(dt, y[i])) {                             \
                best[i] = 0;                                                                       \
                d[i] = g[i];                                                                       \
            }                                                                                      \
    }
KN_FOR_REALS(MAXIMUM, )

/* As in TensorFlow, an element of the input equals the window's maximum if their difference is less
 * than 1e-5. An infinite element never equals the maximum. */
#define EQUAL(dt, T)                                                                               \
    KN_FAST(dt)                                                                                    \
    static void equal_##dt(void *restrict dst, const void *restrict src, const void *restrict out, \
                           const void *restrict grad, int64_t n)                                   \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *x = src, *y = out, *g = grad;                                                     \
        const KN_C(dt) least = KN_ROUND(dt, 1e-5F);                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const KN_C(dt) off = KN_ROUND(dt, KN_GET(dt, x[i]) - KN_GET(dt, y[i]));                \
            const KN_C(dt) v = off > -least && off < least ? KN_GET(dt, g[i]) : 0;                 \
            d[i] = KN_PUT(dt, KN_GET(dt, d[i]) + v);                                               \
        }                                                                                          \
    }
EQUAL(RT_F32, float)
EQUAL(RT_BF16, struct kn_bfloat)

/* As in TensorFlow, three numbers are rounded to the type of the gradient: an element's share, its
 * product with the gradient, and the sum. */
#define SPREAD(dt, T, X)                                                                           \
    KN_FAST(dt)                                                                                    \
    static void spread_##dt(void *restrict dst, const void *restrict src, double by, int64_t n)    \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *g = src;                                                                          \
        const KN_C(dt) f = KN_ROUND(dt, (KN_C(dt))by);                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i] = KN_PUT(dt, KN_GET(dt, d[i]) + KN_ROUND(dt, KN_GET(dt, g[i]) * f));              \
    }
KN_FOR_FLOATS(SPREAD, )

static better_fn *const better[RT_N_DTYPES] = {KN_FOR_REALS(KN_ROW_OF, better)};
static add_fn *const add[RT_N_DTYPES] = {KN_FOR_REALS(KN_ROW_OF, add)};
static pick_fn *const pick[RT_N_DTYPES] = {KN_FOR_REALS(KN_ROW_OF, pick)};
static spread_fn *const spread[RT_N_DTYPES] = {KN_FOR_FLOATS(KN_ROW_OF, spread)};
static equal_fn *const equal[RT_N_DTYPES] = {[RT_F32] = equal_RT_F32, [RT_BF16] = equal_RT_BF16};

/* ---- one window ---- */

/* One window and n channels of it. x and dx point to the image, y and dy to the window's output. */
struct window {
    const struct kn_pool_grad *g;
    /* the range of pixels that the window covers */
    int64_t from[KN_MAX_SPATIAL], to[KN_MAX_SPATIAL];
    const char *x, *y;
    char *dx, *dy;
    int64_t pixel_bytes, n;
};

/*
 * Sets the range of an average's window along one axis. If the window is larger than the image,
 * TensorFlow's range near the start of the axis is longer than the part of the window that lies
 * inside the image.
 */
static void spread_range(const struct kn_axis *a, int64_t i, int64_t *from, int64_t *to)
{
    const int64_t at = i * a->stride;
    int64_t n = at < a->lo ? a->size + at - a->lo : a->size;

    *from = at < a->lo ? 0 : at - a->lo;
    if (*from + a->size > a->in)
        n = kn_min_i64(a->in - *from, a->size);
    *to = *from + (n > 0 ? n : 0);
}

static void place(struct window *w, const int64_t *at)
{
    for (int i = 0; i < KN_MAX_SPATIAL; i++) {
        const struct kn_axis *a = &w->g->axis[i];
        if (w->g->op->how == KN_POOL_GRAD_SPREAD) {
            spread_range(a, at[i], &w->from[i], &w->to[i]);
            continue;
        }
        kn_axis_inside(a, at[i], &w->from[i], &w->to[i]);
        w->from[i] += at[i] * a->stride - a->lo;
        w->to[i] += at[i] * a->stride - a->lo;
    }
}

static enum rt_status window_pixels(struct rt_run *r, const struct window *w, int64_t *best,
                                    void *most, int64_t *left)
{
    const struct kn_pool_grad *g = w->g;
    const enum rt_dtype dt = g->dtype;
    double by = 1;

    for (int i = 0; i < KN_MAX_SPATIAL; i++)
        by *= (double)(w->to[i] - w->from[i]);
    for (int64_t d = w->from[0]; d < w->to[0]; d++)
        for (int64_t h = w->from[1]; h < w->to[1]; h++)
            for (int64_t c = w->from[2]; c < w->to[2]; c++) {
                const int64_t at = (d * g->axis[1].in + h) * g->axis[2].in + c;
                const char *x = w->x + at * w->pixel_bytes;
                char *dx = w->dx + at * w->pixel_bytes;
                if (g->op->how == KN_POOL_GRAD_SPREAD)
                    spread[dt](dx, w->dy, 1 / by, w->n);
                else if (g->op->how == KN_POOL_GRAD_EQUAL)
                    equal[dt](dx, x, w->y, w->dy, w->n);
                else if (g->op->how == KN_POOL_GRAD_PICK)
                    pick[dt](w->dy, best, x, w->y, dx, w->n);
                else
                    better[dt](most, best, x, at, w->n);
                if (rt_run_spend(r, left, CHANNEL_WORK * w->n + PIXEL_WORK))
                    return r->err->code;
            }
    return RT_OK;
}

static enum rt_status window_run(struct rt_run *r, const struct window *w, int64_t *left)
{
    const struct kn_pool_grad *g = w->g;
    const size_t bytes = (size_t)w->n * rt_dtype_size(g->dtype);
    bool is_empty = false;
    int64_t best[CHANNELS];
    double most[CHANNELS]; /* large enough for elements of any type */

    for (int i = 0; i < KN_MAX_SPATIAL; i++)
        is_empty |= w->to[i] <= w->from[i];
    if (g->op->how == KN_POOL_GRAD_PICK) {
        memset(w->dy, 0, bytes);
        for (int64_t i = 0; i < w->n; i++)
            best[i] = -1;
    }
    if (is_empty)
        return rt_run_spend(r, left, PLACE_WORK + w->n);
    if (g->op->how == KN_POOL_GRAD_FIRST) {
        /* The first element, even a NaN, is the maximum until a greater element follows. */
        const int64_t first =
            (w->from[0] * g->axis[1].in + w->from[1]) * g->axis[2].in + w->from[2];
        memcpy(most, w->x + first * w->pixel_bytes, bytes);
        for (int64_t i = 0; i < w->n; i++)
            best[i] = first;
    }
    if (window_pixels(r, w, best, most, left))
        return r->err->code;
    if (g->op->how == KN_POOL_GRAD_FIRST)
        add[g->dtype](w->dx, best, w->dy, g->channels, w->n);
    return rt_run_spend(r, left, PLACE_WORK + CHANNEL_WORK * w->n);
}

/* ---- all windows ---- */

/* The tensors of a run: the pooling's input x and output y, and the gradients of both. The op's
 * output is dx or dy. */
struct tensors {
    const char *x, *y;
    char *dx, *dy;
};

static struct tensors tensors_of(const struct rt_run *r, enum kn_pool_grad_how how)
{
    char *out = r->out[0].data;

    if (how == KN_POOL_GRAD_SPREAD)
        return (struct tensors){.x = out, .dx = out, .dy = r->in[1].data};
    return (struct tensors){.x = r->in[0].data,
                            .y = r->in[1].data,
                            .dx = how == KN_POOL_GRAD_PICK ? r->in[2].data : out,
                            .dy = how == KN_POOL_GRAD_PICK ? out : r->in[2].data};
}

static int64_t pixels_in(const struct kn_pool_grad *g)
{
    return g->axis[0].in * g->axis[1].in * g->axis[2].in;
}

static int64_t pixels_out(const struct kn_pool_grad *g)
{
    return g->axis[0].out * g->axis[1].out * g->axis[2].out;
}

/* Computes chunks [from, to) of channels. Chunks are numbered across all images. */
static enum rt_status pool_grad_shard(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct kn_pool_grad *g = r->state;
    const struct tensors *t = arg;
    const int64_t size = (int64_t)rt_dtype_size(g->dtype);
    const int64_t chunks = kn_div_up(g->channels, CHANNELS);
    struct window w = {.g = g, .pixel_bytes = g->channels * size};
    int64_t at[KN_MAX_SPATIAL], left = RT_WORK;

    for (int64_t i = from; i < to; i++) {
        const int64_t c = i % chunks * CHANNELS, image = i / chunks;
        int64_t in = (image * pixels_in(g) * g->channels + c) * size;
        int64_t out = (image * pixels_out(g) * g->channels + c) * size;
        w.n = kn_min_i64(CHANNELS, g->channels - c);
        w.x = t->x + in;
        w.dx = t->dx + in;
        for (at[0] = 0; at[0] < g->axis[0].out; at[0]++)
            for (at[1] = 0; at[1] < g->axis[1].out; at[1]++)
                for (at[2] = 0; at[2] < g->axis[2].out; at[2]++, out += w.pixel_bytes) {
                    w.y = t->y ? t->y + out : NULL;
                    w.dy = t->dy + out;
                    place(&w, at);
                    if (window_run(r, &w, &left))
                        return r->err->code;
                }
    }
    return RT_OK;
}

enum rt_status kn_pool_grad_run(struct rt_run *r)
{
    const struct kn_pool_grad *g = r->state;
    struct tensors t = tensors_of(r, g->op->how);
    int64_t work =
        rt_mul_saturated(CHANNEL_WORK * kn_min_i64(CHANNELS, g->channels), pixels_out(g));

    if (!rt_tensor_count(&r->out[0]))
        return RT_OK;
    if (g->op->how != KN_POOL_GRAD_PICK &&
        kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0])))
        return r->err->code;
    for (int i = 0; i < KN_MAX_SPATIAL; i++)
        work = rt_mul_saturated(work, kn_min_i64(g->axis[i].size, g->axis[i].in));
    return kn_parallel_rows(r, g->batch * kn_div_up(g->channels, CHANNELS),
                            kn_min_i64(work, INT64_MAX / 2) + PLACE_WORK, 1, pool_grad_shard, &t);
}

enum rt_status kn_pool_grad_index_run(struct rt_run *r)
{
    const struct kn_pool_grad *g = r->state;
    const int64_t n = rt_tensor_count(&r->in[1]), size = (int64_t)rt_dtype_size(g->dtype);
    const int64_t *index = r->in[2].data;
    const int64_t image = pixels_in(g) * g->channels, per_image = g->batch ? n / g->batch : 0;
    const bool all = rt_attr_bool(r->node, "include_batch_in_index");
    const int64_t end = all ? rt_tensor_count(&r->out[0]) : image;
    int64_t left = RT_WORK;

    if (kn_zero_chunks(r, r->out[0].data, rt_tensor_bytes(&r->out[0])))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        if (index[i] < 0 || index[i] >= end)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Invalid output gradient index: %lld, 0, %lld", (long long)index[i],
                           (long long)end);
        char *d = (char *)r->out[0].data + (all ? 0 : i / per_image * image * size);
        add[g->dtype](d, &index[i], (const char *)r->in[1].data + i * size, 1, 1);
        if (rt_run_spend(r, &left, 2 * CHANNEL_WORK))
            return r->err->code;
    }
    return RT_OK;
}
