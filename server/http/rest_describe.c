/* Handles requests for information. Each protocol defines how a response is found and written
 * (struct srv_description_steps). */
#include "server/http/rest_request.h"

static void write(struct srv_rest_request *r)
{
    r->route.endpoint->rest.describe->write(&r->description, &r->out);
    srv_rest_ok(r, "application/json");
}

static bool write_in_background(struct srv_rest_request *r)
{
    write(r);
    return true;
}

/* Gathers what the response lists in an arena of its own, so that the memory is needed only until
 * the response is written. */
static bool gather_in_background(struct srv_rest_request *r)
{
    struct srv_description *d = &r->description;
    struct rt_arena *arena = rt_arena_new(SRV_GATHER_BYTES), *own = d->arena;
    enum rt_status st = arena ? RT_OK : rt_fail_memory(&r->err, "a description", 0);

    d->arena = arena;
    if (!st)
        st = r->route.endpoint->rest.describe->gather(d);
    if (st)
        srv_rest_fail(r, st);
    else
        write(r);
    d->arena = own;
    rt_arena_free(arena);
    return true;
}

bool srv_rest_describe(struct srv_rest_request *r)
{
    struct srv_description *d = &r->description;
    enum rt_status st = RT_OK;

    /* The I/O loop inflates the body, so it may not become long. */
    if (r->gzip && r->route.protocol && r->route.protocol->checks_coding) {
        st = srv_rest_inflate(r, SRV_DESCRIBE_ON_LOOP_BYTES);
        if (!st && r->gzip)
            st = rt_fail(&r->err, RT_INVALID_ARGUMENT,
                         "the request's body has more than %d bytes when it is inflated",
                         SRV_DESCRIBE_ON_LOOP_BYTES);
    }
    if (st) {
        srv_rest_fail(r, st);
        return false;
    }
    const struct rt_span body = rt_span_of(r->body.p, r->body.n);
    *d = (struct srv_description){.server = r->server,
                                  .map = r->io_loop->map,
                                  .arena = r->arena,
                                  .err = &r->err,
                                  .message = srv_cursor_of(&body, body.n),
                                  .spec = r->route.spec};
    st = r->route.endpoint->rest.describe->find(d);
    if (st) {
        srv_rest_fail(r, st);
        return false;
    }
    r->job.version = d->version;
    if (d->version)
        srv_hold(r->io_loop, d->version); /* the handle is released when the response is sent */
    const bool gathers = r->route.endpoint->rest.describe->gather;
    if (gathers && d->n_items > SRV_GATHER_ON_LOOP_ITEMS)
        return srv_rest_in_background(r, gather_in_background);
    if (gathers)
        st = r->route.endpoint->rest.describe->gather(d);
    if (st) {
        srv_rest_fail(r, st);
        return false;
    }
    if (d->bytes > SRV_DESCRIBE_ON_LOOP_BYTES)
        return srv_rest_in_background(r, write_in_background);
    write(r);
    return false;
}
