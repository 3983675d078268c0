/* Device code of layer normalisation. Each block computes rows one at a time. */
#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/norm.h"

KC_BLOCK_REDUCTION(block_sum, kc_add)

KC_KERNEL(kc_norm, kc_norm, args)
{
    const float n = (float)args.columns;
    for (int64_t row = KC_BLOCK; row < args.rows; row += KC_N_BLOCKS) {
        const float *x = KC_ADDRESS(args.in) + row * args.columns;
        float *y = KC_ADDRESS(args.out) + row * args.columns;
        float sum = 0, squares = 0;
        for (int64_t c = KC_THREAD; c < args.columns && !args.no_mean; c += KC_BLOCK_THREADS)
            sum += x[c];
        const float mean = args.no_mean ? 0 : block_sum(sum) / n;
        for (int64_t c = KC_THREAD; c < args.columns; c += KC_BLOCK_THREADS)
            squares += (x[c] - mean) * (x[c] - mean);
        const float factor = 1 / sqrtf(block_sum(squares) / n + args.epsilon);
        for (int64_t c = KC_THREAD; c < args.columns; c += KC_BLOCK_THREADS) {
            float v = (x[c] - mean) * factor;
            if (args.scale)
                v *= KC_ADDRESS(args.scale)[c];
            if (args.offset)
                v += KC_ADDRESS(args.offset)[c];
            y[c] = v;
        }
    }
}
