/*
 * Tests that layer and RMS normalisation are fused into one node (runtime/fusion/fuse_norm.c), and
 * that multiplications by 1 are removed (simplify_algebra.c). Outputs are compared with those of
 * the same graph without fusion.
 */
#include "tests/support/test.h"

#include <math.h>

#include "tests/support/answer.h"
#include "tests/support/draw.h"
#include "tests/support/graph_session.h"
#include "tests/support/registry.h"

static struct rt_error err;

static const float TOLERANCE = 1e-5f;

struct form {
    const char *name;
    /* Name, op and inputs of each node. "s" is the scale and "o" the offset. */
    const char *nodes[20][3];
};
#define MOMENTS                                                                                    \
    {"mean", "Mean", "x axis"}, {"d2", "SquaredDifference", "x mean"}, {"var", "Mean", "d2 axis"}, \
    {                                                                                              \
        "ve", "AddV2", "var eps"                                                                   \
    }
#define BY_BATCH                                                                                   \
    {"dims", "Pack", "one n l one"}, {"flat", "Reshape", "x dims"}, {"count", "Pack", "n"},        \
        {"ones", "Fill", "count onef"}, {"zeros", "Fill", "count zerof"},                          \
        {"norm", "FusedBatchNormV3", "flat ones zeros empty empty"},                               \
    {                                                                                              \
        "b", "Reshape", "norm shape"                                                               \
    }
static const struct form forms[] = {
    {"Keras 3",
     {MOMENTS,
      {"r", "Rsqrt", "ve"},
      {"m", "Mul", "r s"},
      {"neg", "Neg", "mean"},
      {"nm", "Mul", "neg m"},
      {"sh", "AddV2", "nm o"},
      {"xm", "Mul", "x m"},
      {"y", "AddV2", "xm sh"}}},
    {"tf.nn",
     {MOMENTS,
      {"r", "Rsqrt", "ve"},
      {"m", "Mul", "s r"},
      {"mm", "Mul", "mean m"},
      {"sh", "Sub", "o mm"},
      {"xm", "Mul", "m x"},
      {"y", "Add", "sh xm"}}},
    {"by hand",
     {{"mean", "Mean", "x axis"},
      {"d", "Sub", "x mean"},
      {"d2", "Square", "d"},
      {"var", "Mean", "d2 axis"},
      {"ve", "AddV2", "eps var"},
      {"r", "Sqrt", "ve"},
      {"n", "RealDiv", "d r"},
      {"ns", "Mul", "s n"},
      {"y", "AddV2", "ns o"}}},
    {"without an offset",
     {MOMENTS,
      {"r", "Rsqrt", "ve"},
      {"d", "Sub", "x mean"},
      {"n", "Mul", "d r"},
      {"y", "Mul", "n s"}}},
    {"bare", {MOMENTS, {"r", "Rsqrt", "ve"}, {"d", "Sub", "x mean"}, {"y", "Mul", "r d"}}},
    {"RMS, Keras 3",
     {{"d2", "Square", "x"},
      {"var", "Mean", "d2 axis"},
      {"ve", "AddV2", "var eps"},
      {"r", "Rsqrt", "ve"},
      {"n", "Mul", "x r"},
      {"y", "Mul", "n s"}}},
    {"RMS by hand",
     {{"d2", "Mul", "x x"},
      {"var", "Mean", "d2 axis"},
      {"ve", "AddV2", "eps var"},
      {"r", "Rsqrt", "ve"},
      {"n", "Mul", "r x"},
      {"ns", "Mul", "s n"},
      {"y", "AddV2", "ns o"}}},
    {"RMS, KerasHub's Llama",
     {{"d2", "Pow", "x twof"},
      {"var", "Mean", "d2 axis"},
      {"ve", "AddV2", "var eps"},
      {"r", "Rsqrt", "ve"},
      {"n", "Mul", "x r"},
      {"y", "Mul", "n s"}}},
    {"RMS, KerasHub's Gemma",
     {{"d2", "Square", "x"},
      {"var", "Mean", "d2 axis"},
      {"ve", "AddV2", "var eps"},
      {"q", "Sqrt", "ve"},
      {"r", "Reciprocal", "q"},
      {"n", "Mul", "x r"},
      {"y", "Mul", "n s"}}},
    {"RMS, divided",
     {{"d2", "Mul", "x x"},
      {"var", "Mean", "d2 axis"},
      {"ve", "AddV2", "var eps"},
      {"r", "Sqrt", "ve"},
      {"n", "RealDiv", "x r"},
      {"y", "Mul", "s n"}}},
    {"Keras 2",
     {{"shape", "Shape", "x"},
      {"pre", "StridedSlice", "shape zeros_1 at ones_1"},
      {"post", "StridedSlice", "shape at zeros_1 ones_1"},
      {"n", "Prod", "pre zeros_1"},
      {"l", "Prod", "post zeros_1"},
      BY_BATCH,
      {"ys", "Mul", "b s"},
      {"y", "AddV2", "ys o"}}},
    {"Keras 2, bare",
     {{"shape", "Shape", "x"},
      {"pre", "StridedSlice", "shape zeros_1 at ones_1"},
      {"post", "StridedSlice", "shape at zeros_1 ones_1"},
      {"n", "Prod", "pre zeros_1"},
      {"l", "Prod", "post zeros_1"},
      BY_BATCH,
      {"y", "Identity", "b"}}},
};
enum { FORMS = sizeof forms / sizeof *forms };
/* Keras 2.3 computes the shape from the lengths of three axes. The last of these axes is
 * normalised. */
