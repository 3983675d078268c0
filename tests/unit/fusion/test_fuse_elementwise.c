/*
 * Tests that element-wise nodes are fused into one node (runtime/fusion/fuse_elementwise.c), and
 * that a fused node reads the operands of a concatenation directly (fuse_concat.c). The outputs
 * must be those of the same graph without fusion, bit for bit.
 */
#include "tests/support/test.h"

#include <math.h>

#include "runtime/fusion/elementwise.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"
#include "tests/support/registry.h"

enum { FEEDS = 4, MOST_NODES = 40, MOST_NAME = 16 };

static struct rt_error err;
static uint64_t seed = 4711;

static int64_t below(int64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int64_t)(seed % (uint64_t)n);
}

static struct rt_tensor random_tensor(int rank, const int64_t *dim)
{
    static const float special[] = {NAN, INFINITY, -INFINITY, -0.0f, 0, 1e38f, -1e-38f, 1e-45f};
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&t); i++)
        ((float *)t.data)[i] = below(16) ? (float)(below(1 << 20) - (1 << 19)) / (1 << 16)
                                         : special[below(sizeof special / sizeof *special)];
    return t;
}

struct run {
    struct rt_bytes g;
    int n_feeds, n_fetches;
    const char *feeds[FEEDS], *fetches[4];
    struct rt_tensor in[FEEDS], out[4];
    int64_t nodes; /* total number of nodes that ran in two runs */
};

static enum rt_status run_with(struct run *x, bool no_fusion)
{
    const struct rt_session_options options = {.registry = test_registry,
                                               .tuning = {.no_fusion = no_fusion}};
    const struct rt_call_spec spec = {
        .feeds = x->feeds, .n_feeds = x->n_feeds, .fetches = x->fetches, .n_fetches = x->n_fetches};
    struct rt_session *s = gs_open(gd_span(&x->g), &options);
    struct rt_callable *c = gs_prepare(s, &spec);
    enum rt_status st = rt_callable_run(c, x->in, x->out, NULL, &err);
    if (!st) { /* In the second run, outputs use memory to which the first run has written. */
        for (int k = 0; k < x->n_fetches; k++)
            rt_tensor_clear(&x->out[k]);
        st = rt_callable_run(c, x->in, x->out, NULL, &err);
    }
    struct rt_session_stats stats;
    rt_session_stats(s, &stats);
    x->nodes = stats.nodes_run;
    rt_session_free(s);
    return st;
}

static void expect_same(const struct rt_tensor *a, const struct rt_tensor *b)
{
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
    for (int64_t i = 0; i < rt_tensor_count(a); i++) {
        const float *p = (float *)a->data + i, *q = (float *)b->data + i;
        if (memcmp(p, q, sizeof *p) != 0 && !(isnan(*p) && isnan(*q)))
            fail_msg("element %lld: %.9g unfused, %.9g fused", (long long)i, (double)*p,
                     (double)*q);
    }
}

/* Compares the outputs with and without fusion. With fusion, at most `most` nodes may run in two
 * runs in total; 0 means no limit. On a GPU there is no limit, because nodes are not joined across
 * devices. */
static void compare(struct run *x, int64_t most)
{
    const char *accelerator = getenv("SLIPWAY_TEST_ACCELERATOR");
    struct rt_tensor unfused[4];
    assert_ok(run_with(x, true), &err);
    const int64_t nodes = x->nodes;
    memcpy(unfused, x->out, sizeof unfused);
    assert_ok(run_with(x, false), &err);
    assert_true(x->nodes <= nodes);
    if (most > 0 && x->nodes > most && !(accelerator && strcmp(accelerator, "gpu") == 0))
        fail_msg("%lld nodes ran, at most %lld may", (long long)x->nodes, (long long)most);
    for (int k = 0; k < x->n_fetches; k++) {
        expect_same(&unfused[k], &x->out[k]);
        rt_tensor_clear(&unfused[k]);
        rt_tensor_clear(&x->out[k]);
    }
}

