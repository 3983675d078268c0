#include "server/rest.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/base/thread.h"
#include "server/metrics.h"
#include "server/rest_request.h"

enum {
    KEEP_BYTES = 64 << 10,       /* of a finished request's buffers, for the next one */
    KEEP_REQUESTS = 512,         /* per loop */
    FIRST_BODY_BYTES = 64 << 10, /* a body's buffer starts with no more */
    SWALLOW_BYTES = 1 << 20,     /* of a refused body, to keep the connection */
    ARENA_BYTES = 64 << 20,      /* of one request, tensors not counted */
    IDLE_SECONDS = 75,           /* between two requests of a connection */
    LINGER_MS = 100,             /* after the peer's end, between two requests */
    WATCH_AFTER_MS = 20,         /* a job that takes longer is cancelled by a hang-up */
    MAX_RESPONSE_BYTES = 2047 << 20,
};

/* ---- doubly linked lists, through a link embedded first in the member ---- */

struct link {
    struct link *prev, *next;
};

static void list_init(struct link *head)
{
    head->prev = head->next = head;
}

static void list_remove(struct link *l)
{
    if (!l->next)
        return;
    l->prev->next = l->next;
    l->next->prev = l->prev;
    l->prev = l->next = NULL;
}

static void list_append(struct link *head, struct link *l)
{
    list_remove(l);
    l->prev = head->prev;
    l->next = head;
    head->prev->next = l;
    head->prev = l;
}

/* ---- structures ---- */

enum stage {
    STAGE_NEW,     /* the handler was not called yet */
    STAGE_READING, /* the body */
    STAGE_REFUSED, /* the answer is set; the rest of the body is swallowed first */
    STAGE_WAITING, /* for a job, suspended */
    STAGE_SENT,    /* the answer is with libmicrohttpd */
};

struct loop;
struct connection;

struct request {
    struct link link; /* in loop->waiting or loop->overdue */
    struct srv_rest_request pub;
    struct srv_mail mail;
    struct loop *loop;
    struct connection *conn;
    struct MHD_Connection *mhd;
    struct request *next_free;
    int refs; /* libmicrohttpd's request, and its response while our buffer is in it */
    enum stage stage;
    bool in_handler, finished, overdue;
    bool gzip, close, browser, expects;
    bool started; /* counted in rest->in_flight */
    int64_t waiting_since;
    uint64_t swallowed;
    int n_lengths, n_encodings;
    uint64_t length; /* announced; UINT64_MAX: chunked */
    bool bad_lengths, bad_header, chunked;
    int64_t total_ns;
};

struct connection {
    struct link link;    /* in loop->reading or loop->idle */
    struct link end;     /* in loop->ended, once the peer has ended its side */
    struct request *req; /* being read, waiting or answered; NULL: between two */
    int fd;
    int64_t deadline_ns;
    int64_t quiet_ns; /* since when nothing more of it has been seen */
};

struct srv_rest {
    struct srv_server *server;
    int n_loops;
    struct loop *loops;
    _Atomic int in_flight;
    _Atomic bool quiescing;
    uint64_t id_seed;
    struct rt_mutex mu;
    struct rt_cond answered;
    int n_answered, n_failed; /* guarded by mu: of srv_rest_listen */
};

/* All of it belongs to its thread, but for `net`'s mailbox and `wake_fd`. */
struct loop {
    struct srv_net net;
    struct srv_rest *rest;
    pthread_t thread;
    bool running; /* the thread was started */
    int epoll, wake_fd, listen_fd;
    struct MHD_Daemon *daemon;
    struct srv_mail listen_mail, quiesce_mail, stop_mail;
    bool closing, stopping;
    bool again;                   /* the next turn does not wait */
    int64_t now_ns;               /* of this turn */
    struct link reading, idle;    /* connections, by deadline: each list has one time-out */
    struct link ended;            /* connections, by `end` */
    struct link waiting, overdue; /* requests: with a job, oldest first */
    struct request *free_requests;
    int n_free;
    uint64_t next_id;
};

static _Thread_local struct loop *this_loop;

/* ---- answers ---- */

bool srv_rest_charge(struct srv_rest_request *r, size_t bytes)
{
    struct srv_server *s = r->server;
    int64_t before =
        atomic_fetch_add_explicit(&s->bytes_in_flight, (int64_t)bytes, memory_order_relaxed);
    if (before + (int64_t)bytes > s->options.max_bytes_in_flight) {
        atomic_fetch_sub_explicit(&s->bytes_in_flight, (int64_t)bytes, memory_order_relaxed);
        return false;
    }
    r->charged += bytes;
    return true;
}

static void discharge(struct srv_rest_request *r)
{
    if (r->charged)
        atomic_fetch_sub_explicit(&r->server->bytes_in_flight, (int64_t)r->charged,
                                  memory_order_relaxed);
    r->charged = 0;
}

