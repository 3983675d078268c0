#include "tests/support/test.h"

#include "runtime/core/graph.h"
#include "runtime/core/op.h"
#include "runtime/files/import.h"
#include "tests/support/graph_def.h"

struct fixture {
    struct rt_bytes g;
    struct rt_library *l;
    struct rt_error err;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    rt_bytes_init(&x->g, 1 << 24);
    *state = x;
    return x ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    rt_bytes_clear(&x->g);
    rt_library_free(x->l);
    free(x);
    return 0;
}

static void node(struct fixture *x, const char *name, const char *op, const char *inputs,
                 const char *attrs)
{
    gd_node(&x->g, name, op, inputs, attrs);
}

static const struct rt_graph *import(struct fixture *x)
{
    assert_ok(rt_library_import(&x->l, gd_span(&x->g), NULL, &x->err), &x->err);
    return rt_library_main(x->l);
}

/* Asserts that the import fails with `status` and with `words` in its message, and empties the
 * graph for the next case. */
static void refused(struct fixture *x, enum rt_status status, const char *words)
{
    x->err = (struct rt_error){0};
    assert_fails(rt_library_import(&x->l, gd_span(&x->g), NULL, &x->err), status, &x->err, words);
    assert_null(x->l);
    rt_bytes_clear(&x->g);
}

static void p(struct fixture *x)
{
    node(x, "p", "Placeholder", "", "dtype=float");
}

static void a_graph_comes_with_its_edges_types_and_defaults(void **state)
{
    struct fixture *x = *state;
    /* "sum" precedes its inputs in the file. */
    node(x, "sum", "AddN", "p q:0 ^after", "N=2 T=float");
    p(x);
    node(x, "q", "Placeholder", "", "dtype=float shape=<2,-1>");
    node(x, "after", "NoOp", "", "");
    node(x, "pool", "AvgPool", "sum", "T=float ksize=[1,2,2,1] strides=[1,1,1,1] padding='SAME'");
    const struct rt_graph *g = import(x);
    assert_int_equal(g->n_nodes, 5);
    const struct rt_node *sum = rt_graph_find(g, "sum");
    assert_int_equal(sum->id, 0);
    assert_int_equal(sum->n_in, 2);
    assert_int_equal(sum->in[0].node, 1);
    assert_int_equal(sum->in[1].node, 2);
    assert_int_equal(sum->n_ctrl, 1);
    assert_int_equal(sum->ctrl[0], 3);
    assert_int_equal(rt_in_arg(sum, 0).n, 2);
    assert_int_equal(sum->in_dtype[1], RT_F32);
    assert_null(sum->op);
    const struct rt_node *q = rt_graph_find(g, "q");
    assert_int_equal(rt_attr_shape(q, "shape")->rank, 2);
    assert_int_equal(rt_attr_shape(q, "shape")->dim[1], -1);
    assert_int_equal(rt_attr_shape(rt_graph_find(g, "p"), "shape")->rank, -1);
    const struct rt_node *pool = rt_graph_find(g, "pool");
    const int64_t *ksize;
    assert_int_equal(rt_attr_ints(pool, "ksize", &ksize), 4);
    assert_int_equal(ksize[1], 2);
    assert_true(rt_span_is(rt_attr_str(pool, "data_format"), "NHWC"));
    assert_string_equal(pool->device, "");
}

static void tensors_are_named_by_node_and_output(void **state)
{
    struct fixture *x = *state;
    p(x);
    node(x, "s", "Split", "d p", "T=float num_split=3");
    node(x, "d", "Const", "", "dtype=int32 value=int32<>:0");
    const struct rt_graph *g = import(x);
    struct rt_edge e;
    assert_ok(rt_graph_tensor(g, "s:2", &e, &x->err), &x->err);
    assert_int_equal(e.node, 1);
    assert_int_equal(e.out, 2);
    assert_ok(rt_graph_tensor(g, "p", &e, &x->err), &x->err);
    assert_int_equal(e.out, 0);
    assert_ok(rt_graph_tensor(g, "^s", &e, &x->err), &x->err);
    assert_int_equal(e.out, -1);
    assert_fails(rt_graph_tensor(g, "s:3", &e, &x->err), RT_INVALID_ARGUMENT, &x->err,
                 "\"s:3\": node \"s\" of op Split has 3 outputs");
    assert_fails(rt_graph_tensor(g, "r:0", &e, &x->err), RT_NOT_FOUND, &x->err, "no node \"r\"");
    assert_fails(rt_graph_tensor(g, "s:x", &e, &x->err), RT_INVALID_ARGUMENT, &x->err, "\"s:x\"");
    assert_fails(rt_graph_tensor(g, "", &e, &x->err), RT_NOT_FOUND, &x->err, "no node");
}

