/*
 * Tests every kernel that can write its output over the residual. The kernel must reuse the
 * residual's memory (kernels/fused/epilogue.h). The outputs are compared with those of the same
 * graph without fusion.
 */
#include "tests/support/test.h"

#include <math.h>
#include <stdatomic.h>

#include "runtime/select/autotune.h"
#include "runtime/api/describe.h"
#include "runtime/exec/parallel.h"
#include "tests/support/draw.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"
#include "tests/support/registry.h"

enum { RANK = 4, MANY = 1 << 22 };

struct layer {
    const char *kernel, *op, *attrs;
    int rank;
    int64_t x[RANK], w[RANK], y[RANK];
};

#define SAME   "T=float padding='SAME' strides=[1,1,1,1]"
#define VALID  "T=float padding='VALID' strides=[1,1,1,1]"
#define TWO    "T=float padding='SAME' strides=[1,2,2,1]"
#define PADDED "T=float padding='EXPLICIT' explicit_paddings=[0,0,1,2,0,0,0,0] strides=[1,1,1,1]"
static const struct layer layers[] = {
    {"conv2d.product", "Conv2D", SAME, 4, {2, 7, 5, 136}, {1, 1, 136, 44}, {2, 7, 5, 44}},
    {"conv2d.product", "Conv2D", TWO, 4, {3, 9, 13, 20}, {3, 3, 20, 40}, {3, 5, 7, 40}},
    {"conv2d.product", "Conv2D", VALID, 4, {1, 6, 6, 96}, {6, 6, 96, 80}, {1, 1, 1, 80}},
    {"conv2d.winograd2", "Conv2D", SAME, 4, {2, 13, 11, 32}, {3, 3, 32, 48}, {2, 13, 11, 48}},
    {"conv2d.winograd4", "Conv2D", SAME, 4, {2, 13, 11, 32}, {3, 3, 32, 48}, {2, 13, 11, 48}},
    {"conv2d.winograd4", "Conv2D", SAME, 4, {1, 24, 24, 64}, {3, 3, 64, 32}, {1, 24, 24, 32}},
    {"conv2d.line", "Conv2D", SAME, 4, {2, 10, 9, 32}, {1, 7, 32, 48}, {2, 10, 9, 48}},
    {"conv2d.line", "Conv2D", SAME, 4, {2, 10, 9, 32}, {7, 1, 32, 48}, {2, 10, 9, 48}},
    {"conv2d.onednn", "Conv2D", SAME, 4, {2, 13, 11, 20}, {3, 3, 20, 30}, {2, 13, 11, 30}},
    /* oneDNN shards the work of the following layer by rows */
    {"conv2d.onednn", "Conv2D", SAME, 4, {1, 41, 41, 24}, {1, 1, 24, 160}, {1, 41, 41, 160}},
    /* oneDNN shards the work of the following layer by images */
    {"conv2d.onednn", "Conv2D", SAME, 4, {9, 11, 11, 24}, {1, 1, 24, 160}, {9, 11, 11, 160}},
    /* oneDNN shards the work of the following layer by channels */
    {"conv2d.onednn", "Conv2D", SAME, 4, {1, 4, 4, 128}, {3, 3, 128, 264}, {1, 4, 4, 264}},
    /* some output rows lie in the padding, so their sums have no terms */
    {"conv2d.onednn", "Conv2D", PADDED, 4, {1, 0, 4, 8}, {1, 1, 8, 24}, {1, 3, 4, 24}},
    {"matmul.packed", "MatMul", "T=float", 2, {70, 100}, {100, 72}, {70, 72}},
    {"matmul.packed", "MatMul", "T=float", 2, {3, 513}, {513, 100}, {3, 100}},
    {"matmul.packed", "MatMul", "T=float transpose_b=true", 2, {5, 640}, {640, 640}, {5, 640}},
    /* oneDNN computes the following layer on every processor. */
    {"matmul.packed", "MatMul", "T=float transpose_a=true", 2, {100, 70}, {100, 72}, {70, 72}},
    /* The following layer has too many weights to be packed, so oneDNN also computes it. */
    {"matmul.gemm", "MatMul", "T=float", 2, {3, 1024}, {1024, 8200}, {3, 8200}},
};

struct way {
    const char *kernel;
    bool bf16, no_fusion;
    struct rt_parallel *parallel;
};

static struct rt_error err;

static int64_t clock_says(void *arg, const struct rt_kernel *k, int64_t batch)
{
    const struct way *w = arg;
    return (!w->no_fusion && strcmp(k->name, w->kernel) == 0 ? 1000 : 1000000) * batch;
}

