/* Handles GET requests for the metrics page, of which there is one for each format. */
#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"
#include "server/telemetry/metrics_page.h"

static void write_prometheus(struct srv_rest *rest, struct rt_bytes *out)
{
    srv_metrics_page(rest->server, SRV_TEXT_PROMETHEUS, out);
}

static void write_openmetrics(struct srv_rest *rest, struct rt_bytes *out)
{
    srv_metrics_page(rest->server, SRV_TEXT_OPENMETRICS, out);
}

static const struct srv_shared_body_kind kinds[2] = {
    [SRV_TEXT_PROMETHEUS] = {"text/plain", "the metrics page", write_prometheus,
                             srv_metrics_page_fail, true},
    [SRV_TEXT_OPENMETRICS] = {"application/openmetrics-text; version=1.0.0; charset=utf-8",
                              "the metrics page", write_openmetrics, srv_metrics_page_fail, true},
};

void srv_rest_write_pages(struct srv_rest *rest, struct srv_rest_call *first)
{
    struct srv_rest_call *list[2] = {NULL, NULL}, **end[2] = {&list[0], &list[1]};

    for (struct srv_rest_call *req = first; req; req = req->next_free) {
        const int format = req->prefers_openmetrics ? SRV_TEXT_OPENMETRICS : SRV_TEXT_PROMETHEUS;
        *end[format] = req;
        end[format] = &req->next_free;
    }
    for (int format = 0; format < 2; format++) {
        *end[format] = NULL;
        if (list[format])
            srv_shared_body_send(rest, &kinds[format], list[format]);
    }
}

bool srv_rest_metrics(struct srv_rest_request *r)
{
    return srv_rest_background(srv_rest_call_of(r), SRV_REST_PAGES);
}
