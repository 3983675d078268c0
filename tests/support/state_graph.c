#include "tests/support/state_graph.h"

#include "tests/support/graph_session.h"
#include "tests/support/registry.h"

/* ---- the graph ---- */

static void constants(struct rt_bytes *g)
{
    gd_node(g, "p", "Placeholder", "", "dtype=float shape=<>");
    gd_node(g, "first", "Const", "", "dtype=float value=float<>:40");
    gd_node(g, "zero", "Const", "", "dtype=float value=float<>:0");
    gd_node(g, "two", "Const", "", "dtype=float value=float<>:2");
    gd_node(g, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(g, "least", "Const", "", "dtype=float value=float<>:-1000");
    gd_node(g, "i0", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "at0", "Const", "", "dtype=int32 value=int32<1>:0");
    gd_node(g, "to1", "Const", "", "dtype=int32 value=int32<1>:1");
    gd_node(g, "at00", "Const", "", "dtype=int32 value=int32<1,1>:0");
    gd_node(g, "matrix", "Const", "", "dtype=int32 value=int32<2>:1,1");
    gd_node(g, "always", "Greater", "p least", "T=float");
    gd_node(g, "p_row", "Reshape", "p to1", "T=float Tshape=int32");
    gd_node(g, "p_matrix", "Reshape", "p matrix", "T=float Tshape=int32");
    gd_node(g, "p_int", "Cast", "p_row", "SrcT=float DstT=int32");
    gd_node(g, "first_row", "Reshape", "first to1", "T=float Tshape=int32");
    gd_node(g, "first_matrix", "Reshape", "first matrix", "T=float Tshape=int32");
    gd_node(g, "first_int", "Cast", "first_row", "SrcT=float DstT=int32");
}

static void functions(struct rt_bytes *g)
{
    struct rt_bytes b;
    rt_bytes_init(&b, 1 << 20);
    gd_node(&b, "sum", "AddV2", "a a", "T=float");
    gd_function(g, "twice", "a:float p:float", "out:float", &b, "out=sum:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "read", "ReadVariableOp", "v", "dtype=float");
    gd_function(g, "read", "v:resource p:float", "out:float", &b, "out=read:value:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "add", "AssignAddVariableOp", "v p", "dtype=float");
    gd_node(&b, "read", "ReadVariableOp", "v ^add", "dtype=float");
    gd_function(g, "write", "v:resource p:float", "out:float", &b, "out=read:value:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "same", "Identity", "a", "T=resource");
    gd_function(g, "left", "a:resource b:resource", "out:resource", &b, "out=same:output:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "same", "Identity", "b", "T=resource");
    gd_function(g, "right", "a:resource b:resource", "out:resource", &b, "out=same:output:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "less", "Less", "i limit", "T=float");
    gd_function(g, "below", "i:float limit:float", "out:bool", &b, "out=less:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&b, "next", "AddV2", "i one:output:0", "T=float");
    gd_function(g, "count", "i:float limit:float", "j:float l:float", &b, "j=next:z:0 l=limit", "");
    rt_bytes_clear(&b);
    gd_node(&b, "read", "ReadVariableOp", "v", "dtype=float");
    gd_node(&b, "less", "Less", "i read:value:0", "T=float");
    gd_function(g, "below_variable", "i:float v:resource", "out:bool", &b, "out=less:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&b, "next", "AddV2", "i one:output:0", "T=float");
    gd_function(g, "count_variable", "i:float v:resource", "j:float w:resource", &b,
                "j=next:z:0 w=v", "");
    rt_bytes_clear(&b);
    gd_node(&b, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&b, "less", "Less", "i one:output:0", "T=float");
    gd_function(g, "once", "i:float v:resource p:float", "out:bool", &b, "out=less:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&b, "next", "AddV2", "i one:output:0", "T=float");
    gd_node(&b, "add", "AssignAddVariableOp", "v p", "dtype=float");
    gd_function(g, "add_once", "i:float v:resource p:float", "j:float w:resource q:float", &b,
                "j=next:z:0 w=v q=p", "");
    rt_bytes_clear(&b);
    gd_node(&b, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&b, "less", "Less", "i one:output:0", "T=float");
    gd_function(g, "once_of_two", "i:float a:resource b:resource p:float", "out:bool", &b,
                "out=less:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&b, "next", "AddV2", "i one:output:0", "T=float");
    gd_node(&b, "add", "AssignAddVariableOp", "a p", "dtype=float");
    gd_function(g, "add_and_swap", "i:float a:resource b:resource p:float",
                "j:float c:resource d:resource q:float", &b, "j=next:z:0 c=b d=a q=p", "");
    rt_bytes_clear(&b);
}

static void refs(struct rt_bytes *g)
{
    gd_node(g, "r", "VariableV2", "", "dtype=float shape=<>");
    gd_node(g, "r_init", "Assign", "r first", "T=float");
    gd_node(g, "r_add", "AssignAdd", "r p", "T=float");
    gd_node(g, "r_subtract", "AssignSub", "r p", "T=float");
    gd_node(g, "r_set", "Assign", "r p", "T=float");
    gd_node(g, "r_taken", "RefSwitch", "r always", "T=float");
    gd_node(g, "r_by_switch", "AssignAdd", "r_taken:1 p", "T=float");
    gd_node(g, "r_ref", "RefMerge", "r_taken r_taken:1", "T=float N=2");
    gd_node(g, "r_by_merge", "AssignAdd", "r_ref p", "T=float");

    gd_node(g, "r_add_read", "Identity", "r ^r_add", "T=float");
    gd_node(g, "r_by_switch_read", "Identity", "r ^r_by_switch", "T=float");

    gd_node(g, "r_identity", "Identity", "r", "T=float");
    gd_node(g, "r_identities", "IdentityN", "r p", "T=[float,float]");
    gd_node(g, "r_sum", "AddV2", "r zero", "T=float");
    gd_node(g, "r_twice", "Mul", "r_identity two", "T=float");
    gd_node(g, "r_product", "Mul", "p r", "T=float");
    gd_node(g, "r_matrix", "Reshape", "r matrix", "T=float Tshape=int32");
    gd_node(g, "r_shaped", "MatMul", "p_matrix r_matrix", "T=float");
    gd_node(g, "r_merged", "Identity", "r_ref", "T=float");
    gd_node(g, "r_switch", "Switch", "r always", "T=float");
    gd_node(g, "r_no", "Identity", "r_switch", "T=float");
    gd_node(g, "r_yes", "Identity", "r_switch:1", "T=float");
    gd_node(g, "r_switched", "Merge", "r_no r_yes", "T=float N=2");
    gd_node(g, "r_ref_no", "Identity", "r_taken", "T=float");
    gd_node(g, "r_ref_yes", "Identity", "r_taken:1", "T=float");
    gd_node(g, "r_ref_switched", "Merge", "r_ref_no r_ref_yes", "T=float N=2");
    gd_node(g, "r_in_function", "StatefulPartitionedCall", "r p",
            "Tin=[float,float] Tout=[float] f=@twice");
    gd_node(g, "r_in_branch", "StatelessIf", "always r p",
            "Tcond=bool Tin=[float,float] Tout=[float] then_branch=@twice else_branch=@twice");
    gd_node(g, "r_in_loop", "StatelessWhile", "zero r", "T=[float,float] cond=@below body=@count");
    gd_node(g, "f_limit", "Enter", "r", "T=float frame_name='f' is_constant=true");
    gd_node(g, "f_one", "Enter", "one", "T=float frame_name='f' is_constant=true");
    gd_node(g, "f_i", "Enter", "zero", "T=float frame_name='f' is_constant=false");
    gd_node(g, "f_merge", "Merge", "f_i f_next", "T=float N=2");
    gd_node(g, "f_less", "Less", "f_merge f_limit", "T=float");
    gd_node(g, "f_cond", "LoopCond", "f_less", "");
    gd_node(g, "f_switch", "Switch", "f_merge f_cond", "T=float");
    gd_node(g, "f_sum", "AddV2", "f_switch:1 f_one", "T=float");
    gd_node(g, "f_next", "NextIteration", "f_sum", "T=float");
    gd_node(g, "r_in_frame", "Exit", "f_switch", "T=float");
    gd_node(g, "r_int", "Cast", "r", "SrcT=float DstT=int32");
    gd_node(g, "r_dims", "Reshape", "r_int to1", "T=int32 Tshape=int32");
    gd_node(g, "r_ones", "Fill", "r_dims one", "T=float index_type=int32");

    /* A matrix of equal numbers, so large that kernels pack it when it is constant. */
    gd_node(g, "i64", "Const", "", "dtype=int32 value=int32<2>:64,64");
    gd_node(g, "i1_64", "Const", "", "dtype=int32 value=int32<2>:1,64");
    gd_node(g, "edges", "Const", "", "dtype=int32 value=int32<2,2>:0,0,0,63");
    gd_node(g, "first_64", "Fill", "i64 first", "T=float index_type=int32");
    gd_node(g, "p_64", "Fill", "i64 p", "T=float index_type=int32");
    gd_node(g, "p_1_64", "Fill", "i1_64 p", "T=float index_type=int32");
    gd_node(g, "p_once", "Pad", "p_matrix edges", "T=float Tpaddings=int32");
    gd_node(g, "w", "VariableV2", "", "dtype=float shape=<64,64>");
    gd_node(g, "w_init", "Assign", "w first_64", "T=float");
    gd_node(g, "w_add", "AssignAdd", "w p_64", "T=float");
    gd_node(g, "w_set", "Assign", "w p_64", "T=float");
    gd_node(g, "w_scatter", "ScatterAdd", "w at0 p_1_64", "T=float Tindices=int32");
    gd_node(g, "w_product", "MatMul", "p_once w", "T=float");
    gd_node(g, "w_none", "Const", "", "dtype=float value=float<64>:0");
    gd_node(g, "w_biased", "BiasAdd", "w_product w_none", "T=float");
    gd_node(g, "w_gathered", "GatherV2", "w at0 i0", "Tparams=float Tindices=int32 Taxis=int32");

    gd_node(g, "k", "VariableV2", "", "dtype=int32 shape=<1>");
    gd_node(g, "k_init", "Assign", "k first_int", "T=int32");
    gd_node(g, "k_add", "AssignAdd", "k p_int", "T=int32");
    gd_node(g, "k_filled", "Fill", "k one", "T=float index_type=int32");
    gd_node(g, "k_in_place", "BroadcastTo", "one k", "T=float Tidx=int32");
}

static void resources(struct rt_bytes *g)
{
    gd_node(g, "v", "VarHandleOp", "", "dtype=float shape=<> shared_name='v'");
    gd_node(g, "v_init", "AssignVariableOp", "v first", "dtype=float");
    gd_node(g, "v_add", "AssignAddVariableOp", "v p", "dtype=float");
    gd_node(g, "v_subtract", "AssignSubVariableOp", "v p", "dtype=float");
    gd_node(g, "v_set", "AssignVariableOp", "v p", "dtype=float");
    gd_node(g, "v_in_function", "StatefulPartitionedCall", "v p",
            "Tin=[resource,float] Tout=[float] f=@write");
    gd_node(g, "v_in_branch", "If", "always v p",
            "Tcond=bool Tin=[resource,float] Tout=[float] then_branch=@write else_branch=@read");
    gd_node(g, "v_in_loop", "While", "zero v p",
            "T=[float,resource,float] cond=@once body=@add_once");
    gd_node(g, "v_taken", "Switch", "v always", "T=resource");
    gd_node(g, "v_by_switch", "AssignAddVariableOp", "v_taken:1 p", "dtype=float");
    gd_node(g, "v_add_read", "ReadVariableOp", "v ^v_add", "dtype=float");
    gd_node(g, "v_by_switch_read", "ReadVariableOp", "v ^v_by_switch", "dtype=float");
    gd_node(g, "v_in_loop_read", "ReadVariableOp", "v ^v_in_loop", "dtype=float");
    gd_node(g, "o", "VarHandleOp", "", "dtype=float shape=<> shared_name='o'");
    gd_node(g, "v_case", "Cast", "always", "SrcT=bool DstT=int32");
    gd_node(g, "v_chosen", "Case", "v_case o v",
            "Tin=[resource,resource] Tout=[resource] branches=[@left,@right]");
    gd_node(g, "v_by_case", "AssignAddVariableOp", "v_chosen p", "dtype=float");
    gd_node(g, "v_by_case_read", "ReadVariableOp", "v ^v_by_case", "dtype=float");
    gd_node(g, "v_swapped", "While", "zero v o p",
            "T=[float,resource,resource,float] cond=@once_of_two body=@add_and_swap");
    gd_node(g, "v_swapped_read", "ReadVariableOp", "v ^v_swapped", "dtype=float");
    gd_node(g, "v_read", "ReadVariableOp", "v", "dtype=float");
    gd_node(g, "v_sum", "AddV2", "v_read zero", "T=float");
    gd_node(g, "v_product", "Mul", "p v_read", "T=float");
    gd_node(g, "v_function", "StatefulPartitionedCall", "v p",
            "Tin=[resource,float] Tout=[float] f=@read");
    gd_node(g, "v_branch", "If", "always v p",
            "Tcond=bool Tin=[resource,float] Tout=[float] then_branch=@read else_branch=@read");
    gd_node(g, "v_loop", "While", "zero v",
            "T=[float,resource] cond=@below_variable body=@count_variable");
    gd_node(g, "v_int", "Cast", "v_read", "SrcT=float DstT=int32");
    gd_node(g, "v_dims", "Reshape", "v_int to1", "T=int32 Tshape=int32");
    gd_node(g, "v_ones", "Fill", "v_dims one", "T=float index_type=int32");

    gd_node(g, "u", "VarHandleOp", "", "dtype=float shape=<1> shared_name='u'");
    gd_node(g, "u_init", "AssignVariableOp", "u first_row", "dtype=float");
    gd_node(g, "u_scatter", "ResourceScatterAdd", "u at0 p_row", "dtype=float Tindices=int32");
    gd_node(g, "u_scatter_read", "ResourceGather", "u at0 ^u_scatter",
            "dtype=float Tindices=int32");
    gd_node(g, "u_gather", "ResourceGather", "u at0", "dtype=float Tindices=int32");
    gd_node(g, "u_gather_nd", "ResourceGatherNd", "u at00", "dtype=float Tindices=int32");
    gd_node(g, "u_read", "ReadVariableOp", "u", "dtype=float");

    gd_node(g, "n", "VarHandleOp", "", "dtype=float shape=<?> shared_name='n'");
    gd_node(g, "first_ones", "Fill", "first_int one", "T=float index_type=int32");
    gd_node(g, "p_ones", "Fill", "p_int one", "T=float index_type=int32");
    gd_node(g, "n_init", "AssignVariableOp", "n first_ones", "dtype=float");
    gd_node(g, "n_set", "AssignVariableOp", "n p_ones", "dtype=float");
    gd_node(g, "n_read", "ReadVariableOp", "n", "dtype=float");
    gd_node(g, "n_shape", "VariableShape", "n", "out_type=int32");
    gd_node(g, "n_shape_of_value", "Shape", "n_read", "T=float out_type=int32");
    gd_node(g, "n_size", "Size", "n_read", "T=float out_type=int32");
    gd_node(g, "n_sum", "Sum", "n_read i0", "T=float Tidx=int32");

    gd_node(g, "d", "VarHandleOp", "", "dtype=float shape=<> shared_name='d'");
    gd_node(g, "d_init", "AssignVariableOp", "d one", "dtype=float");
    gd_node(g, "d_set", "AssignVariableOp", "d one", "dtype=float");
    gd_node(g, "d_destroy", "DestroyResourceOp", "d", "ignore_lookup_error=true");
    gd_node(g, "d_there", "VarIsInitializedOp", "d", "");
}

static void tables(struct rt_bytes *g)
{
    const char *types = "key_dtype=int64 value_dtype=float";
    const char *of = "Tin=int64 Tout=float";
    gd_node(g, "key", "Const", "", "dtype=int64 value=int64<1>:1");
    gd_node(g, "key1", "Const", "", "dtype=int64 value=int64<>:1");
    gd_node(g, "key41", "Const", "", "dtype=int64 value=int64<>:41");
    gd_node(g, "keys", "Range", "key1 key41 key1", "Tidx=int64");
    gd_node(g, "i39", "Const", "", "dtype=int32 value=int32<1>:39");
    gd_node(g, "zeros", "Fill", "i39 zero", "T=float index_type=int32");
    gd_node(g, "values", "ConcatV2", "first_row zeros i0", "T=float N=2 Tidx=int32");
    gd_node(g, "t", "MutableHashTableV2", "", types);
    gd_node(g, "t_init", "LookupTableInsertV2", "t keys values", of);
    gd_node(g, "t_insert", "LookupTableInsertV2", "t key p_row", of);
    gd_node(g, "t_import", "LookupTableImportV2", "t key p_row", of);
    gd_node(g, "t_count", "LookupTableSizeV2", "t", "");
    gd_node(g, "t_at", "Cast", "t_count", "SrcT=int64 DstT=int32");
    gd_node(g, "t_rank", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "t_new", "Range", "t_from t_to t_step", "Tidx=int64");
    gd_node(g, "t_step", "Const", "", "dtype=int64 value=int64<>:1");
    gd_node(g, "t_base", "Const", "", "dtype=int64 value=int64<>:100");
    gd_node(g, "t_from", "AddV2", "t_count t_base", "T=int64");
    gd_node(g, "p_count", "Cast", "p", "SrcT=float DstT=int64");
    gd_node(g, "t_to", "AddV2", "t_from p_count", "T=int64");
    gd_node(g, "t_none", "Fill", "p_int zero", "T=float index_type=int32");
    gd_node(g, "t_insert_key", "LookupTableInsertV2", "t t_new t_none", of);
    gd_node(g, "t_find", "LookupTableFindV2", "t key zero", of);
    gd_node(g, "t_find_twice", "Mul", "t_find two", "T=float");
    gd_node(g, "t_export", "LookupTableExportV2", "t", "Tkeys=int64 Tvalues=float");
    gd_node(g, "t_values", "Sum", "t_export:1 at0", "T=float Tidx=int32");
    gd_node(g, "t_size", "LookupTableSizeV2", "t", "");
    gd_node(g, "t_keys", "Size", "t_export", "T=int64 out_type=int32");
}

/* ---- sessions ---- */

struct rt_bytes state_graph;

int state_set_up(void **state)
{
    rt_bytes_init(&state_graph, 1 << 24);
    constants(&state_graph);
    functions(&state_graph);
    refs(&state_graph);
    resources(&state_graph);
    tables(&state_graph);
    return test_registry_make(state);
}

int state_tear_down(void **state)
{
    rt_bytes_clear(&state_graph);
    return test_registry_drop(state);
}

static struct rt_callable *prepare(struct rt_session *s, const char *what, bool is_load)
{
    const char *feed = "p:0";
    const bool is_tensor = strchr(what, ':') != NULL;
    const struct rt_call_spec spec = {.feeds = &feed,
                                      .n_feeds = 1,
                                      .fetches = &what,
                                      .n_fetches = is_tensor,
                                      .targets = &what,
                                      .n_targets = !is_tensor,
                                      .is_load = is_load};
    return gs_prepare(s, &spec);
}

struct rt_callable *state_prepare(struct rt_session *s, const char *what)
{
    return prepare(s, what, false);
}

static double element(const struct rt_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case RT_F32:
        return ((const float *)t->data)[i];
    case RT_I32:
        return ((const int32_t *)t->data)[i];
    case RT_I64:
        return (double)((const int64_t *)t->data)[i];
    default:
        assert_int_equal(t->dtype, RT_BOOL);
        return ((const bool *)t->data)[i];
    }
}

double state_sum(const struct rt_tensor *t)
{
    double sum = 0;
    for (int64_t i = 0; i < rt_tensor_count(t); i++)
        sum += element(t, i);
    return sum;
}

double state_run(struct rt_callable *c, double p, const char *what)
{
    float value = (float)p;
    const struct rt_tensor in = {.dtype = RT_F32, .data = &value};
    struct rt_tensor out = {0};
    struct rt_error err = {0};
    const enum rt_status st = rt_callable_run(c, &in, &out, NULL, &err);
    if (st)
        fail_msg("%s: %s", what, rt_error_text(&err));
    const double sum = out.dtype ? state_sum(&out) : 0;
    rt_tensor_clear(&out);
    return sum;
}

struct rt_session *state_open(enum state_mode mode)
{
    static const char *const inits[] = {"r_init", "w_init", "k_init", "v_init",
                                        "u_init", "n_init", "d_init", "t_init"};
    const struct rt_session_options options = {
        .registry = test_registry,
        .tuning = {.no_specialise = mode == STATE_NODE_BY_NODE},
        .compiles_inline = mode != STATE_NODE_BY_NODE};
    struct rt_session *s = gs_open(gd_span(&state_graph), &options);
    for (size_t i = 0; i < sizeof inits / sizeof *inits; i++)
        state_run(prepare(s, inits[i], true), 0, inits[i]);
    return s;
}
