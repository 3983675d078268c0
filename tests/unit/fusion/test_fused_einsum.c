/*
 * Tests that a dense layer written as an Einsum becomes a MatMul (runtime/fusion/fuse_einsum.c).
 * The output is compared with that of the same graph without fusion. x is multiplied by a constant
 * w of 24 numbers.
 */
#include "tests/support/test.h"

#include <math.h>

#include "tests/support/answer.h"
#include "tests/support/registry.h"

static struct rt_error err;

struct form {
    const char *equation, *w, *bias; /* `w` and `bias` are the shapes of these tensors */
    /* Number of nodes that a fused run executes, including views. The bias is part of the MatMul's
     * epilogue and is not counted. */
    int nodes;
};
static const struct form forms[] = {
    {"abc,cd->abd", "4,6", "6", 1},
    {"abc,cde->abde", "4,2,3", "2,3", 2},
    {"XYz,zQRs->XYQRs", "4,3,1,2", "3,1,2", 2},
    {"abc,bcd->ad", "2,4,3", "3", 2},
    {"abc,bcde->ade", "2,4,1,3", "1,3", 3},
};
enum { FORMS = sizeof forms / sizeof *forms };

static void write(struct rt_bytes *g, const struct form *f)
{
    char text[512];
    rt_bytes_init(g, 1 << 16);
    gd_node(g, "x", "Placeholder", "", "dtype=float");
    snprintf(text, sizeof text,
             "dtype=float value=float<%s>:1,2,3,4,5,6,-1,0,2,1,-3,2,0.5,1,1,1,2,2,3,1,0,0,1,-1",
             f->w);
    gd_node(g, "w", "Const", "", text);
    int64_t n = 1;
    for (const char *p = f->bias; *p; p++)
        n *= *p == ',' ? 1 : *p - '0';
    const char *values = n == 2   ? "0.5,-3"
                         : n == 3 ? "0.5,1,-2"
                         : n == 4 ? "1,2,3,4"
                                  : "0.5,1,-2,3,0,7";
    snprintf(text, sizeof text, "dtype=float value=float<%s>:%s", f->bias, values);
    gd_node(g, "b", "Const", "", text);
    snprintf(text, sizeof text, "N=2 T=float equation='%s'", f->equation);
    gd_node(g, "e", "Einsum", "x w", text);
    gd_node(g, "y", "AddV2", "e b", "T=float");
}

static struct rt_tensor numbers(int rank, const int64_t *dim)
{
    struct rt_tensor x;
    assert_ok(rt_tensor_new(&x, NULL, RT_F32, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&x); i++)
        ((float *)x.data)[i] = (float)(i * 7 % 11) - 5;
    return x;
}

/* Compares the runs with and without fusion. The fused run must run `want` nodes (0 means any
 * number). Returns false if both runs are refused. */
static bool compare(const struct form *f, int rank, const int64_t *dim, const char *also,
                    int64_t want)
{
    struct rt_tensor x = numbers(rank, dim);
    struct rt_bytes g;
    write(&g, f);
    const struct question q = {.graph = &g, .also = also, .no_specialise = true};
    const int64_t nodes = answer_both(&q, &x, 1e-6f);
    if (nodes >= 0 && want)
        assert_int_equal(nodes, want);
    rt_tensor_clear(&x);
    rt_bytes_clear(&g);
    return nodes >= 0;
}

static void a_dense_layer_is_a_matmul(void **state)
{
    (void)state;
    static const int64_t dims[][3] = {{3, 2, 4}, {1, 2, 4}, {0, 2, 4}};
    for (int f = 0; f < FORMS; f++)
        for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
            assert_true(compare(&forms[f], 3, dims[i], NULL, forms[f].nodes));
            assert_true(compare(&forms[f], 3, dims[i], "e:0", 0));
        }
}

