#include "kernels/conv/depthwise_internal.h"

#include <math.h>

#include "kernels/cpu/unroll.h"
#include "kernels/cpu/vec_math.h"

enum {
    /* Number of outputs that are computed together. It is 7, because the image widths of most
     * networks are multiples of 7. */
    PIXELS = 7,
    /* NEAR_BYTES is the size of the L1 cache. If the window rows of at least LEAST_CHANNELS
     * channels fit in this cache, as many channels as fit are processed together. Otherwise, all
     * channels are processed together, in memory order. */
    NEAR_BYTES = 32768,
    LEAST_CHANNELS = 64,
};

#define KN_LOOPS      "kernels/conv/depthwise_loops.h"
#define KN_LOOPS_TYPE struct kn_depthwise_loops
#define KN_LOOPS_OF   kn_depthwise_loops_of
#include "kernels/cpu/vector_sets.h"

bool kn_depthwise_activates(enum rt_activation act)
{
    return act == RT_ACT_NONE || act == RT_ACT_RELU || act == RT_ACT_RELU6 || act == RT_ACT_SWISH;
}

bool kn_depthwise_init(struct kn_depthwise *d)
{
    d->loops = loops_of(0);
    return (d->x.size == 3 || d->x.size == 5) && (d->x.stride == 1 || d->x.stride == 2) &&
           d->x.dilation == 1 && d->channels >= d->loops->lanes;
}

void kn_depthwise_rows(const struct kn_depthwise *d, const float *image, const float *filter,
                       const float *shift, float *dst, int64_t from, int64_t to)
{
    kn_depthwise_row_fn *row = d->loops->row[d->x.size == 5][d->x.stride - 1];
    const int64_t channels = d->channels, lanes = d->loops->lanes;
    const double floats = (double)d->y.size * (double)(d->x.in + d->x.size) + (double)d->x.out;
    int64_t near = (int64_t)(NEAR_BYTES / (double)sizeof(float) / floats) / lanes * lanes;

    if (near < LEAST_CHANNELS || near > channels)
        near = channels;
    for (int64_t c = 0, end; c < channels; c = end) {
        end = channels - c < near ? channels : c + near;
        for (int64_t i = from; i < to; i++) {
            int64_t lo, hi;
            kn_axis_inside(&d->y, i, &lo, &hi);
            const int64_t start = i * d->y.stride - d->y.lo + lo * d->y.dilation;
            row(d, image + start * d->x.in * channels, filter + lo * d->x.size * channels, shift,
                dst + i * d->x.out * channels, hi - lo, c, end);
        }
    }
}