static void begin(struct run *x, int n_feeds)
{
    static const char *const names[FEEDS] = {"x0", "x1", "x2", "x3"};
    static const char *const edges[FEEDS] = {"x0:0", "x1:0", "x2:0", "x3:0"};
    *x = (struct run){.n_feeds = n_feeds, .n_fetches = 1, .fetches = {"y:0"}};
    rt_bytes_init(&x->g, 1 << 24);
    for (int k = 0; k < n_feeds; k++) {
        x->feeds[k] = edges[k];
        gd_node(&x->g, names[k], "Placeholder", "", "dtype=float");
    }
}

static void end(struct run *x)
{
    for (int k = 0; k < x->n_feeds; k++)
        rt_tensor_clear(&x->in[k]);
    rt_bytes_clear(&x->g);
}

#define NAME(op, kernel) #op,
static const char *const unary[] = {RT_ELEMENTWISE_UNARY(NAME)};
static const char *const binary[] = {RT_ELEMENTWISE_BINARY(NAME)};
#undef NAME

/* Returns a tensor that broadcasts to the given shape. Some axes of the tensor have length 1, or
 * the tensor lacks leading axes. */
static struct rt_tensor random_operand(int rank, const int64_t *dim)
{
    int64_t own[RT_MAX_RANK];
    const int skip = below(3) ? 0 : (int)below(rank + 1);
    /* If `how` is 0, all axes keep their lengths. If `how` is 1, some random axes keep their
     * lengths. If `how` is 2, at most one axis keeps its length. The other axes have length 1. */
    const int how = (int)below(3);
    const int64_t axis = below(rank + 1);
    for (int i = skip; i < rank; i++)
        own[i - skip] = how == 0 || (how == 1 && below(2)) || (how == 2 && i == axis) ? dim[i] : 1;
    return random_tensor(rank - skip, own);
}

/* Chooses a shape of at most 30,000 elements. If `often_empty` is true, an axis of length 1 may
 * become an axis of length 0. */
static void random_shape(int rank, int64_t *dim, bool often_empty)
{
    static const int64_t sizes[] = {1, 1, 2, 3, 5, 16, 31, 130, 700};
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        dim[i] = sizes[below(sizeof sizes / sizeof *sizes)];
        if (count * dim[i] > 30000 || (often_empty && dim[i] == 1 && below(20) == 0))
            dim[i] = below(20) ? 1 : 0;
        count *= dim[i];
    }
}

static void random_trees_give_what_their_nodes_give_one_by_one(void **state)
{
    (void)state;
    for (int round = 0; round < 800; round++) {
        struct run x;
        int64_t dim[4];
        char name[FEEDS + MOST_NODES][MOST_NAME];
        const int rank = 1 + (int)below(4);
        const int n_nodes = 2 + (int)below(round % 10 == 9 ? MOST_NODES - 2 : 8);
        begin(&x, FEEDS);
        random_shape(rank, dim, true);
        for (int k = 0; k < FEEDS; k++) {
            x.in[k] = random_operand(rank, dim);
            snprintf(name[k], MOST_NAME, "x%d", k);
        }
        for (int i = 0; i < n_nodes; i++) {
            const int n = FEEDS + i;
            /* Operand `a` is usually the last node, so that the nodes form chains. */
            const int64_t a = below(3) && i ? n - 1 : below(n), b = below(n);
            const bool is_unary = below(3) == 0;
            char in[2 * MOST_NAME + 2];
            snprintf(name[n], MOST_NAME, i == n_nodes - 1 ? "y" : "n%d", i);
            snprintf(in, sizeof in, is_unary ? "%s" : "%s %s", name[a], name[b]);
            gd_node(&x.g, name[n],
                    is_unary ? unary[below(sizeof unary / sizeof *unary)]
                             : binary[below(sizeof binary / sizeof *binary)],
                    in, "T=float");
        }
        if (below(4) == 0) {
            x.n_fetches = 2;
            x.fetches[1] = "n0:0";
        }
        compare(&x, 0);
        end(&x);
    }
}

/* Returns a tensor of a type other than float that broadcasts to the shape, as random_operand does
 * for floats. */
