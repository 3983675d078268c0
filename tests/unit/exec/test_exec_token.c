/*
 * Tests TensorFlow 1 graphs with branches (Switch and Merge) and loops (frames). Every test runs
 * twice: on the token executor (runtime/exec/exec_token.c), and in a session with fusion, where
 * most of the graphs are functionalised and need no token executor.
 */
#include "runtime/base/clock.h"
#include "tests/support/control_flow.h"

static void refuses(struct small_graph *x, float value, const char *fetch, enum rt_status status,
                    const char *words)
{
    struct rt_tensor t = {0};
    assert_fails(sg_run(x, value, fetch, &t), status, &x->err, words);
}

static void ends_at(struct small_graph *x, int64_t deadline_ns)
{
    struct rt_callable *c = sg_prepare(x, "w/exit", NULL);
    float value = 1;
    struct rt_tensor in = {.dtype = RT_F32, .data = &value}, out = {0};
    struct rt_run_options options = {.deadline_ns = deadline_ns};
    assert_fails(rt_callable_run(c, &in, &out, &options, &x->err), RT_DEADLINE_EXCEEDED, &x->err,
                 "");
}

static void a_branch_is_taken_and_the_other_is_dead(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    assert_true(sg_number(x, 3, "merge", NULL) == -3);
    assert_true(sg_number(x, 3, "merge:1", NULL) == 1);
    assert_true(sg_number(x, -3, "merge", NULL) == 7);
    assert_true(sg_number(x, -3, "merge:1", NULL) == 0);
    assert_true(sg_number(x, 5, "then", NULL) == -5);
}

static void fetching_a_dead_tensor_is_refused(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    refuses(x, -1, "then", RT_INVALID_ARGUMENT, "Retval[0] does not have value");
}

static void control_edges_carry_deadness_but_not_through_a_trigger(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    sg_constant(x, "if_then", "^then", "1");
    sg_constant(x, "if_else", "^else", "2");
    sg_node(x, "taken", "Merge", "if_then if_else", "T=float N=2");
    sg_node(x, "trigger", "ControlTrigger", "^then ^else", "");
    sg_constant(x, "always", "^trigger", "3");
    sg_node(x, "noop", "NoOp", "^then ^else", "");
    sg_constant(x, "never", "^noop", "4");
    assert_true(sg_number(x, 3, "taken", NULL) == 1);
    assert_true(sg_number(x, -3, "taken", NULL) == 2);
    assert_true(sg_number(x, -3, "always", NULL) == 3);
    refuses(x, 1, "never", RT_INVALID_ARGUMENT, "Retval[0]");
}

static void a_switch_wants_a_scalar(void **state)
{
    struct small_graph *x = *state;
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    sg_node(x, "p", "Const", "", "dtype=bool value=bool<2>:1");
    sg_node(x, "switch", "Switch", "x p", "T=float");
    refuses(x, 1, "switch", RT_INVALID_ARGUMENT, "[[{{node switch}}]]");
}

static void begin(struct small_graph *x, const char *limit)
{
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    sg_constant(x, "limit", "", limit);
}

static void a_loop_runs_until_its_condition_ends_it(void **state)
{
    struct small_graph *x = *state;
    begin(x, "100");
    cf_loop(x, "w", "x", "limit", "w/double");
    sg_constant(x, "w/two", "^w/switch", "2");
    sg_node(x, "w/double", "Mul", "w/switch:1 w/two", "T=float");
    sg_node(x, "end", "Neg", "w/exit", "T=float");
    assert_true(sg_number(x, 3, "end", NULL) == -192);
    assert_true(sg_number(x, 100, "end", NULL) == -100);
    assert_true(sg_number(x, 1, "w/exit", NULL) == 128);
}

/* A control edge makes the Merge wait for a NextIteration whose output it does not read. Import
 * accepts a cycle only through a Merge's inputs, so this graph has no cycle, but the plan must
 * still order the two nodes. */
static void a_merge_may_wait_for_a_next_iteration(void **state)
{
    struct small_graph *x = *state;
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    sg_node(x, "enter", "Enter", "x", "T=float frame_name='w'");
    sg_node(x, "next", "NextIteration", "enter", "T=float");
    sg_node(x, "merge", "Merge", "enter enter ^next", "T=float N=2");
    sg_node(x, "exit", "Exit", "merge", "T=float");
    refuses(x, 1, "exit", RT_INVALID_ARGUMENT, "Retval[0] does not have value");
}

static void loops_nest(void **state)
{
    struct small_graph *x = *state;
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    cf_nested_loops(x, "x");
    assert_true(sg_number(x, 1, "z_exit", NULL) == 81); /* z is 12, 21, 42, 81 */
    assert_true(sg_number(x, 1, "w/exit", NULL) == 16);
    assert_true(sg_number(x, 20, "z_exit", NULL) == 0);
    assert_true(sg_number(x, 8, "z_exit", NULL) == 81);
}

