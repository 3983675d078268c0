/* Device code that applies an epilogue in place. Each thread processes vectors one at a time. */
#include "kernels/cuda/device/epilogue.cuh"
#include "kernels/cuda/device/finish.h"

KC_DEVICE void finish(const struct kc_finish *a, int width)
{
    const int64_t n = a->n / width, across = a->columns / width;
    for (int64_t i = KC_INDEX; i < n; i += KC_TOTAL) {
        float *x = KC_ADDRESS(a->data) + i * width;
        const int64_t column = (i - kc_divide(i, across) * across) * width;
        const struct kc_vector sum = kc_load(x, width);
        kc_store(x, kc_apply_epilogue_vector(&a->epilogue, sum, i * width, column, width), width);
    }
}

KC_KERNEL(kc_finish, kc_finish, args)
{
    if (args.width == 4)
        finish(&args, 4);
    else
        finish(&args, 1);
}
