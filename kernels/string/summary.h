/* Formats a tensor's values as TensorFlow does in its messages. */
#ifndef KN_STRING_SUMMARY_H
#define KN_STRING_SUMMARY_H

#include "runtime/base/bytes.h"
#include "runtime/core/op.h"

/* Writes f with 6 digits if these read back as the same float, and otherwise with 9 digits.
 * Likewise, a double is written with 15 or 17 digits. */
void kn_float_text(char *buf, size_t n, float f);
void kn_double_text(char *buf, size_t n, double d);
/* Appends at most max_entries values (all if max_entries is -1) without the outermost brackets, for
 * example "1 2 3..." or "[1 2][3...]...". */
void kn_summarize(struct rt_bytes *out, const struct rt_tensor *t, int64_t max_entries);
/* Appends a tensor in the format of PrintV2, for example "[1 2 3 ... 8 9 10]", with `edge` items at
 * both ends of every dimension (all items if edge is -1). kn_text_begin must have initialised `out`
 * for this run. */
enum rt_status kn_summarize_v2(struct rt_run *r, struct rt_bytes *out, const struct rt_tensor *t,
                               int64_t edge);

#endif
