#include "clients/cli/remote.h"

#include <errno.h>
#include <grpc/support/log.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/c/message.h"
#include "runtime/base/clock.h"

enum { MAX_ANSWER = INT32_MAX, MAX_FILE = INT32_MAX };

#define AT(field) offsetof(struct cl_target, field)
const struct cl_flag cl_target_flags[] = {
    {"--server", CL_TEXT, AT(server), "URL",
     "grpc://HOST:PORT, grpcs:// (port 8500), http://, https:// (8501), unix:PATH (gRPC)", 0},
    {"--timeout", CL_REAL, AT(timeout_s), "S", "seconds for a call (30; reload: 600); 0: no limit",
     0},
    {"--ca", CL_TEXT, AT(ca), "FILE", "PEM: whom to trust instead of the system's list", 0},
    {"--cert", CL_TEXT, AT(cert), "FILE", "PEM: our own certificate", 0},
    {"--key", CL_TEXT, AT(key), "FILE", "PEM: its key", 0},
    {"--server_name", CL_TEXT, AT(server_name), "NAME", "in the server's certificate", 0},
    {"--token_file", CL_TEXT, AT(token_file), "FILE", "whose line is sent as a bearer token", 0},
};
#undef AT

#define AT(field) offsetof(struct cl_version_flags, field)
const struct cl_flag cl_version_flags[] = {
    {"--model_version", CL_TEXT, AT(version), "N", "instead of the newest", 0},
    {"--label", CL_TEXT, AT(label), "LABEL", "the version of that label", 0},
    {"--signature", CL_TEXT, AT(signature), "NAME", "instead of serving_default", 0},
};
#undef AT

/* ---- files and errors ---- */

enum rt_status cl_read_file(const char *path, struct rt_bytes *out, struct rt_error *err)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!f)
        return rt_fail(err, RT_NOT_FOUND, "%s: %s", path, strerror(errno));
    char block[16384];
    size_t n;
    while ((n = fread(block, 1, sizeof block, f)) > 0 && !out->failed)
        rt_bytes_add(out, block, n);
    int e = ferror(f) ? errno : 0;
    if (f != stdin)
        fclose(f);
    if (e)
        return rt_fail(err, RT_UNAVAILABLE, "%s: %s", path, strerror(e));
    return out->failed ? rt_fail(err, RT_RESOURCE_EXHAUSTED, "%s: too large", path) : RT_OK;
}

enum rt_status cl_read_text(const char *path, struct rt_arena *arena, const char **out,
                            struct rt_error *err)
{
    struct rt_bytes bytes;
    rt_bytes_init(&bytes, MAX_FILE);
    enum rt_status st = cl_read_file(path, &bytes, err);
    if (!st && bytes.p && memchr(bytes.p, 0, bytes.n))
        st = rt_fail(err, RT_INVALID_ARGUMENT, "%s: not a text", path);
    if (!st && !(*out = rt_arena_strndup(arena, bytes.p ? bytes.p : "", bytes.n)))
        st = rt_fail_memory(err, path, bytes.n);
    rt_bytes_clear(&bytes);
    return st;
}

int cl_failed(const char *command, const struct rt_error *err)
{
    fprintf(stderr, "slipway %s: %s: %s\n", command, rt_status_name(err->code), rt_error_text(err));
    return CL_EXIT_FAILED;
}

enum rt_status cl_of_slipway(const struct slipway_error *e, struct rt_error *err)
{
    static const char *const signs[] = {"Socket closed", "wrong version number", "http1.x"};
    bool is_other = false;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        is_other |= e->code == SLIPWAY_UNAVAILABLE && strstr(e->text, signs[i]);
    return rt_fail(err, (enum rt_status)e->code, "%s%s", e->text,
                   is_other ? " (is TLS or REST spoken at this port?)" : "");
}

/* gRPC's own words about connections: what a call fails with is told anyway. */
static void ignore_grpc_log(gpr_log_func_args *args)
{
    (void)args;
}

