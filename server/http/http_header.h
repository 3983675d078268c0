/*
 * Parses the values of HTTP headers. All functions are pure.
 */
#ifndef SRV_HTTP_HEADER_H
#define SRV_HTTP_HEADER_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether an Accept-Encoding header permits gzip. The weight of gzip must not be 0. If the
 * header does not list gzip, the weight of "*" counts. */
bool srv_http_accepts_gzip(const char *value);

/* Parses a Content-Length, which consists of digits only. If the value is malformed, returns false
 * and leaves *out unchanged. */
bool srv_http_length(const char *value, uint64_t *out);

#endif
