/* Tests sessions (runtime/session/session.h), including feeds and fetches, variables and functions.
 */
#include "tests/support/test.h"

#include <pthread.h>

#include "kernels/kernels.h"
#include "runtime/session/resource.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"

struct fixture {
    struct rt_bytes g;
    struct rt_registry *ops;
    struct rt_session *s;
    struct rt_error err;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    rt_bytes_init(&x->g, 1 << 24);
    x->ops = rt_registry_new();
    *state = x;
    return x->ops && kn_register(x->ops) ? 0 : -1;
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

static void node(struct fixture *x, const char *name, const char *op, const char *inputs,
                 const char *attrs)
{
    gd_node(&x->g, name, op, inputs, attrs);
}

static void open_session(struct fixture *x)
{
    const struct rt_session_options options = {.registry = x->ops};
    x->s = gs_open(gd_span(&x->g), &options);
}

static struct rt_tensor scalar(float v)
{
    struct rt_tensor t;
    struct rt_error err = {0};
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 0, NULL, &err), &err);
    *(float *)t.data = v;
    return t;
}

static struct rt_tensor vector(int n, const float *v)
{
    struct rt_tensor t;
    struct rt_error err = {0};
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 1, (int64_t[]){n}, &err), &err);
    memcpy(t.data, v, (size_t)n * sizeof *v);
    return t;
}

/* Runs the session with one feed, one fetch and one target. NULL means no feed, no fetch or no
 * target. */
static enum rt_status run1(struct fixture *x, const char *feed, const struct rt_tensor *in,
                           const char *fetch, struct rt_tensor *out, const char *target)
{
    struct rt_call_spec spec = {.feeds = &feed,
                                .n_feeds = feed ? 1 : 0,
                                .fetches = &fetch,
                                .n_fetches = fetch ? 1 : 0,
                                .targets = &target,
                                .n_targets = target ? 1 : 0};
    struct rt_callable *c;
    struct rt_tensor none;
    x->err = (struct rt_error){0};
    enum rt_status st = rt_session_prepare(x->s, &spec, &c, &x->err);
    return st ? st : rt_callable_run(c, in, out ? out : &none, NULL, &x->err);
}

static float value1(struct fixture *x, const char *feed, float in, const char *fetch)
{
    struct rt_tensor t = scalar(in), out;
    assert_ok(run1(x, feed, feed ? &t : NULL, fetch, &out, NULL), &x->err);
    assert_int_equal(out.dtype, RT_F32);
    float v = *(float *)out.data;
    rt_tensor_clear(&t);
    rt_tensor_clear(&out);
    return v;
}

static void half_plus_two(struct fixture *x)
{
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "x", "Identity", "p", "T=float");
    node(x, "half", "Const", "", "dtype=float value=float<>:0.5");
    node(x, "two", "Const", "", "dtype=float value=float<>:2");
    node(x, "mul", "Mul", "x half", "T=float");
    node(x, "y", "AddV2", "mul two", "T=float");
}

static void any_tensor_may_be_fed_and_fetched(void **state)
{
    struct fixture *x = *state;
    half_plus_two(x);
    open_session(x);
    assert_true(value1(x, "p:0", 4, "y:0") == 4);
    assert_true(value1(x, "x", 8, "y") == 6);
    assert_true(value1(x, "mul:0", 8, "y:0") == 10);
    assert_true(value1(x, "y:0", 3, "y:0") == 3);
    assert_true(value1(x, "x:0", 3, "two:0") == 2);
}

static void what_is_missing_or_of_another_type_is_named(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor t, out;
    half_plus_two(x);
    open_session(x);
    assert_fails(run1(x, NULL, NULL, "y:0", &out, NULL), RT_INVALID_ARGUMENT, &x->err,
                 "You must feed a value for placeholder tensor 'p' with dtype float");
    assert_int_not_equal(run1(x, NULL, NULL, "nobody:0", &out, NULL), RT_OK);
    assert_non_null(strstr(rt_error_text(&x->err), "nobody"));
    assert_ok(rt_tensor_new(&t, NULL, RT_I32, 0, NULL, &x->err), &x->err);
    assert_fails(run1(x, "x:0", &t, "y:0", &out, NULL), RT_INVALID_ARGUMENT, &x->err,
                 "Expects arg[0] to be float but int32 is provided");
    rt_tensor_clear(&t);
}

static void a_feed_is_never_written_over(void **state)
{
    struct fixture *x = *state;
    half_plus_two(x);
    open_session(x);
    struct rt_tensor in = vector(3, (float[]){1, 2, 3}), out;
    assert_ok(run1(x, "x:0", &in, "y:0", &out, NULL), &x->err);
    assert_true(((float *)in.data)[2] == 3);
    assert_true(((float *)out.data)[2] == 3.5f);
    rt_tensor_clear(&in);
    rt_tensor_clear(&out);
}

