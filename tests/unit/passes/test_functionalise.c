/* Tests that branches of TensorFlow 1 become If nodes with subgraphs
 * (runtime/passes/functionalise.c). No Switch or Merge is left in the plan, and the outputs are
 * those of the original graph. */
#include "tests/support/control_flow.h"

static void a_branch_becomes_one_node(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    for (int round = 0; round < 3; round++) {
        assert_true(sg_number(x, 3, "merge", NULL) == -3);
        assert_true(sg_number(x, -3, "merge", NULL) == 7);
        assert_true(sg_number(x, 0, "merge", NULL) == 10);
    }
    cf_assert_functionalised(x, "merge", "If", 1);
}

static void which_side_it_was_is_told(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    sg_node(x, "backwards", "Merge", "then else", "T=float N=2");
    assert_true(sg_number(x, 3, "merge:1", NULL) == 1);
    assert_true(sg_number(x, -3, "merge:1", NULL) == 0);
    assert_true(sg_number(x, 3, "backwards:1", NULL) == 0);
    assert_true(sg_number(x, -3, "backwards:1", NULL) == 1);
    assert_true(sg_number(x, -3, "backwards", NULL) == 7);
    cf_assert_functionalised(x, "backwards:1", "If", 1);
}

static void what_both_sides_pass_on_needs_no_nodes_inside(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    sg_node(x, "two", "Add", "x x", "T=float");
    sg_node(x, "other", "Switch", "two pred", "T=float");
    sg_node(x, "m", "Merge", "other:0 switch:1", "T=float N=2");
    assert_true(sg_number(x, 3, "m", NULL) == 3);
    assert_true(sg_number(x, -3, "m", NULL) == -6);
    cf_assert_functionalised(x, "m", "If", 1);
}

static void branches_nest_and_follow_one_another(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    /* Adds "inner" inside the branch that is taken if x > 0. "inner" is `-x < -5 ? x * x : -x`. */
    sg_constant(x, "five", "^pivot_t", "-5");
    sg_node(x, "less", "Less", "then five", "T=float");
    sg_node(x, "in", "Switch", "then less", "T=float");
    sg_node(x, "square", "Mul", "in:1 in:1", "T=float");
    sg_node(x, "same", "Identity", "in:0", "T=float");
    sg_node(x, "inner", "Merge", "same square", "T=float N=2");
    sg_node(x, "outer", "Merge", "else inner", "T=float N=2");
    sg_node(x, "next_pred", "Greater", "outer zero", "T=float");
    sg_node(x, "s", "Switch", "outer next_pred", "T=float");
    sg_node(x, "a", "Add", "s:1 s:1", "T=float");
    sg_node(x, "b", "Abs", "s:0", "T=float");
    sg_node(x, "end", "Merge", "a b", "T=float N=2");
    assert_true(sg_number(x, 3, "end", NULL) == 3);
    assert_true(sg_number(x, 6, "end", NULL) == 72);
    assert_true(sg_number(x, -4, "end", NULL) == 12);
    cf_assert_functionalised(x, "end", "If", 3);
}

static void one_predicate_may_have_branches_that_depend_on_each_other(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    sg_node(x, "mid", "Mul", "merge merge", "T=float");
    sg_node(x, "s", "Switch", "mid pred", "T=float");
    sg_node(x, "a", "Neg", "s:1", "T=float");
    sg_node(x, "b", "Add", "s:0 s:0", "T=float");
    sg_node(x, "end", "Merge", "b a", "T=float N=2");
    assert_true(sg_number(x, 3, "end", NULL) == -9);
    assert_true(sg_number(x, -3, "end", NULL) == 98);
    cf_assert_functionalised(x, "end", "If", 2);
}

/* "late" reads a node of the first branch. Through its own Switch, it also reads the result of that
 * branch. If both nodes were in one If, that If would wait for its own result. */
static void a_branch_that_waits_for_itself_stays(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    sg_node(x, "mid", "Mul", "merge merge", "T=float");
    sg_node(x, "s", "Switch", "mid pred", "T=float");
    sg_node(x, "late", "Add", "then s:1", "T=float");
    sg_node(x, "end", "Merge", "s:0 late", "T=float N=2");
    assert_true(sg_number(x, 3, "end", NULL) == 6);
    assert_true(sg_number(x, -3, "end", NULL) == 49);
    assert_true(sg_count(x, "end", NULL, "Switch") > 0);
}

