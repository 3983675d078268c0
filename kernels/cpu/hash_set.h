/*
 * Which of many equal-sized items are equal: an open hash table of item numbers over values that
 * stay where they are. Strings are compared by their bytes, -0.0 equals 0.0, NaN equals nothing.
 */
#ifndef KN_CPU_HASH_SET_H
#define KN_CPU_HASH_SET_H

#include "kernels/cpu/array.h"

uint64_t kn_hash_element(enum rt_dtype dtype, const void *p);
bool kn_same_element(enum rt_dtype dtype, const void *a, const void *b);

/* Slots for n items at a load of one half at most: a power of two. */
int64_t kn_hash_slots(int64_t n);

#endif
