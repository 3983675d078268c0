/*
 * The tolerance for comparing an answer with a recorded one. Numbers may differ by a tolerance
 * times the largest finite magnitude in the recorded output (times 1 if it has only zeros). NaN
 * equals NaN, and an infinity equals one of its sign. Goldens, and clients that replay request
 * logs, use this rule.
 *
 * Threads: any; these functions are pure.
 */
#ifndef RT_TOLERANCE_H
#define RT_TOLERANCE_H

#include <math.h>
#include <stdbool.h>

/* The larger of `largest` (0 at first) and the magnitude of v, if v is finite. */
static inline double rt_tolerance_largest(double largest, double v)
{
    v = fabs(v);
    return isfinite(v) && v > largest ? v : largest;
}

/* The distance of 1 to the next value of the 16-bit types. A tolerance is raised to this step of
 * the output's type, unless it is 0. */
#define RT_TOLERANCE_HALF_STEP     0x1p-10
#define RT_TOLERANCE_BFLOAT16_STEP 0x1p-7

/* The difference to pass to rt_is_close. `step`: that of a 16-bit type; 0 for other types. */
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
