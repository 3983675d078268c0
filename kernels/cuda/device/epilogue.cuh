/* Applies an epilogue to one element of an output (epilogue.h). */
#ifndef KC_EPILOGUE_CUH
#define KC_EPILOGUE_CUH

#include "kernels/cuda/device/device_code.h"
#include "kernels/cuda/device/epilogue.h"
#include "kernels/cuda/device/vector.cuh"
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

/* Applies the epilogue to `width` neighbouring elements along the last axis (vector.cuh). `at` and
 * `column` are those of the first element. */
KC_DEVICE struct kc_vector kc_apply_epilogue_vector(const struct kc_epilogue *e, struct kc_vector x,
                                                    int64_t at, int64_t column, int width)
{
    struct kc_vector mul, add, residual;
    if (e->mul)
        mul = kc_load(KC_ADDRESS(e->mul) + column, width);
    if (e->add)
        add = kc_load(KC_ADDRESS(e->add) + column, width);
    if (e->residual)
        residual = kc_load(KC_ADDRESS(e->residual) + at, width);
    for (int k = 0; k < width; k++) {
        if (e->mul)
            x.v[k] *= mul.v[k];
        if (e->add)
            x.v[k] += add.v[k];
        if (e->residual)
            x.v[k] += residual.v[k];
        x.v[k] = kc_activate(e->act, x.v[k], e->alpha);
    }
    return x;
}

#endif
