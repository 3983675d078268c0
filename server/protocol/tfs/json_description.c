/* Describes models in protobuf's JSON format: GetModelMetadata and GetModelStatus over REST. */
#include <stdio.h>
#include <string.h>

#include "proto/unpack.h"
#include "runtime/base/arena.h"
#include "server/json/json.h"
#include "server/json/json_number.h"
#include "server/protocol/tfs/tfs.h"
#include "server/versions/status.h"
#include "tensorflow/core/framework/tensor.pb-c.h"

/* ---- protobuf's JSON: one space a level, "key": value, empty lists and maps on one line ---- */

static void indent(struct rt_bytes *out, int depth)
{
    static const char spaces[] = "                                ";
    rt_bytes_addc(out, '\n');
    rt_bytes_add(out, spaces, (size_t)depth < sizeof spaces ? (size_t)depth : sizeof spaces - 1);
}

/* Quotes a string as protobuf's JSON printer does. The printer uses RapidJSON's escapes, and also
 * escapes < and >. */
static void quote(struct rt_bytes *out, const char *s)
{
    size_t n = strcspn(s, "<>");
    if (!s[n]) {
        srv_json_quote(out, s, n);
        return;
    }
    rt_bytes_addc(out, '"');
    while (*s) {
        n = strcspn(s, "<>");
        if (n) { /* srv_json_quote adds quotes, which are removed here */
            size_t from = out->n;
            srv_json_quote(out, s, n);
            if (out->failed)
                return;
            memmove(out->p + from, out->p + from + 1, out->n - from - 2);
            out->n -= 2;
        }
        s += n;
        if (*s)
            rt_bytes_adds(out, *s++ == '<' ? "\\u003c" : "\\u003e");
    }
    rt_bytes_addc(out, '"');
}

/* Writes `"name": `, indented according to `depth`. A comma precedes every member except the
 * first. */
static void key(struct rt_bytes *out, int depth, bool first, const char *name)
{
    if (!first)
        rt_bytes_addc(out, ',');
    indent(out, depth);
    quote(out, name);
    rt_bytes_adds(out, ": ");
}

static void key_text(struct rt_bytes *out, int depth, bool first, const char *name,
                     const char *text)
{
    key(out, depth, first, name);
    quote(out, text);
}

static void close_at(struct rt_bytes *out, int depth, char bracket)
{
    indent(out, depth);
    rt_bytes_addc(out, bracket);
}

static void write_int64(struct rt_bytes *out, int64_t x)
{
    rt_bytes_addf(out, "\"%lld\"", (long long)x);
}

/* ---- metadata ---- */

static void write_shape(struct rt_bytes *out, int depth, int rank, const int64_t *dim)
{
    rt_bytes_addc(out, '{');
    key(out, depth + 1, true, "dim");
    rt_bytes_addc(out, '[');
    for (int i = 0; i < rank; i++) {
        if (i)
            rt_bytes_addc(out, ',');
        indent(out, depth + 2);
        rt_bytes_addc(out, '{');
        key(out, depth + 3, true, "size");
        write_int64(out, dim[i]);
        key_text(out, depth + 3, false, "name", "");
        close_at(out, depth + 2, '}');
    }
    if (rank > 0)
        close_at(out, depth + 1, ']');
    else
        rt_bytes_addc(out, ']');
    key(out, depth + 1, false, "unknown_rank");
    rt_bytes_adds(out, rank < 0 ? "true" : "false");
    close_at(out, depth, '}');
}

static void write_specs(struct rt_bytes *out, int depth, const struct rt_tensor_spec *specs, int n)
{
    rt_bytes_addc(out, '{');
    for (int i = 0; i < n; i++) {
        key(out, depth + 1, i == 0, specs[i].alias);
        rt_bytes_addc(out, '{');
        key_text(out, depth + 2, true, "dtype", rt_dtype_proto_name(specs[i].dtype));
        key(out, depth + 2, false, "tensor_shape");
        write_shape(out, depth + 2, specs[i].shape.rank, specs[i].shape.dim);
        key_text(out, depth + 2, false, "name", specs[i].name);
        close_at(out, depth + 1, '}');
    }
    if (n)
        close_at(out, depth, '}');
    else
        rt_bytes_addc(out, '}');
}