void srv_rest_ok(struct srv_rest_request *r, const char *content_type)
{
    if (r->out.failed) {
        rt_fail_memory(&r->err, "the response", r->out.n);
        srv_rest_fail(r, RT_RESOURCE_EXHAUSTED);
        return;
    }
    r->code = RT_OK;
    r->http = 200;
    r->content_type = content_type;
}

void srv_rest_fail(struct srv_rest_request *r, enum rt_status code)
{
    r->code = code;
    r->http = rt_status_http(code);
    r->content_type = "application/json";
    if (r->out.failed)
        rt_bytes_clear(&r->out);
    r->out.failed = false;
    r->out.n = 0;
    srv_json_error(&r->out, rt_error_text(&r->err));
}

/* A refusal of HTTP itself, whose number is not the status's. */
static void refuse(struct request *req, enum rt_status code, int http)
{
    srv_rest_fail(&req->pub, code);
    req->pub.http = http;
}

/* ---- requests, used again and again ---- */

static struct request *request_new(struct loop *l)
{
    struct request *req = l->free_requests;
    if (req) {
        l->free_requests = req->next_free;
        l->n_free--;
        return req;
    }
    req = calloc(1, sizeof *req);
    struct rt_arena *arena = req ? rt_arena_new(ARENA_BYTES) : NULL;
    if (!arena) {
        free(req);
        return NULL;
    }
    req->loop = l;
    req->pub.server = l->net.server;
    req->pub.net = &l->net;
    req->pub.arena = arena;
    rt_bytes_init(&req->pub.body, (size_t)l->net.server->options.max_body_bytes);
    rt_bytes_init(&req->pub.out, MAX_RESPONSE_BYTES);
    return req;
}

static void request_free(struct request *req)
{
    rt_bytes_clear(&req->pub.body);
    rt_bytes_clear(&req->pub.out);
    rt_arena_free(req->pub.arena);
    free(req);
}

static void bytes_rewind(struct rt_bytes *b)
{
    if (b->room > KEEP_BYTES || b->failed)
        rt_bytes_clear(b);
    b->n = 0;
    b->failed = false;
}

static void request_unref(struct request *req)
{
    struct loop *l = req->loop;
    if (--req->refs)
        return;
    discharge(&req->pub);
    if (l->n_free >= KEEP_REQUESTS || rt_arena_used(req->pub.arena) > KEEP_BYTES) {
        request_free(req);
        return;
    }
    rt_arena_reset(req->pub.arena);
    bytes_rewind(&req->pub.body);
    bytes_rewind(&req->pub.out);
    req->next_free = l->free_requests;
    l->free_requests = req;
    l->n_free++;
}

/* ---- the answer on its way out ---- */

static const char *api_name(const struct srv_rest_request *r)
{
    static const char *const names[] = {"predict",  "classify", "regress",
                                        "metadata", "status",   "other"};
    return names[r->route.api];
}

/* Bytes of the client's choice in a log line: no control characters, no spaces, and not all. */
static const char *printable(char *room, size_t n, struct rt_span s)
{
    size_t len = s.n < n - 1 ? s.n : n - 1;
    for (size_t i = 0; i < len; i++)
        room[i] = s.p[i] > ' ' && s.p[i] < 0x7f ? (char)s.p[i] : '?';
    room[len] = '\0';
    return room;
}

static void log_access(struct request *req, int64_t total_ns)
{
    struct srv_rest_request *r = &req->pub;
    const struct srv_version *v = r->job.version;
    char path[256], name[128], method[32], model[160] = "";
    if (v)
        snprintf(model, sizeof model, " model=%s version=%lld", v->model, (long long)v->version);
    else if (r->route.spec.name.p)
        snprintf(model, sizeof model, " model=%s",
                 printable(name, sizeof name, r->route.spec.name));
    RT_LOG(RT_LOG_INFO, "event=access api=%s method=%s path=%s status=%d bytes=%zu us=%lld id=%s%s",
           api_name(r), printable(method, sizeof method, rt_span_str(r->method)),
           printable(path, sizeof path, r->uri), r->http, r->out.n, (long long)(total_ns / 1000),
           r->id, model);
}

static void response_over(void *arg)
{
    request_unref(arg);
}

static void count_and_log(struct request *req)
{
    struct srv_rest_request *r = &req->pub;
    int64_t total_ns = rt_now_ns() - r->received_ns;
    if (r->route.target == SRV_TO_MODEL)
        srv_metrics_request(r->net, r->job.done ? &r->job : NULL, r->route.spec.name, r->route.api,
                            r->code, total_ns);
    if (r->server->options.access_log)
        log_access(req, total_ns);
    if (r->job.version)
        srv_release(r->net, r->job.version);
    r->job.version = NULL;
}

