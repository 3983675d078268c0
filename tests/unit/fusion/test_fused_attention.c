/*
 * Tests that attention is fused into one node (runtime/fusion/fuse_attention.c). The output is
 * compared with that of the same graph without fusion. The feeds are queries, keys and values of
 * shape [batch, length, heads, depth], and a mask.
 */
#include "tests/support/test.h"

#include <math.h>

#include "runtime/base/arena.h"
#include "runtime/api/describe.h"
#include "runtime/exec/parallel.h"
#include "runtime/session/session.h"
#include "tests/support/answer.h"
#include "tests/support/registry.h"

static struct rt_error err;
static struct rt_parallel *cores; /* NULL if the graph runs on one core */
static uint64_t seed = 7;

/* maximum number of rows that the emulation of a GPU runs in reasonable time */
enum { SLOW_ROWS = 100 };

static uint64_t draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 33;
}

static struct rt_tensor numbers(const int64_t *dim)
{
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 4, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&t); i++)
        ((float *)t.data)[i] = (float)(draw() % 2001) / 500 - 2;
    return t;
}

static struct rt_tensor mask_of(enum rt_dtype dtype, int rank, const int64_t *dim)
{
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, dtype, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&t); i++)
        if (dtype == RT_BOOL)
            ((bool *)t.data)[i] = draw() % 3 != 0;
        else
            ((float *)t.data)[i] = draw() % 3 ? 0 : -1e9f;
    return t;
}

static void clear(struct rt_tensor in[4])
{
    for (int k = 0; k < 4; k++)
        rt_tensor_clear(&in[k]);
}

struct form {
    enum rt_dtype mask;
    /* the batch and head dimensions of the matmuls may have length 1 and be broadcast */
    bool broadcasts;
    int n_left; /* number of nodes that remain after fusion; 0 stands for 1 */
    struct gd_line nodes[16];
};
#define AXIS              "T=int32 Index=int32 shrink_axis_mask=1"
#define MATMUL            "T=float adj_x=false adj_y=false"
#define MATMUL_TRANSPOSED "T=float adj_x=false adj_y=true"
#define TRANSPOSE(name, from, perm)                                                                \
    {                                                                                              \
        name, "Transpose", from " " perm, "T=float Tperm=int32"                                    \
    }
#define SOFTMAX_CONTEXT                                                                            \
    {"p", "Softmax", "a", "T=float"}, {"c", "BatchMatMulV2", "p tv", MATMUL},                      \
        TRANSPOSE("y", "c", "heads")
#define SCORES                                                                                     \
    {                                                                                              \
        "s", "Einsum", "q k", "N=2 T=float equation='BTNH,BSNH->BNTS'"                             \
    }
#define CONTEXT                                                                                    \
    {"p", "Softmax", "a", "T=float"},                                                              \
    {                                                                                              \
        "y", "Einsum", "p v", "N=2 T=float equation='BNTS,BSNH->BTNH'"                             \
    }
