#include "kernels/cpu/hash_set.h"

#include "kernels/cpu/types.h"
#include "runtime/base/map.h"

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ (x >> 32);
}

/* Of a number's bits. A NaN equals nothing, itself neither: its hash may be anything, and many of
 * them must not share one, or each would be compared with all before it. */
#define HASH_FLOAT(T, U, at)                                                                       \
    do {                                                                                           \
        const T f = *(const T *)(at);                                                              \
        U word = 0;                                                                                \
        if (f != f)                                                                                \
            return mix((uintptr_t)p);                                                              \
        memcpy(&word, &f, f == 0 ? 0 : sizeof f);                                                  \
        h = mix(h + word);                                                                         \
    } while (0)

uint64_t kn_hash_element(enum rt_dtype dtype, const void *p)
{
    uint64_t bits = 0, h = 0;

    switch (dtype) {
    case RT_STRING:
        return rt_hash(rt_str_data(p), ((const struct rt_str *)p)->n);
    case RT_C64:
        HASH_FLOAT(float, uint32_t, (const float *)p + 1);
        /* fall through */
    case RT_F32:
        HASH_FLOAT(float, uint32_t, p);
        return h;
    case RT_C128:
        HASH_FLOAT(double, uint64_t, (const double *)p + 1);
        /* fall through */
    case RT_F64:
        HASH_FLOAT(double, uint64_t, p);
        return h;
    case RT_F16:
    case RT_BF16:
        bits = *(const uint16_t *)p;
        if (!kn_same_element(dtype, p, p))
            return mix((uintptr_t)p);
        return mix(bits == 0x8000 ? 0 : bits);
    default:
        memcpy(&bits, p, rt_dtype_size(dtype));
        return mix(bits);
    }
}

bool kn_same_element(enum rt_dtype dtype, const void *a, const void *b)
{
    switch (dtype) {
    case RT_STRING: {
        const struct rt_str *x = a, *y = b;
        return x->n == y->n && memcmp(rt_str_data(x), rt_str_data(y), x->n) == 0;
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
