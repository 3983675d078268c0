/*
 * Tests ops whose arguments depend on the batch size or on another length (runtime/passes/rows.c,
 * runtime/plan/row_analyses.h). If a graph is analysed as row-wise, merged requests must get the
 * same bits as each request alone, for every number of rows. A batch may be merged only if its
 * lengths have been analysed.
 */
#include "tests/support/test.h"

#include "runtime/plan/row_analyses.h"
#include "tests/support/row_graph.h"

#define I RG_INT

/* Nodes that compute "k", which is 0 or 1, from the number of rows n. */
struct function {
    const char *what;
    bool is_constant; /* whether k is the same for every n, which makes the uses of k row-wise */
    struct gd_line line[RG_MOST_LINES];
};
static const struct function functions[] = {
    {"of another dimension",
     true,
     {{"f_d5", "Minimum", "d c5", "T=int32"}, {"k", "Sub", "f_d5 c2", "T=int32"}}},
    {"n - n + 1", true, {{"f_n1", "AddV2", "n c1", "T=int32"}, {"k", "Sub", "f_n1 n", "T=int32"}}},
    {"3 * n / n - 2",
     true,
     {{"f_n3", "Mul", "n c3", "T=int32"},
      {"f_q", "FloorDiv", "f_n3 n", "T=int32"},
      {"k", "Sub", "f_q c2", "T=int32"}}},
    {"max(min(n, 5) - 4, 0)",
     false,
     {{"f_n5", "Minimum", "n c5", "T=int32"},
      {"f_n1", "Sub", "f_n5 c4", "T=int32"},
      {"k", "Maximum", "f_n1 c0", "T=int32"}}},
    {"min(max(n - 12, 0), 1)",
     false,
     {{"f_n12", "Sub", "n c12", "T=int32"},
      {"f_n0", "Maximum", "f_n12 c0", "T=int32"},
      {"k", "Minimum", "f_n0 c1", "T=int32"}}},
    {"n mod 2", false, {{"k", "FloorMod", "n c2", "T=int32"}}},
    {"min(n / 6, 1)",
     false,
     {{"f_n6", "FloorDiv", "n c6", "T=int32"}, {"k", "Minimum", "f_n6 c1", "T=int32"}}},
    {"(n + 1) / 2 - n / 2",
     false,
     {{"f_n1", "AddV2", "n c1", "T=int32"},
      {"f_up", "FloorDiv", "f_n1 c2", "T=int32"},
      {"f_down", "FloorDiv", "n c2", "T=int32"},
      {"k", "Sub", "f_up f_down", "T=int32"}}},
    {"n * -2^31 / -2^31",
     false,
     {I("f_min", "<>:-2147483648"),
      {"f_w", "Mul", "n f_min", "T=int32"},
      {"k", "FloorDiv", "f_w f_min", "T=int32"}}},
    {"the low half of n * 2^31",
     false,
     {I("f_min", "<>:-2147483648"),
      {"f_n8", "Cast", "n", "SrcT=int32 DstT=int64"},
      {"f_c8", "Const", "", "dtype=int64 value=int64<>:2147483648"},
      {"f_w8", "Mul", "f_n8 f_c8", "T=int64"},
      {"f_w", "Cast", "f_w8", "SrcT=int64 DstT=int32"},
      {"k", "FloorDiv", "f_w f_min", "T=int32"}}},
    {"n > 12",
     false,
     {{"f_g", "Greater", "n c12", "T=int32"}, {"k", "Cast", "f_g", "SrcT=bool DstT=int32"}}},
    {"n == 13",
     false,
     {{"f_e", "Equal", "n c13", "T=int32"}, {"k", "SelectV2", "f_e c1 c0", "T=int32"}}},
    {"8-bit n > 0",
     false,
     {{"f_n8", "Cast", "n", "SrcT=int32 DstT=int8"},
      {"f_c8", "Const", "", "dtype=int8 value=int8<>:13"},
      {"f_g", "Greater", "f_n8 f_c8", "T=int8"},
      {"k", "Cast", "f_g", "SrcT=bool DstT=int32"}}},
    {"an element",
     false,
     {I("f_v", "<60>:1,1,1,0,1,0,1,1,0,1,0,1,0,0,1,1,0,1,0"),
      {"k", "GatherV2", "f_v n c0", "Tparams=int32 Tindices=int32 Taxis=int32"}}},
};

