#include "tests/support/test.h"

#include "runtime/base/clock.h"
#include "server/batching/scheduler_core.h"
#include "tests/unit/batching/core_fixture.h"

static void take_none(struct world *w, int64_t now)
{
    struct srv_core_batch b;
    struct srv_core_job *expired = NULL;
    assert_false(srv_core_next(&w->core, now, worker(0, 1), &b, &expired));
    assert_null(expired);
}

static bool is_even(const void *of, int64_t rows)
{
    (void)of;
    return rows % 2 == 0;
}

static void a_number_of_rows_that_is_preferred_is_made_with_few_less(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.bucket[0].prefers = is_even;
    for (int i = 0; i < 5; i++)
        put(&w, 0, 1, RT_NEVER, 10);
    take(&w, 10, 0, 4);
    /* A batch of one job cannot become smaller, so it runs although 1 is not a preferred batch
     * size. */
    take(&w, 10, 0, 1);
    put(&w, 0, 1, RT_NEVER, 10);
    put(&w, 0, 2, RT_NEVER, 10);
    /* Neither 1 nor 3 rows is a preferred batch size. The batch takes both jobs. */
    take(&w, 10, 0, 2);
    for (int i = 0; i < 9; i++)
        put(&w, 0, 1, RT_NEVER, 10);
    take(&w, 10, 0, 8);
}

static void a_lone_job_starts_at_once(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    assert_int_equal(put(&w, 0, 1, RT_NEVER, 5), SRV_CORE_QUEUED);
    struct srv_core_batch b = take(&w, 5, 0, 1);
    assert_int_equal(b.rows, 1);
    assert_int_equal(w.core.running, 1);
    srv_core_done(&w.core, &b, 100, true);
    assert_int_equal(w.core.running, 0);
    take_none(&w, 6);
}

static void what_queued_meanwhile_runs_together_in_order_up_to_the_row_limit(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    for (int i = 0; i < 5; i++)
        put(&w, 0, 3, RT_NEVER, i);
    /* Two jobs together have 6 rows. A third job would make 9, which exceeds the limit of 8. */
    struct srv_core_batch b = take(&w, 10, 0, 2);
    assert_int_equal(b.rows, 6);
    assert_int_equal(at(&w, b.jobs), 0);
    assert_int_equal(at(&w, b.jobs->next), 1);
    take(&w, 10, 0, 2);
    take(&w, 10, 0, 1);
    take_none(&w, 10);
}

static void a_job_larger_than_the_limit_runs_by_itself(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    put(&w, 0, 100, RT_NEVER, 0);
    put(&w, 0, 1, RT_NEVER, 1);
    assert_int_equal(take(&w, 2, 0, 1).rows, 100);
    assert_int_equal(take(&w, 2, 0, 1).rows, 1);
}

static void jobs_without_rows_and_buckets_that_do_not_merge_run_singly(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    put(&w, 0, 0, RT_NEVER, 0);
    put(&w, 0, 0, RT_NEVER, 0);
    take(&w, 1, 0, 1);
    take(&w, 1, 0, 1);
    w.bucket[2].merges = false;
    put(&w, 2, 1, RT_NEVER, 0);
    put(&w, 2, 1, RT_NEVER, 0);
    take(&w, 1, 2, 1);
    take(&w, 1, 2, 1);
}

static void buckets_never_mix(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    put(&w, 0, 1, RT_NEVER, 0);
    put(&w, 1, 1, RT_NEVER, 1);
    put(&w, 0, 1, RT_NEVER, 2);
    take(&w, 3, 0, 2);
    take(&w, 3, 1, 1);
}

static void the_bucket_with_the_earliest_deadline_goes_first(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    put(&w, 0, 1, 900, 0);
    put(&w, 1, 1, 500, 1);
    take(&w, 3, 1, 1);
    take(&w, 3, 0, 1);
}

static void jobs_without_a_deadline_are_not_starved_by_those_with_one(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    put(&w, 0, 1, RT_NEVER, 0); /* patience_ns gives the job a deadline of 1000 ns */
    put(&w, 1, 1, 1200, 600);
    take(&w, 700, 0, 1);
}

static void within_a_bucket_the_earlier_deadline_goes_first(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    put(&w, 0, 5, 900, 0);
    put(&w, 0, 5, 400, 1);
    assert_int_equal(at(&w, take(&w, 2, 0, 1).jobs), 1);
}

