#include "server/predict_proto.h"

#include <stdlib.h>

#include "runtime/base/arena.h"

/* ---- reading: bytes ---- */

enum wire { VARINT = SRV_VARINT, FIXED64 = SRV_FIXED64, BYTES = SRV_BYTES, FIXED32 = SRV_FIXED32 };

struct srv_cursor srv_cursor_of(const struct rt_span *slices, size_t total)
{
    return (struct srv_cursor){.slice = slices, .left = total};
}

/* Bytes that lie in one piece from here; 0 only at the end of the message. */
static size_t piece(struct srv_cursor *c)
{
    if (!c->left)
        return 0;
    while (c->off == c->slice->n) {
        c->slice++;
        c->off = 0;
    }
    size_t n = c->slice->n - c->off;
    return n < c->left ? n : c->left;
}

/* dst NULL: skips. False: there are not so many. */
static bool copy(struct srv_cursor *c, void *dst, size_t n)
{
    char *to = dst;
    if (n > c->left)
        return false;
    while (n) {
        size_t k = piece(c);
        if (k > n)
            k = n;
        if (to) {
            memcpy(to, c->slice->p + c->off, k);
            to += k;
        }
        c->off += k;
        c->left -= k;
        n -= k;
    }
    return true;
}

static bool varint(struct srv_cursor *c, uint64_t *out)
{
    uint64_t v = 0;
    if (piece(c) >= 10) {
        const unsigned char *p = c->slice->p + c->off;
        for (unsigned i = 0; i < 10; i++) {
            v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
            if (p[i] < 0x80) {
                c->off += i + 1;
                c->left -= i + 1;
                *out = v;
                return true;
            }
        }
        return false;
    }
    for (unsigned i = 0; i < 10; i++) {
        unsigned char b;
        if (!copy(c, &b, 1))
            return false;
        v |= (uint64_t)(b & 0x7f) << (7 * i);
        if (b < 0x80) {
            *out = v;
            return true;
        }
    }
    return false;
}

