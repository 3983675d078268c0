/* Reads ModelInferRequest and writes ModelInferResponse messages
 * (proto/inference/grpc_service.proto). Responses contain the tensors as raw bytes. */
#include "server/protocol/oip/oip.h"

#include <stdio.h>

#include "server/protocol/tfs/tfs.h"

/* ---- reading ---- */

struct reader {
    struct srv_inference *inf;
    struct srv_oip_request *r;
    struct rt_error *err;
};

static enum rt_status malformed(const struct reader *r)
{
    return srv_wire_malformed(r->err, "ModelInferRequest");
}

/* Copies a string that the response must repeat, because the request message is freed before the
 * run. */
static enum rt_status copy_text(const struct reader *r, const struct srv_field *f,
                                struct rt_span *out)
{
    struct srv_cursor body = f->body;
    const size_t n = body.left;
    char *p = rt_arena_aligned(r->inf->arena, n + 1, 1);

    if (!p)
        return rt_fail_memory(r->err, "a request", n);
    srv_cursor_copy(&body, p, n);
    *out = rt_span_of(p, n);
    return RT_OK;
}

/* Reads an InferParameter message. A later field of the oneof replaces an earlier one. */
static enum rt_status read_value(const struct reader *r, struct srv_cursor message,
                                 struct srv_oip_value *out)
{
    struct srv_field f;
    int got;

    while ((got = srv_field_next(&message, &f)) > 0) {
        *out = (struct srv_oip_value){
            .is_bool = srv_field_is(&f, 1, SRV_VARINT),
            .is_number = f.type == SRV_VARINT && (f.number == 2 || f.number == 5),
            .is_text = srv_field_is(&f, 3, SRV_BYTES),
            .is_set = f.type == SRV_BYTES ? f.body.left > 0 : f.value != 0,
            .number = f.value};
        if (out->is_text && copy_text(r, &f, &out->text))
            return r->err->code;
    }
    return got < 0 ? malformed(r) : RT_OK;
}

/* Reads an entry of a map of parameters. For an input or output, `region` points to the region of
 * this input or output. For the request, `region` is NULL. `n_classes` points to the number of
 * classes of an output, and is NULL for an input and for the request. */
static enum rt_status read_parameter(const struct reader *r, struct srv_cursor entry,
                                     struct srv_oip_region *region, uint64_t *n_classes)
{
    struct srv_oip_value v = {0};
    struct rt_span key = rt_span_of("", 0);
    struct srv_field f;
    enum rt_status st = RT_OK;
    int got = 0;

    while (!st && (got = srv_field_next(&entry, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_BYTES))
            st = srv_field_span(&f, &key, r->inf->arena, r->err);
        else if (srv_field_is(&f, 2, SRV_BYTES))
            st = read_value(r, f.body, &v);
    }
    if (st || got < 0)
        return st ? st : malformed(r);
    if (region)
        return srv_oip_tensor_parameter(region, n_classes, key, &v, r->err);
    return srv_oip_request_parameter(r->inf, key, &v, r->err);
}

static enum rt_status add_dim(const struct reader *r, struct srv_oip_input *in, uint64_t dim)
{
    if (in->rank == RT_MAX_RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "the shape of an input has more than %d dimensions", RT_MAX_RANK);
    in->dim[in->rank++] = (int64_t)dim;
    return RT_OK;
}

static enum rt_status read_dims(const struct reader *r, struct srv_oip_input *in,
                                struct srv_field *f)
{
    enum rt_status st = RT_OK;
    uint64_t dim;

    if (f->type == SRV_VARINT)
        return add_dim(r, in, f->value);
    while (!st && f->body.left)
        st = srv_cursor_varint(&f->body, &dim) ? add_dim(r, in, dim) : malformed(r);
    return st;
}