static void constant(struct rt_bytes *g, const char *name, int rank, const int64_t *dim, float add)
{
    struct rt_bytes value;
    rt_bytes_init(&value, 1 << 24);
    rt_bytes_addf(&value, "dtype=float value=float<");
    int64_t n = 1;
    for (int i = 0; i < rank; n *= dim[i], i++)
        rt_bytes_addf(&value, "%s%d", i ? "," : "", (int)dim[i]);
    rt_bytes_addf(&value, ">:");
    if (n >= MANY) /* all values are equal to a number that bfloat16 represents exactly */
        rt_bytes_addf(&value, "%g", 1.0 / 128);
    for (int64_t i = 0; i < n && n < MANY; i++)
        rt_bytes_addf(&value, i ? ",%.3g" : "%.3g", (double)(draw() + add));
    gd_node(g, name, "Const", "", value.p);
    rt_bytes_clear(&value);
}

/* Writes a graph that computes `relu6(n + (op(nx, w) * scale + shift))`. The graph computes
 * `n = -r` and `nx = -x`, so kernels may overwrite n and nx. */
static void network(struct rt_bytes *g, const struct layer *l, const char *sum)
{
    rt_bytes_init(g, 1 << 25);
    gd_node(g, "x", "Placeholder", "", "dtype=float");
    gd_node(g, "r", "Placeholder", "", "dtype=float");
    constant(g, "w", l->rank, l->w, 0);
    constant(g, "scale", 1, &l->y[l->rank - 1], 2);
    constant(g, "shift", 1, &l->y[l->rank - 1], 0);
    gd_node(g, "nx", "Neg", "x", "T=float");
    gd_node(g, "n", "Neg", "r", "T=float");
    gd_node(g, "c", l->op, "nx w", l->attrs);
    gd_node(g, "m", "Mul", "c scale", "T=float");
    gd_node(g, "b", "AddV2", "m shift", "T=float");
    gd_node(g, "sum", "AddV2", sum, "T=float");
    gd_node(g, "act", "Relu6", "sum", "T=float");
    gd_node(g, "later", "Mul", "act n", "T=float");
    gd_node(g, "y", "Abs", "act", "T=float");
}

/* Asserts that the plan runs the kernel of `w`, and that with bf16 the packed weights of this
 * kernel take fewer bytes than the plain weights. */
static void assert_ran(const struct rt_described_plan *plan, const struct way *w)
{
    for (int i = 0; i < plan->n_nodes; i++) {
        const struct rt_described_node *n = &plan->node[i];
        if (!n->kernel || strcmp(n->kernel, w->kernel) != 0)
            continue;
        if (w->bf16)
            assert_true(n->packed_bytes > 0 && n->packed_bytes < n->plain_bytes);
        return;
    }
    fail_msg("%s did not run", w->kernel);
}

/* Runs the graph and returns "y". Sets *activations to the size of the activation buffer in bytes.
 * If `later` is true, a node after the sum reads the residual again. */
static struct rt_tensor answer(const struct rt_bytes *g, const struct way *w, bool compiled,
                               bool later, const struct rt_tensor *in, size_t *activations)
{
    static const char *const feeds[] = {"x:0", "r:0"}, *const fetches[] = {"y:0", "later:0"};
    const struct rt_call_spec spec = {
        .feeds = feeds, .n_feeds = 2, .fetches = fetches, .n_fetches = later ? 2 : 1};
    struct rt_autotune *autotune = rt_autotune_new(NULL);
    const struct rt_session_options o = {.registry = test_registry,
                                         .autotune = autotune,
                                         .parallel = w->parallel,
                                         .compiles_inline = compiled,
                                         .tuning = {.no_fusion = w->no_fusion, .bf16 = w->bf16}};
    struct rt_described_plan plan;
    struct rt_tensor out[2] = {{0}};
    struct rt_arena *arena = rt_arena_new(1 << 20);

    assert_non_null(autotune);
    rt_autotune_inject(autotune, clock_says, (void *)(uintptr_t)w);
    struct rt_session *s = gs_open(gd_span(g), &o);
    struct rt_callable *c = gs_prepare(s, &spec);
    assert_ok(rt_callable_run(c, in, out, NULL, &err), &err);
    assert_ok(rt_callable_describe(c, arena, &plan, &err), &err);
    if (!w->no_fusion)
        assert_ran(&plan, w);
    *activations = plan.activation_bytes;
    rt_arena_free(arena);
    rt_tensor_clear(&out[1]);
    rt_session_free(s);
    rt_autotune_free(autotune);
    return out[0];
}

static void assert_near(const struct rt_tensor *a, const struct rt_tensor *b, const char *what)
{
    const float *x = a->data, *y = b->data;

    assert_int_equal(rt_tensor_count(a), rt_tensor_count(b));
    for (int64_t i = 0; i < rt_tensor_count(a); i++)
        if (!(isnan(x[i]) && isnan(y[i])) && !(fabs((double)x[i] - (double)y[i]) <= 2e-3))
            fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i, (double)y[i],
                     (double)x[i]);
}

