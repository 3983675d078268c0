/*
 * JSON text, checked once and then walked: srv_json_check lets a document pass or refuses it with
 * RapidJSON's texts and offsets (as TensorFlow Serving's clients know them); everything else here
 * walks text that has passed, without building a tree.
 *
 * Two extensions, as TensorFlow Serving's: NaN, Inf and Infinity are numbers, and text after the
 * closing brace is ignored. Strings are bytes: their encoding is not checked.
 *
 * Pure functions over bytes; nothing is kept but what the caller holds.
 */
#ifndef SRV_JSON_H
#define SRV_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"
#include "server/base/cancellation.h"

/* A value inside checked text, from its first byte on. p NULL: not there. */
struct srv_json {
    const unsigned char *p, *end; /* end: of the document, not of the value */
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
    /* Of the first member each; p NULL: the key is not there. */
    struct srv_json signature_name, instances, inputs, examples, context;
    int64_t n_instances; /* elements of `instances` when it is an array */
};

/*
 * Any nesting depth. INVALID_ARGUMENT "JSON Parse error: ..."; also when the top is not an object
 * ("JSON Value: 5 Is not object").
 */
enum rt_status srv_json_check(struct srv_json_doc *doc, struct rt_span text, struct rt_error *err);

enum srv_json_type srv_json_type(struct srv_json v);
const char *srv_json_type_name(struct srv_json v); /* "Null", "False", "Object", "Number", ... */
const unsigned char *srv_json_after(struct srv_json v); /* the byte after the value */
int64_t srv_json_count(struct srv_json v);              /* elements or members */

/*
 * Walks an array or object: start with *at = srv_json_first(v), then take each element until
 * false. For objects *key is the member's name token with its quotes.
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

/* The token of a string, quotes included. */
struct rt_span srv_json_token(struct srv_json string);
/* What the token stands for. `dst` NULL: only the length. Never more than the token's. */
size_t srv_json_unquote(char *dst, struct rt_span token);
/* The token stands for exactly these bytes. */
bool srv_json_token_is(struct rt_span token, const char *s, size_t n);
/* {"b64": "..."} and nothing else: *token is the string's. */
bool srv_json_is_b64(struct srv_json v, struct rt_span *token);
/* Decodes base64 (the standard alphabet or that for URLs, padding optional, white space skipped) as
 * it is in a string token. `dst` NULL: only the length. False: not base64. */
bool srv_json_unbase64(char *dst, size_t *n, struct rt_span token);

/*
 * The value as an error text shows it (four spaces, one element a line), cut near `room` bytes.
 * Ends in NUL. Returns `text`.
 */
const char *srv_json_show(char *text, size_t capacity, struct srv_json v);
enum { SRV_JSON_SHOWN = 257 };

/* Appends s between quotes, escaped as RapidJSON does; bytes above 0x7f pass. */
void srv_json_quote(struct rt_bytes *out, const void *s, size_t n);

/* Appends the bytes as base64 between quotes. */
void srv_json_base64(struct rt_bytes *out, const void *s, size_t n);

/* The same for strings of any length: `out` fails when it is not wanted any more. */
void srv_json_quote_long(struct rt_bytes *out, const void *s, size_t n,
                         struct srv_cancellation *cancellation);
void srv_json_base64_long(struct rt_bytes *out, const void *s, size_t n,
                          struct srv_cancellation *cancellation);

#endif
