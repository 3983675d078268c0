/*
 * Finds equal items of one size by hashing. An open-addressing hash table holds item indices, and
 * the values stay in place. Strings are compared by their bytes, -0.0 equals 0.0, and NaN equals
 * nothing.
 *
 * Items may come from a client, so they are hashed with a random per-process key
 * (runtime/base/siphash.h), and a caller spends KN_PROBE_WORK for each occupied slot that it
 * probes.
 */
#ifndef KN_ARRAY_HASH_SET_H
#define KN_ARRAY_HASH_SET_H

#include "kernels/array/array.h"
#include "runtime/base/siphash.h"

/* The cost of probing one slot, in units of rt_run_spend. A probe takes about 50 ns, because it
 * misses the cache. */
enum { KN_PROBE_WORK = 64 };

/* Returns a hash of n contiguous elements. Equal elements have equal hashes, and unequal elements
 * share a hash only by chance. */
uint64_t kn_hash_elements(enum rt_dtype dtype, const void *p, int64_t n);
/* Adds elements to a hash between rt_siphash_begin and rt_siphash_end, for items that are not
 * contiguous. */
void kn_hash_add(struct rt_siphash *h, enum rt_dtype dtype, const void *p, int64_t n);
bool kn_same_element(enum rt_dtype dtype, const void *a, const void *b);

/* Returns the number of slots for n items, a power of two with a load factor of at most one
 * half. */
int64_t kn_hash_slots(int64_t n);

#endif
