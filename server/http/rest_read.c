#include "server/http/rest_call.h"
#include "server/http/rest_connection.h"
#include "server/http/rest_loop.h"

#include <gnutls/x509.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/arena.h"
#include "server/http/http_header.h"
#include "server/inference/admission.h"
#include "server/metrics/metrics.h"
#include "server/page/page.h"
#include "server/tracing/profile.h"
#include "server/tracing/tracer.h"

enum {
    FIRST_BODY_BYTES = 64 << 10, /* maximum initial size in bytes of the buffer for a body */
    /* Maximum number of handler calls for one body whose parts have less than MIN_PIECE_BYTES bytes
     * on average. */
    MAX_PIECES = 65536,
    /* minimum average number of bytes per handler call after MAX_PIECES calls */
    MIN_PIECE_BYTES = 8,
    QUOTA_NAME_BYTES = 1024, /* maximum length of a common name as GnuTLS writes it */
};

/* ---- reading ---- */

/* Keeps a copy of a tracestate header. A header that may be too long is not copied. */
static void take_tracestate(struct srv_rest_request *r, struct rt_span value)
{
    const char *copy = value.n <= SRV_TRACESTATE_MOST
                           ? rt_arena_strndup(r->arena, (const char *)value.p, value.n)
                           : NULL;
    srv_request_span_tracestate(&r->span, rt_span_of(copy, copy ? value.n : 0));
}

static enum MHD_Result on_header(void *arg, enum MHD_ValueKind kind, const char *key, size_t n_key,
                                 const char *value, size_t n_value)
{
    (void)kind;
    struct srv_rest_call *req = arg;
    struct srv_rest_request *r = &req->pub;
    if (!value) {
        value = "";
        n_value = 0;
    }
    switch (n_key) {
    case 6:
        if (strcasecmp(key, "Origin") == 0) {
            req->browser = strstr(value, "http://") || strstr(value, "https://");
            r->is_from_page = true;
        }
        if (strcasecmp(key, "Expect") == 0)
            req->expects = true;
        if (strcasecmp(key, "Accept") == 0)
            req->prefers_openmetrics |= srv_http_prefers_openmetrics(value);
        break;
    case 10:
        if (strcasecmp(key, "tracestate") == 0)
            take_tracestate(r, rt_span_of(value, n_value));
        break;
    case 11:
        if (strcasecmp(key, "traceparent") == 0)
            srv_request_span_traceparent(&r->span, rt_span_of(value, n_value));
        break;
    case 12:
        if (strcasecmp(key, "X-Request-Id") == 0) {
            size_t n = 0;
            req->sends_id = true;
            while (value[n] > ' ' && value[n] < 0x7f && n < SRV_REST_ID_BYTES)
                n++;
            if (n > 0 && n < SRV_REST_ID_BYTES && !value[n])
                memcpy(r->id, value, n + 1);
        }
        break;
    case 14:
        if (strcasecmp(key, "Content-Length") == 0)
            srv_http_length(value, &req->length);
        break;
    case 15:
        if (strcasecmp(key, "Accept-Encoding") == 0)
            req->accepts_gzip |= srv_http_accepts_gzip(value);
        break;
    case 16:
        if (strcasecmp(key, "Content-Encoding") == 0)
            r->gzip = strstr(value, "gzip") != NULL;
        break;
    case 17:
        if (strcasecmp(key, "Transfer-Encoding") == 0)
            /* The transfer encoding is chunked, because http_stream.c refuses all others. */
            req->length = UINT64_MAX;
        break;
    default:
        break;
    }
    return MHD_YES;
}

static void make_id(struct srv_rest_call *req)
{
    static const char hex[] = "0123456789abcdef";
    struct srv_rest_loop *l = req->loop;
    uint64_t x = l->rest->id_seed + ((uint64_t)l->io_loop.index << 56) + l->next_id++;
    for (int i = 15; i >= 0; i--, x >>= 4)
        req->pub.id[i] = hex[x & 15];
    req->pub.id[16] = '\0';
}

