/*
 * Tests that a bias, a batch normalisation, and an activation after them become the epilogue of the
 * preceding convolution or matmul (runtime/fusion/fuse_epilogue.c). A value that other nodes read
 * is still computed, constants whose shape does not fit the channels remain nodes, and no NaN is
 * lost.
 */
#include "tests/support/epilogue_graph.h"

#include <math.h>

/* Each bit of `form` controls one step. 1 adds a bias. 2 writes the batch normalisation after a
 * convolution as one node instead of Mul and AddV2. 4 adds a residual. Every form ends with an
 * activation. */
static void bias_normalisation_and_residual_join(void **state)
{
    struct fused_graph *x = *state;
    int64_t dim[4];
    char what[80];

    for (int h = 0; h < EP_N_HEADS; h++)
        for (int form = 0; form < 8; form++)
            for (int64_t batch = 0; batch < 3; batch++) {
                const char *at = "head";
                int saved = 0;
                x->finite_feeds = batch == 1;
                const int rank = ep_add_head(x, (enum ep_head)h, batch, dim);
                snprintf(what, sizeof what, "form %d behind %s, batch %d", form, ep_head_name[h],
                         (int)batch);
                if (form & 1) {
                    ep_channels(x, "bias", (enum ep_head)h, 0);
                    fg_node(x, "biased", "BiasAdd", "head bias", "T=float");
                    at = "biased";
                    saved++;
                }
                char in[64];
                ep_channels(x, "v1", (enum ep_head)h, 1);
                ep_channels(x, "v2", (enum ep_head)h, 0);
                ep_channels(x, "v3", (enum ep_head)h, 0);
                ep_channels(x, "v4", (enum ep_head)h, 2);
                if (rank == 4 && (form & 2)) {
                    snprintf(in, sizeof in, "%s v1 v2 v3 v4", at);
                    fg_node(x, "bn", "FusedBatchNormV3", in,
                            "T=float U=float is_training=false epsilon=0.01f");
                    saved++;
                } else {
                    snprintf(in, sizeof in, "%s v1", at);
                    fg_node(x, "m", "Mul", in, "T=float");
                    fg_node(x, "bn", "AddV2", "m v2", "T=float");
                    saved += 2;
                }
                if (form & 4) {
                    fg_feed(x, "residual", rank, dim);
                    fg_node(x, "sum", "AddV2", form & 1 ? "bn residual" : "residual bn", "T=float");
                    saved++;
                }
                saved +=
                    ep_add_activation(x, form & 1 ? EP_RELU : EP_SWISH, form & 4 ? "sum" : "bn");
                fg_fetch(x, "out");
                fg_compare(x, saved, what);
            }
    x->finite_feeds = false;
}

/* Tests outputs that do not fit into a cache. Kernels compute them in blocks of complete images or
 * of rows. The windows of the first and the last rows reach into the padding. */
static void large_images_join_in_blocks(void **state)
{
    static const struct {
        const char *op, *filter, *attrs;
        int64_t side, ci;
        int co;
    } c[] = {
        {"Conv2D", "1x1x8x32", "padding='SAME' strides=[1,1,1,1]", 96, 8, 32},
        {"Conv2D", "3x3x8x32", "padding='SAME' strides=[1,1,1,1]", 95, 8, 32},
        {"Conv2D", "5x5x4x48", "padding='SAME' strides=[1,2,2,1]", 190, 4, 48},
        {"Conv2D", "3x3x4x48", "padding='SAME' strides=[1,1,1,1] dilations=[1,9,9,1]", 94, 4, 48},
        {"DepthwiseConv2dNative", "3x3x32x1", "padding='SAME' strides=[1,1,1,1]", 96, 32, 32},
        {"DepthwiseConv2dNative", "5x5x32x1", "padding='SAME' strides=[1,2,2,1]", 191, 32, 32},
        {"Conv2D", "3x3x8x32",
         "padding='EXPLICIT' explicit_paddings=[0,0,40,1,2,30,0,0] strides=[1,1,1,1]", 95, 8, 32}};
    struct fused_graph *x = *state;
    char attrs[160], shape[16];

    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int k = 0; k < 2; k++) {
            const int64_t dim[] = {1 + (i == 0), c[i].side, c[i].side, c[i].ci};
            fg_constant(x, "w", c[i].filter, 0);
            snprintf(shape, sizeof shape, "%d", c[i].co);
            fg_constant(x, "b", shape, 0);
            fg_feed(x, "x", 4, dim);
            snprintf(attrs, sizeof attrs, "T=float %s", c[i].attrs);
            fg_node(x, "head", c[i].op, "x w", attrs);
            fg_node(x, "biased", "BiasAdd", "head b", "T=float");
            const int n = ep_add_activation(x, k ? EP_RELU : EP_SWISH, "biased");
            fg_fetch(x, "out");
            fg_compare(x, n + 1, c[i].attrs);
        }
}

