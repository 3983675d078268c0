#include "clients/c/message.h"

#include <stdlib.h>
#include <string.h>

#include "proto/text.h"
#include "proto/unpack.h"
#include "proto/wire.h"
#include "tensorflow_serving/apis/get_model_metadata.pb-c.h"
#include "tensorflow_serving/apis/get_model_status.pb-c.h"
#include "tensorflow_serving/apis/model_management.pb-c.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensor_content is little-endian, and is copied as it is"
#endif

/* ---- writing ---- */

void cl_put_varint(struct rt_bytes *out, uint64_t v)
{
    for (; v > 127; v >>= 7)
        rt_bytes_addc(out, (char)(v | 128));
    rt_bytes_addc(out, (char)v);
}

static void put_int(struct rt_bytes *out, uint32_t number, uint64_t v)
{
    cl_put_varint(out, (uint64_t)number << 3 | PB_VARINT);
    cl_put_varint(out, v);
}

void cl_put_bytes(struct rt_bytes *out, uint32_t number, const void *p, size_t n)
{
    cl_put_varint(out, (uint64_t)number << 3 | PB_BYTES);
    cl_put_varint(out, n);
    if (n)
        rt_bytes_add(out, p, n);
}

static void put_text(struct rt_bytes *out, uint32_t number, const char *s)
{
    cl_put_bytes(out, number, s, strlen(s));
}

static size_t varint_size(uint64_t v)
{
    size_t n = 1;
    for (; v > 127; v >>= 7)
        n++;
    return n;
}

/* Appends the message in `inner` to *out as a field, and empties `inner`. The message needs its own
 * buffer, because its length precedes its contents. */
static void put_message(struct rt_bytes *out, uint32_t number, struct rt_bytes *inner)
{
    cl_put_bytes(out, number, inner->p, inner->n);
    out->failed |= inner->failed;
    rt_bytes_clear(inner);
}

void cl_put_model(struct rt_bytes *out, const struct slipway_model *model)
{
    struct rt_bytes spec, version;
    rt_bytes_init(&spec, SIZE_MAX);
    rt_bytes_init(&version, 64);
    put_text(&spec, 1, model->name ? model->name : "");
    if (model->has_version) {
        put_int(&version, 1, (uint64_t)model->version);
        put_message(&spec, 2, &version);
    } else if (model->label)
        put_text(&spec, 4, model->label);
    if (model->signature)
        put_text(&spec, 3, model->signature);
    put_message(out, 1, &spec);
}

static enum rt_status check_tensor(const struct slipway_tensor *t, int64_t *count,
                                   struct rt_error *err)
{
    const char *name = t->name ? t->name : "";
    size_t size = slipway_dtype_size(t->dtype);
    if (!size)
        return rt_fail(err, RT_INVALID_ARGUMENT, "input \"%s\": dtype %d is not known", name,
                       t->dtype);
    *count = slipway_count(t);
    if (*count < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "input \"%s\": rank %d is out of range, or a dimension is negative or the "
                       "product of all does not fit",
                       name, t->rank);
    if ((uint64_t)*count > SIZE_MAX / 2 / size)
        return rt_fail(err, RT_INVALID_ARGUMENT, "input \"%s\": %lld elements are too many", name,
                       (long long)*count);
    if (*count && !t->data)
        return rt_fail(err, RT_INVALID_ARGUMENT, "input \"%s\" has no data", name);
    return RT_OK;
}

static void write_shape(struct rt_bytes *out, const struct slipway_tensor *t)
{
    struct rt_bytes shape, dim;
    rt_bytes_init(&shape, 4096);
    rt_bytes_init(&dim, 64);
    for (int i = 0; i < t->rank; i++) {
        put_int(&dim, 1, (uint64_t)t->dim[i]);
        put_message(&shape, 2, &dim);
    }
    put_int(out, 1, (uint64_t)t->dtype);
    put_message(out, 2, &shape);
}

