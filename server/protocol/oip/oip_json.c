/*
 * Reads and writes REST requests and responses. A body is JSON, optionally followed by the raw
 * bytes of binary tensors. If a request has binary tensors, the header
 * Inference-Header-Content-Length is the length of the JSON.
 */
#include "server/protocol/oip/oip.h"

#include "server/json/json_number.h"
#include "server/protocol/json_values.h"
#include "server/protocol/route.h"
#include "server/protocol/tfs/tfs.h"

/* ---- reading ---- */

struct reader {
    struct srv_inference *inf;
    struct srv_oip_request *r;
    struct rt_error *err;
};

enum rt_status srv_oip_json_text(struct srv_json v, const char *what, struct rt_arena *arena,
                                 struct rt_span *out, struct rt_error *err)
{
    if (srv_json_type(v) != SRV_JSON_STRING)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s is no string", what);
    const struct rt_span token = srv_json_token(v);
    const size_t n = srv_json_unquote_long(NULL, token, v.cancellation);
    char *p = rt_arena_aligned(arena, n + 1, 1);
    if (!p)
        return rt_fail_memory(err, what, n);
    srv_json_unquote_long(p, token, v.cancellation);
    *out = rt_span_of(p, n);
    return RT_OK;
}

enum rt_status srv_oip_json_size(struct srv_json v, const char *what, int64_t *out,
                                 struct rt_error *err)
{
    struct srv_number x = {.kind = SRV_NUMBER_NONE};

    if (srv_json_type(v) == SRV_JSON_NUMBER)
        srv_number_read(v.p, v.end, &x);
    if (x.kind != SRV_NUMBER_INT || x.i < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s is no integer of at least 0", what);
    *out = x.i;
    return RT_OK;
}

static enum rt_status read_bool(const struct reader *r, struct srv_json v, const char *what,
                                bool *out)
{
    const enum srv_json_type type = srv_json_type(v);

    if (type != SRV_JSON_TRUE && type != SRV_JSON_FALSE)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s is neither true nor false", what);
    *out = type == SRV_JSON_TRUE;
    return RT_OK;
}

static bool key_is(struct rt_span key, const char *name)
{
    return srv_json_token_is(key, name, strlen(name));
}

static enum rt_status read_value(const struct reader *r, struct srv_json v,
                                 struct srv_oip_value *out)
{
    struct srv_number x = {.kind = SRV_NUMBER_NONE};
    enum rt_status st = RT_OK;

    *out = (struct srv_oip_value){.is_set = true};
    switch (srv_json_type(v)) {
    case SRV_JSON_NULL:
        out->is_set = false;
        break;
    case SRV_JSON_FALSE:
    case SRV_JSON_TRUE:
        out->is_bool = true;
        out->is_set = srv_json_type(v) == SRV_JSON_TRUE;
        break;
    case SRV_JSON_STRING:
        st = srv_oip_json_text(v, "a parameter", r->inf->arena, &out->text, r->err);
        out->is_text = true;
        out->is_set = out->text.n != 0;
        break;
    case SRV_JSON_NUMBER:
        srv_number_read(v.p, v.end, &x);
        out->is_number = x.kind == SRV_NUMBER_INT && x.i >= 0;
        out->number = out->is_number ? (uint64_t)x.i : 0;
        out->is_set = x.d != 0;
        break;
    default:
        break;
    }
    return st;
}

/* The object whose member `parameters` is read. It is the request, an input or an output. */
struct place {
    struct srv_oip_input *input;
    bool *is_binary;               /* NULL unless the object is the request or an output */
    struct srv_oip_region *region; /* NULL unless the object is an input or output */
    uint64_t *n_classes;           /* NULL unless the object is an output */
    bool is_request;
};

static enum rt_status read_parameter(const struct reader *r, const struct place *place,
                                     struct rt_span key, struct srv_json v)
{
    int64_t n = 0;
    enum rt_status st = RT_OK;

    if (place->input && key_is(key, "binary_data_size")) {
        st = srv_oip_json_size(v, "the parameter binary_data_size", &n, r->err);
        place->input->is_raw = true;
        place->input->raw_bytes = (size_t)n;
    } else if (place->is_binary &&
               key_is(key, place->is_request ? "binary_data_output" : "binary_data")) {
        st = read_bool(r, v,
                       place->is_request ? "the parameter binary_data_output"
                                         : "the parameter binary_data",
                       place->is_binary);
    } else {
        /* the names of these parameters have no characters that JSON escapes */
        struct srv_oip_value value;
        key = rt_span_of(key.p + 1, key.n - 2);
        st = read_value(r, v, &value);
        if (!st && place->region)
            st = srv_oip_tensor_parameter(place->region, place->n_classes, key, &value, r->err);
        else if (!st)
            st = srv_oip_request_parameter(r->inf, key, &value, r->err);
    }
    return st;
}

static enum rt_status read_parameters(const struct reader *r, const struct place *place,
                                      struct srv_json v)
{
    const unsigned char *at;
    struct rt_span key;
    struct srv_json value;
    enum rt_status st = RT_OK;

