/*
 * Tests regions of nodes that run on an accelerator (runtime/plan/device_region.h). The host cannot
 * access the memory of the tests' accelerator. Many other unit tests also run with all nodes on
 * this accelerator (tests/CMakeLists.txt).
 */
#include "tests/support/test.h"

#include <pthread.h>

#include "kernels/kernels.h"
#include "runtime/base/clock.h"
#include "runtime/core/device/device_ledger.h"
#include "runtime/core/device/device_stream.h"
#include "runtime/session/session_internal.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"
#include "tests/support/test_device.h"

struct fixture {
    struct rt_bytes g;
    struct rt_registry *ops;
    struct rt_device *device;
    struct rt_session *s;
    struct rt_error err;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    rt_bytes_init(&x->g, 1 << 20);
    x->ops = rt_registry_new();
    x->device = test_device_new(2);
    *state = x;
    return x->ops && x->device && kn_register(x->ops) && test_device_register(x->ops) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    rt_session_free(x->s);
    const bool is_clean = test_device_free(x->device);
    rt_bytes_clear(&x->g);
    rt_registry_free(x->ops);
    free(x);
    assert_true(is_clean);
    return 0;
}

static void node(struct fixture *x, const char *name, const char *op, const char *inputs,
                 const char *attrs)
{
    gd_node(&x->g, name, op, inputs, attrs);
}

/* Opens a session. If `all` is true, all nodes run on the accelerator. Otherwise, only nodes whose
 * device string names the accelerator run on it. */
static void open_assigned(struct fixture *x, bool all)
{
    const struct rt_session_options options = {
        .registry = x->ops,
        .accelerators = {.n = 1, .device = {x->device}, .run_all = all},
        .compiles_inline = true};
    x->s = gs_open(gd_span(&x->g), &options);
}

static void open_session(struct fixture *x)
{
    open_assigned(x, true);
}

static struct rt_tensor vector(int n, float first)
{
    struct rt_tensor t;
    struct rt_error err = {0};
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 1, (int64_t[]){n}, &err), &err);
    for (int i = 0; i < n; i++)
        ((float *)t.data)[i] = first + (float)i;
    return t;
}

/* Runs the callable on `in` and returns element 0 of its float result. */
static float first_of(struct fixture *x, struct rt_callable *c, const struct rt_tensor *in)
{
    struct rt_tensor out;
    assert_ok(rt_callable_run(c, in, &out, NULL, &x->err), &x->err);
    const float first = *(const float *)out.data;
    rt_tensor_clear(&out);
    return first;
}

static struct test_device_counts since(const struct fixture *x, struct test_device_counts before)
{
    struct test_device_counts now = test_device_counts(x->device);
    now.copies_in -= before.copies_in;
    now.copies_out -= before.copies_out;
    now.copies_within -= before.copies_within;
    now.runs -= before.runs;
    now.kernels -= before.kernels;
    return now;
}

static float *pending; /* memory to which an accelerator that hangs may still copy */

static enum rt_status endless_copy(struct rt_device *d, int stream, enum rt_copy_kind kind,
                                   void *to, const void *from, size_t bytes, struct rt_error *err)
{
    (void)d, (void)stream, (void)from, (void)bytes, (void)err;
    if (kind == RT_COPY_OUT)
        pending = to;
    return RT_OK;
}

static enum rt_status hung_wait(struct rt_device *d, int stream,
                                const struct rt_region_step **failed, struct rt_error *err)
{
    (void)stream, (void)failed;
    rt_device_fail(d, "a test");
    atomic_store(&d->is_hung, true);
    return rt_fail(err, RT_UNAVAILABLE, "the accelerator hangs");
}

