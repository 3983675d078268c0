/*
 * Tests the kernels that call NVIDIA's libraries. A reference implementation replaces the
 * libraries, and the fake driver replaces the GPU. The results must equal the CPU's node-by-node
 * results, no matter which part of an epilogue the reference implementation computes.
 */
#include "tests/support/test.h"

#include <dlfcn.h>
#include <unistd.h>

#include "kernels/cuda/driver/image.h"
#include "runtime/core/device.h"
#include "tests/gpu/reference_blas.h"
#include "tests/gpu/reference_dnn.h"
#include "tests/support/fused_graph.h"
#include "tests/support/graph_session.h"

/* ---- the GPU ---- */

static struct fused_graph *graph;
static struct rt_accelerators gpus;

/* Loads the fake driver. Afterwards, the name libcuda.so.1 refers to this driver. */
static int load_driver(void **state)
{
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(n > 0);
    path[n] = '\0';
    snprintf(strrchr(path, '/'), 64, "/../fake_cuda/libcuda.so.1");
    if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
        fail_msg("%s", dlerror());
    return fg_set_up(state) || !(graph = *state);
}

static void open_gpu(const char *mode)
{
    struct rt_error err = {0};
    if (!kc_image((enum kc_module)0))
        skip(); /* a binary without GPU code opens no GPU, not even the fake driver's */
    setenv("SLIPWAY_TEST_DNN", mode, 1);
    setenv("SLIPWAY_TEST_BLAS", mode, 1);
    const struct rt_accelerator_options all = {.which = "all", .n_streams = 2};
    assert_ok(rt_registry_open_accelerators(graph->ops, &gpus, &all, &err), &err);
}

static void run_on_gpu(struct rt_tensor *out)
{
    const struct rt_session_options options = {.registry = graph->ops,
                                               .compiles_inline = true,
                                               .accelerators = rt_one_accelerator(gpus.device[0]),
                                               .tuning = {.no_autotune = true}};
    const struct rt_call_spec spec = {.feeds = graph->feed,
                                      .fetches = graph->fetch,
                                      .n_feeds = graph->n_feeds,
                                      .n_fetches = graph->n_fetches};
    struct rt_session *s = gs_open(gd_span(&graph->g), &options);
    struct rt_callable *call = gs_prepare(s, &spec);
    for (int k = 0; k < 2; k++) {
        rt_tensor_clear(out);
        assert_ok(rt_callable_run(call, graph->in, out, NULL, &graph->err), &graph->err);
    }
    rt_session_free(s);
}

/* Compares the CPU's result, node by node, with the GPU's. */
static void compare(const char *what)
{
    struct rt_tensor want = {0}, got = {0};
    int64_t nodes;
    assert_ok(fg_run(graph, FG_UNFUSED, &want, &nodes), &graph->err);
    run_on_gpu(&got);
    fg_assert_near(&want, &got, what);
    rt_tensor_clear(&want);
    rt_tensor_clear(&got);
    fg_clear(graph);
}

/* ---- epilogues ---- */

/* Adds a chain of nodes that becomes the epilogue of `head`. `steps` has one letter per node: m for
 * a product, b for a bias, r for a residual, R for a residual that the output may overwrite, and a
 * for the activation `act`. */
static void add_epilogue(int rank, const int64_t *out, const char *steps, const char *act)
{
    char channels[16], last[16] = "head", name[16], inputs[40];
    snprintf(channels, sizeof channels, "%d", (int)out[rank - 1]);
    for (const char *s = steps; *s; s++) {
        snprintf(name, sizeof name, s[1] ? "step%c" : "out", *s);
        if (*s == 'm' || *s == 'b')
            fg_constant(graph, *s == 'm' ? "scale" : "shift", channels, *s == 'm');
        if (*s == 'r' || *s == 'R') {
            fg_feed(graph, "residual", rank, out);
            fg_node(graph, "negated", "Neg", "residual", "T=float");
        }
        snprintf(inputs, sizeof inputs, "%s %s", last,
                 *s == 'm'   ? "scale"
                 : *s == 'b' ? "shift"
                 : *s == 'r' ? "residual"
                 : *s == 'R' ? "negated"
                             : "");
        fg_node(graph, name, *s == 'm' ? "Mul" : *s == 'a' ? act : "AddV2", inputs, "T=float");
        snprintf(last, sizeof last, "%s", name);
    }
}

static const char *const epilogues[] = {"",    "b",    "m",    "mb", "ba", "a",
                                        "mba", "mbra", "mbRa", "br", "bR", "Ra"};
