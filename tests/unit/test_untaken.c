/* Branches of TensorFlow 1 whose predicate is known: what is left of the plan, and its answers. */
#include "tests/support/test.h"

#include "kernels/kernels.h"
#include "runtime/describe.h"
#include "runtime/session.h"
#include "tests/support/graph_def.h"

struct fixture {
    struct rt_bytes g;
    struct rt_registry *registry;
    struct rt_session *session;
    struct rt_error err;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    rt_bytes_init(&x->g, 1 << 24);
    x->registry = rt_registry_new();
    *state = x;
    return x && x->registry && kn_register(x->registry) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    rt_bytes_clear(&x->g);
    rt_session_free(x->session);
    rt_registry_free(x->registry);
    free(x);
    return 0;
}

static void node(struct fixture *x, const char *name, const char *op, const char *inputs,
                 const char *attrs)
{
    gd_node(&x->g, name, op, inputs, attrs);
}

static void constant(struct fixture *x, const char *name, const char *ctrl, const char *value)
{
    char attrs[100];
    snprintf(attrs, sizeof attrs, "dtype=float value=float<>:%s", value);
    node(x, name, "Const", ctrl, attrs);
}

static struct rt_callable *prepare(struct fixture *x, const char *fetch, const char *target)
{
    struct rt_callable *c;
    const char *feed = "x";
    struct rt_call_spec spec = {.feeds = &feed,
                                .fetches = &fetch,
                                .targets = &target,
                                .n_feeds = 1,
                                .n_fetches = fetch ? 1 : 0,
                                .n_targets = target ? 1 : 0};
    if (!x->session) {
        struct rt_library *l = NULL;
        struct rt_session_options options = {.registry = x->registry};
        assert_ok(rt_library_import(&l, gd_span(&x->g), x->registry, &x->err), &x->err);
        assert_ok(rt_session_new(&x->session, l, &options, &x->err), &x->err);
    }
    assert_ok(rt_session_prepare(x->session, &spec, &c, &x->err), &x->err);
    return c;
}

static float number(struct fixture *x, float feed, const char *fetch, const char *target)
{
    struct rt_tensor in = {.dtype = RT_F32, .data = &feed}, t = {0};
    struct rt_callable *c = prepare(x, fetch, target);
    float f = 0;
    assert_ok(rt_callable_run(c, &in, &t, NULL, &x->err), &x->err);
    if (fetch) {
        assert_int_equal(t.rank, 0);
        f = t.dtype == RT_I32 ? (float)*(const int32_t *)t.data : *(const float *)t.data;
        rt_tensor_clear(&t);
    }
    return f;
}

/* How many nodes of the plan are of this op. */
static int count(struct fixture *x, const char *fetch, const char *target, const char *op)
{
    struct rt_arena *arena = rt_arena_new(1 << 20);
    struct rt_described_plan d;
    int n = 0;
    assert_non_null(arena);
    assert_ok(rt_callable_describe(prepare(x, fetch, target), arena, &d, &x->err), &x->err);
    for (int i = 0; i < d.n_nodes; i++)
        n += strcmp(d.node[i].op, op) == 0;
    rt_arena_free(arena);
    return n;
}

static void flag(struct fixture *x, bool value)
{
    node(x, "flag/default", "Const", "",
         value ? "dtype=bool value=bool<>:1" : "dtype=bool value=bool<>:0");
    node(x, "flag", "PlaceholderWithDefault", "flag/default", "dtype=bool shape=<>");
    node(x, "pred", "Identity", "flag", "T=bool");
}

/* flag ? -x : x + 10, as tf.cond writes it. */
static void cond(struct fixture *x, bool value)
{
    node(x, "x", "Placeholder", "", "dtype=float");
    flag(x, value);
    node(x, "pivot", "Switch", "pred pred", "T=bool");
    node(x, "pivot_f", "Identity", "pivot:0", "T=bool");
    node(x, "switch", "Switch", "x pred", "T=float");
    node(x, "then", "Neg", "switch:1", "T=float");
    constant(x, "ten", "^pivot_f", "10");
    node(x, "else", "Add", "switch:0 ten", "T=float");
    node(x, "merge", "Merge", "else then", "T=float N=2");
    node(x, "which", "Identity", "merge:1", "T=int32");
}

