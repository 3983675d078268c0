#include "kernels/cpu/winograd_line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/types.h"
#include "kernels/cpu/unroll.h"

struct kn_line_loops {
    void (*input)(int taps, const float *src, int64_t pixel, int64_t from, int64_t to, int64_t ci,
                  float *v, int64_t step);
    void (*output)(int taps, const float *p, int64_t step, int64_t co, float *y, int64_t pixel,
                   int64_t count, const struct kn_line_ends *ends);
};

enum {
    LINE = 16,       /* floats in a cache line */
    LEAST_TILES = 32 /* in a block: transformed weights are read once per block */
};

/*
 * The points z are 0, then pairs z and -z. In powers of x squared: the product of (x^2 - z^2) over
 * all pairs, and over all but one of them.
 */
static const float point[4] = {1, 2, 0.5f, 0.75f};
static const struct points {
    float all[5], but[4][4];
} points[3] = {
    {{4, -5, 1}, {{-4, 1}, {-1, 1}}},
    {{-1, 5.25f, -5.25f, 1}, {{1, -4.25f, 1}, {0.25f, -1.25f, 1}, {4, -5, 1}}},
    {{0.5625f, -3.953125f, 8.203125f, -5.8125f, 1},
     {{-0.5625f, 3.390625f, -4.8125f, 1},
      {-0.140625f, 0.953125f, -1.8125f, 1},
      {-2.25f, 6.8125f, -5.5625f, 1},
      {-1, 5.25f, -5.25f, 1}}},
};

#define KN_LOOPS      "kernels/cpu/winograd_line_loops.h"
#define KN_LOOPS_TYPE struct kn_line_loops
#include "kernels/cpu/vector_sets.h"

static int64_t n_products(const struct kn_line *l)
{
    return l->taps + KN_LINE_TILE - 1;
}

/* Floats from one product's matrix to the next: a line more than it holds, so that the matrices
 * do not all fall on the same sets of the cache. */
static int64_t step_of(const struct kn_line *l, int64_t channels)
{
    return l->block * channels + LINE;
}

bool kn_line_solve(struct kn_line *l)
{
    int64_t tiles, ignored;

    if ((l->taps != 3 && l->taps != 5 && l->taps != 7) || l->ci % LINE || l->co % LINE ||
        l->ci <= 0 || l->co <= 0 || l->ci > INT32_MAX || l->co > INT32_MAX || l->in_h <= 0 ||
        l->in_w <= 0 || l->out_h <= 0 || l->out_w <= 0 || l->batch <= 0)
        return false;
    l->product = (struct kn_product){.k = l->ci, .n = l->co};
    l->lines = l->down ? l->out_w : l->out_h;
    l->tiles = ((l->down ? l->out_h : l->out_w) - 1) / KN_LINE_TILE + 1;
    if (__builtin_mul_overflow(l->lines, l->tiles, &tiles) ||
        __builtin_mul_overflow(tiles, l->batch, &tiles) || !kn_product_solve(&l->product))
        return false;
    /* The weights of a product are as many bytes as twice this many of its rows in and out. */
    int64_t block = l->ci * l->co / (l->ci + l->co) / 2;
    if (block < LEAST_TILES)
        block = LEAST_TILES;
    const int64_t blocks = (tiles - 1) / block + 1;
    l->block = (tiles - 1) / blocks + 1;
    if (__builtin_mul_overflow(l->block + 1, n_products(l) * (l->ci + l->co) * 8, &ignored))
        return false;
    l->loops = loops_of(0);
    return true;
}

/* ---- weights ---- */

static size_t matrix_bytes(const struct kn_line *l)
{
    return (kn_product_pack_bytes(&l->product) + 63) / 64 * 64;
}

size_t kn_line_pack_bytes(const struct kn_line *l)
{
    return (size_t)n_products(l) * matrix_bytes(l);
}

/* What each of the taps counts in the weights of product i; in double, as their rounding would be
 * in every output. */
