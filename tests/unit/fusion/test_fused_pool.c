/* Tests that an AvgPool that follows a 1x1 convolution is moved before the convolution
 * (runtime/fusion/fuse_pool.c). */
#include "tests/support/test.h"

#include <math.h>

#include "runtime/base/arena.h"
#include "runtime/exec/trace.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"
#include "tests/support/registry.h"

static struct rt_error err;

/* Runs the graph. Fetches "y" and, unless `also` is NULL, the tensor `also`. Stores the op that ran
 * first in `first`. */
static struct rt_tensor run(const struct rt_bytes *g, const struct rt_tensor *x, const char *also,
                            bool no_fusion, char first[16])
{
    static const char *const feeds[] = {"x:0"};
    const char *fetches[] = {"y:0", also};
    const struct rt_session_options options = {
        .registry = test_registry, .tuning = {.no_fusion = no_fusion, .no_specialise = true}};
    const struct rt_call_spec spec = {
        .feeds = feeds, .n_feeds = 1, .fetches = fetches, .n_fetches = also ? 2 : 1};
    struct rt_trace trace = {.arena = rt_arena_new(1 << 16), .wants_times = true};
    const struct rt_run_options how = {.trace = &trace};
    struct rt_tensor out[2] = {{0}};
    struct rt_session *s = gs_open(gd_span(g), &options);
    struct rt_callable *c = gs_prepare(s, &spec);

    assert_ok(rt_callable_run(c, x, out, &how, &err), &err);
    assert_non_null(trace.first);
    snprintf(first, 16, "%s", trace.first->op);
    rt_tensor_clear(&out[1]);
    rt_session_free(s);
    rt_arena_free(trace.arena);
    return out[0];
}

static void averages_go_first_where_that_changes_nothing(void **state)
{
    (void)state;
    static const char weights[] = "1,2,-1,0.5,3,1,2,-2,0,1,-1,4";
    static const struct {
        const char *filter, *conv, *pool, *also;
        bool swaps;
    } cases[] = {
        {"1,1,4,3", "strides=[1,1,1,1] padding='VALID'",
         "ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'", NULL, true},
        {"1,1,4,3", "strides=[1,1,1,1] padding='SAME' dilations=[1,2,2,1]",
         "ksize=[1,3,2,1] strides=[1,1,2,1] padding='SAME'", NULL, true},
        {"1,1,4,3", "strides=[1,1,1,1] padding='SAME'",
         "ksize=[1,3,3,1] strides=[1,1,1,1] padding='SAME'", NULL, false},
        {"1,1,4,3", "strides=[1,2,2,1] padding='SAME'",
         "ksize=[1,2,2,1] strides=[1,2,2,1] padding='SAME'", NULL, false},
        {"3,1,4,1", "strides=[1,1,1,1] padding='SAME'",
         "ksize=[1,2,2,1] strides=[1,2,2,1] padding='SAME'", NULL, false},
        {"1,3,4,1", "strides=[1,1,1,1] padding='SAME'",
         "ksize=[1,2,2,1] strides=[1,2,2,1] padding='SAME'", NULL, false},
        {"1,1,4,3", "strides=[1,1,1,1] padding='EXPLICIT' explicit_paddings=[0,0,1,1,1,1,0,0]",
         "ksize=[1,2,2,1] strides=[1,2,2,1] padding='SAME'", NULL, false},
        {"1,1,4,3", "strides=[1,1,1,1] padding='SAME'",
         "ksize=[1,2,2,1] strides=[1,2,2,1] padding='SAME'", "c:0", false},
    };
    static const int64_t dims[][4] = {{2, 7, 6, 4}, {1, 2, 2, 4}, {0, 4, 4, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < sizeof dims / sizeof *dims; k++) {
            struct rt_tensor x;
            struct rt_bytes g;
            char text[200], first[2][16];
            assert_ok(rt_tensor_new(&x, NULL, RT_F32, 4, dims[k], &err), &err);
            for (int64_t j = 0; j < rt_tensor_count(&x); j++)
                ((float *)x.data)[j] = j == 50 ? NAN : (float)(j * 5 % 13) - 6;
            rt_bytes_init(&g, 1 << 16);
            gd_node(&g, "x", "Placeholder", "", "dtype=float");
            snprintf(text, sizeof text, "dtype=float value=float<%s>:%s", cases[i].filter, weights);
            gd_node(&g, "w", "Const", "", text);
            snprintf(text, sizeof text, "T=float %s", cases[i].conv);
            gd_node(&g, "c", "Conv2D", "x w", text);
            snprintf(text, sizeof text, "T=float %s", cases[i].pool);
            gd_node(&g, "y", "AvgPool", "c", text);
            struct rt_tensor a = run(&g, &x, cases[i].also, true, first[0]);
            struct rt_tensor b = run(&g, &x, cases[i].also, false, first[1]);
            assert_string_equal(first[0], "Conv2D");
            assert_string_equal(first[1], cases[i].swaps ? "AvgPool" : "Conv2D");
            assert_int_equal(a.rank, b.rank);
            assert_memory_equal(a.dim, b.dim, (size_t)a.rank * sizeof *a.dim);
            for (int64_t j = 0; j < rt_tensor_count(&a); j++) {
                const float p = ((float *)a.data)[j], q = ((float *)b.data)[j];
                if (!(fabsf(p - q) <= 1e-4f) && !(isnan(p) && isnan(q)))
                    fail_msg("case %zu: %g and %g", i, (double)p, (double)q);
            }
            rt_tensor_clear(&x);
            rt_tensor_clear(&a);
            rt_tensor_clear(&b);
            rt_bytes_clear(&g);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_go_first_where_that_changes_nothing),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
