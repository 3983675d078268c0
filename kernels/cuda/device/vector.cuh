/*
 * Vectors of up to 4 neighbouring floats, and index arithmetic.
 *
 * A kernel that processes vectors is written once, as a function with a parameter `width`. It calls
 * the function with the constants 4 and 1, so that the compiler makes two versions. Width 4 needs
 * addresses that are multiples of 16 bytes.
 */
#ifndef KC_VECTOR_CUH
#define KC_VECTOR_CUH

#include "kernels/cuda/device/device_code.h"

struct KC_ALIGNED(16) kc_vector {
    float v[4];
};

/* Returns `width` floats from address p. The other elements are 0. */
KC_DEVICE struct kc_vector kc_load(const float *p, int width)
{
    struct kc_vector x;
    if (width == 4)
        return *(const struct kc_vector *)(const void *)p;
    x.v[0] = *p;
    x.v[1] = x.v[2] = x.v[3] = 0;
    return x;
}

/* Writes the first `width` floats of x to address p. */
KC_DEVICE void kc_store(float *p, struct kc_vector x, int width)
{
    if (width == 4)
        *(struct kc_vector *)(void *)p = x;
    else
        *p = x.v[0];
}

/* Returns a / b for a >= 0 and b > 0. Divisions of 64 bits take several times as long as divisions
 * of 32 bits, so numbers below 2^32 are divided as such. */
KC_DEVICE int64_t kc_divide(int64_t a, int64_t b)
{
    if ((uint64_t)(a | b) >> 32)
        return a / b;
    return (int64_t)((uint32_t)a / (uint32_t)b);
}

#endif