static const struct form forms[] = {
    /* attention as Keras 3 exports it */
    {RT_BOOL,
     false,
     0,
     {SCORES,
      {"m", "Mul", "s scale", "T=float"},
      {"shape", "Shape", "m", "T=float out_type=int32"},
      {"ones", "Fill", "shape true", "T=bool index_type=int32"},
      {"both", "LogicalAnd", "ones mask", ""},
      {"a", "SelectV2", "both m low", "T=float"},
      CONTEXT}},
    /* attention as tf_keras exports it, where the keys are the first input of the first Einsum and
     * the mask is added */
    {RT_F32,
     false,
     0,
     {{"s", "Einsum", "k q", "N=2 T=float equation='aecd,abcd->acbe'"},
      {"a", "AddV2", "mask s", "T=float"},
      {"p", "Softmax", "a", "T=float"},
      {"y", "Einsum", "p v", "N=2 T=float equation='acbe,aecd->abcd'"}}},
    /* the mask states which scores are hidden, not which scores are visible */
    {RT_BOOL,
     false,
     0,
     {SCORES,
      {"m", "RealDiv", "s scale", "T=float"},
      {"a", "SelectV2", "mask low m", "T=float"},
      CONTEXT}},
    {RT_F32, false, 0, {SCORES, {"a", "Add", "s mask", "T=float"}, CONTEXT}},
    /* attention as HuggingFace's BERT exports it */
    {RT_F32,
     true,
     0,
     {TRANSPOSE("tq", "q", "heads"),
      TRANSPOSE("tk", "k", "heads"),
      TRANSPOSE("tv", "v", "heads"),
      {"s", "BatchMatMulV2", "tq tk", MATMUL_TRANSPOSED},
      {"d", "RealDiv", "s scale", "T=float"},
      {"m", "AddV2", "d mask", "T=float"},
      {"a", "AddV2", "m tiny", "T=float"},
      SOFTMAX_CONTEXT}},
    /* attention as DistilBERT exports it, where the queries are scaled and the negated mask is
     * subtracted */
    {RT_F32,
     true,
     3,
     {TRANSPOSE("tq", "q", "heads"),
      {"sq", "Mul", "scale tq", "T=float"},
      TRANSPOSE("tk", "k", "heads"),
      TRANSPOSE("tv", "v", "heads"),
      {"s", "BatchMatMulV2", "sq tk", MATMUL_TRANSPOSED},
      {"neg", "Neg", "mask", "T=float"},
      {"a", "Sub", "s neg", "T=float"},
      SOFTMAX_CONTEXT}},
    /* attention written by hand, in which one Transpose puts the keys into the order that the
     * matmul needs */
    {RT_BOOL,
     true,
     0,
     {TRANSPOSE("tq", "q", "heads"),
      TRANSPOSE("tk", "k", "keys_last"),
      TRANSPOSE("tv", "v", "heads"),
      {"s", "BatchMatMulV3", "tq tk", "Ta=float Tb=float Tout=float adj_x=false adj_y=false"},
      {"d", "Mul", "s scale", "T=float"},
      {"a", "SelectV2", "mask d low", "T=float"},
      SOFTMAX_CONTEXT}},
    /* Attention with two Transposes of the keys. In the output, the axis of heads precedes the axis
       of rows. */
    {RT_F32,
     false,
     2,
     {TRANSPOSE("tq", "q", "heads"),
      TRANSPOSE("rk", "k", "heads"),
      TRANSPOSE("tk", "rk", "last"),
      {"s", "BatchMatMul", "tq tk", MATMUL},
      {"a", "AddV2", "mask s", "T=float"},
      {"p", "Softmax", "a", "T=float"},
      {"y", "Einsum", "p v", "N=2 T=float equation='BNTS,BSNH->BNTH'"}}},
    /* attention as T5 exports it, with the heads before the rows in every tensor */
    {RT_F32,
     false,
     3,
     {TRANSPOSE("tq", "q", "heads"),
      TRANSPOSE("tk", "k", "heads"),
      TRANSPOSE("rv", "v", "heads"),
      {"tv", "Mul", "rv scale", "T=float"},
      {"s", "Einsum", "tq tk", "N=2 T=float equation='bnqd,bnkd->bnqk'"},
      {"a", "AddV2", "s mask", "T=float"},
      {"p", "Softmax", "a", "T=float"},
      {"y", "Einsum", "p tv", "N=2 T=float equation='bnqk,bnkd->bnqd'"}}},
};
enum { FORMS = sizeof forms / sizeof *forms };
/* Nodes that make causal masks from the shape of the scores. */
#define BAND                                                                                       \
    {"shape", "Shape", "m", "T=float out_type=int32"},                                             \
        {"t", "StridedSlice", "shape i2 i3 i1", AXIS},                                             \
        {"u", "StridedSlice", "shape i3 i4 i1", AXIS},                                             \
        {"dims", "Pack", "t u", "T=int32 N=2 axis=0"},                                             \
        {"full", "Fill", "dims true", "T=bool index_type=int32"},                                  \
        {"band", "MatrixBandPart", "full low1 low0", "T=bool Tindex=int32"},                       \
    {                                                                                              \
        "a", "SelectV2", "band m low", "T=float"                                                   \
    }
