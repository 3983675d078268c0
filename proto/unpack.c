#include "proto/unpack.h"

#include <stdlib.h>
#include <string.h>

#include "proto/field.h"
#include "proto/wire.h"
#include "runtime/base/growth.h"

enum verdict {
    FINE,
    TOO_DEEP,
    IN_PIECES,
    HAS_NUL,
    LONG_STRING,
    TOO_LARGE,
    BROKEN,
    STOPPED,
    NO_MEMORY
};

enum {
    BLOCK_BYTES = 16, /* number of bytes that the memory allocator adds to each block */
    /* maximum number of fields of a message type; the largest type has 40 */
    MAX_FIELDS = 128,
    CHECK_FIELDS = 1 << 14, /* number of fields that are scanned between two checks */
    /* Number of units of work between two checks while a message is built. A field counts as
     * FIELD_WORK units, and each byte of a string or packed field as one. A check takes place about
     * every millisecond. */
    CHECK_WORK = 1 << 20,
    FIELD_WORK = 1 << 8,
    /* number of bytes that are read at a time from a string, bytes or packed field */
    PIECE = 1 << 16,
};

struct look {
    size_t left; /* number of bytes that unpacking may still allocate */
    /* the wrong field and its message type, for IN_PIECES, HAS_NUL and LONG_STRING */
    const ProtobufCFieldDescriptor *offender;
    const ProtobufCMessageDescriptor *offender_of;
    const struct rt_check *check;
    struct rt_error *err; /* receives the error of `check` */
    int n_unchecked;      /* number of fields since the last check */
};

static bool spend(struct look *l, size_t bytes)
{
    if (bytes > l->left)
        return false;
    l->left -= bytes;
    return true;
}

/* Returns the wire type of an unpacked field. */
static enum pb_wire_type wire_type(ProtobufCType t)
{
    const size_t fixed = pb_fixed_bytes(t);

    if (t == PROTOBUF_C_TYPE_STRING || t == PROTOBUF_C_TYPE_BYTES || t == PROTOBUF_C_TYPE_MESSAGE)
        return PB_BYTES;
    return fixed == 8 ? PB_FIXED64 : fixed == 4 ? PB_FIXED32 : PB_VARINT;
}

/* Finds the fields of a message type. `last` is the last field that was looked up by its number,
 * because the elements of a repeated field follow each other. */
struct finder {
    const ProtobufCMessageDescriptor *d;
    uint32_t number;
    const ProtobufCFieldDescriptor *last;
};

/* Returns the field of the message type to which `f` belongs. Returns NULL if the type does not
 * have the field, or has it with another wire type. As in protobuf, `f` is then an unknown field.
 */
static const ProtobufCFieldDescriptor *find_field(struct finder *k, const struct pb_field *f)
{
    if (k->number != f->number)
        k->last = protobuf_c_message_descriptor_get_field(k->d, f->number);
    k->number = f->number;
    if (!k->last || f->type == wire_type(k->last->type))
        return k->last;
    return f->type == PB_BYTES && k->last->label == PROTOBUF_C_LABEL_REPEATED ? k->last : NULL;
}

/* Returns the maximum number of bytes allocated for a field, without the contents of a submessage.
 * The array of a repeated field doubles when it is full, so it may have space for twice the number
 * of elements. */
static size_t field_bytes(const ProtobufCFieldDescriptor *known, const struct pb_field *f)
{
    const size_t n = f->bytes.n;

    if (!known)
        return 2 * sizeof(ProtobufCMessageUnknownField) + 2 * BLOCK_BYTES + f->whole.n;
    const size_t place = 2 * pb_element_bytes(known->type), fixed = pb_fixed_bytes(known->type);
    if (f->type != PB_BYTES || known->type == PROTOBUF_C_TYPE_MESSAGE)
        return BLOCK_BYTES + place;
    if (known->type == PROTOBUF_C_TYPE_STRING || known->type == PROTOBUF_C_TYPE_BYTES)
        return place + 2 * BLOCK_BYTES + 1 + n;
    /* a packed varint takes at least one byte */
    return BLOCK_BYTES + n / (fixed ? fixed : 1) * place;
}

static enum verdict look_at(struct look *l, const ProtobufCMessageDescriptor *d,
                            struct rt_span rest, int depth)
{
    struct finder finder = {.d = d};
    unsigned char pieces[MAX_FIELDS] = {0};
    struct pb_field f;
    int more;

