/* Calls the handler of each request's route, and answers requests for the server's health. */
#include "server/http/rest.h"
#include "server/http/rest_request.h"
#include "server/versions/manager.h"

static bool health(struct srv_rest_request *r)
{
    rt_bytes_adds(&r->out, "ok\n");
    srv_rest_ok(r, "text/plain");
    return false;
}

static bool ready(struct srv_rest_request *r)
{
    const struct rt_span name = r->route.spec.name, shown = rt_error_name(&r->err, name);
    const bool is_ready =
        name.p ? srv_model_is_ready(r->server->manager, name) : srv_is_ready(r->server->manager);

    if (is_ready) {
        rt_bytes_adds(&r->out, "ready\n");
        srv_rest_ok(r, "text/plain");
    } else if (atomic_load(&r->server->draining)) {
        srv_rest_fail(r, rt_fail(&r->err, RT_UNAVAILABLE, "the server is shutting down"));
    } else if (name.p) {
        srv_rest_fail(r, rt_fail(&r->err, RT_UNAVAILABLE, "model %.*s is not ready", (int)shown.n,
                                 (const char *)shown.p));
    } else {
        srv_rest_fail(r, srv_fail_not_ready(r->server->manager, &r->err));
    }
    return false;
}

bool srv_rest_route(struct srv_rest_request *r, bool browser)
{
    switch (r->route.target) {
    case SRV_TO_CALL:
        return r->route.endpoint->rest.infer ? srv_rest_inference(r)
               : r->route.endpoint->rest.act ? srv_rest_act(r)
                                             : srv_rest_describe(r);
    case SRV_TO_OPTIONS:
        r->http = browser ? 200 : 400;
        return false;
    case SRV_TO_HEALTH:
        return health(r);
    case SRV_TO_READY:
        return ready(r);
    case SRV_TO_METRICS:
        return srv_rest_metrics(r);
    case SRV_TO_PAGE_FILE:
        return srv_rest_page_file(r);
    case SRV_TO_PAGE_EVENTS:
        return srv_rest_page_events(r);
    case SRV_TO_PAGE_ERRORS:
        return srv_rest_page_errors(r);
    case SRV_TO_PAGE_PLAN:
        return srv_rest_page_plan(r);
    case SRV_TO_PAGE_PROFILE:
        return srv_rest_page_profile(r);
    case SRV_TO_NOWHERE:
        break;
    }
    srv_rest_fail(r, rt_fail(&r->err, RT_NOT_FOUND, "nothing is there"));
    return false;
}
