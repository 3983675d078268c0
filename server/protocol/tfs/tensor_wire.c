#include "server/protocol/tfs/tensor_wire.h"

#include <string.h>

#include "server/base/repeat.h"

/* ---- tensors: the field of each type's values ---- */

struct form {
    uint32_t number;         /* field number in TensorProto */
    enum srv_wire_type type; /* protobuf wire type of one value */
    uint8_t parts;           /* number of values per element; complex types have 2 */
    /* whether all values are in a single `bytes` field, as for the float8 types */
    uint8_t is_chunk;
};

static struct form form_of(enum rt_dtype dtype)
{
    switch (dtype) {
    case RT_F32:
        return (struct form){5, SRV_FIXED32, 1, 0};
    case RT_F64:
        return (struct form){6, SRV_FIXED64, 1, 0};
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
        return (struct form){7, SRV_VARINT, 1, 0};
    case RT_STRING:
        return (struct form){8, SRV_BYTES, 1, 0};
    case RT_C64:
        return (struct form){9, SRV_FIXED32, 2, 0};
    case RT_I64:
        return (struct form){10, SRV_VARINT, 1, 0};
    case RT_BOOL:
        return (struct form){11, SRV_VARINT, 1, 0};
    case RT_C128:
        return (struct form){12, SRV_FIXED64, 2, 0};
    case RT_F16:
    case RT_BF16:
        return (struct form){13, SRV_VARINT, 1, 0};
    case RT_U32:
        return (struct form){16, SRV_VARINT, 1, 0};
    case RT_U64:
        return (struct form){17, SRV_VARINT, 1, 0};
    case RT_F8_E5M2:
    case RT_F8_E4M3FN:
    case RT_F8_E4M3FNUZ:
    case RT_F8_E4M3B11FNUZ:
    case RT_F8_E5M2FNUZ:
        return (struct form){18, SRV_BYTES, 1, 1};
    default:
        return (struct form){0, SRV_BYTES, 0, 0};
    }
}

/* Returns the size in memory of one value. A complex element consists of two values. */
static size_t value_size(enum rt_dtype dtype, const struct form *form)
{
    return rt_dtype_size(dtype) / form->parts;
}

/* ---- reading tensors ---- */

/* Cost of reading one string, in bytes, as reported to srv_should_continue. */
enum { STRING_COST = 16 };

struct head { /* the contents of a TensorProto, without its values */
    int dtype, rank;
    int64_t dim[RT_MAX_RANK];
    struct srv_cursor content;
    /* number of bytes of the values, indexed by field number */
    size_t value_bytes[20];
    /* number of bytes that the strings need in memory in addition to their rt_str elements */
    size_t text_bytes;
};

static enum rt_status read_shape(struct srv_cursor c, struct head *h, struct rt_error *err)
{
    struct srv_field f;
    int got;

    while ((got = srv_field_next(&c, &f)) > 0) {
        if (!srv_field_is(&f, 2, SRV_BYTES))
            /* unknown_rank is ignored, as in TensorFlow, because only the dimensions matter */
            continue;
        if (h->rank == RT_MAX_RANK)
            return rt_fail(err, RT_INVALID_ARGUMENT, "a shape of more than %d dimensions",
                           RT_MAX_RANK);
        struct srv_cursor dim = f.body;
        int64_t *size = &h->dim[h->rank++];
        *size = 0;
        while ((got = srv_field_next(&dim, &f)) > 0)
            if (srv_field_is(&f, 1, SRV_VARINT))
                *size = (int64_t)f.value;
        if (got < 0)
            break;
    }
    return got < 0 ? srv_wire_malformed(err, "tensor_shape") : RT_OK;
}

static enum rt_status read_head(struct srv_cursor c, struct head *h, struct rt_error *err)
{
    struct srv_field f;
    int got;
    enum rt_status st = RT_OK;

    *h = (struct head){.content = {.left = 0}};
    while (!st && (got = srv_field_next(&c, &f)) > 0) {
        if (srv_field_is(&f, 1, SRV_VARINT))
            h->dtype = f.value <= INT32_MAX ? (int)f.value : -1;
        else if (srv_field_is(&f, 2, SRV_BYTES))
            st = read_shape(f.body, h, err);
        else if (srv_field_is(&f, 4, SRV_BYTES))
            h->content = f.body;
        else if (f.number < 20) {
            h->text_bytes +=
                f.number == 8 && f.type == SRV_BYTES ? rt_str_counted_bytes(f.body.left) : 0;
            h->value_bytes[f.number] += f.type == SRV_BYTES     ? f.body.left + (f.number == 8)
                                        : f.type == SRV_FIXED32 ? 4
                                        : f.type == SRV_FIXED64 ? 8
                                                                : 1;
        }
    }
    return !st && got < 0 ? srv_wire_malformed(err, "TensorProto") : st;
}

