/*
 * Parser of protobuf's text format, for configuration files and saved_model.pbtxt.
 *
 * The parser supports the complete format: comments, optional commas and semicolons, `key: {` and
 * `key <`, lists, adjacent and escaped strings, every form of number, enums by name or number, and
 * expanded Any messages of known types (field.h). It refuses extensions, an Any of an unknown type,
 * unknown fields, a singular field that occurs twice, and two members of one oneof. The error
 * message names the field or type. Fields of a SavedModel that the server does not read, such as
 * MetaGraphDef.object_graph_def, are checked like all others and are missing in the message.
 */
#ifndef PB_TEXT_H
#define PB_TEXT_H

#include <protobuf-c/protobuf-c.h>

#include "runtime/base/check.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"

/*
 * Parses a message in protobuf's text format. The caller must free *out with pb_free (unpack.h). If
 * the text is malformed, fails with INVALID_ARGUMENT and the message "LINE:COLUMN: reason". Lines
 * and columns are counted from 1.
 */
enum rt_status pb_text_parse(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                             struct rt_span text, struct rt_error *err);
/* Like pb_text_parse, but for a text from an untrusted source. Fails with INVALID_ARGUMENT if the
 * message takes more than `max_bytes` bytes of memory. Calls `check`, which may be NULL, at the
 * beginning and then about every PB_TEXT_CHECK_EVERY bytes. If the check fails, returns its status
 * and leaves its error in *err. */
enum { PB_TEXT_CHECK_EVERY = 1 << 16 };
enum rt_status pb_text_parse_limited(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                     struct rt_span text, size_t max_bytes,
                                     const struct rt_check *check, struct rt_error *err);

/* A pb_text_place is the position of the "{" of a message in a text. A pb_text_places contains the
 * positions of all messages of one type. */
struct pb_text_place {
    int64_t line, column; /* both counted from 1 */
};
struct pb_text_places {
    const ProtobufCMessageDescriptor *type;
    struct pb_text_place *at; /* positions, in the order in which the messages begin */
    /* capacity of `at`; further positions are not recorded */
    size_t n, max;
};
/* Like pb_text_parse. If `places` is not NULL, also records the positions of the messages of type
 * places->type. */
enum rt_status pb_text_parse_placed(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                    struct rt_span text, struct pb_text_places *places,
                                    struct rt_error *err);

/* Called with each field of a text before its value is parsed. `at` is the position of the field's
 * name. If the function fails, the parse fails with its status, and "LINE:COLUMN: " precedes its
 * error message. */
struct pb_text_watch {
    enum rt_status (*field)(void *arg, const ProtobufCFieldDescriptor *f,
                            const struct pb_text_place *at, struct rt_error *err);
    void *arg;
};
/* Like pb_text_parse_limited without a check, but calls watch->field for each field. */
enum rt_status pb_text_parse_watched(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                     struct rt_span text, size_t max_bytes,
                                     const struct pb_text_watch *watch, struct rt_error *err);

#endif
