/* Parses numbers strictly, independently of the locale and without strtol's tolerance of malformed
 * text. */
#ifndef SRV_NUMBER_H
#define SRV_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parses n bytes that consist of an optional sign and decimal digits. Returns false for any other
 * text and for values that do not fit into an int64_t. */
bool srv_parse_int64(const char *text, size_t n, int64_t *out);

/* Parses a number of seconds, with an optional fraction, into milliseconds. Digits after the third
 * decimal place are ignored. */
bool srv_parse_seconds(const char *text, int64_t *out_ms);

#endif
