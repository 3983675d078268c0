/*
 * Serializes protobuf messages. Messages from models are serialized here and not by
 * protobuf_c_message_pack, which cannot be stopped and moves the bytes of a nested message once per
 * level of nesting. It took 9.8 s for a text of 100 MB inside 98 nested messages.
 *
 * Threads: any thread may call these functions.
 */
#ifndef PB_PACK_H
#define PB_PACK_H

#include <protobuf-c/protobuf-c.h>

#include "runtime/base/check.h"
#include "runtime/base/span.h"

/* Sets *out to the serialized size of a message in bytes. Calls `check`, which may be NULL, about
 * every millisecond. If the check fails, returns its status. */
enum rt_status pb_packed_bytes(const ProtobufCMessage *m, const struct rt_check *check, size_t *out,
                               struct rt_error *err);
/*
 * Serializes a message as protobuf-c does, in time proportional to its size. Sets *out to the
 * serialized bytes and *n to their number. A 0 follows the bytes. The caller must free(*out). Fails
 * if memory runs out or the message has more than `limit` bytes. Calls `check` as pb_packed_bytes
 * does.
 */
enum rt_status pb_pack(const ProtobufCMessage *m, size_t limit, const struct rt_check *check,
                       char **out, size_t *n, struct rt_error *err);

#endif