static size_t value_bytes(const struct slipway_tensor *t, int64_t count)
{
    if (t->dtype != SLIPWAY_STRING)
        return (size_t)count * slipway_dtype_size(t->dtype);
    size_t n = 0;
    const struct slipway_string *s = t->data;
    for (int64_t i = 0; i < count; i++)
        n += 1 + varint_size(s[i].n) + s[i].n;
    return n;
}

/* Returns the length of a serialized tensor. Because the length is known in advance, the values can
 * be written directly to the request. */
static size_t tensor_bytes(const struct rt_bytes *head, const struct slipway_tensor *t, size_t n)
{
    return head->n + (t->dtype == SLIPWAY_STRING ? n : n ? 1 + varint_size(n) + n : 0);
}

static void put_values(struct rt_bytes *out, const struct slipway_tensor *t, int64_t count,
                       size_t n)
{
    const struct slipway_string *s = t->data;
    if (t->dtype != SLIPWAY_STRING) {
        if (n)
            cl_put_bytes(out, 4, t->data, n);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        cl_put_bytes(out, 8, s[i].p, s[i].n);
}

static enum rt_status put_input(struct rt_bytes *out, const struct slipway_tensor *t,
                                struct rt_error *err)
{
    int64_t count = 0;
    if (!t->name)
        return rt_fail(err, RT_INVALID_ARGUMENT, "an input has no name");
    enum rt_status st = check_tensor(t, &count, err);
    if (st)
        return st;
    struct rt_bytes head;
    rt_bytes_init(&head, 8192);
    write_shape(&head, t);
    size_t values = value_bytes(t, count), tensor = tensor_bytes(&head, t, values);
    size_t name = strlen(t->name);
    cl_put_varint(out, 2 << 3 | PB_BYTES);
    cl_put_varint(out, 1 + varint_size(name) + name + 1 + varint_size(tensor) + tensor);
    cl_put_bytes(out, 1, t->name, name);
    cl_put_varint(out, 2 << 3 | PB_BYTES);
    cl_put_varint(out, tensor);
    rt_bytes_add(out, head.p, head.n);
    out->failed |= head.failed;
    rt_bytes_clear(&head);
    put_values(out, t, count, values);
    return RT_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct slipway_tensor *const *)a)->name,
                  (*(const struct slipway_tensor *const *)b)->name);
}

