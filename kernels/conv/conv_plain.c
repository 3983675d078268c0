#include "kernels/conv/conv_plain.h"

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"

/* A convolution over three spatial axes. An axis that the op lacks has length 1. */
struct walk {
    int64_t batch, ci, co, cig, cog, groups;
    struct kn_axis a[3];
};

static struct walk walk_of(const struct kn_conv_shape *g)
{
    struct walk w = {.batch = g->batch,
                     .ci = g->ci,
                     .co = g->co,
                     .cig = g->groups ? g->ci / g->groups : 0,
                     .cog = g->groups ? g->co / g->groups : 0,
                     .groups = g->groups};
    w.a[0] = (struct kn_axis){.in = 1, .out = 1, .size = 1, .stride = 1, .dilation = 1};
    for (int i = 0; i < g->n_spatial; i++)
        w.a[3 - g->n_spatial + i] = g->axis[i];
    return w;
}

/* Returns how many input channels of each group are processed between two deadline checks. */
static int64_t channels_at_a_time(const struct walk *w)
{
    const int64_t n = w->co ? RT_WORK / 4 / w->co : w->cig;
    return n > 1 ? n : 1;
}

enum { WINDOW_WORK = 64 }; /* the cost of locating one window, in units of rt_run_spend */

#define PLAIN(dt, T, U)                                                                            \
    KN_CLONES static void tap_##dt(const struct walk *w, int64_t from, int64_t to, const T *x,     \
                                   const T *f, T *y)                                               \
    {                                                                                              \
        for (int64_t g = 0; g < w->groups; g++)                                                    \
            for (int64_t i = from; i < to; i++) {                                                  \
                const U v = (U)x[g * w->cig + i];                                                  \
                const T *restrict fr = f + i * w->co + g * w->cog;                                 \
                T *restrict yr = y + g * w->cog;                                                   \
                for (int64_t o = 0; o < w->cog; o++)                                               \
                    yr[o] = (T)((U)yr[o] + v * (U)fr[o]);                                          \
            }                                                                                      \
    }                                                                                              \
    static void tap_back_##dt(const struct walk *w, int64_t from, int64_t to, T *x, const T *f,    \
                              const T *y)                                                          \
    {                                                                                              \
        for (int64_t g = 0; g < w->groups; g++)                                                    \
            for (int64_t i = from; i < to; i++) {                                                  \
                const T *fr = f + i * w->co + g * w->cog, *yr = y + g * w->cog;                    \
                U s = 0;                                                                           \
                for (int64_t o = 0; o < w->cog; o++)                                               \
                    s += (U)yr[o] * (U)fr[o];                                                      \
                x[g * w->cig + i] = (T)((U)x[g * w->cig + i] + s);                                 \
            }                                                                                      \
    }                                                                                              \
    /* Computes one window. `at` is the window's position along the spatial axes of y. `x` points  \
     * to the image in x, and `y` points to the window's pixel in y. */                            \
    static enum rt_status window_##dt(const struct walk *w, const int64_t *at, T *x, const T *f,   \
                                      T *y, bool back, struct rt_run *r, int64_t *left)            \
    {                                                                                              \
        const int64_t step = channels_at_a_time(w);                                                \
        int64_t lo[3], hi[3];                                                                      \
        for (int i = 0; i < 3; i++)                                                                \
            kn_axis_inside(&w->a[i], at[i], &lo[i], &hi[i]);                                       \
        for (int64_t d = lo[0]; d < hi[0]; d++)                                                    \
            for (int64_t h = lo[1]; h < hi[1]; h++)                                                \
                for (int64_t c = lo[2]; c < hi[2]; c++) {                                          \
                    const int64_t j[3] = {d, h, c};                                                \
                    int64_t p = 0, q = 0;                                                          \
                    for (int i = 0; i < 3; i++) {                                                  \
                        const struct kn_axis *a = &w->a[i];                                        \
                        p = p * a->in + at[i] * a->stride - a->lo + j[i] * a->dilation;            \
                        q = q * a->size + j[i];                                                    \
                    }                                                                              \
                    for (int64_t i = 0; i < w->cig; i += step) {                                   \
                        const int64_t to = w->cig - i < step ? w->cig : i + step;                  \
                        if (back)                                                                  \
                            tap_back_##dt(w, i, to, x + p * w->ci, f + q * w->cig * w->co, y);     \
                        else                                                                       \
                            tap_##dt(w, i, to, x + p * w->ci, f + q * w->cig * w->co, y);          \
                        if (rt_run_spend(r, left, (to - i) * w->co + 8)) /* 8 for each tap */      \
                            return r->err->code;                                                   \
                    }                                                                              \
                }                                                                                  \
        return rt_run_spend(r, left, WINDOW_WORK);                                                 \
    }                                                                                              \
    /* Computes y from x or, with `back`, x from y. The result must be zeroed before the call. */  \
    static enum rt_status plain_##dt(const struct walk *w, T *x, const T *f, T *y, bool back,      \
                                     struct rt_run *r)                                             \
    {                                                                                              \
        int64_t at[3], left = RT_WORK;                                                             \
        const int64_t in = w->a[0].in * w->a[1].in * w->a[2].in * w->ci;                           \
        for (int64_t n = 0; n < w->batch; n++, x += in)                                            \
            for (at[0] = 0; at[0] < w->a[0].out; at[0]++)                                          \
                for (at[1] = 0; at[1] < w->a[1].out; at[1]++)                                      \
                    for (at[2] = 0; at[2] < w->a[2].out; at[2]++, y += w->co)                      \
                        if (window_##dt(w, at, x, f, y, back, r, &left))                           \
                            return r->err->code;                                                   \
        return RT_OK;                                                                              \
    }
PLAIN(RT_F32, float, float)
PLAIN(RT_F64, double, double)
PLAIN(RT_I32, int32_t, uint32_t)
#undef PLAIN

enum rt_status kn_conv_plain(const struct kn_conv_shape *g, enum rt_dtype dtype, const void *src,
                             const void *filter, void *dst, int64_t n_dst, struct rt_run *r)
{
    const struct walk w = walk_of(g);
    const bool back = g->transposed;
    /* The loops do not write to `from`, which is x in a forward convolution and y in a transposed
     * one. */
    void *from = (void *)(uintptr_t)src;
    void *x = back ? dst : from, *y = back ? from : dst;

    const enum rt_status st = kn_zero_chunks(r, dst, (size_t)n_dst * rt_dtype_size(dtype));

    if (st)
        return st;
    if (dtype == RT_F64)
        return plain_RT_F64(&w, x, filter, y, back, r);
    if (dtype == RT_I32)
        return plain_RT_I32(&w, x, filter, y, back, r);
    return plain_RT_F32(&w, x, filter, y, back, r);
}
