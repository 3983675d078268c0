/*
 * Pages that responses share. A background thread writes one page for all requests that arrived
 * before the writing began, and compresses the page at most once. The responses to these requests
 * share the page. Clients that do not read their responses therefore occupy the memory of only one
 * page.
 *
 * Different pages may exist at the same time. The budget of bytes in flight is not charged for up
 * to SRV_REST_FREE_PAGES metrics pages, because they are needed most when memory is short. The
 * budget is charged for all other pages.
 */
#include "runtime/base/clock.h"
#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"

struct srv_rest_page *srv_rest_page_compress(const struct srv_rest_page *page)
{
    struct srv_cancellation never = {.deadline_ns = RT_NEVER};
    struct srv_rest_page *packed = srv_rest_page_new(page->rest);

    if (!packed)
        return NULL;
    rt_bytes_init(&packed->bytes, page->bytes.n);
    if (srv_rest_compress(&packed->bytes, &page->bytes, &never))
        return packed;
    srv_rest_page_unref(packed);
    return NULL;
}

/* Returns whether responses may use the page. Charges the page to the budget, unless the page is
 * one of the SRV_REST_FREE_PAGES free pages. */
static bool may_hold(const struct srv_rest_page_kind *kind, struct srv_rest_page *page)
{
    struct srv_rest *rest = page->rest;

    if (page->is_free || page->charged)
        return true;
    if (kind->may_be_free) {
        page->is_free = atomic_fetch_add(&rest->n_free_pages, 1) < SRV_REST_FREE_PAGES;
        if (page->is_free)
            return true;
        atomic_fetch_sub(&rest->n_free_pages, 1);
    }
    return srv_budget_take(&rest->server->in_flight, &page->charged, page->bytes.n);
}

static void send_page(struct srv_rest_call *req, const struct srv_rest_page_kind *kind,
                      struct srv_rest_page *page)
{
    struct srv_rest_request *r = &req->pub;

    if (!page) {
        srv_rest_fail(r, rt_fail_memory(&r->err, kind->what, sizeof *page));
    } else if (page->bytes.failed) {
        srv_rest_fail(r, kind->fail(&page->bytes, &r->err));
    } else if (!may_hold(kind, page)) {
        srv_rest_fail(r, srv_rest_over_budget(r, page->bytes.n, kind->what));
    } else {
        atomic_fetch_add(&page->refs, 1);
        req->page = page;
        srv_rest_ok(r, kind->content_type);
    }
    srv_rest_finished(r);
}

void srv_rest_page_send(struct srv_rest *rest, const struct srv_rest_page_kind *kind,
                        struct srv_rest_call *first)
{
    struct srv_rest_page *page = srv_rest_page_new(rest), *packed = NULL;
    struct srv_rest_call *next;
    bool is_packed = false;

    if (page)
        kind->write(rest, &page->bytes);
    for (struct srv_rest_call *req = first; req; req = next) {
        next = req->next_free; /* the call may be freed after the response is sent */
        const bool takes_gzip = page && srv_rest_takes_gzip(req, &page->bytes);
        if (takes_gzip && !is_packed) {
            packed = srv_rest_page_compress(page);
            is_packed = true;
        }
        req->deflated = takes_gzip && packed && may_hold(kind, packed);
        send_page(req, kind, req->deflated ? packed : page);
    }
    srv_rest_page_unref(page);
    srv_rest_page_unref(packed);
}