/* After a run that an accelerator does not end, the memory of its outputs is not used again. */
static void memory_of_a_run_that_hangs_is_not_used_again(void **state)
{
    enum { N = 1000, RUNS = 10 };
    static struct rt_kept_buffer *kept; /* shows that the memory is not lost */
    struct fixture *x = *state;
    struct rt_tensor in = vector(N, 1), out[RUNS];
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "y", "AddV2", "p p", "T=float");
    open_session(x);
    struct rt_callable *c = gs_call(x->s, "p:0", "y:0");
    assert_true(first_of(x, c, &in) == 2); /* compiles */
    x->device->enqueue_copy = endless_copy;
    x->device->wait = hung_wait;
    assert_int_equal(rt_callable_run(c, &in, out, NULL, &x->err), RT_UNAVAILABLE);
    assert_non_null(pending);
    for (int k = 0; k < RUNS; k++)
        assert_ok(rt_callable_run(c, &in, &out[k], NULL, &x->err), &x->err);
    for (int i = 0; i < N; i++)
        pending[i] = -1;
    for (int k = 0; k < RUNS; k++) {
        for (int i = 0; i < N; i++)
            assert_true(((const float *)out[k].data)[i] == 2 * (float)(i + 1));
        rt_tensor_clear(&out[k]);
    }
    rt_tensor_clear(&in);
    kept = atomic_load(&x->device->kept);
    assert_non_null(kept);
}

/* Without run_all, only nodes whose device string names the accelerator run on it. In this
 * graph, these nodes form one region with one input and two outputs. Only the host reads the
 * outputs. */
static void a_device_string_assigns_a_node(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor in = vector(4, 1), out;
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "sum", "AddV2@/device:TEST:0", "p p", "T=float");
    node(x, "product", "Mul@/job:a/device:TEST:0", "sum sum", "T=float");
    node(x, "host", "Neg", "product", "T=float");
    node(x, "other", "Neg@/device:TEST:0", "product", "T=float");
    node(x, "y", "AddV2@/device:GPU:3", "host other", "T=float"); /* no device GPU:3 exists */
    open_assigned(x, false);
    struct rt_callable *c = gs_call(x->s, "p:0", "y:0");
    for (int i = 0; i < 3; i++) {
        assert_ok(rt_callable_run(c, &in, &out, NULL, &x->err), &x->err);
        assert_true(((float *)out.data)[3] == -128);
        rt_tensor_clear(&out);
    }
    rt_tensor_clear(&in);
    const struct test_device_counts counts = test_device_counts(x->device);
    assert_int_equal(counts.runs, 3);
    assert_int_equal(counts.kernels, 6);
    assert_int_equal(counts.copies_in, 3);
    assert_int_equal(counts.copies_within, 0);
    assert_int_equal(counts.copies_out, 6);
}

/* Makes a graph whose output y is a loop that adds the constant w to the state s until i is `most`.
 */
static void loop_graph(struct fixture *x)
{
    struct rt_bytes b;
    rt_bytes_init(&b, 1 << 16);
    gd_node(&b, "less", "Less", "i most", "T=float");
    gd_function(&x->g, "cond", "i:float most:float s:float", "out:bool", &b, "out=less:z:0", "");
    rt_bytes_clear(&b);
    rt_bytes_init(&b, 1 << 16);
    gd_node(&b, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&b, "w", "Const", "", "dtype=float value=float<2>:1,-1");
    gd_node(&b, "next", "AddV2", "i one:output:0", "T=float");
    gd_node(&b, "sum", "AddV2", "s w:output:0", "T=float");
    gd_function(&x->g, "body", "i:float most:float s:float", "a:float b:float c:float", &b,
                "a=next:z:0 b=most c=sum:z:0", "");
    rt_bytes_clear(&b);
    node(x, "most", "Placeholder", "", "dtype=float shape=<>");
    node(x, "zero", "Const", "", "dtype=float value=float<>:0");
    node(x, "start", "Const", "", "dtype=float value=float<2>:5,5");
    node(x, "loop", "StatelessWhile", "zero most start",
         "T=[float,float,float] cond=@cond body=@body output_shapes=[] parallel_iterations=10");
    node(x, "y", "Identity", "loop:2", "T=float");
}

/* Runs a loop for 10 and for 110 iterations. Its condition and its body, which adds the constant w
 * to the state s, run on the accelerator. Each iteration may copy only the condition's result to
 * the host. */
