/*
 * The tolerance for comparing an output with a recorded output. Numbers may differ by the tolerance
 * times the largest finite magnitude in the recorded output, or by the tolerance if that magnitude
 * is 0. NaN equals NaN, and infinities of equal sign are equal. Goldens, and clients that replay
 * request logs, use this rule.
 *
 * Threads: any; these functions are pure.
 */
#ifndef RT_TOLERANCE_H
#define RT_TOLERANCE_H

#include <math.h>
#include <stdbool.h>

/* Returns the larger of `largest` (initially 0) and the magnitude of v, or `largest` if v is not
 * finite. */
static inline double rt_tolerance_largest(double largest, double v)
{
    v = fabs(v);
    return isfinite(v) && v > largest ? v : largest;
}

/* For each 16-bit type, the distance between 1 and the next larger value. A nonzero tolerance is
 * raised to at least the distance for the output's type. */
#define RT_TOLERANCE_HALF_STEP     0x1p-10
#define RT_TOLERANCE_BFLOAT16_STEP 0x1p-7

/* Returns the largest difference that rt_is_close may accept. `step` is RT_TOLERANCE_HALF_STEP or
 * RT_TOLERANCE_BFLOAT16_STEP for an output of a 16-bit type, and 0 for other types. */
static inline double rt_tolerance_allowed(double largest, double tolerance, double step)
{
    if (tolerance > 0 && tolerance < step)
        tolerance = step;
    return tolerance * (largest > 0 ? largest : 1);
}

static inline bool rt_is_close(double got, double want, double allowed)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    return got == want || fabs(got - want) <= allowed;
}

#endif