/* ---- opening ---- */

/* What the flags' files hold. */
struct identity {
    const char *ca, *cert, *key, *token;
};

static enum rt_status read_identity(const struct cl_target *t, struct rt_arena *arena,
                                    struct identity *id, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    *id = (struct identity){0};
    if (t->ca)
        st = cl_read_text(t->ca, arena, &id->ca, err);
    if (!st && t->cert)
        st = cl_read_text(t->cert, arena, &id->cert, err);
    if (!st && t->key)
        st = cl_read_text(t->key, arena, &id->key, err);
    if (!st && t->token_file && !(st = cl_read_text(t->token_file, arena, &id->token, err)))
        id->token = rt_arena_strndup(arena, id->token, strcspn(id->token, "\r\n"));
    if (!st && !id->cert != !id->key)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--cert and --key are given together");
    return st;
}

static enum rt_status open_grpc(struct cl_remote *r, const struct cl_target *t,
                                const struct identity *id, const char *address, bool tls,
                                struct rt_arena *arena, struct rt_error *err)
{
    struct slipway_error why;
    size_t n = strlen(address);
    if (n && (!strchr(address, ':') || address[n - 1] == ']'))
        address = rt_arena_printf(arena, "%s:8500", address);
    if (!address)
        return rt_fail_memory(err, "an address", n);
    const struct slipway_options o = {.address = address,
                                      .tls = tls,
                                      .ca = id->ca,
                                      .cert = id->cert,
                                      .key = id->key,
                                      .server_name = t->server_name,
                                      .token = id->token,
                                      .own_connection = true};
    r->grpc = slipway_client_new(&o, &why);
    return r->grpc ? RT_OK : cl_of_slipway(&why, err);
}

static enum rt_status open_rest(struct cl_remote *r, const struct cl_target *t,
                                const struct identity *id, const char *address, bool tls,
                                struct rt_arena *arena, struct rt_error *err)
{
    size_t n = strcspn(address, "/");
    if (address[n] && address[n + 1])
        return rt_fail(err, RT_INVALID_ARGUMENT, "--server %s: a path is not wanted", t->server);
    char *host = rt_arena_strndup(arena, address, n);
    if (!host)
        return rt_fail_memory(err, "an address", n);
    char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');
    const char *port = "8501";
    if (colon && (!bracket || colon > bracket)) {
        *colon = '\0';
        port = colon + 1;
    }
    if (*host == '[' && bracket) {
        *bracket = '\0';
        host++;
    }
    if (!*host || !*port)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--server %s: HOST:PORT is wanted", t->server);
    const struct cl_http_options o = {.host = host,
                                      .port = port,
                                      .tls = tls,
                                      .ca = id->ca,
                                      .cert = id->cert,
                                      .key = id->key,
                                      .server_name = t->server_name,
                                      .token = id->token,
                                      .max_body = MAX_ANSWER};
    r->rest = cl_http_new(&o, err);
    return r->rest ? RT_OK : err->code;
}

enum rt_status cl_remote_open(struct cl_remote *r, const struct cl_target *t,
                              struct rt_arena *arena, struct rt_error *err)
{
    static const struct {
        const char *scheme;
        bool is_rest, tls;
    } schemes[] = {{"grpc://", false, false},
                   {"grpcs://", false, true},
                   {"http://", true, false},
                   {"https://", true, true}};
    struct identity id;
    if (!getenv("GRPC_VERBOSITY"))
        gpr_set_log_function(ignore_grpc_log);
    *r = (struct cl_remote){.timeout_ms = (int64_t)(t->timeout_s * 1000), .max_bytes = MAX_ANSWER};
    enum rt_status st = read_identity(t, arena, &id, err);
    if (st)
        return st;
    const char *address = t->server;
    bool is_rest = false, tls = false;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t n = strlen(schemes[i].scheme);
        if (strncmp(t->server, schemes[i].scheme, n) != 0)
            continue;
        address += n;
        is_rest = schemes[i].is_rest;
        tls = schemes[i].tls;
    }
    if (address == t->server && strstr(address, "://"))
        return rt_fail(
            err, RT_INVALID_ARGUMENT,
            "--server %s: none of grpc://, grpcs://, http://, https://, unix:", t->server);
    if (!tls && (id.ca || id.cert))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--server %s: certificates need grpcs:// or https://", t->server);
    return is_rest ? open_rest(r, t, &id, address, tls, arena, err)
                   : open_grpc(r, t, &id, address, tls, arena, err);
}