    if (depth > PB_MAX_DEPTH)
        return TOO_DEEP;
    if (!spend(l, d->sizeof_message + BLOCK_BYTES))
        return TOO_LARGE;
    while ((more = pb_field_next(&rest, &f)) > 0) {
        const ProtobufCFieldDescriptor *known = find_field(&finder, &f);
        if (++l->n_unchecked == CHECK_FIELDS) {
            l->n_unchecked = 0;
            if (rt_check_call(l->check, l->err))
                return STOPPED;
        }
        if (!spend(l, field_bytes(known, &f)))
            return TOO_LARGE;
        if (known && known->type == PROTOBUF_C_TYPE_STRING && f.bytes.n) {
            const bool is_long = f.bytes.n > PB_MAX_STRING;
            l->offender = known;
            l->offender_of = d;
            if (is_long || memchr(f.bytes.p, '\0', f.bytes.n))
                return is_long ? LONG_STRING : HAS_NUL;
        }
        if (!known || known->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (known->label != PROTOBUF_C_LABEL_REPEATED &&
            ++pieces[(known - d->fields) % MAX_FIELDS] > PB_MAX_PIECES) {
            l->offender = known;
            l->offender_of = d;
            return IN_PIECES;
        }
        enum verdict v = look_at(l, known->descriptor, f.bytes, depth + 1);
        if (v != FINE)
            return v;
    }
    return more < 0 ? BROKEN : FINE;
}

/* ---- building ---- */

struct building {
    const struct rt_check *check;
    struct rt_error *err;
    enum verdict failure; /* FINE, BROKEN, STOPPED or NO_MEMORY */
    size_t work;          /* units of work since the last check */
};

/* Records the first failure. Returns false. */
static bool fail(struct building *b, enum verdict v)
{
    if (b->failure == FINE)
        b->failure = v;
    return false;
}

static bool spend_work(struct building *b, size_t work)
{
    b->work += work;
    if (b->work < CHECK_WORK)
        return true;
    b->work = 0;
    return rt_check_call(b->check, b->err) ? fail(b, STOPPED) : true;
}

/* Returns a copy of the bytes, followed by a NUL. Returns NULL after a failure. */
static void *copy_bytes(struct building *b, struct rt_span from)
{
    char *p = malloc(from.n + 1);

    if (!p) {
        fail(b, NO_MEMORY);
        return NULL;
    }
    for (size_t at = 0; at < from.n; at += PIECE) {
        const size_t some = from.n - at < PIECE ? from.n - at : PIECE;
        memcpy(p + at, from.p + at, some);
        if (!spend_work(b, some)) {
            free(p);
            return NULL;
        }
    }
    p[from.n] = '\0';
    return p;
}

/* Stores a scalar value, given its bits on the wire. */
static void store_scalar(ProtobufCType t, void *to, uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    const uint32_t zigzag32 = low >> 1 ^ (0 - (low & 1));
    const uint64_t zigzag64 = bits >> 1 ^ (0 - (bits & 1));
    const protobuf_c_boolean b = bits != 0;

    switch (t) {
    case PROTOBUF_C_TYPE_BOOL:
        memcpy(to, &b, sizeof b);
        break;
    case PROTOBUF_C_TYPE_SINT32:
        memcpy(to, &zigzag32, 4);
        break;
    case PROTOBUF_C_TYPE_SINT64:
        memcpy(to, &zigzag64, 8);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(to, &bits, 8);
        break;
    default: /* a type of four bytes, or an enum */
        memcpy(to, &low, 4);
        break;
    }
}

/* Stores n varints of one byte each. Returns false if the type needs store_scalar. */
static bool store_small(ProtobufCType t, char *to, const unsigned char *from, size_t n)
{
    const bool is_signed = t == PROTOBUF_C_TYPE_SINT32 || t == PROTOBUF_C_TYPE_SINT64;

    if (is_signed || t == PROTOBUF_C_TYPE_BOOL)
        return false;
    if (pb_element_bytes(t) == 8)
        for (size_t i = 0; i < n; i++)
            ((uint64_t *)(void *)to)[i] = from[i];
    else
        for (size_t i = 0; i < n; i++)
            ((uint32_t *)(void *)to)[i] = from[i];
    return true;
}

static bool add_packed(struct building *b, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                       struct rt_span rest)
{
    const size_t fixed = pb_fixed_bytes(f->type), size = pb_element_bytes(f->type);
    uint64_t bits = 0;

    while (rest.n) {
        size_t some = rest.n < PIECE ? rest.n : PIECE, n = 0;
        if (fixed) {
            n = some / fixed;
            some = n * fixed;
        }
        for (size_t i = 0; !fixed && i < some; i++)
            n += rest.p[i] < 128;
        /* The last byte of each element is below 128. If the piece has no such byte, an element is
         * too long or incomplete. */
        char *to = n ? pb_append(m, f, n) : NULL;
        if (!to)
            return fail(b, n ? NO_MEMORY : BROKEN);
        const size_t before = rest.n;
        const bool is_done = !fixed && n == some && store_small(f->type, to, rest.p, n);
        if (fixed)
            memcpy(to, rest.p, some);
        if (fixed || is_done)
            rest = rt_span_of(rest.p + some, rest.n - some);
        for (size_t i = 0; !fixed && !is_done && i < n; i++) {
            if (!pb_varint(&rest, &bits))
                return fail(b, BROKEN);
            store_scalar(f->type, to + i * size, bits);
        }
        if (!spend_work(b, before - rest.n))
            return false;
    }
    return true;
}

/* Copies a field that the message type does not have. */
static bool add_unknown(struct building *b, ProtobufCMessage *m, const struct pb_field *f)
{
    struct rt_span tag = f->whole;
    const size_t n = m->n_unknown_fields;
    uint64_t number;

    if ((n & (n - 1)) == 0) { /* the capacity is the smallest power of two that suffices */
        ProtobufCMessageUnknownField *more =
            realloc(m->unknown_fields, (n ? 2 * n : 1) * sizeof *more);
        if (!more)
            return fail(b, NO_MEMORY);
        m->unknown_fields = more;
    }
    pb_varint(&tag, &number);
    uint8_t *data = copy_bytes(b, tag);
    if (!data)
        return false;
    m->unknown_fields[m->n_unknown_fields++] = (ProtobufCMessageUnknownField){
        .tag = f->number, .wire_type = (ProtobufCWireType)f->type, .len = tag.n, .data = data};
    return true;
}

/* Frees field `number`, the member of a oneof that is set, and zeroes its memory. */
static void clear_member(ProtobufCMessage *m, uint32_t number)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(m->descriptor, number);
    void *value = (char *)m + f->offset;

    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        pb_free(*(void **)value);
    else if (f->type == PROTOBUF_C_TYPE_BYTES)
        free(((ProtobufCBinaryData *)value)->data);
    else if (f->type == PROTOBUF_C_TYPE_STRING && *(char **)value != f->default_value)
        free(*(char **)value);
    memset(value, 0, pb_element_bytes(f->type));
}

