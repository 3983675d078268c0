#include "kernels/array/hash_set.h"

#include "kernels/cpu/types.h"

/* A NaN is hashed by its memory address. A NaN is not equal to itself, so any hash would be valid,
 * but if all NaNs had the same hash, each would be compared with all the others. */
#define ADD_FLOATS(T, U)                                                                           \
    do {                                                                                           \
        const T *f = p;                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            U word = 0; /* 0 and -0.0 are equal, so they get equal hashes */                       \
            memcpy(&word, f + i, f[i] == 0 ? 0 : sizeof word);                                     \
            rt_siphash_word(h, f[i] != f[i] ? (uintptr_t)(f + i) : word);                          \
        }                                                                                          \
    } while (0)

#define ADD_INTEGERS(U)                                                                            \
    do {                                                                                           \
        const U *word = p;                                                                         \
        for (int64_t i = 0; i < n; i++)                                                            \
            rt_siphash_word(h, word[i]);                                                           \
    } while (0)

static void add_halves(struct rt_siphash *h, enum rt_dtype dtype, const uint16_t *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const bool is_nan = !kn_same_element(dtype, p + i, p + i, NULL);
        rt_siphash_word(h, is_nan ? (uintptr_t)(p + i) : p[i] == 0x8000 ? 0 : p[i]);
    }
}

/* Returns the hash of a string. For a string longer than KN_TEXT_CHUNK, the result is the hash of
 * the hashes of its chunks. */
static uint64_t hash_string(const struct rt_str *s, struct kn_reader *t)
{
    const char *p = rt_str_data(s);
    size_t n = s->n, some;
    struct rt_siphash h;

    if (n <= KN_TEXT_CHUNK)
        return rt_siphash(rt_siphash_key(), p, n);
    h = rt_siphash_begin(rt_siphash_key());
    for (; n; n -= some, p += some) {
        some = kn_text_chunk(n);
        rt_siphash_word(&h, rt_siphash(rt_siphash_key(), p, some));
        if (!kn_read_on(t, 2 * some))
            break;
    }
    return rt_siphash_end(h, 0, 0);
}

static void add_strings(struct rt_siphash *h, const struct rt_str *s, int64_t n,
                        struct kn_reader *t)
{
    for (int64_t i = 0; i < n && !(t && t->st); i++)
        rt_siphash_word(h, hash_string(&s[i], t));
}

static void add_some(struct rt_siphash *h, enum rt_dtype dtype, const void *p, int64_t n)
{
    switch (dtype) {
    case RT_C64:
        n *= 2;
        /* fall through */
    case RT_F32:
        ADD_FLOATS(float, uint32_t);
        return;
    case RT_C128:
        n *= 2;
        /* fall through */
    case RT_F64:
        ADD_FLOATS(double, uint64_t);
        return;
    case RT_F16:
    case RT_BF16:
        add_halves(h, dtype, p, n);
        return;
    default:
        break;
    }
    switch (rt_dtype_size(dtype)) {
    case 8:
        ADD_INTEGERS(uint64_t);
        return;
    case 4:
        ADD_INTEGERS(uint32_t);
        return;
    case 2:
        ADD_INTEGERS(uint16_t);
        return;
    default:
        ADD_INTEGERS(uint8_t);
    }
}

void kn_hash_add(struct rt_siphash *h, enum rt_dtype dtype, const void *p, int64_t n,
                 struct kn_reader *t)
{
    /* number of elements between two deadline checks, which are about 1 ms apart */
    enum { MANY = 1 << 18 };
    const char *at = p;

    if (dtype == RT_STRING) {
        add_strings(h, p, n, t);
        return;
    }
    for (; n > MANY; n -= MANY, at += MANY * rt_dtype_size(dtype)) {
        add_some(h, dtype, at, MANY);
        if (!kn_read_on(t, RT_WORK))
            return;
    }
    add_some(h, dtype, at, n);
}

uint64_t kn_hash_elements(enum rt_dtype dtype, const void *p, int64_t n, struct kn_reader *t)
{
    struct rt_siphash h;

    if (dtype == RT_STRING && n == 1)
        return hash_string(p, t);
    h = rt_siphash_begin(rt_siphash_key());
    kn_hash_add(&h, dtype, p, n, t);
    return rt_siphash_end(h, 0, 0);
}

bool kn_same_element(enum rt_dtype dtype, const void *a, const void *b, struct kn_reader *t)
{
    switch (dtype) {
    case RT_STRING: {
        const struct rt_str *x = a, *y = b;
        return x->n == y->n && kn_same_text(rt_str_data(x), rt_str_data(y), x->n, t);
    }
    case RT_F32:
        return *(const float *)a == *(const float *)b;
    case RT_F64:
        return *(const double *)a == *(const double *)b;
    case RT_F16:
        return kn_from_f16(*(const struct kn_half *)a) == kn_from_f16(*(const struct kn_half *)b);
    case RT_BF16:
        return kn_from_bf16(*(const struct kn_bfloat *)a) ==
               kn_from_bf16(*(const struct kn_bfloat *)b);
    case RT_C64:
        return *(const float _Complex *)a == *(const float _Complex *)b;
    case RT_C128:
        return *(const double _Complex *)a == *(const double _Complex *)b;
    default:
        return memcmp(a, b, rt_dtype_size(dtype)) == 0;
    }
}

int64_t kn_hash_slots(int64_t n)
{
    int64_t s = 16;

    while (s < 2 * n && s < INT64_MAX / 4)
        s *= 2;
    return s;
}
