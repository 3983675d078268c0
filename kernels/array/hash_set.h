/*
 * Finds equal items by hashing. All items have the same size. An open-addressing hash table holds
 * the indices of items; the items are not moved. Strings are compared by their bytes, -0.0 equals
 * 0.0, and NaN equals nothing.
 *
 * Items may come from a client, so they are hashed with a random per-process key
 * (runtime/base/siphash.h). A caller passes KN_PROBE_WORK to rt_run_spend for each occupied slot
 * that it probes.
 */
#ifndef KN_ARRAY_HASH_SET_H
#define KN_ARRAY_HASH_SET_H

#include "kernels/array/array.h"
#include "runtime/base/siphash.h"

/* The cost of probing one slot, in units of rt_run_spend. A probe takes about 50 ns, because it
 * misses the cache. */
enum { KN_PROBE_WORK = 64 };

/* Returns a hash of n contiguous elements. Equal elements have equal hashes, and unequal elements
 * share a hash only by chance. The deadline is checked through `t` (kernels/array/array.h) while
 * long strings or many elements are read. If `t` is NULL, the deadline is not checked. */
uint64_t kn_hash_elements(enum rt_dtype dtype, const void *p, int64_t n, struct kn_reader *t);
/* Adds elements to a hash between rt_siphash_begin and rt_siphash_end, for items that are not
 * contiguous. */
void kn_hash_add(struct rt_siphash *h, enum rt_dtype dtype, const void *p, int64_t n,
                 struct kn_reader *t);
bool kn_same_element(enum rt_dtype dtype, const void *a, const void *b, struct kn_reader *t);

/* Returns the number of slots for n items. The number is a power of two, and the load factor is at
 * most one half. */
int64_t kn_hash_slots(int64_t n);

#endif
