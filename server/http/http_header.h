/*
 * Parses the values of HTTP headers. All functions are pure.
 */
#ifndef SRV_HTTP_HEADER_H
#define SRV_HTTP_HEADER_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether an Accept-Encoding header permits gzip. The header must list gzip or, if it does
 * not, "*", with a weight other than 0. */
bool srv_http_accepts_gzip(const char *value);

/* Parses a Content-Length, which consists of digits only. Returns false and leaves *out
 * unchanged if the value is malformed. */
bool srv_http_length(const char *value, uint64_t *out);

#endif
