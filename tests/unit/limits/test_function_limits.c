/*
 * Tests graphs with deeply nested function calls, with an exponential number of calls, with
 * attributes that grow from call to call, or with types that do not match the call.
 */
#include "tests/unit/limits/graph_attempt.h"

#include "proto/text.h"
#include "tensorflow/core/framework/graph.pb-c.h"
#include "tests/support/registry.h"

#define IF    "Tcond=bool Tin=[bool] Tout=[bool] then_branch=@f# else_branch=@f# output_shapes=[]"
#define CASE  "Tin=[bool] Tout=[bool] branches=[@f#,@f#,@f#,@f#] output_shapes=[]"
#define WHILE "T=[bool] cond=@f# body=@f# output_shapes=[] parallel_iterations=10"

static void long_chain_of_calls(struct rt_bytes *g)
{
    ga_chain(g, GA_CHAIN, "PartitionedCall", "a", GA_CALL);
}

static void long_chain_of_stateful_calls(struct rt_bytes *g)
{
    ga_chain(g, GA_CHAIN, "StatefulPartitionedCall", "a", GA_CALL);
}

static void long_chain_of_branches(struct rt_bytes *g)
{
    ga_chain(g, GA_CHAIN, "If", "a a", IF);
}

static void long_chain_of_loops(struct rt_bytes *g)
{
    ga_chain(g, GA_CHAIN, "While", "a", WHILE);
}

static void doubling_branches(struct rt_bytes *g)
{
    ga_chain(g, 20, "If", "a a", IF);
}

static void doubling_stateless_branches(struct rt_bytes *g)
{
    ga_chain(g, 20, "StatelessIf", "a a", IF);
}

static void doubling_loops(struct rt_bytes *g)
{
    ga_chain(g, 20, "StatelessWhile", "a", WHILE);
}

static void quadrupling_cases(struct rt_bytes *g)
{
    char name[20], attrs[300];
    for (int i = 0; i < 20; i++) {
        struct rt_bytes nodes;
        rt_bytes_init(&nodes, 1 << 20);
        gd_node(&nodes, "k", "Cast", "a", "SrcT=bool DstT=int32");
        ga_numbered(CASE, i + 1, attrs);
        gd_node(&nodes, "r", "StatelessCase", "k:y:0 a", attrs);
        snprintf(name, sizeof name, "f%d", i);
        gd_function(g, name, "a:bool", "o:bool", &nodes, "o=r:output:0", "");
        rt_bytes_clear(&nodes);
    }
    ga_function(g, "f20", "Identity", "a", "T=bool");
    ga_main_call(g, "f0");
}

static void doubling_calls(struct rt_bytes *g)
{
    char name[20], attrs[300];
    for (int i = 0; i < 40; i++) {
        struct rt_bytes nodes;
        rt_bytes_init(&nodes, 1 << 20);
        ga_numbered(GA_CALL, i + 1, attrs);
        gd_node(&nodes, "p", "PartitionedCall", "a", attrs);
        gd_node(&nodes, "q", "PartitionedCall", "a", attrs);
        gd_node(&nodes, "r", "LogicalAnd", "p:output:0 q:output:0", "");
        snprintf(name, sizeof name, "f%d", i);
        gd_function(g, name, "a:bool", "o:bool", &nodes, "o=r:z:0", "");
        rt_bytes_clear(&nodes);
    }
    ga_function(g, "f40", "Identity", "a", "T=bool");
    ga_main_call(g, "f0");
}

static void function_that_calls_itself(struct rt_bytes *g)
{
    ga_function(g, "f0", "PartitionedCall", "a", "Tin=[bool] Tout=[bool] f=@f0");
    ga_main_call(g, "f0");
}

static void functions_that_call_each_other(struct rt_bytes *g)
{
    ga_function(g, "f0", "PartitionedCall", "a", "Tin=[bool] Tout=[bool] f=@f1");
    ga_function(
        g, "f1", "If", "a a",
        "Tcond=bool Tin=[bool] Tout=[bool] then_branch=@f0 else_branch=@f0 output_shapes=[]");
    ga_main_call(g, "f0");
}