static void only_effects_of_the_side_that_is_taken_happen(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    sg_variable(x);
    sg_node(x, "v_switch", "Switch", "v pred", "T=resource");
    sg_node(x, "yes", "AssignAddVariableOp", "v_switch:1 switch:1", "dtype=float");
    sg_node(x, "no", "AssignSubVariableOp", "v_switch:0 switch:0", "dtype=float");
    sg_node(x, "after_yes", "Identity", "switch:1 ^yes", "T=float");
    sg_node(x, "after_no", "Identity", "switch:0 ^no", "T=float");
    sg_node(x, "m", "Merge", "after_no after_yes", "T=float N=2");
    sg_node(x, "value", "ReadVariableOp", "v ^m", "dtype=float");
    sg_number(x, 100, NULL, "init");
    assert_true(sg_number(x, 1, "value", NULL) == 101);
    assert_true(sg_number(x, -5, "value", NULL) == 106);
    cf_assert_functionalised(x, "value", "If", 1);
}

static void a_branch_waits_for_what_stands_before_it(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    sg_variable(x);
    sg_node(x, "add", "AssignAddVariableOp", "v x", "dtype=float");
    sg_node(x, "v_switch", "Switch", "v pred ^add", "T=resource");
    sg_node(x, "read", "ReadVariableOp", "v_switch:1", "dtype=float");
    sg_node(x, "m", "Merge", "switch:0 read", "T=float N=2");
    sg_number(x, 100, NULL, "init");
    assert_true(sg_number(x, 1, "m", NULL) == 101);
    assert_true(sg_number(x, 2, "m", NULL) == 103);
    assert_true(sg_number(x, -3, "m", NULL) == -3);
    assert_true(sg_number(x, 1, "m", NULL) == 101);
}

static void a_side_without_an_input_of_its_own_hangs_on_the_pivot(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    sg_constant(x, "one", "^pivot_t", "1");
    sg_constant(x, "two", "^pivot_f", "2");
    sg_node(x, "m", "Merge", "two one", "T=float N=2");
    assert_true(sg_number(x, 3, "m", NULL) == 1);
    assert_true(sg_number(x, -3, "m", NULL) == 2);
    cf_assert_functionalised(x, "m", "If", 1);
}

static void what_is_fetched_out_of_a_branch_keeps_it(void **state)
{
    struct small_graph *x = *state;
    struct rt_tensor t = {0};
    cf_cond(x);
    assert_true(sg_number(x, 3, "then", NULL) == -3);
    assert_fails(sg_run(x, -3, "then", &t), RT_INVALID_ARGUMENT, &x->err,
                 "Retval[0] does not have value");
}

static void a_predicate_must_be_a_scalar_as_before(void **state)
{
    struct small_graph *x = *state;
    struct rt_tensor t = {0};
    cf_cond(x);
    sg_node(x, "axis", "Const", "", "dtype=int32 value=int32<>:0");
    sg_node(x, "row", "ExpandDims", "greater axis", "T=bool Tdim=int32");
    sg_node(x, "s", "Switch", "x row", "T=float");
    sg_node(x, "m", "Merge", "s:0 s:1", "T=float N=2");
    assert_fails(sg_run(x, 3, "m", &t), RT_INVALID_ARGUMENT, &x->err,
                 "The second input must be a scalar, but it has shape [1]");
}

static void references_are_read_where_they_are_used(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    sg_ref_variable(x);
    sg_node(x, "rs", "RefSwitch", "r pred", "T=float");
    sg_node(x, "add", "AssignAdd", "rs:1 switch:1", "T=float");
    sg_node(x, "sub", "AssignSub", "rs:0 switch:0", "T=float");
    sg_node(x, "a", "Identity", "add", "T=float");
    sg_node(x, "b", "Identity", "sub", "T=float");
    sg_node(x, "m", "Merge", "b a", "T=float N=2");
    sg_number(x, 4, NULL, "init");
    assert_true(sg_number(x, 3, "m", NULL) == 7);
    assert_true(sg_number(x, -3, "m", NULL) == 10);
}

/* The loop computes `while y < 50: y = y < 5 ? y + 5 : y * y`. */
static void branches_inside_loops_are_functionalised_too(void **state)
{
    struct small_graph *x = *state;
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    sg_constant(x, "fifty", "", "50");
    cf_loop(x, "w", "x", "fifty", "m");
    sg_constant(x, "five", "^w/switch", "5");
    sg_node(x, "small", "Less", "w/switch:1 five", "T=float");
    sg_node(x, "s", "Switch", "w/switch:1 small", "T=float");
    sg_node(x, "five_s", "Switch", "five small", "T=float");
    sg_node(x, "a", "Add", "s:1 five_s:1", "T=float");
    sg_node(x, "b", "Mul", "s:0 s:0", "T=float");
    sg_node(x, "m", "Merge", "b a", "T=float N=2");
    assert_true(sg_number(x, 2, "w/exit", NULL) == 2401);
    assert_true(sg_number(x, 6, "w/exit", NULL) == 1296);
    assert_true(sg_number(x, 60, "w/exit", NULL) == 60);
    assert_int_equal(sg_count(x, "w/exit", NULL, "If"), 1);
}

