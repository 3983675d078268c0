/* Applies an epilogue to one element of an output (epilogue.h). */
#ifndef KC_EPILOGUE_CUH
#define KC_EPILOGUE_CUH

#include "kernels/cuda/device/device_code.h"
#include "kernels/cuda/device/epilogue.h"
#include "runtime/fusion/activation.h"

KC_DEVICE float kc_relu6(float x)
{
    return x < 0 ? 0 : x > 6 ? 6 : x;
}

KC_DEVICE float kc_activate(int act, float x, float a)
{
    switch (act) {
    case RT_ACT_RELU:
        return x < 0 ? 0 : x;
    case RT_ACT_RELU6:
        return kc_relu6(x);
    case RT_ACT_SIGMOID:
        return 1 / (1 + expf(-x));
    case RT_ACT_TANH:
        return tanhf(x);
    case RT_ACT_ELU:
        return x < 0 ? expm1f(x) : x;
    case RT_ACT_LEAKY_RELU:
        return x > 0 ? x : a * x;
    case RT_ACT_SWISH:
        return x / (1 + expf(-a * x));
    case RT_ACT_HARD_SIGMOID:
        return kc_relu6(x + 3) * (1.0f / 6);
    case RT_ACT_HARD_SWISH:
        return x * (kc_relu6(x + 3) * (1.0f / 6));
    case RT_ACT_GELU:
        return 0.5f * x * (1 + erff(x * 0.70710678118654752f));
    case RT_ACT_GELU_TANH:
        return 0.5f * x * (1 + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    default:
        return x;
    }
}

/* Applies the epilogue to x, the sum for element `at` of the output. `column` is the element's
 * index along the last axis. Returns the output element. */
KC_DEVICE float kc_apply_epilogue(const struct kc_epilogue *e, float x, int64_t at, int64_t column)
{
    if (e->mul)
        x *= KC_ADDRESS(e->mul)[column];
    if (e->add)
        x += KC_ADDRESS(e->add)[column];
    if (e->residual)
        x += KC_ADDRESS(e->residual)[at];
    return kc_activate(e->act, x, e->alpha);
}

#endif