static const struct form causal[] = {
    {RT_BOOL, false, 0, {SCORES, {"m", "Mul", "s scale", "T=float"}, BAND, CONTEXT}},
    {RT_BOOL,
     true,
     0,
     {TRANSPOSE("tq", "q", "heads"),
      TRANSPOSE("tk", "k", "heads"),
      TRANSPOSE("tv", "v", "heads"),
      {"s", "BatchMatMulV2", "tq tk", MATMUL_TRANSPOSED},
      {"m", "RealDiv", "s scale", "T=float"},
      BAND,
      SOFTMAX_CONTEXT}},
};

/* Writes the graph to `g`. Unless `other` is NULL, `other` replaces the node of the same name. */
static void write(struct rt_bytes *g, const struct form *f, const struct gd_line *other)
{
    rt_bytes_init(g, 1 << 16);
    gd_node(g, "q", "Placeholder", "", "dtype=float");
    gd_node(g, "k", "Placeholder", "", "dtype=float");
    gd_node(g, "v", "Placeholder", "", "dtype=float");
    gd_node(g, "mask", "Placeholder", "", f->mask == RT_BOOL ? "dtype=bool" : "dtype=float");
    gd_node(g, "scale", "Const", "", "dtype=float value=float<>:0.35");
    gd_node(g, "low", "Const", "", "dtype=float value=float<>:-3e38");
    gd_node(g, "tiny", "Const", "", "dtype=float value=float<>:1e-9");
    gd_node(g, "true", "Const", "", "dtype=bool value=bool<>:1");
    gd_node(g, "false", "Const", "", "dtype=bool value=bool<>:0");
    gd_node(g, "heads", "Const", "", "dtype=int32 value=int32<4>:0,2,1,3");
    gd_node(g, "keys_last", "Const", "", "dtype=int32 value=int32<4>:0,2,3,1");
    gd_node(g, "last", "Const", "", "dtype=int32 value=int32<4>:0,1,3,2");
    gd_node(g, "i1", "Const", "", "dtype=int32 value=int32<1>:1");
    gd_node(g, "i2", "Const", "", "dtype=int32 value=int32<1>:2");
    gd_node(g, "i3", "Const", "", "dtype=int32 value=int32<1>:3");
    gd_node(g, "i4", "Const", "", "dtype=int32 value=int32<1>:4");
    gd_node(g, "low1", "Const", "", "dtype=int32 value=int32<>:-1");
    gd_node(g, "low0", "Const", "", "dtype=int32 value=int32<>:0");
    gd_lines(g, f->nodes, other);
}

static struct question question_of(const struct rt_bytes *g, const char *also)
{
    return (struct question){.graph = g,
                             .feeds = {"q:0", "k:0", "v:0", "mask:0"},
                             .also = also,
                             .no_specialise = true,
                             .cores = cores};
}

/* Compares the runs with and without fusion. The fused run must run `want` nodes (0 means more than
 * one node, and -1 any number). */
static void compare_with(const struct form *f, const struct gd_line *other,
                         const struct rt_tensor in[4], const char *also, int64_t want)
{
    struct rt_bytes g;
    write(&g, f, other);
    const struct question q = question_of(&g, also);
    const int64_t nodes = answer_both(&q, in, 1e-5f);
    if (nodes >= 0 && want > 0)
        assert_int_equal(nodes, want);
    else if (nodes >= 0 && want == 0)
        assert_true(nodes > 1);
    rt_bytes_clear(&g);
}