static enum rt_status read_input_field(const struct reader *r, struct srv_oip_input *in,
                                       struct srv_field *f, struct rt_span *type)
{
    if (f->number == 3 && (f->type == SRV_VARINT || f->type == SRV_BYTES))
        return read_dims(r, in, f);
    if (f->type != SRV_BYTES)
        return RT_OK;
    switch (f->number) {
    case 1:
        return srv_field_span(f, &in->name, r->inf->arena, r->err);
    case 2:
        return srv_field_span(f, type, r->inf->arena, r->err);
    case 4:
        return read_parameter(r, f->body, &in->region, NULL);
    case 5:
        in->has_contents = true;
        in->values = f->body;
        return RT_OK;
    default:
        return RT_OK;
    }
}

/* Prepends the name of an input or output to an error of its fields, if the name is known. */
static enum rt_status name_tensor(struct rt_error *err, const char *what, struct rt_span name)
{
    const struct rt_span shown = rt_error_name(err, name);

    return shown.n ? rt_fail_prefix(err, "%s \"%.*s\": ", what,
                                    (int)(shown.n < 100 ? shown.n : 100), (const char *)shown.p)
                   : err->code;
}

static enum rt_status read_input(const struct reader *r, struct srv_cursor message)
{
    struct srv_oip_input *in = &r->r->inputs[r->r->n_inputs++];
    struct rt_span type = rt_span_of("", 0);
    struct srv_field f;
    enum rt_status st = RT_OK;
    int got = 0;

    in->name = type;
    while (!st && (got = srv_field_next(&message, &f)) > 0)
        st = read_input_field(r, in, &f, &type);
    if (st || got < 0)
        return st ? name_tensor(r->err, "input", in->name) : malformed(r);
    in->dtype = srv_oip_dtype(type);
    if (in->dtype)
        return srv_oip_check_region(&in->region, in->name, r->err);
    srv_oip_fail_dtype(type, r->err);
    return name_tensor(r->err, "input", in->name);
}

static enum rt_status read_output(const struct reader *r, struct srv_cursor message)
{
    struct srv_oip_output *o = &r->r->outputs[r->r->n_outputs++];
    struct srv_field f;
    enum rt_status st = RT_OK;
    int got = 0;

    o->name = rt_span_of("", 0);
    while (!st && (got = srv_field_next(&message, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_BYTES))
            st = srv_field_span(&f, &o->name, r->inf->arena, r->err);
        else if (srv_field_is(&f, 2, SRV_BYTES))
            st = read_parameter(r, f.body, &o->region, &o->n_classes);
    }
    if (st)
        return name_tensor(r->err, "output", o->name);
    if (!st && got >= 0)
        st = srv_oip_check_region(&o->region, o->name, r->err);
    return st || got >= 0 ? st : malformed(r);
}

/* The fields of a ModelInferRequest outside its inputs and outputs. */
struct top {
    int n_inputs, n_outputs, n_raw;
    struct rt_span name, version;
    struct srv_cursor *raw;
};

/* Reads the request's id, so that errors in all other fields are answered with it, and counts the
 * tensors. The id is set also if the message is malformed behind it. */
static enum rt_status read_outline(const struct reader *r, struct srv_cursor at, struct top *t)
{
    struct srv_field f, id = {.number = 0};
    int got;

    while ((got = srv_field_next(&at, &f)) > 0) {
        if (srv_field_is(&f, 3, SRV_BYTES))
            id = f;
        t->n_inputs += srv_field_is(&f, 5, SRV_BYTES);
        t->n_outputs += srv_field_is(&f, 6, SRV_BYTES);
        t->n_raw += srv_field_is(&f, 7, SRV_BYTES);
    }
    if (id.number && copy_text(r, &id, &r->r->id))
        return r->err->code;
    if (!srv_oip_is_utf8(r->r->id)) {
        r->r->id = rt_span_of(NULL, 0); /* a response must not repeat it */
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "the request's id is not UTF-8");
    }
    if (t->n_inputs > SRV_OIP_MAX_TENSORS || t->n_outputs > SRV_OIP_MAX_TENSORS ||
        t->n_raw > SRV_OIP_MAX_TENSORS)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "the request has more than %d inputs, outputs or raw_input_contents",
                       SRV_OIP_MAX_TENSORS);
    if (got < 0)
        return malformed(r);
    r->r->inputs = rt_arena_array(r->inf->arena, (size_t)t->n_inputs + 1, sizeof *r->r->inputs);
    r->r->outputs = rt_arena_array(r->inf->arena, (size_t)t->n_outputs + 1, sizeof *r->r->outputs);
    t->raw = rt_arena_array(r->inf->arena, (size_t)t->n_raw + 1, sizeof *t->raw);
    return r->r->inputs && r->r->outputs && t->raw ? RT_OK : rt_fail_memory(r->err, "a request", 0);
}

