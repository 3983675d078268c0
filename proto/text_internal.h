/*
 * The tokenizer of protobuf's text format (text_token.c), used by the parser of messages (text.c).
 *
 * On failure, a function sets x->err to the position of the offending token and the error message
 * that protobuf's own parser gives. x->p is then undefined, because an error ends the parsing.
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
    /* The last position whose line and column were computed. Later positions are counted from here,
     * so that the text is scanned only once. */
    const char *known;
    struct pb_text_place at_known;
    const char *closed; /* the closing bracket of the last parsed type name */
    /* maximum number of bytes that the parser may allocate, and the number that is left */
    size_t limit, left;
    const struct rt_check *check; /* may be NULL */
    const char *check_at;         /* position in the text at which the check is next called */
    /* Status of the check if it failed, or of the error that the limit was exceeded; otherwise
     * RT_OK. If it is not RT_OK, x->err is final: pb_text_fail and pb_text_fail_memory only return
     * the status. */
    enum rt_status stopped;
};

/* Calls the check and sets x->check_at. If the check fails, sets x->stopped, and moves x->end to
 * x->p, which ends the parsing. */
void pb_text_call_check(struct pb_text_parser *x);
/* Calls the check if x->p has reached x->check_at. */
static inline void pb_text_check(struct pb_text_parser *x)
{
    if (x->p >= x->check_at)
        pb_text_call_check(x);
}

/* Records in x->places that a message of type d begins at `at`, if the caller requested the
 * positions of messages of this type. */
void pb_text_keep_place(struct pb_text_parser *x, const ProtobufCMessageDescriptor *d,
                        const char *at);
/* Fails with INVALID_ARGUMENT. The error message begins with the line and column of `at`:
 * "LINE:COLUMN: ". */
enum rt_status pb_text_fail(struct pb_text_parser *x, const char *at, const char *fmt, ...)
    RT_PRINTF(3, 4);
enum rt_status pb_text_fail_memory(struct pb_text_parser *x);
/* Fails because a token of kind `what` was expected at position `at`. */
enum rt_status pb_text_expected(struct pb_text_parser *x, const char *what, const char *at);
/* Fails because `what`, a quoted token, was expected but not found. */
enum rt_status pb_text_missing(struct pb_text_parser *x, const char *what);

bool pb_text_is_letter(char c);
bool pb_text_is_digit(char c);
/* Skips white space and comments before the next token. */
void pb_text_skip_space(struct pb_text_parser *x);
/* Returns the next character that is neither white space nor in a comment, or 0 at the end of the
 * text. */
char pb_text_peek(struct pb_text_parser *x);
/* Skips white space and consumes the next character if it is c. Returns whether the character was
 * c. */
bool pb_text_take(struct pb_text_parser *x, char c);
/* Consumes a word or a number and returns it. The token includes all adjacent letters and digits,
 * so that "1x" is one invalid token rather than two tokens. */
struct rt_span pb_text_word(struct pb_text_parser *x);
/* Skips white space and returns the beginning of the next token. protobuf's TextFormat reports some
 * errors at the next token, because it detects them only after it has read that token. */
const char *pb_text_next_token(struct pb_text_parser *x);

/* Parses one or more adjacent quoted strings and appends their concatenation to *out. */
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