/* The result is the index of the first of 40 limits that is greater than x, or -1 if none is. Each
 * comparison is inside the "else" branch of the previous comparison, as tf.case nests them. */
static void as_many_cases_as_models_have_are_functionalised(void **state)
{
    enum { CASES = 40 };
    struct small_graph *x = *state;
    char name[32], in[100], value[16];
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    sg_node(x, "x0", "Identity", "x", "T=float");
#define NODE(OP, ATTRS, NAME, ...)                                                                 \
    do {                                                                                           \
        snprintf(name, sizeof name, NAME, i);                                                      \
        snprintf(in, sizeof in, __VA_ARGS__);                                                      \
        sg_node(x, name, OP, in, ATTRS);                                                           \
    } while (0)
    for (int i = 0; i < CASES; i++) {
        snprintf(name, sizeof name, "limit%d", i);
        snprintf(in, sizeof in, "^x%d", i);
        snprintf(value, sizeof value, "%d", i);
        sg_constant(x, name, in, value);
        NODE("Less", "T=float", "less%d", "x%d limit%d", i, i);
        NODE("Switch", "T=float", "s%d", "x%d less%d", i, i);
        NODE("Switch", "T=float", "k%d", "limit%d less%d", i, i);
        snprintf(name, sizeof name, "x%d", i + 1);
        snprintf(in, sizeof in, "s%d:0", i);
        sg_node(x, name, "Identity", in, "T=float");
    }
    snprintf(in, sizeof in, "^x%d", CASES);
    sg_constant(x, "m40", in, "-1");
    for (int i = CASES - 1; i >= 0; i--)
        NODE("Merge", "T=float N=2", "m%d", "m%d k%d:1", i + 1, i);
#undef NODE
    assert_true(sg_number(x, -3, "m0", NULL) == 0);
    assert_true(sg_number(x, 6.5f, "m0", NULL) == 7);
    assert_true(sg_number(x, 38.5f, "m0", NULL) == 39);
    assert_true(sg_number(x, 99, "m0", NULL) == -1);
    cf_assert_functionalised(x, "m0", "If", CASES);
}

/* Adds a branch that is taken if x > 0. The branch reads n values from outside the branch, each
 * value twice, and computes the sum of the values. */
static void read_from_outside(struct small_graph *x, int n)
{
    struct rt_bytes in;
    char name[16], from[32], attrs[32];
    cf_cond(x);
    rt_bytes_init(&in, 1 << 20);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "c%d", i);
        snprintf(from, sizeof from, "x ^c%d", i - 1);
        sg_node(x, name, "Identity", i ? from : "x", "T=float");
        snprintf(from, sizeof from, "c%d pred", i);
        snprintf(name, sizeof name, "s%d", i);
        sg_node(x, name, "Switch", from, "T=float");
        rt_bytes_addf(&in, "s%d:1 s%d:1 ", i, n - 1 - i);
    }
    snprintf(attrs, sizeof attrs, "T=float N=%d", 2 * n);
    sg_node(x, "all", "AddN", in.p, attrs);
    sg_node(x, "m", "Merge", "all switch:0", "T=float N=2");
    assert_true(sg_number(x, 3, "m", NULL) == 6 * (float)n);
    assert_true(sg_number(x, -3, "m", NULL) == -3);
    rt_bytes_clear(&in);
}

static void a_branch_may_read_much_from_outside(void **state)
{
    read_from_outside(*state, 4000);
    cf_assert_functionalised(*state, "m", "If", 1);
}

static void one_that_reads_too_much_stays(void **state)
{
    read_from_outside(*state, 5000);
    assert_true(sg_count(*state, "m", NULL, "Switch") > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, sg_set_up, sg_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_branch_becomes_one_node),
        TEST(which_side_it_was_is_told),
        TEST(what_both_sides_pass_on_needs_no_nodes_inside),
        TEST(branches_nest_and_follow_one_another),
        TEST(one_predicate_may_have_branches_that_depend_on_each_other),
        TEST(a_branch_that_waits_for_itself_stays),
        TEST(only_effects_of_the_side_that_is_taken_happen),
        TEST(a_branch_waits_for_what_stands_before_it),
        TEST(a_side_without_an_input_of_its_own_hangs_on_the_pivot),
        TEST(what_is_fetched_out_of_a_branch_keeps_it),
        TEST(a_predicate_must_be_a_scalar_as_before),
        TEST(references_are_read_where_they_are_used),
        TEST(branches_inside_loops_are_functionalised_too),
        TEST(as_many_cases_as_models_have_are_functionalised),
        TEST(a_branch_may_read_much_from_outside),
        TEST(one_that_reads_too_much_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
