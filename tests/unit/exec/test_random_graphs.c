/*
 * Runs random graphs in four ways: node by node or specialised, each with or without fusion.
 * Compares the outputs with those that TensorFlow recorded (tests/conformance/random_run.py
 * --record). Specialisation alone does not reorder any sum, so specialised runs without fusion must
 * give the same bits as runs node by node.
 */
#include "tests/support/test.h"

#include <math.h>

#include "runtime/base/half.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"
#include "tests/support/op.h"
#include "tests/support/recorded.h"
#include "tests/support/registry.h"

#define FOLDER "tests/goldens/random_graphs"
enum { MOST = 96, FEEDS = 4, TURNS = 3 };

/* An output that TensorFlow computed. */
struct sample {
    struct rt_tensor few; /* evenly spaced elements of this output */
    enum rt_dtype dtype;
    int rank;
    int64_t dim[RT_MAX_RANK];
    double allowed; /* the largest difference that is allowed for an element */
};

struct feeding {
    int n_feeds, n_fetches;
    char *feed_name[MOST], *fetch_name[MOST];
    struct rt_tensor feed[MOST];
    struct sample want[MOST];
    struct rt_tensor plain[MOST];
};

struct recorded {
    char *data;
    struct rt_span graph;
    int n;
    struct feeding feeding[FEEDS];
};

static int n_compiled;
static struct rt_error err;

/* ---- reading ---- */

static void take_shape(struct recorded_reader *r, enum rt_dtype *dtype, int *rank, int64_t *dim)
{
    *dtype = (enum rt_dtype)recorded_int(r);
    *rank = recorded_int(r);
    assert_in_range(*rank, 0, RT_MAX_RANK);
    memcpy(dim, recorded_take(r, (size_t)*rank * sizeof *dim), (size_t)*rank * sizeof *dim);
}

static void take_tensor(struct recorded_reader *r, struct rt_tensor *t)
{
    enum rt_dtype dtype;
    int rank;
    int64_t dim[RT_MAX_RANK];
    take_shape(r, &dtype, &rank, dim);
    assert_ok(rt_tensor_new(t, NULL, dtype, rank, dim, &err), &err);
    if (dtype != RT_STRING) {
        const size_t n = rt_tensor_bytes(t);
        const char *bytes = recorded_take(r, n);
        if (n)
            memcpy(t->data, bytes, n);
        return;
    }
    for (int64_t i = 0; i < rt_tensor_count(t); i++) {
        const struct rt_span s = recorded_text(r);
        assert_true(rt_str_set((struct rt_str *)t->data + i, NULL, s.p, s.n, NULL));
    }
}

static void read_recorded(const char *path, struct recorded *x)
{
    struct recorded_reader r;
    x->data = recorded_open(path, &r);
    x->graph = recorded_text(&r);
    x->n = recorded_int(&r);
    assert_in_range(x->n, 1, FEEDS);
    for (int f = 0; f < x->n; f++) {
        struct feeding *g = &x->feeding[f];
        g->n_feeds = recorded_int(&r);
        g->n_fetches = recorded_int(&r);
        assert_true(g->n_feeds <= MOST && g->n_fetches <= MOST);
        for (int k = 0; k < g->n_feeds; k++) {
            g->feed_name[k] = recorded_name(&r);
            take_tensor(&r, &g->feed[k]);
        }
        for (int k = 0; k < g->n_fetches; k++) {
            struct sample *w = &g->want[k];
            g->fetch_name[k] = recorded_name(&r);
            take_shape(&r, &w->dtype, &w->rank, w->dim);
            memcpy(&w->allowed, recorded_take(&r, sizeof w->allowed), sizeof w->allowed);
            take_tensor(&r, &w->few);
        }
    }
}