static const struct form of_three_axes = {
    "Keras 2.3",
    {{"shape", "Shape", "x"},
     {"axis0", "StridedSlice", "shape zeros_1 ones_1 ones_1"},
     {"axis1", "StridedSlice", "shape ones_1 twos_1 ones_1"},
     {"axis2", "StridedSlice", "shape twos_1 threes_1 ones_1"},
     {"int0", "Mul", "one axis0"},
     {"n", "Mul", "int0 axis1"},
     {"l", "Mul", "one axis2"},
     BY_BATCH,
     {"ys", "Mul", "b s"},
     {"y", "AddV2", "ys o"}}};

static const char *attributes_of(const char *const node[3])
{
    static const char *const table[][2] = {
        {"Mean", "T=float Tidx=int32 keep_dims=true"},
        {"Shape", "T=float out_type=int32"},
        {"Prod", "T=int32 Tidx=int32 keep_dims=false"},
        {"Fill", "T=float index_type=int32"},
        {"Reshape", "T=float Tshape=int32"},
        {"FusedBatchNormV3", "T=float U=float epsilon=0.001f data_format='NCHW' is_training=true "
                             "exponential_avg_factor=1.0f"},
    };
    if (strcmp(node[1], "StridedSlice") == 0)
        return strcmp(node[0], "pre") == 0    ? "T=int32 Index=int32 begin_mask=1"
               : strcmp(node[0], "post") == 0 ? "T=int32 Index=int32 end_mask=1"
                                              : "T=int32 Index=int32 shrink_axis_mask=1";
    if (strcmp(node[1], "Pack") == 0)
        return strcmp(node[0], "count") == 0 ? "T=int32 N=1 axis=0" : "T=int32 N=4 axis=0";
    if (strcmp(node[1], "Mul") == 0 && strcmp(node[2], "one axis0") *
                                               strcmp(node[2], "int0 axis1") *
                                               strcmp(node[2], "one axis2") ==
                                           0)
        return "T=int32";
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(node[1], table[i][0]) == 0)
            return table[i][1];
    return "T=float";
}

/* The node that replaces the node of the same name, or NULL if no node is replaced. */
static const struct gd_line *other;

