/*
 * Hashing for finding equal items among many of equal size: an open hash table holds numbers of
 * items, whose values stay in place. Strings are compared by their bytes, -0.0 equals 0.0, and NaN
 * equals nothing.
 *
 * Items may come from a client, so their hash is keyed with the process's own key
 * (runtime/base/siphash.h), and a caller counts KN_PROBE_WORK for each taken slot that it passes.
 */
#ifndef KN_ARRAY_HASH_SET_H
#define KN_ARRAY_HASH_SET_H

#include "kernels/array/array.h"
#include "runtime/base/siphash.h"

/* Cost of looking at one slot, in the units of rt_run_spend: a cache miss takes some 50 ns. */
enum { KN_PROBE_WORK = 64 };

/* The hash of n contiguous elements: equal elements have equal hashes, and others only by
 * chance. */
uint64_t kn_hash_elements(enum rt_dtype dtype, const void *p, int64_t n);
/* Adds elements to a hash between rt_siphash_begin and rt_siphash_end, for items that lie in
 * several places. */
void kn_hash_add(struct rt_siphash *h, enum rt_dtype dtype, const void *p, int64_t n);
bool kn_same_element(enum rt_dtype dtype, const void *a, const void *b);

/* The number of slots for n items: a power of two, with a load factor of one half at most. */
int64_t kn_hash_slots(int64_t n);

#endif