/* Fails if two inputs have the same name. A protobuf map would silently drop one of them. */
static enum rt_status check_names(const struct slipway_tensor *inputs, int n, struct rt_error *err)
{
    const struct slipway_tensor **sorted = calloc((size_t)n + 1, sizeof *sorted);
    enum rt_status st = RT_OK;
    if (!sorted)
        return rt_fail_memory(err, "the inputs' names", (size_t)n * sizeof *sorted);
    for (int i = 0; i < n && !st; i++) {
        sorted[i] = &inputs[i];
        if (!inputs[i].name)
            st = rt_fail(err, RT_INVALID_ARGUMENT, "input %d has no name", i);
    }
    if (!st && n)
        qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    for (int i = 1; i < n && !st; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            st = rt_fail(err, RT_INVALID_ARGUMENT, "input \"%s\" is given twice", sorted[i]->name);
    free(sorted);
    return st;
}

enum rt_status cl_write_predict(struct rt_bytes *out, const struct slipway_model *model,
                                const struct slipway_tensor *inputs, int n_inputs,
                                const char *const *outputs, int n_outputs, struct rt_error *err)
{
    if (!model->name || !*model->name)
        return rt_fail(err, RT_INVALID_ARGUMENT, "no model is named");
    enum rt_status st = check_names(inputs, n_inputs, err);
    cl_put_model(out, model);
    for (int i = 0; i < n_inputs && !st; i++)
        st = put_input(out, &inputs[i], err);
    for (int i = 0; i < n_outputs && !st; i++)
        put_text(out, 3, outputs[i]);
    return st;
}

void cl_write_status_request(struct rt_bytes *out, const struct slipway_model *model)
{
    cl_put_model(out, model);
}

void cl_write_metadata_request(struct rt_bytes *out, const struct slipway_model *model)
{
    cl_put_model(out, model);
    put_text(out, 2, "signature_def");
}

enum rt_status cl_write_reload_request(struct rt_bytes *out, const char *config,
                                       struct rt_error *err)
{
    ProtobufCMessage *m = NULL;
    enum rt_status st = pb_text_parse(&m, &tensorflow__serving__model_server_config__descriptor,
                                      rt_span_str(config), err);
    if (st)
        return st;
    size_t n = protobuf_c_message_get_packed_size(m);
    cl_put_varint(out, 1 << 3 | PB_BYTES);
    cl_put_varint(out, n);
    if (rt_bytes_reserve(out, n)) {
        protobuf_c_message_pack(m, (uint8_t *)out->p + out->n);
        out->n += n;
        out->p[out->n] = '\0';
    }
    pb_free(m);
    return RT_OK;
}

/* ---- reading tensors ---- */

/* The TensorProto field with the values of a data type, and their encoding. */
enum values_kind { AS_VARINT, AS_FIXED32, AS_FIXED64, AS_STRINGS };
struct values_field {
    uint32_t number;
    enum values_kind kind;
    int per_element;
};

static struct values_field values_field(int dtype)
{
    switch (dtype) {
    case SLIPWAY_FLOAT:
        return (struct values_field){5, AS_FIXED32, 1};
    case SLIPWAY_DOUBLE:
        return (struct values_field){6, AS_FIXED64, 1};
    case SLIPWAY_STRING:
        return (struct values_field){8, AS_STRINGS, 1};
    case SLIPWAY_COMPLEX64:
        return (struct values_field){9, AS_FIXED32, 2};
    case SLIPWAY_INT64:
        return (struct values_field){10, AS_VARINT, 1};
    case SLIPWAY_BOOL:
        return (struct values_field){11, AS_VARINT, 1};
    case SLIPWAY_COMPLEX128:
        return (struct values_field){12, AS_FIXED64, 2};
    case SLIPWAY_HALF:
    case SLIPWAY_BFLOAT16:
        return (struct values_field){13, AS_VARINT, 1};
    case SLIPWAY_UINT32:
        return (struct values_field){16, AS_VARINT, 1};
    case SLIPWAY_UINT64:
        return (struct values_field){17, AS_VARINT, 1};
    default:
        return (struct values_field){7, AS_VARINT, 1};
    }
}

static enum rt_status not_a(struct rt_error *err, const char *what)
{
    return rt_fail(err, RT_DATA_LOSS, "the answer holds what is not a %s", what);
}

static enum rt_status read_shape(struct rt_span message, struct slipway_tensor *out,
                                 struct rt_error *err)
{
    struct pb_field f, d;
    int more;
    while ((more = pb_field_next(&message, &f)) > 0) {
        if (f.number != 2 || f.type != PB_BYTES)
            continue;
        if (out->rank == SLIPWAY_MAX_RANK)
            return rt_fail(err, RT_DATA_LOSS, "a tensor of more than %d dimensions",
                           SLIPWAY_MAX_RANK);
        int64_t *dim = &out->dim[out->rank++];
        *dim = 0;
        while ((more = pb_field_next(&f.bytes, &d)) > 0)
            if (d.number == 1 && d.type == PB_VARINT)
                *dim = (int64_t)d.value;
        if (more < 0)
            return not_a(err, "TensorShapeProto");
    }
    return more < 0 ? not_a(err, "TensorShapeProto") : RT_OK;
}

/* Writes the `size` low-order bytes of `v`, a decoded value, to dst. */
static void put_element(char *dst, size_t size, int dtype, uint64_t v)
{
    if (dtype == SLIPWAY_BOOL)
        v = v != 0;
    memcpy(dst, &v, size); /* the CPU is little-endian, so the lowest bytes come first */
}

/*
 * Copies at most `capacity` values of a field to dst. Returns the number of values, or -1 if the
 * field is malformed. `size` is the size in bytes of a value in memory. An element of a complex
 * type has two values.
 */
static int64_t read_values(struct rt_span message, struct values_field field, int dtype, char *dst,
                           size_t size, int64_t capacity)
{
    struct pb_field f;
    int64_t n = 0;
    while (pb_field_next(&message, &f) > 0) {
        if (f.number != field.number)
            continue;
        if (f.type != PB_BYTES) { /* an unpacked field contains one value */
            if (n < capacity)
                put_element(dst + (size_t)n * size, size, dtype, f.value);
            n += n < capacity;
            continue;
        }
        if (field.kind == AS_VARINT) {
            uint64_t v;
            while (f.bytes.n && n < capacity) {
                if (!pb_varint(&f.bytes, &v))
                    return -1;
                put_element(dst + (size_t)n++ * size, size, dtype, v);
            }
            continue;
        }
        size_t width = field.kind == AS_FIXED32 ? 4 : 8;
        if (f.bytes.n % width)
            return -1;
        int64_t more = (int64_t)(f.bytes.n / width);
        if (more > capacity - n)
            more = capacity - n;
        if (more)
            memcpy(dst + (size_t)n * size, f.bytes.p, (size_t)more * width);
        n += more;
    }
    return n;
}

static enum rt_status read_strings(struct rt_span message, struct rt_arena *arena, size_t *budget,
                                   struct slipway_string *dst, int64_t count, struct rt_error *err)
{
    struct pb_field f;
    int64_t n = 0;
    while (n < count && pb_field_next(&message, &f) > 0) {
        if (f.number != 8 || f.type != PB_BYTES)
            continue;
        char *p = f.bytes.n < *budget ? rt_arena_strndup(arena, (const char *)f.bytes.p, f.bytes.n)
                                      : NULL;
        if (!p)
            return rt_fail_memory(err, "a string", f.bytes.n);
        *budget -= f.bytes.n + 1;
        dst[n++] = (struct slipway_string){p, f.bytes.n};
    }
    for (struct slipway_string last = n ? dst[n - 1] : (struct slipway_string){"", 0}; n < count;)
        dst[n++] = last;
    return RT_OK;
}

enum rt_status cl_read_tensor(struct rt_span message, struct rt_arena *arena, size_t *budget,
                              struct slipway_tensor *out, struct rt_error *err)
{
    struct pb_field f;
    struct rt_span rest = message, content = {0};
    enum rt_status st = RT_OK;
    int more;

