/* Fields of protobuf-c messages by their descriptors, and the types that an Any may hold here. */
#ifndef PB_FIELD_H
#define PB_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "runtime/base/span.h"

/* The field has a value: repeated ones an element, those without presence another than the
 * default. */
bool pb_field_is_set(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f);

/* The type of that full name, of those that may stand in an Any; NULL: unknown. */
const ProtobufCMessageDescriptor *pb_any_type(struct rt_span name);

#endif