bool srv_rest_is_refused(struct srv_rest_call *req)
{
    struct srv_rest_request *r = &req->pub;
    const struct srv_http_stream *s = &req->conn->stream;
    enum rt_status code = s->http == 501 ? RT_UNIMPLEMENTED : RT_INVALID_ARGUMENT;

    if (!s->refused || s->refused != req->conn->n_requests)
        return false;
    if (s->http == 431 || s->http == 414)
        rt_fail(&r->err, code, "%s, %lld bytes", s->why,
                (long long)r->server->options.max_header_bytes);
    else
        rt_fail(&r->err, code, "%s", s->why);
    srv_rest_refuse(req, code, s->http);
    srv_metrics_event(r->server->metrics, "smuggling_refused");
    req->close = true;
    return true;
}

static enum rt_status too_large(struct srv_rest_request *r)
{
    return rt_fail(&r->err, RT_INVALID_ARGUMENT,
                   "the request's body is larger than %lld bytes, the limit set by "
                   "--max_body_bytes",
                   (long long)r->server->options.max_body_bytes);
}

/* The values of one header of a request, which may repeat the header. */
struct header_values {
    const char *name;
    size_t n_name;
    const char *first; /* NULL if the request lacks the header */
    bool is_repeated;
    bool is_ambiguous; /* whether two of the values differ */
};

static enum MHD_Result on_value(void *arg, enum MHD_ValueKind kind, const char *key, size_t n_key,
                                const char *value, size_t n_value)
{
    struct header_values *v = arg;

    (void)kind;
    (void)n_value;
    if (n_key != v->n_name || strcasecmp(key, v->name) != 0)
        return MHD_YES;
    if (!value)
        value = "";
    v->is_repeated |= v->first != NULL;
    v->is_ambiguous |= v->first && strcmp(v->first, value) != 0;
    if (!v->first)
        v->first = value;
    return MHD_YES;
}

static struct header_values values_of(struct srv_rest_call *req, const char *name)
{
    struct header_values v = {.name = name, .n_name = strlen(name)};

    MHD_get_connection_values_n(req->mhd, MHD_HEADER_KIND, on_value, &v);
    return v;
}

/* Sets *value to the value of a header, or to NULL if the request lacks the header. Refuses a
 * request that repeats the header with different values, because a proxy may have read another of
 * them. */
static enum rt_status find_header(struct srv_rest_call *req, const char *name, const char **value)
{
    const struct header_values v = values_of(req, name);

    *value = v.first;
    return v.is_ambiguous
               ? rt_fail(&req->pub.err, RT_INVALID_ARGUMENT,
                         "the request has the header %s more than once, with different values",
                         name)
               : RT_OK;
}

/* Sets *out to a copy of a header's value, if the request has the header. */
static enum rt_status keep_header(struct srv_rest_call *req, const char *header,
                                  struct rt_span *out)
{
    struct srv_rest_request *r = &req->pub;
    const char *value = NULL;
    const enum rt_status st = header ? find_header(req, header, &value) : RT_OK;

    if (st || !value)
        return st;
    const char *copy = rt_arena_strdup(r->arena, value);
    if (!copy)
        return rt_fail_memory(&r->err, "a request", strlen(value));
    *out = rt_span_str(copy);
    return RT_OK;
}

/* Stores the headers that the route needs: the one with the length of the JSON part of the body,
 * and Authorization for an action. */
static enum rt_status keep_headers(struct srv_rest_call *req)
{
    struct srv_rest_request *r = &req->pub;
    const struct srv_route *route = &r->route;
    enum rt_status st = RT_OK;

    if (route->protocol)
        st = keep_header(req, route->protocol->json_length_header, &r->json_length);
    if (!st && route->endpoint && route->endpoint->rest.act)
        st = keep_header(req, "Authorization", &r->authorization);
    return st;
}

/* Finds out how the body is compressed, if the protocol refuses the codings that it does not know.
 * Returns false after it has refused the request. */
