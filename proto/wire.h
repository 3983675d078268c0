/*
 * Iterates over the fields of a serialized protobuf message without unpacking it. These functions
 * are used for checks before unpacking, and for messages that are too large to unpack twice, such
 * as a GraphDef inside a SavedModel.
 */
#ifndef PB_WIRE_H
#define PB_WIRE_H

#include <stdint.h>

#include "runtime/base/span.h"

enum pb_wire_type { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

struct pb_field {
    uint32_t number;
    enum pb_wire_type type;
    uint64_t value;       /* raw bits of a field of type PB_VARINT or PB_FIXED* */
    struct rt_span bytes; /* the payload of a field of type PB_BYTES */
    struct rt_span whole; /* all bytes of the field, including its tag */
};

/* Reads the next field of a message from `rest` into *f, and moves `rest` past the field. Returns 1
 * for a field, 0 at the end of the message, and -1 if the message is malformed. Groups, lengths
 * beyond the end of the message, tags of more than 5 bytes, and fields with the number 0 are
 * malformed. */
int pb_field_next(struct rt_span *rest, struct pb_field *f);
/* Reads the next entry of field `number`, and skips other fields. The field is a map, or a repeated
 * message with a name in field 1 and a message or bytes in field 2. Returns 1, 0 or -1 as
 * pb_field_next does. A missing name or value is "". */
int pb_entry_next(struct rt_span *rest, uint32_t number, struct rt_span *name,
                  struct rt_span *value);
/* Reads a varint from `rest`. Returns false if `rest` does not begin with a varint of at most 10
 * bytes. */
bool pb_varint(struct rt_span *rest, uint64_t *out);

#endif
