#include "tests/support/test.h"

#include <math.h>

#include "kernels/kernels.h"
#include "runtime/base/checked.h"
#include "runtime/session/session.h"
#include "tests/support/graph_def.h"
#include "tests/support/op.h"

/* Shapes, axes and sizes near the limits of int64 are accepted or refused, and no arithmetic on
 * them overflows. The asan preset aborts a program at the first signed overflow. */

static void arithmetic_is_defined_everywhere(void **state)
{
    (void)state;
    int64_t v;
    assert_true(rt_add(INT64_MAX, -1, &v) && v == INT64_MAX - 1);
    assert_false(rt_add(INT64_MAX, 1, &v));
    assert_false(rt_sub(INT64_MIN, 1, &v));
    assert_false(rt_mul(INT64_MIN, -1, &v));
    assert_int_equal(rt_add_saturated(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(rt_add_saturated(INT64_MIN, -1), INT64_MIN);
    assert_int_equal(rt_sub_saturated(INT64_MIN, 1), INT64_MIN);
    assert_int_equal(rt_sub_saturated(0, INT64_MIN), INT64_MAX);
    size_t bytes;
    assert_false(rt_add_size(SIZE_MAX, 1, &bytes));
    assert_false(rt_mul_size(SIZE_MAX, 2, &bytes));
    assert_true(rt_mul_size(SIZE_MAX / 2, 2, &bytes) && bytes == SIZE_MAX - 1);
    assert_int_equal(rt_mul_saturated(INT64_MAX, 2), INT64_MAX);
    assert_int_equal(rt_mul_saturated(INT64_MIN, 2), INT64_MIN);
    assert_int_equal(rt_mul_saturated(INT64_MIN, -1), INT64_MAX);
    assert_int_equal(rt_add_wrapped(INT64_MAX, 1), INT64_MIN);
    assert_int_equal(rt_sub_wrapped(0, INT64_MIN), INT64_MIN);
    assert_int_equal(rt_int64_of((double)NAN), INT64_MIN);
    assert_int_equal(rt_int64_of(0x1p63), INT64_MIN);
    assert_int_equal(rt_int64_of(-0x1p63), INT64_MIN);
    assert_int_equal(rt_int64_of(-2.9), -2);
    assert_int_equal(rt_int32_of((double)INFINITY), INT32_MIN);
    assert_int_equal(rt_int32_of(2147483647.5), INT32_MAX);
    assert_int_equal(rt_int32_of(-2147483648.5), INT32_MIN);
    assert_int_equal(rt_axis_of(-3, 3), 0);
    assert_int_equal(rt_axis_of(2, 3), 2);
    assert_int_equal(rt_axis_of(3, 3), -1);
    assert_int_equal(rt_axis_of(INT64_MIN, 3), -1);
    assert_int_equal(rt_axis_of(0, 0), -1);
}

/* A signature's input may be an output of an unknown op, whose type RT_NO_DTYPE has the size 0. An
 * earlier version of the row analysis of Bitcast divided by that size. */
static void bitcast_of_an_unknown_type_is_not_divided_by(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_bytes g;
    struct rt_registry *ops = rt_registry_new();
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_callable *call = NULL;
    assert_true(ops && kn_register(ops));
    rt_bytes_init(&g, 1 << 16);
    gd_node(&g, "x", "NobodyKnowsThisOp", "", "");
    gd_node(&g, "y", "Bitcast", "x", "T=float type=int32");
    assert_ok(rt_library_import(&l, gd_span(&g), ops, &err), &err);
    const struct rt_session_options options = {.registry = ops, .compiles_inline = true};
    assert_ok(rt_session_new(&s, l, &options, &err), &err);
    const struct rt_call_spec spec = {.feeds = (const char *[]){"x:0"},
                                      .fetches = (const char *[]){"y:0"},
                                      .n_feeds = 1,
                                      .n_fetches = 1};
    assert_ok(rt_session_prepare(s, &spec, &call, &err), &err);
    const struct rt_shape shape = {.rank = 1, .dim = {-1}};
    assert_true(rt_callable_is_rowwise(call, &shape, &err));
    rt_session_free(s);
    rt_registry_free(ops);
    rt_bytes_clear(&g);
}

static void gather_refuses_an_axis_at_the_end_of_int64(void **state)
{
    (void)state;
    static const int64_t axes[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, 1, -2};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        struct op_call c = {.op = "GatherV2",
                            .attrs = "Tparams=float Tindices=int32 Taxis=int64",
                            .n_in = 3,
                            .n_out = 1};
        c.in[0] = op_floats(3, (float[]){1, 2, 3});
        c.in[1] = op_int(1);
        c.in[2] = op_tensor(RT_I64, 0, NULL, &axes[i]);
        assert_int_equal(op_run(&c), RT_INVALID_ARGUMENT);
        op_clear(&c);
    }
}

/* An op with an input that must be a scalar. */
struct scalar_input {
    const char *op, *attrs;
    /* The op has n_in inputs. The scalar is input `at`. The first of the other inputs is a float
     * tensor of shape [3]. */
    int at, n_in;
    /* `value` is the value of the scalar. The third input, if any, has n_other integers and
     * begins with `other`. */
    int32_t value, other;
    int64_t n_other;
    bool takes_one; /* TensorFlow accepts a vector of one element as well as a scalar */
};
static const struct scalar_input scalars[] = {
    {"Cumsum", "T=float Tidx=int32", 1, 2, 0, 0, 0, false},
    {"ArgMax", "T=float Tidx=int32 output_type=int64", 1, 2, 0, 0, 0, false},
    {"UnsortedSegmentSum", "T=float Tindices=int32 Tnumsegments=int32", 2, 3, 1, 0, 3, false},
    {"Split", "T=float num_split=1", 0, 2, 0, 0, 0, false},
    {"SplitV", "T=float Tlen=int32 num_split=1", 2, 3, 0, 3, 1, true},
    {"GatherV2", "Tparams=float Tindices=int32 Taxis=int32", 2, 3, 0, 0, 3, false},
};

static void a_scalar_is_read_only_from_one_number(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        for (int64_t n = -1; n <= 2; n++) {
            const struct scalar_input *s = &scalars[i];
            struct op_call c = {.op = s->op, .attrs = s->attrs, .n_in = s->n_in, .n_out = 1};
            const int32_t value[2] = {s->value, s->value}, other[3] = {s->other};
            for (int k = 0; k < s->n_in; k++)
                c.in[k] = k == (s->at == 0) ? op_floats(3, (float[]){1, 2, 3})
                          : k == s->at      ? op_tensor(RT_I32, n < 0 ? 0 : 1, &n, value)
                                            : op_ints(s->n_other, other);
            const bool right = n < 0 || (n == 1 && s->takes_one);
            const enum rt_status st = op_run(&c);
            if (right != (st == RT_OK))
                fail_msg("%s with %lld elements: %s", s->op, (long long)n, rt_error_text(&c.err));
            op_clear(&c);
        }
}

static void combined_suppression_takes_scalars_only(void **state)
{
    (void)state;
    for (int bad = 2; bad < 6; bad++)
        for (int64_t n = 0; n < 3; n++) {
            struct op_call c = {.op = "CombinedNonMaxSuppression",
                                .attrs = "pad_per_class=false clip_boxes=true",
                                .n_in = 6,
                                .n_out = 4};
            static const float zeros[8], half[2] = {0.5F, 0.5F};
            static const int32_t ones[2] = {1, 1};
            c.in[0] = op_tensor(RT_F32, 4, (int64_t[]){1, 2, 1, 4}, zeros);
            c.in[1] = op_tensor(RT_F32, 3, (int64_t[]){1, 2, 1}, zeros);
            for (int k = 2; k < 6; k++)
                c.in[k] = op_tensor(k < 4 ? RT_I32 : RT_F32, k == bad, &n,
                                    k < 4 ? (const void *)ones : half);
            assert_fails(op_run(&c), RT_INVALID_ARGUMENT, &c.err, "must be 0-D, got shape");
            op_clear(&c);
        }
}

/* TensorFlow refuses each of the following cases, which earlier versions of Slipway accepted. */
static void what_tensorflow_refuses_is_refused(void **state)
{
    (void)state;
    static const int32_t zero[1], two[2] = {2147483647, 3};
    struct op_call ellipses = {
        .op = "StridedSlice",
        .attrs = "T=float Index=int32 begin_mask=0 end_mask=0 ellipsis_mask=3 new_axis_mask=0 "
                 "shrink_axis_mask=0",
        .n_in = 4,
        .n_out = 1,
        .in = {op_floats(3, (float[]){1, 2, 3}), op_ints(1, zero), op_ints(1, two),
               op_ints(1, two)}};
    assert_fails(op_run(&ellipses), RT_INVALID_ARGUMENT, &ellipses.err,
                 "Multiple ellipses in slice spec not allowed");
    op_clear(&ellipses);
    struct op_call empty = {
        .op = "Empty", .attrs = "dtype=float init=true", .n_in = 1, .n_out = 1, .in = {op_int(2)}};
    assert_fails(op_run(&empty), RT_INVALID_ARGUMENT, &empty.err,
                 "shape must be a vector of int32, got shape []");
    op_clear(&empty);
    struct op_call unravel = {.op = "UnravelIndex",
                              .attrs = "Tidx=int32",
                              .n_in = 2,
                              .n_out = 1,
                              .in = {op_ints(1, zero), op_ints(2, two)}};
    assert_fails(op_run(&unravel), RT_INVALID_ARGUMENT, &unravel.err, "integer overflow");
    op_clear(&unravel);
    struct op_call broadcast = {.op = "BroadcastTo",
                                .attrs = "T=float Tidx=int32",
                                .n_in = 2,
                                .n_out = 1,
                                .in = {op_floats(1, (float[]){1}), op_int(2)}};
    assert_fails(op_run(&broadcast), RT_INVALID_ARGUMENT, &broadcast.err,
                 "shape must be a vector of {int32,int64}, got shape []");
    op_clear(&broadcast);
    struct op_call lrn = {.op = "LRN",
                          .attrs = "T=float depth_radius=2147483647",
                          .n_in = 1,
                          .n_out = 1,
                          .in = {op_tensor(RT_F32, 4, (int64_t[]){1, 1, 1, 0}, NULL)}};
    assert_fails(op_run(&lrn), RT_INVALID_ARGUMENT, &lrn.err,
                 "depth_radius = 2147483647 larger than int max");
    op_clear(&lrn);
}

/* The width of a box whose ends are near the largest floats is infinite, and positions in the box
 * are NaN. */
static void a_crop_without_a_position_lies_outside(void **state)
{
    (void)state;
    static const float image[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const float box[4] = {-3e38F, -3e38F, 3e38F, 3e38F};
    static const int32_t zero[1], size[2] = {2, 2};
    struct op_call c = {.op = "CropAndResize",
                        .attrs = "T=float method='bilinear' extrapolation_value=0.5f",
                        .n_in = 4,
                        .n_out = 1,
                        .in = {op_tensor(RT_F32, 4, (int64_t[]){1, 3, 3, 1}, image),
                               op_tensor(RT_F32, 2, (int64_t[]){1, 4}, box), op_ints(1, zero),
                               op_ints(2, size)}};
    assert_ok(op_run(&c), &c.err);
    for (int i = 0; i < 4; i++)
        assert_true(((const float *)c.out[0].data)[i] == 0.5F);
    op_clear(&c);
}

/* Tests tensors in which one dimension is 0 and the other dimensions are very large. The ops
 * include at least one op of each family of kernels. */
static void enormous_shapes_without_elements_are_survived(void **state)
{
    (void)state;
    static const struct {
        const char *op, *attrs;
        int n_in, n_out;
        /* The second input: "t" is a tensor like the first input, "i" is the integer 0, and "s" is
         * two sizes. */
        const char *other;
    } ops[] = {
        {"Neg", "T=float", 1, 1, ""},
        {"Softmax", "T=float", 1, 1, ""},
        {"AddV2", "T=float", 2, 1, "t"},
        {"Sum", "T=float Tidx=int32 keep_dims=false", 2, 1, "i"},
        {"Max", "T=float Tidx=int32 keep_dims=true", 2, 1, "i"},
        {"ArgMax", "T=float Tidx=int32 output_type=int64", 2, 1, "i"},
        {"Cumsum", "T=float Tidx=int32 exclusive=false reverse=false", 2, 1, "i"},
        {"Unique", "T=float out_idx=int32", 1, 2, ""},
        {"L2Loss", "T=float", 1, 1, ""},
        {"SpaceToDepth", "T=float block_size=2 data_format='NHWC'", 1, 1, ""},
        {"DepthToSpace", "T=float block_size=2 data_format='NHWC'", 1, 1, ""},
        {"MaxPool", "T=float ksize=[1,2,2,1] strides=[1,2,2,1] padding='SAME' data_format='NHWC'",
         1, 1, ""},
        {"LRN", "T=float", 1, 1, ""},
        {"ResizeBilinear", "T=float align_corners=false half_pixel_centers=false", 2, 1, "s"},
        {"Where", "T=float", 1, 1, ""},
        {"ExpandDims", "T=float Tdim=int32", 2, 1, "i"},
        {"BatchMatMulV2", "T=float adj_x=false adj_y=true", 2, 1, "t"},
    };
    const int64_t h = INT64_C(1) << 30, b = INT64_C(1) << 60, t = INT64_C(1) << 20;
    const int64_t shapes[][4] = {{0, b, 1, 1}, {b, 0, 1, 1}, {h, 0, h, 1}, {0, t, t, t},
                                 {t, 0, t, t}, {t, t, t, 0}, {0, 1, h, h}, {1, h, h, 0}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            struct op_call c = {
                .op = ops[i].op, .attrs = ops[i].attrs, .n_in = ops[i].n_in, .n_out = ops[i].n_out};
            static const int32_t sizes[2] = {2, 2};
            c.in[0] = op_tensor(RT_F32, 4, shapes[k], NULL);
            if (ops[i].n_in > 1)
                c.in[1] = *ops[i].other == 't'   ? op_tensor(RT_F32, 4, shapes[k], NULL)
                          : *ops[i].other == 'i' ? op_int(0)
                                                 : op_ints(2, sizes);
            /* The op may return an output or be refused, but an overflow would abort the
             * program. */
            (void)op_run(&c);
            op_clear(&c);
        }
}

/* UBSan once reported each of the following cases, in which a product or sum of valid numbers
 * overflowed. */
static void products_of_attributes_and_dimensions_are_checked(void **state)
{
    (void)state;
    const int64_t t = INT64_C(1) << 40, most = INT64_MAX;
    struct op_call tile = {.op = "Tile", .attrs = "T=int8 Tmultiples=int64", .n_in = 2, .n_out = 1};
    tile.in[0] = op_tensor(RT_I8, 3, (int64_t[]){0, t, 1}, NULL);
    tile.in[1] = op_tensor(RT_I64, 1, (int64_t[]){3}, (int64_t[]){1, 0, t});
    assert_ok(op_run(&tile), &tile.err);
    assert_int_equal(tile.out[0].dim[2], t);
    op_clear(&tile);

    struct op_call depth = {.op = "SpaceToDepth",
                            .attrs = "T=int8 block_size=1048576 data_format='NHWC'",
                            .n_in = 1,
                            .n_out = 1};
    depth.in[0] = op_tensor(RT_I8, 4, (int64_t[]){0, 0, 0, t}, NULL);
    assert_fails(op_run(&depth), RT_INVALID_ARGUMENT, &depth.err, "too many elements");
    op_clear(&depth);
    depth.op = "DepthToSpace";
    depth.in[0] = op_tensor(RT_I8, 4, (int64_t[]){0, most / 2, 0, 0}, NULL);
    assert_fails(op_run(&depth), RT_INVALID_ARGUMENT, &depth.err, "too many elements");
    op_clear(&depth);

    struct op_call roll = {
        .op = "Roll", .attrs = "T=int8 Tshift=int64 Taxis=int32", .n_in = 3, .n_out = 1};
    roll.in[0] = op_tensor(RT_I8, 2, (int64_t[]){0, most}, NULL);
    roll.in[1] = op_tensor(RT_I64, 1, (int64_t[]){2}, (int64_t[]){most - 1, most - 1});
    roll.in[2] = op_ints(2, (int32_t[]){1, 1});
    assert_ok(op_run(&roll), &roll.err);
    op_clear(&roll);

    static const float image[4] = {1, 2, 3, 4};
    struct op_call pool = {.op = "MaxPool",
                           .attrs = "T=float ksize=[1,2147483647,2147483647,1] strides=[1,1,1,1] "
                                    "padding='SAME' data_format='NHWC'",
                           .n_in = 1,
                           .n_out = 1};
    pool.in[0] = op_tensor(RT_F32, 4, (int64_t[]){1, 2, 2, 1}, image);
    assert_ok(op_run(&pool), &pool.err);
    assert_true(((const float *)pool.out[0].data)[0] == 4);
    op_clear(&pool);

    struct op_call area = {.op = "ResizeArea", .attrs = "T=int8 align_corners=false", .n_in = 2};
    area.n_out = 1;
    area.in[0] = op_tensor(RT_I8, 4, (int64_t[]){0, t, 1, 1 << 20}, NULL);
    area.in[1] = op_ints(2, (int32_t[]){1, INT32_MAX});
    assert_ok(op_run(&area), &area.err);
    op_clear(&area);

    struct op_call offsets = {.op = "ConcatOffset", .attrs = "shape_type=int64 N=3"};
    offsets.n_in = 4;
    offsets.n_out = 3;
    offsets.in[0] = op_int(0);
    for (int k = 1; k < 4; k++)
        offsets.in[k] = op_tensor(RT_I64, 1, (int64_t[]){1}, &most);
    (void)op_run(&offsets); /* the op may return a wrapped offset or refuse the type */
    op_clear(&offsets);
}

/* The size 2^24 + 3 is not representable as a float, so the position of the last row is rounded up,
 * beyond the end of the image. */
static void a_crop_of_many_rows_reads_none_behind_the_last(void **state)
{
    (void)state;
    static const float box[4] = {1, 0, 1, 0};
    static const int32_t zero[1], size[2] = {1, 1};
    static const char *const methods[] = {"method='bilinear'", "method='nearest'"};
    for (int k = 0; k < 2; k++) {
        struct op_call c = {.op = "CropAndResize", .n_in = 4, .n_out = 1};
        char attrs[80];
        snprintf(attrs, sizeof attrs, "T=float extrapolation_value=0.5f %s", methods[k]);
        c.attrs = attrs;
        c.in[0] = op_tensor(RT_F32, 4, (int64_t[]){1, (1 << 24) + 4, 1, 1}, NULL);
        memset(c.in[0].data, 0, rt_tensor_bytes(&c.in[0]));
        ((float *)c.in[0].data)[(1 << 24) + 3] = 7;
        c.in[1] = op_tensor(RT_F32, 2, (int64_t[]){1, 4}, box);
        c.in[2] = op_ints(1, zero);
        c.in[3] = op_ints(2, size);
        assert_ok(op_run(&c), &c.err);
        op_clear(&c);
    }
}

/* tests/conformance/acceptance.py recorded which of the splits in `cases` TensorFlow accepts. */
static void ragged_splits_are_looked_at_only_where_rows_go(void **state)
{
    (void)state;
    static const struct {
        int64_t n, splits[3], shape[2];
        bool right;
    } cases[] = {{1, {5}, {-1, -1}, true},
                 {3, {1, 1, 1}, {-1, -1}, true},
                 {3, {0, 2, 1}, {2, 0}, true},
                 {1, {5}, {1, 1}, false},
                 {1, {0}, {1, 1}, true},
                 {3, {0, 2, 1}, {-1, -1}, false},
                 {3, {7, 7, 7}, {-1, 1}, false},
                 {2, {INT64_MIN, INT64_MAX}, {-1, -1}, false},
                 {2, {INT64_MAX, INT64_MIN}, {-1, -1}, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct op_call c = {.op = "RaggedTensorToTensor",
                            .attrs =
                                "T=float Tindex=int64 Tshape=int64 num_row_partition_tensors=1 "
                                "row_partition_types=['ROW_SPLITS']",
                            .n_in = 4,
                            .n_out = 1};
        c.in[0] = op_tensor(RT_I64, 1, (int64_t[]){2}, cases[i].shape);
        c.in[1] = op_floats(3, (float[]){1, 2, 3});
        c.in[2] = op_tensor(RT_F32, 0, NULL, &(float){9});
        c.in[3] = op_tensor(RT_I64, 1, &cases[i].n, cases[i].splits);
        if ((op_run(&c) == RT_OK) != cases[i].right)
            fail_msg("case %zu: %s", i, rt_error_text(&c.err));
        op_clear(&c);
    }
}

/* Without oneDNN, TensorFlow returns zeros for a filter without rows or columns, because each
 * output is the sum of no terms. */
static void a_depthwise_filter_without_taps_gives_zeros(void **state)
{
    (void)state;
    static const struct {
        const char *padding;
        int64_t filter[4], want[4];
    } cases[] = {
        {"SAME", {0, 3, 16, 1}, {1, 4, 4, 16}},  {"VALID", {0, 3, 16, 1}, {1, 5, 2, 16}},
        {"SAME", {3, 0, 16, 1}, {1, 4, 4, 16}},  {"VALID", {3, 0, 16, 1}, {1, 2, 5, 16}},
        {"VALID", {0, 0, 16, 2}, {1, 5, 5, 32}}, {"SAME", {3, 3, 16, 0}, {1, 4, 4, 0}},
    };
    static const enum rt_dtype dtypes[] = {RT_F32, RT_F64, RT_F16};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
            char attrs[96];
            snprintf(attrs, sizeof attrs, "T=%s strides=[1,1,1,1] padding='%s'",
                     rt_dtype_name(dtypes[k]), cases[i].padding);
            struct op_call c = {
                .op = "DepthwiseConv2dNative", .attrs = attrs, .n_in = 2, .n_out = 1};
            c.in[0] = op_tensor(dtypes[k], 4, (int64_t[]){1, 4, 4, 16}, NULL);
            /* In every type, an element whose bytes are all 0x3c is a finite number. */
            memset(c.in[0].data, 0x3c, rt_tensor_bytes(&c.in[0]));
            c.in[1] = op_tensor(dtypes[k], 4, cases[i].filter, NULL);
            assert_ok(op_run(&c), &c.err);
            assert_int_equal(c.out[0].rank, 4);
            for (int d = 0; d < 4; d++)
                assert_int_equal(c.out[0].dim[d], cases[i].want[d]);
            const char *bytes = c.out[0].data;
            for (size_t b = 0; b < rt_tensor_bytes(&c.out[0]); b++)
                assert_int_equal(bytes[b], 0);
            op_clear(&c);
        }
    /* Conv2D refuses an empty filter, as TensorFlow's Conv2D does. */
    struct op_call plain = {
        .op = "Conv2D", .attrs = "T=float strides=[1,1,1,1] padding='SAME'", .n_in = 2, .n_out = 1};
    plain.in[0] = op_tensor(RT_F32, 4, (int64_t[]){1, 4, 4, 2}, NULL);
    plain.in[1] = op_tensor(RT_F32, 4, (int64_t[]){0, 3, 2, 1}, NULL);
    assert_fails(op_run(&plain), RT_INVALID_ARGUMENT, &plain.err,
                 "filter must not have zero elements");
    op_clear(&plain);
}

/* A graph with one placeholder "x". It can be run node by node or compiled. */
struct small_graph {
    struct rt_bytes bytes;
    struct rt_registry *ops;
    struct rt_error err;
};

static void graph_begin(struct small_graph *g)
{
    *g = (struct small_graph){.ops = rt_registry_new()};
    assert_true(g->ops && kn_register(g->ops));
    rt_bytes_init(&g->bytes, 1 << 16);
}

static void graph_end(struct small_graph *g)
{
    rt_registry_free(g->ops);
    rt_bytes_clear(&g->bytes);
}

static enum rt_status graph_import(struct small_graph *g)
{
    struct rt_library *l = NULL;
    const enum rt_status st = rt_library_import(&l, gd_span(&g->bytes), g->ops, &g->err);
    rt_library_free(l);
    return st;
}

static enum rt_status graph_run(struct small_graph *g, bool compiles, const struct rt_tensor *x,
                                const char *fetch, const char *target)
{
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_callable *call = NULL;
    struct rt_tensor out = {0};
    const struct rt_session_options options = {
        .registry = g->ops, .compiles_inline = compiles, .tuning = {.no_specialise = !compiles}};
    const struct rt_call_spec spec = {.feeds = (const char *[]){"x:0"},
                                      .fetches = &fetch,
                                      .targets = &target,
                                      .n_feeds = 1,
                                      .n_fetches = fetch != NULL,
                                      .n_targets = target != NULL};
    assert_ok(rt_library_import(&l, gd_span(&g->bytes), g->ops, &g->err), &g->err);
    assert_ok(rt_session_new(&s, l, &options, &g->err), &g->err);
    enum rt_status st = rt_session_prepare(s, &spec, &call, &g->err);
    for (int i = 0; i < 2 && !st; i++) {
        rt_tensor_clear(&out);
        st = rt_callable_run(call, x, &out, NULL, &g->err);
    }
    rt_tensor_clear(&out);
    rt_session_free(s);
    return st;
}

/* An Unpack without outputs can run only as the target of a call. */
static void unpack_into_nothing_is_the_same_in_both_tiers(void **state)
{
    (void)state;
    static const struct {
        int64_t dim[2];
        const char *attrs;
        bool right;
    } cases[] = {{{0, 2}, "T=float num=0 axis=0", true},
                 {{2, 0}, "T=float num=0 axis=1", true},
                 {{1, 2}, "T=float num=0 axis=0", false},
                 {{2, 2}, "T=float num=0 axis=5", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int compiles = 0; compiles < 2; compiles++) {
            struct small_graph g;
            graph_begin(&g);
            gd_node(&g.bytes, "x", "Placeholder", "", "dtype=float shape=<?>");
            gd_node(&g.bytes, "u", "Unpack", "x", cases[i].attrs);
            struct rt_tensor x = op_tensor(RT_F32, 2, cases[i].dim, NULL);
            const enum rt_status st = graph_run(&g, compiles, &x, NULL, "u");
            if (st != (cases[i].right ? RT_OK : RT_INVALID_ARGUMENT))
                fail_msg("case %zu, compiled %d: %s", i, compiles, rt_error_text(&g.err));
            rt_tensor_clear(&x);
            graph_end(&g);
        }
}

static void array_indices_and_stack_sizes_are_scalars(void **state)
{
    (void)state;
    static const char *const ways[] = {"written:0", "read:0", "stack:0"};
    static const char *const words[] = {"TensorArray index must be scalar, but had shape: [",
                                        "TensorArray index must be scalar, but had shape: [",
                                        "Stack size must be a scalar, but had shape: ["};
    for (int way = 0; way < 3; way++)
        for (int64_t n = -1; n <= 2; n++) {
            struct small_graph g;
            graph_begin(&g);
            gd_node(&g.bytes, "x", "Placeholder", "", "dtype=int32 shape=<?>");
            gd_node(&g.bytes, "size", "Const", "", "dtype=int32 value=int32<>:3");
            gd_node(&g.bytes, "one", "Const", "", "dtype=int32 value=int32<>:1");
            gd_node(&g.bytes, "v", "Const", "", "dtype=float value=float<2>:1,2");
            gd_node(&g.bytes, "a", "TensorArrayV3", "size", "dtype=float");
            gd_node(&g.bytes, "written", "TensorArrayWriteV3", "a x v a:1", "T=float");
            gd_node(&g.bytes, "first", "TensorArrayWriteV3", "a one v a:1", "T=float");
            gd_node(&g.bytes, "read", "TensorArrayReadV3", "a x first", "dtype=float");
            gd_node(&g.bytes, "handle", "StackV2", "x", "elem_type=float");
            gd_node(&g.bytes, "stack", "StackPushV2", "handle v", "T=float");
            static const int32_t ones[2] = {1, 1};
            struct rt_tensor x = op_tensor(RT_I32, n < 0 ? 0 : 1, &n, ones);
            if (n < 0)
                assert_ok(graph_run(&g, false, &x, ways[way], NULL), &g.err);
            else
                assert_fails(graph_run(&g, false, &x, ways[way], NULL), RT_INVALID_ARGUMENT, &g.err,
                             words[way]);
            rt_tensor_clear(&x);
            graph_end(&g);
        }
}

static void attributes_hold_no_shape_beyond_int64(void **state)
{
    (void)state;
    static const char *const shapes[] = {"<1099511627776,1099511627776>", "<4611686018427387904,2>",
                                         "<2147483648,2147483648,2>"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int list = 0; list < 2; list++) {
            struct small_graph g;
            char attrs[160], words[160];
            graph_begin(&g);
            snprintf(attrs, sizeof attrs,
                     list ? "component_types=[float] shapes=[%s]" : "dtype=float shape=%s",
                     shapes[i]);
            gd_node(&g.bytes, "x", list ? "FIFOQueueV2" : "Placeholder", "", attrs);
            snprintf(words, sizeof words, "Shape [%.*s] is too large (more than 2**63 - 1 entries)",
                     (int)strlen(shapes[i]) - 2, shapes[i] + 1);
            assert_fails(graph_import(&g), RT_INVALID_ARGUMENT, &g.err, words);
            graph_end(&g);
        }
}

static void checkpoints_of_nothing_are_not_merged(void **state)
{
    (void)state;
    static const char *const prefixes[] = {"dtype=string value=string<0>:",
                                           "dtype=string value=string<1>:none"};
    for (size_t i = 0; i < 2; i++) {
        struct small_graph g;
        graph_begin(&g);
        gd_node(&g.bytes, "x", "Placeholder", "", "dtype=int32 shape=<?>");
        gd_node(&g.bytes, "from", "Const", "", prefixes[i]);
        gd_node(&g.bytes, "to", "Const", "", "dtype=string value=string<>:nowhere");
        gd_node(&g.bytes, "merge", "MergeV2Checkpoints", "from to",
                "delete_old_dirs=false allow_missing_files=true");
        struct rt_tensor x = op_int(1);
        assert_fails(graph_run(&g, false, &x, NULL, "merge"), RT_INVALID_ARGUMENT, &g.err,
                     "At least one prefix checkpoint file must exist, but none existed.");
        rt_tensor_clear(&x);
        graph_end(&g);
    }
}

static void a_table_of_values_of_unknown_shape_holds_scalars(void **state)
{
    (void)state;
    static const char *const values[] = {"dtype=float value=float<1>:2",
                                         "dtype=float value=float<1,1>:2"};
    for (size_t i = 0; i < 2; i++) {
        struct small_graph g;
        graph_begin(&g);
        gd_node(&g.bytes, "x", "Placeholder", "", "dtype=int32 shape=<?>");
        gd_node(&g.bytes, "empty", "Const", "", "dtype=int64 value=int64<>:0");
        gd_node(&g.bytes, "deleted", "Const", "", "dtype=int64 value=int64<>:-1");
        gd_node(&g.bytes, "keys", "Const", "", "dtype=int64 value=int64<1>:1");
        gd_node(&g.bytes, "values", "Const", "", values[i]);
        gd_node(&g.bytes, "table", "MutableDenseHashTableV2", "empty deleted",
                "key_dtype=int64 value_dtype=float value_shape=<?> initial_num_buckets=8 "
                "max_load_factor=0.8f");
        gd_node(&g.bytes, "insert", "LookupTableInsertV2", "table keys values",
                "Tin=int64 Tout=float");
        struct rt_tensor x = op_int(1);
        const enum rt_status st = graph_run(&g, false, &x, NULL, "insert");
        if (i == 0)
            assert_ok(st, &g.err);
        else
            assert_fails(st, RT_INVALID_ARGUMENT, &g.err, "Expected shape [1] for value");
        rt_tensor_clear(&x);
        graph_end(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_is_defined_everywhere),
        cmocka_unit_test(bitcast_of_an_unknown_type_is_not_divided_by),
        cmocka_unit_test(gather_refuses_an_axis_at_the_end_of_int64),
        cmocka_unit_test(a_scalar_is_read_only_from_one_number),
        cmocka_unit_test(combined_suppression_takes_scalars_only),
        cmocka_unit_test(what_tensorflow_refuses_is_refused),
        cmocka_unit_test(a_crop_without_a_position_lies_outside),
        cmocka_unit_test(enormous_shapes_without_elements_are_survived),
        cmocka_unit_test(products_of_attributes_and_dimensions_are_checked),
        cmocka_unit_test(a_crop_of_many_rows_reads_none_behind_the_last),
        cmocka_unit_test(ragged_splits_are_looked_at_only_where_rows_go),
        cmocka_unit_test(a_depthwise_filter_without_taps_gives_zeros),
        cmocka_unit_test(unpack_into_nothing_is_the_same_in_both_tiers),
        cmocka_unit_test(array_indices_and_stack_sizes_are_scalars),
        cmocka_unit_test(attributes_hold_no_shape_beyond_int64),
        cmocka_unit_test(checkpoints_of_nothing_are_not_merged),
        cmocka_unit_test(a_table_of_values_of_unknown_shape_holds_scalars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
