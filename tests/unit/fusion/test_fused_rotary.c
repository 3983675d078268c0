/*
 * Tests that rotary position embedding is fused into one node (runtime/fusion/fuse_rotary.c). The
 * node's outputs, in specialised runs and in runs node by node, are compared with those of the same
 * graph without fusion.
 */
#include "tests/support/test.h"

#include <math.h>

#include "tests/support/answer.h"
#include "tests/support/draw.h"
#include "tests/support/registry.h"

static struct rt_error err;

struct form {
    const char *name;
    struct gd_line nodes[20];
};
#define SUM                                                                                        \
    {"xc", "Mul", "x cos", "T=float"}, {"rs", "Mul", "r sin", "T=float"},                          \
    {                                                                                              \
        "y", "AddV2", "xc rs", "T=float"                                                           \
    }
#define SPLIT                                                                                      \
    {"p", "Split", "minus_1 x", "T=float num_split=2"},                                            \
    {                                                                                              \
        "n", "Neg", "p:1", "T=float"                                                               \
    }
#define STRIDED                                                                                    \
    {"b", "StridedSlice", "x i01 i00 i12", "T=float Index=int32 ellipsis_mask=1 end_mask=2"},      \
        {"a", "StridedSlice", "x i00 i00 i12",                                                     \
         "T=float Index=int32 ellipsis_mask=1 begin_mask=2 "                                       \
         "end_mask=2"},                                                                            \
        {"n", "Neg", "b", "T=float"},                                                              \
    {                                                                                              \
        "k", "Pack", "n a", "T=float N=2 axis=-1"                                                  \
    }
static const struct form forms[] = {
    {"HuggingFace's ESM", {SPLIT, {"r", "ConcatV2", "n p minus_1", "T=float N=2"}, SUM}},
    {"Llama by slices",
     {{"a", "StridedSlice", "x i00 i04 i11", "T=float Index=int32 ellipsis_mask=1 begin_mask=2"},
      {"b", "StridedSlice", "x i04 i00 i11", "T=float Index=int32 ellipsis_mask=1 end_mask=2"},
      {"n", "Neg", "b", "T=float"},
      {"r", "ConcatV2", "n a minus_1", "T=float N=2"},
      {"rs", "Mul", "sin r", "T=float"},
      {"xc", "Mul", "cos x", "T=float"},
      {"y", "Add", "rs xc", "T=float"}}},
    {"KerasHub",
     {SPLIT,
      {"k", "Pack", "n p", "T=float N=2 axis=-2"},
      {"s", "Shape", "x", "T=float out_type=int32"},
      {"r", "Reshape", "k s", "T=float Tshape=int32"},
      SUM}},
    {"KerasHub, of known heads",
     {SPLIT,
      {"k", "Pack", "n p", "T=float N=2 axis=-2"},
      {"s", "Shape", "x", "T=float out_type=int32"},
      {"s0", "StridedSlice", "s v0 v1 v1", "T=int32 Index=int32 shrink_axis_mask=1"},
      {"s1", "StridedSlice", "s v1 v2 v1", "T=int32 Index=int32 shrink_axis_mask=1"},
      {"t", "Pack", "s0 s1 three eight", "T=int32 N=4 axis=0"},
      {"r", "Reshape", "k t", "T=float Tshape=int32"},
      SUM}},
    {"HuggingFace's RoFormer",
     {STRIDED,
      {"s", "Shape", "x", "T=float out_type=int32"},
      {"r", "Reshape", "k s", "T=float Tshape=int32"},
      SUM}},
    {"HuggingFace's GPT-J",
     {{"b", "StridedSlice", "x i0001 i0000 i1112", "T=float Index=int32 begin_mask=7 end_mask=15"},
      {"a", "StridedSlice", "x i0000 i0000 i1112", "T=float Index=int32 begin_mask=15 end_mask=15"},
      {"n", "Neg", "b", "T=float"},
      {"k", "Pack", "n a", "T=float N=2 axis=-1"},
      {"s", "Shape", "k", "T=float out_type=int32"},
      {"s0", "StridedSlice", "s v0 v1 v1", "T=int32 Index=int32 shrink_axis_mask=1"},
      {"s1", "StridedSlice", "s v1 v2 v1", "T=int32 Index=int32 shrink_axis_mask=1"},
      {"t", "Pack", "s0 s1 three eight", "T=int32 N=4 axis=0"},
      {"r", "Reshape", "k t", "T=float Tshape=int32"},
      SUM}},
};
enum { FORMS = sizeof forms / sizeof *forms };

