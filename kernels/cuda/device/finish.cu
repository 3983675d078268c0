/* Device code that applies an epilogue in place. Each thread computes elements one at a time. */
#include "kernels/cuda/device/epilogue.cuh"
#include "kernels/cuda/device/finish.h"

KC_KERNEL(kc_finish, kc_finish, args)
{
    for (int64_t i = KC_INDEX; i < args.n; i += KC_TOTAL) {
        float *x = KC_ADDRESS(args.data) + i;
        *x = kc_apply_epilogue(&args.epilogue, *x, i, i % args.columns);
    }
}
