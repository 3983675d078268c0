#include "tests/support/test.h"

#include "kernels/array/array.h"
#include "kernels/string/farmhash.h"
#include "kernels/kernels.h"
#include "tests/support/graph_def.h"
#include "tests/support/op.h"

/*
 * Tests properties of array ops that the comparison with TensorFlow (tests/conformance) does not
 * show. The tests cover the analysis that finds row-wise graphs, the independence of rows, lists
 * and views that share bytes, and strided copies.
 */

/* ---- rows ---- */

struct line {
    const char *name, *op, *inputs, *attrs;
};

/* A graph with feeds "x" (float) and "i" (int32, small numbers). The first axis of each feed is the
 * batch. */
struct graph {
    const char *what;
    struct rt_shape x, i; /* shapes of the feeds "x" and "i", whose dimension 0 is the batch */
    bool rowwise;         /* whether the analysis must classify "out" as row-wise */
    struct line line[12];
};

struct opened {
    struct rt_bytes bytes;
    struct rt_registry *registry;
    struct rt_session *session;
    struct rt_callable *callable;
};

static void open_graph(struct opened *o, const struct graph *g)
{
    static const char *const feeds[] = {"x", "i"}, *const fetches[] = {"out"};
    struct rt_library *library = NULL;
    struct rt_error err = {0};

    rt_bytes_init(&o->bytes, 1 << 20);
    gd_node(&o->bytes, "x", "Placeholder", "", "dtype=float shape=<?>");
    gd_node(&o->bytes, "i", "Placeholder", "", "dtype=int32 shape=<?>");
    for (const struct line *l = g->line; l->name; l++)
        gd_node(&o->bytes, l->name, l->op, l->inputs, l->attrs);
    o->registry = rt_registry_new();
    assert_true(o->registry && kn_register(o->registry));
    assert_ok(rt_library_import(&library, gd_span(&o->bytes), o->registry, &err), &err);
    const struct rt_session_options options = {.registry = o->registry};
    assert_ok(rt_session_new(&o->session, library, &options, &err), &err);
    const struct rt_call_spec spec = {
        .feeds = feeds, .fetches = fetches, .n_feeds = 2, .n_fetches = 1};
    assert_ok(rt_session_prepare(o->session, &spec, &o->callable, &err), &err);
}

static void close_graph(struct opened *o)
{
    rt_session_free(o->session);
    rt_registry_free(o->registry);
    rt_bytes_clear(&o->bytes);
}

static struct rt_tensor feed(enum rt_dtype dtype, const struct rt_shape *s)
{
    struct rt_tensor t = op_tensor(dtype, s->rank, s->dim, NULL);

    for (int64_t k = 0; k < rt_tensor_count(&t); k++) {
        if (dtype == RT_F32)
            ((float *)t.data)[k] = (float)((k * 7919) % 101) - 50;
        else
            ((int32_t *)t.data)[k] = (int32_t)((k * 31) % 3);
    }
    return t;
}

/* Asserts that each row gives the same bits when it runs alone as in the batch. */
static void check_rows(struct opened *o, const struct graph *g)
{
    struct rt_error err = {0};
    struct rt_tensor in[2] = {feed(RT_F32, &g->x), feed(RT_I32, &g->i)}, all = {0};
    const int64_t n = g->x.dim[0];

    assert_ok(rt_callable_run(o->callable, in, &all, NULL, &err), &err);
    assert_int_equal(all.dim[0], n);
    const size_t bytes = rt_tensor_bytes(&all) / (size_t)n;
    for (int64_t k = 0; k < n; k++) {
        struct rt_tensor row[2] = {in[0], in[1]}, one = {0};
        for (int f = 0; f < 2; f++) {
            const size_t each = rt_tensor_bytes(&in[f]) / (size_t)n;
            row[f].dim[0] = 1;
            row[f].data = (char *)in[f].data + (size_t)k * each;
        }
        assert_ok(rt_callable_run(o->callable, row, &one, NULL, &err), &err);
        assert_int_equal(rt_tensor_bytes(&one), bytes);
        if (bytes && memcmp(one.data, (const char *)all.data + (size_t)k * bytes, bytes) != 0)
            fail_msg("%s: row %lld differs when it is alone", g->what, (long long)k);
        rt_tensor_clear(&one);
    }
    rt_tensor_clear(&all);
    rt_tensor_clear(&in[0]);
    rt_tensor_clear(&in[1]);
}

