/* Parses numbers from text as TensorFlow does. White space around a number is accepted; any other
 * text around it is refused. */
#ifndef KN_STRING_PARSE_H
#define KN_STRING_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool kn_parse_i64(const char *p, size_t n, int64_t *out);
bool kn_parse_u64(const char *p, size_t n, uint64_t *out);
bool kn_parse_float(const char *p, size_t n, float *out);
bool kn_parse_double(const char *p, size_t n, double *out);

#endif
