/* Handles GET requests for the metrics page. A page, which an aside thread writes, answers all
 * requests that arrived before the thread began to write it. */
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

void srv_rest_write_pages(struct srv_rest *rest, struct srv_rest_call *first)
{
    struct rt_bytes page, packed;
    struct srv_rest_call *next;

    rt_bytes_init(&page, SIZE_MAX);
    rt_bytes_init(&packed, SIZE_MAX);
    srv_metrics_page(rest->server, &page);
    for (struct srv_rest_call *req = first; req; req = next) {
        next = req->next_free; /* the call may be freed once the response is sent */
        send_page(req, &page, &packed);
    }
    rt_bytes_clear(&page);
    rt_bytes_clear(&packed);
}

bool srv_rest_metrics(struct srv_rest_request *r)
{
    return srv_rest_aside(srv_rest_call_of(r), SRV_REST_PAGES);
}
