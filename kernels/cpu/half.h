/*
 * float16 and bfloat16 as bits, and their conversions to and from float. The conversions round to
 * the nearest, ties to even, as TensorFlow does, and have no branches, so that loops over them
 * vectorise.
 */
#ifndef KN_CPU_HALF_H
#define KN_CPU_HALF_H

#include <stdint.h>
#include <string.h>

struct kn_half { /* the bits of an IEEE 754 binary16 number */
    uint16_t bits;
};
struct kn_bfloat { /* A bfloat16, which is the upper half of a float. */
    uint16_t bits;
};

static inline uint32_t kn_float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float kn_bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float kn_from_bf16(struct kn_bfloat h)
{
    return kn_bits_float((uint32_t)h.bits << 16);
}

static inline struct kn_bfloat kn_to_bf16(float f)
{
    const uint32_t u = kn_float_bits(f);
    const uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    const uint32_t nan = (u >> 16 & 0x8000) | 0x7fc0;
    return (struct kn_bfloat){(uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded)};
}

static inline float kn_from_f16(struct kn_half h)
{
    const uint32_t sign = (uint32_t)(h.bits & 0x8000) << 16, rest = h.bits & 0x7fff;
    /* For normal numbers, the exponent's bias moves from 15 to 127, and for infinities and NaN, the
     * exponent moves from 31 to 255. Subnormal numbers are exact multiples of 2^-24. */
    const uint32_t normal = (rest << 13) + ((127 - 15) << 23);
    const uint32_t special = (rest << 13) | 0x7f800000;
    const uint32_t tiny = kn_float_bits((float)(int32_t)rest * 0x1p-24f);
    const uint32_t u = rest < 0x0400 ? tiny : rest < 0x7c00 ? normal : special;
    return kn_bits_float(u | sign);
}

static inline struct kn_half kn_to_f16(float f)
{
    const uint32_t u = kn_float_bits(f), sign = u >> 16 & 0x8000, rest = u & 0x7fffffff;
    /* Below 2^-14, the result is a multiple of 2^-24. Adding 0.5 rounds the number to a
     * multiple of 2^-24. The low bits of the sum are the rounded number divided by 2^-24. */
    const uint32_t tiny = kn_float_bits(kn_bits_float(rest) + 0.5f) - 0x3f000000;
    const uint32_t normal = (rest - ((127 - 15) << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
    const uint32_t h = rest > 0x7f800000    ? 0x7e00
                       : rest >= 0x477ff000 ? 0x7c00
                       : rest < 0x38800000  ? tiny
                                            : normal;
    return (struct kn_half){(uint16_t)(h | sign)};
}

#endif
