#include "kernels/conv/winograd_line.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/types.h"
#include "kernels/cpu/unroll.h"

struct kn_line_loops {
    void (*input)(int taps, const float *src, int64_t pixel, int64_t from, int64_t to, int64_t ci,
                  float *v, int64_t step);
    void (*output)(int taps, const float *p, int64_t step, int64_t co, float *y, int64_t pixel,
                   int64_t count, const struct kn_line_ends *ends);
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

#define KN_LOOPS      "kernels/conv/winograd_line_loops.h"
#define KN_LOOPS_TYPE struct kn_line_loops
#include "kernels/cpu/vector_sets.h"

bool kn_line_solve(struct kn_line *l)
{
    if ((l->taps != 3 && l->taps != 5 && l->taps != 7) || l->in_h <= 0 || l->in_w <= 0)
        return false;
    l->loops = loops_of(0);
    l->tiles.window_h = l->down ? l->taps : 1;
    l->tiles.window_w = l->down ? 1 : l->taps;
    l->tiles.tile_h = l->down ? KN_LINE_TILE : 1;
    l->tiles.tile_w = l->down ? 1 : KN_LINE_TILE;
    return kn_tiles_solve(&l->tiles);
}

/* ---- weights ---- */

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
    const int64_t n = l->tiles.ci * l->tiles.co;

    for (int64_t i = 0; i < l->tiles.places; i++) {
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
        kn_packed_gemm_pack(&l->tiles.gemm, room, l->tiles.co, false, scale,
                            dst + i * l->tiles.pack_step);
    }
}

/* ---- a block ---- */

size_t kn_line_scratch_bytes(const struct kn_line *l)
{
    return kn_tiles_room_bytes(&l->tiles) + (size_t)(KN_LINE_TILE * l->tiles.co) * sizeof(float);
}

static void inputs(const struct kn_line *l, const float *src, int64_t block, int64_t tiles,
                   float *room)
{
    const int64_t length = l->down ? l->in_h : l->in_w, image = l->in_h * l->in_w * l->tiles.ci;
    const int64_t row = l->in_w * l->tiles.ci, pixel = l->down ? row : l->tiles.ci;

    for (int64_t i = 0; i < tiles; i++) {
        const struct kn_tile t = kn_tiles_at(&l->tiles, block, i);
        const int64_t start = (l->down ? t.y : t.x) - l->before;
        const float *line = src + t.image * image + (l->down ? t.x * l->tiles.ci : t.y * row);
        l->loops->input(l->taps, line + start * pixel, pixel, start < 0 ? -start : 0,
                        length - start, l->tiles.ci, room + i * l->tiles.ci, l->tiles.in_step);
    }
}

/* Channels [from, to) of them. */
static void outputs(const struct kn_line *l, const float *p, int64_t block, int64_t tiles,
                    int64_t from, int64_t to, float *dst, float *patch,
                    const struct kn_line_ends *whole)
{
    struct kn_line_ends some = *whole;
    const struct kn_line_ends *ends = &some;
    if (some.shift)
        some.shift += from;
    const int64_t length = l->down ? l->tiles.out_h : l->tiles.out_w;
    const int64_t pixel = (l->down ? l->tiles.out_w : 1) * l->tiles.co;

    for (int64_t i = 0; i < tiles; i++) {
        const struct kn_tile t = kn_tiles_at(&l->tiles, block, i);
        const int64_t left = length - (l->down ? t.y : t.x);
        const int64_t count = left < KN_LINE_TILE ? left : KN_LINE_TILE;
        float *y = dst + ((t.image * l->tiles.out_h + t.y) * l->tiles.out_w + t.x) * l->tiles.co;
        float *sums = ends->then.apart ? patch : y;
        const int64_t step = ends->then.apart ? l->tiles.co : pixel;
        l->loops->output(l->taps, p + i * l->tiles.co + from, l->tiles.out_step, to - from,
                         sums + from, step, count, ends);
        if (ends->then.finish && l->down)
            for (int64_t k = 0; k < count; k++)
                ends->then.finish(ends->then.arg, y + k * pixel, sums + k * step, 1);
        else if (ends->then.finish)
            ends->then.finish(ends->then.arg, y, sums, count);
    }
}

void kn_line_run_block(const struct kn_line *l, const float *src, const float *packed, float *dst,
                       int64_t block, int64_t from, int64_t to, void *scratch,
                       const struct kn_line_ends *ends)
{
    const int64_t panel = l->tiles.gemm.panel,
                  end = to * panel < l->tiles.co ? to * panel : l->tiles.co;
    const int64_t tiles = kn_tiles_in_block(&l->tiles, block);
    float *room = scratch, *patch = room + kn_tiles_room_bytes(&l->tiles) / sizeof(float);

    inputs(l, src, block, tiles, room);
    kn_tiles_multiply(&l->tiles, packed, tiles, 0, l->tiles.places, from, to, room);
    outputs(l, room + l->tiles.results, block, tiles, from * panel, end, dst, patch, ends);
}

double kn_line_error(const struct kn_line *l, const float *filter, const float *scale,
                     const float *packed)
{
    struct kn_line one = {
        .taps = l->taps,
        .in_h = 1,
        .in_w = l->taps + KN_LINE_TILE - 1,
        .tiles = {
            .batch = 1, .out_h = 1, .out_w = KN_LINE_TILE, .ci = l->tiles.ci, .co = l->tiles.co}};
    const struct kn_line_ends none = {.shift = NULL};
    struct kn_tiles_trial t;

    if (!kn_line_solve(&one) || !kn_tiles_begin(&t, &one.tiles, kn_line_scratch_bytes(&one)))
        return NAN;
    kn_line_run_block(&one, t.x, packed, t.y, 0, 0, one.tiles.gemm.panels, t.scratch, &none);
    return kn_tiles_end(&t, filter, scale);
}
