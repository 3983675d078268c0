/*
 * Checks JSON text once and then iterates over it. srv_json_check accepts a document, or refuses it
 * with RapidJSON's error messages and offsets, because clients of TensorFlow Serving expect these.
 * The other functions iterate over accepted text without building a tree.
 *
 * TensorFlow Serving's two extensions are supported: NaN, Inf and Infinity are numbers, and text
 * after the closing brace is ignored. Strings are sequences of bytes; their encoding is not
 * checked.
 *
 * All functions are pure.
 */
#ifndef SRV_JSON_H
#define SRV_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"
#include "server/base/cancellation.h"

/* A value in JSON text that srv_json_check has accepted. The value begins at p. If p is NULL, there
 * is no value. */
struct srv_json {
    const unsigned char *p, *end; /* `end` is the end of the document, not the end of the value */
};

enum srv_json_type {
    SRV_JSON_NULL,
    SRV_JSON_FALSE,
    SRV_JSON_TRUE,
    SRV_JSON_OBJECT,
    SRV_JSON_ARRAY,
    SRV_JSON_STRING,
    SRV_JSON_NUMBER,
};

struct srv_json_doc {
    struct srv_json top;
    /* Each member in the next line is the value of the key of the same name in the object `top`. If
     * the key occurs more than once, the first value is used. If the key does not occur, p is
     * NULL. */
    struct srv_json signature_name, instances, inputs, examples, context;
    int64_t n_instances; /* number of elements if `instances` is an array */
};

/*
 * Checks JSON text of any nesting depth and finds the members of its top-level object. Fails with
 * INVALID_ARGUMENT and the message "JSON Parse error: ...". If the top-level value is not an
 * object, the message is, for example, "JSON Value: 5 Is not object".
 */
enum rt_status srv_json_check(struct srv_json_doc *doc, struct rt_span text, struct rt_error *err);

enum srv_json_type srv_json_type(struct srv_json v);
/* returns the name of the value's type: "Null", "False", "Object", "Number", ... */
const char *srv_json_type_name(struct srv_json v);
/* Returns the address of the byte after the value. */
const unsigned char *srv_json_after(struct srv_json v);
/* returns the number of elements of an array or members of an object */
int64_t srv_json_count(struct srv_json v);

/*
 * These functions iterate over an array or object. Begin with `*at = srv_json_first(v)`, and call
 * srv_json_next (for an array) or srv_json_member (for an object) until the call returns false.
 * *key is the token of the member's name, with quotes.
 */
const unsigned char *srv_json_first(struct srv_json v);
bool srv_json_next(const unsigned char **at, const unsigned char *end, struct srv_json *value);
bool srv_json_member(const unsigned char **at, const unsigned char *end, struct rt_span *key,
                     struct srv_json *value);
static inline const unsigned char *srv_json_space(const unsigned char *p, const unsigned char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* Returns the token of a string, including its quotes. */
struct rt_span srv_json_token(struct srv_json string);
/* Decodes a string token and returns the length of the decoded text. The decoded text is never
 * longer than the token. If `dst` is NULL, only computes the length. */
size_t srv_json_unquote(char *dst, struct rt_span token);
/* Returns whether the string token, when decoded, equals the n bytes at s. */
bool srv_json_token_is(struct rt_span token, const char *s, size_t n);
/* Returns whether v is {"b64": "..."} without any other member. *token receives the token of the
 * string that follows "b64". */
bool srv_json_is_b64(struct srv_json v, struct rt_span *token);
/* Decodes a string token that contains base64. The standard and the URL alphabet are accepted,
 * padding is optional, and white space is skipped. If `dst` is NULL, only computes the length.
 * Returns false if the string is not base64. */
bool srv_json_unbase64(char *dst, size_t *n, struct rt_span token);

/*
 * Formats the value for an error message, with an indentation of four spaces and one element per
 * line. Truncates the result to `capacity` bytes, including a final NUL. Returns `text`.
 */
const char *srv_json_show(char *text, size_t capacity, struct srv_json v);
enum { SRV_JSON_SHOWN = 257 };

/* Appends n bytes, a name or an error message, as a quoted string with the escapes that RapidJSON
 * writes. Bytes that are not UTF-8 are replaced by U+FFFD; characters above 0x7f are not
 * escaped. */
void srv_json_quote(struct rt_bytes *out, const void *s, size_t n);

/* Appends n bytes as a quoted base64 string. */
void srv_json_base64(struct rt_bytes *out, const void *s, size_t n);

/* These functions do the same as srv_json_quote and srv_json_base64 for strings of tensors, which
 * may have any length. `out` fails if `cancellation` reports that the response is cancelled.
 * srv_json_quote_long copies bytes that are not UTF-8 unchanged, as TensorFlow Serving does. */
void srv_json_quote_long(struct rt_bytes *out, const void *s, size_t n,
                         struct srv_cancellation *cancellation);
void srv_json_base64_long(struct rt_bytes *out, const void *s, size_t n,
                          struct srv_cancellation *cancellation);

#endif
