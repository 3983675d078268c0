/*
 * Tests graphs with many nodes, outputs or nested TensorFlow 1 frames, with deeply nested values,
 * or with resources that would hold handles to resources.
 */
#include "tests/unit/limits/graph_attempt.h"

#include "tests/support/registry.h"

static void short_chain_of_calls(struct rt_bytes *g)
{
    ga_chain(g, 150, "PartitionedCall", "a", GA_CALL);
}

/* Builds x -> n Enter nodes -> n Exit nodes -> y, where each Enter opens its own frame. */
static void frames(struct rt_bytes *g, int n)
{
    char name[20], input[20], attrs[100];
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    snprintf(input, sizeof input, "x");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "e%d", i);
        snprintf(attrs, sizeof attrs,
                 "T=bool frame_name='f%d' is_constant=false parallel_iterations=1", i);
        gd_node(g, name, "Enter", input, attrs);
        snprintf(input, sizeof input, "%s", name);
    }
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, i == n - 1 ? "y" : "x%d", i);
        gd_node(g, name, "Exit", input, "T=bool");
        snprintf(input, sizeof input, "%s", name);
    }
}

static void a_few_frames(struct rt_bytes *g)
{
    frames(g, 20);
}

static void nested_frames(struct rt_bytes *g)
{
    frames(g, 40000);
}

/* Builds n nested loops as TensorFlow 1's tf.while_loop writes them. */
static void nested_loops(struct rt_bytes *g, int n)
{
    char name[40], input[40], attrs[100];
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    snprintf(input, sizeof input, "x");
    for (int i = 0; i < n; i++) {
        char merge[90];
        snprintf(name, sizeof name, "e%d", i);
        snprintf(attrs, sizeof attrs,
                 "T=bool frame_name='f%d' is_constant=false parallel_iterations=1", i);
        gd_node(g, name, "Enter", input, attrs);
        snprintf(merge, sizeof merge, "e%d n%d", i, i);
        snprintf(name, sizeof name, "m%d", i);
        gd_node(g, name, "Merge", merge, "T=bool N=2");
        snprintf(name, sizeof name, "c%d", i);
        snprintf(merge, sizeof merge, "m%d", i);
        gd_node(g, name, "LoopCond", merge, "");
        snprintf(name, sizeof name, "s%d", i);
        snprintf(merge, sizeof merge, "m%d c%d", i, i);
        gd_node(g, name, "Switch", merge, "T=bool");
        snprintf(input, sizeof input, "s%d:1", i);
    }
    gd_node(g, "inside", "LogicalNot", input, "");
    snprintf(input, sizeof input, "inside");
    for (int i = n - 1; i >= 0; i--) {
        snprintf(name, sizeof name, "n%d", i);
        gd_node(g, name, "NextIteration", input, "T=bool");
        snprintf(name, sizeof name, i ? "x%d" : "y", i);
        snprintf(input, sizeof input, "s%d", i);
        gd_node(g, name, "Exit", input, "T=bool");
        snprintf(input, sizeof input, "x%d", i);
    }
}

static void a_few_loops(struct rt_bytes *g)
{
    nested_loops(g, 6);
}

static void many_nested_loops(struct rt_bytes *g)
{
    nested_loops(g, 2000);
}

/* Builds n nested conditionals as TensorFlow 1's tf.cond writes them. */
static void nested_conds(struct rt_bytes *g, int n)
{
    char name[40], input[100];
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "p%d", i);
        snprintf(input, sizeof input, "s%d:1", i - 1);
        if (!i)
            snprintf(input, sizeof input, "x");
        gd_node(g, name, "LogicalNot", input, "");
        snprintf(name, sizeof name, "s%d", i);
        snprintf(input, sizeof input, "s%d:1 p%d", i - 1, i);
        if (!i)
            snprintf(input, sizeof input, "x p0");
        gd_node(g, name, "Switch", input, "T=bool");
    }
    for (int i = n - 1; i >= 0; i--) {
        snprintf(name, sizeof name, i ? "m%d" : "y", i);
        if (i == n - 1)
            snprintf(input, sizeof input, "s%d s%d:1", i, i);
        else
            snprintf(input, sizeof input, "s%d m%d", i, i + 1);
        gd_node(g, name, "Merge", input, "T=bool N=2");
    }
}

static void a_few_conds(struct rt_bytes *g)
{
    nested_conds(g, 20);
}

static void many_nested_conds(struct rt_bytes *g)
{
    nested_conds(g, GA_CHAIN);
}

static void long_row_of_nodes(struct rt_bytes *g)
{
    char name[20], input[20] = "x";
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    for (int i = 0; i < 100000; i++) {
        snprintf(name, sizeof name, i == 99999 ? "y" : "i%d", i);
        gd_node(g, name, i % 2 ? "Identity" : "LogicalNot", input, i % 2 ? "T=bool" : "");
        snprintf(input, sizeof input, "%s", name);
    }
}