static void a_loop_copies_only_its_condition(void **state)
{
    struct fixture *x = *state;
    loop_graph(x);
    open_session(x);
    struct rt_callable *c = gs_call(x->s, "most:0", "y:0");
    struct rt_tensor most;
    assert_ok(rt_tensor_new(&most, NULL, RT_F32, 0, NULL, &x->err), &x->err);
    struct test_device_counts counts[2];
    for (int k = 0; k < 2; k++) {
        *(float *)most.data = 10;
        first_of(x, c, &most); /* compiles */
        const struct test_device_counts before = test_device_counts(x->device);
        *(float *)most.data = k ? 110 : 10;
        assert_true(first_of(x, c, &most) == 5 + *(float *)most.data);
        counts[k] = since(x, before);
    }
    rt_tensor_clear(&most);
    assert_int_equal(counts[1].copies_in, counts[0].copies_in);
    assert_int_equal(counts[1].copies_out - counts[0].copies_out, 100);
    assert_int_equal(counts[1].runs - counts[0].runs, 200);
}

static enum rt_status failed_copy(struct rt_device *d, enum rt_copy_kind kind, void *to,
                                  const void *from, size_t bytes, struct rt_error *err)
{
    (void)d, (void)kind, (void)to, (void)from, (void)bytes;
    return rt_fail(err, RT_UNAVAILABLE, "the accelerator has failed");
}

/* After a failure of the accelerator, a loop runs on the CPU, and nothing is copied. */
static void a_loop_runs_without_its_accelerator(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor most;
    loop_graph(x);
    open_session(x);
    struct rt_callable *c = gs_call(x->s, "most:0", "y:0");
    assert_ok(rt_tensor_new(&most, NULL, RT_F32, 0, NULL, &x->err), &x->err);
    *(float *)most.data = 10;
    assert_true(first_of(x, c, &most) == 15);
    x->device->copy = failed_copy;
    rt_device_fail(x->device, "a test");
    const struct test_device_counts before = test_device_counts(x->device);
    assert_true(first_of(x, c, &most) == 15);
    assert_int_equal(since(x, before).runs, 0);
    rt_tensor_clear(&most);
}

/* A constant that two signatures read, each at two shapes, is uploaded once. */
static void a_constant_is_uploaded_once(void **state)
{
    struct fixture *x = *state;
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "w", "Const", "", "dtype=float value=float<>:3");
    node(x, "sum", "Maximum", "p w", "T=float");
    node(x, "other", "Minimum", "p w", "T=float");
    open_session(x);
    struct rt_callable *c[2] = {gs_call(x->s, "p:0", "sum:0"), gs_call(x->s, "p:0", "other:0")};
    const struct test_device_counts before = test_device_counts(x->device);
    for (int n = 2; n < 4; n++)
        for (int k = 0; k < 2; k++) {
            struct rt_tensor in = vector(n, 5);
            assert_true(first_of(x, c[k], &in) == (k ? 3 : 5));
            rt_tensor_clear(&in);
        }
    assert_int_equal(since(x, before).copies_in, 4 + 1);
}

static void views_of_a_regions_value_are_right(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor in = vector(6, 1), out[3];
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "square", "Mul", "p p", "T=float");
    node(x, "shape", "Const", "", "dtype=int32 value=int32<2>:2,3");
    node(x, "matrix", "Reshape", "square shape", "T=float Tshape=int32");
    node(x, "axis", "Const", "", "dtype=int32 value=int32<1>:1");
    node(x, "sums", "Sum", "matrix axis", "T=float Tidx=int32 keep_dims=false");
    node(x, "texts", "AsString@/device:CPU:0", "matrix", "T=float precision=0");
    open_session(x);
    const char *const feeds[] = {"p:0"}, *const fetches[] = {"matrix:0", "sums:0", "texts:0"};
    const struct rt_call_spec spec = {
        .feeds = feeds, .fetches = fetches, .n_feeds = 1, .n_fetches = 3};
    struct rt_callable *c = gs_prepare(x->s, &spec);
    for (int again = 0; again < 3; again++) {
        assert_ok(rt_callable_run(c, &in, out, NULL, &x->err), &x->err);
        assert_int_equal(out[0].rank, 2);
        assert_int_equal(out[0].dim[1], 3);
        assert_true(((float *)out[0].data)[5] == 36);
        assert_true(((float *)out[1].data)[1] == 16 + 25 + 36);
        assert_memory_equal(rt_str_data(&rt_strs(&out[2])[5]), "36", 2);
        for (int k = 0; k < 3; k++)
            rt_tensor_clear(&out[k]);
    }
    rt_tensor_clear(&in);
    assert_true(test_device_counts(x->device).runs >= 3);
}

