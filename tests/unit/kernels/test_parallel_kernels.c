#include "tests/support/test.h"

#include <math.h>

#include "kernels/cpu/parallel.h"
#include "kernels/kernels.h"
#include "runtime/exec/parallel.h"
#include "runtime/session/session.h"
#include "tests/support/draw.h"
#include "tests/support/graph_def.h"

/* Tests kernels that shard their work over cores. These kernels must give the same bits on any
 * number of cores. */

struct fixture {
    struct rt_bytes g;
    struct rt_registry *ops;
    struct rt_error err;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    rt_bytes_init(&x->g, 1 << 26);
    x->ops = rt_registry_new();
    *state = x;
    return x->ops && kn_register(x->ops) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    rt_bytes_clear(&x->g);
    rt_registry_free(x->ops);
    free(x);
    return 0;
}

static struct rt_tensor floats(struct fixture *x, int rank, const int64_t *dim)
{
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, rank, dim, &x->err), &x->err);
    for (int64_t i = 0; i < rt_tensor_count(&t); i++)
        ((float *)t.data)[i] = draw();
    return t;
}

/* Adds a constant of the given shape, such as "3,3,64,64", with `n` random values. */
static void constant(struct fixture *x, const char *name, const char *shape, int64_t n)
{
    const size_t capacity = (size_t)n * 10 + 200;
    char *text = malloc(capacity);
    size_t at = (size_t)snprintf(text, capacity, "dtype=float value=float<%s>:", shape);
    for (int64_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, capacity - at, i ? ",%.4f" : "%.4f", (double)draw());
    gd_node(&x->g, name, "Const", "", text);
    free(text);
}

static struct rt_tensor answer(struct fixture *x, struct rt_parallel *parallel,
                               const struct rt_tensor *in)
{
    static const char *const feeds[] = {"x:0"}, *const fetches[] = {"y:0"};
    const struct rt_call_spec spec = {
        .feeds = feeds, .n_feeds = 1, .fetches = fetches, .n_fetches = 1};
    /* In two sessions, autotuning might choose different kernels, whose outputs might have
     * different bits. */
    const struct rt_session_options options = {
        .registry = x->ops, .parallel = parallel, .tuning = {.no_autotune = true}};
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_callable *c;
    struct rt_tensor first, out;

    assert_ok(rt_library_import(&l, gd_span(&x->g), x->ops, &x->err), &x->err);
    assert_ok(rt_session_new(&s, l, &options, &x->err), &x->err);
    assert_ok(rt_session_prepare(s, &spec, &c, &x->err), &x->err);
    assert_ok(rt_callable_run(c, in, &first, NULL, &x->err), &x->err);
    assert_ok(rt_callable_run(c, in, &out, NULL, &x->err), &x->err);
    assert_memory_equal(first.data, out.data, rt_tensor_bytes(&out));
    rt_tensor_clear(&first);
    rt_session_free(s);
    return out;
}

/* Runs the graph in x->g, from x to y, on one core and on several cores, compares the bits, and
 * empties the graph. */
static void same_bits(struct fixture *x, int rank, const int64_t *dim, bool with_nan)
{
    static const int widths[] = {2, 3, 7};
    struct rt_tensor in = floats(x, rank, dim);
    if (with_nan)
        ((float *)in.data)[rt_tensor_count(&in) / 2] = NAN;
    struct rt_tensor one = answer(x, NULL, &in);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct rt_parallel *p = rt_parallel_new(widths[i], widths[i]);
        assert_non_null(p);
        struct rt_tensor many = answer(x, p, &in);
        assert_int_equal(rt_tensor_bytes(&one), rt_tensor_bytes(&many));
        assert_memory_equal(one.data, many.data, rt_tensor_bytes(&one));
        rt_tensor_clear(&many);
        rt_parallel_free(p);
    }
    rt_tensor_clear(&one);
    rt_tensor_clear(&in);
    rt_bytes_clear(&x->g);
    rt_bytes_init(&x->g, 1 << 26);
}

#define SHAPE(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void input(struct fixture *x)
{
    gd_node(&x->g, "x", "Placeholder", "", "dtype=float");
}

struct conv {
    const char *op;
    /* In a depthwise convolution, co is the number of output channels per input channel. */
    int64_t batch, side, ci, co, size;
    const char *how;
};

