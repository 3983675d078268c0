#include "server/tracing/otlp.h"

#include <assert.h>

#include "opentelemetry/traces.pb-c.h"
#include "proto/pack.h"
#include "proto/unpack.h"
#include "server/base/hex.h"
#include "server/tracing/trace_context.h"

typedef Opentelemetry__ExportTraceServiceRequest request_message;
typedef Opentelemetry__Span span_message;
typedef Opentelemetry__KeyValue pair_message;

enum {
    /* the values of SpanKind and StatusCode in OTLP */
    KIND_INTERNAL = 1,
    KIND_SERVER = 2,
    STATUS_ERROR = 2,
    MAX_ATTRIBUTES = 16,   /* maximum number of attributes of a span */
    MAX_RESOURCE = 64,     /* maximum number of attributes of the resource */
    MOST_BYTES = 64 << 20, /* maximum size of a request */
};

/* The state of encoding. After an allocation has failed, `failed` is set and the message is not
 * used. */
struct encoder {
    struct rt_arena *arena;
    int64_t offset_ns;
    span_message **spans;
    size_t n_spans;
    bool failed;
};

static void *allocate(struct encoder *e, size_t n, size_t size)
{
    void *p = rt_arena_array(e->arena, n, size);
    e->failed = e->failed || !p;
    return p;
}

static char *copy_text(struct encoder *e, const char *text)
{
    char *copy = rt_arena_strdup(e->arena, text);
    e->failed = e->failed || !copy;
    return copy;
}

static ProtobufCBinaryData bytes_of(const unsigned char *p, size_t n)
{
    return (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)p};
}

/* ---- attributes ---- */

/* The attributes of a span or of the resource. The array has room for `most`. */
struct attributes {
    pair_message **pairs;
    size_t *n, most;
};

static Opentelemetry__AnyValue *add_pair(struct encoder *e, struct attributes to, const char *key)
{
    pair_message *pair = allocate(e, 1, sizeof *pair);
    Opentelemetry__AnyValue *value = allocate(e, 1, sizeof *value);

    if (!pair || !value)
        return NULL;
    opentelemetry__key_value__init(pair);
    opentelemetry__any_value__init(value);
    pair->key = copy_text(e, key);
    pair->value = value;
    assert(*to.n < to.most);
    if (pair->key)
        to.pairs[(*to.n)++] = pair;
    return value;
}

static void add_text(struct encoder *e, struct attributes to, const char *key, const char *text)
{
    Opentelemetry__AnyValue *value = *text ? add_pair(e, to, key) : NULL;

    if (!value)
        return;
    value->value_case = OPENTELEMETRY__ANY_VALUE__VALUE_STRING_VALUE;
    value->string_value = copy_text(e, text);
}

static void add_number(struct encoder *e, struct attributes to, const char *key, int64_t number)
{
    Opentelemetry__AnyValue *value = add_pair(e, to, key);

    if (!value)
        return;
    value->value_case = OPENTELEMETRY__ANY_VALUE__VALUE_INT_VALUE;
    value->int_value = number;
}

static struct attributes of_span(span_message *s)
{
    return (struct attributes){s->attributes, &s->n_attributes, MAX_ATTRIBUTES};
}

/* Adds the attributes that the spans of a request, its run and its batch have in common. */
static void add_model(struct encoder *e, const struct srv_trace_record *r, span_message *s)
{
    add_text(e, of_span(s), "slipway.model", r->model);
    if (r->has_version)
        add_number(e, of_span(s), "slipway.version", r->version);
    add_text(e, of_span(s), "slipway.signature", r->signature);
}

static void add_batch(struct encoder *e, const struct srv_trace_record *r, span_message *s)
{
    add_model(e, r, s);
    if (r->n_requests) {
        add_number(e, of_span(s), "slipway.batch.rows", r->rows);
        add_number(e, of_span(s), "slipway.batch.requests", r->n_requests);
    }
    add_text(e, of_span(s), "slipway.device", r->device);
}

/* Adds the attributes of OpenTelemetry's semantic conventions for HTTP and for gRPC. */
static void add_transport(struct encoder *e, const struct srv_trace_record *r, span_message *s)
{
    if (r->is_http) {
        add_text(e, of_span(s), "http.request.method", r->method);
        add_text(e, of_span(s), "url.path", r->path);
        add_number(e, of_span(s), "http.response.status_code", r->http);
    } else {
        add_text(e, of_span(s), "rpc.system", "grpc");
        add_text(e, of_span(s), "rpc.method", r->path);
        add_number(e, of_span(s), "rpc.grpc.status_code", (int64_t)r->code);
    }
    if (r->code)
        add_text(e, of_span(s), "error.type", rt_status_name(r->code));
}

/* ---- spans ---- */

