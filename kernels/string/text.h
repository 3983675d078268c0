/*
 * What kernels on strings share: how much work a string is, texts that grow in the run's memory,
 * and the walk over two broadcast inputs.
 *
 * Threads: everything belongs to one run.
 */
#ifndef KN_CPU_TEXT_H
#define KN_CPU_TEXT_H

#include "runtime/base/bytes.h"
#include "runtime/core/op.h"

/* One string costs rt_run_spend its bytes and this much, for the call and the allocation. */
enum { KN_STRING_WORK = 16 };
/* Bytes of one string between two questions whether the run should go on, where a byte costs more
 * than a copy of it. */
enum { KN_STRING_CHUNK = 1 << 20 };

/*
 * A text (or an array of any elements) that grows. Its memory counts against the run's limit like a
 * tensor. kn_text_failed: why `b->failed` is set, and the status to return.
 */
void kn_text_begin(struct rt_bytes *b, struct rt_run *r);
enum rt_status kn_text_failed(const struct rt_bytes *b);
void kn_text_end(struct rt_bytes *b);

/* Walks the elements of `out`, in order, of which a and b are the broadcast inputs' elements: each
 * input's rank is at most out's, and a dimension is out's or 1. */
struct kn_pairs {
    int64_t a, b; /* indices of the elements at hand */
    int rank;
    int64_t at[RT_MAX_RANK], dim[RT_MAX_RANK], step_a[RT_MAX_RANK], step_b[RT_MAX_RANK];
};
void kn_pairs_begin(struct kn_pairs *p, const struct rt_tensor *out, const struct rt_tensor *a,
                    const struct rt_tensor *b);
void kn_pairs_next(struct kn_pairs *p);

#endif