static void constant(struct rt_bytes *g, const char *name, const char *value)
{
    char text[64];
    snprintf(text, sizeof text, "dtype=int32 value=int32<%s", value);
    gd_node(g, name, "Const", "", text);
}

/* Writes the graph to `g`. Unless `other` is NULL, `other` replaces the node of the same name. */
static void write(struct rt_bytes *g, const struct form *f, const struct gd_line *other)
{
    static const char *const constants[][2] = {
        {"minus_1", ">:-1"},    {"three", ">:3"},        {"eight", ">:8"},
        {"v0", "1>:0"},         {"v1", "1>:1"},          {"v2", "1>:2"},
        {"i00", "2>:0,0"},      {"i01", "2>:0,1"},       {"i04", "2>:0,4"},
        {"i11", "2>:1,1"},      {"i12", "2>:1,2"},       {"i02", "2>:0,2"},
        {"zero", ">:0"},        {"i0000", "4>:0,0,0,0"}, {"i0001", "4>:0,0,0,1"},
        {"i1112", "4>:1,1,1,2"}};
    rt_bytes_init(g, 1 << 16);
    gd_node(g, "x", "Placeholder", "", "dtype=float");
    gd_node(g, "cos", "Placeholder", "", "dtype=float");
    gd_node(g, "sin", "Placeholder", "", "dtype=float");
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        constant(g, constants[i][0], constants[i][1]);
    gd_lines(g, f->nodes, other);
}

