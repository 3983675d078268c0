/*
 * Unpacks serialized protobuf messages: those in files, requests, responses and the runtime's own
 * tables. No other code calls protobuf-c's unpacking functions. protobuf-c trusts its input: it
 * reads nested messages by recursion without a limit, copies the part of the message that it has
 * parsed so far each time a singular message field is repeated (51 s for 400 KB), and unpacks a
 * field of two bytes into a structure of up to hundreds of bytes. pb_unpack therefore scans the
 * bytes first, without allocating memory, and refuses a message that exceeds PB_MAX_DEPTH,
 * PB_MAX_PIECES or PB_MAX_GROWTH.
 *
 * Threads: the functions keep no state. The caller owns the message and frees it with pb_free.
 */
#ifndef PB_UNPACK_H
#define PB_UNPACK_H

#include <protobuf-c/protobuf-c.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

enum {
    PB_MAX_DEPTH = 100, /* maximum depth of nested messages; also protobuf's default */
    /* Maximum number of times that a message may repeat a singular message field. protobuf merges
     * the repetitions, but no known writer produces them. */
    PB_MAX_PIECES = 16,
    /* Maximum growth of a message when it is unpacked, in bytes of memory per byte of the
     * serialized message. PB_FREE_BYTES bytes of memory are always permitted in addition. Measured
     * ratios are 1 for a node with weights, and 9 to 20 for the functions of a Keras ResNet50. */
    PB_MAX_GROWTH = 64,
    PB_FREE_BYTES = 16 << 20,
};

/*
 * Unpacks a message. The caller must free the result with pb_free. Returns NULL and fills *err on
 * failure. Fails with INVALID_ARGUMENT if the message is malformed or exceeds a limit, and with
 * RESOURCE_EXHAUSTED if memory runs out. `what` is a name for the bytes in the error text, such as
 * "saved_model.pb". Strings are NUL-terminated and may hold any other bytes; a string that contains
 * a NUL is refused, because C code would see only its beginning. Time and memory are proportional
 * to bytes.n.
 */
void *pb_unpack(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                struct rt_error *err);
/* Returns the maximum number of bytes that pb_unpack allocates for a message. The number is smaller
 * for a message that pb_unpack refuses. Time is proportional to bytes.n, without packed fields. */
size_t pb_unpacked_bytes(const ProtobufCMessageDescriptor *d, struct rt_span bytes);
void pb_free(void *message); /* `message` may be NULL */
/* Returns the status code for a failed pb_unpack: RT_RESOURCE_EXHAUSTED if memory ran out,
 * otherwise `malformed`. */
static inline enum rt_status pb_unpack_failed(const struct rt_error *err, enum rt_status malformed)
{
    return err && err->code == RT_RESOURCE_EXHAUSTED ? RT_RESOURCE_EXHAUSTED : malformed;
}

#endif
