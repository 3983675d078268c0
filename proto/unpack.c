#include "proto/unpack.h"

#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"
#include "runtime/base/growth.h"

enum verdict { FINE, TOO_DEEP, IN_PIECES, HAS_NUL, TOO_LARGE, BROKEN };

enum {
    /* Size of the record that protobuf-c keeps of each parsed field while it unpacks a message.
     * The records are stored in slabs, each twice as large as the one before. */
    FIELD_BYTES = 48,
    BLOCK_BYTES = 16, /* number of bytes that the memory allocator adds to each block */
    /* maximum number of fields per message whose repetitions are counted; the largest message
     * type has 40 fields */
    MAX_FIELDS = 128,
};

struct look {
    size_t left; /* number of bytes that unpacking may still allocate */
    /* The field that caused the error IN_PIECES or HAS_NUL, and the message type that contains
     * the field, at any depth of nesting. */
    const ProtobufCFieldDescriptor *offender;
    const ProtobufCMessageDescriptor *offender_of;
};

static bool spend(struct look *l, size_t bytes)
{
    if (bytes > l->left)
        return false;
    l->left -= bytes;
    return true;
}

static size_t element_bytes(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return sizeof(uint64_t);
    }
}

/* Returns the memory that protobuf-c allocates for one field, without the contents of a
 * submessage. */
static size_t field_bytes(const ProtobufCFieldDescriptor *known, const struct pb_field *f)
{
    const size_t n = f->bytes.n;

    if (!known)
        return FIELD_BYTES + BLOCK_BYTES + sizeof(ProtobufCMessageUnknownField) + f->whole.n;
    if (f->type != PB_BYTES || known->type == PROTOBUF_C_TYPE_MESSAGE)
        return FIELD_BYTES + element_bytes(known);
    if (known->type == PROTOBUF_C_TYPE_STRING || known->type == PROTOBUF_C_TYPE_BYTES)
        return FIELD_BYTES + element_bytes(known) + BLOCK_BYTES + 1 + n;
    /* In a packed field each element takes at least one byte. */
    return FIELD_BYTES + BLOCK_BYTES + n * element_bytes(known);
}

static enum verdict look_at(struct look *l, const ProtobufCMessageDescriptor *d,
                            struct rt_span rest, int depth)
{
    const ProtobufCFieldDescriptor *known = NULL;
    unsigned char pieces[MAX_FIELDS] = {0};
    uint32_t number = 0;
    struct pb_field f;
    int more;

    if (depth > PB_MAX_DEPTH)
        return TOO_DEEP;
    if (!spend(l, d->sizeof_message + BLOCK_BYTES))
        return TOO_LARGE;
    while ((more = pb_field_next(&rest, &f)) > 0) {
        if (number != f.number)
            known = protobuf_c_message_descriptor_get_field(d, f.number);
        number = f.number;
        if (!spend(l, field_bytes(known, &f)))
            return TOO_LARGE;
        if (known && known->type == PROTOBUF_C_TYPE_STRING && f.type == PB_BYTES && f.bytes.n &&
            memchr(f.bytes.p, '\0', f.bytes.n)) {
            l->offender = known;
            l->offender_of = d;
            return HAS_NUL;
        }
        if (!known || known->type != PROTOBUF_C_TYPE_MESSAGE || f.type != PB_BYTES)
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

/* Allocates n bytes for protobuf-c, and sets the bool at `arg` if memory runs out. protobuf-c
 * itself returns NULL both for a malformed message and when memory runs out. */
static void *allocate(void *arg, size_t n)
{
    void *p = malloc(n);
    if (!p)
        *(bool *)arg = true;
    return p;
}

static void give_back(void *arg, void *p)
{
    (void)arg;
    free(p);
}

void *pb_unpack(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                struct rt_error *err)
{
    struct look l = {.left = rt_growth_limit(PB_FREE_BYTES, bytes.n, PB_MAX_GROWTH)};
    bool no_memory = false;
    ProtobufCAllocator allocator = {
        .alloc = allocate, .free = give_back, .allocator_data = &no_memory};
    void *m = NULL;

    switch (look_at(&l, d, bytes, 1)) {
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
    case TOO_LARGE:
        rt_fail(err, RT_INVALID_ARGUMENT,
                "%s: a %s of %zu bytes would take more than %d bytes of memory for each of them",
                what, d->short_name, bytes.n, PB_MAX_GROWTH);
        return NULL;
    case FINE:
        m = protobuf_c_message_unpack(d, &allocator, bytes.n, bytes.p);
        break;
    case BROKEN:
        break;
    }
    if (no_memory)
        rt_fail_memory(err, what, bytes.n);
    else if (!m)
        rt_fail(err, RT_INVALID_ARGUMENT, "%s: not a %s", what, d->name);
    return m;
}

size_t pb_unpacked_bytes(const ProtobufCMessageDescriptor *d, struct rt_span bytes)
{
    struct look l = {.left = SIZE_MAX};

    look_at(&l, d, bytes, 1);
    return SIZE_MAX - l.left;
}

void pb_free(void *message)
{
    protobuf_c_message_free_unpacked(message, NULL);
}
