/* Tests the splitting of requests that have more rows than a batch may have
 * (enable_large_batch_splitting). */
#include "tests/unit/batching/scheduler_fixture.h"

#define ROWS_4 "max_batch_size { value: 4 } enable_large_batch_splitting { value: true } "
#define SPLIT  ROWS_4 "max_enqueued_batches { value: 3 } "

static void a_large_request_is_split_and_concatenated(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow(SPLIT);
    struct request *small, *large, *first = sched_block(w);
    small = sched_submit(w, 1, 5, RT_NEVER);
    large = sched_submit_shaped(w, 2, (int64_t[]){10, 2}, 100, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 3);
    assert_int_equal(atomic_load(&sched_model.runs), 4);
    assert_int_equal(atomic_load(&sched_model.rows[1]), 4);
    assert_int_equal(atomic_load(&sched_model.rows[2]), 4);
    assert_int_equal(atomic_load(&sched_model.rows[3]), 3);
    sched_expect(small, 1, 5);
    assert_ok(large->job.status, &large->job.err);
    assert_int_equal(large->fetch.dim[0], 10);
    for (int i = 0; i < 20; i++)
        assert_float_equal(((float *)large->fetch.data)[i], 200 + 2 * (float)i, 0);
    sched_drop(small);
    sched_drop(large);
    sched_drop(first);
    sched_end(w);
}

static void a_large_request_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow(SPLIT);
    struct request *small, *large, *first = sched_block(w);
    small = sched_submit(w, 3, 5, RT_NEVER);
    large = sched_submit(w, 10, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    assert_int_equal(large->job.status, RT_UNAVAILABLE);
    assert_string_equal(rt_error_text(&large->job.err),
                        "The batch scheduling queue to which this task was submitted is full; task "
                        "size is 10 but scheduling capacity is only 9 (num_enqueued_batches=1, "
                        "max_enqueued_batches=3, open_batch_size=3, max_execution_batch_size=4)");
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 3);
    assert_int_equal(atomic_load(&sched_model.runs), 2);
    sched_drop(small);
    sched_drop(large);
    sched_drop(first);
    sched_end(w);
}

static void a_large_request_fails_as_one_and_spares_its_neighbours(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow(SPLIT);
    struct request *small, *large, *first = sched_block(w);
    small = sched_submit(w, 1, 5, RT_NEVER);
    /* The model refuses the number 13, which is one of the request's values. */
    large = sched_submit_shaped(w, 2, (int64_t[]){10, 2}, 1, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 3);
    sched_expect(small, 1, 5);
    assert_fails(large->job.status, RT_INVALID_ARGUMENT, &large->job.err, "13 is not liked");
    assert_null(large->fetch.data);
    sched_drop(small);
    sched_drop(large);
    sched_drop(first);
    sched_end(w);
}

static void a_request_whose_outputs_cannot_be_concatenated_runs_whole(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow(SPLIT);
    atomic_store(&sched_model.one_output_row, true);
    struct request *large = sched_submit(w, 10, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_done(w, 1);
    assert_ok(large->job.status, &large->job.err);
    assert_int_equal(large->fetch.dim[0], 1);
    assert_int_equal(atomic_load(&sched_model.runs), 4);
    assert_int_equal(atomic_load(&sched_model.rows[3]), 10);
    sched_drop(large);
    large = sched_submit(w, 10, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_done(w, 2);
    assert_int_equal(atomic_load(&sched_model.runs), 5);
    sched_drop(large);
    sched_end(w);
}

static void sub_requests_have_no_more_rows_than_memory_lately_allowed(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow(ROWS_4 "max_enqueued_batches { value: 8 }");
    struct request *small[2], *large, *first = sched_block(w);
    atomic_store(&sched_model.most_rows, 2);
    for (int i = 0; i < 2; i++)
        small[i] = sched_submit(w, 2, 5, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 3);
    /* The batch of four rows failed, so the limit is now two rows. */
    for (int i = 0; i < 2; i++)
        sched_expect(small[i], 2, 5);
    large = sched_submit(w, 10, 3, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_done(w, 4);
    sched_expect(large, 10, 3);
    sched_drop(large);
    /* A request of four rows, which one batch could hold before the failure, is also split. */
    large = sched_submit(w, 4, 3, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_done(w, 5);
    sched_expect(large, 4, 3);
    sched_drop(large);
    for (int i = 0; i < 2; i++)
        sched_drop(small[i]);
    sched_drop(first);
    sched_end(w);
}

static void sub_requests_of_a_client_that_has_gone_are_not_run(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow(SPLIT);
    struct request *large, *first = sched_block(w);
    large = sched_submit(w, 10, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&large->job.cancelled, true);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 2);
    assert_int_equal(large->job.status, RT_CANCELLED);
    assert_int_equal(atomic_load(&sched_model.runs), 1);
    sched_drop(large);
    sched_drop(first);
    sched_end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_request_is_split_and_concatenated),
        cmocka_unit_test(a_large_request_is_taken_whole_or_not_at_all),
        cmocka_unit_test(a_large_request_fails_as_one_and_spares_its_neighbours),
        cmocka_unit_test(a_request_whose_outputs_cannot_be_concatenated_runs_whole),
        cmocka_unit_test(sub_requests_have_no_more_rows_than_memory_lately_allowed),
        cmocka_unit_test(sub_requests_of_a_client_that_has_gone_are_not_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
