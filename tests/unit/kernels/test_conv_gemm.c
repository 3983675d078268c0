/* Tests convolutions that run as a GEMM with a packed filter and an epilogue. They are compared
 * with oneDNN's convolution followed by separate nodes, for many combinations of window, number of
 * channels, number of cores and activation. */
#include "tests/support/test.h"

#include <math.h>
#include <stdatomic.h>

#include "runtime/select/autotune.h"
#include "runtime/exec/parallel.h"
#include "runtime/session/session.h"
#include "tests/support/draw.h"
#include "tests/support/graph_def.h"
#include "tests/support/registry.h"

struct shape {
    int64_t batch, in_h, in_w, ci, co;
    int size_h, size_w;
    const char *attrs;
};

struct way {
    const char *kernel;
    bool no_fusion;
    struct rt_parallel *parallel;
    atomic_int asked; /* number of times that autotuning has timed `kernel` */
};

static int64_t clock_says(void *arg, const struct rt_kernel *k, int64_t batch)
{
    struct way *w = arg;
    const bool wanted = strcmp(k->name, w->kernel) == 0;
    atomic_fetch_add(&w->asked, wanted);
    return (wanted ? 1000 : 1000000) * batch;
}

static void constant(struct rt_bytes *g, const char *name, const char *shape, int64_t n, float add)
{
    struct rt_bytes value;
    rt_bytes_init(&value, 1 << 24);
    rt_bytes_addf(&value, "dtype=float value=float<%s>:", shape);
    for (int64_t i = 0; i < n; i++)
        rt_bytes_addf(&value, i ? ",%.5g" : "%.5g", (double)(draw() + add));
    gd_node(g, name, "Const", "", value.p);
    rt_bytes_clear(&value);
}

/* Writes a graph that computes `activation(conv(x) * scale + shift - r)`. */
static void network(struct rt_bytes *g, const struct shape *s, const char *act)
{
    char shape[64];
    snprintf(shape, sizeof shape, "%d,%d,%d,%d", s->size_h, s->size_w, (int)s->ci, (int)s->co);
    gd_node(g, "x", "Placeholder", "", "dtype=float shape=<?>");
    gd_node(g, "r", "Placeholder", "", "dtype=float shape=<?>");
    constant(g, "w", shape, s->size_h * s->size_w * s->ci * s->co, 0);
    snprintf(shape, sizeof shape, "%d", (int)s->co);
    constant(g, "scale", shape, s->co, 2);
    constant(g, "shift", shape, s->co, 0);
    gd_node(g, "c", "Conv2D", "x w", s->attrs);
    gd_node(g, "m", "Mul", "c scale", "T=float");
    gd_node(g, "b", "AddV2", "m shift", "T=float");
    /* "n" has only one reader, so the sum may be written over it. */
    gd_node(g, "n", "Neg", "r", "T=float");
    gd_node(g, "sum", "AddV2", "b n", "T=float");
    gd_node(g, "y", act, "sum", "T=float");
}

static struct rt_tensor answer(const struct rt_bytes *g, struct way *w, const struct rt_tensor *in)
{
    static const char *const feeds[] = {"x:0", "r:0"}, *const fetches[] = {"y:0"};
    const struct rt_call_spec spec = {
        .feeds = feeds, .n_feeds = 2, .fetches = fetches, .n_fetches = 1};
    struct rt_autotune *autotune = rt_autotune_new(NULL);
    const struct rt_session_options o = {.registry = test_registry,
                                         .autotune = autotune,
                                         .parallel = w->parallel,
                                         .tuning = {.no_fusion = w->no_fusion}};
    struct rt_error err = {.arena = NULL};
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_callable *c;
    struct rt_tensor out = {0};

    assert_non_null(autotune);
    rt_autotune_inject(autotune, clock_says, w);
    assert_ok(rt_library_import(&l, gd_span(g), test_registry, &err), &err);
    assert_ok(rt_session_new(&s, l, &o, &err), &err);
    assert_ok(rt_session_prepare(s, &spec, &c, &err), &err);
    assert_ok(rt_callable_run(c, in, &out, NULL, &err), &err);
    rt_session_free(s);
    rt_autotune_free(autotune);
    return out;
}

static void assert_alike(const struct rt_tensor *a, const struct rt_tensor *b, double tolerance,
                         const char *what)
{
    const float *x = a->data, *y = b->data;
    double largest = 1;

    assert_int_equal(rt_tensor_count(a), rt_tensor_count(b));
    for (int64_t i = 0; i < rt_tensor_count(a); i++)
        if (isfinite(x[i]) && fabs((double)x[i]) > largest)
            largest = fabs((double)x[i]);
    for (int64_t i = 0; i < rt_tensor_count(a); i++)
        if (!(isnan(x[i]) && isnan(y[i])) && x[i] != y[i] &&
            !(fabs((double)x[i] - (double)y[i]) <= tolerance * largest))
            fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i, (double)y[i],
                     (double)x[i]);
}

static struct rt_tensor floats(int64_t n, int64_t h, int64_t w, int64_t c, bool odd)
{
    struct rt_error err = {.arena = NULL};
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 4, (int64_t[]){n, h, w, c}, &err), &err);
    float *v = t.data;
    const int64_t count = rt_tensor_count(&t);
    for (int64_t i = 0; i < count; i++)
        v[i] = draw();
    if (odd && count > 20) {
        v[count / 2] = NAN;
        v[count / 5] = INFINITY;
        v[count / 3] = -INFINITY;
        v[3] = -0.0f;
    }
    return t;
}

