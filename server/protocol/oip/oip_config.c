/* Describes the model repository and the configuration of a model. Both calls are Triton's
 * extensions of the protocol. */
#include "server/protocol/oip/oip_describe.h"

#include <stdio.h>

#include "server/triton/triton_labels.h"
#include "server/versions/status.h"

/* ---- the repository's index ---- */

struct index_row {
    const char *model;
    bool has_version; /* false for a model without any version */
    struct srv_version_status status;
};

struct index {
    int n, capacity;
    struct index_row *rows;
};

/* Returns the protocol's name of a version's state. */
static const char *state_name(enum srv_state state)
{
    switch (state) {
    case SRV_START:
    case SRV_LOADING:
        return "LOADING";
    case SRV_AVAILABLE:
        return "READY";
    case SRV_UNLOADING:
        return "UNLOADING";
    case SRV_END:
        return "UNAVAILABLE";
    default:
        return "UNKNOWN";
    }
}

/* Reserves room for n more rows. */
static enum rt_status reserve(struct srv_description *d, struct index *index, int n)
{
    if (n <= index->capacity - index->n)
        return RT_OK;
    const int capacity = 2 * index->capacity + n;
    struct index_row *rows = rt_arena_array(d->arena, (size_t)capacity, sizeof *rows);
    if (!rows)
        return rt_fail_memory(d->err, "the index", sizeof *rows);
    if (index->n)
        memcpy(rows, index->rows, (size_t)index->n * sizeof *rows);
    index->rows = rows;
    index->capacity = capacity;
    return RT_OK;
}

/* Appends a row for a model without any version, with the reason. */
static enum rt_status add_empty(struct srv_description *d, struct index *index, const char *model)
{
    const char *why;
    enum rt_status st = srv_status_problem(d->server->manager, rt_span_str(model), d->arena, &why);

    if (!st)
        st = reserve(d, index, 1);
    if (st)
        return rt_fail_memory(d->err, "the index", 0);
    if (!why)
        why = "no version was found";
    index->rows[index->n++] =
        (struct index_row){model, false, {.state = SRV_END, .code = RT_NOT_FOUND, .message = why}};
    d->bytes += sizeof *index->rows + strlen(why) + strlen(model);
    return RT_OK;
}

/* Appends the versions of a model to the index, and adds their encoded size to d->bytes. */
static enum rt_status add_model(struct srv_description *d, struct index *index, const char *model)
{
    struct rt_error why = {.arena = d->arena};
    struct srv_version_status *versions;
    int n = 0;
    enum rt_status st = srv_status_of(d->server->manager, rt_span_str(model), false, 0, d->arena,
                                      &versions, &n, &why);

    if (st == RT_NOT_FOUND)
        return d->only_ready ? RT_OK : add_empty(d, index, model);
    if (st)
        return rt_fail(d->err, st, "%s", rt_error_text(&why));
    st = reserve(d, index, n);
    for (int i = 0; i < n && !st; i++)
        if (!d->only_ready || versions[i].state == SRV_AVAILABLE)
            index->rows[index->n++] = (struct index_row){model, true, versions[i]};
    d->bytes += srv_status_bytes(versions, n) + (size_t)n * strlen(model);
    return st;
}

/* Counts the rows, which decides where they are gathered. */
static enum rt_status find_rows(struct srv_description *d, bool only_ready)
{
    d->only_ready = only_ready;
    d->n_items = srv_status_size_of_all(d->server->manager);
    d->n_listed = only_ready ? srv_status_size_of_available(d->server->manager) : d->n_items;
    return RT_OK;
}

static enum rt_status gather_rows(struct srv_description *d)
{
    struct index *index = rt_arena_alloc(d->arena, sizeof *index);
    const char *const *models;
    int n = 0;

    if (!index)
        return rt_fail_memory(d->err, "the index", sizeof *index);
    enum rt_status st = srv_status_models(d->server->manager, d->only_ready, d->arena, &models, &n);
    if (st)
        return rt_fail_memory(d->err, "the index", 0);
    for (int i = 0; i < n && !st; i++)
        st = add_model(d, index, models[i]);
    d->state = index;
    return st;
}

