/* Tests how a request is split into sub-requests, and how their outputs become one. The tests end
 * the sub-requests themselves, without a scheduler. */
#include "tests/support/test.h"

#include "runtime/base/arena.h"
#include "server/base/serving_map.h"
#include "server/batching/batch.h"
#include "server/batching/sub_requests.h"

enum { MOST = 16 };

static struct world {
    struct srv_job parent;
    struct rt_tensor feed, fetch;
    struct srv_version version;
    struct srv_job *jobs[MOST];
    int n_jobs;
    int n_done;        /* number of calls of parent_done */
    bool follows_rows; /* argument of the last call */
    int n_whole;       /* number of times that the parent ran without splitting */
} world;

/* Replaces the function of batch.c. */
void srv_batch_run_job(struct srv_job *job, int64_t end_ns, const struct rt_wait_hook *on_wait)
{
    assert_ptr_equal(job, &world.parent);
    assert_int_equal(end_ns, 0);
    assert_null(on_wait);
    world.n_whole++;
}

static void parent_done(struct srv_job *parent, bool follows_rows)
{
    assert_ptr_equal(parent, &world.parent);
    world.n_done++;
    world.follows_rows = follows_rows;
}

/* Makes a parent of `rows` rows with the numbers 0, 1, 2, ..., two in each row. */
static void begin(int64_t rows)
{
    struct world *w = &world;
    struct rt_error err = {0};

    memset(w, 0, sizeof *w);
    assert_ok(rt_tensor_new(&w->feed, NULL, RT_F32, 2, (int64_t[]){rows, 2}, &err), &err);
    for (int64_t i = 0; i < 2 * rows; i++)
        ((float *)w->feed.data)[i] = (float)i;
    w->parent = (struct srv_job){.arena = rt_arena_new(1 << 20),
                                 .version = &w->version,
                                 .n_feeds = 1,
                                 .feeds = &w->feed,
                                 .n_fetches = 1,
                                 .fetches = &w->fetch,
                                 .n_rows = rows,
                                 .body_bytes = 1000,
                                 .deadline_ns = 77,
                                 .level = 5,
                                 .queued_ns = 3};
    assert_non_null(w->parent.arena);
    w->parent.err.arena = w->parent.arena;
}

static void end(void)
{
    srv_job_clear(&world.parent);
    rt_arena_free(world.parent.arena);
}

static enum rt_status split(int64_t first_rows, int64_t rows)
{
    struct srv_job *first = NULL;
    enum rt_status st =
        srv_sub_requests_split(&world.parent, first_rows, rows, NULL, parent_done, &first);
    for (world.n_jobs = 0; first && world.n_jobs < MOST; first = first->next)
        world.jobs[world.n_jobs++] = first;
    return st;
}

static void expect_rows(int n, const int64_t *rows)
{
    int64_t at = 0;

    assert_int_equal(world.n_jobs, n);
    for (int i = 0; i < n; i++) {
        const struct srv_job *job = world.jobs[i];
        assert_int_equal(job->n_rows, rows[i]);
        assert_int_equal(job->feeds[0].dim[0], rows[i]);
        assert_int_equal(job->feeds[0].dim[1], 2);
        assert_float_equal(((const float *)job->feeds[0].data)[0], (float)(2 * at), 0);
        assert_ptr_equal(job->parent, &world.parent);
        assert_ptr_equal(job->version, &world.version);
        assert_int_equal(job->deadline_ns, 77);
        assert_int_equal(job->level, 5);
        assert_int_equal(job->queued_ns, 3);
        assert_int_equal(job->body_bytes, 1000 / n);
        at += rows[i];
    }
    assert_int_equal(at, world.parent.n_rows);
}

static void clear_jobs(void)
{
    for (int i = 0; i < world.n_jobs; i++)
        srv_job_clear(world.jobs[i]);
}

static void the_first_and_the_last_sub_request_may_be_smaller(void **state)
{
    (void)state;
    const struct {
        int64_t rows, first, each;
        int n;
        int64_t want[4];
    } cases[] = {
        {8, 0, 4, 2, {4, 4}},    {9, 0, 4, 3, {4, 4, 1}}, {9, 1, 4, 3, {1, 4, 4}},
        {8, 3, 4, 3, {3, 4, 1}}, {3, 3, 4, 1, {3}},       {4, 1, 1, 4, {1, 1, 1, 1}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].rows);
        assert_ok(split(cases[i].first, cases[i].each), &world.parent.err);
        expect_rows(cases[i].n, cases[i].want);
        clear_jobs();
        end();
    }
}

/* Ends a sub-request as a model does that doubles its input. */
static void end_doubled(int k)
{
    struct srv_job *job = world.jobs[k];
    const int64_t n = job->n_rows;

    assert_ok(rt_tensor_new(&job->fetches[0], NULL, RT_F32, 2, (int64_t[]){n, 2}, &job->err),
              &job->err);
    for (int64_t i = 0; i < 2 * n; i++)
        ((float *)job->fetches[0].data)[i] = 2 * ((const float *)job->feeds[0].data)[i];
    job->batch_rows = 10 + k;
    job->started_ns = 100 + k;
    job->done(job);
}

