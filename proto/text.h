/*
 * Protobuf's text format, for configuration files and saved_model.pbtxt.
 *
 * All of it: comments, optional commas and semicolons, `key: {` and `key <`, lists, adjacent and
 * escaped strings, every form of number, enums by name or number, and an Any expanded to what it
 * holds when that is of a known type (field.h). Refused by name: extensions, other types in an Any,
 * unknown fields, a field given twice, two members of a oneof.
 */
#ifndef PB_TEXT_H
#define PB_TEXT_H

#include <protobuf-c/protobuf-c.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

/*
 * *out: a message for pb_free (unpack.h). INVALID_ARGUMENT: "LINE:COLUMN: reason", both from 1.
 */
enum rt_status pb_text_parse(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                             struct rt_span text, struct rt_error *err);

/* Where the messages of one type begin in a text: at their "{". */
struct pb_text_place {
    int64_t line, column; /* from 1 */
};
struct pb_text_places {
    const ProtobufCMessageDescriptor *type;
    struct pb_text_place *at; /* in the order of the text */
    size_t n, max;            /* of those beyond max nothing is kept */
};
/* The same, and fills `places` (NULL is fine). */
enum rt_status pb_text_parse_placed(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                    struct rt_span text, struct pb_text_places *places,
                                    struct rt_error *err);

#endif