static span_message *add_span(struct encoder *e, const struct srv_trace_context *context,
                              const unsigned char *span_id, const unsigned char *parent_id,
                              const char *name, const struct srv_trace_times *times)
{
    span_message *s = allocate(e, 1, sizeof *s);

    if (!s)
        return NULL;
    opentelemetry__span__init(s);
    s->trace_id = bytes_of(context->trace_id, SRV_TRACE_ID_BYTES);
    s->span_id = bytes_of(span_id, SRV_SPAN_ID_BYTES);
    if (parent_id)
        s->parent_span_id = bytes_of(parent_id, SRV_SPAN_ID_BYTES);
    s->name = copy_text(e, name);
    s->kind = KIND_INTERNAL;
    s->start_time_unix_nano = (uint64_t)(times->begin_ns + e->offset_ns);
    s->end_time_unix_nano =
        (uint64_t)((times->end_ns > times->begin_ns ? times->end_ns : times->begin_ns) +
                   e->offset_ns);
    s->attributes = allocate(e, MAX_ATTRIBUTES, sizeof *s->attributes);
    if (e->failed)
        return NULL;
    e->spans[e->n_spans++] = s;
    return s;
}

static void add_links(struct encoder *e, span_message *s, const struct srv_trace_context *link,
                      int n)
{
    s->links = allocate(e, (size_t)n + 1, sizeof *s->links);
    for (int i = 0; i < n && !e->failed; i++) {
        Opentelemetry__Link *l = allocate(e, 1, sizeof *l);
        if (!l)
            return;
        opentelemetry__link__init(l);
        l->trace_id = bytes_of(link[i].trace_id, SRV_TRACE_ID_BYTES);
        l->span_id = bytes_of(link[i].span_id, SRV_SPAN_ID_BYTES);
        s->links[s->n_links++] = l;
    }
}

/* Returns whether the server, and not the client, is the cause of an error. */
static bool is_server_error(enum rt_status code)
{
    return code == RT_UNKNOWN || code == RT_DEADLINE_EXCEEDED || code == RT_UNIMPLEMENTED ||
           code == RT_INTERNAL || code == RT_UNAVAILABLE || code == RT_DATA_LOSS;
}

static void add_status(struct encoder *e, enum rt_status code, span_message *s)
{
    s->status = allocate(e, 1, sizeof *s->status);
    if (!s->status)
        return;
    opentelemetry__status__init(s->status);
    s->status->code = STATUS_ERROR;
    s->status->message = copy_text(e, rt_status_name(code));
}

static void add_request(struct encoder *e, const struct srv_trace_record *r)
{
    span_message *s = add_span(e, &r->context, r->context.span_id,
                               r->has_parent ? r->parent_id : NULL, r->name, &r->times);
    if (!s)
        return;
    s->kind = KIND_SERVER;
    s->trace_state = copy_text(e, r->tracestate);
    add_model(e, r, s);
    add_transport(e, r, s);
    if (is_server_error(r->code))
        add_status(e, r->code, s);
    for (int k = 0; k < SRV_N_PHASES; k++) {
        if (!r->phase[k].end_ns)
            continue;
        s = add_span(e, &r->context, r->phase_id[k], r->context.span_id,
                     srv_trace_phase_name((enum srv_trace_phase)k), &r->phase[k]);
        if (!s)
            return;
        if (k != SRV_PHASE_RUN)
            continue;
        add_batch(e, r, s);
        if (r->has_batch)
            add_links(e, s, &r->batch, 1);
    }
}

static void add_batch_span(struct encoder *e, const struct srv_trace_record *r)
{
    span_message *s =
        add_span(e, &r->context, r->context.span_id, r->parent_id, "batch", &r->times);

    if (!s)
        return;
    add_batch(e, r, s);
    add_links(e, s, r->link, r->n_links);
    s->dropped_links_count = (uint32_t)r->n_dropped_links;
}

/* ---- the request ---- */

/* "%00" stays as it is, because it would end the text. */
static void decode_percents(char *text)
{
    char *to = text;

    for (const char *p = text; *p; p++) {
        const int high = *p == '%' ? srv_hex_digit((unsigned char)p[1]) : -1;
        const int low = high >= 0 ? srv_hex_digit((unsigned char)p[2]) : -1;
        if (low >= 0 && (high || low)) {
            *to++ = (char)(high * 16 + low);
            p += 2;
        } else {
            *to++ = *p;
        }
    }
    *to = '\0';
}

/* Splits the next element off a list. Returns false at the end of the list. key.n is 0 if the
 * element is no pair, and is_empty is set if it has only blanks. */
static bool next_element(const char **list, struct rt_span *key, struct rt_span *value,
                         bool *is_empty)
{
    const char *p = *list;
    const size_t n = strcspn(p, ","), n_key = strcspn(p, "=,");

    if (!*p)
        return false;
    *list = p + n + (p[n] == ',');
    *is_empty = !srv_without_blanks(rt_span_of(p, n)).n;
    *key = n_key < n ? srv_without_blanks(rt_span_of(p, n_key)) : rt_span_of(p, 0);
    *value = n_key < n ? srv_without_blanks(rt_span_of(p + n_key + 1, n - n_key - 1)) : *key;
    return true;
}

