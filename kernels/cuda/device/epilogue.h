/*
 * The epilogue of a GEMM or convolution (runtime/fusion/epilogue.h) in device code:
 * `y = activation(x * mul + add + residual)`.
 */
#ifndef KC_EPILOGUE_H
#define KC_EPILOGUE_H

#include <stdint.h>

struct kc_epilogue {
    /* Vectors along the output's last axis. `mul` is NULL if the epilogue has no scale, and `add`
     * is NULL if it has no shift. */
    const float *mul, *add;
    const float *residual; /* a tensor of the output's shape, or NULL */
    int32_t act;           /* an enum rt_activation */
    float alpha;
};

#endif
