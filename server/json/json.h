/*
 * Checks JSON text once and then iterates over it. srv_json_check accepts a document or refuses it.
 * Its error messages and offsets are RapidJSON's, because clients of TensorFlow Serving expect
 * these. The other functions iterate over accepted text without building a tree.
 *
 * TensorFlow Serving's two extensions are supported: NaN, Inf and Infinity are numbers, and text
 * after the closing brace is ignored. The encoding of strings is not checked.
 *
 * All functions are pure, except that they may change a cancellation.
 */
#ifndef SRV_JSON_H
#define SRV_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"
#include "server/base/cancellation.h"

/* A value in JSON text that srv_json_check has accepted. The value begins at p. p is NULL if there
 * is no value. */
struct srv_json {
    const unsigned char *p, *end; /* `end` is the end of the document, not the end of the value */
    /* The cancellation of the request that contains the text, or NULL. When it reports that the
     * request is cancelled, iterations end early and strings appear shorter than they are. The
     * caller must then discard all that was read. srv_inference_read and srv_inference_bind do. */
    struct srv_cancellation *cancellation;
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
    /* Each member is the value of the top-level key that has the member's name. If a key occurs
     * more than once, its first value is used. p is NULL if the key does not occur. */
    struct srv_json signature_name, instances, inputs, examples, context;
    int64_t n_instances; /* number of elements if `instances` is an array */
};

/*
 * Checks JSON text of any nesting depth, and finds the members of its top-level object. If the text
 * is malformed, fails with INVALID_ARGUMENT and the message "JSON Parse error: ...". If the
 * top-level value is not an object, the message is, for example, "JSON Value: 5 Is not object".
 * Fails if `cancellation` reports that the request is cancelled. The values of the document keep
 * `cancellation`, which may be NULL.
 */
enum rt_status srv_json_check(struct srv_json_doc *doc, struct rt_span text,
                              struct srv_cancellation *cancellation, struct rt_error *err);

enum srv_json_type srv_json_type(struct srv_json v);
/* returns the name of the value's type: "Null", "False", "Object", "Number", ... */
const char *srv_json_type_name(struct srv_json v);
const unsigned char *srv_json_after(struct srv_json v);
/* returns the number of elements of an array or members of an object */
int64_t srv_json_count(struct srv_json v);

/*
 * These functions iterate over an array or object. The iteration begins with `*at =
 * srv_json_first(v)`. Then srv_json_next (for an array) or srv_json_member (for an object) is
 * called until it returns false. *key is the token of the member's name, with quotes.
 */
const unsigned char *srv_json_first(struct srv_json v);
bool srv_json_next(const unsigned char **at, struct srv_json v, struct srv_json *value);
bool srv_json_member(const unsigned char **at, struct srv_json v, struct rt_span *key,
                     struct srv_json *value);
static inline const unsigned char *srv_json_space(const unsigned char *p, const unsigned char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* Returns the token of a string, including its quotes. */
struct rt_span srv_json_token(struct srv_json string);
/* Decodes a string token and returns the length of the result, which is never longer than the
 * token. If `dst` is NULL, only computes the length. */
size_t srv_json_unquote(char *dst, struct rt_span token);
/* Does the same as srv_json_unquote, for strings of tensors, which may have any length. Stops when
 * `cancellation` reports that the request is cancelled. The result of a later call is then not
 * longer than the result of this call. */
size_t srv_json_unquote_long(char *dst, struct rt_span token,
                             struct srv_cancellation *cancellation);
/* Returns whether the string token, when decoded, equals the n bytes at s. */
bool srv_json_token_is(struct rt_span token, const char *s, size_t n);
/* Returns whether v is {"b64": "..."} without any other member. *token is the token of the string
 * after "b64". */
bool srv_json_is_b64(struct srv_json v, struct rt_span *token);
/* Decodes a string token that contains base64, in the standard or the URL alphabet. Padding is
 * optional, and white space is skipped. If `dst` is NULL, only computes the length. Returns false
 * if the string is not base64. */
bool srv_json_unbase64(char *dst, size_t *n, struct rt_span token);

/*
 * Formats the value for an error message, with four spaces of indentation and one element per line.
 * Truncates the result to `capacity` bytes, including a final NUL. Returns `text`.
 */
const char *srv_json_show(char *text, size_t capacity, struct srv_json v);
enum { SRV_JSON_SHOWN = 257 };

/* Appends n bytes, such as a name or an error message, as a quoted string with RapidJSON's escapes.
 * Replaces bytes that are not UTF-8 by U+FFFD. Does not escape characters above 0x7f. */
void srv_json_quote(struct rt_bytes *out, const void *s, size_t n);

/* Appends n bytes as a quoted base64 string. */
void srv_json_base64(struct rt_bytes *out, const void *s, size_t n);

/* These functions do the same as srv_json_quote and srv_json_base64, for strings of tensors, which
 * may have any length. `out` fails if `cancellation` reports that the response is cancelled.
 * srv_json_quote_long copies bytes that are not UTF-8 unchanged, as TensorFlow Serving does. */
void srv_json_quote_long(struct rt_bytes *out, const void *s, size_t n,
                         struct srv_cancellation *cancellation);
void srv_json_base64_long(struct rt_bytes *out, const void *s, size_t n,
                          struct srv_cancellation *cancellation);

#endif