bool srv_otlp_next_pair(const char **list, struct rt_arena *arena, const char **key,
                        const char **value)
{
    struct rt_span name, text;
    bool ignored;

    while (next_element(list, &name, &text, &ignored)) {
        if (!name.n)
            continue;
        char *copy = rt_arena_strndup(arena, (const char *)text.p, text.n);
        *key = rt_arena_strndup(arena, (const char *)name.p, name.n);
        if (!copy || !*key)
            return false;
        decode_percents(copy);
        *value = copy;
        return true;
    }
    return false;
}

enum rt_status srv_otlp_check_pairs(const char *list, const char *flag, struct rt_error *err)
{
    struct rt_span key, value;
    bool is_empty;

    for (int i = 1; next_element(&list, &key, &value, &is_empty); i++)
        if (!is_empty && !key.n)
            return rt_fail(err, RT_INVALID_ARGUMENT, "--%s: element %d is not key=value", flag, i);
    return RT_OK;
}

static Opentelemetry__Resource *resource_of(struct encoder *e,
                                            const struct srv_otlp_resource *resource)
{
    Opentelemetry__Resource *m = allocate(e, 1, sizeof *m);
    const char *list = resource->attributes, *key, *value;
    char name[SRV_TRACE_TEXT], text[SRV_TRACE_TEXT];
    bool has_name = *resource->service_name;

    if (!m)
        return NULL;
    opentelemetry__resource__init(m);
    m->attributes = allocate(e, MAX_RESOURCE, sizeof *m->attributes);
    if (!m->attributes)
        return NULL;
    const struct attributes attributes = {m->attributes, &m->n_attributes, MAX_RESOURCE};
    srv_trace_text(text, sizeof text, rt_span_str(resource->service_name));
    if (has_name)
        add_text(e, attributes, "service.name", text);
    add_text(e, attributes, "service.version", SLIPWAY_VERSION);
    while (m->n_attributes < MAX_RESOURCE - 1 &&
           srv_otlp_next_pair(&list, e->arena, &key, &value)) {
        const bool is_name = strcmp(key, "service.name") == 0;
        if ((is_name && has_name) || strcmp(key, "service.version") == 0)
            continue;
        has_name |= is_name;
        srv_trace_text(name, sizeof name, rt_span_str(key));
        srv_trace_text(text, sizeof text, rt_span_str(value));
        add_text(e, attributes, name, text);
    }
    if (!has_name)
        add_text(e, attributes, "service.name", "slipway");
    return m;
}

static void add_records(struct encoder *e, const struct srv_trace_record *first)
{
    size_t n = 0;

    for (const struct srv_trace_record *r = first; r; r = r->next)
        n += (size_t)srv_trace_record_spans(r);
    e->spans = allocate(e, n + 1, sizeof *e->spans);
    for (const struct srv_trace_record *r = first; r && !e->failed; r = r->next) {
        if (r->is_batch)
            add_batch_span(e, r);
        else
            add_request(e, r);
    }
}

enum rt_status srv_otlp_encode(const struct srv_trace_record *first,
                               const struct srv_otlp_resource *resource, int64_t offset_ns,
                               struct rt_arena *arena, char **out, size_t *n, struct rt_error *err)
{
    struct encoder e = {.arena = arena, .offset_ns = offset_ns};
    Opentelemetry__InstrumentationScope scope;
    Opentelemetry__ScopeSpans spans;
    Opentelemetry__ResourceSpans all;
    request_message request;
    Opentelemetry__ScopeSpans *spans_list[] = {&spans};
    Opentelemetry__ResourceSpans *all_list[] = {&all};
    char name[] = "slipway", version[] = SLIPWAY_VERSION;

    opentelemetry__instrumentation_scope__init(&scope);
    opentelemetry__scope_spans__init(&spans);
    opentelemetry__resource_spans__init(&all);
    opentelemetry__export_trace_service_request__init(&request);
    scope.name = name;
    scope.version = version;
    add_records(&e, first);
    all.resource = resource_of(&e, resource);
    if (e.failed)
        return rt_fail_memory(err, "the spans to export", 0);
    spans.scope = &scope;
    spans.n_spans = e.n_spans;
    spans.spans = e.spans;
    all.n_scope_spans = 1;
    all.scope_spans = spans_list;
    request.n_resource_spans = 1;
    request.resource_spans = all_list;
    return pb_pack(&request.base, MOST_BYTES, NULL, out, n, err);
}

int64_t srv_otlp_rejected(struct rt_span response)
{
    struct rt_error ignored = {0};
    Opentelemetry__ExportTraceServiceResponse *m =
        pb_unpack(&opentelemetry__export_trace_service_response__descriptor, response,
                  "the collector's response", &ignored);
    int64_t n = m && m->partial_success ? m->partial_success->rejected_spans : 0;

    pb_free(m);
    return n > 0 ? n : 0;
}
