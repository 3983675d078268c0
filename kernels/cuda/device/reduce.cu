/* Device code of reductions. Each block computes output elements one at a time. */
#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/reduce.h"

KC_BLOCK_REDUCTION(block_sum, kc_add)
KC_BLOCK_REDUCTION(block_prod, kc_mul)
KC_BLOCK_REDUCTION(block_max, kc_max)
KC_BLOCK_REDUCTION(block_min, kc_min)

/* Returns the offset of element i of a tensor with dimensions `dim` and the given strides,
 * innermost dimension first. */
KC_DEVICE int64_t offset_of(int64_t i, const int64_t *dim, const int64_t *stride, int n)
{
    int64_t offset = 0;
    for (int k = 0; k < n; k++) {
        offset += i % dim[k] * stride[k];
        i /= dim[k];
    }
    return offset;
}

KC_DEVICE float initial(int op)
{
    return op == KC_PROD ? 1 : op == KC_MAX ? -INFINITY : op == KC_MIN ? INFINITY : 0;
}

KC_DEVICE float combine(int op, float a, float b)
{
    switch (op) {
    case KC_PROD:
        return a * b;
    case KC_MAX:
        return kc_max(a, b);
    case KC_MIN:
        return kc_min(a, b);
    default:
        return a + b;
    }
}

KC_DEVICE float combine_block(int op, float value)
{
    switch (op) {
    case KC_PROD:
        return block_prod(value);
    case KC_MAX:
        return block_max(value);
    case KC_MIN:
        return block_min(value);
    default:
        return block_sum(value);
    }
}

KC_KERNEL(kc_reduce, kc_reduce, args)
{
    for (int64_t o = KC_BLOCK; o < args.n_out; o += KC_N_BLOCKS) {
        const float *x =
            KC_ADDRESS(args.in) + offset_of(o, args.kept, args.kept_stride, args.n_kept);
        float value = initial(args.op);
        for (int64_t i = KC_THREAD; i < args.n_each; i += KC_BLOCK_THREADS)
            value = combine(args.op, value,
                            x[offset_of(i, args.reduced, args.reduced_stride, args.n_reduced)]);
        value = combine_block(args.op, value);
        if (args.op == KC_MEAN)
            value /= (float)args.n_each;
        if (KC_THREAD == 0)
            KC_ADDRESS(args.out)[o] = value;
    }
}
