#include "kernels/cpu/winograd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"

struct kn_winograd_loops {
    void (*input)(int m, const float *src, int64_t row, int64_t ci, float *v, int64_t step);
    void (*output)(int m, const float *p, int64_t step, int64_t co, float *y, int64_t row);
};

enum {
    LINE = 16,       /* floats in a cache line */
    LEAST_TILES = 32 /* in a block: transformed weights are read once per block */
};

#define KN_LOOPS      "kernels/cpu/winograd_loops.h"
#define KN_LOOPS_TYPE struct kn_winograd_loops
#include "kernels/cpu/vector_sets.h"

static int64_t n_products(const struct kn_winograd *w)
{
    return (int64_t)(w->m + 2) * (w->m + 2);
}

/* Floats from one product's matrix to the next: a line more than it holds, so that the matrices
 * do not all fall on the same sets of the cache. */
static int64_t step_of(const struct kn_winograd *w, int64_t channels)
{
    return w->block * channels + LINE;
}

bool kn_winograd_solve(struct kn_winograd *w)
{
    int64_t tiles, pixels;

    if (w->ci % LINE || w->co % LINE || w->ci <= 0 || w->co <= 0 || w->ci > INT32_MAX ||
        w->co > INT32_MAX || w->out_h <= 0 || w->out_w <= 0 || w->batch <= 0)
        return false;
    w->tiles_h = (w->out_h - 1) / w->m + 1;
    w->tiles_w = (w->out_w - 1) / w->m + 1;
    if (__builtin_mul_overflow(w->tiles_h, w->tiles_w, &tiles) ||
        __builtin_mul_overflow(tiles, w->batch, &tiles))
        return false;
    /* The weights of a product are as many bytes as twice this many of its rows in and out. */
    int64_t block = w->ci * w->co / (w->ci + w->co) / 2;
    if (block < LEAST_TILES)
        block = LEAST_TILES;
    w->block = kn_even_parts(tiles, block, w->cores);
    if (__builtin_mul_overflow(w->block + 1, n_products(w) * (w->ci + w->co) * 8, &pixels))
        return false;
    w->loops = loops_of(0);
    w->product = (struct kn_product){.k = w->ci, .n = w->co};
    return kn_product_solve(&w->product);
}

int kn_winograd_panel(const struct kn_winograd *w)
{
    return (int)w->product.panel;
}

size_t kn_winograd_pack_bytes(const struct kn_winograd *w)
{
    return (size_t)n_products(w) * kn_product_pack_bytes(&w->product);
}

enum { PACKED = 8 }; /* filters transformed at a time; a panel has a multiple of it */

/* G g G' of 3x3 filters side by side, in double: their rounding would be in every product.
 * `tap` floats from one of the nine to the next, `matrix` from one product's value to the next. */