static void an_error_in_a_region_names_the_node(void **state)
{
    struct fixture *x = *state;
    node(x, "p", "Placeholder", "", "dtype=int32");
    node(x, "one", "Const", "", "dtype=int32 value=int32<>:1");
    node(x, "before", "BitwiseXor", "p one", "T=int32");
    node(x, "table", "Const", "", "dtype=int32 value=int32<3>:5,6,7");
    node(x, "axis", "Const", "", "dtype=int32 value=int32<>:0");
    node(x, "row", "GatherV2", "table before axis", "Tparams=int32 Tindices=int32 Taxis=int32");
    node(x, "after", "BitwiseXor", "row one", "T=int32");
    open_session(x);
    struct rt_callable *c = gs_call(x->s, "p:0", "after:0");
    struct rt_tensor in, out;
    assert_ok(rt_tensor_new(&in, NULL, RT_I32, 1, (int64_t[]){1}, &x->err), &x->err);
    for (int again = 0; again < 3; again++) {
        *(int32_t *)in.data = 8;
        assert_int_equal(rt_callable_run(c, &in, &out, NULL, &x->err), RT_INVALID_ARGUMENT);
        assert_non_null(strstr(rt_error_text(&x->err), "indices[0] = 9 is not in [0, 3)"));
        assert_non_null(strstr(rt_error_text(&x->err), "{{node row}}"));
        *(int32_t *)in.data = 3;
        assert_ok(rt_callable_run(c, &in, &out, NULL, &x->err), &x->err);
        assert_int_equal(*(int32_t *)out.data, 7 ^ 1);
        rt_tensor_clear(&out);
    }
    rt_tensor_clear(&in);
    assert_true(test_device_counts(x->device).runs >= 6);
}

static void a_run_without_memory_is_refused(void **state)
{
    struct fixture *x = *state;
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "y", "Neg", "p", "T=float");
    open_session(x);
    struct rt_callable *c = gs_call(x->s, "p:0", "y:0");
    struct rt_tensor in = vector(1 << 16, 1), out;
    for (int64_t pages = 0; pages < 300; pages += 50) {
        test_device_limit(x->device, pages * 4096);
        const enum rt_status st = rt_callable_run(c, &in, &out, NULL, &x->err);
        /* The feed and the output take 256 KiB each. */
        assert_int_equal(st, pages < 150 ? RT_RESOURCE_EXHAUSTED : RT_OK);
        if (!st)
            rt_tensor_clear(&out);
    }
    rt_tensor_clear(&in);
}

struct client {
    struct fixture *x;
    struct rt_callable *c;
    int seed, n_wrong;
};

static void *call_often(void *arg)
{
    struct client *k = arg;
    for (int i = 0; i < 200; i++) {
        struct rt_tensor in = vector(3 + (i + k->seed) % 5, (float)(k->seed * 1000 + i)), out;
        struct rt_error err = {0};
        const enum rt_status st = rt_callable_run(k->c, &in, &out, NULL, &err);
        const float want = -(float)(k->seed * 1000 + i) * 2;
        k->n_wrong += st || *(float *)out.data != want;
        rt_tensor_clear(&out);
        rt_tensor_clear(&in);
    }
    return NULL;
}

static void many_runs_share_the_streams(void **state)
{
    struct fixture *x = *state;
    struct client client[4];
    pthread_t thread[4];
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "sum", "AddV2", "p p", "T=float");
    node(x, "y", "Neg", "sum", "T=float");
    open_session(x);
    for (int k = 0; k < 4; k++) {
        client[k] = (struct client){x, gs_call(x->s, "p:0", "y:0"), k, 0};
        assert_int_equal(pthread_create(&thread[k], NULL, call_often, &client[k]), 0);
    }
    for (int k = 0; k < 4; k++) {
        pthread_join(thread[k], NULL);
        assert_int_equal(client[k].n_wrong, 0);
    }
    assert_true(test_device_counts(x->device).runs > 400);
}

