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

/* Parses a Content-Encoding that names at most one coding, in any case: gzip (also as x-gzip) and
 * deflate set *is_compressed, and identity or an empty value leaves it unchanged. Returns false if
 * the value names another coding, or several. */
bool srv_http_coding(const char *value, bool *is_compressed);

/* Returns whether an Accept header names OpenMetrics of version 1.0.0 or 0.0.1, or of no version,
 * with a weight that is at least that of plain text. */
bool srv_http_prefers_openmetrics(const char *value);

/* Returns whether an Accept header names the media type `type` itself, not only by a wildcard, with
 * a weight that is not 0. */
bool srv_http_names_type(const char *value, const char *type);

/* Parses a Content-Length, which consists of digits only. If the value is malformed, returns false
 * and leaves *out unchanged. */
bool srv_http_length(const char *value, uint64_t *out);

#endif
