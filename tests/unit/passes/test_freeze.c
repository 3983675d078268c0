/*
 * A variable that a plan may write is not frozen in that plan (runtime/passes/freeze.c), no matter
 * how the plan gets a handle to the variable. Even the first run must read the new value.
 *
 * The variables "a" and "b" hold 1 and 2. In each form of the graph, "h" is a handle to "a" if x is
 * positive and to "b" otherwise, and 10 is written through "h". "a_now" and "b_now" are read after
 * the write.
 */
#include "tests/support/registry.h"
#include "tests/support/test.h"

#include "runtime/api/describe.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"

enum { MOST_LINES = 17 };

struct form {
    const char *what;
    struct gd_line line[MOST_LINES];
};

#define RESOURCE(in, more) "Tcond=bool Tin=[" in "] Tout=[resource] " more
#define ASSIGN(handle)                                                                             \
    {                                                                                              \
        "write", "AssignVariableOp", handle " ten", "dtype=float"                                  \
    }
#define HANDLE(name, of, ctrl)                                                                     \
    {                                                                                              \
        name, "VarHandleOp", ctrl, "dtype=float shape=<1> shared_name='" of "'"                    \
    }
#define IF                                                                                         \
    {                                                                                              \
        "h", "If", "positive x", RESOURCE("float", "then_branch=@give_a else_branch=@give_b")      \
    }