static void branch_that_calls_itself(struct rt_bytes *g)
{
    ga_function(
        g, "f0", "If", "a a",
        "Tcond=bool Tin=[bool] Tout=[bool] then_branch=@f0 else_branch=@f0 output_shapes=[]");
    ga_main_call(g, "f0");
}

static void loop_that_calls_itself(struct rt_bytes *g)
{
    ga_function(g, "f0", "While", "a", "T=[bool] cond=@f0 body=@f0 output_shapes=[]");
    ga_main_call(g, "f0");
}

/* f calls f with the attribute h set to a function reference that contains the caller's h, so h
 * becomes one level deeper with each call. */
static void growing_attribute(struct rt_bytes *g)
{
    ga_function(g, "f0", "PartitionedCall", "a", "Tin=[bool] Tout=[bool] f=@f0(h=@f0(h=$h))");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "PartitionedCall", "x", "Tin=[bool] Tout=[bool] f=@f0(h=@f0)");
}

/* Builds a graph in which the attribute h grows as in growing_attribute. Each h contains the
 * caller's h twice. */
static void doubling_attribute(struct rt_bytes *g)
{
    ga_function(g, "f0", "PartitionedCall", "a",
                "Tin=[bool] Tout=[bool] f=@f0(h=[@f0(h=$h),@f0(h=$h)])");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "PartitionedCall", "x", "Tin=[bool] Tout=[bool] f=@f0(h=[@f0])");
}

/* Builds a graph in which each of 30 functions calls the next with two different attributes, so
 * that there are 2^30 bodies to instantiate. */
static void doubling_bodies(struct rt_bytes *g)
{
    char name[20], attrs[300];
    for (int i = 0; i < 30; i++) {
        struct rt_bytes nodes;
        rt_bytes_init(&nodes, 1 << 20);
        ga_numbered("Tin=[bool] Tout=[bool] f=@f#(h=@a(h=$h))", i + 1, attrs);
        gd_node(&nodes, "p", "PartitionedCall", "a", attrs);
        ga_numbered("Tin=[bool] Tout=[bool] f=@f#(h=@b(h=$h))", i + 1, attrs);
        gd_node(&nodes, "q", "PartitionedCall", "a", attrs);
        gd_node(&nodes, "r", "LogicalAnd", "p:output:0 q:output:0", "");
        snprintf(name, sizeof name, "f%d", i);
        gd_function(g, name, "a:bool", "o:bool", &nodes, "o=r:z:0", "");
        rt_bytes_clear(&nodes);
    }
    ga_function(g, "f30", "Identity", "a", "T=bool");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "PartitionedCall", "x", "Tin=[bool] Tout=[bool] f=@f0(h=@a)");
}

/* Builds a call that declares the result type int64, while the function returns int8. */
static void call_of_another_type(struct rt_bytes *g)
{
    struct rt_bytes nodes;
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "r", "Cast", "a", "SrcT=bool DstT=int8");
    gd_function(g, "f", "a:bool", "o:int8", &nodes, "o=r:y:0", "");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "z", "PartitionedCall", "x", "Tin=[bool] Tout=[int64] f=@f");
    gd_node(g, "k", "Const", "", "dtype=int64 value=int64<>:1");
    gd_node(g, "y", "AddV2", "z k", "T=int64");
    rt_bytes_clear(&nodes);
}

static void branch_of_another_type(struct rt_bytes *g)
{
    struct rt_bytes nodes;
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "r", "Cast", "a", "SrcT=bool DstT=int8");
    gd_function(g, "f", "a:bool", "o:int8", &nodes, "o=r:y:0", "");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "z", "If", "x x",
            "Tcond=bool Tin=[bool] Tout=[int64] then_branch=@f else_branch=@f output_shapes=[]");
    gd_node(g, "k", "Const", "", "dtype=int64 value=int64<>:1");
    gd_node(g, "y", "AddV2", "z k", "T=int64");
    rt_bytes_clear(&nodes);
}

static void argument_of_another_type(struct rt_bytes *g)
{
    struct rt_bytes nodes;
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "r", "Cast", "a", "SrcT=int64 DstT=bool");
    gd_function(g, "f", "a:int64", "o:bool", &nodes, "o=r:y:0", "");
    ga_main_call(g, "f");
    rt_bytes_clear(&nodes);
}

