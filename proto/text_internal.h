/*
 * The tokenizer of protobuf's text format (text_token.c). The parser of messages (text.c) uses it.
 *
 * On failure, a function sets x->err to the position of the wrong token and to the error message of
 * protobuf's own parser. The parsing then ends, and x->p is undefined.
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
    const struct pb_text_watch *watch; /* may be NULL */
    /* The last position whose line and column are known. Later positions are counted from it, so
     * that the text is scanned only once. */
    const char *known;
    struct pb_text_place at_known;
    const char *closed; /* closing bracket of the last type name */
    /* maximum number of bytes that the parser may allocate, and the number left */
    size_t limit, left;
    const struct rt_check *check; /* may be NULL */
    const char *check_at;         /* position in the text of the next call of the check */
    /* Status of the failed check, or of the exceeded limit, or RT_OK. If it is not RT_OK, x->err is
     * final, and pb_text_fail and pb_text_fail_memory only return this status. */
    enum rt_status stopped;
};

/* Calls the check and sets x->check_at. If the check fails, sets x->stopped and ends the parsing by
 * moving x->end to x->p. */
void pb_text_call_check(struct pb_text_parser *x);
static inline void pb_text_check(struct pb_text_parser *x)
{
    if (x->p >= x->check_at)
        pb_text_call_check(x);
}

/* Records in x->places that a message of type d begins at `at`, if the caller wants the positions
 * of this type. */
void pb_text_keep_place(struct pb_text_parser *x, const ProtobufCMessageDescriptor *d,
                        const char *at);
/* Calls x->watch, if it is set, with the field `f` whose name begins at `at`. */
enum rt_status pb_text_call_watch(struct pb_text_parser *x, const ProtobufCFieldDescriptor *f,
                                  const char *at);
/* Fails with INVALID_ARGUMENT. The error message begins with the line and column of `at`:
 * "LINE:COLUMN: ". */
enum rt_status pb_text_fail(struct pb_text_parser *x, const char *at, const char *fmt, ...)
    RT_PRINTF(3, 4);
enum rt_status pb_text_fail_memory(struct pb_text_parser *x);
/* Fails at position `at` because a token of the kind `what` was expected. */
enum rt_status pb_text_expected(struct pb_text_parser *x, const char *what, const char *at);
/* Fails because the quoted token `what` was expected. */
enum rt_status pb_text_missing(struct pb_text_parser *x, const char *what);

bool pb_text_is_letter(char c);
bool pb_text_is_digit(char c);
void pb_text_skip_space(struct pb_text_parser *x);
/* Returns the next character that is neither white space nor in a comment, or 0 at the end of the
 * text. */
char pb_text_peek(struct pb_text_parser *x);
/* Skips white space and consumes the next character if it is c. Returns whether the character was
 * c. */
bool pb_text_take(struct pb_text_parser *x, char c);
/* Consumes a word or a number and returns it. The token includes all adjacent letters and digits,
 * so that "1x" is one invalid token instead of two tokens. */
struct rt_span pb_text_word(struct pb_text_parser *x);
/* Skips white space and returns the beginning of the next token. protobuf's TextFormat detects some
 * errors only after it has read the next token, and reports them there. */
const char *pb_text_next_token(struct pb_text_parser *x);

/* Parses adjacent quoted strings and appends their concatenation to *out. */
enum rt_status pb_text_string(struct pb_text_parser *x, struct rt_bytes *out);
/* Parses an integer of `bits` (32 or 64) bits into *out, in two's complement if is_signed is
 * set. */
enum rt_status pb_text_integer(struct pb_text_parser *x, bool is_signed, int bits, uint64_t *out);
enum rt_status pb_text_floating(struct pb_text_parser *x, double *out);
enum rt_status pb_text_boolean(struct pb_text_parser *x, protobuf_c_boolean *out);
/* Parses a value of an enum field, given by name or by number. */
enum rt_status pb_text_enumeration(struct pb_text_parser *x, const ProtobufCFieldDescriptor *f,
                                   int32_t *out);

#endif
