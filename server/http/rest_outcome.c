/*
 * The outcome of a request: the headers of its response, and its records in the metrics and the
 * access log. It is the same whether libmicrohttpd (rest_response.c) or rest_refuse.c sends the
 * response.
 */
#include "runtime/base/clock.h"
#include "server/http/rest_call.h"
#include "server/http/rest_loop.h"
#include "server/metrics/metrics.h"
#include "server/page/page.h"
#include "server/telemetry/access_log.h"
#include "server/tracing/access.h"
#include "server/tracing/profile.h"
#include "server/tracing/tracer.h"

/* ---- sending ---- */

/* Reports the request to the access log and the tracer. */
static void report_outcome(const struct srv_rest_call *req, int64_t total_ns)
{
    const struct srv_rest_request *r = &req->pub;
    const int api = srv_route_api(&r->route);
    const struct srv_access a = {
        .entry = "REST",
        .api = srv_api_name(api == SRV_NOT_COUNTED ? SRV_OTHER : (enum srv_api)api),
        .method = rt_span_str(r->method),
        .path = r->uri,
        .http = r->http,
        .code = r->code,
        .bytes_in = r->body.n,
        .bytes_out = srv_rest_body(req)->n,
        .begin_ns = r->received_ns,
        .end_ns = r->received_ns + total_ns,
        .id = rt_span_str(r->id),
        .span = &r->span,
        .client = srv_quota_shown(&r->client),
        .model = r->route.spec.name,
        .version = r->job.version,
    };
    if (r->server->options.access_log)
        srv_access_log(&a);
    if (r->route.target == SRV_TO_CALL && api != SRV_NOT_COUNTED) {
        srv_tracer_request(r->server->tracer, &a, r->job.done ? &r->job : NULL);
        srv_profile_request(r->server->profile, &a, r->job.done ? &r->job : NULL);
    }
}

void srv_rest_count(struct srv_rest_call *req)
{
    struct srv_rest_request *r = &req->pub;
    int64_t total_ns = rt_now_ns() - r->received_ns;
    const int api = srv_route_api(&r->route);
    if (r->route.target == SRV_TO_CALL && api != SRV_NOT_COUNTED)
        srv_metrics_request(r->io_loop, r->job.done ? &r->job : NULL, &r->span, r->route.spec.name,
                            (enum srv_api)api, r->code, total_ns);
    if (r->code && r->route.target == SRV_TO_CALL)
        srv_metrics_error(r->io_loop, r->job.version, r->route.spec.name,
                          api == SRV_NOT_COUNTED ? SRV_OTHER : (enum srv_api)api, r->code,
                          rt_error_text(&r->err));
    if (r->server->options.access_log || r->span.is_recorded || r->span.is_profiled)
        report_outcome(req, total_ns);
    if (r->job.version)
        srv_release(r->io_loop, r->job.version);
    r->job.version = NULL;
}

static bool add_page_headers(srv_rest_add_header *add, void *arg)
{
    bool good = true;

    for (const struct srv_page_header *h = srv_page_headers; h->name; h++)
        good &= add(arg, h->name, h->value);
    return good;
}

bool srv_rest_headers(const struct srv_rest_call *req, srv_rest_add_header *add, void *arg)
{
    const struct srv_rest_request *r = &req->pub;
    char length[24], trace[SRV_TRACEPARENT_TEXT];
    bool good = true;
    if (r->content_type)
        good &= add(arg, "Content-Type", r->content_type);
    if (r->code == RT_OK && r->inference.json_bytes) {
        snprintf(length, sizeof length, "%zu", r->inference.json_bytes);
        good &= add(arg, r->route.protocol->json_length_header, length);
    }
    if (req->deflated) {
        good &= add(arg, "Content-Encoding", "gzip");
        good &= add(arg, "Vary", "Accept-Encoding");
    }
    if (req->sends_id)
        good &= add(arg, "X-Request-Id", r->id);
    if (srv_request_span_response(&r->span, trace))
        good &= add(arg, "traceparent", trace);
    if (r->http == 429 || r->http == 503) {
        snprintf(length, sizeof length, "%lld", (long long)(req->retry_s ? req->retry_s : 1));
        good &= add(arg, "Retry-After", length);
    }
    if (req->close || req->loop->closing)
        good &= add(arg, "Connection", "close");
    if (srv_rest_is_for_viewer(req))
        return good && add_page_headers(add, arg);
    if (r->server->options.rest_api_enable_cors_support) {
        good &= add(arg, "Access-Control-Allow-Origin", "*");
        good &= add(arg, "Access-Control-Allow-Methods", "POST, GET");
        good &= add(arg, "Access-Control-Allow-Headers", "Content-Type");
    }
    return good;
}
