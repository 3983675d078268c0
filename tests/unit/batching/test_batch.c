/* Tests how the size of outputs is counted, that padding has a limit, and that merging ends early
 * when no client waits for the batch. This file defines rt_callable_run, so that a test sees
 * whether the model ran. */
#include "tests/support/test.h"

#include "runtime/base/arena.h"
#include "server/batching/batch.h"
#include "server/config/options.h"

static int n_runs;
static int64_t run_rows_seen; /* number of rows of the last run */

enum rt_status rt_callable_run(struct rt_callable *c, const struct rt_tensor *feeds,
                               struct rt_tensor *fetches, const struct rt_run_options *options,
                               struct rt_error *err)
{
    (void)c, (void)fetches, (void)options;
    n_runs++;
    run_rows_seen = feeds[0].dim[0];
    return rt_fail(err, RT_INTERNAL, "the model ran");
}

/* Runs a batch of two requests, each of one row of floats, padded to `run_rows` rows. Merging
 * must end before the model runs, because both clients have disconnected or both deadlines have
 * passed. */
static void expect_merge_ends(int64_t columns, int64_t other_columns, int64_t run_rows, bool gone)
{
    const struct rt_model_signature signature = {.call = NULL};
    const int64_t dim[2][2] = {{1, columns}, {1, other_columns}};
    struct rt_tensor feed[2], fetch[2] = {{0}};
    struct srv_job job[2];
    struct rt_error err = {0};
    struct rt_arena *arena = rt_arena_new(1 << 20);
    struct rt_pool *pool = rt_pool_new(0);

    for (int i = 0; i < 2; i++) {
        assert_ok(rt_tensor_new(&feed[i], NULL, RT_F32, 2, dim[i], &err), &err);
        memset(feed[i].data, 0, rt_tensor_bytes(&feed[i]));
        job[i] = (struct srv_job){.next = i ? NULL : &job[1],
                                  .signature = &signature,
                                  .n_feeds = 1,
                                  .feeds = &feed[i],
                                  .n_fetches = 1,
                                  .fetches = &fetch[i],
                                  .n_rows = 1,
                                  .deadline_ns = gone ? RT_NEVER : 1};
        atomic_store(&job[i].cancelled, gone);
    }
    struct srv_batch b = {
        .first = job, .n_jobs = 2, .rows = 2, .run_rows = run_rows, .arena = arena, .pool = pool};
    srv_batch_run(&b);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(job[i].status, gone ? RT_CANCELLED : RT_DEADLINE_EXCEEDED);
        rt_tensor_clear(&feed[i]);
    }
    assert_int_equal(n_runs, 0);
    assert_int_equal(rt_pool_in_use(pool), 0);
    rt_pool_unref(pool);
    rt_arena_free(arena);
}

static void merging_much_ends_when_nobody_wants_it_any_more(void **state)
{
    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        expect_merge_ends(8, 8, SRV_MAX_BATCH_ROWS, gone);
        /* The rows of both requests are so large that merging takes a long time. */
        expect_merge_ends(3 << 20, 3 << 20, 2, gone);
        /* The row of one request is short and is padded to the length of the other request's
         * row. */
        expect_merge_ends(2, 3 << 20, 2, gone);
    }
}

/* Runs a batch of `n` requests of one row of 1,000 floats, padded to 1,024 rows. */
static void run_padded(int n, size_t input_limit)
{
    const struct rt_model_signature signature = {.call = NULL};
    struct rt_tensor feed[2], fetch[2] = {{0}};
    struct srv_job job[2];
    struct rt_error err = {0};
    struct rt_arena *arena = rt_arena_new(1 << 20);
    struct rt_pool *pool = rt_pool_new(0);

    rt_pool_set_keep(pool, 0);
    for (int i = 0; i < n; i++) {
        assert_ok(rt_tensor_new(&feed[i], NULL, RT_F32, 2, (int64_t[]){1, 1000}, &err), &err);
        memset(feed[i].data, 0, rt_tensor_bytes(&feed[i]));
        job[i] = (struct srv_job){.next = i + 1 < n ? &job[i + 1] : NULL,
                                  .signature = &signature,
                                  .n_feeds = 1,
                                  .feeds = &feed[i],
                                  .n_fetches = 1,
                                  .fetches = &fetch[i],
                                  .n_rows = 1,
                                  .deadline_ns = RT_NEVER};
    }
    struct srv_batch b = {.first = job,
                          .n_jobs = n,
                          .rows = n,
                          .run_rows = 1024,
                          .arena = arena,
                          .pool = pool,
                          .input_limit = input_limit};
    n_runs = 0;
    srv_batch_run(&b);
    for (int i = 0; i < n; i++) {
        assert_int_equal(job[i].status, RT_INTERNAL); /* the status of rt_callable_run here */
        rt_tensor_clear(&feed[i]);
    }
    assert_int_equal(rt_pool_in_use(pool), 0);
    rt_pool_unref(pool);
    rt_arena_free(arena);
}

static void padding_stays_within_the_memory_of_a_run(void **state)
{
    enum { PADDED = 1024 * 1000 * 4 };
    (void)state;
    run_padded(1, PADDED);
    assert_int_equal(n_runs, 1);
    assert_int_equal(run_rows_seen, 1024);
    run_padded(1, 0); /* no limit */
    assert_int_equal(run_rows_seen, 1024);
    /* Rows whose padding does not fit run without padding, and each request alone. */
    run_padded(1, PADDED - 1);
    assert_int_equal(n_runs, 1);
    assert_int_equal(run_rows_seen, 1);
    run_padded(2, PADDED - 1);
    assert_int_equal(n_runs, 2);
    assert_int_equal(run_rows_seen, 1);
}

static bool has_large_outputs(struct rt_tensor *t, size_t max_inline_bytes)
{
    const struct srv_job job = {.n_fetches = 1, .fetches = t, .max_inline_bytes = max_inline_bytes};
    return srv_batch_has_large_outputs(&job);
}

static void the_size_of_outputs_is_that_of_what_is_encoded(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    /* ten strings that share the same 40 bytes */
    assert_ok(rt_tensor_new(&t, NULL, RT_STRING, 1, (const int64_t[]){10}, &err), &err);
    struct rt_str *s = t.data;
    assert_true(rt_str_set(&s[0], NULL, "0123456789012345678901234567890123456789", 40, &err));
    for (int i = 1; i < 10; i++)
        rt_str_copy(&s[i], &s[0]);
    const size_t size = 10 * (sizeof *s + 40);
    assert_false(has_large_outputs(&t, size));
    assert_true(has_large_outputs(&t, size - 1));
    rt_tensor_clear(&t);
    /* empty rows, which JSON writes as brackets */
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 2, (const int64_t[]){1000, 0}, &err), &err);
    assert_false(has_large_outputs(&t, 1000 * sizeof(float)));
    assert_true(has_large_outputs(&t, 1000 * sizeof(float) - 1));
    rt_tensor_clear(&t);
    /* no outputs, as before a run or after a failed run */
    assert_false(has_large_outputs(&(struct rt_tensor){0}, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_much_ends_when_nobody_wants_it_any_more),
        cmocka_unit_test(padding_stays_within_the_memory_of_a_run),
        cmocka_unit_test(the_size_of_outputs_is_that_of_what_is_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
