/*
 * Bodies that responses share. A background thread writes one body for all requests that arrived
 * before the writing began, and compresses the body at most once. The responses to these requests
 * share it. Clients that do not read their responses therefore occupy the memory of only one body.
 *
 * Different bodies may exist at the same time. The budget of bytes in flight is not charged for up
 * to SRV_REST_FREE_SHARED_BODIES metrics pages, because they are needed most when memory is short.
 * The budget is charged for all other bodies.
 */
#include "runtime/base/clock.h"
#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"

struct srv_shared_body *srv_shared_body_compress(const struct srv_shared_body *body)
{
    struct srv_cancellation never = {.deadline_ns = RT_NEVER};
    struct srv_shared_body *packed = srv_shared_body_new(body->rest);

    if (!packed)
        return NULL;
    rt_bytes_init(&packed->bytes, body->bytes.n);
    if (srv_rest_compress(&packed->bytes, &body->bytes, &never))
        return packed;
    srv_shared_body_unref(packed);
    return NULL;
}

/* Returns whether responses may use the body. Charges the body to the budget, unless it is one of
 * the SRV_REST_FREE_SHARED_BODIES that are free. */
static bool may_hold(const struct srv_shared_body_kind *kind, struct srv_shared_body *body)
{
    struct srv_rest *rest = body->rest;

    if (body->is_free || body->charged)
        return true;
    if (kind->may_be_free) {
        body->is_free =
            atomic_fetch_add(&rest->n_free_shared_bodies, 1) < SRV_REST_FREE_SHARED_BODIES;
        if (body->is_free)
            return true;
        atomic_fetch_sub(&rest->n_free_shared_bodies, 1);
    }
    return srv_budget_take(&rest->server->in_flight, &body->charged, body->bytes.n);
}

static void send_body(struct srv_rest_call *req, const struct srv_shared_body_kind *kind,
                      struct srv_shared_body *body)
{
    struct srv_rest_request *r = &req->pub;

    if (!body) {
        srv_rest_fail(r, rt_fail_memory(&r->err, kind->what, sizeof *body));
    } else if (body->bytes.failed) {
        srv_rest_fail(r, kind->fail(&body->bytes, &r->err));
    } else if (!may_hold(kind, body)) {
        srv_rest_fail(r, srv_rest_over_budget(r, body->bytes.n, kind->what));
    } else {
        atomic_fetch_add(&body->refs, 1);
        req->shared_body = body;
        srv_rest_ok(r, kind->content_type);
    }
    srv_rest_finished(r);
}

void srv_shared_body_send(struct srv_rest *rest, const struct srv_shared_body_kind *kind,
                          struct srv_rest_call *first)
{
    struct srv_shared_body *body = srv_shared_body_new(rest), *packed = NULL;
    struct srv_rest_call *next;
    bool is_packed = false;

    if (body)
        kind->write(rest, &body->bytes);
    for (struct srv_rest_call *req = first; req; req = next) {
        next = req->next_free; /* the call may be freed after the response is sent */
        const bool takes_gzip = body && srv_rest_takes_gzip(req, &body->bytes);
        if (takes_gzip && !is_packed) {
            packed = srv_shared_body_compress(body);
            is_packed = true;
        }
        req->deflated = takes_gzip && packed && may_hold(kind, packed);
        send_body(req, kind, req->deflated ? packed : body);
    }
    srv_shared_body_unref(body);
    srv_shared_body_unref(packed);
}
