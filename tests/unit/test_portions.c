/* Batches that are run a few rows at a time against the same ones node by node. */
#include "tests/support/test.h"

#include "kernels/kernels.h"
#include "runtime/session.h"
#include "tests/support/graph_def.h"

enum { SIDE = 64, CHANNELS = 16, MOST_FETCHES = 3 }; /* a row of the feed: 256 KiB */

struct fixture {
    struct rt_bytes g;
    struct rt_registry *ops;
    struct rt_session *tier[2]; /* node by node, and compiled at the first sight */
    struct rt_callable *call[2];
    int n_fetches;
    struct rt_error err;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    rt_bytes_init(&x->g, 1 << 20);
    x->ops = rt_registry_new();
    *state = x;
    return x->ops && kn_register(x->ops) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    rt_session_free(x->tier[0]);
    rt_session_free(x->tier[1]);
    rt_bytes_clear(&x->g);
    rt_registry_free(x->ops);
    free(x);
    return 0;
}

static void open_sessions(struct fixture *x, const char *const *fetches, int n)
{
    static const char *const feed = "x";
    for (int tier = 0; tier < 2; tier++) {
        struct rt_library *l = NULL;
        const struct rt_session_options options = {.registry = x->ops,
                                                   .tuning = {.no_specialise = tier == 0},
                                                   .compiles_inline = tier == 1};
        const struct rt_call_spec spec = {
            .feeds = &feed, .n_feeds = 1, .fetches = fetches, .n_fetches = n};
        assert_ok(rt_library_import(&l, gd_span(&x->g), x->ops, &x->err), &x->err);
        assert_ok(rt_session_new(&x->tier[tier], l, &options, &x->err), &x->err);
        assert_ok(rt_session_prepare(x->tier[tier], &spec, &x->call[tier], &x->err), &x->err);
    }
    x->n_fetches = n;
}

static void pools(struct fixture *x)
{
    static const char attrs[] = "T=float ksize=[1,3,3,1] strides=[1,1,1,1] padding='SAME'";
    gd_node(&x->g, "x", "Placeholder", "", "dtype=float");
    gd_node(&x->g, "space", "Const", "", "dtype=int32 value=int32<2>:1,2");
    gd_node(&x->g, "zero", "Const", "", "dtype=int32 value=int32<1>:0");
    gd_node(&x->g, "a", "MaxPool", "x", attrs);
    gd_node(&x->g, "b", "AvgPool", "a", attrs);
    gd_node(&x->g, "c", "MaxPool", "b", attrs);
    gd_node(&x->g, "y", "Mean", "c space", "T=float Tidx=int32 keep_dims=false");
}

static struct rt_tensor image(int64_t rows, int64_t side)
{
    struct rt_tensor t;
    struct rt_error err = {0};
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 4, (int64_t[]){rows, side, side, CHANNELS}, &err),
              &err);
    for (int64_t i = 0; i < rows * side * side * CHANNELS; i++)
        ((float *)t.data)[i] = (float)((i * 37 + i / 1000) % 1023) / 7 - 50;
    return t;
}

/* How many layouts there are then. */
static int compare(struct fixture *x, int64_t rows, int64_t side)
{
    struct rt_tensor t = image(rows, side), a[MOST_FETCHES], b[MOST_FETCHES];
    struct rt_session_stats stats;

    assert_ok(rt_callable_run(x->call[0], &t, a, NULL, &x->err), &x->err);
    for (int again = 0; again < 2; again++) {
        assert_ok(rt_callable_run(x->call[1], &t, b, NULL, &x->err), &x->err);
        for (int k = 0; k < x->n_fetches; k++) {
            assert_int_equal(a[k].rank, b[k].rank);
            assert_memory_equal(a[k].dim, b[k].dim, (size_t)a[k].rank * sizeof *a[k].dim);
            assert_memory_equal(a[k].data, b[k].data, rt_tensor_bytes(&a[k]));
            rt_tensor_clear(&b[k]);
        }
    }
    for (int k = 0; k < x->n_fetches; k++)
        rt_tensor_clear(&a[k]);
    rt_tensor_clear(&t);
    rt_session_stats(x->tier[1], &stats);
    return stats.n_layouts;
}

static void many_rows_are_run_in_portions_to_the_same_bits(void **state)
{
    struct fixture *x = *state;
    pools(x);
    open_sessions(x, (const char *const[]){"y", "b"}, 2);
    assert_int_equal(compare(x, 2, SIDE), 1);
    assert_int_equal(compare(x, 160, SIDE), 3); /* the whole, and that of a portion */
    assert_true(rt_callable_is_compiled(x->call[1], 160));
    compare(x, 131, SIDE); /* the last portion has fewer */
    compare(x, 160, SIDE);
    compare(x, 3, SIDE);
    compare(x, 4, 256); /* other rows of the same plan */
}

static void a_row_may_be_a_portion(void **state)
{
    struct fixture *x = *state;
    pools(x);
    open_sessions(x, (const char *const[]){"y"}, 1);
    assert_int_equal(compare(x, 2, 512), 2);
    assert_int_equal(compare(x, 1, 512), 2); /* that is the portion's layout */
}

static void rows_that_depend_on_others_stay_together(void **state)
{
    struct fixture *x = *state;
    pools(x);
    gd_node(&x->g, "r", "ReverseV2", "y zero", "T=float Tidx=int32");
    open_sessions(x, (const char *const[]){"r"}, 1);
    assert_int_equal(compare(x, 160, SIDE), 1);
}

static void what_is_fetched_as_it_was_fed_keeps_rows_together(void **state)
{
    struct fixture *x = *state;
    pools(x);
    open_sessions(x, (const char *const[]){"y", "x"}, 2);
    assert_int_equal(compare(x, 160, SIDE), 1);
}

static void a_deadline_ends_a_run_in_portions(void **state)
{
    struct fixture *x = *state;
    pools(x);
    open_sessions(x, (const char *const[]){"y"}, 1);
    struct rt_tensor t = image(160, SIDE), y;
    const struct rt_run_options late = {.deadline_ns = 1};
    for (int again = 0; again < 2; again++)
        assert_int_equal(rt_callable_run(x->call[1], &t, &y, &late, &x->err), RT_DEADLINE_EXCEEDED);
    rt_tensor_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(many_rows_are_run_in_portions_to_the_same_bits, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_row_may_be_a_portion, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_that_depend_on_others_stay_together, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_fetched_as_it_was_fed_keeps_rows_together, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_deadline_ends_a_run_in_portions, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