static bool take_coding(struct srv_rest_call *req)
{
    struct srv_rest_request *r = &req->pub;

    if (!r->route.protocol || !r->route.protocol->checks_coding)
        return true;
    const struct header_values v = values_of(req, "Content-Encoding");
    const char *coding = v.first ? v.first : "";
    r->gzip = false;
    if (!v.is_repeated && srv_http_coding(coding, &r->gzip))
        return true;
    const struct rt_span shown = rt_error_name(&r->err, rt_span_str(coding));
    rt_fail(&r->err, RT_UNIMPLEMENTED,
            "the Content-Encoding \"%.*s\"%s is not supported: it is gzip, deflate or identity",
            (int)(shown.n < 100 ? shown.n : 100), (const char *)shown.p,
            v.is_repeated ? ", which is given twice," : "");
    srv_rest_refuse(req, RT_UNIMPLEMENTED, 415);
    return false;
}

/* Returns the value of a header, or "". */
static const char *text_of(struct srv_rest_call *req, const char *name)
{
    const char *value = MHD_lookup_connection_value(req->mhd, MHD_HEADER_KIND, name);

    return value ? value : "";
}

static struct rt_span header_of(struct srv_rest_call *req, const char *name)
{
    return rt_span_str(text_of(req, name));
}

/* Returns RT_OK if the request may read the web page. Returns PERMISSION_DENIED if another web page
 * made the request, or if its Host is a name that a stranger may have pointed at this server. */
static enum rt_status check_viewer(struct srv_rest_call *req)
{
    struct srv_rest_request *r = &req->pub;
    const struct rt_span host = header_of(req, "Host"), shown = rt_error_name(&r->err, host);
    const struct rt_span site = header_of(req, "Sec-Fetch-Site");
    static const char *const decisive[] = {"Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode"};
    const char *value;

    for (size_t i = 0; i < sizeof decisive / sizeof *decisive; i++)
        if (find_header(req, decisive[i], &value))
            return r->err.code;
    /* A proxy may have changed the Host; a browser's Sec-Fetch-Site then still tells. */
    if (r->is_from_page && !rt_span_is(site, "same-origin") &&
        !srv_page_origin_is_own(header_of(req, "Origin"), host)) {
        const struct rt_span origin = rt_error_name(&r->err, header_of(req, "Origin"));
        return rt_fail(&r->err, RT_PERMISSION_DENIED,
                       "the server's page is not for other web pages: the request has the foreign "
                       "Origin \"%.*s\"",
                       (int)(origin.n < 100 ? origin.n : 100), (const char *)origin.p);
    }
    if (!srv_page_fetch_is_allowed(site, header_of(req, "Sec-Fetch-Mode"),
                                   r->route.target == SRV_TO_PAGE_FILE))
        return rt_fail(&r->err, RT_PERMISSION_DENIED,
                       "the server's page is not for other web pages: the request's "
                       "Sec-Fetch-Site is neither same-origin nor none");
    /* An EventSource names the type. The images, scripts and frames of a page never do. */
    if (r->route.target == SRV_TO_PAGE_EVENTS &&
        !srv_http_names_type(text_of(req, "Accept"), "text/event-stream"))
        return rt_fail(&r->err, RT_PERMISSION_DENIED,
                       "events are only for requests whose Accept names text/event-stream");
    if (!srv_page_host_is_allowed(host, r->server->options.page_hosts))
        return rt_fail(&r->err, RT_PERMISSION_DENIED,
                       "the server's page is not served as \"%.*s\": the Host is no address, not "
                       "localhost, and not in --page_hosts",
                       (int)shown.n, (const char *)shown.p);
    return RT_OK;
}

/* Removes the backslashes with which GnuTLS escapes characters of a name. gRPC's names, which must
 * be the same, have none. Returns the new length. */
static size_t unescape(char *name, size_t n)
{
    size_t to = 0;

    for (size_t i = 0; i < n; i++) {
        const bool is_nul = n - i >= 3 && memcmp(name + i, "\\00", 3) == 0;
        if (name[i] == '\\' && i + 1 < n)
            i += is_nul ? 2 : 1;
        name[to++] = is_nul ? '\0' : name[i];
    }
    return to;
}