int srv_field_next(struct srv_cursor *c, struct srv_field *f)
{
    uint64_t tag, n;
    uint32_t v32;

    if (!c->left)
        return 0;
    if (!varint(c, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return -1;
    f->number = (uint32_t)tag >> 3;
    f->type = (int)(tag & 7);
    switch (f->type) {
    case VARINT:
        return varint(c, &f->value) ? 1 : -1;
    case FIXED64:
        return copy(c, &f->value, 8) ? 1 : -1;
    case FIXED32:
        if (!copy(c, &v32, 4))
            return -1;
        f->value = v32;
        return 1;
    case BYTES:
        if (!varint(c, &n) || n > c->left)
            return -1;
        f->body = *c;
        f->body.left = (size_t)n;
        return copy(c, NULL, (size_t)n) ? 1 : -1;
    }
    return -1; /* groups do not occur in these messages */
}

static bool is_field(const struct srv_field *f, uint32_t number, enum wire type)
{
    return f->number == number && f->type == (int)type;
}

/* The bytes in one piece: where they are, or copied. */
static enum rt_status span_of(struct srv_cursor c, struct rt_span *out, struct rt_arena *arena,
                              struct rt_error *err)
{
    size_t n = c.left;
    if (!n) {
        *out = rt_span_of("", 0);
        return RT_OK;
    }
    if (piece(&c) == n) {
        *out = rt_span_of(c.slice->p + c.off, n);
        return RT_OK;
    }
    unsigned char *p = rt_arena_alloc(arena, n);
    if (!p)
        return rt_fail_memory(err, "a name in a request", n);
    copy(&c, p, n);
    *out = rt_span_of(p, n);
    return RT_OK;
}

enum rt_status srv_field_span(const struct srv_field *f, struct rt_span *out,
                              struct rt_arena *arena, struct rt_error *err)
{
    return span_of(f->body, out, arena, err);
}

/* ---- reading: the request ---- */

static enum rt_status malformed(struct rt_error *err, const char *what)
{
    return rt_fail(err, RT_INVALID_ARGUMENT, "the request is not well formed protobuf: %s", what);
}

enum rt_status srv_model_spec_read(struct srv_cursor message, struct srv_model_spec *out,
                                   struct rt_arena *arena, struct rt_error *err)
{
    struct srv_field f;
    int got;
    enum rt_status st = RT_OK;

    while (!st && (got = srv_field_next(&message, &f)) > 0) {
        if (is_field(&f, 1, BYTES)) {
            st = span_of(f.body, &out->name, arena, err);
        } else if (is_field(&f, 3, BYTES)) {
            st = span_of(f.body, &out->signature, arena, err);
        } else if (is_field(&f, 4, BYTES)) { /* one of: the last of 2 and 4 counts */
            st = span_of(f.body, &out->label, arena, err);
            out->has_version = false;
        } else if (is_field(&f, 2, BYTES)) {
            struct srv_cursor value = f.body;
            if (!out->has_version)
                out->version = 0;
            out->has_version = true;
            out->label = (struct rt_span){0};
            while ((got = srv_field_next(&value, &f)) > 0)
                if (is_field(&f, 1, VARINT))
                    out->version = (int64_t)f.value;
            if (got < 0)
                return malformed(err, "model_spec.version");
        }
    }
    return !st && got < 0 ? malformed(err, "model_spec") : st;
}

static int compare_spans(struct rt_span a, struct rt_span b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

struct numbered {
    struct srv_predict_input input;
    int order; /* in the message */
};

static int compare_inputs(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    int order = compare_spans(x->input.alias, y->input.alias);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

static enum rt_status read_entry(struct srv_cursor entry, struct srv_predict_input *out,
                                 struct rt_arena *arena, struct rt_error *err)
{
    struct srv_field f;
    int got;
    enum rt_status st = RT_OK;

    out->alias = rt_span_of("", 0);
    out->tensor = entry;
    out->tensor.left = 0; /* no value: an empty message */
    while (!st && (got = srv_field_next(&entry, &f)) > 0) {
        if (is_field(&f, 1, BYTES))
            st = span_of(f.body, &out->alias, arena, err);
        else if (is_field(&f, 2, BYTES))
            out->tensor = f.body;
    }
    return !st && got < 0 ? malformed(err, "inputs") : st;
}

enum rt_status srv_predict_read(struct srv_cursor message, struct srv_predict_request *out,
                                struct rt_arena *arena, struct rt_error *err)
{
    struct srv_cursor c = message;
    struct numbered *inputs;
    struct srv_field f;
    int got, n_inputs = 0, n_filters = 0, n = 0;
    enum rt_status st = RT_OK;

    *out = (struct srv_predict_request){0};
    /* Counted first: each takes at least two bytes that are there. */
    while ((got = srv_field_next(&c, &f)) > 0) {
        n_inputs += is_field(&f, 2, BYTES);
        n_filters += is_field(&f, 3, BYTES);
    }
    if (got < 0)
        return malformed(err, "PredictRequest");
    enum { MANY = 10000 }; /* far beyond any signature */
    if (n_inputs > MANY || n_filters > MANY)
        return rt_fail(err, RT_INVALID_ARGUMENT, "the request has %d inputs and %d output filters",
                       n_inputs, n_filters);
    inputs = rt_arena_array(arena, (size_t)n_inputs + 1, sizeof *inputs);
    out->inputs = rt_arena_array(arena, (size_t)n_inputs + 1, sizeof *out->inputs);
    out->filters = rt_arena_array(arena, (size_t)n_filters + 1, sizeof *out->filters);
    if (!inputs || !out->inputs || !out->filters)
        return rt_fail_memory(err, "the parts of a request", 0);
    while (!st && srv_field_next(&message, &f) > 0) {
        if (is_field(&f, 1, BYTES)) {
            out->has_spec = true;
            st = srv_model_spec_read(f.body, &out->spec, arena, err);
        } else if (is_field(&f, 2, BYTES)) {
            inputs[n].order = n;
            st = read_entry(f.body, &inputs[n].input, arena, err);
            n++;
        } else if (is_field(&f, 3, BYTES)) {
            st = span_of(f.body, &out->filters[out->n_filters++], arena, err);
        }
    }
    if (st)
        return st;
    qsort(inputs, (size_t)n, sizeof *inputs, compare_inputs);
    for (int i = 0; i < n; i++) /* of several with one alias the last counts, as in any map */
        if (i + 1 == n || !rt_span_eq(inputs[i].input.alias, inputs[i + 1].input.alias))
            out->inputs[out->n_inputs++] = inputs[i].input;
    return RT_OK;
}

/* ---- tensors: where a type's values stand in the message ---- */

struct form {
    uint32_t number;  /* of the field */
    enum wire type;   /* of one value */
    uint8_t parts;    /* values per element: 2 for complex */
    uint8_t is_chunk; /* the field is one run of bytes, not repeated (float8) */
};

static struct form form_of(enum rt_dtype dtype)
{
    switch (dtype) {
    case RT_F32:
        return (struct form){5, FIXED32, 1, 0};
    case RT_F64:
        return (struct form){6, FIXED64, 1, 0};
    case RT_I32:
    case RT_I16:
    case RT_I8:
    case RT_U8:
    case RT_U16:
    case RT_QI8:
    case RT_QU8:
    case RT_QI16:
    case RT_QU16:
    case RT_QI32:
    case RT_I4:
    case RT_U4:
    case RT_I2:
    case RT_U2:
        return (struct form){7, VARINT, 1, 0};
    case RT_STRING:
        return (struct form){8, BYTES, 1, 0};
    case RT_C64:
        return (struct form){9, FIXED32, 2, 0};
    case RT_I64:
        return (struct form){10, VARINT, 1, 0};
    case RT_BOOL:
        return (struct form){11, VARINT, 1, 0};
    case RT_C128:
        return (struct form){12, FIXED64, 2, 0};
    case RT_F16:
    case RT_BF16:
        return (struct form){13, VARINT, 1, 0};
    case RT_U32:
        return (struct form){16, VARINT, 1, 0};
    case RT_U64:
        return (struct form){17, VARINT, 1, 0};
    case RT_F8_E5M2:
    case RT_F8_E4M3FN:
    case RT_F8_E4M3FNUZ:
    case RT_F8_E4M3B11FNUZ:
    case RT_F8_E5M2FNUZ:
        return (struct form){18, BYTES, 1, 1};
    default:
        return (struct form){0, BYTES, 0, 0};
    }
}

/* Bytes of one value in memory (a complex element is two). */
static size_t value_size(enum rt_dtype dtype, const struct form *form)
{
    return rt_dtype_size(dtype) / form->parts;
}

/* ---- reading tensors ---- */

struct head { /* of a TensorProto */
    int dtype, rank;
    bool unknown_rank;
    int64_t dim[RT_MAX_RANK];
    struct srv_cursor content;
    size_t value_bytes[20]; /* by field number: what the values of that field take in the message */
};

static enum rt_status read_shape(struct srv_cursor c, struct head *h, struct rt_error *err)
{
    struct srv_field f;
    int got;

    while ((got = srv_field_next(&c, &f)) > 0) {
        if (is_field(&f, 3, VARINT))
            h->unknown_rank = f.value != 0;
        if (!is_field(&f, 2, BYTES))
            continue;
        if (h->rank == RT_MAX_RANK)
            return rt_fail(err, RT_INVALID_ARGUMENT, "a shape of more than %d dimensions",
                           RT_MAX_RANK);
        struct srv_cursor dim = f.body;
        int64_t *size = &h->dim[h->rank++];
        *size = 0;
        while ((got = srv_field_next(&dim, &f)) > 0)
            if (is_field(&f, 1, VARINT))
                *size = (int64_t)f.value;
        if (got < 0)
            break;
    }
    return got < 0 ? malformed(err, "tensor_shape") : RT_OK;
}

static enum rt_status read_head(struct srv_cursor c, struct head *h, struct rt_error *err)
{
    struct srv_field f;
    int got;
    enum rt_status st = RT_OK;

    *h = (struct head){.content = {.left = 0}};
    while (!st && (got = srv_field_next(&c, &f)) > 0) {
        if (is_field(&f, 1, VARINT))
            h->dtype = f.value <= INT32_MAX ? (int)f.value : -1;
        else if (is_field(&f, 2, BYTES))
            st = read_shape(f.body, h, err);
        else if (is_field(&f, 4, BYTES))
            h->content = f.body;
        else if (f.number < 20)
            h->value_bytes[f.number] += f.type == BYTES     ? f.body.left + (f.number == 8)
                                        : f.type == FIXED32 ? 4
                                        : f.type == FIXED64 ? 8
                                                            : 1;
    }
    return !st && got < 0 ? malformed(err, "TensorProto") : st;
}

/* An upper bound of the elements that the message can give. */
static size_t most_elements(const struct head *h, const struct form *form)
{
    size_t bytes = h->value_bytes[form->number], width = 1;
    if (form->type == FIXED32)
        width = 4;
    else if (form->type == FIXED64)
        width = 8;
    return bytes / width / form->parts;
}

static void store_varint(void *dst, int64_t i, uint64_t v, enum rt_dtype dtype)
{
    if (dtype == RT_BOOL) {
        ((uint8_t *)dst)[i] = v != 0;
        return;
    }
    switch (rt_dtype_size(dtype)) {
    case 1:
        ((uint8_t *)dst)[i] = (uint8_t)v;
        break;
    case 2:
        ((uint16_t *)dst)[i] = (uint16_t)v;
        break;
    case 4:
        ((uint32_t *)dst)[i] = (uint32_t)v;
        break;
    default:
        ((uint64_t *)dst)[i] = v;
    }
}

/* Reads at most `n` values into dst; *got counts them. Returns false when they are malformed. */
static bool read_packed(struct srv_cursor c, const struct form *form, enum rt_dtype dtype,
                        char *dst, int64_t n, int64_t *got)
{
    size_t size = value_size(dtype, form);

    if (form->type != VARINT) {
        size_t here = c.left / size;
        if (c.left % size)
            return false;
        if (here > (size_t)(n - *got))
            here = (size_t)(n - *got);
        copy(&c, dst + (size_t)*got * size, here * size);
        *got += (int64_t)here;
        return true;
    }
    while (c.left && *got < n) {
        uint64_t v;
        if (!varint(&c, &v))
            return false;
        store_varint(dst, (*got)++, v, dtype);
    }
    return true;
}

static enum rt_status read_values(struct srv_cursor c, const struct form *form, struct rt_tensor *t,
                                  int64_t n, int64_t *n_read, struct rt_error *err)
{
    enum rt_dtype dtype = (enum rt_dtype)t->dtype;
    int64_t got = 0;
    struct srv_field f;

    while (got < n && srv_field_next(&c, &f) > 0) {
        if (f.number != form->number)
            continue;
        if (dtype == RT_STRING) {
            if (f.type != BYTES)
                continue;
            char *to = rt_str_resize((struct rt_str *)t->data + got, f.body.left);
            if (!to)
                return rt_fail_memory(err, "a string", f.body.left);
            copy(&f.body, to, f.body.left);
            got++;
        } else if (form->is_chunk) {
            int64_t k = f.body.left < (size_t)n ? (int64_t)f.body.left : n;
            if (f.type == BYTES && copy(&f.body, t->data, (size_t)k))
                got = k;
        } else if (f.type == BYTES) {
            if (!read_packed(f.body, form, dtype, t->data, n, &got))
                return malformed(err, "packed values");
        } else if (f.type == (int)form->type) {
            if (form->type == VARINT)
                store_varint(t->data, got, f.value, dtype);
            else /* little-endian, as the machines that this runs on */
                memcpy((char *)t->data + (size_t)got * value_size(dtype, form), &f.value,
                       value_size(dtype, form));
            got++;
        }
    }
    *n_read = got;
    return RT_OK;
}

/* All lengths, then all bytes. */
static enum rt_status strings_from_content(struct srv_cursor c, struct rt_str *dst, int64_t n,
                                           struct rt_error *err)
{
    struct srv_cursor lengths = c;
    uint64_t total = 0, len;

    for (int64_t i = 0; i < n; i++) {
        if (!varint(&c, &len) || len > c.left || (total += len) > c.left)
            return malformed(err, "tensor_content of strings");
    }
    if (total != c.left)
        return malformed(err, "tensor_content of strings");
    for (int64_t i = 0; i < n; i++) {
        varint(&lengths, &len);
        char *to = rt_str_resize(&dst[i], (size_t)len);
        if (!to)
            return rt_fail_memory(err, "a string", (size_t)len);
        copy(&c, to, (size_t)len);
    }
    return RT_OK;
}

static enum rt_status fill(struct srv_cursor message, const struct head *h, const struct form *form,
                           struct rt_tensor *t, struct rt_error *err)
{
    enum rt_dtype dtype = (enum rt_dtype)t->dtype;
    int64_t n = rt_tensor_count(t), got = 0;
    size_t size = rt_dtype_size(dtype);
    struct srv_cursor content = h->content;

    if (content.left && dtype == RT_STRING)
        return strings_from_content(content, t->data, n, err);
    if (content.left) {
        copy(&content, t->data, (size_t)n * size);
        if (dtype == RT_BOOL) /* kernels rely on 0 and 1 */
            for (int64_t i = 0; i < n; i++)
                ((uint8_t *)t->data)[i] = ((uint8_t *)t->data)[i] != 0;
        return RT_OK;
    }
    enum rt_status st = read_values(message, form, t, n * form->parts, &got, err);
    if (st)
        return st;
    got /= form->parts;
    if (dtype == RT_STRING) {
        for (int64_t i = got; got && i < n; i++)
            if (!rt_str_copy((struct rt_str *)t->data + i, (struct rt_str *)t->data + got - 1))
                return rt_fail_memory(err, "a string", 0);
        return RT_OK;
    }
    if (!got) {
        memset(t->data, 0, (size_t)n * size);
        return RT_OK;
    }
    for (char *p = (char *)t->data + (size_t)got * size; got < n; got++, p += size)
        memcpy(p, p - size, size);
    return RT_OK;
}

enum rt_status srv_tensor_read(struct srv_cursor message, struct rt_tensor *out, size_t *budget,
                               struct rt_error *err)
{
    struct head h;
    char room[128];
    bool is_ref;
    enum rt_status st = read_head(message, &h, err);
    enum rt_dtype dtype = rt_dtype_from_wire(h.dtype, &is_ref);
    struct form form = form_of(dtype);
    size_t size = rt_dtype_size(dtype), bytes;

    *out = (struct rt_tensor){0};
    if (st)
        return st;
    if (dtype == RT_NO_DTYPE || is_ref || !form.number)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a tensor of type %s (%d) is no value",
                       rt_dtype_name(dtype), h.dtype);
    if (h.unknown_rank)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a tensor of unknown rank");
    int64_t n = rt_count(h.rank, h.dim);
    if (n < 0 || __builtin_mul_overflow((size_t)n, size, &bytes))
        return rt_fail(err, RT_INVALID_ARGUMENT, "a tensor of shape %s",
                       rt_shape_text(room, sizeof room, h.rank, h.dim));
    if (n && h.content.left &&
        (dtype == RT_STRING ? (size_t)n > h.content.left : bytes != h.content.left))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "tensor_content holds %zu bytes, not those of shape %s and type %s",
                       h.content.left, rt_shape_text(room, sizeof room, h.rank, h.dim),
                       rt_dtype_name(dtype));
    if (bytes > *budget)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "a tensor of shape %s and type %s, of which at most %zu values are given: "
                       "more than the %zu bytes that are left for this request",
                       rt_shape_text(room, sizeof room, h.rank, h.dim), rt_dtype_name(dtype),
                       h.content.left ? (size_t)n : most_elements(&h, &form), *budget);
    if (dtype == RT_STRING && !h.content.left) {
        /* One string repeated may take far more than its bytes in the message. */
        size_t most, repeat = most_elements(&h, &form) < (size_t)n ? h.value_bytes[8] : 0;
        if (__builtin_mul_overflow(repeat, (size_t)n, &most) || most > *budget)
            return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                           "a string tensor of shape %s whose last value is repeated: more than "
                           "the %zu bytes that are left for this request",
                           rt_shape_text(room, sizeof room, h.rank, h.dim), *budget);
        if (most > bytes)
            bytes = most;
    }
    *budget -= bytes;
    st = rt_tensor_new(out, NULL, dtype, h.rank, h.dim, err);
    if (!st && n)
        st = fill(message, &h, &form, out, err);
    if (st)
        rt_tensor_clear(out);
    return st;
}