static void write(struct rt_bytes *g, const struct form *f, int axis, const char *n,
                  const char *scale, const char *offset)
{
    char text[4096];
    rt_bytes_init(g, 1 << 20);
    gd_node(g, "x", "Placeholder", "", "dtype=float");
    snprintf(text, sizeof text, "dtype=int32 value=int32<1>:%d", axis);
    gd_node(g, "axis", "Const", "", text);
    gd_node(g, "eps", "Const", "", "dtype=float value=float<>:0.001");
    snprintf(text, sizeof text, "dtype=int32 value=int32<1>:%d", axis < 0 ? axis + 3 : axis);
    gd_node(g, "at", "Const", "", text);
    gd_node(g, "zeros_1", "Const", "", "dtype=int32 value=int32<1>:0");
    gd_node(g, "ones_1", "Const", "", "dtype=int32 value=int32<1>:1");
    gd_node(g, "twos_1", "Const", "", "dtype=int32 value=int32<1>:2");
    gd_node(g, "threes_1", "Const", "", "dtype=int32 value=int32<1>:3");
    gd_node(g, "one", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(g, "onef", "Const", "", "dtype=float value=float<>:1");
    gd_node(g, "twof", "Const", "", "dtype=float value=float<>:2");
    gd_node(g, "zerof", "Const", "", "dtype=float value=float<>:0");
    gd_node(g, "empty", "Const", "", "dtype=float value=float<0>:");
    snprintf(text, sizeof text, "dtype=float value=float<%s>:%s", n, scale);
    gd_node(g, "s", "Const", "", text);
    snprintf(text, sizeof text, "dtype=float value=float<%s>:%s", n, offset);
    gd_node(g, "o", "Const", "", text);
    for (int i = 0; i < 20 && f->nodes[i][0]; i++) {
        const char *const *const node = f->nodes[i];
        if (other && strcmp(other->name, node[0]) == 0)
            gd_node(g, other->name, other->op, other->inputs, other->attrs);
        else
            gd_node(g, node[0], node[1], node[2], attributes_of(node));
    }
}

static struct rt_tensor numbers(int rank, const int64_t *dim)
{
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&t); i++)
        ((float *)t.data)[i] = 2 * draw() + 3;
    return t;
}

static void compare(const struct rt_bytes *g, const struct rt_tensor *x, const char *also,
                    int64_t want_nodes)
{
    const int64_t nodes = answer_both(&(struct question){.graph = g, .also = also}, x, TOLERANCE);
    if (want_nodes)
        assert_int_equal(nodes, want_nodes);
    else
        assert_true(nodes > 1);
}

static void refused(const struct rt_bytes *g, const struct rt_tensor *x, const char *words)
{
    for (int fused = 0; fused < 2; fused++) {
        struct answer a;
        answer_ask(&(struct question){.graph = g}, x, !fused, &a);
        assert_int_equal(a.status, RT_INVALID_ARGUMENT);
        assert_non_null(strstr(a.text, words));
    }
}

static void every_way_to_write_it_is_one_node(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{2, 3, 5}, {1, 1, 5}, {0, 4, 5}, {40, 30, 5}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
            for (int axis = -1; axis <= 2; axis += 3) {
                struct rt_bytes g;
                struct rt_tensor x = numbers(3, shapes[k]);
                for (int64_t j = 0; j < rt_tensor_count(&x) && k == 3; j += 97)
                    ((float *)x.data)[j] = j % 2 ? NAN : j % 3 ? INFINITY : -1e30f;
                write(&g, &forms[i], axis, k % 2 ? "5" : "1,1,5", "1,2,-0.5,0,3", "0,-1,7,2,0.1");
                compare(&g, &x, NULL, 1);
                rt_tensor_clear(&x);
                rt_bytes_clear(&g);
            }
}

