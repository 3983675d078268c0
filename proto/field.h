/* Accesses fields of protobuf-c messages by descriptor, and looks up the message types that a
 * google.protobuf.Any may hold. */
#ifndef PB_FIELD_H
#define PB_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "runtime/base/span.h"

/* Returns whether field `f` of a message is set. A repeated field is set if it has an element. A
 * field without presence is set if it differs from its default. */
bool pb_field_is_set(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f);

/* Returns the message type with this full name if an Any may hold it, otherwise NULL. */
const ProtobufCMessageDescriptor *pb_any_type(struct rt_span name);

#endif