/* ---- binding ---- */

static const struct srv_predict_input *find_input(const struct srv_predict_request *r,
                                                  const char *alias)
{
    for (int i = 0; i < r->n_inputs; i++)
        if (rt_span_is(r->inputs[i].alias, alias))
            return &r->inputs[i];
    return NULL;
}

static const struct rt_tensor_spec *find_spec(const struct rt_tensor_spec *specs, int n,
                                              struct rt_span alias)
{
    for (int i = 0; i < n; i++)
        if (rt_span_is(alias, specs[i].alias))
            return &specs[i];
    return NULL;
}

static void list_spec(struct rt_bytes *b, const struct rt_tensor_spec *specs, int n,
                      const struct srv_predict_request *without)
{
    bool first = true;
    for (int i = 0; i < n; i++) {
        if (without && find_input(without, specs[i].alias))
            continue;
        rt_bytes_addf(b, "%s%s", first ? "" : ",", specs[i].alias);
        first = false;
    }
}

static void list_inputs(struct rt_bytes *b, const struct srv_predict_request *r,
                        const struct rt_signature *sig, bool known, bool unknown)
{
    bool first = true;
    for (int i = 0; i < r->n_inputs; i++) {
        struct rt_span alias = r->inputs[i].alias;
        if (find_spec(sig->inputs, sig->n_inputs, alias) ? !known : !unknown)
            continue;
        if (!first)
            rt_bytes_addc(b, ',');
        rt_bytes_add(b, alias.p, alias.n);
        first = false;
    }
}

