/* Creates and releases pages, which several responses may share. */
#include <stdlib.h>

#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"

struct srv_rest_page *srv_rest_page_new(struct srv_rest *rest)
{
    struct srv_rest_page *page = calloc(1, sizeof *page);

    if (!page)
        return NULL;
    page->rest = rest;
    atomic_init(&page->refs, 1);
    return page;
}

void srv_rest_page_unref(struct srv_rest_page *page)
{
    if (!page || atomic_fetch_sub(&page->refs, 1) > 1)
        return;
    srv_budget_give(&page->rest->server->in_flight, &page->charged, page->charged);
    if (page->is_free)
        atomic_fetch_sub(&page->rest->n_free_pages, 1);
    rt_bytes_clear(&page->bytes);
    free(page);
}