/* Nodes that compute "out" and use "k" along axes other than the rows. */
struct use {
    const char *what;
    struct gd_line line[RG_MOST_LINES];
};
static const struct use uses[] = {
    {"Reshape",
     {{"k6", "Sub", "c6 kk", "T=int32"},
      {"kk", "AddV2", "k k", "T=int32"},
      {"to", "Pack", "all k2 k6", "T=int32 N=3"},
      {"out", "Reshape", "x to", "T=float Tshape=int32"}}},
    {"Reshape to n rows",
     {{"k6", "Sub", "c6 kk", "T=int32"},
      {"kk", "AddV2", "k k", "T=int32"},
      {"to", "Pack", "n k2 k6", "T=int32 N=3"},
      {"out", "Reshape", "x to", "T=float Tshape=int32"}}},
    {"Tile",
     {{"m", "Pack", "c1 k1 c1", "T=int32 N=3"},
      {"out", "Tile", "x m", "T=float Tmultiples=int32"}}},
    {"BroadcastTo",
     {{"to", "Pack", "n k1 c4", "T=int32 N=3"},
      {"out", "BroadcastTo", "sums to", "T=float Tidx=int32"}}},
    {"Slice",
     {{"b", "Pack", "c0 k c0", "T=int32 N=3"},
      {"s", "Pack", "n c1 c4", "T=int32 N=3"},
      {"out", "Slice", "x b s", "T=float Index=int32"}}},
    {"StridedSlice",
     {{"b", "Pack", "c0 k", "T=int32 N=2"},
      {"e", "Pack", "n k1", "T=int32 N=2"},
      I("s", "<2>:1,1"),
      {"out", "StridedSlice", "x b e s", "T=float Index=int32"}}},
    {"StridedSlice, stride",
     {I("b", "<2>:0,0"),
      I("e", "<2>:0,0"),
      {"s", "Pack", "c1 k1", "T=int32 N=2"},
      {"out", "StridedSlice", "x b e s", "T=float Index=int32 begin_mask=3 end_mask=3"}}},
    {"ConcatV2", {{"out", "ConcatV2", "x x k1", "T=float Tidx=int32 N=2"}}},
    {"Concat", {{"out", "Concat", "k1 x x", "T=float N=2"}}},
    {"Transpose",
     {{"p", "Pack", "c0 k1 kr", "T=int32 N=3"},
      {"out", "Transpose", "x p", "T=float Tperm=int32"}}},
    {"Sum", {{"out", "Sum", "x k1", "T=float Tidx=int32"}}},
    {"Max", {{"out", "Max", "x axes", "T=float Tidx=int32"}}},
    {"Any", {{"g", "Greater", "x f0", "T=float"}, {"out", "Any", "g k1", "Tidx=int32"}}},
    {"ArgMax", {{"out", "ArgMax", "x k1", "T=float Tidx=int32 output_type=int64"}}},
    {"Cumsum", {{"out", "Cumsum", "x k1", "T=float Tidx=int32"}}},
    {"ReverseV2", {{"out", "ReverseV2", "x axes", "T=float Tidx=int32"}}},
    {"Roll", {{"out", "Roll", "x k c1", "T=float Tshift=int32 Taxis=int32"}}},
    {"ExpandDims", {{"out", "ExpandDims", "x k1", "T=float Tdim=int32"}}},
    {"GatherV2", {{"out", "GatherV2", "x k c1", "Tparams=float Tindices=int32 Taxis=int32"}}},
    {"GatherV2, axis",
     {{"out", "GatherV2", "x c0 k1", "Tparams=float Tindices=int32 Taxis=int32"}}},
    {"Pad",
     {{"p1", "Pack", "k k1", "T=int32 N=2"},
      I("p0", "<2>:0,0"),
      {"p", "Pack", "p0 p1 p0", "T=int32 N=3"},
      {"out", "Pad", "x p", "T=float Tpaddings=int32"}}},
    {"MirrorPad",
     {{"p1", "Pack", "k k1", "T=int32 N=2"},
      I("p0", "<2>:0,0"),
      {"p", "Pack", "p0 p1 p0", "T=int32 N=3"},
      {"out", "MirrorPad", "x p", "T=float Tpaddings=int32 mode='REFLECT'"}}},
    {"Split",
     {{"halves", "Split", "k1 wide", "T=float num_split=2"},
      {"wide", "Tile", "x twice", "T=float Tmultiples=int32"},
      I("twice", "<3>:1,2,1"),
      {"out", "Identity", "halves:1", "T=float"}}},
    {"SplitV",
     {{"kk", "AddV2", "k k", "T=int32"},
      {"rest", "Sub", "c3 k1", "T=int32"},
      {"sizes", "Pack", "k1 rest", "T=int32 N=2"},
      {"parts", "SplitV", "x sizes c1", "T=float Tlen=int32 num_split=2"},
      {"out", "Identity", "parts:0", "T=float"}}},
    {"OneHot",
     {{"i", "Cast", "x", "SrcT=float DstT=int32"},
      {"out", "OneHot", "i k1 f1 f0", "T=float TI=int32"}}},
    {"TopKV2", {{"out", "TopKV2", "x k1", "T=float"}}},
    {"MatrixBandPart", {{"out", "MatrixBandPart", "x k k", "T=float Tindex=int32"}}},
    {"Fill, shape",
     {{"dims", "Pack", "n k1 c4", "T=int32 N=3"},
      {"z", "Fill", "dims f0", "T=float index_type=int32"},
      {"out", "ConcatV2", "x z c1", "T=float Tidx=int32 N=2"}}},
    {"Fill, value",
     {{"kf", "Cast", "k", "SrcT=int32 DstT=float"},
      {"z", "Fill", "shape kf", "T=float index_type=int32"},
      {"out", "AddV2", "x z", "T=float"}}},
    {"Mul", {{"kf", "Cast", "k1", "SrcT=int32 DstT=float"}, {"out", "Mul", "x kf", "T=float"}}},
    {"MatMul",
     {{"i", "Cast", "row", "SrcT=float DstT=int32"},
      {"dims", "Pack", "c12 c2", "T=int32 N=2"},
      {"w", "Fill", "dims k", "T=int32 index_type=int32"},
      {"out", "MatMul", "i w", "T=int32"}}},
    {"SelectV2",
     {{"p", "Greater", "k c0", "T=int32"},
      {"y", "Neg", "x", "T=float"},
      {"out", "SelectV2", "p x y", "T=float"}}},
    {"Range, GatherV2",
     {{"r", "Range", "c0 k1 c1", "Tidx=int32"},
      {"out", "GatherV2", "x r c1", "Tparams=float Tindices=int32 Taxis=int32"}}},
    {"ResizeNearestNeighbor",
     {{"im", "ExpandDims", "x all", "T=float Tdim=int32"},
      {"to", "Pack", "k2 k2", "T=int32 N=2"},
      {"out", "ResizeNearestNeighbor", "im to", "T=float"}}},
};

