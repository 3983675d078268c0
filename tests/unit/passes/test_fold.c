/* Tests constant folding (runtime/passes/constant_evaluation.c). Folding must do little work while
 * a plan is made. Nodes whose evaluation exceeds the limits on time and memory must be computed in
 * each run instead. */
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/session/session_internal.h"
#include "tests/support/small_graph.h"

/* Adds nodes that compute an image of n x n ones. */
static void ones(struct small_graph *x, const char *name, int n)
{
    char dims[50], value[50], attrs[80], inputs[120];
    snprintf(dims, sizeof dims, "%s_dims", name);
    snprintf(value, sizeof value, "%s_one", name);
    snprintf(inputs, sizeof inputs, "%s %s", dims, value);
    snprintf(attrs, sizeof attrs, "dtype=int32 value=int32<4>:1,%d,%d,1", n, n);
    sg_node(x, dims, "Const", "", attrs);
    sg_constant(x, value, "", "1");
    sg_node(x, name, "Fill", inputs, "T=float index_type=int32");
}

static void dilation(struct small_graph *x, int n_image, int n_filter)
{
    char attrs[80];
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    ones(x, "image", n_image);
    ones(x, "ones", n_filter);
    snprintf(attrs, sizeof attrs, "dtype=int32 value=int32<3>:%d,%d,1", n_filter, n_filter);
    sg_node(x, "shape", "Const", "", attrs);
    sg_node(x, "filter", "Reshape", "ones shape", "T=float Tshape=int32");
    sg_node(x, "dilated", "Dilation2D", "image filter",
            "T=float strides=[1,1,1,1] rates=[1,1,1,1] padding='SAME'");
    sg_node(x, "y", "AddV2", "x dilated", "T=float");
}

static void small_work_is_folded(void **state)
{
    struct small_graph *x = *state;
    dilation(x, 64, 3);
    assert_int_equal(sg_count(x, "y", NULL, "Dilation2D"), 0);
    assert_int_equal(sg_count(x, "y", NULL, "Fill"), 0);
}

static void work_that_takes_long_is_left_to_the_runs(void **state)
{
    struct small_graph *x = *state;
    dilation(x, 1000, 1000);
    const int64_t begin = rt_thread_cpu_ns();
    assert_int_equal(sg_count(x, "y", NULL, "Dilation2D"), 1);
    assert_int_equal(sg_count(x, "y", NULL, "Fill"), 0);
    const double took = (double)(rt_thread_cpu_ns() - begin) / 1e9;
    print_message("%.2f s\n", took);
    assert_true(took < 4);
    assert_true(atomic_load(&x->session->fold_ns) > 0);
}

static void the_memory_of_what_is_folded_is_bounded(void **state)
{
    struct small_graph *x = *state;
    enum { N = 80 };
    char name[20], inputs[20 * N] = "", attrs[30];
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    for (int i = 0; i < N; i++) { /* each image takes 16 MiB */
        snprintf(name, sizeof name, "f%d", i);
        ones(x, name, 2048);
        snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), "%s%s", i ? " " : "",
                 name);
    }
    snprintf(attrs, sizeof attrs, "N=%d T=float", N);
    sg_node(x, "sum", "AddN", inputs, attrs);
    sg_node(x, "y", "AddV2", "x sum", "T=float");
    const int n = sg_count(x, "y", NULL, "Fill");
    print_message("%d of %d are left\n", n, N);
    assert_in_range(n, 1, N - 1);
    assert_in_range(rt_pool_in_use(x->session->folded.pool), 1, 1 << 30);
}

static void a_fold_has_the_bits_of_a_run(void **state)
{
    struct small_graph *x = *state;
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    sg_constant(x, "small", "", "1e-30");
    sg_constant(x, "smaller", "", "1e-9");
    sg_constant(x, "much", "", "1e30");
    sg_node(x, "folded", "Mul", "small smaller", "T=float");
    sg_node(x, "run", "Mul", "x smaller", "T=float");
    sg_node(x, "both", "Add", "folded run", "T=float");
    sg_node(x, "y", "Mul", "folded much", "T=float");
    sg_node(x, "z", "Mul", "run much", "T=float");
    /* Subnormal products must be flushed to zero. */
    assert_true(sg_number(x, 1e-30F, "z", NULL) == 0);
    assert_true(sg_number(x, 1e-30F, "y", NULL) == 0);
    assert_true(sg_number(x, 1e-30F, "both", NULL) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(small_work_is_folded, sg_set_up, sg_tear_down),
        cmocka_unit_test_setup_teardown(work_that_takes_long_is_left_to_the_runs, sg_set_up,
                                        sg_tear_down),
        cmocka_unit_test_setup_teardown(the_memory_of_what_is_folded_is_bounded, sg_set_up,
                                        sg_tear_down),
        cmocka_unit_test_setup_teardown(a_fold_has_the_bits_of_a_run, sg_set_up, sg_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
