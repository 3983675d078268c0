/*
 * Tests that the sum of a residual and the output of a convolution or a matmul becomes a step of
 * the epilogue (runtime/fusion/fuse_epilogue.c). Steps after the sum must not move before it.
 */
#include "tests/support/epilogue_graph.h"

/* An epilogue scales and shifts before it adds the residual. Nodes that scale or shift the sum,
 * such as batch normalisation, must therefore not be moved before the sum. The last row of `behind`
 * is a batch normalisation in training mode. It uses the moments of the batch, so its scale is not
 * constant. */
static void what_comes_behind_a_residual_stays_there(void **state)
{
    static const char *const behind[][3] = {
        {"Mul", "sum v1", "T=float"},
        {"AddV2", "sum v2", "T=float"},
        {"Sub", "sum v2", "T=float"},
        {"BiasAdd", "sum v2", "T=float"},
        {"FusedBatchNormV3", "sum v1 v2 v3 v4", "T=float U=float is_training=false epsilon=0.01f"},
        {"FusedBatchNormV3", "head v1 v2 v3 v4", "T=float U=float is_training=true epsilon=0.01f"},
    };
    struct fused_graph *x = *state;
    int64_t dim[4];

    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++)
        for (int h = 0; h < EP_N_HEADS; h++) {
            const int rank = ep_add_head(x, (enum ep_head)h, 2, dim);
            if (rank != 4 && strcmp(behind[i][0], "FusedBatchNormV3") == 0) {
                fg_clear(x);
                continue;
            }
            ep_channels(x, "v1", (enum ep_head)h, 1);
            ep_channels(x, "v2", (enum ep_head)h, 0);
            ep_channels(x, "v3", (enum ep_head)h, 0);
            ep_channels(x, "v4", (enum ep_head)h, 2);
            fg_feed(x, "residual", rank, dim);
            fg_node(x, "sum", "AddV2", "head residual", "T=float");
            fg_node(x, "last", behind[i][0], behind[i][1], behind[i][2]);
            fg_node(x, "out", "Relu", "last", "T=float");
            fg_fetch(x, "out");
            fg_compare(x, 0, behind[i][0]);
        }
}

static void a_residual_of_another_shape_is_broadcast_or_refused(void **state)
{
    static const struct {
        int rank;
        int64_t dim[5];
    } r[] = {{4, {2, 11, 11, 1}},
             {4, {1, 11, 11, 24}},
             {0, {0}},
             {1, {24}},
             {1, {1}},
             {5, {3, 2, 11, 11, 24}},
             {4, {2, 11, 1, 24}},
             {4, {2, 11, 11, 23}},
             {4, {3, 11, 11, 24}},
             {1, {0}},
             {4, {0, 11, 11, 24}},
             {3, {11, 11, 24}}};
    struct fused_graph *x = *state;
    int64_t dim[4];
    char what[40];

    for (size_t i = 0; i < sizeof r / sizeof *r; i++)
        for (int h = EP_CONV_1X1; h <= EP_SMALL_MATMUL; h += EP_MATMUL - EP_CONV_1X1 - 1)
            for (int64_t batch = 1; batch < 3; batch++) {
                ep_channels(x, "b", (enum ep_head)h, 0);
                ep_add_head(x, (enum ep_head)h, batch, dim);
                fg_feed(x, "residual", r[i].rank, r[i].dim);
                fg_node(x, "biased", "BiasAdd", "head b", "T=float");
                fg_node(x, "sum", "AddV2", i & 1 ? "biased residual" : "residual biased",
                        "T=float");
                ep_add_activation(x, EP_SWISH, "sum");
                fg_fetch(x, "out");
                snprintf(what, sizeof what, "residual %d behind %s", (int)i, ep_head_name[h]);
                fg_compare(x, 4, what);
            }
}

/* A residual block with a projection. Both operands of the sum are convolutions, and either one
 * could take the sum into its epilogue. */
static void of_two_convolutions_one_takes_the_sum(void **state)
{
    struct fused_graph *x = *state;
    int64_t dim[4];

    ep_add_head(x, EP_CONV_1X1, 2, dim);
    fg_constant(x, "w2", "1x1x20x24", 0);
    ep_channels(x, "b", EP_CONV_1X1, 0);
    fg_node(x, "other", "Conv2D", "x w2", "T=float strides=[1,1,1,1] padding='SAME'");
    fg_node(x, "biased", "BiasAdd", "other b", "T=float");
    fg_node(x, "sum", "AddV2", "biased head", "T=float");
    fg_node(x, "out", "Relu", "sum", "T=float");
    fg_node(x, "again", "Conv2D", "out w3", "T=float strides=[1,1,1,1] padding='SAME'");
    fg_constant(x, "w3", "1x1x24x24", 0);
    fg_node(x, "last", "AddV2", "out again", "T=float");
    fg_fetch(x, "last");
    fg_compare(x, 4, "a projection");
}

static void rows_stay_apart_with_a_residual(void **state)
{
    struct fused_graph *x = *state;
    const int64_t dim[] = {2, 8, 8, 4};
    const struct rt_shape shape[] = {{.rank = 4, .dim = {-1, 8, 8, 4}},
                                     {.rank = 4, .dim = {-1, 8, 8, 4}}};

    for (int k = 0; k < 2; k++) {
        struct rt_callable *call;
        fg_feed(x, "x", 4, dim);
        fg_feed(x, "y", 4, dim);
        fg_constant(x, "w", "3x3x4x4", 0);
        fg_constant(x, "w2", "1x1x4x4", 0);
        fg_node(x, "zero", "Const", "", "dtype=int32 value=int32<1>:0");
        fg_node(x, "reversed", "ReverseV2", "y zero", "T=float Tidx=int32");
        fg_node(x, "head", "Conv2D", "x w", "T=float padding='SAME' strides=[1,1,1,1]");
        fg_node(x, "sum", "AddV2", k ? "head reversed" : "y head", "T=float");
        fg_node(x, "r", "Relu", "sum", "T=float");
        fg_node(x, "out", "Conv2D", "r w2", "T=float padding='SAME' strides=[1,1,1,1]");
        fg_fetch(x, "out");
        struct rt_session *s = fg_open(x, FG_FUSED, &call);
        assert_int_equal(rt_callable_is_rowwise(call, shape, &x->err), k == 0);
        rt_session_free(s);
        fg_clear(x);
    }
}

/* The kernel refuses the convolution, because TensorFlow has no dilated depthwise kernel. The shape
 * of the added tensor would also be refused, but the error must be the convolution's error. */
static void what_a_convolution_refuses_comes_before_its_epilogue(void **state)
{
    struct fused_graph *x = *state;
    fg_feed(x, "in", 4, (int64_t[]){1, 6, 6, 2});
    fg_feed(x, "other", 4, (int64_t[]){1, 5, 6, 2});
    fg_constant(x, "filter", "3x3x2x1", 0);
    fg_node(x, "y", "DepthwiseConv2dNative", "in filter",
            "T=float padding='SAME' strides=[1,1,1,1] dilations=[1,2,2,1]");
    fg_node(x, "sum", "AddV2", "y other", "T=float");
    fg_node(x, "relu", "Relu", "sum", "T=float");
    fg_fetch(x, "relu");
    fg_compare(x, 0, "a dilated convolution with an addend that does not fit");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fg_set_up, fg_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_comes_behind_a_residual_stays_there),
        TEST(a_residual_of_another_shape_is_broadcast_or_refused),
        TEST(of_two_convolutions_one_takes_the_sum),
        TEST(rows_stay_apart_with_a_residual),
        TEST(what_a_convolution_refuses_comes_before_its_epilogue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