static void variables(struct fixture *x)
{
    node(x, "v", "VarHandleOp", "", "dtype=float shape=<> shared_name='v'");
    node(x, "again", "VarHandleOp", "", "dtype=float shape=<> shared_name='v'");
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "read", "ReadVariableOp", "again", "dtype=float");
    node(x, "y", "AddV2", "read p", "T=float");
    node(x, "set", "AssignVariableOp", "v p", "dtype=float");
    node(x, "add", "AssignAddVariableOp", "v p", "dtype=float");
    node(x, "after", "ReadVariableOp", "v ^add", "dtype=float");
}

static void a_variable_is_one_slot_under_all_its_handles(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor out, t = scalar(5);
    variables(x);
    open_session(x);
    assert_fails(run1(x, "p:0", &t, "y:0", &out, NULL), RT_FAILED_PRECONDITION, &x->err,
                 "Could not find variable v. This could mean");
    assert_ok(run1(x, "p:0", &t, NULL, NULL, "set"), &x->err);
    assert_true(value1(x, "p:0", 1, "y:0") == 6);
    assert_true(value1(x, "p:0", 2, "after:0") == 7);
    rt_tensor_clear(&t);
}

static void a_frozen_variable_that_is_written_after_all_is_read_anew(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor t = scalar(5);
    variables(x);
    open_session(x);
    assert_ok(run1(x, "p:0", &t, NULL, NULL, "set"), &x->err);
    rt_session_serve(x->s);
    assert_true(value1(x, "p:0", 1, "y:0") == 6);
    *(float *)t.data = 100;
    assert_ok(run1(x, "p:0", &t, NULL, NULL, "set"), &x->err);
    assert_true(value1(x, "p:0", 1, "y:0") == 101);
    rt_tensor_clear(&t);
}

static void a_write_in_a_body_that_nothing_reaches_runs_once(void **state)
{
    struct fixture *x = *state;
    struct rt_bytes body, outer;
    rt_bytes_init(&body, 1 << 20);
    rt_bytes_init(&outer, 1 << 20);
    gd_node(&body, "one", "Const", "", "dtype=float value=float<>:1");
    gd_node(&body, "add", "AssignAddVariableOp", "r one:output:0", "dtype=float");
    gd_node(&body, "twice", "AddV2", "a a", "T=float");
    gd_function(&x->g, "inner", "r:resource a:float", "out:float", &body, "out=twice:z:0", "");
    gd_node(&outer, "call", "StatefulPartitionedCall", "r a",
            "Tin=[resource,float] Tout=[float] f=@inner");
    gd_function(&x->g, "outer", "r:resource a:float", "out:float", &outer, "out=call:output:0", "");
    variables(x);
    node(x, "f", "StatefulPartitionedCall", "v p", "Tin=[resource,float] Tout=[float] f=@outer");
    open_session(x);
    struct rt_tensor t = scalar(5);
    assert_ok(run1(x, "p:0", &t, NULL, NULL, "set"), &x->err);
    assert_true(value1(x, "p:0", 3, "f:0") == 6);
    assert_true(value1(x, "p:0", 3, "f:0") == 6);
    assert_true(value1(x, "p:0", 0, "y:0") == 7);
    rt_tensor_clear(&t);
    rt_bytes_clear(&body);
    rt_bytes_clear(&outer);
}

/* The types of a call, of its inputs and of its function may contradict each other. Fused nodes
 * would then read other bytes than there are. */