static void compare(const struct form *f, const struct rt_tensor in[4], const char *also,
                    int64_t want)
{
    compare_with(f, NULL, in, also, want);
}

struct sizes {
    /* The batch size is b. Each of n heads has t queries and s keys of depth h, and s values of
     * depth d. */
    int64_t b, t, s, n, h, d;
    int mask_rank;
    int64_t mask[4];
};

/* Compares the runs with and without fusion on inputs of the sizes `z`. If `special` is true,
 * queries and values also contain NaN and infinities. */
static void try_sizes(const struct form *f, const struct sizes *z, bool special)
{
    struct rt_tensor in[4] = {
        numbers((int64_t[]){z->b, z->t, z->n, z->h}), numbers((int64_t[]){z->b, z->s, z->n, z->h}),
        numbers((int64_t[]){z->b, z->s, z->n, z->d}), mask_of(f->mask, z->mask_rank, z->mask)};
    for (int64_t i = 0; special && i < rt_tensor_count(&in[2]); i += 17)
        ((float *)in[2].data)[i] = i % 2 ? NAN : -INFINITY;
    for (int64_t i = 0; special && i < rt_tensor_count(&in[0]); i += 61)
        ((float *)in[0].data)[i] = i % 2 ? NAN : INFINITY;
    compare(f, in, NULL, f->n_left ? f->n_left : 1);
    clear(in);
}

static void every_form_is_one_node(void **state)
{
    (void)state;
    static const struct sizes sizes[] = {
        {2, 5, 7, 3, 8, 4, 4, {2, 1, 1, 7}},
        {1, 40, 40, 4, 16, 16, 4, {1, 1, 40, 40}},
        {3, 1, 9, 2, 5, 6, 2, {1, 9}},
        {2, 300, 150, 2, 8, 8, 1, {150}},
        {1, 3, 3, 1, 1, 1, 0, {0}},
        {2, 4, 1, 2, 3, 3, 4, {2, 2, 4, 1}},
        {0, 4, 5, 2, 3, 3, 4, {1, 1, 1, 5}},
        {2, 4, 5, 2, 0, 3, 4, {1, 1, 4, 1}},
        {2, 4, 0, 2, 3, 3, 4, {1, 1, 4, 1}},
        {2, 0, 5, 2, 3, 3, 4, {1, 1, 1, 5}},
        {2, 1300, 40, 1, 4, 4, 4, {2, 1, 1300, 1}},
    };
    for (int f = 0; f < FORMS; f++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            if (answer_is_emulated() && sizes[k].t > SLOW_ROWS)
                continue;
            try_sizes(&forms[f], &sizes[k], false);
            try_sizes(&forms[f], &sizes[k], true);
        }
}

/* The number of heads is not a multiple of the number of cores, so the rows of a head are also
 * sharded. */
static void heads_and_their_rows_are_shared_out(void **state)
{
    (void)state;
    static const struct sizes sizes[] = {
        {1, 200, 130, 3, 32, 32, 4, {1, 1, 200, 130}},
        {2, 90, 140, 3, 32, 40, 4, {2, 1, 1, 140}},
        {1, 1000, 90, 1, 32, 16, 2, {1, 90}},
    };
    if (answer_is_emulated())
        return;
    for (int n = 2; n <= 4; n += 2) {
        cores = rt_parallel_new(n, n);
        assert_non_null(cores);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            try_sizes(&forms[1], &sizes[k], k == 1);
        rt_parallel_free(cores);
        cores = NULL;
    }
}

/* One axis has length 1 in the scores and 4 in the mask, so adding the mask broadcasts the scores.
 * The values have a shape that fits the broadcast scores. */
