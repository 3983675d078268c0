/* Tests that the scheduler refuses the jobs of a client whose share of the queue is full, and that
 * however a job ends, another of its client may then wait. */
#include "tests/unit/batching/scheduler_fixture.h"

enum { SHARE = 5 }; /* a quarter of the 20 jobs that a queue of the fixture holds */

static void as(struct world *w, unsigned char name)
{
    w->client = (struct srv_quota_client){.tag = {name}};
}

/* Submits n requests of the client. */
static void submit(struct world *w, unsigned char name, struct request **r, int n, float value,
                   int64_t deadline)
{
    as(w, name);
    for (int i = 0; i < n; i++)
        r[i] = sched_submit(w, 1, value, deadline);
    srv_io_loop_end_turn(&w->io_loop);
}

static void expect_refused(const struct request *r)
{
    assert_int_equal(r->job.status, RT_RESOURCE_EXHAUSTED);
    assert_int_equal(r->job.retry_s, 1);
    assert_string_equal(rt_error_text(&r->job.err),
                        "the client's requests fill its share of the queue of model m version 1 "
                        "with 5 requests, 500 bytes (--quota_queue_share=0.25); retry after 1 s");
}

static void drop(struct request **r, int n)
{
    for (int i = 0; i < n; i++)
        sched_drop(r[i]);
}

static void a_client_fills_its_share_and_leaves_the_rest(void **state)
{
    (void)state;
    struct world *w = sched_begin_with_shares(0.25, SRV_UNSET, NULL);
    struct request *a[SHARE + 1], *b[SHARE], *first = sched_block(w);
    submit(w, 'a', a, SHARE + 1, 1, RT_NEVER);
    sched_wait_done(w, 1);
    expect_refused(a[SHARE]);
    submit(w, 'b', b, SHARE, 2, RT_NEVER);
    assert_int_equal(atomic_load(&w->n_done), 1);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 1 + 1 + 2 * SHARE);
    for (int i = 0; i < SHARE; i++) {
        sched_expect(a[i], 1, 1);
        sched_expect(b[i], 1, 2);
        assert_int_equal(a[i]->job.retry_s, 0);
    }
    drop(a, SHARE + 1);
    drop(b, SHARE);
    sched_drop(first);
    sched_end(w);
}

enum end { ANSWERED, FAILED, CANCELLED, EXPIRED, REFUSED, N_ENDS };

/* Ends the requests of a full share in a way, and asserts that the client may queue as many again.
 */
static void end_and_fill_again(enum end how)
{
    struct world *w = sched_begin_with_shares(0.25, SRV_UNSET, NULL);
    struct request *r[SHARE], *again[SHARE + 1], *first = sched_block(w);
    submit(w, 'a', r, SHARE, how == FAILED ? 13 : 1,
           how == EXPIRED ? rt_now_ns() + 50000000 : RT_NEVER);
    for (int i = 0; i < SHARE && how == CANCELLED; i++)
        atomic_store(&r[i]->job.cancelled, true);
    if (how == REFUSED) {
        srv_scheduler_refuse_all(w->server.scheduler, RT_UNAVAILABLE, "over");
        sched_wait_done(w, SHARE);
    } else if (how == EXPIRED) {
        sched_wait_done(w, SHARE);
    }
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 1 + SHARE);
    /* The requests of one turn are queued before a worker can take any. */
    submit(w, 'a', again, SHARE + 1, 1, RT_NEVER);
    sched_wait_done(w, 2 * (1 + SHARE));
    expect_refused(again[SHARE]);
    for (int i = 0; i < SHARE; i++)
        sched_expect(again[i], 1, 1);
    drop(r, SHARE);
    drop(again, SHARE + 1);
    sched_drop(first);
    sched_end(w);
}

static void however_requests_end_the_client_may_queue_others(void **state)
{
    (void)state;
    for (enum end how = ANSWERED; how < N_ENDS; how++)
        end_and_fill_again(how);
}

static void a_split_request_is_queued_whole_or_not_at_all(void **state)
{
    (void)state;
    struct world *w = sched_begin_with_shares(
        0.1, SRV_YES,
        "max_batch_size { value: 16 } max_execution_batch_size { value: 4 } "
        "enable_large_batch_splitting { value: true }");
    as(w, 'a');
    struct request *large = sched_submit(w, 16, 1, RT_NEVER);
    struct request *refused = sched_submit(w, 16, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_done(w, 2);
    assert_int_equal(refused->job.status, RT_RESOURCE_EXHAUSTED);
    assert_int_equal(refused->job.retry_s, 1);
    sched_expect(large, 16, 1);
    sched_drop(large);
    sched_drop(refused);
    sched_end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_fills_its_share_and_leaves_the_rest),
        cmocka_unit_test(however_requests_end_the_client_may_queue_others),
        cmocka_unit_test(a_split_request_is_queued_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