    if (srv_json_type(v) != SRV_JSON_OBJECT)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "\"parameters\" is no object");
    at = srv_json_first(v);
    while (!st && srv_json_member(&at, v, &key, &value))
        st = read_parameter(r, place, key, value);
    return st;
}

static enum rt_status read_shape(const struct reader *r, struct srv_json v,
                                 struct srv_oip_input *in)
{
    const unsigned char *at;
    struct srv_json value;

    if (srv_json_type(v) != SRV_JSON_ARRAY)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "\"shape\" of an input is no array");
    at = srv_json_first(v);
    for (in->rank = 0; srv_json_next(&at, v, &value); in->rank++) {
        if (in->rank == RT_MAX_RANK)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "\"shape\" of an input has more than %d dimensions", RT_MAX_RANK);
        enum rt_status st =
            srv_oip_json_size(value, "a dimension of a shape", &in->dim[in->rank], r->err);
        if (st)
            return st;
    }
    return RT_OK;
}

static enum rt_status read_input_member(const struct reader *r, struct srv_oip_input *in,
                                        struct rt_span key, struct srv_json v)
{
    struct rt_span type;

    if (key_is(key, "name"))
        return srv_oip_json_text(v, "\"name\" of an input", r->inf->arena, &in->name, r->err);
    if (key_is(key, "shape"))
        return read_shape(r, v, in);
    if (key_is(key, "parameters"))
        return read_parameters(r, &(struct place){.input = in, .region = &in->region}, v);
    if (key_is(key, "data"))
        in->data = v;
    if (!key_is(key, "datatype"))
        return RT_OK;
    enum rt_status st =
        srv_oip_json_text(v, "\"datatype\" of an input", r->inf->arena, &type, r->err);
    if (st)
        return st;
    in->dtype = srv_oip_dtype(type);
    return in->dtype ? RT_OK : srv_oip_fail_dtype(type, r->err);
}

/* Prepends the name of an input or output, or its index, to an error of its members. The name may
 * follow the member. */
static enum rt_status name_tensor(const struct reader *r, struct srv_json v, const char *what,
                                  int i)
{
    const unsigned char *at = srv_json_first(v);
    struct rt_error ignored = {.arena = r->inf->arena};
    struct rt_span key, name = {0};
    struct srv_json value;

    while (!name.n && srv_json_member(&at, v, &key, &value))
        if (key_is(key, "name"))
            srv_oip_json_text(value, "a name", r->inf->arena, &name, &ignored);
    if (!name.n)
        return rt_fail_prefix(r->err, "%s %d: ", what, i);
    name = rt_error_name(r->err, name);
    return rt_fail_prefix(r->err, "%s \"%.*s\": ", what, (int)(name.n < 100 ? name.n : 100),
                          (const char *)name.p);
}

static enum rt_status read_input(const struct reader *r, struct srv_json v)
{
    struct srv_oip_input *in = &r->r->inputs[r->r->n_inputs++];
    const unsigned char *at;
    struct rt_span key;
    struct srv_json value;
    enum rt_status st = RT_OK;

    in->rank = -1;
    if (srv_json_type(v) != SRV_JSON_OBJECT)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "an element of \"inputs\" is no object");
    at = srv_json_first(v);
    while (!st && srv_json_member(&at, v, &key, &value))
        st = read_input_member(r, in, key, value);
    if (st)
        return name_tensor(r, v, "input", r->r->n_inputs - 1);
    if (!in->name.p)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "an input has no \"name\"");
    if (in->rank < 0 || !in->dtype)
        return srv_oip_fail_input(r->err, in->name, "has no \"%s\"",
                                  in->rank < 0 ? "shape" : "datatype");
    /* Without the name of a region, the values may be elsewhere. */
    if (!in->region.name.p && srv_oip_check_region(&in->region, in->name, r->err))
        return r->err->code;
    const int n_sources = in->is_raw + (in->data.p != NULL) + (in->region.name.p != NULL);
    if (n_sources != 1)
        return srv_oip_fail_input(r->err, in->name,
                                  !n_sources           ? "has neither \"data\" nor binary data"
                                  : !in->region.name.p ? "has both \"data\" and binary data"
                                                       : "has values both in shared memory and in "
                                                         "the request");
    return srv_oip_check_region(&in->region, in->name, r->err);
}

