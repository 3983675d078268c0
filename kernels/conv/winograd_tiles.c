#include "kernels/conv/winograd_tiles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"
#include "runtime/base/checked.h"

enum {
    LINE = 16, /* number of floats in a cache line */
    /* The minimum number of tiles per block. It limits the number of blocks, because the
     * transformed weights are read once per block. */
    MIN_TILES = 32,
    /* If the transformed weights have at most L2_BYTES bytes, each core computes its own blocks and
     * reads all weights. */
    L2_BYTES = 1 << 20,
    TRANSFORM = 16, /* number of multiplications that take as long as transforming one value */
    /* If there are at least this many blocks per core, each core computes its own blocks, because
     * an uneven division of the blocks among the cores then costs little. */
    ENOUGH = 3,
};

bool kn_winograd_tiles_init(struct kn_winograd_tiles *t)
{
    int64_t tiles, bytes;

    if (t->ci % LINE || t->co % LINE || t->ci <= 0 || t->co <= 0 || t->ci > INT32_MAX ||
        t->co > INT32_MAX || t->out_h <= 0 || t->out_w <= 0 || t->batch <= 0)
        return false;
    t->h = (t->out_h - 1) / t->tile_h + 1;
    t->w = (t->out_w - 1) / t->tile_w + 1;
    t->domain_size = (t->tile_h + t->window_h - 1) * (t->tile_w + t->window_w - 1);
    if (!rt_mul(t->h, t->w, &tiles) || !rt_mul(tiles, t->batch, &tiles))
        return false;
    /* Chooses the block size so that, for each position of the transform domain, the input and
     * result rows of a block have half as many elements as the transformed weights. */
    int64_t block = t->ci * t->co / (t->ci + t->co) / 2;
    if (block < MIN_TILES)
        block = MIN_TILES;
    t->gemm = (struct kn_packed_gemm){.k = t->ci, .n = t->co};
    if (!kn_packed_gemm_init(&t->gemm))
        return false;
    t->pack_step = (int64_t)(kn_packed_gemm_pack_bytes(&t->gemm) / sizeof(float));
    const double shares = kn_winograd_tiles_work(t) / KN_SHARD_MACS;
    if (tiles <= block && t->cores > 1 && shares >= 2 &&
        kn_winograd_tiles_pack_bytes(t) <= L2_BYTES)
        block = (tiles - 1) / (shares < t->cores ? (int64_t)shares : t->cores) + 1;
    t->block = kn_even_size(tiles, block, t->cores);
    if (!rt_mul(t->block + 1, t->domain_size * (t->ci + t->co) * 8, &bytes))
        return false;
    /* Without a cache line of padding per matrix, the matrices could map to the same cache sets. */
    t->in_step = t->block * t->ci + LINE;
    t->out_step = t->block * t->co + LINE;
    t->results = t->domain_size * t->in_step;
    return true;
}

size_t kn_winograd_tiles_pack_bytes(const struct kn_winograd_tiles *t)
{
    return (size_t)(t->domain_size * t->pack_step) * sizeof(float);
}

size_t kn_winograd_tiles_workspace_bytes(const struct kn_winograd_tiles *t)
{
    return (size_t)(t->results + t->domain_size * t->out_step) * sizeof(float);
}

int64_t kn_winograd_tiles_blocks(const struct kn_winograd_tiles *t)
{
    return (t->batch * t->h * t->w - 1) / t->block + 1;
}

int64_t kn_winograd_tiles_in_block(const struct kn_winograd_tiles *t, int64_t block)
{
    const int64_t left = t->batch * t->h * t->w - block * t->block;
    return left < t->block ? left : t->block;
}

double kn_winograd_tiles_work(const struct kn_winograd_tiles *t)
{
    const double in = (double)t->ci, out = (double)t->co;
    return (double)(t->batch * t->h * t->w) * (double)t->domain_size *
           (in * out + TRANSFORM * (in + out));
}

struct kn_winograd_sharding kn_winograd_sharding(const struct kn_winograd_tiles *t, int width)
{
    const double shares = kn_winograd_tiles_work(t) / KN_SHARD_MACS;
    const int most = shares < (double)width ? (int)shares : width, slots = most > 1 ? most : 1;
    const int64_t blocks = kn_winograd_tiles_blocks(t);

