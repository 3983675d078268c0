/* Implements GetModelMetadata and GetModelStatus over gRPC. */
#include "server/protocol/tfs/model_spec.h"
#include "server/protocol/tfs/tfs.h"
#include "server/versions/status.h"

/* Reads a request whose field 1 is a ModelSpec. If `fields` is not NULL, field 2 is a list of
 * strings, which the function stores in `fields`. */
static enum rt_status read_request(struct srv_description *d, struct rt_span *fields, int capacity,
                                   int *n_fields)
{
    struct srv_cursor at = d->message;
    struct srv_field f;
    bool has_spec = false;
    enum rt_status st = RT_OK;
    int got;

    d->spec = (struct srv_model_spec){.has_version = false};
    while (!st && (got = srv_field_next(&at, &f)) > 0) {
        if (f.type != SRV_BYTES)
            continue;
        if (f.number == 1) {
            has_spec = true;
            st = srv_model_spec_read(f.body, &d->spec, d->arena, d->err);
        } else if (f.number == 2 && fields) {
            if (*n_fields == capacity)
                return rt_fail(d->err, RT_INVALID_ARGUMENT, "more than %d metadata_fields",
                               capacity);
            st = srv_field_span(&f, &fields[(*n_fields)++], d->arena, d->err);
        }
    }
    if (st)
        return st;
    if (got < 0)
        return srv_wire_malformed(d->err,
                                  fields ? "GetModelMetadataRequest" : "GetModelStatusRequest");
    if (!has_spec)
        return rt_fail(d->err, RT_INVALID_ARGUMENT, "Missing ModelSpec");
    return RT_OK;
}

/* ---- GetModelMetadata ---- */

static void put_shape(struct rt_bytes *out, struct rt_bytes *scratch, const struct rt_shape *shape)
{
    if (shape->rank < 0)
        srv_put_int(scratch, 3, 1);
    for (int i = 0; i < shape->rank; i++) {
        struct rt_bytes dim;
        rt_bytes_init(&dim, 64);
        srv_put_int(&dim, 1, (uint64_t)shape->dim[i]);
        srv_put_message(scratch, 2, &dim);
        rt_bytes_clear(&dim);
    }
    srv_put_message(out, 3, scratch);
}

/* Writes an entry of a map<string, message> field. */
static void put_entry(struct rt_bytes *out, uint32_t number, const char *key,
                      struct rt_bytes *value)
{
    struct rt_bytes entry;
    rt_bytes_init(&entry, value->limit);
    srv_put_bytes(&entry, 1, key, strlen(key));
    srv_put_message(&entry, 2, value);
    srv_put_message(out, number, &entry);
    rt_bytes_clear(&entry);
}

static void put_specs(struct rt_bytes *out, uint32_t number, const struct rt_tensor_spec *specs,
                      int n)
{
    struct rt_bytes info, shape;
    rt_bytes_init(&info, out->limit);
    rt_bytes_init(&shape, out->limit);
    for (int i = 0; i < n; i++) {
        srv_put_text(&info, 1, specs[i].name);
        srv_put_int(&info, 2, specs[i].dtype);
        put_shape(&info, &shape, &specs[i].shape);
        put_entry(out, number, specs[i].alias, &info);
    }
    rt_bytes_clear(&info);
    rt_bytes_clear(&shape);
}

static void put_signature(struct rt_bytes *out, const struct rt_signature *sig)
{
    struct rt_bytes value;
    rt_bytes_init(&value, out->limit);
    put_specs(out, 1, sig->inputs, sig->n_inputs);
    put_specs(out, 2, sig->outputs, sig->n_outputs);
    srv_put_text(out, 3, sig->method_name);
    for (int i = 0; i < sig->n_inputs; i++)
        if (sig->inputs[i].default_value) {
            const struct rt_span proto = sig->inputs[i].default_proto;
            rt_bytes_add(&value, proto.p, proto.n);
            put_entry(out, 4, sig->inputs[i].alias, &value);
        }
    rt_bytes_clear(&value);
}

static void write_metadata(const struct srv_description *d, struct rt_bytes *out)
{
    static const char type[] = "type.googleapis.com/tensorflow.serving.SignatureDefMap";
    const struct srv_version *v = d->version;
    const struct rt_meta_graph *g = v->loaded->meta_graph;
    struct rt_bytes map, item;

    rt_bytes_init(&map, out->limit);
    rt_bytes_init(&item, out->limit);
    for (int i = 0; i <= g->n_signatures; i++) {
        const struct rt_signature *s = i < g->n_signatures ? &g->signatures[i] : g->init_signature;
        if (!s)
            break;
        put_signature(&item, s);
        put_entry(&map, 1, s->name, &item);
    }
    srv_model_echo_put(out, &(struct srv_model_echo){v->model, "", v->version}, 1);
    srv_put_text(&item, 1, type);
    srv_put_message(&item, 2, &map);
    put_entry(out, 2, "signature_def", &item);
    rt_bytes_clear(&map);
    rt_bytes_clear(&item);
}

static enum rt_status find_metadata(struct srv_description *d)
{
    enum { MAX_FIELDS = 16 };
    struct rt_span fields[MAX_FIELDS];
    struct srv_model_spec *spec = &d->spec;
    int n_fields = 0;
    enum rt_status st = read_request(d, fields, MAX_FIELDS, &n_fields);

    if (st)
        return st;
    if (!n_fields)
        return rt_fail(d->err, RT_INVALID_ARGUMENT,
                       "GetModelMetadataRequest must specify at least one metadata_field");
    for (int i = 0; i < n_fields; i++)
        if (!rt_span_is(fields[i], "signature_def")) {
            const struct rt_span field = rt_error_name(d->err, fields[i]);
            return rt_fail(d->err, RT_INVALID_ARGUMENT, "Metadata field %.*s is not supported",
                           (int)field.n, (const char *)field.p);
        }
    if (!spec->name.n)
        return rt_fail(d->err, RT_INVALID_ARGUMENT, "ModelSpec has no name specified.");
    st = srv_map_find(d->map, spec, &d->version, d->err);
    if (!st)
        d->bytes = d->version->loaded->meta_graph->signature_bytes;
    return st;
}

const struct srv_description_steps srv_tfs_metadata = {find_metadata, write_metadata, NULL};

/* ---- GetModelStatus ---- */

static void write_status(const struct srv_description *d, struct rt_bytes *out)
{
    struct rt_bytes one, status;

    rt_bytes_init(&one, out->limit);
    rt_bytes_init(&status, out->limit);
    for (int i = 0; i < d->n; i++) {
        const struct srv_version_status *v = &d->versions[i];
        srv_put_int(&status, 1, (uint64_t)v->code);
        srv_put_text(&status, 2, v->message);
        srv_put_int(&one, 1, (uint64_t)v->version);
        srv_put_int(&one, 2, (uint64_t)v->state);
        srv_put_message(&one, 3, &status);
        srv_put_message(out, 1, &one);
    }
    rt_bytes_clear(&one);
    rt_bytes_clear(&status);
}

static enum rt_status find_status(struct srv_description *d)
{
    enum rt_status st = read_request(d, NULL, 0, NULL);

    /* As in TensorFlow Serving, a label is ignored, and an empty name fails like a model without
     * versions. */
    return st ? st : srv_tfs_find_status(d);
}

const struct srv_description_steps srv_tfs_status = {find_status, write_status,
                                                     srv_tfs_gather_status};
