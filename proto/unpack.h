/*
 * Unpacks serialized protobuf messages from files, requests, responses and the runtime's own
 * tables. protobuf_c_message_unpack is not used, because it trusts its input. Its recursion into
 * nested messages has no limit. At each repetition of a singular message field, it copies
 * everything that it has parsed of this field so far (51 s for 400 KB). It may unpack a field of
 * two bytes into a structure of hundreds of bytes. It cannot be stopped within a packed field.
 *
 * pb_unpack first scans the bytes without allocating memory. It refuses a message that exceeds
 * PB_MAX_DEPTH, PB_MAX_PIECES, PB_MAX_STRING or PB_MAX_GROWTH. The unpacked message also contains
 * the fields that its type does not have, or has with another wire type.
 *
 * Threads: any. The caller owns the message and frees it with pb_free.
 */
#ifndef PB_UNPACK_H
#define PB_UNPACK_H

#include <protobuf-c/protobuf-c.h>

#include "runtime/base/check.h"
#include "runtime/base/span.h"

enum {
    PB_MAX_DEPTH = 100, /* maximum depth of nested messages, as in protobuf */
    /* Maximum number of occurrences of a singular message field in one message. protobuf merges
     * them, although no known writer writes more than one. */
    PB_MAX_PIECES = 16,
    /* Maximum ratio of an unpacked message's memory to its serialized size. PB_FREE_BYTES bytes are
     * always permitted in addition. The measured ratio is 1 for a node with weights, and 9 to 20
     * for the functions of a Keras ResNet50. */
    PB_MAX_GROWTH = 64,
    PB_FREE_BYTES = 16 << 20,
    /* Maximum length of a field of type string. Strings are names, which are hashed, compared and
     * copied as a whole. Values are of type bytes. */
    PB_MAX_STRING = 16 << 20,
};

/*
 * Unpacks a message, which the caller must free with pb_free. On failure, returns NULL and sets
 * *err: to INVALID_ARGUMENT if the message is malformed or exceeds a limit, and to
 * RESOURCE_EXHAUSTED if memory runs out. `what` names the message in errors, for example
 * "saved_model.pb". A string with a NUL is refused, because C code would see only its beginning.
 * All other bytes are permitted. Time and memory are proportional to bytes.n.
 */
void *pb_unpack(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                struct rt_error *err);
/* Like pb_unpack, but calls `check` about every millisecond, also while it reads a long field.
 * `check` may be NULL. If the check fails, returns NULL and sets *err to its error. */
void *pb_unpack_checked(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                        const struct rt_check *check, struct rt_error *err);
/* Returns the maximum number of bytes that pb_unpack allocates for a message. If the message is
 * invalid, counts only the fields before the error. The time is proportional to bytes.n minus
 * the size of packed fields, whose contents are not read. */
size_t pb_unpacked_bytes(const ProtobufCMessageDescriptor *d, struct rt_span bytes);
/* Like pb_unpacked_bytes, but sets *out to the result, and calls `check`, which may be NULL, during
 * the scan. If the check fails, returns its status. */
enum rt_status pb_unpacked_bytes_checked(const ProtobufCMessageDescriptor *d, struct rt_span bytes,
                                         const struct rt_check *check, size_t *out,
                                         struct rt_error *err);
void pb_free(void *message); /* `message` may be NULL */
/* Returns the status of a failed pb_unpack: RT_RESOURCE_EXHAUSTED if memory ran out, the check's
 * status if the check failed, and otherwise `malformed`. */
static inline enum rt_status pb_unpack_failed(const struct rt_error *err, enum rt_status malformed)
{
    return err && err->code != RT_INVALID_ARGUMENT ? err->code : malformed;
}

#endif
