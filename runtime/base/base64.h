/* Encodes and decodes base64, in the standard alphabet and in the alphabet for URLs. Threads: any;
 * these functions are pure. */
#ifndef RT_BASE64_H
#define RT_BASE64_H

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"

/* Appends the encoding of n bytes in the standard alphabet, with padding. */
void rt_base64_write(struct rt_bytes *out, const void *p, size_t n);

/* Decodes base64 text in the standard alphabet or in the alphabet for URLs. Padding is optional;
 * white space is skipped. Sets *n to the number of decoded bytes, at most text.n. If `dst` is NULL,
 * only *n is computed. Returns false if the text is not base64. */
bool rt_base64_read(char *dst, size_t *n, struct rt_span text);

#endif
