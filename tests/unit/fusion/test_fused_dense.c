/*
 * Tests that dense layers on tensors with three axes, which Keras exports as tensordot, are fused
 * into one MatMul (runtime/fusion/fuse_dense.c). The outputs of the fused graph are compared with
 * those of the same graph without fusion.
 */
#include "tests/support/test.h"

#include <math.h>

#include "tests/support/answer.h"
#include "tests/support/registry.h"

static struct rt_error err;

/* Multiplies x of shape [?,?,4] by w of shape [4,6], splits the last axis of the product into axes
 * of lengths 2 and 3, and adds a bias of shape [2,3]. */
static const struct gd_line graph[] = {
    {"x", "Placeholder", "", "dtype=float"},
    {"w", "Const", "",
     "dtype=float value=float<4,6>:1,2,3,4,5,6,-1,0,2,1,-3,2,0.5,1,1,1,2,2,3,1,0,0,1,-1"},
    {"zero", "Const", "", "dtype=int32 value=int32<>:0"},
    {"dim0", "Const", "", "dtype=int32 value=int32<1>:0"},
    {"free", "Const", "", "dtype=int32 value=int32<2>:0,1"},
    {"axes", "Const", "", "dtype=int32 value=int32<1>:2"},
    {"perm", "Const", "", "dtype=int32 value=int32<3>:0,1,2"},
    {"units", "Const", "", "dtype=int32 value=int32<1>:6"},
    {"heads", "Const", "", "dtype=int32 value=int32<4>:-1,2,2,3"},
    {"bias", "Const", "", "dtype=float value=float<2,3>:0.5,1,-2,3,0,7"},
    {"shape", "Shape", "x", "T=float out_type=int32"},
    {"g0", "GatherV2", "shape free zero", "Tparams=int32 Tindices=int32 Taxis=int32"},
    {"g1", "GatherV2", "shape axes zero", "Tparams=int32 Tindices=int32 Taxis=int32"},
    {"p0", "Prod", "g0 dim0", "T=int32 Tidx=int32"},
    {"p1", "Prod", "g1 dim0", "T=int32 Tidx=int32"},
    {"size", "Pack", "p0 p1", "N=2 T=int32"},
    {"t", "Transpose", "x perm", "T=float Tperm=int32"},
    {"flat", "Reshape", "t size", "T=float Tshape=int32"},
    {"m", "MatMul", "flat w", "T=float"},
    {"back", "ConcatV2", "g0 units zero", "N=2 T=int32 Tidx=int32"},
    {"dense", "Reshape", "m back", "T=float Tshape=int32"},
    {"split", "Reshape", "dense heads", "T=float Tshape=int32"},
    {"biased", "AddV2", "split bias", "T=float"},
    {"y", "Neg", "biased", "T=float"},
    {NULL, NULL, NULL, NULL},
};
enum { NODES = sizeof graph / sizeof *graph - 1 };

/* Writes the graph to `g`. Unless `other` is NULL, `other` replaces the node of the same name. */
static void write(struct rt_bytes *g, const struct gd_line *other)
{
    rt_bytes_init(g, 1 << 16);
    gd_lines(g, graph, other);
}

/* Compares the runs with and without fusion. At most `most` nodes of the fused graph may run. */
static void compare(const struct gd_line *other, const char *also, const int64_t *dim, int64_t most)
{
    struct rt_tensor x;
    struct rt_bytes g;
    assert_ok(rt_tensor_new(&x, NULL, RT_F32, 3, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&x); i++)
        ((float *)x.data)[i] = (float)(i * 7 % 11) - 5;
    write(&g, other);
    const struct question q = {.graph = &g, .also = also, .no_specialise = true};
    const int64_t nodes = answer_both(&q, &x, 1e-6f);
    if (nodes > most)
        fail_msg("%s: %lld nodes", other ? other->name : "unchanged", (long long)nodes);
    rt_tensor_clear(&x);
    rt_bytes_clear(&g);
}

static void a_matmul_on_three_axes_is_one_node(void **state)
{
    (void)state;
    static const int64_t dims[][3] = {{3, 2, 4}, {1, 4, 4}, {0, 2, 4}, {2, 0, 4}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        compare(NULL, NULL, dims[i], 4);
        compare(NULL, "dense:0", dims[i], 4);
        compare(NULL, "m:0", dims[i], NODES);
        compare(NULL, "split:0", dims[i], NODES);
        compare(NULL, "size:0", dims[i], NODES);
    }
}