    out->dtype = out->rank = 0;
    out->data = NULL;
    while (!st && (more = pb_field_next(&rest, &f)) > 0) {
        if (f.number == 1 && f.type == PB_VARINT)
            out->dtype = f.value <= INT32_MAX ? (int)f.value : -1;
        else if (f.number == 2 && f.type == PB_BYTES)
            st = read_shape(f.bytes, out, err);
        else if (f.number == 4 && f.type == PB_BYTES)
            content = f.bytes;
    }
    if (st)
        return st;
    if (more < 0)
        return not_a(err, "TensorProto");
    size_t size = slipway_dtype_size(out->dtype);
    if (!size)
        return rt_fail(err, RT_UNIMPLEMENTED, "a tensor of dtype %d, which is not known here",
                       out->dtype);
    int64_t count = slipway_count(out);
    if (count < 0)
        return rt_fail(err, RT_DATA_LOSS, "a tensor's shape is not one");
    if (!count)
        return RT_OK;
    if ((uint64_t)count > *budget / size)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "a tensor of %lld elements is larger than the limit", (long long)count);
    char *data = rt_arena_array(arena, (size_t)count, size);
    if (!data)
        return rt_fail_memory(err, "a tensor", (size_t)count * size);
    *budget -= (size_t)count * size;
    out->data = data;
    struct values_field field = values_field(out->dtype);
    if (field.kind == AS_STRINGS)
        return read_strings(message, arena, budget, (struct slipway_string *)data, count, err);
    if (content.n) {
        if (content.n != (size_t)count * size)
            return rt_fail(err, RT_DATA_LOSS, "a tensor of %lld elements holds %zu bytes",
                           (long long)count, content.n);
        memcpy(data, content.p, content.n);
        for (int64_t i = 0; out->dtype == SLIPWAY_BOOL && i < count; i++)
            data[i] = data[i] != 0;
        return RT_OK;
    }
    size_t part = size / (size_t)field.per_element;
    int64_t n = read_values(message, field, out->dtype, data, part, count * field.per_element);
    if (n < 0 || n % field.per_element)
        return not_a(err, "TensorProto");
    n /= field.per_element;
    /* A TensorProto may omit trailing values that equal the last one. */
    for (; n && n < count; n++)
        memcpy(data + (size_t)n * size, data + (size_t)(n - 1) * size, size);
    return RT_OK;
}

