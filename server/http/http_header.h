/*
 * Values of HTTP headers that need reading. Pure functions over strings.
 */
#ifndef SRV_HTTP_HEADER_H
#define SRV_HTTP_HEADER_H

#include <stdbool.h>
#include <stdint.h>

/* Of Accept-Encoding: gzip by its name, or by "*" where it is not named; a weight of 0 refuses. */
bool srv_http_accepts_gzip(const char *value);

/* Of Content-Length: digits and nothing else. False, *out unchanged: it is no such number. */
bool srv_http_length(const char *value, uint64_t *out);

#endif
