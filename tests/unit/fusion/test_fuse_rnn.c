/*
 * Tests that loops become recurrent layers (runtime/fusion/rnn/rnn_loop.h, kernels/rnn/rnn.c). The
 * outputs of exported graphs are compared with those that TensorFlow recorded. For other shapes,
 * and for graphs with one op, name or number changed, the outputs with and without fusion are
 * compared.
 */
#include "tests/support/answer.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "runtime/api/describe.h"
#include "runtime/base/sanitizer.h"
#include "runtime/exec/parallel.h"
#include "tests/support/graph_session.h"
#include "tests/support/recorded.h"
#include "tests/support/registry.h"

#define LOOPS "tests/goldens/loops/"

struct golden {
    char *graph;
    size_t n_graph;
    char fetch[200];
    struct rt_tensor x, y;
};

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *p = malloc(1 << 20);
    assert_non_null(p);
    *n = fread(p, 1, 1 << 20, f);
    assert_true(*n > 0 && *n < 1 << 20);
    fclose(f);
    return p;
}

static void read_tensor(FILE *f, struct rt_tensor *t)
{
    struct rt_error err;
    int64_t dim[RT_MAX_RANK];
    char type;
    int rank;
    assert_int_equal(fscanf(f, " %c %d", &type, &rank), 2);
    assert_true(rank > 0 && rank <= RT_MAX_RANK);
    for (int i = 0; i < rank; i++)
        assert_int_equal(fscanf(f, "%" SCNd64, &dim[i]), 1);
    assert_ok(rt_tensor_new(t, NULL, type == 'i' ? RT_I32 : RT_F32, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(t); i++)
        if (type == 'i')
            assert_int_equal(fscanf(f, "%" SCNd32, (int32_t *)t->data + i), 1);
        else
            assert_int_equal(fscanf(f, "%f", (float *)t->data + i), 1);
}

static void read_golden(const char *name, struct golden *g)
{
    char path[300];
    snprintf(path, sizeof path, LOOPS "%s.pb", name);
    g->graph = read_all(path, &g->n_graph);
    snprintf(path, sizeof path, LOOPS "%s.txt", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%199s", g->fetch), 1);
    read_tensor(f, &g->x);
    read_tensor(f, &g->y);
    fclose(f);
}

static void clear_golden(struct golden *g)
{
    free(g->graph);
    rt_tensor_clear(&g->x);
    rt_tensor_clear(&g->y);
}

/* Returns the scratch memory of the plan's recurrent layers, which grows with the number of cores
 * that share them. */
static size_t scratch_of(struct rt_callable *c)
{
    struct rt_arena *arena = rt_arena_new(1 << 22);
    struct rt_described_plan plan;
    struct rt_error err;
    size_t bytes = 0;
    assert_non_null(arena);
    assert_ok(rt_callable_describe(c, arena, &plan, &err), &err);
    for (int i = 0; i < plan.n_nodes; i++)
        if (plan.node[i].kernel && strcmp(plan.node[i].kernel, "rnn") == 0)
            bytes += plan.node[i].scratch_bytes;
    rt_arena_free(arena);
    return bytes;
}

/* Runs the graph on the given cores. Sets *scratch to the scratch memory of the plan's recurrent
 * layers, or to 0 after an error. */
static enum rt_status ask_cores(struct rt_span graph, const char *fetch, const struct rt_tensor *x,
                                struct rt_parallel *cores, struct rt_tensor *y, size_t *scratch,
                                struct rt_error *err)
{
    /* In another session, autotuning could choose other kernels, whose outputs might have different
     * bits. */
    const struct rt_session_options options = {
        .registry = test_registry, .parallel = cores, .tuning = {.no_autotune = true}};
    *y = (struct rt_tensor){0};
    *scratch = 0;
    struct rt_session *s = gs_open(graph, &options);
    struct rt_callable *c = gs_call(s, "x:0", fetch);
    const enum rt_status st = rt_callable_run(c, x, y, NULL, err);
    if (!st)
        *scratch = scratch_of(c);
    rt_session_free(s);
    return st;
}

/* Imports and runs the graph, and returns the status of the first step that fails. Sets *nodes to
 * the number of nodes that ran. */
static enum rt_status ask(struct rt_span graph, const char *fetch, const struct rt_tensor *x,
                          bool no_fusion, struct rt_tensor *y, int64_t *nodes, struct rt_error *err)
{
    const struct rt_session_options options = {.registry = test_registry,
                                               .tuning = {.no_fusion = no_fusion}};
    const char *feed = "x:0";
    const struct rt_call_spec spec = {
        .feeds = &feed, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1};
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_callable *c;
    struct rt_session_stats stats = {0};
    *y = (struct rt_tensor){0};
    enum rt_status st = rt_library_import(&l, graph, test_registry, err);
    if (!st)
        st = rt_session_new(&s, l, &options, err);
    if (!st)
        st = rt_session_prepare(s, &spec, &c, err);
    if (!st)
        st = rt_callable_run(c, x, y, NULL, err);
    if (s)
        rt_session_stats(s, &stats);
    *nodes = stats.nodes_run;
    rt_session_free(s);
    return st;
}

/* Asserts that both runs failed, or that both gave the same shape and, within a tolerance, the same
 * floats. */
static void expect_same(enum rt_status a, const struct rt_tensor *x, enum rt_status b,
                        const struct rt_tensor *y, const char *what)
{
    if ((a != 0) != (b != 0))
        fail_msg("%s: status %d unfused, %d fused", what, (int)a, (int)b);
    if (a)
        return;
    assert_int_equal(x->dtype, y->dtype);
    assert_int_equal(x->rank, y->rank);
    assert_memory_equal(x->dim, y->dim, (size_t)x->rank * sizeof *x->dim);
    for (int64_t i = 0; x->dtype == RT_F32 && i < rt_tensor_count(x); i++) {
        const float p = ((const float *)x->data)[i], q = ((const float *)y->data)[i];
        if (!(fabsf(p - q) <= 1e-4f * (1 + fabsf(p))) && !(isnan(p) && isnan(q)) && p != q)
            fail_msg("%s: element %d is %g, fused %g", what, (int)i, (double)p, (double)q);
    }
}

typedef void (*golden_test)(const char *name, const struct golden *g);

static void test_golden(void *arg, const char *name)
{
    const golden_test *test = arg;
    struct golden g;
    read_golden(name, &g);
    (*test)(name, &g);
    clear_golden(&g);
}

static void each_golden(golden_test test)
{
    assert_true(recorded_each(LOOPS, ".pb", test_golden, &test) >= 80);
}

static void against_tensorflow(const char *name, const struct golden *g)
{
    for (int no_fusion = 0; no_fusion < 2; no_fusion++) {
        struct rt_error err;
        struct rt_tensor y;
        int64_t nodes;
        assert_ok(ask((struct rt_span){(unsigned char *)g->graph, g->n_graph}, g->fetch, &g->x,
                      no_fusion, &y, &nodes, &err),
                  &err);
        expect_same(RT_OK, &g->y, RT_OK, &y, name);
        /* Each run of a node is counted. If a loop is not fused, its nodes run once per step. */
        if (!no_fusion && nodes > 60)
            fail_msg("%s: %d nodes ran", name, (int)nodes);
        rt_tensor_clear(&y);
    }
}

static void keras_layers_answer_as_in_tensorflow(void **state)
{
    (void)state;
    each_golden(against_tensorflow);
}

/* ---- other shapes ---- */

/* Makes an input with the golden's type and last dimension, and with the given first two
 * dimensions. One of its floats is `special`. */
static void make_input(const struct golden *g, int64_t first, int64_t second, float special,
                       struct rt_tensor *x)
{
    struct rt_error err;
    const bool words = g->x.dtype == RT_I32;
    assert_ok(rt_tensor_new(x, NULL, words ? RT_I32 : RT_F32, words ? 2 : 3,
                            (int64_t[]){first, second, g->x.dim[2]}, &err),
              &err);
    for (int64_t k = 0; k < rt_tensor_count(x); k++)
        if (words)
            ((int32_t *)x->data)[k] = (int32_t)((k * 7919 + 13) % 1000 % 3 ? k % 20 : 0);
        else
            ((float *)x->data)[k] = (float)((k * 7919 + 13) % 1000) / 250 - 2;
    if (!words && rt_tensor_count(x) > 30)
        ((float *)x->data)[30] = special;
}

static void shaped(const char *name, const struct golden *g)
{
    const int64_t dims[][2] = {{0, 4},   {1, 1},   {1, 7}, {2, 0}, {5, 7},
                               {100, 3}, {1, 200}, {9, 1}, {6, 2}};
    const struct rt_span graph = {(unsigned char *)g->graph, g->n_graph};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        struct rt_error err;
        struct rt_tensor x, a, b;
        int64_t nodes;
        char what[300];
        make_input(g, dims[i][0], dims[i][1], i % 2 ? INFINITY : NAN, &x);
        const enum rt_status p = ask(graph, g->fetch, &x, true, &a, &nodes, &err);
        const enum rt_status q = ask(graph, g->fetch, &x, false, &b, &nodes, &err);
        snprintf(what, sizeof what, "%s, batch %d, %d steps", name, (int)dims[i][0],
                 (int)dims[i][1]);
        expect_same(p, &a, q, &b, what);
        rt_tensor_clear(&x);
        rt_tensor_clear(&a);
        rt_tensor_clear(&b);
    }
}

static void other_batches_and_lengths_answer_as_the_loop_does(void **state)
{
    (void)state;
    if (answer_is_emulated())
        return; /* too slow */
    each_golden(shaped);
}

/* ---- several cores ---- */

/* Returns whether a large batch of this golden must be sharded over cores. */
static bool must_be_cut(const char *name)
{
    /* The loops in these goldens have few units and inputs, and therefore too little work to be
     * sharded. */
    if (strncmp(name, "states_", 7) == 0)
        return false;
    /* Keras has unrolled these loops, so the graphs have no loop that could become a layer. */
    if (strstr(name, "_unroll"))
        return false;
    /* keras_lstm_rows and the goldens whose names contain tf1_fixed_ have a fixed batch size. */
    return !strstr(name, "keras_lstm_rows") && !strstr(name, "tf1_fixed_");
}

static void on_cores(const char *name, const struct golden *g)
{
    /* Each element of `dims` is a batch size and a number of steps. The second element is for
     * graphs with a fixed number of steps. */
    const int64_t dims[][2] = {{303, 35}, {3001, g->x.dim[1]}};
    const int widths[] = {2, 5};
    const struct rt_span graph = {(unsigned char *)g->graph, g->n_graph};
    size_t on_one, on_many;
    bool ever = false;
    for (size_t i = 0; i < sizeof dims / sizeof *dims && !ever; i++) {
        struct rt_error err, other;
        struct rt_tensor x, one, many;
        make_input(g, dims[i][0], dims[i][1], NAN, &x);
        const enum rt_status st = ask_cores(graph, g->fetch, &x, NULL, &one, &on_one, &err);
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            struct rt_parallel *p = rt_parallel_new(widths[w], widths[w]);
            assert_non_null(p);
            assert_int_equal(ask_cores(graph, g->fetch, &x, p, &many, &on_many, &other), st);
            rt_parallel_free(p);
            ever = ever || on_many > on_one;
            if (st)
                assert_string_equal(rt_error_text(&other), rt_error_text(&err));
            else if (rt_tensor_bytes(&many) != rt_tensor_bytes(&one) ||
                     memcmp(many.data, one.data, rt_tensor_bytes(&one)) != 0)
                fail_msg("%s, batch %d, %d steps: other bits on %d cores", name, (int)dims[i][0],
                         (int)dims[i][1], widths[w]);
            rt_tensor_clear(&many);
        }
        rt_tensor_clear(&x);
        rt_tensor_clear(&one);
    }
    if (ever != must_be_cut(name))
        fail_msg("%s: cut over cores: %d", name, ever);
}

