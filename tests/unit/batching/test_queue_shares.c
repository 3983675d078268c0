/* Tests the shares of model queues, and that the scheduler core counts the queued jobs of each. */
#include "server/batching/queue_shares.h"

#include "runtime/base/clock.h"
#include "tests/unit/batching/core_fixture.h"

static struct srv_quota_client client(unsigned char name)
{
    return (struct srv_quota_client){.tag = {name}};
}

/* Queues a job of 10 bytes with the share of the client, if the share is not full. */
static bool put_of(struct world *w, struct srv_queue_shares *s, unsigned char name, int bucket,
                   int64_t rows, int64_t deadline)
{
    const struct srv_quota_client c = client(name);
    struct srv_core_bucket *b = &w->bucket[bucket];
    struct srv_queue_share *share = srv_queue_shares_find(s, &c, b->model_queue);
    struct srv_core_job *j = &w->job[w->n];
    *j = (struct srv_core_job){.rows = rows, .bytes = 10, .deadline_ns = deadline, .share = share};
    if (srv_queue_shares_is_full(s, share, &w->core.settings, b, rows, 10))
        return false;
    w->n++;
    assert_int_equal(srv_core_submit(&w->core, b, j, 1), SRV_CORE_QUEUED);
    return true;
}

/* Queues jobs of one row until the share is full. Returns the number of queued jobs. */
static int fill(struct world *w, struct srv_queue_shares *s, unsigned char name, int bucket)
{
    int n = 0;
    while (put_of(w, s, name, bucket, 1, RT_NEVER))
        n++;
    return n;
}

static void a_client_has_a_part_of_each_queue(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual()); /* 20 jobs */
    struct srv_queue_shares *s = srv_queue_shares_new(0.25, 64);
    assert_non_null(s);
    assert_int_equal(fill(&w, s, 'a', 0), 5);
    assert_int_equal(fill(&w, s, 'a', 1), 0); /* another bucket of the same queue */
    assert_int_equal(fill(&w, s, 'b', 0), 5);
    assert_int_equal(fill(&w, s, 'a', 2), 5); /* another queue */
    srv_queue_shares_free(s);
}

static void a_model_queue_may_have_a_smaller_limit(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.max_jobs = 8;
    struct srv_queue_shares *s = srv_queue_shares_new(0.5, 64);
    assert_int_equal(fill(&w, s, 'a', 0), 4);
    srv_queue_shares_free(s);
}

static void bytes_count_as_well_as_jobs(void **state)
{
    (void)state;
    struct world w;
    struct srv_core_settings settings = usual();
    settings.max_model_queue_bytes = 100;
    begin(&w, settings);
    struct srv_queue_shares *s = srv_queue_shares_new(0.4, 64);
    assert_int_equal(fill(&w, s, 'a', 0), 4);
    srv_queue_shares_free(s);
}

static void rows_count_where_the_number_of_batches_is_limited(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    w.policy.max_queue_batches = 2; /* 16 rows */
    struct srv_queue_shares *s = srv_queue_shares_new(0.5, 64);
    assert_true(put_of(&w, s, 'a', 0, 5, RT_NEVER));
    assert_false(put_of(&w, s, 'a', 0, 4, RT_NEVER));
    assert_true(put_of(&w, s, 'a', 0, 3, RT_NEVER));
    assert_false(put_of(&w, s, 'a', 0, 1, RT_NEVER));
    srv_queue_shares_free(s);
}

static void one_job_of_a_client_may_wait_in_any_case(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    struct srv_queue_shares *s = srv_queue_shares_new(0.001, 64);
    assert_int_equal(fill(&w, s, 'a', 0), 1);
    assert_int_equal(fill(&w, s, 'b', 0), 1);
    srv_queue_shares_free(s);
}

static void every_way_out_of_the_queue_frees_the_share(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    struct srv_queue_shares *s = srv_queue_shares_new(0.25, 64);
    assert_int_equal(fill(&w, s, 'a', 0), 5);
    /* a batch takes all */
    const struct srv_core_batch b = take(&w, 2, 0, 5);
    srv_core_done(&w.core, &b, 1, false);
    for (int i = 0; i < 5; i++)
        assert_true(put_of(&w, s, 'a', 0, 1, 100));
    assert_int_equal(fill(&w, s, 'a', 0), 0);
    /* their deadlines pass, first in a search for expired jobs */
    assert_non_null(srv_core_expired(&w.core, 200));
    for (int i = 0; i < 5; i++)
        assert_true(put_of(&w, s, 'a', 0, 1, 300));
    assert_int_equal(fill(&w, s, 'a', 0), 0);
    /* and then where a worker looks for a batch */
    struct srv_core_batch none;
    struct srv_core_job *expired = NULL;
    assert_false(srv_core_next(&w.core, 400, worker(0, 1), &none, &expired));
    assert_non_null(expired);
    assert_int_equal(fill(&w, s, 'a', 0), 5);
    /* the queue is emptied */
    assert_non_null(srv_core_take_all(&w.core));
    assert_int_equal(fill(&w, s, 'a', 0), 5);
    srv_queue_shares_free(s);
}

static void clients_without_a_share_have_one_in_common(void **state)
{
    (void)state;
    struct world w;
    begin(&w, usual());
    struct srv_queue_shares *s = srv_queue_shares_new(0.1, 8);
    const struct srv_quota_client c = client('i');
    for (unsigned char name = 'a'; name < 'i'; name++)
        assert_true(put_of(&w, s, name, 0, 1, RT_NEVER));
    assert_true(srv_queue_shares_is_common(s, srv_queue_shares_find(s, &c, &w.model_queue[0])));
    assert_int_equal(fill(&w, s, 'i', 0), 2);
    assert_int_equal(fill(&w, s, 'j', 0), 0);
    assert_int_equal(fill(&w, s, 'a', 0), 1); /* this one has its own */
    assert_non_null(srv_core_take_all(&w.core));
    assert_false(srv_queue_shares_is_common(s, srv_queue_shares_find(s, &c, &w.model_queue[0])));
    srv_queue_shares_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_has_a_part_of_each_queue),
        cmocka_unit_test(a_model_queue_may_have_a_smaller_limit),
        cmocka_unit_test(bytes_count_as_well_as_jobs),
        cmocka_unit_test(rows_count_where_the_number_of_batches_is_limited),
        cmocka_unit_test(one_job_of_a_client_may_wait_in_any_case),
        cmocka_unit_test(every_way_out_of_the_queue_frees_the_share),
        cmocka_unit_test(clients_without_a_share_have_one_in_common),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
