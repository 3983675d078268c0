/*
 * Iterates over the fields of a serialized protobuf message without unpacking it. Used for messages
 * that are too large to unpack twice (a GraphDef inside a SavedModel), and for checks before
 * unpacking.
 */
#ifndef PB_WIRE_H
#define PB_WIRE_H

#include <stdint.h>

#include "runtime/base/span.h"

enum pb_wire_type { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

struct pb_field {
    uint32_t number;
    enum pb_wire_type type;
    uint64_t value;       /* the raw bits of a PB_VARINT or PB_FIXED* */
    struct rt_span bytes; /* the payload of a PB_BYTES field */
    struct rt_span whole; /* the bytes of the field, including its tag */
};

/* 1: *f is the next field, and `rest` begins behind it. 0: end of the message. -1: malformed (a
 * group, a length beyond the end, field number 0). */
int pb_field_next(struct rt_span *rest, struct pb_field *f);
/* Like pb_field_next, for the entries of a map in field `number`, or of another message type with a
 * name in field 1 and a message or bytes in field 2. Other fields are skipped. A missing name or
 * value is "". */
int pb_entry_next(struct rt_span *rest, uint32_t number, struct rt_span *name,
                  struct rt_span *value);
/* False: `rest` does not begin with a varint of at most 10 bytes. */
bool pb_varint(struct rt_span *rest, uint64_t *out);

#endif
