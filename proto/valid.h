/*
 * Checks that protobuf can parse a serialized message. Readers that take only some fields from a
 * message (wire.h) do not see damage to the other fields. TensorFlow parses the whole message and
 * refuses it.
 */
#ifndef PB_VALID_H
#define PB_VALID_H

#include <protobuf-c/protobuf-c.h>

#include "runtime/base/check.h"
#include "runtime/base/span.h"

/*
 * Returns RT_DATA_LOSS unless `bytes` is a message of type `d`: nested messages and packed
 * fields are well formed, strings are UTF-8 as proto3 requires, and messages are nested at most 100
 * deep. Fields that the type does not have, or has with another wire type, are permitted. Groups
 * are not. `what` names the message in errors. Allocates no memory. The time is proportional to
 * bytes.n. Calls `check` about every millisecond, and returns its status if it fails. `check` may
 * be NULL.
 */
enum rt_status pb_validate(const ProtobufCMessageDescriptor *d, struct rt_span bytes,
                           const char *what, const struct rt_check *check, struct rt_error *err);

#endif
