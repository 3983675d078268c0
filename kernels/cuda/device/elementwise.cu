/* Device code of element-wise ops (kernels/cuda/device/elementwise.h). */
#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/elementwise.h"
#include "runtime/fusion/elementwise_steps.h"

KC_DEVICE float unary(int op, float x)
{
    const float selu_scale = 1.05070098735548049342f, selu_scale_alpha = 1.75809934084737685994f;
    switch (op) {
    case RT_ELEMENTWISE_Abs:
        return fabsf(x);
    case RT_ELEMENTWISE_Ceil:
        return ceilf(x);
    case RT_ELEMENTWISE_Elu:
        return x < 0 ? expm1f(x) : x;
    case RT_ELEMENTWISE_Erf:
        return erff(x);
    case RT_ELEMENTWISE_Erfc:
        return erfcf(x);
    case RT_ELEMENTWISE_Exp:
        return expf(x);
    case RT_ELEMENTWISE_Expm1:
        return expm1f(x);
    case RT_ELEMENTWISE_Floor:
        return floorf(x);
    case RT_ELEMENTWISE_Inv:
        return 1 / x;
    case RT_ELEMENTWISE_Log:
        return logf(x);
    case RT_ELEMENTWISE_Log1p:
        return log1pf(x);
    case RT_ELEMENTWISE_LogicalNot:
        return x == 0;
    case RT_ELEMENTWISE_Neg:
        return -x;
    case RT_ELEMENTWISE_Reciprocal:
        return 1 / x;
    case RT_ELEMENTWISE_Relu:
        return x < 0 ? 0 : x; /* NaN stays NaN */
    case RT_ELEMENTWISE_Relu6:
        return x < 0 ? 0 : x > 6 ? 6 : x;
    case RT_ELEMENTWISE_Rint:
        return rintf(x);
    case RT_ELEMENTWISE_Round:
        return rintf(x);
    case RT_ELEMENTWISE_Rsqrt:
        return 1 / sqrtf(x);
    case RT_ELEMENTWISE_Selu:
        return x < 0 ? selu_scale_alpha * expm1f(x) : selu_scale * x;
    case RT_ELEMENTWISE_Sigmoid:
        return 1 / (1 + expf(-x));
    case RT_ELEMENTWISE_Sign:
        return x != x ? x : (float)((x > 0) - (x < 0));
    case RT_ELEMENTWISE_Softplus:
        return x > 20 ? x : log1pf(expf(x));
    case RT_ELEMENTWISE_Softsign:
        return x / (1 + fabsf(x));
    case RT_ELEMENTWISE_Sqrt:
        return sqrtf(x);
    case RT_ELEMENTWISE_Square:
        return x * x;
    case RT_ELEMENTWISE_Tanh:
        return tanhf(x);
    case RT_ELEMENTWISE_Cast:
        return x;
    default: /* An op that has no case above returns NaN instead of a plausible number. */
        return NAN;
    }
}

KC_DEVICE float binary(int op, float x, float y)
{
    switch (op) {
    case RT_ELEMENTWISE_Div:
    case RT_ELEMENTWISE_RealDiv:
        return x / y;
    case RT_ELEMENTWISE_DivNoNan:
        return y == 0 ? 0 : x / y;
    case RT_ELEMENTWISE_Maximum:
        return kc_max(x, y);
    case RT_ELEMENTWISE_Minimum:
        return kc_min(x, y);
    case RT_ELEMENTWISE_Mul:
        return x * y;
    case RT_ELEMENTWISE_MulNoNan:
        return y == 0 ? 0 : x * y;
    case RT_ELEMENTWISE_Pow:
        return y == 2 ? x * x : powf(x, y);
    case RT_ELEMENTWISE_SquaredDifference:
        return (x - y) * (x - y);
    case RT_ELEMENTWISE_Sub:
        return x - y;
#define X(op, expression)                                                                          \
    case RT_ELEMENTWISE_##op:                                                                      \
        return expression;
        RT_ELEMENTWISE_TRUTH(X)
        RT_ELEMENTWISE_LOGICAL(X)
#undef X
    case RT_ELEMENTWISE_Add:
    case RT_ELEMENTWISE_AddV2:
    case RT_ELEMENTWISE_BiasAdd:
        return x + y;
    default:
        return NAN;
    }
}

/* Reads element i of an input as a float. Booleans become 0 and 1. */
KC_DEVICE float load(const struct kc_elementwise_in *in, int64_t i)
{
    switch (in->type) {
    case KC_BOOL:
    case KC_U8:
        return ((const uint8_t *)KC_ADDRESS(in->data))[i];
    case KC_I32:
        return (float)((const int32_t *)KC_ADDRESS(in->data))[i];
    case KC_I64:
        return (float)((const int64_t *)KC_ADDRESS(in->data))[i];
    default:
        return ((const float *)KC_ADDRESS(in->data))[i];
    }
}

/* Returns operand `k` of a step for the output element with index vector `at`. `result` holds the
 * results of earlier steps. */
KC_DEVICE float operand(const struct kc_elementwise *e, const int64_t *at, const float *result,
                        int k)
{
    int64_t i = 0;
    if (k >= e->n_in)
        return result[k - e->n_in];
    for (int d = 0; d < e->rank; d++)
        i += at[d] * e->in[k].stride[d];
    return load(&e->in[k], i);
}

KC_KERNEL(kc_elementwise, kc_elementwise, args)
{
    for (int64_t i = KC_INDEX; i < args.n; i += KC_TOTAL) {
        float result[KC_ELEMENTWISE_MOST_STEPS];
        int64_t at[KC_ELEMENTWISE_MOST_RANK], left = i;
        for (int d = 0; d < args.rank; d++) {
            at[d] = left % args.dim[d];
            left /= args.dim[d];
        }
        for (int s = 0; s < args.n_steps; s++) {
            const struct kc_elementwise_step *step = &args.step[s];
            const float x = operand(&args, at, result, step->a);
            if (step->op == RT_ELEMENTWISE_LeakyRelu)
                result[s] = x > 0 ? x : x * step->alpha;
            else if (step->op == RT_ELEMENTWISE_SelectV2)
                result[s] = operand(&args, at, result, x != 0 ? step->b : step->c);
            else if (step->b < 0)
                result[s] = unary(step->op, x);
            else
                result[s] = binary(step->op, x, operand(&args, at, result, step->b));
        }
        const float y = result[args.n_steps - 1];
        if (args.out_type == KC_BOOL)
            ((uint8_t *)KC_ADDRESS(args.out))[i] = y != 0;
        else
            ((float *)KC_ADDRESS(args.out))[i] = y;
    }
}