static const struct form forms[] = {
    {"If", {IF, ASSIGN("h")}},
    {"Case",
     {{"h", "Case", "index x", "Tin=[float] Tout=[resource] branches=[@give_b,@give_a]"},
      ASSIGN("h")}},
    {"If in If",
     {{"h", "If", "positive x", RESOURCE("float", "then_branch=@give_if else_branch=@give_b")},
      ASSIGN("h")}},
    {"While",
     {{"h", "While", "b x", "T=[resource,float] cond=@goes_on body=@give_a_next"}, ASSIGN("h")}},
    {"While of which nothing else is read",
     {{"h", "StatelessWhile", "b x", "T=[resource,float] cond=@goes_on body=@give_a_next"},
      {"i", "IdentityN", "h:0 h:1", "T=[resource,float]"},
      ASSIGN("i")}},
    {"a call that stays one",
     {{"h", "StatefulPartitionedCall", "x", "Tin=[float] Tout=[resource] f=@give_switched"},
      ASSIGN("h")}},
    {"a call whose argument it is",
     {{"hh", "If", "positive x", RESOURCE("float", "then_branch=@give_a else_branch=@give_b")},
      {"h", "PartitionedCall", "hh", "Tin=[resource] Tout=[resource] f=@same"},
      ASSIGN("h")}},
    {"write inside If",
     {IF,
      {"write", "If", "yes h ten",
       "Tcond=bool Tin=[resource,float] Tout=[float] then_branch=@write else_branch=@write"}}},
    {"write inside an If that is not known",
     {IF,
      {"write", "If", "positive h ten",
       "Tcond=bool Tin=[resource,float] Tout=[float] then_branch=@write else_branch=@write"}}},
    {"write inside If inside If",
     {IF,
      {"write", "If", "positive h ten",
       "Tcond=bool Tin=[resource,float] Tout=[float] then_branch=@write_if else_branch=@write"}}},
    {"write inside While",
     {IF, {"write", "While", "h zero", "T=[resource,float] cond=@goes_on_below body=@write_next"}}},
    {"write inside While through what the last step made",
     {{"two", "Const", "", "dtype=float value=float<>:2"},
      {"xx", "Mul", "x two", "T=float"},
      {"write", "While", "b xx", "T=[resource,float] cond=@goes_on body=@write_give_a"}}},
    {"write inside Case",
     {IF,
      {"write", "Case", "index h ten",
       "Tin=[resource,float] Tout=[float] branches=[@write,@write]"}}},
    {"AssignAdd", {IF, {"write", "AssignAddVariableOp", "h nine_or_eight", "dtype=float"}}},
    {"scatter", {IF, {"write", "ResourceScatterUpdate", "h i0 ten", "dtype=float Tindices=int32"}}},
    {"strided assignment",
     {IF, {"write", "ResourceStridedSliceAssign", "h i0 i1 i1 ten", "T=float Index=int32"}}},
    {"Identity of a container",
     {IF,
      {"n", "IdentityN", "x h", "T=[float,resource]"},
      {"i", "Identity", "n:1", "T=resource"},
      ASSIGN("i")}},
    {"Switch and Merge",
     {{"p", "Switch", "positive positive", "T=bool"},
      {"p_no", "Identity", "p:0", "T=bool"},
      {"p_yes", "Identity", "p:1", "T=bool"},
      HANDLE("a_side", "a", "^p_yes"),
      HANDLE("b_side", "b", "^p_no"),
      {"h", "Merge", "a_side b_side", "T=resource N=2"},
      ASSIGN("h")}},
    {"Switch and Merge of handles made before",
     {{"sa", "Switch", "a positive", "T=resource"},
      {"sb", "Switch", "b positive", "T=resource"},
      {"h", "Merge", "sa:1 sb:0", "T=resource N=2"},
      ASSIGN("h")}},
    {"Switch and Merge around If",
     {IF,
      {"sa", "Switch", "h positive", "T=resource"},
      {"ia", "Identity", "sa:1", "T=resource"},
      {"ib", "Identity", "sa:0", "T=resource"},
      {"m", "Merge", "ia ib", "T=resource N=2"},
      ASSIGN("m")}},
    {"a loop of TensorFlow 1",
     {{"e", "Enter", "b", "T=resource frame_name='f'"},
      {"ex", "Enter", "x", "T=float frame_name='f'"},
      {"m", "Merge", "e n", "T=resource N=2"},
      {"mx", "Merge", "ex nx", "T=float N=2"},
      {"g0", "Const", "^mx", "dtype=float value=float<>:0"},
      {"c", "Greater", "mx g0", "T=float"},
      {"lc", "LoopCond", "c", ""},
      {"s", "Switch", "m lc", "T=resource"},
      {"sx", "Switch", "mx lc", "T=float"},
      {"ix", "Identity", "sx:1", "T=float"},
      HANDLE("a_step", "a", "^ix"),
      {"dx", "Neg", "ix", "T=float"},
      {"n", "NextIteration", "a_step", "T=resource"},
      {"nx", "NextIteration", "dx", "T=float"},
      {"h", "Exit", "s", "T=resource"},
      ASSIGN("h")}},
    {"Pack and GatherV2",
     {{"p", "Pack", "b a", "T=resource N=2"},
      {"h", "GatherV2", "p index i00", "Tparams=resource Tindices=int32 Taxis=int32"},
      ASSIGN("h")}},
    {"SelectV2", {{"h", "SelectV2", "positive a b", "T=resource"}, ASSIGN("h")}},
    {"PlaceholderWithDefault",
     {IF, {"d", "PlaceholderWithDefault", "h", "dtype=resource shape=<>"}, ASSIGN("d")}},
};

/* Forms of the graph in which "a" and "b" are TensorFlow 1 reference variables. */
static const struct form ref_forms[] = {
    {"RefSwitch and RefMerge",
     {{"sa", "RefSwitch", "ra positive", "T=float"},
      {"sb", "RefSwitch", "rb positive", "T=float"},
      {"h", "RefMerge", "sa:1 sb:0", "T=float N=2"},
      {"write", "Assign", "h ten", "T=float"}}},
    {"a write on each side",
     {{"sa", "RefSwitch", "ra positive", "T=float"},
      {"sb", "RefSwitch", "rb positive", "T=float"},
      {"wa", "Assign", "sa:1 ten", "T=float"},
      {"wb", "Assign", "sb:0 ten", "T=float"},
      {"write", "RefMerge", "wa wb", "T=float N=2"}}},
    {"Assign of what Assign hands on",
     {{"sa", "RefSwitch", "ra positive", "T=float"},
      {"sb", "RefSwitch", "rb positive", "T=float"},
      {"h", "RefMerge", "sa:1 sb:0", "T=float N=2"},
      {"w", "AssignAdd", "h ten", "T=float"},
      {"write", "Assign", "w ten", "T=float"}}},
};