/* Writes element i of the array `p`, which contains the values of field `f` of a TensorProto. */
static void write_element(struct rt_bytes *out, const ProtobufCFieldDescriptor *f, const void *p,
                          size_t i)
{
    char buffer[SRV_NUMBER_BYTES];
    size_t n = 0;

    switch (f->type) {
    case PROTOBUF_C_TYPE_FLOAT:
        n = srv_float_write(buffer, ((const float *)p)[i]);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        n = srv_double_write(buffer, ((const double *)p)[i]);
        break;
    case PROTOBUF_C_TYPE_INT32:
        rt_bytes_addf(out, "%d", ((const int32_t *)p)[i]);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        rt_bytes_addf(out, "%u", ((const uint32_t *)p)[i]);
        break;
    case PROTOBUF_C_TYPE_INT64:
        write_int64(out, ((const int64_t *)p)[i]);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        rt_bytes_addf(out, "\"%llu\"", (unsigned long long)((const uint64_t *)p)[i]);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        rt_bytes_adds(out, ((const protobuf_c_boolean *)p)[i] ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_BYTES: {
        const ProtobufCBinaryData *s = &((const ProtobufCBinaryData *)p)[i];
        srv_json_base64(out, s->data, s->len);
        break;
    }
    default:
        rt_bytes_adds(out, "null");
    }
    if (n) { /* NaN and infinities are quoted */
        const bool is_quoted = buffer[n - 1] == 'N' || buffer[n - 1] == 'y';
        rt_bytes_addf(out, is_quoted ? "\"%.*s\"" : "%.*s", (int)n, buffer);
    }
}

/* Writes the values of the repeated field `name` of a TensorProto. */
static void write_elements(struct rt_bytes *out, int depth, const Tensorflow__TensorProto *t,
                           const char *name)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(t->base.descriptor, name);
    const char *message = (const char *)t;
    /* Only values of resource handles and variants are messages, and default values never have
     * these types. */
    const size_t n = f->type == PROTOBUF_C_TYPE_MESSAGE
                         ? 0
                         : *(const size_t *)(const void *)(message + f->quantifier_offset);
    const void *elements = *(void *const *)(const void *)(message + f->offset);

    rt_bytes_addc(out, '[');
    for (size_t i = 0; i < n && !out->failed; i++) {
        if (i)
            rt_bytes_addc(out, ',');
        indent(out, depth + 1);
        write_element(out, f, elements, i);
    }
    if (n)
        close_at(out, depth, ']');
    else
        rt_bytes_addc(out, ']');
}

/* Writes a default value from its encoded form, in which one value may represent millions of
 * elements. */
static void write_default(struct rt_bytes *out, int depth, const struct rt_tensor_spec *spec)
{
    static const char *const fields[] = {
        "half_val",     "float_val",  "double_val", "int_val",      "string_val",
        "scomplex_val", "int64_val",  "bool_val",   "dcomplex_val", "resource_handle_val",
        "variant_val",  "uint32_val", "uint64_val"};
    const struct rt_tensor *t = spec->default_value;
    struct rt_error err = {0};
    Tensorflow__TensorProto *proto =
        pb_unpack(&tensorflow__tensor_proto__descriptor, spec->default_proto, "a default", &err);

    /* Unpacking fails only if memory runs out, because the bytes were well formed when the model
     * was loaded. */
    if (!proto) {
        rt_bytes_no_memory(out);
        return;
    }
    rt_bytes_addc(out, '{');
    key_text(out, depth + 1, true, "dtype", rt_dtype_proto_name((enum rt_dtype)t->dtype));
    key(out, depth + 1, false, "tensor_shape");
    write_shape(out, depth + 1, t->rank, t->dim);
    key(out, depth + 1, false, "version_number");
    rt_bytes_addf(out, "%d", proto->version_number);
    key(out, depth + 1, false, "tensor_content");
    srv_json_base64(out, proto->tensor_content.data, proto->tensor_content.len);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        key(out, depth + 1, false, fields[i]);
        write_elements(out, depth + 1, proto, fields[i]);
    }
    close_at(out, depth, '}');
    pb_free(proto);
}

static void write_defaults(struct rt_bytes *out, int depth, const struct rt_signature *s)
{
    bool any = false;
    rt_bytes_addc(out, '{');
    for (int i = 0; i < s->n_inputs; i++) {
        if (!s->inputs[i].default_value)
            continue;
        key(out, depth + 1, !any, s->inputs[i].alias);
        write_default(out, depth + 1, &s->inputs[i]);
        any = true;
    }
    if (any)
        close_at(out, depth, '}');
    else
        rt_bytes_addc(out, '}');
}

