/* Reductions over the threads of a block. All threads of the block must call them. */
#ifndef KC_BLOCK_CUH
#define KC_BLOCK_CUH

#include "kernels/cuda/device/device_code.h"

KC_DEVICE float kc_add(float a, float b)
{
    return a + b;
}

/* Returns the larger of a and b, or NaN if one of them is NaN. */
KC_DEVICE float kc_max(float a, float b)
{
    return a >= b || a != a ? a : b;
}

KC_DEVICE float kc_min(float a, float b)
{
    return a <= b || a != a ? a : b;
}

/*
 * Defines a reduction: in every thread of the block, the function returns the values of all the
 * block's threads combined by `combine`. The number of threads must be a multiple of KC_WARP and at
 * most KC_WARP * KC_WARP.
 */
#define KC_BLOCK_REDUCTION(name, combine)                                                          \
    KC_DEVICE float name(float value)                                                              \
    {                                                                                              \
        KC_SHARED(float, part, KC_WARP);                                                           \
        const int lane = KC_THREAD % KC_WARP, warp = KC_THREAD / KC_WARP;                          \
        for (int mask = KC_WARP / 2; mask; mask /= 2)                                              \
            value = combine(value, KC_SHUFFLE_XOR(value, mask));                                   \
        KC_BARRIER(); /* another thread may still be reading `part` of an earlier call */          \
        if (lane == 0)                                                                             \
            part[warp] = value;                                                                    \
        KC_BARRIER();                                                                              \
        value = part[0];                                                                           \
        for (int w = 1; w < KC_BLOCK_THREADS / KC_WARP; w++)                                       \
            value = combine(value, part[w]);                                                       \
        return value;                                                                              \
    }

#endif