/* ---- reading responses ---- */

static char *copy_text(struct rt_arena *arena, struct rt_span s)
{
    return rt_arena_strndup(arena, s.n ? (const char *)s.p : "", s.n);
}

static enum rt_status read_model(struct rt_span message, struct rt_arena *arena,
                                 struct slipway_model *out, struct rt_error *err)
{
    struct pb_field f, v;
    int more;
    while ((more = pb_field_next(&message, &f)) > 0) {
        if (f.type != PB_BYTES)
            continue;
        const char **text = f.number == 1   ? &out->name
                            : f.number == 3 ? &out->signature
                            : f.number == 4 ? &out->label
                                            : NULL;
        if (text && !(*text = copy_text(arena, f.bytes)))
            return rt_fail_memory(err, "a name", f.bytes.n);
        if (f.number != 2)
            continue;
        out->has_version = true;
        out->version = 0;
        while ((more = pb_field_next(&f.bytes, &v)) > 0)
            if (v.number == 1 && v.type == PB_VARINT)
                out->version = (int64_t)v.value;
        if (more < 0)
            break;
    }
    return more < 0 ? not_a(err, "ModelSpec") : RT_OK;
}

static int tensors_by_name(const void *a, const void *b)
{
    return strcmp(((const struct slipway_tensor *)a)->name,
                  ((const struct slipway_tensor *)b)->name);
}

/* Reads one entry of a map<string, TensorProto> field. */
static enum rt_status read_named(struct rt_span entry, struct rt_arena *arena, size_t *budget,
                                 struct slipway_tensor *out, struct rt_error *err)
{
    struct pb_field f;
    struct rt_span name = {0}, tensor = {0};
    int more;
    while ((more = pb_field_next(&entry, &f)) > 0) {
        if (f.number == 1 && f.type == PB_BYTES)
            name = f.bytes;
        else if (f.number == 2 && f.type == PB_BYTES)
            tensor = f.bytes;
    }
    if (more < 0)
        return not_a(err, "map of tensors");
    if (!(out->name = copy_text(arena, name)))
        return rt_fail_memory(err, "a name", name.n);
    enum rt_status st = cl_read_tensor(tensor, arena, budget, out, err);
    if (st)
        rt_fail_prefix(err, "\"%s\": ", out->name);
    return st;
}

enum { OUTPUTS = 1, MODEL_SPEC = 2 }; /* field numbers of the PredictResponse message */

static enum rt_status read_outputs(struct rt_span message, struct rt_arena *arena, size_t *budget,
                                   struct slipway_model *model, struct slipway_tensor **out,
                                   int *n_out, struct rt_error *err)
{
    struct pb_field f;
    struct rt_span rest = message;
    enum rt_status st = RT_OK;
    int more;
    size_t n = 0;
    *n_out = 0;
    while ((more = pb_field_next(&rest, &f)) > 0)
        n += f.number == OUTPUTS && f.type == PB_BYTES;
    if (more < 0)
        return not_a(err, "message of tensors");
    if (n > INT32_MAX / 2 || n > *budget / sizeof **out)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "%zu tensors are too many", n);
    *budget -= n * sizeof **out;
    if (!(*out = rt_arena_array(arena, n + 1, sizeof **out)))
        return rt_fail_memory(err, "tensors", n * sizeof **out);
    while (!st && pb_field_next(&message, &f) > 0) {
        if (f.type != PB_BYTES)
            continue;
        if (f.number == MODEL_SPEC)
            st = read_model(f.bytes, arena, model, err);
        else if (f.number == OUTPUTS)
            st = read_named(f.bytes, arena, budget, *out + (*n_out)++, err);
    }
    if (!st)
        qsort(*out, (size_t)*n_out, sizeof **out, tensors_by_name);
    return st;
}