/* Returns the address at which to store the value of `f`. Returns NULL after a failure. */
static void *slot_of(struct building *b, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        void *slot = pb_append(m, f, 1);
        if (!slot)
            fail(b, NO_MEMORY);
        return slot;
    }
    const uint32_t set = *(const uint32_t *)(const void *)((const char *)m + f->quantifier_offset);
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) && set && set != f->id)
        clear_member(m, set);
    return pb_set_field(m, f);
}

static bool build(struct building *b, ProtobufCMessage *m, struct rt_span rest);

/* Allocates a zeroed message. Returns NULL after a failure. */
static ProtobufCMessage *new_message(struct building *b, const ProtobufCMessageDescriptor *d)
{
    ProtobufCMessage *m = calloc(1, d->sizeof_message);

    if (m)
        d->message_init(m);
    else
        fail(b, NO_MEMORY);
    return m;
}

static bool add_value(struct building *b, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                      const struct pb_field *from)
{
    void *slot = slot_of(b, m, f), *copy;
    ProtobufCMessage **message = slot;
    ProtobufCBinaryData *bytes = slot;
    char **text = slot;

    if (!slot)
        return false;
    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE: /* merges several occurrences of a singular message */
        if (!*message)
            *message = new_message(b, f->descriptor);
        return *message && build(b, *message, from->bytes);
    case PROTOBUF_C_TYPE_STRING:
        copy = copy_bytes(b, from->bytes);
        if (copy && *text != f->default_value)
            free(*text);
        if (copy)
            *text = copy;
        return copy;
    case PROTOBUF_C_TYPE_BYTES:
        copy = from->bytes.n ? copy_bytes(b, from->bytes) : NULL;
        if (from->bytes.n && !copy)
            return false;
        free(bytes->data);
        *bytes = (ProtobufCBinaryData){from->bytes.n, copy};
        return true;
    default:
        store_scalar(f->type, slot, from->value);
        return true;
    }
}