static enum rt_status fail_bytes(struct rt_bytes *b, struct rt_error *err)
{
    rt_fail(err, RT_INVALID_ARGUMENT, "%s", b->p ? b->p : "");
    rt_bytes_clear(b);
    return RT_INVALID_ARGUMENT;
}

static enum rt_status wrong_count(const struct srv_predict_request *r,
                                  const struct rt_signature *sig, struct rt_error *err)
{
    struct rt_bytes b;

    rt_bytes_init(&b, 64 << 10);
    rt_bytes_addf(&b, "input size does not match signature: %d!=%d len({", r->n_inputs,
                  sig->n_inputs);
    list_inputs(&b, r, sig, true, true);
    rt_bytes_adds(&b, "}) != len({");
    list_spec(&b, sig->inputs, sig->n_inputs, NULL);
    rt_bytes_adds(&b, "}). Sent extra: {");
    list_inputs(&b, r, sig, false, true);
    rt_bytes_adds(&b, "}. Missing but required: {");
    list_spec(&b, sig->inputs, sig->n_inputs, r);
    rt_bytes_adds(&b, "}.");
    return fail_bytes(&b, err);
}

static enum rt_status bind_inputs(const struct srv_predict_request *r,
                                  const struct rt_signature *sig, size_t budget,
                                  struct rt_tensor *feeds, struct rt_error *err)
{
    bool has_default = false;
    int n_used = 0;

