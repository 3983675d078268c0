/* Tests that a softmax written as maximum, exponential, sum and quotient is fused into one node
 * (runtime/fusion/fuse_softmax.c). The output is compared with that of the graph without fusion. */
#include "tests/support/test.h"

#include <math.h>

#include "tests/support/answer.h"
#include "tests/support/registry.h"

static struct rt_error err;

/* Details in which the graphs of the tests differ. */
struct form {
    const char *max, *sum; /* axes of the maximum and of the sum, written as the value of a Const */
    const char *keep_max, *keep_sum; /* attribute keep_dims of the maximum and of the sum */
    const char *of_max, *of_sum;     /* names of the inputs of the maximum and of the sum */
};
static const struct form usual = {"int32<1>:-1", "int32<>:-1", "true", "true", "x", "e"};

static void build(struct rt_bytes *g, const struct form *f)
{
    char max[80], sum[80], a[64], b[64], of_max[64], of_sum[64];
    snprintf(a, sizeof a, "dtype=int32 value=%s", f->max);
    snprintf(b, sizeof b, "dtype=int32 value=%s", f->sum);
    snprintf(max, sizeof max, "T=float Tidx=int32 keep_dims=%s", f->keep_max);
    snprintf(sum, sizeof sum, "T=float Tidx=int32 keep_dims=%s", f->keep_sum);
    snprintf(of_max, sizeof of_max, "%s a", f->of_max);
    snprintf(of_sum, sizeof of_sum, "%s b", f->of_sum);
    rt_bytes_init(g, 1 << 16);
    gd_node(g, "x", "Placeholder", "", "dtype=float");
    gd_node(g, "a", "Const", "", a);
    gd_node(g, "b", "Const", "", b);
    gd_node(g, "m", "Max", of_max, max);
    gd_node(g, "d", "Sub", "x m", "T=float");
    gd_node(g, "e", "Exp", "d", "T=float");
    gd_node(g, "s", "Sum", of_sum, sum);
    gd_node(g, "y", "RealDiv", "e s", "T=float");
}

static void fill(struct rt_tensor *x, int rank, const int64_t *dim)
{
    assert_ok(rt_tensor_new(x, NULL, RT_F32, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(x); i++)
        ((float *)x->data)[i] = (float)(i * 37 % 23) / 4 - 2;
}

/* Asserts that fusion does not change the outputs. Returns the number of nodes of the fused run, or
 * -1 if both runs are refused. */
static int64_t expect_same(const struct rt_bytes *g, const struct rt_tensor *x, const char *also)
{
    return answer_both(&(struct question){.graph = g, .also = also}, x, 1e-6f);
}

static void written_out_it_is_one_node(void **state)
{
    static const int64_t dims[][4] = {{5}, {3, 1}, {2, 3, 17}, {2, 0, 4}, {3, 0}, {2, 2, 2, 70}};
    static const int ranks[] = {1, 2, 3, 3, 2, 4};
    struct rt_bytes g;
    (void)state;

    build(&g, &usual);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        struct rt_tensor x;
        fill(&x, ranks[i], dims[i]);
        assert_int_equal(expect_same(&g, &x, NULL), 1);
        rt_tensor_clear(&x);
    }
    rt_bytes_clear(&g);
}

static void rows_with_nan_or_infinity_are_as_before(void **state)
{
    static const int64_t dim[] = {5, 3};
    static const float special[] = {1, NAN,       2,         INFINITY,  0,
                                    1, -INFINITY, -INFINITY, -INFINITY, 1,
                                    2, -INFINITY, 3e38f,     -3e38f,    -0.0f};
    struct rt_bytes g;
    struct rt_tensor x;
    (void)state;

    build(&g, &usual);
    fill(&x, 2, dim);
    memcpy(x.data, special, sizeof special);
    assert_int_equal(expect_same(&g, &x, NULL), 1);
    rt_tensor_clear(&x);
    rt_bytes_clear(&g);
}

static void what_is_not_quite_one_stays(void **state)
{
    static const struct form forms[] = {
        {"int32<>:1", "int32<>:-1", "true", "true", "x", "e"},
        {"int32<>:-1", "int32<>:1", "true", "true", "x", "e"},
        {"int32<>:-1", "int32<2>:-1,-2", "true", "true", "x", "e"},
        {"int32<2>:0,-1", "int32<>:-1", "true", "true", "x", "e"},
        {"int32<0>:", "int32<>:-1", "true", "true", "x", "e"},
        {"int32<>:-1", "int32<>:-1", "true", "true", "x", "d"},
        /* If x is square, a maximum or a sum that does not keep the reduced axis is broadcast along
         * the wrong axis. */
        {"int32<>:-1", "int32<>:-1", "false", "true", "x", "e"},
        {"int32<>:-1", "int32<>:-1", "true", "false", "x", "e"},
    };
    static const int64_t dim[] = {4, 4};
    struct rt_tensor x;
    (void)state;

    fill(&x, 2, dim);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct rt_bytes g;
        build(&g, &forms[i]);
        assert_true(expect_same(&g, &x, NULL) > 1);
        rt_bytes_clear(&g);
    }
    rt_tensor_clear(&x);
}

static void parts_that_others_read_stay(void **state)
{
    static const int64_t dim[] = {2, 6};
    static const char *const also[] = {"m:0", "d:0", "e:0", "s:0"};
    struct rt_bytes g;
    struct rt_tensor x;
    (void)state;

    build(&g, &usual);
    fill(&x, 2, dim);
    for (size_t i = 0; i < sizeof also / sizeof *also; i++)
        assert_true(expect_same(&g, &x, also[i]) > 1);
    rt_tensor_clear(&x);
    rt_bytes_clear(&g);
}

static void scalars_are_refused(void **state)
{
    struct rt_bytes g;
    struct rt_tensor x;
    (void)state;

    build(&g, &usual);
    fill(&x, 0, NULL);
    assert_int_equal(expect_same(&g, &x, NULL), -1);
    rt_tensor_clear(&x);
    rt_bytes_clear(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_out_it_is_one_node),
        cmocka_unit_test(rows_with_nan_or_infinity_are_as_before),
        cmocka_unit_test(what_is_not_quite_one_stays),
        cmocka_unit_test(parts_that_others_read_stay),
        cmocka_unit_test(scalars_are_refused),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