/* Hands the answer to libmicrohttpd. */
static enum MHD_Result send_answer(struct request *req)
{
    struct srv_rest_request *r = &req->pub;
    count_and_log(req);
    req->stage = STAGE_SENT;
    if (r->out.failed) /* no memory for the text of an error either */
        return MHD_NO;
    struct MHD_Response *answer =
        r->out.n ? MHD_create_response_from_buffer_with_free_callback_cls(r->out.n, r->out.p,
                                                                          response_over, req)
                 : MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (!answer)
        return MHD_NO;
    if (r->out.n)
        req->refs++; /* response_over */
    if (r->content_type)
        MHD_add_response_header(answer, "Content-Type", r->content_type);
    MHD_add_response_header(answer, "X-Request-Id", r->id);
    if (r->http == 429 || r->http == 503)
        MHD_add_response_header(answer, "Retry-After", "1");
    if (req->close || req->loop->closing)
        MHD_add_response_header(answer, "Connection", "close");
    if (r->server->options.rest_api_enable_cors_support) {
        MHD_add_response_header(answer, "Access-Control-Allow-Origin", "*");
        MHD_add_response_header(answer, "Access-Control-Allow-Methods", "POST, GET");
        MHD_add_response_header(answer, "Access-Control-Allow-Headers", "Content-Type");
    }
    enum MHD_Result result = MHD_queue_response(req->mhd, (unsigned)r->http, answer);
    MHD_destroy_response(answer);
    return result;
}

/* ---- jobs ---- */

/* Loop thread: the handler is called again and sends the answer. */
static void resume(struct request *req)
{
    list_remove(&req->link);
    req->overdue = false;
    req->loop->again = true;
    MHD_resume_connection(req->mhd);
}

static void open_finished(struct srv_net *net, struct srv_mail *mail)
{
    (void)net;
    struct request *req = (struct request *)(void *)((char *)mail - offsetof(struct request, mail));
    req->finished = true;
    resume(req);
}

void srv_rest_finished(struct srv_rest_request *r)
{
    struct request *req = (struct request *)(void *)((char *)r - offsetof(struct request, pub));
    if (this_loop != req->loop) {
        req->mail.open = open_finished;
        srv_mail_post(&req->loop->net, &req->mail);
        return;
    }
    req->finished = true;
    if (!req->in_handler)
        resume(req);
}

/* ---- reading ---- */

static enum MHD_Result on_header(void *arg, enum MHD_ValueKind kind, const char *key,
                                 const char *value)
{
    (void)kind;
    struct request *req = arg;
    struct srv_rest_request *r = &req->pub;
    if (!value)
        value = "";
    /* What one parser sees as a header and another does not is how requests are smuggled. */
    for (const char *c = key; *c; c++)
        req->bad_header |= *c <= ' ' || *c == 0x7f;
    for (const char *c = value; *c; c++)
        req->bad_header |= (*c > 0 && *c < ' ' && *c != '\t') || *c == 0x7f;
    switch (strlen(key)) {
    case 6:
        if (strcasecmp(key, "Origin") == 0)
            req->browser = strstr(value, "http://") || strstr(value, "https://");
        else if (strcasecmp(key, "Expect") == 0)
            req->expects = true;
        break;
    case 12:
        if (strcasecmp(key, "X-Request-Id") == 0) {
            size_t n = 0;
            while (value[n] > ' ' && value[n] < 0x7f && n < SRV_REST_ID_ROOM)
                n++;
            if (n > 0 && n < SRV_REST_ID_ROOM && !value[n])
                memcpy(r->id, value, n + 1);
        }
        break;
    case 14:
        if (strcasecmp(key, "Content-Length") == 0) {
            uint64_t n = 0;
            bool digits = *value;
            for (const char *c = value; *c; c++)
                if (*c < '0' || *c > '9' || __builtin_mul_overflow(n, 10, &n) ||
                    __builtin_add_overflow(n, *c - '0', &n))
                    digits = false;
            if (!digits || (req->n_lengths && n != req->length))
                req->bad_lengths = true;
            req->n_lengths++;
            req->length = n;
        }
        break;
    case 16:
        if (strcasecmp(key, "Content-Encoding") == 0)
            req->gzip = strstr(value, "gzip") != NULL;
        break;
    case 17:
        if (strcasecmp(key, "Transfer-Encoding") == 0) {
            req->n_encodings++;
            req->chunked = strcasecmp(value, "chunked") == 0;
        }
        break;
    default:
        break;
    }
    return MHD_YES;
}

static void make_id(struct request *req)
{
    static const char hex[] = "0123456789abcdef";
    struct loop *l = req->loop;
    uint64_t x = l->rest->id_seed + ((uint64_t)l->net.index << 56) + l->next_id++;
    for (int i = 15; i >= 0; i--, x >>= 4)
        req->pub.id[i] = hex[x & 15];
    req->pub.id[16] = '\0';
}