    for (int i = 0; i < sig->n_inputs; i++)
        has_default |= sig->inputs[i].default_value != NULL;
    if (!has_default && r->n_inputs != sig->n_inputs)
        return wrong_count(r, sig, err);
    for (int i = 0; i < sig->n_inputs; i++) {
        const struct rt_tensor_spec *spec = &sig->inputs[i];
        const struct srv_predict_input *in = find_input(r, spec->alias);
        if (in) {
            enum rt_status st = srv_tensor_read(in->tensor, &feeds[i], &budget, err);
            if (st == RT_INVALID_ARGUMENT)
                rt_fail_prefix(err, "tensor parsing error: %s: ", spec->alias);
            if (st)
                return st;
            n_used++;
        } else if (spec->default_value) {
            rt_tensor_ref(&feeds[i], spec->default_value);
        } else {
            struct rt_bytes b;
            rt_bytes_init(&b, 64 << 10);
            rt_bytes_addf(&b,
                          "Signature input alias: %s(feed name: %s) not found in request and no "
                          "default value provided. Inputs expected to be in the set {",
                          spec->alias, spec->name);
            list_spec(&b, sig->inputs, sig->n_inputs, NULL);
            rt_bytes_adds(&b, "}.");
            return fail_bytes(&b, err);
        }
    }
    if (n_used == r->n_inputs)
        return RT_OK;
    struct rt_bytes b;
    rt_bytes_init(&b, 64 << 10);
    rt_bytes_adds(&b, "Inputs contains invalid name. Used request inputs: {");
    list_inputs(&b, r, sig, true, false);
    rt_bytes_adds(&b, "}, all request inputs: {");
    list_inputs(&b, r, sig, true, true);
    rt_bytes_adds(&b, "}.");
    return fail_bytes(&b, err);
}

