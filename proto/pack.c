/*
 * Two passes traverse a message in the same order. The first pass computes sizes, and records the
 * sizes of all nested messages and packed fields. The second pass writes the bytes.
 */
#include "proto/pack.h"

#include <stdlib.h>
#include <string.h>

#include "proto/field.h"
#include "proto/wire.h"
#include "runtime/base/bytes.h"
#include "runtime/base/pieces.h"

struct packing {
    unsigned char *p;        /* destination of the bytes, or NULL in the first pass */
    size_t n;                /* number of bytes counted or written so far */
    struct rt_bytes lengths; /* sizes (size_t) of all nested messages and packed fields, in order */
    size_t at;               /* index of the next element of `lengths` */
    bool keeps_lengths;
    const struct rt_check *check; /* may be NULL */
    struct rt_error *err;
    uint64_t n_steps;
    enum rt_status stopped; /* status of the check after its failure, otherwise RT_OK */
};

static bool step(struct packing *x)
{
    if (!x->stopped)
        x->stopped = rt_check_tick(x->check, ++x->n_steps, x->err);
    return !x->stopped;
}

static void put_varint(struct packing *x, uint64_t v)
{
    for (; v > 127; v >>= 7, x->n++)
        if (x->p)
            x->p[x->n] = (unsigned char)(v | 128);
    if (x->p)
        x->p[x->n] = (unsigned char)v;
    x->n++;
}

static void put_tag(struct packing *x, uint32_t number, enum pb_wire_type type)
{
    put_varint(x, (uint64_t)number << 3 | type);
}

static void put_fixed(struct packing *x, uint64_t bits, int bytes)
{
    for (int i = 0; i < bytes && x->p; i++)
        x->p[x->n + (size_t)i] = (unsigned char)(bits >> (8 * i));
    x->n += (size_t)bytes;
}

static void put_bytes(struct packing *x, const void *from, size_t n)
{
    if (x->p && !x->stopped)
        x->stopped = rt_copy_pieces(x->p + x->n, from, n, x->check, x->err);
    x->n += n;
}

static enum pb_wire_type wire_type(ProtobufCType t)
{
    switch (t) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return PB_BYTES;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return PB_FIXED64;
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return PB_FIXED32;
    default:
        return PB_VARINT;
    }
}

/* Writes a scalar value, without a tag. */
static void put_scalar(struct packing *x, ProtobufCType t, const void *value)
{
    uint64_t bits = 0;
    uint32_t low = 0;

    if (pb_element_bytes(t) == 8) {
        memcpy(&bits, value, 8);
    } else {
        memcpy(&low, value, 4);
        bits = low;
    }
    if (wire_type(t) != PB_VARINT) {
        put_fixed(x, bits, wire_type(t) == PB_FIXED64 ? 8 : 4);
        return;
    }
    switch (t) {
    case PROTOBUF_C_TYPE_SINT32:
        bits = (uint32_t)(low << 1 ^ (0 - (low >> 31)));
        break;
    case PROTOBUF_C_TYPE_SINT64:
        bits = bits << 1 ^ (0 - (bits >> 63));
        break;
    case PROTOBUF_C_TYPE_BOOL:
        bits = bits != 0;
        break;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM: /* a negative number takes ten bytes */
        bits = (uint64_t)(int64_t)(int32_t)low;
        break;
    default:
        break;
    }
    put_varint(x, bits);
}

static void put_fields(struct packing *x, const ProtobufCMessage *m);

/* Called before the contents of a length-delimited field. In the second pass, writes their length.
 * Returns the index of the length in `lengths`. */
static size_t begin_length(struct packing *x)
{
    const size_t none = 0, place = x->at++;

    if (!x->p && x->keeps_lengths)
        rt_bytes_add(&x->lengths, &none, sizeof none);
    if (x->p) {
        size_t length;
        memcpy(&length, x->lengths.p + place * sizeof length, sizeof length);
        put_varint(x, length);
    }
    return place;
}

/* Called after the contents of a length-delimited field, which begin at byte `from`. In the first
 * pass, stores their length and counts the bytes of the length's varint. */
