#include "kernels/conv/winograd_1d_internal.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/types.h"
#include "kernels/cpu/unroll.h"

/*
 * The interpolation points are 0, pairs z and -z, and infinity. The tables hold the coefficients of
 * polynomials in x^2. `all` is the product of (x^2 - z^2) over all pairs, and but[i] is the product
 * over all pairs except pair i.
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

#define KN_LOOPS      "kernels/conv/winograd_1d_loops.h"
#define KN_LOOPS_TYPE struct kn_winograd_1d_loops
#define KN_LOOPS_OF   kn_winograd_1d_loops_of
#include "kernels/cpu/vector_sets.h"

bool kn_winograd_1d_init(struct kn_winograd_1d *l)
{
    if ((l->taps != 3 && l->taps != 5 && l->taps != 7) || l->in_h <= 0 || l->in_w <= 0)
        return false;
    l->loops = loops_of(0);
    l->tiles.window_h = l->vertical ? l->taps : 1;
    l->tiles.window_w = l->vertical ? 1 : l->taps;
    l->tiles.tile_h = l->vertical ? KN_WINOGRAD_1D_TILE : 1;
    l->tiles.tile_w = l->vertical ? 1 : KN_WINOGRAD_1D_TILE;
    return kn_winograd_tiles_init(&l->tiles);
}

/* ---- weights ---- */

/* Computes the factor of each tap in the transformed weights of position i, in double precision,
 * because the rounding of weights affects every output. */