#define F "T=float"
#define S(...)                                                                                     \
    {                                                                                              \
        .rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), .dim = { __VA_ARGS__ }                \
    }
#define C(name_, values)                                                                           \
    {                                                                                              \
        name_, "Const", "", "dtype=int32 value=int32" values                                       \
    }
/* Nodes that compute "b", a vector whose only element is the number of rows. */
#define BATCH                                                                                      \
    {"sh", "Shape", "x", "T=float out_type=int32"}, C("z", "<1>:0"), C("o", "<1>:1"),              \
    {                                                                                              \
        "b", "StridedSlice", "sh z o o", "T=int32 Index=int32 shrink_axis_mask=0"                  \
    }

/* A model of FastBertNormalize that changes nothing: a FlatBuffer whose trie has no characters. */
#define BERT_MODEL                                                                                 \
    {                                                                                              \
        "m", "Const", "",                                                                          \
            "dtype=uint8 value=uint8<28>:"                                                         \
            "12,0,0,0,8,0,8,0,0,0,4,0,8,0,0,0,4,0,0,0,1,0,0,0,0,0,0,0"                             \
    }

static const struct graph graphs[] = {
    {"transposed behind",
     S(5, 2, 3),
     S(5),
     true,
     {C("p", "<3>:0,2,1"), {"out", "Transpose", "x p", F " Tperm=int32"}}},
    {"transposed to the back",
     S(5, 2, 3),
     S(5),
     false,
     {C("p", "<3>:1,0,2"), {"out", "Transpose", "x p", F " Tperm=int32"}}},
    {"transposed there and back",
     S(5, 2, 3),
     S(5),
     true,
     {C("p", "<3>:2,0,1"),
      {"t", "Transpose", "x p", F " Tperm=int32"},
      C("q", "<3>:1,2,0"),
      {"out", "Transpose", "t q", F " Tperm=int32"}}},
    {"flattened",
     S(5, 2, 3),
     S(5),
     true,
     {C("p", "<2>:-1,6"), {"out", "Reshape", "x p", F " Tshape=int32"}}},
    {"flattened wholly",
     S(5, 2, 3),
     S(5),
     false,
     {C("p", "<1>:-1"), {"out", "Reshape", "x p", F " Tshape=int32"}}},
    {"joined along the features",
     S(5, 2, 3),
     S(5),
     true,
     {C("a", "<>:2"), {"out", "ConcatV2", "x x a", F " N=2 Tidx=int32"}}},
    {"joined along the rows",
     S(5, 2, 3),
     S(5),
     false,
     {C("a", "<>:0"), {"out", "ConcatV2", "x x a", F " N=2 Tidx=int32"}}},
    {"packed behind", S(5, 2, 3), S(5), true, {{"out", "Pack", "x x", F " N=2 axis=-1"}}},
    {"packed in front", S(5, 2, 3), S(5), false, {{"out", "Pack", "x x", F " N=2 axis=0"}}},
    {"unpacked",
     S(5, 2, 3),
     S(5),
     true,
     {{"u", "Unpack", "x", F " num=3 axis=2"}, {"out", "Pack", "u:2 u", F " N=2 axis=1"}}},
    {"split by features",
     S(5, 2, 4),
     S(5),
     true,
     {C("a", "<>:2"), {"u", "Split", "a x", F " num_split=2"}, {"out", "Identity", "u:1", F}}},
    {"sliced behind",
     S(5, 4, 3),
     S(5),
     true,
     {C("b", "<3>:0,1,0"), C("n", "<3>:-1,2,3"), {"out", "Slice", "x b n", F " Index=int32"}}},
    {"sliced in rows",
     S(5, 4, 3),
     S(5),
     false,
     {C("b", "<3>:1,1,0"), C("n", "<3>:-1,2,3"), {"out", "Slice", "x b n", F " Index=int32"}}},
    {"the first column",
     S(5, 4, 3),
     S(5),
     true,
     {C("b", "<2>:0,0"),
      C("e", "<2>:0,1"),
      C("s", "<2>:1,1"),
      {"out", "StridedSlice", "x b e s",
       F " Index=int32 begin_mask=1 end_mask=1 shrink_axis_mask=2"}}},
    {"the rows backwards",
     S(5, 4),
     S(5),
     false,
     {C("b", "<1>:0"),
      C("e", "<1>:0"),
      C("s", "<1>:-1"),
      {"out", "StridedSlice", "x b e s", F " Index=int32 begin_mask=1 end_mask=1"}}},
    {"the first row",
     S(5, 4),
     S(5),
     false,
     {C("b", "<1>:0"),
      C("e", "<1>:1"),
      C("s", "<1>:1"),
      {"out", "StridedSlice", "x b e s", F " Index=int32"}}},
    {"an axis in front of the features",
     S(5, 4),
     S(5),
     true,
     {C("b", "<2>:0,0"),
      C("e", "<2>:0,0"),
      C("s", "<2>:1,1"),
      {"out", "StridedSlice", "x b e s",
       F " Index=int32 begin_mask=1 end_mask=1 new_axis_mask=2"}}},
    {"rows of a table",
     S(5, 4),
     S(5, 3),
     true,
     {{"t", "Const", "", "dtype=float value=float<3,2>:1,2,3,4,5,6"},
      C("a", "<>:0"),
      {"out", "GatherV2", "t i a", "Tparams=float Tindices=int32 Taxis=int32 batch_dims=0"}}},
    {"features by index",
     S(5, 4, 2),
     S(5, 3),
     true,
     {C("k", "<2>:3,0"),
      C("a", "<>:1"),
      {"out", "GatherV2", "x k a", "Tparams=float Tindices=int32 Taxis=int32 batch_dims=0"}}},
    {"features by each row's index",
     S(5, 4, 2),
     S(5, 3),
     true,
     {C("a", "<>:1"),
      {"out", "GatherV2", "x i a", "Tparams=float Tindices=int32 Taxis=int32 batch_dims=1"}}},
    {"rows by each row's index",
     S(5, 4, 2),
     S(5, 3),
     false,
     {C("a", "<>:0"),
      {"out", "GatherV2", "x i a", "Tparams=float Tindices=int32 Taxis=int32 batch_dims=0"}}},
    {"one hot",
     S(5, 4),
     S(5, 3),
     true,
     {C("d", "<>:3"),
      {"on", "Const", "", "dtype=float value=float<>:1"},
      {"off", "Const", "", "dtype=float value=float<>:0"},
      {"out", "OneHot", "i d on off", F " TI=int32 axis=-1"}}},
    {"one hot in front",
     S(5, 4),
     S(5, 3),
     false,
     {C("d", "<>:3"),
      {"on", "Const", "", "dtype=float value=float<>:1"},
      {"off", "Const", "", "dtype=float value=float<>:0"},
      {"out", "OneHot", "i d on off", F " TI=int32 axis=0"}}},
    {"padded behind",
     S(5, 4),
     S(5),
     true,
     {C("p", "<2,2>:0,0,1,2"), {"out", "Pad", "x p", F " Tpaddings=int32"}}},
    {"padded in rows",
     S(5, 4),
     S(5),
     false,
     {C("p", "<2,2>:0,1,1,2"), {"out", "Pad", "x p", F " Tpaddings=int32"}}},
    {"tiled behind",
     S(5, 4),
     S(5),
     true,
     {C("m", "<2>:1,3"), {"out", "Tile", "x m", F " Tmultiples=int32"}}},
    {"tiled in rows",
     S(5, 4),
     S(5),
     false,
     {C("m", "<2>:2,1"), {"out", "Tile", "x m", F " Tmultiples=int32"}}},
    {"reversed behind",
     S(5, 4),
     S(5),
     true,
     {C("a", "<1>:1"), {"out", "ReverseV2", "x a", F " Tidx=int32"}}},
    {"reversed in rows",
     S(5, 4),
     S(5),
     false,
     {C("a", "<1>:0"), {"out", "ReverseV2", "x a", F " Tidx=int32"}}},
    {"filled to the batch's size, then joined",
     S(5, 4),
     S(5),
     true,
     {BATCH,
      {"v", "Const", "", "dtype=float value=float<>:2"},
      {"dims", "ConcatV2", "b o z1", "T=int32 N=2 Tidx=int32"},
      C("z1", "<>:0"),
      {"out", "Fill", "dims v", F " index_type=int32"}}},
    {"numbered rows",
     S(5, 4),
     S(5),
     false,
     {BATCH,
      C("zero", "<>:0"),
      C("step", "<>:1"),
      {"bs", "Squeeze", "b", "T=int32"},
      {"out", "Range", "zero bs step", "Tidx=int32"}}},
    {"the largest of each row", S(5, 9), S(5), true, {C("k", "<>:3"), {"out", "TopKV2", "x k", F}}},
    {"the largest of all rows", S(9), S(9), false, {C("k", "<>:3"), {"out", "TopKV2", "x k", F}}},
    {"each row's sequence",
     S(5, 4, 2),
     S(5),
     true,
     {{"out", "ReverseSequence", "x i", F " Tlen=int32 seq_dim=1 batch_dim=0"}}},
    {"rolled behind",
     S(5, 4),
     S(5),
     true,
     {C("n", "<>:1"), C("a", "<>:1"), {"out", "Roll", "x n a", F " Tshift=int32 Taxis=int32"}}},
    {"rolled in rows",
     S(5, 4),
     S(5),
     false,
     {C("n", "<>:1"), C("a", "<>:0"), {"out", "Roll", "x n a", F " Tshift=int32 Taxis=int32"}}},
    {"space to depth",
     S(5, 4, 4, 2),
     S(5),
     true,
     {{"out", "SpaceToDepth", "x", F " block_size=2"}}},
    {"counts per row",
     S(5, 4),
     S(5, 4),
     true,
     {C("n", "<>:3"),
      {"w", "Const", "", "dtype=float value=float<0>:"},
      {"out", "DenseBincount", "i n w", F " Tidx=int32"}}},
    {"counts over all rows",
     S(5),
     S(5),
     false,
     {C("n", "<>:3"),
      {"w", "Const", "", "dtype=float value=float<0>:"},
      {"out", "DenseBincount", "i n w", F " Tidx=int32"}}},
    {"a band of each matrix",
     S(5, 3, 3),
     S(5),
     true,
     {C("l", "<>:0"), C("u", "<>:1"), {"out", "MatrixBandPart", "x l u", F " Tindex=int32"}}},
    {"a band across the rows",
     S(3, 3),
     S(3),
     false,
     {C("l", "<>:0"), C("u", "<>:1"), {"out", "MatrixBandPart", "x l u", F " Tindex=int32"}}},
    {"diagonals", S(5, 3), S(5), true, {{"out", "MatrixDiag", "x", F}}},
    {"one diagonal over the rows", S(3), S(3), false, {{"out", "MatrixDiag", "x", F}}},
    {"numbers as text and back",
     S(5, 3),
     S(5),
     true,
     {{"s", "AsString", "x", F}, {"out", "StringToHashBucketFast", "s", "num_buckets=1000"}}},
    {"normalised texts",
     S(5),
     S(5),
     true,
     {BERT_MODEL,
      {"s", "AsString", "i", "T=int32"},
      {"f", "FastBertNormalize", "s m", "get_offsets=false"},
      {"c", "CaseFoldUTF8", "f", ""},
      {"out", "StringToHashBucketFast", "c", "num_buckets=1000"}}},
    {"offsets of normalised texts",
     S(5),
     S(5),
     false,
     {BERT_MODEL,
      {"s", "AsString", "i", "T=int32"},
      {"f", "FastBertNormalize", "s m", "get_offsets=true"},
      {"out", "Identity", "f:2", "T=int64"}}},
    {"distinct values", S(5), S(5), false, {{"out", "Unique", "x", F}}},
};

