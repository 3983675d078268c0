/*
 * Computes convolutions that have 1 x taps or taps x 1 windows and a stride of 1. Uses 1-D Winograd
 * (minimal filtering along the window's longer axis) on float32 NHWC tensors, whose layout it does
 * not change. Four neighbouring outputs cost `taps + 3` multiplications per pair of channels
 * instead of `4 * taps`.
 *
 * Blocks of tiles are computed as in winograd.h: inputs are transformed, `taps + 3` GEMMs multiply
 * them with the transformed weights, and the results are transformed back. The sums do not depend
 * on the batch size. The interpolation points are 0, 1, -1, 2, -2, 1/2, -1/2, 3/4, -3/4 (as many of
 * these as needed) and infinity. With typical weights, the rounding error is about 1e-5 of the
 * output's largest magnitude for 7 taps and 2e-6 for fewer.
 *
 * Source: see winograd.h. Threads: any; these functions are pure.
 */
#ifndef KN_CONV_WINOGRAD_1D_H
#define KN_CONV_WINOGRAD_1D_H

#include "kernels/conv/winograd_tiles.h"

enum { KN_WINOGRAD_1D_TILE = 4 }; /* number of outputs per tile */

struct kn_winograd_1d_loops;

struct kn_winograd_1d {
    int taps; /* number of taps: 3, 5 or 7 */
    /* whether the window is one column (taps x 1) rather than one row (1 x taps) */
    bool vertical;
    int64_t in_h, in_w;
    /* Padding before the first pixel along the window's axis. There is no padding along the other
     * axis. */
    int64_t before;
    /* The caller sets the members from `batch` to `cores`, and kn_winograd_1d_init sets the
     * others. */
    struct kn_winograd_tiles tiles;
    /* kn_winograd_1d_init sets the members below */
    const struct kn_winograd_1d_loops *loops;
};

/* Sets the members that the caller does not set. Returns false if the number of taps is not
 * supported, a number of channels is not a multiple of 16, or sizes exceed the address space. */
bool kn_winograd_1d_init(struct kn_winograd_1d *l);
/* Transforms and packs filter [taps, ci, co] into dst, which has kn_winograd_tiles_pack_bytes bytes
 * and is 64-byte aligned. `scale` has co floats or is NULL, and `workspace` has ci * co floats. */
void kn_winograd_1d_pack(const struct kn_winograd_1d *l, const float *filter, const float *scale,
                         float *workspace, float *dst);
/* Returns the error of the Winograd sums relative to direct sums, measured as in
 * kn_winograd_error. */
double kn_winograd_1d_error(const struct kn_winograd_1d *l, const float *filter, const float *scale,
                            const float *packed);

/* The epilogue of the output transform. It adds the shift (co floats or NULL), clips the sum to
 * [least, most] (NaN stays NaN), and then applies the post-ops `then`. */
struct kn_winograd_1d_post_ops {
    const float *shift;
    bool clips;
    float least, most;
    struct kn_winograd_post_ops then;
};
/* Computes the output channels of panels [from, to) for one block of tiles. If `then.finish` is
 * set, the range must contain all panels. Blocks are independent of each other. `scratch` has
 * kn_winograd_1d_scratch_bytes bytes and is 64-byte aligned. */
size_t kn_winograd_1d_scratch_bytes(const struct kn_winograd_1d *l);
void kn_winograd_1d_run_block(const struct kn_winograd_1d *l, const float *src, const float *packed,
                              float *dst, int64_t block, int64_t from, int64_t to, void *scratch,
                              const struct kn_winograd_1d_post_ops *post_ops);

#endif
