/* Tests that loops of TensorFlow 1 become While nodes with subgraphs
 * (runtime/passes/functionalise_loop.c). No frame is left in the plan, and the outputs are those of
 * the original graph. */
#include "tests/support/control_flow.h"

#include <math.h>

static void begin(struct small_graph *x)
{
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    sg_constant(x, "hundred", "", "100");
}

static void a_loop_becomes_one_node(void **state)
{
    struct small_graph *x = *state;
    begin(x);
    cf_loop(x, "w", "x", "hundred", "w/result");
    sg_constant(x, "two", "^w/y", "2");
    sg_node(x, "w/result", "Mul", "w/y two", "T=float");
    for (int round = 0; round < 3; round++) {
        assert_true(sg_number(x, 3, "w/exit", NULL) == 192);
        assert_true(sg_number(x, 100, "w/exit", NULL) == 100);
        assert_true(sg_number(x, 1, "w/exit", NULL) == 128);
    }
    assert_true(isnan(sg_number(x, NAN, "w/exit", NULL)));
    cf_assert_functionalised(x, "w/exit", "While", 1);
}

static void several_variables_and_several_ends(void **state)
{
    struct small_graph *x = *state;
    begin(x);
    cf_loop(x, "w", "x", "hundred", "w/result");
    sg_constant(x, "none", "", "0");
    sg_node(x, "n_enter", "Enter", "none", "T=float frame_name='w'");
    /* This Merge has the NextIteration as its first input and the Enter as its second. */
    sg_node(x, "n_merge", "Merge", "n_next n_enter", "T=float N=2");
    sg_node(x, "n_switch", "Switch", "n_merge w/cond", "T=float");
    sg_node(x, "n_exit", "Exit", "n_switch:0", "T=float");
    sg_constant(x, "one", "^w/y", "1");
    sg_node(x, "count", "Add", "n_switch:1 one", "T=float");
    sg_node(x, "n_next", "NextIteration", "count", "T=float");
    sg_node(x, "w/result", "Add", "w/y w/y", "T=float");
    sg_node(x, "both", "Add", "n_exit w/exit", "T=float");
    assert_true(sg_number(x, 3, "both", NULL) == 192 + 6);
    assert_true(sg_number(x, 3, "n_exit", NULL) == 6);
    cf_assert_functionalised(x, "both", "While", 1);
}

static void what_condition_and_body_share_is_made_in_both(void **state)
{
    struct small_graph *x = *state;
    begin(x);
    sg_node(x, "enter", "Enter", "x", "T=float frame_name='w'");
    sg_node(x, "limit", "Enter", "hundred", "T=float frame_name='w' is_constant=true");
    sg_node(x, "merge", "Merge", "enter next", "T=float N=2");
    sg_node(x, "square", "Mul", "merge merge", "T=float");
    sg_node(x, "less", "Less", "square limit", "T=float");
    sg_node(x, "cond", "LoopCond", "less", "");
    sg_node(x, "switch", "Switch", "merge cond", "T=float");
    sg_node(x, "exit", "Exit", "switch:0", "T=float");
    sg_node(x, "sum", "Add", "switch:1 square", "T=float");
    sg_node(x, "next", "NextIteration", "sum", "T=float");
    assert_true(sg_number(x, 2, "exit", NULL) == 42); /* the value is 2, 6, 42 */
    cf_assert_functionalised(x, "exit", "While", 1);
}

static void loops_nest(void **state)
{
    struct small_graph *x = *state;
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    cf_nested_loops(x, "x");
    assert_true(sg_number(x, 1, "z_exit", NULL) == 81); /* z is 12, 21, 42, 81 */
    assert_true(sg_number(x, 100, "z_exit", NULL) == 0);
    cf_assert_functionalised(x, "z_exit", "While", 2);
}

/* The pass is repeated a bounded number of times, far below the number of loops in this graph. Each
 * repetition must therefore convert all loops that it can. */
