/*
 * How far the numbers of an answer may be from those that were recorded: by a tolerance times the
 * largest finite magnitude that was recorded in the same output (times 1 where that holds nothing
 * but zeros). NaN equals NaN, and infinities their like. One rule, for goldens and for clients that
 * replay what was logged.
 *
 * Threads: pure.
 */
#ifndef RT_TOLERANCE_H
#define RT_TOLERANCE_H

#include <math.h>
#include <stdbool.h>

/* The larger of the two in magnitude; `v` counts when it is finite. Starts with 0. */
static inline double rt_tolerance_largest(double largest, double v)
{
    v = fabs(v);
    return isfinite(v) && v > largest ? v : largest;
}

/* One step beside 1 of the 16-bit types: a tolerance is no finer than what the type can say,
 * unless it is 0. */
#define RT_TOLERANCE_HALF_STEP     0x1p-10
#define RT_TOLERANCE_BFLOAT16_STEP 0x1p-7

/* What rt_is_close allows. `step`: of the type; 0: of any other. */
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