static void a_run_that_waits_for_a_stream_ends(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor in = vector(2, 1), out;
    struct rt_stream stream[2];
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "y", "Neg", "p", "T=float");
    open_session(x);
    struct rt_callable *c = gs_call(x->s, "p:0", "y:0");
    assert_true(first_of(x, c, &in) == -1);
    for (int k = 0; k < 2; k++)
        assert_ok(rt_stream_take(x->device, 0, NULL, &stream[k], &x->err), &x->err);
    const struct rt_run_options options = {.deadline_ns = rt_now_ns() + 30000000};
    assert_int_equal(rt_callable_run(c, &in, &out, &options, &x->err), RT_DEADLINE_EXCEEDED);
    rt_stream_give(x->device, &stream[1]);
    assert_true(first_of(x, c, &in) == -1);
    rt_stream_give(x->device, &stream[0]);
    rt_tensor_clear(&in);
}

/* The runs of a session use the accelerator that they name. They share its variables. */
static void a_session_may_have_several_accelerators(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor in = vector(3, 1), out;
    struct rt_device *other = test_device_new(2);
    struct rt_session_stats stats;
    assert_non_null(other);
    const struct rt_session_options options = {
        .registry = x->ops,
        .accelerators = {.n = 2, .device = {x->device, other}, .run_all = true},
        .compiles_inline = true};
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "c", "Const", "", "dtype=float value=float<3>:2,2,2");
    node(x, "y", "Mul", "p c", "T=float");
    x->s = gs_open(gd_span(&x->g), &options);
    struct rt_callable *c = gs_call(x->s, "p:0", "y:0");
    for (int k = 0; k < 6; k++) {
        const struct rt_run_options run = {.accelerator = k % 2};
        assert_ok(rt_callable_run(c, &in, &out, &run, &x->err), &x->err);
        assert_true(*(const float *)out.data == 2);
        rt_tensor_clear(&out);
    }
    assert_int_equal(test_device_counts(x->device).runs, 3);
    assert_int_equal(test_device_counts(other).runs, 3);
    rt_session_stats(x->s, &stats);
    assert_int_equal(stats.accelerator_bytes[0], 3 * sizeof(float));
    assert_int_equal(stats.accelerator_bytes[1], 3 * sizeof(float));
    rt_session_free(x->s);
    x->s = NULL;
    assert_true(test_device_free(other));
    rt_tensor_clear(&in);
}

/* A specialisation that has no regions is compiled once for all accelerators. */
static void what_runs_on_the_cpu_is_compiled_once(void **state)
{
    struct fixture *x = *state;
    struct rt_device *other = test_device_new(2);
    struct rt_tensor in = vector(3, 1);
    assert_non_null(other);
    const struct rt_session_options options = {
        .registry = x->ops, .accelerators = {.n = 2, .device = {x->device, other}}};
    const struct rt_shape shape = {.rank = 1, .dim = {3}};
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "y", "Neg", "p", "T=float");
    node(x, "z", "Neg@/device:TEST:0", "p", "T=float");
    x->s = gs_open(gd_span(&x->g), &options);
    struct rt_callable *host = gs_call(x->s, "p:0", "y:0"), *both = gs_call(x->s, "p:0", "z:0");
    rt_callable_request_compilation(host, &shape);
    assert_int_equal(rt_session_compile(x->s), 1);
    rt_callable_request_compilation(both, &shape);
    assert_int_equal(rt_session_compile(x->s), 2);
    assert_true(first_of(x, host, &in) == -1);
    rt_session_free(x->s);
    x->s = NULL;
    assert_true(test_device_free(other));
    rt_tensor_clear(&in);
}

/* A session keeps to its limit, and runs on the CPU what would exceed it. */
static void a_session_keeps_to_its_bytes(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor in = vector(3, 1);
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "c", "Const", "", "dtype=float value=float<3>:2,2,2");
    node(x, "y", "Mul", "p c", "T=float");
    const size_t limit[] = {11, 12, 1 << 20};
    for (int k = 0; k < 3; k++) {
        struct rt_session_options options = {.registry = x->ops, .compiles_inline = true};
        struct rt_session_stats stats;
        const int64_t before = test_device_counts(x->device).runs;
        options.accelerators = rt_one_accelerator(x->device);
        options.accelerators.limit = limit[k];
        x->s = gs_open(gd_span(&x->g), &options);
        struct rt_callable *c = gs_call(x->s, "p:0", "y:0");
        assert_true(first_of(x, c, &in) == 2);
        rt_session_stats(x->s, &stats);
        assert_int_equal(test_device_counts(x->device).runs - before, k == 2);
        assert_true((size_t)stats.accelerator_bytes[0] <= limit[k]);
        rt_session_free(x->s);
        x->s = NULL;
    }
    rt_tensor_clear(&in);
}