static void check_merged(struct rg_graph *o, const struct rt_shape *row, const char *what,
                         const char *which)
{
    if (rg_check_merged(o, row, what, which) == 0)
        fail_msg("%s of %s is refused", what, which);
}

static void an_argument_that_follows_the_batch_size_is_not_taken_for_a_constant(void **state)
{
    static const struct rt_shape shape = {.rank = 3, .dim = {-1, 3, 4}};
    (void)state;
    for (size_t u = 0; u < sizeof uses / sizeof *uses; u++)
        for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
            struct rg_graph o = {0};
            struct rt_error err = {0};
            rg_open(&o, functions[f].line, uses[u].line);
            struct rt_tensor alone = {0};
            assert_ok(rg_run(&o, &shape, 0, 13, &alone, &err), &err);
            rt_tensor_clear(&alone);
            const bool yes = rt_callable_is_rowwise(o.callable, &shape, &err);
            if (yes)
                check_merged(&o, &shape, uses[u].what, functions[f].what);
            else if (functions[f].is_constant)
                fail_msg("%s of %s is not proved: %s", uses[u].what, functions[f].what,
                         rt_error_text(&err));
            rg_close(&o);
        }
}

/* A graph that does not use "k". `is_rowwise` states whether "out" is row-wise for an "x" of the
 * given shape. */