static void forget(struct recorded *x)
{
    for (int f = 0; f < x->n; f++) {
        struct feeding *g = &x->feeding[f];
        for (int k = 0; k < g->n_feeds; k++) {
            free(g->feed_name[k]);
            rt_tensor_clear(&g->feed[k]);
        }
        for (int k = 0; k < g->n_fetches; k++) {
            free(g->fetch_name[k]);
            rt_tensor_clear(&g->want[k].few);
            rt_tensor_clear(&g->plain[k]);
        }
    }
    free(x->data);
}

/* ---- comparing ---- */

static double real_at(const struct rt_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case RT_F16:
        return (double)rt_half_value(((const uint16_t *)t->data)[i]);
    case RT_BF16:
        return (double)rt_bfloat_value(((const uint16_t *)t->data)[i]);
    case RT_F64:
        return ((const double *)t->data)[i];
    default:
        return (double)((const float *)t->data)[i];
    }
}

static bool same_element(const struct rt_tensor *a, int64_t i, const struct rt_tensor *b, int64_t k)
{
    const size_t size = rt_dtype_size((enum rt_dtype)a->dtype);
    if (a->dtype == RT_STRING) {
        const struct rt_str *x = &rt_strs(a)[i], *y = &rt_strs(b)[k];
        return x->n == y->n && memcmp(rt_str_data(x), rt_str_data(y), x->n) == 0;
    }
    return memcmp((const char *)a->data + (size_t)i * size,
                  (const char *)b->data + (size_t)k * size, size) == 0;
}

static bool is_real(enum rt_dtype t)
{
    return t == RT_F32 || t == RT_F64 || t == RT_F16 || t == RT_BF16;
}

static void check_sample(const char *what, const char *name, const struct rt_tensor *got,
                         const struct sample *w)
{
    char is[160], was[160];
    const int64_t n = rt_tensor_count(got), few = rt_tensor_count(&w->few);
    if (got->dtype != w->dtype || got->rank != w->rank ||
        memcmp(got->dim, w->dim, (size_t)w->rank * sizeof *w->dim) != 0)
        fail_msg("%s: %s is a %s%s, not a %s%s", what, name,
                 rt_dtype_name((enum rt_dtype)got->dtype),
                 rt_shape_text(is, sizeof is, got->rank, got->dim), rt_dtype_name(w->dtype),
                 rt_shape_text(was, sizeof was, w->rank, w->dim));
    for (int64_t i = 0; i < few; i++) {
        const int64_t at = i * n / few;
        if (!is_real(w->dtype)) {
            if (!same_element(got, at, &w->few, i))
                fail_msg("%s: %s differs at %lld", what, name, (long long)at);
            continue;
        }
        const double a = real_at(got, at), b = real_at(&w->few, i);
        if (!(fabs(a - b) <= w->allowed) && !(isnan(a) && isnan(b)) && a != b)
            fail_msg("%s: %s at %lld is %.9g, not %.9g", what, name, (long long)at, a, b);
    }
}

static void check_bits(const char *what, const char *name, const struct rt_tensor *got,
                       const struct rt_tensor *plain)
{
    for (int64_t i = 0; i < rt_tensor_count(plain); i++)
        if (!same_element(got, i, plain, i))
            fail_msg("%s: %s at %lld is not what it is node by node", what, name, (long long)i);
}

/* ---- running ---- */

static const struct way {
    const char *name;
    struct rt_tuning tuning;
    bool same_bits; /* whether the outputs must have the same bits as in the node-by-node run */
} ways[] = {
    {"node by node",
     {.no_fusion = true, .no_winograd = true, .no_autotune = true, .no_specialise = true},
     false},
    {"compiled", {.no_fusion = true, .no_winograd = true, .no_autotune = true}, true},
    {"fused", {.no_autotune = true, .no_specialise = true}, false},
    {"compiled and fused", {.no_autotune = true}, false},
};

static struct rt_session *session(const struct recorded *x, const struct rt_tuning *tuning)
{
    const struct rt_session_options options = {
        .registry = test_registry, .tuning = *tuning, .compiles_inline = true};
    return gs_open(x->graph, &options);
}

