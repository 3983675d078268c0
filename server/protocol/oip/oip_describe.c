/* Implements health, readiness and metadata of the server and its models, in JSON and in
 * protobuf. */
#include "server/protocol/oip/oip_describe.h"

#include <stdio.h>

#include "server/versions/manager.h"
#include "server/triton/triton.h"

static const char *const extensions[] = {
    "binary_tensor_data", "classification", "parameters", "model_configuration",
    "model_repository",   "statistics",     "logging"};

enum { N_EXTENSIONS = sizeof extensions / sizeof *extensions };

/* ---- what is asked, over REST and gRPC ---- */

static enum rt_status find_nothing(struct srv_description *d)
{
    (void)d;
    return RT_OK;
}

static enum rt_status find_ready(struct srv_description *d)
{
    return srv_is_ready(d->server->manager) ? RT_OK
                                            : srv_fail_not_ready(d->server->manager, d->err);
}

enum rt_status srv_oip_find_version(struct srv_description *d)
{
    const enum rt_status st = srv_map_find(d->map, &d->spec, &d->version, d->err);
    return st == RT_NOT_FOUND ? srv_oip_fail_version(d->server->manager, &d->spec, d->arena, d->err)
                              : st;
}

enum rt_status srv_oip_find_signature(struct srv_description *d, const struct rt_signature **out)
{
    const struct rt_span wanted = d->spec.signature;
    const char *own = srv_triton_signature(d->version->triton);
    const char *name =
        wanted.n ? rt_arena_strndup(d->arena, (const char *)wanted.p, wanted.n) : own;
    const struct rt_model_signature *sig = name && (!wanted.n || strlen(name) == wanted.n)
                                               ? rt_model_signature(d->version->loaded, name)
                                               : NULL;

    if (!sig)
        return srv_oip_fail_signature(d->version, wanted.n ? wanted : rt_span_str(own), d->err);
    *out = sig->def;
    return RT_OK;
}

/* Fails with UNAVAILABLE if the model is configured but not ready, and with NOT_FOUND if it is
 * unknown. */
static enum rt_status find_version_ready(struct srv_description *d)
{
    enum rt_status st = srv_oip_find_version(d);

    if (st == RT_NOT_FOUND && srv_has_model(d->server->manager, d->spec.name))
        st = d->err->code = RT_UNAVAILABLE;
    if (!st && atomic_load(&d->server->draining))
        return rt_fail(d->err, RT_UNAVAILABLE, "the server is shutting down");
    return st;
}

enum rt_status srv_oip_check_signature(struct srv_description *d)
{
    const struct rt_signature *sig;

    return d->spec.signature.n ? srv_oip_find_signature(d, &sig) : RT_OK;
}

static enum rt_status find_model_ready(struct srv_description *d)
{
    const enum rt_status st = find_version_ready(d);
    return st ? st : srv_oip_check_signature(d);
}

static enum rt_status check_types(const struct rt_tensor_spec *specs, int n, const char *what,
                                  struct rt_error *err)
{
    for (int i = 0; i < n; i++)
        if (!srv_oip_dtype_name(specs[i].dtype))
            return rt_fail(err, RT_UNIMPLEMENTED,
                           "%s \"%s\" is of type %s, which the Open Inference Protocol does not "
                           "have",
                           what, specs[i].alias, rt_dtype_name(specs[i].dtype));
    return RT_OK;
}

/* Copies the metadata of a model, because the serving map is valid only in this turn of the I/O
 * loop. */
static enum rt_status keep_model(struct srv_description *d, const struct rt_signature *sig)
{
    const struct srv_map_model *known = srv_map_model(d->map, d->spec.name);
    struct srv_oip_model *m = rt_arena_alloc(d->arena, sizeof *m);
    const int n = known ? known->n_versions : 0;

    if (m)
        m->versions = rt_arena_array(d->arena, (size_t)n + 1, sizeof *m->versions);
    if (!m || !m->versions)
        return rt_fail_memory(d->err, "metadata", sizeof *m);
    for (int i = 0; i < n; i++)
        m->versions[i] = known->versions[i]->version;
    m->sig = sig;
    m->n_versions = n;
    d->state = m;
    return RT_OK;
}