static void a_convolution(struct fixture *x, const struct conv *c, bool with_epilogue,
                          bool with_nan)
{
    char shape[64], attrs[200];
    const bool depthwise = c->op[0] == 'D';
    const int64_t channels = depthwise ? c->ci * c->co : c->co;
    input(x);
    snprintf(shape, sizeof shape, "%d,%d,%d,%d", (int)c->size, (int)c->size, (int)c->ci,
             (int)c->co);
    constant(x, "w", shape, c->size * c->size * c->ci * c->co);
    snprintf(attrs, sizeof attrs, "T=float %s", c->how);
    gd_node(&x->g, with_epilogue ? "c" : "y", c->op, "x w", attrs);
    if (with_epilogue) {
        snprintf(shape, sizeof shape, "%d", (int)channels);
        constant(x, "b", shape, channels);
        gd_node(&x->g, "d", "BiasAdd", "c b", "T=float");
        gd_node(&x->g, "y", "Relu", "d", "T=float");
    }
    same_bits(x, SHAPE(c->batch, c->side, c->side, c->ci), with_nan);
}

static void convolutions_do_not_depend_on_the_cores(void **state)
{
#define ONE  "strides=[1,1,1,1] "
#define TWO  "strides=[1,2,2,1] "
#define SAME "padding='SAME'"
    static const struct conv cases[] = {
        {"Conv2D", 1, 14, 64, 64, 3, ONE SAME},
        {"Conv2D", 2, 56, 64, 64, 3, ONE SAME},
        {"Conv2D", 1, 29, 128, 96, 3, ONE SAME},
        {"Conv2D", 1, 15, 48, 40, 3, TWO SAME},
        {"Conv2D", 3, 14, 64, 48, 3, ONE "padding='VALID'"},
        {"Conv2D", 8, 7, 64, 64, 1, ONE SAME},
        {"Conv2D", 1, 7, 512, 320, 1, ONE SAME},
        {"Conv2D", 1, 7, 160, 352, 3, TWO SAME},
        {"Conv2D", 1, 28, 64, 128, 1, TWO SAME},
        {"Conv2D", 1, 61, 3, 32, 7, TWO SAME},
        {"Conv2D", 2, 17, 32, 32, 3, ONE "dilations=[1,2,2,1] " SAME},
        {"Conv2D", 1, 40, 33, 17, 5, ONE SAME},
        {"DepthwiseConv2dNative", 1, 56, 96, 1, 3, ONE SAME},
        {"DepthwiseConv2dNative", 2, 57, 64, 1, 5, TWO SAME},
    };
    struct fixture *x = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int epilogue = 0; epilogue < 2; epilogue++)
            a_convolution(x, &cases[i], epilogue, false);
    a_convolution(x, &cases[0], true, true);
    a_convolution(x, &cases[6], true, true);
    a_convolution(x, &cases[7], true, true);
}

static void a_matmul(struct fixture *x, int64_t m, int64_t k, int64_t n, bool epilogue, bool nan)
{
    char shape[64];
    input(x);
    snprintf(shape, sizeof shape, "%d,%d", (int)k, (int)n);
    constant(x, "w", shape, k * n);
    gd_node(&x->g, epilogue ? "c" : "y", "MatMul", "x w", "T=float");
    if (epilogue) {
        snprintf(shape, sizeof shape, "%d", (int)n);
        constant(x, "b", shape, n);
        gd_node(&x->g, "d", "BiasAdd", "c b", "T=float");
        gd_node(&x->g, "y", "Relu", "d", "T=float");
    }
    same_bits(x, SHAPE(m, k), nan);
}

static void a_matmul_does_not_depend_on_the_cores(void **state)
{
    struct fixture *x = *state;
    for (int epilogue = 0; epilogue < 2; epilogue++) {
        a_matmul(x, 128, 192, 256, epilogue, false);
        a_matmul(x, 67, 300, 200, epilogue, false);
        a_matmul(x, 32, 400, 500, epilogue, false);
        a_matmul(x, 1, 512, 300, epilogue, false);
        a_matmul(x, 1024, 70, 90, epilogue, false);
        a_matmul(x, 2450, 513, 2, epilogue,
                 false); /* the complete matmul is not a small GEMM, but its shards are */
        a_matmul(x, 40000, 513, 2, epilogue, false);
    }
    a_matmul(x, 128, 192, 256, true, true);
    a_matmul(x, 32, 400, 500, true, true);
    /* Multiplies a few rows of a large matrix by that matrix. */
    for (int rows = 1; rows <= 20; rows += 4) {
        char attrs[80];
        input(x);
        snprintf(attrs, sizeof attrs, "dtype=int32 value=int32<2>:%d,2000", rows);
        gd_node(&x->g, "from", "Const", "", "dtype=int32 value=int32<2>:0,0");
        gd_node(&x->g, "size", "Const", "", attrs);
        gd_node(&x->g, "s", "Slice", "x from size", "T=float Index=int32");
        gd_node(&x->g, "y", "MatMul", "s x", "T=float");
        same_bits(x, SHAPE(2000, 2000), false);
    }
    for (int transposed = 0; transposed < 2; transposed++) {
        input(x);
        gd_node(&x->g, "y", "BatchMatMulV2", "x x",
                transposed ? "T=float adj_x=false adj_y=true" : "T=float adj_x=true adj_y=false");
        same_bits(x, SHAPE(12, 64, 128), false);
        input(x);
        gd_node(&x->g, "y", "MatMul", "x x",
                transposed ? "T=float transpose_a=false transpose_b=true"
                           : "T=float transpose_a=true transpose_b=false");
        same_bits(x, SHAPE(301, 333), false);
    }
}