static void a_call_whose_types_lie_is_refused(void **state)
{
    static const char *const fetches[] = {"argument:0", "result:0", "branch:0", "nested:0"};
    struct fixture *x = *state;
    struct rt_bytes b;
    rt_bytes_init(&b, 1 << 20);
    gd_node(&b, "twice", "AddV2", "a a", "T=int32");
    gd_function(&x->g, "ints", "a:int32", "out:int32", &b, "out=twice:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "twice", "AddV2", "a a", "T=float");
    gd_function(&x->g, "floats", "a:float", "out:float", &b, "out=twice:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "call", "PartitionedCall", "a", "Tin=[float] Tout=[int32] f=@ints");
    gd_function(&x->g, "outer", "a:float", "out:int32", &b, "out=call:output:0", "");
    rt_bytes_clear(&b);
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "yes", "Const", "", "dtype=bool value=bool<>:1");
    node(x, "argument", "PartitionedCall", "p", "Tin=[float] Tout=[int32] f=@ints");
    node(x, "result", "PartitionedCall", "p", "Tin=[float] Tout=[int32] f=@floats");
    node(x, "branch", "StatelessIf", "yes p",
         "Tcond=bool Tin=[float] Tout=[int32] then_branch=@ints else_branch=@ints");
    node(x, "nested", "PartitionedCall", "p", "Tin=[float] Tout=[int32] f=@outer");
    node(x, "right", "PartitionedCall", "p", "Tin=[float] Tout=[float] f=@floats");
    open_session(x);
    for (size_t i = 0; i < sizeof fetches / sizeof *fetches; i++) {
        struct rt_tensor t = scalar(5), out;
        assert_fails(run1(x, "p:0", &t, fetches[i], &out, NULL), RT_INVALID_ARGUMENT, &x->err,
                     ", expected ");
        rt_tensor_clear(&t);
    }
    assert_true(value1(x, "p:0", 5, "right:0") == 10);
}

static void functions_for_control_flow(struct fixture *x)
{
    struct rt_bytes b;
    rt_bytes_init(&b, 1 << 20);
    gd_node(&b, "twice", "AddV2", "a a", "T=float");
    gd_function(&x->g, "twice", "a:float", "out:float", &b, "out=twice:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "square", "Mul", "a a", "T=float");
    gd_function(&x->g, "square", "a:float", "out:float", &b, "out=square:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "limit", "Const", "", "dtype=float value=float<>:100");
    gd_node(&b, "less", "Less", "a limit:output:0", "T=float");
    gd_function(&x->g, "small", "a:float", "out:bool", &b, "out=less:z:0", "");
    rt_bytes_clear(&b);
    gd_node(&b, "again", "StatefulPartitionedCall", "a", "Tin=[float] Tout=[float] f=@forever");
    gd_function(&x->g, "forever", "a:float", "out:float", &b, "out=again:output:0", "");
    rt_bytes_clear(&b);
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "c", "Placeholder", "", "dtype=bool");
    node(x, "if", "StatelessIf", "c p",
         "Tcond=bool Tin=[float] Tout=[float] then_branch=@twice else_branch=@square");
    node(x, "yes", "Const", "", "dtype=bool value=bool<>:1");
    node(x, "always", "StatelessIf", "yes p",
         "Tcond=bool Tin=[float] Tout=[float] then_branch=@twice else_branch=@square");
    node(x, "loop", "StatelessWhile", "p", "T=[float] cond=@small body=@twice");
    node(x, "k", "Placeholder", "", "dtype=int32");
    node(x, "case", "StatelessCase", "k p", "Tin=[float] Tout=[float] branches=[@twice,@square]");
    node(x, "forever", "StatefulPartitionedCall", "p", "Tin=[float] Tout=[float] f=@forever");
}

static void branches_and_loops_run_their_functions(void **state)
{
    struct fixture *x = *state;
    functions_for_control_flow(x);
    open_session(x);
    assert_true(value1(x, "p:0", 5, "always:0") == 10);
    assert_true(value1(x, "p:0", 3, "loop:0") == 192);
    assert_true(value1(x, "p:0", 300, "loop:0") == 300);
    const char *feeds[] = {"c:0", "p:0"}, *fetch = "if:0";
    struct rt_call_spec spec = {.feeds = feeds, .n_feeds = 2, .fetches = &fetch, .n_fetches = 1};
    struct rt_callable *c;
    struct rt_tensor in[2], out;
    assert_ok(rt_session_prepare(x->s, &spec, &c, &x->err), &x->err);
    assert_ok(rt_tensor_new(&in[0], NULL, RT_BOOL, 0, NULL, &x->err), &x->err);
    in[1] = scalar(7);
    for (int yes = 0; yes < 2; yes++) {
        *(bool *)in[0].data = yes;
        assert_ok(rt_callable_run(c, in, &out, NULL, &x->err), &x->err);
        assert_true(*(float *)out.data == (yes ? 14 : 49));
        rt_tensor_clear(&out);
    }
    rt_tensor_clear(&in[0]);
    feeds[0] = "k:0";
    fetch = "case:0";
    assert_ok(rt_session_prepare(x->s, &spec, &c, &x->err), &x->err);
    assert_ok(rt_tensor_new(&in[0], NULL, RT_I32, 0, NULL, &x->err), &x->err);
    for (int k = -1; k < 4; k++) {
        *(int32_t *)in[0].data = k;
        assert_ok(rt_callable_run(c, in, &out, NULL, &x->err), &x->err);
        assert_true(*(float *)out.data == (k == 0 ? 14 : 49));
        rt_tensor_clear(&out);
    }
    rt_tensor_clear(&in[0]);
    rt_tensor_clear(&in[1]);
}

static void a_function_that_calls_itself_for_ever_is_refused(void **state)
{
    struct fixture *x = *state;
    struct rt_tensor t = scalar(1), out;
    functions_for_control_flow(x);
    open_session(x);
    assert_int_not_equal(run1(x, "p:0", &t, "forever:0", &out, NULL), RT_OK);
    assert_non_null(strstr(rt_error_text(&x->err), "deep"));
    rt_tensor_clear(&t);
}

struct caller {
    struct rt_callable *c;
    int wrong;
};

static void *call_often(void *arg)
{
    struct caller *me = arg;
    for (int i = 0; i < 300; i++) {
        struct rt_error err = {0};
        int n = i % 20 + 1;
        struct rt_tensor in, out;
        if (rt_tensor_new(&in, NULL, RT_F32, 1, (int64_t[]){n}, &err))
            return NULL;
        for (int k = 0; k < n; k++)
            ((float *)in.data)[k] = (float)k;
        if (rt_callable_run(me->c, &in, &out, NULL, &err) != RT_OK ||
            ((float *)out.data)[n - 1] != (float)(n - 1) / 2 + 2)
            me->wrong++;
        rt_tensor_clear(&in);
        rt_tensor_clear(&out);
    }
    return NULL;
}

static void many_threads_and_shapes_at_once_get_right_answers(void **state)
{
    struct fixture *x = *state;
    half_plus_two(x);
    open_session(x);
    struct rt_callable *c = gs_call(x->s, "x:0", "y:0");
    pthread_t t[4];
    struct caller callers[4];
    for (int i = 0; i < 4; i++) {
        callers[i] = (struct caller){c, 0};
        assert_int_equal(pthread_create(&t[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(callers[i].wrong, 0);
    }
}

static bool rowwise(struct fixture *x, const char *fetch)
{
    struct rt_shape shape = {.rank = 2, .dim = {-1, 6}};
    x->err = (struct rt_error){0};
    return rt_callable_is_rowwise(gs_call(x->s, "p:0", fetch), &shape, &x->err);
}

static void only_what_is_rowwise_may_be_merged(void **state)
{
    struct fixture *x = *state;
    node(x, "p", "Placeholder", "", "dtype=float");
    node(x, "w", "Const", "", "dtype=float value=float<6,2>:1,2,3,4,5,6,7,8,9,10,11,12");
    node(x, "dense", "MatMul", "p w", "T=float");
    node(x, "act", "Relu", "dense", "T=float");
    node(x, "shape", "Shape", "p", "T=float");
    node(x, "zero", "Const", "", "dtype=int32 value=int32<1>:0");
    node(x, "one", "Const", "", "dtype=int32 value=int32<1>:1");
    node(x, "n", "StridedSlice", "shape zero one one", "T=int32 Index=int32 shrink_axis_mask=1");
    node(x, "three", "Const", "", "dtype=int32 value=int32<>:3");
    node(x, "two", "Const", "", "dtype=int32 value=int32<>:2");
    node(x, "to", "Pack", "n three two", "T=int32 N=3");
    node(x, "reshaped", "Reshape", "p to", "T=float Tshape=int32");
    node(x, "axis0", "Const", "", "dtype=int32 value=int32<>:0");
    node(x, "axis1", "Const", "", "dtype=int32 value=int32<>:1");
    node(x, "sum1", "Sum", "p axis1", "T=float Tidx=int32");
    node(x, "sum0", "Sum", "p axis0", "T=float Tidx=int32 keep_dims=true");
    node(x, "centred", "Sub", "p sum0", "T=float");
    node(x, "gram", "MatMul", "p p", "T=float transpose_b=true");
    node(x, "fixed", "Const", "", "dtype=float value=float<2>:1,2");
    node(x, "perm", "Const", "", "dtype=int32 value=int32<2>:1,0");
    node(x, "transposed", "Transpose", "p perm", "T=float Tperm=int32");
    node(x, "back", "Transpose", "transposed perm", "T=float Tperm=int32");
    open_session(x);
    const char *const good[] = {"act:0", "reshaped:0", "sum1:0", "back:0"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!rowwise(x, good[i]))
            fail_msg("%s: %s", good[i], rt_error_text(&x->err));
    assert_false(rowwise(x, "centred:0"));
    assert_non_null(strstr(rt_error_text(&x->err), "sum0"));
    assert_false(rowwise(x, "gram:0"));
    assert_false(rowwise(x, "fixed:0"));
    assert_false(rowwise(x, "transposed:0"));
    assert_false(rowwise(x, "n:0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        T(any_tensor_may_be_fed_and_fetched),
        T(what_is_missing_or_of_another_type_is_named),
        T(a_feed_is_never_written_over),
        T(a_variable_is_one_slot_under_all_its_handles),
        T(a_frozen_variable_that_is_written_after_all_is_read_anew),
        T(a_write_in_a_body_that_nothing_reaches_runs_once),
        T(a_call_whose_types_lie_is_refused),
        T(branches_and_loops_run_their_functions),
        T(a_function_that_calls_itself_for_ever_is_refused),
        T(many_threads_and_shapes_at_once_get_right_answers),
        T(only_what_is_rowwise_may_be_merged),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