static void run(struct rt_session *s, struct feeding *g, const struct way *w, const char *what)
{
    const struct rt_call_spec spec = {.feeds = (const char *const *)g->feed_name,
                                      .fetches = (const char *const *)g->fetch_name,
                                      .n_feeds = g->n_feeds,
                                      .n_fetches = g->n_fetches};
    struct rt_callable *c = gs_prepare(s, &spec);
    struct rt_tensor got[MOST];
    for (int turn = 0; turn < TURNS; turn++) {
        assert_ok(rt_callable_run(c, g->feed, got, NULL, &err), &err);
        for (int k = 0; k < g->n_fetches; k++) {
            check_sample(what, g->fetch_name[k], &got[k], &g->want[k]);
            if (w->same_bits)
                check_bits(what, g->fetch_name[k], &got[k], &g->plain[k]);
            if (w == ways && turn == 0)
                g->plain[k] = got[k];
            else
                rt_tensor_clear(&got[k]);
        }
    }
}

static void check_graph(void *arg, const char *name)
{
    char path[320];
    struct recorded x = {0};
    struct rt_session_stats stats;
    char what[480];
    (void)arg;
    snprintf(path, sizeof path, FOLDER "/%s.bin", name);
    read_recorded(path, &x);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct rt_session *s = session(&x, &ways[i].tuning);
        for (int f = 0; f < x.n; f++) {
            snprintf(what, sizeof what, "%s, feed %d, %s", path, f, ways[i].name);
            run(s, &x.feeding[f], &ways[i], what);
        }
        rt_session_stats(s, &stats);
        if (ways[i].tuning.no_specialise)
            assert_int_equal(stats.n_specialisations, 0);
        /* A graph with TensorFlow 1 branches is not specialised. */
        n_compiled += stats.n_specialisations > 0;
        rt_session_free(s);
    }
    forget(&x);
}

static void every_way_to_run_a_graph_gives_tensorflows_answers(void **state)
{
    (void)state;
    const int n = recorded_each(FOLDER, ".bin", check_graph, NULL);
    assert_true(n > 0 && n_compiled >= n);
}

/* The Sum of a scalar is a scalar for any axes. Its shape is therefore known when the plan is
 * specialised, but its kernel depends on the value of the axes. */
static void what_reads_a_value_that_is_fed_runs_node_by_node(void **state)
{
    (void)state;
    static const char *const feeds[] = {"x:0", "axes:0"}, *const fetch = "y:0";
    const struct rt_call_spec spec = {
        .feeds = feeds, .fetches = &fetch, .n_feeds = 2, .n_fetches = 1};
    const struct rt_session_options options = {.registry = test_registry, .compiles_inline = true};
    struct rt_bytes g;
    rt_bytes_init(&g, 1 << 16);
    gd_node(&g, "x", "Placeholder", "", "dtype=float");
    gd_node(&g, "axes", "Placeholder", "", "dtype=int32");
    gd_node(&g, "n", "Neg", "x", "T=float");
    gd_node(&g, "r", "Sum", "n axes", "T=float Tidx=int32 keep_dims=true");
    gd_node(&g, "y", "Neg", "r", "T=float");
    struct rt_session *s = gs_open(gd_span(&g), &options);
    struct rt_callable *c = gs_prepare(s, &spec);
    struct rt_tensor y, in[] = {op_tensor(RT_F32, 0, NULL, (float[]){7}), op_ints(0, NULL)};
    assert_ok(rt_callable_run(c, in, &y, NULL, &err), &err);
    assert_true(y.rank == 0 && *(float *)y.data == 7);
    rt_tensor_clear(&y);
    rt_tensor_clear(&in[0]);
    rt_tensor_clear(&in[1]);
    rt_session_free(s);
    rt_bytes_clear(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_reads_a_value_that_is_fed_runs_node_by_node),
        cmocka_unit_test(every_way_to_run_a_graph_gives_tensorflows_answers),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}
