#include "server/http/rest_call.h"
#include "server/http/rest_connection.h"
#include "server/http/rest_loop.h"

#include <string.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"

enum {
    /* maximum time in nanoseconds per turn for metadata and status requests */
    DESCRIBING_PER_TURN_NS = 1000000,
};

/* ---- jobs ---- */

void srv_rest_resume(struct srv_rest_call *req)
{
    srv_list_remove(&req->link);
    req->overdue = false;
    req->loop->again = true;
    MHD_resume_connection(req->mhd);
}

static void receive_finished(struct srv_io_loop *io_loop, struct srv_message *message)
{
    (void)io_loop;
    struct srv_rest_call *req =
        (struct srv_rest_call *)(void *)((char *)message - offsetof(struct srv_rest_call, message));
    req->finished = true;
    srv_rest_resume(req);
}

void srv_rest_finished(struct srv_rest_request *r)
{
    struct srv_rest_call *req = srv_rest_call_of(r);
    if (srv_rest_this_loop != req->loop) {
        /* this thread compresses the response, so that the I/O loop can serve other requests */
        srv_rest_deflate(req);
        req->message.receive = receive_finished;
        srv_message_post(&req->loop->io_loop, &req->message);
        return;
    }
    req->finished = true;
    if (!req->in_handler)
        srv_rest_resume(req);
}

/* ---- the handler ---- */

/* Returns whether the request asks for a model's metadata or status. The response to such a request
 * may be large and slow to write. */
static bool describes_model(const struct srv_rest_request *r)
{
    return r->route.target == SRV_TO_CALL && r->route.endpoint->rest.describe;
}

/* Returns whether a request must wait for a later turn. Many simultaneous metadata and status
 * requests for large models would otherwise delay other connections. */
static bool must_wait(const struct srv_rest_call *req)
{
    const struct srv_rest_loop *l = req->loop;
    return req->stage != STAGE_DEFERRED && describes_model(&req->pub) &&
           (l->describing_ns >= DESCRIBING_PER_TURN_NS || l->deferred.next != &l->deferred);
}

void srv_rest_resume_deferred(struct srv_rest_loop *l)
{
    /* Resumes as many deferred requests as the loop can answer within DESCRIBING_PER_TURN_NS at the
     * rate of its previous turn. */
    int64_t left =
        l->describing_ns ? DESCRIBING_PER_TURN_NS * l->n_described / l->describing_ns : 0;
    if (left < 1)
        left = 1;
    l->describing_ns = l->n_described = 0;
    for (; left > 0 && l->deferred.next != &l->deferred; left--)
        srv_rest_resume((struct srv_rest_call *)(void *)l->deferred.next);
}

/* Calls the handler of the request. Returns whether the response is set. */
static bool call_handler(struct srv_rest_call *req)
{
    req->in_handler = true;
    bool is_job = req->loop->rest->handle(&req->pub, req->browser);
    req->in_handler = false;
    return !is_job || req->finished;
}

static enum MHD_Result suspend(struct srv_rest_call *req, enum srv_rest_stage stage,
                               struct srv_link *list)
{
    req->stage = stage;
    req->waiting_since = req->loop->now_ns;
    srv_list_append(list, &req->link);
    MHD_suspend_connection(req->mhd);
    return MHD_YES;
}

/* Handles a request that has arrived completely. Answers the request, or suspends its connection. A
 * deferred request is suspended until a later turn, and a request with a job until the job ends. */
static enum MHD_Result handle(struct srv_rest_call *req)
{
    struct srv_rest_loop *l = req->loop;
    srv_list_remove(&req->conn->link);
    srv_rest_charge_quota(req);
    /* the stream has refused the request in the middle of the body */
    if (srv_rest_is_refused(req))
        return srv_rest_send(req);
    if (must_wait(req)) {
        l->again = true;
        return suspend(req, STAGE_DEFERRED, &l->deferred);
    }
    const bool is_description = describes_model(&req->pub);
    const int64_t start = is_description ? rt_now_ns() : 0;
    if (!call_handler(req))
        return suspend(req, STAGE_WAITING, &l->waiting);
    enum MHD_Result result = srv_rest_send(req);
    if (is_description) {
        l->describing_ns += rt_now_ns() - start;
        l->n_described++;
    }
    return result;
}