enum rt_status cl_read_predict(struct rt_span message, struct rt_arena *arena, size_t *budget,
                               struct slipway_answer *out, struct rt_error *err)
{
    struct slipway_model model = {0};
    struct slipway_tensor *tensors;
    int n;
    enum rt_status st = read_outputs(message, arena, budget, &model, &tensors, &n, err);
    if (st)
        return st;
    *out = (struct slipway_answer){.model = model.name ? model.name : "",
                                   .signature = model.signature ? model.signature : "",
                                   .version = model.version,
                                   .n_outputs = n,
                                   .outputs = tensors};
    return RT_OK;
}

/* Unpacks a message from the server. A malformed message fails with DATA_LOSS instead of
 * INVALID_ARGUMENT. */
static void *unpack(const ProtobufCMessageDescriptor *d, struct rt_span message,
                    struct rt_error *err)
{
    void *m = pb_unpack(d, message, "the answer", err);
    if (!m)
        err->code = pb_unpack_failed(err, RT_DATA_LOSS);
    return m;
}

enum rt_status cl_read_status(struct rt_span message, struct rt_arena *arena,
                              struct slipway_status *out, struct rt_error *err)
{
    Tensorflow__Serving__GetModelStatusResponse *m =
        unpack(&tensorflow__serving__get_model_status_response__descriptor, message, err);
    if (!m)
        return RT_DATA_LOSS;
    size_t n = m->n_model_version_status;
    struct slipway_version *versions = rt_arena_array(arena, n + 1, sizeof *versions);
    bool ok = versions && n <= INT32_MAX;
    for (size_t i = 0; ok && i < n; i++) {
        const Tensorflow__Serving__ModelVersionStatus *s = m->model_version_status[i];
        versions[i] = (struct slipway_version){
            .version = s->version,
            .state = (int)s->state,
            .why = s->status ? (enum slipway_code)s->status->error_code : SLIPWAY_OK,
            .text = rt_arena_strdup(arena, s->status ? s->status->error_message : ""),
        };
        ok = versions[i].text != NULL;
    }
    if (ok)
        *out = (struct slipway_status){.n_versions = (int)n, .versions = versions};
    pb_free(m);
    return ok ? RT_OK : rt_fail_memory(err, "versions", n * sizeof *versions);
}

enum rt_status cl_read_reload(struct rt_span message, struct rt_error *err)
{
    Tensorflow__Serving__ReloadConfigResponse *m =
        unpack(&tensorflow__serving__reload_config_response__descriptor, message, err);
    if (!m)
        return RT_DATA_LOSS;
    enum rt_status st = RT_OK;
    int code = m->status ? (int)m->status->error_code : RT_OK;
    if (code != RT_OK)
        st =
            rt_fail(err, code > 0 && code <= RT_UNAUTHENTICATED ? (enum rt_status)code : RT_UNKNOWN,
                    "%s", m->status->error_message);
    else if (m->status)
        rt_fail(err, RT_OK, "%s", m->status->error_message);
    pb_free(m);
    return st;
}

/* ---- metadata ---- */

static int inputs_by_name(const void *a, const void *b)
{
    return strcmp(((const struct slipway_input *)a)->name, ((const struct slipway_input *)b)->name);
}

static int signatures_by_name(const void *a, const void *b)
{
    return strcmp(((const struct slipway_signature *)a)->name,
                  ((const struct slipway_signature *)b)->name);
}

/* Reads an input or output of a signature. protobuf-c generates different types for the entries of
 * the maps `inputs` and `outputs`, so the callers pass the key and the value of an entry. */
