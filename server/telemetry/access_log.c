#include "server/telemetry/access_log.h"

#include "runtime/base/log.h"
#include "server/base/serving_map.h"
#include "server/tracing/access.h"
#include "server/tracing/request_span.h"

enum { MAX_FIELDS = 16, TEXT = 256 };

struct record {
    struct rt_log_field fields[MAX_FIELDS];
    char texts[MAX_FIELDS][TEXT];
    int n;
};

static void add_number(struct record *r, const char *name, int64_t number)
{
    r->fields[r->n++] = (struct rt_log_field){.name = name, .number = number};
}

static void add_text(struct record *r, const char *name, struct rt_span s)
{
    if (!s.p)
        return;
    char *buffer = r->texts[r->n];
    size_t n = s.n < TEXT - 1 ? s.n : TEXT - 1;
    for (size_t i = 0; i < n; i++)
        buffer[i] = s.p[i] > ' ' && s.p[i] < 0x7f ? (char)s.p[i] : '?';
    buffer[n] = '\0';
    r->fields[r->n++] = (struct rt_log_field){.name = name, .text = buffer};
}

void srv_access_log(const struct srv_access *a)
{
    struct record r;
    char trace[SRV_TRACE_ID_TEXT];

    r.n = 0;
    add_text(&r, "entry", rt_span_str(a->entry));
    add_text(&r, "api", rt_span_str(a->api));
    add_text(&r, "method", a->method);
    add_text(&r, "path", a->path);
    if (a->http)
        add_number(&r, "status", a->http);
    add_text(&r, "code", rt_span_str(rt_status_name(a->code)));
    add_number(&r, "bytes_in", (int64_t)a->bytes_in);
    add_number(&r, "bytes", (int64_t)a->bytes_out);
    add_number(&r, "us", (a->end_ns - a->begin_ns) / 1000);
    add_text(&r, "id", a->id);
    if (a->span->has_trace) {
        srv_trace_id_write(&a->span->context, trace);
        add_text(&r, "trace", rt_span_str(trace));
    }
    add_text(&r, "client", a->client);
    add_text(&r, "peer", a->peer);
    add_text(&r, "model", a->version ? rt_span_str(a->version->model) : a->model);
    if (a->version)
        add_number(&r, "version", a->version->version);
    rt_log_record(RT_LOG_INFO, "access", r.fields, r.n);
}
