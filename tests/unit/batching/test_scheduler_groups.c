/* Tests the groups of workers of the scheduler core (server/batching/scheduler_core.h). */
#include "tests/unit/batching/core_fixture.h"

#include "runtime/base/clock.h"

static void a_group_takes_only_what_its_workers_may_run(void **state)
{
    (void)state;
    struct world w;
    struct srv_core_batch b;
    struct srv_core_job *expired = NULL;
    begin(&w, usual());
    w.model_queue[0].groups = 1 << 1;
    w.model_queue[1].groups = 1 << 1 | 1 << 2;
    put(&w, 0, 1, RT_NEVER, 0);
    put(&w, 2, 1, RT_NEVER, 0);
    for (int group = 0; group < 4; group += 3) {
        assert_false(srv_core_is_ready(&w.core, 1, worker(group, 1)));
        assert_false(srv_core_next(&w.core, 1, worker(group, 1), &b, &expired));
    }
    assert_true(srv_core_is_ready(&w.core, 1, worker(2, 1)));
    assert_true(srv_core_next(&w.core, 1, worker(2, 1), &b, &expired));
    assert_int_equal(b.bucket - w.bucket, 2);
    assert_false(srv_core_is_ready(&w.core, 1, worker(2, 1)));
    assert_true(srv_core_next(&w.core, 1, worker(1, 1), &b, &expired));
    assert_int_equal(b.bucket - w.bucket, 0);
}

/* With settings.long_ns, a long batch does not take the last worker of a group if another model
 * queue used a worker of this group within the last second. */
static void a_long_batch_leaves_the_last_worker_to_others(void **state)
{
    (void)state;
    enum { LONG = 0, SHORT = 2, SECOND = 1000000000 };
    const struct srv_core_worker last = {.group = 1, .n_free = 1, .is_last = true};
    struct srv_core_settings settings = usual();
    struct srv_core_job *expired = NULL;
    struct srv_core_batch b;
    struct world w;
    settings.long_ns = 100;
    settings.patience_ns = 10 * (int64_t)SECOND;
    begin(&w, settings);
    srv_cost_learn(&w.bucket[LONG].cost, 1, 101);
    srv_cost_learn(&w.bucket[SHORT].cost, 1, 100);
    /* The long model alone may use every worker of the group. */
    put(&w, LONG, 1, RT_NEVER, 0);
    assert_true(srv_core_next(&w.core, 0, &last, &b, &expired));
    put(&w, SHORT, 1, RT_NEVER, 1);
    assert_true(srv_core_next(&w.core, 1, &last, &b, &expired));
    assert_int_equal(b.bucket - w.bucket, SHORT);
    put(&w, LONG, 1, RT_NEVER, 2);
    assert_false(srv_core_is_ready(&w.core, 2, &last));
    assert_false(srv_core_next(&w.core, 2, &last, &b, &expired));
    assert_int_equal(srv_core_long_at(&w.core, 2), SECOND);
    assert_int_equal(srv_core_long_at(&w.core, SECOND), 1 + SECOND);
    assert_int_equal(srv_core_long_at(&w.core, 1 + SECOND), RT_NEVER);
    put(&w, SHORT, 1, RT_NEVER, 3);
    assert_true(srv_core_next(&w.core, 3, &last, &b, &expired));
    assert_int_equal(b.bucket - w.bucket, SHORT);
    /* The long model gets a worker if another worker is free. A second after the last batch of the
     * short model, the long model also gets the last worker. */
    assert_true(srv_core_is_ready(&w.core, 4, worker(1, 1)));
    assert_false(srv_core_next(&w.core, 2 + SECOND, &last, &b, &expired));
    assert_true(srv_core_next(&w.core, 3 + SECOND, &last, &b, &expired));
    assert_int_equal(b.bucket - w.bucket, LONG);
    assert_int_equal(srv_core_long_at(&w.core, 3 + SECOND), RT_NEVER);
}

/* With max_group_running, each group runs so many batches of a model queue. */
static void the_batches_of_a_model_queue_are_limited_on_each_group(void **state)
{
    (void)state;
    struct srv_core_job *expired = NULL;
    struct srv_core_batch first, b;
    struct world w;
    begin(&w, usual());
    w.policy.max_rows = w.policy.max_group_running = 1;
    for (int k = 0; k < 4; k++)
        put(&w, 0, 1, RT_NEVER, 0);
    assert_true(srv_core_next(&w.core, 1, worker(1, 1), &first, &expired));
    assert_false(srv_core_is_ready(&w.core, 1, worker(1, 1)));
    assert_false(srv_core_next(&w.core, 1, worker(1, 1), &b, &expired));
    assert_true(srv_core_next(&w.core, 1, worker(2, 1), &b, &expired));
    put(&w, 2, 1, RT_NEVER, 1); /* another model queue has a limit of its own */
    assert_true(srv_core_next(&w.core, 1, worker(1, 1), &b, &expired));
    assert_int_equal(b.bucket - w.bucket, 2);
    srv_core_done(&w.core, &first, 1, true);
    assert_true(srv_core_next(&w.core, 2, worker(1, 1), &b, &expired));
    assert_int_equal(b.bucket - w.bucket, 0);
    assert_false(srv_core_is_ready(&w.core, 2, worker(2, 1)));
}

