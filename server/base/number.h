/* Numbers from text, without locale and without strtol's silence. */
#ifndef SRV_NUMBER_H
#define SRV_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All n bytes are an optional sign and decimal digits, and the value fits. */
bool srv_parse_int64(const char *text, size_t n, int64_t *out);

/* Digits, and perhaps a point and more of them; beyond milliseconds they are left out. */
bool srv_parse_seconds(const char *text, int64_t *out_ms);

#endif