static void factors(int taps, int64_t i, double *f)
{
    const int pairs = (taps + 1) / 2;
    const struct points *t = &points[pairs - 2];
    const bool is_last = i == 2 * pairs + 1; /* infinity */
    const double z = i && !is_last ? (double)point[(i - 1) / 2] : 0;
    double by = 0, power = 1;

    for (int k = 0; k < taps && is_last; k++)
        f[k] = k == taps - 1;
    if (is_last)
        return;
    for (int k = pairs; k >= 0 && !i; k--)
        by = by * z * z + (double)t->all[k];
    for (int k = pairs - 1; k >= 0 && i; k--)
        by = by * z * z + (double)t->but[(i - 1) / 2][k];
    by = i ? 2 * z * z * by : by;
    for (int k = 0; k < taps; k++) {
        f[k] = power / by;
        power *= i && i % 2 == 0 ? -z : z;
    }
}

KN_CLONES static void add_scaled(double *restrict sum, const float *restrict x, double f, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += f * (double)x[i];
}

void kn_line_pack(const struct kn_line *l, const float *filter, const float *scale, float *room,
                  float *dst)
{
    enum { SOME = 256 };
    const int64_t n = l->ci * l->co;

    for (int64_t i = 0; i < n_products(l); i++) {
        double f[7], sum[SOME];
        factors(l->taps, i, f);
        for (int64_t at = 0; at < n; at += SOME) {
            const int64_t some = n - at < SOME ? n - at : SOME;
            memset(sum, 0, sizeof sum);
            for (int k = 0; k < l->taps; k++)
                add_scaled(sum, filter + k * n + at, f[k], some);
            for (int64_t j = 0; j < some; j++)
                room[at + j] = (float)sum[j];
        }
        kn_product_pack(&l->product, room, l->co, false, scale,
                        dst + (size_t)i * matrix_bytes(l) / sizeof *dst);
    }
}

/* ---- a block ---- */

struct tile {
    int64_t image, line, at; /* of its first output, along the line */
};

static struct tile tile_at(const struct kn_line *l, int64_t i)
{
    const int64_t per_image = l->lines * l->tiles, k = i % per_image;
    if (l->down) /* neighbours in memory follow each other */
        return (struct tile){i / per_image, k % l->lines, k / l->lines * KN_LINE_TILE};
    return (struct tile){i / per_image, k / l->tiles, k % l->tiles * KN_LINE_TILE};
}

int64_t kn_line_blocks(const struct kn_line *l)
{
    return (l->batch * l->lines * l->tiles - 1) / l->block + 1;
}

size_t kn_line_scratch_bytes(const struct kn_line *l)
{
    const int64_t tiles = n_products(l) * (step_of(l, l->ci) + step_of(l, l->co));
    return (size_t)(tiles + KN_LINE_TILE * l->co) * sizeof(float);
}

static void inputs(const struct kn_line *l, const float *src, int64_t first, int64_t tiles,
                   float *v)
{
    const int64_t length = l->down ? l->in_h : l->in_w, across = l->down ? 1 : l->in_w;
    const int64_t pixel = (l->down ? l->in_w : 1) * l->ci;

    for (int64_t i = 0; i < tiles; i++) {
        const struct tile t = tile_at(l, first + i);
        const int64_t start = t.at - l->before;
        l->loops->input(
            l->taps, src + (t.image * l->in_h * l->in_w + t.line * across) * l->ci + start * pixel,
            pixel, start < 0 ? -start : 0, length - start, l->ci, v + i * l->ci, step_of(l, l->ci));
    }
}