static struct rt_tensor random_other(enum rt_dtype dtype, int rank, const int64_t *dim)
{
    struct rt_tensor shape = random_operand(rank, dim), t;
    assert_ok(rt_tensor_new(&t, NULL, dtype, shape.rank, shape.dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&t); i++)
        if (dtype == RT_BOOL)
            ((bool *)t.data)[i] = below(2);
        else if (dtype == RT_U8)
            ((uint8_t *)t.data)[i] = (uint8_t)below(256);
        else if (dtype == RT_I32)
            ((int32_t *)t.data)[i] = (int32_t)below(INT64_C(1) << 32);
        else
            ((int64_t *)t.data)[i] = below(4) ? below(100) - 50 : below(INT64_MAX);
    rt_tensor_clear(&shape);
    return t;
}

static const struct other_type {
    enum rt_dtype dtype;
    const char *name;
} other_types[] = {{RT_U8, "uint8"}, {RT_I32, "int32"}, {RT_I64, "int64"}, {RT_BOOL, "bool"}};

/* A graph of floats and booleans. Two feeds are floats, one feed is booleans, and one feed has the
 * type `other`, which only a Cast reads. */
struct mixed {
    struct run run;
    const struct other_type *other;
    char name[FEEDS + MOST_NODES][MOST_NAME];
    /* The indices into `name` of the numeric values (`number`) and of the booleans (`truth`). */
    int number[FEEDS + MOST_NODES], truth[FEEDS + MOST_NODES];
    int n_numbers, n_truths;
};

static void begin_mixed(struct mixed *m, const struct other_type *other, int rank,
                        const int64_t *dim)
{
    static const char *const edges[FEEDS] = {"x0:0", "x1:0", "x2:0", "x3:0"};
    *m = (struct mixed){.run = {.n_feeds = FEEDS, .n_fetches = 1, .fetches = {"y:0"}},
                        .other = other,
                        .number = {0, 1},
                        .truth = {2},
                        .n_numbers = 2,
                        .n_truths = 1};
    rt_bytes_init(&m->run.g, 1 << 20);
    for (int k = 0; k < FEEDS; k++) {
        char attrs[64];
        snprintf(m->name[k], MOST_NAME, "x%d", k);
        m->run.feeds[k] = edges[k];
        m->run.in[k] = k < 2    ? random_operand(rank, dim)
                       : k == 2 ? random_other(RT_BOOL, rank, dim)
                                : random_other(other->dtype, rank, dim);
        snprintf(attrs, sizeof attrs, "dtype=%s", k < 2 ? "float" : k == 2 ? "bool" : other->name);
        gd_node(&m->run.g, m->name[k], "Placeholder", "", attrs);
    }
}

/* Adds node `i`, which reads random values. The last node returns floats. */
static void add_mixed_node(struct mixed *m, int i, bool is_last)
{
    static const char *const comparison[] = {"Equal", "Greater",   "GreaterEqual",
                                             "Less",  "LessEqual", "NotEqual"};
    static const char *const logical[] = {"LogicalNot", "LogicalAnd", "LogicalOr"};
    struct rt_bytes *g = &m->run.g;
    const int n = FEEDS + i;
    const char *a = m->name[m->number[below(3) ? m->n_numbers - 1 : below(m->n_numbers)]];
    const char *b = m->name[m->number[below(m->n_numbers)]];
    const char *p = m->name[m->truth[below(2) ? m->n_truths - 1 : below(m->n_truths)]];
    const char *q = m->name[m->truth[below(m->n_truths)]];
    char *name = m->name[n], in[3 * MOST_NAME + 3], attrs[64];

    snprintf(name, MOST_NAME, is_last ? "y" : "n%d", i);
    switch (is_last ? 2 + below(5) : below(8)) {
    case 0:
    case 7:
        snprintf(in, sizeof in, "%s %s", a, b);
        gd_node(g, name, comparison[below(6)], in, "T=float");
        m->truth[m->n_truths++] = n;
        return;
    case 1:
        snprintf(in, sizeof in, i % 3 ? "%s %s" : "%s", p, q);
        gd_node(g, name, logical[i % 3], in, "");
        m->truth[m->n_truths++] = n;
        return;
    case 2:
    case 3:
        snprintf(in, sizeof in, "%s %s %s", p, a, b);
        gd_node(g, name, "SelectV2", in, "T=float");
        break;
    case 4:
        snprintf(attrs, sizeof attrs, "SrcT=%s DstT=float", i % 2 ? "bool" : m->other->name);
        gd_node(g, name, "Cast", i % 2 ? p : m->name[3], attrs);
        break;
    case 5:
        gd_node(g, name, "LeakyRelu", a, "T=float alpha=0.3f");
        break;
    default:
        snprintf(in, sizeof in, "%s %s", a, b);
        gd_node(g, name, i % 2 ? "Mul" : "Maximum", in, "T=float");
    }
    m->number[m->n_numbers++] = n;
}

