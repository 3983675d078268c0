/* Tests which queued requests run as one batch, and which part of the batch's output each request
 * gets. */
#include "tests/unit/batching/scheduler_fixture.h"

static void requests_that_wait_are_merged_and_each_gets_its_rows(void **state)
{
    (void)state;
    struct world *w = sched_begin(1, true, false);
    struct request *r[6], *first = sched_block(w);
    for (int i = 0; i < 6; i++)
        r[i] = sched_submit(w, i + 1, (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 7);
    assert_int_equal(atomic_load(&sched_model.runs), 2);
    assert_int_equal(atomic_load(&sched_model.rows[1]), 21);
    for (int i = 0; i < 6; i++) {
        sched_expect(r[i], i + 1, (float)i);
        assert_int_equal(r[i]->job.batch_rows, 21);
        sched_drop(r[i]);
    }
    sched_drop(first);
    sched_end(w);
}

static void only_the_request_at_fault_fails(void **state)
{
    (void)state;
    struct world *w = sched_begin(1, true, false);
    struct request *r[9], *first = sched_block(w);
    for (int i = 0; i < 9; i++)
        r[i] = sched_submit(w, 1 + i % 2, i == 3 || i == 8 ? 13 : (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 10);
    for (int i = 0; i < 9; i++) {
        if (i == 3 || i == 8)
            assert_fails(r[i]->job.status, RT_INVALID_ARGUMENT, &r[i]->job.err, "13 is not liked");
        else
            sched_expect(r[i], 1 + i % 2, (float)i);
        sched_drop(r[i]);
    }
    sched_drop(first);
    sched_end(w);
}

static void strings_are_merged_too(void **state)
{
    (void)state;
    struct world *w = sched_begin(1, true, false);
    struct request *r[3], *first = sched_block(w);
    const int64_t dim[1] = {2};
    for (int i = 0; i < 3; i++) {
        struct rt_error err = {0};
        char text[64];
        r[i] = calloc(1, sizeof *r[i]);
        r[i]->w = w;
        assert_ok(rt_tensor_new(&r[i]->feed, NULL, RT_STRING, 1, dim, &err), &err);
        for (int k = 0; k < 2; k++) {
            snprintf(text, sizeof text, "a string that lies outside, number %d.%d", i, k);
            rt_str_set((struct rt_str *)r[i]->feed.data + k, NULL, text, strlen(text), NULL);
        }
        r[i]->job = (struct srv_job){.io_loop = &w->io_loop,
                                     .version = &w->version,
                                     .signature = &w->signature,
                                     .n_feeds = 1,
                                     .feeds = &r[i]->feed,
                                     .n_fetches = 1,
                                     .fetches = &r[i]->fetch,
                                     .deadline_ns = RT_NEVER,
                                     .done = sched_on_done,
                                     .owner = r[i]};
        srv_job_submit(&r[i]->job);
    }
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 4);
    assert_int_equal(atomic_load(&sched_model.runs), 2);
    for (int i = 0; i < 3; i++) {
        char text[64];
        snprintf(text, sizeof text, "a string that lies outside, number %d.1", i);
        assert_ok(r[i]->job.status, &r[i]->job.err);
        assert_int_equal(r[i]->fetch.dim[0], 2);
        assert_string_equal(rt_str_data(rt_strs(&r[i]->fetch) + 1), text);
        sched_drop(r[i]);
    }
    sched_drop(first);
    sched_end(w);
}

static void signatures_that_are_not_row_wise_are_not_merged(void **state)
{
    (void)state;
    struct world *w = sched_begin(1, false, false);
    struct request *r[3], *first = sched_block(w);
    for (int i = 0; i < 3; i++)
        r[i] = sched_submit(w, 1, (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 4);
    assert_int_equal(atomic_load(&sched_model.runs), 4);
    for (int i = 0; i < 3; i++)
        sched_drop(r[i]);
    sched_drop(first);
    sched_end(w);
}

static void outputs_that_do_not_follow_the_rows_end_merging(void **state)
{
    (void)state;
    struct world *w = sched_begin(1, true, false);
    struct request *r[4], *first = sched_block(w);
    for (int i = 0; i < 4; i++)
        r[i] = sched_submit(w, 1, (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.one_output_row, true);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 5);
    /* The six runs are the run of `first`, the merged run, and one run per request. */
    assert_int_equal(atomic_load(&sched_model.runs), 6);
    for (int i = 0; i < 4; i++) {
        sched_expect(r[i], 1, (float)i);
        sched_drop(r[i]);
    }
    sched_drop(first);
    atomic_store(&sched_model.held, true);
    r[0] = sched_submit(w, 1, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_runs(7);
    for (int i = 1; i < 4; i++)
        r[i] = sched_submit(w, 1, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 9);
    assert_int_equal(atomic_load(&sched_model.runs), 10);
    for (int i = 0; i < 4; i++)
        sched_drop(r[i]);
    sched_end(w);
}

/* Without --enable_batching, rows are merged only while they are known to be independent. With
 * --enable_batching=true, the operator asserts that rows are independent. */
static void a_call_that_is_not_row_wise_any_more_ends_merging(void **state)
{
    (void)state;
    for (int promised = 0; promised < 2; promised++) {
        struct world *w = sched_begin_with(1, true, false, promised ? SRV_YES : SRV_UNSET, NULL);
        struct request *r[4], *first = sched_block(w);
        atomic_store(&sched_model.unproved, true);
        for (int turn = 0; turn < 2; turn++) {
            if (turn) {
                sched_drop(first);
                atomic_store(&sched_model.held, true);
                first = sched_submit(w, 1, 0, RT_NEVER);
                srv_io_loop_end_turn(&w->io_loop);
                sched_wait_runs(promised ? 3 : 6);
            }
            for (int i = 0; i < 4; i++)
                r[i] = sched_submit(w, 1 + i, (float)i, RT_NEVER);
            srv_io_loop_end_turn(&w->io_loop);
            atomic_store(&sched_model.held, false);
            sched_wait_done(w, 5 * (turn + 1));
            for (int i = 0; i < 4; i++) {
                sched_expect(r[i], 1 + i, (float)i);
                assert_int_equal(r[i]->job.batch_rows, promised ? 10 : 1 + i);
                sched_drop(r[i]);
            }
        }
        assert_int_equal(atomic_load(&sched_model.runs), promised ? 4 : 10);
        sched_drop(first);
        sched_end(w);
    }
}

static void with_batching_off_nothing_is_merged(void **state)
{
    (void)state;
    struct world *w = sched_begin_with(1, true, false, SRV_NO, NULL);
    struct request *r[3], *first = sched_block(w);
    for (int i = 0; i < 3; i++)
        r[i] = sched_submit(w, 1, (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 4);
    assert_int_equal(atomic_load(&sched_model.runs), 4);
    for (int i = 0; i < 3; i++)
        sched_drop(r[i]);
    sched_drop(first);
    sched_end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_that_wait_are_merged_and_each_gets_its_rows),
        cmocka_unit_test(only_the_request_at_fault_fails),
        cmocka_unit_test(strings_are_merged_too),
        cmocka_unit_test(signatures_that_are_not_row_wise_are_not_merged),
        cmocka_unit_test(outputs_that_do_not_follow_the_rows_end_merging),
        cmocka_unit_test(a_call_that_is_not_row_wise_any_more_ends_merging),
        cmocka_unit_test(with_batching_off_nothing_is_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