static enum rt_status read_output(const struct reader *r, struct srv_json v)
{
    struct srv_oip_output *o = &r->r->outputs[r->r->n_outputs++];
    const struct place place = {
        .is_binary = &o->is_binary, .region = &o->region, .n_classes = &o->n_classes};
    const unsigned char *at;
    struct rt_span key;
    struct srv_json value;
    enum rt_status st = RT_OK;

    o->is_binary = r->r->is_binary;
    if (srv_json_type(v) != SRV_JSON_OBJECT)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "an element of \"outputs\" is no object");
    at = srv_json_first(v);
    while (!st && srv_json_member(&at, v, &key, &value)) {
        if (key_is(key, "name"))
            st = srv_oip_json_text(value, "\"name\" of an output", r->inf->arena, &o->name, r->err);
        else if (key_is(key, "parameters"))
            st = read_parameters(r, &place, value);
    }
    if (st)
        return name_tensor(r, v, "output", r->r->n_outputs - 1);
    if (o->name.p)
        return srv_oip_check_region(&o->region, o->name, r->err);
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "an output has no \"name\"");
}

/* Returns zeroed memory with one element of `size` bytes per element of the JSON array `v`. Returns
 * NULL after an error. */
static void *new_list(const struct reader *r, struct srv_json v, const char *what, size_t size)
{
    if (srv_json_type(v) != SRV_JSON_ARRAY) {
        rt_fail(r->err, RT_INVALID_ARGUMENT, "\"%s\" is no array", what);
        return NULL;
    }
    const int64_t n = srv_json_count(v);
    if (n > SRV_OIP_MAX_TENSORS) {
        rt_fail(r->err, RT_INVALID_ARGUMENT, "\"%s\" has more than %d elements", what,
                SRV_OIP_MAX_TENSORS);
        return NULL;
    }
    void *list = rt_arena_array(r->inf->arena, (size_t)n + 1, size);
    if (!list)
        rt_fail_memory(r->err, what, size);
    return list;
}

static enum rt_status read_tensors(const struct reader *r, struct srv_json inputs,
                                   struct srv_json outputs)
{
    const unsigned char *at;
    struct srv_json value;
    enum rt_status st = RT_OK;

    r->r->inputs = new_list(r, inputs, "inputs", sizeof *r->r->inputs);
    if (!r->r->inputs)
        return r->err->code;
    at = srv_json_first(inputs);
    while (!st && srv_json_next(&at, inputs, &value))
        st = read_input(r, value);
    if (st || !outputs.p)
        return st;
    r->r->outputs = new_list(r, outputs, "outputs", sizeof *r->r->outputs);
    if (!r->r->outputs)
        return r->err->code;
    at = srv_json_first(outputs);
    while (!st && srv_json_next(&at, outputs, &value))
        st = read_output(r, value);
    return st;
}

static enum rt_status read_document(const struct reader *r, struct srv_json top)
{
    struct srv_json id = {0}, parameters = {0}, inputs = {0}, outputs = {0}, value;
    const struct place place = {.is_binary = &r->r->is_binary, .is_request = true};
    const unsigned char *at = srv_json_first(top);
    struct rt_span key;
    enum rt_status st = RT_OK;

    while (srv_json_member(&at, top, &key, &value)) {
        struct srv_json *to = key_is(key, "id")           ? &id
                              : key_is(key, "parameters") ? &parameters
                              : key_is(key, "inputs")     ? &inputs
                              : key_is(key, "outputs")    ? &outputs
                                                          : NULL;
        if (to)
            *to = value;
    }
    if (!inputs.p)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "the request has no \"inputs\"");
    if (id.p)
        st = srv_oip_json_text(id, "\"id\"", r->inf->arena, &r->r->id, r->err);
    if (!st && parameters.p)
        st = read_parameters(r, &place, parameters);
    return st ? st : read_tensors(r, inputs, outputs);
}

/* Splits the raw bytes after the JSON among the binary inputs. */
static enum rt_status split_binary(const struct reader *r, struct rt_span binary)
{
    struct rt_span *parts =
        rt_arena_array(r->inf->arena, (size_t)r->r->n_inputs + 1, sizeof *parts);
    size_t at = 0;