enum { N_EPILOGUES = sizeof epilogues / sizeof *epilogues };
static const char *const acts[] = {"Relu", "Relu6", "Sigmoid"};

/* ---- convolutions ---- */

struct convolution {
    const char *op;
    int rank;
    int64_t in[5], out[5];
    const char *filter, *attributes;
};

#define ONES_2D "strides=[1,1,1,1]"
static const struct convolution convolutions[] = {
    {"Conv2D", 4, {2, 7, 9, 5}, {2, 7, 9, 6}, "3x3x5x6", "T=float padding='SAME' " ONES_2D},
    {"Conv2D",
     4,
     {1, 8, 8, 3},
     {1, 4, 4, 4},
     "3x3x3x4",
     "T=float padding='SAME' strides=[1,2,2,1]"}, /* the padding after an image is larger than
                                                   * the padding before it */
    {"Conv2D", 4, {3, 6, 5, 4}, {3, 5, 4, 8}, "2x2x4x8", "T=float padding='VALID' " ONES_2D},
    {"Conv2D",
     4,
     {1, 9, 9, 2},
     {1, 9, 9, 3},
     "3x3x2x3",
     "T=float padding='SAME' dilations=[1,2,2,1] " ONES_2D},
    {"Conv2D",
     4,
     {2, 5, 5, 6},
     {2, 5, 5, 4},
     "3x3x3x4", /* two groups */
     "T=float padding='SAME' " ONES_2D},
    {"Conv2D",
     4,
     {1, 9, 9, 3},
     {1, 8, 5, 2},
     "3x3x3x2",
     "T=float padding='EXPLICIT' explicit_paddings=[0,0,5,4,1,6,0,0] strides=[1,2,3,1]"},
    {"Conv2D", 4, {5, 1, 1, 7}, {5, 1, 1, 9}, "1x1x7x9", "T=float padding='SAME' " ONES_2D},
    {"Conv3D",
     5,
     {2, 4, 5, 6, 3},
     {2, 4, 5, 6, 4},
     "3x2x3x3x4",
     "T=float padding='SAME' strides=[1,1,1,1,1]"},
    {"Conv3D",
     5,
     {1, 5, 5, 5, 2},
     {1, 2, 3, 2, 3},
     "2x1x3x2x3",
     "T=float padding='VALID' strides=[1,2,2,2,1]"},
};

static void compare_convolution(const struct convolution *c, const char *steps, const char *act)
{
    char what[128];
    fg_feed(graph, "x", c->rank, c->in);
    fg_constant(graph, "w", c->filter, 0);
    fg_node(graph, *steps ? "head" : "out", c->op, "x w", c->attributes);
    add_epilogue(c->rank, c->out, steps, act);
    fg_fetch(graph, "out");
    snprintf(what, sizeof what, "%s %s %s %s", c->op, c->filter, steps, act);
    compare(what);
}

/* The feeds contain NaN and infinities, so the comparison also covers the results of each
 * activation for these values. */
static void convolutions_give_the_results_of_the_cpu(void **state)
{
    static const char *const modes[] = {"all", "no_relu", "bare", "none"};
    (void)state;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        const int before = reference_dnn_runs();
        open_gpu(modes[m]);
        for (size_t k = 0; k < sizeof convolutions / sizeof *convolutions; k++)
            for (size_t e = 0; e < N_EPILOGUES; e++)
                compare_convolution(&convolutions[k], epilogues[e], acts[(k + e) % 3]);
        gpus.close(&gpus);
        const int n = (int)(sizeof convolutions / sizeof *convolutions) * N_EPILOGUES * 2;
        assert_int_equal(reference_dnn_runs() - before, strcmp(modes[m], "none") == 0 ? 0 : n);
    }
}

static void only_constant_filters_and_scales_go_to_the_library(void **state)
{
    const int before = reference_dnn_runs();
    (void)state;
    open_gpu("all");
    fg_feed(graph, "x", 4, (int64_t[]){1, 5, 5, 2});
    fg_feed(graph, "w", 4, (int64_t[]){3, 3, 2, 4});
    fg_node(graph, "out", "Conv2D", "x w", "T=float padding='SAME' " ONES_2D);
    fg_fetch(graph, "out");
    compare("a filter that is fed");
    fg_feed(graph, "x", 4, (int64_t[]){0, 5, 5, 2});
    fg_constant(graph, "w", "3x3x2x4", 0);
    fg_node(graph, "out", "Conv2D", "x w", "T=float padding='SAME' " ONES_2D);
    fg_fetch(graph, "out");
    compare("no images");
    gpus.close(&gpus);
    assert_int_equal(reference_dnn_runs(), before);
}

