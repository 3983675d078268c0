/*
 * Ops that generate random tensors by Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
 * numbers: as easy as 1, 2, 3", 2011). Numbers are drawn in TensorFlow's order, so that given seeds
 * yield TensorFlow's numbers. A node's generator lives as long as the session. If both seeds are 0,
 * the generator is seeded randomly.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/base/thread.h"

struct philox {
    uint32_t counter[4], key[2];
};

struct generator { /* the random number generator of a node */
    struct rt_mutex mu;
    struct philox next; /* state from which the next numbers are drawn; guarded by mu */
};

enum { RESERVE = 256 }; /* number of counter values that TensorFlow reserves per output element */

static void skip(struct philox *p, uint64_t n)
{
    for (int i = 0; i < 4 && n; i++) {
        uint64_t sum = (uint64_t)p->counter[i] + (uint32_t)n;
        p->counter[i] = (uint32_t)sum;
        n = (n >> 32) + (sum >> 32);
    }
}

static void draw(struct philox *p, uint32_t out[4])
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
    skip(p, 1);
}

static void init(void *state, const struct rt_node *n, uint64_t entropy)
{
    struct generator *g = state;
    uint64_t lo = (uint64_t)rt_attr_int(n, "seed"), hi = (uint64_t)rt_attr_int(n, "seed2");
    if (!lo && !hi) {
        lo = entropy;
        hi = entropy * UINT64_C(0x9e3779b97f4a7c15) + 1;
    }
    rt_mutex_init(&g->mu);
    g->next.key[0] = (uint32_t)lo;
    g->next.key[1] = (uint32_t)(lo >> 32);
    g->next.counter[2] = (uint32_t)hi;
    g->next.counter[3] = (uint32_t)(hi >> 32);
}

/* Sets *out to the generator from which this run draws n numbers. The node's generator skips the
 * numbers that are reserved for this run. */
static enum rt_status reserve(struct rt_run *r, int64_t n, struct philox *out)
{
    struct generator *g = rt_run_node_state(r, sizeof *g, init);
    if (!g)
        return r->err->code;
    rt_mutex_lock(&g->mu);
    *out = g->next;
    skip(&g->next, (uint64_t)n * RESERVE);
    rt_mutex_unlock(&g->mu);
    return RT_OK;
}

/* Returns true for one of every 2^18 numbers. The caller then calls rt_run_check before it draws
 * number i. */
static bool should_ask(int64_t i)
{
    return (i & 0x3ffff) == 0x3ffff;
}

/* ---- shape ---- */

static enum rt_status infer_shape(struct rt_infer *x)
{
    const struct rt_tensor *t = x->in[0].value;
    struct rt_shape *o = &x->out[0].shape;
    if (!t)
        return RT_OK;
    if (t->rank != 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "shape must be a vector of integers");
    if (t->dim[0] > RT_MAX_RANK)
        return rt_fail(x->err, RT_UNIMPLEMENTED, "rank %lld is above %d", (long long)t->dim[0],
                       RT_MAX_RANK);
    o->rank = (int)t->dim[0];
    for (int d = 0; d < o->rank; d++) {
        o->dim[d] =
            t->dtype == RT_I64 ? ((const int64_t *)t->data)[d] : ((const int32_t *)t->data)[d];
        if (o->dim[d] < 0) {
            int64_t bad = o->dim[d];
            o->rank = -1;
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                           (long long)bad);
        }
    }
    return RT_OK;
}

/* ---- uniform ---- */

static float unit_float(uint32_t x)
{
    return kn_bits_float((x & 0x7fffffu) | 0x3f800000u) - 1.0f;
}

static double unit_double(uint32_t hi, uint32_t lo)
{
    uint64_t bits = UINT64_C(0x3ff) << 52 | (uint64_t)(hi & 0xfffffu) << 32 | lo;
    double d;
    memcpy(&d, &bits, sizeof d);
    return d - 1.0;
}

static enum rt_status run_uniform(struct rt_run *r)
{
    int64_t n = rt_tensor_count(&r->out[0]);
    struct philox p = {{0}, {0}};
    uint32_t x[4];
    void *out = r->out[0].data;
    enum rt_status st = reserve(r, n, &p);
    if (st)
        return st;
    if (r->out[0].dtype == RT_F64) {
        for (int64_t i = 0; i < n; i++) {
            if (i % 2 == 0)
                draw(&p, x);
            ((double *)out)[i] = unit_double(x[i % 2 * 2], x[i % 2 * 2 + 1]);
            if (should_ask(i) && rt_run_check(r))
                return r->err->code;
        }
        return RT_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            draw(&p, x);
        if (r->out[0].dtype == RT_F32)
            ((float *)out)[i] = unit_float(x[i % 4]);
        else if (r->out[0].dtype == RT_F16) {
            struct kn_half one = {(uint16_t)(15u << 10 | (x[i % 4] & 0x3ffu))};
            ((struct kn_half *)out)[i] = kn_to_f16(kn_from_f16(one) - 1.0f);
        } else {
            struct kn_bfloat one = {(uint16_t)(127u << 7 | (x[i % 4] & 0x7fu))};
            ((struct kn_bfloat *)out)[i] = kn_to_bf16(kn_from_bf16(one) - 1.0f);
        }
        if (should_ask(i) && rt_run_check(r))
            return r->err->code;
    }
    return RT_OK;
}