static enum srv_core_admission put_level(struct world *w, int bucket, uint32_t level, int64_t now)
{
    struct srv_core_job *j = &w->job[w->n++];
    *j = (struct srv_core_job){.rows = 5, .bytes = 10, .deadline_ns = RT_NEVER, .level = level};
    return srv_core_submit(&w->core, &w->bucket[bucket], j, now);
}

static void a_lower_level_goes_first_whenever_it_came(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    put_level(&w, 0, 9, 0);
    put_level(&w, 0, 0, 1);
    put_level(&w, 1, 1, 2);
    put_level(&w, 0, SRV_CORE_LEVEL, 3);
    put_level(&w, 0, 1, 4);
    put(&w, 0, 5, 900, 5);
    static const int order[][2] = {{1, 2}, {0, 4}, {0, 5}, {0, 1}, {0, 3}, {0, 0}};
    for (int i = 0; i < 6; i++)
        assert_int_equal(at(&w, take(&w, 6 + i, order[i][0], 1).jobs), order[i][1]);
}

static void jobs_that_run_in_order_of_arrival_have_no_level(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.bucket[0].alone = true;
    w.bucket[0].merges = false;
    put_level(&w, 0, 7, 0);
    put_level(&w, 0, 1, 1);
    struct srv_core_batch b = take(&w, 2, 0, 1);
    assert_int_equal(at(&w, b.jobs), 0);
    srv_core_done(&w.core, &b, 10, true);
    assert_int_equal(at(&w, take(&w, 3, 0, 1).jobs), 1);
}

static void a_batch_stops_growing_where_a_member_would_miss_its_deadline(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    for (int i = 1; i <= 8; i++)
        srv_cost_learn(&w.bucket[0].cost, i, 100 * i);
    for (int i = 0; i < 6; i++)
        put(&w, 0, 1, 350, 0);
    /* Four rows would take 400 ns and miss the deadline of 350 ns. */
    assert_int_equal(take(&w, 0, 0, 3).rows, 3);
}

static void a_batch_is_shared_among_free_workers_when_rows_cost_more_than_the_start(void **state)
{
    (void)state;
    struct world w;
    struct srv_core_batch b;
    struct srv_core_job *expired = NULL;
    begin(&w, usual());
    for (int i = 1; i <= 8; i++)
        srv_cost_learn(&w.bucket[0].cost, i, 10 + 100 * i);
    for (int i = 0; i < 8; i++)
        put(&w, 0, 1, RT_NEVER, 0);
    assert_true(srv_core_next(&w.core, 1, worker(0, 2), &b, &expired));
    assert_int_equal(b.n_jobs, 4);
    assert_true(srv_core_next(&w.core, 1, worker(0, 1), &b, &expired));
    assert_int_equal(b.n_jobs, 4);
    /* If the fixed cost of a run exceeds the cost of its rows, one batch takes all rows. */
    for (int i = 1; i <= 8; i++)
        srv_cost_learn(&w.bucket[2].cost, i, 10000 + i);
    for (int i = 0; i < 8; i++)
        put(&w, 2, 1, RT_NEVER, 0);
    assert_true(srv_core_next(&w.core, 1, worker(0, 2), &b, &expired));
    assert_int_equal(b.n_jobs, 8);
}

static void
a_worker_beside_the_others_gets_small_jobs_alone_that_are_known_to_be_short(void **state)
{
    (void)state;
    struct world w;
    struct srv_core_settings s = usual();
    struct srv_core_batch b;
    struct srv_core_job *expired = NULL;
    s.max_running = 1;
    begin(&w, s);
    put(&w, 0, 1, RT_NEVER, 0);
    take(&w, 5, 0, 1); /* no other batch may run */
    for (int i = 1; i < 4; i++)
        put(&w, i, 1, RT_NEVER, 5);
    w.bucket[2].is_small = w.bucket[3].is_small = true;
    srv_cost_learn(&w.bucket[1].cost, 1, 1000);
    srv_cost_learn(&w.bucket[2].cost, 1, 1000000000);
    assert_false(srv_core_next_spare(&w.core, 5, 8, true, &b, &expired));
    srv_cost_learn(&w.bucket[3].cost, 1, 1000);
    assert_true(srv_core_next_spare(&w.core, 5, 8, true, &b, &expired));
    assert_ptr_equal(b.bucket, &w.bucket[3]);
    assert_false(srv_core_next_spare(&w.core, 5, 8, true, &b, &expired));
    assert_null(expired);
    assert_int_equal(w.core.n_jobs, 2);
}