static void body_of_another_type(struct rt_bytes *g)
{
    struct rt_bytes nodes;
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "r", "Cast", "a", "SrcT=bool DstT=int64");
    gd_function(g, "f", "a:bool", "o:int64", &nodes, "o=r:y:0", "");
    ga_function(g, "c", "Identity", "a", "T=bool");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "While", "x", "T=[bool] cond=@c body=@f output_shapes=[]");
    rt_bytes_clear(&nodes);
}

static void chains_of_functions_are_bounded(void **state)
{
    (void)state;
    GA_TRY(long_chain_of_calls,
           "is called too deep: calls, branches and loops are nested more than 200");
    GA_TRY(long_chain_of_stateful_calls, "is called too deep: calls");
    GA_TRY(long_chain_of_branches, "nested more than");
    GA_TRY(long_chain_of_loops, "nested more than");
    GA_TRY(function_that_calls_itself, "Function 'f0' calls itself: calls, ");
    GA_TRY(functions_that_call_each_other, "' calls itself: calls, ");
    GA_TRY(branch_that_calls_itself, "Function 'f0' calls itself: calls, ");
    GA_TRY(loop_that_calls_itself, "Function 'f0' calls itself: calls, ");
}

/* Builds a function with n attributes that have default values. Its node reads the last of these
 * attributes. */
static void function_with_defaults(struct rt_bytes *g, int n)
{
    ProtobufCMessage *graph = NULL;
    struct rt_error err = {0};
    struct rt_bytes text;

    rt_bytes_init(&text, 1 << 20);
    rt_bytes_adds(&text, "library { function { signature { name: 'f' "
                         "input_arg { name: 'a' type: DT_BOOL } "
                         "output_arg { name: 'o' type: DT_BOOL } ");
    for (int i = 0; i < n; i++)
        rt_bytes_addf(&text, "attr { name: 'A%d' type: 'type' default_value { type: DT_BOOL } } ",
                      i);
    rt_bytes_addf(&text,
                  "} node_def { name: 'n' op: 'Identity' input: 'a' "
                  "attr { key: 'T' value { placeholder: 'A%d' } } } "
                  "ret { key: 'o' value: 'n:output:0' } } }",
                  n - 1);
    assert_ok(
        pb_text_parse(&graph, &tensorflow__graph_def__descriptor, rt_span_of(text.p, text.n), &err),
        &err);
    unsigned char *packed = malloc(protobuf_c_message_get_packed_size(graph));
    assert_non_null(packed);
    rt_bytes_add(g, packed, protobuf_c_message_pack(graph, packed));
    free(packed);
    protobuf_c_message_free_unpacked(graph, NULL);
    rt_bytes_clear(&text);
    ga_main_call(g, "f");
}

static void many_defaults(struct rt_bytes *g)
{
    function_with_defaults(g, 1000);
}

static void too_many_defaults(struct rt_bytes *g)
{
    function_with_defaults(g, 1001);
}

static void attributes_that_grow_are_bounded(void **state)
{
    (void)state;
    GA_TRY(growing_attribute, "functions deep");
    GA_TRY(doubling_attribute, "more than");
    GA_TRY(doubling_bodies, "more than");
    GA_TRY(many_defaults, NULL);
    GA_TRY(too_many_defaults, "Function 'f' has more than 1000 attributes");
}

static void graphs_that_double_are_bounded(void **state)
{
    (void)state;
    GA_TRY(doubling_calls, "more than");
    GA_TRY(doubling_branches, "more than");
    GA_TRY(doubling_stateless_branches, "more than");
    GA_TRY(doubling_loops, "more than");
    GA_TRY(quadrupling_cases, "more than");
}

static void a_function_must_be_of_the_types_that_its_call_says(void **state)
{
    (void)state;
    GA_TRY(call_of_another_type, "int8");
    GA_TRY(branch_of_another_type, "int8");
    GA_TRY(argument_of_another_type, "int64");
    GA_TRY(body_of_another_type, "int64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_of_functions_are_bounded),
        cmocka_unit_test(attributes_that_grow_are_bounded),
        cmocka_unit_test(graphs_that_double_are_bounded),
        cmocka_unit_test(a_function_must_be_of_the_types_that_its_call_says),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