/* Returns an upper bound on the number of elements that the message contains. */
static size_t most_elements(const struct head *h, const struct form *form)
{
    size_t bytes = h->value_bytes[form->number], width = 1;
    if (form->type == SRV_FIXED32)
        width = 4;
    else if (form->type == SRV_FIXED64)
        width = 8;
    return bytes / width / form->parts;
}

/* Returns an upper bound on the memory that n strings with a total length of `bytes` bytes need in
 * addition to their rt_str elements. */
static size_t content_text_bytes(size_t bytes, size_t n)
{
    const size_t long_ones = bytes / sizeof((struct rt_str){.n = 0}.u.in);
    return bytes + (n < long_ones ? n : long_ones) * (sizeof(struct rt_text) + 1);
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

/* Reads packed values into dst until it contains n values. *got is the number of values already in
 * dst, and is increased by the number of values read. Returns false if the field is malformed or
 * the request is cancelled. */
static bool read_packed(struct srv_cursor c, const struct form *form, enum rt_dtype dtype,
                        char *dst, int64_t n, int64_t *got)
{
    size_t size = value_size(dtype, form);

    if (form->type != SRV_VARINT) {
        size_t here = c.left / size;
        if (c.left % size)
            return false;
        if (here > (size_t)(n - *got))
            here = (size_t)(n - *got);
        srv_cursor_copy(&c, dst + (size_t)*got * size, here * size);
        *got += (int64_t)here;
        return true;
    }
    while (c.left && *got < n) {
        uint64_t v;
        if (!(*got % SRV_PACKED_PART) && !srv_should_continue(c.cancellation, SRV_PACKED_COST))
            return false;
        if (!srv_cursor_varint(&c, &v))
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
            if (f.type != SRV_BYTES)
                continue;
            char *to = rt_str_resize((struct rt_str *)t->data + got, NULL, f.body.left, err);
            if (!to)
                return err->code;
            srv_cursor_copy(&f.body, to, f.body.left);
            got++;
        } else if (form->is_chunk) {
            int64_t k = f.body.left < (size_t)n ? (int64_t)f.body.left : n;
            if (f.type == SRV_BYTES && srv_cursor_copy(&f.body, t->data, (size_t)k))
                got = k;
        } else if (f.type == SRV_BYTES) {
            if (!read_packed(f.body, form, dtype, t->data, n, &got))
                return srv_wire_malformed(err, "packed values");
        } else if (f.type == (int)form->type) {
            if (form->type == SRV_VARINT)
                store_varint(t->data, got, f.value, dtype);
            else /* the wire format and all supported machines are little-endian */
                memcpy((char *)t->data + (size_t)got * value_size(dtype, form), &f.value,
                       value_size(dtype, form));
            got++;
        }
    }
    *n_read = got;
    return RT_OK;
}

/* Reads strings from tensor_content. It contains the lengths of all strings, followed by their
 * bytes. */
static enum rt_status strings_from_content(struct srv_cursor c, struct rt_str *dst, int64_t n,
                                           struct rt_error *err)
{
    struct srv_cursor lengths = c;
    uint64_t total = 0, len;

    for (int64_t i = 0; i < n; i++) {
        if (!srv_should_continue(c.cancellation, STRING_COST) || !srv_cursor_varint(&c, &len) ||
            len > c.left || (total += len) > c.left)
            return srv_wire_malformed(err, "tensor_content of strings");
    }
    if (total != c.left)
        return srv_wire_malformed(err, "tensor_content of strings");
    for (int64_t i = 0; i < n; i++) {
        srv_cursor_varint(&lengths, &len);
        if (!srv_should_continue(c.cancellation, STRING_COST + (size_t)len))
            return srv_cancellation_status(c.cancellation, err);
        char *to = rt_str_resize(&dst[i], NULL, (size_t)len, err);
        if (!to)
            return err->code;
        srv_cursor_copy(&c, to, (size_t)len);
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
        srv_cursor_copy(&content, t->data, (size_t)n * size);
        if (dtype == RT_BOOL) /* kernels require booleans to be 0 or 1 */
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
            rt_str_copy((struct rt_str *)t->data + i, (struct rt_str *)t->data + got - 1);
        return RT_OK;
    }
    if (!got) {
        memset(t->data, 0, (size_t)n * size);
        return RT_OK;
    }
    srv_repeat((char *)t->data + (size_t)(got - 1) * size, n - got + 1, size);
    return RT_OK;
}