const struct kn_entry kn_random_uniform = {
    .op = {.name = "RandomUniform", .effect = RT_RANDOM, .shape_in = 1, .infer = infer_shape},
    .kernels = KN_KERNELS({.op = "RandomUniform",
                           .device = "CPU",
                           .name = "random.uniform",
                           .type_attr = "dtype",
                           .types = RT_T(RT_F32) | RT_T(RT_F64) | RT_T(RT_F16) | RT_T(RT_BF16),
                           .run = run_uniform}),
};

static enum rt_status run_uniform_int(struct rt_run *r)
{
    int64_t n = rt_tensor_count(&r->out[0]);
    bool wide = r->out[0].dtype == RT_I64;
    struct philox p = {{0}, {0}};
    uint32_t x[4];
    if (r->in[1].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "minval must be 0-D, got rank %d",
                       r->in[1].rank);
    if (r->in[2].rank != 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "maxval must be 0-D, got rank %d",
                       r->in[2].rank);
    int64_t lo = wide ? *(const int64_t *)r->in[1].data : *(const int32_t *)r->in[1].data;
    int64_t hi = wide ? *(const int64_t *)r->in[2].data : *(const int32_t *)r->in[2].data;
    if (n == 0)
        return RT_OK;
    if (lo >= hi)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Need minval < maxval, got %lld >= %lld",
                       (long long)lo, (long long)hi);
    enum rt_status st = reserve(r, n, &p);
    if (st)
        return st;
    uint64_t range = (uint64_t)hi - (uint64_t)lo;
    for (int64_t i = 0; i < n; i++) {
        if (wide) {
            if (i % 2 == 0)
                draw(&p, x);
            uint64_t v = (uint64_t)x[i % 2 * 2 + 1] << 32 | x[i % 2 * 2];
            ((int64_t *)r->out[0].data)[i] = (int64_t)((uint64_t)lo + v % range);
        } else {
            if (i % 4 == 0)
                draw(&p, x);
            ((int32_t *)r->out[0].data)[i] = (int32_t)((uint32_t)lo + x[i % 4] % (uint32_t)range);
        }
        if (should_ask(i) && rt_run_check(r))
            return r->err->code;
    }
    return RT_OK;
}

const struct kn_entry kn_random_uniform_int = {
    .op = {.name = "RandomUniformInt", .effect = RT_RANDOM, .shape_in = 1, .infer = infer_shape},
    .kernels = KN_KERNELS({.op = "RandomUniformInt",
                           .device = "CPU",
                           .name = "random.uniform_int",
                           .type_attr = "Tout",
                           .types = RT_T(RT_I32) | RT_T(RT_I64),
                           .run = run_uniform_int}),
};

/* ---- normal distribution: Box-Muller transform ---- */

static enum rt_status run_normal(struct rt_run *r)
{
    int64_t n = rt_tensor_count(&r->out[0]);
    struct philox p = {{0}, {0}};
    uint32_t x[4];
    double pair[4];
    void *out = r->out[0].data;
    enum rt_dtype dtype = (enum rt_dtype)r->out[0].dtype;
    int group = dtype == RT_F64 ? 2 : 4;
    enum rt_status st = reserve(r, n, &p);
    if (st)
        return st;
    for (int64_t i = 0; i < n; i++) {
        int at = (int)(i % group);
        if (at == 0) {
            draw(&p, x);
            if (dtype == RT_F64) {
                double u = unit_double(x[0], x[1]), v = 2 * M_PI * unit_double(x[2], x[3]);
                double s = sqrt(-2.0 * log(u < 1e-7 ? 1e-7 : u));
                pair[0] = sin(v) * s;
                pair[1] = cos(v) * s;
            } else
                for (int k = 0; k < 4; k += 2) {
                    float u = unit_float(x[k]), v = 2.0f * (float)M_PI * unit_float(x[k + 1]);
                    float s = sqrtf(-2.0f * logf(u < 1e-7f ? 1e-7f : u));
                    pair[k] = (double)(sinf(v) * s);
                    pair[k + 1] = (double)(cosf(v) * s);
                }
        }
        if (dtype == RT_F64)
            ((double *)out)[i] = pair[at];
        else if (dtype == RT_F32)
            ((float *)out)[i] = (float)pair[at];
        else if (dtype == RT_F16)
            ((struct kn_half *)out)[i] = kn_to_f16((float)pair[at]);
        else
            ((struct kn_bfloat *)out)[i] = kn_to_bf16((float)pair[at]);
        if (should_ask(i) && rt_run_check(r))
            return r->err->code;
    }
    return RT_OK;
}

const struct kn_entry kn_random_standard_normal = {
    .op = {.name = "RandomStandardNormal",
           .effect = RT_RANDOM,
           .shape_in = 1,
           .infer = infer_shape},
    .kernels = KN_KERNELS({.op = "RandomStandardNormal",
                           .device = "CPU",
                           .name = "random.normal",
                           .type_attr = "dtype",
                           .types = RT_T(RT_F32) | RT_T(RT_F64) | RT_T(RT_F16) | RT_T(RT_BF16),
                           .run = run_normal}),
};
