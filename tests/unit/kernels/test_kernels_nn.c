#include "tests/support/test.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>

#include "kernels/kernels.h"
#include "runtime/session/session.h"
#include "runtime/core/op.h"
#include "tests/support/graph_def.h"

/*
 * Compares GEMMs and convolutions, including those of oneDNN and OpenBLAS, with the plain loops of
 * the kernels named "*.plain" on random shapes. Also tests epilogues, and both libraries when
 * several threads call them.
 */

enum { N_THREADS = 4, N_RUNS = 40, MAX_CASES = 60 };

struct fixture {
    struct rt_bytes g;
    struct rt_registry *all;
    /* For each op that has a plain kernel, the registry contains only the plain kernel. */
    struct rt_registry *plain;
    struct rt_tuning tuning;
    uint64_t seed;
    struct rt_error err;
};

static bool is_plain(const struct rt_kernel *k)
{
    const size_t n = strlen(k->name);
    return n > 6 && strcmp(k->name + n - 6, ".plain") == 0;
}

/* Returns a registry of the ops that the tests use. If plain_only is set and an op has a plain
 * kernel, the registry contains no other kernel of the op. */
static struct rt_registry *registry(const struct rt_registry *from, bool plain_only)
{
    static const char *const ops[] = {"MatMul",
                                      "BatchMatMulV2",
                                      "Conv2D",
                                      "Conv3D",
                                      "Einsum",
                                      "DepthwiseConv2dNative",
                                      "Relu",
                                      "BiasAdd",
                                      "MaxPool",
                                      "Conv2DBackpropInput",
                                      "FusedBatchNormV3",
                                      "Mul",
                                      "AddV2",
                                      "Relu6"};
    struct rt_registry *r = rt_registry_new();
    assert_non_null(r);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const struct rt_op *op = rt_registry_op(from, ops[i]);
        bool has_plain = false;
        int n = 0;
        if (!op)
            continue;
        assert_true(rt_registry_add_op(r, op));
        const struct rt_kernel *const *k = rt_registry_kernels(from, ops[i], &n);
        for (int j = 0; j < n; j++)
            has_plain = has_plain || is_plain(k[j]);
        for (int j = 0; j < n; j++)
            if (!plain_only || !has_plain || is_plain(k[j]))
                assert_true(rt_registry_add_kernel(r, k[j]));
    }
    return r;
}

static struct rt_registry *everything;

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    rt_bytes_init(&x->g, 1 << 24);
    everything = rt_registry_new();
    if (!everything || !kn_register(everything))
        return -1;
    x->all = registry(everything, false);
    x->plain = registry(everything, true);
    x->seed = 12345;
    *state = x;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    rt_bytes_clear(&x->g);
    rt_registry_free(x->all);
    rt_registry_free(x->plain);
    rt_registry_free(everything);
    free(x);
    return 0;
}

static uint64_t draw(struct fixture *x)
{
    x->seed ^= x->seed << 13;
    x->seed ^= x->seed >> 7;
    x->seed ^= x->seed << 17;
    return x->seed;
}

static int64_t between(struct fixture *x, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(draw(x) % (uint64_t)(hi - lo + 1));
}

static struct rt_tensor random_tensor(struct fixture *x, int rank, const int64_t *dim)
{
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, rank, dim, &x->err), &x->err);
    for (int64_t i = 0; i < rt_tensor_count(&t); i++)
        ((float *)t.data)[i] = (float)((double)(draw(x) >> 40) / (1 << 23) - 1);
    return t;
}

static void constant(struct fixture *x, const char *name, const struct rt_tensor *t)
{
    const int64_t n = rt_tensor_count(t);
    const size_t capacity = (size_t)n * 16 + 200;
    char *text = malloc(capacity);
    size_t at = (size_t)snprintf(text, capacity, "dtype=float value=float<");
    for (int i = 0; i < t->rank; i++)
        at +=
            (size_t)snprintf(text + at, capacity - at, i ? ",%lld" : "%lld", (long long)t->dim[i]);
    at += (size_t)snprintf(text + at, capacity - at, ">:");
    for (int64_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, capacity - at, i ? ",%.9g" : "%.9g",
                               (double)((float *)t->data)[i]);
    gd_node(&x->g, name, "Const", "", text);
    free(text);
}

