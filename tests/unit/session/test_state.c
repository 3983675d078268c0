/*
 * State that one call writes and another reads: whatever is known of it while a plan is made, and
 * whatever a compiled plan holds, an answer is what was written last.
 *
 * Every reader of a kind of state is run against every writer of that kind, in turn, in sessions
 * that run node by node, that compile at the first sight of a shape, and whose writer is prepared
 * only when the reader has been compiled, as SessionRun's is. What they must answer is computed by
 * the functions below, from one number.
 */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "kernels/kernels.h"
#include "runtime/session/session.h"
#include "tests/support/graph_def.h"

/* The number that the state is: the number of elements of "n", the number in all the others. */
typedef double (*change_fn)(double state, double p);

struct writer {
    const char *kind, *target; /* a node, or a tensor that is fetched */
    change_fn after;
};
struct reader {
    const char *kind, *fetch;
    change_fn answer; /* the sum of what is fetched, from the state and what is fed */
};

static double add(double s, double p)
{
    return s + p;
}
static double subtract(double s, double p)
{
    return s - p;
}
static double set(double s, double p)
{
    (void)s;
    return p;
}
static double same(double s, double p)
{
    (void)p;
    return s;
}
static double twice(double s, double p)
{
    (void)p;
    return 2 * s;
}
static double product(double s, double p)
{
    return s * p;
}
static double rows_matmul(double s, double p)
{
    return 64 * s * p;
}
static double row(double s, double p)
{
    (void)p;
    return 64 * s;
}
static double one(double s, double p)
{
    (void)s;
    (void)p;
    return 1;
}
static double none(double s, double p)
{
    (void)s;
    (void)p;
    return 0;
}

static const struct writer writers[] = {
    {"ref", "r_add", add},
    {"ref", "r_subtract", subtract},
    {"ref", "r_set", set},
    {"ref", "r_by_switch", add}, /* which handle it is given is known in the run only */
    {"ref", "r_by_merge", add},
    {"matrix", "w_add", add},
    {"matrix", "w_set", set},
    {"matrix", "w_scatter", add},
    {"count", "k_add", add},
    {"resource", "v_add", add},
    {"resource", "v_subtract", subtract},
    {"resource", "v_set", set},
    {"resource", "v_in_function", add},
    {"resource", "v_in_branch:0", add},
    {"resource", "v_in_loop:0", add},
    {"resource", "v_by_switch", add},
    {"resource", "v_by_case", add},
    {"resource", "v_swapped", add},
    {"rows", "u_scatter", add},
    {"length", "n_set", set},
    {"there", "d_destroy", none},
    {"there", "d_set", one},
    {"table", "t_insert", set},
    {"table", "t_import", set},
    {"table size", "t_insert_key", add},
};

static const struct reader readers[] = {
    {"ref", "r:0", same},
    {"ref", "r_identity:0", same},
    {"ref", "r_identities:0", same},
    {"ref", "r_sum:0", same},
    {"ref", "r_twice:0", twice},
    {"ref", "r_product:0", product},
    {"ref", "r_shaped:0", product},
    {"ref", "r_merged:0", same},
    {"ref", "r_switched:0", same},
    {"ref", "r_ref_switched:0", same},
    {"ref", "r_in_function:0", twice},
    {"ref", "r_in_branch:0", twice},
    {"ref", "r_in_loop:0", same},
    {"ref", "r_in_frame:0", same},
    {"ref", "r_ones:0", same},
    {"matrix", "w_product:0", rows_matmul},
    {"matrix", "w_biased:0", rows_matmul},
    {"matrix", "w_gathered:0", row},
    {"count", "k_filled:0", same},
    {"count", "k_in_place:0", same},
    {"resource", "v_read:0", same},
    {"resource", "v_sum:0", same},
    {"resource", "v_product:0", product},
    {"resource", "v_function:0", same},
    {"resource", "v_branch:0", same},
    {"resource", "v_loop:0", same},
    {"resource", "v_ones:0", same},
    {"rows", "u_gather:0", same},
    {"rows", "u_gather_nd:0", same},
    {"rows", "u_read:0", same},
    {"length", "n_shape:0", same},
    {"length", "n_shape_of_value:0", same},
    {"length", "n_size:0", same},
    {"length", "n_sum:0", same},
    {"there", "d_there:0", same},
    {"table", "t_find:0", same},
    {"table", "t_find_twice:0", twice},
    {"table", "t_values:0", same},
    {"table size", "t_size:0", same},
    {"table size", "t_keys:0", same},
};