static void a_mask_may_widen_the_scores(void **state)
{
    (void)state;
    for (int f = 0; f < FORMS; f++)
        for (int axis = 0; axis < 4; axis++) {
            int64_t q[] = {2, 5, 3, 4}, k[] = {2, 6, 3, 4}, v[] = {2, 6, 3, 8};
            int64_t mask[] = {1, 1, 1, 1};
            mask[axis] = 4;
            if (axis == 0) {
                q[0] = k[0] = 1;
                v[0] = 4;
            } else if (axis == 1) {
                q[2] = k[2] = 1;
                v[2] = 4;
            } else if (axis == 2) {
                q[1] = 1;
            } else {
                k[1] = 1;
                v[1] = 4;
            }
            struct rt_tensor in[4] = {numbers(q), numbers(k), numbers(v),
                                      mask_of(forms[f].mask, 4, mask)};
            compare(&forms[f], in, NULL, forms[f].n_left ? forms[f].n_left : 1);
            clear(in);
        }
}

static void a_matmul_may_have_one_for_many(void **state)
{
    (void)state;
    static const int64_t broadcast[][3][4] = {
        {{3, 5, 2, 4}, {1, 6, 2, 4}, {3, 6, 2, 4}}, {{1, 5, 2, 4}, {3, 6, 1, 4}, {3, 6, 1, 4}},
        {{3, 5, 2, 4}, {3, 6, 1, 4}, {1, 6, 1, 3}}, {{1, 5, 1, 4}, {1, 6, 1, 4}, {3, 6, 2, 4}},
        {{1, 1, 1, 4}, {3, 6, 2, 4}, {3, 6, 2, 4}}, {{1, 40, 1, 4}, {2, 1, 1, 4}, {1, 1, 3, 4}},
    };
    for (int f = 0; f < FORMS; f++)
        for (size_t k = 0; k < sizeof broadcast / sizeof *broadcast && forms[f].broadcasts; k++) {
            struct rt_tensor in[4] = {
                numbers(broadcast[k][0]), numbers(broadcast[k][1]), numbers(broadcast[k][2]),
                mask_of(forms[f].mask, 2, (int64_t[]){1, broadcast[k][1][1]})};
            compare(&forms[f], in, NULL, forms[f].n_left ? forms[f].n_left : 1);
            clear(in);
        }
}

/* Returns the scratch memory for one head with q queries and k keys. The mask has shape [t, s], to
 * which the scores are broadcast. */
static size_t scratch_of(int64_t q, int64_t k, int64_t t, int64_t s)
{
    struct rt_described_plan d;
    struct rt_session *session;
    struct rt_tensor y = {0};
    struct rt_bytes g;
    size_t most = 0;
    struct rt_tensor in[4] = {numbers((int64_t[]){1, q, 1, 2}), numbers((int64_t[]){1, k, 1, 2}),
                              numbers((int64_t[]){1, s, 1, 2}),
                              mask_of(forms[1].mask, 2, (int64_t[]){t, s})};
    write(&g, &forms[1], NULL);
    const struct question question = question_of(&g, NULL);
    struct rt_callable *c = answer_open(&question, false, &session);
    struct rt_arena *arena = rt_arena_new(1 << 20);
    assert_ok(rt_callable_run(c, in, &y, NULL, &err), &err);
    assert_int_equal(y.dim[1], t);
    assert_ok(rt_callable_describe(c, arena, &d, &err), &err);
    for (int i = 0; i < d.n_nodes; i++)
        most = d.node[i].scratch_bytes > most ? d.node[i].scratch_bytes : most;
    rt_tensor_clear(&y);
    clear(in);
    rt_arena_free(arena);
    rt_session_free(session);
    rt_bytes_clear(&g);
    return most;
}

static void a_mask_may_ask_for_the_shape_of_the_scores(void **state)
{
    (void)state;
    if (answer_is_emulated())
        return; /* on the GPU, the number of nodes is different */
    for (int i = 0; i < 6; i++) {
        const int64_t n = i / 2;
        struct rt_tensor in[4] = {
            numbers((int64_t[]){2, 5 - 2 * n, 3, 4}), numbers((int64_t[]){2, 6 * n, 3, 4}),
            numbers((int64_t[]){2, 6 * n, 3, 4}), mask_of(RT_BOOL, 1, (int64_t[]){1})};
        /* The eight nodes are the fused node and the seven nodes of the mask: two Shapes, two
         * StridedSlices, a Pack, a Fill and a MatrixBandPart. */
        compare(&causal[i % 2], in, NULL, 8);
        clear(in);
    }
}

