#include "kernels/conv/winograd_internal.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/types.h"

#define KN_LOOPS      "kernels/conv/winograd_loops.h"
#define KN_LOOPS_TYPE struct kn_winograd_loops
#define KN_LOOPS_OF   kn_winograd_loops_of
#include "kernels/cpu/vector_sets.h"

bool kn_winograd_init(struct kn_winograd *w)
{
    w->loops = loops_of(0);
    w->tiles.window_h = w->tiles.window_w = 3;
    w->tiles.tile_h = w->tiles.tile_w = w->m;
    return kn_winograd_tiles_init(&w->tiles);
}

/* number of filters that are transformed together; panel widths are multiples of this number */
enum { PACKED = 8 };

/*
 * Computes the weight transform `G g G'` of PACKED adjacent 3x3 filters, in double precision,
 * because the rounding of weights affects every output. `tap` is the distance in floats between
 * neighbouring taps, and `matrix` the distance in floats between neighbouring positions of the
 * transform domain.
 */
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
    const int64_t panel = w->tiles.gemm.panel, ci = w->tiles.ci, co = w->tiles.co;
    const int64_t matrix = w->tiles.pack_step;

    if (matrix != ci * co)
        memset(dst, 0, kn_winograd_tiles_pack_bytes(&w->tiles));
    for (int64_t first = 0; first < co; first += panel)
        for (int64_t c = 0; c < ci; c++)
            for (int64_t o = first; o < first + panel && o < co; o += PACKED)
                pack_some(w->m, filter + c * co + o, ci * co,
                          dst + kn_packed_gemm_offset(&w->tiles.gemm, c, o), matrix);
}

size_t kn_winograd_patch_bytes(const struct kn_winograd *w)
{
    return (size_t)(w->tiles.domain_size *
                    (w->tiles.ci > w->tiles.co ? w->tiles.ci : w->tiles.co)) *
           sizeof(float);
}

size_t kn_winograd_scratch_bytes(const struct kn_winograd *w)
{
    return kn_winograd_tiles_workspace_bytes(&w->tiles) + kn_winograd_patch_bytes(w);
}

/* Returns the inputs of a tile, either in place or, if the tile extends beyond the image, copied to
 * `patch` with zeros around them. */
static const float *inputs_of(const struct kn_winograd *w, const float *src,
                              struct kn_winograd_tile t, float *patch, int64_t *row)
{
    const int64_t a = w->m + 2, ci = w->tiles.ci, y = t.y - w->top, x = t.x - w->left;

    if (w->in_h * w->in_w == 0) { /* src is empty, so all inputs are padding */
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
                        int64_t to, float *workspace, float *patch)
{
    for (int64_t i = from; i < to; i++) {
        int64_t row;
        const float *x = inputs_of(w, src, kn_winograd_tiles_at(&w->tiles, block, i), patch, &row);
        w->loops->input(w->m, x, row, w->tiles.ci, workspace + i * w->tiles.ci, w->tiles.in_step);
    }
}

void kn_winograd_outputs(const struct kn_winograd *w, float *dst, int64_t block, int64_t from,
                         int64_t to, const float *workspace, float *patch,
                         const struct kn_winograd_post_ops *post_ops)
{
    const int64_t m = w->m, co = w->tiles.co;
    const float *p = workspace + w->tiles.results;

    for (int64_t i = from; i < to; i++) {
        const struct kn_winograd_tile t = kn_winograd_tiles_at(&w->tiles, block, i);
        const int64_t rows = w->tiles.out_h - t.y < m ? w->tiles.out_h - t.y : m;
        const int64_t columns = w->tiles.out_w - t.x < m ? w->tiles.out_w - t.x : m;
        float *y = dst + ((t.image * w->tiles.out_h + t.y) * w->tiles.out_w + t.x) * co;
        const bool direct = rows == m && columns == m && !post_ops->apart;
        w->loops->output(w->m, p + i * co, w->tiles.out_step, co, direct ? y : patch,
                         direct ? w->tiles.out_w * co : m * co);
        for (int64_t j = 0; j < rows; j++) {
            float *to_row = y + j * w->tiles.out_w * co, *sums = patch + j * m * co;
            if (!direct && !post_ops->apart)
                memcpy(to_row, sums, (size_t)(columns * co) * sizeof *to_row);
            if (post_ops->finish)
                post_ops->finish(post_ops->arg, to_row, post_ops->apart ? sums : to_row, columns);
        }
    }
}

void kn_winograd_run_block(const struct kn_winograd *w, const float *src, const float *packed,
                           float *dst, int64_t block, void *scratch,
                           const struct kn_winograd_post_ops *post_ops)
{
    const int64_t tiles = kn_winograd_tiles_in_block(&w->tiles, block);
    float *workspace = scratch,
          *patch = workspace + kn_winograd_tiles_workspace_bytes(&w->tiles) / sizeof(float);

    kn_winograd_inputs(w, src, block, 0, tiles, workspace, patch);
    kn_winograd_tiles_gemm(&w->tiles, packed, tiles, 0, w->tiles.domain_size, 0,
                           w->tiles.gemm.panels, workspace);
    kn_winograd_outputs(w, dst, block, 0, tiles, workspace, patch, post_ops);
}

double kn_winograd_error(const struct kn_winograd *w, const float *filter, const float *packed)
{
    const int64_t m = w->m;
    struct kn_winograd one = {
        .m = w->m,
        .in_h = m + 2,
        .in_w = m + 2,
        .tiles = {.batch = 1, .out_h = m, .out_w = m, .ci = w->tiles.ci, .co = w->tiles.co}};
    const struct kn_winograd_post_ops none = {.finish = NULL};
    struct kn_winograd_check t;

    if (!kn_winograd_init(&one) ||
        !kn_winograd_check_begin(&t, &one.tiles, kn_winograd_scratch_bytes(&one)))
        return NAN;
    kn_winograd_run_block(&one, t.x, packed, t.y, 0, t.scratch, &none);
    return kn_winograd_check_end(&t, filter, NULL);
}
