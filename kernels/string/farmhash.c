#include "kernels/string/farmhash.h"

#include <string.h>

/* The hash algorithms are implemented from their published descriptions. Bytes are read as
 * little-endian. */

static uint64_t get64(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--)
        v = v << 8 | u[i];
    return v;
}

static uint64_t get32(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;

    return (uint64_t)u[0] | (uint64_t)u[1] << 8 | (uint64_t)u[2] << 16 | (uint64_t)u[3] << 24;
}

static uint64_t ror(uint64_t v, int by)
{
    return v >> by | v << (64 - by);
}

static uint64_t rol(uint64_t v, int by)
{
    return v << by | v >> (64 - by);
}

/* ---- FarmHash's 64-bit fingerprint ---- */

static const uint64_t k0 = UINT64_C(0xc3a5c85c97cb3127);
static const uint64_t k1 = UINT64_C(0xb492b66fbe98f273);
static const uint64_t k2 = UINT64_C(0x9ae16a3b2f90404f);

static uint64_t shift_mix(uint64_t v)
{
    return v ^ v >> 47;
}

static uint64_t fold(uint64_t u, uint64_t v, uint64_t mul)
{
    const uint64_t a = shift_mix((u ^ v) * mul);

    return shift_mix((v ^ a) * mul) * mul;
}

static uint64_t up_to_16(const char *s, size_t n)
{
    const uint64_t mul = k2 + n * 2;

    if (n >= 8) {
        const uint64_t a = get64(s) + k2, b = get64(s + n - 8);
        return fold(ror(b, 37) * mul + a, (ror(a, 25) + b) * mul, mul);
    }
    if (n >= 4)
        return fold(n + (get32(s) << 3), get32(s + n - 4), mul);
    if (n > 0) {
        const uint64_t a = (unsigned char)s[0], b = (unsigned char)s[n >> 1];
        const uint64_t c = (unsigned char)s[n - 1];
        return shift_mix((a + (b << 8)) * k2 ^ (n + (c << 2)) * k0) * k2;
    }
    return k2;
}

static uint64_t up_to_32(const char *s, size_t n)
{
    const uint64_t mul = k2 + n * 2, a = get64(s) * k1, b = get64(s + 8);
    const uint64_t c = get64(s + n - 8) * mul, d = get64(s + n - 16) * k2;

    return fold(ror(a + b, 43) + ror(c, 30) + d, a + ror(b + k2, 18) + c, mul);
}

static uint64_t up_to_64(const char *s, size_t n)
{
    const uint64_t mul = k2 + n * 2, a = get64(s) * k2, b = get64(s + 8);
    const uint64_t c = get64(s + n - 8) * mul, d = get64(s + n - 16) * k2;
    const uint64_t y = ror(a + b, 43) + ror(c, 30) + d;
    const uint64_t z = fold(y, a + ror(b + k2, 18) + c, mul);
    const uint64_t e = get64(s + 16) * mul, f = get64(s + 24);
    const uint64_t g = (y + get64(s + n - 32)) * mul, h = (z + get64(s + n - 24)) * mul;

    return fold(ror(e + f, 43) + ror(g, 30) + h, e + ror(f + a, 18) + g, mul);
}

struct two {
    uint64_t a, b;
};

static struct two weak(const char *s, uint64_t a, uint64_t b)
{
    const uint64_t z = get64(s + 24), c = a + get64(s);

    b = ror(b + c + z, 21);
    a = c + get64(s + 8) + get64(s + 16);
    b += ror(a, 44);
    return (struct two){a + z, b + c};
}

static void swap(uint64_t *x, uint64_t *y)
{
    const uint64_t t = *x;

    *x = *y;
    *y = t;
}

