/*
 * Handles GET of the metrics page. An I/O loop writes and compresses the page at most once per
 * turn. All requests of the turn share the page, so that many simultaneous requests for it do not
 * delay the loop's other connections.
 */
#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"
#include "server/telemetry/metrics_page.h"

bool srv_rest_metrics(struct srv_rest_request *r)
{
    struct srv_rest_call *req = srv_rest_call_of(r);
    struct srv_rest_page *page = &req->loop->page;
    const struct rt_bytes *body = &page->text;

    if (!page->text.n)
        srv_metrics_page(r->server, &page->text);
    if (srv_rest_takes_gzip(req, &page->text)) {
        page->packed.limit = page->text.n;
        if (!page->packed.n && !srv_rest_compress(&page->packed, &page->text, NULL))
            rt_bytes_clear(&page->packed);
        if (page->packed.n)
            body = &page->packed;
    }
    if (body->failed)
        rt_bytes_no_memory(&r->out);
    rt_bytes_add(&r->out, body->p, body->n);
    req->deflated = body == &page->packed && !r->out.failed;
    srv_rest_ok(r, "text/plain");
    return false;
}

void srv_rest_forget_page(struct srv_rest_loop *l)
{
    rt_bytes_clear(&l->page.text);
    rt_bytes_clear(&l->page.packed);
}
