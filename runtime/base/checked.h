/*
 * Checked arithmetic on numbers that a model or a request supplies: dimensions, counts, axes,
 * paddings and indices. C leaves signed overflow undefined, and also the conversion of a float to
 * an integer type that cannot hold its value. These functions define both results.
 *
 * Products of the dimensions of one tensor cannot overflow (see rt_count in runtime/core/tensor.h).
 * Sums, paddings, products with attributes, and products of dimensions of several tensors can
 * overflow.
 *
 * Threads: any; these functions are pure.
 */
#ifndef RT_BASE_CHECKED_H
#define RT_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* rt_add, rt_sub and rt_mul return true if *out is the exact result. They return false, with a
 * meaningless *out, if int64_t cannot hold the result. */
static inline bool rt_add(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool rt_sub(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}
static inline bool rt_mul(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* rt_add, rt_sub and rt_mul for size_t. */
static inline bool rt_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool rt_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Saturating arithmetic returns the exact result, or INT64_MAX or INT64_MIN if int64_t cannot hold
 * it. It is used for comparisons, sizes that are checked later, and estimates of work. */
static inline int64_t rt_add_saturated(int64_t a, int64_t b)
{
    int64_t v;
    return rt_add(a, b, &v) ? v : a < 0 ? INT64_MIN : INT64_MAX;
}
static inline int64_t rt_sub_saturated(int64_t a, int64_t b)
{
    int64_t v;
    return rt_sub(a, b, &v) ? v : a < 0 ? INT64_MIN : INT64_MAX;
}
static inline int64_t rt_mul_saturated(int64_t a, int64_t b)
{
    int64_t v;
    return rt_mul(a, b, &v) ? v : (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

/* Two's complement arithmetic on elements of integer tensors. Overflow wraps, as in TensorFlow. */
static inline int64_t rt_add_wrapped(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t rt_sub_wrapped(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline int64_t rt_mul_wrapped(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* Converts a double to an integer, rounding toward zero. NaN and values that the integer type
 * cannot hold become the minimum of the integer type. x86's cvttsd2si gives the same result, and so
 * do TensorFlow's kernels on x86. */
static inline int64_t rt_int64_of(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}
static inline int32_t rt_int32_of(double v)
{
    return v > -2147483649.0 && v < 2147483648.0 ? (int32_t)v : INT32_MIN;
}

/* Converts an axis in [-rank, rank) to an index in [0, rank). Returns -1 if the axis is out of
 * range. */
static inline int rt_axis_of(int64_t axis, int rank)
{
    return axis < -rank || axis >= rank ? -1 : (int)(axis < 0 ? axis + rank : axis);
}

#endif