static void constants_and_other_values_are_read(void **state)
{
    struct fixture *x = *state;
    node(x, "c", "Const", "", "dtype=float value=float<3>:1,2");
    node(x, "h", "HistogramFixedWidth", "c r n", "T=float");
    node(x, "r", "Const", "", "dtype=float value=float<2>:0,1");
    node(x, "n", "Const", "", "dtype=int32 value=int32<>:5");
    node(x, "i", "ImageSummary", "t m", "T=float");
    node(x, "t", "Placeholder", "", "dtype=string");
    node(x, "m", "Placeholder", "", "dtype=float");
    const struct rt_graph *g = import(x);
    const struct rt_tensor *t = rt_attr(rt_graph_find(g, "c"), "value")->v.tensor;
    const float *f = t->data;
    assert_int_equal(t->dim[0], 3);
    assert_true(f[0] == 1 && f[1] == 2 && f[2] == 2);
    assert_int_equal(rt_attr_dtype(rt_graph_find(g, "h"), "dtype"), RT_I32);
    const struct rt_tensor *color = rt_attr(rt_graph_find(g, "i"), "bad_color")->v.tensor;
    assert_int_equal(color->dtype, RT_U8);
    assert_int_equal(((const uint8_t *)color->data)[0], 255);
    assert_int_equal(((const uint8_t *)color->data)[1], 0);
}

static void a_type_that_does_not_fit_is_refused(void **state)
{
    struct fixture *x = *state;
    p(x);
    node(x, "a", "Relu", "p", "T=int32");
    refused(x, RT_INVALID_ARGUMENT,
            "Input 0 of node a was passed float from p:0 incompatible with expected int32.");
    p(x);
    node(x, "a", "Assign", "p p", "T=float");
    refused(x, RT_INVALID_ARGUMENT,
            "Input 0 of node a was passed float from p:0 incompatible with expected float_ref.");
    p(x);
    node(x, "a", "Relu", "p", "T=string");
    refused(x, RT_INVALID_ARGUMENT,
            "Value for attr 'T' of string is not in the list of allowed values: float, double, "
            "int32, uint8, int16, int8, int64, ");
}

static void a_ref_may_be_read_but_not_made(void **state)
{
    struct fixture *x = *state;
    node(x, "v", "VariableV2", "", "dtype=float shape=<>");
    node(x, "a", "Assign", "v v", "T=float");
    const struct rt_graph *g = import(x);
    const struct rt_node *a = rt_graph_find(g, "a");
    assert_true(a->in_ref == 1 && a->out_ref == 1);
    assert_int_equal(a->in_dtype[0], RT_F32);
    assert_true(rt_graph_find(g, "v")->out_ref == 1);
}

static void attributes_are_held_to_the_schema(void **state)
{
    struct fixture *x = *state;
    p(x);
    node(x, "a", "Relu", "p", "");
    refused(x, RT_INVALID_ARGUMENT,
            "NodeDef missing attr 'T' from Op<name=Relu>; NodeDef: {{node a}}");
    p(x);
    node(x, "a", "Relu", "p", "T=1");
    refused(x, RT_INVALID_ARGUMENT,
            "AttrValue had value with type 'int' when 'type' expected; NodeDef: {{node a}}");
    p(x);
    node(x, "a", "Relu", "p", "T=[float]");
    refused(x, RT_INVALID_ARGUMENT,
            "AttrValue had value with type 'list(type)' when 'type' expected");
    p(x);
    node(x, "a", "Relu", "p", "T=!");
    refused(x, RT_INVALID_ARGUMENT, "AttrValue missing value with expected type 'type'");
    p(x);
    node(x, "a", "Relu", "p", "T=$T");
    refused(x, RT_INVALID_ARGUMENT, "attr 'T': placeholder 'T' has no value here");
    node(x, "a", "AddN", "", "N=0 T=float");
    refused(x, RT_INVALID_ARGUMENT, "Value for attr 'N' of 0 must be at least minimum 1");
    p(x);
    node(x, "a", "AvgPool", "p", "T=float ksize=[1,2,2] strides=[1,1,1,1] padding='SAME'");
    refused(x, RT_INVALID_ARGUMENT, "Length for attr 'ksize' of 3 must be at least minimum 4");
    p(x);
    node(x, "a", "AvgPool", "p", "T=float ksize=[1,2,2,1] strides=[1,1,1,1] padding='FOO'");
    refused(x, RT_INVALID_ARGUMENT,
            "Value for attr 'padding' of \"FOO\" is not in the list of allowed values: \"SAME\", "
            "\"VALID\"");
    p(x);
    node(x, "a", "AvgPool", "p", "T=float ksize=[1f,2f,2f,2f] strides=[1,1,1,1] padding='SAME'");
    refused(x, RT_INVALID_ARGUMENT,
            "AttrValue had value with type 'list(float)' when 'list(int)' expected");
    node(x, "a", "Placeholder", "", "dtype=float shape=<-5>");
    refused(x, RT_INVALID_ARGUMENT, "below -1");
    node(x, "a", "Placeholder", "", "dtype=float shape=<4611686018427387904,4>");
    refused(x, RT_INVALID_ARGUMENT, "is too large (more than 2**63 - 1 entries)");
    node(x, "a", "Const", "", "dtype=int32 value=float<>:1");
    refused(x, RT_INVALID_ARGUMENT, "the value is of type float, attr 'dtype' says int32");
}

