#include "tests/support/test.h"

#include <math.h>

#include "kernels/conv/winograd_1d_internal.h"
#include "tests/support/draw.h"

static int64_t finished;
static void add_one(void *arg, float *y, float *sums, int64_t pixels)
{
    const struct kn_winograd_1d *l = arg;
    for (int64_t i = 0; i < pixels * l->tiles.co; i++)
        y[i] = sums[i] + 1;
    finished += pixels;
}

static double sum_at(const struct kn_winograd_1d *l, const float *x, const float *f, int64_t image,
                     int64_t y, int64_t c, int64_t o)
{
    double sum = 0;
    for (int64_t i = 0; i < l->taps; i++) {
        const int64_t row = l->vertical ? y - l->before + i : y;
        const int64_t column = l->vertical ? c : c - l->before + i;
        if (row < 0 || column < 0 || row >= l->in_h || column >= l->in_w)
            continue;
        for (int64_t k = 0; k < l->tiles.ci; k++)
            sum += (double)x[((image * l->in_h + row) * l->in_w + column) * l->tiles.ci + k] *
                   (double)f[(i * l->tiles.ci + k) * l->tiles.co + o];
    }
    return sum;
}

struct data {
    float *x, *f, *scale, *shift, *packed, *y;
};

static void run(struct kn_winograd_1d *l, const struct kn_winograd_1d_loops *loops, struct data *d,
                struct kn_winograd_1d_post_ops post_ops)
{
    l->loops = loops;
    float *scratch = draw_floats(kn_winograd_1d_scratch_bytes(l) / sizeof(float));
    float *workspace = draw_floats(l->tiles.ci * l->tiles.co);
    const int64_t panels = l->tiles.gemm.panels;
    kn_winograd_1d_pack(l, d->f, d->scale, workspace, d->packed);
    for (int64_t i = kn_winograd_tiles_blocks(&l->tiles) - 1; i >= 0; i--)
        for (int64_t from = 0, n = post_ops.then.finish ? panels : 2; from < panels; from += n)
            kn_winograd_1d_run_block(l, d->x, d->packed, d->y, i, from,
                                     from + n < panels ? from + n : panels, scratch, &post_ops);
    free(scratch);
    free(workspace);
}

static void one_shape(const struct kn_winograd_1d_loops *loops, struct kn_winograd_1d l, int way)
{
    assert_true(kn_winograd_1d_init(&l));
    const int64_t pixels = l.tiles.batch * l.tiles.out_h * l.tiles.out_w;
    struct data d = {.x = draw_floats(l.tiles.batch * l.in_h * l.in_w * l.tiles.ci),
                     .f = draw_floats(l.taps * l.tiles.ci * l.tiles.co),
                     .scale = way & 1 ? draw_floats(l.tiles.co) : NULL,
                     .shift = way & 2 ? draw_floats(l.tiles.co) : NULL,
                     .packed = draw_floats(kn_winograd_tiles_pack_bytes(&l.tiles) / sizeof(float)),
                     .y = draw_floats(pixels * l.tiles.co)};
    double most = 0, apart = 0;

    finished = 0;
    run(&l, loops, &d,
        (struct kn_winograd_1d_post_ops){.shift = d.shift,
                                         .clips = way & 4,
                                         .least = 0,
                                         .most = way & 8 ? 2 : INFINITY,
                                         .then = {.finish = way & 32 ? NULL : add_one,
                                                  .arg = &l,
                                                  .apart = !(way & 32) && way & 16}});
    const double more = way & 32 ? 0 : 1;
    assert_int_equal(finished, way & 32 ? 0 : pixels);
    for (int64_t i = 0; i < pixels * l.tiles.co; i++) {
        const int64_t p = i / l.tiles.co, o = i % l.tiles.co;
        double right = sum_at(&l, d.x, d.f, p / (l.tiles.out_h * l.tiles.out_w),
                              p / l.tiles.out_w % l.tiles.out_h, p % l.tiles.out_w, o);
        most = fmax(most, fabs(right));
        right = right * (d.scale ? (double)d.scale[o] : 1) + (d.shift ? (double)d.shift[o] : 0);
        if (way & 4)
            right = fmin(fmax(right, 0), way & 8 ? 2 : INFINITY);
        apart = fmax(apart, fabs(right + more - (double)d.y[i]));
    }
    if (!(apart <= 5e-5 * most))
        fail_msg("%d taps, down %d, %lld -> %lld channels, %lldx%lld: %g apart, the largest is %g",
                 l.taps, l.vertical, (long long)l.tiles.ci, (long long)l.tiles.co,
                 (long long)l.tiles.out_h, (long long)l.tiles.out_w, apart, most);
    free(d.x);
    free(d.f);
    free(d.scale);
    free(d.shift);
    free(d.packed);
    free(d.y);
}