static enum rt_status read_field(const struct reader *r, struct srv_field *f, struct top *t)
{
    switch (f->number) {
    case 1:
        return copy_text(r, f, &t->name);
    case 2:
        return srv_field_span(f, &t->version, r->inf->arena, r->err);
    case 4:
        return read_parameter(r, f->body, NULL, NULL);
    case 5:
        return read_input(r, f->body);
    case 6:
        return read_output(r, f->body);
    case 7:
        t->raw[t->n_raw++] = f->body;
        return RT_OK;
    default:
        return RT_OK;
    }
}

/* Sets the values of each input. They are in raw_input_contents or in the input itself.
 * raw_input_contents has one element per input that is not in shared memory. */
static enum rt_status share_raw(const struct reader *r, const struct top *t)
{
    int n_inputs = 0, k = 0;

    for (int i = 0; i < r->r->n_inputs; i++)
        n_inputs += !r->r->inputs[i].region.name.p;
    if (t->n_raw && t->n_raw != n_inputs)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "the request has %d raw_input_contents for %d inputs", t->n_raw, n_inputs);
    for (int i = 0; i < r->r->n_inputs; i++) {
        struct srv_oip_input *in = &r->r->inputs[i];
        if (in->region.name.p && in->has_contents)
            return srv_oip_fail_input(r->err, in->name,
                                      "has contents, which must not stand beside shared memory");
        if (in->region.name.p)
            continue;
        if (t->n_raw && in->has_contents)
            return srv_oip_fail_input(r->err, in->name,
                                      "has contents, which must not stand beside "
                                      "raw_input_contents");
        if (!t->n_raw)
            continue;
        in->is_raw = true;
        in->values = t->raw[k++];
    }
    return RT_OK;
}

static enum rt_status read(struct srv_inference *inf, struct srv_cursor message,
                           struct rt_error *err)
{
    struct srv_oip_request *r = rt_arena_alloc(inf->arena, sizeof *r);
    const struct reader reader = {inf, r, err};
    struct top t = {.name = rt_span_of("", 0)};
    struct srv_field f;
    int got = 0;

    if (!r)
        return rt_fail_memory(err, "a request", sizeof *r);
    inf->request = r;
    enum rt_status st = read_outline(&reader, message, &t);
    t.n_raw = 0;
    while (!st && (got = srv_field_next(&message, &f)) > 0)
        if (f.type == SRV_BYTES)
            st = read_field(&reader, &f, &t);
    if (!st && got < 0)
        st = malformed(&reader);
    if (!st)
        st = srv_oip_read_spec(t.name, t.version, &inf->spec, err);
    return st ? st : share_raw(&reader, &t);
}

/* ---- InferTensorContents ---- */

/* Returns the number of the field that contains the values of a type, or 0 if there is none. */
static uint32_t field_of(enum rt_dtype dtype)
{
    switch (dtype) {
    case RT_BOOL:
        return 1;
    case RT_I8:
    case RT_I16:
    case RT_I32:
        return 2;
    case RT_I64:
        return 3;
    case RT_U8:
    case RT_U16:
    case RT_U32:
        return 4;
    case RT_U64:
        return 5;
    case RT_F32:
        return 6;
    case RT_F64:
        return 7;
    case RT_STRING:
        return 8;
    default:
        return 0;
    }
}

/* Stores the value of a varint as element i. Returns false if the value is out of the range of the
 * type. */
