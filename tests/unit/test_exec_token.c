/* Graphs of TensorFlow's first generation: branches by Switch and Merge, loops by frames. Each is
 * run by the token executor, and as what its plan becomes where plans are fused. */
#include "tests/support/test.h"

#include "kernels/kernels.h"
#include "runtime/session.h"
#include "tests/support/graph_def.h"

struct fixture {
    struct rt_bytes g;
    struct rt_registry *registry;
    struct rt_session *session;
    bool by_tokens;
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

static int set_up_tokens(void **state)
{
    const int failed = set_up(state);
    ((struct fixture *)*state)->by_tokens = true;
    return failed;
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

static void open_session(struct fixture *x)
{
    struct rt_library *l = NULL;
    struct rt_session_options options = {.registry = x->registry};
    options.tuning.no_fusion = x->by_tokens;
    assert_ok(rt_library_import(&l, gd_span(&x->g), x->registry, &x->err), &x->err);
    assert_ok(rt_session_new(&x->session, l, &options, &x->err), &x->err);
}

/* Feeds "x" with a scalar (NULL: no feed) and fetches one tensor. */
static enum rt_status run(struct fixture *x, const float *feed, const char *fetch,
                          const char *target, struct rt_tensor *out)
{
    struct rt_callable *c;
    const char *feeds[] = {"x"};
    struct rt_call_spec spec = {.feeds = feeds,
                                .fetches = &fetch,
                                .targets = &target,
                                .n_feeds = feed ? 1 : 0,
                                .n_fetches = fetch ? 1 : 0,
                                .n_targets = target ? 1 : 0};
    struct rt_tensor in = {.dtype = RT_F32};
    float value = feed ? *feed : 0;
    in.data = &value;
    if (!x->session)
        open_session(x);
    enum rt_status st = rt_session_prepare(x->session, &spec, &c, &x->err);
    return st ? st : rt_callable_run(c, &in, out, NULL, &x->err);
}

static float number(struct fixture *x, float feed, const char *fetch)
{
    struct rt_tensor t = {0};
    assert_ok(run(x, &feed, fetch, NULL, &t), &x->err);
    assert_int_equal(t.rank, 0);
    float f = t.dtype == RT_I32 ? (float)*(const int32_t *)t.data : *(const float *)t.data;
    rt_tensor_clear(&t);
    return f;
}

static void constant(struct fixture *x, const char *name, const char *ctrl, const char *value)
{
    char attrs[100];
    snprintf(attrs, sizeof attrs, "dtype=float value=float<>:%s", value);
    node(x, name, "Const", ctrl, attrs);
}

/* x > 0 ? -x : x + 10, by Switch and Merge. */
static void cond(struct fixture *x)
{
    node(x, "x", "Placeholder", "", "dtype=float");
    constant(x, "zero", "", "0");
    node(x, "pred", "Greater", "x zero", "T=float");
    node(x, "switch", "Switch", "x pred", "T=float");
    node(x, "then", "Neg", "switch:1", "T=float");
    constant(x, "ten", "^else_pivot", "10");
    node(x, "else_pivot", "Neg", "switch:0", "T=float");
    node(x, "else", "Add", "switch:0 ten", "T=float");
    node(x, "merge", "Merge", "else then", "T=float N=2");
}

static void a_branch_is_taken_and_the_other_is_dead(void **state)
{
    struct fixture *x = *state;
    cond(x);
    assert_true(number(x, 3, "merge") == -3);
    assert_true(number(x, 3, "merge:1") == 1);
    assert_true(number(x, -3, "merge") == 7);
    assert_true(number(x, -3, "merge:1") == 0);
    assert_true(number(x, 5, "then") == -5);
}

static void fetching_a_dead_tensor_is_refused(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor t = {0};
    float minus = -1;
    cond(x);
    assert_fails(run(x, &minus, "then", NULL, &t), RT_INVALID_ARGUMENT, &x->err,
                 "Retval[0] does not have value");
}

static void control_edges_carry_deadness_but_not_through_a_trigger(void **state)
{
    struct fixture *x = *state;
    cond(x);
    constant(x, "if_then", "^then", "1");
    constant(x, "if_else", "^else", "2");
    node(x, "which", "Merge", "if_then if_else", "T=float N=2");
    node(x, "trigger", "ControlTrigger", "^then ^else", "");
    constant(x, "always", "^trigger", "3");
    node(x, "noop", "NoOp", "^then ^else", "");
    constant(x, "never", "^noop", "4");
    assert_true(number(x, 3, "which") == 1);
    assert_true(number(x, -3, "which") == 2);
    assert_true(number(x, -3, "always") == 3);
    struct rt_tensor t = {0};
    float one = 1;
    assert_fails(run(x, &one, "never", NULL, &t), RT_INVALID_ARGUMENT, &x->err, "Retval[0]");
}

static void a_switch_wants_a_scalar(void **state)
{
    struct fixture *x = *state;
    node(x, "x", "Placeholder", "", "dtype=float");
    node(x, "p", "Const", "", "dtype=bool value=bool<2>:1");
    node(x, "switch", "Switch", "x p", "T=float");
    struct rt_tensor t = {0};
    float one = 1;
    assert_fails(run(x, &one, "switch", NULL, &t), RT_INVALID_ARGUMENT, &x->err,
                 "[[{{node switch}}]]");
}

/* A loop named `p`: from `start`, while value < limit: value = `body` of it. Its end: p/exit. */
static void loop_head(struct fixture *x, const char *p, const char *start, const char *limit)
{
    char name[64], inputs[200], attrs[100];
    snprintf(attrs, sizeof attrs, "T=float frame_name='%s'", p);
#define N(NAME, OP, IN, ATTRS)                                                                     \
    snprintf(name, sizeof name, "%s/" NAME, p), node(x, name, OP, IN, ATTRS)
    N("enter", "Enter", start, attrs);
    snprintf(attrs, sizeof attrs, "T=float frame_name='%s' is_constant=true", p);
    N("limit", "Enter", limit, attrs);
    snprintf(inputs, sizeof inputs, "%s/enter %s/next", p, p);
    N("merge", "Merge", inputs, "T=float N=2");
    snprintf(inputs, sizeof inputs, "%s/merge %s/limit", p, p);
    N("less", "Less", inputs, "T=float");
    snprintf(inputs, sizeof inputs, "%s/less", p);
    N("cond", "LoopCond", inputs, "");
    snprintf(inputs, sizeof inputs, "%s/merge %s/cond", p, p);
    N("switch", "Switch", inputs, "T=float");
    snprintf(inputs, sizeof inputs, "%s/switch:0", p);
    N("exit", "Exit", inputs, "T=float");
}

static void loop_tail(struct fixture *x, const char *p, const char *result)
{
    char name[64];
    N("next", "NextIteration", result, "T=float");
#undef N
}

static void a_loop_runs_until_its_condition_ends_it(void **state)
{
    struct fixture *x = *state;
    node(x, "x", "Placeholder", "", "dtype=float");
    constant(x, "limit", "", "100");
    loop_head(x, "w", "x", "limit");
    constant(x, "w/two", "^w/switch", "2");
    node(x, "w/double", "Mul", "w/switch:1 w/two", "T=float");
    loop_tail(x, "w", "w/double");
    node(x, "end", "Neg", "w/exit", "T=float");
    assert_true(number(x, 3, "end") == -192);
    assert_true(number(x, 100, "end") == -100);
    assert_true(number(x, 1, "w/exit") == 128);
}

/* For i in 1, 2, 4, 8: inner loop raises y by 3 until it is at least i * 10. */
static void nested(struct fixture *x, const char *start)
{
    constant(x, "limit", "", "10");
    constant(x, "y0", "", "0");
    loop_head(x, "w", start, "limit");
    node(x, "w/y_enter", "Enter", "y0", "T=float frame_name='w'");
    node(x, "w/y", "Merge", "w/y_enter w/y_next", "T=float N=2");
    node(x, "w/y_switch", "Switch", "w/y w/cond", "T=float");
    node(x, "w/y_exit", "Exit", "w/y_switch:0", "T=float");
    constant(x, "w/ten", "^w/switch", "10");
    node(x, "w/goal", "Mul", "w/switch:1 w/ten", "T=float");
    loop_head(x, "in", "w/y_switch:1", "w/goal");
    constant(x, "in/three", "^in/switch", "3");
    node(x, "in/more", "Add", "in/switch:1 in/three", "T=float");
    loop_tail(x, "in", "in/more");
    node(x, "w/y_next", "NextIteration", "in/exit", "T=float");
    constant(x, "w/two", "^w/switch", "2");
    node(x, "w/double", "Mul", "w/switch:1 w/two", "T=float");
    loop_tail(x, "w", "w/double");
}

static void loops_nest(void **state)
{
    struct fixture *x = *state;
    node(x, "x", "Placeholder", "", "dtype=float");
    nested(x, "x");
    /* y: 12, 21, 42, 81 */
    assert_true(number(x, 1, "w/y_exit") == 81);
    assert_true(number(x, 1, "w/exit") == 16);
    assert_true(number(x, 20, "w/y_exit") == 0);
    assert_true(number(x, 8, "w/y_exit") == 81);
}

static void a_loop_on_the_untaken_side_leaves_dead(void **state)
{
    struct fixture *x = *state;
    node(x, "x", "Placeholder", "", "dtype=float");
    constant(x, "zero", "", "0");
    node(x, "pred", "Greater", "x zero", "T=float");
    node(x, "switch", "Switch", "x pred", "T=float");
    nested(x, "switch:1");
    node(x, "else", "Neg", "switch:0", "T=float");
    node(x, "merge", "Merge", "else w/exit", "T=float N=2");
    assert_true(number(x, 1, "merge") == 16);
    assert_true(number(x, -5, "merge") == 5);
}

static void a_branch_inside_a_loop_is_chosen_in_each_round(void **state)
{
    struct fixture *x = *state;
    node(x, "x", "Placeholder", "", "dtype=float");
    constant(x, "limit", "", "50");
    loop_head(x, "w", "x", "limit");
    constant(x, "w/five", "^w/switch", "5");
    node(x, "w/pred", "Less", "w/switch:1 w/five", "T=float");
    node(x, "w/s", "Switch", "w/switch:1 w/pred", "T=float");
    node(x, "w/small", "Add", "w/s:1 w/five", "T=float");
    node(x, "w/large", "Mul", "w/s:0 w/s:0", "T=float");
    node(x, "w/m", "Merge", "w/small w/large", "T=float N=2");
    loop_tail(x, "w", "w/m");
    assert_true(number(x, 2, "w/exit") == 2401); /* 2, 7, 49, 2401 */
    assert_true(number(x, 6, "w/exit") == 1296); /* 6, 36, 1296 */
}

static void variables_go_through_ref_switch_and_frames(void **state)
{
    struct fixture *x = *state;
    node(x, "v", "VariableV2", "", "dtype=float shape=<>");
    constant(x, "one", "", "1");
    node(x, "init", "Assign", "v one", "T=float");
    node(x, "x", "Placeholder", "", "dtype=float");
    node(x, "pred", "Greater", "x one", "T=float");
    node(x, "rs", "RefSwitch", "v pred", "T=float");
    node(x, "add", "AssignAdd", "rs:1 x", "T=float");
    node(x, "sub", "AssignSub", "rs:0 x", "T=float");
    node(x, "m", "RefMerge", "add sub", "T=float N=2");
    node(x, "out", "Neg", "m", "T=float");
    constant(x, "limit", "", "20");
    node(x, "w/v", "RefEnter", "v", "T=float frame_name='w' is_constant=true");
    loop_head(x, "w", "x", "limit");
    node(x, "w/sum", "Add", "w/switch:1 w/v", "T=float");
    loop_tail(x, "w", "w/sum");
    struct rt_tensor t = {0};
    float five = 5;
    assert_fails(run(x, &five, "out", NULL, &t), RT_FAILED_PRECONDITION, &x->err,
                 "Attempting to use uninitialized value v");
    assert_ok(run(x, NULL, NULL, "init", &t), &x->err);
    assert_true(number(x, 5, "out") == -6);
    assert_true(number(x, 0.5f, "out") == -5.5f);
    assert_true(number(x, 1, "w/exit") == 23); /* 1, 6.5, 12, 17.5, 23 */
}

static void a_frame_may_not_be_left_but_by_exit(void **state)
{
    struct fixture *x = *state;
    node(x, "x", "Placeholder", "", "dtype=float");
    constant(x, "limit", "", "100");
    loop_head(x, "w", "x", "limit");
    loop_tail(x, "w", "w/switch:1");
    node(x, "bad", "Add", "w/switch:1 x", "T=float");
    struct rt_tensor t = {0};
    float one = 1;
    assert_fails(run(x, &one, "bad", NULL, &t), RT_INVALID_ARGUMENT, &x->err,
                 "{{node bad}} has inputs from different frames.");
}

static void a_loop_ends_when_the_deadline_has_passed(void **state)
{
    struct fixture *x = *state;
    node(x, "x", "Placeholder", "", "dtype=float");
    constant(x, "limit", "", "100");
    loop_head(x, "w", "x", "limit");
    loop_tail(x, "w", "w/switch:1");
    open_session(x);
    const char *feed = "x", *fetch = "w/exit";
    struct rt_call_spec spec = {.feeds = &feed, .fetches = &fetch, .n_feeds = 1, .n_fetches = 1};
    struct rt_callable *c;
    assert_ok(rt_session_prepare(x->session, &spec, &c, &x->err), &x->err);
    float value = 1;
    struct rt_tensor in = {.dtype = RT_F32, .data = &value}, out = {0};
    struct rt_run_options options = {.deadline_ns = 1};
    assert_fails(rt_callable_run(c, &in, &out, &options, &x->err), RT_DEADLINE_EXCEEDED, &x->err,
                 "");
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, set_up, tear_down),                                      \
        cmocka_unit_test_setup_teardown(name, set_up_tokens, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_branch_is_taken_and_the_other_is_dead),
        TEST(fetching_a_dead_tensor_is_refused),
        TEST(control_edges_carry_deadness_but_not_through_a_trigger),
        TEST(a_switch_wants_a_scalar),
        TEST(a_loop_runs_until_its_condition_ends_it),
        TEST(loops_nest),
        TEST(a_loop_on_the_untaken_side_leaves_dead),
        TEST(a_branch_inside_a_loop_is_chosen_in_each_round),
        TEST(variables_go_through_ref_switch_and_frames),
        TEST(a_frame_may_not_be_left_but_by_exit),
        TEST(a_loop_ends_when_the_deadline_has_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
