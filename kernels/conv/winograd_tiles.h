/*
 * What convolutions by minimal filtering (winograd.h, winograd_line.h) have in common: outputs fall
 * into tiles, and those are worked on in blocks.
 *
 * A tile has as many places as it has inputs, and after its transform a value per channel at each.
 * The values of a block's tiles at one place are the rows of a matrix: times the transformed
 * weights for that place they make a matrix of results, which the tiles' outputs come from. The
 * `room` of a block holds the matrices [tiles, ci] of all places and behind them those of results,
 * [tiles, co].
 *
 * Threads: pure.
 */
#ifndef KN_CONV_WINOGRAD_TILES_H
#define KN_CONV_WINOGRAD_TILES_H

#include "kernels/matmul/packed_gemm.h"

struct kn_winograd_tiles {
    int64_t batch, out_h, out_w, ci, co;
    int cores; /* blocks are worked on by: those are a like number for each, or one; 0: one */
    /* by the caller as well, or by kn_winograd_init and kn_winograd_1d_init */
    int64_t window_h, window_w; /* inputs that an output is a sum over */
    int64_t tile_h, tile_w;     /* outputs of a tile */
    /* by kn_winograd_tiles_init */
    int64_t h, w; /* tiles of an image: rows of them, and in each */
    int64_t domain_size;
    int64_t block;              /* tiles worked on at a time */
    int64_t in_step, out_step;  /* floats in a room from one place's matrix to the next */
    int64_t results;            /* and to where those of results begin */
    int64_t pack_step;          /* floats from one place's packed weights to the next */
    struct kn_packed_gemm gemm; /* at one place */
};

/* Fills in the rest. False: channels that are no multiple of 16, or sizes beyond what can be
 * addressed. */
bool kn_winograd_tiles_init(struct kn_winograd_tiles *t);
size_t kn_winograd_tiles_pack_bytes(const struct kn_winograd_tiles *t);
size_t kn_winograd_tiles_workspace_bytes(const struct kn_winograd_tiles *t);
/* Blocks are independent of each other; each has so many tiles. */
int64_t kn_winograd_tiles_blocks(const struct kn_winograd_tiles *t);
int64_t kn_winograd_tiles_in_block(const struct kn_winograd_tiles *t, int64_t block);
/* Multiplications in all products of all blocks, with the transforms as so many of them. */
double kn_winograd_tiles_work(const struct kn_winograd_tiles *t);

struct kn_winograd_sharding {
    int slots;      /* cores that have something to do, at least one */
    bool by_blocks; /* each has blocks of its own; else all work on one block after the other */
};
/* How the work is cut over at most `width` cores. */
struct kn_winograd_sharding kn_winograd_sharding(const struct kn_winograd_tiles *t, int width);

struct kn_winograd_tile {
    int64_t image, y, x; /* of its first output */
};
struct kn_winograd_tile kn_winograd_tiles_at(const struct kn_winograd_tiles *t, int64_t block,
                                             int64_t i);

/* The products of a block of so many tiles at the places [from, to), as far as they make the
 * panels [first, end) of output channels. */
void kn_winograd_tiles_gemm(const struct kn_winograd_tiles *t, const float *packed, int64_t tiles,
                            int64_t from, int64_t to, int64_t first, int64_t end, float *workspace);

/* What is done behind outputs. */
struct kn_winograd_post_ops {
    /* NULL, or called with each run of `pixels` neighbouring outputs, y, once their sums are there,
     * while they are in the cache: in y too (sums == y) or, `apart`, in memory that is lost, and
     * then y is `finish`'s to write. */
    void (*finish)(void *arg, float *y, float *sums, int64_t pixels);
    void *arg;
    bool apart;
};

/*
 * A trial: how far a filter's sums by tiles are from direct ones. kn_winograd_check_begin makes up
 * an image x; compute its outputs into y, by tiles, then call kn_winograd_check_end, which computes
 * them directly and compares. Begin allocates x, y and scratch, end frees them: a trial that has
 * begun must end.
 */
struct kn_winograd_check {
    const struct kn_winograd_tiles *one; /* solved for one tile; must outlive the trial */
    float *x;      /* [out_h + window_h - 1, out_w + window_w - 1, ci]: no padding */
    float *y;      /* [out_h, out_w, co] */
    void *scratch; /* as many bytes as begin was asked for, 64-byte aligned */
};
/* False: memory is short, and there is nothing to end. */
bool kn_winograd_check_begin(struct kn_winograd_check *check, const struct kn_winograd_tiles *one,
                             size_t scratch_bytes);
/*
 * The largest difference as a part of the largest magnitude, NaN where there is one. filter
 * [window_h, window_w, ci, co], scale co floats by which its sums are multiplied or NULL.
 */
double kn_winograd_check_end(struct kn_winograd_check *check, const float *filter,
                             const float *scale);

#endif