/* Takes a batch for a spare worker of a group with one worker. Returns the model queue of the
 * batch, or -1 if there is no batch. */
static int take_spare(struct world *w, bool is_ample, struct srv_core_batch *b)
{
    struct srv_core_job *expired = NULL;
    if (!srv_core_next_spare(&w->core, 5, 1, is_ample, b, &expired))
        return -1;
    assert_null(expired);
    return (int)(b->bucket->model_queue - w->model_queue);
}

static void each_long_batch_leaves_its_place_to_a_model_queue_without_one(void **state)
{
    (void)state;
    struct world w;
    struct srv_core_batch b[4], none;
    begin(&w, usual());
    for (int i = 0; i < 6; i++) {
        put(&w, 0, 8, RT_NEVER, 0);
        put(&w, 2, 8, RT_NEVER, 0);
    }
    struct srv_core_job *expired = NULL;
    assert_true(srv_core_next(&w.core, 5, worker(0, 1), &b[0], &expired));
    const int first = (int)(b[0].bucket->model_queue - w.model_queue), other = 1 - first;
    assert_false(srv_core_has_place(&w.core, 1));
    assert_int_equal(take_spare(&w, true, &none), -1);
    for (int i = 0; i < 2; i++) { /* marking a batch again has no effect */
        srv_core_mark_long(&w.core, &b[0]);
        assert_true(srv_core_has_place(&w.core, 1));
    }
    assert_int_equal(take_spare(&w, true, &b[1]), other);
    /* While b[1] runs and is not long, no other batch may run on a spare worker. After b[1] has
     * ended, any model queue without a long batch may use a spare worker. */
    assert_int_equal(take_spare(&w, true, &none), -1);
    srv_core_done(&w.core, &b[1], 1000, true);
    assert_int_equal(take_spare(&w, true, &b[1]), other);
    srv_core_mark_long(&w.core, &b[1]);
    assert_int_equal(take_spare(&w, true, &none), -1);
    put(&w, 4, 1, RT_NEVER, 5);
    assert_int_equal(take_spare(&w, true, &b[2]), 2);
    srv_core_done(&w.core, &b[0], 1000, true);
    assert_int_equal(take_spare(&w, true, &none), -1);
    srv_core_done(&w.core, &b[2], 1000, true);
    assert_int_equal(take_spare(&w, true, &b[3]), first);
    assert_int_equal(w.core.long_running, 1);
}

/* While few spare workers are left, a model queue may occupy only one spare worker. */
static void the_last_spare_workers_are_for_model_queues_that_run_nothing(void **state)
{
    (void)state;
    struct world w;
    struct srv_core_batch b[3], none;
    struct srv_core_job *expired = NULL;
    begin(&w, usual());
    for (int i = 0; i < 3; i++)
        put(&w, 0, 8, RT_NEVER, 0);
    assert_true(srv_core_next_spare(&w.core, 5, 2, false, &b[0], &expired));
    assert_false(srv_core_next_spare(&w.core, 5, 2, false, &none, &expired));
    put(&w, 2, 8, RT_NEVER, 0);
    assert_true(srv_core_has_place(&w.core, 2));
    assert_true(srv_core_next_spare(&w.core, 5, 3, false, &b[1], &expired));
    assert_ptr_equal(b[1].bucket, &w.bucket[2]);
    assert_true(srv_core_next_spare(&w.core, 5, 3, true, &b[2], &expired));
    assert_ptr_equal(b[2].bucket, &w.bucket[0]);
}

static void model_queues_share_by_time_used(void **state)
{
    (void)state;
    struct world w;
    int runs[2] = {0};
    begin(&w, usual());
    for (int i = 0; i < 20; i++) {
        put(&w, 0, 8, RT_NEVER, 0); /* each run takes 300 ns */
        put(&w, 2, 8, RT_NEVER, 0); /* each run takes 100 ns */
    }
    for (int i = 0; i < 20; i++) {
        struct srv_core_batch b;
        struct srv_core_job *expired = NULL;
        assert_true(srv_core_next(&w.core, 1, worker(0, 1), &b, &expired));
        bool slow = b.bucket == &w.bucket[0];
        runs[!slow]++;
        srv_core_done(&w.core, &b, slow ? 300 : 100, true);
    }
    assert_in_range(runs[0], 4, 6);
    assert_in_range(runs[1], 14, 16);
}