void cl_remote_close(struct cl_remote *r)
{
    slipway_client_free(r->grpc);
    cl_http_free(r->rest);
    r->grpc = NULL;
    r->rest = NULL;
}

enum rt_status cl_model_of(struct slipway_model *m, const char *name,
                           const struct cl_version_flags *f, struct rt_error *err)
{
    *m = (struct slipway_model){.name = name, .label = f->label, .signature = f->signature};
    if (!f->version)
        return RT_OK;
    if (f->label)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "--model_version %s and --label %s: only one of them says the version",
                       f->version, f->label);
    char *end;
    errno = 0;
    m->has_version = true;
    m->version = strtoll(f->version, &end, 10);
    if (!*f->version || *end || errno)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--model_version %s is no number", f->version);
    return RT_OK;
}

/* ---- REST ---- */

static void put_escaped(struct rt_bytes *out, const char *s)
{
    for (; *s; s++)
        if ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
            strchr("-._~", *s))
            rt_bytes_addc(out, *s);
        else
            rt_bytes_addf(out, "%%%02X", (unsigned char)*s);
}

const char *cl_rest_path(struct rt_arena *arena, const struct slipway_model *m, const char *suffix)
{
    struct rt_bytes path;
    rt_bytes_init(&path, 1 << 16);
    rt_bytes_adds(&path, "/v1/models/");
    put_escaped(&path, m->name);
    if (m->has_version)
        rt_bytes_addf(&path, "/versions/%" PRId64, m->version);
    else if (m->label) {
        rt_bytes_adds(&path, "/labels/");
        put_escaped(&path, m->label);
    }
    rt_bytes_adds(&path, suffix);
    const char *kept = path.failed ? NULL : rt_arena_strdup(arena, path.p);
    rt_bytes_clear(&path);
    return kept;
}

static enum rt_status status_of_http(int http)
{
    static const struct {
        int http;
        enum rt_status status;
    } map[] = {
        {400, RT_INVALID_ARGUMENT},   {401, RT_UNAUTHENTICATED}, {403, RT_PERMISSION_DENIED},
        {404, RT_NOT_FOUND},          {409, RT_ABORTED},         {413, RT_RESOURCE_EXHAUSTED},
        {429, RT_RESOURCE_EXHAUSTED}, {499, RT_CANCELLED},       {500, RT_INTERNAL},
        {501, RT_UNIMPLEMENTED},      {503, RT_UNAVAILABLE},     {504, RT_DEADLINE_EXCEEDED}};
    for (size_t i = 0; i < sizeof map / sizeof *map; i++)
        if (map[i].http == http)
            return map[i].status;
    return RT_UNKNOWN;
}

static enum rt_status refused(int http, const struct rt_bytes *body, struct rt_error *err)
{
    struct rt_error ignored = {0};
    json_t *o = NULL;
    (void)cl_json_load(rt_span_of(body->p, body->n), &o, &ignored);
    const char *text = json_string_value(json_object_get(o, "error"));
    enum rt_status st = status_of_http(http);
    if (text)
        rt_fail(err, st, "%s", text);
    else
        rt_fail(err, st, "HTTP status %d: %.200s", http, body->p ? body->p : "");
    json_decref(o);
    return st;
}

