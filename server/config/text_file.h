/*
 * Reads a configuration file: a message in protobuf's text format.
 *
 * Threads: no state; any thread.
 */
#ifndef SRV_TEXT_FILE_H
#define SRV_TEXT_FILE_H

#include "proto/text.h"

/*
 * Reads and parses the file; the caller frees *out with pb_free. NOT_FOUND: "PATH; No such file or
 * directory"; INVALID_ARGUMENT: "Invalid protobuf file: 'PATH': LINE:COLUMN: reason".
 */
enum rt_status srv_text_file_read(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                  const char *path, struct rt_error *err);
/* Parses a text; `path` is the name of its file, for errors. Errors are also logged, as protobuf
 * does: "Error parsing text-format TYPE: LINE:COLUMN: reason". `places` may be NULL. */
enum rt_status srv_text_parse(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                              struct rt_span text, const char *path, struct pb_text_places *places,
                              struct rt_error *err);

#endif
