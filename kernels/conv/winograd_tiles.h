/*
 * Code shared by 2-D and 1-D Winograd (winograd.h, winograd_1d.h).
 *
 * Outputs are divided into tiles, and tiles are computed in blocks. The transform domain of a tile
 * has as many positions as the tile has inputs. The input transform yields one value per channel at
 * each position. For one position, the values of a block's tiles are the rows of a matrix [tiles,
 * ci]. A GEMM multiplies this matrix by the transformed weights of the position. From the resulting
 * matrices [tiles, co] of all positions, the output transform computes the tiles' outputs. The
 * `workspace` of a block contains the input matrices of all positions, followed by the result
 * matrices.
 *
 * Threads: any; these functions are pure.
 */
#ifndef KN_CONV_WINOGRAD_TILES_H
#define KN_CONV_WINOGRAD_TILES_H

#include "kernels/matmul/packed_gemm.h"

struct kn_winograd_tiles {
    int64_t batch, out_h, out_w, ci, co;
    /* Number of cores that share the blocks, where 0 means 1. If there are more blocks than cores,
     * the blocks are divided evenly among the cores. */
    int cores;
    /* kn_winograd_init or kn_winograd_1d_init sets the members from window_h to tile_w. Other
     * callers of kn_winograd_tiles_init set these members themselves. */
    int64_t window_h, window_w; /* size of the input window of one output */
    int64_t tile_h, tile_w;     /* number of outputs per tile along each axis */
    /* kn_winograd_tiles_init sets the members below */
    int64_t h, w; /* An image has h rows of w tiles. */
    int64_t domain_size;
    int64_t block; /* number of tiles in a block */
    /* in_step is the distance in floats between the input matrices of two neighbouring positions.
     * out_step is the distance in floats between their result matrices. */
    int64_t in_step, out_step;
    int64_t results; /* offset of the first result matrix in a workspace, in floats */
    /* distance in floats between the packed weights of two neighbouring positions */
    int64_t pack_step;
    struct kn_packed_gemm gemm; /* the GEMM for one position of the transform domain */
};

/* Sets the members from `h` on. Returns false if a channel count is not a multiple of 16, or if a
 * buffer would exceed the address space. */
bool kn_winograd_tiles_init(struct kn_winograd_tiles *t);
size_t kn_winograd_tiles_pack_bytes(const struct kn_winograd_tiles *t);
size_t kn_winograd_tiles_workspace_bytes(const struct kn_winograd_tiles *t);
/* kn_winograd_tiles_blocks returns the number of blocks, which are independent of each other.
 * kn_winograd_tiles_in_block returns the number of tiles in block `block`. */
int64_t kn_winograd_tiles_blocks(const struct kn_winograd_tiles *t);
int64_t kn_winograd_tiles_in_block(const struct kn_winograd_tiles *t, int64_t block);
/* Returns the work of all blocks in multiplications, including the transforms, whose time is
 * converted to multiplications. */
double kn_winograd_tiles_work(const struct kn_winograd_tiles *t);

struct kn_winograd_sharding {
    int slots; /* number of cores that have work, but at least one */
    /* Set if each core computes its own blocks. Otherwise all cores share one block at a time. */
    bool by_blocks;
};
/* Chooses how the work is sharded among at most `width` cores. */
struct kn_winograd_sharding kn_winograd_sharding(const struct kn_winograd_tiles *t, int width);

struct kn_winograd_tile {
    int64_t image, y, x; /* the tile's first output is at (y, x) of image number `image` */
};
struct kn_winograd_tile kn_winograd_tiles_at(const struct kn_winograd_tiles *t, int64_t block,
                                             int64_t i);

/* Runs the GEMMs of a block of `tiles` tiles for the positions [from, to) of the transform domain
 * and the panels [first, end) of output channels. */
void kn_winograd_tiles_gemm(const struct kn_winograd_tiles *t, const float *packed, int64_t tiles,
                            int64_t from, int64_t to, int64_t first, int64_t end, float *workspace);

/* The steps that follow the output transform. */
struct kn_winograd_post_ops {
    /* If not NULL, `finish` is called for each run y of `pixels` neighbouring outputs while their
     * sums are in the cache. The sums are in y itself (sums == y) or, if `apart` is set, in
     * temporary memory, from which `finish` must write y. */
    void (*finish)(void *arg, float *y, float *sums, int64_t pixels);
    void *arg;
    bool apart;
};

/*
 * Measures the error of Winograd sums against direct sums for a filter. kn_winograd_check_begin
 * allocates x, y and scratch, and fills x with a test image. The caller then computes the outputs
 * of x by tiles and stores them in y. kn_winograd_check_end compares some of these outputs with
 * direct sums and frees the memory. The caller must call kn_winograd_check_end after every
 * successful kn_winograd_check_begin.
 */
struct kn_winograd_check {
    /* Tiling initialised by kn_winograd_tiles_init for a single tile. It must outlive the check. */
    const struct kn_winograd_tiles *one;
    float *x; /* image [out_h + window_h - 1, out_w + window_w - 1, ci], without padding */
    float *y; /* outputs [out_h, out_w, co] */
    /* scratch memory of the size that kn_winograd_check_begin was given, 64-byte aligned */
    void *scratch;
};
/* Returns false if memory runs out. kn_winograd_check_end must then not be called. */
bool kn_winograd_check_begin(struct kn_winograd_check *check, const struct kn_winograd_tiles *one,
                             size_t scratch_bytes);
/*
 * Returns the largest difference between a Winograd sum and the direct sum, divided by the largest
 * magnitude of a direct sum. Returns NaN if a difference is NaN. `filter` has the shape [window_h,
 * window_w, ci, co]. If `scale` is not NULL, it points to co floats, and the direct sums of each
 * output channel are multiplied by the float of this channel.
 */
double kn_winograd_check_end(struct kn_winograd_check *check, const float *filter,
                             const float *scale);

#endif