KN_CLONES static void pack_some(int m, const float *g, int64_t tap, float *u, int64_t matrix)
{
    static const double g2[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
    static const double g4[6][3] = {{1.0 / 4, 0, 0},
                                    {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                    {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                    {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                    {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                    {0, 0, 1}};
    const double(*t)[3] = m == 4 ? g4 : g2;

    for (int i = 0; i < m + 2; i++) {
        double row[3][PACKED];
        for (int j = 0; j < 3; j++)
            for (int o = 0; o < PACKED; o++)
                row[j][o] = t[i][0] * (double)g[j * tap + o] +
                            t[i][1] * (double)g[(3 + j) * tap + o] +
                            t[i][2] * (double)g[(6 + j) * tap + o];
        for (int j = 0; j < m + 2; j++)
            for (int o = 0; o < PACKED; o++)
                u[(i * (m + 2) + j) * matrix + o] =
                    (float)(row[0][o] * t[j][0] + row[1][o] * t[j][1] + row[2][o] * t[j][2]);
    }
}

void kn_winograd_pack(const struct kn_winograd *w, const float *filter, float *dst)
{
    const int64_t panel = w->product.panel, ci = w->ci, co = w->co;
    const int64_t columns = w->product.panels * panel, matrix = ci * columns;

    if (columns != co)
        memset(dst, 0, kn_winograd_pack_bytes(w));
    for (int64_t first = 0; first < co; first += panel)
        for (int64_t c = 0; c < ci; c++)
            for (int64_t o = first; o < first + panel && o < co; o += PACKED)
                pack_some(w->m, filter + c * co + o, ci * co,
                          dst + first * ci + c * panel + (o - first), matrix);
}

size_t kn_winograd_patch_bytes(const struct kn_winograd *w)
{
    return (size_t)(n_products(w) * (w->ci > w->co ? w->ci : w->co)) * sizeof(float);
}

size_t kn_winograd_block_bytes(const struct kn_winograd *w)
{
    return (size_t)(n_products(w) * (step_of(w, w->ci) + step_of(w, w->co))) * sizeof(float);
}

size_t kn_winograd_scratch_bytes(const struct kn_winograd *w)
{
    return kn_winograd_block_bytes(w) + kn_winograd_patch_bytes(w);
}

int64_t kn_winograd_blocks(const struct kn_winograd *w)
{
    return (w->batch * w->tiles_h * w->tiles_w - 1) / w->block + 1;
}

int64_t kn_winograd_block_tiles(const struct kn_winograd *w, int64_t block)
{
    const int64_t left = w->batch * w->tiles_h * w->tiles_w - block * w->block;
    return left < w->block ? left : w->block;
}

int64_t kn_winograd_products(const struct kn_winograd *w)
{
    return n_products(w);
}

struct tile {
    int64_t image, y, x; /* of its first output */
};

static struct tile tile_at(const struct kn_winograd *w, int64_t i)
{
    const int64_t per_image = w->tiles_h * w->tiles_w, k = i % per_image;
    return (struct tile){i / per_image, k / w->tiles_w * w->m, k % w->tiles_w * w->m};
}

/* A tile that reaches beyond the image is copied, zeros around it. */
static const float *inputs_of(const struct kn_winograd *w, const float *src, struct tile t,
                              float *patch, int64_t *row)
{
    const int64_t a = w->m + 2, ci = w->ci, y = t.y - w->top, x = t.x - w->left;

    if (w->in_h * w->in_w == 0) { /* nothing but padding: src has no bytes */
        memset(patch, 0, (size_t)(a * a * ci) * sizeof *patch);
        *row = a * ci;
        return patch;
    }
    const float *image = src + t.image * w->in_h * w->in_w * ci;
    *row = w->in_w * ci;
    if (y >= 0 && x >= 0 && y + a <= w->in_h && x + a <= w->in_w)
        return image + (y * w->in_w + x) * ci;
    const int64_t from = x < 0 ? -x : 0, to = x + a > w->in_w ? w->in_w - x : a;
    memset(patch, 0, (size_t)(a * a * ci) * sizeof *patch);
    for (int64_t i = 0; i < a; i++)
        if (y + i >= 0 && y + i < w->in_h && from < to)
            memcpy(patch + (i * a + from) * ci, image + ((y + i) * w->in_w + x + from) * ci,
                   (size_t)((to - from) * ci) * sizeof *patch);
    *row = a * ci;
    return patch;
}

void kn_winograd_inputs(const struct kn_winograd *w, const float *src, int64_t block, int64_t from,
                        int64_t to, float *room, float *patch)
{
    for (int64_t i = from; i < to; i++) {
        int64_t row;
        const float *x = inputs_of(w, src, tile_at(w, block * w->block + i), patch, &row);
        w->loops->input(w->m, x, row, w->ci, room + i * w->ci, step_of(w, w->ci));
    }
}

void kn_winograd_multiply(const struct kn_winograd *w, const float *packed, int64_t tiles,
                          int64_t from, int64_t to, float *room)
{
    const int64_t in_step = step_of(w, w->ci), out_step = step_of(w, w->co);
    const int64_t matrix = (int64_t)(kn_product_pack_bytes(&w->product) / sizeof(float));
    const float *v = room;
    float *p = room + n_products(w) * in_step;

    for (int64_t k = from; k < to; k++) {
        struct kn_product_part part = kn_product_whole(&w->product, packed + k * matrix,
                                                       v + k * in_step, p + k * out_step, tiles);
        if (k + 1 < to)
            part.next = part.packed + matrix;
        kn_product_run(&w->product, &part, NULL);
    }
}

void kn_winograd_outputs(const struct kn_winograd *w, float *dst, int64_t block, int64_t from,
                         int64_t to, const float *room, float *patch,
                         void (*finish)(void *arg, float *y, float *sums, int64_t pixels),
                         void *arg)
{
    const int64_t m = w->m, co = w->co, out_step = step_of(w, co);
    const float *p = room + n_products(w) * step_of(w, w->ci);

    for (int64_t i = from; i < to; i++) {
        const struct tile t = tile_at(w, block * w->block + i);
        const int64_t rows = w->out_h - t.y < m ? w->out_h - t.y : m;
        const int64_t columns = w->out_w - t.x < m ? w->out_w - t.x : m;
        float *y = dst + ((t.image * w->out_h + t.y) * w->out_w + t.x) * co;
        const bool direct = rows == m && columns == m && !w->apart;
        w->loops->output(w->m, p + i * co, out_step, co, direct ? y : patch,
                         direct ? w->out_w * co : m * co);
        for (int64_t j = 0; j < rows; j++) {
            float *to_row = y + j * w->out_w * co, *sums = patch + j * m * co;
            if (!direct && !w->apart)
                memcpy(to_row, sums, (size_t)(columns * co) * sizeof *to_row);
            if (finish)
                finish(arg, to_row, w->apart ? sums : to_row, columns);
        }
    }
}

void kn_winograd_one_block(const struct kn_winograd *w, const float *src, const float *packed,
                           float *dst, int64_t block, void *scratch,
                           void (*finish)(void *arg, float *y, float *sums, int64_t pixels),
                           void *arg)
{
    const int64_t tiles = kn_winograd_block_tiles(w, block);
    float *room = scratch, *patch = room + kn_winograd_block_bytes(w) / sizeof(float);

    kn_winograd_inputs(w, src, block, 0, tiles, room, patch);
    kn_winograd_multiply(w, packed, tiles, 0, n_products(w), room);
    kn_winograd_outputs(w, dst, block, 0, tiles, room, patch, finish, arg);
}

void kn_winograd_run(const struct kn_winograd *w, const float *src, const float *packed, float *dst,
                     void *scratch,
                     void (*finish)(void *arg, float *y, float *sums, int64_t pixels), void *arg)
{
    for (int64_t i = 0; i < kn_winograd_blocks(w); i++) {
        if (w->ends && w->ends(w->ends_arg))
            return;
        kn_winograd_one_block(w, src, packed, dst, i, scratch, finish, arg);
    }
}

/* ---- how exact it is ---- */

/* One output pixel, summed directly; x: its 3x3 window, `row` floats between rows. */
KN_CLONES static void sum_window(const float *x, int64_t row, const float *filter, int64_t ci,
                                 int64_t co, float *restrict y)
{
    memset(y, 0, (size_t)co * sizeof *y);
    for (int64_t i = 0; i < 9; i++)
        for (int64_t c = 0; c < ci; c++) {
            const float v = x[i / 3 * row + i % 3 * ci + c];
            const float *restrict f = filter + (i * ci + c) * co;
            for (int64_t o = 0; o < co; o++)
                y[o] += v * f[o];
        }
}

double kn_winograd_error(const struct kn_winograd *w, const float *filter, const float *packed)
{
    const int64_t a = w->m + 2, last = w->m - 1;
    const int64_t pixel[][2] = {{0, 0}, {last / 2, last}, {last, last}};
    struct kn_winograd one = {.m = w->m,
                              .batch = 1,
                              .in_h = a,
                              .in_w = a,
                              .out_h = w->m,
                              .out_w = w->m,
                              .ci = w->ci,
                              .co = w->co};
    double most = 0, apart = 0;
    uint32_t seed = 1;

    if (!kn_winograd_solve(&one))
        return NAN;
    const size_t n_x = (size_t)(a * a * w->ci), n_y = (size_t)(w->m * w->m * w->co);
    const size_t scratch = (kn_winograd_scratch_bytes(&one) + 63) / 64 * 64;
    const size_t floats = (n_x + n_y + (size_t)w->co) * sizeof(float);
    char *room = aligned_alloc(64, scratch + (floats + 63) / 64 * 64);
    if (!room)
        return NAN;
    float *x = (void *)(room + scratch), *y = x + n_x, *right = y + n_y;
    for (size_t i = 0; i < n_x; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = (float)(int32_t)seed / (float)INT32_MAX;
    }
    kn_winograd_run(&one, x, packed, y, room, NULL, NULL);
    for (size_t k = 0; k < sizeof pixel / sizeof *pixel && !isnan(apart); k++) {
        const int64_t i = pixel[k][0], j = pixel[k][1];
        sum_window(x + (i * a + j) * w->ci, a * w->ci, filter, w->ci, w->co, right);
        for (int64_t o = 0; o < w->co; o++) {
            const double v = (double)right[o];
            const double d = fabs(v - (double)y[(i * w->m + j) * w->co + o]);
            most = fmax(most, fabs(v));
            if (!(d <= apart) && !isnan(apart)) /* a NaN stays */
                apart = d;
        }
    }
    free(room);
    return most > 0 || isnan(apart) ? apart / most : apart;
}
