/*
 * Quantised numbers: TensorFlow's formulas that convert between floats and the integers of qint8,
 * quint8, qint16, quint16 and qint32, and functions for the scalar inputs that hold the range of a
 * tensor.
 *
 * A range [min, max] maps the lowest integer of a type to `min` and the highest to `max`.
 * TensorFlow has two pairs of formulas for this mapping. The structs below hold the parameters of
 * the pair that computes in float. The functions for one number compute in double. The results
 * differ in the last bit, so each kernel uses the pair that TensorFlow's kernel uses.
 *
 * Threads: any; all functions are pure, except that kn_q_out_scalar writes an output.
 */
#ifndef KN_QUANT_QUANT_H
#define KN_QUANT_QUANT_H

#include <math.h>

#include "kernels/array/array.h"
#include "kernels/cpu/parallel.h"
#include "kernels/entry.h"

/* X(dtype, C type) for each quantised type */
#define KN_QUANTISED(X)                                                                            \
    X(RT_QI8, int8_t)                                                                              \
    X(RT_QU8, uint8_t) X(RT_QI16, int16_t) X(RT_QU16, uint16_t) X(RT_QI32, int32_t)
#define KN_ANY_QUANTISED                                                                           \
    (RT_T(RT_QI8) | RT_T(RT_QU8) | RT_T(RT_QI16) | RT_T(RT_QU16) | RT_T(RT_QI32))

struct kn_q_type {
    double lowest, highest, levels; /* `levels` is the number of values of the type */
    bool is_signed;
};
struct kn_q_type kn_q_type(enum rt_dtype dtype);

struct kn_q_range {
    float min, max;
};

/* ---- the form that computes in float ---- */

/* The parameters of a conversion from an integer to a float. */
struct kn_q_decode {
    float scale, min_rounded, offset; /* the result is offset + integer * scale */
};
struct kn_q_decode kn_q_decoding(enum rt_dtype dtype, struct kn_q_range range);

/* The parameters of a conversion from a float to an integer. */
struct kn_q_encode {
    float scale, shift, low, high;
};
struct kn_q_encode kn_q_encoding(enum rt_dtype dtype, struct kn_q_range range);

static inline float kn_q_to_float(const struct kn_q_decode *d, int32_t q)
{
    return d->offset + (float)q * d->scale;
}
/* Returns the integer as a float that the type can hold. NaN becomes the lowest integer. */
static inline float kn_q_from_float(const struct kn_q_encode *e, float x)
{
    float q = roundf(x * e->scale) - e->shift;

    q = q > e->low ? q : e->low;
    return q < e->high ? q : e->high;
}

/* ---- the form for one number, which computes in double ---- */

float kn_q_value(enum rt_dtype dtype, double q, struct kn_q_range range);
/* Quantises x to an integer of type `dtype`, without clamping it to the range of the type. */
int64_t kn_q_unclamped(enum rt_dtype dtype, float x, struct kn_q_range range);
/* Quantises x to an integer of type `dtype`, and clamps it to the range of the type. */
int64_t kn_q_integer(enum rt_dtype dtype, float x, struct kn_q_range range);
/* Returns the difference between the values of two adjacent integers. */
float kn_q_step(enum rt_dtype dtype, struct kn_q_range range);
/* Returns the range of type `out` in which the products of integers of types a and b represent the
 * products of the integers' values. */
struct kn_q_range kn_q_product_range(enum rt_dtype a, struct kn_q_range range_a, enum rt_dtype b,
                                     struct kn_q_range range_b, enum rt_dtype out);

/* ---- inputs and outputs ---- */

/* Fails unless input k is a scalar. `name` is the input's name in the error message. */
enum rt_status kn_q_scalar(struct rt_run *r, int k, const char *name);
static inline float kn_q_float(const struct rt_run *r, int k)
{
    return ((const float *)r->in[k].data)[0];
}
static inline struct kn_q_range kn_q_range_of(const struct rt_run *r, int min, int max)
{
    return (struct kn_q_range){kn_q_float(r, min), kn_q_float(r, max)};
}
static inline void kn_q_put(struct rt_run *r, int k, float v)
{
    *(float *)r->out[k].data = v;
}
static inline void kn_q_put_range(struct rt_run *r, struct kn_q_range range)
{
    kn_q_put(r, 1, range.min);
    kn_q_put(r, 2, range.max);
}
int32_t kn_q_at(const struct rt_tensor *t, int64_t i);

/* The shape and the strides with which the elements of inputs 0 and 1 are combined by
 * broadcasting. */
struct kn_q_each {
    struct rt_shape out;
    int64_t step[2][RT_MAX_RANK]; /* strides of both inputs, 0 along broadcast axes */
};
void kn_q_each_of(const struct rt_run *r, struct kn_q_each *e);
/* Advances to the next position, and updates the offsets of both inputs. */
void kn_q_advance(const struct kn_q_each *e, int64_t *place, int64_t *at);

/* Gives output 0 the shape of input 0, and makes the other outputs scalars. */
enum rt_status kn_q_infer_same(struct rt_infer *x);
/* Row rule for ops with ranges: output 0 has the rows of input 0. The other outputs depend only on
 * inputs that do not depend on the batch. */
void kn_q_rows_same(struct rt_rows *r);

#endif
