/*
 * RandomIndexShuffle maps indices by a random permutation of 0, ..., max_index, without storing the
 * permutation. A block cipher permutes the numbers of an even number of bits, and is applied until
 * the result is at most max_index (Black, Rogaway: "Ciphers with arbitrary finite domains", 2002).
 * The cipher is Simon with a key of three words (Beaulieu et al.: "The Simon and Speck families of
 * lightweight block ciphers", 2013), for words of any length.
 */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"

#include <math.h>

enum {
    KEY_WORDS = 3,
    MIN_ROUNDS = 4,
    MAX_ROUNDS = 1 << 10,
    MIN_BITS = 16, /* the least number of bits of a block */
};

struct cipher {
    int bits; /* number of bits of a word, which is half a block */
    int64_t rounds;
    uint64_t mask;
    uint64_t key[MAX_ROUNDS];
};

static uint64_t rotate(const struct cipher *c, uint64_t x, int left)
{
    return ((x << left) | (x >> (c->bits - left))) & c->mask;
}

/* Returns the least even number of bits, at least MIN_BITS, in which all numbers below `max` can be
 * written. As in TensorFlow, `max` is rounded to a double first. */
static int block_bits(uint64_t max)
{
    int bits = max ? (int)ceil(log2((double)max)) : 0;

    bits += bits % 2;
    return bits < MIN_BITS ? MIN_BITS : bits;
}

static void begin(struct cipher *c, uint64_t max, const uint32_t key[KEY_WORDS], int64_t rounds)
{
    /* The sequence z2 of the paper. As in TensorFlow, it ends after as many bits as a word has. */
    static const char sequence[] = "10101111011100000011010010011000";

    c->bits = block_bits(max) / 2;
    c->rounds = rounds;
    c->mask = (UINT64_C(1) << c->bits) - 1;
    for (int64_t i = 0; i < rounds; i++) {
        if (i < KEY_WORDS) {
            c->key[i] = key[i] & c->mask;
            continue;
        }
        uint64_t x = rotate(c, c->key[i - 1], c->bits - 3);
        x ^= rotate(c, x, c->bits - 1);
        const uint64_t bit = i - KEY_WORDS < c->bits && sequence[i - KEY_WORDS] == '1';
        c->key[i] = (~c->key[i - KEY_WORDS] ^ x ^ bit ^ 3) & c->mask;
    }
}

static uint64_t encrypt(const struct cipher *c, uint64_t v)
{
    uint64_t x = v & c->mask, y = v >> c->bits & c->mask;

    for (int64_t i = 0; i < c->rounds; i++) {
        const uint64_t mixed = (rotate(c, x, 1) & rotate(c, x, 8 % c->bits)) ^ rotate(c, x, 2);
        const uint64_t next = y ^ mixed ^ c->key[i];
        y = x;
        x = next;
    }
    return y << c->bits | x;
}

/* ---- inputs ---- */

static uint64_t number_at(const struct rt_tensor *t, int64_t i)
{
    return t->dtype == RT_U64 ? ((const uint64_t *)t->data)[i] : (uint64_t)kn_int_at(t, i);
}

/* Returns whether number i of a tensor is negative. */
static bool is_negative(const struct rt_tensor *t, int64_t i)
{
    return (t->dtype == RT_I32 || t->dtype == RT_I64) && kn_int_at(t, i) < 0;
}

/* Checks the shapes of the inputs, and sets *n to the number of results. Each input holds one value
 * for all results or one for each. */
static enum rt_status check_shapes(struct rt_run *r, int64_t *n)
{
    const struct rt_tensor *index = &r->in[0], *seed = &r->in[1], *max = &r->in[2];
    const int64_t counts[] = {index->rank == 1 ? index->dim[0] : 1,
                              seed->rank == 2 ? seed->dim[0] : 1, max->rank == 1 ? max->dim[0] : 1};