/* Reads the request body {"ready": BOOL}, which may be empty. Limits its size because the body is
 * parsed on the I/O loop. */
static enum rt_status find_index_json(struct srv_description *d)
{
    enum { MOST = 1 << 16 };
    struct srv_json_doc doc;
    struct rt_span body, key;
    struct srv_json value;
    bool only_ready = false;

    if (d->message.left > MOST)
        return rt_fail(d->err, RT_INVALID_ARGUMENT,
                       "a request for the index has at most %d bytes, but this one has %zu", MOST,
                       d->message.left);
    enum rt_status st = srv_cursor_span(d->message, &body, d->arena, d->err);
    if (!st && body.n)
        st = srv_json_check(&doc, body, NULL, d->err);
    if (st)
        return st;
    const unsigned char *at = body.n ? srv_json_first(doc.top) : NULL;
    while (at && srv_json_member(&at, doc.top, &key, &value))
        if (srv_json_token_is(key, "ready", 5))
            only_ready = srv_json_type(value) == SRV_JSON_TRUE;
    return find_rows(d, only_ready);
}

static void write_index_json(const struct srv_description *d, struct rt_bytes *out)
{
    const struct index *index = d->state;

    rt_bytes_addc(out, '[');
    for (int i = 0; i < index->n; i++) {
        const struct index_row *row = &index->rows[i];
        const char *reason = row->status.message ? row->status.message : "";
        srv_oip_json_begin(out, i, row->model, strlen(row->model));
        if (row->has_version)
            rt_bytes_addf(out, ",\"version\":\"%lld\"", (long long)row->status.version);
        rt_bytes_addf(out, ",\"state\":\"%s\",\"reason\":", state_name(row->status.state));
        srv_json_quote(out, reason, strlen(reason));
        rt_bytes_addc(out, '}');
    }
    rt_bytes_addc(out, ']');
}

/* Reads a RepositoryIndexRequest. Field 2 is `ready`. */
static enum rt_status find_index(struct srv_description *d)
{
    struct srv_cursor at = d->message;
    struct srv_field f;
    bool only_ready = false;
    int got;

    while ((got = srv_field_next(&at, &f)) > 0)
        if (srv_field_is(&f, 2, SRV_VARINT))
            only_ready = f.value != 0;
    return got < 0 ? srv_wire_malformed(d->err, "RepositoryIndexRequest")
                   : find_rows(d, only_ready);
}

static void write_index(const struct srv_description *d, struct rt_bytes *out)
{
    const struct index *index = d->state;
    struct rt_bytes item;
    char version[24];

    rt_bytes_init(&item, out->limit);
    for (int i = 0; i < index->n; i++) {
        const struct index_row *row = &index->rows[i];
        snprintf(version, sizeof version, "%lld", (long long)row->status.version);
        srv_put_text(&item, 1, row->model);
        if (row->has_version)
            srv_put_text(&item, 2, version);
        srv_put_text(&item, 3, state_name(row->status.state));
        srv_put_text(&item, 4, row->status.message ? row->status.message : "");
        srv_put_message(out, 1, &item);
    }
    rt_bytes_clear(&item);
}

const struct srv_description_steps srv_oip_index_json = {find_index_json, write_index_json,
                                                         gather_rows};
const struct srv_description_steps srv_oip_index = {find_index, write_index, gather_rows};

/* ---- the configuration of a model ---- */

/* Returns the name of the file with the labels of an output's classes, or NULL. */
static const char *label_file(const struct srv_description *d, const char *output)
{
    const struct srv_oip_model *m = d->state;
    const struct srv_triton_labels *l = srv_triton_labels(d->version->triton, m->sig->name, output);
    return l ? l->filename : NULL;
}

