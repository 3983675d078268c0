#include "server/tracing/exporter.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clients/http/http.h"
#include "runtime/base/clock.h"
#include "runtime/files/file.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "server/base/log_limit.h"

enum {
    MOST_PER_REQUEST = 512, /* maximum number of records in one request to the collector */
    /* If the queue holds this number of records, they are sent before the interval has passed. */
    ENOUGH = 256,
    MAX_TRIES = 5,
    FIRST_PAUSE_MS = 500, /* pause before the second try; each further pause is twice as long */
    /* time for sending the queued records when the server stops */
    STOP_NS = 2000000000,
    END_NS = 1000000000,       /* further time for the end of a request that was cancelled */
    RESPONSE_BYTES = 64 << 10, /* maximum size of a response */
    MAX_PEM_BYTES = 16 << 20,  /* maximum size of --otlp_certificate and the files of the client */
};

struct srv_exporter {
    struct srv_exporter_options o;
    char *url; /* copy of o.url */
    struct cl_http *http;
    const char *path; /* part of `url` */
    int cancel_fd;    /* eventfd that ends requests to the collector */
    struct rt_arena *arena;
    pthread_t thread;
    bool is_failing; /* whether the last request failed; used only by the thread */
    struct srv_log_limit log_limit;
    struct rt_mutex mu;
    struct rt_cond wake, stopped;
    /* mu guards the members below. */
    struct srv_trace_record *first, **end;
    int n;
    bool stopping, has_stopped;
    int64_t stop_ns; /* time at which the thread must stop, if `stopping` is set */
    _Atomic uint64_t exported, queue_full, failed, rejected;
};

static void count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t spans_of(const struct srv_trace_record *first)
{
    uint64_t n = 0;

    for (const struct srv_trace_record *r = first; r; r = r->next)
        n += (uint64_t)srv_trace_record_spans(r);
    return n;
}

static void free_all(struct srv_trace_record *first)
{
    for (struct srv_trace_record *next; first; first = next) {
        next = first->next;
        free(first);
    }
}

/* ---- the queue ---- */

void srv_exporter_add(struct srv_exporter *e, struct srv_trace_record *r)
{
    r->next = NULL;
    rt_mutex_lock(&e->mu);
    const bool fits = e->n < e->o.queue_length && !e->stopping;
    if (fits) {
        *e->end = r;
        e->end = &r->next;
        if (++e->n == ENOUGH || e->n == e->o.queue_length)
            rt_cond_signal(&e->wake);
    }
    rt_mutex_unlock(&e->mu);
    if (fits)
        return;
    count(&e->queue_full, (uint64_t)srv_trace_record_spans(r));
    free(r);
}

void srv_exporter_lost(struct srv_exporter *e)
{
    count(&e->queue_full, 1);
}

/* Waits until the queue holds many records, `until_ns` has passed, or the exporter stops. Then
 * takes records from the queue. Returns NULL if there are none. Sets *stopping to whether the
 * exporter stops. */
static struct srv_trace_record *take(struct srv_exporter *e, int64_t until_ns, bool *stopping)
{
    rt_mutex_lock(&e->mu);
    while (!e->stopping && e->n < ENOUGH && e->n < e->o.queue_length &&
           rt_cond_wait_until(&e->wake, &e->mu, until_ns))
        continue;
    struct srv_trace_record *first = e->first, **at = &e->first;
    int n = 0;
    for (; *at && n < MOST_PER_REQUEST; n++)
        at = &(*at)->next;
    e->first = *at;
    *at = NULL;
    if (!n)
        first = NULL;
    e->n -= n;
    if (!e->first)
        e->end = &e->first;
    *stopping = e->stopping;
    rt_mutex_unlock(&e->mu);
    return first;
}

/* ---- requests to the collector ---- */

/* Waits for `ns` nanoseconds. Returns false if the exporter stops meanwhile. */
static bool pause_ns(struct srv_exporter *e, int64_t ns)
{
    const int64_t until_ns = rt_now_ns() + ns;

    rt_mutex_lock(&e->mu);
    while (!e->stopping && rt_cond_wait_until(&e->wake, &e->mu, until_ns))
        continue;
    const bool go_on = !e->stopping;
    rt_mutex_unlock(&e->mu);
    return go_on;
}

static int64_t deadline_of(struct srv_exporter *e)
{
    int64_t at = rt_now_ns() + e->o.timeout_ns;

    rt_mutex_lock(&e->mu);
    if (e->stopping && e->stop_ns < at)
        at = e->stop_ns;
    rt_mutex_unlock(&e->mu);
    return at;
}

