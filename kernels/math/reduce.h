/*
 * Reducers reduce many values to one, along contiguous rows or down columns. Segment ops and
 * reductions over axes use them.
 *
 * Sums are computed in blocks. Floats are added in their own type within a block, and the sums of
 * blocks are added in double. The error therefore does not grow with the number of values, the
 * order of additions is fixed, and the loops vectorise.
 *
 * Threads: all functions are pure.
 */
#ifndef KN_MATH_REDUCE_H
#define KN_MATH_REDUCE_H

#include <float.h>

#include "kernels/cpu/types.h"
#include "kernels/entry.h"

enum { KN_REDUCE_WIDTH = 256 }; /* maximum number of accumulators that one call updates */

/* An accumulator that is large enough for every type. */
union kn_acc {
    int64_t i;
    uint64_t u;
    double f;
    double _Complex c;
};

struct kn_reducer {
    void (*init)(void *acc, int64_t n);
    /* Accumulates src[r * stride + j] into acc[j] for r < n_rows and j < n, where n <=
     * KN_REDUCE_WIDTH. */
    void (*columns)(void *acc, const void *src, int64_t n_rows, int64_t stride, int64_t n);
    /* Accumulates src[k * stride + i] into acc[k] for i < n and k < n_lines, where n_lines <=
     * KN_REDUCE_WIDTH. */
    void (*lines)(void *acc, const void *src, int64_t n_lines, int64_t stride, int64_t n);
    /* Writes dst[j] from acc[j], which has accumulated `count` values. */
    void (*finish)(void *dst, const void *acc, int64_t n, int64_t count);
};

/* Reducers, indexed by type. The entry of a type that the op does not support has no functions. */
extern const struct kn_reducer kn_reduce_sum[RT_N_DTYPES], kn_reduce_mean[RT_N_DTYPES],
    kn_reduce_prod[RT_N_DTYPES], kn_reduce_max[RT_N_DTYPES], kn_reduce_min[RT_N_DTYPES];

/* Reads the reduction axes of a node whose input has rank `rank`, and sets bit i of *reduced if
 * axis i is reduced. Errors have TensorFlow's messages. */
enum rt_status kn_reduce_axes(const struct rt_tensor *axes, int rank, unsigned *reduced,
                              struct rt_error *err);

/* Minimum and maximum finite values of each type. */
#define KN_LEAST(dt)        KN_LEAST_##dt
#define KN_GREATEST(dt)     KN_GREATEST_##dt
#define KN_LEAST_RT_I8      INT8_MIN
#define KN_GREATEST_RT_I8   INT8_MAX
#define KN_LEAST_RT_I16     INT16_MIN
#define KN_GREATEST_RT_I16  INT16_MAX
#define KN_LEAST_RT_I32     INT32_MIN
#define KN_GREATEST_RT_I32  INT32_MAX
#define KN_LEAST_RT_I64     INT64_MIN
#define KN_GREATEST_RT_I64  INT64_MAX
#define KN_LEAST_RT_U8      0
#define KN_GREATEST_RT_U8   UINT8_MAX
#define KN_LEAST_RT_U16     0
#define KN_GREATEST_RT_U16  UINT16_MAX
#define KN_LEAST_RT_U32     0
#define KN_GREATEST_RT_U32  UINT32_MAX
#define KN_LEAST_RT_U64     0
#define KN_GREATEST_RT_U64  UINT64_MAX
#define KN_LEAST_RT_F32     (-FLT_MAX)
#define KN_GREATEST_RT_F32  FLT_MAX
#define KN_LEAST_RT_F64     (-DBL_MAX)
#define KN_GREATEST_RT_F64  DBL_MAX
#define KN_LEAST_RT_F16     (-65504.0f)
#define KN_GREATEST_RT_F16  65504.0f
#define KN_LEAST_RT_BF16    (-0x1.fep127f)
#define KN_GREATEST_RT_BF16 0x1.fep127f
#define KN_LEAST_RT_BOOL    false
#define KN_GREATEST_RT_BOOL true

#endif