static void layers_answer_the_same_bits_on_any_number_of_cores(void **state)
{
    (void)state;
    if (answer_is_emulated())
        return; /* too slow */
    each_golden(on_cores);
}

/* ---- damaged graphs ---- */

static char *find(char *from, const char *end, const char *text, size_t n)
{
    for (; from + n <= end; from++)
        if (memcmp(from, text, n) == 0)
            return from;
    return NULL;
}

/* Sanitizers make the comparisons five times slower, so they check every fifth one. */
enum { CHANGE_STEP = RT_HAS_SANITIZER ? 5 : 1 };

/* For each occurrence of the n bytes `from` in the graph, replaces only this occurrence with `to`,
 * and compares the outputs with and without fusion. */
static void each_change(const char *name, const struct golden *g, const char *from, const char *to,
                        size_t n)
{
    static int n_changes;
    char *graph = malloc(g->n_graph), *at = graph;
    assert_non_null(graph);
    for (;; at++) {
        memcpy(graph, g->graph, g->n_graph);
        at = find(at, graph + g->n_graph, from, n);
        if (!at)
            break;
        if (n_changes++ % CHANGE_STEP)
            continue;
        memcpy(at, to, n);
        struct rt_error err;
        struct rt_tensor a, b;
        int64_t nodes;
        char what[300];
        const struct rt_span span = {(unsigned char *)graph, g->n_graph};
        const enum rt_status p = ask(span, g->fetch, &g->x, true, &a, &nodes, &err);
        const enum rt_status q = ask(span, g->fetch, &g->x, false, &b, &nodes, &err);
        snprintf(what, sizeof what, "%s with %s instead of %s at %d", name, to, from,
                 (int)(at - graph));
        expect_same(p, &a, q, &b, what);
        rt_tensor_clear(&a);
        rt_tensor_clear(&b);
    }
    free(graph);
}