enum rt_status srv_oip_find_model(struct srv_description *d)
{
    const struct rt_signature *sig;
    enum rt_status st = srv_oip_find_version(d);

    if (!st)
        st = srv_oip_find_signature(d, &sig);
    if (st)
        return st;
    st = check_types(sig->inputs, sig->n_inputs, "input", d->err);
    if (!st)
        st = check_types(sig->outputs, sig->n_outputs, "output", d->err);
    d->bytes = d->version->loaded->meta_graph->signature_bytes;
    return st ? st : keep_model(d, sig);
}

/* ---- JSON ---- */

static void write_live_json(const struct srv_description *d, struct rt_bytes *out)
{
    (void)d;
    rt_bytes_adds(out, "{\"live\":true}");
}

static void write_ready_json(const struct srv_description *d, struct rt_bytes *out)
{
    (void)d;
    rt_bytes_adds(out, "{\"ready\":true}");
}

static void write_server_json(const struct srv_description *d, struct rt_bytes *out)
{
    rt_bytes_adds(out,
                  "{\"name\":\"slipway\",\"version\":\"" SLIPWAY_VERSION "\",\"extensions\":[");
    for (int i = 0; i < N_EXTENSIONS; i++)
        rt_bytes_addf(out, "%s\"%s\"", i ? "," : "", extensions[i]);
    if (d->server->shared_memory)
        rt_bytes_adds(out, ",\"system_shared_memory\"");
    rt_bytes_adds(out, "]}");
}

static void write_model_ready_json(const struct srv_description *d, struct rt_bytes *out)
{
    const struct rt_span name = srv_oip_full_name(&d->spec);
    srv_oip_json_begin(out, 0, (const char *)name.p, name.n);
    rt_bytes_adds(out, ",\"ready\":true}");
}

static void write_specs_json(struct rt_bytes *out, const struct rt_tensor_spec *specs, int n)
{
    for (int i = 0; i < n; i++) {
        srv_oip_json_begin(out, i, specs[i].alias, strlen(specs[i].alias));
        rt_bytes_addf(out, ",\"datatype\":\"%s\"", srv_oip_dtype_name(specs[i].dtype));
        srv_oip_json_dims(out, "shape", specs[i].shape.rank, specs[i].shape.dim);
        rt_bytes_addc(out, '}');
    }
}

static void write_model_json(const struct srv_description *d, struct rt_bytes *out)
{
    const struct rt_span name = srv_oip_full_name(&d->spec);
    const struct srv_oip_model *m = d->state;
    const struct rt_signature *sig = m->sig;

    srv_oip_json_begin(out, 0, (const char *)name.p, name.n);
    rt_bytes_adds(out, ",\"versions\":[");
    for (int i = 0; i < m->n_versions; i++)
        rt_bytes_addf(out, "%s\"%lld\"", i ? "," : "", (long long)m->versions[i]);
    rt_bytes_adds(out, "],\"platform\":\"tensorflow_savedmodel\",\"inputs\":[");
    write_specs_json(out, sig->inputs, sig->n_inputs);
    rt_bytes_adds(out, "],\"outputs\":[");
    write_specs_json(out, sig->outputs, sig->n_outputs);
    rt_bytes_adds(out, "]}");
}

const struct srv_description_steps srv_oip_live_json = {find_nothing, write_live_json, NULL};
const struct srv_description_steps srv_oip_ready_json = {find_ready, write_ready_json, NULL};
const struct srv_description_steps srv_oip_server_json = {find_nothing, write_server_json, NULL};
const struct srv_description_steps srv_oip_model_ready_json = {find_model_ready,
                                                               write_model_ready_json, NULL};
const struct srv_description_steps srv_oip_model_json = {srv_oip_find_model, write_model_json,
                                                         NULL};

/* ---- messages (proto/inference/grpc_service.proto) ---- */

enum rt_status srv_oip_read_model(struct srv_description *d)
{
    struct srv_cursor at = d->message;
    struct rt_span name = {0}, version = {0};
    struct srv_field f;
    enum rt_status st = RT_OK;
    int got = 0;

    while (!st && (got = srv_field_next(&at, &f)) > 0)
        if (f.type == SRV_BYTES && (f.number == 1 || f.number == 2))
            st = srv_field_span(&f, f.number == 1 ? &name : &version, d->arena, d->err);
    if (!st && got < 0)
        st = srv_wire_malformed(d->err, "a request about a model");
    if (!st)
        st = srv_oip_read_spec(name, version, &d->spec, d->err);
    return st;
}