static void attributes_that_the_schema_does_not_know_are_left_out(void **state)
{
    struct fixture *x = *state;
    p(x);
    node(x, "a", "Relu", "p",
         "T=float zz=1 _output_shapes=[<1,1,1,1,1,1,1,1,1,1>] _class=['loc:@p']");
    assert_int_equal(rt_graph_find(import(x), "a")->n_extra, 0);
}

static void inputs_are_counted(void **state)
{
    struct fixture *x = *state;
    p(x);
    node(x, "a", "AddV2", "p", "T=float");
    refused(x, RT_INVALID_ARGUMENT,
            "NodeDef expected inputs 'float, float' do not match 1 inputs specified");
    p(x);
    node(x, "a", "Relu", "p p", "T=float");
    refused(x, RT_INVALID_ARGUMENT,
            "NodeDef expected inputs 'float' do not match 2 inputs specified");
    p(x);
    node(x, "a", "AddN", "p", "N=1000000000000 T=float");
    refused(x, RT_INVALID_ARGUMENT, "argument 'inputs' stands for 1000000000000 tensors");
    p(x);
    node(x, "a", "Split", "p p", "num_split=1000000000000 T=float");
    refused(x, RT_INVALID_ARGUMENT, "argument 'output' stands for 1000000000000 tensors");
}

static void names_are_unique_and_well_formed(void **state)
{
    struct fixture *x = *state;
    p(x);
    p(x);
    refused(x, RT_INVALID_ARGUMENT, "Node 'p' is not unique");
    static const char *const bad[] = {"", "a b", "a:0", "^a", "-a"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        node(x, bad[i], "NoOp", "", "");
        refused(x, RT_INVALID_ARGUMENT, "Node name contains invalid characters");
    }
}

static void edges_lead_to_nodes_that_are_there(void **state)
{
    struct fixture *x = *state;
    node(x, "a", "Relu", "b", "T=float");
    refused(x, RT_INVALID_ARGUMENT, "Node 'a': Unknown input node 'b'");
    node(x, "a", "NoOp", "^b", "");
    refused(x, RT_INVALID_ARGUMENT, "Node 'a': Unknown input node '^b'");
    static const char *const bad[] = {"p:-1", "p:x", "p:", "p:99999999999", "p:0:0"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        p(x);
        node(x, "a", "Relu", bad[i], "T=float");
        refused(x, RT_INVALID_ARGUMENT, "Node 'a': Unknown input node 'p:");
    }
    p(x);
    node(x, "a", "Relu", "p:1", "T=float");
    refused(x, RT_INVALID_ARGUMENT,
            "Node 'a': Connecting to invalid output 1 of source node p which has 1 outputs.");
    p(x);
    node(x, "b", "NoOp", "", "");
    node(x, "a", "Relu", "^b p", "T=float");
    refused(x, RT_INVALID_ARGUMENT,
            "Node 'a': Control dependencies must come after regular dependencies");
}

static void cycles_go_through_next_iteration_or_are_refused(void **state)
{
    struct fixture *x = *state;
    node(x, "a", "Relu", "b", "T=float");
    node(x, "b", "Relu", "a", "T=float");
    refused(x, RT_INVALID_ARGUMENT, "2 nodes in a cycle, '");
    node(x, "a", "NoOp", "^a", "");
    refused(x, RT_INVALID_ARGUMENT, "1 nodes in a cycle, 'a' is one of them");
    p(x);
    node(x, "c", "Relu", "p", "T=float");
    node(x, "d", "Relu", "a", "T=float"); /* `d` depends on the cycle but is not part of it */
    node(x, "a", "AddV2", "b c", "T=float");
    node(x, "b", "Relu", "a", "T=float");
    refused(x, RT_INVALID_ARGUMENT, "3 nodes in a cycle, 'a' is one of them");
    p(x);
    node(x, "m", "AddV2", "p n", "T=float");
    node(x, "n", "NextIteration", "m", "T=float");
    refused(x, RT_INVALID_ARGUMENT, "2 nodes in a cycle");
    p(x);
    node(x, "m", "Merge", "p n", "T=float N=2");
    node(x, "n", "NextIteration", "m", "T=float");
    const struct rt_graph *g = import(x);
    assert_int_equal(rt_graph_find(g, "m")->in[1].node, 2);
}

