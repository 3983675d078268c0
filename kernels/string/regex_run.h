/*
 * What the ops with regular expressions share (regex_ops.c): patterns that come from a run, and the
 * limits of a match. Threads: as regex.h.
 */
#ifndef KN_STRING_REGEX_RUN_H
#define KN_STRING_REGEX_RUN_H

#include "kernels/string/regex.h"
#include "runtime/base/span.h"
#include "runtime/core/op.h"

/* Sets *out to the expression of a pattern. The caller owns a reference to it. */
enum rt_status kn_regex_compile(struct kn_regex **out, struct rt_span pattern,
                                struct rt_error *err);
/* Refuses input k, which is called `what`, unless it is a scalar. */
enum rt_status kn_regex_check_scalar(struct rt_run *r, int k, const char *what);
/* Refuses a text of n bytes on which a match might take minutes, because RE2 cannot be
 * interrupted. */
enum rt_status kn_regex_check_work(struct rt_run *r, const struct kn_regex *re, size_t n);
/*
 * Returns the work, for rt_run_spend, of a match that reads n bytes, which kn_regex_check_work has
 * allowed. The work is one unit of 0.5 ns for each byte and instruction. The DFA needs only 2 to 4
 * units for each byte, while the NFA needs 24 for each byte and instruction. Short matches of
 * thousands of instructions therefore run for up to 0.1 s between two checks of the deadline, where
 * a single match takes half of this time. With the NFA's units the checks would double the time
 * that the DFA takes for texts of 200 to 1,000 bytes.
 */
int64_t kn_regex_work(const struct kn_regex *re, size_t n);

#endif
