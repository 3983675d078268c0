/*
 * Which of many equal-sized items are equal: an open hash table of item numbers over values that
 * stay where they are. Strings are compared by their bytes, -0.0 equals 0.0, NaN equals nothing.
 *
 * Items may be a client's: their hash has a key of the process's own (runtime/base/siphash.h), and
 * whoever passes slots that are taken counts KN_PROBE_WORK for each.
 */
#ifndef KN_CPU_HASH_SET_H
#define KN_CPU_HASH_SET_H

#include "kernels/array/array.h"
#include "runtime/base/siphash.h"

/* Work of looking at one slot, as rt_run_spend counts: memory may have to bring it, some 50 ns. */
enum { KN_PROBE_WORK = 64 };

/* Of n elements in a row: equal ones, and only those, have a hash in common, but for chance. */
uint64_t kn_hash_elements(enum rt_dtype dtype, const void *p, int64_t n);
/* The same for elements that lie in several places: between rt_siphash_begin and _end. */
void kn_hash_add(struct rt_siphash *h, enum rt_dtype dtype, const void *p, int64_t n);
bool kn_same_element(enum rt_dtype dtype, const void *a, const void *b);

/* Slots for n items at a load of one half at most: a power of two. */
int64_t kn_hash_slots(int64_t n);

#endif