enum MHD_Result srv_rest_on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n_data, void **state)
{
    (void)arg;
    (void)mhd;
    (void)url;
    (void)version;
    struct srv_rest_call *req = *state;
    if (!req)
        return MHD_NO;
    switch (req->stage) {
    case STAGE_NEW:
        if (!srv_rest_open(req, method))
            return MHD_YES;
        return req->stage == STAGE_REFUSED ? srv_rest_refuse_now(req) : srv_rest_send(req);
    case STAGE_READING:
    case STAGE_REFUSED:
        if (*n_data) {
            enum MHD_Result result = srv_rest_take_body(req, data, *n_data);
            *n_data = 0;
            return result;
        }
        return req->stage == STAGE_READING ? handle(req) : srv_rest_send(req);
    case STAGE_DEFERRED:
        return handle(req);
    case STAGE_WAITING:
        return req->finished ? srv_rest_send(req) : MHD_YES;
    case STAGE_SENT:
        break;
    case STAGE_OVER:
        *n_data = 0;
        /* libmicrohttpd calls the handler again for a connection that was resumed to be closed */
        return req->conn->lingers ? MHD_YES : MHD_NO;
    }
    return MHD_YES;
}

/* Creates the call for a request when its request line has been read. libmicrohttpd later splits
 * and decodes the URI in place. */
void *srv_rest_on_uri(void *arg, const char *uri, struct MHD_Connection *mhd)
{
    struct srv_rest_loop *l = arg;
    struct srv_rest_call *req = srv_rest_new_call(l);
    if (!req)
        return NULL;
    struct srv_rest_request *r = &req->pub;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    size_t n = strlen(uri);
    char *copy = rt_arena_strndup(r->arena, uri, n);
    req->refs = 1;
    if (!copy || !info || !info->socket_context) {
        srv_rest_unref(req);
        return NULL;
    }
    req->conn = info->socket_context;
    req->mhd = mhd;
    req->stage = STAGE_NEW;
    req->in_handler = req->finished = req->overdue = false;
    r->gzip = req->close = req->browser = req->expects = false;
    req->accepts_gzip = req->deflated = req->prefers_openmetrics = false;
    req->sends_id = r->server->options.access_log;
    req->n_pieces = 0;
    req->length = req->swallowed = 0;
    req->retry_s = 0;
    r->uri = rt_span_of(copy, n);
    r->method = "?";
    r->id[0] = '\0';
    r->code = RT_OK;
    r->http = 500;
    r->content_type = NULL;
    r->charged = 0;
    r->refused_bytes = 0;
    r->job.version = NULL;
    r->job.done = NULL;
    r->err.code = RT_OK;
    r->err.msg[0] = '\0';
    r->err.long_msg = NULL;
    r->err.arena = r->arena;
    memset(&r->route, 0, sizeof r->route);
    r->json_length = r->authorization = rt_span_of(NULL, 0);
    r->is_from_page = false;
    r->inference.json_bytes = 0;
    r->received_ns = l->now_ns;
    srv_request_span_init(&r->span);
    req->conn->req = req;
    req->conn->n_requests++;
    srv_rest_begin_reading(l, req->conn);
    atomic_fetch_add_explicit(&l->io_loop.server->rest_requests, 1, memory_order_relaxed);
    return req;
}

void srv_rest_on_completed(void *arg, struct MHD_Connection *mhd, void **state,
                           enum MHD_RequestTerminationCode why)
{
    (void)arg;
    (void)mhd;
    (void)why;
    struct srv_rest_call *req = *state;
    if (req && req->stage == STAGE_READING) /* the client has closed the connection */
        srv_rest_charge_quota(req);
    if (req)
        srv_rest_complete(req);
    *state = NULL;
}