static void an_op_nobody_knows_is_kept_until_something_reaches_it(void **state)
{
    struct fixture *x = *state;
    p(x);
    node(x, "z", "Zork", "p ^p", "T=float");
    node(x, "a", "Relu", "z:2", "T=float");
    const struct rt_graph *g = import(x);
    const struct rt_node *z = rt_graph_find(g, "z");
    assert_string_equal(z->schema->name, "Zork");
    assert_null(z->op);
    assert_int_equal(z->n_in, 1);
    assert_int_equal(z->n_out, 3);
    assert_int_equal(z->out_dtype[2], RT_NO_DTYPE);
    struct rt_registry *r = rt_registry_new();
    assert_fails(rt_registry_can_run(r, z, "CPU", &x->err), RT_UNIMPLEMENTED, &x->err,
                 "Op type not registered 'Zork'");
    assert_fails(rt_registry_can_run(r, rt_graph_find(g, "a"), "CPU", &x->err), RT_UNIMPLEMENTED,
                 &x->err, "op Relu is not implemented");
    rt_registry_free(r);
}

static void versions_are_compared(void **state)
{
    struct fixture *x = *state;
    p(x);
    rt_bytes_add(&x->g, "\x22\x04\x10\x80\x80\x08", 6); /* a VersionDef with min_consumer 131072 */
    refused(x, RT_INVALID_ARGUMENT, "GraphDef min consumer version 131072 above current version");
}

static void bytes_that_are_no_graph_are_refused(void **state)
{
    struct fixture *x = *state;
    rt_bytes_add(&x->g, "\x0a\x7f", 2);
    refused(x, RT_INVALID_ARGUMENT, "damaged");
    rt_bytes_add(&x->g, "\x0a\x02\x0a\x7f", 4);
    refused(x, RT_INVALID_ARGUMENT, "a node of the GraphDef");
}

static void constants_of_few_bytes_make_no_gigabytes(void **state)
{
    struct fixture *x = *state;
    node(x, "c", "Const", "", "dtype=float value=float<1000000,1000000>:1");
    refused(x, RT_RESOURCE_EXHAUSTED, "");
}

/* ---- functions ---- */

static const struct rt_graph *instantiate(struct fixture *x, const char *name,
                                          const struct rt_named_attr *attr, int n)
{
    const struct rt_graph *g = NULL;
    struct rt_func_ref f = {.name = name, .n_attr = n, .attr = attr};
    assert_ok(rt_library_instantiate(x->l, &f, &g, &x->err), &x->err);
    return g;
}

static struct rt_bytes body(void)
{
    struct rt_bytes b;
    rt_bytes_init(&b, 1 << 20);
    return b;
}