static void a_model_queue_that_was_idle_does_not_claim_the_past(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    for (int i = 0; i < 10; i++) {
        put(&w, 0, 1, RT_NEVER, i);
        struct srv_core_batch b = take(&w, i, 0, 1);
        srv_core_done(&w.core, &b, 1000, true);
    }
    put(&w, 0, 1, RT_NEVER, 20);
    for (int i = 0; i < 8; i++)
        put(&w, 2, 8, RT_NEVER, 20);
    int first = 0;
    for (int i = 0; i < 3; i++) {
        struct srv_core_batch b;
        struct srv_core_job *expired = NULL;
        assert_true(srv_core_next(&w.core, 21, worker(0, 1), &b, &expired));
        first += b.bucket == &w.bucket[0];
        srv_core_done(&w.core, &b, 1000, true);
    }
    assert_int_equal(first, 1);
}

static void a_writer_runs_alone_and_in_order(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.bucket[1].alone = true;
    w.bucket[1].merges = false;
    put(&w, 0, 1, RT_NEVER, 0);
    struct srv_core_batch reader = take(&w, 1, 0, 1);
    put(&w, 1, 1, 900, 2);
    put(&w, 1, 1, 800, 3); /* an earlier deadline does not let a write overtake another write */
    take_none(&w, 4);      /* the write waits, because a reader still runs */
    put(&w, 0, 1, RT_NEVER, 5);
    take_none(&w, 5); /* later readers do not overtake the waiting writer */
    srv_core_done(&w.core, &reader, 10, true);
    struct srv_core_batch writer = take(&w, 6, 1, 1);
    assert_int_equal(at(&w, writer.jobs), 1);
    take_none(&w, 7);
    srv_core_done(&w.core, &writer, 10, true);
    writer = take(&w, 8, 1, 1);
    assert_int_equal(at(&w, writer.jobs), 2);
    srv_core_done(&w.core, &writer, 10, true);
    take(&w, 9, 0, 1);
}

static void a_writer_holds_no_other_model_queue(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.bucket[0].alone = true;
    put(&w, 0, 1, RT_NEVER, 0);
    take(&w, 1, 0, 1);
    put(&w, 2, 1, RT_NEVER, 2);
    take(&w, 3, 2, 1);
}

static void full_queues_refuse_at_once(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    for (int i = 0; i < 20; i++)
        assert_int_equal(put(&w, 0, 1, RT_NEVER, 0), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 1, 1, RT_NEVER, 0), SRV_CORE_FULL);
    for (int i = 0; i < 20; i++)
        assert_int_equal(put(&w, 2, 1, RT_NEVER, 0), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 4, 1, RT_NEVER, 0), SRV_CORE_FULL);
    assert_int_equal(w.core.n_jobs, 40);
    assert_int_equal(w.core.n_bytes, 400);
}

static void bytes_are_limited_but_a_single_large_job_is_taken(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    struct srv_core_job huge = {.rows = 1, .bytes = 5000, .deadline_ns = RT_NEVER};
    assert_int_equal(srv_core_submit(&w.core, &w.bucket[0], &huge, 0), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 0, 1, RT_NEVER, 0), SRV_CORE_FULL);
    take(&w, 1, 0, 1);
    assert_int_equal(w.core.n_bytes, 0);
    assert_int_equal(put(&w, 0, 1, RT_NEVER, 0), SRV_CORE_QUEUED);
}

static void with_a_timeout_a_batch_waits_until_it_is_full_or_due(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.timeout_ns = 100;
    put(&w, 0, 4, RT_NEVER, 10);
    take_none(&w, 50);
    assert_int_equal(srv_core_next_timer(&w.core), 110);
    take(&w, 110, 0, 1);
    put(&w, 0, 4, RT_NEVER, 200);
    put(&w, 0, 4, RT_NEVER, 201);
    take(&w, 202, 0, 2);
    assert_int_equal(srv_core_next_timer(&w.core), RT_NEVER);
}

static void a_batch_is_padded_to_an_allowed_size(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.n_sizes = 2;
    w.policy.sizes[0] = 4;
    w.policy.sizes[1] = 8;
    put(&w, 0, 1, RT_NEVER, 0);
    struct srv_core_batch b = take(&w, 1, 0, 1);
    assert_int_equal(b.rows, 1);
    assert_int_equal(b.run_rows, 4);
    put(&w, 0, 5, RT_NEVER, 0);
    assert_int_equal(take(&w, 1, 0, 1).run_rows, 8);
    put(&w, 0, 9, RT_NEVER, 0);
    assert_int_equal(take(&w, 1, 0, 1).run_rows, 9);
}

