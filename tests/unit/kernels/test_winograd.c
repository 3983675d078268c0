#include "tests/support/test.h"

#include <math.h>

#include "kernels/conv/winograd_internal.h"
#include "tests/support/draw.h"

static int64_t finished;
static bool apart;
static void add_one(void *arg, float *y, float *sums, int64_t pixels)
{
    const struct kn_winograd *w = arg;
    assert_true(apart == (y != sums));
    for (int64_t i = 0; i < pixels * w->tiles.co; i++)
        y[i] = sums[i] + 1;
    finished += pixels;
}

static void run(const struct kn_winograd *w, const float *x, const float *packed, float *y,
                const struct kn_winograd_post_ops *post_ops)
{
    float *scratch = draw_floats(kn_winograd_scratch_bytes(w) / sizeof(float));
    for (int64_t i = kn_winograd_tiles_blocks(&w->tiles) - 1; i >= 0; i--)
        kn_winograd_run_block(w, x, packed, y, i, scratch, post_ops);
    free(scratch);
}

static double sum_at(const struct kn_winograd *w, const float *x, const float *f, int64_t image,
                     int64_t y0, int64_t x0, int64_t o)
{
    double sum = 0;
    for (int64_t i = 0; i < 9; i++) {
        const int64_t y = y0 - w->top + i / 3, c = x0 - w->left + i % 3;
        if (y < 0 || c < 0 || y >= w->in_h || c >= w->in_w)
            continue;
        for (int64_t k = 0; k < w->tiles.ci; k++)
            sum += (double)x[((image * w->in_h + y) * w->in_w + c) * w->tiles.ci + k] *
                   (double)f[(i * w->tiles.ci + k) * w->tiles.co + o];
    }
    return sum;
}

static void one_shape(const struct kn_winograd_loops *loops, struct kn_winograd w, double tolerance)
{
    assert_true(kn_winograd_init(&w));
    w.loops = loops;
    const int64_t pixels = w.tiles.batch * w.tiles.out_h * w.tiles.out_w;
    float *x = draw_floats(w.tiles.batch * w.in_h * w.in_w * w.tiles.ci);
    float *f = draw_floats(9 * w.tiles.ci * w.tiles.co);
    float *packed = draw_floats(kn_winograd_tiles_pack_bytes(&w.tiles) / sizeof(float));
    float *y = draw_floats(pixels * w.tiles.co);
    double most = 0, off = 0;

    kn_winograd_pack(&w, f, packed);
    finished = 0;
    run(&w, x, packed, y, &(struct kn_winograd_post_ops){add_one, &w, apart});
    assert_int_equal(finished, pixels);
    for (int64_t i = 0; i < pixels * w.tiles.co; i += 1 + w.tiles.co / 7) {
        const int64_t p = i / w.tiles.co;
        const double right =
            sum_at(&w, x, f, p / (w.tiles.out_h * w.tiles.out_w), p / w.tiles.out_w % w.tiles.out_h,
                   p % w.tiles.out_w, i % w.tiles.co);
        most = fmax(most, fabs(right));
        off = fmax(off, fabs(right + 1 - (double)y[i]));
    }
    if (!(off <= tolerance * most))
        fail_msg("m %d, %lld -> %lld channels, %lldx%lld: %g apart, the largest is %g", w.m,
                 (long long)w.tiles.ci, (long long)w.tiles.co, (long long)w.tiles.out_h,
                 (long long)w.tiles.out_w, off, most);
    free(x);
    free(f);
    free(packed);
    free(y);
}

static void all_shapes(const struct kn_winograd_loops *loops)
{
    static const struct {
        int64_t batch, h, w, ci, co;
    } c[] = {{1, 6, 7, 16, 16},
             {2, 13, 9, 32, 48},
             {3, 1, 1, 16, 80},
             {1, 23, 4, 48, 64},
             {1, 30, 31, 16, 112}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int m = 2; m <= 4; m += 2)
            /* If `pad` is 0, there is no padding. If it is 1, the padding is SAME. If it is 2, the
             * padding is wider than SAME. */
            for (int pad = 0; pad < 3; pad++) {
                if (c[i].h + 2 * pad < 3 || c[i].w + 2 * pad < 3)
                    continue;
                apart = i % 2;
                one_shape(loops,
                          (struct kn_winograd){.m = m,
                                               .in_h = c[i].h,
                                               .in_w = c[i].w,
                                               .top = pad,
                                               .left = pad,
                                               .tiles = {.batch = c[i].batch,
                                                         .out_h = c[i].h + 2 * pad - 2,
                                                         .out_w = c[i].w + 2 * pad - 2,
                                                         .ci = c[i].ci,
                                                         .co = c[i].co}},
                          m == 2 ? 5e-6 : 5e-5);
            }
}

