/*
 * Threads for slow work other than inference: writing the metrics page and the events of the web
 * page, building plans for the web page, gathering and writing long descriptions, and freeing the
 * memory of large requests. The time for this work depends on the number of versions, the size of a
 * model, or the size of the memory. Meanwhile the I/O loops serve other connections. The threads
 * also compress what they write. The queues need no fairness between connections, because each
 * connection has at most one request in a queue.
 */
#include "runtime/base/clock.h"
#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"

/* Waits until requests are queued and the pause since the previous ones is over. */
static void await_requests(struct srv_rest_background_queue *q) RT_REQUIRES(q->mu)
{
    while (!q->stopping && !q->first)
        rt_cond_wait(&q->wake, &q->mu);
    while (!q->stopping && rt_now_ns() < q->not_before_ns)
        rt_cond_wait_until(&q->wake, &q->mu, q->not_before_ns);
    q->not_before_ns = q->pause_ns ? rt_now_ns() + q->pause_ns : 0;
}

static void *run_queue(void *arg)
{
    struct srv_rest_background_queue *q = arg;

    rt_mutex_lock(&q->mu);
    for (;;) {
        await_requests(q);
        struct srv_rest_call *first = q->first;
        q->first = NULL;
        if (!first)
            break;
        rt_mutex_unlock(&q->mu);
        q->work(q->rest, first);
        rt_mutex_lock(&q->mu);
    }
    rt_mutex_unlock(&q->mu);
    return NULL;
}

/* For each request of a list, calls `work`, and finishes the request if its response is set. */
static void work_each(struct srv_rest *rest, struct srv_rest_call *first)
{
    struct srv_rest_call *next;

    (void)rest;
    for (struct srv_rest_call *req = first; req; req = next) {
        struct srv_rest_request *r = &req->pub;
        next = req->next_free; /* the call may be freed after the response is sent */
        if (atomic_load_explicit(&r->job.cancelled, memory_order_relaxed))
            srv_rest_fail(r, rt_fail(&r->err, RT_CANCELLED, "the client has left"));
        else if (!req->work(r))
            continue;
        srv_rest_finished(r);
    }
}

static void free_each(struct srv_rest *rest, struct srv_rest_call *first)
{
    struct srv_rest_call *next;

    (void)rest;
    for (struct srv_rest_call *req = first; req; req = next) {
        next = req->next_free;
        srv_rest_free_call(req);
    }
}

bool srv_rest_background(struct srv_rest_call *req, enum srv_rest_background kind)
{
    if (srv_rest_append(req, kind))
        return true;
    srv_rest_fail(&req->pub, rt_fail(&req->pub.err, RT_UNAVAILABLE, "the server is stopping"));
    return false;
}

bool srv_rest_background_work(struct srv_rest_call *req, enum srv_rest_background kind,
                              bool (*work)(struct srv_rest_request *r))
{
    req->work = work;
    atomic_store_explicit(&req->pub.job.cancelled, false, memory_order_relaxed);
    return srv_rest_background(req, kind);
}

bool srv_rest_in_background(struct srv_rest_request *r, bool (*work)(struct srv_rest_request *r))
{
    const bool is_short = srv_description_is_short(&r->description);

    return srv_rest_background_work(
        srv_rest_call_of(r), is_short ? SRV_REST_SHORT_DESCRIPTIONS : SRV_REST_DESCRIPTIONS, work);
}

bool srv_rest_in_action(struct srv_rest_request *r, bool (*work)(struct srv_rest_request *r))
{
    return srv_rest_background_work(srv_rest_call_of(r), SRV_REST_ACTIONS, work);
}

enum rt_status srv_rest_background_start(struct srv_rest *rest, struct rt_error *err)
{
    static const struct {
        const char *name;
        void (*work)(struct srv_rest *rest, struct srv_rest_call *first);
    } kinds[SRV_N_REST_BACKGROUND_KINDS] = {
        [SRV_REST_PAGES] = {"metrics", srv_rest_write_pages},
        [SRV_REST_DESCRIPTIONS] = {"description", work_each},
        [SRV_REST_SHORT_DESCRIPTIONS] = {"short-descr", work_each},
        [SRV_REST_ACTIONS] = {"action", work_each},
        [SRV_REST_EVENTS] = {"page-events", srv_rest_write_events},
        [SRV_REST_PLANS] = {"page-plans", work_each},
        [SRV_REST_FREE] = {"rest-free", free_each},
    };

    for (int i = 0; i < SRV_N_REST_BACKGROUND_KINDS; i++) {
        struct srv_rest_background_queue *q = &rest->background[i];
        q->rest = rest;
        q->work = kinds[i].work;
        rt_mutex_init(&q->mu);
        rt_cond_init(&q->wake);
    }
    rest->background[SRV_REST_EVENTS].pause_ns = SRV_REST_EVENT_PAUSE_NS;
    for (int i = 0; i < SRV_N_REST_BACKGROUND_KINDS; i++) {
        struct srv_rest_background_queue *q = &rest->background[i];
        q->running = !rt_thread_start(&q->thread, kinds[i].name, run_queue, q);
        if (!q->running)
            return rt_fail(err, RT_INTERNAL, "the %s thread cannot start", kinds[i].name);
    }
    return RT_OK;
}

void srv_rest_background_stop(struct srv_rest *rest)
{
    for (int i = 0; i < SRV_N_REST_BACKGROUND_KINDS; i++) {
        struct srv_rest_background_queue *q = &rest->background[i];
        rt_mutex_lock(&q->mu);
        q->stopping = true;
        rt_cond_signal(&q->wake);
        rt_mutex_unlock(&q->mu);
        if (q->running)
            pthread_join(q->thread, NULL);
    }
}

void srv_rest_background_clear(struct srv_rest *rest)
{
    for (int i = 0; i < SRV_N_REST_BACKGROUND_KINDS; i++) {
        rt_mutex_clear(&rest->background[i].mu);
        rt_cond_clear(&rest->background[i].wake);
    }
}