    if (!parts)
        return rt_fail_memory(r->err, "a request", 0);
    for (int i = 0; i < r->r->n_inputs; i++) {
        struct srv_oip_input *in = &r->r->inputs[i];
        if (!in->is_raw)
            continue;
        if (in->raw_bytes > binary.n - at)
            return srv_oip_fail_input(r->err, in->name,
                                      "has a binary_data_size of %zu, but only %zu bytes are left "
                                      "in the request's body",
                                      in->raw_bytes, binary.n - at);
        parts[i] = rt_span_of(binary.p + at, in->raw_bytes);
        in->values = srv_cursor_of(&parts[i], in->raw_bytes);
        at += in->raw_bytes;
    }
    if (at != binary.n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%zu bytes follow the JSON text, but the binary inputs have %zu: see "
                       "binary_data_size and " SRV_OIP_LENGTH_HEADER,
                       binary.n, at);
    return RT_OK;
}

/* Sets *n to the length of the JSON in a body of `whole` bytes. */
static enum rt_status json_length(const struct srv_inference *inf, size_t whole, size_t *n,
                                  struct rt_error *err)
{
    struct rt_span rest = inf->json_length, digits;
    int64_t length = 0;

    *n = whole;
    if (!inf->json_length.p)
        return RT_OK;
    const struct rt_span shown = rt_error_name(err, inf->json_length);
    if (!srv_route_take_digits(&rest, &digits) || rest.n || !srv_route_version(digits, &length))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the header " SRV_OIP_LENGTH_HEADER " is \"%.*s\", which is no length",
                       (int)shown.n, (const char *)shown.p);
    if ((uint64_t)length > whole)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "the header " SRV_OIP_LENGTH_HEADER " is %lld, but the body has only %zu "
                       "bytes",
                       (long long)length, whole);
    *n = (size_t)length;
    return RT_OK;
}

/* Stores a body without JSON. This body consists of the raw bytes of the only input. All outputs of
 * the response are then binary by default. */
static enum rt_status keep_raw_body(const struct reader *r, struct rt_span body)
{
    struct rt_span *kept = rt_arena_alloc(r->inf->arena, sizeof *kept);

    if (!kept)
        return rt_fail_memory(r->err, "a request", sizeof *kept);
    *kept = body;
    r->r->is_raw_body = r->r->is_binary = true;
    r->r->body = srv_cursor_of(kept, body.n);
    return RT_OK;
}

static enum rt_status read(struct srv_inference *inf, struct srv_cursor message,
                           struct rt_error *err)
{
    struct srv_oip_request *r = rt_arena_alloc(inf->arena, sizeof *r);
    const struct reader reader = {inf, r, err};
    struct srv_json_doc doc;
    struct rt_span body;
    size_t n = 0;

    if (!r)
        return rt_fail_memory(err, "a request", sizeof *r);
    inf->request = r;
    enum rt_status st = srv_cursor_span(message, &body, inf->arena, err);
    if (!st)
        st = json_length(inf, body.n, &n, err);
    if (!st && inf->json_length.p && !n)
        return keep_raw_body(&reader, body);
    if (!st)
        st = srv_json_check(&doc, rt_span_of(body.p, n), &inf->cancellation, err);
    if (!st)
        st = read_document(&reader, doc.top);
    return st ? st : split_binary(&reader, rt_span_of(body.p + n, body.n - n));
}

/* ---- writing ---- */

/* Refuses an output whose values JSON cannot represent. */
static enum rt_status check_json(const struct rt_tensor *t, const char *name,
                                 struct srv_cancellation *cancellation, struct rt_error *err)
{
    const char *why = NULL;

    if (t->dtype == RT_F16 || t->dtype == RT_BF16)
        why = "is of a datatype that JSON does not have";
    for (int64_t i = 0, n = t->dtype == RT_STRING ? rt_tensor_count(t) : 0; i < n && !why; i++) {
        const struct rt_str *s = &rt_strs(t)[i];
        if (!srv_should_continue(cancellation, s->n))
            break;
        if (!srv_oip_is_utf8(rt_span_of(rt_str_data(s), s->n)))
            why = "has an element that is not UTF-8";
    }
    if (!why)
        return srv_cancellation_status(cancellation, err);
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "output \"%s\" %s: request it with the parameter binary_data", name, why);
}

