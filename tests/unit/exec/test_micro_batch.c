/* Compares batches that run in micro-batches of a few rows (runtime/compile/micro_batch.c) with the
 * same batches run node by node. */
#include "tests/support/tiers.h"

enum { SIDE = 64, CHANNELS = 16 }; /* each row of the feed takes 256 KiB */

static void open_sessions(struct tiers *x, const char *const *fetches, int n)
{
    tiers_open(x, "x", fetches, n);
}

static void pools(struct tiers *x)
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

/* Runs `rows` images in both sessions and compares the outputs. Returns the number of
 * specialisations afterwards. */
static int compare(struct tiers *x, int64_t rows, int64_t side)
{
    struct rt_tensor t = image(rows, side);
    tiers_compare(x, &t);
    rt_tensor_clear(&t);
    return tiers_specialisations(x);
}

static void many_rows_are_run_in_micro_batches_to_the_same_bits(void **state)
{
    struct tiers *x = *state;
    pools(x);
    open_sessions(x, (const char *const[]){"y", "b"}, 2);
    assert_int_equal(compare(x, 2, SIDE), 1);
    assert_int_equal(compare(x, 160, SIDE), 3);
    assert_true(rt_callable_is_compiled(x->call[1], 160));
    compare(x, 131, SIDE);
    compare(x, 160, SIDE);
    compare(x, 3, SIDE);
    compare(x, 4, 256);
}

static void a_row_may_be_a_micro_batch(void **state)
{
    struct tiers *x = *state;
    pools(x);
    open_sessions(x, (const char *const[]){"y"}, 1);
    assert_int_equal(compare(x, 2, 512), 2);
    assert_int_equal(compare(x, 1, 512), 2);
}

static void rows_that_depend_on_others_stay_together(void **state)
{
    struct tiers *x = *state;
    pools(x);
    gd_node(&x->g, "r", "ReverseV2", "y zero", "T=float Tidx=int32");
    open_sessions(x, (const char *const[]){"r"}, 1);
    assert_int_equal(compare(x, 160, SIDE), 1);
}

static void what_is_fetched_as_it_was_fed_keeps_rows_together(void **state)
{
    struct tiers *x = *state;
    pools(x);
    open_sessions(x, (const char *const[]){"y", "x"}, 2);
    assert_int_equal(compare(x, 160, SIDE), 1);
}

static void a_deadline_ends_a_run_in_micro_batches(void **state)
{
    struct tiers *x = *state;
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
        cmocka_unit_test_setup_teardown(many_rows_are_run_in_micro_batches_to_the_same_bits,
                                        tiers_set_up, tiers_tear_down),
        cmocka_unit_test_setup_teardown(a_row_may_be_a_micro_batch, tiers_set_up, tiers_tear_down),
        cmocka_unit_test_setup_teardown(rows_that_depend_on_others_stay_together, tiers_set_up,
                                        tiers_tear_down),
        cmocka_unit_test_setup_teardown(what_is_fetched_as_it_was_fed_keeps_rows_together,
                                        tiers_set_up, tiers_tear_down),
        cmocka_unit_test_setup_teardown(a_deadline_ends_a_run_in_micro_batches, tiers_set_up,
                                        tiers_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