static bool store(enum rt_dtype dtype, void *to, int64_t i, uint64_t value)
{
    const int32_t x = (int32_t)value;
    const uint32_t u = (uint32_t)value;

    switch (dtype) {
    case RT_BOOL:
        ((uint8_t *)to)[i] = value != 0;
        return true;
    case RT_I8:
        ((int8_t *)to)[i] = (int8_t)x;
        return x >= INT8_MIN && x <= INT8_MAX;
    case RT_I16:
        ((int16_t *)to)[i] = (int16_t)x;
        return x >= INT16_MIN && x <= INT16_MAX;
    case RT_U8:
        ((uint8_t *)to)[i] = (uint8_t)u;
        return u <= UINT8_MAX;
    case RT_U16:
        ((uint16_t *)to)[i] = (uint16_t)u;
        return u <= UINT16_MAX;
    case RT_I32:
    case RT_U32:
    case RT_F32: /* `u` is the bit pattern of the float */
        ((uint32_t *)to)[i] = u;
        return true;
    default:
        ((uint64_t *)to)[i] = value;
        return true;
    }
}

/* Reads the values of a packed or unpacked field into the tensor, beginning at element *at.
 * Advances *at. */
static enum rt_status read_values(const struct srv_oip_input *in, struct srv_field *f,
                                  struct rt_tensor *t, int64_t *at, struct srv_allowance *allowance,
                                  struct rt_error *err)
{
    const int64_t n = rt_tensor_count(t);
    const size_t size = in->dtype == RT_F32 ? 4 : in->dtype == RT_F64 ? 8 : 0;
    const bool is_packed = f->type == SRV_BYTES && in->dtype != RT_STRING;

    if (f->type == SRV_BYTES && !is_packed) {
        const size_t bytes = f->body.left;
        enum rt_status st =
            *at == n ? srv_oip_fail_input(err, in->name,
                                          "has more values than its "
                                          "shape takes")
                     : srv_oip_take(allowance, rt_str_counted_bytes(bytes), in->name, err);
        char *to = st ? NULL : rt_str_resize((struct rt_str *)t->data + (*at)++, NULL, bytes, err);
        if (!to)
            return err->code;
        srv_cursor_copy(&f->body, to, bytes);
        return RT_OK;
    }
    if (in->dtype == RT_STRING)
        return srv_wire_malformed(err, "InferTensorContents");
    for (bool more = is_packed ? f->body.left > 0 : true; more; more = is_packed && f->body.left) {
        uint64_t value = f->value;
        if (is_packed && !(*at % SRV_PACKED_PART) &&
            !srv_should_continue(f->body.cancellation, SRV_PACKED_COST))
            return srv_cancellation_status(f->body.cancellation, err);
        if (is_packed &&
            !(size ? srv_cursor_copy(&f->body, &value, size) : srv_cursor_varint(&f->body, &value)))
            return srv_wire_malformed(err, "InferTensorContents");
        if (*at == n)
            return srv_oip_fail_input(err, in->name, "has more values than its shape takes");
        if (!store(in->dtype, t->data, (*at)++, value))
            return srv_oip_fail_input(err, in->name, "has the value %lld, which is none of %s",
                                      (long long)(int64_t)value, srv_oip_dtype_name(in->dtype));
    }
    return RT_OK;
}

enum rt_status srv_oip_fill_contents(const struct srv_oip_input *in, struct rt_tensor *t,
                                     struct srv_allowance *allowance, struct rt_error *err)
{
    const uint32_t number = field_of(in->dtype);
    struct srv_cursor c = in->values;
    struct srv_field f;
    enum rt_status st = RT_OK;
    int64_t at = 0;
    int got = 0;

    if (!number)
        return srv_oip_fail_input(err, in->name,
                                  "is of the datatype %s, which only raw contents have",
                                  srv_oip_dtype_name(in->dtype));
    while (!st && in->has_contents && (got = srv_field_next(&c, &f)) > 0) {
        if (f.number != number && f.number <= 8)
            return srv_oip_fail_input(err, in->name,
                                      "has contents in field %u, but those of %s are in field %u",
                                      f.number, srv_oip_dtype_name(in->dtype), number);
        if (f.number == number)
            st = read_values(in, &f, t, &at, allowance, err);
    }
    if (st)
        return st;
    if (got < 0)
        return srv_wire_malformed(err, "InferTensorContents");
    return at == rt_tensor_count(t)
               ? RT_OK
               : srv_oip_fail_input(err, in->name, "has %lld values, but its shape takes %lld",
                                    (long long)at, (long long)rt_tensor_count(t));
}