static void write_head(const struct srv_inference *inf, struct rt_bytes *out)
{
    const struct srv_oip_request *r = inf->request;
    const struct srv_version *v = inf->job->version;
    const struct rt_span name = srv_oip_full_name(&inf->spec);

    rt_bytes_adds(out, "{");
    if (r->id.p) {
        rt_bytes_adds(out, "\"id\":");
        srv_json_quote(out, r->id.p, r->id.n);
        rt_bytes_addc(out, ',');
    }
    rt_bytes_adds(out, "\"model_name\":");
    srv_json_quote(out, name.p, name.n);
    rt_bytes_addf(out, ",\"model_version\":\"%lld\",\"outputs\":[", (long long)v->version);
}

void srv_oip_json_begin(struct rt_bytes *out, int i, const char *name, size_t n_name)
{
    rt_bytes_adds(out, i ? ",{\"name\":" : "{\"name\":");
    srv_json_quote(out, name, n_name);
}

void srv_oip_json_dims(struct rt_bytes *out, const char *key, int rank, const int64_t *dim)
{
    rt_bytes_addf(out, ",\"%s\":[", key);
    if (rank < 0)
        rt_bytes_adds(out, "-1");
    for (int i = 0; i < rank; i++)
        rt_bytes_addf(out, "%s%lld", i ? "," : "", (long long)dim[i]);
    rt_bytes_addc(out, ']');
}

static void write_output(const struct srv_inference *inf, int i, struct rt_bytes *out,
                         struct srv_cancellation *cancellation)
{
    const struct srv_oip_request *r = inf->request;
    const int k = r->order[i];
    const char *name = inf->job->signature->def->outputs[k].alias;
    const struct rt_tensor *t = srv_oip_result(inf, i);

    srv_oip_json_begin(out, i, name, strlen(name));
    rt_bytes_addf(out, ",\"datatype\":\"%s\"", srv_oip_dtype_name((enum rt_dtype)t->dtype));
    srv_oip_json_dims(out, "shape", t->rank, t->dim);
    if (srv_oip_in_region(r, i)) {
        const struct srv_oip_region *region = &r->order_output[i]->region;
        rt_bytes_adds(out, ",\"parameters\":{\"shared_memory_region\":");
        srv_json_quote(out, region->name.p, region->name.n);
        rt_bytes_addf(out, ",\"shared_memory_offset\":%llu,\"shared_memory_byte_size\":%zu}}",
                      (unsigned long long)region->offset, srv_oip_raw_bytes(t));
        return;
    }
    if (r->order_is_binary[i]) {
        rt_bytes_addf(out, ",\"parameters\":{\"binary_data_size\":%zu}}", srv_oip_raw_bytes(t));
        return;
    }
    rt_bytes_adds(out, ",\"data\":[");
    srv_json_write_values(out, t, cancellation);
    rt_bytes_adds(out, "]}");
}

static enum rt_status encode(struct srv_inference *inf, struct rt_bytes *out, struct rt_error *err)
{
    const struct srv_oip_request *r = inf->request;
    const struct srv_job *job = inf->job;
    struct srv_cancellation cancellation = srv_job_cancellation(job);
    bool any_binary = false;
    enum rt_status st = srv_oip_make_classes(inf, err);
    size_t raw = 0;

    for (int i = 0; i < r->n_order && !st; i++) {
        const char *name = job->signature->def->outputs[r->order[i]].alias;
        any_binary |= r->order_is_binary[i];
        raw += r->order_is_binary[i] ? srv_oip_raw_bytes(srv_oip_result(inf, i)) : 0;
        if (!r->order_is_binary[i] && !srv_oip_in_region(r, i))
            st = check_json(srv_oip_result(inf, i), name, &cancellation, err);
    }
    if (!st)
        st = srv_oip_write_regions(inf, err);
    if (st)
        return st;
    write_head(inf, out);
    for (int i = 0; i < r->n_order; i++)
        write_output(inf, i, out, &cancellation);
    rt_bytes_adds(out, "]}");
    const size_t n_json = out->n;
    rt_bytes_reserve(out, raw);
    for (int i = 0; i < r->n_order; i++)
        if (r->order_is_binary[i])
            srv_oip_write_raw(out, srv_oip_result(inf, i), &cancellation);
    st = srv_cancellation_status(&cancellation, err);
    if (!st && out->failed)
        st = rt_bytes_fail(out, "the response", err, RT_RESOURCE_EXHAUSTED,
                           "the response is longer than %zu bytes", out->limit);
    if (!st && any_binary)
        inf->json_bytes = n_json;
    return st;
}

const struct srv_inference_steps srv_oip_infer_json = {
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