static void when_nothing_more_comes_no_batch_waits(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.timeout_ns = 100;
    put(&w, 0, 4, RT_NEVER, 10);
    put(&w, 2, 4, RT_NEVER, 10); /* a bucket of another model queue */
    take_none(&w, 50);
    w.bucket[2].model_queue->is_flushed = true;
    take(&w, 51, 2, 1);
    take_none(&w, 51);
    w.core.is_flushed = true;
    take(&w, 52, 0, 1);
}

static void a_batch_that_the_next_job_does_not_fit_waits_no_longer(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.timeout_ns = 100;
    put(&w, 0, 4, RT_NEVER, 10);
    put(&w, 0, 3, RT_NEVER, 11);
    take_none(&w, 12);
    put(&w, 0, 2, RT_NEVER, 13); /* does not fit into the open batch and opens another batch */
    take(&w, 14, 0, 2);
    take_none(&w, 15);
    assert_int_equal(srv_core_next_timer(&w.core), 113);
    take(&w, 113, 0, 1);
}

static void batches_that_wait_are_limited_and_an_open_one_is_filled(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.max_queue_batches = 2;
    assert_int_equal(srv_core_free_rows(&w.bucket[0]), 16);
    assert_int_equal(srv_core_open_batch_rows(&w.bucket[0]), 0);
    assert_int_equal(put(&w, 0, 5, RT_NEVER, 0), SRV_CORE_QUEUED);
    assert_int_equal(srv_core_open_batch_rows(&w.bucket[0]), 3);
    assert_int_equal(put(&w, 0, 5, RT_NEVER, 0), SRV_CORE_QUEUED);
    assert_int_equal(w.queue[0].n_batches, 2);
    assert_int_equal(put(&w, 0, 4, RT_NEVER, 0), SRV_CORE_FULL_BATCHES);
    assert_int_equal(put(&w, 0, 3, RT_NEVER, 0), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 0, 1, RT_NEVER, 0), SRV_CORE_FULL_BATCHES);
    assert_int_equal(srv_core_free_rows(&w.bucket[0]), 0);
    take(&w, 1, 0, 1);
    assert_int_equal(w.queue[0].n_batches, 1);
    assert_int_equal(put(&w, 0, 8, RT_NEVER, 2), SRV_CORE_QUEUED);
    take(&w, 3, 0, 2);
    take(&w, 3, 0, 1);
    assert_int_equal(w.queue[0].n_batches, 0);
    assert_int_equal(srv_core_free_rows(&w.bucket[0]), 16);
}

static void the_limit_of_batches_holds_for_all_buckets_of_a_queue_and_for_no_other(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.max_queue_batches = 2;
    assert_int_equal(put(&w, 0, 1, RT_NEVER, 0), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 1, 1, RT_NEVER, 0), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 0, 8, RT_NEVER, 0), SRV_CORE_FULL_BATCHES);
    assert_int_equal(put(&w, 1, 7, RT_NEVER, 0), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 2, 8, RT_NEVER, 0), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 2, 8, RT_NEVER, 0), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 2, 8, RT_NEVER, 0), SRV_CORE_FULL_BATCHES);
    srv_core_take_all(&w.core);
    assert_int_equal(w.queue[0].n_batches, 0);
    assert_int_equal(w.queue[1].n_batches, 0);
}

static void jobs_that_run_singly_make_no_batches(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.max_queue_batches = 1;
    w.bucket[0].merges = false;
    for (int i = 0; i < 5; i++)
        assert_int_equal(put(&w, 0, 8, RT_NEVER, i), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 1, 8, RT_NEVER, 5), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 1, 8, RT_NEVER, 5), SRV_CORE_FULL_BATCHES);
    for (int i = 0; i < 5; i++)
        take(&w, 6, 0, 1);
    take(&w, 6, 1, 1);
    assert_int_equal(w.queue[0].n_batches, 0);
}