struct function {
    const char *name, *args, *outs, *rets, *ctrl_rets;
    struct gd_line line[8];
};
#define GREATER(node, a, b)                                                                        \
    {                                                                                              \
        node, "Greater", a " " b, "T=float"                                                        \
    }
#define NUMBER(node, value)                                                                        \
    {                                                                                              \
        node, "Const", "", "dtype=float value=float<>:" value                                      \
    }
static const struct function functions[] = {
    {"give_a", "x:float", "h:resource", "h=a:resource:0", "", {HANDLE("a", "a", "")}},
    {"give_b", "x:float", "h:resource", "h=b:resource:0", "", {HANDLE("b", "b", "")}},
    {"give_if",
     "x:float",
     "h:resource",
     "h=i:output:0",
     "",
     {NUMBER("no", "0"),
      GREATER("p", "x", "no:output:0"),
      {"i", "If", "p:z:0 x", RESOURCE("float", "then_branch=@give_a else_branch=@give_b")}}},
    {"give_switched",
     "x:float",
     "h:resource",
     "h=m:output:0",
     "",
     {NUMBER("no", "0"),
      GREATER("p", "x", "no:output:0"),
      HANDLE("a", "a", ""),
      HANDLE("b", "b", ""),
      {"sa", "Switch", "a:resource:0 p:z:0", "T=resource"},
      {"sb", "Switch", "b:resource:0 p:z:0", "T=resource"},
      {"m", "Merge", "sa:output_true:0 sb:output_false:0", "T=resource N=2"}}},
    {"same", "h:resource", "g:resource", "g=h", "", {{NULL, NULL, NULL, NULL}}},
    {"goes_on",
     "h:resource x:float",
     "p:bool",
     "p=p:z:0",
     "",
     {NUMBER("no", "0"), GREATER("p", "x", "no:output:0")}},
    {"goes_on_below",
     "h:resource x:float",
     "p:bool",
     "p=p:z:0",
     "",
     {NUMBER("one", "1"), GREATER("p", "one:output:0", "x")}},
    {"give_a_next",
     "h:resource x:float",
     "a:resource y:float",
     "a=a:resource:0 y=y:y:0",
     "",
     {HANDLE("a", "a", ""), {"y", "Neg", "x", "T=float"}}},
    {"write_next",
     "h:resource x:float",
     "a:resource y:float",
     "a=h y=y:z:0",
     "w=w",
     {NUMBER("one", "1"),
      {"ten", "Const", "", "dtype=float value=float<1>:10"},
      {"w", "AssignVariableOp", "h ten:output:0", "dtype=float"},
      {"y", "AddV2", "x one:output:0", "T=float"}}},
    {"write_give_a", /* the loop has two iterations, and its first iteration writes "b" */
     "h:resource x:float",
     "a:resource y:float",
     "a=a:resource:0 y=y:z:0",
     "w=w",
     {NUMBER("one", "1"),
      {"ten", "Const", "", "dtype=float value=float<1>:10"},
      {"w", "AssignVariableOp", "h ten:output:0", "dtype=float"},
      HANDLE("a", "a", ""),
      {"y", "Sub", "x one:output:0", "T=float"}}},
    {"read",
     "h:resource x:float",
     "o:float",
     "o=s:output:0",
     "",
     {{"r", "ReadVariableOp", "h", "dtype=float"},
      {"i", "Const", "", "dtype=int32 value=int32<1>:0"},
      {"s", "Sum", "r:value:0 i:output:0", "T=float Tidx=int32"}}},
    {"read_next",
     "h:resource x:float",
     "a:resource y:float",
     "a=h y=y:z:0",
     "",
     {{"r", "ReadVariableOp", "h", "dtype=float"},
      {"i", "Const", "", "dtype=int32 value=int32<1>:0"},
      {"s", "Sum", "r:value:0 i:output:0", "T=float Tidx=int32"},
      {"y", "Sub", "x s:output:0", "T=float"}}},
    {"write",
     "h:resource v:float",
     "o:float",
     "o=v",
     "w=w",
     {{"w", "AssignVariableOp", "h v", "dtype=float"}}},
    {"write_if",
     "h:resource v:float",
     "o:float",
     "o=i:output:0",
     "",
     {NUMBER("no", "0"),
      GREATER("p", "v", "no:output:0"),
      {"i", "If", "v h v",
       "Tcond=float Tin=[resource,float] Tout=[float] then_branch=@write else_branch=@write"}}},
};