static void what_is_no_dense_layer_gives_the_same(void **state)
{
    (void)state;
    static const struct form others[] = {
        {"abc,dc->abd", "6,4", "6", 0},       {"abc,cd->adb", "4,6", "2", 0},
        {"abc,bcd->bad", "2,4,3", "3", 0},    {"abc,cbd->ad", "4,2,3", "3", 0},
        {"...c,cd->...d", "4,6", "6", 0},     {"abc,acd->abd", "3,4,2", "2", 0},
        {"abc,def->abcdef", "2,3,4", "4", 0}, {"abc,cde->abed", "4,2,3", "2", 0},
    };
    static const struct form diagonal = {"abb,bbc->ac", "2,2,6", "6", 0};
    for (size_t f = 0; f < sizeof others / sizeof *others; f++)
        compare(&others[f], 3, (int64_t[]){3, 2, 4}, NULL, 0);
    compare(&diagonal, 3, (int64_t[]){3, 2, 2}, NULL, 0);
}

static void an_input_that_does_not_fit_is_refused_alike(void **state)
{
    (void)state;
    static const struct {
        int rank;
        int64_t dim[4];
    } x[] = {{3, {3, 2, 5}}, {3, {3, 4, 2}}, {2, {3, 4}},       {2, {3, 8}},
             {1, {4}},       {0, {0}},       {4, {1, 3, 2, 4}}, {4, {3, 2, 4, 1}}};
    for (int f = 0; f < FORMS; f++)
        for (size_t i = 0; i < sizeof x / sizeof *x; i++)
            assert_false(compare(&forms[f], x[i].rank, x[i].dim, NULL, 0));
}

static void its_rows_are_independent(void **state)
{
    (void)state;
    const struct rt_shape shape = {3, {-1, 2, 4}};
    for (int f = 0; f < FORMS; f++) {
        struct rt_session *s;
        struct rt_bytes g;
        write(&g, &forms[f]);
        struct rt_callable *c = answer_open(&(struct question){.graph = &g}, false, &s);
        assert_true(rt_callable_is_rowwise(c, &shape, &err));
        rt_session_free(s);
        rt_bytes_clear(&g);
    }
}

/* The weights are packed, and the packed matmul requests no scratch memory. The kernel must not add
 * an offset to the pointer to its scratch memory, which is NULL. */
static void a_packed_matmul_needs_no_memory_besides(void **state)
{
    enum { K = 64, N = 80, ROWS = 6 };
    struct rt_bytes g;
    struct answer a;
    struct rt_tensor x = numbers(3, (const int64_t[]){2, ROWS / 2, K});
    (void)state;
    rt_bytes_init(&g, 1 << 16);
    gd_node(&g, "x", "Placeholder", "", "dtype=float");
    gd_node(&g, "dims", "Const", "", "dtype=int32 value=int32<2>:80,64");
    gd_node(&g, "half", "Const", "", "dtype=float value=float<>:0.5");
    gd_node(&g, "w", "Fill", "dims half", "T=float index_type=int32");
    gd_node(&g, "y", "Einsum", "x w", "N=2 T=float equation='abc,dc->abd'");
    answer_ask(&(struct question){.graph = &g, .no_specialise = true}, &x, true, &a);
    assert_int_equal(a.status, RT_OK);
    for (int64_t i = 0; i < ROWS * N; i++) {
        float sum = 0;
        for (int64_t k = 0; k < K; k++)
            sum += ((const float *)x.data)[i / N * K + k] / 2;
        assert_true(((const float *)a.y.data)[i] == sum);
    }
    rt_tensor_clear(&x);
    rt_tensor_clear(&a.y);
    rt_bytes_clear(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dense_layer_is_a_matmul),
        cmocka_unit_test(what_is_no_dense_layer_gives_the_same),
        cmocka_unit_test(an_input_that_does_not_fit_is_refused_alike),
        cmocka_unit_test(its_rows_are_independent),
        cmocka_unit_test(a_packed_matmul_needs_no_memory_besides),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
