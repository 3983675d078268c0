/* Tests that a callable's plan is made without a shared lock (runtime/api/callable.c), so that only
 * runs that need the plan wait for it. */
#include <stdatomic.h>
#include <string.h>

#include "runtime/base/thread.h"
#include "runtime/core/op.h"
#include "tests/support/small_graph.h"

/* Constant folding runs this kernel while a plan is made. The kernel waits while `is_held` is
 * true. */
static struct {
    struct rt_mutex mu;
    struct rt_cond changed;
    bool is_held; /* guarded by mu */
    int n_begun;  /* number of runs of the kernel that have begun, guarded by mu */
} gate;

static enum rt_status infer_slow(struct rt_infer *x)
{
    x->out[0].shape = x->in[0].shape;
    return RT_OK;
}

static enum rt_status run_slow(struct rt_run *r)
{
    rt_mutex_lock(&gate.mu);
    gate.n_begun++;
    rt_cond_broadcast(&gate.changed);
    while (gate.is_held)
        rt_cond_wait(&gate.changed, &gate.mu);
    rt_mutex_unlock(&gate.mu);
    *(float *)r->out[0].data = *(const float *)r->in[0].data;
    return RT_OK;
}

static const struct rt_op slow_op = {.name = "Copy", .infer = infer_slow};
static const struct rt_kernel slow_kernel = {
    .op = "Copy", .device = "CPU", .name = "test.slow", .run = run_slow};

static int set_up(void **state)
{
    const int failed = sg_set_up(state);
    struct small_graph *x = *state;
    rt_mutex_init(&gate.mu);
    rt_cond_init(&gate.changed);
    gate.is_held = false;
    gate.n_begun = 0;
    return failed || !rt_registry_add_op(x->registry, &slow_op) ||
           !rt_registry_add_kernel(x->registry, &slow_kernel);
}

static int tear_down(void **state)
{
    rt_cond_clear(&gate.changed);
    rt_mutex_clear(&gate.mu);
    return sg_tear_down(state);
}

static void hold(bool yes)
{
    rt_mutex_lock(&gate.mu);
    gate.is_held = yes;
    rt_cond_broadcast(&gate.changed);
    rt_mutex_unlock(&gate.mu);
}

static void wait_for_begin(int n)
{
    rt_mutex_lock(&gate.mu);
    while (gate.n_begun < n)
        rt_cond_wait(&gate.changed, &gate.mu);
    rt_mutex_unlock(&gate.mu);
}

struct request {
    pthread_t thread;
    struct rt_callable *c;
    float result;
};

static float run(struct rt_callable *c)
{
    float one = 1;
    const struct rt_tensor in = {.dtype = RT_F32, .data = &one};
    struct rt_tensor out;
    struct rt_error err = {0};
    assert_ok(rt_callable_run(c, &in, &out, NULL, &err), &err);
    const float y = *(const float *)out.data;
    rt_tensor_clear(&out);
    return y;
}

static void *run_request(void *arg)
{
    struct request *r = arg;
    r->result = run(r->c);
    return NULL;
}

static void only_those_who_need_a_plan_wait_for_it(void **state)
{
    struct small_graph *x = *state;
    struct request r[2];
    sg_node(x, "x", "Placeholder", "", "dtype=float");
    sg_constant(x, "three", "", "3");
    sg_node(x, "slow", "Copy", "three", "T=float");
    sg_node(x, "y", "AddV2", "x slow", "T=float");
    sg_node(x, "z", "Neg", "x", "T=float");
    struct rt_callable *y = sg_prepare(x, "y", NULL), *z = sg_prepare(x, "z", NULL);
    assert_int_equal(gate.n_begun, 1);
    rt_session_serve(x->session);
    hold(true);
    for (int i = 0; i < 2; i++) {
        r[i].c = y;
        assert_int_equal(rt_thread_start(&r[i].thread, "request", run_request, &r[i]), 0);
    }
    wait_for_begin(2);
    assert_false(rt_callable_writes(y));
    assert_false(rt_callable_is_compiled(y, 1));
    assert_true(run(z) == -1);
    hold(false);
    for (int i = 0; i < 2; i++) {
        pthread_join(r[i].thread, NULL);
        assert_true(r[i].result == 4);
    }
    assert_int_equal(gate.n_begun, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_those_who_need_a_plan_wait_for_it, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
