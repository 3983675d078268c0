/* Device code of element-wise ops (kernels/cuda/device/elementwise.h). */
#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/elementwise.h"
#include "kernels/cuda/device/vector.cuh"
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

/* Reads the elements of a concatenation for the output elements from i on. All of them belong to
 * one piece. */
KC_DEVICE struct kc_vector load_piece(const struct kc_elementwise *e, int64_t i, int width)
{
    const int64_t row = kc_divide(i, e->pieces_row), column = i - row * e->pieces_row;
    int low = 0, high = e->n_pieces - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (column < e->piece[middle].end)
            high = middle;
        else
            low = middle + 1;
    }
    const int64_t begin = low ? e->piece[low - 1].end : 0;
    const int64_t length = e->piece[low].end - begin;
    return kc_load(KC_ADDRESS(e->piece[low].data) + row * length + column - begin, width);
}

/* Returns operand `k` of a step for the output elements from i on, the first of which has index
 * vector `at`. `result` holds the results of earlier steps. */
KC_DEVICE struct kc_vector operand(const struct kc_elementwise *e, int64_t i, const int64_t *at,
                                   const struct kc_vector *result, int k, int width)
{
    struct kc_vector x;
    int64_t from = 0;
    if (k >= e->n_in)
        return result[k - e->n_in];
    if (k == 0 && e->n_pieces)
        return load_piece(e, i, width);
    const struct kc_elementwise_in *in = &e->in[k];
    for (int d = 0; d < e->rank; d++)
        from += at[d] * in->stride[d];
    if (width == 4 && in->type == KC_F32 && in->stride[0])
        return kc_load((const float *)KC_ADDRESS(in->data) + from, 4);
    for (int c = 0; c < 4; c++)
        x.v[c] = c == 0 || (c < width && in->stride[0]) ? load(in, from + c) : x.v[0];
    return x;
}

KC_DEVICE struct kc_vector run_step(const struct kc_elementwise *e, int64_t i, const int64_t *at,
                                    const struct kc_vector *result,
                                    const struct kc_elementwise_step *step, int width)
{
    struct kc_vector x = operand(e, i, at, result, step->a, width), y = x, z = x;
    if (step->b >= 0)
        y = operand(e, i, at, result, step->b, width);
    if (step->c >= 0)
        z = operand(e, i, at, result, step->c, width);
    for (int c = 0; c < width; c++) {
        if (step->op == RT_ELEMENTWISE_LeakyRelu)
            x.v[c] = x.v[c] > 0 ? x.v[c] : x.v[c] * step->alpha;
        else if (step->op == RT_ELEMENTWISE_SelectV2)
            x.v[c] = x.v[c] != 0 ? y.v[c] : z.v[c];
        else if (step->b < 0)
            x.v[c] = unary(step->op, x.v[c]);
        else
            x.v[c] = binary(step->op, x.v[c], y.v[c]);
    }
    return x;
}

KC_DEVICE void run(const struct kc_elementwise *e, int width)
{
    for (int64_t i = KC_INDEX * width; i < e->n; i += KC_TOTAL * width) {
        struct kc_vector result[KC_ELEMENTWISE_MOST_STEPS];
        int64_t at[KC_ELEMENTWISE_MOST_RANK], left = i;
        for (int d = 0; d < e->rank; d++) {
            const int64_t next = d < e->rank - 1 ? kc_divide(left, e->dim[d]) : 0;
            at[d] = left - next * e->dim[d];
            left = next;
        }
        for (int s = 0; s < e->n_steps; s++)
            result[s] = run_step(e, i, at, result, &e->step[s], width);
        const struct kc_vector y = result[e->n_steps - 1];
        if (e->out_type == KC_F32)
            kc_store((float *)KC_ADDRESS(e->out) + i, y, width);
        for (int c = 0; c < width && e->out_type == KC_BOOL; c++)
            ((uint8_t *)KC_ADDRESS(e->out))[i + c] = y.v[c] != 0;
    }
}

KC_KERNEL(kc_elementwise, kc_elementwise, args)
{
    if (args.width == 4)
        run(&args, 4);
    else
        run(&args, 1);
}