static bool read_info(struct rt_arena *arena, const char *name, const Tensorflow__TensorInfo *info,
                      struct slipway_input *out)
{
    out->name = rt_arena_strdup(arena, name);
    bool is_dense = info && info->encoding_case == TENSORFLOW__TENSOR_INFO__ENCODING_NAME;
    out->tensor_name = rt_arena_strdup(arena, is_dense ? info->name : "");
    out->dtype = info ? (int)info->dtype : 0;
    const Tensorflow__TensorShapeProto *shape = info ? info->tensor_shape : NULL;
    out->rank =
        !shape || shape->unknown_rank || shape->n_dim > SLIPWAY_MAX_RANK ? -1 : (int)shape->n_dim;
    for (int i = 0; i < out->rank; i++)
        out->dim[i] = shape->dim[i]->size;
    return out->name && out->tensor_name;
}

static bool read_signature(struct rt_arena *arena, const char *name,
                           const Tensorflow__SignatureDef *def, struct slipway_signature *out)
{
    size_t n_in = def ? def->n_inputs : 0, n_out = def ? def->n_outputs : 0;
    struct slipway_input *in = rt_arena_array(arena, n_in + 1, sizeof *in);
    struct slipway_input *outs = rt_arena_array(arena, n_out + 1, sizeof *outs);
    out->name = rt_arena_strdup(arena, name);
    out->method = rt_arena_strdup(arena, def ? def->method_name : "");
    bool ok = in && outs && out->name && out->method && n_in < INT32_MAX && n_out < INT32_MAX;
    for (size_t i = 0; ok && i < n_in; i++)
        ok = read_info(arena, def->inputs[i]->key, def->inputs[i]->value, &in[i]);
    for (size_t i = 0; ok && i < n_out; i++)
        ok = read_info(arena, def->outputs[i]->key, def->outputs[i]->value, &outs[i]);
    if (!ok)
        return false;
    qsort(in, n_in, sizeof *in, inputs_by_name);
    qsort(outs, n_out, sizeof *outs, inputs_by_name);
    out->inputs = in;
    out->outputs = outs;
    out->n_inputs = (int)n_in;
    out->n_outputs = (int)n_out;
    return true;
}

enum rt_status cl_read_metadata(struct rt_span message, struct rt_arena *arena,
                                struct slipway_metadata *out, struct rt_error *err)
{
    Tensorflow__Serving__GetModelMetadataResponse *m =
        unpack(&tensorflow__serving__get_model_metadata_response__descriptor, message, err);
    if (!m)
        return RT_DATA_LOSS;
    Tensorflow__Serving__SignatureDefMap *map = NULL;
    enum rt_status st = RT_OK;
    *out = (struct slipway_metadata){0};
    for (size_t i = 0; i < m->n_metadata && !map && !st; i++) {
        if (strcmp(m->metadata[i]->key, "signature_def") != 0 || !m->metadata[i]->value)
            continue;
        const ProtobufCBinaryData *any = &m->metadata[i]->value->value;
        map = unpack(&tensorflow__serving__signature_def_map__descriptor,
                     rt_span_of(any->data, any->len), err);
        st = map ? RT_OK : RT_DATA_LOSS;
    }
    size_t n = map ? map->n_signature_def : 0;
    struct slipway_signature *s = rt_arena_array(arena, n + 1, sizeof *s);
    const char *name = rt_arena_strdup(arena, m->model_spec ? m->model_spec->name : "");
    bool ok = s && name && n < INT32_MAX;
    for (size_t i = 0; ok && i < n; i++)
        ok = read_signature(arena, map->signature_def[i]->key, map->signature_def[i]->value, &s[i]);
    if (!ok && !st)
        st = rt_fail_memory(err, "signatures", n * sizeof *s);
    if (!st) {
        qsort(s, n, sizeof *s, signatures_by_name);
        bool has_version =
            m->model_spec && m->model_spec->version_choice_case ==
                                 TENSORFLOW__SERVING__MODEL_SPEC__VERSION_CHOICE_VERSION;
        out->model = name;
        out->version = has_version && m->model_spec->version ? m->model_spec->version->value : 0;
        out->n_signatures = (int)n;
        out->signatures = s;
    }
    pb_free(map);
    pb_free(m);
    return st;
}