/* Returns a tensor of random numbers. If `special` is true, they include a NaN and an infinity. */
static struct rt_tensor floats(int rank, const int64_t *dim, bool special)
{
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, rank, dim, &err), &err);
    const int64_t n = rt_tensor_count(&t);
    for (int64_t i = 0; i < n; i++)
        ((float *)t.data)[i] = draw();
    if (special && n > 9) {
        ((float *)t.data)[n / 2] = NAN;
        ((float *)t.data)[n / 3] = INFINITY;
    }
    return t;
}

static void compare(const struct layer *l, const char *sum, bool bf16)
{
    struct rt_parallel *cores = rt_parallel_new(3, 3);
    const struct way unfused = {.no_fusion = true};
    const struct way ways[] = {{.kernel = l->kernel, .bf16 = bf16},
                               {.kernel = l->kernel, .bf16 = bf16, .parallel = cores}};
    struct rt_tensor in[2] = {floats(l->rank, l->x, false), floats(l->rank, l->y, true)};
    struct rt_bytes g;
    char what[120];
    size_t over, apart;

    network(&g, l, sum);
    struct rt_tensor expected = answer(&g, &unfused, false, false, in, &over);
    for (int i = 0; i < 2; i++) {
        snprintf(what, sizeof what, "%s of %lld by %lld, %s, way %d", l->op, (long long)l->x[1],
                 (long long)l->w[0], sum, i);
        struct rt_tensor out = answer(&g, &ways[i], false, false, in, &over);
        assert_near(&expected, &out, what);
        rt_tensor_clear(&out);
        out = answer(&g, &ways[i], true, false, in, &over);
        assert_near(&expected, &out, what);
        rt_tensor_clear(&out);
        /* A residual that a later node reads keeps its memory, and the output needs its own
         * memory. */
        out = answer(&g, &ways[i], true, true, in, &apart);
        assert_near(&expected, &out, what);
        if (apart < over + rt_tensor_bytes(&expected))
            fail_msg("%s: not over its residual: %zu bytes, and apart %zu", what, over, apart);
        rt_tensor_clear(&out);
    }
    rt_tensor_clear(&expected);
    rt_tensor_clear(&in[0]);
    rt_tensor_clear(&in[1]);
    rt_bytes_clear(&g);
    rt_parallel_free(cores);
}

static void an_output_may_lie_over_its_residual(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        compare(&layers[i], i % 2 ? "n b" : "b n", false);
}

/* The matrix has enough weights to be packed into panels. */
static void so_it_may_where_weights_are_kept_in_bfloat16(void **state)
{
    static const struct layer l = {"matmul.packed", "MatMul",     "T=float", 2,
                                   {3, 1024},       {1024, 8200}, {3, 8200}};
    (void)state;
    compare(&l, "n b", true);
    compare(&l, "b n", true);
}

static void it_does_not_where_the_input_is_the_residual(void **state)
{
    static const struct layer l[] = {
        {"conv2d.product", "Conv2D", SAME, 4, {2, 7, 5, 136}, {1, 1, 136, 136}, {2, 7, 5, 136}},
        {"conv2d.winograd2", "Conv2D", SAME, 4, {1, 9, 9, 32}, {3, 3, 32, 32}, {1, 9, 9, 32}},
        {"conv2d.line", "Conv2D", SAME, 4, {1, 9, 9, 32}, {1, 3, 32, 32}, {1, 9, 9, 32}},
        {"conv2d.onednn", "Conv2D", SAME, 4, {1, 9, 9, 20}, {3, 3, 20, 20}, {1, 9, 9, 20}},
        {"matmul.packed", "MatMul", "T=float", 2, {9, 72}, {72, 72}, {9, 72}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof l / sizeof *l; i++) {
        const struct way unfused = {.no_fusion = true}, way = {.kernel = l[i].kernel};
        struct rt_tensor in[2] = {floats(l[i].rank, l[i].x, false),
                                  floats(l[i].rank, l[i].y, false)};
        struct rt_bytes g;
        size_t over;
        network(&g, &l[i], "nx b");
        struct rt_tensor expected = answer(&g, &unfused, false, false, in, &over);
        struct rt_tensor out = answer(&g, &way, true, false, in, &over);
        assert_near(&expected, &out, l[i].op);
        rt_tensor_clear(&expected);
        rt_tensor_clear(&out);
        rt_tensor_clear(&in[0]);
        rt_tensor_clear(&in[1]);
        rt_bytes_clear(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_output_may_lie_over_its_residual),
        cmocka_unit_test(so_it_may_where_weights_are_kept_in_bfloat16),
        cmocka_unit_test(it_does_not_where_the_input_is_the_residual),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