/* Replaces one op or one input with another. A name in the file is preceded by its length, so only
 * a name of the same length can replace it. */
static void damaged(const char *name, const struct golden *g)
{
    static const char *const change[][2] = {
        {"\x04Tanh", "\x04Relu"},
        {"\x03Mul", "\x03Sub"},
        {"\x07Sigmoid", "\x07Softmax"},
        {"while_placeholder_2", "while_placeholder_3"},
        {"while_placeholder_3", "while_placeholder_2"},
        {"split:output:0", "split:output:1"},
        {"split:output:2", "split:output:3"},
        {"mul_2:z:0", "add_1:z:0"},
        {"mul_1:z:0", "mul_2:z:0"},
        /* The following replacements apply to loops with a mask. */
        {"Tile_1:output:0", "Tile_2:output:0"},
        {"SelectV2:output:0", "SelectV2:output:1"},
        {"SelectV2_1:output:0", "SelectV2_2:output:0"},
        {"SelectV2_2:output:0", "SelectV2_1:output:0"},
        {"while_placeholder_4", "while_placeholder_3"},
        {"while_placeholder_4", "while_placeholder_2"},
        /* The following replacements apply to TensorFlow 1 loops. */
        {"while/Identity_3", "while/Identity_4"},
        {"while/Identity_4", "while/Identity_3"},
        {"while/Identity_1", "while/Identity_2"},
        {"rnn/Minimum", "rnn/Maximum"},
        {"\x07Minimum", "\x07Maximum"},
        {"while/Exit_4", "while/Exit_2"},
        {"while/Merge_1", "while/Merge_2"},
        {"rnn/TensorArray_1", "rnn/TensorArray:1"},
        {"rnn/strided_slice_1", "rnn/strided_slice:0"},
        {"cell/split:2", "cell/split:1"},
        /* The following replacements apply to loops with sequence lengths, stacked cells,
         * peepholes, projections or clipping. */
        {"while/Select_1", "while/Select_2"},
        {"while/Select_2", "while/Select_1"},
        {"\x06Select", "\x06Enter_"},
        {"\x03Max", "\x03Min"},
        {"\x07Maximum", "\x07Minimum"},
        {"\x04Relu", "\x04Tanh"},
        {"w_f_diag/read", "w_i_diag/read"},
        {"lstm_cell/add_3", "lstm_cell/add_2"},
        {"lstm_cell/mul_1", "lstm_cell/mul_4"},
        {"gru_cell/mul_1", "gru_cell/mul_2"},
        {"cell/MatMul_1", "cell/BiasAdd_"},
        {"cell_0/", "cell_1/"},
        {"while/Exit_3", "while/Exit_4"},
        {"cell/clip_by_value", "cell/clip_by_valuf"},
        {"kernel/read", "bias//read"},
    };
    if (strstr(name, "both"))
        return;
    for (size_t i = 0; i < sizeof change / sizeof *change; i++)
        each_change(name, g, change[i][0], change[i][1], strlen(change[i][0]));
}

/* Replaces a dimension of -1 in a constant shape with 7, which is not a batch size in the test. */
static void reshaped(const char *name, const struct golden *g)
{
    each_change(name, g, "\xff\xff\xff\xff", "\7\0\0\0", 4);
}

static void graphs_that_differ_in_one_place_answer_as_the_loop_does(void **state)
{
    (void)state;
    if (answer_is_emulated())
        return; /* too slow */
    each_golden(damaged);
    each_golden(reshaped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keras_layers_answer_as_in_tensorflow),
        cmocka_unit_test(other_batches_and_lengths_answer_as_the_loop_does),
        cmocka_unit_test(layers_answer_the_same_bits_on_any_number_of_cores),
        cmocka_unit_test(graphs_that_differ_in_one_place_answer_as_the_loop_does),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
