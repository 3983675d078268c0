/* Tests TensorFlow 1 branches whose predicate is known when the plan is made
 * (runtime/passes/dead_branches.c). The plan must not contain the branch that cannot be taken, and
 * the outputs must be those of the original graph. The predicate is a "flag" that is never fed. */
#include "tests/support/control_flow.h"

static void a_default_that_nobody_feeds_leaves_no_branch(void **state)
{
    struct small_graph *x = *state;
    cf_cond_of_flag(x, false);
    assert_true(sg_number(x, 3, "merge", NULL) == 13);
    assert_true(sg_number(x, 3, "which", NULL) == 0);
    assert_int_equal(sg_count(x, "merge", NULL, "Switch"), 0);
    assert_int_equal(sg_count(x, "merge", NULL, "Merge"), 0);
    assert_int_equal(sg_count(x, "merge", NULL, "Neg"), 0);
}

static void the_other_default_takes_the_other_side(void **state)
{
    struct small_graph *x = *state;
    cf_cond_of_flag(x, true);
    assert_true(sg_number(x, 3, "merge", NULL) == -3);
    assert_true(sg_number(x, 3, "which", NULL) == 1);
    assert_int_equal(sg_count(x, "merge", NULL, "Merge"), 0);
}

static void what_is_dead_is_refused_as_before(void **state)
{
    struct small_graph *x = *state;
    struct rt_tensor t = {0};
    cf_cond_of_flag(x, false);
    assert_fails(sg_run(x, 3, "then", &t), RT_INVALID_ARGUMENT, &x->err,
                 "Retval[0] does not have value");
}

static void branches_inside_a_branch_follow_it(void **state)
{
    struct small_graph *x = *state;
    cf_cond_of_flag(x, false);
    sg_node(x, "inner/pred", "Switch", "pred pred", "T=bool");
    sg_constant(x, "zero", "", "0");
    sg_node(x, "positive", "Greater", "x zero", "T=float");
    /* "in" is alive because the flag is false */
    sg_node(x, "in", "Switch", "switch:0 positive", "T=float");
    sg_node(x, "double", "Add", "in:1 in:1", "T=float");
    sg_node(x, "square", "Mul", "in:0 in:0", "T=float");
    sg_node(x, "inner", "Merge", "square double", "T=float N=2");
    sg_node(x, "outer", "Merge", "inner then", "T=float N=2");
    assert_true(sg_number(x, 3, "outer", NULL) == 6);
    assert_true(sg_number(x, -3, "outer", NULL) == 9);
    assert_true(sg_number(x, -3, "outer:1", NULL) == 0);
    assert_int_equal(sg_count(x, "outer", NULL, "Neg"), 0);
}

static void an_index_on_a_side_that_is_chosen_later_stays_dead_with_it(void **state)
{
    struct small_graph *x = *state;
    cf_cond_of_flag(x, false);
    sg_constant(x, "zero", "", "0");
    sg_node(x, "positive", "Greater", "x zero", "T=float");
    sg_node(x, "s", "Switch", "x positive", "T=float");
    sg_node(x, "known", "Switch", "s:1 pred", "T=float");
    sg_node(x, "a", "Neg", "known:0", "T=float");
    sg_node(x, "b", "Abs", "known:1", "T=float");
    sg_node(x, "m", "Merge", "b a", "T=float N=2"); /* "m" is dead if x <= 0 */
    sg_node(x, "five", "Const", "", "dtype=int32 value=int32<>:5");
    sg_node(x, "else_five", "Switch", "five positive", "T=int32");
    sg_node(x, "either", "Merge", "m:1 else_five:0", "T=int32 N=2");
    assert_true(sg_number(x, 1, "either", NULL) == 1);
    assert_true(sg_number(x, -1, "either", NULL) == 5);
}

static void effects_before_a_dead_node_still_happen(void **state)
{
    struct small_graph *x = *state;
    cf_cond_of_flag(x, false);
    sg_variable(x);
    sg_node(x, "add", "AssignAddVariableOp", "v x", "dtype=float");
    sg_constant(x, "two", "^add", "2");
    /* "gone" is a dead node, but "add" is not. */
    sg_node(x, "gone", "Mul", "switch:1 two", "T=float");
    sg_node(x, "end", "Merge", "else gone", "T=float N=2");
    sg_node(x, "value", "ReadVariableOp", "v", "dtype=float");
    sg_number(x, 4, NULL, "init");
    assert_true(sg_number(x, 3, "end", NULL) == 13);
    assert_true(sg_number(x, 0, "value", NULL) == 7);
}

static void effects_of_a_dead_branch_do_not(void **state)
{
    struct small_graph *x = *state;
    cf_cond_of_flag(x, false);
    sg_variable(x);
    sg_node(x, "v_switch", "Switch", "v pred", "T=resource");
    sg_node(x, "no", "AssignAddVariableOp", "v_switch:1 then", "dtype=float");
    sg_node(x, "yes", "AssignSubVariableOp", "v_switch:0 else", "dtype=float");
    sg_node(x, "both", "NoOp", "^no", "");
    sg_node(x, "value", "ReadVariableOp", "v", "dtype=float");
    sg_number(x, 100, NULL, "init");
    sg_number(x, 1, NULL, "no");
    assert_true(sg_number(x, 0, "value", NULL) == 100);
    sg_number(x, 1, NULL, "both");
    assert_true(sg_number(x, 0, "value", NULL) == 100);
    sg_number(x, 1, NULL, "yes");
    assert_true(sg_number(x, 0, "value", NULL) == 89);
}

