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

#include "kernels/cpu/tiles.h"

struct kn_winograd_loops;

struct kn_winograd {
    int m;                                   /* outputs per side of a tile: 2 or 4 */
    int64_t batch, in_h, in_w, out_h, out_w; /* of one image, in pixels */
    int64_t top, left;                       /* padding */
    int64_t ci, co;
    int cores; /* blocks are worked on by: more than those are a like number for each; 0: one */
    /* by kn_winograd_solve */
    struct kn_tiles tiles;
    const struct kn_winograd_loops *loops;
    /* Asked between blocks; true: the output will not be used, kn_winograd_run returns. NULL: no.
     */
    bool (*ends)(void *arg);
    void *ends_arg;
    bool apart; /* outputs are `finish`'s to write */
};

/* Fills in the rest from the fields above. False: channels that are no multiple of 16, or sizes
 * beyond what can be addressed. */
bool kn_winograd_solve(struct kn_winograd *w);
/* filter [3, 3, ci, co] to the transformed form; dst: kn_tiles_pack_bytes, 64-byte aligned. */
void kn_winograd_pack(const struct kn_winograd *w, const float *filter, float *dst);
/* How far sums by tiles are from direct ones for this filter, as kn_tiles_end says; NaN as well
 * where memory is short. */
double kn_winograd_error(const struct kn_winograd *w, const float *filter, const float *packed);
size_t kn_winograd_scratch_bytes(const struct kn_winograd *w);
/*
 * src [batch, in_h, in_w, ci] to dst [batch, out_h, out_w, co]. `finish` (NULL: none) is called
 * with each run of `pixels` neighbouring outputs, y, once their sums are there, while they are in
 * the cache: in y too (sums == y) or, `apart`, in memory that is lost. scratch: 64-byte aligned.
 */
void kn_winograd_run(const struct kn_winograd *w, const float *src, const float *packed, float *dst,
                     void *scratch,
                     void (*finish)(void *arg, float *y, float *sums, int64_t pixels), void *arg);

/*
 * The same in pieces, for several cores. Blocks are independent; in each of them the inputs of its
 * tiles come first, then kn_tiles_multiply, then the outputs: ranges [from, to) of them in any
 * order. `room`: the block's; `patch`: kn_winograd_patch_bytes of whoever calls.
 */
size_t kn_winograd_patch_bytes(const struct kn_winograd *w);
/* scratch: kn_winograd_scratch_bytes. */
void kn_winograd_one_block(const struct kn_winograd *w, const float *src, const float *packed,
                           float *dst, int64_t block, void *scratch,
                           void (*finish)(void *arg, float *y, float *sums, int64_t pixels),
                           void *arg);
void kn_winograd_inputs(const struct kn_winograd *w, const float *src, int64_t block, int64_t from,
                        int64_t to, float *room, float *patch);
void kn_winograd_outputs(const struct kn_winograd *w, float *dst, int64_t block, int64_t from,
                         int64_t to, const float *room, float *patch,
                         void (*finish)(void *arg, float *y, float *sums, int64_t pixels),
                         void *arg);

#endif
