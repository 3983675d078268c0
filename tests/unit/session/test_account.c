/*
 * Tests the number of bytes that a session holds (rt_session_held), and that the session's account
 * is updated to this number.
 */
#include "tests/support/test.h"

#include <pthread.h>

#include "runtime/core/pool.h"
#include "runtime/session/account.h"
#include "runtime/session/session_internal.h"
#include "tests/support/graph_def.h"
#include "tests/support/graph_session.h"
#include "tests/support/registry.h"

enum { MB = 1 << 20 };

static struct rt_error err;
static struct rt_bytes graph;
static struct rt_budget budget;

/* Makes an account of `estimate` bytes in a new budget of `limit` bytes. */
static struct rt_account *account(size_t limit, size_t estimate)
{
    budget = (struct rt_budget){.limit = limit};
    assert_true(rt_budget_take(&budget, estimate));
    struct rt_account *a = rt_account_new(&budget, estimate);
    assert_non_null(a);
    return a;
}

/* Makes a graph with a constant of 8 MB, which repeats one value, and a variable of n floats. */
static int set_up(void **state)
{
    rt_bytes_init(&graph, 1 << 24);
    gd_node(&graph, "c", "Const", "", "dtype=float value=float<2097152>:0.5");
    gd_node(&graph, "i", "Placeholder", "", "dtype=int32 shape=<?>");
    gd_node(&graph, "zero", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(&graph, "y", "GatherV2", "c i zero", "Tparams=float Tindices=int32 Taxis=int32");
    gd_node(&graph, "n", "Const", "", "dtype=int32 value=int32<1>:8388608");
    gd_node(&graph, "half", "Const", "", "dtype=float value=float<>:0.5");
    gd_node(&graph, "big", "Fill", "n half", "T=float index_type=int32");
    gd_node(&graph, "v", "VarHandleOp", "", "dtype=float shape=<?>");
    gd_node(&graph, "v_set", "AssignVariableOp", "v big", "dtype=float");
    gd_node(&graph, "v_gone", "DestroyResourceOp", "v", "");
    return test_registry_make(state);
}

static int tear_down(void **state)
{
    rt_bytes_clear(&graph);
    return test_registry_drop(state);
}

static struct rt_session *session(struct rt_account *a)
{
    const struct rt_session_options options = {.registry = test_registry, .account = a};
    return gs_open(gd_span(&graph), &options);
}

static enum rt_status run(struct rt_session *s, const char *target)
{
    const struct rt_call_spec spec = {.targets = &target, .n_targets = 1};
    struct rt_callable *c;
    struct rt_tensor none;
    err = (struct rt_error){0};
    const enum rt_status st = rt_session_prepare(s, &spec, &c, &err);
    return st ? st : rt_callable_run(c, NULL, &none, NULL, &err);
}

static void an_account_takes_what_exceeds_its_estimate(void **state)
{
    (void)state;
    struct rt_account *a = account(100, 30);
    assert_ok(rt_account_follow(a, 20, &err), &err);
    assert_int_equal(budget.used, 30);
    assert_int_equal(rt_account_limit(a), 100);
    assert_ok(rt_account_follow(a, 70, &err), &err);
    assert_int_equal(rt_account_taken(a), 70);
    assert_int_equal(budget.used, 70);
    assert_ok(rt_account_follow(a, 40, &err), &err);
    assert_int_equal(budget.used, 40);
    rt_account_free(a);
    assert_int_equal(budget.used, 0);
    rt_account_free(NULL);
}

static void an_account_is_refused_only_while_its_model_is_loaded(void **state)
{
    (void)state;
    struct rt_account *a = account(100, 30);
    assert_true(rt_budget_take(&budget, 50)); /* another model */
    assert_false(rt_account_was_refused(a));
    assert_fails(rt_account_follow(a, 60, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "it holds 60 bytes already, others hold 50 of "
                 "--total_model_memory_limit_bytes=100");
    assert_true(rt_account_was_refused(a));
    assert_int_equal(budget.used, 80);
    rt_account_serve(a);
    assert_ok(rt_account_follow(a, 60, &err), &err);
    assert_int_equal(budget.used, 110);
    assert_int_equal(rt_account_limit(a), 60);
    assert_false(rt_budget_take(&budget, 1));
    rt_account_free(a);
    assert_int_equal(budget.used, 50);
}

static void *follow_often(void *arg)
{
    struct rt_error none = {0};
    for (size_t i = 0; i < 20000; i++)
        (void)rt_account_follow(arg, i * 7919 % 1000, &none);
    return NULL;
}

static void threads_that_follow_at_once_lose_no_bytes(void **state)
{
    (void)state;
    for (int serves = 0; serves < 2; serves++) {
        enum { N = 4 };
        struct rt_account *a = account(500, 100);
        pthread_t thread[N];
        if (serves)
            rt_account_serve(a);
        for (int k = 0; k < N; k++)
            assert_int_equal(pthread_create(&thread[k], NULL, follow_often, a), 0);
        for (int k = 0; k < N; k++)
            pthread_join(thread[k], NULL);
        assert_int_equal(budget.used, rt_account_taken(a));
        rt_account_free(a);
        assert_int_equal(budget.used, 0);
    }
}

static void constants_of_one_repeated_value_are_counted(void **state)
{
    (void)state;
    struct rt_account *a = account(4 * MB, 1000);
    struct rt_session *s = session(a);
    assert_in_range(rt_session_held(s), 8 * MB, 9 * MB);
    assert_fails(rt_session_check(s, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "others hold 0 of --total_model_memory_limit_bytes=4194304");
    rt_session_free(s);
    rt_account_free(a);
}

static void plans_are_counted_until_they_are_freed(void **state)
{
    (void)state;
    struct rt_session *s = session(NULL);
    const size_t before = rt_session_held(s);
    assert_int_equal(s->plan_bytes, 0);
    gs_call(s, "i:0", "y:0");
    assert_true(s->plan_bytes > 0);
    assert_int_equal(rt_session_held(s), before + s->plan_bytes);
    gs_call(s, NULL, "big:0");
    const size_t two = s->plan_bytes;
    rt_session_serve(s);
    gs_call(s, "i:0", "y:0"); /* replaces the plan that was made during loading */
    assert_int_equal(s->plan_bytes, two);
    rt_session_free(s);
}

static void plans_have_a_limit_in_all(void **state)
{
    (void)state;
    struct rt_session *s = session(NULL);
    gs_call(s, "i:0", "y:0");
    atomic_fetch_add(&s->plan_bytes, (size_t)1 << 30);
    assert_int_equal(run(s, "v_set"), RT_RESOURCE_EXHAUSTED);
    assert_string_equal(rt_error_text(&err), "the plans of all signatures and calls of the model "
                                             "take more than 1024 MB");
    atomic_fetch_sub(&s->plan_bytes, (size_t)1 << 30);
    assert_ok(run(s, "v_set"), &err);
    rt_session_free(s);
}

static void a_variable_is_refused_by_the_limit_while_loading(void **state)
{
    (void)state;
    struct rt_account *a = account(20 * MB, 1000);
    struct rt_session *s = session(a);
    assert_int_equal(run(s, "v_set"), RT_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(rt_error_text(&err), "--total_model_memory_limit_bytes"));
    assert_true(budget.used < 20 * MB);
    rt_session_free(s);
    rt_account_free(a);
    assert_int_equal(budget.used, 0);
}

static void what_requests_leave_counts_against_later_models(void **state)
{
    (void)state;
    struct rt_account *a = account(20 * MB, 1000);
    struct rt_session *s = session(a);
    assert_ok(rt_session_check(s, &err), &err);
    rt_session_serve(s);
    rt_account_serve(a);
    assert_ok(run(s, "v_set"), &err);
    assert_true(budget.used > 40 * MB);
    assert_int_equal(budget.used, rt_session_held(s));
    assert_false(rt_budget_take(&budget, 1));
    assert_ok(run(s, "v_gone"), &err);
    assert_in_range(budget.used, 8 * MB, 9 * MB);
    assert_int_equal(budget.used, rt_session_held(s));
    rt_session_free(s);
    rt_account_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_account_takes_what_exceeds_its_estimate),
        cmocka_unit_test(an_account_is_refused_only_while_its_model_is_loaded),
        cmocka_unit_test(threads_that_follow_at_once_lose_no_bytes),
        cmocka_unit_test(constants_of_one_repeated_value_are_counted),
        cmocka_unit_test(plans_are_counted_until_they_are_freed),
        cmocka_unit_test(plans_have_a_limit_in_all),
        cmocka_unit_test(a_variable_is_refused_by_the_limit_while_loading),
        cmocka_unit_test(what_requests_leave_counts_against_later_models),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