static void trees_of_truths_and_numbers_give_the_same(void **state)
{
    (void)state;
    for (int round = 0; round < 600; round++) {
        const int other = (int)below(4), n_nodes = 2 + (int)below(round % 10 == 9 ? 36 : 10);
        const int rank = 1 + (int)below(4);
        int64_t dim[4];
        struct mixed m;
        random_shape(rank, dim, false);
        begin_mixed(&m, &other_types[other], rank, dim);
        for (int i = 0; i < n_nodes; i++)
            add_mixed_node(&m, i, i == n_nodes - 1);
        compare(&m.run, 0);
        end(&m.run);
    }
}

static void a_choice_is_one_node(void **state)
{
    (void)state;
    struct run x;
    begin(&x, 2);
    x.in[0] = random_tensor(3, (int64_t[]){40, 7, 96});
    x.in[1] = random_tensor(1, (int64_t[]){96});
    gd_node(&x.g, "c", "Const", "", "dtype=float value=float<>:0.25");
    gd_node(&x.g, "l", "LeakyRelu", "x0", "T=float alpha=-0.5f");
    gd_node(&x.g, "g", "Greater", "l c", "T=float");
    gd_node(&x.g, "n", "LogicalNot", "g", "");
    gd_node(&x.g, "k", "Cast", "n", "SrcT=bool DstT=float");
    gd_node(&x.g, "m", "Mul", "k x1", "T=float");
    gd_node(&x.g, "y", "SelectV2", "g x0 m", "T=float");
    compare(&x, 2);
    end(&x);
}

/* TensorFlow 1's Select accepts a vector condition with one element per row. A fused SelectV2 would
 * broadcast this vector along the last axis. Select is therefore fused only if all shapes are known
 * to be equal. */
static void a_choice_of_tensorflow_1_is_joined_where_all_have_one_shape(void **state)
{
    (void)state;
    static const struct {
        const char *compared, *select; /* inputs of the Greater "g", and of the Select "y" */
        int64_t most;
    } cases[] = {
        {"x0 c", "g x0 m", 2}, {"m c", "g z x0", 4},  /* the ZerosLike "z" is not fused */
        {"m c", "g m m", 2},   {"x1 c", "g x0 m", 0}, /* the last three cases may be fused */
        {"x0 c", "g x2 m", 0}, {"x0 c", "g x0 s", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int64_t n = 5; n >= 0; n -= 5) {
            struct run x;
            begin(&x, 3);
            x.in[0] = random_tensor(2, (int64_t[]){n, 5});
            x.in[1] = random_tensor(1, (int64_t[]){n});
            x.in[2] = random_tensor(2, (int64_t[]){n, 5});
            gd_node(&x.g, "c", "Const", "", "dtype=float value=float<>:0.25");
            gd_node(&x.g, "g", "Greater", cases[i].compared, "T=float");
            gd_node(&x.g, "m", "Mul", "c x0", "T=float");
            gd_node(&x.g, "s", "Add", "x0 x2", "T=float");
            gd_node(&x.g, "z", "ZerosLike", "x0", "T=float");
            gd_node(&x.g, "y", "Select", cases[i].select, "T=float");
            compare(&x, cases[i].most);
            end(&x);
        }
}

static void a_choice_of_tensorflow_1_spreads_nothing(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct run x;
        begin(&x, 2);
        x.in[0] = random_tensor(2, (int64_t[]){5, 5});
        x.in[1] = random_tensor(2, (int64_t[]){1, 5});
        gd_node(&x.g, "c", "Const", "", "dtype=float value=float<>:0.25");
        gd_node(&x.g, "g", "Greater", "x0 c", "T=float");
        gd_node(&x.g, "m", "Mul", "x0 c", "T=float");
        gd_node(&x.g, "y", "Select", k ? "g x1 m" : "g m c", "T=float");
        assert_int_equal(run_with(&x, true), RT_INVALID_ARGUMENT);
        assert_int_equal(run_with(&x, false), RT_INVALID_ARGUMENT);
        end(&x);
    }
}