static void long_rows_and_many_are_right(void **state)
{
    (void)state;
    char scale[3000] = "", offset[3000] = "";
    for (int i = 0; i < 333; i++) {
        snprintf(scale + strlen(scale), 8, "%s%d", i ? "," : "", i % 7);
        snprintf(offset + strlen(offset), 8, "%s%d", i ? "," : "", i % 5);
    }
    struct rt_bytes g;
    struct rt_tensor x = numbers(2, (int64_t[]){2000, 333});
    write(&g, &forms[0], 1, "333", scale, offset);
    compare(&g, &x, NULL, 1);
    rt_tensor_clear(&x);
    rt_bytes_clear(&g);
}

/* Tests graphs whose normalised axis is not the last axis. Also tests graphs whose scale and offset
 * are not vectors of the normalised axis's length. */
static void odd_shapes_are_right(void **state)
{
    (void)state;
    static const struct {
        int rank, axis;
        int64_t dim[4];
        const char *n, *values;
    } cases[] = {
        {3, 1, {2, 6, 3}, "3", "1,2,3"}, {3, -3, {2, 6, 3}, "1,1,1,3", "1,2,3"},
        {2, 1, {4, 1}, "3", "1,2,3"},    {2, 1, {4, 7}, "1", "2"},
        {1, 0, {3}, "1,1,3", "1,2,3"},   {4, 2, {2, 3, 4, 3}, "3", "1,2,3"},
        {2, 0, {4, 1}, "3", "1,2,3"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            struct rt_bytes g;
            struct rt_tensor x = numbers(cases[k].rank, cases[k].dim);
            write(&g, &forms[i], cases[k].axis, cases[k].n, cases[k].values, cases[k].values);
            compare(&g, &x, NULL, 1);
            rt_tensor_clear(&x);
            rt_bytes_clear(&g);
        }
}

/* The graph reads the lengths of three axes of x. The Reshape refuses a value with fewer axes, or
 * with more elements than these lengths allow, so any additional axis must have length 1. */
static void a_value_of_other_axes_is_refused_alike(void **state)
{
    (void)state;
    static const struct {
        int rank;
        int64_t dim[4];
        bool is_right;
    } cases[] = {
        {3, {2, 3, 5}, true}, {4, {2, 3, 5, 1}, true}, {4, {2, 3, 5, 2}, false},
        {2, {6, 5}, false},   {4, {2, 0, 5, 2}, true}, {4, {2, 3, 1, 5}, false},
        {3, {1, 1, 5}, true},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct rt_tensor x = numbers(cases[k].rank, cases[k].dim);
        struct rt_bytes g;
        const bool wide = cases[k].rank == 3;
        write(&g, &of_three_axes, 2, wide ? "5" : "1", wide ? "1,2,-0.5,0,3" : "2",
              wide ? "0,-1,7,2,0.1" : "3");
        if (cases[k].is_right)
            compare(&g, &x, NULL, 1);
        else
            refused(&g, &x, "");
        rt_bytes_clear(&g);
        rt_tensor_clear(&x);
    }
}

/* Replaces one node of layer normalisation as Keras 2 exports it. The changed graph may be fused,
 * left unfused or refused, but the runs with and without fusion must agree. */
static void what_is_written_otherwise_gives_the_same(void **state)
{
    (void)state;
#define SLICE "T=int32 Index=int32 "
#define NORM  "T=float U=float epsilon=0.001f exponential_avg_factor=1.0f "
    static const struct gd_line others[] = {
        {"pre", "StridedSlice", "shape zeros_1 ones_1 ones_1", SLICE "begin_mask=1"},
        {"pre", "StridedSlice", "shape ones_1 at ones_1", SLICE},
        {"pre", "StridedSlice", "shape zeros_1 at ones_1", SLICE "end_mask=1"},
        {"pre", "StridedSlice", "shape zeros_1 at twos_1", SLICE "begin_mask=1"},
        {"post", "StridedSlice", "shape ones_1 zeros_1 ones_1", SLICE "end_mask=1"},
        {"post", "StridedSlice", "shape at threes_1 ones_1", SLICE},
        {"n", "Prod", "post zeros_1", "T=int32 Tidx=int32 keep_dims=false"},
        {"l", "Prod", "pre zeros_1", "T=int32 Tidx=int32 keep_dims=false"},
        {"l", "Sum", "post zeros_1", "T=int32 Tidx=int32 keep_dims=false"},
        {"dims", "Pack", "one l n one", "T=int32 N=4 axis=0"},
        {"dims", "Pack", "n l one one", "T=int32 N=4 axis=0"},
        {"flat", "Reshape", "x shape", "T=float Tshape=int32"},
        {"count", "Pack", "l", "T=int32 N=1 axis=0"},
        {"ones", "Fill", "count zerof", "T=float index_type=int32"},
        {"ones", "Fill", "count eps", "T=float index_type=int32"},
        {"zeros", "Fill", "count onef", "T=float index_type=int32"},
        {"norm", "FusedBatchNormV3", "flat ones zeros zeros ones",
         NORM "is_training=false data_format='NCHW'"},
        {"norm", "FusedBatchNormV3", "flat ones zeros empty empty",
         NORM "is_training=true data_format='NHWC'"},
        {"norm", "FusedBatchNormV3", "flat zeros ones empty empty",
         NORM "is_training=true data_format='NCHW'"},
        {"b", "Reshape", "norm dims", "T=float Tshape=int32"},
        {"b", "Reshape", "flat shape", "T=float Tshape=int32"},
    };
    for (size_t f = 0; f < FORMS; f++)
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            static const int64_t shapes[][3] = {{2, 3, 5}, {5, 1, 5}, {1, 1, 5}};
            if (strcmp(forms[f].name, "Keras 2") != 0)
                continue;
            for (int k = 0; k < 3; k++) {
                struct rt_tensor x = numbers(3, shapes[k]);
                struct rt_bytes g;
                other = &others[i];
                write(&g, &forms[f], 2, "5", "1,2,-0.5,0,3", "0,-1,7,2,0.1");
                other = NULL;
                answer_both(&(struct question){.graph = &g}, &x, TOLERANCE);
                rt_tensor_clear(&x);
                rt_bytes_clear(&g);
            }
        }
}