/* Sends a request once. Sets *again to whether a failed request may succeed later. */
static enum rt_status send_once(struct srv_exporter *e, struct rt_span body, int64_t *rejected,
                                bool *again, struct rt_error *err)
{
    struct rt_bytes response;
    int status = 0;

    rt_bytes_init(&response, RESPONSE_BYTES);
    enum rt_status st =
        cl_http_request(e->http, "POST", e->path, body, deadline_of(e), &status, &response, err);
    *again = st == RT_UNAVAILABLE || st == RT_DEADLINE_EXCEEDED;
    if (!st && status / 100 == 2) {
        *rejected = srv_otlp_rejected(rt_span_of(response.p, response.n));
    } else if (!st) {
        *again = status == 429 || (status >= 502 && status <= 504);
        st = rt_fail(err, RT_UNAVAILABLE, "it answers with HTTP status %d", status);
    }
    rt_bytes_clear(&response);
    return st;
}

static enum rt_status send_body(struct srv_exporter *e, struct rt_span body, int64_t *rejected,
                                struct rt_error *err)
{
    int64_t pause = FIRST_PAUSE_MS * INT64_C(1000000);
    enum rt_status st;
    bool again;

    for (int i = 1;; i++, pause *= 2) {
        st = send_once(e, body, rejected, &again, err);
        if (!st || !again || i == MAX_TRIES || !pause_ns(e, pause))
            return st;
    }
}

/* Logs when requests to the collector begin to fail, and when they succeed again. A collector may
 * refuse every second request. */
static void log_change(struct srv_exporter *e, enum rt_status st, const struct rt_error *err)
{
    const bool is_failing = st != RT_OK, changes = is_failing != e->is_failing;

    e->is_failing = is_failing;
    if (!changes || !srv_log_admits(&e->log_limit, "exports of traces"))
        return;
    if (is_failing)
        RT_LOG(RT_LOG_WARNING, "traces are not exported to %s: %s: %s", e->url, rt_status_name(st),
               rt_error_text(err));
    else
        RT_LOG(RT_LOG_INFO, "traces are exported to %s again", e->url);
}

static void export_records(struct srv_exporter *e, struct srv_trace_record *first)
{
    struct rt_error err = {0};
    const uint64_t n_spans = spans_of(first);
    char *body = NULL;
    size_t n = 0;
    int64_t rejected = 0;

    enum rt_status st = srv_otlp_encode(first, &e->o.resource, rt_wall_ns() - rt_now_ns(), e->arena,
                                        &body, &n, &err);
    free_all(first);
    rt_arena_reset(e->arena);
    if (!st)
        st = send_body(e, rt_span_of(body, n), &rejected, &err);
    free(body);
    const uint64_t lost = (uint64_t)rejected < n_spans ? (uint64_t)rejected : n_spans;
    count(st ? &e->failed : &e->exported, n_spans - lost);
    count(&e->rejected, lost);
    log_change(e, st, &err);
}

static void *export_main(void *arg)
{
    struct srv_exporter *e = arg;
    bool stopping = false;

    while (!stopping) {
        struct srv_trace_record *first = take(e, rt_now_ns() + e->o.interval_ns, &stopping);
        while (stopping && first && rt_now_ns() < e->stop_ns) {
            export_records(e, first);
            first = take(e, 0, &stopping);
        }
        if (stopping) {
            count(&e->failed, spans_of(first));
            free_all(first);
        } else if (first) {
            export_records(e, first);
        }
    }
    rt_mutex_lock(&e->mu);
    e->has_stopped = true;
    rt_cond_signal(&e->stopped);
    rt_mutex_unlock(&e->mu);
    return NULL;
}

/* ---- start and stop ---- */

/* The parts of a URL. The strings are allocated in the exporter's arena. */
struct url {
    const char *host, *port, *path;
    bool tls;
};

/* Parses the URL `text`. Errors quote `given`, what the user gave. */
static enum rt_status parse_url(const char *text, const char *given, struct rt_arena *arena,
                                struct url *out, struct rt_error *err)
{
    static const char plain[] = "http://", tls[] = "https://";