static void a_gate_and_a_sum_are_one_node(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {{2, 7, 7, 96}, {1, 1, 1, 5}, {3, 9, 1, 1024}, {0, 4, 4, 8}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t n = shapes[i][0], c = shapes[i][3];
        struct run x;
        begin(&x, 4);
        x.in[0] = random_tensor(4, shapes[i]);
        x.in[1] = random_tensor(4, (int64_t[]){n, 1, 1, c});
        x.in[2] = random_tensor(1, &c);
        x.in[3] = random_tensor(4, shapes[i]);
        gd_node(&x.g, "g", "Sigmoid", "x1", "T=float");
        gd_node(&x.g, "m", "Mul", "g x0", "T=float");
        gd_node(&x.g, "b", "BiasAdd", "m x2", "T=float");
        gd_node(&x.g, "s", "AddV2", "x3 b", "T=float");
        gd_node(&x.g, "y", "Relu", "s", "T=float");
        compare(&x, 2);
        end(&x);
    }
}

static void what_others_see_stays(void **state)
{
    (void)state;
    struct run x;
    begin(&x, 2);
    for (int k = 0; k < 2; k++)
        x.in[k] = random_tensor(2, (int64_t[]){40, 50});
    gd_node(&x.g, "a", "Exp", "x0", "T=float"); /* "t", which is not fused, reads "a" */
    gd_node(&x.g, "b", "Neg", "a", "T=float");
    gd_node(&x.g, "c", "Mul", "b x1", "T=float"); /* a control edge makes "e" wait for "c" */
    gd_node(&x.g, "d", "Tanh", "c", "T=float");
    gd_node(&x.g, "e", "Sqrt", "x1 ^c", "T=float");
    gd_node(&x.g, "f", "Sub", "d e", "T=float");
    gd_node(&x.g, "axis", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(&x.g, "t", "Sum", "a axis", "T=float Tidx=int32");
    gd_node(&x.g, "y", "Add", "f t", "T=float");
    x.n_fetches = 3;
    x.fetches[1] = "d:0";
    x.fetches[2] = "f:0";
    compare(&x, 0);
    end(&x);
}

static void a_bias_is_as_picky_as_alone(void **state)
{
    (void)state;
    static const struct {
        int rank;
        int64_t dim[2];
        int64_t bias_dim[2];
        int bias_rank;
        const char *words;
    } cases[] = {
        {1, {5, 0}, {5, 0}, 1, "Input tensor must be at least 2D: [5]"},
        {2, {3, 5}, {1, 0}, 1, "Must provide as many biases as the last dimension of the input"},
        {2, {3, 5}, {1, 5}, 2, "Biases must be 1D: [1,5]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run x;
        begin(&x, 2);
        x.in[0] = random_tensor(cases[i].rank, cases[i].dim);
        x.in[1] = random_tensor(cases[i].bias_rank, cases[i].bias_dim);
        gd_node(&x.g, "b", "BiasAdd", "x0 x1", "T=float");
        gd_node(&x.g, "y", "Relu", "b", "T=float");
        assert_fails(run_with(&x, true), RT_INVALID_ARGUMENT, &err, cases[i].words);
        assert_fails(run_with(&x, false), RT_INVALID_ARGUMENT, &err, cases[i].words);
        end(&x);
    }
}

/* With incompatible_shape_error=false, tensors whose shapes do not match compare as unequal. A
 * fused node cannot compare such tensors, so the comparison is not fused. */
static void unequal_shapes_may_be_unequal(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct run x;
        begin(&x, 4);
        x.in[0] = random_tensor(2, (int64_t[]){2, 3});
        x.in[1] = random_tensor(1, (int64_t[]){4});
        x.in[2] = random_tensor(2, (int64_t[]){2, 3});
        x.in[3] = random_tensor(2, (int64_t[]){2, 3});
        gd_node(&x.g, "c", k ? "NotEqual" : "Equal", "x0 x1",
                "T=float incompatible_shape_error=false");
        gd_node(&x.g, "y", "SelectV2", "c x2 x3", "T=float");
        compare(&x, 0);
        end(&x);
    }
}

/* A node with a control input is not fused, because the node that it waits for may fail. */
static void a_node_that_waits_stays(void **state)
{
    (void)state;
    struct run x;
    begin(&x, 1);
    x.in[0] = random_tensor(1, (int64_t[]){5});
    gd_node(&x.g, "no", "Const", "", "dtype=bool value=bool<>:0");
    gd_node(&x.g, "check", "Assert", "no x0", "T=[float]");
    gd_node(&x.g, "e", "Exp", "x0 ^check", "T=float");
    gd_node(&x.g, "y", "Neg", "e", "T=float");
    for (int fused = 0; fused < 2; fused++)
        assert_fails(run_with(&x, !fused), RT_INVALID_ARGUMENT, &err, "assertion failed");
    end(&x);
}

static void shapes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct run x;
    begin(&x, 2);
    x.in[0] = random_tensor(2, (int64_t[]){3, 4});
    x.in[1] = random_tensor(2, (int64_t[]){3, 5});
    gd_node(&x.g, "a", "Neg", "x0", "T=float");
    gd_node(&x.g, "y", "Mul", "a x1", "T=float");
    assert_fails(run_with(&x, false), RT_INVALID_ARGUMENT, &err,
                 "Incompatible shapes: [3,4] vs. [3,5]");
    end(&x);
}