static void thousands_of_loops_in_series_are_functionalised_together(void **state)
{
    enum { LOOPS = 2000 };
    struct small_graph *x = *state;
    char start[32] = "x", node[64], in[64], attrs[64];
    begin(x);
    sg_constant(x, "one", "", "1");
    for (int k = 0; k < LOOPS; k++) {
        char p[16];
        snprintf(p, sizeof p, "w%d", k);
        snprintf(attrs, sizeof attrs, "T=float is_constant=true frame_name='%s'", p);
        snprintf(node, sizeof node, "%s/one", p);
        sg_node(x, node, "Enter", "one", attrs);
        snprintf(node, sizeof node, "%s/result", p);
        cf_loop(x, p, start, k % 2 ? start : "hundred", node);
        snprintf(in, sizeof in, "%s/y %s/one", p, p);
        sg_node(x, node, "Add", in, "T=float");
        snprintf(start, sizeof start, "%s/exit", p);
    }
    assert_true(sg_number(x, 90, start, NULL) == 100);
    cf_assert_functionalised(x, start, "While", LOOPS);
}

static void a_loop_in_a_branch_runs_where_that_is_taken(void **state)
{
    struct small_graph *x = *state;
    begin(x);
    sg_constant(x, "zero", "", "0");
    sg_node(x, "pred", "Greater", "x zero", "T=float");
    sg_node(x, "s", "Switch", "x pred", "T=float");
    sg_node(x, "most", "Switch", "hundred pred", "T=float");
    cf_loop(x, "w", "s:1", "most:1", "w/result");
    sg_node(x, "w/result", "Add", "w/y w/y", "T=float");
    sg_node(x, "else", "Neg", "s:0", "T=float");
    sg_node(x, "m", "Merge", "else w/exit", "T=float N=2");
    assert_true(sg_number(x, 3, "m", NULL) == 192);
    assert_true(sg_number(x, -3, "m", NULL) == 3);
    cf_assert_functionalised(x, "m", "While", 1);
    assert_int_equal(sg_count(x, "m", NULL, "If"), 1);
}

static void an_effect_happens_once_in_each_round(void **state)
{
    struct small_graph *x = *state;
    begin(x);
    sg_variable(x);
    cf_loop(x, "w", "x", "hundred", "w/result");
    sg_node(x, "w/v", "Enter", "v", "T=resource frame_name='w' is_constant=true");
    sg_node(x, "add", "AssignAddVariableOp", "w/v w/y", "dtype=float");
    sg_node(x, "read", "ReadVariableOp", "w/v ^add", "dtype=float");
    sg_node(x, "w/result", "Add", "read w/y", "T=float");
    sg_node(x, "value", "ReadVariableOp", "v ^w/exit", "dtype=float");
    sg_number(x, 1, NULL, "init");
    /* In successive iterations, v and y are 1 and 5, 6 and 11, 17 and 28, 45 and 73, 118 and
     * 191. */
    assert_true(sg_number(x, 5, "w/exit", NULL) == 191);
    assert_true(sg_number(x, 500, "value", NULL) == 118);
    cf_assert_functionalised(x, "value", "While", 1);
}

static void a_loop_waits_for_what_stands_before_it(void **state)
{
    struct small_graph *x = *state;
    begin(x);
    sg_variable(x);
    sg_node(x, "add", "AssignAddVariableOp", "v x", "dtype=float");
    sg_node(x, "w/v", "Enter", "v ^add", "T=resource frame_name='w' is_constant=true");
    cf_loop(x, "w", "x", "hundred", "w/result");
    sg_node(x, "read", "ReadVariableOp", "w/v ^w/y", "dtype=float");
    sg_node(x, "w/result", "Add", "read w/y", "T=float");
    sg_number(x, 40, NULL, "init");
    /* With 10 as the input, v is 50 and y becomes 10, 60 and 110. */
    assert_true(sg_number(x, 10, "w/exit", NULL) == 110);
    /* With 10 as the input, v is 60 and y becomes 10, 70 and 130. */
    assert_true(sg_number(x, 10, "w/exit", NULL) == 130);
}

