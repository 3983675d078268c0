/* Device code of pooling. Each thread computes one or four neighbouring channels of an output
 * position at a time. */
#include <float.h>

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/pool.h"
#include "kernels/cuda/device/vector.cuh"

/* The part of a window that lies inside the input. */
struct window {
    int64_t image, from[3], lo[3], hi[3];
    int64_t inside, count; /* number of positions inside the input, and in the whole window */
};

KC_DEVICE struct window window_of(const struct kc_axis *a, int64_t position)
{
    struct window w;
    w.inside = w.count = 1;
    for (int k = 2; k >= 0; k--) {
        const int64_t next = kc_divide(position, a[k].out);
        const int64_t start = (position - next * a[k].out) * a[k].stride - a[k].lo;
        position = next;
        w.from[k] = start;
        w.lo[k] = start < 0 ? -start : 0;
        w.hi[k] = start + a[k].size > a[k].in ? a[k].in - start : a[k].size;
        w.inside *= w.hi[k] - w.lo[k];
        w.count *= a[k].size;
    }
    w.image = position;
    return w;
}

/* Returns the value to which the elements of the window are added or compared. */
KC_DEVICE float initial(const struct kc_pool *a, const struct window *w)
{
    if (a->average || (w->inside < w->count && a->zeros))
        return 0;
    return a->may_be_infinite && w->inside == w->count ? -INFINITY : -FLT_MAX;
}

KC_DEVICE void pool(const struct kc_pool *args, int width)
{
    const struct kc_axis *a = args->axis;
    const int64_t n = args->n / width, across = args->channels / width;
    for (int64_t i = KC_INDEX; i < n; i += KC_TOTAL) {
        const int64_t position = kc_divide(i, across);
        const float *in = KC_ADDRESS(args->in) + (i - position * across) * width;
        const struct window win = window_of(a, position);
        struct kc_vector value;
        for (int c = 0; c < 4; c++)
            value.v[c] = initial(args, &win);
        for (int64_t d = win.lo[0]; d < win.hi[0]; d++)
            for (int64_t h = win.lo[1]; h < win.hi[1]; h++)
                for (int64_t w = win.lo[2]; w < win.hi[2]; w++) {
                    const int64_t at =
                        ((win.image * a[0].in + win.from[0] + d) * a[1].in + win.from[1] + h) *
                            a[2].in +
                        win.from[2] + w;
                    const struct kc_vector x = kc_load(in + at * args->channels, width);
                    for (int c = 0; c < width; c++)
                        value.v[c] =
                            args->average ? value.v[c] + x.v[c] : kc_max(value.v[c], x.v[c]);
                }
        for (int c = 0; c < width && args->average; c++)
            value.v[c] /= (float)win.inside;
        kc_store(KC_ADDRESS(args->out) + i * width, value, width);
    }
}

KC_KERNEL(kc_pool, kc_pool, args)
{
    if (args.width == 4)
        pool(&args, 4);
    else
        pool(&args, 1);
}
