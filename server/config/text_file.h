/*
 * Reads configuration files in protobuf's text format.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_TEXT_FILE_H
#define SRV_TEXT_FILE_H

#include "proto/text.h"

/*
 * Reads and parses the file at `path`. The caller must free *out with pb_free. The text of
 * NOT_FOUND is "PATH; No such file or directory", and that of INVALID_ARGUMENT is "Invalid protobuf
 * file: 'PATH': LINE:COLUMN: reason".
 */
enum rt_status srv_text_file_read(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                  const char *path, struct rt_error *err);
/* Parses a text read from the file `path`. The path is used only in errors. Errors are also logged,
 * in protobuf's format: "Error parsing text-format TYPE: LINE:COLUMN: reason". `places` may be
 * NULL. */
enum rt_status srv_text_parse(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                              struct rt_span text, const char *path, struct pb_text_places *places,
                              struct rt_error *err);

#endif
