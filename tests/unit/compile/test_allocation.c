/*
 * Tests memory allocation. A specialised run must allocate nothing. While a plan is made, any
 * allocation may fail. A sanitizer checks that a failure causes no leak. The linker wraps calls to
 * malloc and related functions from Slipway's own libraries (tests/CMakeLists.txt), and the
 * wrappers count these calls.
 *
 * With directories of models as arguments, the program prints the allocations of each model's
 * "serving_default" signature with a batch of 1.
 */
#include "tests/support/test.h"

#include <errno.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "runtime/files/saved_model.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"

static _Thread_local bool counting;
static long n_allocations;
/* n_calls counts the allocations of this thread. Allocation number `fail_at`, counted from 1,
 * fails. If `fail_at` is 0, no allocation fails. */
static _Thread_local long fail_at, n_calls;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
int __real_posix_memalign(void **p, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);

static bool fails(void)
{
    n_allocations += counting;
    return fail_at && ++n_calls == fail_at;
}

void *__wrap_malloc(size_t n)
{
    if (fails())
        return NULL;
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    if (fails())
        return NULL;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    if (fails())
        return NULL;
    return __real_realloc(p, n);
}

int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
    if (fails())
        return ENOMEM;
    return __real_posix_memalign(p, align, n);
}

enum { MAX_FETCHES = 64 };

/* Runs the plan six times, so that it can specialise and fill the pools. Returns the number of
 * allocations in the next ten runs. */
static long allocations(struct rt_callable *call, const struct rt_tensor *feeds, int n_fetches)
{
    struct rt_tensor out[MAX_FETCHES];
    struct rt_error err = {0};
    for (int i = 0; i < 16; i++) {
        if (i == 6)
            n_allocations = 0;
        counting = i >= 6;
        enum rt_status st = rt_callable_run(call, feeds, out, NULL, &err);
        for (int k = 0; k < n_fetches && !st; k++)
            rt_tensor_clear(&out[k]);
        counting = false;
        assert_ok(st, &err);
    }
    return n_allocations;
}

struct fixture {
    struct rt_bytes g;
    struct rt_registry *ops;
    struct rt_session *s;
    bool fails_each;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    rt_bytes_init(&x->g, 1 << 24);
    x->ops = rt_registry_new();
    *state = x;
    return x->ops && kn_register(x->ops) ? 0 : -1;
}

static int set_up_failing(void **state)
{
    int failed = set_up(state);
    ((struct fixture *)*state)->fails_each = true;
    return failed;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    rt_session_free(x->s);
    rt_bytes_clear(&x->g);
    rt_registry_free(x->ops);
    free(x);
    return 0;
}

/* Makes the plan repeatedly, until no allocation fails. In attempt n, allocation n fails. */
static void fail_each(struct fixture *x, const struct rt_session_options *options,
                      const struct rt_call_spec *spec)
{
    long n_refused = 0, at = 0;
    do {
        struct rt_error err = {0};
        struct rt_callable *call;
        x->s = gs_open(gd_span(&x->g), options);
        n_calls = 0;
        fail_at = ++at;
        enum rt_status st = rt_session_prepare(x->s, spec, &call, &err);
        fail_at = 0;
        if (st)
            assert_int_equal(st, RT_RESOURCE_EXHAUSTED);
        n_refused += st != RT_OK;
        rt_session_free(x->s);
        x->s = NULL;
    } while (n_calls >= at);
    assert_true(n_refused > 20);
}

static long allocations_of(struct fixture *x, const char *fetch, const struct rt_tensor *feed)
{
    const char *name = "x";
    struct rt_session_options options = {.registry = x->ops, .compiles_inline = true};
    struct rt_call_spec spec = {.feeds = &name, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1};
    if (x->fails_each) {
        fail_each(x, &options, &spec);
        return 0;
    }
    x->s = gs_open(gd_span(&x->g), &options);
    return allocations(gs_prepare(x->s, &spec), feed, 1);
}