/* A message of doubtful length is how one request is hidden in another: no more is read of it. */
static bool is_smuggled(struct request *req)
{
    struct srv_rest_request *r = &req->pub;
    const char *why = NULL;
    if (req->bad_lengths)
        why = "Content-Length is given twice, or is no number";
    else if (req->bad_header)
        why = "a header's name holds a blank, or its value a control character";
    else if (req->n_lengths && req->n_encodings)
        why = "Content-Length and Transfer-Encoding do not go together";
    else if (req->n_encodings > 1)
        why = "Transfer-Encoding is given twice";
    if (!why)
        return false;
    refuse(req, rt_fail(&r->err, RT_INVALID_ARGUMENT, "%s", why), 400);
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

static enum rt_status no_room(struct srv_rest_request *r, const char *what)
{
    return rt_fail(&r->err, RT_UNAVAILABLE,
                   "%s does not fit beside the requests in flight, %lld bytes by "
                   "--max_bytes_in_flight",
                   what, (long long)r->server->options.max_bytes_in_flight);
}

/* The first call of the handler: headers only. True: refused so that no body is read. */
static bool open_request(struct request *req, const char *method)
{
    struct srv_rest_request *r = &req->pub;
    req->stage = STAGE_READING;
    /* MHD's own spelling outlives the request; it is ours to keep only until the answer. */
    r->method = rt_arena_strdup(r->arena, method);
    if (!r->method)
        r->method = "?";
    MHD_get_connection_values(req->mhd, MHD_HEADER_KIND, on_header, req);
    if (!r->id[0])
        make_id(req);
    if (is_smuggled(req))
        return true;
    if (req->n_encodings && !req->chunked) {
        refuse(req, rt_fail(&r->err, RT_UNIMPLEMENTED, "the only Transfer-Encoding is chunked"),
               501);
        req->close = true;
        return true;
    }
    if (req->n_encodings)
        req->length = UINT64_MAX;

    enum rt_status st = srv_route(&r->route, r->method, r->uri, r->arena, &r->err);
    if (st) {
        srv_rest_fail(r, st);
        req->stage = STAGE_REFUSED;
    } else if (!req->n_encodings && req->length > (uint64_t)r->server->options.max_body_bytes) {
        refuse(req, too_large(r), 413);
        req->stage = STAGE_REFUSED;
    } else if (!req->n_encodings &&
               (int64_t)req->length >
                   r->server->options.max_bytes_in_flight -
                       atomic_load_explicit(&r->server->bytes_in_flight, memory_order_relaxed)) {
        srv_rest_fail(r, no_room(r, "the request's body"));
        req->stage = STAGE_REFUSED;
    }
    /* A small body is read before the refusal is sent, which keeps the connection; a client that
     * would send a large one, or waits for 100-continue, is answered now. */
    if (req->stage == STAGE_REFUSED && !req->n_encodings && req->length > 0 &&
        (req->expects || req->length > SWALLOW_BYTES)) {
        req->close = true;
        return true;
    }
    return false;
}

/* Room for n more bytes of the body, charged. */
static enum rt_status grow_body(struct request *req, size_t n)
{
    struct srv_rest_request *r = &req->pub;
    size_t before = r->body.room;
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
    size_t more = r->body.room > before ? r->body.room - before : 0;
    if (more && !srv_rest_charge(r, more))
        return no_room(r, "the request's body");
    return RT_OK;
}

static enum MHD_Result take_body(struct request *req, const char *data, size_t n)
{
    struct srv_rest_request *r = &req->pub;
    if (req->stage == STAGE_READING) {
        enum rt_status st = grow_body(req, n);
        if (!st) {
            rt_bytes_add(&r->body, data, n);
            return MHD_YES;
        }
        refuse(req, st, st == RT_INVALID_ARGUMENT ? 413 : 503);
        req->stage = STAGE_REFUSED;
        req->close = true;
        rt_bytes_clear(&r->body);
        discharge(r);
    }
    /* No answer can be queued in the middle of an upload: swallow a little, else hang up. */
    req->swallowed += n;
    return req->swallowed > SWALLOW_BYTES ? MHD_NO : MHD_YES;
}

/*
 * Replaces the body by what it holds compressed. As in TensorFlow Serving whatever is wrong with
 * it, its size included, leaves an empty body.
 */
static enum rt_status inflate_body(struct request *req)
{
    struct srv_rest_request *r = &req->pub;
    struct rt_bytes out;
    z_stream z = {0};
    enum rt_status st = RT_OK;
    int zr = Z_OK;
    rt_bytes_init(&out, r->body.limit);
    if (r->body.n > UINT32_MAX || inflateInit2(&z, 15 + 32) != Z_OK)
        return rt_fail_memory(&r->err, "a compressed body", r->body.n);
    z.next_in = (Bytef *)r->body.p;
    z.avail_in = (uInt)r->body.n;
    while (zr == Z_OK) {
        size_t before = out.room, step = out.room ? out.room : 4096;
        if (step > out.limit - out.n)
            step = out.limit - out.n;
        if (step == 0 || !rt_bytes_reserve(&out, step)) {
            zr = Z_BUF_ERROR;
            break;
        }
        if (out.room > before && !srv_rest_charge(r, out.room - before)) {
            st = no_room(r, "the request's body, inflated,");
            break;
        }
        size_t room = out.room - out.n - 1;
        if (room > out.limit - out.n)
            room = out.limit - out.n;
        z.next_out = (Bytef *)(out.p + out.n);
        z.avail_out = room > UINT32_MAX ? UINT32_MAX : (uInt)room;
        uInt had = z.avail_out;
        zr = inflate(&z, Z_NO_FLUSH);
        out.n += had - z.avail_out;
    }
    inflateEnd(&z);
    if (zr != Z_STREAM_END)
        out.n = 0;
    rt_bytes_clear(&r->body);
    r->body = out;
    return st;
}

/* ---- the handler ---- */

static bool dispatch(struct srv_rest_request *r, bool browser)
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

/* The request is whole: answer it, or make a job of it and wait. */
static enum MHD_Result handle(struct request *req)
{
    struct srv_rest_request *r = &req->pub;
    list_remove(&req->conn->link);
    if (req->gzip && r->body.n && inflate_body(req) != RT_OK) {
        srv_rest_fail(r, RT_UNAVAILABLE);
        return send_answer(req);
    }
    req->in_handler = true;
    bool is_job = dispatch(r, req->browser);
    req->in_handler = false;
    if (!is_job || req->finished)
        return send_answer(req);
    req->stage = STAGE_WAITING;
    req->waiting_since = req->loop->now_ns;
    list_append(&req->loop->waiting, &req->link);
    MHD_suspend_connection(req->mhd);
    return MHD_YES;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *n_data, void **state)
{
    (void)arg;
    (void)mhd;
    (void)url;
    (void)version;
    struct request *req = *state;
    if (!req)
        return MHD_NO; /* no memory for it */
    switch (req->stage) {
    case STAGE_NEW:
        return open_request(req, method) ? send_answer(req) : MHD_YES;
    case STAGE_READING:
    case STAGE_REFUSED:
        if (*n_data) {
            enum MHD_Result result = take_body(req, data, *n_data);
            *n_data = 0;
            return result;
        }
        return req->stage == STAGE_READING ? handle(req) : send_answer(req);
    case STAGE_WAITING:
        return req->finished ? send_answer(req) : MHD_YES;
    case STAGE_SENT:
        break;
    }
    return MHD_YES;
}

/* The request line has been read: the raw URI, before it is cut and unescaped in place. */
static void *on_uri(void *arg, const char *uri, struct MHD_Connection *mhd)
{
    struct loop *l = arg;
    struct request *req = request_new(l);
    if (!req)
        return NULL;
    struct srv_rest_request *r = &req->pub;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    size_t n = strlen(uri);
    char *copy = rt_arena_strndup(r->arena, uri, n);
    req->refs = 1;
    if (!copy || !info || !info->socket_context) {
        request_unref(req);
        return NULL;
    }
    req->conn = info->socket_context;
    req->mhd = mhd;
    req->stage = STAGE_NEW;
    req->in_handler = req->finished = req->overdue = false;
    req->gzip = req->close = req->browser = req->expects = req->bad_lengths = false;
    req->bad_header = req->chunked = false;
    req->n_lengths = req->n_encodings = 0;
    req->length = req->swallowed = 0;
    r->uri = rt_span_of(copy, n);
    r->method = "?";
    r->id[0] = '\0';
    r->code = RT_OK;
    r->http = 500;
    r->content_type = NULL;
    r->charged = 0;
    r->job.version = NULL;
    r->job.done = NULL;
    r->err.code = RT_OK;
    r->err.msg[0] = '\0';
    r->err.long_msg = NULL;
    r->err.arena = r->arena;
    memset(&r->route, 0, sizeof r->route);
    r->route.api = SRV_OTHER;
    r->received_ns = rt_now_ns();
    req->conn->deadline_ns =
        r->received_ns + l->net.server->options.request_read_timeout_ms * 1000000;
    req->conn->req = req;
    list_append(&l->reading, &req->conn->link);
    atomic_fetch_add_explicit(&l->rest->in_flight, 1, memory_order_relaxed);
    return req;
}

static void on_completed(void *arg, struct MHD_Connection *mhd, void **state,
                         enum MHD_RequestTerminationCode why)
{
    (void)mhd;
    (void)why;
    struct loop *l = arg;
    struct request *req = *state;
    if (!req)
        return;
    *state = NULL;
    req->conn->req = NULL;
    req->conn->quiet_ns = l->now_ns;
    req->conn->deadline_ns = l->now_ns + IDLE_SECONDS * INT64_C(1000000000);
    list_append(&l->idle, &req->conn->link);
    atomic_fetch_sub_explicit(&l->rest->in_flight, 1, memory_order_relaxed);
    if (req->pub.job.version) /* over without an answer */
        srv_release(&l->net, req->pub.job.version);
    req->pub.job.version = NULL;
    request_unref(req);
}

static void on_connection(void *arg, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct loop *l = arg;
    struct connection *c = *context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        c = calloc(1, sizeof *c);
        if (!c || !info) {
            free(c);
            return; /* its requests are refused */
        }
        c->fd = info->connect_fd;
        struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = c};
        epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &ev); /* gone with the descriptor */
        c->deadline_ns = rt_now_ns() + l->net.server->options.request_read_timeout_ms * 1000000;
        list_append(&l->reading, &c->link);
        *context = c;
    } else if (c) {
        list_remove(&c->link);
        list_remove(&c->end);
        free(c);
        *context = NULL;
        l->again = true; /* at the limit of connections it accepts again on its next run only */
    }
}

