/* Accesses fields of protobuf-c messages by descriptor, and looks up the message types that a
 * google.protobuf.Any may contain. */
#ifndef PB_FIELD_H
#define PB_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "runtime/base/span.h"

/* Returns whether field `f` of a message is set. A repeated field is set if it has an element. A
 * field without presence is set if it differs from its default. */
bool pb_field_is_set(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f);

/* Returns the size in bytes of a serialized element of type `t` if all elements have the same size,
 * and 0 if they are varints or have a length. */
size_t pb_fixed_bytes(ProtobufCType t);
/* Returns the size in bytes of an element of a repeated field of type `t`. */
size_t pb_element_bytes(ProtobufCType t);
/* Returns the number of bytes by which pb_append would enlarge a repeated field's array for n more
 * elements, or SIZE_MAX on overflow. The array's capacity is the smallest power of two that
 * suffices. Only pb_append may have added elements. */
size_t pb_append_bytes(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, size_t n);
/* Appends n zeroed elements to a repeated field and returns the first of them, or NULL if memory
 * runs out. */
void *pb_append(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, size_t n);
/* Marks a singular field as present and returns the address of its value. If the field belongs to a
 * oneof, no other member may be set. */
void *pb_set_field(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f);

/* Returns the message type with this full name, or NULL if an Any may not contain it. */
const ProtobufCMessageDescriptor *pb_any_type(struct rt_span name);

#endif
