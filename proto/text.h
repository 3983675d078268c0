/*
 * Parser of protobuf's text format, for configuration files and saved_model.pbtxt.
 *
 * It reads the whole format: comments, optional commas and semicolons, `key: {` and `key <`, lists,
 * adjacent and escaped strings, every form of number, enums by name or number, and expanded Any
 * messages of known types (field.h). It refuses by name: extensions, an Any of another type,
 * unknown fields, a field that is given twice, two members of a oneof.
 */
#ifndef PB_TEXT_H
#define PB_TEXT_H

#include <protobuf-c/protobuf-c.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

/*
 * *out: a message to be freed by pb_free (unpack.h). INVALID_ARGUMENT: "LINE:COLUMN: reason", both
 * counted from 1.
 */
enum rt_status pb_text_parse(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                             struct rt_span text, struct rt_error *err);

/* The places in a text where messages of one type begin, at their "{". */
struct pb_text_place {
    int64_t line, column; /* counted from 1 */
};
struct pb_text_places {
    const ProtobufCMessageDescriptor *type;
    struct pb_text_place *at; /* the places in the order of the text */
    size_t n, max;            /* capacity of `at` is max; further places are dropped */
};
/* Like pb_text_parse; also fills `places`, which may be NULL. */
enum rt_status pb_text_parse_placed(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                    struct rt_span text, struct pb_text_places *places,
                                    struct rt_error *err);

#endif
