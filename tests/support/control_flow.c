#include "tests/support/control_flow.h"

static void branch(struct small_graph *x, const char *of)
{
    char both[64];
    snprintf(both, sizeof both, "%s %s", of, of);
    sg_node(x, "pred", "Identity", of, "T=bool");
    sg_node(x, "pivot", "Switch", both, "T=bool");
    sg_node(x, "pivot_t", "Identity", "pivot:1", "T=bool");
    sg_node(x, "pivot_f", "Identity", "pivot:0", "T=bool");
    sg_node(x, "switch", "Switch", "x pred", "T=float");
    sg_node(x, "then", "Neg", "switch:1", "T=float");
    sg_constant(x, "ten", "^pivot_f", "10");
    sg_node(x, "else", "Add", "switch:0 ten", "T=float");
    sg_node(x, "merge", "Merge", "else then", "T=float N=2");
    sg_node(x, "which", "Identity", "merge:1", "T=int32");
}

void cf_cond(struct small_graph *x)
{
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    sg_constant(x, "zero", "", "0");
    sg_node(x, "greater", "Greater", "x zero", "T=float");
    branch(x, "greater");
}

void cf_flag(struct small_graph *x, bool value)
{
    sg_node(x, "flag/default", "Const", "",
            value ? "dtype=bool value=bool<>:1" : "dtype=bool value=bool<>:0");
    sg_node(x, "flag", "PlaceholderWithDefault", "flag/default", "dtype=bool shape=<>");
}

void cf_cond_of_flag(struct small_graph *x, bool value)
{
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    cf_flag(x, value);
    branch(x, "flag");
}

/* Writes `pattern` to `out` with `text` in place of each '$'. */
static void expand(char *out, size_t capacity, const char *pattern, const char *text)
{
    size_t n = 0;

    out[0] = 0;
    for (; *pattern; pattern++) {
        const char c[] = {*pattern, 0};
        n += (size_t)snprintf(out + n, capacity - n, "%s", *pattern == '$' ? text : c);
        assert_true(n < capacity);
    }
}

/* Adds a node with `text` in place of each '$' in its name, inputs and attributes. */
static void expanded_node(struct small_graph *x, const char *text, const char *name, const char *op,
                          const char *inputs, const char *attrs)
{
    char n[64], in[200], a[100];

    expand(n, sizeof n, name, text);
    expand(in, sizeof in, inputs, text);
    expand(a, sizeof a, attrs, text);
    sg_node(x, n, op, in, a);
}

void cf_loop(struct small_graph *x, const char *frame, const char *start, const char *limit,
             const char *next)
{
    expanded_node(x, frame, "$/enter", "Enter", start, "T=float frame_name='$'");
    expanded_node(x, frame, "$/limit", "Enter", limit, "T=float frame_name='$' is_constant=true");
    expanded_node(x, frame, "$/merge", "Merge", "$/enter $/next", "T=float N=2");
    expanded_node(x, frame, "$/less", "Less", "$/merge $/limit", "T=float");
    expanded_node(x, frame, "$/cond", "LoopCond", "$/less", "");
    expanded_node(x, frame, "$/switch", "Switch", "$/merge $/cond", "T=float");
    expanded_node(x, frame, "$/y", "Identity", "$/switch:1", "T=float");
    expanded_node(x, frame, "$/exit", "Exit", "$/switch:0", "T=float");
    expanded_node(x, frame, "$/next", "NextIteration", next, "T=float");
}

void cf_loop_variable(struct small_graph *x, const char *frame, const char *name, const char *start,
                      const char *cond, const char *next)
{
    char attrs[100], in[160];

    snprintf(attrs, sizeof attrs, "T=float frame_name='%s'", frame);
    expanded_node(x, name, "$_enter", "Enter", start, attrs);
    expanded_node(x, name, "$_merge", "Merge", "$_enter $_next", "T=float N=2");
    snprintf(in, sizeof in, "$_merge %s", cond);
    expanded_node(x, name, "$_switch", "Switch", in, "T=float");
    expanded_node(x, name, "$_exit", "Exit", "$_switch:0", "T=float");
    expanded_node(x, name, "$_next", "NextIteration", next, "T=float");
}

void cf_nested_loops(struct small_graph *x, const char *start)
{
    sg_constant(x, "most_y", "", "10");
    sg_constant(x, "no_z", "", "0");
    cf_loop(x, "w", start, "most_y", "w/double");
    cf_loop_variable(x, "w", "z", "no_z", "w/cond", "in/exit");
    sg_constant(x, "w/ten", "^w/y", "10");
    sg_node(x, "w/goal", "Mul", "w/y w/ten", "T=float");
    cf_loop(x, "in", "z_switch:1", "w/goal", "in/more");
    sg_constant(x, "in/three", "^in/y", "3");
    sg_node(x, "in/more", "Add", "in/y in/three", "T=float");
    sg_node(x, "w/double", "Add", "w/y w/y", "T=float");
}

void cf_assert_functionalised(struct small_graph *x, const char *fetch, const char *op, int n)
{
    static const char *const gone[] = {"Switch", "Merge", "LoopCond"};

    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        assert_int_equal(sg_count(x, fetch, NULL, gone[i]), 0);
    assert_int_equal(sg_count(x, fetch, NULL, op), n);
}
