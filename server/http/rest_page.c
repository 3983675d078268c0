/* Releases metrics pages, which may be shared by several responses. */
#include <stdlib.h>

#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"

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