/* ---- the loop ---- */

/* libmicrohttpd has no call to end a connection: its socket reports the end instead. */
static void hang_up(struct connection *c)
{
    list_remove(&c->link);
    shutdown(c->fd, SHUT_RDWR);
}

static void expire(struct link *list, int64_t now)
{
    while (list->next != list) {
        struct connection *c = (struct connection *)(void *)list->next;
        if (c->deadline_ns > now)
            break;
        hang_up(c);
    }
}

/*
 * The peer has ended its side. libmicrohttpd does not see that while a job waits, nor when the end
 * came with the last bytes that it read. A request that cannot become whole any more is dropped;
 * one that waits is cancelled, but not at once: who ends only its own side may still read the
 * answer.
 */
static void end_connections(struct loop *l)
{
    for (struct link *at = l->ended.next, *next; at != &l->ended; at = next) {
        struct connection *c =
            (struct connection *)(void *)((char *)at - offsetof(struct connection, end));
        char byte;
        next = at->next;
        if (c->req && (c->req->stage == STAGE_WAITING || c->req->stage == STAGE_SENT))
            continue;
        if (!c->req && l->now_ns - c->quiet_ns < LINGER_MS * 1000000)
            continue; /* more requests may lie in libmicrohttpd's buffer */
        if (recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
            continue; /* to be read first */
        list_remove(&c->end);
        hang_up(c);
    }
}

static void cancel_if_ended(struct request *req)
{
    if (req->conn->end.next)
        atomic_store(&req->pub.job.cancelled, true);
}

static void watch_waiting(struct loop *l, int64_t now)
{
    while (l->waiting.next != &l->waiting) {
        struct request *req = (struct request *)(void *)l->waiting.next;
        if (now - req->waiting_since < WATCH_AFTER_MS * 1000000)
            break;
        list_append(&l->overdue, &req->link);
        req->overdue = true;
        cancel_if_ended(req);
    }
}

static void sooner(int64_t *until, int64_t at)
{
    if (at < *until)
        *until = at;
}

static int wait_ms(struct loop *l)
{
    int64_t until = RT_NEVER, now = rt_now_ns();
    MHD_UNSIGNED_LONG_LONG ms;
    if (l->again)
        return 0;
    if (l->daemon && MHD_get_timeout(l->daemon, &ms) == MHD_YES) {
        if (ms == 0)
            return 0;
        until = now + (ms < 3600000 ? (int64_t)ms : 3600000) * 1000000;
    }
    if (l->reading.next != &l->reading)
        sooner(&until, ((struct connection *)(void *)l->reading.next)->deadline_ns);
    if (l->idle.next != &l->idle)
        sooner(&until, ((struct connection *)(void *)l->idle.next)->deadline_ns);
    if (l->ended.next != &l->ended)
        sooner(&until, now + LINGER_MS * 1000000);
    if (l->waiting.next != &l->waiting)
        sooner(&until, ((struct request *)(void *)l->waiting.next)->waiting_since +
                           WATCH_AFTER_MS * 1000000);
    if (until == RT_NEVER)
        return -1;
    if (until <= now)
        return 0;
    return (int)((until - now + 999999) / 1000000);
}

static void read_events(struct loop *l, const struct epoll_event *events, int n)
{
    for (int i = 0; i < n; i++) {
        void *what = events[i].data.ptr;
        if (what == &l->wake_fd) {
            uint64_t count;
            if (read(l->wake_fd, &count, sizeof count) < 0)
                continue;
        } else if (what != &l->daemon) {
            struct connection *c = what;
            c->quiet_ns = l->now_ns;
            list_append(&l->ended, &c->end);
            if (c->req && c->req->overdue)
                cancel_if_ended(c->req);
        }
    }
}

static void *loop_main(void *arg)
{
    struct loop *l = arg;
    this_loop = l;
    while (!l->stopping) {
        struct epoll_event events[32];
        int n = epoll_wait(l->epoll, events, 32, wait_ms(l));
        l->now_ns = rt_now_ns();
        l->again = false;
        read_events(l, events, n);
        srv_net_begin(&l->net);
        if (l->daemon)
            MHD_run(l->daemon);
        srv_net_end(&l->net);
        end_connections(l);
        expire(&l->reading, l->now_ns);
        expire(&l->idle, l->now_ns);
        watch_waiting(l, l->now_ns);
    }
    /* Every job has been answered; what is still suspended must be resumed before the end. */
    for (struct link *list = &l->waiting;; list = &l->overdue) {
        while (list->next != list)
            resume((struct request *)(void *)list->next);
        if (list == &l->overdue)
            break;
    }
    if (l->daemon) {
        MHD_run(l->daemon);
        MHD_stop_daemon(l->daemon);
    }
    while (l->free_requests) {
        struct request *req = l->free_requests;
        l->free_requests = req->next_free;
        request_free(req);
    }
    return NULL;
}

static void wake(struct srv_net *net)
{
    struct loop *l = net->loop;
    uint64_t one = 1;
    if (write(l->wake_fd, &one, sizeof one) < 0)
        return; /* the counter is full: it is awake */
}

/* ---- orders to a loop, by mail ---- */

static void log_daemon(void *arg, const char *fmt, va_list ap) RT_PRINTF(2, 0);
static void log_daemon(void *arg, const char *fmt, va_list ap) RT_PRINTF(2, 0);
static void log_daemon(void *arg, const char *fmt, va_list ap)
{
    (void)arg;
    char text[256];
    vsnprintf(text, sizeof text, fmt, ap);
    size_t n = strlen(text);
    while (n && text[n - 1] == '\n')
        text[--n] = '\0';
    RT_LOG(RT_LOG_DEBUG, "event=http detail=\"%s\"", text);
}

static bool start_daemon(struct loop *l)
{
    const struct srv_options *o = &l->net.server->options;
    int64_t connections = o->max_connections / l->rest->n_loops;
    /* Of a connection, for its headers, theirs, and a piece of the body. It is cleared for every
     * request, so that size is time. */
    size_t memory = (size_t)o->max_header_bytes + (8 << 10);
    l->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_SUPPRESS_DATE_NO_CLOCK |
            MHD_USE_ERROR_LOG,
        0, NULL, NULL, on_request, l, MHD_OPTION_EXTERNAL_LOGGER, log_daemon, NULL,
        MHD_OPTION_LISTEN_SOCKET, l->listen_fd, MHD_OPTION_URI_LOG_CALLBACK, on_uri, l,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, l, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        l, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)(connections > 0 ? connections : 1),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory, MHD_OPTION_END);
    if (!l->daemon)
        return false;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD_LINUX_ONLY);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &l->daemon};
    return info && epoll_ctl(l->epoll, EPOLL_CTL_ADD, info->epoll_fd, &ev) == 0;
}