/* Builds a chain of thousands of nodes, in which every second node reads its predecessor twice. A
 * fused node has at most 32 steps. */
static void long_runs_of_nodes_are_cut_into_several(void **state)
{
    (void)state;
    enum { LINE = 6000 };
    struct run x;
    char name[MOST_NAME], in[2 * MOST_NAME];
    begin(&x, 1);
    x.in[0] = random_tensor(1, (int64_t[]){3});
    for (int i = 0; i < LINE; i++) {
        snprintf(name, sizeof name, i == LINE - 1 ? "y" : "n%d", i);
        if (i)
            snprintf(in, sizeof in, i % 2 ? "n%d" : "n%d n%d", i - 1, i - 1);
        gd_node(&x.g, name, i && i % 2 == 0 ? "Maximum" : "Neg", i ? in : "x0", "T=float");
    }
    compare(&x, 2 * (LINE / 32 + 1));
    end(&x);
}

/* Adds a block like DenseNet's: each layer concatenates all earlier values, scales and shifts the
 * result, and applies a Relu. Pools stand in for convolutions, whose results may differ in the last
 * bits. */
static void dense_block(struct run *x, int layers, int axis, const char *also)
{
    char name[MOST_NAME], in[64], text[64];
    const char *last = "x0";
    static char concat[MOST_NAME];
    begin(x, 4);
    snprintf(text, sizeof text, "dtype=int32 value=int32<>:%d", axis);
    gd_node(&x->g, "axis", "Const", "", text);
    for (int i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "m%d", i);
        snprintf(in, sizeof in, "%s x1", last);
        gd_node(&x->g, name, "Mul", in, "T=float");
        snprintf(in, sizeof in, "m%d x2", i);
        snprintf(name, sizeof name, "a%d", i);
        gd_node(&x->g, name, "AddV2", in, "T=float");
        snprintf(name, sizeof name, i == layers - 1 ? "y" : "r%d", i);
        snprintf(in, sizeof in, "a%d", i);
        gd_node(&x->g, name, "Relu", in, "T=float");
        if (i == layers - 1)
            break;
        snprintf(in, sizeof in, "r%d", i);
        snprintf(name, sizeof name, "p%d", i);
        gd_node(&x->g, name, "MaxPool", in,
                "T=float ksize=[1,3,3,1] strides=[1,1,1,1] padding='SAME' data_format='NHWC'");
        snprintf(in, sizeof in, "%s p%d axis", last, i);
        snprintf(concat, sizeof concat, "c%d", i);
        gd_node(&x->g, concat, "ConcatV2", in, "N=2 T=float Tidx=int32");
        last = concat;
    }
    if (also) {
        x->n_fetches = 2;
        x->fetches[1] = also;
    }
}

