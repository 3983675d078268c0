/* Tests the parts of a policy that a model's config.pbtxt sets: preferred batch sizes, and limits
 * of a model queue. */
#include "tests/unit/batching/core_fixture.h"

#include "runtime/base/clock.h"

static struct srv_core_batch batch;

/* Returns the number of rows of the next batch, or -1 if none may run. */
static int64_t next_rows(struct world *w, int64_t now)
{
    struct srv_core_job *expired = NULL;
    const bool is = srv_core_next(&w->core, now, worker(0, 1), &batch, &expired);
    assert_null(expired);
    return is ? batch.rows : -1;
}

static void a_batch_gets_the_largest_preferred_size(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.fixed = true;
    w.policy.n_preferred = 2;
    w.policy.preferred[0] = 2;
    w.policy.preferred[1] = 5;
    for (int i = 0; i < 7; i++)
        put(&w, 0, 1, RT_NEVER, 1);
    assert_int_equal(next_rows(&w, 2), 5);
    assert_int_equal(next_rows(&w, 2), 2);
    /* 3 rows make no preferred size, and nothing is to be waited for. */
    put(&w, 0, 3, RT_NEVER, 3);
    assert_int_equal(next_rows(&w, 4), 3);
    /* 3 + 1 rows make none either, but the 3 + 2 rows do. */
    put(&w, 0, 3, RT_NEVER, 5);
    put(&w, 0, 2, RT_NEVER, 6);
    put(&w, 0, 1, RT_NEVER, 7);
    assert_int_equal(next_rows(&w, 8), 5);
    assert_int_equal(next_rows(&w, 8), 1);
}

static void a_batch_waits_until_it_has_a_preferred_size(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.fixed = true;
    w.policy.timeout_ns = 100;
    w.policy.n_preferred = 1;
    w.policy.preferred[0] = 2;
    put(&w, 0, 1, RT_NEVER, 10);
    assert_int_equal(next_rows(&w, 20), -1);
    assert_int_equal(srv_core_next_timer(&w.core), 110);
    put(&w, 0, 1, RT_NEVER, 20);
    assert_int_equal(next_rows(&w, 20), 2);
    put(&w, 0, 3, RT_NEVER, 30);
    assert_int_equal(next_rows(&w, 129), -1);
    assert_int_equal(next_rows(&w, 130), 3);
}

static void a_model_queue_runs_as_many_batches_as_it_may(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.max_running = 2;
    w.policy.max_rows = 1;
    for (int i = 0; i < 3; i++)
        put(&w, 0, 1, RT_NEVER, 1);
    assert_int_equal(next_rows(&w, 2), 1);
    const struct srv_core_batch first = batch;
    assert_int_equal(next_rows(&w, 2), 1);
    assert_int_equal(next_rows(&w, 2), -1);
    assert_false(srv_core_is_ready(&w.core, 2, worker(0, 1)));
    /* Another model queue has its own limit. */
    put(&w, 2, 1, RT_NEVER, 2);
    assert_int_equal(next_rows(&w, 3), 1);
    srv_core_done(&w.core, &first, 1, false);
    assert_int_equal(next_rows(&w, 4), 1);
}

static void a_model_queue_holds_as_many_jobs_as_it_may(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.max_jobs = 2;
    assert_int_equal(put(&w, 0, 1, RT_NEVER, 1), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 1, 1, RT_NEVER, 1), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 0, 1, RT_NEVER, 1), SRV_CORE_FULL);
    assert_int_equal(put(&w, 2, 1, RT_NEVER, 1), SRV_CORE_QUEUED);
}

static void a_job_is_queued_for_a_limited_time(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.max_queued_ns = 50;
    put(&w, 0, 1, RT_NEVER, 1);
    put(&w, 0, 1, 20, 1);
    struct srv_core_job *gone = srv_core_expired(&w.core, 20);
    assert_int_equal(at(&w, gone), 1);
    assert_null(gone->next);
    assert_null(srv_core_expired(&w.core, 50));
    assert_int_equal(at(&w, srv_core_expired(&w.core, 51)), 0);
}

static void a_run_may_end_after_the_time_in_the_queue(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.max_queued_ns = 1200;
    for (int i = 0; i < 5; i++)
        srv_cost_learn(&w.bucket[0].cost, 1, 1000);
    put(&w, 0, 1, RT_NEVER, 1);
    assert_int_equal(next_rows(&w, 700), 1);
}

static void a_policy_has_its_own_default_level(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.level = 4;
    w.policy.max_rows = 1;
    put(&w, 0, 1, RT_NEVER, 1);
    w.job[1] = (struct srv_core_job){.rows = 1, .deadline_ns = RT_NEVER, .level = 3};
    w.n = 2;
    srv_core_submit(&w.core, &w.bucket[0], &w.job[1], 2);
    assert_int_equal(next_rows(&w, 3), 1);
    assert_int_equal(at(&w, batch.jobs), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_gets_the_largest_preferred_size),
        cmocka_unit_test(a_batch_waits_until_it_has_a_preferred_size),
        cmocka_unit_test(a_model_queue_runs_as_many_batches_as_it_may),
        cmocka_unit_test(a_model_queue_holds_as_many_jobs_as_it_may),
        cmocka_unit_test(a_job_is_queued_for_a_limited_time),
        cmocka_unit_test(a_run_may_end_after_the_time_in_the_queue),
        cmocka_unit_test(a_policy_has_its_own_default_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
