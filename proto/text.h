/*
 * Parser of protobuf's text format, for configuration files and saved_model.pbtxt.
 *
 * The parser supports the complete format: comments, optional commas and semicolons, `key: {` and
 * `key <`, lists, adjacent and escaped strings, every form of number, enums by name or number, and
 * expanded Any messages of known types (field.h). It refuses extensions, an Any of an unknown type,
 * unknown fields, a singular field that is given twice, and two members of a oneof; the error text
 * names the field or type.
 */
#ifndef PB_TEXT_H
#define PB_TEXT_H

#include <protobuf-c/protobuf-c.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

/*
 * Parses a message in protobuf's text format. *out must be freed with pb_free (unpack.h). Fails
 * with INVALID_ARGUMENT and the error text "LINE:COLUMN: reason", with both counted from 1, if the
 * text is malformed.
 */
enum rt_status pb_text_parse(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                             struct rt_span text, struct rt_error *err);

/* The positions in a text at which messages of one type begin. Each position is that of the
 * message's "{". */
struct pb_text_place {
    int64_t line, column; /* line and column of the position, both counted from 1 */
};
struct pb_text_places {
    const ProtobufCMessageDescriptor *type;
    struct pb_text_place *at; /* array of positions, in the order in which they occur in the text */
    size_t n, max;            /* `max` is the capacity of `at`; positions beyond it are dropped */
};
/* Like pb_text_parse, but also records the positions of messages in `places`, which may be NULL. */
enum rt_status pb_text_parse_placed(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                    struct rt_span text, struct pb_text_places *places,
                                    struct rt_error *err);

#endif
