#include "tests/support/test.h"

#include "kernels/conv/conv_split.h"
#include "kernels/cpu/parallel.h"

/* Tests how convolutions are split into executions. The executions must compute every output
 * exactly once, from the same inputs as the complete convolution. The cost of a split is that of
 * its largest execution. */

static struct kn_conv_shape shape(int64_t batch, int64_t in, int64_t ci, int64_t co, int64_t size,
                                  int64_t stride, int64_t dilation)
{
    const int64_t reach = (size - 1) * dilation + 1, out = (in + stride - 1) / stride;
    const int64_t all = (out - 1) * stride + reach - in, pad = all > 0 ? all : 0;
    const struct kn_axis a = {.in = in,
                              .out = out,
                              .size = size,
                              .stride = stride,
                              .dilation = dilation,
                              .lo = pad / 2,
                              .hi = pad - pad / 2};
    return (struct kn_conv_shape){
        .n_spatial = 2, .batch = batch, .ci = ci, .co = co, .groups = 1, .axis = {a, a}};
}

/* Returns the input row in which the window of an output row begins. The row is negative in the
 * padding. */
static int64_t start_of(const struct kn_conv_shape *g, int64_t row)
{
    return row * g->axis[0].stride - g->axis[0].lo;
}

static void check(const struct kn_conv_shape *g, const struct kn_conv_split *split)
{
    const int64_t n = kn_conv_split_count(g, split),
                  out_row = kn_conv_image_out(g) / g->axis[0].out;
    const int64_t in_row = kn_conv_image_in(g) / g->axis[0].in;
    int64_t dst = 0;

    for (int64_t i = 0; i < n; i++) {
        const struct kn_conv_block at = kn_conv_split_block(g, split, i);
        struct kn_conv_shape p;
        assert_true(kn_conv_split_shape(g, split, at.slice, &p));
        assert_int_equal(at.dst_at, dst);
        dst += p.batch * kn_conv_image_out(&p);
        /* The window of the execution's first row begins at the same input row as in the complete
         * convolution, and no window or input is out of bounds. */
        const int64_t first = at.dst_at / out_row % g->axis[0].out;
        const int64_t image = at.dst_at / kn_conv_image_out(g);
        assert_int_equal(at.src_at / in_row - image * g->axis[0].in + start_of(&p, 0),
                         start_of(g, first));
        const struct kn_axis *a = &p.axis[0];
        assert_true(a->in > 0 && a->lo >= 0 && a->hi >= 0);
        assert_true((a->out - 1) * a->stride + (a->size - 1) * a->dilation + 1 <=
                    a->lo + a->in + a->hi);
        assert_true(at.src_at + p.batch * kn_conv_image_in(&p) <= g->batch * kn_conv_image_in(g));
    }
    assert_int_equal(dst, g->batch * kn_conv_image_out(g));
}

static void blocks_make_every_output_once(void **state)
{
    static const int64_t batch[] = {1, 2, 7, 64}, in[] = {1, 7, 56, 224}, size[] = {1, 3, 5};
    (void)state;
    for (int i = 0; i < 4 * 4 * 3 * 2 * 2 * 2; i++) {
        const int64_t ci = i / 96 % 2 ? 64 : 3, stride = 1 + i / 48 % 2;
        const struct kn_conv_shape g =
            shape(batch[i % 4], in[i / 4 % 4], ci, 96, size[i / 16 % 3], stride, 1 + stride / 2);
        struct kn_conv_split split;
        for (int after = 0; after < 2; after++) {
            kn_conv_split_serial(&g, after, &split);
            check(&g, &split);
            for (int width = 2; width < 9; width++)
                if (kn_conv_split_sharded(&g, after, width, &split))
                    check(&g, &split);
        }
    }
}

static void what_is_large_is_split_into_rows(void **state)
{
    const struct kn_conv_shape large = shape(1, 224, 64, 64, 3, 1, 1),
                               small = shape(1, 7, 8, 8, 3, 1, 1);
    struct kn_conv_split split;
    (void)state;
    kn_conv_split_serial(&large, false, &split);
    assert_true(split.rows > 0 && kn_conv_split_count(&large, &split) > 1);
    kn_conv_split_serial(&small, false, &split);
    assert_int_equal(split.rows, 0);
    assert_int_equal(kn_conv_split_count(&small, &split), 1);
    /* The small convolution has too little work for a second core. */
    assert_false(kn_conv_split_sharded(&small, false, 4, &split));
    assert_true(kn_conv_split_sharded(&large, false, 4, &split));
    assert_true(kn_conv_split_count(&large, &split) >= 4);
}

static void cores_have_as_many_rows_each(void **state)
{
    static const int64_t in[] = {7, 14, 35, 73, 112};
    (void)state;
    for (int i = 0; i < 5; i++)
        for (int width = 2; width < 4; width++) {
            const struct kn_conv_shape g = shape(1, in[i], 256, 256, 3, 1, 1);
            struct kn_conv_split split;
            assert_true(kn_conv_split_sharded(&g, false, width, &split));
            const int64_t n = kn_conv_split_count(&g, &split), each = (n - 1) / width + 1;
            assert_in_range(each * split.rows * width, in[i], in[i] + in[i] / 3);
        }
}