static void compare(const struct shape *s, const char *act, bool odd)
{
    struct rt_bytes g;
    char what[200];
    struct rt_parallel *cores[] = {NULL, rt_parallel_new(3, 3), rt_parallel_new(7, 7)};
    struct rt_tensor in[2] = {floats(s->batch, s->in_h, s->in_w, s->ci, odd)};
    struct rt_tensor out, first = {0};
    /* The error of a sum is relative to its largest terms. assert_alike scales the tolerance by the
     * largest result. After Tanh, the largest result is only 1. */
    const double tolerance = strcmp(act, "Tanh") == 0 ? 3e-4 : 2e-5;

    rt_bytes_init(&g, 1 << 25);
    network(&g, s, act);
    snprintf(what, sizeof what, "%lldx%lldx%lldx%lld, %dx%d, %lld, %s", (long long)s->batch,
             (long long)s->in_h, (long long)s->in_w, (long long)s->ci, s->size_h, s->size_w,
             (long long)s->co, s->attrs);
    struct way apart = {.kernel = "conv2d.onednn", .no_fusion = true};
    /* The first run determines the shape of the output, which the residual must also have. */
    in[1] = floats(1, 1, 1, s->co, false);
    struct rt_tensor shape = answer(&g, &apart, in);
    rt_tensor_clear(&in[1]);
    in[1] = floats(shape.dim[0], shape.dim[1], shape.dim[2], shape.dim[3], odd);
    struct rt_tensor expected = answer(&g, &apart, in);
    for (int i = 0; i < 3; i++) {
        struct way joined = {.kernel = "conv2d.product", .parallel = cores[i]};
        out = answer(&g, &joined, in);
        assert_true(atomic_load(&joined.asked) > 0 || rt_tensor_count(&out) == 0);
        assert_alike(&expected, &out, tolerance, what);
        if (i == 0)
            rt_tensor_ref(&first, &out);
        else /* the number of cores must not change a single bit of the output */
            assert_alike(&first, &out, 0, what);
        rt_tensor_clear(&out);
    }
    struct way library = {.kernel = "conv2d.onednn", .parallel = cores[1]};
    out = answer(&g, &library, in);
    assert_alike(&expected, &out, tolerance, what);
    rt_tensor_clear(&out);
    /* The residual has only one pixel, which is broadcast to all pixels. */
    rt_tensor_clear(&in[1]);
    in[1] = floats(1, 1, 1, s->co, false);
    struct way joined = {.kernel = "conv2d.product", .parallel = cores[1]};
    rt_tensor_clear(&shape);
    shape = answer(&g, &apart, in);
    out = answer(&g, &joined, in);
    assert_alike(&shape, &out, tolerance, what);
    rt_tensor_clear(&out);
    rt_tensor_clear(&shape);
    rt_tensor_clear(&first);
    rt_tensor_clear(&expected);
    for (int i = 0; i < 2; i++)
        rt_tensor_clear(&in[i]);
    for (int i = 0; i < 3; i++)
        rt_parallel_free(cores[i]);
    rt_bytes_clear(&g);
}

#define SAME  "T=float strides=[1,1,1,1] padding='SAME'"
#define VALID "T=float strides=[1,1,1,1] padding='VALID'"
static const struct shape shapes[] = {
    {1, 7, 7, 164, 96, 1, 1, SAME},
    {3, 5, 9, 133, 47, 1, 1, VALID}, /* no dimension is a multiple of the vector width */
    {2, 14, 14, 40, 64, 1, 1, "T=float strides=[1,2,2,1] padding='SAME'"},
    {2, 7, 7, 20, 64, 3, 3, SAME},
    {1, 9, 11, 17, 33, 3, 3, VALID},
    {2, 9, 10, 24, 40, 1, 7, SAME},
    {2, 10, 9, 24, 40, 7, 1, SAME},
    {1, 15, 15, 20, 32, 3, 3, "T=float strides=[1,2,2,1] padding='SAME'"},
    {1, 10, 10, 20, 32, 3, 5, "T=float strides=[1,1,1,1] padding='SAME' dilations=[1,2,3,1]"},
    {1, 9, 9, 32, 32, 3, 3, /* some windows lie entirely in the padding */
     "T=float strides=[1,2,3,1] padding='EXPLICIT' explicit_paddings=[0,0,5,4,1,6,0,0]"},
    {40, 1, 1, 100, 70, 1, 1, SAME},
    {2, 8, 8, 48, 128, 8, 8, VALID}, /* the filter has more elements than the input has */
    {40, 6, 6, 160, 33, 2, 2, SAME},
};

static void all_shapes_agree_with_the_library(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        compare(&shapes[i], i % 3 == 0 ? "Relu" : i % 3 == 1 ? "Relu6" : "Tanh", false);
}

static void nan_and_infinity_go_where_they_would_go(void **state)
{
    static const char *const acts[] = {"Relu", "Relu6", "Sigmoid", "Identity"};
    (void)state;
    for (int i = 0; i < 8; i++)
        compare(&shapes[i % 2 ? 1 : 2], acts[i % 4], true);
}

static void no_images_give_no_images(void **state)
{
    (void)state;
    compare(&(struct shape){0, 7, 7, 132, 32, 1, 1, SAME}, "Relu", false);
    compare(&(struct shape){0, 7, 7, 20, 32, 3, 3, SAME}, "Relu", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shapes_agree_with_the_library),
        cmocka_unit_test(nan_and_infinity_go_where_they_would_go),
        cmocka_unit_test(no_images_give_no_images),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