static struct rt_session *session(struct fixture *x, const struct rt_registry *ops)
{
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    const struct rt_session_options options = {.registry = ops, .tuning = x->tuning};
    assert_ok(rt_library_import(&l, gd_span(&x->g), ops, &x->err), &x->err);
    assert_ok(rt_session_new(&s, l, &options, &x->err), &x->err);
    return s;
}

/* Runs the graph. Feeds "x" and, if given, "w". Fetches "y" and, unless `also` is NULL, `also`.
 * Returns "y". */
static struct rt_tensor answer_with(struct fixture *x, const struct rt_registry *ops,
                                    const struct rt_tensor *in, int n_in, const char *also)
{
    static const char *const feeds[] = {"x:0", "w:0"};
    const char *fetches[] = {"y:0", also};
    const struct rt_call_spec spec = {
        .feeds = feeds, .n_feeds = n_in, .fetches = fetches, .n_fetches = also ? 2 : 1};
    struct rt_session *s = session(x, ops);
    struct rt_callable *c;
    struct rt_tensor out[2];
    assert_ok(rt_session_prepare(s, &spec, &c, &x->err), &x->err);
    assert_ok(rt_callable_run(c, in, out, NULL, &x->err), &x->err);
    if (also)
        rt_tensor_clear(&out[1]);
    rt_session_free(s);
    return out[0];
}

static struct rt_tensor answer(struct fixture *x, const struct rt_registry *ops,
                               const struct rt_tensor *in, int n_in)
{
    return answer_with(x, ops, in, n_in, NULL);
}

/* Asserts that the elements differ by at most 1e-5 times the largest magnitude, and clears both
 * tensors. */
static void compare_tensors(struct rt_tensor *a, struct rt_tensor *b, const char *what)
{
    float most = 0, apart = 0;
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
    for (int64_t i = 0; i < rt_tensor_count(a); i++) {
        const float p = ((float *)a->data)[i], q = ((float *)b->data)[i];
        most = fmaxf(most, fabsf(p));
        apart = fmaxf(apart, fabsf(p - q));
    }
    if (!(apart <= 1e-5f * most))
        fail_msg("%s: %g apart, the largest is %g", what, (double)apart, (double)most);
    rt_tensor_clear(a);
    rt_tensor_clear(b);
}

static void next_graph(struct fixture *x)
{
    rt_bytes_clear(&x->g);
    rt_bytes_init(&x->g, 1 << 24);
}

/* Runs the graph in x->g once with only the plain kernels and once with all kernels, compares the
 * outputs, and empties the graph. */
static void compare(struct fixture *x, const struct rt_tensor *in, int n_in, const char *what)
{
    struct rt_tensor a = answer(x, x->plain, in, n_in), b = answer(x, x->all, in, n_in);
    compare_tensors(&a, &b, what);
    next_graph(x);
}

static void a_gemm_agrees_with_the_loops(void **state)
{
    struct fixture *x = *state;
    for (int i = 0; i < MAX_CASES; i++) {
        const bool ta = draw(x) & 1, tb = draw(x) & 1, fixed = draw(x) & 1;
        const int64_t m = between(x, 1, 20), k = between(x, 1, 90), n = between(x, 1, 90);
        struct rt_tensor in[2] = {
            random_tensor(x, 2, ta ? (int64_t[]){k, m} : (int64_t[]){m, k}),
            random_tensor(x, 2, tb ? (int64_t[]){n, k} : (int64_t[]){k, n}),
        };
        char attrs[80], what[120];
        gd_node(&x->g, "x", "Placeholder", "", "dtype=float");
        if (fixed)
            constant(x, "w", &in[1]);
        else
            gd_node(&x->g, "w", "Placeholder", "", "dtype=float");
        snprintf(attrs, sizeof attrs, "T=float transpose_a=%s transpose_b=%s",
                 ta ? "true" : "false", tb ? "true" : "false");
        gd_node(&x->g, "y", "MatMul", "x w", attrs);
        snprintf(what, sizeof what, "%lld x %lld x %lld %s fixed=%d", (long long)m, (long long)k,
                 (long long)n, attrs, fixed);
        compare(x, in, fixed ? 1 : 2, what);
        rt_tensor_clear(&in[0]);
        rt_tensor_clear(&in[1]);
    }
}

