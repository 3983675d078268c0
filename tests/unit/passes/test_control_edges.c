/*
 * If node A names node B as a control input, every run that needs A must run B before A. This rule
 * applies no matter what replaces A in a plan. The replacement may be a constant, the body of a
 * function, the branch that is taken, a fused node, or a value that follows from a shape.
 *
 * Each tensor in `waiting` is fetched separately and depends on "gate". The node "gate" adds 1 to a
 * variable, and fails when the feed "p" is negative.
 */
#include "tests/support/registry.h"
#include "tests/support/test.h"

#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"

static const char *const waiting[] = {
    "same",          "number",       "negative",    "default",     "read",       "shape",
    "rank",          "size",         "shaped",      "dims",        "zeros",      "several",
    "split",         "relu",         "biased",      "chain",       "call_same",  "call_number",
    "call_negative", "call_read",    "call_nested", "call_behind", "call_swap",  "call_chain",
    "call_call",     "if_true",      "if_false",    "if_fed",      "if_nested",  "case_known",
    "case_fed",      "while_never",  "while_fed",   "while_twice", "switched",   "merged_data",
    "merged_number", "merged_known", "concat",      "two_calls",   "mixed",      "if_held",
    "if_idle",       "case_held",    "switch_held", "shape_held",  "rank_held",  "size_held",
    "zeros_held",    "ones_held",    "shapes_held", "fill_held",   "value_held", "call_waited",
    "other_held",    "call_unread",
};
enum { N_WAITING = sizeof waiting / sizeof *waiting };

static struct rt_bytes graph;

/* Adds a function of two floats whose body has one node, or no node. */
static void body(const char *name, const char *rets, const char *node, const char *op,
                 const char *inputs, const char *attrs)
{
    struct rt_bytes b;
    rt_bytes_init(&b, 1 << 20);
    if (node)
        gd_node(&b, node, op, inputs, attrs);
    gd_function(&graph, name, "a:float b:float", "out:float", &b, rets, "");
    rt_bytes_clear(&b);
}