static void what_no_run_accepts_is_refused_alike(void **state)
{
    (void)state;
    struct rt_bytes g;
    struct rt_tensor x = numbers(2, (int64_t[]){4, 5});
    write(&g, &forms[1], 2, "5", "1,2,3,4,5", "1,2,3,4,5");
    refused(&g, &x, "Invalid reduction dimension (2 for input");
    rt_bytes_clear(&g);
    write(&g, &forms[1], 1, "3", "1,2,3", "1,2,3");
    refused(&g, &x, "Incompatible shapes");
    rt_bytes_clear(&g);
    rt_tensor_clear(&x);
}

static void what_is_kept_for_shapes_is_bounded(void **state)
{
    (void)state;
    const struct rt_session_options options = {.registry = test_registry, .compiles_inline = true};
    struct rt_session_stats stats;
    struct rt_bytes g;

    write(&g, &forms[4], -1, "1", "1", "1");
    assert_string_equal(forms[4].name, "bare");
    struct rt_session *s = gs_open(gd_span(&g), &options);
    struct rt_callable *c = gs_call(s, "x:0", "y:0");
    for (int64_t i = 0; i < 2000; i++) {
        const int64_t n = i % 1000 + (i % 500 == 0 ? 3000000 : 1);
        struct rt_tensor x, y;
        assert_ok(rt_tensor_new(&x, NULL, RT_F32, 2, (int64_t[]){1, n}, &err), &err);
        memset(x.data, 0, rt_tensor_bytes(&x));
        for (int again = 0; again < 2; again++) {
            assert_ok(rt_callable_run(c, &x, &y, NULL, &err), &err);
            assert_true(((float *)y.data)[n - 1] == 0);
            rt_tensor_clear(&y);
        }
        rt_tensor_clear(&x);
    }
    rt_session_stats(s, &stats);
    assert_true(stats.n_specialisations > 0 && stats.specialisation_bytes > 0);
    assert_true(stats.specialisation_bytes <= (size_t)stats.n_specialisations * 4096);
    rt_session_free(s);
    rt_bytes_clear(&g);
}