static void convolution(struct fixture *x, const char *op, bool fixed)
{
    const bool depthwise = strcmp(op, "DepthwiseConv2dNative") == 0;
    const int64_t groups = depthwise ? 1 : between(x, 1, 3);
    const int64_t ci = groups * between(x, 1, depthwise ? 70 : 20);
    const int64_t co = groups * between(x, 1, 20);
    const int64_t kh = between(x, 1, depthwise ? 6 : 4), kw = between(x, 1, depthwise ? 6 : 4);
    const int64_t s = between(x, 1, 2);
    const int64_t d = depthwise || s > 1 ? 1 : between(x, 1, 2);
    const int64_t size[] = {between(x, 0, 3), between(x, 4, 14), between(x, 4, 14), ci};
    const int64_t filter[] = {kh, kw, depthwise ? ci : ci / groups,
                              depthwise ? between(x, 1, 2) : co};
    const bool same = draw(x) & 1;
    struct rt_tensor in[2] = {random_tensor(x, 4, size), random_tensor(x, 4, filter)};
    char attrs[160], what[300];

    if (!same && (size[1] < (kh - 1) * d + 1 || size[2] < (kw - 1) * d + 1))
        goto done;
    gd_node(&x->g, "x", "Placeholder", "", "dtype=float");
    if (fixed)
        constant(x, "w", &in[1]);
    else
        gd_node(&x->g, "w", "Placeholder", "", "dtype=float");
    snprintf(attrs, sizeof attrs,
             "T=float strides=[1,%lld,%lld,1] dilations=[1,%lld,%lld,1] padding='%s'", (long long)s,
             (long long)s, (long long)d, (long long)d, same ? "SAME" : "VALID");
    gd_node(&x->g, "y", op, "x w", attrs);
    snprintf(what, sizeof what, "%s [%lld,%lld,%lld,%lld] by [%lld,%lld,%lld,%lld] %s fixed=%d", op,
             (long long)size[0], (long long)size[1], (long long)size[2], (long long)size[3],
             (long long)kh, (long long)kw, (long long)filter[2], (long long)filter[3], attrs,
             fixed);
    compare(x, in, fixed ? 1 : 2, what);
done:
    rt_tensor_clear(&in[0]);
    rt_tensor_clear(&in[1]);
}

static void convolutions_agree_with_the_loops(void **state)
{
    struct fixture *x = *state;
    for (int i = 0; i < MAX_CASES; i++) {
        convolution(x, "Conv2D", i & 1);
        convolution(x, "DepthwiseConv2dNative", i & 1);
    }
}

/* ---- epilogues ---- */

/* Runs a graph in which nodes follow the node "h" of the given op. Compares the outputs of a run in
 * which these nodes are the epilogue of "h" with those of a run in which fetching "h" prevents the
 * fusion. */
static void epilogue(struct fixture *x, const char *op, const struct rt_tensor *in,
                     const struct rt_tensor *filter, const char *attrs, int64_t channels)
{
    static const char *const steps[][4] = {{"BiasAdd", "Relu"},
                                           {"Mul", "AddV2", "Relu6"},
                                           {"AddV2"},
                                           {"Relu", "Mul"},
                                           {"BiasAdd", "Mul", "AddV2", "Relu"}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char last[8] = "h", name[8], inputs[40];
        gd_node(&x->g, "x", "Placeholder", "", "dtype=float");
        constant(x, "w", filter);
        gd_node(&x->g, "h", op, "x w", attrs);
        int n = 0;
        while (n < 4 && steps[i][n])
            n++;
        for (int k = 0; k < n; k++) {
            const char *step = steps[i][k];
            /* If `wide` is true, the operand has shape [1, 1, 1, channels] instead of
             * [channels]. */
            const bool wide = k == 1 && strcmp(op, "MatMul") != 0;
            struct rt_tensor v = wide ? random_tensor(x, 4, (int64_t[]){1, 1, 1, channels})
                                      : random_tensor(x, 1, &channels);
            char operand[8];
            snprintf(operand, sizeof operand, "v%d", k);
            constant(x, operand, &v);
            rt_tensor_clear(&v);
            snprintf(name, sizeof name, k == n - 1 ? "y" : "s%d", k);
            snprintf(inputs, sizeof inputs, step[0] == 'R' ? "%s" : "%s %s", last, operand);
            gd_node(&x->g, name, step, inputs, "T=float");
            snprintf(last, sizeof last, "%s", name);
        }
        struct rt_tensor apart = answer_with(x, x->all, in, 1, "h:0");
        struct rt_tensor together = answer(x, x->all, in, 1);
        compare_tensors(&apart, &together, op);
        apart = answer_with(x, x->plain, in, 1, "h:0");
        together = answer(x, x->plain, in, 1);
        compare_tensors(&apart, &together, op);
        next_graph(x);
    }
}