static void references_enter_as_what_they_are(void **state)
{
    struct small_graph *x = *state;
    begin(x);
    sg_ref_variable(x);
    cf_loop(x, "w", "x", "hundred", "w/result");
    sg_node(x, "w/r", "RefEnter", "r", "T=float frame_name='w' is_constant=true");
    sg_node(x, "add", "AssignAdd", "w/r w/y", "T=float");
    sg_node(x, "w/result", "Add", "add w/y", "T=float");
    sg_number(x, 1, NULL, "init");
    assert_true(sg_number(x, 5, "w/exit", NULL) == 191);
    cf_assert_functionalised(x, "w/exit", "While", 1);
}

static void a_condition_must_be_a_scalar_as_before(void **state)
{
    struct small_graph *x = *state;
    struct rt_tensor t = {0};
    begin(x);
    sg_node(x, "axis", "Const", "", "dtype=int32 value=int32<>:0");
    sg_node(x, "row", "ExpandDims", "hundred axis", "T=float Tdim=int32");
    cf_loop(x, "w", "x", "row", "w/result");
    sg_node(x, "w/result", "Add", "w/y w/y", "T=float");
    assert_fails(sg_run(x, 3, "w/exit", &t), RT_INVALID_ARGUMENT, &x->err,
                 "The second input must be a scalar, but it has shape [1]");
}

/* "add" reads the value before the Switch. It therefore also runs in the last iteration, when the
 * condition is false and the body does not run. */
static void an_effect_that_does_not_wait_for_the_condition_keeps_the_frame(void **state)
{
    struct small_graph *x = *state;
    begin(x);
    sg_variable(x);
    cf_loop(x, "w", "x", "hundred", "w/result");
    sg_node(x, "w/v", "Enter", "v", "T=resource frame_name='w' is_constant=true");
    sg_node(x, "add", "AssignAddVariableOp", "w/v w/merge", "dtype=float");
    sg_node(x, "w/result", "Add", "w/y w/y ^add", "T=float");
    sg_node(x, "value", "ReadVariableOp", "v ^w/exit", "dtype=float");
    sg_number(x, 0, NULL, "init");
    sg_number(x, 30, "w/exit", NULL);
    assert_true(sg_number(x, 500, "value", NULL) >= 30 + 60 + 120);
    assert_true(sg_count(x, "w/exit", NULL, "LoopCond") > 0);
}

static void a_frame_with_two_conditions_stays(void **state)
{
    struct small_graph *x = *state;
    begin(x);
    cf_loop(x, "w", "x", "hundred", "w/result");
    sg_node(x, "w/result", "Add", "w/y w/y", "T=float");
    sg_constant(x, "none", "", "0");
    sg_node(x, "other", "LoopCond", "w/less", "");
    cf_loop_variable(x, "w", "n", "none", "other", "count");
    sg_node(x, "count", "Add", "n_switch:1 w/y", "T=float");
    assert_true(sg_number(x, 30, "n_exit", NULL) == 90);
    assert_true(sg_count(x, "n_exit", NULL, "LoopCond") > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, sg_set_up, sg_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_loop_becomes_one_node),
        TEST(several_variables_and_several_ends),
        TEST(what_condition_and_body_share_is_made_in_both),
        TEST(loops_nest),
        TEST(thousands_of_loops_in_series_are_functionalised_together),
        TEST(a_loop_in_a_branch_runs_where_that_is_taken),
        TEST(an_effect_happens_once_in_each_round),
        TEST(a_loop_waits_for_what_stands_before_it),
        TEST(references_enter_as_what_they_are),
        TEST(a_condition_must_be_a_scalar_as_before),
        TEST(an_effect_that_does_not_wait_for_the_condition_keeps_the_frame),
        TEST(a_frame_with_two_conditions_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
