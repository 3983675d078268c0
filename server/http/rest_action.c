/* Handles requests that change something in the server. Each protocol defines the changes that its
 * requests make (struct srv_action_steps). */
#include "server/http/rest_request.h"
#include "server/protocol/admin.h"

/* An action of a protocol. The body is a single slice of memory. After the action has ended, no
 * pointer to the body remains. */
struct action {
    struct srv_action act; /* the first member */
    struct srv_rest_request *request;
    struct rt_span body;
};

static void respond(struct srv_rest_request *r, enum rt_status st)
{
    if (st)
        srv_rest_fail(r, st);
    else
        srv_rest_ok(r, "application/json");
}

static void done(struct srv_action *a, enum rt_status st)
{
    struct srv_rest_request *r = ((struct action *)a)->request;

    respond(r, st);
    srv_rest_finished(r);
}

static enum rt_status check(struct srv_action *a, bool is_admin)
{
    struct srv_rest_request *r = ((struct action *)a)->request;
    const char *what = rt_arena_strndup(r->arena, (const char *)r->uri.p, r->uri.n);
    const struct srv_admin_request request = {.what = what ? what : "the action",
                                              .place = "header",
                                              .authorization = r->authorization,
                                              .is_from_page = r->is_from_page};

    if (is_admin)
        return srv_admin_check(&r->server->options, &request, &r->err);
    return r->is_from_page
               ? rt_fail(&r->err, RT_PERMISSION_DENIED,
                         "%s is not for web pages: the request has an Origin", request.what)
               : RT_OK;
}

/* Runs on a background thread, because the body may be large. */
static bool act(struct srv_rest_request *r)
{
    const struct srv_action_steps *steps = r->route.endpoint->rest.act;
    struct action *x = rt_arena_alloc(r->arena, sizeof *x);
    enum rt_status st = x ? RT_OK : rt_fail_memory(&r->err, "a request", sizeof *x);

    if (x) {
        x->request = r;
        x->act = (struct srv_action){.server = r->server,
                                     .arena = r->arena,
                                     .err = &r->err,
                                     .spec = r->route.spec,
                                     .cancelled = &r->job.cancelled,
                                     .out = &r->out,
                                     .check = check,
                                     .done = done};
        if (steps->is_admin)
            st = check(&x->act, true);
    }
    if (!st && r->gzip)
        st = srv_rest_inflate(r, SIZE_MAX);
    if (st) {
        respond(r, st);
        return true;
    }
    x->body = rt_span_of(r->body.p, r->body.n);
    x->act.message = srv_cursor_of(&x->body, x->body.n);
    steps->perform(&x->act);
    return false;
}

bool srv_rest_act(struct srv_rest_request *r)
{
    return srv_rest_in_action(r, act);
}