static void a_normalisation_by_constants_joins_its_convolution(void **state)
{
    struct fixture *x = *state;
    const int64_t channels = 12;
    struct rt_tensor image = random_tensor(x, 4, (int64_t[]){2, 7, 6, 8});
    struct rt_tensor f = random_tensor(x, 4, (int64_t[]){3, 3, 8, 12});

    gd_node(&x->g, "x", "Placeholder", "", "dtype=float");
    constant(x, "w", &f);
    static const char *const names[] = {"scale", "offset", "mean", "variance"};
    for (int k = 0; k < 4; k++) {
        struct rt_tensor v = random_tensor(x, 1, &channels);
        for (int64_t i = 0; k == 3 && i < channels; i++)
            ((float *)v.data)[i] = fabsf(((float *)v.data)[i]) + 0.1f;
        constant(x, names[k], &v);
        rt_tensor_clear(&v);
    }
    gd_node(&x->g, "h", "Conv2D", "x w", "T=float strides=[1,1,1,1] padding='SAME'");
    gd_node(&x->g, "n", "FusedBatchNormV3", "h scale offset mean variance",
            "T=float U=float is_training=false epsilon=0.001f");
    gd_node(&x->g, "y", "Relu", "n", "T=float");
    struct rt_tensor apart = answer_with(x, x->all, &image, 1, "h:0");
    struct rt_tensor together = answer(x, x->all, &image, 1);
    compare_tensors(&apart, &together, "batch norm");
    /* Fetching a second output of "n" prevents the fusion of "n". */
    apart = answer_with(x, x->all, &image, 1, "n:1");
    together = answer(x, x->plain, &image, 1);
    compare_tensors(&apart, &together, "batch norm, by the loops");
    rt_tensor_clear(&image);
    rt_tensor_clear(&f);
}

static void an_epilogue_changes_nothing_by_joining_a_matmul(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor image = random_tensor(x, 4, (int64_t[]){2, 7, 6, 8});
    struct rt_tensor f = random_tensor(x, 4, (int64_t[]){3, 3, 8, 12});
    struct rt_tensor deep = random_tensor(x, 4, (int64_t[]){3, 3, 8, 2});
    struct rt_tensor a = random_tensor(x, 2, (int64_t[]){5, 70});
    struct rt_tensor big = random_tensor(x, 2, (int64_t[]){70, 90});
    struct rt_tensor small = random_tensor(x, 2, (int64_t[]){3, 70});

    epilogue(x, "Conv2D", &image, &f, "T=float strides=[1,1,1,1] padding='SAME'", 12);
    epilogue(x, "DepthwiseConv2dNative", &image, &deep, "T=float strides=[1,2,2,1] padding='VALID'",
             16);
    epilogue(x, "MatMul", &a, &big, "T=float", 90);
    epilogue(x, "MatMul", &a, &small, "T=float transpose_b=true", 3);
    struct rt_tensor *const all[] = {&image, &f, &deep, &a, &big, &small};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        rt_tensor_clear(all[i]);
}

/* ---- sessions without fusion or Winograd ---- */