enum rt_status srv_predict_bind(const struct srv_predict_request *request,
                                const struct rt_signature *sig, size_t budget,
                                struct rt_tensor *feeds, bool *wanted, struct rt_arena *arena,
                                struct rt_error *err)
{
    enum rt_status st = bind_inputs(request, sig, budget, feeds, err);
    (void)arena;

    if (st)
        return st;
    for (int i = 0; i < sig->n_outputs; i++)
        wanted[i] = request->n_filters == 0;
    for (int i = 0; i < request->n_filters; i++) {
        struct rt_span alias = request->filters[i];
        const struct rt_tensor_spec *spec = find_spec(sig->outputs, sig->n_outputs, alias);
        if (!spec) {
            struct rt_bytes b;
            rt_bytes_init(&b, 64 << 10);
            rt_bytes_adds(&b, "output tensor alias not found in signature: ");
            rt_bytes_add(&b, alias.p, alias.n);
            rt_bytes_adds(&b, " Outputs expected to be in the set {");
            list_spec(&b, sig->outputs, sig->n_outputs, NULL);
            rt_bytes_adds(&b, "}.");
            return fail_bytes(&b, err);
        }
        if (wanted[spec - sig->outputs])
            return rt_fail(err, RT_INVALID_ARGUMENT, "duplicate output tensor alias: %s",
                           spec->alias);
        wanted[spec - sig->outputs] = true;
    }
    return RT_OK;
}

/* ---- writing ---- */

static size_t varint_size(uint64_t v)
{
    return (size_t)((64 - __builtin_clzll(v | 1)) + 6) / 7;
}

static unsigned char *put_varint(unsigned char *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (unsigned char)(v | 0x80);
        v >>= 7;
    }
    *p++ = (unsigned char)v;
    return p;
}

static unsigned char *put_tag(unsigned char *p, uint32_t number, enum wire type)
{
    return put_varint(p, (uint64_t)number << 3 | type);
}

