/*
 * Tests the choice of a kernel for Sqrt when `prepare` fails in the kernel that ranks first
 * (runtime/select/choose.c).
 */
#include "tests/support/test.h"

#include "kernels/kernels.h"
#include "runtime/core/op.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"

static enum rt_status refusal;
static bool hands_out;
static int prepared, released;

static int can_first(const struct rt_prep *p)
{
    (void)p;
    return 100;
}

static void release(void *state)
{
    assert_int_equal(*(int *)state, 7);
    released++;
}

static enum rt_status prepare(struct rt_prep *p, void **state)
{
    int *s = rt_prep_alloc(p, sizeof *s);
    assert_non_null(s);
    *s = 7;
    if (hands_out)
        *state = s;
    p->release = release;
    p->scratch_bytes = 1 << 20;
    prepared++;
    return refusal ? rt_fail(p->err, refusal, "not this one") : RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    (void)r;
    return RT_OK;
}

static const struct rt_kernel first = {.op = "Sqrt",
                                       .device = "CPU",
                                       .name = "sqrt.first",
                                       .can = can_first,
                                       .prepare = prepare,
                                       .run = run};

/* Computes sqrt(9) into *y. In the kernel that ranks first, `prepare` returns `how`. If `out` is
 * true, `prepare` also sets the kernel's state. */
static enum rt_status run_once(enum rt_status how, bool out, float *y)
{
    struct rt_registry *all = rt_registry_new();
    const struct rt_session_options options = {.registry = all, .tuning = {.no_fusion = true}};
    struct rt_error err = {.arena = NULL};
    struct rt_tensor in, got;
    struct rt_bytes g;

    refusal = how;
    hands_out = out;
    prepared = released = 0;
    assert_true(all && kn_register(all) && rt_registry_add_kernel(all, &first));
    rt_bytes_init(&g, 1 << 16);
    gd_node(&g, "x", "Placeholder", "", "dtype=float");
    gd_node(&g, "y", "Sqrt", "x", "T=float");
    struct rt_session *s = gs_open(gd_span(&g), &options);
    struct rt_callable *c = gs_call(s, "x:0", "y:0");
    assert_ok(rt_tensor_new(&in, NULL, RT_F32, 1, (int64_t[]){1}, &err), &err);
    *(float *)in.data = 9;
    const enum rt_status st = rt_callable_run(c, &in, &got, NULL, &err);
    if (!st) {
        *y = *(float *)got.data;
        rt_tensor_clear(&got);
    }
    rt_tensor_clear(&in);
    rt_session_free(s);
    rt_registry_free(all);
    rt_bytes_clear(&g);
    return st;
}

static void what_a_failed_prepare_handed_out_is_released_once(void **state)
{
    (void)state;
    assert_int_equal(run_once(RT_INTERNAL, true, NULL), RT_INTERNAL);
    assert_true(prepared > 0);
    assert_int_equal(released, prepared);
}

static void a_failed_prepare_that_handed_nothing_out_is_left_alone(void **state)
{
    (void)state;
    assert_int_equal(run_once(RT_INTERNAL, false, NULL), RT_INTERNAL);
    assert_true(prepared > 0);
    assert_int_equal(released, 0);
}

static void where_one_refuses_the_next_candidate_runs(void **state)
{
    float y = 0;
    (void)state;
    assert_int_equal(run_once(RT_FAILED_PRECONDITION, true, &y), RT_OK);
    assert_true(y == 3);
    assert_true(prepared > 0);
    assert_int_equal(released, prepared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_failed_prepare_handed_out_is_released_once),
        cmocka_unit_test(a_failed_prepare_that_handed_nothing_out_is_left_alone),
        cmocka_unit_test(where_one_refuses_the_next_candidate_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
