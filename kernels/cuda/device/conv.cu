/*
 * Device code of convolutions that cuDNN does not support. Each thread computes output elements one
 * at a time.
 */
#include "kernels/cuda/device/conv.h"
#include "kernels/cuda/device/epilogue.cuh"

KC_KERNEL(kc_conv, kc_conv, args)
{
    const struct kc_axis *a = args.axis;
    const int64_t each = args.ci / args.groups; /* number of input channels per group */
    for (int64_t i = KC_INDEX; i < args.n; i += KC_TOTAL) {
        const int64_t channel = i % args.co, group = channel / (args.co / args.groups);
        int64_t left = i / args.co, start[3];
        float sum = 0;
        for (int k = 2; k >= 0; k--) {
            start[k] = left % a[k].out * a[k].stride - a[k].lo;
            left /= a[k].out;
        }
        for (int64_t d = 0; d < a[0].size; d++)
            for (int64_t h = 0; h < a[1].size; h++)
                for (int64_t w = 0; w < a[2].size; w++) {
                    const int64_t at[3] = {start[0] + d * a[0].dilation,
                                           start[1] + h * a[1].dilation,
                                           start[2] + w * a[2].dilation};
                    if (at[0] < 0 || at[0] >= a[0].in || at[1] < 0 || at[1] >= a[1].in ||
                        at[2] < 0 || at[2] >= a[2].in)
                        continue;
                    const float *x =
                        KC_ADDRESS(args.in) + group * each +
                        (((left * a[0].in + at[0]) * a[1].in + at[1]) * a[2].in + at[2]) * args.ci;
                    const float *f = KC_ADDRESS(args.filter) + channel +
                                     ((d * a[1].size + h) * a[2].size + w) * each * args.co;
                    for (int64_t k = 0; k < each; k++)
                        sum += x[k] * f[k * args.co];
                }
        KC_ADDRESS(args.out)[i] = kc_apply_epilogue(&args.epilogue, sum, i, channel);
    }
}