enum rt_status cl_rest(struct cl_remote *r, const char *method, const char *path,
                       struct rt_span body, struct rt_bytes *answer, struct rt_error *err)
{
    int http = 0;
    int64_t deadline = r->timeout_ms ? rt_now_ns() + r->timeout_ms * 1000000 : RT_NEVER;
    if (!path)
        return rt_fail_memory(err, "a path", 0);
    enum rt_status st = cl_http_request(r->rest, method, path, body, deadline, &http, answer, err);
    return st ? st : http == 200 ? RT_OK : refused(http, answer, err);
}

/* GETs JSON. */
static enum rt_status get_json(struct cl_remote *r, const char *path, json_t **out,
                               struct rt_error *err)
{
    struct rt_bytes answer;
    *out = NULL;
    rt_bytes_init(&answer, MAX_ANSWER);
    enum rt_status st = cl_rest(r, "GET", path, (struct rt_span){0}, &answer, err);
    if (!st)
        st = cl_json_load(rt_span_of(answer.p, answer.n), out, err);
    rt_bytes_clear(&answer);
    return st;
}

static const char *text_of(const json_t *o, const char *key, struct rt_arena *arena)
{
    const char *s = json_string_value(json_object_get(o, key));
    return rt_arena_strdup(arena, s ? s : "");
}

/* protobuf's JSON has int64 as strings. */
static int64_t integer_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    const char *s = json_string_value(v);
    return s ? strtoll(s, NULL, 10) : (int64_t)json_integer_value(v);
}

static int state_of(const char *name)
{
    static const int all[] = {SLIPWAY_STATE_START, SLIPWAY_STATE_LOADING, SLIPWAY_STATE_AVAILABLE,
                              SLIPWAY_STATE_UNLOADING, SLIPWAY_STATE_END};
    for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
        if (strcmp(name, slipway_state_name(all[i])) == 0)
            return all[i];
    return SLIPWAY_STATE_UNKNOWN;
}

static enum slipway_code code_of(const char *name)
{
    for (int c = SLIPWAY_OK; name && c <= SLIPWAY_UNAUTHENTICATED; c++)
        if (strcmp(name, slipway_code_name((enum slipway_code)c)) == 0)
            return (enum slipway_code)c;
    return name ? SLIPWAY_UNKNOWN : SLIPWAY_OK;
}

static enum rt_status rest_status(struct cl_remote *r, const struct slipway_model *m,
                                  struct rt_arena *arena, struct slipway_status *out,
                                  struct rt_error *err)
{
    json_t *o;
    enum rt_status st = get_json(r, cl_rest_path(arena, m, ""), &o, err);
    if (st)
        return st;
    const json_t *list = json_object_get(o, "model_version_status");
    size_t n = json_array_size(list);
    struct slipway_version *v = rt_arena_array(arena, n + 1, sizeof *v);
    for (size_t i = 0; v && i < n; i++) {
        const json_t *one = json_array_get(list, i), *status = json_object_get(one, "status");
        v[i].version = integer_of(one, "version");
        v[i].state = state_of(json_string_value(json_object_get(one, "state")));
        v[i].why = code_of(json_string_value(json_object_get(status, "error_code")));
        v[i].text = text_of(status, "error_message", arena);
    }
    json_decref(o);
    *out = (struct slipway_status){.n_versions = v ? (int)n : 0, .versions = v};
    return v ? RT_OK : rt_fail_memory(err, "versions", n * sizeof *v);
}

static int dtype_of(const char *name)
{
    for (int t = SLIPWAY_FLOAT; name && t <= SLIPWAY_UINT64; t++)
        if (strcmp(name, slipway_dtype_name(t)) == 0)
            return t;
    return 0;
}

static int inputs_by_name(const void *a, const void *b)
{
    return strcmp(((const struct slipway_input *)a)->name, ((const struct slipway_input *)b)->name);
}

