#include "clients/cli/rest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"

/* ---- calls ---- */

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
                       struct rt_span body, struct rt_bytes *response, struct rt_error *err)
{
    int http = 0;
    int64_t deadline = r->timeout_ms ? rt_now_ns() + r->timeout_ms * 1000000 : RT_NEVER;
    if (!path)
        return rt_fail_memory(err, "a path", 0);
    enum rt_status st =
        cl_http_request(r->rest, method, path, body, deadline, &http, response, err);
    return st ? st : http == 200 ? RT_OK : refused(http, response, err);
}

static enum rt_status get_json(struct cl_remote *r, const char *path, json_t **out,
                               struct rt_error *err)
{
    struct rt_bytes response;
    *out = NULL;
    rt_bytes_init(&response, r->max_bytes);
    enum rt_status st = cl_rest(r, "GET", path, (struct rt_span){0}, &response, err);
    if (!st)
        st = cl_json_load(rt_span_of(response.p, response.n), out, err);
    rt_bytes_clear(&response);
    return st;
}

static const char *text_of(const json_t *o, const char *key, struct rt_arena *arena)
{
    const char *s = json_string_value(json_object_get(o, key));
    return rt_arena_strdup(arena, s ? s : "");
}

/* Reads an int64 member of an object. protobuf's JSON format writes int64 values as strings. */
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

enum rt_status cl_rest_status(struct cl_remote *r, const struct slipway_model *m,
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

enum rt_status cl_rest_metadata(struct cl_remote *r, const struct slipway_model *m,
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

/* ---- all models ---- */

/* Returns the value of the label model="..." in a line of the metrics page, or NULL if the line has
 * no such label or memory runs out. */
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

enum rt_status cl_rest_models(struct cl_remote *r, struct rt_arena *arena, const char ***out,
                              int *n, struct rt_error *err)
{
    static const char series[] = "slipway_model_state{";
    enum { MAX_MODELS = 10000 };
    struct rt_bytes page;
    *n = 0;
    if (!(*out = rt_arena_array(arena, MAX_MODELS, sizeof **out)))
        return rt_fail_memory(err, "names", 0);
    rt_bytes_init(&page, r->max_bytes);
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