struct graph {
    const char *what;
    struct rt_shape shape;
    bool is_rowwise;
    struct gd_line line[RG_MOST_LINES];
};
#define S(...)                                                                                     \
    {                                                                                              \
        .rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), .dim = { __VA_ARGS__ }                \
    }
#define SLICE(e, attrs)                                                                            \
    I("e", e),                                                                                     \
    {                                                                                              \
        "out", "StridedSlice", "x v0 e v1", "T=float Index=int32" attrs                            \
    }
static const struct graph graphs[] = {
    {"zeros of n rows",
     S(-1, 3, 4),
     true,
     {{"dims", "Pack", "n c1 c4", "T=int32 N=3"},
      {"z", "Fill", "dims f0", "T=float index_type=int32"},
      {"out", "ConcatV2", "x z c1", "T=float Tidx=int32 N=2"}}},
    {"zeros of n rows and as many columns as a batch may have",
     S(-1, 3, 4),
     true,
     {I("u", "<>:7"),
      {"dims", "Pack", "n u c4", "T=int32 N=3"},
      {"z", "Fill", "dims f0", "T=float index_type=int32"},
      {"out", "ConcatV2", "x z c1", "T=float Tidx=int32 N=2"}}},
    {"heads of attention",
     S(-1, -1, 4),
     true,
     {{"to", "Pack", "n d c2 c2", "T=int32 N=4"},
      {"h", "Reshape", "x to", "T=float Tshape=int32"},
      I("p", "<4>:0,2,1,3"),
      {"t", "Transpose", "h p", "T=float Tperm=int32"},
      {"a", "BatchMatMulV2", "t t", "T=float adj_y=true"},
      {"s", "Softmax", "a", "T=float"},
      {"m", "BatchMatMulV2", "s t", "T=float"},
      {"b", "Transpose", "m p", "T=float Tperm=int32"},
      {"back", "Pack", "n all c4", "T=int32 N=3"},
      {"out", "Reshape", "b back", "T=float Tshape=int32"}}},
    {"a constant for each row",
     S(-1, 3, 4),
     true,
     {{"v", "Const", "", "dtype=float value=float<1,1,4>:1,2,3,4"},
      {"to", "Pack", "n c1 c1", "T=int32 N=3"},
      {"t", "Tile", "v to", "T=float Tmultiples=int32"},
      {"out", "ConcatV2", "x t c1", "T=float Tidx=int32 N=2"}}},
    {"all of a product of dimensions",
     S(-1, 3, 4),
     true,
     {{"rest", "StridedSlice", "shape v1 v0 v1", "T=int32 Index=int32 end_mask=1"},
      {"size", "Prod", "rest c0", "T=int32 Tidx=int32"},
      {"to", "Pack", "n size", "T=int32 N=2"},
      {"out", "Reshape", "x to", "T=float Tshape=int32"}}},
    {"size / n",
     S(-1, 3, 4),
     true,
     {{"size", "Size", "x", "T=float out_type=int32"},
      {"each", "FloorDiv", "size n", "T=int32"},
      {"to", "Pack", "all each", "T=int32 N=2"},
      {"out", "Reshape", "x to", "T=float Tshape=int32"}}},
    {"rows up to n",
     S(-1, 3, 4),
     true,
     {{"e", "Pack", "n", "T=int32 N=1"},
      {"out", "StridedSlice", "x v0 e v1", "T=float Index=int32"}}},
    {"rows up to n - 1",
     S(-1, 3, 4),
     false,
     {{"n1", "Sub", "n c1", "T=int32"},
      {"e", "Pack", "n1", "T=int32 N=1"},
      {"out", "StridedSlice", "x v0 e v1", "T=float Index=int32"}}},
    {"all rows", S(-1, 3, 4), true, {SLICE("<1>:2147483647", "")}},
    {"three rows", S(-1, 3, 4), false, {SLICE("<1>:3", "")}},
    {"5,000 rows", S(-1, 3, 4), false, {SLICE("<1>:5000", "")}},
    {"the last 5,000 rows",
     S(-1, 3, 4),
     false,
     {I("b", "<1>:-5000"), {"out", "StridedSlice", "x b v0 v1", "T=float Index=int32 end_mask=1"}}},
    {"the first row of n * n",
     S(-1, 3, 4),
     false,
     {{"nn", "Mul", "n n", "T=int32"},
      {"to", "Pack", "nn", "T=int32 N=1"},
      {"z", "Fill", "to f0", "T=float index_type=int32"},
      {"s", "Sum", "z c0", "T=float Tidx=int32"},
      {"out", "AddV2", "x s", "T=float"}}},
    {"a dimension of 1 that may be the rows",
     S(-1, 3, 4),
     false,
     {{"out", "Squeeze", "sums", "T=float squeeze_dims=[]"}}},
    {"a dimension of 1",
     S(-1, 3, 4),
     true,
     {{"out", "Squeeze", "sums", "T=float squeeze_dims=[1]"}}},
    {"random numbers for each row",
     S(-1, 3, 4),
     true,
     {{"r", "RandomUniform", "shape", "T=int32 dtype=float seed=1 seed2=2"},
      {"out", "AddV2", "x r", "T=float"}}},
    {"random numbers below n",
     S(-1, 3, 4),
     false,
     {{"r", "RandomUniformInt", "shape c0 n", "T=int32 Tout=int32 seed=1 seed2=2"},
      {"f", "Cast", "r", "SrcT=int32 DstT=float"},
      {"out", "AddV2", "x f", "T=float"}}},
    {"a sum of columns of a product with n",
     S(-1, 3, 4),
     false,
     {{"i", "Cast", "row", "SrcT=float DstT=int32"},
      {"v", "Pack", "n n n n n n n n n n n n", "T=int32 N=12"},
      I("m", "<2>:12,1"),
      {"w", "Reshape", "v m", "T=int32 Tshape=int32"},
      {"out", "MatMul", "i w", "T=int32"}}},
    {"columns up to six",
     S(-1, -1, 4),
     true,
     {{"to", "Minimum", "d c6", "T=int32"},
      {"s", "Pack", "all to all", "T=int32 N=3"},
      I("b", "<3>:0,0,0"),
      {"out", "Slice", "x b s", "T=float Index=int32"}}},
    {"a sum over rows where there are five columns",
     S(-1, -1, 4),
     false,
     {{"d5", "Minimum", "d c5", "T=int32"},
      {"a", "Sub", "c5 d5", "T=int32"},
      {"out", "Sum", "x a", "T=float Tidx=int32 keep_dims=true"}}},
    {"ragged splits of a length",
     S(-1, -1, 4),
     false,
     {{"splits", "Pack", "c0 d", "T=int32 N=2"},
      {"values", "Range", "c0 d c1", "Tidx=int32"},
      {"to", "Const", "", "dtype=int64 value=int64<2>:-1,-1"},
      {"rt", "RaggedTensorToTensor", "to values c0 splits",
       "T=int32 Tindex=int32 Tshape=int64 num_row_partition_tensors=1 "
       "row_partition_types=['ROW_SPLITS']"},
      {"w", "Size", "rt", "T=int32 out_type=int32"},
      I("c7", "<>:7"),
      {"is", "Equal", "w c7", "T=int32"},
      {"axis", "SelectV2", "is c0 c1", "T=int32"},
      {"out", "Cumsum", "x axis", "T=float Tidx=int32"}}},
    {"ragged splits of the rows",
     S(-1, 3, 4),
     false,
     {{"splits", "Pack", "c0 n", "T=int32 N=2"},
      {"to", "Const", "", "dtype=int64 value=int64<4>:-1,-1,3,4"},
      {"rt", "RaggedTensorToTensor", "to x f0 splits",
       "T=float Tindex=int32 Tshape=int64 num_row_partition_tensors=1 "
       "row_partition_types=['ROW_SPLITS']"},
      {"out", "Squeeze", "rt", "T=float squeeze_dims=[0]"}}},
    {"rows of a variable", S(-1, 3, 4), true, {{"out", "Neg", "got", "T=float"}}},
    {"Cumsum of unknown rank",
     S(-1, 3, 4),
     false,
     {{"out", "Cumsum", "got all", "T=float Tidx=int32"}}},
    {"Cumprod of unknown rank",
     S(-1, 3, 4),
     false,
     {{"out", "Cumprod", "got all", "T=float Tidx=int32"}}},
    {"CumulativeLogsumexp of unknown rank",
     S(-1, 3, 4),
     false,
     {{"out", "CumulativeLogsumexp", "got all", "T=float Tidx=int32"}}},
    {"Roll of unknown rank",
     S(-1, 3, 4),
     false,
     {{"out", "Roll", "got c1 all", "T=float Tshift=int32 Taxis=int32"}}},
    {"Softmax of unknown rank", S(-1, 3, 4), false, {{"out", "Softmax", "got", "T=float"}}},
    {"OneHot of unknown rank",
     S(-1, 3, 4),
     false,
     {{"i", "Cast", "got", "SrcT=float DstT=int32"},
      {"i2", "Pack", "i i", "T=int32 N=2 axis=0"},
      {"out", "OneHot", "i2 c3 f1 f0", "T=float TI=int32 axis=0"}}},
    {"Split of unknown rank",
     S(-1, 3, 4),
     false,
     {{"out", "Split", "all got", "T=float num_split=2"}}},
    {"SplitV of unknown rank",
     S(-1, 3, 4),
     false,
     {I("sizes", "<2>:1,-1"),
      {"out", "SplitV", "got sizes all", "T=float Tlen=int32 num_split=2"}}},
    {"Unpack of unknown rank",
     S(-1, 3, 4),
     false,
     {{"out", "Unpack", "got", "T=float num=2 axis=-1"}}},
    {"a default for each key",
     S(-1, 3, 4),
     false,
     {{"t", "MutableHashTableV2", "", "key_dtype=int32 value_dtype=float shared_name='t'"},
      {"each", "Const", "", "dtype=float value=float<6>:1,2,3,4,5,6"},
      {"out", "LookupTableFindV2", "t at each", "Tin=int32 Tout=float"}}},
    {"a default for all keys",
     S(-1, 3, 4),
     true,
     {{"t", "MutableHashTableV2", "", "key_dtype=int32 value_dtype=float shared_name='t'"},
      {"out", "LookupTableFindV2", "t at f1", "Tin=int32 Tout=float"}}},
    {"what only a batch of one accepts",
     S(-1, 3, 4),
     false,
     {I("to", "<3>:5,3,4"), {"out", "BroadcastTo", "x to", "T=float Tidx=int32"}}},
};