static unsigned char *put_bytes(unsigned char *p, uint32_t number, const void *bytes, size_t n)
{
    p = put_varint(put_tag(p, number, BYTES), n);
    if (n)
        memcpy(p, bytes, n);
    return p + n;
}

static size_t tag_size(uint32_t number)
{
    return varint_size((uint64_t)number << 3);
}

static size_t bytes_size(uint32_t number, size_t n)
{
    return tag_size(number) + varint_size(n) + n;
}

/* Element i as the varint that the field holds: int32 fields are sign-extended to 64 bits. */
static uint64_t load_varint(const void *p, int64_t i, enum rt_dtype dtype)
{
    switch (dtype) {
    case RT_I32:
    case RT_QI32:
        return (uint64_t)(int64_t)((const int32_t *)p)[i];
    case RT_I16:
    case RT_QI16:
        return (uint64_t)(int64_t)((const int16_t *)p)[i];
    case RT_I8:
    case RT_QI8:
    case RT_I4:
    case RT_I2:
        return (uint64_t)(int64_t)((const int8_t *)p)[i];
    case RT_U16:
    case RT_QU16:
    case RT_F16:
    case RT_BF16:
        return ((const uint16_t *)p)[i];
    case RT_U32:
        return ((const uint32_t *)p)[i];
    case RT_I64:
    case RT_U64:
        return ((const uint64_t *)p)[i];
    default:
        return ((const uint8_t *)p)[i];
    }
}

struct layout { /* of one output in the response */
    size_t shape, values, tensor, entry;
};

static size_t dim_size(int64_t dim)
{
    return dim ? 1 + varint_size((uint64_t)dim) : 0;
}

/* Bytes of the packed values, or of tensor_content; strings as fields: all of them, with tags. */
static size_t values_size(const struct rt_tensor *t, const struct form *form, bool as_content)
{
    enum rt_dtype dtype = (enum rt_dtype)t->dtype;
    int64_t n = rt_tensor_count(t);
    size_t size = 0;

    if (dtype == RT_STRING) {
        for (int64_t i = 0; i < n; i++) {
            size_t len = rt_strs(t)[i].n;
            size += as_content ? varint_size(len) + len : bytes_size(form->number, len);
        }
        return size;
    }
    if (as_content || form->type != VARINT || dtype == RT_BOOL)
        return (size_t)n * rt_dtype_size(dtype);
    for (int64_t i = 0; i < n; i++)
        size += varint_size(load_varint(t->data, i, dtype));
    return size;
}

static struct layout lay_out(const struct rt_tensor *t, const char *alias, const struct form *form,
                             bool as_content)
{
    struct layout l = {0};
    uint32_t number = as_content ? 4 : form->number;

    for (int i = 0; i < t->rank; i++)
        l.shape += bytes_size(2, dim_size(t->dim[i]));
    l.values = values_size(t, form, as_content);
    l.tensor = 1 + varint_size(t->dtype) + bytes_size(2, l.shape);
    if (l.values && t->dtype == RT_STRING && !as_content)
        l.tensor += l.values;
    else if (l.values)
        l.tensor += bytes_size(number, l.values);
    l.entry = bytes_size(1, strlen(alias)) + bytes_size(2, l.tensor);
    return l;
}

static unsigned char *put_values(unsigned char *p, const struct rt_tensor *t,
                                 const struct form *form, bool as_content, size_t size)
{
    enum rt_dtype dtype = (enum rt_dtype)t->dtype;
    int64_t n = rt_tensor_count(t);

    if (!size)
        return p;
    if (dtype == RT_STRING && !as_content) {
        for (int64_t i = 0; i < n; i++)
            p = put_bytes(p, form->number, rt_str_data(&rt_strs(t)[i]), rt_strs(t)[i].n);
        return p;
    }
    p = put_varint(put_tag(p, as_content ? 4 : form->number, BYTES), size);
    if (dtype == RT_STRING) {
        for (int64_t i = 0; i < n; i++)
            p = put_varint(p, rt_strs(t)[i].n);
        for (int64_t i = 0; i < n; i++) {
            memcpy(p, rt_str_data(&rt_strs(t)[i]), rt_strs(t)[i].n);
            p += rt_strs(t)[i].n;
        }
        return p;
    }
    if (as_content || form->type != VARINT || dtype == RT_BOOL) {
        memcpy(p, t->data, size);
        return p + size;
    }
    for (int64_t i = 0; i < n; i++)
        p = put_varint(p, load_varint(t->data, i, dtype));
    return p;
}

