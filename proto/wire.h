/*
 * Walks the fields of one serialized protobuf message without unpacking it. For what is too large
 * to unpack twice (a GraphDef inside a SavedModel) and for looking before unpacking.
 */
#ifndef PB_WIRE_H
#define PB_WIRE_H

#include <stdint.h>

#include "runtime/base/span.h"

enum pb_wire_type { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

struct pb_field {
    uint32_t number;
    enum pb_wire_type type;
    uint64_t value;       /* PB_VARINT, PB_FIXED*: the raw bits */
    struct rt_span bytes; /* PB_BYTES: the payload */
    struct rt_span whole; /* the field with its tag, as it stands in the message */
};

/* 1: *f is the next field and `rest` lies behind it. 0: the end. -1: not a protobuf (a group, a
 * length past the end, field 0). */
int pb_field_next(struct rt_span *rest, struct pb_field *f);
/* The same of map entries and of what has their form, {name 1, message or bytes 2}, in that field
 * of the message; other fields are passed over. What an entry does not have is "". */
int pb_entry_next(struct rt_span *rest, uint32_t number, struct rt_span *name,
                  struct rt_span *value);
/* False: no varint of at most 10 bytes is there. */
bool pb_varint(struct rt_span *rest, uint64_t *out);

#endif