enum rt_status srv_tensor_read(struct srv_cursor message, enum rt_dtype expected,
                               struct rt_tensor *out, struct srv_allowance *allowance,
                               struct rt_error *err)
{
    struct head h;
    char buffer[128];
    bool is_ref;
    enum rt_status st = read_head(message, &h, err);
    enum rt_dtype dtype = rt_dtype_from_wire(h.dtype, &is_ref);
    struct form form = form_of(dtype);
    size_t bytes;

    *out = (struct rt_tensor){0};
    if (st)
        return st;
    if (dtype == RT_NO_DTYPE || is_ref || !form.number)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a tensor of type %s (%d) is no value",
                       rt_dtype_name(dtype), h.dtype);
    if (rt_shape_check(dtype, h.rank, h.dim, &bytes, NULL))
        return rt_fail(err, RT_INVALID_ARGUMENT, "a tensor of shape %s",
                       rt_shape_text(buffer, sizeof buffer, h.rank, h.dim));
    const int64_t n = rt_count(h.rank, h.dim);
    if (n && h.content.left &&
        (dtype == RT_STRING ? (size_t)n > h.content.left : bytes != h.content.left))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "tensor_content holds %zu bytes, not those of shape %s and type %s",
                       h.content.left, rt_shape_text(buffer, sizeof buffer, h.rank, h.dim),
                       rt_dtype_name(dtype));
    if (expected != RT_NO_DTYPE && dtype != expected)
        return rt_tensor_new(out, NULL, dtype, 1, &(int64_t){0}, err);
    /* Elements that repeat a string share its bytes, so these bytes count once. */
    if (dtype == RT_STRING && n)
        bytes += h.content.left ? content_text_bytes(h.content.left, (size_t)n) : h.text_bytes;
    if (bytes > allowance->left)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED,
                       "a tensor of shape %s and type %s, of which at most %zu values are given: "
                       "more than the %zu bytes that are left for this request, which "
                       "takes at most twice --max_body_bytes",
                       rt_shape_text(buffer, sizeof buffer, h.rank, h.dim), rt_dtype_name(dtype),
                       h.content.left ? (size_t)n : most_elements(&h, &form), allowance->left);
    st = srv_allowance_take(allowance, bytes, err);
    if (!st)
        st = rt_tensor_new(out, NULL, dtype, h.rank, h.dim, err);
    if (!st && n)
        st = fill(message, &h, &form, out, err);
    if (st)
        rt_tensor_clear(out);
    return st;
}
/* ---- writing ---- */

/* Returns element i as a varint's value. Signed integers are sign-extended to 64 bits. */
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

static size_t dim_size(int64_t dim)
{
    return dim ? 1 + srv_varint_size((uint64_t)dim) : 0;
}

enum {
    RUN = 64 << 10,    /* number of elements written between two checks of `cancellation` */
    PIECE = 4 << 20,   /* number of bytes written between two checks of `cancellation` */
    ELEMENT_COST = 16, /* cost of one string or varint in bytes, as reported to `cancellation` */
};

/* Returns the size of the packed values or of tensor_content. For a repeated string field, returns
 * the size of all occurrences including tags and lengths. */
static size_t values_size(const struct rt_tensor *t, const struct form *form, bool as_content,
                          struct srv_cancellation *cancellation)
{
    enum rt_dtype dtype = (enum rt_dtype)t->dtype;
    int64_t n = rt_tensor_count(t);
    size_t size = 0;

    if (dtype != RT_STRING && (as_content || form->type != SRV_VARINT || dtype == RT_BOOL))
        return (size_t)n * rt_dtype_size(dtype);
    for (int64_t i = 0; i < n && size <= INT32_MAX;) {
        const int64_t from = i, stop = n - i < RUN ? n : i + RUN;
        for (; i < stop && dtype != RT_STRING; i++)
            size += srv_varint_size(load_varint(t->data, i, dtype));
        for (; i < stop; i++) {
            size_t len = rt_strs(t)[i].n;
            size += as_content ? srv_varint_size(len) + len : srv_bytes_size(form->number, len);
        }
        if (!srv_should_continue(cancellation, (size_t)(stop - from) * ELEMENT_COST))
            break;
    }
    return size;
}

