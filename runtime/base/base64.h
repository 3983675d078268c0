/* Base64, both alphabets. Threads: pure. */
#ifndef RT_BASE64_H
#define RT_BASE64_H

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

/* Appends the bytes in the standard alphabet, padded. */
void rt_base64_write(struct rt_bytes *out, const void *p, size_t n);

/* Either alphabet (the standard one or that for URLs), padding optional, white space skipped. `dst`
 * NULL: only the length, never more than the text's. False: not base64. */
bool rt_base64_read(char *dst, size_t *n, struct rt_span text);

#endif