static void a_transpose_is_split_by_images_only(void **state)
{
    struct kn_conv_shape g = shape(16, 112, 64, 64, 3, 1, 1);
    struct kn_conv_split split;
    (void)state;
    g.transposed = true;
    kn_conv_split_serial(&g, false, &split);
    assert_int_equal(split.rows, 0);
    assert_true(split.images < 16);
    const struct kn_conv_block at = kn_conv_split_block(&g, &split, 1);
    assert_int_equal(at.src_at, split.images * kn_conv_image_out(&g));
    assert_int_equal(at.dst_at, split.images * kn_conv_image_in(&g));
}

static struct kn_conv_shape with_padding(struct kn_conv_shape g, int64_t lo, int64_t hi)
{
    for (int i = 0; i < 2; i++) {
        struct kn_axis *a = &g.axis[i];
        a->lo = lo;
        a->hi = hi;
        a->out = (a->in + lo + hi - (a->size - 1) * a->dilation - 1) / a->stride + 1;
    }
    return g;
}

static void the_cost_is_that_of_the_largest_execution(void **state)
{
    const struct kn_conv_shape g = shape(4, 56, 64, 32, 3, 1, 1);
    /* The cost of an output row is its number of multiplications, plus 32 for each element of the
     * row and of one input row. */
    const double row = 56.0 * 64 * 32 * 9 + 32.0 * 56 * (64 + 32);
    const struct kn_conv_split images = {.images = 3}, rows = {.images = 1, .rows = 10};
    (void)state;
    assert_float_equal(kn_conv_split_cost(&g, &images), row * 56 * 3, 1);
    assert_float_equal(kn_conv_split_cost(&g, &rows), row * 10, 1);

    /* oneDNN computes output channels in vectors of 16, so 4 channels cost as much as 16. The
     * estimated cost of a grouped convolution does not include the unused elements of these
     * vectors. */
    struct kn_conv_shape few = shape(1, 56, 64, 4, 3, 1, 1);
    const struct kn_conv_split one = {.images = 1};
    const double products = 56.0 * 56 * 64 * 4 * 9, elements = 56.0 * 56 * (64 + 4);
    assert_float_equal(kn_conv_split_cost(&few, &one), 4 * (products + 32 * elements), 1);
    few.groups = 4;
    assert_float_equal(kn_conv_split_cost(&few, &one), products / 4 + 32 * elements, 1);

    /* The output channels of a transposed convolution are the 64 input channels of its forward
     * convolution. */
    few.groups = 1;
    few.transposed = true;
    assert_float_equal(kn_conv_split_cost(&few, &one), products + 32 * elements, 1);
}

/* Tests that the work of one execution of a common convolution is limited, however large the batch
 * and the image are. */
static void a_large_convolution_is_interruptible(void **state)
{
    const struct kn_conv_shape large = shape(64, 2048, 64, 64, 3, 1, 1);
    struct kn_conv_split split;
    (void)state;
    kn_conv_split_serial(&large, false, &split);
    assert_true(split.rows > 0);
    assert_true(kn_conv_split_cost(&large, &split) <= 4.0 * KN_CHECK_MACS);
    assert_true(kn_conv_split_is_interruptible(&large));
}

/* If the padding is as high as the image, a split of the rows would leave some executions without
 * input. The rows are then not split, and one execution computes the whole image. */
static void padding_as_high_as_a_large_image_is_not_interruptible(void **state)
{
    const struct kn_conv_shape high = with_padding(shape(1, 1024, 64, 64, 3, 1, 1), 1024, 1024),
                               low = with_padding(shape(1, 1024, 64, 64, 3, 1, 1), 1, 1),
                               small = with_padding(shape(1, 14, 64, 64, 3, 1, 1), 14, 14);
    struct kn_conv_split split;
    (void)state;
    kn_conv_split_serial(&high, false, &split);
    assert_int_equal(split.rows, 0);
    assert_int_equal(kn_conv_split_count(&high, &split), 1);
    assert_true(kn_conv_split_cost(&high, &split) > 64.0 * KN_CHECK_MACS);
    assert_false(kn_conv_split_is_interruptible(&high));
    assert_true(kn_conv_split_is_interruptible(&low));
    assert_true(kn_conv_split_is_interruptible(&small));
}

static void a_transpose_of_a_large_image_is_not_interruptible(void **state)
{
    struct kn_conv_shape g = shape(8, 1024, 64, 64, 3, 1, 1);
    (void)state;
    g.transposed = true;
    assert_false(kn_conv_split_is_interruptible(&g));
    g = shape(64, 224, 64, 64, 3, 1, 1);
    g.transposed = true;
    assert_true(kn_conv_split_is_interruptible(&g));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cost_is_that_of_the_largest_execution),
        cmocka_unit_test(a_large_convolution_is_interruptible),
        cmocka_unit_test(padding_as_high_as_a_large_image_is_not_interruptible),
        cmocka_unit_test(a_transpose_of_a_large_image_is_not_interruptible),
        cmocka_unit_test(blocks_make_every_output_once),
        cmocka_unit_test(what_is_large_is_split_into_rows),
        cmocka_unit_test(cores_have_as_many_rows_each),
        cmocka_unit_test(a_transpose_is_split_by_images_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
