#include "server/http/rest_call.h"
#include "server/http/rest_connection.h"
#include "server/http/rest_loop.h"

#include <string.h>

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
    if (code == RT_CANCELLED && atomic_load(&srv_rest_call_of(r)->loop->rest->cancels))
        code = rt_fail(&r->err, RT_UNAVAILABLE, "the server is stopping");
    /* the budget refused bytes of this response while it was written */
    if (r->refused_bytes)
        code = srv_rest_over_budget(r, r->refused_bytes, "the response");
    r->refused_bytes = 0;
    srv_name_arena_limit(r->arena, SRV_REST_ARENA_BYTES, "a REST request", code, &r->err);
    r->code = code;
    r->http = rt_status_http(code);
    r->content_type = "application/json";
    if (r->out.failed)
        rt_bytes_clear(&r->out);
    r->out.n = 0;
    const struct srv_protocol *protocol =
        r->route.protocol ? r->route.protocol : r->server->protocols->row[0];
    protocol->write_error(&r->out, rt_error_text(&r->err));
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

/* The MHD_ContentReaderCallback of a large response. `arg` is the call. */
static ssize_t read_body(void *arg, uint64_t at, char *p, size_t capacity)
{
    const struct rt_bytes *body = srv_rest_body(arg);
    size_t n = body->n - (size_t)at < capacity ? body->n - (size_t)at : capacity;
    memcpy(p, body->p + at, n);
    return (ssize_t)n;
}

/*
 * Creates the response. Large bodies are sent in pieces, one piece per turn of the loop, so that
 * other connections are served in between. libmicrohttpd passes a buffer to the kernel as a whole,
 * and the kernel copies up to several megabytes at once.
 */
static struct MHD_Response *create_response(struct srv_rest_call *req, const struct rt_bytes *body)
{
    if (!body->n)
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    struct MHD_Response *response =
        body->n > SRV_REST_MAX_IDLE_BYTES
            ? MHD_create_response_from_callback(body->n, SRV_REST_PIECE_BYTES, read_body, req,
                                                response_over)
            : MHD_create_response_from_buffer_with_free_callback_cls(body->n, body->p,
                                                                     response_over, req);
    if (response)
        req->refs++; /* response_over releases the added reference */
    return response;
}

enum MHD_Result srv_rest_send(struct srv_rest_call *req)
{
    struct srv_rest_request *r = &req->pub;
    srv_rest_deflate(req);
    srv_rest_count(req);
    req->stage = STAGE_SENT;
    if (r->out.failed) /* memory ran out even for the error message */
        return MHD_NO;
    const struct rt_bytes *body = srv_rest_body(req);
    struct MHD_Response *response = create_response(req, body);
    if (!response)
        return MHD_NO;
    /* If a header cannot be added, no response is sent, because a response without that header
     * would be wrong. For example, a compressed body could lack Content-Encoding. */
    if (!srv_rest_headers(req, add_to_response, response)) {
        MHD_destroy_response(response);
        return MHD_NO;
    }
    srv_rest_begin_sending(req->loop, req->conn, body->n > SRV_REST_MAX_IDLE_BYTES);
    enum MHD_Result result = MHD_queue_response(req->mhd, (unsigned)r->http, response);
    MHD_destroy_response(response);
    return result;
}
