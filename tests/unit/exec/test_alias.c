/*
 * TensorFlow 1 reads a ref variable through one Identity that all readers share. The Identity has
 * no control input, so it may run before an update. A reader that waits for the update must still
 * see the new value (runtime/exec/alias.h). The expected sums are those of TensorFlow, whose graph
 * optimiser does not change this graph.
 */
#include "tests/support/registry.h"
#include "tests/support/test.h"

#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"

enum { RUNS = 3, TUNINGS = 4 };

/* `fetch` is fetched in RUNS runs with x = 1, and sum[i] is the sum of the elements fetched in run
 * i. Before the first run, v is {{0, 1}, {2, 3}} and w is a 4 x 16 matrix of ones. */
struct form {
    const char *fetch;
    float sum[RUNS];
};

static const struct form forms[] = {
    /* forms of updates */
    {"added", {10, 14, 18}},
    {"subtracted", {2, -2, -6}},
    {"assigned", {10, 14, 18}},
    {"scattered", {8, 10, 12}},
    {"updated_twice", {14, 22, 30}},
    /* a reader that waits for the update through a data edge */
    {"by_data", {20, 28, 36}},
    {"old_is_new", {10, 14, 18}},
    /* views share the buffer of the variable */
    {"flat_behind", {10, 14, 18}},
    {"expanded_behind", {10, 14, 18}},
    {"stopped_behind", {10, 14, 18}},
    {"rows_behind", {64, 96, 128}},
    {"list_behind", {10, 14, 18}},
    /* ops that return their input unchanged also share its buffer */
    {"checked_behind", {10, 14, 18}},
    {"cast_behind", {10, 14, 18}},
    {"bits_behind", {10, 14, 18}},
    {"packed_behind", {10, 14, 18}},
    {"added_alone_behind", {10, 14, 18}},
    {"split_behind", {10, 14, 18}},
    {"split_v_behind", {10, 14, 18}},
    {"reduced_behind", {10, 14, 18}},
    {"largest_behind", {10, 14, 18}},
    {"mirrored_behind", {10, 14, 18}},
    {"band_behind", {10, 14, 18}},
    {"einsum_behind", {10, 14, 18}},
    {"blocks_behind", {10, 14, 18}},
    {"w_split_behind", {64, 96, 128}},
    {"w_row_behind", {32, 48, 64}},
    /* outputs that are copies have their own buffers */
    {"norm_behind", {6, 10, 14}},
    {"broadcast_behind", {6, 10, 14}},
    {"conjugate_behind", {6, 10, 14}},
    {"snapshot_behind", {6, 10, 14}},
    {"part_behind", {1, 3, 5}},
    {"product_behind", {6, 10, 14}},
    /* Outputs of control-flow nodes and of calls also share the variable's buffer. */
    {"chosen", {10, 14, 18}},
    {"called", {10, 14, 18}},
    {"exit_sum", {24, 40, 56}},
    /* an assignment that changes the number of elements gives v a new buffer and leaves the old one
     * to its readers */
    {"before_growth", {6, 10, 14}},
    {"of_other_shape", {10, 14, 18}},
    /* an update of v changes no other tensor or variable, even one that shared a buffer with v */
    {"given", {4, 4, 4}},
    {"other", {6, 10, 14}},
    {"read", {6, 6, 6}},
    /* an empty value has no buffer, but the handle through which a node reads the value has one */
    {"emptied", {0, 0, 0}},
};

static struct rt_error err;