/* Appends the inputs or outputs of the model. */
static void write_tensors_json(const struct srv_description *d, struct rt_bytes *out,
                               const struct rt_tensor_spec *specs, int n, bool are_outputs)
{
    const char *type;

    for (int i = 0; i < n; i++) {
        const char *labels = are_outputs ? label_file(d, specs[i].alias) : NULL;
        srv_triton_type(specs[i].dtype, &type);
        srv_oip_json_begin(out, i, specs[i].alias, strlen(specs[i].alias));
        rt_bytes_addf(out, ",\"data_type\":\"TYPE_%s\"", type);
        srv_oip_json_dims(out, "dims", specs[i].shape.rank, specs[i].shape.dim);
        if (labels) {
            rt_bytes_adds(out, ",\"label_filename\":");
            srv_json_quote(out, labels, strlen(labels));
        }
        rt_bytes_addc(out, '}');
    }
}

static void write_config_json(const struct srv_description *d, struct rt_bytes *out)
{
    const struct srv_oip_model *m = d->state;
    const struct rt_span name = srv_oip_full_name(&d->spec);

    srv_oip_json_begin(out, 0, (const char *)name.p, name.n);
    rt_bytes_adds(out, ",\"platform\":\"tensorflow_savedmodel\",\"backend\":\"tensorflow\","
                       "\"max_batch_size\":0,\"input\":[");
    write_tensors_json(d, out, m->sig->inputs, m->sig->n_inputs, false);
    rt_bytes_adds(out, "],\"output\":[");
    write_tensors_json(d, out, m->sig->outputs, m->sig->n_outputs, true);
    rt_bytes_adds(out, "]}");
}

/* Appends one ModelInput message per input, or one ModelOutput message per output. Field 4 of
 * ModelInput is the dimensions. In ModelOutput these are field 3, and field 4 is label_filename. */
static void write_tensors(const struct srv_description *d, struct rt_bytes *out,
                          const struct rt_tensor_spec *specs, int n, bool are_outputs)
{
    const char *type, *labels;
    struct rt_bytes item, dims;

    rt_bytes_init(&item, out->limit);
    rt_bytes_init(&dims, out->limit);
    for (int i = 0; i < n; i++) {
        srv_put_text(&item, 1, specs[i].alias);
        srv_put_int(&item, 2, (uint64_t)srv_triton_type(specs[i].dtype, &type));
        srv_oip_put_shape(&dims, &specs[i].shape);
        srv_put_message(&item, are_outputs ? 3 : 4, &dims);
        labels = are_outputs ? label_file(d, specs[i].alias) : NULL;
        if (labels)
            srv_put_text(&item, 4, labels);
        srv_put_message(out, are_outputs ? 6 : 5, &item);
    }
    rt_bytes_clear(&item);
    rt_bytes_clear(&dims);
}

static void write_config(const struct srv_description *d, struct rt_bytes *out)
{
    const struct srv_oip_model *m = d->state;
    const struct rt_span name = srv_oip_full_name(&d->spec);
    struct rt_bytes config;

    rt_bytes_init(&config, out->limit);
    srv_put_bytes(&config, 1, name.p, name.n);
    srv_put_text(&config, 2, "tensorflow_savedmodel");
    write_tensors(d, &config, m->sig->inputs, m->sig->n_inputs, false);
    write_tensors(d, &config, m->sig->outputs, m->sig->n_outputs, true);
    srv_put_text(&config, 17, "tensorflow");
    srv_put_message(out, 1, &config);
    rt_bytes_clear(&config);
}

static enum rt_status find_config(struct srv_description *d)
{
    const enum rt_status st = srv_oip_find_model(d);
    if (!st)
        d->bytes += srv_triton_label_file_bytes(d->version->triton);
    return st;
}

static enum rt_status find_config_message(struct srv_description *d)
{
    const enum rt_status st = srv_oip_read_model(d);
    return st ? st : find_config(d);
}

const struct srv_description_steps srv_oip_config_json = {find_config, write_config_json, NULL};
const struct srv_description_steps srv_oip_config = {find_config_message, write_config, NULL};
