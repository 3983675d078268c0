/*
 * Device code of GEMMs that cuBLASLt does not support. Each block computes tiles of C one at a
 * time, and copies tiles of A and B to shared memory.
 */
#include "kernels/cuda/device/epilogue.cuh"
#include "kernels/cuda/device/matmul.h"

enum { TILE = KC_MATMUL_TILE };

KC_KERNEL(kc_matmul, kc_matmul, args)
{
    KC_SHARED(float, a, TILE *TILE);
    KC_SHARED(float, b, TILE *TILE);
    const int row = KC_THREAD / TILE, column = KC_THREAD % TILE;
    const int64_t across = (args.n + TILE - 1) / TILE;
    const int64_t tiles = (args.m + TILE - 1) / TILE * across;
    for (int64_t tile = KC_BLOCK; tile < tiles * args.batches; tile += KC_N_BLOCKS) {
        const int64_t r = tile % tiles / across * TILE + row;
        const int64_t c = tile % tiles % across * TILE + column;
        int64_t batch = tile / tiles, a_at = 0, b_at = 0;
        const int64_t c_at = batch * args.m * args.n + r * args.n + c;
        for (int d = 0; d < args.rank; d++) {
            a_at += batch % args.dim[d] * args.a_step[d];
            b_at += batch % args.dim[d] * args.b_step[d];
            batch /= args.dim[d];
        }
        float sum = 0;
        for (int64_t k = 0; k < args.k; k += TILE) {
            const int64_t ka = k + column, kb = k + row;
            a[KC_THREAD] = r < args.m && ka < args.k
                               ? KC_ADDRESS(args.a)[a_at + r * args.a_row + ka * args.a_column]
                               : 0;
            b[KC_THREAD] = c < args.n && kb < args.k
                               ? KC_ADDRESS(args.b)[b_at + kb * args.b_row + c * args.b_column]
                               : 0;
            KC_BARRIER();
            for (int i = 0; i < TILE && k + i < args.k; i++)
                sum += a[row * TILE + i] * b[i * TILE + column];
            KC_BARRIER();
        }
        if (r < args.m && c < args.n)
            KC_ADDRESS(args.c)[c_at] = kc_apply_epilogue(&args.epilogue, sum, c_at, c);
    }
}
