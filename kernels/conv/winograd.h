/*
 * 3x3 convolutions with stride 1 by Winograd's minimal filtering, on float32 NHWC tensors without
 * reordering. A tile of `m x m` outputs costs `(m + 2)^2` multiplications per pair of channels
 * instead of `9 m^2`.
 *
 * For each block of tiles, the inputs of every tile are transformed. Vectors run along the
 * channels, which are the innermost axis. `(m + 2)^2` GEMMs multiply the transformed inputs by the
 * transformed weights. The results are transformed back into rows of the output. The sums do not
 * depend on the batch size or the block.
 *
 * With usual weights, the rounding error is about 1e-6 of the output's largest magnitude for m = 2,
 * and 1e-5 for m = 4. An infinity or NaN in the input affects every output of its tiles, not only
 * the outputs whose windows contain it.
 *
 * Source: S. Winograd, Arithmetic Complexity of Computations (1980); A. Lavin, S. Gray, Fast
 * Algorithms for Convolutional Neural Networks, arXiv:1509.09308, for the matrices.
 *
 * Threads: any; these functions are pure.
 */
#ifndef KN_CONV_WINOGRAD_H
#define KN_CONV_WINOGRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/conv/winograd_tiles.h"

struct kn_winograd_loops;

struct kn_winograd {
    int m; /* number of outputs per side of a tile: 2 or 4 */
    int64_t in_h, in_w;
    int64_t top, left; /* padding above and to the left of the image */
    /* The caller sets the members from `batch` to `cores`, and kn_winograd_init sets the others. */
    struct kn_winograd_tiles tiles;
    /* kn_winograd_init sets the members below */
    const struct kn_winograd_loops *loops;
};

/* Sets the members that the caller does not set. Returns false if a number of channels is not a
 * multiple of 16 or if sizes exceed the address space. */
bool kn_winograd_init(struct kn_winograd *w);
/* Transforms and packs filter [3, 3, ci, co] into dst, which has kn_winograd_tiles_pack_bytes bytes
 * and is 64-byte aligned. */
void kn_winograd_pack(const struct kn_winograd *w, const float *filter, float *dst);
/* Returns the error of the Winograd sums for this filter relative to direct sums, as defined by
 * kn_winograd_check_end, or NaN if memory runs out. */
double kn_winograd_error(const struct kn_winograd *w, const float *filter, const float *packed);
/* Computes the outputs of one block of tiles from src [batch, in_h, in_w, ci] into dst [batch,
 * out_h, out_w, co]. Blocks are independent of each other. `scratch` has kn_winograd_scratch_bytes
 * bytes and is 64-byte aligned. */
size_t kn_winograd_scratch_bytes(const struct kn_winograd *w);
void kn_winograd_run_block(const struct kn_winograd *w, const float *src, const float *packed,
                           float *dst, int64_t block, void *scratch,
                           const struct kn_winograd_post_ops *post_ops);

/*
 * These functions compute one block on several cores in three stages: kn_winograd_inputs,
 * kn_winograd_tiles_gemm, kn_winograd_outputs. Within a stage, ranges [from, to) may run in any
 * order. All cores share `workspace`. Each core has its own `patch` of kn_winograd_patch_bytes
 * bytes.
 */
size_t kn_winograd_patch_bytes(const struct kn_winograd *w);
void kn_winograd_inputs(const struct kn_winograd *w, const float *src, int64_t block, int64_t from,
                        int64_t to, float *workspace, float *patch);
void kn_winograd_outputs(const struct kn_winograd *w, float *dst, int64_t block, int64_t from,
                         int64_t to, const float *workspace, float *patch,
                         const struct kn_winograd_post_ops *post_ops);

#endif