static unsigned char *put_tensor(unsigned char *p, const struct rt_tensor *t,
                                 const struct form *form, bool as_content, const struct layout *l)
{
    p = put_varint(put_tag(p, 1, VARINT), t->dtype);
    p = put_varint(put_tag(p, 2, BYTES), l->shape);
    for (int i = 0; i < t->rank; i++) {
        p = put_varint(put_tag(p, 2, BYTES), dim_size(t->dim[i]));
        if (t->dim[i])
            p = put_varint(put_tag(p, 1, VARINT), (uint64_t)t->dim[i]);
    }
    return put_values(p, t, form, as_content, l->values);
}

static unsigned char *put_output(unsigned char *p, const struct rt_tensor *t, const char *alias,
                                 const struct form *form, bool as_content, const struct layout *l)
{
    p = put_varint(put_tag(p, 1, BYTES), l->entry);
    p = put_bytes(p, 1, alias, strlen(alias));
    p = put_varint(put_tag(p, 2, BYTES), l->tensor);
    return put_tensor(p, t, form, as_content, l);
}

enum rt_status srv_predict_write(const struct srv_predict_response *r, unsigned char **out,
                                 size_t *n, struct rt_error *err)
{
    enum { FEW = 16 };
    struct layout few[FEW], *l = few;
    const struct rt_signature *sig = r->sig;
    size_t version = r->version ? 1 + varint_size((uint64_t)r->version) : 0;
    size_t spec = bytes_size(1, strlen(r->model)) + bytes_size(2, version) +
                  bytes_size(3, strlen(r->signature));
    size_t total = bytes_size(2, spec);
    unsigned char *p;

    for (int i = 0; i < sig->n_outputs; i++)
        if (r->wanted[i] && !form_of((enum rt_dtype)r->fetches[i].dtype).number)
            return rt_fail(err, RT_UNIMPLEMENTED, "output %s is of type %s, which is no value",
                           sig->outputs[i].alias,
                           rt_dtype_name((enum rt_dtype)r->fetches[i].dtype));
    if (sig->n_outputs > FEW)
        l = calloc((size_t)sig->n_outputs, sizeof *l);
    if (!l)
        return rt_fail_memory(err, "a response", 0);
    for (int i = 0; i < sig->n_outputs; i++) {
        const struct rt_tensor *t = &r->fetches[i];
        struct form form = form_of((enum rt_dtype)t->dtype);
        if (!r->wanted[i])
            continue;
        l[i] = lay_out(t, sig->outputs[i].alias, &form, r->as_content);
        total += bytes_size(1, l[i].entry);
    }
    *out = p = total <= INT32_MAX ? malloc(total + 1) : NULL; /* protobuf's limit is 2 GiB */
    *n = total;
    for (int i = 0; p && i < sig->n_outputs; i++) {
        struct form form = form_of((enum rt_dtype)r->fetches[i].dtype);
        if (r->wanted[i])
            p = put_output(p, &r->fetches[i], sig->outputs[i].alias, &form, r->as_content, &l[i]);
    }
    if (p) {
        p = put_varint(put_tag(p, 2, BYTES), spec);
        p = put_bytes(p, 1, r->model, strlen(r->model));
        p = put_varint(put_tag(p, 2, BYTES), version);
        if (r->version)
            p = put_varint(put_tag(p, 1, VARINT), (uint64_t)r->version);
        p = put_bytes(p, 3, r->signature, strlen(r->signature));
    }
    if (l != few)
        free(l);
    return p ? RT_OK : rt_fail_memory(err, "a response", total);
}

void srv_tensor_write(struct rt_bytes *out, const struct rt_tensor *t)
{
    struct form form = form_of((enum rt_dtype)t->dtype);

    if (!form.number) {
        out->failed = true;
        return;
    }
    struct layout l = lay_out(t, "", &form, false);
    if (!rt_bytes_reserve(out, l.tensor))
        return;
    put_tensor((unsigned char *)out->p + out->n, t, &form, false, &l);
    out->n += l.tensor;
    out->p[out->n] = '\0';
}

void srv_put_int(struct rt_bytes *out, uint32_t number, uint64_t v)
{
    unsigned char room[20], *p = room;
    if (!v)
        return;
    p = put_varint(put_tag(p, number, VARINT), v);
    rt_bytes_add(out, room, (size_t)(p - room));
}

void srv_put_bytes(struct rt_bytes *out, uint32_t number, const void *bytes, size_t n)
{
    unsigned char room[20], *p = room;
    p = put_varint(put_tag(p, number, BYTES), n);
    rt_bytes_add(out, room, (size_t)(p - room));
    rt_bytes_add(out, bytes, n);
}
