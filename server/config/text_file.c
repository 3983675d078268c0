#include "server/config/text_file.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/log.h"
#include "runtime/files/file.h"

enum { MAX_BYTES = 64 << 20 };

/*
 * Logs a parse error in the format in which protobuf writes it to stderr, because scripts search
 * the log for this format. Does not log the same error twice in a row, because the same file may be
 * read repeatedly.
 */
static void log_parse_error(const ProtobufCMessageDescriptor *d, const char *reason)
{
    static _Atomic uint32_t last;
    uint32_t sum = rt_crc32c(rt_crc32c(0, d->name, strlen(d->name)), reason, strlen(reason));

    if (atomic_exchange(&last, sum) != sum)
        RT_LOG(RT_LOG_ERROR, "Error parsing text-format %s: %s", d->name, reason);
}

enum rt_status srv_text_parse(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                              struct rt_span text, const char *path, struct pb_text_places *places,
                              struct rt_error *err)
{
    enum rt_status st = pb_text_parse_placed(out, d, text, places, err);
    if (st == RT_INVALID_ARGUMENT)
        log_parse_error(d, rt_error_text(err));
    return st ? rt_fail_prefix(err, "Invalid protobuf file: '%s': ", path) : RT_OK;
}

enum rt_status srv_text_file_fail(const struct srv_options *o, const char *flag,
                                  struct rt_error *err)
{
    return o->as_tensorflow ? err->code : rt_fail_prefix(err, "--%s: ", flag);
}

enum rt_status srv_text_file_read(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d,
                                  const struct srv_options *o, const char *flag, const char *path,
                                  struct rt_error *err)
{
    char *text = NULL;
    size_t n = 0;
    enum rt_status st = rt_file_read(path, MAX_BYTES, &text, &n, err);
    if (!st)
        st = srv_text_parse(out, d, rt_span_of(text, n), path, NULL, err);
    free(text);
    return st ? srv_text_file_fail(o, flag, err) : RT_OK;
}
