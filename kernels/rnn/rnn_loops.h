/* The loops of recurrent layers, compiled for one instruction set (see vector_sets.h). */

/* ---- activations of vec_math.h, for vectors ---- */

INLINE VEC LOOPS(exp)(VEC x)
{
    const VEC zero = {0}, least = zero + KN_EXP_LEAST;
    const BITS is_tiny = x<least, is_large = x> 89.0f;
    const VEC c = LOOPS(select)(is_tiny, least, LOOPS(select)(is_large, zero + 89.0f, x));
    const VEC t = c * KN_LOG2_E + KN_ROUNDER, k = t - KN_ROUNDER;
    const VEC r = (c - k * KN_LN2_HIGH) - k * KN_LN2_LOW;
    VEC p;
    KN_EXP_POLYNOMIAL(p, r);
    const VEC e = 1.0f + (r + r * r * p);
    const BITS n = (BITS)t - (BITS)(zero + KN_ROUNDER), half = n >> 1;
    const VEC y = e * (VEC)((half + 127) << 23) * (VEC)((n - half + 127) << 23);
    return LOOPS(select)(is_tiny, zero, y);
}

INLINE VEC LOOPS(sigmoid)(VEC x)
{
    return 1.0f / (1.0f + LOOPS(exp)(-x));
}

INLINE VEC LOOPS(tanh)(VEC x)
{
    const BITS sign = (BITS)x & INT32_MIN;
    const VEC a = (VEC)((BITS)x ^ sign), z = x * x;
    VEC p;
    KN_TANH_POLYNOMIAL(p, z);
    const VEC near_zero = x + x * (z * p);
    const VEC far = 1.0f - 2.0f / (LOOPS(exp)(2.0f * a) + 1.0f);
    return LOOPS(select)(a < 0.625f, near_zero, (VEC)((BITS)far | sign));
}

TARGET static __attribute__((noinline)) VEC LOOPS(act_of)(enum rt_cell_act act, VEC x)
{
    const VEC zero = {0}, one = zero + 1.0f;

    switch (act) {
    case RT_CELL_ACT_sigmoid:
        return LOOPS(sigmoid)(x);
    case RT_CELL_ACT_tanh:
        return LOOPS(tanh)(x);
    case RT_CELL_ACT_relu:
        return LOOPS(select)(x < 0.0f, zero, x);
    case RT_CELL_ACT_hard_sigmoid:
    case RT_CELL_ACT_hard_sigmoid_6: {
        const VEC y = x * (act == RT_CELL_ACT_hard_sigmoid ? 0.2f : 1.0f / 6) + 0.5f;
        return LOOPS(select)(y < 0.0f, zero, LOOPS(select)(y > 1.0f, one, y));
    }
    default:
        return x;
    }
}

/* The most common activations are inlined; all others are function calls. */
INLINE VEC LOOPS(gate)(const struct kn_rnn_step *s, VEC x)
{
    return s->gate_act == RT_CELL_ACT_sigmoid ? LOOPS(sigmoid)(x) : LOOPS(act_of)(s->gate_act, x);
}

INLINE VEC LOOPS(act)(const struct kn_rnn_step *s, VEC x)
{
    return s->act == RT_CELL_ACT_tanh ? LOOPS(tanh)(x) : LOOPS(act_of)(s->act, x);
}

#include "kernels/rnn/rnn_cells.h"

static const struct kn_rnn_loops LOOPS(loops) = {LANES,
                                                 {
#define X(name, ...) LOOPS(name),
                                                     RT_CELLS(X)
#undef X
                                                 }};