/* A resize precomputes its interpolation weights for the width of the output, up to a width of
 * 65,536. In a specialisation, the weights count as the memory of the specialisation. If the graph
 * runs node by node, the weights count against the run's limit. */
static void what_grows_with_a_shape_is_counted(void **state)
{
    (void)state;
    const int64_t dim[4] = {1, 1, 1, 1};
    size_t bytes[2];

    for (int k = 0; k < 4; k++) {
        static const char *const size[] = {"1,2", "1,40000", "1,60000", "1000000000,0"};
        const struct rt_session_options options = {.registry = test_registry,
                                                   .tuning = {.no_specialise = k > 1},
                                                   .compiles_inline = k < 2,
                                                   .run_memory_limit = k < 2    ? 0
                                                                       : k == 2 ? 512 << 10
                                                                                : 20 << 20};
        struct rt_tensor x = numbers(4, dim), y = {0};
        struct rt_session_stats stats;
        struct rt_bytes g;
        char text[80];

        rt_bytes_init(&g, 1 << 16);
        gd_node(&g, "x", "Placeholder", "", "dtype=float");
        snprintf(text, sizeof text, "dtype=int32 value=int32<2>:%s", size[k]);
        gd_node(&g, "size", "Const", "", text);
        gd_node(&g, "y", "ResizeBilinear", "x size", "T=float half_pixel_centers=true");
        struct rt_session *s = gs_open(gd_span(&g), &options);
        struct rt_callable *c = gs_call(s, "x:0", "y:0");
        for (int again = 0; again < 3; again++) {
            const enum rt_status st = rt_callable_run(c, &x, &y, NULL, &err);
            if (k < 2)
                assert_ok(st, &err);
            else if (k == 2)
                assert_int_equal(st, RT_RESOURCE_EXHAUSTED);
            rt_tensor_clear(&y);
        }
        rt_session_stats(s, &stats);
        if (k < 2)
            bytes[k] = stats.specialisation_bytes;
        rt_session_free(s);
        rt_bytes_clear(&g);
        rt_tensor_clear(&x);
    }
    assert_true(bytes[0] > 0 && bytes[0] < 8192);
    assert_true(bytes[1] > 40000 * sizeof(float));
}

static void what_others_see_is_left_as_it_is(void **state)
{
    (void)state;
    static const char *const seen[] = {"mean:0", "var:0", "xm:0", "sh:0", "r:0"};
    struct rt_tensor x = numbers(2, (int64_t[]){4, 5});
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        struct rt_bytes g;
        write(&g, &forms[0], -1, "5", "1,2,3,4,5", "1,2,3,4,5");
        compare(&g, &x, seen[i], 0);
        rt_bytes_clear(&g);
    }
    rt_tensor_clear(&x);
}

static void multiplications_by_one_are_left_out(void **state)
{
    (void)state;
    enum { LINE = 5000 };
    struct rt_bytes g;
    char name[16], in[32];
    struct rt_tensor x = numbers(2, (int64_t[]){4, 5});
    rt_bytes_init(&g, 1 << 22);
    gd_node(&g, "x", "Placeholder", "", "dtype=float");
    gd_node(&g, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&g, "ones", "Const", "", "dtype=float value=float<1,1,1>:1");
    for (int i = LINE; i > 0; i--) { /* writes each node before its input */
        snprintf(name, sizeof name, "n%d", i);
        if (i > 1)
            snprintf(in, sizeof in, i % 2 ? "n%d one" : "one n%d", i - 1);
        gd_node(&g, name, i % 3 && i % 2 ? "RealDiv" : "Mul", i > 1 ? in : "x one", "T=float");
    }
    /* A multiplication by ones is not removed if it adds an axis. */
    snprintf(in, sizeof in, "n%d ones", LINE);
    gd_node(&g, "wide", "Mul", in, "T=float");
    gd_node(&g, "y", "Neg", "wide", "T=float");
    compare(&g, &x, NULL, 1);
    compare(&g, &x, "n7:0", 0);
    rt_bytes_clear(&g);
    rt_tensor_clear(&x);
}

