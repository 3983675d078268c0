/*
 * Handles GET requests for the metrics page. A background thread writes one page of each format for
 * all requests that arrived before the writing began, and compresses the page at most once. The
 * responses to these requests share the page. Clients that do not read their responses therefore
 * occupy the memory of only one page.
 *
 * Different pages may exist at the same time. The budget of bytes in flight is not charged for up
 * to SRV_REST_FREE_PAGES pages, because the metrics are needed most when memory is short. The
 * budget is charged for all other pages.
 */
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"
#include "server/telemetry/metrics_page.h"

static struct srv_rest_page *page_new(struct srv_rest *rest)
{
    struct srv_rest_page *page = calloc(1, sizeof *page);

    if (!page)
        return NULL;
    page->rest = rest;
    atomic_init(&page->refs, 1);
    return page;
}

/* Returns whether responses may use the page. Charges the page to the budget, unless the page is
 * one of the SRV_REST_FREE_PAGES free pages. */
static bool may_hold(struct srv_rest_page *page)
{
    struct srv_rest *rest = page->rest;

    if (page->is_free || page->charged)
        return true;
    page->is_free = atomic_fetch_add(&rest->n_free_pages, 1) < SRV_REST_FREE_PAGES;
    if (page->is_free)
        return true;
    atomic_fetch_sub(&rest->n_free_pages, 1);
    return srv_budget_take(&rest->server->in_flight, &page->charged, page->bytes.n);
}

/* Returns the compressed page. Returns NULL if memory runs out or the page does not become
 * smaller. */
static struct srv_rest_page *compress(const struct srv_rest_page *page)
{
    struct srv_cancellation never = {.deadline_ns = RT_NEVER};
    struct srv_rest_page *packed = page_new(page->rest);

    if (!packed)
        return NULL;
    rt_bytes_init(&packed->bytes, page->bytes.n);
    if (srv_rest_compress(&packed->bytes, &page->bytes, &never))
        return packed;
    srv_rest_page_unref(packed);
    return NULL;
}

static void send_page(struct srv_rest_call *req, struct srv_rest_page *page)
{
    const char *type = req->prefers_openmetrics
                           ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                           : "text/plain";
    struct srv_rest_request *r = &req->pub;

    if (!page) {
        srv_rest_fail(r, rt_fail_memory(&r->err, "the metrics page", sizeof *page));
    } else if (page->bytes.failed) {
        srv_rest_fail(r, srv_metrics_page_fail(&page->bytes, &r->err));
    } else if (!may_hold(page)) {
        srv_rest_fail(r, srv_rest_over_budget(r, page->bytes.n, "the metrics page"));
    } else {
        atomic_fetch_add(&page->refs, 1);
        req->page = page;
        srv_rest_ok(r, type);
    }
    srv_rest_finished(r);
}

/* Writes one page for a list of requests of the same format. */
static void write_page(struct srv_rest *rest, enum srv_text_format format,
                       struct srv_rest_call *first)
{
    struct srv_rest_page *page = page_new(rest), *packed = NULL;
    struct srv_rest_call *next;
    bool is_packed = false;

    if (page)
        srv_metrics_page(rest->server, format, &page->bytes);
    for (struct srv_rest_call *req = first; req; req = next) {
        next = req->next_free; /* the call may be freed after the response is sent */
        const bool takes_gzip = page && srv_rest_takes_gzip(req, &page->bytes);
        if (takes_gzip && !is_packed) {
            packed = compress(page);
            is_packed = true;
        }
        req->deflated = takes_gzip && packed && may_hold(packed);
        send_page(req, req->deflated ? packed : page);
    }
    srv_rest_page_unref(page);
    srv_rest_page_unref(packed);
}

void srv_rest_write_pages(struct srv_rest *rest, struct srv_rest_call *first)
{
    struct srv_rest_call *list[2] = {NULL, NULL}, **end[2] = {&list[0], &list[1]};

    for (struct srv_rest_call *req = first; req; req = req->next_free) {
        const int format = req->prefers_openmetrics ? SRV_TEXT_OPENMETRICS : SRV_TEXT_PROMETHEUS;
        *end[format] = req;
        end[format] = &req->next_free;
    }
    for (int format = 0; format < 2; format++) {
        *end[format] = NULL;
        if (list[format])
            write_page(rest, (enum srv_text_format)format, list[format]);
    }
}

bool srv_rest_metrics(struct srv_rest_request *r)
{
    return srv_rest_background(srv_rest_call_of(r), SRV_REST_PAGES);
}
