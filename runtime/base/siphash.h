/*
 * SipHash-1-3 (Aumasson and Bernstein), a keyed hash for tables whose keys come from clients or
 * files. Only someone who knows the hash key can choose table keys that collide. Every process has
 * its own hash key, so hashes must not leave the process, and no response may depend on the order
 * of hashes.
 *
 * Threads: any.
 */
#ifndef RT_BASE_SIPHASH_H
#define RT_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* state of the hash function after a sequence of 64-bit words */
struct rt_siphash {
    uint64_t v[4], bytes;
};

static inline uint64_t rt_siphash_turn(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void rt_siphash_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rt_siphash_turn(v[1], 13) ^ v[0];
    v[3] = rt_siphash_turn(v[3], 16) ^ v[2];
    v[0] = rt_siphash_turn(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rt_siphash_turn(v[1], 17) ^ v[2];
    v[3] = rt_siphash_turn(v[3], 21) ^ v[0];
    v[2] = rt_siphash_turn(v[2], 32);
}

static inline struct rt_siphash rt_siphash_begin(const uint64_t key[2])
{
    return (struct rt_siphash){
        .v = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
              key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)}};
}

static inline void rt_siphash_word(struct rt_siphash *h, uint64_t word)
{
    h->v[3] ^= word;
    rt_siphash_round(h->v);
    h->v[0] ^= word;
    h->bytes += 8;
}

/* Finishes the hash. `tail` contains the n_tail bytes that follow the last complete word, in
 * little-endian order. n_tail is at most 7. */
static inline uint64_t rt_siphash_end(struct rt_siphash h, uint64_t tail, size_t n_tail)
{
    rt_siphash_word(&h, (h.bytes + n_tail) << 56 | tail);
    h.v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        rt_siphash_round(h.v);
    return h.v[0] ^ h.v[1] ^ h.v[2] ^ h.v[3];
}

/* Returns the hash key of this process, an array of two 64-bit words. */
const uint64_t *rt_siphash_key(void);
uint64_t rt_siphash(const uint64_t key[2], const void *p, size_t n);

#endif