static enum rt_status find_model_ready_message(struct srv_description *d)
{
    static const bool yes = true, no = false;
    enum rt_status st = srv_oip_read_model(d);

    if (st)
        return st;
    st = find_version_ready(d);
    d->state = st ? &no : &yes;
    if (st == RT_NOT_FOUND || st == RT_UNAVAILABLE)
        st = RT_OK;
    else if (!st)
        st = srv_oip_check_signature(d);
    d->version = NULL;
    return st;
}

static enum rt_status find_ready_message(struct srv_description *d)
{
    static const bool yes = true, no = false;
    d->state = srv_is_ready(d->server->manager) ? &yes : &no;
    return RT_OK;
}

enum rt_status srv_oip_find_model_message(struct srv_description *d)
{
    const enum rt_status st = srv_oip_read_model(d);
    return st ? st : srv_oip_find_model(d);
}

static void write_live(const struct srv_description *d, struct rt_bytes *out)
{
    (void)d;
    srv_put_int(out, 1, true);
}

static void write_ready(const struct srv_description *d, struct rt_bytes *out)
{
    srv_put_int(out, 1, *(const bool *)d->state);
}

static void write_server(const struct srv_description *d, struct rt_bytes *out)
{
    srv_put_text(out, 1, "slipway");
    srv_put_text(out, 2, SLIPWAY_VERSION);
    for (int i = 0; i < N_EXTENSIONS; i++)
        srv_put_text(out, 3, extensions[i]);
    if (d->server->shared_memory)
        srv_put_text(out, 3, "system_shared_memory");
}

static void write_specs(struct rt_bytes *out, uint32_t number, const struct rt_tensor_spec *specs,
                        int n)
{
    for (int i = 0; i < n; i++) {
        struct rt_bytes item, dims;
        rt_bytes_init(&item, out->limit);
        rt_bytes_init(&dims, out->limit);
        srv_put_text(&item, 1, specs[i].alias);
        srv_put_text(&item, 2, srv_oip_dtype_name(specs[i].dtype));
        srv_oip_put_shape(&dims, &specs[i].shape);
        srv_put_message(&item, 3, &dims);
        srv_put_message(out, number, &item);
        rt_bytes_clear(&item);
        rt_bytes_clear(&dims);
    }
}

static void write_model(const struct srv_description *d, struct rt_bytes *out)
{
    const struct rt_span name = srv_oip_full_name(&d->spec);
    const struct srv_oip_model *m = d->state;
    const struct rt_signature *sig = m->sig;

    srv_put_bytes(out, 1, name.p, name.n);
    for (int i = 0; i < m->n_versions; i++) {
        char version[24];
        snprintf(version, sizeof version, "%lld", (long long)m->versions[i]);
        srv_put_text(out, 2, version);
    }
    srv_put_text(out, 3, "tensorflow_savedmodel");
    write_specs(out, 4, sig->inputs, sig->n_inputs);
    write_specs(out, 5, sig->outputs, sig->n_outputs);
}

const struct srv_description_steps srv_oip_live = {find_nothing, write_live, NULL};
const struct srv_description_steps srv_oip_ready = {find_ready_message, write_ready, NULL};
const struct srv_description_steps srv_oip_server = {find_nothing, write_server, NULL};
const struct srv_description_steps srv_oip_model_ready = {find_model_ready_message, write_ready,
                                                          NULL};
const struct srv_description_steps srv_oip_model = {srv_oip_find_model_message, write_model, NULL};

/* ---- what this server does not have ---- */

static enum rt_status find_trace(struct srv_description *d)
{
    return rt_fail(d->err, RT_UNIMPLEMENTED, "this server does not have trace settings");
}

static enum rt_status find_cuda(struct srv_description *d)
{
    return rt_fail(d->err, RT_UNIMPLEMENTED, "this server does not have CUDA shared memory");
}

const struct srv_description_steps srv_oip_refuse_trace = {find_trace, write_live, NULL};
const struct srv_description_steps srv_oip_refuse_cuda = {find_cuda, write_live, NULL};