    out->tls = strncmp(text, tls, sizeof tls - 1) == 0;
    if (!out->tls && strncmp(text, plain, sizeof plain - 1) != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--otlp_endpoint=%s: it must begin with http:// or https://", given);
    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p > '~')
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "--otlp_endpoint contains a byte that no URL has");
    const char *host = text + (out->tls ? sizeof tls : sizeof plain) - 1;
    const char *path = host + strcspn(host, "/"), *end, *port;
    if (*host == '[') {
        host++;
        end = memchr(host, ']', (size_t)(path - host));
        port = end ? end + 1 : NULL;
    } else {
        port = end = memchr(host, ':', (size_t)(path - host)) ? host + strcspn(host, ":") : path;
    }
    const size_t n = end && port < path ? (size_t)(path - port) - 1 : 0;
    if (!end || end == host || strpbrk(text, "?#@") ||
        (port < path && (*port != ':' || !n || n > 5 || strspn(port + 1, "0123456789") != n)))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--otlp_endpoint=%s: http://HOST:PORT or http://HOST:PORT/PATH is expected",
                       given);
    out->host = rt_arena_strndup(arena, host, (size_t)(end - host));
    out->port = n ? rt_arena_strndup(arena, port + 1, n) : out->tls ? "443" : "80";
    out->path = *path ? path : "/";
    return out->host && out->port ? RT_OK : rt_fail_memory(err, "the collector's URL", 0);
}

/* Returns whether the exporter itself writes a header, or the header decides how a request ends. */
static bool is_of_the_exporter(const char *key)
{
    static const char *const names[] = {
        "Host", "Content-Type", "Content-Length", "Expect", "Transfer-Encoding", "Content-Encoding",
        "TE",   "Connection",   "Trailer",        "Upgrade"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(key, names[i]) == 0)
            return true;
    return false;
}

/* Returns the lines of --otlp_headers, or NULL. */
static const char *header_lines(const char *list, struct rt_arena *arena, struct rt_error *err)
{
    const char *lines = "", *key, *value;

    while (lines && srv_otlp_next_pair(&list, arena, &key, &value)) {
        for (const char *p = key; *p; p++)
            if (*p <= ' ' || *p > '~' || strchr("\"(),/:;<=>?@[\\]{}", *p))
                key = "";
        for (const char *p = value; *p; p++)
            if ((*p < ' ' && *p != '\t') || *p == 0x7f)
                key = "";
        if (!*key) {
            rt_fail(err, RT_INVALID_ARGUMENT, "--otlp_headers contains a byte that no header has");
            return NULL;
        }
        if (is_of_the_exporter(key)) {
            rt_fail(err, RT_INVALID_ARGUMENT, "--otlp_headers: the header %s is the exporter's own",
                    key);
            return NULL;
        }
        lines = rt_arena_printf(arena, "%s%s: %s\r\n", lines, key, value);
    }
    if (!lines)
        rt_fail_memory(err, "the headers of --otlp_headers", 0);
    return lines;
}

static void free_exporter(struct srv_exporter *e)
{
    free_all(e->first);
    cl_http_free(e->http);
    rt_arena_free(e->arena);
    free(e->url);
    rt_mutex_clear(&e->mu);
    rt_cond_clear(&e->wake);
    rt_cond_clear(&e->stopped);
    if (e->cancel_fd >= 0)
        close(e->cancel_fd);
    free(e);
}

/* The contents of the PEM files, or NULL for those that were not given. */
struct pem_files {
    char *ca, *cert, *key;
};

static void free_pem(struct pem_files *pem)
{
    free(pem->ca);
    free(pem->cert);
    if (pem->key)
        explicit_bzero(pem->key, strlen(pem->key));
    free(pem->key);
}

static enum rt_status read_pem(const char *flag, const char *path, char **out, struct rt_error *err)
{
    size_t n;
    const enum rt_status st = *path ? rt_file_read(path, MAX_PEM_BYTES, out, &n, err) : RT_OK;
    return st ? rt_fail_prefix(err, "--%s: ", flag) : RT_OK;
}

static enum rt_status read_pem_files(const struct srv_exporter_options *o, struct pem_files *pem,
                                     struct rt_error *err)
{
    if (!*o->cert_file != !*o->key_file)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--otlp_client_certificate and --otlp_client_key need each other");
    enum rt_status st = read_pem("otlp_certificate", o->ca_file, &pem->ca, err);
    if (!st)
        st = read_pem("otlp_client_certificate", o->cert_file, &pem->cert, err);
    if (!st)
        st = read_pem("otlp_client_key", o->key_file, &pem->key, err);
    return st;
}