/* Calls that write, and read behind that what they have written. */
static const char *const both[] = {
    "r_add_read:0",     "r_by_switch_read:0", "v_add_read:0",     "v_in_function:0",
    "v_in_branch:0",    "v_by_switch_read:0", "v_in_loop_read:0", "v_by_case_read:0",
    "v_swapped_read:0", "u_scatter_read:0",
};

/* Nodes that draw; behind each one NAME_twice. */
static const char *const drawn[] = {"g_uniform",  "g_normal", "g_int", "g_fed",
                                    "g_function", "g_branch", "g_loop"};
enum { N_GENERATORS = sizeof drawn / sizeof *drawn };

enum { N_WRITERS = sizeof writers / sizeof *writers, N_READERS = sizeof readers / sizeof *readers };

/* Runs before serving: the state is FIRST (there: 1) then. */
static const char *const inits[] = {"r_init", "w_init", "k_init", "v_init",
                                    "u_init", "n_init", "d_init", "t_init"};
enum { FIRST = 40 };

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

    /* So large that kernels keep it in a form of their own. Its numbers are all the same. */
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

/* Generators of random numbers. Each node has one, which goes on from call to call. */
static void generators(struct rt_bytes *g)
{
    const char *uniform = "T=int32 dtype=float seed=7 seed2=3";
    struct rt_bytes b;
    rt_bytes_init(&b, 1 << 20);
    gd_node(&b, "dims", "Const", "", "dtype=int32 value=int32<1>:5");
    gd_node(&b, "draw", "RandomUniform", "dims:output:0", uniform);
    gd_function(g, "draw", "p:float", "out:float", &b, "out=draw:output:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "dims", "Const", "", "dtype=int32 value=int32<1>:5");
    gd_node(&b, "draw", "RandomUniform", "dims:output:0", uniform);
    gd_node(&b, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&b, "next", "AddV2", "i one:output:0", "T=float");
    gd_node(&b, "sum", "AddV2", "x draw:output:0", "T=float");
    gd_function(g, "add_drawn", "i:float l:float x:float", "j:float m:float y:float", &b,
                "j=next:z:0 m=l y=sum:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "less", "Less", "i limit", "T=float");
    gd_function(g, "below_of_three", "i:float limit:float x:float", "out:bool", &b, "out=less:z:0",
                "");
    rt_bytes_clear(&b);

    gd_node(g, "g_dims", "Const", "", "dtype=int32 value=int32<1>:5");
    gd_node(g, "g_zeros", "Const", "", "dtype=float value=float<5>:0");
    gd_node(g, "g_least", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "g_most", "Const", "", "dtype=int32 value=int32<>:1000000");
    gd_node(g, "g_uniform", "RandomUniform", "g_dims", uniform);
    gd_node(g, "g_normal", "RandomStandardNormal", "g_dims", uniform);
    gd_node(g, "g_ints", "RandomUniformInt", "g_dims g_least g_most",
            "T=int32 Tout=int32 seed=7 seed2=3");
    gd_node(g, "g_int", "Cast", "g_ints", "SrcT=int32 DstT=float");
    gd_node(g, "g_fed", "RandomUniform", "p_int", uniform); /* as many as are fed */
    gd_node(g, "g_function", "StatefulPartitionedCall", "p", "Tin=[float] Tout=[float] f=@draw");
    gd_node(g, "g_branch", "If", "always p",
            "Tcond=bool Tin=[float] Tout=[float] then_branch=@draw else_branch=@draw");
    gd_node(g, "g_loops", "While", "zero two g_zeros",
            "T=[float,float,float] cond=@below_of_three body=@add_drawn");
    gd_node(g, "g_loop", "Identity", "g_loops:2", "T=float");
    for (int k = 0; k < N_GENERATORS; k++) {
        char twice[64], in[64];
        snprintf(twice, sizeof twice, "%s_twice", drawn[k]);
        snprintf(in, sizeof in, "%s two", drawn[k]);
        gd_node(g, twice, "Mul", in, "T=float");
    }
}

/* ---- a session ---- */

enum mode {
    NODE_BY_NODE,
    COMPILED,
    WRITER_COMES_LATE, /* compiled, and the writer is prepared after the reader has run */
    N_MODES,
};

static struct rt_registry *ops;
static struct rt_bytes graph;

static int set_up(void **state)
{
    (void)state;
    ops = rt_registry_new();
    rt_bytes_init(&graph, 1 << 24);
    if (!ops || !kn_register(ops))
        return -1;
    constants(&graph);
    functions(&graph);
    refs(&graph);
    resources(&graph);
    tables(&graph);
    generators(&graph);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rt_bytes_clear(&graph);
    rt_registry_free(ops);
    return 0;
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
    struct rt_callable *c = NULL;
    struct rt_error err = {0};
    assert_ok(rt_session_prepare(s, &spec, &c, &err), &err);
    return c;
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

/* The sum of what is fetched; of keys their number. */
static double run(struct rt_callable *c, double p, const char *what)
{
    float value = (float)p;
    const struct rt_tensor in = {.dtype = RT_F32, .data = &value};
    struct rt_tensor out = {0};
    struct rt_error err = {0};
    double sum = 0;
    const enum rt_status st = rt_callable_run(c, &in, &out, NULL, &err);
    if (st)
        fail_msg("%s: %s", what, rt_error_text(&err));
    for (int64_t i = 0; out.dtype && i < rt_tensor_count(&out); i++)
        sum += element(&out, i);
    rt_tensor_clear(&out);
    return sum;
}

static struct rt_session *open_session(enum mode mode)
{
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_error err = {0};
    const struct rt_session_options options = {.registry = ops,
                                               .tuning = {.no_specialise = mode == NODE_BY_NODE},
                                               .compiles_inline = mode != NODE_BY_NODE};
    assert_ok(rt_library_import(&l, gd_span(&graph), ops, &err), &err);
    assert_ok(rt_session_new(&s, l, &options, &err), &err);
    for (size_t i = 0; i < sizeof inits / sizeof *inits; i++)
        run(prepare(s, inits[i], true), 0, inits[i]);
    return s;
}

/* ---- one reader, one writer ---- */

/* r: read, w: write. More reads than are needed to compile, each with another number fed. */
static void interleave(enum mode mode, const struct reader *r, const struct writer *w,
                       const char *turns)
{
    struct rt_session *s = open_session(mode);
    double state = strcmp(r->kind, "there") == 0 ? 1 : FIRST;
    struct rt_callable *write = mode == WRITER_COMES_LATE ? NULL : prepare(s, w->target, false);
    struct rt_callable *read = prepare(s, r->fetch, false);
    rt_session_serve(s);
    for (int at = 0; turns[at]; at++) {
        const double p = 1 + at % 3;
        if (turns[at] == 'w') {
            if (!write)
                write = prepare(s, w->target, false);
            run(write, p, w->target);
            state = w->after(state, p);
            continue;
        }
        const double want = r->answer(state, p), got = run(read, p, r->fetch);
        if (got != want)
            fail_msg("mode %d: %s, written by %s, after \"%.*s\": %g, not %g", (int)mode, r->fetch,
                     w->target, at, turns, got, want);
    }
    rt_session_free(s);
}

static void a_reader_answers_what_another_call_has_written(void **state)
{
    static const char *const turns[] = {"rrrwrrwwrwrrrwrr", "wrrrwrr", "rwrwrwrw"};
    int n = 0;
    (void)state;
    for (int r = 0; r < N_READERS; r++)
        for (int w = 0; w < N_WRITERS; w++)
            for (int mode = 0; mode < N_MODES; mode++)
                for (int t = 0; t < 3; t++)
                    if (strcmp(readers[r].kind, writers[w].kind) == 0) {
                        interleave((enum mode)mode, &readers[r], &writers[w], turns[t]);
                        n++;
                    }
    assert_true(n > 900);
}

/* Before a call that writes has run once, its own plan may hold the value too. */
static void a_call_that_writes_reads_what_it_wrote(void **state)
{
    (void)state;
    for (size_t b = 0; b < sizeof both / sizeof *both; b++)
        for (int mode = 0; mode < N_MODES; mode++) {
            struct rt_session *s = open_session((enum mode)mode);
            struct rt_callable *c = NULL;
            double now = FIRST;
            if (mode != WRITER_COMES_LATE)
                c = prepare(s, both[b], false);
            rt_session_serve(s);
            if (!c)
                c = prepare(s, both[b], false);
            for (int k = 1; k < 6; k++) {
                const double got = run(c, k, both[b]);
                now += k;
                if (got != now)
                    fail_msg("mode %d: %s: %g, not %g", mode, both[b], got, now);
            }
            rt_session_free(s);
        }
}

/* ---- at the same time ---- */

enum { N_THREADS = 3, N_RUNS = 300 };

struct crowd {
    struct rt_callable *read, *write;
    const char *name;
    atomic_int written; /* by a writer that has ended */
};

/* What is read was there: never less than what had been written before the call, or more than ever
 * is, and never less than what this thread has read before. */
static void *read_all(void *arg)
{
    struct crowd *c = arg;
    double last = FIRST;
    for (int k = 0; k < N_RUNS; k++) {
        const double least = FIRST + atomic_load(&c->written);
        const double got = run(c->read, 1, c->name);
        assert_true(got >= least && got >= last && got <= FIRST + N_RUNS);
        last = got;
    }
    return NULL;
}

static void *write_all(void *arg)
{
    struct crowd *c = arg;
    for (int k = 1; k <= N_RUNS; k++) {
        run(c->write, 1, "a write");
        atomic_store(&c->written, k);
    }
    return NULL;
}

static void readers_beside_a_writer_read_what_is_written(void **state)
{
    static const char *const pairs[][2] = {
        {"r_identity:0", "r_add"},   {"r_ones:0", "r_add"},        {"r:0", "r_add"},
        {"k_filled:0", "k_add"},     {"v_ones:0", "v_add"},        {"v_loop:0", "v_by_switch"},
        {"u_gather:0", "u_scatter"}, {"t_size:0", "t_insert_key"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int mode = 0; mode < N_MODES; mode++) {
            struct rt_session *s = open_session((enum mode)mode);
            struct crowd c = {.name = pairs[i][0]};
            pthread_t thread[N_THREADS + 1];
            if (mode != WRITER_COMES_LATE)
                c.write = prepare(s, pairs[i][1], false);
            c.read = prepare(s, pairs[i][0], false);
            rt_session_serve(s);
            run(c.read, 1, c.name);
            if (!c.write)
                c.write = prepare(s, pairs[i][1], false);
            for (int t = 0; t < N_THREADS; t++)
                assert_int_equal(pthread_create(&thread[t], NULL, read_all, &c), 0);
            assert_int_equal(pthread_create(&thread[N_THREADS], NULL, write_all, &c), 0);
            for (int t = 0; t <= N_THREADS; t++)
                pthread_join(thread[t], NULL);
            assert_true(run(c.read, 1, c.name) == FIRST + N_RUNS);
            rt_session_free(s);
        }
}

/* An answer that somebody still reads (writes out, say) stays as it was. */
static void an_answer_stays_as_it_was_while_the_state_is_written(void **state)
{
    static const char *const pairs[][2] = {
        {"r:0", "r_add"},
        {"r_identity:0", "r_add"},
        {"r_identities:0", "r_subtract"},
        {"k_filled:0", "k_add"},
        {"v_read:0", "v_add"},
        {"u_read:0", "u_scatter"},
        {"w_gathered:0", "w_scatter"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int mode = 0; mode < N_MODES; mode++) {
            struct rt_session *s = open_session((enum mode)mode);
            struct rt_error err = {0};
            float value = 1;
            const struct rt_tensor in = {.dtype = RT_F32, .data = &value};
            struct rt_tensor out[4] = {{0}};
            struct rt_callable *read = prepare(s, pairs[i][0], false);
            rt_session_serve(s);
            double before[4] = {0};
            for (int k = 0; k < 4; k++) {
                assert_ok(rt_callable_run(read, &in, &out[k], NULL, &err), &err);
                for (int64_t e = 0; e < rt_tensor_count(&out[k]); e++)
                    before[k] += element(&out[k], e);
                run(prepare(s, pairs[i][1], false), 1, pairs[i][1]);
            }
            for (int k = 0; k < 4; k++) {
                double after = 0;
                for (int64_t e = 0; e < rt_tensor_count(&out[k]); e++)
                    after += element(&out[k], e);
                assert_true(after == before[k] && (k == 0 || after != before[k - 1]));
                rt_tensor_clear(&out[k]);
            }
            rt_session_free(s);
        }
}

/* ---- generators ---- */

enum { N_DRAWS = 24 };

struct drawing {
    struct rt_callable *once, *twice;
    const char *name;
    double sum[N_DRAWS]; /* of one thread's calls */
};

static void prepare_draws(struct drawing *d, struct rt_session *s, int k)
{
    char name[64];
    d->name = drawn[k];
    snprintf(name, sizeof name, "%s:0", drawn[k]);
    d->once = prepare(s, name, false);
    snprintf(name, sizeof name, "%s_twice:0", drawn[k]);
    d->twice = prepare(s, name, false);
}

/* The sums that one call gets in turn, node by node: what all calls together must get. */
static void reference_draws(int k, double *sum)
{
    struct rt_session *s = open_session(NODE_BY_NODE);
    struct drawing d;
    prepare_draws(&d, s, k);
    rt_session_serve(s);
    for (int i = 0; i < N_THREADS * N_DRAWS; i++)
        sum[i] = run(d.once, 5, d.name);
    rt_session_free(s);
}

static void calls_in_turn_draw_from_one_generator(void **state)
{
    static const char *const turns[] = {"121211212", "1112", "2221"};
    (void)state;
    for (int k = 0; k < N_GENERATORS; k++) {
        double want[N_THREADS * N_DRAWS];
        reference_draws(k, want);
        for (int i = 0; i < N_DRAWS; i++)
            for (int j = 0; j < i; j++)
                assert_true(want[i] != want[j]);
        for (int mode = 0; mode < N_MODES; mode++)
            for (int t = 0; t < 3; t++) {
                struct rt_session *s = open_session((enum mode)mode);
                struct drawing d;
                prepare_draws(&d, s, k);
                rt_session_serve(s);
                for (int i = 0; i < N_DRAWS; i++) {
                    const bool once = turns[t][(size_t)i % strlen(turns[t])] == '1';
                    const double got = once ? run(d.once, 5, d.name) : run(d.twice, 5, d.name) / 2;
                    if (got != want[i])
                        fail_msg("mode %d, \"%s\": %s, call %d: %.9g, not %.9g", mode, turns[t],
                                 d.name, i, got, want[i]);
                }
                rt_session_free(s);
            }
    }
}

static void *draw_all(void *arg)
{
    struct drawing *d = arg;
    for (int i = 0; i < N_DRAWS; i++)
        d->sum[i] = i % 2 ? run(d->once, 5, d->name) : run(d->twice, 5, d->name) / 2;
    return NULL;
}

static int compare_sums(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Each draw is given to one call. In a loop the draws of two calls may be mixed. */
static void calls_beside_each_other_draw_from_one_generator(void **state)
{
    (void)state;
    for (int k = 0; k < N_GENERATORS - 1; k++) {
        double want[N_THREADS * N_DRAWS], got[N_THREADS * N_DRAWS];
        reference_draws(k, want);
        qsort(want, N_THREADS * N_DRAWS, sizeof *want, compare_sums);
        for (int mode = 0; mode < N_MODES; mode++) {
            struct rt_session *s = open_session((enum mode)mode);
            struct drawing d[N_THREADS];
            pthread_t thread[N_THREADS];
            for (int t = 0; t < N_THREADS; t++)
                prepare_draws(&d[t], s, k);
            rt_session_serve(s);
            for (int t = 0; t < N_THREADS; t++)
                assert_int_equal(pthread_create(&thread[t], NULL, draw_all, &d[t]), 0);
            for (int t = 0; t < N_THREADS; t++) {
                pthread_join(thread[t], NULL);
                memcpy(&got[(size_t)t * N_DRAWS], d[t].sum, sizeof d[t].sum);
            }
            qsort(got, N_THREADS * N_DRAWS, sizeof *got, compare_sums);
            assert_memory_equal(got, want, sizeof got);
            rt_session_free(s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_answers_what_another_call_has_written),
        cmocka_unit_test(a_call_that_writes_reads_what_it_wrote),
        cmocka_unit_test(readers_beside_a_writer_read_what_is_written),
        cmocka_unit_test(an_answer_stays_as_it_was_while_the_state_is_written),
        cmocka_unit_test(calls_in_turn_draw_from_one_generator),
        cmocka_unit_test(calls_beside_each_other_draw_from_one_generator),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