static void a_function_is_made_for_its_attributes_once(void **state)
{
    struct fixture *x = *state;
    struct rt_bytes b = body();
    gd_node(&b, "sum", "AddN", "xs y", "N=3 T=$T");
    gd_node(&b, "s", "Split", "d:output:0 sum:sum:0", "T=$T num_split=2");
    gd_node(&b, "d", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(&b, "cat", "ConcatV2", "s:output d:output:0 ^n", "N=2 T=$T");
    gd_node(&b, "n", "NoOp", "", "");
    gd_function(&x->g, "f", "xs:2*T y:T", "a:T b:N*T", &b, "a=cat:output:0 b=s:output", "c=n");
    rt_bytes_clear(&b);
    p(x);
    node(x, "c0", "PartitionedCall", "p p p",
         "Tin=[float,float,float] Tout=[float,float,float] f=@f(T=float 2=2 N=2)");
    node(x, "c1", "PartitionedCall", "p p p",
         "Tin=[float,float,float] Tout=[float,float,float] f=@f(N=7 N=2 _note=3 T=float 2=2)");
    const struct rt_graph *main_graph = import(x);
    struct rt_attr type = {.type = RT_ATTR_TYPE, .n = 1, .v.t = RT_F32};
    struct rt_attr two = {.type = RT_ATTR_INT, .n = 1, .v.i = 2};
    struct rt_named_attr attrs[] = {{"2", two}, {"N", two}, {"T", type}};
    const struct rt_graph *g = instantiate(x, "f", attrs, 3), *same;
    /* A file may give the attributes of a call in any order. */
    for (int order = 0; order < 2; order++) {
        const struct rt_node *call = rt_graph_find(main_graph, order ? "c1" : "c0");
        assert_ok(rt_library_instantiate(x->l, rt_attr_func(call, "f"), &same, &x->err), &x->err);
        assert_ptr_equal(same, g);
    }
    assert_int_equal(g->n_args, 3);
    assert_int_equal(g->n_rets, 3);
    assert_int_equal(g->n_nodes, 3 + 5);
    const struct rt_node *arg = &g->node[g->arg[1]];
    assert_string_equal(arg->schema->name, "_Arg");
    assert_int_equal(rt_attr_int(arg, "index"), 1);
    assert_int_equal(rt_attr_dtype(arg, "T"), RT_F32);
    const struct rt_node *sum = rt_graph_find(g, "sum");
    assert_int_equal(sum->in[1].node, g->arg[1]);
    assert_int_equal(sum->in[2].node, g->arg[2]);
    const struct rt_node *s = rt_graph_find(g, "s"), *cat = rt_graph_find(g, "cat");
    assert_true(cat->in[1].node == s->id && cat->in[1].out == 1);
    assert_int_equal(cat->n_ctrl, 1);
    assert_true(g->ret[0].node == cat->id && g->ret[2].node == s->id && g->ret[2].out == 1);
    assert_int_equal(g->n_ctrl_rets, 1);
    assert_ptr_equal(&g->node[g->ctrl_ret[0]], rt_graph_find(g, "n"));
    attrs[2].value.v.t = RT_F64;
    assert_ptr_not_equal(instantiate(x, "f", attrs, 3), g);
}

static void what_is_wrong_in_a_body_is_told_when_it_is_called(void **state)
{
    struct fixture *x = *state;
    struct rt_bytes b = body();
    gd_node(&b, "z", "Zork", "x", "");
    gd_function(&x->g, "stranger", "x:float", "y:float", &b, "y=z:q:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "z", "Relu", "w:output:0", "T=float");
    gd_function(&x->g, "edge", "x:float", "y:float", &b, "y=z:activations:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "z", "Relu", "x", "T=int32");
    gd_function(&x->g, "type", "x:float", "y:int32", &b, "y=z:activations:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "z", "Relu", "x", "T=$S");
    gd_function(&x->g, "placeholder", "x:float", "y:float", &b, "y=x", "");
    gd_function(&x->g, "ret", "x:float", "y:float", NULL, "", "");
    gd_function(&x->g, "ret_type", "x:float", "y:int32", NULL, "y=x", "");
    gd_function(&x->g, "no_type", "x:T", "y:float", NULL, "y=x", "");
    rt_bytes_clear(&b);
    import(x);
    const struct rt_graph *g = instantiate(x, "stranger", NULL, 0);
    assert_null(rt_graph_find(g, "z")->op);
    static const struct {
        const char *name, *words;
    } cases[] = {
        {"edge", "Function 'edge', node 'z': Unknown input node 'w:output:0'"},
        {"type", "Function 'type': Input 0 of node z was passed float from x:0 incompatible"},
        {"placeholder",
         "attr 'T': placeholder 'S' has no value here; NodeDef: {{function_node placeholder}} "
         "{{node z}}"},
        {"ret", "Function 'ret': Return y missing."},
        {"ret_type", "Function 'ret_type': return 'y' is float, the signature says int32"},
        {"no_type", "Attr T is not found from no_type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int twice = 0; twice < 2; twice++) {
            struct rt_func_ref f = {.name = cases[i].name};
            assert_fails(rt_library_instantiate(x->l, &f, &g, &x->err), RT_INVALID_ARGUMENT,
                         &x->err, cases[i].words);
        }
    struct rt_func_ref f = {.name = "nobody"};
    assert_fails(rt_library_instantiate(x->l, &f, &g, &x->err), RT_NOT_FOUND, &x->err, "nobody");
}

static void of_an_attribute_given_twice_the_last_counts(void **state)
{
    struct fixture *x = *state;
    node(x, "c", "Const", "", "value=float<>:1 dtype=float value=float<>:2");
    import(x);
    const struct rt_graph *g = rt_library_main(x->l);
    assert_true(*(const float *)rt_attr(&g->node[0], "value")->v.tensor->data == 2);
}

static void functions_named_twice_must_be_the_same(void **state)
{
    struct fixture *x = *state;
    gd_function(&x->g, "f", "x:float", "y:float", NULL, "y=x", "");
    gd_function(&x->g, "f", "x:float", "y:float", NULL, "y=x", "");
    import(x);
    rt_library_free(x->l);
    x->l = NULL;
    gd_function(&x->g, "f", "x:int32", "y:int32", NULL, "y=x", "");
    refused(x, RT_INVALID_ARGUMENT,
            "Cannot add function 'f' because a different function with the same name already "
            "exists.");
    gd_function(&x->g, "Relu", "x:float", "y:float", NULL, "y=x", "");
    refused(x, RT_INVALID_ARGUMENT,
            "Cannot add function 'Relu' because an op with the same name already exists.");
}

static void a_node_may_name_a_function_as_its_op(void **state)
{
    struct fixture *x = *state;
    struct rt_bytes b = body();
    gd_node(&b, "inner", "f", "x", "T=float");
    gd_node(&b, "z", "Relu", "inner:b:0", "T=float");
    gd_function(&x->g, "outer", "x:float", "y:float", &b, "y=z:activations:0", "");
    gd_function(&x->g, "f", "x:T", "a:T b:T", NULL, "a=x b=x", "");
    rt_bytes_clear(&b);
    p(x);
    node(x, "call", "f", "p", "T=float");
    const struct rt_node *call = rt_graph_find(import(x), "call");
    assert_string_equal(call->schema->name, "PartitionedCall");
    assert_string_equal(rt_attr_func(call, "f")->name, "f");
    assert_int_equal(rt_attr_func(call, "f")->n_attr, 1);
    assert_int_equal(call->n_out, 2);
    assert_int_equal(call->out_dtype[1], RT_F32);
    const struct rt_graph *g = instantiate(x, "outer", NULL, 0);
    assert_int_equal(rt_graph_find(g, "z")->in[0].out, 1);
}

static void function_attributes_carry_their_own(void **state)
{
    struct fixture *x = *state;
    p(x);
    node(x, "call", "PartitionedCall", "p", "Tin=[float] Tout=[float] f=@g(T=float n=3 _x=1)");
    const struct rt_func_ref *f = rt_attr_func(rt_graph_find(import(x), "call"), "f");
    assert_string_equal(f->name, "g");
    assert_int_equal(f->n_attr, 2);
    assert_int_equal(f->attr[1].value.v.i, 3);
}

/* ---- registry ---- */

static void the_registry_says_what_is_missing(void **state)
{
    struct fixture *x = *state;
    node(x, "p", "Placeholder", "", "dtype=half");
    node(x, "a", "Relu", "p", "T=half");
    node(x, "i", "IdentityN", "p p", "T=[half,half]");
    const struct rt_graph *g = import(x);
    const struct rt_node *a = rt_graph_find(g, "a"), *i = rt_graph_find(g, "i");
    static const struct rt_op relu = {.name = "Relu"}, identity = {.name = "IdentityN"};
    static const struct rt_kernel gpu = {.op = "Relu", .device = "GPU"},
                                  f32 = {.op = "Relu", .device = "CPU", .types = RT_T(RT_F32)},
                                  f64 = {.op = "Relu", .device = "CPU", .types = RT_T(RT_F64)},
                                  f16 = {.op = "Relu", .device = "CPU", .types = RT_T(RT_F16)},
                                  any = {.op = "IdentityN", .device = "CPU"};
    struct rt_registry *r = rt_registry_new();
    assert_true(rt_registry_add_op(r, &relu));
    assert_false(rt_registry_add_op(r, &relu));
    assert_true(rt_registry_add_op(r, &identity));
    assert_true(rt_registry_add_kernel(r, &gpu));
    assert_fails(rt_registry_can_run(r, a, "CPU", &x->err), RT_UNIMPLEMENTED, &x->err,
                 "op Relu has no kernel on CPU (it has some on: GPU)");
    assert_true(rt_registry_add_kernel(r, &f32) && rt_registry_add_kernel(r, &f64));
    assert_fails(rt_registry_can_run(r, a, "CPU", &x->err), RT_UNIMPLEMENTED, &x->err,
                 "op Relu has no kernel for T=half on CPU (it has: float, double)");
    assert_true(rt_registry_add_kernel(r, &f16) && rt_registry_add_kernel(r, &any));
    assert_ok(rt_registry_can_run(r, a, "CPU", &x->err), &x->err);
    assert_ok(rt_registry_can_run(r, i, "CPU", &x->err), &x->err);
    int n;
    assert_ptr_equal(rt_registry_kernels(r, "Relu", &n)[1], &f32);
    assert_int_equal(n, 4);
    assert_ptr_equal(rt_registry_op(r, "Relu"), &relu);
    assert_null(rt_registry_op(r, "Elu"));
    rt_registry_free(r);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Keys identify the bodies of instantiated functions, and contain the bytes of the attributes. All
 * keys together may take 16 MB plus 4 bytes per byte of the graph. */
static void keys_of_bodies_have_a_limit_that_is_told(void **state)
{
    enum { BYTES = 1000000 };
    struct fixture *x = *state;
    struct rt_bytes body;
    rt_bytes_init(&body, 1 << 20);
    gd_node(&body, "same", "Identity", "v", "T=float");
    gd_function(&x->g, "f", "v:float", "out:float", &body, "out=same:output:0", "");
    node(x, "x", "Placeholder", "", "dtype=float");
    import(x);
    char *text = malloc(BYTES + 1);
    assert_non_null(text);
    memset(text, 'a', BYTES);
    text[BYTES] = '\0';
    const struct rt_named_attr attr = {.name = "mark",
                                       .value = {.type = RT_ATTR_STRING, .n = BYTES, .v.s = text}};
    const struct rt_func_ref ref = {.name = "f", .n_attr = 1, .attr = &attr, .depth = 1};
    const struct rt_graph *out;
    enum rt_status st = RT_OK;
    int n = 0;
    for (; n < 40 && !st; n++) {
        text[0] = (char)('A' + n);
        st = rt_library_instantiate(x->l, &ref, &out, &x->err);
    }
    assert_true(n > 16 && n < 20);
    assert_fails(st, RT_RESOURCE_EXHAUSTED, &x->err, "attributes that bodies of functions");
    assert_non_null(strstr(rt_error_text(&x->err), "16 MB and 4 for each byte of the graph"));
    text[0] = 'A'; /* the first body has this key, so no new body or key is stored */
    assert_ok(rt_library_instantiate(x->l, &ref, &out, &x->err), &x->err);
    free(text);
    rt_bytes_clear(&body);
}

static void put_varint(struct rt_bytes *b, size_t v)
{
    for (; v > 127; v >>= 7)
        rt_bytes_addc(b, (char)(v | 128));
    rt_bytes_addc(b, (char)v);
}

/* Wraps the bytes of *b in a field of bytes. */
static void wrap(struct rt_bytes *b, unsigned field)
{
    size_t n;
    char *p = rt_bytes_take(b, &n);

    put_varint(b, field << 3 | 2);
    put_varint(b, n);
    rt_bytes_add(b, p, n);
    free(p);
}

/* Appends a "Squeeze" node whose list attribute consists of the packed field `field` of ListValue,
 * with n values of 1. */
static void add_listed_node(struct rt_bytes *g, unsigned field, size_t n)
{
    struct rt_bytes value;

    rt_bytes_init(&value, SIZE_MAX / 2);
    for (size_t i = 0; i < n; i++)
        rt_bytes_addc(&value, 1);
    wrap(&value, field);
    wrap(&value, 1); /* AttrValue.list */
    wrap(&value, 2);
    struct rt_bytes entry;
    rt_bytes_init(&entry, SIZE_MAX / 2);
    rt_bytes_adds(&entry, "\x0a\x0csqueeze_dims");
    rt_bytes_add(&entry, value.p, value.n);
    wrap(&entry, 5); /* NodeDef.attr */
    rt_bytes_clear(&value);
    rt_bytes_adds(&value, "\x0a\x01n\x12\x07Squeeze\x2a\x07\x0a\x01T\x12\x02\x30\x01");
    rt_bytes_adds(&value, "\x1a\x01p"); /* the input "p" */
    rt_bytes_add(&value, entry.p, entry.n);
    wrap(&value, 1); /* GraphDef.node */
    rt_bytes_add(g, value.p, value.n);
    rt_bytes_clear(&value);
    rt_bytes_clear(&entry);
}

/* A check that fails in call number *arg, counted from 1. */
static enum rt_status fail_at(void *arg, struct rt_error *err)
{
    return --*(int *)arg ? RT_OK : rt_fail(err, RT_CANCELLED, "cancelled");
}

/* Importing a packed list of a million numbers calls the cancellation check many times. If any of
 * these calls fails, the import must end. */
static void a_check_ends_the_reading_of_a_long_list(void **state)
{
    struct fixture *x = *state;
    enum { ELEMENTS = 1 << 20 };
    int left = INT32_MAX;
    const struct rt_check check = {fail_at, &left};

    p(x);
    add_listed_node(&x->g, 3, ELEMENTS);
    assert_ok(rt_library_import_checked(&x->l, gd_span(&x->g), NULL, &check, &x->err), &x->err);
    const int n_checks = INT32_MAX - left;
    assert_int_equal(rt_attr(rt_graph_find(rt_library_main(x->l), "n"), "squeeze_dims")->n,
                     ELEMENTS);
    rt_library_free(x->l);
    x->l = NULL;
    assert_true(n_checks >= ELEMENTS / RT_TICK_STEPS);
    for (int at = 1; at <= n_checks; at++) {
        left = at;
        x->err = (struct rt_error){0};
        assert_int_equal(rt_library_import_checked(&x->l, gd_span(&x->g), NULL, &check, &x->err),
                         RT_CANCELLED);
    }
}

/* Function bodies are instantiated after the import, with the session's cancellation check. */
static void a_check_ends_the_making_of_a_body(void **state)
{
    struct fixture *x = *state;
    struct rt_bytes body;
    int left = 3;
    const struct rt_func_ref ref = {.name = "f"};
    const struct rt_graph *g;

    rt_bytes_init(&body, SIZE_MAX / 2);
    gd_node(&body, "q", "Placeholder", "", "dtype=float");
    for (int i = 0; i < 2 * RT_TICK_STEPS; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        gd_node(&body, name, "NoOp", "", "");
    }
    gd_function(&x->g, "f", "a:float", "b:float", &body, "b=a", "");
    rt_bytes_clear(&body);
    assert_ok(rt_library_import(&x->l, gd_span(&x->g), NULL, &x->err), &x->err);
    rt_library_set_check(x->l, (struct rt_check){fail_at, &left});
    assert_fails(rt_library_instantiate(x->l, &ref, &g, &x->err), RT_CANCELLED, &x->err,
                 "cancelled");
    assert_int_equal(left, 0);
}

/* Appends a function "f" whose signature has n control outputs. */
static void add_long_signature(struct rt_bytes *g, int n)
{
    struct rt_bytes function;

    rt_bytes_init(&function, SIZE_MAX / 2);
    rt_bytes_adds(&function, "\x0a\x01"
                             "f");
    for (int i = 0; i < n; i++)
        rt_bytes_adds(&function, "\xa2\x01\x01"
                                 "c"); /* OpDef.control_output */
    wrap(&function, 1);                /* FunctionDef.signature */
    wrap(&function, 1);                /* FunctionDefLibrary.function */
    wrap(&function, 2);                /* GraphDef.library */
    rt_bytes_add(g, function.p, function.n);
    rt_bytes_clear(&function);
}

/* The number of calls of the check is a measure of the work of the import. */
static void a_signature_is_unpacked_once_for_all_calls_by_name(void **state)
{
    struct fixture *x = *state;
    enum { N_CALLS = 50 };
    int n_checks[2];

    for (int k = 0; k < 2; k++) {
        int left = INT32_MAX;
        const struct rt_check check = {fail_at, &left};
        rt_bytes_clear(&x->g);
        add_long_signature(&x->g, 10 * RT_TICK_STEPS);
        for (int i = 0; i < (k ? N_CALLS : 1); i++) {
            char name[16];
            snprintf(name, sizeof name, "n%d", i);
            node(x, name, "f", "", "");
        }
        assert_ok(rt_library_import_checked(&x->l, gd_span(&x->g), NULL, &check, &x->err), &x->err);
        n_checks[k] = INT32_MAX - left;
        rt_library_free(x->l);
        x->l = NULL;
    }
    assert_in_range(n_checks[0], 10, INT32_MAX);
    assert_in_range(n_checks[1], 1, 2 * n_checks[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_graph_comes_with_its_edges_types_and_defaults),
        TEST(keys_of_bodies_have_a_limit_that_is_told),
        TEST(tensors_are_named_by_node_and_output),
        TEST(constants_and_other_values_are_read),
        TEST(a_type_that_does_not_fit_is_refused),
        TEST(a_ref_may_be_read_but_not_made),
        TEST(attributes_are_held_to_the_schema),
        TEST(attributes_that_the_schema_does_not_know_are_left_out),
        TEST(inputs_are_counted),
        TEST(names_are_unique_and_well_formed),
        TEST(edges_lead_to_nodes_that_are_there),
        TEST(cycles_go_through_next_iteration_or_are_refused),
        TEST(an_op_nobody_knows_is_kept_until_something_reaches_it),
        TEST(versions_are_compared),
        TEST(bytes_that_are_no_graph_are_refused),
        TEST(constants_of_few_bytes_make_no_gigabytes),
        TEST(a_function_is_made_for_its_attributes_once),
        TEST(what_is_wrong_in_a_body_is_told_when_it_is_called),
        TEST(of_an_attribute_given_twice_the_last_counts),
        TEST(functions_named_twice_must_be_the_same),
        TEST(a_node_may_name_a_function_as_its_op),
        TEST(function_attributes_carry_their_own),
        TEST(the_registry_says_what_is_missing),
        TEST(a_check_ends_the_reading_of_a_long_list),
        TEST(a_check_ends_the_making_of_a_body),
        TEST(a_signature_is_unpacked_once_for_all_calls_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