static void what_follows_the_batch_size_as_a_row_does_is_rowwise(void **state)
{
    int n_wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        const struct graph *g = &graphs[i];
        struct rg_graph o = {0};
        struct rt_error err = {0};
        rg_open(&o, functions[0].line, g->line);
        const bool yes = rt_callable_is_rowwise(o.callable, &g->shape, &err);
        n_wrong += yes != g->is_rowwise;
        if (yes != g->is_rowwise)
            print_error("%s: %s (%s)\n", g->what, yes ? "proved, but must not be" : "not proved",
                        rt_error_text(&err));
        for (int64_t d = 1; d < 9 && yes && g->is_rowwise && !strstr(g->what, "random");
             d += d < 4 ? 3 : 4) {
            struct rt_shape row = g->shape;
            if (row.dim[1] >= 0 && d > 1)
                break;
            row.dim[1] = row.dim[1] < 0 ? d : row.dim[1];
            check_merged(&o, &row, g->what, "nothing");
        }
        rg_close(&o);
    }
    assert_int_equal(n_wrong, 0);
}

/* A graph that mixes rows only if dimension 1, or a number derived from it, has a particular
 * length. This length is not among those that are tried at loading. */
struct length {
    const char *what;
    struct rt_shape shape;
    int64_t mixes; /* the graph mixes rows if dimension 1 has this length */
    struct gd_line line[RG_MOST_LINES];
};
#define OUT(when)                                                                                  \
    {"is", "Equal", when, "T=int32"}, {"axis", "SelectV2", "is c0 c1", "T=int32"},                 \
    {                                                                                              \
        "out", "Cumsum", "x axis", "T=float Tidx=int32"                                            \
    }