static void rows_are_independent_only_where_they_are(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof graphs / sizeof *graphs; k++) {
        const struct graph *g = &graphs[k];
        struct rt_shape shapes[2] = {g->x, g->i};
        struct opened o = {0};
        struct rt_error err = {0};
        shapes[0].dim[0] = shapes[1].dim[0] = -1;
        open_graph(&o, g);
        const bool yes = rt_callable_is_rowwise(o.callable, shapes, &err);
        if (yes != g->rowwise)
            fail_msg("%s: %s (%s)", g->what, yes ? "proved, but must not be" : "not proved",
                     rt_error_text(&err));
        if (yes)
            check_rows(&o, g);
        close_graph(&o);
    }
}

/* ---- bytes that are shared ---- */

static void a_view_lives_on_when_its_source_is_gone(void **state)
{
    (void)state;
    struct op_call c = {.op = "Slice", .attrs = "T=float Index=int32", .n_in = 3, .n_out = 1};
    float v[4096];
    for (int i = 0; i < 4096; i++)
        v[i] = (float)i;
    c.in[0] = op_floats(4096, v);
    c.in[1] = op_ints(1, (int32_t[]){1000});
    c.in[2] = op_ints(1, (int32_t[]){2000});
    assert_ok(op_run(&c), &c.err);
    rt_tensor_clear(&c.in[0]);
    assert_int_equal(rt_tensor_count(&c.out[0]), 2000);
    for (int i = 0; i < 2000; i++)
        assert_true(((const float *)c.out[0].data)[i] == (float)(1000 + i));
    op_clear(&c);
}