static void sums_agree_with_direct_ones_on_every_instruction_set(void **state)
{
    static const struct {
        int64_t batch, across, along, ci, co;
    } c[] = {{1, 1, 7, 16, 16}, {2, 5, 17, 32, 48}, {3, 3, 8, 48, 16}, {1, 7, 30, 16, 80}};
    int way = 0;

    (void)state;
    for (int k = 0; kn_winograd_1d_loops_of(k); k++)
        for (size_t i = 0; i < sizeof c / sizeof *c; i++)
            for (int taps = 3; taps <= 7; taps += 2)
                /* If `pad` is 0, there is no padding. If it is 1, the padding is SAME. If it is 2,
                 * one side is padded. If it is 3, the padding is longer than the window. */
                for (int pad = 0; pad < 4; pad++)
                    for (int vertical = 0; vertical < 2; vertical++, way++) {
                        const int64_t before = pad == 1 ? taps / 2 : pad == 3 ? taps + 2 : 0;
                        const int64_t after = pad == 2 ? taps - 1 : before;
                        const int64_t out = c[i].along + before + after - taps + 1;
                        struct kn_winograd_1d l = {.taps = taps,
                                                   .vertical = vertical,
                                                   .in_h = vertical ? c[i].along : c[i].across,
                                                   .in_w = vertical ? c[i].across : c[i].along,
                                                   .before = before,
                                                   .tiles = {.batch = c[i].batch,
                                                             .out_h = vertical ? out : c[i].across,
                                                             .out_w = vertical ? c[i].across : out,
                                                             .ci = c[i].ci,
                                                             .co = c[i].co}};
                        one_shape(kn_winograd_1d_loops_of(k), l, way);
                    }
}

static struct kn_winograd_1d seventeen(int taps)
{
    return (struct kn_winograd_1d){
        .taps = taps,
        .in_h = 3,
        .in_w = 17,
        .before = taps / 2,
        .tiles = {.batch = 1, .out_h = 3, .out_w = 17, .ci = 64, .co = 32}};
}

static void the_error_of_a_filter_is_measured(void **state)
{
    (void)state;
    for (int taps = 3; taps <= 7; taps += 2) {
        struct kn_winograd_1d l = seventeen(taps);
        assert_true(kn_winograd_1d_init(&l));
        const size_t n = (size_t)(taps * l.tiles.ci * l.tiles.co);
        float *f = draw_floats(n), *scale = draw_floats(l.tiles.co), *workspace = draw_floats(n);
        float *packed = draw_floats(kn_winograd_tiles_pack_bytes(&l.tiles) / sizeof(float));
        kn_winograd_1d_pack(&l, f, scale, workspace, packed);
        assert_true(kn_winograd_1d_error(&l, f, scale, packed) < 3e-5);
        /* The products with the following weights cancel each other. The rounding error then
         * dominates. */
        for (size_t i = 0; i < n; i++)
            f[i] = i / (size_t)l.tiles.co % 2 ? -1000.0f : 1000.0f;
        f[3] = INFINITY;
        kn_winograd_1d_pack(&l, f, NULL, workspace, packed);
        assert_false(kn_winograd_1d_error(&l, f, NULL, packed) <= 1e-4);
        f[3] = NAN;
        kn_winograd_1d_pack(&l, f, NULL, workspace, packed);
        assert_false(kn_winograd_1d_error(&l, f, NULL, packed) <= 1e-4);
        free(f);
        free(scale);
        free(workspace);
        free(packed);
    }
}

/* A NaN in the input must reach every output whose window contains the NaN, even a clipped output.
 * The NaN must reach no output in another row of the image. */
static void nan_is_not_lost(void **state)
{
    (void)state;
    for (int k = 0; kn_winograd_1d_loops_of(k); k++)
        for (int taps = 3; taps <= 7; taps += 2) {
            struct kn_winograd_1d l = seventeen(taps);
            assert_true(kn_winograd_1d_init(&l));
            struct data d = {
                .x = draw_floats(3 * 17 * l.tiles.ci),
                .f = draw_floats(taps * l.tiles.ci * l.tiles.co),
                .packed = draw_floats(kn_winograd_tiles_pack_bytes(&l.tiles) / sizeof(float)),
                .y = draw_floats(3 * 17 * l.tiles.co)};
            d.x[(17 + 8) * l.tiles.ci + 5] = NAN;
            run(&l, kn_winograd_1d_loops_of(k), &d,
                (struct kn_winograd_1d_post_ops){.clips = true, .least = 0, .most = INFINITY});
            for (int64_t i = 0; i < 3 * 17 * l.tiles.co; i++) {
                const int64_t line = i / l.tiles.co / 17, at = i / l.tiles.co % 17;
                if (line == 1 && llabs(at - 8) <= taps / 2)
                    assert_true(isnan(d.y[i]));
                else if (line != 1)
                    assert_false(isnan(d.y[i]));
            }
            free(d.x);
            free(d.f);
            free(d.packed);
            free(d.y);
        }
}

static void other_shapes_are_refused(void **state)
{
    struct kn_winograd_1d l = seventeen(7);
    (void)state;
    assert_true(kn_winograd_1d_init(&l));
    l.tiles.ci = 40;
    assert_false(kn_winograd_1d_init(&l));
    l = seventeen(4);
    assert_false(kn_winograd_1d_init(&l));
    l = seventeen(3);
    l.tiles.batch = INT64_MAX / 2;
    assert_false(kn_winograd_1d_init(&l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_agree_with_direct_ones_on_every_instruction_set),
        cmocka_unit_test(the_error_of_a_filter_is_measured),
        cmocka_unit_test(nan_is_not_lost),
        cmocka_unit_test(other_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