static void make_graph(struct rt_bytes *g, const struct form *f, bool is_ref)
{
    static const struct gd_line base[] = {
        {"x", "Placeholder", "", "dtype=float shape=<>"},
        {"zero", "Const", "", "dtype=float value=float<>:0"},
        {"ten", "Const", "", "dtype=float value=float<1>:10"},
        {"nine", "Const", "", "dtype=float value=float<1>:9"},
        {"eight", "Const", "", "dtype=float value=float<1>:8"},
        {"one", "Const", "", "dtype=float value=float<1>:1"},
        {"two_", "Const", "", "dtype=float value=float<1>:2"},
        {"yes", "Const", "", "dtype=bool value=bool<>:1"},
        {"i00", "Const", "", "dtype=int32 value=int32<>:0"},
        {"i0", "Const", "", "dtype=int32 value=int32<1>:0"},
        {"i1", "Const", "", "dtype=int32 value=int32<1>:1"},
        {"positive", "Greater", "x zero", "T=float"},
        {"index", "Cast", "positive", "SrcT=bool DstT=int32"},
        {"nine_or_eight", "SelectV2", "positive nine eight", "T=float"},
        {NULL, NULL, NULL, NULL},
    };
    static const struct gd_line handles[] = {
        HANDLE("a", "a", ""),
        HANDLE("b", "b", ""),
        {"a_init", "AssignVariableOp", "a one", "dtype=float"},
        {"b_init", "AssignVariableOp", "b two_", "dtype=float"},
        {"a_now", "ReadVariableOp", "a ^write", "dtype=float"},
        {"b_now", "ReadVariableOp", "b ^write", "dtype=float"},
        {NULL, NULL, NULL, NULL},
    };
    static const struct gd_line refs[] = {
        {"ra", "VariableV2", "", "dtype=float shape=<1>"},
        {"rb", "VariableV2", "", "dtype=float shape=<1>"},
        {"a_init", "Assign", "ra one", "T=float"},
        {"b_init", "Assign", "rb two_", "T=float"},
        {"a_now", "Mul", "ra one ^write", "T=float"},
        {"b_now", "Mul", "rb one ^write", "T=float"},
        {NULL, NULL, NULL, NULL},
    };
    rt_bytes_init(g, 1 << 20);
    gd_lines(g, base, NULL);
    gd_lines(g, is_ref ? refs : handles, NULL);
    gd_lines(g, f->line, NULL);
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        const struct function *x = &functions[k];
        struct rt_bytes nodes;
        rt_bytes_init(&nodes, 1 << 16);
        gd_lines(&nodes, x->line, NULL);
        gd_function(g, x->name, x->args, x->outs, &nodes, x->rets, x->ctrl_rets);
        rt_bytes_clear(&nodes);
    }
}

enum way { COMPILED = 1, FUSED = 2, N_WAYS = 4 };

static struct rt_session *open_session(const struct rt_bytes *g, int way)
{
    const struct rt_session_options options = {
        .registry = test_registry,
        .tuning = {.no_specialise = !(way & COMPILED), .no_fusion = !(way & FUSED)},
        .compiles_inline = way & COMPILED};
    struct rt_session *s = gs_open(gd_span(g), &options);
    gs_load(s, "a_init");
    gs_load(s, "b_init");
    rt_session_serve(s);
    return s;
}