static void a_reshaped_value_may_be_written_over_by_its_last_reader_only(void **state)
{
    (void)state;
    static const struct graph g = {"shared",
                                   S(5, 4),
                                   S(5),
                                   true,
                                   {C("p", "<2>:-1,4"),
                                    {"r", "Reshape", "x p", F " Tshape=int32"},
                                    {"n", "Neg", "x", F},
                                    {"m", "Reshape", "n p", F " Tshape=int32"},
                                    {"e", "Exp", "m", F},
                                    {"s", "AddV2", "n e", F},
                                    {"out", "AddV2", "s r", F}}};
    struct opened o = {0};
    open_graph(&o, &g);
    check_rows(&o, &g);
    struct rt_error err = {0};
    struct rt_tensor in[2] = {feed(RT_F32, &g.x), feed(RT_I32, &g.i)}, out = {0};
    float before[20];
    memcpy(before, in[0].data, sizeof before);
    assert_ok(rt_callable_run(o.callable, in, &out, NULL, &err), &err);
    assert_memory_equal(before, in[0].data, sizeof before);
    rt_tensor_clear(&out);
    rt_tensor_clear(&in[0]);
    rt_tensor_clear(&in[1]);
    close_graph(&o);
}

static void a_list_that_two_hold_is_changed_for_one_only(void **state)
{
    (void)state;
    static const struct graph g = {
        "lists",
        S(3, 2),
        S(3),
        false,
        {C("any", "<>:-1"),
         C("k", "<>:1"),
         {"l", "TensorListFromTensor", "x any", "element_dtype=float shape_type=int32"},
         {"row", "Const", "", "dtype=float value=float<2>:100,200"},
         {"w", "TensorListSetItem", "l k row", "element_dtype=float"},
         {"a", "TensorListStack", "l any", "element_dtype=float num_elements=3"},
         {"b", "TensorListStack", "w any", "element_dtype=float num_elements=3"},
         {"out", "Pack", "a b", F " N=2"}}};
    struct opened o = {0};
    struct rt_error err = {0};
    struct rt_tensor in[2], out = {0};
    open_graph(&o, &g);
    in[0] = feed(RT_F32, &g.x);
    in[1] = feed(RT_I32, &g.i);
    assert_ok(rt_callable_run(o.callable, in, &out, NULL, &err), &err);
    const float *v = out.data, *x = in[0].data;
    for (int i = 0; i < 6; i++)
        assert_true(v[i] == x[i]);
    assert_true(v[6] == x[0] && v[8] == 100 && v[9] == 200 && v[10] == x[4]);
    rt_tensor_clear(&out);
    rt_tensor_clear(&in[0]);
    rt_tensor_clear(&in[1]);
    close_graph(&o);
}