static void a_default_that_nobody_feeds_leaves_no_branch(void **state)
{
    struct fixture *x = *state;
    cond(x, false);
    assert_true(number(x, 3, "merge", NULL) == 13);
    assert_true(number(x, 3, "which", NULL) == 0);
    assert_int_equal(count(x, "merge", NULL, "Switch"), 0);
    assert_int_equal(count(x, "merge", NULL, "Merge"), 0);
    assert_int_equal(count(x, "merge", NULL, "Neg"), 0);
}

static void the_other_default_takes_the_other_side(void **state)
{
    struct fixture *x = *state;
    cond(x, true);
    assert_true(number(x, 3, "merge", NULL) == -3);
    assert_true(number(x, 3, "which", NULL) == 1);
    assert_int_equal(count(x, "merge", NULL, "Merge"), 0);
}

static void what_is_dead_is_refused_as_before(void **state)
{
    struct fixture *x = *state;
    float three = 3;
    struct rt_tensor in = {.dtype = RT_F32, .data = &three}, t = {0};
    cond(x, false);
    assert_fails(rt_callable_run(prepare(x, "then", NULL), &in, &t, NULL, &x->err),
                 RT_INVALID_ARGUMENT, &x->err, "Retval[0] does not have value");
}

static void branches_inside_a_branch_follow_it(void **state)
{
    struct fixture *x = *state;
    cond(x, false);
    node(x, "inner/pred", "Switch", "pred pred", "T=bool");
    constant(x, "zero", "", "0");
    node(x, "positive", "Greater", "x zero", "T=float");
    node(x, "in", "Switch", "switch:0 positive", "T=float"); /* alive where `flag` is false */
    node(x, "double", "Add", "in:1 in:1", "T=float");
    node(x, "square", "Mul", "in:0 in:0", "T=float");
    node(x, "inner", "Merge", "square double", "T=float N=2");
    node(x, "outer", "Merge", "inner then", "T=float N=2");
    assert_true(number(x, 3, "outer", NULL) == 6);
    assert_true(number(x, -3, "outer", NULL) == 9);
    assert_true(number(x, -3, "outer:1", NULL) == 0);
    assert_int_equal(count(x, "outer", NULL, "Neg"), 0);
}

static void an_index_on_a_side_that_is_chosen_later_stays_dead_with_it(void **state)
{
    struct fixture *x = *state;
    cond(x, false);
    constant(x, "zero", "", "0");
    node(x, "positive", "Greater", "x zero", "T=float");
    node(x, "s", "Switch", "x positive", "T=float");
    node(x, "known", "Switch", "s:1 pred", "T=float");
    node(x, "a", "Neg", "known:0", "T=float");
    node(x, "b", "Abs", "known:1", "T=float");
    node(x, "m", "Merge", "b a", "T=float N=2"); /* dead unless x > 0 */
    node(x, "five", "Const", "", "dtype=int32 value=int32<>:5");
    node(x, "else_five", "Switch", "five positive", "T=int32");
    node(x, "either", "Merge", "m:1 else_five:0", "T=int32 N=2");
    assert_true(number(x, 1, "either", NULL) == 1);
    assert_true(number(x, -1, "either", NULL) == 5);
}

static void effects_before_a_dead_node_still_happen(void **state)
{
    struct fixture *x = *state;
    cond(x, false);
    node(x, "v", "VarHandleOp", "", "dtype=float shape=<> shared_name='v'");
    node(x, "init", "AssignVariableOp", "v x", "dtype=float");
    node(x, "add", "AssignAddVariableOp", "v x", "dtype=float");
    constant(x, "two", "^add", "2");
    node(x, "gone", "Mul", "switch:1 two", "T=float"); /* dead, but `add` is not */
    node(x, "end", "Merge", "else gone", "T=float N=2");
    node(x, "value", "ReadVariableOp", "v", "dtype=float");
    number(x, 4, NULL, "init");
    assert_true(number(x, 3, "end", NULL) == 13);
    assert_true(number(x, 0, "value", NULL) == 7);
}

