/*
 * Helpers of string kernels: the amount of work counted for a string, text buffers that grow in the
 * run's memory, and an iterator over two broadcast inputs. Threads: all data belongs to a single
 * run.
 */
#ifndef KN_STRING_TEXT_H
#define KN_STRING_TEXT_H

#include "runtime/base/bytes.h"
#include "runtime/core/op.h"

/* The work per string, in units of rt_run_spend. It covers the call and the allocation; the number
 * of the string's bytes is added to it. */
enum { KN_STRING_WORK = 16 };
/* The number of bytes of one string that are processed between two calls of rt_run_spend, in loops
 * in which processing a byte costs more than copying it. */
enum { KN_STRING_CHUNK = 1 << 20 };

/*
 * Initialises a buffer that grows, for text or for elements of any type. The buffer's memory counts
 * towards the run's limit like a tensor's. kn_text_failed sets r->err to the reason why `b->failed`
 * is set, and returns the status.
 */
void kn_text_begin(struct rt_bytes *b, struct rt_run *r);
enum rt_status kn_text_failed(const struct rt_bytes *b);
void kn_text_end(struct rt_bytes *b);

/* Iterates over the elements of `out` in order, with the corresponding elements of the broadcast
 * inputs a and b. The rank of an input is at most the rank of `out`, and each dimension of an input
 * equals that of `out` or is 1. */
struct kn_pairs {
    int64_t a, b; /* indices of the current elements of a and b */
    int rank;
    int64_t at[RT_MAX_RANK], dim[RT_MAX_RANK], step_a[RT_MAX_RANK], step_b[RT_MAX_RANK];
};
void kn_pairs_begin(struct kn_pairs *p, const struct rt_tensor *out, const struct rt_tensor *a,
                    const struct rt_tensor *b);
void kn_pairs_next(struct kn_pairs *p);

#endif