static void what_expires_frees_its_batch(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.max_queue_batches = 1;
    assert_int_equal(put(&w, 0, 8, 5000000, 0), SRV_CORE_QUEUED);
    assert_int_equal(put(&w, 0, 8, RT_NEVER, 1), SRV_CORE_FULL_BATCHES);
    assert_int_equal(at(&w, srv_core_expired(&w.core, 6000000)), 0);
    assert_int_equal(put(&w, 0, 8, RT_NEVER, 6000001), SRV_CORE_QUEUED);
}

static void no_more_batches_run_than_threads_are_asked_for(void **state)
{
    (void)state;
    struct world w;
    struct srv_core_settings s = usual();
    struct srv_core_batch b, inline_batch;
    s.max_running = 1;
    begin(&w, s);
    put(&w, 0, 1, RT_NEVER, 0);
    put(&w, 2, 1, RT_NEVER, 0);
    struct srv_core_job *expired = NULL;
    assert_true(srv_core_next(&w.core, 1, worker(0, 4), &b, &expired));
    assert_false(srv_core_is_ready(&w.core, 1, worker(0, 1)));
    take_none(&w, 1);
    for (int i = 0; i < 5; i++)
        srv_cost_learn(&w.bucket[4].cost, 1, 10);
    w.job[w.n] = (struct srv_core_job){.rows = 1, .deadline_ns = RT_NEVER};
    assert_false(srv_core_begin_inline(&w.core, &w.bucket[4], &w.job[w.n], 4, 100, &inline_batch));
    srv_core_done(&w.core, &b, 5, true);
    assert_true(srv_core_is_ready(&w.core, 2, worker(0, 1)));
}

static void fixed_batches_are_neither_shared_nor_cut_short_by_what_was_learned(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.fixed = true;
    for (int i = 0; i < 20; i++)
        srv_cost_learn(&w.bucket[0].cost, i % 4 + 1, 10 + 1000 * (i % 4 + 1));
    put(&w, 0, 2, 1500, 1000); /* the learned cost of the job exceeds the time until its deadline */
    put(&w, 0, 2, RT_NEVER, 1000);
    put(&w, 0, 2, RT_NEVER, 1000);
    struct srv_core_batch b;
    struct srv_core_job *expired = NULL;
    assert_true(srv_core_next(&w.core, 1001, worker(0, 4), &b, &expired));
    assert_null(expired);
    assert_int_equal(b.n_jobs, 3);
}

static void the_timer_is_the_soonest_deadline(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    assert_int_equal(srv_core_next_timer(&w.core), RT_NEVER);
    put(&w, 0, 1, 5000000, 0);
    put(&w, 2, 1, 3000000, 0);
    assert_int_equal(srv_core_next_timer(&w.core), 3000000);
    assert_null(srv_core_expired(&w.core, 2999999));
    struct srv_core_job *gone = srv_core_expired(&w.core, 3000000);
    assert_int_equal(at(&w, gone), 1);
    assert_null(gone->next);
    assert_int_equal(srv_core_next_timer(&w.core), 5000000);
}

static void a_cheap_job_of_an_idle_bucket_may_run_where_it_is(void **state)
{
    (void)state;
    struct world w;
    struct srv_core_batch b;
    begin(&w, usual());
    struct srv_core_job j = {.rows = 1, .deadline_ns = RT_NEVER};
    /* The cost of the job is unknown. */
    assert_false(srv_core_begin_inline(&w.core, &w.bucket[0], &j, 2, 40, &b));
    for (int i = 0; i < 3; i++)
        srv_cost_learn(&w.bucket[0].cost, 1, 20);
    /* The cost of the job is above the limit of 10. */
    assert_false(srv_core_begin_inline(&w.core, &w.bucket[0], &j, 2, 10, &b));
    /* No core is free. */
    assert_false(srv_core_begin_inline(&w.core, &w.bucket[0], &j, 0, 40, &b));
    assert_true(srv_core_begin_inline(&w.core, &w.bucket[0], &j, 2, 40, &b));
    assert_int_equal(w.core.running, 1);
    srv_core_done(&w.core, &b, 20, true);
    /* The outputs of the last run were too large. */
    w.bucket[0].has_large_outputs = true;
    assert_false(srv_core_begin_inline(&w.core, &w.bucket[0], &j, 2, 40, &b));
    w.bucket[0].has_large_outputs = false;
    put(&w, 0, 1, RT_NEVER, 0);
    /* A job already waits in the bucket. */
    assert_false(srv_core_begin_inline(&w.core, &w.bucket[0], &j, 2, 40, &b));
}

