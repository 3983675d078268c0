/*
 * Allocates and frees calls, charges them to the budget of bytes in flight, and queues them for the
 * background threads.
 */
#include <stdlib.h>

#include "runtime/base/arena.h"
#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"

enum {
    MAX_FREE_REQUESTS = 512, /* maximum number of calls in the free list of an I/O loop */
    MAX_RESPONSE_BYTES = 2047 << 20,
    /* A call with more memory is freed on a background thread. Returning memory of this size to the
     * system takes up to 0.5 ms. Freeing 400 MB would block the loop for 0.2 s. */
    FREE_ON_LOOP_BYTES = 1 << 20,
};

/* ---- the budget ---- */

bool srv_rest_charge(struct srv_rest_request *r, size_t bytes)
{
    return srv_budget_take(&r->server->in_flight, &r->charged, bytes);
}

enum rt_status srv_rest_over_budget(struct srv_rest_request *r, size_t bytes, const char *what)
{
    return srv_budget_refused(&r->server->in_flight, r->charged, bytes, what, &r->err);
}

void srv_rest_discharge(struct srv_rest_request *r)
{
    srv_budget_give(&r->server->in_flight, &r->charged, r->charged);
}

/*
 * Charges the growth of a response to the budget. Small responses are free. An error message
 * therefore always fits, and a client can read the state of a model while memory is short.
 * rest_shared_send.c charges bodies that responses share.
 */
bool srv_rest_may_grow(void *arg, size_t capacity, size_t wanted)
{
    struct srv_rest_request *r = arg;
    const bool may_be_large = r->route.target == SRV_TO_CALL || srv_route_is_page(&r->route);

    if (wanted <= SRV_REST_MAX_IDLE_BYTES || !may_be_large)
        return true;
    size_t more =
        wanted - (capacity > SRV_REST_MAX_IDLE_BYTES ? capacity : SRV_REST_MAX_IDLE_BYTES);
    bool fits = srv_rest_charge(r, more);
    r->refused_bytes = fits ? 0 : more;
    return fits;
}

/* ---- the queues of the background threads ---- */

bool srv_rest_append(struct srv_rest_call *req, enum srv_rest_background kind)
{
    struct srv_rest_background_queue *q = &req->loop->rest->background[kind];

    req->next_free = NULL;
    rt_mutex_lock(&q->mu);
    const bool stopping = q->stopping;
    if (!stopping) {
        if (q->first)
            q->last->next_free = req;
        else
            q->first = req;
        q->last = req;
        rt_cond_signal(&q->wake);
    }
    rt_mutex_unlock(&q->mu);
    return !stopping;
}

/* ---- calls and their free list ---- */

struct srv_rest_call *srv_rest_new_call(struct srv_rest_loop *l)
{
    struct srv_rest_call *req = l->free_requests;
    if (req) {
        l->free_requests = req->next_free;
        l->n_free--;
        return req;
    }
    req = calloc(1, sizeof *req);
    struct rt_arena *arena = req ? rt_arena_new(SRV_REST_ARENA_BYTES) : NULL;
    if (!arena) {
        free(req);
        return NULL;
    }
    req->loop = l;
    req->pub.server = l->io_loop.server;
    req->pub.io_loop = &l->io_loop;
    req->pub.arena = arena;
    rt_bytes_init(&req->pub.body, (size_t)l->io_loop.server->options.max_body_bytes);
    int64_t most = l->io_loop.server->options.max_bytes_in_flight;
    rt_bytes_init(&req->pub.out, most < MAX_RESPONSE_BYTES ? (size_t)most : MAX_RESPONSE_BYTES);
    req->pub.out.may_grow = srv_rest_may_grow;
    req->pub.out.grow_arg = &req->pub;
    return req;
}

void srv_rest_free_call(struct srv_rest_call *req)
{
    rt_bytes_clear(&req->pub.body);
    rt_bytes_clear(&req->pub.out);
    rt_arena_free(req->pub.arena);
    srv_rest_discharge(&req->pub);
    free(req);
}

static void bytes_rewind(struct rt_bytes *b)
{
    if (b->capacity > SRV_REST_MAX_IDLE_BYTES || b->failed)
        rt_bytes_clear(b);
    b->n = 0;
}

void srv_rest_unref(struct srv_rest_call *req)
{
    struct srv_rest_loop *l = req->loop;
    const struct srv_rest_request *r = &req->pub;
    if (--req->refs)
        return;
    srv_shared_body_unref(req->shared_body);
    req->shared_body = NULL;
    const size_t used = rt_arena_used(r->arena);
    if (r->body.capacity + r->out.capacity + used > FREE_ON_LOOP_BYTES) {
        if (!srv_rest_append(req, SRV_REST_FREE))
            srv_rest_free_call(req);
        return;
    }
    if (l->n_free >= MAX_FREE_REQUESTS || used > SRV_REST_MAX_IDLE_BYTES) {
        srv_rest_free_call(req);
        return;
    }
    rt_arena_reset(req->pub.arena);
    bytes_rewind(&req->pub.body);
    bytes_rewind(&req->pub.out);
    srv_rest_discharge(&req->pub);
    req->next_free = l->free_requests;
    l->free_requests = req;
    l->n_free++;
}

void srv_rest_free_calls(struct srv_rest_loop *l)
{
    while (l->free_requests) {
        struct srv_rest_call *req = l->free_requests;
        l->free_requests = req->next_free;
        srv_rest_free_call(req);
    }
}

void srv_rest_drop_body(struct srv_rest_call *req)
{
    struct srv_rest_request *r = &req->pub;
    struct srv_rest_call *other =
        r->body.capacity > FREE_ON_LOOP_BYTES ? srv_rest_new_call(req->loop) : NULL;
    if (other) {
        struct rt_bytes empty = other->pub.body;
        other->pub.body = r->body;
        other->pub.charged = r->charged;
        r->body = empty;
        r->charged = 0;
        other->refs = 1;
        srv_rest_unref(other);
    }
    rt_bytes_clear(&r->body);
    srv_rest_discharge(r);
}
