/*
 * Ops that fill a tensor with uniformly or normally distributed numbers. Each distribution has up
 * to four ops, which differ in the source of the generator (source.h). If both seed attributes of a
 * node are 0, its generator is seeded randomly.
 */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/random/source.h"

enum distribution { UNIFORM, NORMAL, TRUNCATED, FULL_INT, UNIFORM_INT };

struct draw {
    struct kn_philox philox;
    enum distribution distribution;
    enum rt_dtype dtype;
    /* UNIFORM_INT: the smallest integer, and the number of integers in the range */
    uint64_t lo, range;
};

enum { GROUP = 4 }; /* maximum number of values that are made together */

static int group_size(enum rt_dtype dtype)
{
    return rt_dtype_size(dtype) == 8 ? 2 : GROUP;
}

/* ---- groups of values; n is the size of a group ---- */

static void put_floats(enum rt_dtype dtype, void *out, const float *v)
{
    for (int k = 0; k < GROUP; k++)
        if (dtype == RT_F32)
            ((float *)out)[k] = v[k];
        else if (dtype == RT_F16)
            ((struct kn_half *)out)[k] = kn_to_f16(v[k]);
        else
            ((struct kn_bfloat *)out)[k] = kn_to_bf16(v[k]);
}

static void uniform_group(struct draw *d, void *out)
{
    uint32_t x[4];

    kn_philox_draw(&d->philox, x);
    for (int k = 0; k < group_size(d->dtype); k++)
        if (d->dtype == RT_F64) {
            ((double *)out)[k] = kn_unit_double(x[2 * k], x[2 * k + 1]);
        } else if (d->dtype == RT_F32) {
            ((float *)out)[k] = kn_unit_float(x[k]);
        } else if (d->dtype == RT_F16) {
            struct kn_half one = {(uint16_t)(15u << 10 | (x[k] & 0x3ffu))};
            ((struct kn_half *)out)[k] = kn_to_f16(kn_from_f16(one) - 1.0f);
        } else {
            struct kn_bfloat one = {(uint16_t)(127u << 7 | (x[k] & 0x7fu))};
            ((struct kn_bfloat *)out)[k] = kn_to_bf16(kn_from_bf16(one) - 1.0f);
        }
}

static void normal_group(struct draw *d, void *out)
{
    uint32_t x[4];
    float v[GROUP];

    kn_philox_draw(&d->philox, x);
    if (d->dtype == RT_F64) {
        kn_normal_doubles(x, out);
        return;
    }
    kn_normal_floats(x[0], x[1], v);
    kn_normal_floats(x[2], x[3], v + 2);
    put_floats(d->dtype, out, v);
}

/* Draws normally distributed numbers until all values of the group are between -2 and 2. Each group
 * has its own part of the generator's numbers. */
static void truncated_group(struct draw *d, void *out)
{
    struct kn_singles s = {.philox = d->philox};
    const int n = group_size(d->dtype);
    double v[GROUP], pair[2];
    float floats[GROUP], two[2];

    for (int have = 0; have < n;) {
        if (d->dtype == RT_F64) {
            uint32_t x[4];
            for (int k = 0; k < 4; k++)
                x[k] = kn_next_bits(&s);
            kn_normal_doubles(x, pair);
        } else {
            const uint32_t x0 = kn_next_bits(&s);
            kn_normal_floats(x0, kn_next_bits(&s), two);
            pair[0] = (double)two[0];
            pair[1] = (double)two[1];
        }
        for (int k = 0; k < 2 && have < n; k++)
            if (fabs(pair[k]) < 2)
                v[have++] = pair[k];
    }
    kn_philox_skip(&d->philox, (uint64_t)n * KN_RESERVED / 4);
    if (d->dtype == RT_F64) {
        memcpy(out, v, 2 * sizeof *v);
        return;
    }
    for (int k = 0; k < n; k++)
        floats[k] = (float)v[k];
    put_floats(d->dtype, out, floats);
}

static void int_group(struct draw *d, void *out)
{
    uint32_t x[4];

    kn_philox_draw(&d->philox, x);
    for (int k = 0; k < group_size(d->dtype); k++)
        if (rt_dtype_size(d->dtype) == 8) {
            const uint64_t v = (uint64_t)x[2 * k + 1] << 32 | x[2 * k];
            ((uint64_t *)out)[k] = d->range ? d->lo + v % d->range : v;
        } else {
            ((uint32_t *)out)[k] = d->range ? (uint32_t)d->lo + x[k] % (uint32_t)d->range : x[k];
        }
}

