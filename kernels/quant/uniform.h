/*
 * Uniform quantisation. The value of an integer q is (q - zero point) * scale. Scale and zero point
 * are scalars, or vectors with an element for each slice along an axis.
 *
 * Threads: any; all functions are pure.
 */
#ifndef KN_QUANT_UNIFORM_H
#define KN_QUANT_UNIFORM_H

#include "kernels/quant/quant.h"

struct kn_uniform {
    const float *scale;
    const int32_t *zero;
    int64_t n;     /* number of slices, or 1 if there is no axis */
    int64_t inner; /* number of elements between two adjacent positions along the axis */
    int32_t min, max;
};

static inline int64_t kn_u_slice(const struct kn_uniform *u, int64_t i)
{
    return u->n == 1 ? 0 : i / u->inner % u->n;
}

/* Returns the value of the attribute whose name is `prefix` followed by "quantization_axis". */
int64_t kn_u_axis(const struct rt_node *n, const char *prefix);
/* Reads how a tensor with the shape of `t` is quantised along `axis`, or as a whole if `axis` is
 * -1. Input k is the scale, and input k + 1 the zero point. Does not set the range of integers. */
enum rt_status kn_u_read(struct rt_run *r, int k, int64_t axis, const struct rt_tensor *t,
                         struct kn_uniform *u);
/* Reads the range of an output's integers. As in TensorFlow, the range of an input is ignored. */
enum rt_status kn_u_read_range(struct rt_run *r, const char *prefix, struct kn_uniform *u);
/* Fails unless all scales of input k are positive. `which` is part of TensorFlow's message. */
enum rt_status kn_u_check_scales(struct rt_run *r, int k, const char *which);

/* If the minimum exceeds the maximum, returns the minimum. */
static inline int64_t kn_u_clamp(const struct kn_uniform *u, int64_t v)
{
    const int64_t low = v > u->max ? u->max : v;
    return low < u->min ? u->min : low;
}

static inline int32_t kn_u_to_int(float x)
{
    return (int32_t)(x >= -0x1p31f && x < 0x1p31f ? x : -0x1p31f);
}

/* Returns element i after a conversion to float and back, as in TensorFlow. Integers of more than
 * 24 bits are rounded, and the largest qint32 becomes the smallest. */
static inline int32_t kn_u_rounded_at(const struct rt_tensor *t, int64_t i)
{
    return kn_u_to_int((float)kn_q_at(t, i));
}

/* The factor m * 2^(shift - 31), with m in [2^30, 2^31). */
struct kn_u_factor {
    int64_t m;
    int shift;
};
/* Returns the factor of a positive, finite number. */
struct kn_u_factor kn_u_factor_of(double v);
/* Sets *f to the factor of v. Fails, in TensorFlow's words, unless v is positive and finite. */
enum rt_status kn_u_check_factor(struct rt_run *r, double v, struct kn_u_factor *f);

/* Multiplies by the factor, rounds ties up, and clamps the product to the range of int32. */
static inline int32_t kn_u_scaled(const struct kn_u_factor *f, int32_t q)
{
    const int shift = 31 - f->shift;
    const int64_t v = (q * f->m + (INT64_C(1) << (shift - 1))) >> shift;

    return (int32_t)(v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v);
}

/* Returns the integer of slice `at` of an output for a sum of products of integers. */
static inline int32_t kn_u_output(const struct kn_uniform *to, int64_t at,
                                  const struct kn_u_factor *f, int32_t sum)
{
    const uint32_t zero = (uint32_t)to->zero[to->n == 1 ? 0 : at];

    return (int32_t)kn_u_clamp(to, (int32_t)((uint32_t)kn_u_scaled(f, sum) + zero));
}

/* Sets *f to the factor from products of a left tensor, which has one scale, and slice `at` of a
 * right tensor to slice `at` of the output. */
enum rt_status kn_u_product_factor(struct rt_run *r, const struct kn_uniform *left,
                                   const struct kn_uniform *right, const struct kn_uniform *to,
                                   int64_t at, struct kn_u_factor *f);

/* How the hybrid ops quantise floats: to qint8, with a range that contains 0 and the floats. */
struct kn_u_dynamic {
    float scale, inverse;
    int32_t zero;
};
/* Sets *d to the parameters for blocks of n floats each, which begin `step` floats apart. */
enum rt_status kn_u_dynamic_of(struct rt_run *r, const float *x, int64_t blocks, int64_t n,
                               int64_t step, struct kn_u_dynamic *d);
/* Returns the integer of x less the zero point. */
static inline int32_t kn_u_dynamic_q(const struct kn_u_dynamic *d, float x)
{
    const uint32_t v = (uint32_t)kn_u_to_int(floorf(x * d->inverse + 0.5F));
    const int32_t q = (int32_t)(v + (uint32_t)d->zero); /* wraps around for NaN */

    return (q < INT8_MIN ? INT8_MIN : q > INT8_MAX ? INT8_MAX : q) - d->zero;
}

#endif