static void nodes_of_many_outputs(struct rt_bytes *g)
{
    char name[20];
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "Identity", "x", "T=bool");
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "u%d", i);
        gd_node(g, name, "Unpack", "x", "T=bool num=65000 axis=0");
    }
}

/* Builds a graph in which 2,000 nodes call, by name, a function with 20,000 outputs. */
static void calls_of_a_large_signature(struct rt_bytes *g)
{
    struct rt_bytes outs, rets;
    char name[40];
    rt_bytes_init(&outs, 1 << 24);
    rt_bytes_init(&rets, 1 << 24);
    for (int i = 0; i < 20000; i++) {
        rt_bytes_addf(&outs, "o%d:bool ", i);
        rt_bytes_addf(&rets, "o%d=a ", i);
    }
    outs.p[--outs.n] = '\0';
    rets.p[--rets.n] = '\0';
    gd_function(g, "wide", "a:bool", outs.p, NULL, rets.p, "");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "Identity", "c0:19999", "T=bool");
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "c%d", i);
        gd_node(g, name, "wide", "x", "");
    }
    rt_bytes_clear(&outs);
    rt_bytes_clear(&rets);
}

/* Builds a graph with a function that has 60,000 named outputs. Each output has its own entry in
 * `ret` and is read by name. */
static void names_of_a_large_signature(struct rt_bytes *g)
{
    enum { N = 60000 };
    struct rt_bytes outs, rets, nodes, read, types;
    char name[60];
    rt_bytes_init(&outs, 1 << 24);
    rt_bytes_init(&rets, 1 << 24);
    rt_bytes_init(&read, 1 << 24);
    rt_bytes_init(&nodes, 1 << 24);
    rt_bytes_init(&types, 1 << 24);
    rt_bytes_adds(&types, "T=[");
    for (int i = 0; i < N; i++) {
        rt_bytes_addf(&types, "%sbool", i ? "," : "");
        rt_bytes_addf(&outs, "%sa_long_name_of_an_output_%d:bool", i ? " " : "", i);
        rt_bytes_addf(&rets, "%sa_long_name_of_an_output_%d=a", i ? " " : "", i);
        rt_bytes_addf(&read, "%sc:a_long_name_of_an_output_%d:0", i ? " " : "", i);
    }
    gd_function(g, "wide", "a:bool", outs.p, NULL, rets.p, "");
    gd_node(&nodes, "c", "wide", "a", "");
    rt_bytes_addf(&types, "]");
    gd_node(&nodes, "all", "IdentityN", read.p, types.p);
    snprintf(name, sizeof name, "o=all:output:%d", N - 1);
    gd_function(g, "f", "a:bool", "o:bool", &nodes, name, "");
    ga_main_call(g, "f");
    rt_bytes_clear(&outs);
    rt_bytes_clear(&rets);
    rt_bytes_clear(&read);
    rt_bytes_clear(&types);
    rt_bytes_clear(&nodes);
}

/* Builds a loop in which each iteration makes a list that contains the previous iteration's list,
 * so that 50,000 lists are nested. */
static void lists_in_lists(struct rt_bytes *g)
{
    struct rt_bytes nodes;
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "n", "Const", "", "dtype=int32 value=int32<>:50000");
    gd_node(&nodes, "r", "Less", "i n:output:0", "T=int32");
    gd_function(g, "more", "i:int32 l:variant", "o:bool", &nodes, "o=r:z:0", "");
    rt_bytes_clear(&nodes);
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "one", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(&nodes, "shape", "Const", "", "dtype=int32 value=int32<>:-1");
    gd_node(&nodes, "next", "AddV2", "i one:output:0", "T=int32");
    gd_node(&nodes, "e", "EmptyTensorList", "shape:output:0 shape:output:0",
            "element_dtype=variant shape_type=int32");
    gd_node(&nodes, "r", "TensorListPushBack", "e:handle:0 l", "element_dtype=variant");
    gd_function(g, "nest", "i:int32 l:variant", "j:int32 m:variant", &nodes,
                "j=next:z:0 m=r:output_handle:0", "");
    rt_bytes_clear(&nodes);
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "zero", "Const", "^x", "dtype=int32 value=int32<>:0");
    gd_node(g, "shape", "Const", "", "dtype=int32 value=int32<>:-1");
    gd_node(g, "first", "EmptyTensorList", "shape shape", "element_dtype=variant shape_type=int32");
    gd_node(g, "w", "While", "zero first",
            "T=[int32,variant] cond=@more body=@nest output_shapes=[]");
    gd_node(g, "n", "TensorListLength", "w:1", "");
    gd_node(g, "y", "Cast", "n", "SrcT=int32 DstT=bool");
}