static void fill(struct rt_tensor *t, int rank, const int64_t *dim)
{
    assert_ok(rt_tensor_new(t, NULL, RT_F32, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(t); i++)
        ((float *)t->data)[i] = 2 * draw() - 1;
}

/* Asserts that the outputs have the same bits with and without fusion, because the fused kernel
 * rounds each product and sum as the separate ops do. Compares runs node by node and specialised
 * runs. Returns the number of nodes of the fused run. */
static int64_t expect_same(const struct rt_bytes *g, const struct rt_tensor in[3], const char *also)
{
    int64_t nodes = 0;
    for (int tier = 0; tier < 2; tier++)
        nodes = answer_both(&(struct question){.graph = g,
                                               .feeds = {"x:0", "cos:0", "sin:0"},
                                               .also = also,
                                               .no_specialise = tier == 0},
                            in, 0);
    return nodes;
}

struct shapes {
    int rank[3]; /* the ranks of x, cos and sin */
    int64_t dim[3][5];
};
/* Shapes that every form of the pattern accepts. x has the shape [batch, time, heads, 8], with 3
 * heads. */
static const struct shapes usual[] = {
    {{4, 4, 4}, {{2, 5, 3, 8}, {1, 5, 1, 8}, {1, 5, 1, 8}}},
    {{4, 3, 2}, {{1, 1, 3, 8}, {1, 3, 8}, {3, 8}}},
    {{4, 1, 1}, {{3, 4, 3, 8}, {8}, {8}}},
    {{4, 4, 4}, {{2, 5, 3, 8}, {2, 5, 3, 8}, {2, 5, 3, 8}}},
    /* x is broadcast to the shape of cos and sin */
    {{4, 4, 4}, {{1, 5, 3, 8}, {4, 5, 3, 8}, {4, 5, 3, 8}}},
    {{4, 4, 4}, {{2, 5, 3, 8}, {1, 5, 1, 1}, {1, 5, 1, 8}}}, /* each row has a single cosine */
    {{4, 0, 4}, {{2, 5, 3, 8}, {0}, {1, 1, 1, 1}}},
    {{4, 4, 4}, {{0, 5, 3, 8}, {1, 5, 1, 8}, {1, 5, 1, 8}}},
};

static void as_exporters_write_it_is_one_node(void **state)
{
    (void)state;
    for (int i = 0; i < FORMS; i++)
        for (size_t k = 0; k < sizeof usual / sizeof *usual; k++) {
            struct rt_bytes g;
            struct rt_tensor in[3];
            write(&g, &forms[i], NULL);
            for (int j = 0; j < 3; j++)
                fill(&in[j], usual[k].rank[j], usual[k].dim[j]);
            assert_int_equal(expect_same(&g, in, NULL), 1);
            for (int j = 0; j < 3; j++)
                rt_tensor_clear(&in[j]);
            rt_bytes_clear(&g);
        }
}

/* Runs one form of the graph on an x of the given shape, with one cosine and one sine for each
 * element of a row. Returns the number of nodes of the fused run, or -1 if both runs are
 * refused. */
static int64_t ask(const struct form *f, const struct gd_line *other, const char *also, int rank,
                   const int64_t *dim)
{
    struct rt_bytes g;
    struct rt_tensor in[3];
    const int64_t *const last = &dim[rank - 1];

    write(&g, f, other);
    fill(&in[0], rank, dim);
    fill(&in[1], 1, last);
    fill(&in[2], 1, last);
    const int64_t nodes = expect_same(&g, in, also);
    for (int j = 0; j < 3; j++)
        rt_tensor_clear(&in[j]);
    rt_bytes_clear(&g);
    return nodes;
}

static void any_rank_and_length_is_right(void **state)
{
    (void)state;
    for (int i = 0; i < FORMS; i++) {
        if (strstr(forms[i].name, "known") || strstr(forms[i].name, "GPT-J"))
            continue;
        for (int64_t n = 2; n <= 130; n += n < 20 ? 2 : 54) {
            assert_int_equal(ask(&forms[i], NULL, NULL, 1, (int64_t[]){n}), 1);
            assert_int_equal(ask(&forms[i], NULL, NULL, 3, (int64_t[]){3, 7, n}), 1);
        }
    }
    /* The slices of forms[1] always split a row after its fourth element. */
    for (int64_t n = 1; n <= 11; n++)
        assert_int_equal(ask(&forms[1], NULL, NULL, 2, (int64_t[]){3, n}), 1);
}

static void what_cannot_be_halved_is_refused(void **state)
{
    (void)state;
    assert_int_equal(ask(&forms[0], NULL, NULL, 2, (int64_t[]){3, 7}), -1);
    assert_int_equal(ask(&forms[2], NULL, NULL, 2, (int64_t[]){3, 7}), -1);
    assert_int_equal(ask(&forms[4], NULL, NULL, 2, (int64_t[]){3, 7}), -1);
}

static void what_others_see_is_left_as_it_is(void **state)
{
    static const char *const seen[] = {"r:0", "n:0", "xc:0"};
    (void)state;
    for (int i = 0; i < FORMS; i++)
        for (int k = 0; k < 3; k++)
            assert_true(ask(&forms[i], NULL, seen[k], 4, (int64_t[]){2, 5, 3, 8}) > 1);
}

static void what_only_looks_like_it_gives_the_same(void **state)
{
    static const struct {
        int form;
        struct gd_line other;
    } others[] = {
        {0, {"r", "ConcatV2", "p n minus_1", "T=float N=2"}},
        {0, {"n", "Neg", "p:0", "T=float"}},
        {0, {"n", "Abs", "p:1", "T=float"}},
        {0, {"xc", "Mul", "r cos", "T=float"}},
        {0, {"y", "Sub", "xc rs", "T=float"}},
        {1,
         {"b", "StridedSlice", "x i00 i04 i11",
          "T=float Index=int32 ellipsis_mask=1 begin_mask=2"}},
        {2, {"k", "Pack", "n p", "T=float N=2 axis=-1"}},
        {3, {"t", "Pack", "s1 s0 three eight", "T=int32 N=4 axis=0"}},
        {4, {"k", "Pack", "a n", "T=float N=2 axis=-1"}},
        {4,
         {"b", "StridedSlice", "x i00 i00 i12", "T=float Index=int32 ellipsis_mask=1 end_mask=2"}},
        {4, {"k", "Pack", "n a", "T=float N=2 axis=-2"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(
            ask(&forms[others[i].form], &others[i].other, NULL, 4, (int64_t[]){5, 5, 3, 8}) != 1);
}

static void it_is_rowwise(void **state)
{
    static const struct rt_shape shapes[][3] = {
        {{4, {-1, 5, 3, 8}}, {4, {-1, 5, 1, 8}}, {4, {-1, 5, 3, 8}}},
        /* If x has only one axis, the rotation combines values of different rows. */
        {{1, {-1}}, {1, {-1}}, {1, {-1}}},
    };
    (void)state;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        struct rt_session *s;
        struct rt_bytes g;
        write(&g, &forms[0], NULL);
        struct rt_callable *c = answer_open(
            &(struct question){.graph = &g, .feeds = {"x:0", "cos:0", "sin:0"}}, false, &s);
        assert_int_equal(rt_callable_is_rowwise(c, shapes[k], &err), k == 0);
        rt_session_free(s);
        rt_bytes_clear(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_exporters_write_it_is_one_node),
        cmocka_unit_test(any_rank_and_length_is_right),
        cmocka_unit_test(what_cannot_be_halved_is_refused),
        cmocka_unit_test(what_others_see_is_left_as_it_is),
        cmocka_unit_test(what_only_looks_like_it_gives_the_same),
        cmocka_unit_test(it_is_rowwise),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
