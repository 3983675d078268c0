/*
 * Reads configuration files in protobuf's text format.
 *
 * Threads: any thread may call these functions.
 */
#ifndef SRV_TEXT_FILE_H
#define SRV_TEXT_FILE_H

#include "proto/text.h"
#include "server/config/options.h"

/*
 * Reads and parses the file at `path`, which the flag `flag` names. The caller must free *out with
 * pb_free. If the file does not exist, fails with NOT_FOUND and the message "PATH; No such file or
 * directory". If the file is malformed, fails with INVALID_ARGUMENT and the message "Invalid
 * protobuf file: 'PATH': LINE:COLUMN: reason". srv_text_file_fail names the flag.
 */
enum rt_status srv_text_file_read(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                  const struct srv_options *o, const char *flag, const char *path,
                                  struct rt_error *err);
/* Puts the name of the flag before an error about its file, except in the messages of
 * tensorflow_model_server, which are TensorFlow Serving's. Returns the code of the error. */
enum rt_status srv_text_file_fail(const struct srv_options *o, const char *flag,
                                  struct rt_error *err);
/* Parses `text`, the contents of the file at `path`. `path` is used only in error messages. Errors
 * are also logged, in protobuf's format: "Error parsing text-format TYPE: LINE:COLUMN: reason". If
 * `places` is not NULL, the function records the positions of messages there, as
 * pb_text_parse_placed does. */
enum rt_status srv_text_parse(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                              struct rt_span text, const char *path, struct pb_text_places *places,
                              struct rt_error *err);

#endif
