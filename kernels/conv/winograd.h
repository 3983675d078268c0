/*
 * Convolutions of 3x3 windows with stride 1 by Winograd's minimal filtering, on float32 NHWC as it
 * is: a tile of m x m outputs costs (m + 2)^2 products per pair of channels instead of 9 m^2.
 *
 * Per block of tiles: the inputs of each tile are transformed (channels lie innermost, so they are
 * the vector), (m + 2)^2 matrix products with the transformed weights follow, and the results are
 * transformed back into the output's rows. The sums do not depend on the batch or the block.
 *
 * Rounding: about 1e-6 of the output's largest magnitude for m = 2, 1e-5 for m = 4 with usual
 * weights. An infinity or NaN of the input reaches every output of its tiles, not only its
 * window's.
 *
 * Source: S. Winograd, Arithmetic Complexity of Computations (1980); A. Lavin, S. Gray, Fast
 * Algorithms for Convolutional Neural Networks, arXiv:1509.09308, for the matrices.
 * Threads: pure.
 */
#ifndef KN_CPU_WINOGRAD_H
#define KN_CPU_WINOGRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/conv/winograd_tiles.h"

struct kn_winograd_loops;

struct kn_winograd {
    int m;                          /* outputs per side of a tile: 2 or 4 */
    int64_t in_h, in_w;             /* of one image, in pixels */
    int64_t top, left;              /* padding */
    struct kn_winograd_tiles tiles; /* what comes first in there; the rest is kn_winograd_init's */
    /* by kn_winograd_init */
    const struct kn_winograd_loops *loops;
};

/* Fills in the rest from the fields above. False: channels that are no multiple of 16, or sizes
 * beyond what can be addressed. */
bool kn_winograd_init(struct kn_winograd *w);
/* filter [3, 3, ci, co] to the transformed form; dst: kn_winograd_tiles_pack_bytes, 64-byte
 * aligned. */
void kn_winograd_pack(const struct kn_winograd *w, const float *filter, float *dst);
/* How far sums by tiles are from direct ones for this filter, as kn_winograd_check_end says; NaN as
 * well where memory is short. */
double kn_winograd_error(const struct kn_winograd *w, const float *filter, const float *packed);
/* src [batch, in_h, in_w, ci] to those outputs of dst [batch, out_h, out_w, co] that a block makes.
 * Blocks are independent. scratch: 64-byte aligned, of whoever calls. */
size_t kn_winograd_scratch_bytes(const struct kn_winograd *w);
void kn_winograd_run_block(const struct kn_winograd *w, const float *src, const float *packed,
                           float *dst, int64_t block, void *scratch,
                           const struct kn_winograd_post_ops *post_ops);

/*
 * A block in pieces, for several cores: the inputs of its tiles come first, then
 * kn_winograd_tiles_gemm, then the outputs: ranges [from, to) of them in any order. `room`: the
 * block's; `patch`: kn_winograd_patch_bytes of whoever calls.
 */
size_t kn_winograd_patch_bytes(const struct kn_winograd *w);
void kn_winograd_inputs(const struct kn_winograd *w, const float *src, int64_t block, int64_t from,
                        int64_t to, float *workspace, float *patch);
void kn_winograd_outputs(const struct kn_winograd *w, float *dst, int64_t block, int64_t from,
                         int64_t to, const float *workspace, float *patch,
                         const struct kn_winograd_post_ops *post_ops);

#endif