static void vectors_that_do_not_fit_stay_nodes(void **state)
{
    static const char *const shape[] = {"2x24", "11x24", "11x1", "1x1x1x1x24", "23", "1x24"};
    struct fused_graph *x = *state;
    int64_t dim[4];

    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int k = 0; k < 3; k++) {
            ep_add_head(x, EP_CONV_1X1, 2, dim);
            fg_constant(x, "v", shape[i], 1);
            fg_node(x, "out", k == 0 ? "Mul" : k == 1 ? "AddV2" : "Sub", "head v", "T=float");
            fg_fetch(x, "out");
            fg_compare(x, i == 5, shape[i]);
        }
    /* The factors of the following cases would scale the weights beyond the range of a float. */
    ep_add_head(x, EP_CONV_1X1, 2, dim);
    fg_scalar(x, "v", 1e-30);
    fg_node(x, "out", "Mul", "head v", "T=float");
    fg_fetch(x, "out");
    fg_compare(x, 0, "a tiny factor");
    ep_add_head(x, EP_CONV_1X1, 2, dim);
    fg_node(x, "v", "Const", "", "dtype=float value=float<>:inf");
    fg_node(x, "out", "Mul", "head v", "T=float");
    fg_fetch(x, "out");
    fg_compare(x, 0, "an infinite factor");
}

static void a_value_that_others_see_stays(void **state)
{
    struct fused_graph *x = *state;
    int64_t dim[4];

    ep_add_head(x, EP_CONV_1X1, 2, dim);
    ep_channels(x, "b", EP_CONV_1X1, 0);
    fg_node(x, "biased", "BiasAdd", "head b", "T=float");
    fg_node(x, "out", "Relu", "biased", "T=float");
    fg_fetch(x, "out");
    fg_fetch(x, "biased");
    fg_compare(x, 1, "a fetched sum");

    ep_add_head(x, EP_CONV_1X1, 2, dim);
    fg_node(x, "out", "Relu", "head", "T=float");
    fg_node(x, "more", "Neg", "head", "T=float");
    fg_fetch(x, "out");
    fg_fetch(x, "more");
    fg_compare(x, 0, "two readers");

    ep_add_head(x, EP_CONV_1X1, 2, dim);
    fg_node(x, "s", "Sigmoid", "head", "T=float");
    fg_node(x, "out", "Mul", "s head", "T=float");
    fg_fetch(x, "out");
    fg_fetch(x, "s");
    fg_compare(x, 0, "a fetched part of a swish");

    ep_add_head(x, EP_CONV_1X1, 2, dim);
    fg_node(x, "out", "AddV2", "head head", "T=float");
    fg_fetch(x, "out");
    fg_compare(x, 0, "twice itself");

    ep_add_head(x, EP_CONV_1X1, 2, dim);
    fg_node(x, "s", "Sigmoid", "head", "T=float");
    fg_node(x, "out", "AddV2", "s head", "T=float");
    fg_fetch(x, "out");
    fg_compare(x, 0, "itself and its sigmoid");

    ep_add_head(x, EP_CONV_1X1, 2, dim);
    fg_node(x, "yes", "Const", "", "dtype=bool value=bool<>:1");
    fg_node(x, "check", "Assert", "yes x", "T=[float]");
    fg_node(x, "out", "Relu", "head ^check", "T=float");
    fg_fetch(x, "out");
    fg_compare(x, 0, "a control edge");
}

static void nan_now_and_then_is_never_lost(void **state)
{
    struct fused_graph *x = *state;
    int64_t dim[4];

    for (int h = 0; h < EP_N_HEADS; h++) {
        struct rt_callable *call[2];
        struct rt_session *s[2];
        struct rt_tensor out[2] = {{0}};

        x->finite_feeds = true;
        ep_add_head(x, (enum ep_head)h, 2, dim);
        ep_channels(x, "b", (enum ep_head)h, 0);
        fg_node(x, "biased", "BiasAdd", "head b", "T=float");
        fg_node(x, "out", "Relu", "biased", "T=float");
        fg_fetch(x, "out");
        for (int k = 0; k < 2; k++)
            s[k] = fg_open(x, k ? FG_SPECIALISED : FG_UNFUSED, &call[k]);
        for (int i = 0; i < 24; i++) {
            float *v = x->in[0].data;
            v[17] = i % 3 == 1 ? NAN : 1;
            v[5] = i % 7 == 2 ? -INFINITY : 2;
            for (int k = 0; k < 2; k++)
                assert_ok(rt_callable_run(call[k], x->in, &out[k], NULL, &x->err), &x->err);
            fg_assert_near(&out[0], &out[1], ep_head_name[h]);
            rt_tensor_clear(&out[0]);
            rt_tensor_clear(&out[1]);
        }
        rt_session_free(s[0]);
        rt_session_free(s[1]);
        fg_clear(x);
    }
    x->finite_feeds = false;
}

/* The mean of no elements is NaN. TensorFlow's graph optimiser fuses the matmul with the Relu,
 * and the fused op gives 0. The separate nodes give NaN, and Slipway's fusion must preserve the
 * NaN. */