static void updates(struct rt_bytes *g)
{
    gd_node(g, "read", "Identity", "v", "T=float");
    gd_node(g, "w_read", "Identity", "w", "T=float");
    gd_node(g, "add", "AssignAdd", "v x4", "T=float");
    gd_node(g, "added", "Mul", "read one ^add", "T=float");
    gd_node(g, "subtract", "AssignSub", "v x4", "T=float");
    gd_node(g, "subtracted", "Mul", "read one ^subtract", "T=float");
    gd_node(g, "sum", "AddV2", "read x4", "T=float");
    gd_node(g, "assign", "Assign", "v sum", "T=float");
    gd_node(g, "assigned", "Mul", "read one ^assign", "T=float");
    gd_node(g, "scatter", "ScatterAdd", "v at1 x12", "T=float Tindices=int32");
    gd_node(g, "scattered", "Mul", "read one ^scatter", "T=float");
    gd_node(g, "add_again", "AssignAdd", "v x4 ^added", "T=float");
    gd_node(g, "updated_twice", "Mul", "read one ^add_again", "T=float");

    gd_node(g, "by_data", "AddV2", "read add", "T=float");
    gd_node(g, "old", "Identity", "v", "T=float");
    gd_node(g, "add_behind_old", "AssignAdd", "v x4 ^old", "T=float");
    gd_node(g, "old_is_new", "Mul", "old one ^add_behind_old", "T=float");

    gd_node(g, "grown", "ConcatV2", "read x4 i0", "T=float N=2 Tidx=int32");
    gd_node(g, "grow", "Assign", "v grown", "T=float validate_shape=false");
    gd_node(g, "before_growth", "Mul", "read one ^grow", "T=float");
    gd_node(g, "flat_x4", "Reshape", "x4 to4", "T=float Tshape=int32");
    gd_node(g, "flat_v", "Reshape", "read to4", "T=float Tshape=int32");
    gd_node(g, "flat_sum", "AddV2", "flat_v flat_x4", "T=float");
    gd_node(g, "reshape_v", "Assign", "v flat_sum", "T=float validate_shape=false");
    gd_node(g, "of_other_shape", "AddN", "read ^reshape_v", "T=float N=1");

    /* v takes over the buffer of the tensor "x4_made", and v is then updated. */
    gd_node(g, "x4_made", "Mul", "x4 one", "T=float");
    gd_node(g, "take", "Assign", "v x4_made", "T=float");
    gd_node(g, "taken", "Identity", "v ^take", "T=float");
    gd_node(g, "add_to_taken", "AssignAdd", "v x4 ^taken", "T=float");
    gd_node(g, "given", "Mul", "x4_made one ^add_to_taken", "T=float");
    gd_node(g, "give", "Assign", "u read", "T=float");
    gd_node(g, "add_to_giver", "AssignAdd", "v x4 ^give", "T=float");
    gd_node(g, "other_read", "Identity", "u", "T=float");
    gd_node(g, "other", "Mul", "other_read one ^add_to_giver", "T=float");
    gd_node(g, "nothing", "Const", "", "dtype=float value=float<0>:");
    gd_node(g, "empty", "Assign", "u nothing", "T=float validate_shape=false");
    gd_node(g, "emptied", "Neg", "empty", "T=float");
}

/* Adds three nodes. NAME applies `op` to "read", NAME_update updates the variable after NAME has
 * run, and NAME_behind reads NAME after the update. */
static void idle(struct rt_bytes *g, const char *name, const char *op, const char *in,
                 const char *attrs)
{
    char update[64], control[80], behind[64], of[128];

    snprintf(update, sizeof update, "%s_update", name);
    snprintf(control, sizeof control, "v x4 ^%s", name);
    snprintf(behind, sizeof behind, "%s_behind", name);
    snprintf(of, sizeof of, "%s one ^%s_update", name, name);
    gd_node(g, name, op, in, attrs);
    gd_node(g, update, "AssignAdd", control, "T=float");
    gd_node(g, behind, "Mul", of, "T=float");
}