static void open_listen(struct srv_net *net, struct srv_mail *mail)
{
    (void)mail;
    struct loop *l = net->loop;
    struct srv_rest *r = l->rest;
    bool good = start_daemon(l);
    if (!good && !l->daemon)
        close(l->listen_fd);
    rt_mutex_lock(&r->mu);
    r->n_answered++;
    r->n_failed += !good;
    rt_cond_signal(&r->answered);
    rt_mutex_unlock(&r->mu);
}

static void open_quiesce(struct srv_net *net, struct srv_mail *mail)
{
    (void)mail;
    struct loop *l = net->loop;
    l->closing = true;
    if (!l->daemon)
        return;
    int fd = MHD_quiesce_daemon(l->daemon);
    if (fd >= 0)
        close(fd);
    while (l->idle.next != &l->idle)
        hang_up((struct connection *)(void *)l->idle.next);
}

static void open_stop(struct srv_net *net, struct srv_mail *mail)
{
    (void)mail;
    struct loop *l = net->loop;
    l->stopping = true;
}

/* ---- start and stop ---- */

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void free_rest(struct srv_rest *r)
{
    for (int i = 0; i < r->n_loops; i++) {
        close_fd(r->loops[i].epoll);
        close_fd(r->loops[i].wake_fd);
    }
    rt_mutex_clear(&r->mu);
    rt_cond_clear(&r->answered);
    free(r->loops);
    free(r);
}