static void what_is_written_otherwise_gives_the_same(void **state)
{
    (void)state;
    static const struct gd_line others[] = {
        {"perm", "Const", "", "dtype=int32 value=int32<3>:1,0,2"},
        {"free", "Const", "", "dtype=int32 value=int32<2>:1,0"},
        {"free", "Const", "", "dtype=int32 value=int32<1>:0"},
        {"axes", "Const", "", "dtype=int32 value=int32<1>:1"},
        {"units", "Const", "", "dtype=int32 value=int32<1>:3"},
        {"units", "Const", "", "dtype=int32 value=int32<2>:3,2"},
        {"units", "Const", "", "dtype=int32 value=int32<1>:-1"},
        {"w", "Const", "", "dtype=float value=float<4,3>:1,2,3,4,5,6,-1,0,2,1,-3,2"},
        {"w", "Const", "",
         "dtype=float value=float<6,4>:1,2,3,4,5,6,-1,0,2,1,-3,2,0.5,1,1,1,2,2,3,1,0,0,1,-1"},
        {"m", "MatMul", "flat w", "T=float transpose_b=true"},
        {"size", "Pack", "p1 p0", "N=2 T=int32"},
        {"p0", "Prod", "g0 dim0", "T=int32 Tidx=int32 keep_dims=true"},
        {"back", "ConcatV2", "units g0 zero", "N=2 T=int32 Tidx=int32"},
        {"heads", "Const", "", "dtype=int32 value=int32<4>:-1,1,3,2"},
        {"heads", "Const", "", "dtype=int32 value=int32<3>:-1,2,3"},
        {"heads", "Const", "", "dtype=int32 value=int32<4>:1,-1,2,3"},
        {"bias", "Const", "", "dtype=float value=float<3>:0.5,1,-2"},
        {"bias", "Const", "", "dtype=float value=float<>:0.5"},
        {"bias", "Const", "", "dtype=float value=float<2,1>:0.5,1"},
        {"bias", "Const", "", "dtype=float value=float<1,2,3>:0.5,1,-2,3,0,7"},
        {"biased", "AddV2", "bias split", "T=float"},
        {"biased", "Mul", "split bias", "T=float"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        compare(&others[i], NULL, (int64_t[]){3, 2, 4}, NODES);
        compare(&others[i], NULL, (int64_t[]){4, 2, 4}, NODES);
    }
}

static void an_input_of_another_rank_is_refused_alike(void **state)
{
    (void)state;
    static const int64_t dims[][4] = {{3, 4}, {5, 3, 2, 4}, {4}};
    static const int ranks[] = {2, 4, 1};
    for (int i = 0; i < 3; i++) {
        struct rt_tensor x;
        struct rt_bytes g;
        assert_ok(rt_tensor_new(&x, NULL, RT_F32, ranks[i], dims[i], &err), &err);
        memset(x.data, 0, rt_tensor_bytes(&x));
        write(&g, NULL);
        const struct question q = {.graph = &g, .no_specialise = true};
        assert_int_equal(answer_both(&q, &x, 0), -1);
        rt_tensor_clear(&x);
        rt_bytes_clear(&g);
    }
}

static void its_rows_are_independent(void **state)
{
    (void)state;
    const struct rt_shape shape = {3, {-1, 2, 4}};
    for (int fused = 0; fused < 2; fused++) {
        struct rt_session *s;
        struct rt_bytes g;
        write(&g, NULL);
        const struct question q = {.graph = &g, .no_specialise = true};
        struct rt_callable *c = answer_open(&q, !fused, &s);
        assert_int_equal(rt_callable_is_rowwise(c, &shape, &err), fused);
        rt_session_free(s);
        rt_bytes_clear(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_matmul_on_three_axes_is_one_node),
        cmocka_unit_test(what_is_written_otherwise_gives_the_same),
        cmocka_unit_test(an_input_of_another_rank_is_refused_alike),
        cmocka_unit_test(its_rows_are_independent),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