/* ---- the strided copy ---- */

static void a_strided_copy_is_the_plain_loop_for_every_size_and_order(void **state)
{
    (void)state;
    static const enum rt_dtype types[] = {RT_U8, RT_F16, RT_F32, RT_F64, RT_C128};
    static unsigned char src[16 * 4096], dst[16 * 4096], want[16 * 4096];
    uint64_t seed = 1;

    for (size_t i = 0; i < sizeof src; i++)
        src[i] = (unsigned char)((i * 2654435761u) >> 16);
    for (int round = 0; round < 2000; round++) {
        const enum rt_dtype t = types[round % 5];
        const size_t size = rt_dtype_size(t);
        struct kn_walk w = {.rank = 4};
        int64_t perm[4] = {0, 1, 2, 3}, at[4] = {0}, from = 0, n = 1;
        for (int i = 3; i > 0; i--) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const int k = (int)((seed >> 33) % (uint64_t)(i + 1));
            const int64_t p = perm[i];
            perm[i] = perm[k];
            perm[k] = p;
        }
        int64_t in_dim[4], stride[4];
        for (int i = 0; i < 4; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            in_dim[i] = 1 + (int64_t)((seed >> 33) % 7);
        }
        kn_strides(4, in_dim, stride);
        for (int i = 0; i < 4; i++) {
            w.dim[i] = in_dim[perm[i]];
            w.src[i] = stride[perm[i]];
            if (seed >> (40 + i) & 1) { /* the slice reads axis i backwards */
                from += w.src[i] * (w.dim[i] - 1);
                w.src[i] = -w.src[i];
            }
            n *= w.dim[i];
        }
        kn_strides(4, w.dim, w.dst);
        for (int64_t k = 0; k < n; k++) {
            int64_t s = from;
            for (int i = 0; i < 4; i++)
                s += at[i] * w.src[i];
            memcpy(want + (size_t)k * size, src + (size_t)s * size, size);
            for (int i = 3; i >= 0 && ++at[i] == w.dim[i]; i--)
                at[i] = 0;
        }
        kn_walk_write(t, &w, dst, src + (size_t)from * size);
        assert_memory_equal(dst, want, (size_t)n * size);
    }
}

