/* Tests that a Pad with zeros before a convolution or a pool becomes part of that node's own
 * padding (runtime/fusion/fuse_pad.c). */
#include "tests/support/fused_graph.h"

static void padding_with_zeros_joins_a_convolution(void **state)
{
    static const struct {
        const char *pad, *value, *attrs;
        bool depthwise, fuses;
    } c[] = {
        {"0,0,1,1,1,1,0,0", NULL, "padding='VALID' strides=[1,2,2,1]", false, true},
        {"0,0,0,2,2,0,0,0", NULL, "padding='VALID' strides=[1,1,1,1]", true, true},
        {"0,0,0,1,0,1,0,0", NULL, "padding='VALID' strides=[1,2,2,1]", true, true},
        {"0,0,1,1,1,1,0,0", "0", "padding='VALID' strides=[1,1,1,1]", false, true},
        {"0,0,1,1,1,1,0,0", "-0", "padding='VALID' strides=[1,1,1,1]", false, true},
        {"0,0,1,0,0,1,0,0", NULL,
         "padding='EXPLICIT' explicit_paddings=[0,0,1,2,0,1,0,0] strides=[1,1,1,1]", false, true},
        {"0,0,4,3,4,4,0,0", NULL, "padding='VALID' strides=[1,1,1,1] dilations=[1,2,2,1]", false,
         true},
        /* A Pad is not fused if its value is not 0, if it pads axes other than height and width, if
         * the convolution's padding is SAME, or if the Pad is not shorter than the window. */
        {"0,0,1,1,1,1,0,0", "2", "padding='VALID' strides=[1,1,1,1]", false, false},
        {"0,0,1,1,1,1,0,0", "nan", "padding='VALID' strides=[1,1,1,1]", false, false},
        {"1,0,1,1,1,1,0,0", NULL, "padding='VALID' strides=[1,1,1,1]", false, false},
        {"0,0,1,1,1,1,8,4", NULL, "padding='VALID' strides=[1,1,1,1]", false, false},
        {"0,0,1,1,1,1,0,0", NULL, "padding='SAME' strides=[1,1,1,1]", false, false},
        {"0,0,3,3,0,0,0,0", NULL, "padding='VALID' strides=[1,1,1,1]", false, false},
    };
    struct fused_graph *x = *state;
    char text[160];

    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int64_t batch = 0; batch < 3; batch++) {
            const int64_t dim[] = {batch, 13, 12, c[i].pad[12] == '8' ? 8 : 20};
            fg_feed(x, "x", 4, dim);
            snprintf(text, sizeof text, "dtype=int32 value=int32<4,2>:%s", c[i].pad);
            fg_node(x, "paddings", "Const", "", text);
            if (c[i].value) {
                snprintf(text, sizeof text, "dtype=float value=float<>:%s", c[i].value);
                fg_node(x, "value", "Const", "", text);
            }
            fg_node(x, "padded", c[i].value ? "PadV2" : "Pad",
                    c[i].value ? "x paddings value" : "x paddings", "T=float Tpaddings=int32");
            fg_constant(x, "w", c[i].depthwise ? "3x3x20x1" : "3x3x20x16", 0);
            snprintf(text, sizeof text, "T=float %s", c[i].attrs);
            fg_node(x, "head", c[i].depthwise ? "DepthwiseConv2dNative" : "Conv2D", "padded w",
                    text);
            fg_node(x, "out", "Relu6", "head", "T=float");
            fg_fetch(x, "out");
            fg_compare(x, c[i].fuses ? 2 : 1, c[i].pad);
        }
    /* The padded image is also fetched, so the convolution is not its only reader. */
    const int64_t dim[] = {2, 9, 9, 20};
    fg_feed(x, "x", 4, dim);
    fg_node(x, "paddings", "Const", "", "dtype=int32 value=int32<4,2>:0,0,1,1,1,1,0,0");
    fg_node(x, "padded", "Pad", "x paddings", "T=float Tpaddings=int32");
    fg_constant(x, "w", "3x3x20x16", 0);
    fg_node(x, "head", "Conv2D", "padded w", "T=float padding='VALID' strides=[1,1,1,1]");
    fg_fetch(x, "head");
    fg_fetch(x, "padded");
    fg_compare(x, 0, "a fetched padding");
}

/* An element of a MaxPool's own padding is never the maximum, but the zeros of a Pad are larger
 * than negative pixels and may be the maximum of a window. */
static void padding_with_zeros_joins_a_pool(void **state)
{
    static const struct {
        const char *pad, *op, *attrs;
        bool fuses;
    } c[] = {
        {"0,0,1,1,1,1,0,0", "MaxPool", "padding='VALID' ksize=[1,3,3,1] strides=[1,2,2,1]", true},
        {"0,0,0,1,2,0,0,0", "MaxPool", "padding='VALID' ksize=[1,3,3,1] strides=[1,1,1,1]", true},
        {"0,0,1,0,1,0,0,0", "MaxPool", "padding='VALID' ksize=[1,2,2,1] strides=[1,3,3,1]", true},
        {"0,0,3,3,0,0,0,0", "MaxPool", "padding='VALID' ksize=[1,4,1,1] strides=[1,4,1,1]", true},
        /* A Pad is not fused if the pool has its own padding or computes averages, if the Pad is
         * not shorter than the window, or if it pads axes other than height and width. */
        {"0,0,1,1,1,1,0,0", "MaxPool", "padding='SAME' ksize=[1,3,3,1] strides=[1,2,2,1]", false},
        {"0,0,1,1,1,1,0,0", "MaxPool",
         "padding='EXPLICIT' explicit_paddings=[0,0,1,1,1,1,0,0] ksize=[1,3,3,1] "
         "strides=[1,2,2,1]",
         false},
        {"0,0,3,0,0,0,0,0", "MaxPool", "padding='VALID' ksize=[1,3,3,1] strides=[1,2,2,1]", false},
        {"0,0,1,1,1,1,2,2", "MaxPool", "padding='VALID' ksize=[1,3,3,1] strides=[1,2,2,1]", false},
        {"0,0,1,1,1,1,0,0", "MaxPool", "padding='VALID' ksize=[1,1,1,5] strides=[1,1,1,5]", false},
        {"0,0,1,1,1,1,0,0", "AvgPool", "padding='VALID' ksize=[1,3,3,1] strides=[1,2,2,1]", false},
    };
    static const int channels_of[] = {20, 64, 3};
    struct fused_graph *x = *state;
    char text[200];

    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int64_t batch = 0; batch < 3; batch++) {
            const int64_t dim[] = {batch, 13, 12,
                                   strstr(c[i].attrs, ",5]") ? 20 : channels_of[batch]};
            fg_feed(x, "x", 4, dim);
            fg_constant(x, "down", "1x1x1x1", -3); /* an addend that makes most pixels negative */
            fg_node(x, "low", "AddV2", "x down", "T=float");
            snprintf(text, sizeof text, "dtype=int32 value=int32<4,2>:%s", c[i].pad);
            fg_node(x, "paddings", "Const", "", text);
            fg_node(x, "padded", "Pad", "low paddings", "T=float Tpaddings=int32");
            snprintf(text, sizeof text, "T=float %s", c[i].attrs);
            fg_node(x, "out", c[i].op, "padded", text);
            fg_fetch(x, "out");
            fg_compare(x, c[i].fuses, c[i].attrs);
        }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fg_set_up, fg_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(padding_with_zeros_joins_a_convolution),
        TEST(padding_with_zeros_joins_a_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
