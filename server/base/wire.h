/*
 * A hand-written reader and writer of protobuf messages: a cursor over the slices of memory that a
 * transport delivers, an iterator over fields, and functions that measure and write fields. Before
 * memory is allocated for a length from a message, the length is compared with the number of bytes
 * present.
 *
 * Threads: the functions are pure; parsed data is allocated in the caller's arena.
 */
#ifndef SRV_WIRE_H
#define SRV_WIRE_H

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"
#include "server/base/cancellation.h"

/* ---- reading ---- */

/* A position in a message that is spread over several slices of memory. */
struct srv_cursor {
    /* the current slice; it and the slices after it contain at least `left` unread bytes */
    const struct rt_span *slice;
    size_t off;  /* offset of the cursor in the current slice */
    size_t left; /* number of bytes of the message that are not read yet */
    /*
     * Points to the number of fields that srv_field_next may still read from the message. If the
     * pointer is NULL, the number is unlimited. The cursors of nested messages share the counter,
     * so the counter bounds the time for reading a message. If the counter is negative after a
     * message has been read, the limit was exceeded. The caller must then discard the result, even
     * if no error was returned.
     */
    int64_t *fields_left;
    /* The cancellation of the request that contains the message, or NULL. When it reports that the
     * request is cancelled, srv_field_next returns -1. The caller must then discard the result, as
     * srv_inference_read and srv_inference_bind do. */
    struct srv_cancellation *cancellation;
};
struct srv_cursor srv_cursor_of(const struct rt_span *slices, size_t total);
/* Copies n bytes to dst and moves the cursor past them. If dst is NULL, only moves the cursor.
 * Returns false if fewer than n bytes are left. */
bool srv_cursor_copy(struct srv_cursor *c, void *dst, size_t n);
bool srv_cursor_varint(struct srv_cursor *c, uint64_t *out);
/* Makes the rest of the message contiguous. *out is a span of the message, or of a copy in the
 * arena. */
enum rt_status srv_cursor_span(struct srv_cursor c, struct rt_span *out, struct rt_arena *arena,
                               struct rt_error *err);

/* Decoders of packed varints report SRV_PACKED_COST bytes to srv_should_continue before every
 * SRV_PACKED_PART values. */
enum { SRV_PACKED_PART = 1 << 16, SRV_PACKED_COST = 8 << 16 };

enum srv_wire_type { SRV_VARINT = 0, SRV_FIXED64 = 1, SRV_BYTES = 2, SRV_FIXED32 = 5 };
struct srv_field {
    uint32_t number;
    int type; /* a value of enum srv_wire_type */
    uint64_t value;
    struct srv_cursor body;
};
/* Reads the next field into *f. Returns 1 for a field, 0 at the end of the message, and -1 if the
 * message is malformed, has more fields than *c->fields_left permits, or its request is cancelled.
 */
int srv_field_next(struct srv_cursor *c, struct srv_field *f);
static inline bool srv_field_is(const struct srv_field *f, uint32_t number, enum srv_wire_type type)
{
    return f->number == number && f->type == (int)type;
}
enum rt_status srv_field_span(const struct srv_field *f, struct rt_span *out,
                              struct rt_arena *arena, struct rt_error *err);
/* Fails with INVALID_ARGUMENT "the request is not well formed protobuf: WHAT". */
enum rt_status srv_wire_malformed(struct rt_error *err, const char *what);

/* ---- writing into memory of a measured size ---- */

size_t srv_varint_size(uint64_t v);
/* returns the size of a field with n bytes of content, including its tag and length */
size_t srv_bytes_size(uint32_t number, size_t n);
unsigned char *srv_write_varint(unsigned char *p, uint64_t v);
unsigned char *srv_write_tag(unsigned char *p, uint32_t number, enum srv_wire_type type);
/* Writes the tag of a field and the length n. The caller writes the n bytes. */
unsigned char *srv_write_head(unsigned char *p, uint32_t number, size_t n);
unsigned char *srv_write_bytes(unsigned char *p, uint32_t number, const void *bytes, size_t n);

/* ---- writing small messages ---- */

void srv_put_int(struct rt_bytes *out, uint32_t number, uint64_t v); /* writes no field if v is 0 */
/* Writes no field if v is +0. */
void srv_put_float(struct rt_bytes *out, uint32_t number, float v);
/* Appends the tag of a field and the length n. The caller appends the n bytes. */
void srv_put_head(struct rt_bytes *out, uint32_t number, size_t n);
void srv_put_bytes(struct rt_bytes *out, uint32_t number, const void *p, size_t n);
/* Appends the contents of `message` as a field, and empties `message`. If `message` has failed,
 * `out` also fails. */
void srv_put_message(struct rt_bytes *out, uint32_t number, struct rt_bytes *message);
static inline void srv_put_text(struct rt_bytes *out, uint32_t number, const char *s)
{
    if (*s)
        srv_put_bytes(out, number, s, strlen(s));
}

#endif
