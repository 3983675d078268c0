/*
 * Element-wise fusion runs many element-wise float32 steps as one op, "_Chain", in a single pass
 * over memory.
 *
 * fuse_elementwise.c puts the op into a graph, and kernels/fused/fused_elementwise.c runs it. This
 * header defines the steps. A step's operand is a number: k below n_in means input k of the node,
 * and `n_in + j` means the result of the earlier step j. The result of the last step is the output.
 *
 * To add an op, add a row to RT_ELEMENTWISE_UNARY or RT_ELEMENTWISE_BINARY (elementwise_steps.h),
 * and a case in kernels/cuda/device/elementwise.cu. A step runs the loop of its op's own float32
 * kernel.
 *
 * Between steps, booleans are represented as 0 and 1. Inputs of types other than float32
 * (rt_elementwise_input) are converted to float32 as Cast does.
 */
#ifndef RT_ELEMENTWISE_H
#define RT_ELEMENTWISE_H

#include "runtime/core/fused_op.h"
#include "runtime/fusion/elementwise_steps.h"

enum {
    RT_ELEMENTWISE_MOST = 32,
    /* maximum number of inputs of a "_Chain", limited by the 64 bits of rt_plan_step.last_use */
    RT_ELEMENTWISE_MOST_IN = 60
};

struct rt_elementwise_step {
    /* `op` is an enum rt_elementwise_op. `a`, `b` and `c` are its operands; an absent operand is
     * -1. */
    int64_t op, a, b, c;
};

#define RT_ELEMENTWISE_INPUTS(IN, op) IN(op, OPERANDS, operands, LIST)
#define RT_ELEMENTWISE_OUTPUTS(OUT)   OUT(y)
#define RT_ELEMENTWISE_ATTRS(ATTR)                                                                 \
    ATTR(INTS, steps) /* the steps, an array of struct rt_elementwise_step */                      \
    /* If `pieces` is not 0, operand 0 is the concatenation of the first `pieces` inputs. */       \
    ATTR(INT, pieces)                                                                              \
    ATTR(INT, axis) /* axis along which the first `pieces` inputs are concatenated */
RT_FUSED_OP(RT_ELEMENTWISE, rt_elementwise, "_Chain");

static inline const struct rt_elementwise_step *rt_elementwise_steps(const struct rt_elementwise *c,
                                                                     int *n)
{
    *n = (int)(c->steps.n * sizeof *c->steps.v / sizeof(struct rt_elementwise_step));
    return (const struct rt_elementwise_step *)(const void *)c->steps.v;
}
static inline struct rt_ints rt_elementwise_of_steps(const struct rt_elementwise_step *step, int n)
{
    return (struct rt_ints){(size_t)n * (sizeof *step / sizeof(int64_t)),
                            (const int64_t *)(const void *)step};
}

/* Encodes a number as an operand below -1. Operands from 0 on are indexes of values, and -1 is an
 * absent operand. */
static inline int64_t rt_elementwise_number(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return -2 - (int64_t)bits;
}
static inline float rt_elementwise_number_of(int64_t operand)
{
    const uint32_t bits = (uint32_t)(-2 - operand);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Returns whether an input of "_Chain" may have this type. */
static inline bool rt_elementwise_input(enum rt_dtype d)
{
    return d == RT_F32 || d == RT_BOOL || d == RT_U8 || d == RT_I32 || d == RT_I64;
}

#endif