static enum rt_status start_loop(struct srv_rest *r, struct loop *l, int index,
                                 struct rt_error *err)
{
    struct srv_server *server = r->server;
    srv_net_init(&l->net, server, "REST", wake, l);
    l->net.index = index;
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &l->wake_fd};
    if (l->epoll < 0 || l->wake_fd < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake_fd, &ev) < 0)
        return rt_fail(err, RT_INTERNAL, "a REST loop cannot start: %s", strerror(errno));
    list_init(&l->reading);
    list_init(&l->idle);
    list_init(&l->waiting);
    list_init(&l->overdue);
    list_init(&l->ended);
    char name[32];
    snprintf(name, sizeof name, "rest %d", index);
    int e = rt_thread_start(&l->thread, name, loop_main, l);
    if (e)
        return rt_fail(err, RT_INTERNAL, "a REST thread cannot start: %s", strerror(e));
    l->running = true;
    return RT_OK;
}

enum rt_status srv_rest_start(struct srv_server *server, struct srv_rest **out,
                              struct rt_error *err)
{
    int64_t n = server->options.num_rest_threads;
    if (n <= 0)
        n = (rt_machine_cores() + 3) / 4;
    if (n > SRV_MAX_NETS - server->n_nets)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%lld network threads, %d are possible",
                       (long long)n, SRV_MAX_NETS - server->n_nets);
    struct srv_rest *r = calloc(1, sizeof *r);
    struct loop *loops = calloc((size_t)n, sizeof *loops);
    if (!r || !loops) {
        free(r);
        free(loops);
        return rt_fail_memory(err, "the REST server", (size_t)n * sizeof *loops);
    }
    r->server = server;
    r->loops = loops;
    r->n_loops = (int)n;
    r->id_seed = (uint64_t)rt_wall_ns() << 8;
    rt_mutex_init(&r->mu);
    rt_cond_init(&r->answered);
    for (int i = 0; i < r->n_loops; i++) {
        loops[i].rest = r;
        loops[i].epoll = loops[i].wake_fd = loops[i].listen_fd = -1;
    }
    for (int i = 0; i < r->n_loops; i++) {
        enum rt_status st = start_loop(r, &loops[i], server->n_nets, err);
        if (st) {
            srv_rest_stop(r);
            return st;
        }
        server->nets[server->n_nets++] = &loops[i].net;
    }
    *out = r;
    return RT_OK;
}