/* Returns the common name in the certificate of a TLS client, or an empty span. */
static struct rt_span tls_name(struct srv_rest_call *req, char *out, size_t capacity)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    unsigned n_certs = 0;
    const gnutls_datum_t *certs = info && info->tls_session
                                      ? gnutls_certificate_get_peers(info->tls_session, &n_certs)
                                      : NULL;
    gnutls_x509_crt_t cert;
    size_t n = capacity;

    if (!certs || !n_certs || gnutls_x509_crt_init(&cert))
        return rt_span_of(NULL, 0);
    if (gnutls_x509_crt_import(cert, &certs[0], GNUTLS_X509_FMT_DER) ||
        gnutls_x509_crt_get_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, 0, out, &n))
        n = 0;
    gnutls_x509_crt_deinit(cert);
    return rt_span_of(out, unescape(out, n));
}

/* Sets *key to the name of the request's client for its quota, which may be stored in `out`. The
 * name is empty if the request has none. Refuses a request with several names, because behind a
 * proxy that appends the client's name, the client must not choose its quota. */
static enum rt_status quota_client(struct srv_rest_call *req, char *out, size_t capacity,
                                   struct rt_span *key)
{
    const char *by = req->pub.server->options.quota_client;

    if (strcmp(by, "tls") == 0) {
        *key = tls_name(req, out, capacity);
        return RT_OK;
    }
    const struct header_values v = values_of(req, by);
    if (v.is_repeated)
        return srv_quota_fail_repeated(by, &req->pub.err);
    *key = rt_span_str(v.first ? v.first : "");
    return RT_OK;
}

static bool has_quota(const struct srv_rest_call *req)
{
    const struct srv_rest_request *r = &req->pub;

    return r->server->quota && r->route.endpoint && r->route.endpoint->rest.infer;
}

/* Takes the request from the quota of its client. A body without a known length is charged when it
 * ends (srv_rest_charge_quota). */
static enum rt_status take_quota(struct srv_rest_call *req)
{
    struct srv_rest_request *r = &req->pub;
    char name[QUOTA_NAME_BYTES];

    if (!has_quota(req))
        return RT_OK;
    struct rt_span key;
    const enum rt_status st = quota_client(req, name, sizeof name, &key);
    if (st)
        return st;
    /* A body that is refused for its length is not read, so its client owes nothing for it. */
    const bool is_read = req->length <= (uint64_t)r->server->options.max_body_bytes;
    return srv_admit(r->server, key, is_read ? req->length : 0, req->loop->now_ns, &r->client,
                     &req->retry_s, &r->err);
}

void srv_rest_charge_quota(struct srv_rest_call *req)
{
    const struct srv_rest_request *r = &req->pub;

    if (!has_quota(req) || req->length != UINT64_MAX)
        return;
    srv_quota_charge(r->server->quota, &r->client, r->body.n, req->loop->now_ns);
    req->length = req->pub.body.n; /* nothing is charged twice */
}

/* Returns what is served at the address where the request has arrived. */
static enum srv_route_set routes_of(const struct srv_rest_call *req)
{
    const struct srv_options *o = &req->pub.server->options;

    if (req->conn->is_page)
        return SRV_ROUTES_OF_PAGE;
    return o->page && !*o->page_address ? SRV_ROUTES_WITH_PAGE : SRV_ROUTES_WITHOUT_PAGE;
}

bool srv_rest_is_for_viewer(const struct srv_rest_call *req)
{
    return req->conn->is_page || srv_route_is_page(&req->pub.route);
}

