/*
 * Tests that images are resized in chunks (kernels/image/resize.c). Pixels with millions of
 * channels, and windows as large as the image, must give the same outputs as pixels and windows of
 * common sizes. A run must end soon after its deadline.
 */
#include "tests/support/test.h"

#include "tests/support/cpu_time.h"
#include "tests/support/op.h"

enum { FEW = 7, MANY = (1 << 22) + 5, WIDE = 700001 };

static const char *const ops[] = {"ResizeNearestNeighbor", "ResizeBilinear", "ResizeBicubic",
                                  "ResizeArea"};
enum { N_OPS = sizeof ops / sizeof *ops };

/* Returns an image in which channel c of each pixel equals channel c % FEW of the same pixel. */
static struct rt_tensor picture(int64_t h, int64_t w, int64_t channels)
{
    struct rt_tensor t = op_tensor(RT_F32, 4, (int64_t[]){1, h, w, channels}, NULL);
    for (int64_t i = 0; i < h * w; i++)
        for (int64_t c = 0; c < channels; c++)
            ((float *)t.data)[i * channels + c] = (float)((i * FEW + c % FEW) * 7919 % 257) / 3;
    return t;
}

static void resize(struct op_call *c, const char *op, struct rt_tensor in, int32_t h, int32_t w)
{
    *c = (struct op_call){.op = op, .attrs = "T=float", .n_in = 2, .n_out = 1};
    c->in[0] = in;
    c->in[1] = op_ints(2, (int32_t[]){h, w});
}

static void channels_in_chunks_are_those_of_a_small_pixel(void **state)
{
    (void)state;
    for (int k = 0; k < N_OPS; k++)
        for (int same = 0; same < 2; same++) {
            struct op_call few, many;
            resize(&few, ops[k], picture(2, 2, FEW), same ? 2 : 3, 2);
            resize(&many, ops[k], picture(2, 2, MANY), same ? 2 : 3, 2);
            assert_ok(op_run(&few), &few.err);
            assert_ok(op_run(&many), &many.err);
            const float *a = few.out[0].data, *b = many.out[0].data;
            for (int64_t i = 0; i < (same ? 4 : 6); i++)
                for (int64_t c = 0; c < MANY; c++)
                    if (a[i * FEW + c % FEW] != b[i * MANY + c])
                        fail_msg("%s: pixel %lld, channel %lld", ops[k], (long long)i,
                                 (long long)c);
            op_clear(&few);
            op_clear(&many);
        }
}

/* All columns of the wide image are copies of one column, so every output column must be the output
 * of that column alone. */
static void columns_in_chunks_are_those_of_a_narrow_picture(void **state)
{
    (void)state;
    for (int k = 0; k < N_OPS; k++) {
        struct op_call narrow, wide;
        struct rt_tensor one = picture(3, 1, 2),
                         all = op_tensor(RT_F32, 4, (int64_t[]){1, 3, WIDE, 2}, NULL);
        for (int64_t i = 0; i < (int64_t)3 * WIDE * 2; i++)
            ((float *)all.data)[i] = ((float *)one.data)[i / (2 * WIDE) * 2 + i % 2];
        resize(&narrow, ops[k], one, 2, 1);
        resize(&wide, ops[k], all, 2, WIDE);
        assert_ok(op_run(&narrow), &narrow.err);
        assert_ok(op_run(&wide), &wide.err);
        for (int64_t i = 0; i < (int64_t)2 * WIDE * 2; i++) {
            const float want = ((float *)narrow.out[0].data)[i / (2 * WIDE) * 2 + i % 2];
            assert_float_equal(((float *)wide.out[0].data)[i], want, 1e-4);
        }
        op_clear(&narrow);
        op_clear(&wide);
    }
}

/* The taps of more than 65,536 columns are computed during the run. If the width does not change, a
 * column depends on its neighbours only, so the outputs must be those of a narrower image. */
static void columns_of_a_wide_picture_are_those_of_its_parts(void **state)
{
    enum { PART = 60000, ALL = 2 * PART, EDGE = 4, H = 3 };
    (void)state;
    for (int k = 0; k < N_OPS; k++)
        for (int half = 0; half < 2; half++) {
            struct op_call wide, part;
            struct rt_tensor all = picture(H, ALL, 1);
            resize(&wide, ops[k], all, 2, ALL);
            assert_ok(op_run(&wide), &wide.err);
            struct rt_tensor some = picture(H, PART, 1);
            for (int64_t i = 0; i < (int64_t)H * PART; i++)
                ((float *)some.data)[i] =
                    ((float *)all.data)[i / PART * ALL + half * PART + i % PART];
            resize(&part, ops[k], some, 2, PART);
            assert_ok(op_run(&part), &part.err);
            for (int64_t y = 0; y < 2; y++)
                for (int64_t x = EDGE; x < PART - EDGE; x++) {
                    const float a = ((float *)wide.out[0].data)[y * ALL + half * PART + x];
                    const float b = ((float *)part.out[0].data)[y * PART + x];
                    if (a != b)
                        fail_msg("%s: row %lld, column %lld", ops[k], (long long)y, (long long)x);
                }
            op_clear(&wide);
            op_clear(&part);
        }
}

static void an_area_as_large_as_the_picture_is_its_mean(void **state)
{
    struct op_call c;
    (void)state;
    resize(&c, "ResizeArea", picture(2, WIDE, 1), 1, 1);
    ((float *)c.in[0].data)[WIDE] = 1e6f;
    double sum = 0;
    for (int64_t i = 0; i < 2 * WIDE; i++)
        sum += ((float *)c.in[0].data)[i];
    assert_ok(op_run(&c), &c.err);
    assert_float_equal(*(float *)c.out[0].data, sum / (2 * WIDE),
                       /* The kernel adds floats, but the test adds doubles, so the results
                        * differ slightly. */
                       0.3);
    op_clear(&c);
}

/* The output is one row of six pixels with many channels. In ResizeArea's last case, the output is
 * one pixel whose window is the complete image. */
static void a_run_ends_long_before_a_row_is_done(void **state)
{
    (void)state;
    for (int k = 0; k <= N_OPS; k++) { /* `k = N_OPS` stands for ResizeArea with one window */
        struct op_call c;
        const bool is_area = k == N_OPS;
        int64_t ms[2] = {0, INT64_MAX};
        resize(&c, ops[is_area ? 3 : k], is_area ? picture(1, 1 << 24, 1) : picture(1, 1, 1 << 24),
               1, is_area ? 1 : 6);
        /* The shortest of three late runs counts, because page faults can make one of them long. */
        for (int run = 0; run < 4; run++) {
            const bool late = run > 0;
            c.deadline_ms = late;
            const int64_t start_ns = cpu_now_ns();
            assert_int_equal(op_run(&c), late ? RT_DEADLINE_EXCEEDED : RT_OK);
            const int64_t took_ms = (cpu_now_ns() - start_ns) / 1000000;
            if (!late || took_ms < ms[1])
                ms[late] = took_ms;
            rt_tensor_clear(&c.out[0]);
        }
        if (ms[1] * 2 > ms[0])
            fail_msg("%s: %lld of %lld ms", c.op, (long long)ms[1], (long long)ms[0]);
        op_clear(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(channels_in_chunks_are_those_of_a_small_pixel),
        cmocka_unit_test(columns_in_chunks_are_those_of_a_narrow_picture),
        cmocka_unit_test(columns_of_a_wide_picture_are_those_of_its_parts),
        cmocka_unit_test(an_area_as_large_as_the_picture_is_its_mean),
        cmocka_unit_test(a_run_ends_long_before_a_row_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