/* ---- products ---- */

struct product {
    const char *op;
    int a_rank;
    int64_t a[5];
    const char *b; /* shape of B, a constant */
    int rank;
    int64_t out[5];
    const char *attributes;
    bool is_plain; /* whether the product must run without the library */
};

static const struct product products[] = {
    {"MatMul", 2, {5, 7}, "7x9", 2, {5, 9}, "T=float", false},
    {"MatMul", 2, {7, 5}, "7x9", 2, {5, 9}, "T=float transpose_a=true", false},
    {"MatMul", 2, {5, 7}, "9x7", 2, {5, 9}, "T=float transpose_b=true", false},
    {"MatMul", 2, {7, 5}, "9x7", 2, {5, 9}, "T=float transpose_a=true transpose_b=true", false},
    {"MatMul", 2, {1, 16}, "16x33", 2, {1, 33}, "T=float", false},
    {"MatMul", 2, {1, 7}, "1x4", 2, {7, 4}, "T=float transpose_a=true", false},
    {"MatMul", 2, {7, 1}, "1x4", 2, {7, 4}, "T=float", false},
    {"BatchMatMulV2", 3, {3, 5, 4}, "3x4x6", 3, {3, 5, 6}, "T=float", false},
    {"BatchMatMulV2", 3, {3, 4, 5}, "3x6x4", 3, {3, 5, 6}, "T=float adj_x=true adj_y=true", false},
    {"BatchMatMulV2", 3, {3, 5, 4}, "4x6", 3, {3, 5, 6}, "T=float", false},
    {"BatchMatMulV2", 3, {3, 4, 5}, "4x6", 3, {3, 5, 6}, "T=float adj_x=true", false},
    {"BatchMatMulV2", 2, {5, 4}, "3x4x6", 3, {3, 5, 6}, "T=float", false},
    {"BatchMatMulV2", 4, {2, 3, 5, 4}, "2x3x4x6", 4, {2, 3, 5, 6}, "T=float", false},
    {"BatchMatMulV2", 4, {2, 1, 5, 4}, "1x3x4x6", 4, {2, 3, 5, 6}, "T=float", true},
    {"BatchMatMulV2", 4, {2, 3, 5, 4}, "2x1x4x6", 4, {2, 3, 5, 6}, "T=float", true},
};

static void compare_product(const struct product *p, const char *steps, const char *act)
{
    char what[128];
    fg_feed(graph, "x", p->a_rank, p->a);
    fg_constant(graph, "w", p->b, 0);
    fg_node(graph, *steps ? "head" : "out", p->op, "x w", p->attributes);
    add_epilogue(p->rank, p->out, steps, act);
    fg_fetch(graph, "out");
    snprintf(what, sizeof what, "%s %s, %s, %s %s", p->op, p->b, p->attributes, steps, act);
    compare(what);
}

static void products_give_the_results_of_the_cpu(void **state)
{
    static const char *const modes[] = {"all", "bare", "none"};
    (void)state;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        const int before = reference_blas_runs();
        int n = 0;
        open_gpu(modes[m]);
        for (size_t k = 0; k < sizeof products / sizeof *products; k++)
            for (size_t e = 0; e < N_EPILOGUES; e++) {
                compare_product(&products[k], epilogues[e], acts[(k + e) % 3]);
                n += products[k].is_plain ? 0 : 2;
            }
        gpus.close(&gpus);
        assert_int_equal(reference_blas_runs() - before, strcmp(modes[m], "none") == 0 ? 0 : n);
    }
}

static void products_without_elements_stay_on_the_plain_kernel(void **state)
{
    const int before = reference_blas_runs();
    (void)state;
    open_gpu("all");
    compare_product(&(struct product){"MatMul", 2, {0, 7}, "7x9", 2, {0, 9}, "T=float", true}, "b",
                    "Relu");
    gpus.close(&gpus);
    assert_int_equal(reference_blas_runs(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_give_the_results_of_the_cpu),
        cmocka_unit_test(only_constant_filters_and_scales_go_to_the_library),
        cmocka_unit_test(products_give_the_results_of_the_cpu),
        cmocka_unit_test(products_without_elements_stay_on_the_plain_kernel),
    };
    return cmocka_run_group_tests(tests, load_driver, fg_tear_down);
}