/* ---- writing ---- */

void srv_oip_put_dims(struct rt_bytes *out, int rank, const int64_t *dim)
{
    unsigned char bytes[10];

    for (int i = 0; i < rank; i++)
        rt_bytes_add(out, bytes, (size_t)(srv_write_varint(bytes, (uint64_t)dim[i]) - bytes));
}

void srv_oip_put_shape(struct rt_bytes *out, const struct rt_shape *shape)
{
    static const int64_t unknown = -1;

    srv_oip_put_dims(out, shape->rank < 0 ? 1 : shape->rank,
                     shape->rank < 0 ? &unknown : shape->dim);
}

/* Appends a parameter: an entry of the map `parameters` of an output. */
static void put_parameter(struct rt_bytes *out, const char *name, uint64_t number,
                          struct rt_span text)
{
    struct rt_bytes entry, value;

    rt_bytes_init(&entry, SRV_MESSAGE_MOST);
    rt_bytes_init(&value, SRV_MESSAGE_MOST);
    if (text.p)
        srv_put_bytes(&value, 3, text.p, text.n);
    else
        srv_put_int(&value, 2, number);
    srv_put_text(&entry, 1, name);
    srv_put_message(&entry, 2, &value);
    srv_put_message(out, 4, &entry);
    rt_bytes_clear(&entry);
    rt_bytes_clear(&value);
}

static void put_region(struct rt_bytes *out, const struct srv_oip_region *region, size_t bytes)
{
    put_parameter(out, "shared_memory_region", 0, region->name);
    put_parameter(out, "shared_memory_byte_size", bytes, rt_span_of(NULL, 0));
    if (region->offset)
        put_parameter(out, "shared_memory_offset", region->offset, rt_span_of(NULL, 0));
}

/* Returns the size of element i of raw_output_contents. The element is empty if the output is in
 * shared memory, as in Triton's responses. Clients can thus find the other outputs by their index.
 */
static size_t raw_bytes(const struct srv_inference *inf, int i)
{
    const struct srv_oip_request *r = inf->request;
    return srv_oip_in_region(r, i) ? 0 : srv_oip_raw_bytes(srv_oip_result(inf, i));
}

/* Writes all of the response except the values. */
static void write_head(const struct srv_inference *inf, struct rt_bytes *out)
{
    const struct srv_oip_request *r = inf->request;
    const struct srv_job *job = inf->job;
    const struct rt_span name = srv_oip_full_name(&inf->spec);
    struct rt_bytes item, dims;
    char version[24];

    snprintf(version, sizeof version, "%lld", (long long)job->version->version);
    srv_put_bytes(out, 1, name.p, name.n);
    srv_put_text(out, 2, version);
    if (r->id.n)
        srv_put_bytes(out, 3, r->id.p, r->id.n);
    rt_bytes_init(&item, SRV_MESSAGE_MOST);
    rt_bytes_init(&dims, SRV_MESSAGE_MOST);
    for (int i = 0; i < r->n_order; i++) {
        const struct rt_tensor *t = srv_oip_result(inf, i);
        srv_put_text(&item, 1, job->signature->def->outputs[r->order[i]].alias);
        srv_put_text(&item, 2, srv_oip_dtype_name((enum rt_dtype)t->dtype));
        srv_oip_put_dims(&dims, t->rank, t->dim);
        srv_put_message(&item, 3, &dims);
        if (srv_oip_in_region(r, i))
            put_region(&item, &r->order_output[i]->region, srv_oip_raw_bytes(t));
        srv_put_message(out, 5, &item);
    }
    rt_bytes_clear(&item);
    rt_bytes_clear(&dims);
}

static enum rt_status encode(struct srv_inference *inf, struct rt_bytes *out, struct rt_error *err)
{
    const struct srv_oip_request *r = inf->request;
    struct srv_growth *growth = inf->growth;
    struct rt_bytes head, whole;
    unsigned char *p = NULL;
    size_t n = 0;

