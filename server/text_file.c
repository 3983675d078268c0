#include "server/text_file.h"

#include <stdlib.h>

#include "runtime/file.h"

enum { MAX_BYTES = 64 << 20 };

enum rt_status srv_text_parse(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                              struct rt_span text, const char *path, struct pb_text_places *places,
                              struct rt_error *err)
{
    enum rt_status st = pb_text_parse_placed(out, d, text, places, err);
    return st ? rt_fail_prefix(err, "Invalid protobuf file: '%s': ", path) : RT_OK;
}

enum rt_status srv_text_file_read(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                  const char *path, struct rt_error *err)
{
    char *text = NULL;
    size_t n = 0;
    enum rt_status st = rt_file_read(path, MAX_BYTES, &text, &n, err);
    if (st)
        return st;
    st = srv_text_parse(out, d, rt_span_of(text, n), path, NULL, err);
    free(text);
    return st;
}