static void draw_group(struct draw *d, void *out)
{
    if (d->distribution == UNIFORM)
        uniform_group(d, out);
    else if (d->distribution == NORMAL)
        normal_group(d, out);
    else if (d->distribution == TRUNCATED)
        truncated_group(d, out);
    else
        int_group(d, out);
}

/* ---- a tensor ---- */

static enum rt_status fill(struct rt_run *r, struct draw *d, char *out, int64_t n)
{
    enum { COST = 64 }; /* work per group */
    const size_t size = rt_dtype_size(d->dtype);
    const int group = group_size(d->dtype);
    uint64_t last[GROUP];
    int64_t left = RT_WORK, i = 0;

    for (; n - i >= group; i += group) {
        draw_group(d, out + (size_t)i * size);
        if (rt_run_spend(r, &left, COST))
            return r->err->code;
    }
    if (i < n) {
        draw_group(d, last);
        memcpy(out + (size_t)i * size, last, (size_t)(n - i) * size);
    }
    return RT_OK;
}

static const char *const bound_names[2] = {"minval", "maxval"};

/* Reads the bounds of UNIFORM_INT, which are the last two inputs. */
static enum rt_status read_bounds(struct rt_run *r, struct draw *d, bool is_empty)
{
    const struct rt_tensor *bound = &r->in[r->n_in - 2];

    for (int k = 0; k < 2; k++)
        if (bound[k].rank != 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must be 0-D, got shape %s",
                           bound_names[k], KN_TEXT(&bound[k]));
    const int64_t lo = kn_int_at(&bound[0], 0), hi = kn_int_at(&bound[1], 0);
    if (!is_empty && lo >= hi)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Need minval < maxval, got %lld >= %lld",
                       (long long)lo, (long long)hi);
    d->lo = (uint64_t)lo;
    d->range = (uint64_t)hi - (uint64_t)lo;
    return RT_OK;
}

static enum rt_status run(struct rt_run *r, enum kn_source source, enum distribution distribution)
{
    struct rt_shape shape;
    enum rt_status st = kn_source_check(r, source);

    if (!st)
        st = kn_read_shape(&r->in[kn_shape_input(source)], &shape, r->err);
    if (st)
        return st;
    void *out = kn_out(r, 0, shape.rank, shape.dim);
    if (!out)
        return r->err->code;
    const int64_t n = rt_tensor_count(&r->out[0]);
    struct draw d = {.distribution = distribution, .dtype = kn_dtype(&r->out[0])};
    if (distribution == UNIFORM_INT)
        st = read_bounds(r, &d, n == 0 && source != KN_FROM_VARIABLE);
    if (!st && (n > 0 || source == KN_FROM_VARIABLE))
        st = kn_source_take(r, source, (uint64_t)n * KN_RESERVED, &d.philox);
    return st ? st : fill(r, &d, out, n);
}

static enum rt_status infer_first(struct rt_infer *x)
{
    return kn_random_infer(x, 0);
}

static enum rt_status infer_third(struct rt_infer *x)
{
    return kn_random_infer(x, 2);
}

/* ---- entries ---- */

