/* Tests the kinds of jobs: what a worker does before a run, and how the scheduler queues the jobs
 * that wait for it. */
#include "server/batching/buckets.h"
#include "tests/unit/batching/scheduler_fixture.h"

#include <unistd.h>

/* Numbers of calls of `decode` that have begun, of decodings, and of preparations. */
static _Atomic int n_decoding, n_decoded, n_prepared;
static _Atomic bool decodes_are_held; /* while true, `decode` waits */

static enum rt_status prepare(struct srv_job *job)
{
    atomic_fetch_add(&n_prepared, 1);
    assert_int_equal(job->kind, SRV_JOB_PREPARE);
    assert_int_equal(atomic_load(&sched_model.runs), 0);
    return RT_OK;
}

static enum rt_status decode(struct srv_job *job)
{
    atomic_fetch_add(&n_decoding, 1);
    while (atomic_load(&decodes_are_held))
        usleep(200);
    atomic_fetch_add(&n_decoded, 1);
    assert_int_equal(atomic_load(&n_prepared), 0);
    assert_ptr_equal(srv_job_signature(job), job->signature);
    return RT_OK;
}

/* Decodes a request that needs `prepare`. The request names its signature only in its body. */
static enum rt_status decode_signature(struct srv_job *job)
{
    const struct request *r = job->owner;

    assert_null(job->signature);
    job->signature = &r->w->signature;
    job->prepare = prepare;
    return decode(job);
}

static enum rt_status refuse(struct srv_job *job)
{
    atomic_fetch_add(&n_decoded, 1);
    return rt_fail(&job->err, RT_INVALID_ARGUMENT, "the body ends early");
}

static struct world *begin(int n_workers, bool writes)
{
    atomic_store(&n_decoding, 0);
    atomic_store(&n_decoded, 0);
    atomic_store(&n_prepared, 0);
    atomic_store(&decodes_are_held, false);
    return sched_begin(n_workers, true, writes);
}

/* Waits until workers have begun to decode n requests. */
static void wait_decoding(int n)
{
    for (int i = 0; i < 100000 && atomic_load(&n_decoding) < n; i++)
        usleep(500);
    assert_int_equal(atomic_load(&n_decoding), n);
}

static void a_job_is_decoded_then_prepared_and_then_run(void **state)
{
    (void)state;
    struct world *w = begin(2, false);
    w->decode = decode;
    w->prepare = prepare;
    struct request *r = sched_submit(w, 3, 1.5f, RT_NEVER);
    assert_int_equal(r->job.kind, SRV_JOB_DECODE);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_done(w, 1);
    sched_expect(r, 3, 1.5f);
    assert_int_equal(r->job.kind, SRV_JOB_RUN);
    assert_int_equal(r->job.n_rows, 3);
    assert_int_equal(atomic_load(&n_decoded), 1);
    assert_int_equal(atomic_load(&n_prepared), 1);
    assert_int_equal(atomic_load(&sched_model.runs), 1);
    sched_drop(r);
    sched_end(w);
}

static void decoding_may_find_the_signature_and_ask_for_preparation(void **state)
{
    (void)state;
    struct world *w = begin(2, false);
    w->decode = decode_signature;
    struct request *r = sched_submit(w, 1, 2, RT_NEVER);
    r->job.signature = NULL;
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_done(w, 1);
    sched_expect(r, 1, 2);
    assert_int_equal(atomic_load(&n_prepared), 1);
    sched_drop(r);
    sched_end(w);
}

static void a_decoded_job_may_need_preparation_alone(void **state)
{
    (void)state;
    struct world *w = begin(2, false);
    w->prepare = prepare;
    struct request *r = sched_submit(w, 1, 2, RT_NEVER);
    assert_int_equal(r->job.kind, SRV_JOB_PREPARE);
    assert_ptr_equal(srv_job_signature(&r->job), &w->signature);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_done(w, 1);
    sched_expect(r, 1, 2);
    assert_int_equal(atomic_load(&n_prepared), 1);
    sched_drop(r);
    sched_end(w);
}

