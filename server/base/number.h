/* Parses numbers strictly. The result does not depend on the locale. Unlike strtol, the functions
 * refuse malformed text. */
#ifndef SRV_NUMBER_H
#define SRV_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parses n bytes: an optional sign, and decimal digits. Returns false for any other text and for
 * values outside the range of int64_t. */
bool srv_parse_int64(const char *text, size_t n, int64_t *out);

/* Parses a number of seconds, with an optional fraction, into milliseconds. Digits after the third
 * decimal place are ignored. */
bool srv_parse_seconds(const char *text, int64_t *out_ms);

#endif