static void idle_ops(struct rt_bytes *g)
{
    gd_node(g, "no_axes", "Const", "", "dtype=int32 value=int32<0>:");
    gd_node(g, "no_pads", "Const", "", "dtype=int32 value=int32<2,2>:0,0,0,0");
    gd_node(g, "no_blocks_pads", "Const", "", "dtype=int32 value=int32<0,2>:");
    gd_node(g, "all", "Const", "", "dtype=int32 value=int32<>:-1");
    gd_node(g, "shape122", "Const", "", "dtype=int32 value=int32<3>:1,2,2");
    gd_node(g, "perm", "Const", "", "dtype=int32 value=int32<2>:0,1");
    gd_node(g, "sizes", "Const", "", "dtype=int32 value=int32<1>:2");

    idle(g, "checked", "CheckNumerics", "read", "T=float message='it'");
    idle(g, "cast", "Cast", "read", "SrcT=float DstT=float");
    gd_node(g, "bits", "Bitcast", "read", "T=float type=int32");
    gd_node(g, "bits_update", "AssignAdd", "v x4 ^bits", "T=float");
    gd_node(g, "bits_behind", "Bitcast", "bits ^bits_update", "T=int32 type=float");
    idle(g, "packed", "Pack", "read", "T=float N=1 axis=1");
    idle(g, "added_alone", "AddN", "read", "T=float N=1");
    idle(g, "split", "Split", "i1 read", "T=float num_split=1");
    idle(g, "split_v", "SplitV", "read sizes i1", "T=float Tlen=int32 num_split=1");
    idle(g, "reduced", "Sum", "read no_axes", "T=float Tidx=int32");
    idle(g, "largest", "Max", "expanded i0", "T=float Tidx=int32");
    idle(g, "mirrored", "MirrorPad", "read no_pads", "T=float Tpaddings=int32 mode='REFLECT'");
    idle(g, "band", "MatrixBandPart", "read all all", "T=float Tindex=int32");
    idle(g, "einsum", "Einsum", "read", "T=float N=1 equation='ab->ab'");
    idle(g, "blocks", "SpaceToBatchND", "read no_axes no_blocks_pads",
         "T=float Tblock_shape=int32 Tpaddings=int32");
    idle(g, "norm", "Abs", "read", "T=float");
    idle(g, "broadcast", "BroadcastTo", "read shape122", "T=float Tidx=int32");
    idle(g, "conjugate", "ConjugateTranspose", "read perm", "T=float Tperm=int32");

    gd_node(g, "w_split", "Split", "i0 w_read", "T=float num_split=2");
    gd_node(g, "w_add_1", "AssignAdd", "w x64 ^w_split", "T=float");
    gd_node(g, "w_split_behind", "Mul", "w_split:1 one ^w_add_1", "T=float");
    gd_node(g, "w_row", "Unpack", "w_read", "T=float num=4 axis=0");
    gd_node(g, "w_add_2", "AssignAdd", "w x64 ^w_row", "T=float");
    gd_node(g, "w_row_behind", "Mul", "w_row:2 one ^w_add_2", "T=float");
}

static void views(struct rt_bytes *g)
{
    gd_node(g, "flat", "Reshape", "read to4", "T=float Tshape=int32");
    gd_node(g, "flat_behind", "Mul", "flat one ^add", "T=float");
    gd_node(g, "expanded", "ExpandDims", "read i0", "T=float Tdim=int32");
    gd_node(g, "expanded_behind", "Mul", "expanded one ^add", "T=float");
    gd_node(g, "stopped", "StopGradient", "read", "T=float");
    gd_node(g, "stopped_behind", "Mul", "stopped one ^add", "T=float");
    gd_node(g, "w_rows", "Slice", "w_read begin size", "T=float Index=int32");
    gd_node(g, "w_add", "AssignAdd", "w x64 ^w_rows", "T=float");
    gd_node(g, "rows_behind", "Mul", "w_rows one ^w_add", "T=float");
    gd_node(g, "no_list", "EmptyTensorList", "shape2 i1", "element_dtype=float shape_type=int32");
    gd_node(g, "list", "TensorListPushBack", "no_list read", "element_dtype=float");
    gd_node(g, "item", "TensorListGetItem", "list i0 shape2", "element_dtype=float");
    gd_node(g, "list_behind", "Mul", "item one ^add", "T=float");

    idle_ops(g);

    gd_node(g, "snapshot", "Snapshot", "read", "T=float");
    gd_node(g, "add_1", "AssignAdd", "v x4 ^snapshot", "T=float");
    gd_node(g, "snapshot_behind", "Mul", "snapshot one ^add_1", "T=float");
    gd_node(g, "part", "Slice", "read begin2 size2", "T=float Index=int32");
    gd_node(g, "add_2", "AssignAdd", "v x4 ^part", "T=float");
    gd_node(g, "part_behind", "Mul", "part one ^add_2", "T=float");
    gd_node(g, "product", "Mul", "read x4", "T=float");
    gd_node(g, "add_3", "AssignAdd", "v x4 ^product", "T=float");
    gd_node(g, "product_behind", "Mul", "product one ^add_3", "T=float");
}

