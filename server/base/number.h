/* Parses numbers, without locale and without strtol's silent acceptance of bad text. */
#ifndef SRV_NUMBER_H
#define SRV_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parses an optional sign and decimal digits, which must be all n bytes. False: other text, or the
 * value does not fit. */
bool srv_parse_int64(const char *text, size_t n, int64_t *out);

/* Parses digits with an optional fraction; digits beyond milliseconds are dropped. */
bool srv_parse_seconds(const char *text, int64_t *out_ms);

#endif