/* Returns the least limit with which a session runs y = 2 * p on the accelerator. */
static size_t least_limit(struct fixture *x, int max_runs)
{
    struct rt_tensor in = vector(3, 1);
    size_t low = 0, high = 1 << 20; /* the least limit is above `low` and at most `high` */
    while (high - low > 1) {
        const size_t limit = low + (high - low) / 2;
        struct rt_session_options options = {.registry = x->ops, .compiles_inline = true};
        const int64_t before = test_device_counts(x->device).runs;
        options.accelerators = rt_one_accelerator(x->device);
        options.accelerators.limit = limit;
        options.accelerators.max_runs = max_runs;
        x->s = gs_open(gd_span(&x->g), &options);
        assert_true(first_of(x, gs_call(x->s, "p:0", "y:0"), &in) == 2);
        *(test_device_counts(x->device).runs > before ? &high : &low) = limit;
        rt_session_free(x->s);
        x->s = NULL;
    }
    rt_tensor_clear(&in);
    return high;
}

/* The limit counts the activations of each run that may be on the accelerator at a time. */
static void a_limit_counts_the_activations_of_all_streams(void **state)
{
    struct fixture *x = *state;
    const size_t constant = 3 * sizeof(float);
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "c", "Const", "", "dtype=float value=float<3>:2,2,2");
    node(x, "y", "Mul", "p c", "T=float");
    const size_t activations = least_limit(x, 1) - constant;
    assert_true(activations >= constant);
    assert_true(x->device->n_streams > 1);
    assert_int_equal(least_limit(x, 0), constant + activations * (size_t)x->device->n_streams);
    assert_int_equal(least_limit(x, 100), constant + activations * (size_t)x->device->n_streams);
}

/* A region that is refused for lack of memory leaves no constants on the accelerator, and the last
 * region that uses a constant frees it. */
static void a_refused_region_leaves_no_constants(void **state)
{
    struct fixture *x = *state;
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "c", "Const", "", "dtype=float value=float<3>:2,2,2");
    node(x, "y", "Mul", "p c", "T=float");
    const size_t least = least_limit(x, 1);
    for (size_t limit = least - 1; limit <= least; limit++) {
        struct rt_tensor in = vector(3, 1);
        struct rt_session_options options = {.registry = x->ops, .compiles_inline = true};
        struct rt_session_stats stats;
        options.accelerators = rt_one_accelerator(x->device);
        options.accelerators.limit = limit;
        options.accelerators.max_runs = 1;
        x->s = gs_open(gd_span(&x->g), &options);
        assert_true(first_of(x, gs_call(x->s, "p:0", "y:0"), &in) == 2);
        const int64_t left = limit < least ? 0 : 3 * sizeof(float);
        rt_session_stats(x->s, &stats);
        assert_int_equal(stats.accelerator_bytes[0], left);
        assert_int_equal(rt_device_counts(x->device).used[RT_DEVICE_WEIGHTS], left);
        rt_session_free(x->s);
        x->s = NULL;
        rt_tensor_clear(&in);
        assert_int_equal(rt_device_counts(x->device).used[RT_DEVICE_WEIGHTS], 0);
    }
}

/* Runs y once, which is 2, and returns whether the accelerator ran it. */
static bool runs_a_region(struct fixture *x, struct rt_tensor *in)
{
    const int64_t before = test_device_counts(x->device).runs;
    assert_true(first_of(x, gs_call(x->s, "p:0", "y:0"), in) == 2);
    return test_device_counts(x->device).runs > before;
}

/* Opens a session that computes y = 4 * (p - 0.5). The accelerator multiplies, and the CPU
 * subtracts. Each of the two constants has 12 bytes. The session has `left` bytes of the
 * accelerator's memory, because `other` has reserved all others. */
