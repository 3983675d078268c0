/* Creates and releases bodies, which several responses may share. */
#include <stdlib.h>

#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"

struct srv_shared_body *srv_shared_body_new(struct srv_rest *rest)
{
    struct srv_shared_body *body = calloc(1, sizeof *body);

    if (!body)
        return NULL;
    body->rest = rest;
    atomic_init(&body->refs, 1);
    return body;
}

void srv_shared_body_unref(struct srv_shared_body *body)
{
    if (!body || atomic_fetch_sub(&body->refs, 1) > 1)
        return;
    srv_budget_give(&body->rest->server->in_flight, &body->charged, body->charged);
    if (body->is_free)
        atomic_fetch_sub(&body->rest->n_free_shared_bodies, 1);
    rt_bytes_clear(&body->bytes);
    free(body);
}