static const struct length lengths[] = {
    {"a length", S(-1, -1, 4), 7, {I("c7", "<>:7"), OUT("d c7")}},
    {"twice a length",
     S(-1, -1, 4),
     7,
     {I("c14", "<>:14"), {"dd", "AddV2", "d d", "T=int32"}, OUT("dd c14")}},
    {"a length beyond all that are tried",
     S(-1, -1, 4),
     2000,
     {I("most", "<>:2000"), OUT("d most")}},
    {"the number of elements of a row",
     S(-1, -1, 4),
     7,
     {I("c28", "<>:28"),
      {"size", "Size", "x", "T=float out_type=int32"},
      {"each", "FloorDiv", "size n", "T=int32"},
      OUT("each c28")}},
    {"a product of open lengths",
     S(-1, -1, -1),
     7,
     {I("c35", "<>:35"),
      {"e", "StridedSlice", "shape v2 v3 v1", "T=int32 Index=int32 shrink_axis_mask=1"},
      I("v3", "<1>:3"),
      {"both", "Mul", "d e", "T=int32"},
      OUT("both c35")}},
    {"the shape of another value",
     S(-1, -1, 4),
     7,
     {I("c15", "<>:15"),
      {"wide", "ConcatV2", "x x c1", "T=float Tidx=int32 N=2"},
      {"more", "ConcatV2", "wide one_more c1", "T=float Tidx=int32 N=2"},
      {"one_more", "Sum", "x c1", "T=float Tidx=int32 keep_dims=true"},
      {"more_shape", "Shape", "more", "T=float out_type=int32"},
      {"w", "StridedSlice", "more_shape v1 v2 v1", "T=int32 Index=int32 shrink_axis_mask=1"},
      OUT("w c15")}},
    {"a rank that a length decides",
     S(-1, -1, 4),
     7,
     {I("c7", "<>:7"),
      {"is", "Equal", "d c7", "T=int32"},
      {"q", "Cast", "is", "SrcT=bool DstT=int32"},
      {"ones", "Sub", "c3 q", "T=int32"},
      {"v", "Fill", "of v1s", "T=int32 index_type=int32"},
      {"of", "Pack", "ones", "T=int32 N=1"},
      I("v1s", "<>:1"),
      {"r", "Fill", "v f0", "T=float index_type=int32"},
      {"rank", "Rank", "r", "T=float"},
      {"axis", "Sub", "rank c2", "T=int32"},
      {"out", "Cumsum", "x axis", "T=float Tidx=int32"}}},
};