void srv_tfs_write_metadata_json(struct rt_bytes *out, const char *model, int64_t version,
                                 const struct rt_meta_graph *graph)
{
    rt_bytes_adds(out, "{\n\"model_spec\":{");
    key_text(out, 1, true, "name", model);
    key_text(out, 1, false, "signature_name", "");
    key(out, 1, false, "version");
    write_int64(out, version);
    rt_bytes_adds(out, "\n}\n,\n\"metadata\": {\"signature_def\": {");
    key(out, 1, true, "signature_def");
    rt_bytes_addc(out, '{');
    for (int i = 0; i <= graph->n_signatures; i++) {
        const struct rt_signature *s =
            i < graph->n_signatures ? &graph->signatures[i] : graph->init_signature;
        if (!s)
            break;
        key(out, 2, i == 0, s->name);
        rt_bytes_addc(out, '{');
        key(out, 3, true, "inputs");
        write_specs(out, 3, s->inputs, s->n_inputs);
        key(out, 3, false, "outputs");
        write_specs(out, 3, s->outputs, s->n_outputs);
        key_text(out, 3, false, "method_name", s->method_name);
        key(out, 3, false, "defaults");
        write_defaults(out, 3, s);
        close_at(out, 2, '}');
    }
    if (graph->n_signatures || graph->init_signature)
        close_at(out, 1, '}');
    else
        rt_bytes_addc(out, '}');
    rt_bytes_adds(out, "\n}\n}\n}\n");
}

static enum rt_status find_metadata(struct srv_description *d)
{
    enum rt_status st = srv_map_find(d->map, &d->spec, &d->version, d->err);

    if (!st)
        d->bytes = d->version->loaded->meta_graph->signature_bytes;
    return st;
}

static void write_metadata(const struct srv_description *d, struct rt_bytes *out)
{
    const struct srv_version *v = d->version;
    srv_tfs_write_metadata_json(out, v->model, v->version, v->loaded->meta_graph);
}

const struct srv_description_steps srv_tfs_metadata_json = {find_metadata, write_metadata, NULL};

/* ---- status ---- */

void srv_tfs_write_status_json(struct rt_bytes *out, const struct srv_version_status *versions,
                               int n)
{
    rt_bytes_addc(out, '{');
    key(out, 1, true, "model_version_status");
    rt_bytes_addc(out, '[');
    for (int i = 0; i < n; i++) {
        const struct srv_version_status *v = &versions[i];
        if (i)
            rt_bytes_addc(out, ',');
        indent(out, 2);
        rt_bytes_addc(out, '{');
        key(out, 3, true, "version");
        write_int64(out, v->version);
        key_text(out, 3, false, "state", srv_state_name(v->state));
        key(out, 3, false, "status");
        rt_bytes_addc(out, '{');
        key_text(out, 4, true, "error_code", rt_status_name(v->code));
        key_text(out, 4, false, "error_message", v->message ? v->message : "");
        close_at(out, 3, '}');
        close_at(out, 2, '}');
    }
    if (n)
        close_at(out, 1, ']');
    else
        rt_bytes_addc(out, ']');
    rt_bytes_adds(out, "\n}\n");
}

enum rt_status srv_tfs_find_status(struct srv_description *d)
{
    d->n_items = d->spec.has_version ? 1 : srv_status_size(d->server->manager, d->spec.name);
    d->n_listed = d->n_items;
    return RT_OK;
}

enum rt_status srv_tfs_gather_status(struct srv_description *d)
{
    const struct srv_model_spec *spec = &d->spec; /* a label is ignored, as in TensorFlow Serving */
    enum rt_status st = srv_status_of(d->server->manager, spec->name, spec->has_version,
                                      spec->version, d->arena, &d->versions, &d->n, d->err);

    if (!st)
        d->bytes = srv_status_bytes(d->versions, d->n);
    return st;
}

static void write_status(const struct srv_description *d, struct rt_bytes *out)
{
    srv_tfs_write_status_json(out, d->versions, d->n);
}

const struct srv_description_steps srv_tfs_status_json = {srv_tfs_find_status, write_status,
                                                          srv_tfs_gather_status};