static void a_loop_on_the_untaken_side_leaves_dead(void **state)
{
    struct small_graph *x = *state;
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    sg_constant(x, "zero", "", "0");
    sg_node(x, "pred", "Greater", "x zero", "T=float");
    sg_node(x, "switch", "Switch", "x pred", "T=float");
    cf_nested_loops(x, "switch:1");
    sg_node(x, "else", "Neg", "switch:0", "T=float");
    sg_node(x, "merge", "Merge", "else w/exit", "T=float N=2");
    assert_true(sg_number(x, 1, "merge", NULL) == 16);
    assert_true(sg_number(x, -5, "merge", NULL) == 5);
}

static void a_branch_inside_a_loop_is_chosen_in_each_round(void **state)
{
    struct small_graph *x = *state;
    begin(x, "50");
    cf_loop(x, "w", "x", "limit", "w/m");
    sg_constant(x, "w/five", "^w/switch", "5");
    sg_node(x, "w/pred", "Less", "w/switch:1 w/five", "T=float");
    sg_node(x, "w/s", "Switch", "w/switch:1 w/pred", "T=float");
    sg_node(x, "w/small", "Add", "w/s:1 w/five", "T=float");
    sg_node(x, "w/large", "Mul", "w/s:0 w/s:0", "T=float");
    sg_node(x, "w/m", "Merge", "w/small w/large", "T=float N=2");
    assert_true(sg_number(x, 2, "w/exit", NULL) == 2401); /* y is 2, 7, 49, 2401 */
    assert_true(sg_number(x, 6, "w/exit", NULL) == 1296); /* y is 6, 36, 1296 */
}

static void variables_go_through_ref_switch_and_frames(void **state)
{
    struct small_graph *x = *state;
    sg_node(x, "v", "VariableV2", "", "dtype=float shape=<>");
    sg_constant(x, "one", "", "1");
    sg_node(x, "init", "Assign", "v one", "T=float");
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    sg_node(x, "pred", "Greater", "x one", "T=float");
    sg_node(x, "rs", "RefSwitch", "v pred", "T=float");
    sg_node(x, "add", "AssignAdd", "rs:1 x", "T=float");
    sg_node(x, "sub", "AssignSub", "rs:0 x", "T=float");
    sg_node(x, "m", "RefMerge", "add sub", "T=float N=2");
    sg_node(x, "out", "Neg", "m", "T=float");
    sg_constant(x, "limit", "", "20");
    sg_node(x, "w/v", "RefEnter", "v", "T=float frame_name='w' is_constant=true");
    cf_loop(x, "w", "x", "limit", "w/sum");
    sg_node(x, "w/sum", "Add", "w/switch:1 w/v", "T=float");
    refuses(x, 5, "out", RT_FAILED_PRECONDITION, "Attempting to use uninitialized value v");
    sg_number(x, 0, NULL, "init");
    assert_true(sg_number(x, 5, "out", NULL) == -6);
    assert_true(sg_number(x, 0.5f, "out", NULL) == -5.5f);
    assert_true(sg_number(x, 1, "w/exit", NULL) == 23); /* y is 1, 6.5, 12, 17.5, 23 */
}

static void a_frame_may_not_be_left_but_by_exit(void **state)
{
    struct small_graph *x = *state;
    begin(x, "100");
    cf_loop(x, "w", "x", "limit", "w/switch:1");
    sg_node(x, "bad", "Add", "w/switch:1 x", "T=float");
    refuses(x, 1, "bad", RT_INVALID_ARGUMENT, "{{node bad}} has inputs from different frames.");
}

static void a_loop_ends_when_the_deadline_has_passed(void **state)
{
    struct small_graph *x = *state;
    begin(x, "100");
    cf_loop(x, "w", "x", "limit", "w/switch:1");
    ends_at(x, 1);
}

/* A constant without control inputs is in the outermost frame, and so is a NextIteration that reads
 * it. A Merge of the loop may not read that NextIteration. */
static void a_loop_may_not_read_a_next_iteration_of_another_frame(void **state)
{
    struct small_graph *x = *state;
    begin(x, "100");
    sg_constant(x, "below", "", "1");
    cf_loop(x, "w", "x", "limit", "below");
    refuses(x, 1, "w/exit", RT_INVALID_ARGUMENT,
            "{{node w/merge}} has inputs from different frames.");
}

static void a_loop_reads_constants_through_enters_only(void **state)
{
    struct small_graph *x = *state;
    begin(x, "100");
    cf_loop(x, "w", "x", "limit", "w/sum");
    sg_node(x, "w/sum", "Add", "w/switch:1 limit", "T=float");
    refuses(x, 1, "w/exit", RT_INVALID_ARGUMENT, " has inputs from different frames.");
}

static void an_exit_needs_a_frame(void **state)
{
    struct small_graph *x = *state;
    begin(x, "100");
    cf_loop(x, "w", "x", "limit", "w/switch:1");
    sg_node(x, "again", "Exit", "w/exit", "T=float");
    refuses(x, 1, "again", RT_INVALID_ARGUMENT,
            "Invalid Exit op: Cannot find a corresponding Enter op.");
}