static void factors(int taps, int64_t i, double *f)
{
    const int pairs = (taps + 1) / 2;
    const struct points *t = &points[pairs - 2];
    const bool is_last = i == 2 * pairs + 1; /* whether position i is the point at infinity */
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

void kn_winograd_1d_pack(const struct kn_winograd_1d *l, const float *filter, const float *scale,
                         float *workspace, float *dst)
{
    enum { SOME = 256 };
    const int64_t n = l->tiles.ci * l->tiles.co;

    for (int64_t i = 0; i < l->tiles.domain_size; i++) {
        double f[7], sum[SOME];
        factors(l->taps, i, f);
        for (int64_t at = 0; at < n; at += SOME) {
            const int64_t some = n - at < SOME ? n - at : SOME;
            memset(sum, 0, sizeof sum);
            for (int k = 0; k < l->taps; k++)
                add_scaled(sum, filter + k * n + at, f[k], some);
            for (int64_t j = 0; j < some; j++)
                workspace[at + j] = (float)sum[j];
        }
        kn_packed_gemm_pack(&l->tiles.gemm, workspace, l->tiles.co, false, scale,
                            dst + i * l->tiles.pack_step);
    }
}

/* ---- a block of tiles ---- */

size_t kn_winograd_1d_scratch_bytes(const struct kn_winograd_1d *l)
{
    return kn_winograd_tiles_workspace_bytes(&l->tiles) +
           (size_t)(KN_WINOGRAD_1D_TILE * l->tiles.co) * sizeof(float);
}

static void winograd_1d_inputs(const struct kn_winograd_1d *l, const float *src, int64_t block,
                               int64_t tiles, float *workspace)
{
    const int64_t length = l->vertical ? l->in_h : l->in_w, image = l->in_h * l->in_w * l->tiles.ci;
    const int64_t row = l->in_w * l->tiles.ci, pixel = l->vertical ? row : l->tiles.ci;

    for (int64_t i = 0; i < tiles; i++) {
        const struct kn_winograd_tile t = kn_winograd_tiles_at(&l->tiles, block, i);
        const int64_t start = (l->vertical ? t.y : t.x) - l->before;
        const float *row_or_column =
            src + t.image * image + (l->vertical ? t.x * l->tiles.ci : t.y * row);
        l->loops->input(l->taps, row_or_column + start * pixel, pixel, start < 0 ? -start : 0,
                        length - start, l->tiles.ci, workspace + i * l->tiles.ci, l->tiles.in_step);
    }
}

/* Applies the output transform to channels [from, to) of a block. */
static void winograd_1d_outputs(const struct kn_winograd_1d *l, const float *p, int64_t block,
                                int64_t tiles, int64_t from, int64_t to, float *dst, float *patch,
                                const struct kn_winograd_1d_post_ops *whole)
{
    struct kn_winograd_1d_post_ops some = *whole;
    const struct kn_winograd_1d_post_ops *post_ops = &some;
    if (some.shift)
        some.shift += from;
    const int64_t length = l->vertical ? l->tiles.out_h : l->tiles.out_w;
    const int64_t pixel = (l->vertical ? l->tiles.out_w : 1) * l->tiles.co;

    for (int64_t i = 0; i < tiles; i++) {
        const struct kn_winograd_tile t = kn_winograd_tiles_at(&l->tiles, block, i);
        const int64_t left = length - (l->vertical ? t.y : t.x);
        const int64_t count = left < KN_WINOGRAD_1D_TILE ? left : KN_WINOGRAD_1D_TILE;
        float *y = dst + ((t.image * l->tiles.out_h + t.y) * l->tiles.out_w + t.x) * l->tiles.co;
        float *sums = post_ops->then.apart ? patch : y;
        const int64_t step = post_ops->then.apart ? l->tiles.co : pixel;
        l->loops->output(l->taps, p + i * l->tiles.co + from, l->tiles.out_step, to - from,
                         sums + from, step, count, post_ops);
        if (post_ops->then.finish && l->vertical)
            for (int64_t k = 0; k < count; k++)
                post_ops->then.finish(post_ops->then.arg, y + k * pixel, sums + k * step, 1);
        else if (post_ops->then.finish)
            post_ops->then.finish(post_ops->then.arg, y, sums, count);
    }
}

void kn_winograd_1d_run_block(const struct kn_winograd_1d *l, const float *src, const float *packed,
                              float *dst, int64_t block, int64_t from, int64_t to, void *scratch,
                              const struct kn_winograd_1d_post_ops *post_ops)
{
    const int64_t panel = l->tiles.gemm.panel,
                  end = to * panel < l->tiles.co ? to * panel : l->tiles.co;
    const int64_t tiles = kn_winograd_tiles_in_block(&l->tiles, block);
    float *workspace = scratch,
          *patch = workspace + kn_winograd_tiles_workspace_bytes(&l->tiles) / sizeof(float);

    winograd_1d_inputs(l, src, block, tiles, workspace);
    kn_winograd_tiles_gemm(&l->tiles, packed, tiles, 0, l->tiles.domain_size, from, to, workspace);
    winograd_1d_outputs(l, workspace + l->tiles.results, block, tiles, from * panel, end, dst,
                        patch, post_ops);
}

double kn_winograd_1d_error(const struct kn_winograd_1d *l, const float *filter, const float *scale,
                            const float *packed)
{
    struct kn_winograd_1d one = {.taps = l->taps,
                                 .in_h = 1,
                                 .in_w = l->taps + KN_WINOGRAD_1D_TILE - 1,
                                 .tiles = {.batch = 1,
                                           .out_h = 1,
                                           .out_w = KN_WINOGRAD_1D_TILE,
                                           .ci = l->tiles.ci,
                                           .co = l->tiles.co}};
    const struct kn_winograd_1d_post_ops none = {.shift = NULL};
    struct kn_winograd_check t;

    if (!kn_winograd_1d_init(&one) ||
        !kn_winograd_check_begin(&t, &one.tiles, kn_winograd_1d_scratch_bytes(&one)))
        return NAN;
    kn_winograd_1d_run_block(&one, t.x, packed, t.y, 0, 0, one.tiles.gemm.panels, t.scratch, &none);
    return kn_winograd_check_end(&t, filter, scale);
}