static void effects_of_a_dead_branch_do_not(void **state)
{
    struct fixture *x = *state;
    cond(x, false);
    node(x, "v", "VarHandleOp", "", "dtype=float shape=<> shared_name='v'");
    node(x, "init", "AssignVariableOp", "v x", "dtype=float");
    node(x, "v_switch", "Switch", "v pred", "T=resource");
    node(x, "no", "AssignAddVariableOp", "v_switch:1 then", "dtype=float");
    node(x, "yes", "AssignSubVariableOp", "v_switch:0 else", "dtype=float");
    node(x, "both", "NoOp", "^no", "");
    node(x, "value", "ReadVariableOp", "v", "dtype=float");
    number(x, 100, NULL, "init");
    number(x, 1, NULL, "no");
    assert_true(number(x, 0, "value", NULL) == 100);
    number(x, 1, NULL, "both");
    assert_true(number(x, 0, "value", NULL) == 100);
    number(x, 1, NULL, "yes");
    assert_true(number(x, 0, "value", NULL) == 89);
}

static void a_trigger_after_the_dead_leaves_all_as_it_is(void **state)
{
    struct fixture *x = *state;
    cond(x, false);
    node(x, "trigger", "ControlTrigger", "^then ^else", "");
    constant(x, "always", "^trigger", "3");
    assert_true(number(x, 1, "always", NULL) == 3);
}

static void references_pass_through_known_branches(void **state)
{
    struct fixture *x = *state;
    cond(x, true);
    node(x, "r", "VariableV2", "", "dtype=float shape=<>");
    node(x, "init", "Assign", "r x", "T=float");
    node(x, "rs", "RefSwitch", "r pred", "T=float");
    node(x, "add", "AssignAdd", "rs:1 x", "T=float");
    node(x, "sub", "AssignSub", "rs:0 x", "T=float");
    node(x, "m", "RefMerge", "sub add", "T=float N=2");
    node(x, "out", "Neg", "m", "T=float");
    number(x, 4, NULL, "init");
    assert_true(number(x, 3, "out", NULL) == -7);
    assert_true(number(x, 3, "m:1", NULL) == 1);
    assert_int_equal(count(x, "out", NULL, "RefSwitch"), 0);
}

/* While y < 20: y = flag ? y + y : y * y, where y begins at x. */
static void a_known_branch_inside_a_loop_leaves_the_loop(void **state)
{
    struct fixture *x = *state;
    node(x, "x", "Placeholder", "", "dtype=float");
    flag(x, true);
    constant(x, "twenty", "", "20");
    node(x, "enter", "Enter", "x", "T=float frame_name='w'");
    node(x, "limit", "Enter", "twenty", "T=float frame_name='w' is_constant=true");
    node(x, "loop", "Merge", "enter next", "T=float N=2");
    node(x, "less", "Less", "loop limit", "T=float");
    node(x, "cond", "LoopCond", "less", "");
    node(x, "step", "Switch", "loop cond", "T=float");
    node(x, "exit", "Exit", "step:0", "T=float");
    node(x, "choice", "Switch", "step:1 pred", "T=float");
    node(x, "sum", "Add", "choice:1 choice:1", "T=float");
    node(x, "square", "Mul", "choice:0 choice:0", "T=float");
    node(x, "merge", "Merge", "square sum", "T=float N=2");
    node(x, "next", "NextIteration", "merge", "T=float");
    assert_true(number(x, 3, "exit", NULL) == 24);
    assert_int_equal(count(x, "exit", NULL, "Mul"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

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
        TEST(a_known_branch_inside_a_loop_leaves_the_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
