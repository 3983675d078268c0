/*
 * The tolerance for comparing an output with a recorded output. Numbers may differ by the tolerance
 * times the largest finite magnitude in the recorded output, or by the tolerance itself if that
 * magnitude is 0. NaN equals NaN, and infinities of equal sign are equal. Golden responses, and
 * clients that replay request logs, are compared by this rule.
 *
 * Threads: any; these functions are pure.
 */
#ifndef RT_TOLERANCE_H
#define RT_TOLERANCE_H

#include <math.h>
#include <stdbool.h>

/* Returns the larger of `largest` and the magnitude of v. Ignores v if it is not finite. `largest`
 * is initially 0. */
static inline double rt_tolerance_largest(double largest, double v)
{
    v = fabs(v);
    return isfinite(v) && v > largest ? v : largest;
}

/* The distance between 1 and the next larger value of each 16-bit type. A nonzero tolerance is
 * raised to this distance if the output has the type. */
#define RT_TOLERANCE_HALF_STEP     0x1p-10
#define RT_TOLERANCE_BFLOAT16_STEP 0x1p-7

/* Returns the largest difference that rt_is_close may accept. `step` is one of the two constants
 * above if the output has a 16-bit type, and otherwise 0. */
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