bool srv_rest_open(struct srv_rest_call *req, const char *method)
{
    struct srv_rest_request *r = &req->pub;
    req->stage = STAGE_READING;
    /* libmicrohttpd's `method` is valid only until the response is sent */
    r->method = rt_arena_strdup(r->arena, method);
    if (!r->method) {
        r->method = "?";
        srv_rest_fail(r, rt_fail_memory(&r->err, "a request", strlen(method)));
        req->close = true;
        return true;
    }
    MHD_get_connection_values_n(req->mhd, MHD_HEADER_KIND, on_header, req);
    srv_tracer_begin(r->server->tracer, &r->span);
    srv_profile_begin(r->server->profile, &r->span);
    if (req->sends_id && !r->id[0])
        make_id(req);
    if (srv_rest_is_refused(req))
        return true;
    enum rt_status st =
        srv_route(&r->route, r->server->protocols, r->method, r->uri,
                  r->server->options.prometheus_path, routes_of(req), r->arena, &r->err);
    if (!st && srv_rest_is_for_viewer(req))
        st = check_viewer(req);
    if (!st)
        st = keep_headers(req);
    if (!st)
        st = take_quota(req);
    if (st) {
        srv_rest_fail(r, st);
        req->stage = STAGE_REFUSED;
    } else if (!take_coding(req)) {
        req->stage = STAGE_REFUSED;
    } else if (req->length != UINT64_MAX &&
               req->length > (uint64_t)r->server->options.max_body_bytes) {
        srv_rest_refuse(req, too_large(r), 413);
        req->stage = STAGE_REFUSED;
    } else if (req->length != UINT64_MAX && req->length > srv_budget_left(&r->server->in_flight)) {
        srv_rest_fail(r, srv_rest_over_budget(r, (size_t)req->length, "the request's body"));
        req->stage = STAGE_REFUSED;
    }
    /* A small body is read before the refusal is sent, so that the connection stays open. A client
     * with a larger body, or one that waits for 100-continue, is refused immediately. */
    if (req->stage == STAGE_REFUSED && req->length != UINT64_MAX && req->length > 0 &&
        (req->expects || req->length > SRV_REST_SWALLOW_BYTES)) {
        req->close = true;
        return true;
    }
    return false;
}

/* Reserves capacity for n more bytes of the body, and charges the new capacity to the budget. */
static enum rt_status grow_body(struct srv_rest_call *req, size_t n)
{
    struct srv_rest_request *r = &req->pub;
    size_t before = r->body.capacity;
    if (n > r->body.limit - r->body.n)
        return too_large(r);
    if (r->body.n == 0) {
        size_t first = req->length < FIRST_BODY_BYTES ? (size_t)req->length : FIRST_BODY_BYTES;
        if (first > n && first <= r->body.limit)
            n = first;
        before = 0;
    }
    if (!rt_bytes_reserve(&r->body, n))
        return rt_fail_memory(&r->err, "the request's body", r->body.n + n);
    size_t more = r->body.capacity > before ? r->body.capacity - before : 0;
    if (more && !srv_rest_charge(r, more))
        return srv_rest_over_budget(r, more, "the request's body");
    return RT_OK;
}

/* Refuses a body that arrives in very many tiny chunks, because every chunk takes a fixed amount of
 * time. */
static enum rt_status check_pieces(struct srv_rest_call *req, size_t n)
{
    struct srv_rest_request *r = &req->pub;
    if (++req->n_pieces <= MAX_PIECES || r->body.n + n >= req->n_pieces * MIN_PIECE_BYTES)
        return RT_OK;
    return rt_fail(&r->err, RT_INVALID_ARGUMENT,
                   "the request's body comes in more than %d chunks of less than %d bytes",
                   MAX_PIECES, MIN_PIECE_BYTES);
}

enum MHD_Result srv_rest_take_body(struct srv_rest_call *req, const char *data, size_t n)
{
    struct srv_rest_request *r = &req->pub;
    if (req->stage == STAGE_READING) {
        enum rt_status st = check_pieces(req, n);
        if (!st)
            st = grow_body(req, n);
        if (!st) {
            rt_bytes_add(&r->body, data, n);
            return MHD_YES;
        }
        srv_rest_refuse(req, st, st == RT_INVALID_ARGUMENT ? 413 : rt_status_http(st));
        req->close = true;
        srv_rest_charge_quota(req);
        srv_rest_drop_body(req);
        return srv_rest_refuse_now(req);
    }
    req->swallowed += n;
    if (req->swallowed <= SRV_REST_SWALLOW_BYTES)
        return MHD_YES;
    req->close = true;
    return srv_rest_refuse_now(req);
}