bool srv_tensor_has_wire(enum rt_dtype dtype)
{
    return form_of(dtype).number != 0;
}

struct srv_tensor_layout srv_tensor_lay_out(const struct rt_tensor *t, bool as_content,
                                            struct srv_cancellation *cancellation)
{
    struct srv_tensor_layout l = {0};
    struct form form = form_of((enum rt_dtype)t->dtype);
    uint32_t number = as_content ? 4 : form.number;

    for (int i = 0; i < t->rank; i++)
        l.shape += srv_bytes_size(2, dim_size(t->dim[i]));
    l.values = values_size(t, &form, as_content, cancellation);
    l.tensor = 1 + srv_varint_size(t->dtype) + srv_bytes_size(2, l.shape);
    if (l.values && t->dtype == RT_STRING && !as_content)
        l.tensor += l.values;
    else if (l.values)
        l.tensor += srv_bytes_size(number, l.values);
    return l;
}

static unsigned char *copy(unsigned char *p, const void *bytes, size_t n,
                           struct srv_cancellation *cancellation)
{
    const unsigned char *from = bytes;

    for (size_t some; n; p += some, from += some, n -= some) {
        some = n < PIECE ? n : PIECE;
        memcpy(p, from, some);
        if (!srv_should_continue(cancellation, some))
            break;
    }
    return p;
}

static unsigned char *put_strings(unsigned char *p, const struct rt_tensor *t,
                                  const struct form *form, bool as_content,
                                  struct srv_cancellation *cancellation)
{
    const struct rt_str *s = rt_strs(t);
    int64_t n = rt_tensor_count(t);

    for (int64_t i = 0; i < n && as_content && srv_should_continue(cancellation, ELEMENT_COST); i++)
        p = srv_write_varint(p, s[i].n);
    for (int64_t i = 0; i < n && srv_should_continue(cancellation, ELEMENT_COST); i++) {
        if (!as_content)
            p = srv_write_head(p, form->number, s[i].n);
        p = copy(p, rt_str_data(&s[i]), s[i].n, cancellation);
    }
    return p;
}

static unsigned char *put_values(unsigned char *p, const struct rt_tensor *t,
                                 const struct form *form, bool as_content, size_t size,
                                 struct srv_cancellation *cancellation)
{
    enum rt_dtype dtype = (enum rt_dtype)t->dtype;
    int64_t n = rt_tensor_count(t);

    if (!size)
        return p;
    if (dtype != RT_STRING || as_content)
        p = srv_write_varint(srv_write_tag(p, as_content ? 4 : form->number, SRV_BYTES), size);
    if (dtype == RT_STRING)
        return put_strings(p, t, form, as_content, cancellation);
    if (as_content || form->type != SRV_VARINT || dtype == RT_BOOL)
        return copy(p, t->data, size, cancellation);
    for (int64_t i = 0; i < n;) {
        const int64_t from = i, stop = n - i < RUN ? n : i + RUN;
        for (; i < stop; i++)
            p = srv_write_varint(p, load_varint(t->data, i, dtype));
        if (!srv_should_continue(cancellation, (size_t)(stop - from) * ELEMENT_COST))
            break;
    }
    return p;
}

unsigned char *srv_tensor_emit(unsigned char *p, const struct rt_tensor *t, bool as_content,
                               const struct srv_tensor_layout *l,
                               struct srv_cancellation *cancellation)
{
    struct form form = form_of((enum rt_dtype)t->dtype);

    p = srv_write_varint(srv_write_tag(p, 1, SRV_VARINT), t->dtype);
    p = srv_write_head(p, 2, l->shape);
    for (int i = 0; i < t->rank; i++) {
        p = srv_write_head(p, 2, dim_size(t->dim[i]));
        if (t->dim[i])
            p = srv_write_varint(srv_write_tag(p, 1, SRV_VARINT), (uint64_t)t->dim[i]);
    }
    return put_values(p, t, &form, as_content, l->values, cancellation);
}

void srv_tensor_write(struct rt_bytes *out, const struct rt_tensor *t,
                      const struct srv_tensor_layout *l, struct srv_cancellation *cancellation)
{
    out->failed |= l->tensor > INT32_MAX || (cancellation && cancellation->over);
    if (!rt_bytes_reserve(out, l->tensor))
        return;
    srv_tensor_emit((unsigned char *)out->p + out->n, t, false, l, cancellation);
    out->n += l->tensor;
    out->p[out->n] = '\0';
}
