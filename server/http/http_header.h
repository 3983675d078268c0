/*
 * Parsers for the values of HTTP headers. Pure functions over strings.
 */
#ifndef SRV_HTTP_HEADER_H
#define SRV_HTTP_HEADER_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether an Accept-Encoding header permits gzip: by name, or by "*" if gzip is not named;
 * weight 0 forbids it. */
bool srv_http_accepts_gzip(const char *value);

/* Parses a Content-Length, which consists of digits only. False: the value is malformed, and *out
 * is unchanged. */
bool srv_http_length(const char *value, uint64_t *out);

#endif
