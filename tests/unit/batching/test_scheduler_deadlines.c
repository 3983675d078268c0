/* Tests which jobs the scheduler core gives up because of their deadlines. */
#include "tests/unit/batching/core_fixture.h"

static void an_expired_job_is_given_back_and_not_run(void **state)
{
    (void)state;
    struct world w;
    struct srv_core_batch b;
    struct srv_core_job *expired = NULL;
    begin(&w, usual());
    assert_int_equal(put(&w, 0, 1, 7, 7), SRV_CORE_EXPIRED);
    put(&w, 0, 1, 50, 0);
    put(&w, 0, 1, 500, 0);
    assert_true(srv_core_next(&w.core, 60, worker(0, 1), &b, &expired));
    assert_int_equal(at(&w, expired), 1);
    assert_null(expired->next);
    assert_int_equal(b.n_jobs, 1);
    assert_int_equal(at(&w, b.jobs), 2);
}

static void when_all_that_is_queued_has_expired_nothing_runs(void **state)
{
    (void)state;
    struct world w;
    struct srv_core_batch b;
    struct srv_core_job *expired = NULL;
    begin(&w, usual());
    put(&w, 0, 1, 50, 0);
    assert_false(srv_core_next(&w.core, 60, worker(0, 1), &b, &expired));
    assert_int_equal(at(&w, expired), 0);
    assert_int_equal(w.core.n_jobs, 0);
    assert_null(w.core.active);
}

static void a_job_that_cannot_make_its_deadline_is_given_up_before_it_runs(void **state)
{
    (void)state;
    struct world w;
    struct srv_core_batch b;
    struct srv_core_job *expired = NULL;
    begin(&w, usual());
    for (int i = 0; i < 5; i++)
        srv_cost_learn(&w.bucket[0].cost, 1, 1000);
    put(&w, 0, 1, 1200, 0);
    assert_false(srv_core_next(&w.core, 700, worker(0, 1), &b, &expired));
    assert_int_equal(at(&w, expired), 0);
}

static void quick_jobs_run_after_slow_ones_in_their_bucket(void **state)
{
    (void)state;
    for (int n_slow = 1; n_slow < 10; n_slow++) {
        struct world w;
        begin(&w, usual());
        for (int i = 0; i < n_slow; i++)
            srv_cost_learn(&w.bucket[0].cost, 1, 20000000);
        for (int i = 0; i < 10; i++) {
            const int64_t now = 1000000 * i;
            put(&w, 0, 1, now + 500000, now);
            struct srv_core_batch b = take(&w, now + 10000, 0, 1);
            srv_core_done(&w.core, &b, 2000, true);
        }
    }
}

static void jobs_of_an_uneven_bucket_are_given_up_only_after_their_deadlines(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.bucket[0].is_uneven = true;
    for (int i = 0; i < 5; i++)
        srv_cost_learn(&w.bucket[0].cost, 1, 1000);
    put(&w, 0, 1, 1200, 0);
    take(&w, 1199, 0, 1);
}

static void giving_jobs_up_does_not_shut_a_bucket_for_good(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    for (int i = 0; i < 3; i++)
        srv_cost_learn(&w.bucket[0].cost, 1, 1000000);
    for (int i = 0; i < N; i++) {
        struct srv_core_batch b;
        struct srv_core_job *expired = NULL;
        put(&w, 0, 1, 1300000, 0);
        if (srv_core_next(&w.core, 1000000, worker(0, 1), &b, &expired))
            return;
    }
    fail_msg("never tried again");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expired_job_is_given_back_and_not_run),
        cmocka_unit_test(when_all_that_is_queued_has_expired_nothing_runs),
        cmocka_unit_test(a_job_that_cannot_make_its_deadline_is_given_up_before_it_runs),
        cmocka_unit_test(quick_jobs_run_after_slow_ones_in_their_bucket),
        cmocka_unit_test(jobs_of_an_uneven_bucket_are_given_up_only_after_their_deadlines),
        cmocka_unit_test(giving_jobs_up_does_not_shut_a_bucket_for_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
