#include "server/http/rest_call.h"
#include "server/http/rest_connection.h"

#include <stdio.h>

#include "runtime/base/arena.h"
#include "runtime/base/log.h"

/* ---- responses ---- */

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
 * Charges the growth of a response to the budget. Small responses are not charged, so that the text
 * of a refusal always fits, and so that the state of a model can be read when memory is short. The
 * metrics page is not charged either, because it is needed most then.
 */
bool srv_rest_may_grow(void *arg, size_t capacity, size_t wanted)
{
    struct srv_rest_request *r = arg;
    if (wanted <= SRV_REST_MAX_IDLE_BYTES || r->route.target != SRV_TO_MODEL)
        return true;
    size_t more =
        wanted - (capacity > SRV_REST_MAX_IDLE_BYTES ? capacity : SRV_REST_MAX_IDLE_BYTES);
    bool fits = srv_rest_charge(r, more);
    r->refused_bytes = fits ? 0 : more;
    return fits;
}

void srv_rest_ok(struct srv_rest_request *r, const char *content_type)
{
    if (r->out.failed) {
        srv_rest_fail(r, rt_fail_memory(&r->err, "the response", r->out.n));
        return;
    }
    r->code = RT_OK;
    r->http = 200;
    r->content_type = content_type;
}

void srv_rest_fail(struct srv_rest_request *r, enum rt_status code)
{
    /* The budget has refused bytes of the response while it was being written. */
    if (r->refused_bytes)
        code = srv_rest_over_budget(r, r->refused_bytes, "the response");
    r->refused_bytes = 0;
    r->code = code;
    r->http = rt_status_http(code);
    r->content_type = "application/json";
    if (r->out.failed)
        rt_bytes_clear(&r->out);
    r->out.n = 0;
    srv_json_error(&r->out, rt_error_text(&r->err));
}

void srv_rest_refuse(struct srv_rest_call *req, enum rt_status code, int http)
{
    srv_rest_fail(&req->pub, code);
    req->pub.http = http;
}

static void response_over(void *arg)
{
    srv_rest_unref(arg);
}

static bool add_to_response(void *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

enum MHD_Result srv_rest_send(struct srv_rest_call *req)
{
    struct srv_rest_request *r = &req->pub;
    srv_rest_deflate(req);
    srv_rest_count(req);
    req->stage = STAGE_SENT;
    if (r->out.failed) /* memory ran out even for an error text */
        return MHD_NO;
    struct MHD_Response *response =
        r->out.n ? MHD_create_response_from_buffer_with_free_callback_cls(r->out.n, r->out.p,
                                                                          response_over, req)
                 : MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    if (r->out.n)
        req->refs++; /* response_over releases the reference */
    /* If a header cannot be added, no response is sent. The response would be wrong, for example
     * have a compressed body without Content-Encoding. */
    if (!srv_rest_headers(req, add_to_response, response)) {
        MHD_destroy_response(response);
        return MHD_NO;
    }
    srv_rest_begin_sending(req->loop, req->conn, r->out.n > SRV_REST_MAX_IDLE_BYTES);
    enum MHD_Result result = MHD_queue_response(req->mhd, (unsigned)r->http, response);
    MHD_destroy_response(response);
    return result;
}
