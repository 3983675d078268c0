/*
 * The one list of statuses, and the error that carries a reason to the client.
 *
 * The numbers are gRPC's canonical codes; the HTTP column is what TensorFlow Serving answers for
 * each. Every call that can fail for a reason worth telling takes a `struct rt_error *` and writes
 * a sentence that names the offender and the rule; it is untouched on success.
 *
 * Threads: an rt_error belongs to whoever made it.
 */
#ifndef RT_BASE_STATUS_H
#define RT_BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

#include "runtime/base/span.h"

/* X(name, gRPC code, HTTP status, TensorFlow's name of the code) */
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
 * Zero it before use ({0}), or set `arena` to where a text longer than `msg` may live; without one
 * such a text is cut. Plain data: may be copied while that arena lives. Names and strings in a text
 * are a model's or a client's and of any length: a text ends at RT_MAX_ERROR_BYTES in any case.
 */
enum { RT_MAX_ERROR_BYTES = 64 << 10 };
struct rt_error {
    enum rt_status code;
    struct rt_arena *arena;
    const char *long_msg; /* the text when it does not fit msg, else NULL */
    char msg[480];
};

/* Writes the reason and returns `code`. `err` may be NULL. */
enum rt_status rt_fail(struct rt_error *err, enum rt_status code, const char *fmt, ...)
    RT_PRINTF(3, 4);
enum rt_status rt_vfail(struct rt_error *err, enum rt_status code, const char *fmt, va_list ap)
    RT_PRINTF(3, 0);
/* Puts "prefix: " style context in front of the text that is there; keeps the code. */
enum rt_status rt_fail_prefix(struct rt_error *err, const char *fmt, ...) RT_PRINTF(2, 3);
/* Out of memory for one request or load: RT_RESOURCE_EXHAUSTED, naming what was wanted. */
enum rt_status rt_fail_memory(struct rt_error *err, const char *what, size_t bytes);
/* Copies code and text (a long one into dst->arena, or cut). */
void rt_error_copy(struct rt_error *dst, const struct rt_error *src);
const char *rt_error_text(const struct rt_error *err);
/*
 * A text ends at a NUL, but a client's name may hold some. In a text each of them is the two bytes
 * C0 80, which valid UTF-8 never has, and an answer has NULs again.
 *
 * rt_error_name: `name` as a text of `err` has it, for %.*s: itself, or a copy in err->arena.
 * Without one, or without memory, a text ends at the name's first NUL. rt_error_decode: writes the
 * first `room` bytes of the text with its NULs, and returns how many it has in all.
 */
struct rt_span rt_error_name(const struct rt_error *err, struct rt_span name);
size_t rt_error_decode(char *dst, size_t capacity, const char *text);

const char *rt_status_name(enum rt_status s); /* "NOT_FOUND"; "UNKNOWN" for a stranger */
int rt_status_http(enum rt_status s);

#endif
