/* Device code of Softmax and LogSoftmax. Each block computes rows one at a time. */
#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/softmax.h"

KC_BLOCK_REDUCTION(block_max, kc_max)
KC_BLOCK_REDUCTION(block_sum, kc_add)

KC_KERNEL(kc_softmax, kc_softmax, args)
{
    for (int64_t row = KC_BLOCK; row < args.rows; row += KC_N_BLOCKS) {
        const float *x = KC_ADDRESS(args.in) + row * args.columns;
        float *y = KC_ADDRESS(args.out) + row * args.columns;
        float top = -INFINITY, sum = 0;
        for (int64_t c = KC_THREAD; c < args.columns; c += KC_BLOCK_THREADS)
            top = kc_max(top, x[c]);
        top = block_max(top);
        for (int64_t c = KC_THREAD; c < args.columns; c += KC_BLOCK_THREADS)
            sum += expf(x[c] - top);
        sum = block_sum(sum);
        const float log_sum = logf(sum);
        for (int64_t c = KC_THREAD; c < args.columns; c += KC_BLOCK_THREADS)
            y[c] = args.logarithm ? x[c] - top - log_sum : expf(x[c] - top) / sum;
    }
}
