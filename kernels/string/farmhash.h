/* Hash functions that models use to assign strings to buckets. Their values must never change. */
#ifndef KN_STRING_FARMHASH_H
#define KN_STRING_FARMHASH_H

#include "kernels/array/array.h"

/* While a hash function reads a long string, it checks the deadline through `t`
 * (kernels/array/array.h). If `t` is NULL, the deadline is not checked. */
uint64_t kn_fingerprint64(const char *p, size_t n, struct kn_reader *t); /* FarmHash */
uint64_t kn_murmur64(const char *p, size_t n, uint64_t seed,
                     struct kn_reader *t); /* MurmurHash64A */
uint64_t kn_sip_hash(const uint64_t key[2], const char *p, size_t n,
                     struct kn_reader *t); /* SipHash-2-4 */

#endif