static void functions(void)
{
    const char *call = "Tin=[float,float] Tout=[float] f=@negative";
    struct rt_bytes b;
    rt_bytes_init(&b, 1 << 20);
    body("same", "out=a", NULL, NULL, NULL, NULL);
    body("number", "out=c:output:0", "c", "Const", "", "dtype=float value=float<>:3");
    body("negative", "out=n:y:0", "n", "Neg", "a", "T=float");
    body("nested", "out=n:output:0", "n", "PartitionedCall", "a b", call);
    gd_node(&b, "n", "PartitionedCall", "a b", call);
    gd_node(&b, "out", "Identity", "b ^n", "T=float");
    gd_function(&graph, "behind", "a:float b:float", "out:float", &b, "out=out:output:0", "");
    rt_bytes_clear(&b);
    gd_function(&graph, "swap", "a:float b:float", "c:float d:float", &b, "c=b d=a", "");
    gd_node(&b, "f", "VarHandleOp", "", "dtype=float shape=<> shared_name='fixed'");
    gd_node(&b, "r", "ReadVariableOp", "f:resource:0", "dtype=float");
    gd_function(&graph, "read", "a:float b:float", "out:float", &b, "out=r:value:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "yes", "Const", "", "dtype=bool value=bool<>:1");
    gd_node(&b, "n", "StatelessIf", "yes:output:0 a b",
            "Tcond=bool Tin=[float,float] Tout=[float] then_branch=@number else_branch=@same");
    gd_function(&graph, "known_if", "a:float b:float", "out:float", &b, "out=n:output:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "less", "Less", "a b", "T=float");
    gd_function(&graph, "less", "a:float b:float", "out:bool", &b, "out=less:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&b, "next", "AddV2", "a one:output:0", "T=float");
    gd_function(&graph, "next", "a:float b:float", "c:float d:float", &b, "c=next:z:0 d=b", "");
    rt_bytes_clear(&b);
}

static void gate(void)
{
    struct rt_bytes *g = &graph;
    gd_node(g, "p", "Placeholder", "", "dtype=float shape=<?>");
    gd_node(g, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(g, "zero", "Const", "", "dtype=float value=float<>:0");
    gd_node(g, "i0", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "axes", "Const", "", "dtype=int32 value=int32<1>:0");
    gd_node(g, "flat", "Const", "", "dtype=int32 value=int32<1>:-1");
    gd_node(g, "row", "Const", "", "dtype=int32 value=int32<2>:1,-1");
    gd_node(g, "yes", "Const", "", "dtype=bool value=bool<>:1");
    gd_node(g, "no", "Const", "", "dtype=bool value=bool<>:0");
    gd_node(g, "q", "Sum", "p axes",
            /* Reshapes p, which is fed as a vector of one element, to a scalar. */
            "T=float Tidx=int32");
    gd_node(g, "fine", "GreaterEqual", "q zero", "T=float");
    gd_node(g, "guard", "Assert", "fine q", "T=[float]");
    gd_node(g, "v", "VarHandleOp", "", "dtype=float shape=<> shared_name='count'");
    gd_node(g, "add", "AssignAddVariableOp", "v one ^guard", "dtype=float");
    gd_node(g, "v_init", "AssignVariableOp", "v zero", "dtype=float");
    gd_node(g, "f", "VarHandleOp", "", "dtype=float shape=<> shared_name='fixed'");
    gd_node(g, "f_init", "AssignVariableOp", "f one", "dtype=float");
    gd_node(g, "count", "ReadVariableOp", "v", "dtype=float");
    gd_node(g, "gate", "NoOp", "^add ^guard", "");
}

static void plain(void)
{
    struct rt_bytes *g = &graph;
    gd_node(g, "same", "Identity", "p ^gate", "T=float");
    gd_node(g, "number", "Const", "^gate", "dtype=float value=float<>:3");
    gd_node(g, "negative", "Neg", "p ^gate", "T=float");
    gd_node(g, "default", "PlaceholderWithDefault", "one ^gate", "dtype=float shape=<>");
    gd_node(g, "read", "ReadVariableOp", "f ^gate", "dtype=float");
    gd_node(g, "shape", "Shape", "p ^gate", "T=float out_type=int32");
    gd_node(g, "rank", "Rank", "p ^gate", "T=float");
    gd_node(g, "size", "Size", "p ^gate", "T=float out_type=int32");
    gd_node(g, "shaped", "Reshape", "p row ^gate", "T=float Tshape=int32");
    gd_node(g, "dims", "Identity", "shape", "T=int32");
    gd_node(g, "zeros", "ZerosLike", "p ^gate", "T=float");
    gd_node(g, "several", "IdentityN", "one p ^gate", "T=[float,float]");
    gd_node(g, "split", "Split", "i0 p ^gate", "T=float num_split=1");
    gd_node(g, "sum", "AddV2", "p one", "T=float");
    gd_node(g, "relu", "Relu", "sum ^gate", "T=float");
    gd_node(g, "line", "Reshape", "p row", "T=float Tshape=int32");
    gd_node(g, "column", "Transpose", "line perm", "T=float Tperm=int32");
    gd_node(g, "perm", "Const", "", "dtype=int32 value=int32<2>:1,0");
    gd_node(g, "product", "MatMul", "column weight", "T=float");
    gd_node(g, "weight", "Const", "", "dtype=float value=float<1,2>:1,2");
    gd_node(g, "bias", "Const", "", "dtype=float value=float<2>:1,2");
    gd_node(g, "biased", "BiasAdd", "product bias ^gate", "T=float");
    gd_node(g, "chain_1", "Mul", "p p ^gate", "T=float");
    gd_node(g, "chain_2", "AddV2", "chain_1 one", "T=float");
    gd_node(g, "chain", "Sqrt", "chain_2", "T=float");
    gd_node(g, "concat", "ConcatV2", "number_row p i0 ^gate", "T=float Tidx=int32 N=2");
    gd_node(g, "number_row", "Const", "", "dtype=float value=float<2>:1,2");
}

static void call(const char *name, const char *op, const char *inputs, const char *f)
{
    char attrs[100];
    snprintf(attrs, sizeof attrs, "Tin=[float,float] Tout=[float] f=@%s", f);
    gd_node(&graph, name, op, inputs, attrs);
}

static void calls(void)
{
    struct rt_bytes *g = &graph;
    call("call_same", "PartitionedCall", "p one ^gate", "same");
    call("call_number", "PartitionedCall", "p one ^gate", "number");
    call("call_negative", "StatefulPartitionedCall", "p one ^gate", "negative");
    call("call_read", "StatefulPartitionedCall", "p one ^gate", "read");
    call("call_nested", "PartitionedCall", "p one ^gate", "nested");
    call("call_behind", "PartitionedCall", "p one ^gate", "behind");
    gd_node(g, "swap", "PartitionedCall", "p one ^gate",
            "Tin=[float,float] Tout=[float,float] f=@swap");
    gd_node(g, "call_swap", "Identity", "swap", "T=float");
    call("call_1", "PartitionedCall", "p one ^gate", "same");
    call("call_chain", "PartitionedCall", "one zero ^call_1", "number");
    call("call_call", "PartitionedCall", "call_1 one", "same");
    call("call_2", "PartitionedCall", "one one ^call_1", "same");
    gd_node(g, "two_calls", "AddV2", "call_2 call_2", "T=float");
}

static void branches(void)
{
    struct rt_bytes *g = &graph;
    const char *of = "Tcond=bool Tin=[float,float] Tout=[float] then_branch=@same "
                     "else_branch=@number";
    const char *cases = "Tin=[float,float] Tout=[float] branches=[@same,@number]";
    const char *loop = "T=[float,float] cond=@less body=@next";
    gd_node(g, "if_true", "StatelessIf", "yes p one ^gate", of);
    gd_node(g, "if_false", "If", "no p one ^gate", of);
    gd_node(g, "pred", "Greater", "q one", "T=float");
    gd_node(g, "if_fed", "StatelessIf", "pred p one ^gate", of);
    call("if_nested", "PartitionedCall", "p one ^gate", "known_if");
    gd_node(g, "case_known", "StatelessCase", "i0 p one ^gate", cases);
    gd_node(g, "index", "Cast", "pred", "SrcT=bool DstT=int32");
    gd_node(g, "case_fed", "Case", "index p one ^gate", cases);
    gd_node(g, "while_never", "StatelessWhile", "one zero ^gate", loop);
    gd_node(g, "while_fed", "While", "zero q ^gate", loop);
    gd_node(g, "two", "Const", "", "dtype=float value=float<>:2");
    gd_node(g, "while_twice", "StatelessWhile", "zero two ^gate", loop);

    /* Tests branches as TensorFlow 1 writes them, and values whose inputs wait for "gate". */
    gd_node(g, "held", "Identity", "p ^gate", "T=float");
    gd_node(g, "switch", "Switch", "held pred", "T=float");
    gd_node(g, "switch_no", "Neg", "switch:0", "T=float");
    gd_node(g, "switch_yes", "Abs", "switch:1", "T=float");
    gd_node(g, "switched", "Merge", "switch_no switch_yes", "T=float N=2");
    gd_node(g, "data", "Switch", "p pred", "T=float");
    gd_node(g, "data_no", "Neg", "data:0 ^gate", "T=float");
    gd_node(g, "data_yes", "Abs", "data:1 ^gate", "T=float");
    gd_node(g, "merged_data", "Merge", "data_no data_yes", "T=float N=2");
    gd_node(g, "pivot", "Switch", "pred pred", "T=bool");
    gd_node(g, "pivot_no", "Identity", "pivot:0", "T=bool");
    gd_node(g, "pivot_yes", "Identity", "pivot:1", "T=bool");
    gd_node(g, "n_no", "Const", "^pivot_no ^gate", "dtype=float value=float<>:3");
    gd_node(g, "n_yes", "Const", "^pivot_yes ^gate", "dtype=float value=float<>:4");
    gd_node(g, "merged_number", "Merge", "n_no n_yes", "T=float N=2");
    gd_node(g, "known", "Switch", "p yes ^gate", "T=float");
    gd_node(g, "known_no", "Neg", "known:0", "T=float");
    gd_node(g, "known_yes", "Abs", "known:1", "T=float");
    gd_node(g, "merged_known", "Merge", "known_no known_yes", "T=float N=2");
    gd_node(g, "unheld", "Switch", "p pred", "T=float");
    gd_node(g, "unheld_no", "Neg", "unheld:0", "T=float");
    gd_node(g, "unheld_yes", "Abs", "unheld:1", "T=float");
    gd_node(g, "unheld_either", "Merge", "unheld_no unheld_yes", "T=float N=2");
    gd_node(g, "yes_held", "Const", "^gate", "dtype=bool value=bool<>:1");
    gd_node(g, "i0_held", "Const", "^gate", "dtype=int32 value=int32<>:0");
    gd_node(g, "if_held", "StatelessIf", "yes_held p one", of);
    /* The branch that is taken does not read the input "same". */
    gd_node(g, "if_idle", "If", "no same one", of);
    gd_node(g, "case_held", "StatelessCase", "i0_held p one", cases);
    gd_node(g, "sw_held", "Switch", "p yes_held", "T=float");
    gd_node(g, "sw_no", "Neg", "sw_held:0", "T=float");
    gd_node(g, "sw_yes", "Abs", "sw_held:1", "T=float");
    gd_node(g, "switch_held", "Merge", "sw_no sw_yes", "T=float N=2");
    gd_node(g, "shape_held", "Shape", "same", "T=float out_type=int32");
    gd_node(g, "rank_held", "Rank", "same", "T=float");
    gd_node(g, "size_held", "Size", "same", "T=float out_type=int32");
    gd_node(g, "zeros_held", "ZerosLike", "same", "T=float");
    gd_node(g, "ones_held", "OnesLike", "negative", "T=float");
    gd_node(g, "shapes_held", "ShapeN", "p same", "T=float out_type=int32 N=2");
    gd_node(g, "fill_held", "Fill", "shape_held one", "T=float index_type=int32");
    gd_node(g, "value_held", "BroadcastTo", "one shape_held", "T=float Tidx=int32");
    call("held_call", "PartitionedCall", "same one", "negative");
    gd_node(g, "call_waited", "Identity", "p ^held_call", "T=float");
    call("unread_call", "PartitionedCall", "one same", "same");
    gd_node(g, "call_unread", "Identity", "p ^unread_call", "T=float");
    gd_node(g, "both_held", "IdentityN", "same p", "T=[float,float]");
    gd_node(g, "other_held", "Identity", "both_held:1", "T=float");
    gd_node(g, "mixed", "AddV2", "unheld_either call_same", "T=float");
}

static int set_up(void **state)
{
    rt_bytes_init(&graph, 1 << 20);
    gate();
    functions();
    plain();
    calls();
    branches();
    return test_registry_make(state);
}

static int tear_down(void **state)
{
    rt_bytes_clear(&graph);
    return test_registry_drop(state);
}

static struct rt_callable *prepare(struct rt_session *s, const char *what, bool is_fetch)
{
    const char *feed = "p:0";
    const struct rt_call_spec spec = {.feeds = &feed,
                                      .n_feeds = 1,
                                      .fetches = &what,
                                      .n_fetches = is_fetch,
                                      .targets = &what,
                                      .n_targets = !is_fetch,
                                      .is_load = !is_fetch};
    return gs_prepare(s, &spec);
}

static enum rt_status run(struct rt_callable *c, float p, float *first)
{
    const struct rt_tensor in = {.dtype = RT_F32, .rank = 1, .dim = {1}, .data = &p};
    struct rt_tensor out = {0};
    struct rt_error err = {0};
    const enum rt_status st = rt_callable_run(c, &in, &out, NULL, &err);
    if (first && !st)
        *first = *(const float *)out.data;
    rt_tensor_clear(&out);
    return st;
}

/* The mode FUSED also functionalises the control flow of TensorFlow 1. The mode LATE prepares the
 * callables after the session has begun to serve. */
enum way { COMPILED = 1, FUSED = 2, LATE = 4, N_WAYS = 8 };

static struct rt_session *open_session(int way)
{
    const struct rt_session_options options = {
        .registry = test_registry,
        .tuning = {.no_specialise = !(way & COMPILED), .no_fusion = !(way & FUSED)},
        .compiles_inline = way & COMPILED};
    struct rt_session *s = gs_open(gd_span(&graph), &options);
    assert_int_equal(run(prepare(s, "v_init", false), 0, NULL), RT_OK);
    assert_int_equal(run(prepare(s, "f_init", false), 0, NULL), RT_OK);
    return s;
}

static void check(const char *what, int way)
{
    struct rt_session *s = open_session(way);
    struct rt_callable *count = way & LATE ? NULL : prepare(s, "count", true);
    struct rt_callable *c = way & LATE ? NULL : prepare(s, what, true);
    float n = -1;
    rt_session_serve(s);
    if (way & LATE) {
        count = prepare(s, "count", true);
        c = prepare(s, what, true);
    }
    for (int k = 1; k <= 5; k++) {
        if (run(c, (float)k, NULL) != RT_OK || run(count, 0, &n) != RT_OK || n != (float)k)
            fail_msg("%s, way %d: the gate was passed %g times, not %d", what, way, (double)n, k);
        if (run(c, -1, NULL) != RT_INVALID_ARGUMENT)
            fail_msg("%s, way %d: the guard did not fail", what, way);
    }
    rt_session_free(s);
}

static void what_waits_has_waited(void **state)
{
    (void)state;
    for (int k = 0; k < N_WAITING; k++)
        for (int way = 0; way < N_WAYS; way++) {
            char tensor[64];
            snprintf(tensor, sizeof tensor, "%s:0", waiting[k]);
            check(tensor, way);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_waits_has_waited)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
