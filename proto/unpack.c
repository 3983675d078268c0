#include "proto/unpack.h"

#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"
#include "runtime/base/growth.h"

enum verdict { FINE, TOO_DEEP, IN_PIECES, HAS_NUL, TOO_LARGE, BROKEN, STOPPED };

enum {
    /* Size of the record that protobuf-c stores for each parsed field while it unpacks a message.
     * The records are stored in slabs, each twice as large as the previous one. */
    FIELD_BYTES = 48,
    BLOCK_BYTES = 16, /* number of bytes that the memory allocator adds to each block */
    /* number of fields of a message type whose occurrences can be counted; the largest type has 40
     * fields */
    MAX_FIELDS = 128,
    /* numbers of fields, allocations and allocated bytes after which the check is called again */
    CHECK_FIELDS = 1 << 14,
    CHECK_BLOCKS = 1 << 12,
    CHECK_BYTES = 1 << 24,
};

struct look {
    size_t left; /* number of bytes that unpacking may still allocate */
    /* for IN_PIECES and HAS_NUL: the offending field, and the message type that contains it
     * directly */
    const ProtobufCFieldDescriptor *offender;
    const ProtobufCMessageDescriptor *offender_of;
    const struct rt_check *check;
    struct rt_error *err; /* where the error is stored if `check` fails */
    int n_unchecked;      /* number of fields since the last check */
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

/* Returns the number of bytes that protobuf-c allocates for one field, excluding the contents of a
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
    /* a packed field has at most n elements, because each takes at least one byte */
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
        if (++l->n_unchecked == CHECK_FIELDS) {
            l->n_unchecked = 0;
            if (rt_check_call(l->check, l->err))
                return STOPPED;
        }
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

/* State of one call of protobuf-c's unpacking function. The function returns NULL both for a
 * malformed message and after a failed allocation, so the cause is recorded here. */
struct unpacking {
    const struct rt_check *check;
    struct rt_error *err;
    bool no_memory, is_stopped; /* whether memory ran out, and whether the check failed */
    int n_blocks;               /* numbers of blocks and bytes allocated since the last check */
    size_t n_bytes;
};

/* Allocates n bytes for protobuf-c. Returns NULL, which stops protobuf-c, if the check fails or
 * memory runs out. */
static void *allocate(void *arg, size_t n)
{
    struct unpacking *u = arg;

    u->n_bytes += n < CHECK_BYTES ? n : CHECK_BYTES;
    if (++u->n_blocks >= CHECK_BLOCKS || u->n_bytes >= CHECK_BYTES) {
        u->n_blocks = 0;
        u->n_bytes = 0;
        u->is_stopped = u->is_stopped || rt_check_call(u->check, u->err);
    }
    if (u->is_stopped)
        return NULL;
    void *p = malloc(n);
    u->no_memory |= !p;
    return p;
}

static void give_back(void *arg, void *p)
{
    (void)arg;
    free(p);
}

void *pb_unpack_checked(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                        const struct rt_check *check, struct rt_error *err)
{
    struct look l = {
        .left = rt_growth_limit(PB_FREE_BYTES, bytes.n, PB_MAX_GROWTH), .check = check, .err = err};
    struct unpacking u = {.check = check, .err = err};
    ProtobufCAllocator allocator = {.alloc = allocate, .free = give_back, .allocator_data = &u};
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
    case STOPPED:
        return NULL;
    }
    if (u.is_stopped)
        return NULL;
    if (u.no_memory)
        rt_fail_memory(err, what, bytes.n);
    else if (!m)
        rt_fail(err, RT_INVALID_ARGUMENT, "%s: not a %s", what, d->name);
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