static void a_job_that_cannot_be_decoded_is_neither_prepared_nor_run(void **state)
{
    (void)state;
    struct world *w = begin(2, false);
    w->decode = refuse;
    w->prepare = prepare;
    struct request *r = sched_submit(w, 1, 2, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    sched_wait_done(w, 1);
    assert_fails(r->job.status, RT_INVALID_ARGUMENT, &r->job.err, "the body ends early");
    assert_int_equal(atomic_load(&n_decoded), 1);
    assert_int_equal(atomic_load(&n_prepared), 0);
    assert_int_equal(atomic_load(&sched_model.runs), 0);
    sched_drop(r);
    sched_end(w);
}

static void a_job_that_leaves_the_queue_undecoded_has_no_signature(void **state)
{
    (void)state;
    struct world *w = begin(1, false);
    struct request *first = sched_block(w);
    w->decode = refuse;
    struct request *expired = sched_submit(w, 1, 1, rt_now_ns() + 5000000);
    struct request *last = sched_submit(w, 1, 1, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    assert_null(srv_job_signature(&expired->job));
    sched_wait_done(w, 1);
    srv_scheduler_refuse_all(w->server.scheduler, RT_UNAVAILABLE, "the server is stopping");
    assert_fails(expired->job.status, RT_DEADLINE_EXCEEDED, &expired->job.err, "Timed out");
    assert_fails(last->job.status, RT_UNAVAILABLE, &last->job.err, "stopping");
    assert_null(srv_job_signature(&expired->job));
    assert_null(srv_job_signature(&last->job));
    assert_int_equal(atomic_load(&n_decoded), 0);
    atomic_store(&sched_model.held, false);
    sched_wait_done(w, 3);
    sched_drop(expired);
    sched_drop(last);
    sched_drop(first);
    sched_end(w);
}

static void requests_for_a_signature_that_writes_are_decoded_at_the_same_time(void **state)
{
    (void)state;
    struct world *w = begin(2, true);
    struct request *r[2];
    w->decode = decode;
    atomic_store(&decodes_are_held, true);
    for (int i = 0; i < 2; i++)
        r[i] = sched_submit(w, 1, 2, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    wait_decoding(2);
    atomic_store(&decodes_are_held, false);
    sched_wait_done(w, 2);
    assert_int_equal(atomic_load(&sched_model.most_together), 1);
    for (int i = 0; i < 2; i++) {
        sched_expect(r[i], 1, 2);
        sched_drop(r[i]);
    }
    sched_end(w);
}

static void undecoded_jobs_are_not_in_the_queue_of_a_callable(void **state)
{
    (void)state;
    /* the fixture's rt_callable_run does not read the callable */
    static char anything;
    struct rt_callable *const call = (void *)&anything;
    struct world *w = begin(1, false);
    w->signature.call = call;
    w->decode = decode;
    atomic_store(&decodes_are_held, true);
    struct request *r = sched_submit(w, 1, 2, RT_NEVER);
    srv_io_loop_end_turn(&w->io_loop);
    for (const struct srv_call_queue *q = w->version.model_queue->queues; q; q = q->next)
        assert_null(q->call);
    atomic_store(&decodes_are_held, false);
    sched_wait_done(w, 1);
    sched_expect(r, 1, 2);
    const struct srv_call_queue *last = w->version.model_queue->queues;
    assert_ptr_equal(last->call, call);
    assert_null(last->next->call);
    sched_drop(r);
    sched_end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_decoded_then_prepared_and_then_run),
        cmocka_unit_test(decoding_may_find_the_signature_and_ask_for_preparation),
        cmocka_unit_test(a_decoded_job_may_need_preparation_alone),
        cmocka_unit_test(a_job_that_cannot_be_decoded_is_neither_prepared_nor_run),
        cmocka_unit_test(a_job_that_leaves_the_queue_undecoded_has_no_signature),
        cmocka_unit_test(requests_for_a_signature_that_writes_are_decoded_at_the_same_time),
        cmocka_unit_test(undecoded_jobs_are_not_in_the_queue_of_a_callable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