/* Runs a batch with is_merged set. Returns RT_OK after comparing the outputs with those that each
 * request gets when it runs alone, or RT_UNAVAILABLE if the batch must not be merged. */
static enum rt_status run_merged(struct rg_graph *o, const struct rt_shape *row, const char *what)
{
    const struct rt_run_options merged = {.is_merged = true};
    struct rt_tensor in = rg_rows(row, 0, 5), out = {0};
    struct rt_error err = {0};
    const enum rt_status st = rt_callable_run(o->callable, &in, &out, &merged, &err);
    if (!st)
        check_merged(o, row, what, "a length");
    else if (st != RT_UNAVAILABLE)
        fail_msg("%s: %s", what, rt_error_text(&err));
    rt_tensor_clear(&in);
    rt_tensor_clear(&out);
    return st;
}

static void what_is_merged_was_analysed_for_its_lengths(void **state)
{
    static const int64_t others[] = {1, 2, 6, 8, 12, 67, 239};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct length *x = &lengths[i];
        struct rt_shape row = x->shape;
        struct rg_graph o = {0};
        struct rt_error err = {0};
        rg_open(&o, functions[0].line, x->line);
        if (!rt_callable_is_rowwise(o.callable, &x->shape, &err))
            fail_msg("%s: %s", x->what, rt_error_text(&err));
        row.dim[2] = row.dim[2] < 0 ? 5 : row.dim[2];
        for (int round = 0; round < 2; round++) {
            for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
                row.dim[1] = others[k];
                if (run_merged(&o, &row, x->what) != RT_OK)
                    fail_msg("%s: not merged at %lld", x->what, (long long)others[k]);
            }
            row.dim[1] = x->mixes;
            if (run_merged(&o, &row, x->what) == RT_OK)
                fail_msg("%s: merged at %lld", x->what, (long long)x->mixes);
        }
        rg_close(&o);
    }
}

