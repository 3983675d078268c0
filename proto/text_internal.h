/*
 * The tokenizer of protobuf's text format (text_token.c), for the parser of messages (text.c).
 *
 * A function that fails reports the place of the offending token in x->err, in the words of
 * protobuf's own parser, and leaves the position undefined: parsing ends there.
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
    /* The last place that was looked up, so that many of them are one walk over the text. */
    const char *known;
    struct pb_text_place at_known;
    const char *closed; /* the last bracket that closed a name of a type */
};

/* A message of type d begins at `at`: x->places keeps it if it asks for that type. */
void pb_text_keep_place(struct pb_text_parser *x, const ProtobufCMessageDescriptor *d,
                        const char *at);
/* INVALID_ARGUMENT with "LINE:COLUMN: " of `at` before the text. */
enum rt_status pb_text_fail(struct pb_text_parser *x, const char *at, const char *fmt, ...)
    RT_PRINTF(3, 4);
enum rt_status pb_text_fail_memory(struct pb_text_parser *x);
/* Another token stands at `at` than one of the kind `what`. */
enum rt_status pb_text_expected(struct pb_text_parser *x, const char *what, const char *at);
/* The next token is not `what`, which is given with its quotes. */
enum rt_status pb_text_missing(struct pb_text_parser *x, const char *what);

bool pb_text_is_letter(char c);
bool pb_text_is_digit(char c);
/* Passes white space and comments. */
void pb_text_skip_space(struct pb_text_parser *x);
/* The next character that is neither white space nor in a comment; 0 at the end of the text. */
char pb_text_peek(struct pb_text_parser *x);
/* True: the next character is c, and is passed. */
bool pb_text_take(struct pb_text_parser *x, char c);
/* Passes a word or a number: all that belongs together, so that "1x" is one bad token, not two. */
struct rt_span pb_text_word(struct pb_text_parser *x);
/* Where the next token begins: TextFormat reports there what it knows of a token only after it was
 * read. */
const char *pb_text_next_token(struct pb_text_parser *x);

/* Adjacent strings are one; appended to *out. */
enum rt_status pb_text_string(struct pb_text_parser *x, struct rt_bytes *out);
/* *out: in two's complement if is_signed; `bits` is 32 or 64. */
enum rt_status pb_text_integer(struct pb_text_parser *x, bool is_signed, int bits, uint64_t *out);
enum rt_status pb_text_floating(struct pb_text_parser *x, double *out);
enum rt_status pb_text_boolean(struct pb_text_parser *x, protobuf_c_boolean *out);
/* A name or a number of the field's enum. */
enum rt_status pb_text_enumeration(struct pb_text_parser *x, const ProtobufCFieldDescriptor *f,
                                   int32_t *out);

#endif