static void it_needs_no_more_than_the_scores(void **state)
{
    (void)state;
    if (answer_is_emulated())
        return;
    static const int64_t sizes[][4] = {
        {3, 5, 3, 5},       {700, 900, 700, 900}, {1, 900, 700, 900},
        {700, 1, 700, 900}, {1, 1, 700, 900},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t *z = sizes[i];
        const size_t bytes = scratch_of(z[0], z[1], z[2], z[3]);
        assert_true(bytes > 0);
        /* The scratch memory contains the scores, and one additional row or column for
         * broadcasting. */
        assert_true(bytes <= (size_t)((z[2] + 1) * (z[3] + 1) + 16) * sizeof(float));
        if (i)
            assert_true(bytes < (size_t)(z[2] * z[3] / 4) * sizeof(float));
    }
}

static void shapes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const int64_t wrong[][4][4] = {
        {{2, 5, 3, 4}, {2, 6, 3, 5}, {2, 6, 3, 4}, {1, 1, 1, 1}},
        {{2, 5, 3, 4}, {2, 6, 2, 4}, {2, 6, 3, 4}, {1, 1, 1, 1}},
        {{2, 5, 3, 4}, {1, 6, 3, 4}, {2, 6, 3, 4}, {1, 1, 1, 1}},
        {{2, 5, 3, 4}, {2, 6, 3, 4}, {2, 5, 3, 4}, {1, 1, 1, 1}},
        {{2, 5, 3, 4}, {2, 6, 3, 4}, {2, 6, 3, 4}, {1, 1, 1, 5}},
    };
    for (int f = 0; f < FORMS; f++)
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            if (k == 2 && forms[f].broadcasts)
                continue;
            struct rt_tensor in[4] = {numbers(wrong[k][0]), numbers(wrong[k][1]),
                                      numbers(wrong[k][2]), mask_of(forms[f].mask, 4, wrong[k][3])};
            struct rt_bytes g;
            write(&g, &forms[f], NULL);
            const struct question q = question_of(&g, NULL);
            assert_int_equal(answer_both(&q, in, 0), -1);
            rt_bytes_clear(&g);
            clear(in);
        }
}

static void what_others_see_is_left_as_it_is(void **state)
{
    (void)state;
    static const char *const seen[] = {"s:0", "m:0", "a:0", "p:0", "both:0"};
    struct rt_tensor in[4] = {numbers((int64_t[]){2, 5, 3, 4}), numbers((int64_t[]){2, 6, 3, 4}),
                              numbers((int64_t[]){2, 6, 3, 4}),
                              mask_of(RT_BOOL, 4, (int64_t[]){2, 1, 1, 6})};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        compare(&forms[0], in, seen[i], 0);
    clear(in);
}

/* The mask is combined with a tensor that is false everywhere, so every score is hidden. Keras
 * exports a tensor that is true everywhere, and fusion must not treat the two graphs alike. */
static void a_mask_that_is_joined_with_zeros_hides_all(void **state)
{
    (void)state;
    static const struct gd_line zeros = {"ones", "Fill", "shape false", "T=bool index_type=int32"};
    struct rt_tensor in[4] = {numbers((int64_t[]){2, 4, 3, 8}), numbers((int64_t[]){2, 5, 3, 8}),
                              numbers((int64_t[]){2, 5, 3, 8}),
                              mask_of(RT_BOOL, 4, (int64_t[]){2, 1, 1, 5})};
    compare_with(&forms[0], &zeros, in, NULL, -1);
    clear(in);
}

