/*
 * Handles GET requests for the metrics page. A separate thread writes and compresses the page,
 * because this takes time in proportion to the number of versions. Meanwhile the I/O loops serve
 * other connections. A page answers all requests that arrived before the thread began to write it.
 */
#include "runtime/base/clock.h"
#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"
#include "server/telemetry/metrics_page.h"

/* Sets and sends the response of one request. `packed` holds the compressed page, and is filled for
 * the first request that needs it. */
static void send_page(struct srv_rest_call *req, const struct rt_bytes *page,
                      struct rt_bytes *packed)
{
    struct srv_rest_request *r = &req->pub;
    const struct rt_bytes *body = page;

    if (srv_rest_takes_gzip(req, page)) {
        packed->limit = page->n;
        struct srv_cancellation never = {.deadline_ns = RT_NEVER};
        if (!packed->n && !srv_rest_compress(packed, page, &never))
            rt_bytes_clear(packed);
        if (packed->n)
            body = packed;
    }
    if (body->failed)
        rt_bytes_no_memory(&r->out);
    rt_bytes_add(&r->out, body->p, body->n);
    req->deflated = body == packed && !r->out.failed;
    srv_rest_ok(r, "text/plain");
    srv_rest_finished(r);
}

static void *write_pages(void *arg)
{
    struct srv_rest *rest = arg;
    struct srv_rest_pages *pages = &rest->pages;

    rt_mutex_lock(&pages->mu);
    for (;;) {
        while (!pages->first && !pages->stopping)
            rt_cond_wait(&pages->wake, &pages->mu);
        struct srv_rest_call *req = pages->first, *next;
        pages->first = NULL;
        if (!req)
            break;
        rt_mutex_unlock(&pages->mu);
        struct rt_bytes page, packed;
        rt_bytes_init(&page, SIZE_MAX);
        rt_bytes_init(&packed, SIZE_MAX);
        srv_metrics_page(rest->server, &page);
        for (; req; req = next) {
            next = req->next_free; /* the call may be freed once the response is sent */
            send_page(req, &page, &packed);
        }
        rt_bytes_clear(&page);
        rt_bytes_clear(&packed);
        rt_mutex_lock(&pages->mu);
    }
    rt_mutex_unlock(&pages->mu);
    return NULL;
}

bool srv_rest_metrics(struct srv_rest_request *r)
{
    struct srv_rest_call *req = srv_rest_call_of(r);
    struct srv_rest_pages *pages = &req->loop->rest->pages;

    rt_mutex_lock(&pages->mu);
    const bool stopping = pages->stopping;
    if (!stopping) {
        req->next_free = pages->first;
        pages->first = req;
        rt_cond_signal(&pages->wake);
    }
    rt_mutex_unlock(&pages->mu);
    if (stopping)
        srv_rest_fail(r, rt_fail(&r->err, RT_UNAVAILABLE, "the server is stopping"));
    return !stopping;
}

bool srv_rest_pages_start(struct srv_rest *rest)
{
    struct srv_rest_pages *pages = &rest->pages;

    rt_mutex_init(&pages->mu);
    rt_cond_init(&pages->wake);
    pages->running = !rt_thread_start(&pages->thread, "metrics", write_pages, rest);
    return pages->running;
}

void srv_rest_pages_stop(struct srv_rest *rest)
{
    struct srv_rest_pages *pages = &rest->pages;

    rt_mutex_lock(&pages->mu);
    pages->stopping = true;
    rt_cond_signal(&pages->wake);
    rt_mutex_unlock(&pages->mu);
    if (pages->running)
        pthread_join(pages->thread, NULL);
}