    return (struct kn_winograd_sharding){
        .slots = slots,
        .by_blocks = blocks % slots == 0 || blocks >= ENOUGH * (int64_t)slots,
    };
}

struct kn_winograd_tile kn_winograd_tiles_at(const struct kn_winograd_tiles *t, int64_t block,
                                             int64_t i)
{
    const int64_t tile = block * t->block + i, per_image = t->h * t->w, k = tile % per_image;
    return (struct kn_winograd_tile){tile / per_image, k / t->w * t->tile_h, k % t->w * t->tile_w};
}

void kn_winograd_tiles_gemm(const struct kn_winograd_tiles *t, const float *packed, int64_t tiles,
                            int64_t from, int64_t to, int64_t first, int64_t end, float *workspace)
{
    float *results = workspace + t->results;

    for (int64_t i = from; i < to; i++) {
        struct kn_packed_gemm_args part =
            kn_packed_gemm_whole(&t->gemm, packed + i * t->pack_step, workspace + i * t->in_step,
                                 results + i * t->out_step, tiles);
        if (i + 1 < to)
            part.next = part.packed + t->pack_step +
                        kn_packed_gemm_offset(&t->gemm, 0, first * t->gemm.panel);
        part.from = first;
        part.to = end;
        kn_packed_gemm_run(&t->gemm, &part, NULL);
    }
}

/* ---- accuracy ---- */

/* Returns the number of floats from one row of the error check's test image to the next. */
static int64_t row_of(const struct kn_winograd_tiles *one)
{
    return (one->out_w + one->window_w - 1) * one->ci;
}

bool kn_winograd_check_begin(struct kn_winograd_check *check, const struct kn_winograd_tiles *one,
                             size_t scratch_bytes)
{
    const int64_t n_x = (one->out_h + one->window_h - 1) * row_of(one);
    const int64_t n_y = one->out_h * one->out_w * one->co;
    const size_t scratch = kn_padded(scratch_bytes);
    char *workspace = aligned_alloc(64, scratch + kn_padded((size_t)(n_x + n_y) * sizeof(float)));
    uint32_t seed = 1;

    if (!workspace)
        return false;
    *check = (struct kn_winograd_check){
        .one = one, .x = (void *)(workspace + scratch), .scratch = workspace};
    check->y = check->x + n_x;
    for (int64_t i = 0; i < n_x; i++) {
        seed = seed * 1664525 + 1013904223;
        check->x[i] = (float)(int32_t)seed / (float)INT32_MAX;
    }
    return true;
}

/* Computes the direct sums of one output pixel from `rows` runs of n contiguous inputs. The runs
 * are `row` floats apart. */
KN_CLONES static void sum_window(const float *x, int64_t row, int64_t rows, int64_t n,
                                 const float *filter, int64_t co, float *restrict sum)
{
    memset(sum, 0, (size_t)co * sizeof *sum);
    for (int64_t i = 0; i < rows * n; i++) {
        const float v = x[i / n * row + i % n];
        const float *restrict f = filter + i * co;
        for (int64_t o = 0; o < co; o++)
            sum[o] += v * f[o];
    }
}

double kn_winograd_check_end(struct kn_winograd_check *check, const float *filter,
                             const float *scale)
{
    const struct kn_winograd_tiles *t = check->one;
    const int64_t row = row_of(t);
    const int64_t pixel[][2] = {
        {0, 0}, {t->out_h - 1, t->out_w - 1}, {t->out_h / 2 - 1, t->out_w - 1}};
    double most = 0, apart = 0;
    /* reuses the scratch memory, which is free at this point and large enough */
    float *right = check->scratch;

    for (int k = 0; k < (t->out_h > 1 ? 3 : 2) && !isnan(apart); k++) {
        const int64_t y = pixel[k][0], x = pixel[k][1];
        const float *is = check->y + (y * t->out_w + x) * t->co;
        sum_window(check->x + y * row + x * t->ci, row, t->window_h, t->window_w * t->ci, filter,
                   t->co, right);
        for (int64_t o = 0; o < t->co; o++) {
            const double v = (double)right[o] * (scale ? (double)scale[o] : 1);
            const double d = fabs(v - (double)is[o]);
            most = fmax(most, fabs(v));
            if (!(d <= apart) && !isnan(apart)) /* once `apart` is NaN, it stays NaN */
                apart = d;
        }
    }
    free(check->scratch);
    return most > 0 || isnan(apart) ? apart / most : apart;
}