static void loops_over_memory_do_not_depend_on_the_cores(void **state)
{
    struct fixture *x = *state;
    static const char *const maps[] = {"Relu", "Exp", "Tanh", "Softmax", "Sigmoid"};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        input(x);
        gd_node(&x->g, "y", maps[i], "x", "T=float");
        same_bits(x, SHAPE(301, 1003), false);
        input(x);
        gd_node(&x->g, "y", maps[i], "x", "T=float");
        same_bits(x, SHAPE(70001, 5), false);
    }
    static const char *const shapes[] = {"1003", "301,1", "1", "301,1003"};
    static const int64_t counts[] = {1003, 301, 1, 301 * 1003};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        input(x);
        constant(x, "w", shapes[i], counts[i]);
        gd_node(&x->g, "y", "AddV2", "x w", "T=float");
        same_bits(x, SHAPE(301, 1003), false);
    }
    input(x);
    constant(x, "w", "3", 3);
    gd_node(&x->g, "y", "Mul", "x w", "T=float");
    same_bits(x, SHAPE(300, 301, 3), false);
    static const char *const axes[] = {"int32<1>:0", "int32<1>:1", "int32<2>:1,2",
                                       "int32<3>:0,1,2"};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        char attrs[80];
        input(x);
        snprintf(attrs, sizeof attrs, "dtype=int32 value=%s", axes[i]);
        gd_node(&x->g, "a", "Const", "", attrs);
        gd_node(&x->g, "y", "Mean", "x a", "T=float Tidx=int32 keep_dims=false");
        same_bits(x, SHAPE(9, 151, 200), false);
    }
    input(x);
    gd_node(&x->g, "a", "Const", "", "dtype=int32 value=int32<3>:2,0,1");
    gd_node(&x->g, "y", "Transpose", "x a", "T=float Tperm=int32");
    same_bits(x, SHAPE(41, 77, 101), false);
    input(x);
    gd_node(&x->g, "a", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(&x->g, "y", "ConcatV2", "x x x a", "N=3 T=float Tidx=int32");
    same_bits(x, SHAPE(301, 1003), false);
}

static void even_sizes_are_as_many_for_each_core_as_n_allows(void **state)
{
    (void)state;
    assert_int_equal(kn_even_size(0, 8, 4), 1);
    assert_int_equal(kn_even_size(1, 8, 4), 1);
    assert_int_equal(kn_even_size(1, 0, 4), 1);
    assert_int_equal(kn_even_size(7, 8, 4), 7); /* makes one shard */
    assert_int_equal(kn_even_size(20, 10, 4), 10);
    /* For four cores, eight shards are made, because five is not a multiple of four. */
    assert_int_equal(kn_even_size(48, 10, 4), 6);
    /* Five shards are made, because no shard size gives six. */
    assert_int_equal(kn_even_size(10, 3, 3), 2);
    assert_int_equal(kn_even_size(100, 40, 1), 34);
    for (int64_t n = 1; n < 100; n++)
        for (int64_t most = 1; most < 30; most++)
            for (int64_t width = 1; width < 9; width++) {
                const int64_t size = kn_even_size(n, most, width), parts = kn_div_up(n, size);
                const int64_t least = kn_div_up(n, most);
                assert_in_range(size, 1, most);
                if (least <= width || width == 1) {
                    assert_int_equal(size, kn_div_up(n, least));
                } else {
                    /* No core computes more shards than necessary. Subject to this limit, shards
                     * are as small as possible. */
                    assert_int_equal(kn_div_up(parts, width), kn_div_up(least, width));
                    assert_int_equal(size, kn_div_up(n, kn_round_up(least, width)));
                }
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_sizes_are_as_many_for_each_core_as_n_allows),
        cmocka_unit_test_setup_teardown(convolutions_do_not_depend_on_the_cores, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_matmul_does_not_depend_on_the_cores, set_up, tear_down),
        cmocka_unit_test_setup_teardown(loops_over_memory_do_not_depend_on_the_cores, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