/* A worker leaves a batch to a worker that will be free sooner, unless that worker may not take it,
 * and to the groups that it avoids. */
static void a_batch_is_left_to_the_group_that_is_free_first(void **state)
{
    (void)state;
    struct srv_core_job *expired = NULL;
    struct srv_core_batch b;
    struct world w;
    const struct srv_core_worker first = {.group = 1, .n_free = 1};
    const struct srv_core_worker second = {
        .group = 2, .n_free = 1, .n_sooner = 1, .sooner = &first};
    const struct srv_core_worker failed = {.group = 2, .n_free = 1, .avoided = 1 << 1};
    begin(&w, usual());
    w.policy.max_rows = w.policy.max_group_running = 1;
    w.model_queue[1].groups = 1 << 2;
    for (int k = 0; k < 3; k++)
        put(&w, 0, 1, RT_NEVER, 0);
    assert_false(srv_core_is_ready(&w.core, 1, &second));
    assert_false(srv_core_next(&w.core, 1, &second, &b, &expired));
    assert_false(srv_core_is_ready(&w.core, 1, &failed));
    put(&w, 2, 1, RT_NEVER, 1); /* only group 2 may take it */
    assert_true(srv_core_is_ready(&w.core, 1, &failed));
    assert_true(srv_core_next(&w.core, 1, &second, &b, &expired));
    assert_int_equal(b.bucket - w.bucket, 2);
    srv_cost_learn(&w.bucket[0].cost, 1, 50);
    assert_true(srv_core_next(&w.core, 10, &first, &b, &expired));
    assert_int_equal(srv_core_free_at(&w.core, 1, 10), 60);
    /* Group 1 runs as many batches of the model queue as it may. */
    assert_true(srv_core_next(&w.core, 10, &second, &b, &expired));
    srv_core_done(&w.core, &b, 1, true);
    assert_int_equal(w.core.group_running[1], 1);
    assert_int_equal(srv_core_free_at(&w.core, 1, 10), 60);
}

/* While a device is never idle, the expected time at which it is free stays right although all runs
 * take a tenth or ten times of what the cost model expects. */
static void wrong_costs_do_not_add_up(void **state)
{
    (void)state;
    struct srv_core_job *expired = NULL;
    for (int k = 0; k < 2; k++) {
        const int64_t expected = k ? 10 : 1000, real = 100;
        struct srv_core_batch b[2];
        struct world w;
        int64_t now = 1;
        begin(&w, usual());
        w.policy.max_rows = 1;
        srv_cost_learn(&w.bucket[0].cost, 1, expected);
        for (int i = 0; i < 100; i++, now += real) {
            w.n = i % 2; /* the job of the batch before the last one is free */
            put(&w, 0, 1, RT_NEVER, now);
            assert_true(srv_core_next(&w.core, now, worker(1, 1), &b[i % 2], &expired));
            /* The batches overlap, so that the device always has one. */
            if (i)
                srv_core_done(&w.core, &b[(i + 1) % 2], real, false);
            assert_in_range(srv_core_free_at(&w.core, 1, now), now, now + 2 * expected);
            if (!k)
                assert_true(srv_core_free_at(&w.core, 1, now) > now);
        }
        srv_core_done(&w.core, &b[99 % 2], real, false);
        assert_int_equal(srv_core_free_at(&w.core, 1, now), now);
    }
}

/* Runs one batch on the group, out of groups 1 and 2 without busy workers, that is free first. */
static int run_one(struct world *w, int64_t now)
{
    struct srv_core_job *expired = NULL;
    struct srv_core_batch b;
    const int group = srv_core_is_sooner(&w->core, 2, 0, 1, 0, now) ? 2 : 1;
    assert_int_equal(srv_core_is_sooner(&w->core, 1, 0, 2, 0, now), group == 1);
    put(w, 0, 1, RT_NEVER, now);
    assert_true(srv_core_next(&w->core, now, worker(group, 2), &b, &expired));
    srv_core_done(&w->core, &b, 10, true);
    return group;
}

static void idle_groups_take_turns(void **state)
{
    (void)state;
    struct srv_core_job *expired = NULL;
    struct srv_core_batch b;
    struct world w;
    begin(&w, usual());
    for (int k = 0; k < 6; k++)
        assert_int_equal(run_one(&w, 100 * (k + 1)), 1 + k % 2);
    /* Group 1 began its latest batch first, but it is busy, or will be busy. */
    assert_false(srv_core_is_sooner(&w.core, 1, 1, 2, 0, 700));
    put(&w, 0, 1, RT_NEVER, 700);
    assert_true(srv_core_next(&w.core, 700, worker(1, 2), &b, &expired));
    assert_true(srv_core_is_sooner(&w.core, 2, 1, 1, 0, 700));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_takes_only_what_its_workers_may_run),
        cmocka_unit_test(a_long_batch_leaves_the_last_worker_to_others),
        cmocka_unit_test(the_batches_of_a_model_queue_are_limited_on_each_group),
        cmocka_unit_test(a_batch_is_left_to_the_group_that_is_free_first),
        cmocka_unit_test(wrong_costs_do_not_add_up),
        cmocka_unit_test(idle_groups_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
