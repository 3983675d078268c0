/*
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011),
 * the generator of TensorFlow's random ops. Numbers are drawn in TensorFlow's order, so that equal
 * seeds yield equal numbers.
 *
 * Threads: a generator is used by one thread at a time.
 */
#ifndef KN_RANDOM_PHILOX_H
#define KN_RANDOM_PHILOX_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/half.h"

struct kn_philox {
    uint32_t counter[4], key[2];
};

/* Number of counter values that TensorFlow reserves per output element. */
enum { KN_RESERVED = 256 };

/* Adds n to the counter, which skips 4 * n numbers. As in TensorFlow, a carry into the upper half
 * of the counter is lost if that half is 0xffffffff. */
static inline void kn_philox_skip(struct kn_philox *p, uint64_t n)
{
    const uint32_t low = (uint32_t)n;
    uint32_t high = (uint32_t)(n >> 32);

    p->counter[0] += low;
    high += p->counter[0] < low;
    p->counter[1] += high;
    if (p->counter[1] < high && ++p->counter[2] == 0)
        p->counter[3]++;
}

static inline void kn_philox_draw(struct kn_philox *p, uint32_t out[4])
{
    uint32_t k0 = p->key[0], k1 = p->key[1];
    memcpy(out, p->counter, sizeof p->counter);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * out[0], b = (uint64_t)0xCD9E8D57u * out[2];
        uint32_t x0 = (uint32_t)(b >> 32) ^ out[1] ^ k0, x2 = (uint32_t)(a >> 32) ^ out[3] ^ k1;
        out[1] = (uint32_t)b;
        out[3] = (uint32_t)a;
        out[0] = x0;
        out[2] = x2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    kn_philox_skip(p, 1);
}

/* A generator that yields one number at a time. If all other members are zero, the next number is
 * the first one of `philox`. */
struct kn_singles {
    struct kn_philox philox;
    uint32_t x[4];
    int n_left;
};
static inline uint32_t kn_next_bits(struct kn_singles *s)
{
    if (s->n_left == 0) {
        kn_philox_draw(&s->philox, s->x);
        s->n_left = 4;
    }
    return s->x[4 - s->n_left--];
}

/* Return a random number below n, which is not 0. They reject the same numbers as TensorFlow. */
static inline uint32_t kn_below_32(struct kn_singles *s, uint32_t n)
{
    const uint32_t rest = UINT32_MAX % n + 1;
    uint32_t x;

    do
        x = kn_next_bits(s);
    while ((n & (n - 1)) != 0 && x < rest);
    return (n & (n - 1)) == 0 ? x & (n - 1) : x % n;
}
static inline uint64_t kn_below_64(struct kn_singles *s, uint64_t n)
{
    const uint64_t rest = UINT64_MAX % n + 1;
    uint64_t x;

    do {
        const uint64_t low = kn_next_bits(s);
        x = low | (uint64_t)kn_next_bits(s) << 32;
    } while ((n & (n - 1)) != 0 && x < rest);
    return (n & (n - 1)) == 0 ? x & (n - 1) : x % n;
}

/* The two functions return numbers in [0, 1), with 23 and 52 random bits. */
static inline float kn_unit_float(uint32_t x)
{
    return kn_bits_float((x & 0x7fffffu) | 0x3f800000u) - 1.0f;
}
static inline double kn_unit_double(uint32_t hi, uint32_t lo)
{
    uint64_t bits = UINT64_C(0x3ff) << 52 | (uint64_t)(hi & 0xfffffu) << 32 | lo;
    double d;
    memcpy(&d, &bits, sizeof d);
    return d - 1.0;
}
static inline double kn_single_double(struct kn_singles *s)
{
    const uint32_t hi = kn_next_bits(s);
    return kn_unit_double(hi, kn_next_bits(s));
}

/* These functions convert two uniformly distributed numbers to two normally distributed numbers, by
 * the Box-Muller transform. */
static inline void kn_normal_floats(uint32_t x0, uint32_t x1, float out[2])
{
    const float u = kn_unit_float(x0), v = (float)(2 * M_PI * (double)kn_unit_float(x1));
    const float s = sqrtf(-2.0f * logf(u < 1e-7f ? 1e-7f : u));
    out[0] = sinf(v) * s;
    out[1] = cosf(v) * s;
}
static inline void kn_normal_doubles(const uint32_t x[4], double out[2])
{
    const double u = kn_unit_double(x[0], x[1]), v = 2 * M_PI * kn_unit_double(x[2], x[3]);
    const double s = sqrt(-2.0 * log(u < 1e-7 ? 1e-7 : u));
    out[0] = sin(v) * s;
    out[1] = cos(v) * s;
}

/* Draws pairs of doubles and returns the second of a pair first, as TensorFlow's samplers of gamma,
 * Poisson and binomial distributions do. */
struct kn_doubles {
    double x[2];
    int n_left;
};
static inline double kn_next_uniform(struct kn_doubles *d, struct kn_philox *p)
{
    if (d->n_left == 0) {
        uint32_t x[4];
        kn_philox_draw(p, x);
        d->x[0] = kn_unit_double(x[0], x[1]);
        d->x[1] = kn_unit_double(x[2], x[3]);
        d->n_left = 2;
    }
    return d->x[--d->n_left];
}
static inline double kn_next_normal(struct kn_doubles *d, struct kn_philox *p)
{
    if (d->n_left == 0) {
        uint32_t x[4];
        kn_philox_draw(p, x);
        kn_normal_doubles(x, d->x);
        d->n_left = 2;
    }
    return d->x[--d->n_left];
}

#endif