static enum rt_status connect_to(struct srv_exporter *e, struct rt_error *err)
{
    struct pem_files pem = {NULL, NULL, NULL};
    struct url url = {0};
    /* cl_http_new copies the strings, except for the path, which is a part of the option */
    enum rt_status st = parse_url(e->url, e->o.endpoint, e->arena, &url, err);
    if (st)
        return st;
    st = srv_otlp_check_pairs(e->o.headers, "otlp_headers", err);
    if (!st)
        st = srv_otlp_check_pairs(e->o.resource.attributes, "otlp_resource_attributes", err);
    if (st)
        return st;
    const char *lines = header_lines(e->o.headers, e->arena, err);
    if (!lines)
        return err->code;
    e->path = url.path;
    if (url.tls)
        st = read_pem_files(&e->o, &pem, err);
    if (st) {
        free_pem(&pem);
        return st;
    }
    const struct cl_http_options http = {.host = url.host,
                                         .port = url.port,
                                         .tls = url.tls,
                                         .ca = pem.ca,
                                         .cert = pem.cert,
                                         .key = pem.key,
                                         .max_body = RESPONSE_BYTES,
                                         .content_type = "application/x-protobuf",
                                         .header_lines = lines,
                                         .cancel_fd = e->cancel_fd};
    e->http = cl_http_new(&http, err);
    if (!e->http && pem.cert)
        rt_fail_prefix(err, "--otlp_client_certificate=%s, --otlp_client_key=%s: ", e->o.cert_file,
                       e->o.key_file);
    if (!e->http && pem.ca)
        rt_fail_prefix(err, "--otlp_certificate=%s: ", e->o.ca_file);
    free_pem(&pem);
    rt_arena_reset(e->arena);
    return e->http ? RT_OK : err->code;
}

/* Checks the options, and creates an exporter without its thread. */
static enum rt_status new_exporter(const struct srv_exporter_options *o, struct srv_exporter **out,
                                   struct rt_error *err)
{
    struct srv_exporter *e = calloc(1, sizeof *e);

    if (!e)
        return rt_fail_memory(err, "the exporter of traces", sizeof *e);
    e->o = *o;
    e->end = &e->first;
    rt_mutex_init(&e->mu);
    rt_cond_init(&e->wake);
    rt_cond_init(&e->stopped);
    e->url = strdup(o->url);
    e->arena = rt_arena_new(SIZE_MAX);
    e->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const enum rt_status st = e->url && e->arena && e->cancel_fd > 0
                                  ? connect_to(e, err)
                                  : rt_fail_memory(err, "the exporter of traces", 0);
    if (st) {
        free_exporter(e);
        return st;
    }
    *out = e;
    return RT_OK;
}

enum rt_status srv_exporter_check(const struct srv_exporter_options *o, struct rt_error *err)
{
    struct srv_exporter *e = NULL;
    const enum rt_status st = new_exporter(o, &e, err);

    if (!st)
        free_exporter(e);
    return st;
}

enum rt_status srv_exporter_start(const struct srv_exporter_options *o, struct srv_exporter **out,
                                  struct rt_error *err)
{
    struct srv_exporter *e = NULL;
    const enum rt_status st = new_exporter(o, &e, err);

    if (st)
        return st;
    if (rt_thread_start(&e->thread, "traces", export_main, e) != 0) {
        free_exporter(e);
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "the thread that exports traces did not start");
    }
    *out = e;
    return RT_OK;
}

void srv_exporter_stop(struct srv_exporter *e)
{
    if (!e)
        return;
    rt_mutex_lock(&e->mu);
    e->stop_ns = rt_now_ns() + STOP_NS;
    e->stopping = true;
    rt_cond_signal(&e->wake);
    while (!e->has_stopped && rt_cond_wait_until(&e->stopped, &e->mu, e->stop_ns))
        continue;
    /* ends a request whose deadline was set before the exporter began to stop */
    eventfd_write(e->cancel_fd, 1);
    while (!e->has_stopped && rt_cond_wait_until(&e->stopped, &e->mu, e->stop_ns + END_NS))
        continue;
    const bool has_stopped = e->has_stopped;
    rt_mutex_unlock(&e->mu);
    if (has_stopped) {
        pthread_join(e->thread, NULL);
        free_exporter(e);
        return;
    }
    /* The lookup of a name cannot be cancelled, and may take much longer. The thread ends without
     * exporting anything more, and uses only what belongs to the exporter. */
    RT_LOG(RT_LOG_WARNING, "traces are not exported to %s: its name has not been resolved yet",
           e->url);
    pthread_detach(e->thread);
}

void srv_exporter_count(const struct srv_exporter *e, struct srv_exporter_counts *out)
{
    *out = (struct srv_exporter_counts){
        .exported = atomic_load_explicit(&e->exported, memory_order_relaxed),
        .queue_full = atomic_load_explicit(&e->queue_full, memory_order_relaxed),
        .failed = atomic_load_explicit(&e->failed, memory_order_relaxed),
        .rejected = atomic_load_explicit(&e->rejected, memory_order_relaxed)};
}