/* Adds the fields of a serialized message to `m`. look_at must have accepted the message. */
static bool build(struct building *b, ProtobufCMessage *m, struct rt_span rest)
{
    struct finder finder = {.d = m->descriptor};
    struct pb_field f;
    bool ok = true;

    while (ok && pb_field_next(&rest, &f) > 0) {
        const ProtobufCFieldDescriptor *known = find_field(&finder, &f);
        if (!spend_work(b, FIELD_WORK))
            return false;
        if (!known)
            ok = add_unknown(b, m, &f);
        else if (f.type == wire_type(known->type))
            ok = add_value(b, m, known, &f);
        else
            ok = add_packed(b, m, known, f.bytes);
    }
    return ok;
}

/* Builds a message. Returns NULL on failure. */
static void *build_message(struct building *b, const ProtobufCMessageDescriptor *d,
                           struct rt_span bytes)
{
    ProtobufCMessage *m = new_message(b, d);

    if (m && !build(b, m, bytes)) {
        pb_free(m);
        return NULL;
    }
    return m;
}

/* ---- the whole ---- */

void *pb_unpack_checked(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                        const struct rt_check *check, struct rt_error *err)
{
    struct look l = {
        .left = rt_growth_limit(PB_FREE_BYTES, bytes.n, PB_MAX_GROWTH), .check = check, .err = err};
    struct building b = {.check = check, .err = err};
    enum verdict v = look_at(&l, d, bytes, 1);
    void *m = v == FINE ? build_message(&b, d, bytes) : NULL;

    switch (v == FINE ? b.failure : v) {
    case TOO_DEEP:
        rt_fail(err, RT_INVALID_ARGUMENT, "%s: messages nested deeper than %d", what, PB_MAX_DEPTH);
        return NULL;
    case IN_PIECES:
        rt_fail(err, RT_INVALID_ARGUMENT,
                "%s: field \"%s\" of a %s is given in more than %d pieces", what, l.offender->name,
                l.offender_of->short_name, PB_MAX_PIECES);
        return NULL;
    case HAS_NUL:
        rt_fail(err, RT_INVALID_ARGUMENT, "%s: field \"%s\" of a %s holds a NUL", what,
                l.offender->name, l.offender_of->short_name);
        return NULL;
    case LONG_STRING:
        rt_fail(err, RT_INVALID_ARGUMENT, "%s: field \"%s\" of a %s has more than %d bytes", what,
                l.offender->name, l.offender_of->short_name, PB_MAX_STRING);
        return NULL;
    case TOO_LARGE:
        rt_fail(err, RT_INVALID_ARGUMENT,
                "%s: a %s of %zu bytes would take more than %d bytes of memory for each of them",
                what, d->short_name, bytes.n, PB_MAX_GROWTH);
        return NULL;
    case BROKEN:
        rt_fail(err, RT_INVALID_ARGUMENT, "%s: not a %s", what, d->name);
        return NULL;
    case NO_MEMORY:
        rt_fail_memory(err, what, bytes.n);
        return NULL;
    case FINE:
    case STOPPED:
        break;
    }
    return m;
}

void *pb_unpack(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                struct rt_error *err)
{
    return pb_unpack_checked(d, bytes, what, NULL, err);
}

enum rt_status pb_unpacked_bytes_checked(const ProtobufCMessageDescriptor *d, struct rt_span bytes,
                                         const struct rt_check *check, size_t *out,
                                         struct rt_error *err)
{
    struct look l = {.left = SIZE_MAX, .check = check, .err = err};
    const enum verdict v = look_at(&l, d, bytes, 1);

    *out = SIZE_MAX - l.left;
    return v == STOPPED ? err->code : RT_OK;
}

size_t pb_unpacked_bytes(const ProtobufCMessageDescriptor *d, struct rt_span bytes)
{
    struct rt_error none;
    size_t n;

    pb_unpacked_bytes_checked(d, bytes, NULL, &n, &none);
    return n;
}

void pb_free(void *message)
{
    protobuf_c_message_free_unpacked(message, NULL);
}