static void an_average_of_nothing_stays_nan_behind_relu(void **state)
{
    struct fused_graph *x = *state;
    const int64_t dim[] = {2, 0, 3, 16};

    fg_feed(x, "x", 4, dim);
    fg_constant(x, "w", "16x24", 0);
    fg_constant(x, "b", "24", 0);
    fg_node(x, "axes", "Const", "", "dtype=int32 value=int32<2>:1,2");
    fg_node(x, "mean", "Mean", "x axes", "T=float Tidx=int32");
    fg_node(x, "head", "MatMul", "mean w", "T=float");
    fg_node(x, "biased", "BiasAdd", "head b", "T=float");
    fg_node(x, "out", "Relu", "biased", "T=float");
    fg_fetch(x, "out");
    for (enum fg_way way = FG_UNFUSED; way < FG_N_WAYS; way++) {
        struct rt_tensor out[FG_MOST] = {{0}};
        int64_t nodes;
        assert_ok(fg_run(x, way, out, &nodes), &x->err);
        assert_int_equal(rt_tensor_count(&out[0]), 2 * 24);
        for (int i = 0; i < 2 * 24; i++)
            assert_true(isnan(((float *)out[0].data)[i]));
        rt_tensor_clear(&out[0]);
    }
    fg_clear(x);
}

/* In form 0, the Reshape's target is a constant that splits the rows into two dimensions. In forms
 * 1 and 2, the target contains the number of rows, which is computed from the shape of x. Form 2
 * has BatchMatMulV2 instead of MatMul. */
static void steps_behind_a_reshape_join_the_matmul(void **state)
{
    static const struct {
        /* `last` contains the dimensions into which a row is split, and `bias` is the shape of the
         * bias. */
        const char *last, *bias;
        bool fuses;
    } c[] = {
        {"64", "64", true},      {"4,16", "4x16", true},  {"1,64", "1x64", false},
        {"4,16", "16", false},   {"2,4,16", "16", false}, {"128", "128", false},
        {"32", "32", false},     {"64", "1x64", false},   {"4,16", "1x4x16", false},
        {"16,4", "4x16", false}, {"-1", "64", false},     {"4,-1", "16", false},
        {"64", "2x3x64", false},
    };
    struct fused_graph *x = *state;
    char text[80];

    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int form = 0; form < 3; form++)
            for (int64_t batch = 0; batch < 7; batch += 6) {
                const int64_t dim[] = {batch, 96};
                fg_constant(x, "w", "96x64", 0);
                fg_constant(x, "b", c[i].bias, 0);
                fg_feed(x, "x", 2, dim);
                fg_node(x, "head", form == 2 ? "BatchMatMulV2" : "MatMul", "x w", "T=float");
                snprintf(text, sizeof text, "dtype=int32 value=int32<%d>:%s%s",
                         (strchr(c[i].last, ',')
                              ? strrchr(c[i].last, ',') != strchr(c[i].last, ',') ? 3 : 2
                              : 1) +
                             (form ? 0 : 2),
                         form    ? ""
                         : batch ? "2,3,"
                                 : "0,3,",
                         c[i].last);
                fg_node(x, "last", "Const", "", text);
                /* The Reshape's target is the number of rows of x, followed by the constant
                 * `last`. */
                if (form) {
                    fg_node(x, "shape", "Shape", "x", "T=float");
                    fg_node(x, "zero", "Const", "", "dtype=int32 value=int32<>:0");
                    fg_node(x, "nought", "Const", "", "dtype=int32 value=int32<1>:0");
                    fg_node(x, "one", "Const", "", "dtype=int32 value=int32<1>:1");
                    fg_node(x, "rows", "StridedSlice", "shape nought one one",
                            "T=int32 Index=int32 begin_mask=0 end_mask=0 ellipsis_mask=0 "
                            "new_axis_mask=0 shrink_axis_mask=0");
                    fg_node(x, "to", "ConcatV2", "rows last zero", "T=int32 N=2");
                }
                fg_node(x, "wide", "Reshape", form ? "head to" : "head last", "T=float");
                fg_node(x, "sum", "AddV2", "wide b", "T=float");
                const int n = ep_add_activation(x, EP_GELU_KERAS3, "sum");
                fg_fetch(x, "out");
                snprintf(text, sizeof text, "%s + %s, form %d", c[i].last, c[i].bias, form);
                fg_compare(x, c[i].fuses ? n + 1 : 0, text);
            }
    const int64_t dim[] = {6, 96};
    fg_constant(x, "w", "96x64", 0);
    fg_feed(x, "x", 2, dim);
    fg_node(x, "head", "MatMul", "x w", "T=float");
    fg_node(x, "to", "Const", "", "dtype=int32 value=int32<3>:2,3,64");
    fg_node(x, "wide", "Reshape", "head to", "T=float");
    fg_fetch(x, "wide");
    fg_compare(x, 0, "a bare Reshape");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fg_set_up, fg_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bias_normalisation_and_residual_join),
        TEST(large_images_join_in_blocks),
        TEST(vectors_that_do_not_fit_stay_nodes),
        TEST(a_value_that_others_see_stays),
        TEST(nan_now_and_then_is_never_lost),
        TEST(an_average_of_nothing_stays_nan_behind_relu),
        TEST(steps_behind_a_reshape_join_the_matmul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