static void control_flow(struct rt_bytes *g)
{
    struct rt_bytes b;

    rt_bytes_init(&b, 1 << 16);
    gd_node(&b, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&b, "product", "Mul", "a one:output:0", "T=float");
    gd_function(g, "once", "a:float", "out:float", &b, "out=product:z:0", "");
    rt_bytes_clear(&b);
    gd_node(g, "called", "PartitionedCall", "read ^add", "Tin=[float] Tout=[float] f=@once");

    gd_node(g, "yes", "Less", "zero x", "T=float");
    gd_node(g, "switch", "Switch", "read yes", "T=float");
    gd_node(g, "if_yes", "Mul", "switch:1 one ^add", "T=float");
    gd_node(g, "if_no", "Mul", "switch two ^add", "T=float");
    gd_node(g, "chosen", "Merge", "if_no if_yes", "T=float N=2");

    gd_node(g, "f_v", "RefEnter", "v", "T=float frame_name='f' is_constant=true");
    gd_node(g, "f_read", "Enter", "read", "T=float frame_name='f' is_constant=true");
    gd_node(g, "f_x4", "Enter", "x4", "T=float frame_name='f' is_constant=true");
    gd_node(g, "f_one", "Enter", "one", "T=float frame_name='f' is_constant=true");
    gd_node(g, "f_two", "Enter", "two", "T=float frame_name='f' is_constant=true");
    gd_node(g, "f_i", "Enter", "zero", "T=float frame_name='f' is_constant=false");
    gd_node(g, "f_s", "Enter", "no_sum", "T=float frame_name='f' is_constant=false");
    gd_node(g, "i", "Merge", "f_i next_i", "T=float N=2");
    gd_node(g, "s", "Merge", "f_s next_s", "T=float N=2");
    gd_node(g, "less", "Less", "i f_two", "T=float");
    gd_node(g, "cond", "LoopCond", "less", "");
    gd_node(g, "i_switch", "Switch", "i cond", "T=float");
    gd_node(g, "s_switch", "Switch", "s cond", "T=float");
    gd_node(g, "i_on", "Identity", "i_switch:1", "T=float");
    gd_node(g, "s_on", "Identity", "s_switch:1", "T=float");
    gd_node(g, "f_add", "AssignAdd", "f_v f_x4 ^s_on", "T=float");
    gd_node(g, "i_more", "AddV2", "i_on f_one ^f_add", "T=float");
    gd_node(g, "s_more", "AddV2", "s_on f_read ^f_add", "T=float");
    gd_node(g, "next_i", "NextIteration", "i_more", "T=float");
    gd_node(g, "next_s", "NextIteration", "s_more ^i_more", "T=float");
    gd_node(g, "exit_i", "Exit", "i_switch", "T=float");
    gd_node(g, "exit_s", "Exit", "s_switch", "T=float");
    gd_node(g, "exit_sum", "Mul", "exit_s one ^exit_i", "T=float");
}

