/* Accesses fields of protobuf-c messages by descriptor, and looks up the message types that a
 * google.protobuf.Any may hold. */
#ifndef PB_FIELD_H
#define PB_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "runtime/base/span.h"

/* Returns whether field `f` of a message has a value. A repeated field has one if it has an
 * element, and a field without presence has one if it differs from the default. */
bool pb_field_is_set(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f);

/* Returns the message type with this full name if an Any may hold it, otherwise NULL. */
const ProtobufCMessageDescriptor *pb_any_type(struct rt_span name);

#endif