/* ---- hashes that models depend on ---- */

static void fingerprints_are_those_that_models_were_trained_with(void **state)
{
    (void)state;
    /* The expected buckets are those of TensorFlow for num_buckets = 1000000007. */
    static const struct {
        char fill;
        size_t n;
        uint64_t bucket;
    } cases[] = {{'a', 0, 912170738},  {'a', 1, 384735799},  {'x', 20, 116240151},
                 {'y', 40, 475450229}, {'z', 64, 999392601}, {'q', 65, 407763387},
                 {'w', 200, 140394510}};
    char text[200];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(text, cases[i].fill, sizeof text);
        assert_int_equal(kn_fingerprint64(text, cases[i].n, NULL) % 1000000007, cases[i].bucket);
    }
}

static void a_refusal_says_what_and_where(void **state)
{
    (void)state;
    struct op_call c = {.op = "GatherV2",
                        .attrs = "Tparams=float Tindices=int32 Taxis=int32 batch_dims=0",
                        .n_in = 3,
                        .n_out = 1};
    c.in[0] = op_floats(3, (float[]){1, 2, 3});
    c.in[1] = op_ints(2, (int32_t[]){0, 3});
    c.in[2] = op_int(0);
    assert_fails(op_run(&c), RT_INVALID_ARGUMENT, &c.err, "indices[1] = 3 is not in [0, 3)");
    op_clear(&c);
}

/* The ops must refuse an empty vector as an input that must be a scalar. */
static void diagonals_refuse_sizes_and_padding_that_are_empty(void **state)
{
    (void)state;
    static const char *const text[] = {"num_rows must be a scalar", "num_cols must be a scalar",
                                       "padding_value must be a scalar"};
    static const char *const name[] = {"MatrixDiagV2", "MatrixDiagV3", "MatrixDiagPartV2",
                                       "MatrixDiagPartV3"};
    for (int i = 0; i < 4; i++)
        for (int bad = 0; bad < (i < 2 ? 3 : 1); bad++) {
            const bool is_part = i >= 2;
            struct op_call c = {
                .op = name[i],
                .attrs = i % 2 ? "T=float align='RIGHT_LEFT'" : "T=float",
                .n_in = is_part ? 3 : 5,
                .n_out = 1,
            };
            c.in[0] = is_part ? op_tensor(RT_F32, 2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4})
                              : op_floats(2, (float[]){1, 2});
            c.in[1] = op_int(0);
            if (is_part) {
                c.in[2] = op_floats(0, NULL);
                assert_fails(op_run(&c), RT_INVALID_ARGUMENT, &c.err, "Padding must be scalar.");
            } else {
                for (int k = 0; k < 2; k++)
                    c.in[2 + k] = k == bad ? op_ints(0, NULL) : op_int(-1);
                c.in[4] = bad == 2 ? op_floats(0, NULL) : op_tensor(RT_F32, 0, NULL, (float[]){0});
                assert_fails(op_run(&c), RT_INVALID_ARGUMENT, &c.err, text[bad]);
            }
            op_clear(&c);
        }
    const struct rt_tensor none = {.dtype = RT_I32, .rank = 1};
    assert_int_equal(kn_int_at(&none, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_independent_only_where_they_are),
        cmocka_unit_test(a_view_lives_on_when_its_source_is_gone),
        cmocka_unit_test(a_reshaped_value_may_be_written_over_by_its_last_reader_only),
        cmocka_unit_test(a_list_that_two_hold_is_changed_for_one_only),
        cmocka_unit_test(a_strided_copy_is_the_plain_loop_for_every_size_and_order),
        cmocka_unit_test(fingerprints_are_those_that_models_were_trained_with),
        cmocka_unit_test(a_refusal_says_what_and_where),
        cmocka_unit_test(diagonals_refuse_sizes_and_padding_that_are_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