/* Runs three rounds with RT_ROW_ANALYSES lengths. Each length must get its own analysis in every
 * round. */
static void lengths_that_come_and_go_keep_their_answers(void **state)
{
    const struct length *x = &lengths[0];
    struct rt_shape row = x->shape;
    struct rg_graph o = {0};
    struct rt_error err = {0};
    (void)state;
    rg_open(&o, functions[0].line, x->line);
    assert_true(rt_callable_is_rowwise(o.callable, &x->shape, &err));
    for (int round = 0; round < 3; round++)
        for (row.dim[1] = 1; row.dim[1] < 3 * RT_ROW_ANALYSES; row.dim[1] += 3)
            assert_int_equal(run_merged(&o, &row, x->what),
                             row.dim[1] == x->mixes ? RT_UNAVAILABLE : RT_OK);
    rg_close(&o);
}

static void feeds_of_other_shapes_than_were_analysed_are_not_merged(void **state)
{
    static const struct rt_shape shape = S(-1, 3, 4), other = S(-1, 6, 2);
    const struct rt_run_options merged = {.is_merged = true};
    struct rg_graph o = {0};
    struct rt_error err = {0};
    (void)state;
    rg_open(&o, functions[0].line, graphs[0].line);
    assert_true(rt_callable_is_rowwise(o.callable, &shape, &err));
    for (int k = 0; k < 2; k++) {
        struct rt_tensor in = rg_rows(k ? &other : &shape, 0, 5), out = {0};
        assert_int_equal(rt_callable_run(o.callable, &in, &out, &merged, &err),
                         k ? RT_UNAVAILABLE : RT_OK);
        rt_tensor_clear(&in);
        rt_tensor_clear(&out);
    }
    rg_close(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_merged_was_analysed_for_its_lengths),
        cmocka_unit_test(lengths_that_come_and_go_keep_their_answers),
        cmocka_unit_test(feeds_of_other_shapes_than_were_analysed_are_not_merged),
        cmocka_unit_test(an_argument_that_follows_the_batch_size_is_not_taken_for_a_constant),
        cmocka_unit_test(what_follows_the_batch_size_as_a_row_does_is_rowwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