static void outputs_are_concatenated_in_the_order_of_the_rows(void **state)
{
    (void)state;
    begin(9);
    assert_ok(split(2, 4), &world.parent.err);
    end_doubled(2);
    end_doubled(0);
    assert_int_equal(world.n_done, 0);
    end_doubled(1);
    assert_int_equal(world.n_done, 1);
    assert_true(world.follows_rows);
    assert_int_equal(world.n_whole, 0);
    assert_ok(world.parent.status, &world.parent.err);
    assert_int_equal(world.fetch.rank, 2);
    assert_int_equal(world.fetch.dim[0], 9);
    assert_int_equal(world.fetch.dim[1], 2);
    for (int i = 0; i < 18; i++)
        assert_float_equal(((const float *)world.fetch.data)[i], 2 * (float)i, 0);
    /* The parent began with its first sub-request, in a batch as large as the largest one. */
    assert_int_equal(world.parent.batch_rows, 12);
    assert_int_equal(world.parent.started_ns, 100);
    end();
}

static void end_with_strings(int k, const char *const *texts)
{
    struct srv_job *job = world.jobs[k];

    assert_ok(rt_tensor_new(&job->fetches[0], NULL, RT_STRING, 1, &job->n_rows, &job->err),
              &job->err);
    for (int64_t i = 0; i < job->n_rows; i++)
        assert_true(rt_str_set((struct rt_str *)job->fetches[0].data + i, NULL, texts[i],
                               strlen(texts[i]), &job->err));
    job->done(job);
}

static void strings_outlive_their_sub_requests(void **state)
{
    (void)state;
    const char *const texts[] = {"a", "", "a text that is longer than what a string holds itself"};

    begin(3);
    assert_ok(split(0, 2), &world.parent.err);
    end_with_strings(0, texts);
    end_with_strings(1, texts + 2);
    assert_ok(world.parent.status, &world.parent.err);
    for (int i = 0; i < 3; i++) {
        const struct rt_str *s = &rt_strs(&world.fetch)[i];
        assert_true(rt_span_is(rt_span_of(rt_str_data(s), s->n), texts[i]));
    }
    end();
}

static void the_first_error_in_the_order_of_the_rows_is_the_parents(void **state)
{
    (void)state;
    begin(6);
    assert_ok(split(0, 2), &world.parent.err);
    for (int k = 2; k > 0; k--) {
        struct srv_job *job = world.jobs[k];
        job->status = rt_fail(&job->err, RT_INVALID_ARGUMENT, "error of sub-request %d", k);
        job->done(job);
    }
    end_doubled(0);
    assert_int_equal(world.n_done, 1);
    assert_fails(world.parent.status, RT_INVALID_ARGUMENT, &world.parent.err,
                 "error of sub-request 1");
    assert_null(world.fetch.data);
    assert_int_equal(world.n_whole, 0);
    end();
}

/* Ends both sub-requests of a parent with two rows in each. The second one's output has the given
 * type and shape. */
static void ends_whole(enum rt_dtype dtype, int rank, const int64_t *dim)
{
    begin(4);
    assert_ok(split(0, 2), &world.parent.err);
    end_doubled(0);
    struct srv_job *job = world.jobs[1];
    assert_ok(rt_tensor_new(&job->fetches[0], NULL, dtype, rank, dim, &job->err), &job->err);
    memset(job->fetches[0].data, 0, rt_tensor_bytes(&job->fetches[0]));
    job->done(job);
    assert_int_equal(world.n_done, 1);
    assert_false(world.follows_rows);
    assert_int_equal(world.n_whole, 1);
    assert_null(world.fetch.data);
    end();
}

static void a_parent_whose_outputs_do_not_follow_its_rows_runs_whole(void **state)
{
    (void)state;
    ends_whole(RT_F32, 2, (int64_t[]){1, 2}); /* another number of rows */
    ends_whole(RT_F32, 2, (int64_t[]){2, 3}); /* another inner dimension */
    ends_whole(RT_F32, 1, (int64_t[]){2});
    ends_whole(RT_F32, 0, NULL);
    ends_whole(RT_I32, 2, (int64_t[]){2, 2});
}

static void a_split_without_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    begin(9);
    struct rt_arena *parents = world.parent.arena;
    /* The arena has memory for none, some or all of the sub-requests. */
    for (size_t bytes = 64, fits = 0; !fits; bytes += 64) {
        assert_true(bytes < 1 << 20);
        world.parent.arena = rt_arena_new(bytes);
        assert_non_null(world.parent.arena);
        if (split(0, 2)) {
            assert_int_equal(world.parent.err.code, RT_RESOURCE_EXHAUSTED);
            assert_int_equal(world.n_jobs, 0);
        } else {
            fits = 1;
            clear_jobs();
        }
        rt_arena_free(world.parent.arena);
    }
    assert_int_equal(world.n_done, 0);
    assert_float_equal(((const float *)world.feed.data)[17], 17, 0);
    world.parent.arena = parents;
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_and_the_last_sub_request_may_be_smaller),
        cmocka_unit_test(outputs_are_concatenated_in_the_order_of_the_rows),
        cmocka_unit_test(strings_outlive_their_sub_requests),
        cmocka_unit_test(the_first_error_in_the_order_of_the_rows_is_the_parents),
        cmocka_unit_test(a_parent_whose_outputs_do_not_follow_its_rows_runs_whole),
        cmocka_unit_test(a_split_without_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