static void without_fusion_and_winograd_the_answers_agree(void **state)
{
    struct fixture *x = *state;
    static const struct rt_tuning less[] = {
        {.no_fusion = true}, {.no_winograd = true}, {.no_fusion = true, .no_winograd = true}};
    /* Side lengths of the images for Winograd tiles of 2x2 and of 4x4 outputs. */
    static const int64_t sides[] = {7, 9, 21};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        const int64_t side = sides[i], channels = 48;
        struct rt_tensor image = random_tensor(x, 4, (int64_t[]){2, side, side, 32});
        struct rt_tensor f = random_tensor(x, 4, (int64_t[]){3, 3, 32, channels});
        struct rt_tensor bias = random_tensor(x, 1, &channels);
        gd_node(&x->g, "x", "Placeholder", "", "dtype=float");
        constant(x, "w", &f);
        constant(x, "b", &bias);
        gd_node(&x->g, "h", "Conv2D", "x w", "T=float strides=[1,1,1,1] padding='SAME'");
        gd_node(&x->g, "s", "BiasAdd", "h b", "T=float");
        gd_node(&x->g, "y", "Relu", "s", "T=float");
        for (size_t k = 0; k < sizeof less / sizeof *less; k++) {
            struct rt_tensor all = answer(x, x->all, &image, 1);
            x->tuning = less[k];
            struct rt_tensor some = answer(x, x->all, &image, 1);
            x->tuning = (struct rt_tuning){0};
            compare_tensors(&some, &all, "convolution, bias, relu");
        }
        next_graph(x);
        rt_tensor_clear(&image);
        rt_tensor_clear(&f);
        rt_tensor_clear(&bias);
    }
}

/* ---- threads ---- */

/* Writes a small network from x [2,12,12,16] to y: a 3x3 convolution, a bias, a ReLU, a pool, a
 * depthwise convolution and an Einsum. */
static void small_net(struct fixture *x)
{
    static const struct {
        const char *name;
        int rank;
        int64_t dim[4];
    } weights[] = {{"f", 4, {3, 3, 16, 32}},
                   {"b", 1, {32}},
                   {"d", 4, {3, 3, 32, 1}},
                   {"g", 4, {1, 1, 32, 64}},
                   {"m", 3, {64, 8, 16}}};
    gd_node(&x->g, "x", "Placeholder", "", "dtype=float");
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        struct rt_tensor t = random_tensor(x, weights[i].rank, weights[i].dim);
        constant(x, weights[i].name, &t);
        rt_tensor_clear(&t);
    }
    gd_node(&x->g, "c", "Conv2D", "x f", "T=float strides=[1,1,1,1] padding='SAME'");
    gd_node(&x->g, "cb", "BiasAdd", "c b", "T=float");
    gd_node(&x->g, "r", "Relu", "cb", "T=float");
    gd_node(&x->g, "p", "MaxPool", "r",
            "T=float ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'");
    gd_node(&x->g, "dw", "DepthwiseConv2dNative", "p d",
            "T=float strides=[1,1,1,1] padding='SAME'");
    gd_node(&x->g, "pw", "Conv2D", "dw g", "T=float strides=[1,1,1,1] padding='SAME'");
    gd_node(&x->g, "y", "Einsum", "pw m", "T=float N=2 equation='bhwc,cde->bhwde'");
}

struct job {
    struct rt_callable *call;
    const struct rt_tensor *in, *want;
    int wrong;
    struct rt_error err;
};

static void *run_often(void *arg)
{
    struct job *j = arg;
    for (int i = 0; i < N_RUNS; i++) {
        struct rt_tensor out;
        if (rt_callable_run(j->call, j->in, &out, NULL, &j->err)) {
            j->wrong++;
            continue;
        }
        j->wrong += memcmp(out.data, j->want->data, rt_tensor_bytes(&out)) != 0;
        rt_tensor_clear(&out);
    }
    return NULL;
}

static void *do_nothing(void *arg)
{
    return arg;
}