static void open_with_bytes_left(struct fixture *x, int64_t left, struct rt_device_claim *other)
{
    const int64_t all = rt_device_left(x->device);
    bool waits;
    struct rt_session_options options = {.registry = x->ops, .compiles_inline = true};
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "half", "Const", "", "dtype=float value=float<3>:0.5,0.5,0.5");
    node(x, "less", "Sub@/device:CPU:0", "p half", "T=float");
    node(x, "four", "Const", "", "dtype=float value=float<3>:4,4,4");
    node(x, "y", "Mul", "less four", "T=float");
    options.accelerators = rt_one_accelerator(x->device);
    options.accelerators.load = 1;
    assert_ok(rt_device_reserve(x->device, other, 2, all - left, &waits, &x->err), &x->err);
    x->s = gs_open(gd_span(&x->g), &options);
    gs_call(x->s, "p:0", "y:0"); /* makes the plan */
}

static void count_no_room(void *arg, bool waits, const struct rt_error *why)
{
    int *counts = arg;
    assert_int_equal(why->code, RT_RESOURCE_EXHAUSTED);
    counts[waits]++;
}

static void only_constants_on_the_accelerator_are_reserved(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor in = vector(3, 1);
    struct rt_device_claim other = {0};
    int counts[2] = {0};
    open_with_bytes_left(x, 12, &other);
    assert_false(rt_session_reserve(x->s, count_no_room, counts));
    assert_int_equal(counts[0] + counts[1], 0);
    assert_true(runs_a_region(x, &in));
    rt_device_claim_end(x->device, &other);
    rt_tensor_clear(&in);
}

static void an_accelerator_without_room_is_removed(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor in = vector(3, 1);
    struct rt_device_claim other = {0};
    int counts[2] = {0};
    open_with_bytes_left(x, 11, &other);
    assert_true(rt_session_reserve(x->s, count_no_room, counts));
    assert_int_equal(counts[false], 1);
    assert_int_equal(x->s->options.accelerators.n, 0);
    assert_false(runs_a_region(x, &in));
    rt_device_claim_end(x->device, &other);
    assert_false(runs_a_region(x, &in));
    rt_tensor_clear(&in);
}

static void a_session_waits_for_the_memory_of_another(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor in = vector(3, 1);
    struct rt_device_claim other = {0}, third = {0};
    bool waits;
    int counts[2] = {0};
    open_with_bytes_left(x, 11, &other);
    rt_device_promise(x->device, &other, 5, 1);
    assert_false(rt_session_reserve(x->s, count_no_room, counts));
    assert_int_equal(counts[true], 1);
    assert_int_equal(x->s->options.accelerators.waits, 1);
    assert_false(runs_a_region(x, &in));
    rt_session_memory_freed(x->s); /* by a session that was too small */
    assert_int_equal(rt_session_compile(x->s), 1);
    assert_false(runs_a_region(x, &in));
    assert_int_equal(rt_device_counts(x->device).used[RT_DEVICE_WEIGHTS], 0);
    rt_device_claim_end(x->device, &other);
    /* What another load has reserved is not free either. */
    assert_ok(
        rt_device_reserve(x->device, &third, 3, rt_device_left(x->device) - 11, &waits, &x->err),
        &x->err);
    rt_session_memory_freed(x->s);
    assert_int_equal(rt_session_compile(x->s), 1);
    assert_false(runs_a_region(x, &in));
    rt_device_claim_end(x->device, &third);
    rt_session_memory_freed(x->s);
    assert_int_equal(rt_session_compile(x->s), 1);
    assert_true(runs_a_region(x, &in));
    rt_tensor_clear(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        T(memory_of_a_run_that_hangs_is_not_used_again),
        T(a_device_string_assigns_a_node),
        T(a_loop_copies_only_its_condition),
        T(a_loop_runs_without_its_accelerator),
        T(a_constant_is_uploaded_once),
        T(views_of_a_regions_value_are_right),
        T(an_error_in_a_region_names_the_node),
        T(a_run_without_memory_is_refused),
        T(many_runs_share_the_streams),
        T(a_run_that_waits_for_a_stream_ends),
        T(a_session_may_have_several_accelerators),
        T(what_runs_on_the_cpu_is_compiled_once),
        T(a_session_keeps_to_its_bytes),
        T(a_limit_counts_the_activations_of_all_streams),
        T(a_refused_region_leaves_no_constants),
        T(only_constants_on_the_accelerator_are_reserved),
        T(an_accelerator_without_room_is_removed),
        T(a_session_waits_for_the_memory_of_another),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