/* Builds the while loop of a dynamic RNN whose condition is a chain of 50,000 LogicalAnds. */
static void deep_condition(struct rt_bytes *g)
{
    char name[20], inputs[60], last[20] = "less";
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "k", "Cast", "x", "SrcT=bool DstT=int32");
    gd_node(g, "e", "Enter", "k", "T=int32 frame_name='f' is_constant=false");
    gd_node(g, "m", "Merge", "e n", "T=int32 N=2");
    gd_node(g, "ten", "Const", "^m", "dtype=int32 value=int32<>:10");
    gd_node(g, "less", "Less", "m ten", "T=int32");
    for (int i = 0; i < 50000; i++) {
        snprintf(name, sizeof name, "a%d", i);
        snprintf(inputs, sizeof inputs, "%s less", last);
        gd_node(g, name, "LogicalAnd", inputs, "");
        snprintf(last, sizeof last, "%s", name);
    }
    gd_node(g, "c", "LoopCond", last, "");
    gd_node(g, "s", "Switch", "m c", "T=int32");
    gd_node(g, "one", "Const", "^s", "dtype=int32 value=int32<>:1");
    gd_node(g, "add", "AddV2", "s:1 one", "T=int32");
    gd_node(g, "n", "NextIteration", "add", "T=int32");
    gd_node(g, "out", "Exit", "s", "T=int32");
    gd_node(g, "y", "Cast", "out", "SrcT=int32 DstT=bool");
}

static void array_that_holds_itself(struct rt_bytes *g)
{
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "n", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(g, "i", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "a", "TensorArrayV3", "n", "dtype=resource");
    gd_node(g, "w", "TensorArrayWriteV3", "a i a a:1", "T=resource");
    gd_node(g, "s", "TensorArraySizeV3", "a w", "");
    gd_node(g, "y", "Cast", "s", "SrcT=int32 DstT=bool");
}

static void stack_that_holds_itself(struct rt_bytes *g)
{
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "n", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(g, "a", "StackV2", "n", "elem_type=resource");
    gd_node(g, "p", "StackPushV2", "a a", "T=resource");
    gd_node(g, "y", "Identity", "x ^p", "T=bool");
}

static void list_that_holds_an_array(struct rt_bytes *g)
{
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "n", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(g, "a", "TensorArrayV3", "n", "dtype=variant");
    gd_node(g, "m", "Const", "", "dtype=int32 value=int32<>:-1");
    gd_node(g, "e", "EmptyTensorList", "m m", "element_dtype=resource shape_type=int32");
    gd_node(g, "l", "TensorListPushBack", "e a", "element_dtype=resource");
    gd_node(g, "y", "Identity", "x ^l", "T=bool");
}

static void variable_that_holds_itself(struct rt_bytes *g)
{
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "v", "VarHandleOp", "", "dtype=resource shape=<>");
    gd_node(g, "w", "AssignVariableOp", "v v", "dtype=resource");
    gd_node(g, "y", "Identity", "x ^w", "T=bool");
}

static void graphs_of_usual_depth_run(void **state)
{
    (void)state;
    GA_TRY(short_chain_of_calls, NULL);
    GA_TRY(a_few_frames, NULL);
    GA_TRY(a_few_loops, NULL);
    GA_TRY(a_few_conds, NULL);
}

static void frames_loops_and_branches_of_tensorflow_1_are_bounded(void **state)
{
    (void)state;
    GA_TRY(nested_frames, "nested more than");
    GA_TRY(many_nested_loops, "nested more than");
    GA_TRY(many_nested_conds, NULL);
}

static void counts_size_nothing_beyond_the_bytes(void **state)
{
    (void)state;
    GA_TRY(long_row_of_nodes, NULL);
    GA_TRY(nodes_of_many_outputs, "more than");
    GA_TRY(calls_of_a_large_signature, "more than");
    GA_TRY(names_of_a_large_signature, NULL);
}

static void deep_values_and_conditions_take_no_stack(void **state)
{
    (void)state;
    GA_TRY(lists_in_lists, NULL);
    GA_TRY(deep_condition, NULL);
}

static void nothing_holds_handles(void **state)
{
    (void)state;
    GA_TRY(array_that_holds_itself, "of resource handles");
    GA_TRY(stack_that_holds_itself, "of resource handles");
    GA_TRY(list_that_holds_an_array, "of resource handles");
    GA_TRY(variable_that_holds_itself, "of resource handles");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_of_usual_depth_run),
        cmocka_unit_test(frames_loops_and_branches_of_tensorflow_1_are_bounded),
        cmocka_unit_test(counts_size_nothing_beyond_the_bytes),
        cmocka_unit_test(deep_values_and_conditions_take_no_stack),
        cmocka_unit_test(nothing_holds_handles),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
