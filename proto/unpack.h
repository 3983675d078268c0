/*
 * The one place where bytes become protobuf-c messages: files, requests, answers and the runtime's
 * own tables. protobuf-c alone trusts its input: it follows nested messages by recursion without a
 * limit, copies what it has so far each time a singular message field is given once more (400 KB
 * took 51 s), and a field of two bytes may become a structure of hundreds. So the bytes are walked
 * first, without allocating, and refused when the message would break one of the limits below.
 *
 * Threads: no state. Owner: the caller, who frees a message by pb_free.
 */
#ifndef PB_UNPACK_H
#define PB_UNPACK_H

#include <protobuf-c/protobuf-c.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

enum {
    PB_MAX_DEPTH = 100, /* of messages in messages, as protobuf's own default */
    /* How often one message may give the same singular message field. protobuf merges the pieces;
     * no writer is known that makes any. */
    PB_MAX_PIECES = 16,
    /* Bytes of memory that unpacking may take, beside PB_FREE_BYTES, per byte of the message.
     * Measured: 1 for a node with weights, 9 to 20 for the functions of a Keras ResNet50. */
    PB_MAX_GROWTH = 64,
    PB_FREE_BYTES = 16 << 20,
};

/*
 * The message, to be freed by pb_free. NULL: err says why (INVALID_ARGUMENT: malformed, or beyond a
 * limit; RESOURCE_EXHAUSTED: out of memory; `what` names the bytes: "saved_model.pb"). Strings end
 * in NUL and hold any other bytes: one with a NUL in it is malformed, for it would be cut there.
 * Time and memory are proportional to bytes.n.
 */
void *pb_unpack(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                struct rt_error *err);
void pb_free(void *message); /* NULL is fine */
/* The status of a pb_unpack that gave NULL: `malformed`, unless it was memory that it lacked. */
static inline enum rt_status pb_unpack_failed(const struct rt_error *err, enum rt_status malformed)
{
    return err && err->code == RT_RESOURCE_EXHAUSTED ? RT_RESOURCE_EXHAUSTED : malformed;
}

#endif
