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

#endif
