/*
 * Prints text for people to a terminal or a file. Names and messages that come from models, files
 * and the network must not send control sequences to a terminal, forge lines, or change the
 * direction of the text, so every string argument is escaped.
 *
 * Threads: as for stdio.
 */
#ifndef RT_BASE_PRINT_H
#define RT_BASE_PRINT_H

#include <stddef.h>
#include <stdio.h>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

/* Returns the length in bytes of the UTF-8 character at the beginning of the NUL-terminated string
 * `s` if it may be printed. Returns 0 for an invalid character, a control character, a line or
 * paragraph separator, and a character that changes the direction of the text. */
int rt_printable_length(const unsigned char *s);
/* Prints as fprintf does, but escapes the strings of %s: a newline as \n, a tab as \t, and each
 * byte that is not part of a printable character as \xNN. The format itself is not escaped. %n and
 * wide characters are not supported. */
void rt_print(FILE *f, const char *fmt, ...) RT_PRINTF(2, 3);
/* Appends a string, escaped as rt_print does. */
void rt_bytes_add_escaped(struct rt_bytes *b, const char *text);

#endif