static int count_tasks(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void four_threads_get_the_answers_of_one_and_none_stays(void **state)
{
    struct fixture *x = *state;
    const char *feed = "x:0", *fetch = "y:0";
    const struct rt_call_spec spec = {
        .feeds = &feed, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1};
    struct rt_tensor in = random_tensor(x, 4, (int64_t[]){2, 12, 12, 16}), want;
    struct rt_callable *call;
    struct job job[N_THREADS];
    pthread_t thread[N_THREADS];
    /* A sanitizer starts its own thread when the process creates its first thread. */
    assert_int_equal(pthread_create(&thread[0], NULL, do_nothing, NULL), 0);
    pthread_join(thread[0], NULL);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    const int before = count_tasks();

    small_net(x);
    struct rt_session *s = session(x, x->all);
    assert_ok(rt_session_prepare(s, &spec, &call, &x->err), &x->err);
    assert_ok(rt_callable_run(call, &in, &want, NULL, &x->err), &x->err);
    assert_true(count_tasks() <= before);
    for (int i = 0; i < N_THREADS; i++) {
        job[i] = (struct job){.call = call, .in = &in, .want = &want};
        assert_int_equal(pthread_create(&thread[i], NULL, run_often, &job[i]), 0);
    }
    const int during = count_tasks();
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_true(during <= before + N_THREADS);
    for (int i = 0; i < N_THREADS; i++)
        if (job[i].wrong)
            fail_msg("thread %d: %d of %d runs differ: %s", i, job[i].wrong, N_RUNS,
                     rt_error_text(&job[i].err));
    /* Linux may still list a thread for a moment after the thread has been joined. */
    for (int i = 0; i < 10000 && count_tasks() > before; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_true(count_tasks() <= before);
    rt_tensor_clear(&in);
    rt_tensor_clear(&want);
    rt_session_free(s);
}

/* ---- rows ---- */

static bool is_rowwise(struct fixture *x, const char *fetch)
{
    const char *feed = "x:0";
    const struct rt_shape shape = {.rank = 4, .dim = {-1, 6, 6, 4}};
    const struct rt_call_spec spec = {
        .feeds = &feed, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1};
    struct rt_session *s = session(x, x->all);
    struct rt_callable *c;
    assert_ok(rt_session_prepare(s, &spec, &c, &x->err), &x->err);
    const bool yes = rt_callable_is_rowwise(c, &shape, &x->err);
    rt_session_free(s);
    return yes;
}

static void only_a_label_that_is_kept_carries_rows_through_einsum(void **state)
{
    struct fixture *x = *state;
    gd_node(&x->g, "x", "Placeholder", "", "dtype=float");
    gd_node(&x->g, "self", "Einsum", "x x", "T=float N=2 equation='bhwc,bhwd->bcd'");
    gd_node(&x->g, "gram", "Einsum", "x x", "T=float N=2 equation='bhwc,dhwc->bd'");
    gd_node(&x->g, "sum", "Einsum", "x", "T=float N=1 equation='bhwc->hwc'");
    gd_node(&x->g, "turn", "Einsum", "x", "T=float N=1 equation='bhwc->chwb'");
    gd_node(&x->g, "pairs", "BatchMatMulV2", "x x", "T=float adj_y=true");
    assert_true(is_rowwise(x, "self:0"));
    assert_false(is_rowwise(x, "gram:0"));
    assert_false(is_rowwise(x, "sum:0"));
    assert_false(is_rowwise(x, "turn:0")); /* row-wise along an axis other than the first */
    assert_true(is_rowwise(x, "pairs:0"));
}

static void statistics_of_a_batch_are_not_row_by_row(void **state)
{
    struct fixture *x = *state;
    gd_node(&x->g, "x", "Placeholder", "", "dtype=float");
    gd_node(&x->g, "v", "Const", "", "dtype=float value=float<4>:1,2,3,4");
    gd_node(&x->g, "fixed", "FusedBatchNormV3", "x v v v v", "T=float U=float is_training=false");
    gd_node(&x->g, "train", "FusedBatchNormV3", "x v v v v", "T=float U=float is_training=true");
    assert_true(is_rowwise(x, "fixed:0"));
    assert_false(is_rowwise(x, "train:0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_gemm_agrees_with_the_loops, set_up, tear_down),
        cmocka_unit_test_setup_teardown(convolutions_agree_with_the_loops, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_epilogue_changes_nothing_by_joining_a_matmul, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_fusion_and_winograd_the_answers_agree, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_normalisation_by_constants_joins_its_convolution, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(four_threads_get_the_answers_of_one_and_none_stays, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(only_a_label_that_is_kept_carries_rows_through_einsum,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(statistics_of_a_batch_are_not_row_by_row, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
