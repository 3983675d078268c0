/* Hash functions by which models assign strings to buckets. Their values must therefore never
 * change. */
#ifndef KN_STRING_FARMHASH_H
#define KN_STRING_FARMHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t kn_fingerprint64(const char *p, size_t n);                   /* hashes by FarmHash */
uint64_t kn_murmur64(const char *p, size_t n, uint64_t seed);         /* hashes by MurmurHash64A */
uint64_t kn_sip_hash(const uint64_t key[2], const char *p, size_t n); /* hashes by SipHash-2-4 */

#endif