/* Replaces one node of attention as BERT exports it. The changed graph may be fused, left unfused
 * or refused, but the runs with and without fusion must agree. */
static void what_is_written_otherwise_gives_the_same(void **state)
{
    (void)state;
    enum { BERT = 4 };
    static const struct gd_line others[] = {
        TRANSPOSE("tq", "q", "keys_last"),
        TRANSPOSE("tq", "q", "last"),
        TRANSPOSE("tk", "k", "keys_last"),
        TRANSPOSE("tv", "v", "last"),
        TRANSPOSE("y", "c", "last"),
        TRANSPOSE("y", "c", "keys_last"),
        TRANSPOSE("y", "p", "heads"),
        {"tq", "Identity", "q", "T=float"},
        {"tk", "Identity", "k", "T=float"},
        {"tv", "Identity", "v", "T=float"},
        {"s", "BatchMatMulV2", "tk tq", MATMUL_TRANSPOSED},
        {"s", "BatchMatMulV2", "tq tk", MATMUL},
        {"s", "BatchMatMulV2", "tq tk", "T=float adj_x=true adj_y=false"},
        {"s", "BatchMatMulV2", "tq tq", MATMUL_TRANSPOSED},
        {"d", "RealDiv", "scale s", "T=float"},
        {"d", "Sub", "scale s", "T=float"},
        {"d", "Sub", "s scale", "T=float"},
        {"d", "Mul", "s s", "T=float"},
        {"m", "AddV2", "d d", "T=float"},
        {"m", "AddV2", "mask d", "T=float"},
        {"a", "AddV2", "tiny tiny", "T=float"},
        {"a", "Maximum", "m tiny", "T=float"},
        {"p", "LogSoftmax", "a", "T=float"},
        {"c", "BatchMatMulV2", "p tv", MATMUL_TRANSPOSED},
        {"c", "BatchMatMulV2", "tv p", MATMUL},
        {"c", "BatchMatMulV2", "p p", MATMUL},
        {"c", "Mul", "p p", "T=float"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        /* Some of the changed graphs are valid only if there are as many queries as keys. */
        for (int square = 0; square < 2; square++) {
            const int64_t n = square ? 4 : 5;
            struct rt_tensor in[4] = {
                numbers((int64_t[]){2, 4, 4, n - 1 + square}), numbers((int64_t[]){2, n, 4, 4}),
                numbers((int64_t[]){2, n, 4, 4}), mask_of(RT_F32, 2, (int64_t[]){1, n})};
            compare_with(&forms[BERT], &others[i], in, NULL, -1);
            clear(in);
        }
}

static void it_is_rowwise(void **state)
{
    (void)state;
    const struct rt_shape shapes[4] = {
        {4, {-1, 5, 2, 4}}, {4, {-1, 6, 2, 4}}, {4, {-1, 6, 2, 4}}, {4, {-1, 1, 1, 6}}};
    for (int f = 0; f < FORMS; f++) {
        struct rt_session *s;
        struct rt_bytes g;
        write(&g, &forms[f], NULL);
        const struct question q = question_of(&g, NULL);
        struct rt_callable *c = answer_open(&q, false, &s);
        if (!rt_callable_is_rowwise(c, shapes, &err))
            fail_msg("%s", rt_error_text(&err));
        rt_session_free(s);
        rt_bytes_clear(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_one_node),
        cmocka_unit_test(heads_and_their_rows_are_shared_out),
        cmocka_unit_test(a_mask_may_widen_the_scores),
        cmocka_unit_test(a_matmul_may_have_one_for_many),
        cmocka_unit_test(a_mask_may_ask_for_the_shape_of_the_scores),
        cmocka_unit_test(it_needs_no_more_than_the_scores),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(what_others_see_is_left_as_it_is),
        cmocka_unit_test(a_mask_that_is_joined_with_zeros_hides_all),
        cmocka_unit_test(what_is_written_otherwise_gives_the_same),
        cmocka_unit_test(it_is_rowwise),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
