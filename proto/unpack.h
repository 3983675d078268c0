/*
 * The only place where bytes become protobuf-c messages: files, requests, responses and the
 * runtime's own tables. protobuf-c trusts its input: it reads nested messages by recursion without
 * a limit, copies the message so far each time a singular message field is repeated (51 s for
 * 400 KB), and a field of two bytes may become a structure of hundreds of bytes. pb_unpack
 * therefore walks the bytes first, without allocating memory, and refuses a message that exceeds
 * one of the limits below.
 *
 * Threads: no state. The caller owns the message and frees it by pb_free.
 */
#ifndef PB_UNPACK_H
#define PB_UNPACK_H

#include <protobuf-c/protobuf-c.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

enum {
    PB_MAX_DEPTH = 100, /* depth of nested messages, protobuf's own default */
    /* How often a message may repeat a singular message field. protobuf merges the repetitions; no
     * writer is known that makes any. */
    PB_MAX_PIECES = 16,
    /* Limit of the memory of an unpacked message, in bytes per byte of the message, in addition to
     * PB_FREE_BYTES. Measured: 1 for a node with weights, 9 to 20 for the functions of a Keras
     * ResNet50. */
    PB_MAX_GROWTH = 64,
    PB_FREE_BYTES = 16 << 20,
};

/*
 * Unpacks a message, which pb_free frees. NULL: err is filled. INVALID_ARGUMENT: malformed, or
 * beyond a limit; RESOURCE_EXHAUSTED: out of memory. `what` names the bytes in the error text
 * ("saved_model.pb"). A string field ends in NUL and may hold any other bytes; a string with a NUL
 * in it is refused, because readers would see only its beginning. Time and memory are proportional
 * to bytes.n.
 */
void *pb_unpack(const ProtobufCMessageDescriptor *d, struct rt_span bytes, const char *what,
                struct rt_error *err);
void pb_free(void *message); /* NULL is fine */
/* The status after pb_unpack has returned NULL: RT_RESOURCE_EXHAUSTED if it was out of memory,
 * otherwise `malformed`. */
static inline enum rt_status pb_unpack_failed(const struct rt_error *err, enum rt_status malformed)
{
    return err && err->code == RT_RESOURCE_EXHAUSTED ? RT_RESOURCE_EXHAUSTED : malformed;
}

#endif
