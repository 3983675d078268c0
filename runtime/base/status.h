/*
 * All status codes, and the error struct that carries an error's reason to the client.
 *
 * The codes are gRPC's canonical codes. The HTTP column has TensorFlow Serving's HTTP status for
 * each code. A function whose caller needs the reason of a failure takes a pointer to an rt_error.
 * On failure it writes a message that names the offending item and the violated rule. On success it
 * leaves the struct unchanged.
 *
 * Threads: an rt_error is used by one thread at a time.
 */
#ifndef RT_BASE_STATUS_H
#define RT_BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

#include "runtime/base/span.h"

/* X(name, gRPC code, HTTP status, TensorFlow's name for the code) */
#define RT_STATUS_LIST(X)                                                                          \
    X(RT_OK, 0, 200, "OK")                                                                         \
    X(RT_CANCELLED, 1, 499, "CANCELLED")                                                           \
    X(RT_UNKNOWN, 2, 500, "UNKNOWN")                                                               \
    X(RT_INVALID_ARGUMENT, 3, 400, "INVALID_ARGUMENT")                                             \
    X(RT_DEADLINE_EXCEEDED, 4, 504, "DEADLINE_EXCEEDED")                                           \
    X(RT_NOT_FOUND, 5, 404, "NOT_FOUND")                                                           \
    X(RT_ALREADY_EXISTS, 6, 409, "ALREADY_EXISTS")                                                 \
    X(RT_PERMISSION_DENIED, 7, 403, "PERMISSION_DENIED")                                           \
    X(RT_RESOURCE_EXHAUSTED, 8, 429, "RESOURCE_EXHAUSTED")                                         \
    X(RT_FAILED_PRECONDITION, 9, 400, "FAILED_PRECONDITION")                                       \
    X(RT_ABORTED, 10, 409, "ABORTED")                                                              \
    X(RT_OUT_OF_RANGE, 11, 400, "OUT_OF_RANGE")                                                    \
    X(RT_UNIMPLEMENTED, 12, 501, "UNIMPLEMENTED")                                                  \
    X(RT_INTERNAL, 13, 500, "INTERNAL")                                                            \
    X(RT_UNAVAILABLE, 14, 503, "UNAVAILABLE")                                                      \
    X(RT_DATA_LOSS, 15, 500, "DATA_LOSS")                                                          \
    X(RT_UNAUTHENTICATED, 16, 401, "UNAUTHENTICATED")

enum rt_status {
#define X(name, grpc, http, text) name = grpc,
    RT_STATUS_LIST(X)
#undef X
};

#define RT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define RT_MUST_USE          __attribute__((warn_unused_result))

struct rt_arena;

/*
 * An error, which must be zeroed before use ({0}). `arena`, if set, stores a message that is too
 * long for `msg`; without an arena, the message is truncated. An rt_error is plain data and may be
 * copied while its arena exists. Every message is truncated at RT_MAX_ERROR_BYTES, because it may
 * contain names of any length from models and clients.
 */
enum { RT_MAX_ERROR_BYTES = 64 << 10 };
struct rt_error {
    enum rt_status code;
    struct rt_arena *arena;
    const char *long_msg; /* the message if it does not fit into msg; otherwise NULL */
    char msg[480];
};

/* Writes the code and the formatted text into *err, unless `err` is NULL. Returns `code`. */
enum rt_status rt_fail(struct rt_error *err, enum rt_status code, const char *fmt, ...)
    RT_PRINTF(3, 4);
enum rt_status rt_vfail(struct rt_error *err, enum rt_status code, const char *fmt, va_list ap)
    RT_PRINTF(3, 0);
/* Prepends a prefix such as "NAME: " to the error's message, and keeps the error's code. */
enum rt_status rt_fail_prefix(struct rt_error *err, const char *fmt, ...) RT_PRINTF(2, 3);
/* Sets the error RT_RESOURCE_EXHAUSTED for a failed allocation. The message names `what` and the
 * number of bytes. */
enum rt_status rt_fail_memory(struct rt_error *err, const char *what, size_t bytes);
/* Copies the code and the message. A message that is too long for dst->msg is copied into
 * dst->arena. Without an arena, it is truncated. */
void rt_error_copy(struct rt_error *dst, const struct rt_error *src);
const char *rt_error_text(const struct rt_error *err);
/*
 * These functions preserve NULs in names from clients, although a NUL ends a message. Each NUL is
 * encoded as the bytes C0 80, which valid UTF-8 never contains.
 *
 * rt_error_name returns `name` for use as a %.*s argument of a message of `err`: `name` itself if
 * it has no NUL, and otherwise an encoded copy in err->arena. If there is no arena, or memory runs
 * out, it returns `name` unchanged, and the message ends at the first NUL. rt_error_decode restores
 * the NULs. It writes the first `capacity` bytes of the decoded text, and returns the length of the
 * complete decoded text.
 */
struct rt_span rt_error_name(const struct rt_error *err, struct rt_span name);
size_t rt_error_decode(char *dst, size_t capacity, const char *text);

/* returns a name like "NOT_FOUND", or "UNKNOWN" if s is not a status */
const char *rt_status_name(enum rt_status s);
int rt_status_http(enum rt_status s);

#endif