static void check_first_run(const struct form *f, bool is_ref, int way, float x)
{
    static const char *const feed = "x", *const fetch[] = {"a_now", "b_now"};
    const struct rt_call_spec spec = {
        .feeds = &feed, .n_feeds = 1, .fetches = fetch, .n_fetches = 2};
    const struct rt_tensor in = {.dtype = RT_F32, .data = &x};
    struct rt_tensor out[2] = {{0}};
    struct rt_callable *c = NULL;
    struct rt_bytes g;
    struct rt_error err = {0};

    make_graph(&g, f, is_ref);
    struct rt_session *s = open_session(&g, way);
    if (rt_session_prepare(s, &spec, &c, &err) || rt_callable_run(c, &in, out, NULL, &err))
        fail_msg("%s: %s", f->what, rt_error_text(&err));
    const float a = *(const float *)out[0].data, b = *(const float *)out[1].data;
    /* The form whose name contains "last step" writes to "b" first and then to "a". */
    const bool both = strstr(f->what, "last step") && x > 0;
    if (a != (x > 0 ? 10.0F : 1.0F) || b != (x > 0 && !both ? 2.0F : 10.0F))
        fail_msg("%s, way %d, x %g: a and b are %g and %g", f->what, way, (double)x, (double)a,
                 (double)b);
    rt_tensor_clear(&out[0]);
    rt_tensor_clear(&out[1]);
    rt_session_free(s);
    rt_bytes_clear(&g);
}

static void the_first_run_reads_what_it_wrote(void **state)
{
    (void)state;
    for (int way = 0; way < N_WAYS; way++) {
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
            check_first_run(&forms[k], false, way, 1);
            if (!strstr(forms[k].what, "last step")) /* if x is -1, the loop has no iterations */
                check_first_run(&forms[k], false, way, -1);
        }
        for (size_t k = 0; k < sizeof ref_forms / sizeof *ref_forms; k++) {
            check_first_run(&ref_forms[k], true, way, 1);
            check_first_run(&ref_forms[k], true, way, -1);
        }
    }
}

static void a_handle_that_is_fed_may_be_of_any_variable(void **state)
{
    static const struct form form = {
        "fed", {{"h", "Placeholder", "", "dtype=resource shape=<>"}, ASSIGN("h")}};
    struct rt_tensor h = {0}, out = {0};
    struct rt_error err = {0};
    struct rt_bytes g;
    (void)state;
    make_graph(&g, &form, false);
    struct rt_session *s = open_session(&g, COMPILED);
    assert_ok(rt_callable_run(gs_call(s, NULL, "a"), NULL, &h, NULL, &err), &err);
    assert_ok(rt_callable_run(gs_call(s, "h", "a_now"), &h, &out, NULL, &err), &err);
    assert_true(*(const float *)out.data == 10.0F);
    rt_tensor_clear(&out);
    rt_tensor_clear(&h);
    rt_session_free(s);
    rt_bytes_clear(&g);
}

/* Returns the number of nodes with the op `op` in the plan and in the plans of its subgraphs. */
static int count_op(struct rt_session *s, const char *fetch, const char *op)
{
    struct rt_arena *arena = rt_arena_new(1 << 24);
    struct rt_described_plan d;
    struct rt_error err = {0};
    int n = 0;
    assert_non_null(arena);
    assert_ok(rt_callable_describe(gs_call(s, "x", fetch), arena, &d, &err), &err);
    for (int i = 0; i < d.n_nodes; i++)
        n += strcmp(d.node[i].op, op) == 0;
    rt_arena_free(arena);
    return n;
}

/* Handles that pass through branches and loops do not prevent a variable from being frozen unless a
 * node writes through them. */
static void what_is_only_read_is_frozen(void **state)
{
    static const struct form form = {
        "reads",
        {{"h", "While", "b x", "T=[resource,float] cond=@goes_on body=@read_next"},
         {"r", "Identity", "h:1", "T=float"},
         {"i", "If", "positive b x",
          "Tcond=bool Tin=[resource,float] Tout=[float] then_branch=@read else_branch=@read"},
         {"write", "NoOp", "", ""}}};
    struct rt_bytes g;
    (void)state;
    make_graph(&g, &form, false);
    struct rt_session *s = open_session(&g, COMPILED);
    assert_int_equal(count_op(s, "r", "ReadVariableOp"), 0);
    assert_int_equal(count_op(s, "i", "ReadVariableOp"), 0);
    assert_int_equal(count_op(s, "a_now", "ReadVariableOp"), 0);
    rt_session_free(s);
    rt_bytes_clear(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_run_reads_what_it_wrote),
        cmocka_unit_test(a_handle_that_is_fed_may_be_of_any_variable),
        cmocka_unit_test(what_is_only_read_is_frozen),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
