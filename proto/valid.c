#include "proto/valid.h"

#include <string.h>

#include "proto/field.h"
#include "proto/unpack.h"
#include "proto/wire.h"
#include "runtime/base/bytes.h"

enum {
    MAX_VARINT = 10,
    PIECE = 1 << 16, /* number of bytes that are read at a time from a string or packed field */
    CHECK_WORK = 1 << 18, /* number of units of work between two checks */
    FIELD_WORK = 1 << 5, /* work of a field, where a byte of a string or packed field is one unit */
};

struct validation {
    const ProtobufCMessageDescriptor *d; /* the type of the outermost message */
    const char *what;
    const struct rt_check *check;
    struct rt_error *err;
    size_t work; /* units of work since the last check */
};

static enum rt_status spend(struct validation *v, size_t work)
{
    v->work += work;
    if (v->work < CHECK_WORK)
        return RT_OK;
    v->work = 0;
    return rt_check_call(v->check, v->err);
}

static enum rt_status malformed(const struct validation *v)
{
    return rt_fail(v->err, RT_DATA_LOSS, "%s: not a %s", v->what, v->d->name);
}

/* Returns the length in bytes of the UTF-8 character at p, of which n bytes are there, or 0 if it
 * is invalid. */
static size_t character(const unsigned char *p, size_t n)
{
    unsigned char last[4] = {0};

    if (n >= sizeof last)
        return (size_t)rt_utf8_length(p);
    memcpy(last, p, n);
    return (size_t)rt_utf8_length(last);
}

static enum rt_status validate_string(struct validation *v, const ProtobufCMessageDescriptor *d,
                                      const ProtobufCFieldDescriptor *f, struct rt_span text)
{
    enum rt_status st = RT_OK;

    for (size_t at = 0, from = 0, n; at < text.n && !st; st = spend(v, at - from))
        for (from = at; at < text.n && at - from < PIECE; at += n)
            if (!(n = text.p[at] < 0x80 ? 1 : character(text.p + at, text.n - at)))
                return rt_fail(v->err, RT_DATA_LOSS, "%s: field \"%s\" of a %s is not UTF-8",
                               v->what, f->name, d->short_name);
    return st;
}

static enum rt_status validate_packed(struct validation *v, ProtobufCType type,
                                      struct rt_span packed)
{
    const size_t fixed = pb_fixed_bytes(type);
    enum rt_status st = RT_OK;
    int n = 0; /* number of bytes of the varint so far */

    if (fixed)
        return packed.n % fixed ? malformed(v) : RT_OK;
    for (size_t at = 0, from = 0; at < packed.n && !st; st = spend(v, at - from))
        for (from = at; at < packed.n && at - from < PIECE; at++) {
            n = packed.p[at] < 0x80 ? 0 : n + 1;
            if (n == MAX_VARINT)
                return malformed(v);
        }
    return !st && n ? malformed(v) : st;
}

static enum rt_status validate_message(struct validation *v, const ProtobufCMessageDescriptor *d,
                                       struct rt_span rest, int depth)
{
    enum rt_status st = RT_OK;
    struct pb_field f;
    int more = 0;

    if (depth > PB_MAX_DEPTH)
        return rt_fail(v->err, RT_DATA_LOSS, "%s: messages nested deeper than %d", v->what,
                       PB_MAX_DEPTH);
    while (!st && (more = pb_field_next(&rest, &f)) > 0) {
        const ProtobufCFieldDescriptor *known =
            f.type == PB_BYTES ? protobuf_c_message_descriptor_get_field(d, f.number) : NULL;
        st = spend(v, FIELD_WORK);
        if (st || !known || known->type == PROTOBUF_C_TYPE_BYTES)
            continue;
        if (known->type == PROTOBUF_C_TYPE_MESSAGE)
            st = validate_message(v, known->descriptor, f.bytes, depth + 1);
        else if (known->type == PROTOBUF_C_TYPE_STRING)
            st = validate_string(v, d, known, f.bytes);
        else if (known->label == PROTOBUF_C_LABEL_REPEATED)
            st = validate_packed(v, known->type, f.bytes);
    }
    return st ? st : more < 0 ? malformed(v) : RT_OK;
}

enum rt_status pb_validate(const ProtobufCMessageDescriptor *d, struct rt_span bytes,
                           const char *what, const struct rt_check *check, struct rt_error *err)
{
    struct validation v = {.d = d, .what = what, .check = check, .err = err};

    return validate_message(&v, d, bytes, 0);
}