static void what_only_elementwise_ops_read_is_never_concatenated(void **state)
{
    (void)state;
    static const struct {
        int64_t dim[4];
        int layers, axis;
        int64_t scale; /* length of the scaling vector, which is the length of the last axis or 1 */
        int64_t most;
    } cases[] = {
        {{2, 5, 6, 3}, 2, 3, 1, 6},   {{1, 4, 4, 32}, 4, -1, 1, 14}, {{2, 3, 2, 7}, 3, 1, 7, 10},
        {{3, 2, 2, 5}, 3, 0, 5, 10},  {{1, 3, 3, 300}, 4, 3, 1, 14}, {{0, 3, 3, 4}, 3, 3, 1, 10},
        {{1, 2, 2, 64}, 7, 3, 1, 99}, {{2, 3, 5, 4}, 3, 2, 4, 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run x;
        for (int k = 0; k < 3; k++) {
            static const char *const also[] = {NULL, "c0:0", "m1:0"};
            dense_block(&x, cases[i].layers, cases[i].axis, also[k]);
            x.in[0] = random_tensor(4, cases[i].dim);
            x.in[1] = random_tensor(1, &cases[i].scale);
            x.in[2] = random_tensor(1, (int64_t[]){1});
            x.in[3] = random_tensor(1, (int64_t[]){1});
            compare(&x, k ? 0 : cases[i].most);
            end(&x);
        }
    }
}

/* Tests axes other than the concatenation axis. On some of these axes, either the concatenation or
 * the other operand of the Mul has length 1 and is broadcast. */
static void what_is_concatenated_may_be_broadcast(void **state)
{
    (void)state;
    static const int64_t shapes[][2][4] = {
        {{2, 1, 1, 5}, {2, 3, 4, 10}}, {{1, 1, 4, 3}, {2, 3, 4, 6}}, {{2, 3, 4, 5}, {1, 1, 1, 10}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct run x;
        begin(&x, 3);
        x.in[0] = random_tensor(4, shapes[i][0]);
        x.in[1] = random_tensor(4, shapes[i][0]);
        x.in[2] = random_tensor(4, shapes[i][1]);
        gd_node(&x.g, "axis", "Const", "", "dtype=int32 value=int32<>:3");
        gd_node(&x.g, "c", "ConcatV2", "x0 x1 axis", "N=2 T=float Tidx=int32");
        gd_node(&x.g, "s", "Sigmoid", "c", "T=float");
        gd_node(&x.g, "m", "Mul", "x2 s", "T=float");
        gd_node(&x.g, "d", "Sub", "m c", "T=float");
        gd_node(&x.g, "y", "Relu", "d", "T=float");
        compare(&x, 2);
        end(&x);
    }
}

/* The concatenation is the second operand of a step, or is itself an input of a concatenation along
 * a different axis. */
static void what_is_concatenated_stands_anywhere(void **state)
{
    (void)state;
    static const int64_t part[] = {2, 3, 4, 5}, whole[] = {2, 3, 4, 10}, row[] = {2, 3, 1, 10};
    for (int nested = 0; nested < 2; nested++) {
        struct run x;
        begin(&x, 3);
        x.in[0] = random_tensor(4, part);
        x.in[1] = random_tensor(4, part);
        x.in[2] = random_tensor(4, nested ? row : whole);
        gd_node(&x.g, "axis", "Const", "", "dtype=int32 value=int32<>:3");
        gd_node(&x.g, "other", "Const", "", "dtype=int32 value=int32<>:2");
        gd_node(&x.g, "c", "ConcatV2", "x0 x1 axis", "N=2 T=float Tidx=int32");
        if (nested) {
            gd_node(&x.g, "cc", "ConcatV2", "c x2 other", "N=2 T=float Tidx=int32");
            gd_node(&x.g, "d", "Neg", "cc", "T=float");
        } else {
            gd_node(&x.g, "e", "Exp", "x2", "T=float");
            gd_node(&x.g, "d", "Sub", "e c", "T=float");
        }
        gd_node(&x.g, "y", "Relu", "d", "T=float");
        compare(&x, nested ? 4 : 2);
        end(&x);
    }
}

static void operands_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct run x;
    begin(&x, 2);
    x.in[0] = random_tensor(2, (int64_t[]){3, 4});
    x.in[1] = random_tensor(2, (int64_t[]){2, 4});
    gd_node(&x.g, "axis", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(&x.g, "c", "ConcatV2", "x0 x1 axis", "N=2 T=float Tidx=int32");
    gd_node(&x.g, "s", "Neg", "c", "T=float");
    gd_node(&x.g, "y", "Exp", "s", "T=float");
    for (int fused = 0; fused < 2; fused++)
        assert_fails(run_with(&x, !fused), RT_INVALID_ARGUMENT, &err,
                     "ConcatOp : Dimension 0 in both shapes must be equal: shape[0] = [3,4] vs. "
                     "shape[1] = [2,4]");
    end(&x);
}

static void an_elementwise_op_is_rowwise(void **state)
{
    (void)state;
    static const struct {
        const char *op, *inputs;
        bool proved;
    } cases[] = {{"Mul", "a c", true},
                 {"Mul", "a t", false},
                 {"Mul", "j two", true},
                 {"Mul", "j0 c", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run x;
        const struct rt_shape shape = {2, {-1, 6}};
        begin(&x, 1);
        gd_node(&x.g, "a", "Neg", "x0", "T=float");
        gd_node(&x.g, "c", "Const", "", "dtype=float value=float<6>:1,2,3,4,5,6");
        gd_node(&x.g, "axis", "Const", "", "dtype=int32 value=int32<>:0");
        gd_node(&x.g, "t", "Sum", "x0 axis", "T=float Tidx=int32");
        gd_node(&x.g, "one", "Const", "", "dtype=int32 value=int32<>:1");
        gd_node(&x.g, "zero", "Const", "", "dtype=int32 value=int32<>:0");
        gd_node(&x.g, "two", "Const", "", "dtype=float value=float<>:2");
        gd_node(&x.g, "j", "ConcatV2", "x0 a one", "N=2 T=float Tidx=int32");
        gd_node(&x.g, "j0", "ConcatV2", "x0 a zero", "N=2 T=float Tidx=int32");
        gd_node(&x.g, "m", cases[i].op, cases[i].inputs, "T=float");
        gd_node(&x.g, "y", "Tanh", "m", "T=float");
        const struct rt_session_options options = {.registry = test_registry};
        const struct rt_call_spec spec = {
            .feeds = x.feeds, .n_feeds = 1, .fetches = x.fetches, .n_fetches = 1};
        struct rt_session *s = gs_open(gd_span(&x.g), &options);
        struct rt_callable *c = gs_prepare(s, &spec);
        assert_int_equal(rt_callable_is_rowwise(c, &shape, &err), cases[i].proved);
        rt_session_free(s);
        end(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_trees_give_what_their_nodes_give_one_by_one),
        cmocka_unit_test(trees_of_truths_and_numbers_give_the_same),
        cmocka_unit_test(a_choice_is_one_node),
        cmocka_unit_test(a_choice_of_tensorflow_1_is_joined_where_all_have_one_shape),
        cmocka_unit_test(a_choice_of_tensorflow_1_spreads_nothing),
        cmocka_unit_test(a_gate_and_a_sum_are_one_node),
        cmocka_unit_test(what_others_see_stays),
        cmocka_unit_test(a_bias_is_as_picky_as_alone),
        cmocka_unit_test(unequal_shapes_may_be_unequal),
        cmocka_unit_test(a_node_that_waits_stays),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(long_runs_of_nodes_are_cut_into_several),
        cmocka_unit_test(what_only_elementwise_ops_read_is_never_concatenated),
        cmocka_unit_test(what_is_concatenated_may_be_broadcast),
        cmocka_unit_test(what_is_concatenated_stands_anywhere),
        cmocka_unit_test(operands_that_do_not_fit_are_refused),
        cmocka_unit_test(an_elementwise_op_is_rowwise),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
