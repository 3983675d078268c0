/*
 * Checks JSON text once and then iterates over it. srv_json_check accepts a document, or refuses it
 * with RapidJSON's error texts and offsets, because clients of TensorFlow Serving expect these. The
 * other functions iterate over accepted text without building a tree.
 *
 * TensorFlow Serving's two extensions are supported: NaN, Inf and Infinity are numbers, and text
 * after the closing brace is ignored. Strings are sequences of bytes; their encoding is not
 * checked.
 *
 * All functions are pure and keep no state.
 */
#ifndef SRV_JSON_H
#define SRV_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"
#include "server/base/cancellation.h"

/* A value in text that srv_json_check has accepted. The value begins at p; if p is NULL, there is
 * no value. */
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
    /* Each of these members holds the value of the key of the same name in the object `top`. If the
     * key occurs more than once, its first value is used; if it does not occur, p is NULL. */
    struct srv_json signature_name, instances, inputs, examples, context;
    int64_t n_instances; /* number of elements of `instances`, if it is an array */
};

/*
 * Checks a JSON text of any nesting depth and finds the members of its top-level object. Fails with
 * INVALID_ARGUMENT "JSON Parse error: ...", or, if the top-level value is not an object, "JSON
 * Value: 5 Is not object".
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

/* Returns the token of a string, with its quotes. */
struct rt_span srv_json_token(struct srv_json string);
/* Decodes a string token and returns the length of the decoded text. The decoded text is never
 * longer than the token. If `dst` is NULL, only computes the length. */
size_t srv_json_unquote(char *dst, struct rt_span token);
/* Returns whether the string token, when decoded, equals the n bytes at s. */
bool srv_json_token_is(struct rt_span token, const char *s, size_t n);
/* Returns whether v is {"b64": "..."} with no other member. *token receives the token of the inner
 * string. */
bool srv_json_is_b64(struct srv_json v, struct rt_span *token);
/* Decodes the base64 text in a string token. The standard and the URL alphabet are accepted,
 * padding is optional, and white space is skipped. If `dst` is NULL, only computes the length.
 * Returns false if the string is not base64. */
bool srv_json_unbase64(char *dst, size_t *n, struct rt_span token);

/*
 * Formats the value for an error text (four spaces of indentation, one element per line), truncated
 * at `capacity` bytes and terminated by NUL. Returns `text`.
 */
const char *srv_json_show(char *text, size_t capacity, struct srv_json v);
enum { SRV_JSON_SHOWN = 257 };

/* Appends a name or an error text of n bytes as a quoted string with RapidJSON's escapes. Bytes
 * that are not UTF-8 are replaced by U+FFFD; characters above 0x7f are not escaped. */
void srv_json_quote(struct rt_bytes *out, const void *s, size_t n);

/* Appends n bytes as a quoted base64 string. */
void srv_json_base64(struct rt_bytes *out, const void *s, size_t n);

/* Like srv_json_quote and srv_json_base64, but for strings of tensors. These may have any length.
 * `out` fails when `cancellation` reports that the response is cancelled. Bytes that are not UTF-8
 * are kept, as in TensorFlow Serving. */
void srv_json_quote_long(struct rt_bytes *out, const void *s, size_t n,
                         struct srv_cancellation *cancellation);
void srv_json_base64_long(struct rt_bytes *out, const void *s, size_t n,
                          struct srv_cancellation *cancellation);

#endif