static const struct slipway_input *read_inputs(json_t *o, struct rt_arena *arena, int *n)
{
    struct slipway_input *in = rt_arena_array(arena, json_object_size(o) + 1, sizeof *in);
    const char *name;
    json_t *info;
    *n = 0;
    if (!in)
        return NULL;
    json_object_foreach(o, name, info)
    {
        struct slipway_input *t = &in[*n];
        const json_t *shape = json_object_get(info, "tensor_shape");
        const json_t *dims = json_object_get(shape, "dim");
        bool known = json_is_object(shape) &&
                     !json_is_true(json_object_get(shape, "unknown_rank")) &&
                     json_array_size(dims) <= SLIPWAY_MAX_RANK;
        t->name = rt_arena_strdup(arena, name);
        t->tensor_name = text_of(info, "name", arena);
        t->dtype = dtype_of(json_string_value(json_object_get(info, "dtype")));
        t->rank = known ? (int)json_array_size(dims) : -1;
        for (int d = 0; d < t->rank; d++)
            t->dim[d] = integer_of(json_array_get(dims, (size_t)d), "size");
        if (!t->name || !t->tensor_name)
            return NULL;
        ++*n;
    }
    qsort(in, (size_t)*n, sizeof *in, inputs_by_name);
    return in;
}

static enum rt_status rest_metadata(struct cl_remote *r, const struct slipway_model *m,
                                    struct rt_arena *arena, struct slipway_metadata *out,
                                    struct rt_error *err)
{
    json_t *o;
    enum rt_status st = get_json(r, cl_rest_path(arena, m, "/metadata"), &o, err);
    if (st)
        return st;
    const json_t *spec = json_object_get(o, "model_spec");
    json_t *map = json_object_get(json_object_get(json_object_get(o, "metadata"), "signature_def"),
                                  "signature_def");
    struct slipway_signature *s = rt_arena_array(arena, json_object_size(map) + 1, sizeof *s);
    const char *name;
    json_t *def;
    int n = 0;
    bool ok = s != NULL;
    json_object_foreach(map, name, def)
    {
        if (!ok)
            break;
        s[n].name = rt_arena_strdup(arena, name);
        s[n].method = text_of(def, "method_name", arena);
        s[n].inputs = read_inputs(json_object_get(def, "inputs"), arena, &s[n].n_inputs);
        s[n].outputs = read_inputs(json_object_get(def, "outputs"), arena, &s[n].n_outputs);
        ok = s[n].name && s[n].method && s[n].inputs && s[n].outputs;
        n++;
    }
    *out = (struct slipway_metadata){.model = text_of(spec, "name", arena),
                                     .version = integer_of(spec, "version"),
                                     .n_signatures = n,
                                     .signatures = s};
    json_decref(o);
    return ok && out->model ? RT_OK : rt_fail_memory(err, "signatures", 0);
}

/* ---- gRPC ---- */

static enum rt_status ask(struct cl_remote *r, const char *method, struct rt_bytes *request,
                          unsigned char **answer, size_t *n, struct rt_error *err)
{
    struct slipway_error why;
    const struct slipway_call call = {.timeout_ms = r->timeout_ms};
    enum rt_status st = request->failed ? rt_fail_memory(err, "a request", 0) : RT_OK;
    if (!st && slipway_unary(r->grpc, method, request->p, request->n, &call, answer, n, &why))
        st = cl_of_slipway(&why, err);
    rt_bytes_clear(request);
    return st;
}

enum rt_status cl_remote_status(struct cl_remote *r, const struct slipway_model *m,
                                struct rt_arena *arena, struct slipway_status *out,
                                struct rt_error *err)
{
    struct rt_bytes request;
    unsigned char *answer;
    size_t n;
    if (r->rest)
        return rest_status(r, m, arena, out, err);
    rt_bytes_init(&request, MAX_ANSWER);
    cl_write_status_request(&request, m);
    enum rt_status st =
        ask(r, "/tensorflow.serving.ModelService/GetModelStatus", &request, &answer, &n, err);
    if (st)
        return st;
    st = cl_read_status(rt_span_of(answer, n), arena, out, err);
    free(answer);
    return st;
}

