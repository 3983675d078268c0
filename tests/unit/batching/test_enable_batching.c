/* Tests --enable_batching=true with TensorFlow Serving's batching parameters. */
#include "tests/unit/batching/scheduler_fixture.h"

static void with_batching_on_every_signature_is_merged_up_to_the_files_size(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow("max_batch_size { value: 4 }");
    struct request *r[6], *first = sched_block(w);
    for (int i = 0; i < 6; i++)
        r[i] = sched_submit(w, 1, (float)i, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 7);
    assert_int_equal(atomic_load(&sched_model.runs), 3);
    assert_int_equal(atomic_load(&sched_model.rows[1]), 4);
    assert_int_equal(atomic_load(&sched_model.rows[2]), 2);
    for (int i = 0; i < 6; i++) {
        sched_expect(r[i], 1, (float)i);
        sched_drop(r[i]);
    }
    sched_drop(first);
    sched_end(w);
}

static void a_batch_waits_for_the_files_timeout_and_no_longer_than_it_is_full(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow("max_batch_size { value: 4 } "
                                                "batch_timeout_micros { value: 60000 }");
    const int64_t start = rt_now_ns();
    struct request *r = sched_submit(w, 1, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_done(w, 1);
    assert_true(rt_now_ns() - start >= 60000000);
    sched_drop(r);
    sched_end(w);
    w = sched_begin_as_tensorflow("max_batch_size { value: 4 } "
                                  "batch_timeout_micros { value: 3600000000 }");
    struct request *a = sched_submit(w, 2, 1, RT_NEVER), *b = sched_submit(w, 2, 2, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_done(w, 2); /* a full batch does not wait until the timeout of an hour expires */
    assert_int_equal(atomic_load(&sched_model.rows[0]), 4);
    sched_drop(a);
    sched_drop(b);
    sched_end(w);
}

static void a_request_larger_than_a_batch_is_refused(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow("max_batch_size { value: 4 }");
    struct request *r = sched_submit(w, 5, 1, RT_NEVER);
    sched_wait_done(w, 1);
    assert_int_equal(r->job.status, RT_INVALID_ARGUMENT);
    assert_string_equal(rt_error_text(&r->job.err),
                        "Task size 5 is larger than maximum input batch size 4");
    sched_drop(r);
    sched_end(w);
}

static void inputs_without_common_rows_are_refused(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow("");
    struct request *r = sched_submit(w, 0, 1, RT_NEVER);
    sched_wait_done(w, 1);
    assert_int_equal(r->job.status, RT_INVALID_ARGUMENT);
    assert_string_equal(rt_error_text(&r->job.err),
                        "Batching Run() input tensors must have at least one dimension");
    sched_drop(r);
    sched_end(w);
}

static void a_queue_full_of_batches_refuses_with_their_number(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow("max_batch_size { value: 4 } "
                                                "max_enqueued_batches { value: 2 }");
    struct request *r[4], *first = sched_block(w);
    for (int i = 0; i < 3; i++)
        r[i] = sched_submit(w, 3, 1, RT_NEVER);
    r[3] = sched_submit(w, 1, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    assert_int_equal(atomic_load(&w->n_done), 1);
    assert_int_equal(r[2]->job.status, RT_UNAVAILABLE);
    assert_string_equal(rt_error_text(&r[2]->job.err),
                        "The batch scheduling queue to which this task was submitted is full; "
                        "currently 2 batches enqueued and max_enqueued_batches is 2");
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 5);
    for (int i = 0; i < 4; i++)
        sched_drop(r[i]);
    sched_drop(first);
    sched_end(w);
}

static void what_expires_in_the_queue_is_reported_as_such(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow("");
    struct request *first = sched_block(w);
    struct request *r = sched_submit(w, 1, 1, rt_now_ns() + 20000000);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_done(w, 1);
    assert_int_equal(r->job.status, RT_RESOURCE_EXHAUSTED);
    assert_string_equal(rt_error_text(&r->job.err),
                        "Run() timeout exceeded while waiting in batching queue");
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 2);
    sched_drop(r);
    sched_drop(first);
    sched_end(w);
}

static void a_batch_is_padded_with_the_last_requests_first_row(void **state)
{
    (void)state;
    struct world *w =
        sched_begin_as_tensorflow("max_batch_size { value: 8 } allowed_batch_sizes: 5 "
                                  "allowed_batch_sizes: 8");
    struct request *r[2], *first = sched_block(w);
    const int64_t dim[2] = {2, 2};
    r[0] = sched_submit(w, 1, 1, RT_NEVER);
    r[1] = sched_submit_shaped(w, 2, dim, 20, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 3);
    assert_int_equal(atomic_load(&sched_model.rows[0]), 5);
    assert_int_equal(atomic_load(&sched_model.rows[1]), 5);
    sched_expect(r[0], 1, 1);
    assert_int_equal(r[1]->fetch.dim[0], 2);
    assert_float_equal(((float *)r[1]->fetch.data)[3], 46, 0);
    /* r[1] is the last request. Its output is a view of the batch's output, in which the rows of
     * padding follow the rows of the request. Each row of padding equals the request's first
     * row. */
    assert_float_equal(((float *)r[1]->fetch.data)[4], 40, 0);
    assert_float_equal(((float *)r[1]->fetch.data)[7], 42, 0);
    for (int i = 0; i < 2; i++)
        sched_drop(r[i]);
    sched_drop(first);
    sched_end(w);
}

static void shapes_that_differ_go_to_batches_of_their_own(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow("");
    struct request *r[4], *first = sched_block(w);
    for (int i = 0; i < 4; i++)
        r[i] = sched_submit_shaped(w, 2, (int64_t[]){1, 2 + i % 2}, (float)i, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 5);
    assert_int_equal(atomic_load(&sched_model.runs), 3);
    for (int i = 0; i < 4; i++) {
        assert_ok(r[i]->job.status, &r[i]->job.err);
        assert_int_equal(r[i]->fetch.dim[1], 2 + i % 2);
        sched_drop(r[i]);
    }
    sched_drop(first);
    sched_end(w);
}

static void with_padding_shapes_that_differ_are_merged(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow("pad_variable_length_inputs: true");
    struct request *r[3], *first = sched_block(w);
    r[0] = sched_submit_shaped(w, 3, (int64_t[]){1, 2, 1}, 1, 1, RT_NEVER);
    r[1] = sched_submit_shaped(w, 3, (int64_t[]){2, 1, 3}, 20, 1, RT_NEVER);
    /* An empty tensor is not padded, so its request runs alone. */
    r[2] = sched_submit_shaped(w, 3, (int64_t[]){1, 0, 3}, 0, 0, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 4);
    assert_int_equal(atomic_load(&sched_model.runs), 3);
    static const float want0[] = {2, 2, 2, 4, 2, 2};
    static const float want1[] = {40, 42, 44, 40, 40, 40, 46, 48, 50, 40, 40, 40};
    assert_ok(r[0]->job.status, &r[0]->job.err);
    assert_int_equal(r[0]->fetch.dim[1], 2);
    assert_int_equal(r[0]->fetch.dim[2], 3);
    assert_memory_equal(r[0]->fetch.data, want0, sizeof want0);
    assert_ok(r[1]->job.status, &r[1]->job.err);
    assert_memory_equal(r[1]->fetch.data, want1, sizeof want1);
    assert_ok(r[2]->job.status, &r[2]->job.err);
    for (int i = 0; i < 3; i++)
        sched_drop(r[i]);
    sched_drop(first);
    sched_end(w);
}

static void signatures_of_the_same_call_share_batches(void **state)
{
    (void)state;
    struct world *w = sched_begin_as_tensorflow("");
    struct rt_model_signature other = w->signature;
    struct request *r[2], *first = sched_block(w);
    r[0] = sched_submit(w, 1, 1, RT_NEVER);
    r[1] = calloc(1, sizeof *r[1]);
    r[1]->w = w;
    struct rt_error err = {0};
    assert_ok(rt_tensor_new(&r[1]->feed, NULL, RT_F32, 2, (int64_t[]){1, 2}, &err), &err);
    memset(r[1]->feed.data, 0, 8);
    r[1]->job = (struct srv_job){.io_loop = &w->io_loop,
                                 .version = &w->version,
                                 .signature = &other,
                                 .n_feeds = 1,
                                 .feeds = &r[1]->feed,
                                 .n_fetches = 1,
                                 .fetches = &r[1]->fetch,
                                 .deadline_ns = RT_NEVER,
                                 .done = sched_on_done,
                                 .owner = r[1]};
    srv_job_submit(&r[1]->job);
    srv_io_loop_end_turn(&w->io_loop);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 3);
    assert_int_equal(atomic_load(&sched_model.runs), 2);
    for (int i = 0; i < 2; i++)
        sched_drop(r[i]);
    sched_drop(first);
    sched_end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_batching_on_every_signature_is_merged_up_to_the_files_size),
        cmocka_unit_test(a_batch_waits_for_the_files_timeout_and_no_longer_than_it_is_full),
        cmocka_unit_test(a_request_larger_than_a_batch_is_refused),
        cmocka_unit_test(inputs_without_common_rows_are_refused),
        cmocka_unit_test(a_queue_full_of_batches_refuses_with_their_number),
        cmocka_unit_test(what_expires_in_the_queue_is_reported_as_such),
        cmocka_unit_test(a_batch_is_padded_with_the_last_requests_first_row),
        cmocka_unit_test(shapes_that_differ_go_to_batches_of_their_own),
        cmocka_unit_test(with_padding_shapes_that_differ_are_merged),
        cmocka_unit_test(signatures_of_the_same_call_share_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
