/*
 * Serves the web page: its files, its events, and the last errors, plans and profiles of models. A
 * response with an event contains one and ends, and the browser asks again after the time that the
 * event names. A viewer is therefore a request like others: all limits of time and memory hold for
 * it, a server that stops need not end streams, and no connection of the browser is occupied for
 * long. The thread of the queue writes at most one event a second for all requests that wait, and
 * nothing if none waits.
 */
#include "runtime/base/clock.h"
#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"
#include "server/page/page.h"
#include "server/telemetry/page_errors.h"
#include "server/telemetry/page_event.h"
#include "server/telemetry/page_plan.h"
#include "server/telemetry/page_profile.h"

enum rt_status srv_rest_files_open(struct srv_rest *rest, struct rt_error *err)
{
    for (int i = 0; rest->server->options.page && i < SRV_PAGE_FILES; i++) {
        const struct srv_page_file file = srv_page_file(i);
        struct srv_shared_body *page = rest->files[i][0] = srv_shared_body_new(rest);
        if (page) {
            rt_bytes_init(&page->bytes, file.bytes.n);
            rt_bytes_add(&page->bytes, file.bytes.p, file.bytes.n);
        }
        if (!page || page->bytes.failed)
            return rt_fail_memory(err, "the page", file.bytes.n);
        rest->files[i][1] = srv_shared_body_compress(page);
    }
    return RT_OK;
}

void srv_rest_files_close(struct srv_rest *rest)
{
    for (int i = 0; i < SRV_PAGE_FILES; i++)
        for (int packed = 0; packed < 2; packed++) {
            srv_shared_body_unref(rest->files[i][packed]);
            rest->files[i][packed] = NULL;
        }
}

bool srv_rest_page_file(struct srv_rest_request *r)
{
    struct srv_rest_call *req = srv_rest_call_of(r);
    struct srv_shared_body *const *file = req->loop->rest->files[r->route.page_file];

    req->deflated = file[1] && srv_rest_takes_gzip(req, &file[0]->bytes);
    req->shared_body = file[req->deflated];
    atomic_fetch_add(&req->shared_body->refs, 1);
    srv_rest_ok(r, srv_page_file(r->route.page_file).content_type);
    return false;
}

static void write_event(struct srv_rest *rest, struct rt_bytes *out)
{
    srv_page_event(rest->server, rest->n_waiting, out);
}

static const struct srv_shared_body_kind event_kind = {"text/event-stream", "an event of the page",
                                                       write_event, srv_page_event_fail, false};

void srv_rest_write_events(struct srv_rest *rest, struct srv_rest_call *first)
{
    int n = 0;

    for (const struct srv_rest_call *req = first; req; req = req->next_free)
        n++;
    /* These viewers stop counting before the event is sent, because each may ask for the next event
     * as soon as it has received this one. */
    rest->n_waiting = atomic_fetch_sub(&rest->n_viewers, n);
    srv_shared_body_send(rest, &event_kind, first);
}

bool srv_rest_page_events(struct srv_rest_request *r)
{
    struct srv_rest_call *req = srv_rest_call_of(r);
    struct srv_rest *rest = req->loop->rest;
    bool waits = false;

    if (atomic_fetch_add(&rest->n_viewers, 1) >= SRV_REST_MAX_VIEWERS)
        srv_rest_fail(r, rt_fail(&r->err, RT_UNAVAILABLE,
                                 "the page has %d viewers, its fixed limit", SRV_REST_MAX_VIEWERS));
    else
        waits = srv_rest_background(req, SRV_REST_EVENTS);
    if (!waits)
        atomic_fetch_sub(&rest->n_viewers, 1);
    return waits;
}

static void respond_json(struct srv_rest_request *r, enum rt_status st)
{
    if (st)
        srv_rest_fail(r, st);
    else
        srv_rest_ok(r, "application/json");
}

bool srv_rest_page_errors(struct srv_rest_request *r)
{
    respond_json(r, srv_page_errors(r->server->metrics, r->io_loop->map, r->route.spec.name,
                                    &r->out, &r->err));
    return false;
}

static bool write_plan(struct srv_rest_request *r)
{
    respond_json(r, srv_page_plan(r->job.version, r->route.spec.signature, r->server->profile,
                                  &r->out, &r->err));
    return true;
}

bool srv_rest_page_plan(struct srv_rest_request *r)
{
    struct srv_version *version = NULL;
    const enum rt_status st = srv_map_find(r->io_loop->map, &r->route.spec, &version, &r->err);

    if (st) {
        srv_rest_fail(r, st);
        return false;
    }
    r->job.version = version;
    srv_hold(r->io_loop, version); /* the handle is released when the response is sent */
    /* The description of a plan may take much longer than a model's, and waits while the plan is
     * built, which happens after a variable was written. */
    return srv_rest_background_work(srv_rest_call_of(r), SRV_REST_PLANS, write_plan);
}

bool srv_rest_page_profile(struct srv_rest_request *r)
{
    const int64_t n = r->route.n_requests;
    const struct rt_span model = r->route.spec.name;
    const struct srv_map_model *known =
        r->io_loop->map ? srv_map_model(r->io_loop->map, model) : NULL;
    enum rt_status st = RT_OK;

    if (!known || !known->n_versions)
        st = rt_fail(&r->err, RT_NOT_FOUND, "there is no profile of a model that does not serve");
    else if (n > SRV_PROFILE_MOST)
        st = rt_fail(&r->err, RT_INVALID_ARGUMENT, "a profile has %d requests at most",
                     SRV_PROFILE_MOST);
    else if (n)
        st = srv_profile_start(r->server->profile, model, (int)n, rt_now_ns(), &r->err);
    if (!st)
        st = srv_page_profile(r->server->profile, model, &r->out, &r->err);
    respond_json(r, st);
    return false;
}