static void sums_agree_with_direct_ones_on_every_instruction_set(void **state)
{
    (void)state;
    for (int which = 0; kn_winograd_loops_of(which); which++)
        all_shapes(kn_winograd_loops_of(which));
}

/* With explicit padding, an image without rows or columns has outputs, although its tensor is
 * empty. */
static void an_image_without_rows_is_padding_only(void **state)
{
    (void)state;
    for (int m = 2; m <= 4; m += 2)
        for (int wide = 0; wide < 2; wide++) {
            struct kn_winograd w = {
                .m = m,
                .in_h = wide ? 0 : 8,
                .in_w = wide ? 8 : 0,
                .top = wide ? 5 : 1,
                .left = wide ? 1 : 5,
                .tiles = {.batch = 2, .out_h = 8, .out_w = 8, .ci = 16, .co = 16}};
            assert_true(kn_winograd_init(&w));
            const size_t n = 2 * 8 * 8 * 16;
            float *f = draw_floats(9 * 16 * 16), *y = draw_floats(n);
            float *packed = draw_floats(kn_winograd_tiles_pack_bytes(&w.tiles) / sizeof(float));
            kn_winograd_pack(&w, f, packed);
            run(&w, NULL, packed, y, &(struct kn_winograd_post_ops){add_one, &w, apart});
            for (size_t i = 0; i < n; i++)
                assert_true(y[i] == 1);
            free(f);
            free(y);
            free(packed);
        }
}

static void an_image_has_the_same_answer_in_any_batch(void **state)
{
    (void)state;
    struct kn_winograd w = {.m = 4,
                            .in_h = 20,
                            .in_w = 20,
                            .top = 1,
                            .left = 1,
                            .tiles = {.batch = 5, .out_h = 20, .out_w = 20, .ci = 32, .co = 32}};
    struct kn_winograd one = w;
    const struct kn_winograd_post_ops none = {.finish = NULL};
    one.tiles.batch = 1;
    assert_true(kn_winograd_init(&w) && kn_winograd_init(&one));
    assert_int_equal(kn_winograd_tiles_pack_bytes(&w.tiles),
                     kn_winograd_tiles_pack_bytes(&one.tiles));
    const size_t image = 20 * 20 * 32;
    float *x = draw_floats(5 * image), *y = draw_floats(5 * image), *alone = draw_floats(image);
    float *f = draw_floats(9 * 32 * 32),
          *packed = draw_floats(kn_winograd_tiles_pack_bytes(&w.tiles) / sizeof(float));
    kn_winograd_pack(&w, f, packed);
    run(&w, x, packed, y, &none);
    for (size_t i = 0; i < 5; i++) {
        run(&one, x + i * image, packed, alone, &none);
        assert_memory_equal(alone, y + i * image, image * sizeof *y);
    }
    free(x);
    free(y);
    free(alone);
    free(f);
    free(packed);
}

static void other_channels_and_endless_sizes_are_refused(void **state)
{
    (void)state;
    struct kn_winograd w = {.m = 4,
                            .tiles = {.batch = 1, .out_h = 8, .out_w = 8, .ci = 24, .co = 32}};
    assert_false(kn_winograd_init(&w));
    w.tiles.ci = 32;
    w.tiles.co = 0;
    assert_false(kn_winograd_init(&w));
    w.tiles.co = 32;
    w.tiles.batch = INT64_MAX / 2;
    assert_false(kn_winograd_init(&w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_agree_with_direct_ones_on_every_instruction_set),
        cmocka_unit_test(an_image_without_rows_is_padding_only),
        cmocka_unit_test(an_image_has_the_same_answer_in_any_batch),
        cmocka_unit_test(other_channels_and_endless_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