static void make_graph(struct rt_bytes *g)
{
    gd_node(g, "x", "Placeholder", "", "dtype=float shape=<>");
    gd_node(g, "zero", "Const", "", "dtype=float value=float<>:0");
    gd_node(g, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(g, "two", "Const", "", "dtype=float value=float<>:2");
    gd_node(g, "no_sum", "Const", "", "dtype=float value=float<2,2>:0,0,0,0");
    gd_node(g, "i0", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "i1", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(g, "at1", "Const", "", "dtype=int32 value=int32<1>:1");
    gd_node(g, "to4", "Const", "", "dtype=int32 value=int32<1>:4");
    gd_node(g, "shape2", "Const", "", "dtype=int32 value=int32<2>:2,2");
    gd_node(g, "shape12", "Const", "", "dtype=int32 value=int32<2>:1,2");
    gd_node(g, "shape64", "Const", "", "dtype=int32 value=int32<2>:4,16");
    gd_node(g, "begin", "Const", "", "dtype=int32 value=int32<2>:1,0");
    gd_node(g, "size", "Const", "", "dtype=int32 value=int32<2>:2,16");
    gd_node(g, "begin2", "Const", "", "dtype=int32 value=int32<2>:0,0");
    gd_node(g, "size2", "Const", "", "dtype=int32 value=int32<2>:1,2");
    gd_node(g, "x4", "Fill", "shape2 x", "T=float index_type=int32");
    gd_node(g, "x12", "Fill", "shape12 x", "T=float index_type=int32");
    gd_node(g, "x64", "Fill", "shape64 x", "T=float index_type=int32");
    gd_node(g, "first", "Const", "", "dtype=float value=float<2,2>:0,1,2,3");
    gd_node(g, "first_w", "Fill", "shape64 one", "T=float index_type=int32");
    gd_node(g, "v", "VariableV2", "", "dtype=float shape=<?>");
    gd_node(g, "u", "VariableV2", "", "dtype=float shape=<2,2>");
    gd_node(g, "w", "VariableV2", "", "dtype=float shape=<4,16>");
    gd_node(g, "v_init", "Assign", "v first", "T=float validate_shape=false");
    gd_node(g, "u_init", "Assign", "u first", "T=float");
    gd_node(g, "w_init", "Assign", "w first_w", "T=float");
    updates(g);
    views(g);
    control_flow(g);
}

static const struct rt_tuning tunings[TUNINGS] = {
    {.no_fusion = true, .no_specialise = true},
    {.no_fusion = true},
    {.no_specialise = true},
    {.no_autotune = true},
};

static struct rt_session *open_session(struct rt_span graph, const struct rt_tuning *tuning)
{
    const struct rt_session_options options = {
        .registry = test_registry, .tuning = *tuning, .compiles_inline = true};
    struct rt_session *s = gs_open(graph, &options);

    gs_load(s, "v_init");
    gs_load(s, "u_init");
    gs_load(s, "w_init");
    rt_session_serve(s);
    return s;
}

static float sum_of(const struct rt_tensor *t)
{
    float sum = 0;
    for (int64_t i = 0; i < rt_tensor_count(t); i++)
        sum += ((const float *)t->data)[i];
    return sum;
}

static void run_form(struct rt_session *s, const struct form *f)
{
    float one = 1;
    const struct rt_tensor x = {.dtype = RT_F32, .data = &one};
    struct rt_callable *c = gs_call(s, "x", f->fetch);

    for (int k = 0; k < RUNS; k++) {
        struct rt_tensor out = {0};
        assert_ok(rt_callable_run(c, &x, &out, NULL, &err), &err);
        assert_int_equal(out.alias_of, 0);
        if (sum_of(&out) != f->sum[k])
            fail_msg("%s, run %d: %g, not %g", f->fetch, k, (double)sum_of(&out),
                     (double)f->sum[k]);
        rt_tensor_clear(&out);
    }
}

/* Each variant of the graph runs in its own session, so that no variant reads variables that
 * another variant has updated. */
static void readers_behind_an_update_see_what_it_wrote(void **state)
{
    struct rt_bytes g;

    (void)state;
    rt_bytes_init(&g, 1 << 20);
    make_graph(&g);
    for (int t = 0; t < TUNINGS; t++)
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            struct rt_session *s = open_session(gd_span(&g), &tunings[t]);
            run_form(s, &forms[i]);
            rt_session_free(s);
        }
    rt_bytes_clear(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_behind_an_update_see_what_it_wrote),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