/* Writes a graph from "x" to "y" with the given nodes and the scalars "one", "two" and "small". */
static void write_nodes(struct rt_bytes *g, const char *const (*node)[3])
{
    rt_bytes_init(g, 1 << 16);
    gd_node(g, "x", "Placeholder", "", "dtype=float");
    gd_node(g, "axis", "Const", "", "dtype=int32 value=int32<1>:-1");
    gd_node(g, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(g, "two", "Const", "", "dtype=float value=float<>:2");
    gd_node(g, "small", "Const", "", "dtype=float value=float<>:0.25");
    for (; (*node)[0]; node++)
        gd_node(g, (*node)[0], (*node)[1], (*node)[2], attributes_of(*node));
}

static void what_only_looks_like_it_gives_the_same(void **state)
{
    (void)state;
    static const char *const graphs[][8][3] = {
        {{"n", "Mul", "x two"}, {"y", "Neg", "n"}}, /* multiplies x by a number other than 1 */
        {{"n", "RealDiv", "x two"}, {"y", "Neg", "n"}},
        {{"n", "RealDiv", "one x"}, {"y", "Neg", "n"}}, /* divides 1 by x */
        {{"e", "Exp", "x"}, /* divides a value by the root mean square of a different value */
         {"d2", "Square", "x"},
         {"var", "Mean", "d2 axis"},
         {"ve", "AddV2", "var small"},
         {"r", "Rsqrt", "ve"},
         {"y", "Mul", "e r"}},
        {{"e", "Exp", "x"}, /* takes the mean of a product of two different values */
         {"d2", "Mul", "x e"},
         {"var", "Mean", "d2 axis"},
         {"ve", "AddV2", "var small"},
         {"r", "Rsqrt", "ve"},
         {"y", "Mul", "x r"}},
        {{"e", "Exp", "x"}, /* subtracts the mean of one value from a different value */
         {"mean", "Mean", "e axis"},
         {"d", "Sub", "x mean"},
         {"d2", "SquaredDifference", "x mean"},
         {"var", "Mean", "d2 axis"},
         {"ve", "AddV2", "var small"},
         {"r", "Rsqrt", "ve"},
         {"y", "Mul", "d r"}},
    };
    struct rt_tensor x = numbers(3, (int64_t[]){2, 3, 5});

    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        const char *node[9][3] = {{NULL}};
        struct rt_bytes g;
        memcpy(node, graphs[i], sizeof graphs[i]);
        write_nodes(&g, (const char *const(*)[3])node);
        assert_true(answer_both(&(struct question){.graph = &g}, &x, TOLERANCE) > 0);
        rt_bytes_clear(&g);
    }
    rt_tensor_clear(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_write_it_is_one_node),
        cmocka_unit_test(long_rows_and_many_are_right),
        cmocka_unit_test(odd_shapes_are_right),
        cmocka_unit_test(a_value_of_other_axes_is_refused_alike),
        cmocka_unit_test(what_is_written_otherwise_gives_the_same),
        cmocka_unit_test(what_no_run_accepts_is_refused_alike),
        cmocka_unit_test(what_is_kept_for_shapes_is_bounded),
        cmocka_unit_test(what_grows_with_a_shape_is_counted),
        cmocka_unit_test(what_others_see_is_left_as_it_is),
        cmocka_unit_test(multiplications_by_one_are_left_out),
        cmocka_unit_test(what_only_looks_like_it_gives_the_same),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