    enum rt_status st = srv_oip_make_classes(inf, err);
    if (!st)
        st = srv_oip_write_regions(inf, err);
    if (st)
        return st;
    rt_bytes_init(&head, SRV_MESSAGE_MOST);
    write_head(inf, &head);
    n = head.n;
    for (int i = 0; i < r->n_order && n <= SRV_MESSAGE_MOST; i++)
        n += srv_bytes_size(6, raw_bytes(inf, i));
    st = head.failed ? rt_fail_memory(err, "a response", n)
                     : srv_growth_open(growth, &whole, n, err);
    if (!st) {
        rt_bytes_add(&whole, head.p, head.n);
        for (int i = 0; i < r->n_order; i++) {
            const struct rt_tensor *t = srv_oip_result(inf, i);
            srv_put_head(&whole, 6, raw_bytes(inf, i));
            if (!srv_oip_in_region(r, i))
                srv_oip_write_raw(&whole, t, srv_growth_cancellation(growth));
        }
        st = srv_growth_close(growth, &whole, &p, &n, err);
    }
    rt_bytes_clear(&head);
    if (!st)
        rt_bytes_own(out, p, n);
    return st;
}

const struct srv_inference_steps srv_oip_infer = {
    .api = SRV_PREDICT,
    .read = read,
    .not_found = srv_oip_not_found,
    .resolve = srv_oip_resolve,
    .bind = srv_oip_bind,
    .encode = encode,
    .clear = srv_oip_clear_classes,
    .log_request = srv_tfs_write_predict_request,
    .log_response = srv_tfs_write_predict,
};

/* ---- ModelStreamInferResponse ---- */

/* Appends the parameter triton_final_response of a ModelInferResponse, if the request asks for it:
 * an entry of field 4, whose value is the InferParameter with the bool_param true. */
static void put_final(struct rt_bytes *out, const struct srv_oip_request *r)
{
    struct rt_bytes entry, value;

    if (!r || !r->marks_final)
        return;
    rt_bytes_init(&entry, SRV_MESSAGE_MOST);
    rt_bytes_init(&value, SRV_MESSAGE_MOST);
    srv_put_int(&value, 1, true);
    srv_put_text(&entry, 1, "triton_final_response");
    srv_put_message(&entry, 2, &value);
    srv_put_message(out, 4, &entry);
    if (entry.failed || value.failed)
        out->failed = true;
    rt_bytes_clear(&entry);
    rt_bytes_clear(&value);
}

/* The parameter precedes the other fields of the response, since fields may be in any order. */
static void write_stream_head(const struct srv_inference *inf, struct rt_bytes *out, size_t n)
{
    struct rt_bytes parameter;

    rt_bytes_init(&parameter, SRV_MESSAGE_MOST);
    put_final(&parameter, inf->request);
    srv_put_head(out, 2, parameter.n + n);
    rt_bytes_add(out, parameter.p, parameter.n);
    if (parameter.failed)
        out->failed = true;
    rt_bytes_clear(&parameter);
}

/* As in Triton's responses, the id shows which request has failed. */
static void write_stream_error(const struct srv_inference *inf, const char *text,
                               struct rt_bytes *out)
{
    const struct srv_oip_request *r = inf->request;
    struct rt_bytes item;

    srv_put_text(out, 1, text);
    rt_bytes_init(&item, SRV_MESSAGE_MOST);
    if (r && r->id.n)
        srv_put_bytes(&item, 3, r->id.p, r->id.n);
    put_final(&item, r);
    srv_put_message(out, 2, &item);
    rt_bytes_clear(&item);
}

static void identify(struct srv_inference *inf, struct srv_cursor message)
{
    struct rt_error err = {.arena = inf->arena};
    const struct reader r = {inf, rt_arena_alloc(inf->arena, sizeof *r.r), &err};
    struct top t = {.n_inputs = 0};

    if (r.r)
        read_outline(&r, message, &t); /* its error does not replace the one to be answered */
    inf->request = r.r;
}

const struct srv_stream_steps srv_oip_stream = {write_stream_head, write_stream_error, identify};