uint64_t kn_fingerprint64(const char *s, size_t n, struct kn_reader *t)
{
    if (n <= 16)
        return up_to_16(s, n);
    if (n <= 32)
        return up_to_32(s, n);
    if (n <= 64)
        return up_to_64(s, n);

    const char *end = s + (n - 1) / 64 * 64, *last = end + ((n - 1) & 63) - 63;
    const char *stop = s + KN_TEXT_CHUNK; /* address at which the deadline is checked next */
    uint64_t x = 81, y = 81 * k1 + 113, z = shift_mix(y * k2 + 113) * k2;
    struct two v = {0, 0}, w = {0, 0};
    x = x * k2 + get64(s);
    do {
        x = ror(x + y + v.a + get64(s + 8), 37) * k1;
        y = ror(y + v.b + get64(s + 48), 42) * k1;
        x ^= w.b;
        y += v.a + get64(s + 40);
        z = ror(z + w.a, 33) * k1;
        v = weak(s, v.b * k1, x + w.a);
        w = weak(s + 32, z + w.b, y + get64(s + 16));
        swap(&z, &x);
        s += 64;
        if (s == stop) {
            stop += kn_text_chunk((size_t)(end - s));
            if (!kn_read_on(t, KN_TEXT_CHUNK))
                return 0;
        }
    } while (s != end);
    const uint64_t mul = k1 + ((z & 0xff) << 1);
    s = last;
    w.a += (n - 1) & 63;
    v.a += w.a;
    w.a += v.a;
    x = ror(x + y + v.a + get64(s + 8), 37) * mul;
    y = ror(y + v.b + get64(s + 48), 42) * mul;
    x ^= w.b * 9;
    y += v.a * 9 + get64(s + 40);
    z = ror(z + w.a, 33) * mul;
    v = weak(s, v.b * mul, x + w.a);
    w = weak(s + 32, z + w.b, y + get64(s + 16));
    swap(&z, &x);
    return fold(fold(v.a, w.a, mul) + shift_mix(y) * k0 + z, fold(v.b, w.b, mul) + x, mul);
}

/* ---- MurmurHash64A ---- */

uint64_t kn_murmur64(const char *p, size_t n, uint64_t seed, struct kn_reader *t)
{
    const uint64_t m = UINT64_C(0xc6a4a7935bd1e995);
    uint64_t h = seed ^ n * m;

    for (; n >= 8; n -= 8, p += 8) {
        uint64_t k = get64(p) * m;
        k ^= k >> 47;
        h = (h ^ k * m) * m;
        if (n % KN_TEXT_CHUNK < 8 && n > KN_TEXT_CHUNK && !kn_read_on(t, KN_TEXT_CHUNK))
            return 0;
    }
    if (n) {
        uint64_t tail = 0;
        for (size_t i = n; i-- > 0;)
            tail = tail << 8 | (unsigned char)p[i];
        h = (h ^ tail) * m;
    }
    h = (h ^ h >> 47) * m;
    return h ^ h >> 47;
}

/* ---- SipHash-2-4 ---- */

static void sip_rounds(uint64_t v[4], int n)
{
    while (n-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rol(v[1], 13) ^ v[0];
        v[3] = rol(v[3], 16) ^ v[2];
        v[0] = rol(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rol(v[1], 17) ^ v[2];
        v[3] = rol(v[3], 21) ^ v[0];
        v[2] = rol(v[2], 32);
    }
}

uint64_t kn_sip_hash(const uint64_t key[2], const char *p, size_t n, struct kn_reader *t)
{
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t last = (uint64_t)n << 56;

    for (; n >= 8; n -= 8, p += 8) {
        const uint64_t m = get64(p);
        v[3] ^= m;
        sip_rounds(v, 2);
        v[0] ^= m;
        if (n % KN_TEXT_CHUNK < 8 && n > KN_TEXT_CHUNK && !kn_read_on(t, KN_TEXT_CHUNK))
            return 0;
    }
    for (size_t i = 0; i < n; i++)
        last |= (uint64_t)(unsigned char)p[i] << (8 * i);
    v[3] ^= last;
    sip_rounds(v, 2);
    v[0] ^= last;
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
