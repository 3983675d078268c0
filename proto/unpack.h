/*
 * Unpacks serialized protobuf messages from files, requests, responses and the runtime's own
 * tables. protobuf-c's own unpacking function is not used, because it trusts its input: its
 * recursion into nested messages has no limit, each repetition of a singular message field makes it
 * copy all that it has parsed of that field (51 s for 400 KB), it may unpack a field of two bytes
 * into a structure of hundreds of bytes, and it cannot be stopped while it reads a packed field.
 * pb_unpack first scans the bytes without allocating memory, and refuses a message that exceeds
 * PB_MAX_DEPTH, PB_MAX_PIECES, PB_MAX_STRING or PB_MAX_GROWTH. Fields that the message type does
 * not have are kept in the message.
 *
 * Threads: the functions keep no state. The caller owns the message and frees it with pb_free.
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
    /* Maximum ratio of the memory of an unpacked message to its serialized size. PB_FREE_BYTES
     * bytes of memory are always permitted in addition. The measured ratio is 1 for a node with
     * weights, and 9 to 20 for the functions of a Keras ResNet50. */
    PB_MAX_GROWTH = 64,
    PB_FREE_BYTES = 16 << 20,
    /* Maximum length of a field of type string. Strings are names and the like, which are hashed,
     * compared and copied in one piece; values are of type bytes. */
    PB_MAX_STRING = 16 << 20,
};

/*
 * Unpacks a message, which the caller must free with pb_free. On failure, returns NULL and sets
 * *err to INVALID_ARGUMENT if the message is malformed or exceeds a limit, or to RESOURCE_EXHAUSTED
 * if memory runs out. `what` names the message in errors, for example "saved_model.pb". A string
 * that contains a NUL is refused, because C code would see only its beginning; all other bytes are
 * permitted. Time and memory are proportional to bytes.n.
 */
void *pb_unpack(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                struct rt_error *err);
/* Unpacks a message as pb_unpack does, but calls `check` regularly: about every millisecond, also
 * within long fields. If the check fails, returns NULL and sets *err to the check's error. `check`
 * may be NULL. */
void *pb_unpack_checked(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                        const struct rt_check *check, struct rt_error *err);
/* Returns the maximum number of bytes that pb_unpack allocates for a message or, if the message is
 * invalid, for the fields before the error. The time is proportional to bytes.n, but the contents
 * of packed fields take no time. */
size_t pb_unpacked_bytes(const ProtobufCMessageDescriptor *d, struct rt_span bytes);
/* Sets *out to the result of pb_unpacked_bytes, but calls `check` regularly while the bytes are
 * scanned. If the check fails, returns the check's status. `check` may be NULL. */
enum rt_status pb_unpacked_bytes_checked(const ProtobufCMessageDescriptor *d, struct rt_span bytes,
                                         const struct rt_check *check, size_t *out,
                                         struct rt_error *err);
void pb_free(void *message); /* `message` may be NULL */
/* Returns the status code for a failed pb_unpack: RT_RESOURCE_EXHAUSTED if memory ran out, the
 * check's status if the check failed, and otherwise `malformed`. */
static inline enum rt_status pb_unpack_failed(const struct rt_error *err, enum rt_status malformed)
{
    return err && err->code != RT_INVALID_ARGUMENT ? err->code : malformed;
}

#endif