static void a_trigger_after_the_dead_leaves_all_as_it_is(void **state)
{
    struct small_graph *x = *state;
    cf_cond_of_flag(x, false);
    sg_node(x, "trigger", "ControlTrigger", "^then ^else", "");
    sg_constant(x, "always", "^trigger", "3");
    assert_true(sg_number(x, 1, "always", NULL) == 3);
}

static void references_pass_through_known_branches(void **state)
{
    struct small_graph *x = *state;
    cf_cond_of_flag(x, true);
    sg_ref_variable(x);
    sg_node(x, "rs", "RefSwitch", "r pred", "T=float");
    sg_node(x, "add", "AssignAdd", "rs:1 x", "T=float");
    sg_node(x, "sub", "AssignSub", "rs:0 x", "T=float");
    sg_node(x, "m", "RefMerge", "sub add", "T=float N=2");
    sg_node(x, "out", "Neg", "m", "T=float");
    sg_number(x, 4, NULL, "init");
    assert_true(sg_number(x, 3, "out", NULL) == -7);
    assert_true(sg_number(x, 3, "m:1", NULL) == 1);
    assert_int_equal(sg_count(x, "out", NULL, "RefSwitch"), 0);
}

/* The taken branch computes `while y < 20: y = y + y`, where y is initially x. The other branch
 * computes x * x. */
static void a_known_branch_around_a_loop_leaves_the_loop(void **state)
{
    struct small_graph *x = *state;
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    cf_flag(x, true);
    sg_constant(x, "twenty", "", "20");
    sg_node(x, "choice", "Switch", "x flag", "T=float");
    cf_loop(x, "w", "choice:1", "twenty", "w/sum");
    sg_node(x, "w/sum", "Add", "w/switch:1 w/switch:1", "T=float");
    sg_node(x, "square", "Mul", "choice:0 choice:0", "T=float");
    sg_node(x, "merge", "Merge", "square w/exit", "T=float N=2");
    assert_true(sg_number(x, 3, "merge", NULL) == 24);
    assert_int_equal(sg_count(x, "merge", NULL, "Mul"), 0);
    assert_int_equal(sg_count(x, "merge", NULL, "Merge"), 0);
}

/* The work of the pass must not be quadratic in the number of inputs of the Merge. A pass that
 * searched all inputs for each dead input took minutes. */
static void one_of_many_that_a_merge_joins_may_be_alive(void **state)
{
    struct small_graph *x = *state;
    enum { MANY = 30000 };
    struct rt_bytes in;
    char name[16], attrs[32];
    rt_bytes_init(&in, 1 << 20);
    cf_cond_of_flag(x, false);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "d%d", i);
        rt_bytes_addf(&in, "%s ", name);
        sg_node(x, name, "Neg", i % 2 ? "switch:1" : "then", "T=float");
    }
    rt_bytes_adds(&in, "else");
    snprintf(attrs, sizeof attrs, "T=float N=%d", MANY + 1);
    sg_node(x, "wide", "Merge", in.p, attrs);
    sg_node(x, "place", "Identity", "wide:1", "T=int32");
    assert_true(sg_number(x, 3, "wide", NULL) == 13);
    assert_true(sg_number(x, 3, "place", NULL) == MANY);
    assert_int_equal(sg_count(x, "wide", NULL, "Merge"), 0);
    rt_bytes_clear(&in);
}

/* The work of the pass must not be quadratic in the length of the chain. A pass that followed the
 * path from each RefSwitch to the variable separately would do quadratic work. */
static void a_reference_may_be_handed_on_many_times(void **state)
{
    struct small_graph *x = *state;
    enum { MANY = 10000 };
    char name[16], in[32];
    cf_cond_of_flag(x, false);
    sg_node(x, "r0", "VariableV2", "", "dtype=float shape=<>");
    sg_node(x, "init", "Assign", "r0 x", "T=float");
    sg_node(x, "sum0", "Identity", "x", "T=float");
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "r%d", i + 1);
        snprintf(in, sizeof in, "r%d pred", i);
        sg_node(x, name, "RefSwitch", in, "T=float");
        snprintf(in, sizeof in, "sum%d r%d", i, i + 1);
        snprintf(name, sizeof name, "sum%d", i + 1);
        sg_node(x, name, "Add", in, "T=float");
    }
    sg_number(x, 2, NULL, "init");
    assert_true(sg_number(x, 3, "sum10000", NULL) == 3 + 2 * MANY);
}

/* A chain of Identity nodes whose last node comes first in the graph. */
static void a_value_may_be_handed_on_many_times(void **state)
{
    struct small_graph *x = *state;
    enum { MANY = 30000 };
    char name[16], in[16];
    cf_cond_of_flag(x, false);
    for (int i = MANY; i > 0; i--) {
        snprintf(name, sizeof name, "i%d", i);
        snprintf(in, sizeof in, i > 1 ? "i%d" : "x", i - 1);
        sg_node(x, name, "Identity", in, "T=float");
    }
    assert_true(sg_number(x, 3, "i30000", NULL) == 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, sg_set_up, sg_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_default_that_nobody_feeds_leaves_no_branch),
        TEST(the_other_default_takes_the_other_side),
        TEST(what_is_dead_is_refused_as_before),
        TEST(branches_inside_a_branch_follow_it),
        TEST(an_index_on_a_side_that_is_chosen_later_stays_dead_with_it),
        TEST(effects_before_a_dead_node_still_happen),
        TEST(effects_of_a_dead_branch_do_not),
        TEST(a_trigger_after_the_dead_leaves_all_as_it_is),
        TEST(references_pass_through_known_branches),
        TEST(a_known_branch_around_a_loop_leaves_the_loop),
        TEST(one_of_many_that_a_merge_joins_may_be_alive),
        TEST(a_reference_may_be_handed_on_many_times),
        TEST(a_value_may_be_handed_on_many_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
