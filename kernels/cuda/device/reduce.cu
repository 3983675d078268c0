/*
 * Device code of reductions. A block computes KC_BLOCK_THREADS / slices output elements at a time.
 * For each of them, `slices` threads reduce parts of its input elements, and then combine their
 * results in shared memory, always in the same order.
 */
#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/vector.cuh"

/* Returns the offset of element i of a tensor with dimensions `dim` and the given strides,
 * innermost dimension first. */
KC_DEVICE int64_t offset_of(int64_t i, const int64_t *dim, const int64_t *stride, int n)
{
    int64_t offset = 0;
    for (int k = 0; k < n - 1; k++) {
        const int64_t next = kc_divide(i, dim[k]);
        offset += (i - next * dim[k]) * stride[k];
        i = next;
    }
    return n ? offset + i * stride[n - 1] : 0;
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

/* Returns the reduction of the input elements slice, slice + slices, slice + 2 * slices and so on
 * of one output element. `x` is the first input element of the output element. */
KC_DEVICE float reduce_slice(const struct kc_reduce *a, const float *x, int slice)
{
    const int64_t step = a->slices, stride = a->reduced_stride[0];
    float value = initial(a->op);
    int64_t i = slice;
    /* Independent loads hide the latency of memory. */
    for (; a->n_reduced == 1 && i + 3 * step < a->n_each; i += 4 * step) {
        const float next[4] = {x[i * stride], x[(i + step) * stride], x[(i + 2 * step) * stride],
                               x[(i + 3 * step) * stride]};
        for (int k = 0; k < 4; k++)
            value = combine(a->op, value, next[k]);
    }
    for (; i < a->n_each; i += step)
        value = combine(a->op, value, x[offset_of(i, a->reduced, a->reduced_stride, a->n_reduced)]);
    return value;
}

KC_KERNEL(kc_reduce, kc_reduce, args)
{
    KC_SHARED(float, part, KC_REDUCE_THREADS);
    const int lanes = KC_BLOCK_THREADS / args.slices; /* number of output elements per block */
    /* Neighbouring threads read neighbouring elements if possible. */
    const int lane = args.along_outputs ? KC_THREAD % lanes : KC_THREAD / args.slices;
    const int slice = args.along_outputs ? KC_THREAD / lanes : KC_THREAD % args.slices;
    const int64_t n_tiles = (args.n_out + lanes - 1) / lanes;
    for (int64_t tile = KC_BLOCK; tile < n_tiles; tile += KC_N_BLOCKS) {
        const int64_t o = tile * lanes + lane;
        const int64_t at = offset_of(o, args.kept, args.kept_stride, args.n_kept);
        KC_BARRIER(); /* another thread may still be reading `part` for the last tile */
        part[slice * lanes + lane] =
            o < args.n_out ? reduce_slice(&args, KC_ADDRESS(args.in) + at, slice) : 0;
        for (int half = args.slices / 2; half; half /= 2) {
            KC_BARRIER();
            if (slice < half)
                part[slice * lanes + lane] = combine(args.op, part[slice * lanes + lane],
                                                     part[(slice + half) * lanes + lane]);
        }
        if (slice == 0 && o < args.n_out)
            KC_ADDRESS(args.out)
        [o] = args.op == KC_MEAN ? part[lane] / (float)args.n_each : part[lane];
    }
}
