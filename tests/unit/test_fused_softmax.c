#include "tests/support/test.h"

#include <math.h>

#include "runtime/session.h"
#include "tests/support/graph_def.h"
#include "tests/support/registry.h"

/* Softmax that was written out (runtime/fuse_softmax.c), against the same graph with every node by
 * itself. */

static struct rt_error err;

/* x in, y out, and `also` unless NULL; returns how many nodes one run took. */
static int64_t run(const struct rt_bytes *g, const struct rt_tensor *x, const char *also,
                   bool no_fusion, enum rt_status want, struct rt_tensor *y)
{
    static const char *const feeds[] = {"x:0"};
    const char *fetches[] = {"y:0", also};
    const struct rt_session_options options = {.registry = test_registry,
                                               .tuning = {.no_fusion = no_fusion}};
    const struct rt_call_spec spec = {
        .feeds = feeds, .n_feeds = 1, .fetches = fetches, .n_fetches = also ? 2 : 1};
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_callable *c;
    struct rt_tensor out[2] = {{0}};
    struct rt_session_stats stats;

    assert_ok(rt_library_import(&l, gd_span(g), test_registry, &err), &err);
    assert_ok(rt_session_new(&s, l, &options, &err), &err);
    assert_ok(rt_session_prepare(s, &spec, &c, &err), &err);
    assert_int_equal(rt_callable_run(c, x, out, NULL, &err), want);
    rt_session_stats(s, &stats);
    rt_tensor_clear(&out[1]);
    *y = out[0];
    rt_session_free(s);
    return stats.nodes_run;
}

/* The pattern with what may differ in it. */
struct form {
    const char *max, *sum; /* axes: values of a Const */
    const char *keep_max, *keep_sum;
    const char *of_max, *of_sum; /* what they are of */
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

/* Returns how many nodes the fused run took. */
static int64_t expect_same(const struct rt_bytes *g, const struct rt_tensor *x, const char *also)
{
    struct rt_tensor a, b;
    const int64_t n = run(g, x, also, false, RT_OK, &a), all = run(g, x, also, true, RT_OK, &b);

    assert_true(n <= all);
    assert_int_equal(a.rank, b.rank);
    assert_memory_equal(a.dim, b.dim, (size_t)a.rank * sizeof *a.dim);
    for (int64_t i = 0; i < rt_tensor_count(&a); i++) {
        const float p = ((float *)a.data)[i], q = ((float *)b.data)[i];
        if (!(fabsf(p - q) <= 1e-6f) && !(isnan(p) && isnan(q)))
            fail_msg("element %lld: %g and %g", (long long)i, (double)p, (double)q);
    }
    rt_tensor_clear(&a);
    rt_tensor_clear(&b);
    return n;
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
    static const float odd[] = {1,         NAN, 2, INFINITY,  0,     1,      -INFINITY, -INFINITY,
                                -INFINITY, 1,   2, -INFINITY, 3e38f, -3e38f, -0.0f};
    struct rt_bytes g;
    struct rt_tensor x;
    (void)state;

    build(&g, &usual);
    fill(&x, 2, dim);
    memcpy(x.data, odd, sizeof odd);
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
        {"int32<>:-1", "int32<>:-1", "false", "true", "x",
         "e"}, /* of a square: they are broadcast */
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
    struct rt_tensor x, y;
    (void)state;

    build(&g, &usual);
    fill(&x, 0, NULL);
    run(&g, &x, NULL, false, RT_INVALID_ARGUMENT, &y);
    run(&g, &x, NULL, true, RT_INVALID_ARGUMENT, &y);
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