#define FLOATS   (RT_T(RT_F32) | RT_T(RT_F64) | RT_T(RT_F16) | RT_T(RT_BF16))
#define SIGNED   (RT_T(RT_I32) | RT_T(RT_I64))
#define ALL_INTS (SIGNED | RT_T(RT_U32) | RT_T(RT_U64))
#define RANDOM(symbol, op_, attr_, types_, source_, distribution_, effect_, shape_in_, infer_)     \
    static enum rt_status symbol##_run(struct rt_run *r)                                           \
    {                                                                                              \
        return run(r, source_, distribution_);                                                     \
    }                                                                                              \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = (effect_), .shape_in = (shape_in_), .infer = (infer_)},    \
        .kernels = KN_KERNELS({.op = (op_),                                                        \
                               .device = "CPU",                                                    \
                               .name = #symbol,                                                    \
                               .type_attr = (attr_),                                               \
                               .types = (types_),                                                  \
                               .run = symbol##_run}),                                              \
    };
#define OF_NODE(symbol, op_, attr_, types_, distribution_)                                         \
    RANDOM(symbol, op_, attr_, types_, KN_FROM_NODE, distribution_, RT_RANDOM, 1, infer_first)
#define OF_SEED(symbol, op_, types_, distribution_)                                                \
    RANDOM(symbol, op_, "dtype", types_, KN_FROM_SEED, distribution_, RT_PURE, 1, infer_first)
#define OF_KEY(symbol, op_, types_, distribution_)                                                 \
    RANDOM(symbol, op_, "dtype", types_, KN_FROM_KEY, distribution_, RT_PURE, 1, infer_first)
#define OF_VARIABLE(symbol, op_, types_, distribution_)                                            \
    RANDOM(symbol, op_, "dtype", types_, KN_FROM_VARIABLE, distribution_, RT_WRITES, 4, infer_third)

OF_NODE(random_uniform, "RandomUniform", "dtype", FLOATS, UNIFORM)
OF_NODE(random_standard_normal, "RandomStandardNormal", "dtype", FLOATS, NORMAL)
OF_NODE(truncated_normal, "TruncatedNormal", "dtype", FLOATS, TRUNCATED)
OF_NODE(random_uniform_int, "RandomUniformInt", "Tout", SIGNED, UNIFORM_INT)

OF_SEED(stateless_random_uniform, "StatelessRandomUniform", FLOATS, UNIFORM)
OF_SEED(stateless_random_normal, "StatelessRandomNormal", FLOATS, NORMAL)
OF_SEED(stateless_truncated_normal, "StatelessTruncatedNormal", FLOATS, TRUNCATED)
OF_SEED(stateless_random_uniform_int, "StatelessRandomUniformInt", SIGNED, UNIFORM_INT)
OF_SEED(stateless_random_uniform_full_int, "StatelessRandomUniformFullInt", ALL_INTS, FULL_INT)

OF_KEY(stateless_random_uniform_v2, "StatelessRandomUniformV2", FLOATS, UNIFORM)
OF_KEY(stateless_random_normal_v2, "StatelessRandomNormalV2", FLOATS, NORMAL)
OF_KEY(stateless_truncated_normal_v2, "StatelessTruncatedNormalV2", FLOATS, TRUNCATED)
OF_KEY(stateless_random_uniform_int_v2, "StatelessRandomUniformIntV2", SIGNED, UNIFORM_INT)
OF_KEY(stateless_random_uniform_full_int_v2, "StatelessRandomUniformFullIntV2", ALL_INTS, FULL_INT)

OF_VARIABLE(stateful_uniform, "StatefulUniform", FLOATS, UNIFORM)
OF_VARIABLE(stateful_standard_normal_v2, "StatefulStandardNormalV2", FLOATS, NORMAL)
OF_VARIABLE(stateful_truncated_normal, "StatefulTruncatedNormal", FLOATS, TRUNCATED)
OF_VARIABLE(stateful_uniform_int, "StatefulUniformInt", SIGNED, UNIFORM_INT)
OF_VARIABLE(stateful_uniform_full_int, "StatefulUniformFullInt", ALL_INTS, FULL_INT)

/* ---- NonDeterministicInts ---- */

static enum rt_status non_deterministic_run(struct rt_run *r)
{
    struct rt_shape shape;
    const enum rt_status st = kn_read_shape(&r->in[0], &shape, r->err);
    void *out = st ? NULL : kn_out(r, 0, shape.rank, shape.dim);
    const uint64_t seed[2] = {rt_run_entropy(r), rt_run_entropy(r)};
    struct draw d = {.distribution = FULL_INT};

    if (!out)
        return r->err->code;
    d.dtype = kn_dtype(&r->out[0]);
    memcpy(d.philox.key, &seed[0], sizeof seed[0]);
    memcpy(d.philox.counter + 2, &seed[1], sizeof seed[1]);
    return fill(r, &d, out, rt_tensor_count(&r->out[0]));
}

const struct kn_entry kn_non_deterministic_ints = {
    .op = {.name = "NonDeterministicInts",
           .effect = RT_RANDOM,
           .shape_in = 1,
           .infer = infer_first},
    .kernels = KN_KERNELS({.op = "NonDeterministicInts",
                           .device = "CPU",
                           .name = "non_deterministic_ints",
                           .type_attr = "dtype",
                           .types = ALL_INTS,
                           .run = non_deterministic_run}),
};