    *n = 1;
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        *n = counts[k] > *n ? counts[k] : *n;
    if (index->rank > 1 || (index->rank == 1 && index->dim[0] != *n))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Index bust be a scalar or vector.");
    if (!(seed->rank == 1 && seed->dim[0] == KEY_WORDS) &&
        !(seed->rank == 2 && seed->dim[0] == *n && seed->dim[1] == KEY_WORDS))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Seed must be a vector of size [3] or a matrix of size [%lld, 3] but got "
                       "%s.",
                       (long long)*n, KN_TEXT(seed));
    if (max->rank > 1 || (max->rank == 1 && max->dim[0] != *n))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Maxval must be a scalar or a vector of the same size as index but got %s",
                       KN_TEXT(max));
    return RT_OK;
}

static enum rt_status check_numbers(struct rt_run *r, int64_t i, int64_t m)
{
    const struct rt_tensor *index = &r->in[0], *max = &r->in[2];

    if (is_negative(index, i))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "index must be >= 0 but was %lld",
                       (long long)kn_int_at(index, i));
    if (is_negative(max, m))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "max_index must be >= 0 but was %lld",
                       (long long)kn_int_at(max, m));
    if (number_at(max, m) < number_at(index, i))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "max_index must be >= index, but %llu < %llu",
                       (unsigned long long)number_at(max, m),
                       (unsigned long long)number_at(index, i));
    return RT_OK;
}

static void put(const struct rt_tensor *t, int64_t i, uint64_t v)
{
    switch (rt_dtype_size(kn_dtype(t))) {
    case sizeof(uint32_t):
        ((uint32_t *)t->data)[i] = (uint32_t)v;
        break;
    default:
        ((uint64_t *)t->data)[i] = v;
    }
}

/* ---- RandomIndexShuffle(index, seed, max_index) ---- */

static enum rt_status shuffle_one(struct rt_run *r, struct cipher *c, int64_t rounds, int64_t i)
{
    const struct rt_tensor *index = &r->in[0], *seed = &r->in[1], *max = &r->in[2];
    const int64_t at = index->rank ? i : 0, m = max->rank ? i : 0;
    const int64_t row = seed->rank == 2 ? i * KEY_WORDS : 0;
    uint32_t key[KEY_WORDS];

    if (check_numbers(r, at, m))
        return r->err->code;
    for (int k = 0; k < KEY_WORDS; k++)
        key[k] = (uint32_t)number_at(seed, row + k);
    if (i == 0 || seed->rank == 2 || max->rank)
        begin(c, number_at(max, m), key, rounds);
    uint64_t v = number_at(index, at);
    do {
        v = encrypt(c, v);
        if (rt_run_spend(r, &r->left, 8 * rounds))
            return r->err->code;
    } while (v > number_at(max, m));
    put(&r->out[0], i, v);
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    const int64_t rounds = rt_attr_int(r->node, "rounds");
    int64_t n;
    enum rt_status st = check_shapes(r, &n);

    if (st)
        return st;
    /* TensorFlow does not end, or ends the process, for other numbers of rounds. */
    if (rounds < MIN_ROUNDS || rounds > MAX_ROUNDS || rounds % 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "rounds must be an even number from %d to %d but was %lld", MIN_ROUNDS,
                       MAX_ROUNDS, (long long)rounds);
    const int rank = r->in[0].rank || r->in[1].rank == 2 || r->in[2].rank;
    struct cipher *c = rt_scratch(r, sizeof *c);
    if (!kn_out(r, 0, rank, &n) || !c)
        return r->err->code;
    for (int64_t i = 0; i < n && !st; i++)
        st = shuffle_one(r, c, rounds, i);
    return st;
}

#define TYPES (RT_T(RT_I32) | RT_T(RT_U32) | RT_T(RT_I64) | RT_T(RT_U64))

const struct kn_entry kn_random_index_shuffle = {
    .op = {.name = "RandomIndexShuffle"},
    .kernels = KN_KERNELS({.op = "RandomIndexShuffle",
                           .device = "CPU",
                           .name = "random_index_shuffle",
                           .type_attr = "dtype",
                           .types = TYPES,
                           .run = run}),
};
