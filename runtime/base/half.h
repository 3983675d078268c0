/*
 * The two 16-bit float types, bfloat16 and IEEE binary16. Conversion to float is exact. A double is
 * rounded once, to the nearest 16-bit value with ties to even; values out of range become infinite.
 * 16-bit values are passed as their bits.
 *
 * Threads: any; these functions are pure.
 */
#ifndef RT_HALF_H
#define RT_HALF_H

#include <stdint.h>
#include <string.h>

static inline float rt_float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/*
 * Returns the bits of `d` as a float, rounded to odd: `d` is truncated, and the last bit is set if
 * the remainder is not 0. Rounding this float to 16 bits then gives the correctly rounded value of
 * `d`.
 */
static inline uint32_t rt_bits_to_round(double d)
{
    uint32_t bits;
    float f = (float)d;
    memcpy(&bits, &f, sizeof bits);
    if (d != d || (double)f == d)
        return bits;
    double size = d < 0 ? -d : d, got = d < 0 ? -(double)f : (double)f;
    /* The conversion to float rounded away from zero. The next float toward zero is used
     * instead. */
    if (got > size)
        bits--;
    return bits | 1;
}

/* The following functions convert to and from bfloat16, the upper half of a float. */
static inline float rt_bfloat_value(uint16_t h)
{
    return rt_float_of_bits((uint32_t)h << 16);
}

static inline uint16_t rt_bfloat_from(double d)
{
    uint32_t bits = rt_bits_to_round(d);
    if (d != d)
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The following functions convert to and from IEEE binary16 (half in TensorFlow). */
static inline float rt_half_value(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    if (e == 31)
        return rt_float_of_bits(sign | 0x7f800000 | m << 13);
    if (e)
        return rt_float_of_bits(sign | (e + 112) << 23 | m << 13);
    float f = (float)m * 0x1p-24f;
    return sign ? -f : f;
}

static inline uint16_t rt_half_from(double d)
{
    uint32_t bits = rt_bits_to_round(d), sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (d != d)
        return 0x7e00;
    if (bits >= 0x47800000) /* values of 65536 or more become infinity */
        return (uint16_t)(sign | 0x7c00);
    /* The number is normal. A carry may produce infinity, as rounding requires. */
    if (bits >= 0x38800000) {
        uint32_t h = bits - 0x38000000;
        return (uint16_t)(sign | (h + 0xfff + (h >> 13 & 1)) >> 13);
    }
    uint32_t e = bits >> 23, m = (bits & 0x7fffff) | 0x800000;
    /* The result is subnormal. `m * 2^(e-150)` equals `m / 2^shift` in units of `2^-24`. */
    uint32_t shift = 126 - e;
    if (e == 0 || shift > 24)
        return (uint16_t)sign;
    uint32_t h = m >> shift, rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
    h += rest > half || (rest == half && (h & 1));
    return (uint16_t)(sign | h);
}

#endif
