/*
 * Convolutions of 1 x taps or taps x 1 windows with stride 1 by minimal filtering along the one
 * axis, on float32 NHWC as it is: four neighbouring outputs cost taps + 3 products per pair of
 * channels instead of 4 taps.
 *
 * Per block of tiles, as in winograd.h: inputs are transformed, taps + 3 matrix products with the
 * transformed weights follow, results are transformed back. The sums do not depend on the batch.
 * Points are 0, 1, -1, 2, -2, 1/2, -1/2, 3/4, -3/4, as many as are needed, and infinity; with usual
 * weights the rounding is about 1e-5 of the output's largest magnitude for 7 taps, 2e-6 for fewer.
 *
 * Source: as winograd.h. Threads: pure.
 */
#ifndef KN_CONV_WINOGRAD_1D_H
#define KN_CONV_WINOGRAD_1D_H

#include "kernels/conv/winograd_tiles.h"

enum { KN_WINOGRAD_1D_TILE = 4 }; /* outputs */

struct kn_winograd_1d_loops;

struct kn_winograd_1d {
    int taps;      /* 3, 5 or 7 */
    bool vertical; /* the window is a column, and so are lines */
    int64_t in_h, in_w;
    int64_t before; /* padding along the line; there is none across */
    struct kn_winograd_tiles
        tiles; /* what comes first in there; the rest is kn_winograd_1d_init's */
    /* by kn_winograd_1d_init */
    const struct kn_winograd_1d_loops *loops;
};

/* False: channels that are no multiple of 16, or sizes beyond what can be addressed. */
bool kn_winograd_1d_init(struct kn_winograd_1d *l);
/* filter [taps, ci, co], scale co floats or NULL; room: ci * co floats. dst:
 * kn_winograd_tiles_pack_bytes, 64-byte aligned. */
void kn_winograd_1d_pack(const struct kn_winograd_1d *l, const float *filter, const float *scale,
                         float *workspace, float *dst);
/* As kn_winograd_error. */
double kn_winograd_1d_error(const struct kn_winograd_1d *l, const float *filter, const float *scale,
                            const float *packed);

/* How an output ends: the shift (co floats or NULL) is added, it is clipped (NaN stays), and what
 * is to be done then. */
struct kn_winograd_1d_post_ops {
    const float *shift;
    bool clips;
    float least, most;
    struct kn_winograd_post_ops then;
};
/* The outputs of panels [from, to) of channels in a block: of all, if there is a `then.finish`.
 * Blocks are independent. scratch: 64-byte aligned, of whoever calls. */
size_t kn_winograd_1d_scratch_bytes(const struct kn_winograd_1d *l);
void kn_winograd_1d_run_block(const struct kn_winograd_1d *l, const float *src, const float *packed,
                              float *dst, int64_t block, int64_t from, int64_t to, void *scratch,
                              const struct kn_winograd_1d_post_ops *post_ops);

#endif
