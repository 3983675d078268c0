/* Values of a tensor as text, the way TensorFlow writes them into messages. */
#ifndef KN_CPU_SUMMARY_H
#define KN_CPU_SUMMARY_H

#include "runtime/base/bytes.h"
#include "runtime/core/op.h"

/* Shortest of 6 or 9 digits that reads back as the same float; 15 or 17 for a double. */
void kn_float_text(char *buf, size_t n, float f);
void kn_double_text(char *buf, size_t n, double d);
/* "1 2 3..." or "[1 2][3...]...": at most max_entries (-1: all), without the outermost brackets. */
void kn_summarize(struct rt_bytes *out, const struct rt_tensor *t, int64_t max_entries);
/* As print v2 does: "[1 2 3 ... 8 9 10]", `edge` items at both ends of every dimension (-1: all).
 * `out` is a text of the run's (kn_text_begin). */
enum rt_status kn_summarize_v2(struct rt_run *r, struct rt_bytes *out, const struct rt_tensor *t,
                               int64_t edge);

#endif