enum rt_status cl_remote_metadata(struct cl_remote *r, const struct slipway_model *m,
                                  struct rt_arena *arena, struct slipway_metadata *out,
                                  struct rt_error *err)
{
    struct rt_bytes request;
    unsigned char *answer;
    size_t n;
    if (r->rest)
        return rest_metadata(r, m, arena, out, err);
    rt_bytes_init(&request, MAX_ANSWER);
    cl_write_metadata_request(&request, m);
    enum rt_status st = ask(r, "/tensorflow.serving.PredictionService/GetModelMetadata", &request,
                            &answer, &n, err);
    if (st)
        return st;
    st = cl_read_metadata(rt_span_of(answer, n), arena, out, err);
    free(answer);
    return st;
}

enum rt_status cl_remote_signature(struct cl_remote *r, const struct slipway_model *m,
                                   struct rt_arena *arena, const struct slipway_signature **out,
                                   struct rt_error *err)
{
    struct slipway_metadata all;
    struct slipway_model plain = *m;
    plain.signature = NULL;
    enum rt_status st = cl_remote_metadata(r, &plain, arena, &all, err);
    const char *wanted = m->signature ? m->signature : "serving_default";
    for (int i = 0; !st && i < all.n_signatures; i++)
        if (strcmp(all.signatures[i].name, wanted) == 0) {
            *out = &all.signatures[i];
            return RT_OK;
        }
    return st ? st
              : rt_fail(err, RT_NOT_FOUND, "model \"%s\" has no signature \"%s\"", m->name, wanted);
}

/* ---- all models ---- */

/* The value of label model="..." in a line of the metrics. */
static char *model_label(const char *line, const char *end, struct rt_arena *arena)
{
    static const char key[] = "model=\"";
    const char *p = line;
    while (p < end && strncmp(p, key, sizeof key - 1) != 0)
        p++;
    if (p >= end)
        return NULL;
    p += sizeof key - 1;
    char *name = rt_arena_alloc(arena, (size_t)(end - p) + 1), *q = name;
    if (!name)
        return NULL;
    for (; p < end && *p != '"'; p++) {
        bool escaped = *p == '\\' && p + 1 < end;
        p += escaped;
        *q++ = escaped && *p == 'n' ? '\n' : *p;
    }
    *q = '\0';
    return name;
}

enum rt_status cl_remote_models(struct cl_remote *r, struct rt_arena *arena, const char ***out,
                                int *n, struct rt_error *err)
{
    static const char series[] = "slipway_model_state{";
    enum { MAX_MODELS = 10000 };
    struct rt_bytes page;
    *n = 0;
    if (!r->rest)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "gRPC has no list of models: name one, or give --server http://HOST:PORT");
    if (!(*out = rt_arena_array(arena, MAX_MODELS, sizeof **out)))
        return rt_fail_memory(err, "names", 0);
    rt_bytes_init(&page, MAX_ANSWER);
    enum rt_status st =
        cl_rest(r, "GET", "/monitoring/prometheus/metrics", (struct rt_span){0}, &page, err);
    if (st)
        rt_fail_prefix(err, "the server's metrics, which list its models: ");
    for (const char *p = page.p; !st && p && *p; p += *p != '\0') {
        const char *end = p + strcspn(p, "\n");
        char *name = strncmp(p, series, sizeof series - 1) == 0 ? model_label(p, end, arena) : NULL;
        bool known = !name;
        for (int i = 0; i < *n && !known; i++)
            known = strcmp((*out)[i], name) == 0;
        if (!known && *n < MAX_MODELS)
            (*out)[(*n)++] = name;
        p = end;
    }
    rt_bytes_clear(&page);
    return st;
}