static void the_cost_of_a_row_and_of_a_start_are_told_apart(void **state)
{
    (void)state;
    struct srv_cost c = {0};
    assert_int_equal(srv_cost_of(&c, 10), 0);
    srv_cost_learn(&c, 1, 500);
    assert_int_equal(srv_cost_of(&c, 1), 500);
    for (int i = 0; i < 50; i++)
        srv_cost_learn(&c, 1 + i % 4, 1000 + 50 * (1 + i % 4));
    assert_in_range(srv_cost_of(&c, 1), 1040, 1060);
    assert_in_range(srv_cost_of(&c, 100), 5900, 6100);
}

static void what_is_taken_all_is_linked_and_leaves_nothing(void **state)
{
    (void)state;
    struct world w;
    int n = 0;
    begin(&w, usual());
    for (int i = 0; i < 12; i++)
        put(&w, i % 6, 1, RT_NEVER, 0);
    for (struct srv_core_job *j = srv_core_take_all(&w.core); j; j = j->next)
        n++;
    assert_int_equal(n, 12);
    assert_int_equal(w.core.n_jobs, 0);
    assert_int_equal(w.core.n_bytes, 0);
    assert_null(w.core.active);
    take_none(&w, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_job_starts_at_once),
        cmocka_unit_test(a_number_of_rows_that_is_preferred_is_made_with_few_less),
        cmocka_unit_test(what_queued_meanwhile_runs_together_in_order_up_to_the_row_limit),
        cmocka_unit_test(a_job_larger_than_the_limit_runs_by_itself),
        cmocka_unit_test(jobs_without_rows_and_buckets_that_do_not_merge_run_singly),
        cmocka_unit_test(buckets_never_mix),
        cmocka_unit_test(the_bucket_with_the_earliest_deadline_goes_first),
        cmocka_unit_test(jobs_without_a_deadline_are_not_starved_by_those_with_one),
        cmocka_unit_test(within_a_bucket_the_earlier_deadline_goes_first),
        cmocka_unit_test(a_lower_level_goes_first_whenever_it_came),
        cmocka_unit_test(jobs_that_run_in_order_of_arrival_have_no_level),
        cmocka_unit_test(a_batch_stops_growing_where_a_member_would_miss_its_deadline),
        cmocka_unit_test(a_batch_is_shared_among_free_workers_when_rows_cost_more_than_the_start),
        cmocka_unit_test(
            a_worker_beside_the_others_gets_small_jobs_alone_that_are_known_to_be_short),
        cmocka_unit_test(each_long_batch_leaves_its_place_to_a_model_queue_without_one),
        cmocka_unit_test(the_last_spare_workers_are_for_model_queues_that_run_nothing),
        cmocka_unit_test(model_queues_share_by_time_used),
        cmocka_unit_test(a_model_queue_that_was_idle_does_not_claim_the_past),
        cmocka_unit_test(a_writer_runs_alone_and_in_order),
        cmocka_unit_test(a_writer_holds_no_other_model_queue),
        cmocka_unit_test(full_queues_refuse_at_once),
        cmocka_unit_test(bytes_are_limited_but_a_single_large_job_is_taken),
        cmocka_unit_test(with_a_timeout_a_batch_waits_until_it_is_full_or_due),
        cmocka_unit_test(a_batch_is_padded_to_an_allowed_size),
        cmocka_unit_test(when_nothing_more_comes_no_batch_waits),
        cmocka_unit_test(a_batch_that_the_next_job_does_not_fit_waits_no_longer),
        cmocka_unit_test(batches_that_wait_are_limited_and_an_open_one_is_filled),
        cmocka_unit_test(the_limit_of_batches_holds_for_all_buckets_of_a_queue_and_for_no_other),
        cmocka_unit_test(jobs_that_run_singly_make_no_batches),
        cmocka_unit_test(what_expires_frees_its_batch),
        cmocka_unit_test(no_more_batches_run_than_threads_are_asked_for),
        cmocka_unit_test(fixed_batches_are_neither_shared_nor_cut_short_by_what_was_learned),
        cmocka_unit_test(the_timer_is_the_soonest_deadline),
        cmocka_unit_test(a_cheap_job_of_an_idle_bucket_may_run_where_it_is),
        cmocka_unit_test(the_cost_of_a_row_and_of_a_start_are_told_apart),
        cmocka_unit_test(what_is_taken_all_is_linked_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
