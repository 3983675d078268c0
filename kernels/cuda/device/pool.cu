/* Device code of pooling. Each thread computes output elements one at a time. */
#include <float.h>

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/pool.h"

KC_KERNEL(kc_pool, kc_pool, args)
{
    const struct kc_axis *a = args.axis;
    for (int64_t i = KC_INDEX; i < args.n; i += KC_TOTAL) {
        int64_t left = i / args.channels, from[3], lo[3], hi[3];
        int64_t inside = 1, count = 1;
        for (int k = 2; k >= 0; k--) {
            const int64_t start = left % a[k].out * a[k].stride - a[k].lo;
            left /= a[k].out;
            from[k] = start;
            lo[k] = start < 0 ? -start : 0;
            hi[k] = start + a[k].size > a[k].in ? a[k].in - start : a[k].size;
            inside *= hi[k] - lo[k];
            count *= a[k].size;
        }
        float value = -FLT_MAX;
        if (args.average || (inside < count && args.zeros))
            value = 0;
        else if (args.may_be_infinite && inside == count)
            value = -INFINITY;
        for (int64_t d = lo[0]; d < hi[0]; d++)
            for (int64_t h = lo[1]; h < hi[1]; h++)
                for (int64_t w = lo[2]; w < hi[2]; w++) {
                    const int64_t at =
                        ((left * a[0].in + from[0] + d) * a[1].in + from[1] + h) * a[2].in +
                        from[2] + w;
                    const float x = KC_ADDRESS(args.in)[at * args.channels + i % args.channels];
                    value = args.average ? value + x : kc_max(value, x);
                }
        KC_ADDRESS(args.out)[i] = args.average ? value / (float)inside : value;
    }
}
