/*
 * Helpers of string kernels: the amount of work counted for a string, text buffers that grow in the
 * run's memory, and an iterator over two broadcast inputs. Threads: all data belongs to a single
 * run.
 */
#ifndef KN_STRING_TEXT_H
#define KN_STRING_TEXT_H

#include "kernels/array/array.h"
#include "runtime/base/bytes.h"
#include "runtime/core/op.h"

/* Work of the call and the allocation for one string, in units of rt_run_spend. Callers count the
 * size of the string in bytes in addition. */
enum { KN_STRING_WORK = 16 };
/* Replaces *s with a copy of the n bytes at `p`, which must not be part of *s. Checks the deadline
 * while a long string is copied, and counts the bytes in *left. */
enum rt_status kn_set_text(struct rt_run *r, int64_t *left, struct rt_str *s, const char *p,
                           size_t n);
/* Searches the bytes from p to `end`. Returns the address of the first white-space byte or, if
 * `space` is false, of the first byte that is not white space. Returns `end` if there is no such
 * byte, and NULL if the run must end. */
const char *kn_find_space(struct rt_run *r, int64_t *left, const char *p, const char *end,
                          bool space);
/* Moves *p and reduces *n to exclude the white space at both ends of the string. */
enum rt_status kn_strip(struct rt_run *r, int64_t *left, const char **p, size_t *n);
/* Returns the first occurrence of `what`, which is not empty, between p and `end`, or NULL if there
 * is none. Also returns NULL, with the reason in *st, if the run has been cancelled or its deadline
 * has passed. */
const char *kn_find_text(struct rt_run *r, int64_t *left, const char *p, const char *end,
                         struct rt_span what, enum rt_status *st);

/*
 * Initialises a growable buffer for text or for elements of any type. Its memory counts towards the
 * run's limit, like the memory of a tensor. If b->failed is set, kn_text_failed sets r->err to the
 * reason, and returns the status.
 */
void kn_text_begin(struct rt_bytes *b, struct rt_run *r);
enum rt_status kn_text_failed(const struct rt_bytes *b);
void kn_text_end(struct rt_bytes *b);
/* Appends n bytes to such a buffer. Checks the deadline while a long string is copied, and counts
 * the bytes in *left. */
enum rt_status kn_text_add(struct rt_run *r, int64_t *left, struct rt_bytes *b, const void *p,
                           size_t n);

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