static int bind_one(const struct addrinfo *a)
{
    int one = 1, zero = 0;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int e = errno;
    close(fd);
    errno = e;
    return -1;
}

/* address NULL or "": every interface, IPv6 and IPv4, or IPv4 alone where there is no IPv6. */
static enum rt_status bind_socket(const char *address, int port, int *out, struct rt_error *err)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *found;
    const char *const any[] = {"::", "0.0.0.0"};
    bool all = !address || !*address;
    char service[16];
    int fd = -1, e = 0;
    snprintf(service, sizeof service, "%d", port);
    for (int i = 0; i < (all ? 2 : 1) && fd < 0; i++) {
        e = getaddrinfo(all ? any[i] : address, service, &want, &found);
        if (e)
            continue;
        for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
            fd = bind_one(a);
        int saved = errno;
        freeaddrinfo(found);
        errno = saved;
    }
    if (fd < 0)
        return rt_fail(err, RT_UNAVAILABLE, "cannot listen for REST at %s:%d: %s",
                       all ? "[::]" : address, port, e ? gai_strerror(e) : strerror(errno));
    *out = fd;
    return RT_OK;
}

enum rt_status srv_rest_listen(struct srv_rest *r, const char *address, int port, int *bound,
                               struct rt_error *err)
{
    int fd = -1;
    enum rt_status st = bind_socket(address, port, &fd, err);
    if (st)
        return st;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name = {0};
    socklen_t n = sizeof name;
    if (bound && getsockname(fd, &name.any, &n) == 0)
        *bound = ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port : name.v4.sin_port);
    /* Each daemon closes a descriptor of its own; the socket is one. */
    for (int i = 0; i < r->n_loops; i++) {
        struct loop *l = &r->loops[i];
        l->listen_fd = i == 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);
        l->listen_mail.open = open_listen;
        srv_mail_post(&l->net, &l->listen_mail);
    }
    rt_mutex_lock(&r->mu);
    while (r->n_answered < r->n_loops)
        rt_cond_wait(&r->answered, &r->mu);
    int failed = r->n_failed;
    rt_mutex_unlock(&r->mu);
    if (failed)
        return rt_fail(err, RT_UNAVAILABLE, "the REST server cannot start at port %d", port);
    return RT_OK;
}

void srv_rest_quiesce(struct srv_rest *r)
{
    if (atomic_exchange(&r->quiescing, true))
        return;
    for (int i = 0; i < r->n_loops; i++) {
        r->loops[i].quiesce_mail.open = open_quiesce;
        srv_mail_post(&r->loops[i].net, &r->loops[i].quiesce_mail);
    }
}

int srv_rest_in_flight(struct srv_rest *r)
{
    return atomic_load(&r->in_flight);
}

void srv_rest_stop(struct srv_rest *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n_loops; i++)
        if (r->loops[i].running) {
            r->loops[i].stop_mail.open = open_stop;
            srv_mail_post(&r->loops[i].net, &r->loops[i].stop_mail);
        }
    for (int i = 0; i < r->n_loops; i++)
        if (r->loops[i].running)
            pthread_join(r->loops[i].thread, NULL);
    free_rest(r);
}
