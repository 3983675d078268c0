/* Dispatches each request to the handler of its route. */
#include "server/http/rest.h"
#include "server/http/rest_request.h"

bool srv_rest_route(struct srv_rest_request *r, bool browser)
{
    switch (r->route.target) {
    case SRV_TO_MODEL:
        switch (r->route.api) {
        case SRV_PREDICT:
            return srv_rest_predict(r);
        case SRV_METADATA:
            return srv_rest_metadata(r);
        case SRV_STATUS:
            return srv_rest_status(r);
        default:
            return srv_rest_examples(r);
        }
    case SRV_TO_OPTIONS:
        r->http = browser ? 200 : 400;
        return false;
    case SRV_TO_HEALTH:
        return srv_rest_health(r);
    case SRV_TO_READY:
        return srv_rest_ready(r);
    case SRV_TO_METRICS:
        return srv_rest_metrics(r);
    case SRV_TO_NOWHERE:
        break;
    }
    srv_rest_fail(r, rt_fail(&r->err, RT_NOT_FOUND, "nothing is there"));
    return false;
}
