#include "runtime/base/siphash.h"

#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>

static uint64_t process_key[2];

static void make_key(void)
{
    const void *random = (const void *)(uintptr_t)getauxval(AT_RANDOM); /* 16 random bytes */

    if (random)
        memcpy(process_key, random, sizeof process_key);
}

const uint64_t *rt_siphash_key(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_key);
    return process_key;
}

uint64_t rt_siphash(const uint64_t key[2], const void *p, size_t n)
{
    struct rt_siphash h = rt_siphash_begin(key);
    const unsigned char *s = p;
    uint64_t word, tail = 0;

    for (; n >= h.bytes + sizeof word; s += sizeof word) {
        memcpy(&word, s, sizeof word);
        rt_siphash_word(&h, word);
    }
    const size_t n_tail = n - h.bytes;
    if (n_tail)
        memcpy(&tail, s, n_tail);
    return rt_siphash_end(h, tail, n_tail);
}
