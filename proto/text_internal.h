/*
 * The tokenizer of protobuf's text format (text_token.c), used by the parser of messages (text.c).
 *
 * A function that fails reports the place of the offending token in x->err, with the text of
 * protobuf's own parser. The position x->p is undefined afterwards, because parsing ends there.
 */
#ifndef PB_TEXT_INTERNAL_H
#define PB_TEXT_INTERNAL_H

#include <stdbool.h>

#include "proto/text.h"
#include "runtime/base/bytes.h"

struct pb_text_parser {
    const char *begin, *p, *end;
    int depth;
    struct rt_error *err;
    struct pb_text_places *places;
    /* The place that was computed last. Later places are counted from it, so that computing many
     * places reads the text only once. */
    const char *known;
    struct pb_text_place at_known;
    const char *closed; /* the bracket that closed the last type name */
};

/* Records in x->places that a message of type d begins at `at`, if it has this type. */
void pb_text_keep_place(struct pb_text_parser *x, const ProtobufCMessageDescriptor *d,
                        const char *at);
/* INVALID_ARGUMENT with "LINE:COLUMN: " of `at` before the text. */
enum rt_status pb_text_fail(struct pb_text_parser *x, const char *at, const char *fmt, ...)
    RT_PRINTF(3, 4);
enum rt_status pb_text_fail_memory(struct pb_text_parser *x);
/* Reports that a token of the kind `what` was expected at `at`. */
enum rt_status pb_text_expected(struct pb_text_parser *x, const char *what, const char *at);
/* Reports that the next token is not the token `what`, which is given with its quotes. */
enum rt_status pb_text_missing(struct pb_text_parser *x, const char *what);

bool pb_text_is_letter(char c);
bool pb_text_is_digit(char c);
/* Skips white space and comments. */
void pb_text_skip_space(struct pb_text_parser *x);
/* The next character that is neither white space nor in a comment; 0: end of the text. */
char pb_text_peek(struct pb_text_parser *x);
/* Consumes the next character if it is c. */
bool pb_text_take(struct pb_text_parser *x, char c);
/* Consumes a word or a number. All adjacent letters and digits belong to it, so that "1x" is one
 * bad token rather than two. */
struct rt_span pb_text_word(struct pb_text_parser *x);
/* The beginning of the next token. protobuf's TextFormat reports an error there if it finds it only
 * after reading the token before. */
const char *pb_text_next_token(struct pb_text_parser *x);

/* Appends a string to *out; adjacent strings are concatenated. */
enum rt_status pb_text_string(struct pb_text_parser *x, struct rt_bytes *out);
/* *out: the integer, in two's complement if is_signed. `bits` is 32 or 64. */
enum rt_status pb_text_integer(struct pb_text_parser *x, bool is_signed, int bits, uint64_t *out);
enum rt_status pb_text_floating(struct pb_text_parser *x, double *out);
enum rt_status pb_text_boolean(struct pb_text_parser *x, protobuf_c_boolean *out);
/* Reads a value of the field's enum, by name or by number. */
enum rt_status pb_text_enumeration(struct pb_text_parser *x, const ProtobufCFieldDescriptor *f,
                                   int32_t *out);

#endif