static void outputs(const struct kn_line *l, const float *p, int64_t first, int64_t tiles,
                    float *dst, float *patch, const struct kn_line_ends *ends)
{
    const int64_t length = l->down ? l->out_h : l->out_w, across = l->down ? 1 : l->out_w;
    const int64_t pixel = (l->down ? l->out_w : 1) * l->co;

    for (int64_t i = 0; i < tiles; i++) {
        const struct tile t = tile_at(l, first + i);
        const int64_t left = length - t.at, count = left < KN_LINE_TILE ? left : KN_LINE_TILE;
        float *y = dst + (t.image * l->out_h * l->out_w + t.line * across) * l->co + t.at * pixel;
        float *sums = ends->apart ? patch : y;
        const int64_t step = ends->apart ? l->co : pixel;
        l->loops->output(l->taps, p + i * l->co, step_of(l, l->co), l->co, sums, step, count, ends);
        if (ends->finish && l->down)
            for (int64_t k = 0; k < count; k++)
                ends->finish(ends->arg, y + k * pixel, sums + k * step, 1);
        else if (ends->finish)
            ends->finish(ends->arg, y, sums, count);
    }
}

void kn_line_run_block(const struct kn_line *l, const float *src, const float *packed, float *dst,
                       int64_t block, void *scratch, const struct kn_line_ends *ends)
{
    const int64_t first = block * l->block, left = l->batch * l->lines * l->tiles - first;
    const int64_t tiles = left < l->block ? left : l->block;
    float *v = scratch, *p = v + n_products(l) * step_of(l, l->ci);

    inputs(l, src, first, tiles, v);
    for (int64_t k = 0; k < n_products(l); k++) {
        struct kn_product_part part =
            kn_product_whole(&l->product, packed + (size_t)k * matrix_bytes(l) / sizeof *packed,
                             v + k * step_of(l, l->ci), p + k * step_of(l, l->co), tiles);
        if (k + 1 < n_products(l))
            part.next = part.packed + matrix_bytes(l) / sizeof *packed;
        kn_product_run(&l->product, &part, NULL);
    }
    outputs(l, p, first, tiles, dst, p + n_products(l) * step_of(l, l->co), ends);
}

/* ---- how exact it is ---- */

/* One output, summed directly. */
KN_CLONES static void sum_window(const float *x, const float *filter, int64_t n, int64_t co,
                                 float *restrict y)
{
    memset(y, 0, (size_t)co * sizeof *y);
    for (int64_t i = 0; i < n; i++)
        for (int64_t o = 0; o < co; o++)
            y[o] += x[i] * filter[i * co + o];
}

double kn_line_error(const struct kn_line *l, const float *filter, const float *scale,
                     const float *packed)
{
    struct kn_line one = {.taps = l->taps,
                          .batch = 1,
                          .in_h = 1,
                          .in_w = n_products(l),
                          .out_h = 1,
                          .out_w = KN_LINE_TILE,
                          .ci = l->ci,
                          .co = l->co};
    const struct kn_line_ends none = {.shift = NULL};
    double most = 0, apart = 0;
    uint32_t seed = 1;

    if (!kn_line_solve(&one))
        return NAN;
    const size_t n_x = (size_t)(one.in_w * l->ci), n_y = (size_t)(KN_LINE_TILE * l->co);
    const size_t scratch = (kn_line_scratch_bytes(&one) + 63) / 64 * 64;
    const size_t floats = (n_x + n_y + (size_t)l->co) * sizeof(float);
    char *room = aligned_alloc(64, scratch + (floats + 63) / 64 * 64);
    if (!room)
        return NAN;
    float *x = (void *)(room + scratch), *y = x + n_x, *right = y + n_y;
    for (size_t i = 0; i < n_x; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = (float)(int32_t)seed / (float)INT32_MAX;
    }
    kn_line_run_block(&one, x, packed, y, 0, room, &none);
    for (int64_t k = 0; k < KN_LINE_TILE && !isnan(apart); k += KN_LINE_TILE - 1) {
        sum_window(x + k * l->ci, filter, l->taps * l->ci, l->co, right);
        for (int64_t o = 0; o < l->co; o++) {
            const double v = (double)right[o] * (scale ? (double)scale[o] : 1);
            const double d = fabs(v - (double)y[k * l->co + o]);
            most = fmax(most, fabs(v));
            if (!(d <= apart) && !isnan(apart)) /* a NaN stays */
                apart = d;
        }
    }
    free(room);
    return most > 0 || isnan(apart) ? apart / most : apart;
}