/* A NextIteration that reads a value of every iteration begins iterations forever, even after the
 * condition has become false. */
static void a_loop_whose_variable_never_ends_runs_until_its_deadline(void **state)
{
    struct small_graph *x = *state;
    begin(x, "100");
    sg_node(x, "w/limit2", "Enter", "limit", "T=float frame_name='w' is_constant=true");
    cf_loop(x, "w", "x", "limit", "w/limit2");
    ends_at(x, rt_now_ns() + 50 * 1000 * 1000);
}

/* TensorFlow's executor counts iterations only in graphs with a Switch, Merge, Enter or Exit. */
static void a_next_iteration_without_frames_passes_its_input(void **state)
{
    struct small_graph *x = *state;
    begin(x, "100");
    sg_node(x, "next", "NextIteration", "x", "T=float");
    sg_node(x, "again", "NextIteration", "next", "T=float");
    sg_node(x, "sum", "Add", "again x", "T=float");
    sg_node(x, "above", "Add", "next limit", "T=float");
    assert_true(sg_number(x, 3, "next", NULL) == 3);
    assert_true(sg_number(x, 3, "sum", NULL) == 6);
    assert_true(sg_number(x, 3, "above", NULL) == 103);
}

/* In a graph with a Switch, the outermost frame has iterations. Feeds and constants exist only in
 * the first iteration. */
static void a_next_iteration_begins_an_iteration_of_the_outermost_frame(void **state)
{
    struct small_graph *x = *state;
    cf_cond(x);
    sg_node(x, "next", "NextIteration", "merge", "T=float");
    sg_node(x, "negative", "Neg", "next", "T=float");
    sg_node(x, "enter", "Enter", "next", "T=float frame_name='w'");
    sg_node(x, "exit", "Exit", "enter", "T=float");
    sg_node(x, "late", "Add", "next zero", "T=float");
    sg_node(x, "twice", "Merge", "next merge", "T=float N=2");
    assert_true(sg_number(x, 3, "negative", NULL) == 3);
    assert_true(sg_number(x, -3, "exit", NULL) == 7);
    refuses(x, 3, "late", RT_INVALID_ARGUMENT, "Retval[0] does not have value");
    refuses(x, 3, "twice", RT_INTERNAL,
            "Retval[0] has already been set.\n\t [[{{node _retval_twice_0_0}}]]");
}

static void a_value_may_be_fetched_inside_a_frame(void **state)
{
    struct small_graph *x = *state;
    begin(x, "4");
    cf_loop(x, "w", "x", "limit", "w/double");
    sg_node(x, "w/double", "Add", "w/switch:1 w/switch:1", "T=float");
    assert_true(sg_number(x, 3, "w/double", NULL) == 6);
    refuses(x, 1, "w/double", RT_INTERNAL, "Retval[0] has already been set.");
}

/* The nodes outside the frame wait for one token from each Exit. If an Exit sent more, a node would
 * run before its other inputs had arrived. */
static void an_exit_sends_its_first_value_only(void **state)
{
    struct small_graph *x = *state;
    begin(x, "100");
    cf_loop(x, "w", "x", "limit", "w/double");
    sg_node(x, "w/double", "Add", "w/switch:1 w/switch:1", "T=float");
    sg_node(x, "each", "Exit", "w/double", "T=float");
    sg_node(x, "sum", "Add", "each w/exit", "T=float");
    assert_true(sg_number(x, 2, "sum", NULL) == 4 + 128);
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, sg_set_up, sg_tear_down),                                \
        cmocka_unit_test_setup_teardown(name, sg_set_up_unfused, sg_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_branch_is_taken_and_the_other_is_dead),
        TEST(fetching_a_dead_tensor_is_refused),
        TEST(control_edges_carry_deadness_but_not_through_a_trigger),
        TEST(a_switch_wants_a_scalar),
        TEST(a_loop_runs_until_its_condition_ends_it),
        TEST(loops_nest),
        TEST(a_merge_may_wait_for_a_next_iteration),
        TEST(a_loop_on_the_untaken_side_leaves_dead),
        TEST(a_branch_inside_a_loop_is_chosen_in_each_round),
        TEST(variables_go_through_ref_switch_and_frames),
        TEST(a_frame_may_not_be_left_but_by_exit),
        TEST(a_loop_ends_when_the_deadline_has_passed),
        TEST(a_loop_may_not_read_a_next_iteration_of_another_frame),
        TEST(a_loop_reads_constants_through_enters_only),
        TEST(an_exit_needs_a_frame),
        TEST(a_loop_whose_variable_never_ends_runs_until_its_deadline),
        TEST(a_next_iteration_without_frames_passes_its_input),
        TEST(a_next_iteration_begins_an_iteration_of_the_outermost_frame),
        TEST(a_value_may_be_fetched_inside_a_frame),
        TEST(an_exit_sends_its_first_value_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