static struct rt_tensor floats(int rank, const int64_t *dim)
{
    struct rt_tensor t;
    struct rt_error err = {0};
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&t); i++)
        ((float *)t.data)[i] = (float)(i % 13) / 8 - 0.5f;
    return t;
}

static void a_dense_network_allocates_nothing(void **state)
{
    struct fixture *x = *state;
    struct rt_bytes *g = &x->g;
    gd_node(g, "x", "Placeholder", "", "dtype=float");
    gd_node(g, "w", "Const", "", "dtype=float value=float<8,8>:0.25");
    gd_node(g, "b", "Const", "", "dtype=float value=float<8>:0.5");
    gd_node(g, "flat", "Const", "", "dtype=int32 value=int32<1>:-1");
    gd_node(g, "square", "Const", "", "dtype=int32 value=int32<2>:-1,8");
    gd_node(g, "zero", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "one", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(g, "m", "MatMul", "x w", "T=float");
    gd_node(g, "a", "BiasAdd", "m b", "T=float");
    gd_node(g, "r", "Relu", "a", "T=float");
    gd_node(g, "m2", "MatMul", "r w", "T=float");
    gd_node(g, "sum", "AddV2", "m2 r", "T=float");
    gd_node(g, "line", "Reshape", "sum flat", "T=float Tshape=int32");
    gd_node(g, "t", "Tanh", "line", "T=float");
    gd_node(g, "back", "Reshape", "t square", "T=float Tshape=int32");
    gd_node(g, "cut", "Split", "one back", "T=float num_split=2");
    gd_node(g, "concat", "ConcatV2", "cut:1 cut:0 one", "T=float N=2 Tidx=int32");
    gd_node(g, "y", "Softmax", "concat", "T=float");
    struct rt_tensor t = floats(2, (int64_t[]){3, 8});
    assert_int_equal(allocations_of(x, "y", &t), 0);
    rt_tensor_clear(&t);
}

static void a_convolution_allocates_nothing(void **state)
{
    struct fixture *x = *state;
    struct rt_bytes *g = &x->g;
    gd_node(g, "x", "Placeholder", "", "dtype=float");
    gd_node(g, "w", "Const", "", "dtype=float value=float<3,3,4,4>:0.1");
    gd_node(g, "b", "Const", "", "dtype=float value=float<4>:0.5");
    gd_node(g, "axes", "Const", "", "dtype=int32 value=int32<2>:1,2");
    gd_node(g, "c", "Conv2D", "x w", "T=float strides=[1,1,1,1] padding='SAME'");
    gd_node(g, "a", "BiasAdd", "c b", "T=float");
    gd_node(g, "r", "Relu6", "a", "T=float");
    gd_node(g, "c2", "Conv2D", "r w", "T=float strides=[1,2,2,1] padding='SAME'");
    gd_node(g, "p", "MaxPool", "c2", "T=float ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'");
    gd_node(g, "y", "Mean", "p axes", "T=float Tidx=int32");
    struct rt_tensor t = floats(4, (int64_t[]){2, 16, 16, 4});
    assert_int_equal(allocations_of(x, "y", &t), 0);
    rt_tensor_clear(&t);
}

static void calls_allocate_nothing(void **state)
{
    struct fixture *x = *state;
    struct rt_bytes *g = &x->g, body;
    rt_bytes_init(&body, 1 << 20);
    gd_node(&body, "w", "Const", "", "dtype=float value=float<8,8>:0.25");
    gd_node(&body, "b", "Const", "", "dtype=float value=float<8>:0.5");
    gd_node(&body, "m", "MatMul", "v w:output:0", "T=float");
    gd_node(&body, "a", "BiasAdd", "m:product:0 b:output:0", "T=float");
    gd_node(&body, "c", "Const", "", "dtype=float value=float<8>:0.125");
    gd_node(&body, "sum", "AddV2", "a:output:0 c:output:0", "T=float");
    gd_function(g, "layer", "v:float", "w:float", &body, "w=sum:z:0", "");
    gd_node(g, "x", "Placeholder", "", "dtype=float");
    gd_node(g, "one", "PartitionedCall", "x", "Tin=[float] Tout=[float] f=@layer");
    gd_node(g, "two", "PartitionedCall", "one", "Tin=[float] Tout=[float] f=@layer");
    gd_node(g, "y", "Neg", "two", "T=float");
    struct rt_tensor t = floats(2, (int64_t[]){3, 8});
    assert_int_equal(allocations_of(x, "y", &t), 0);
    rt_tensor_clear(&t);
    rt_bytes_clear(&body);
}

static void a_loop_allocates_nothing(void **state)
{
    struct fixture *x = *state;
    struct rt_bytes *g = &x->g, cond, body;
    rt_bytes_init(&cond, 1 << 20);
    rt_bytes_init(&body, 1 << 20);
    gd_node(&cond, "end", "Const", "", "dtype=int32 value=int32<>:20");
    gd_node(&cond, "less", "Less", "i end:output:0", "T=int32");
    gd_function(g, "more", "i:int32 v:float", "yes:bool", &cond, "yes=less:z:0", "");
    gd_node(&body, "one", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(&body, "next", "AddV2", "i one:output:0", "T=int32");
    gd_node(&body, "t", "Tanh", "v", "T=float");
    gd_node(&body, "sum", "AddV2", "t:y:0 v", "T=float");
    gd_function(g, "step", "i:int32 v:float", "j:int32 w:float", &body, "j=next:z:0 w=sum:z:0", "");
    gd_node(g, "x", "Placeholder", "", "dtype=float");
    gd_node(g, "zero", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "loop", "While", "zero x", "T=[int32,float] cond=@more body=@step");
    gd_node(g, "y", "Neg", "loop:1", "T=float");
    struct rt_tensor t = floats(2, (int64_t[]){3, 8});
    assert_int_equal(allocations_of(x, "y", &t), 0);
    rt_tensor_clear(&t);
    rt_bytes_clear(&cond);
    rt_bytes_clear(&body);
}

/* The graph computes `while i < 7: v = v + (all of v below 100 ? v : 1)` with the frames and
 * Switches of TensorFlow 1. */
static void a_loop_of_frames_with_a_branch_in_it_allocates_nothing(void **state)
{
    struct fixture *x = *state;
    struct rt_bytes *g = &x->g;
    gd_node(g, "x", "Placeholder", "", "dtype=float");
    gd_node(g, "zero", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "i", "Enter", "zero", "T=int32 frame_name='w'");
    gd_node(g, "v", "Enter", "x", "T=float frame_name='w'");
    gd_node(g, "mi", "Merge", "i ni", "T=int32 N=2");
    gd_node(g, "mv", "Merge", "v nv", "T=float N=2");
    gd_node(g, "seven", "Const", "^mi", "dtype=int32 value=int32<>:7");
    gd_node(g, "less", "Less", "mi seven", "T=int32");
    gd_node(g, "cond", "LoopCond", "less", "");
    gd_node(g, "si", "Switch", "mi cond", "T=int32");
    gd_node(g, "sv", "Switch", "mv cond", "T=float");
    gd_node(g, "pivot", "Identity", "si:1", "T=int32");
    gd_node(g, "one", "Const", "^pivot", "dtype=int32 value=int32<>:1");
    gd_node(g, "next", "Add", "si:1 one", "T=int32");
    gd_node(g, "axes", "Const", "^pivot", "dtype=int32 value=int32<2>:0,1");
    gd_node(g, "most", "Max", "sv:1 axes", "T=float Tidx=int32");
    gd_node(g, "hundred", "Const", "^pivot", "dtype=float value=float<>:100");
    gd_node(g, "small", "Less", "most hundred", "T=float");
    gd_node(g, "s", "Switch", "sv:1 small", "T=float");
    gd_node(g, "double", "AddV2", "s:1 s:1", "T=float");
    gd_node(g, "unit", "Const", "^pivot", "dtype=float value=float<>:1");
    gd_node(g, "unit_s", "Switch", "unit small", "T=float");
    gd_node(g, "more", "AddV2", "s:0 unit_s:0", "T=float");
    gd_node(g, "m", "Merge", "more double", "T=float N=2");
    gd_node(g, "ni", "NextIteration", "next", "T=int32");
    gd_node(g, "nv", "NextIteration", "m", "T=float");
    gd_node(g, "out", "Exit", "sv:0", "T=float");
    gd_node(g, "y", "Neg", "out", "T=float");
    struct rt_tensor t = floats(2, (int64_t[]){3, 8});
    assert_int_equal(allocations_of(x, "y", &t), 0);
    rt_tensor_clear(&t);
}

/* An assignment to a frozen variable invalidates every plan, and the analysis that permits merging
 * rows. If there is too little memory for a new analysis, runs are not merged until a later
 * analysis succeeds. */
static void an_analysis_of_rows_that_finds_no_memory_is_made_again(void **state)
{
    struct fixture *x = *state;
    struct rt_bytes *g = &x->g;
    const char *write = "write";
    const struct rt_call_spec writes = {.targets = &write, .n_targets = 1};
    const struct rt_session_options options = {.registry = x->ops};
    const struct rt_run_options merged = {.is_merged = true};
    const struct rt_shape shape = {.rank = 2, .dim = {-1, 8}};
    struct rt_tensor t = floats(2, (int64_t[]){3, 8}), out;
    long n_unproved = 0, at = 0;

    gd_node(g, "x", "Placeholder", "", "dtype=float");
    gd_node(g, "one", "Const", "", "dtype=int32 value=int32<1>:1");
    gd_node(g, "v", "VarHandleOp", "", "dtype=int32 shape=<1> shared_name='v'");
    gd_node(g, "load", "AssignVariableOp", "v one", "dtype=int32");
    gd_node(g, "other", "VarHandleOp", "", "dtype=int32 shape=<1> shared_name='other'");
    gd_node(g, "write", "AssignVariableOp", "other one", "dtype=int32");
    gd_node(g, "axis", "ReadVariableOp", "v", "dtype=int32");
    gd_node(g, "read", "ReadVariableOp", "other", "dtype=int32");
    gd_node(g, "twice", "AddV2", "x x", "T=float");
    gd_node(g, "y", "ReverseV2", "twice axis", "T=float Tidx=int32");
    do {
        struct rt_error err = {0};
        x->s = gs_open(gd_span(g), &options);
        gs_load(x->s, "load");
        gs_load(x->s, "write");
        rt_session_serve(x->s);
        struct rt_callable *call = gs_call(x->s, "x", "y");
        assert_true(rt_callable_is_rowwise(call, &shape, &err));
        gs_call(x->s, NULL, "read");
        assert_ok(rt_callable_run(gs_prepare(x->s, &writes), NULL, NULL, NULL, &err), &err);
        call = gs_call(x->s, "x", "y");
        n_calls = 0;
        at += 1 + at / 8;
        fail_at = at;
        enum rt_status st = rt_callable_run(call, &t, &out, &merged, &err);
        fail_at = 0;
        n_unproved += st == RT_UNAVAILABLE;
        /* The next run does not repeat the failed analysis immediately. */
        if (st == RT_UNAVAILABLE) {
            assert_int_equal(rt_callable_run(call, &t, &out, &merged, &err), RT_UNAVAILABLE);
            usleep(150000);
        } else if (st) {
            assert_int_equal(st, RT_RESOURCE_EXHAUSTED);
        }
        if (st)
            assert_ok(rt_callable_run(call, &t, &out, &merged, &err), &err);
        rt_tensor_clear(&out);
        rt_session_free(x->s);
        x->s = NULL;
    } while (n_calls >= at);
    assert_true(n_unproved > 3);
    rt_tensor_clear(&t);
}

/* An allocation that fails while the body of a function is instantiated is reported as out of
 * memory, not as a limit on functions. */
static void a_body_that_finds_no_memory_names_no_limit(void **state)
{
    struct fixture *x = *state;
    struct rt_bytes body;
    long at = 0, n_refused = 0;
    rt_bytes_init(&body, 1 << 20);
    gd_node(&body, "same", "Identity", "v", "T=float");
    gd_function(&x->g, "f", "v:float", "out:float", &body, "out=same:output:0", "");
    gd_node(&x->g, "x", "Placeholder", "", "dtype=float");
    do {
        struct rt_library *l = NULL;
        struct rt_error err = {0};
        const struct rt_func_ref ref = {.name = "f", .depth = 1};
        const struct rt_graph *out;
        assert_ok(rt_library_import(&l, gd_span(&x->g), x->ops, &err), &err);
        n_calls = 0;
        fail_at = ++at;
        const enum rt_status st = rt_library_instantiate(l, &ref, &out, &err);
        fail_at = 0;
        n_refused += st != RT_OK;
        if (st)
            assert_fails(st, RT_RESOURCE_EXHAUSTED, &err, "out of memory");
        rt_library_free(l);
    } while (n_calls >= at);
    assert_true(n_refused > 3);
    rt_bytes_clear(&body);
}

static int count_model(const char *dir, const struct rt_registry *ops)
{
    struct rt_model *m;
    struct rt_error err = {0};
    struct rt_model_options options = {.session = {.registry = ops, .compiles_inline = true},
                                       .warm_up = true};
    if (rt_model_load(&m, dir, &options, &err)) {
        printf("%s: %s\n", dir, rt_error_text(&err));
        return 1;
    }
    const struct rt_model_signature *s = rt_model_signature(m, "serving_default");
    struct rt_tensor *feeds = calloc((size_t)s->def->n_inputs + 1, sizeof *feeds);
    for (int k = 0; k < s->def->n_inputs; k++) {
        struct rt_shape d = s->def->inputs[k].shape;
        for (int i = 0; i < d.rank; i++)
            d.dim[i] = d.dim[i] < 0 ? 1 : d.dim[i];
        assert_ok(
            rt_tensor_new(&feeds[k], NULL, rt_callable_feed_dtype(s->call, k), d.rank, d.dim, &err),
            &err);
        memset(feeds[k].data, 0, rt_tensor_bytes(&feeds[k]));
    }
    printf("%s: %ld allocations in 10 runs\n", dir, allocations(s->call, feeds, s->def->n_outputs));
    for (int k = 0; k < s->def->n_inputs; k++)
        rt_tensor_clear(&feeds[k]);
    free(feeds);
    rt_model_free(m);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define FAILING(f)                                                                                 \
    {                                                                                              \
#f ", and each that its plan takes may fail", f, set_up_failing, tear_down, NULL           \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_dense_network_allocates_nothing),
        TEST(a_convolution_allocates_nothing),
        TEST(calls_allocate_nothing),
        TEST(a_loop_allocates_nothing),
        TEST(a_loop_of_frames_with_a_branch_in_it_allocates_nothing),
        TEST(a_body_that_finds_no_memory_names_no_limit),
        TEST(an_analysis_of_rows_that_finds_no_memory_is_made_again),
        FAILING(a_dense_network_allocates_nothing),
        FAILING(a_convolution_allocates_nothing),
        FAILING(calls_allocate_nothing),
        FAILING(a_loop_allocates_nothing),
        FAILING(a_loop_of_frames_with_a_branch_in_it_allocates_nothing),
    };
    if (argc < 2)
        return cmocka_run_group_tests(tests, NULL, NULL);
    struct rt_registry *ops = rt_registry_new();
    int failed = !ops || !kn_register(ops);
    for (int i = 1; i < argc && !failed; i++)
        failed = count_model(argv[i], ops);
    rt_registry_free(ops);
    return failed;
}