static void end_length(struct packing *x, size_t place, size_t from)
{
    const size_t length = x->n - from;

    if (x->p)
        return;
    if (x->keeps_lengths && !x->lengths.failed)
        memcpy(x->lengths.p + place * sizeof length, &length, sizeof length);
    put_varint(x, length);
}

static void put_message(struct packing *x, const ProtobufCMessage *m)
{
    const size_t place = begin_length(x), from = x->n;

    if (m)
        put_fields(x, m);
    end_length(x, place, from);
}

/* Writes a value with its tag. */
static void put_value(struct packing *x, const ProtobufCFieldDescriptor *f, const void *value)
{
    const ProtobufCBinaryData *bytes = value;
    const char *text = NULL;

    put_tag(x, f->id, wire_type(f->type));
    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        put_message(x, *(const ProtobufCMessage *const *)value);
        break;
    case PROTOBUF_C_TYPE_STRING:
        text = *(const char *const *)value;
        put_varint(x, text ? strlen(text) : 0);
        put_bytes(x, text, text ? strlen(text) : 0);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        put_varint(x, bytes->len);
        put_bytes(x, bytes->data, bytes->len);
        break;
    default:
        put_scalar(x, f->type, value);
        break;
    }
}

static void put_repeated(struct packing *x, const ProtobufCFieldDescriptor *f, const char *array,
                         size_t n)
{
    const size_t size = pb_element_bytes(f->type);

    if (!(f->flags & PROTOBUF_C_FIELD_FLAG_PACKED)) {
        for (size_t i = 0; i < n && step(x); i++)
            put_value(x, f, array + i * size);
        return;
    }
    put_tag(x, f->id, PB_BYTES);
    const size_t place = begin_length(x), from = x->n;
    for (size_t i = 0; i < n && step(x); i++)
        put_scalar(x, f->type, array + i * size);
    end_length(x, place, from);
}

static void put_fields(struct packing *x, const ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;

    for (unsigned i = 0; i < d->n_fields && step(x); i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        const char *value = (const char *)m + f->offset;
        if (!pb_field_is_set(m, f))
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED)
            put_repeated(x, f, *(const char *const *)(const void *)value,
                         *(const size_t *)(const void *)((const char *)m + f->quantifier_offset));
        else
            put_value(x, f, value);
    }
    for (unsigned i = 0; i < m->n_unknown_fields && step(x); i++) {
        const ProtobufCMessageUnknownField *u = &m->unknown_fields[i];
        put_tag(x, u->tag, (enum pb_wire_type)u->wire_type);
        put_bytes(x, u->data, u->len);
    }
}

enum rt_status pb_packed_bytes(const ProtobufCMessage *m, const struct rt_check *check, size_t *out,
                               struct rt_error *err)
{
    struct packing x = {.check = check, .err = err};

    put_fields(&x, m);
    *out = x.n;
    return x.stopped;
}

enum rt_status pb_pack(const ProtobufCMessage *m, size_t limit, const struct rt_check *check,
                       char **out, size_t *n, struct rt_error *err)
{
    struct packing x = {.keeps_lengths = true, .check = check, .err = err};
    enum rt_status st;

    rt_bytes_init(&x.lengths, SIZE_MAX / 2);
    put_fields(&x, m);
    st = x.stopped;
    const size_t total = x.n;
    if (!st && total > limit)
        st = rt_fail(err, RT_RESOURCE_EXHAUSTED, "a message of %zu bytes, more than %zu", total,
                     limit);
    char *p = st || x.lengths.failed ? NULL : malloc(total + 1);
    if (!st && !p)
        st = rt_fail_memory(err, "a message", total);
    if (!st) {
        x.p = (unsigned char *)p;
        x.n = x.at = 0;
        put_fields(&x, m);
        p[total] = '\0';
        st = x.stopped;
    }
    rt_bytes_clear(&x.lengths);
    if (st) {
        free(p);
        return st;
    }
    *out = p;
    *n = total;
    return RT_OK;
}
