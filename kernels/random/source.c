#include "kernels/random/source.h"

#include "kernels/array/array.h"
#include "runtime/base/thread.h"
#include "runtime/core/copy.h"
#include "runtime/session/resource.h"

/* ---- shape ---- */

enum rt_status kn_read_shape(const struct rt_tensor *t, struct rt_shape *out, struct rt_error *err)
{
    if (t->rank != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "shape must be a vector of {int32,int64}, got shape %s", KN_TEXT(t));
    if (kn_dtype(t) != RT_I32 && kn_dtype(t) != RT_I64)
        return rt_fail(err, RT_INVALID_ARGUMENT, "shape must be a vector of {int32,int64}.");
    if (t->dim[0] > RT_MAX_RANK)
        return rt_fail(err, RT_UNIMPLEMENTED, "rank %lld is above %d", (long long)t->dim[0],
                       RT_MAX_RANK);
    out->rank = (int)t->dim[0];
    for (int d = 0; d < out->rank; d++) {
        out->dim[d] = kn_int_at(t, d);
        if (out->dim[d] < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                           (long long)out->dim[d]);
    }
    return RT_OK;
}

enum rt_status kn_random_infer(struct rt_infer *x, int input)
{
    struct rt_shape shape;

    if (!x->in[input].value)
        return RT_OK;
    const enum rt_status st = kn_read_shape(x->in[input].value, &shape, x->err);
    if (!st)
        x->out[0].shape = shape;
    return st;
}

/* ---- seeds in attributes ---- */

struct generator { /* The random number generator of a node. */
    struct rt_mutex mu;
    struct kn_philox next; /* the generator of the next run; guarded by mu */
};

static void init(void *state, const struct rt_node *n, uint64_t entropy)
{
    struct generator *g = state;
    const bool has_seeds = rt_attr(n, "seed") != NULL;
    uint64_t lo = has_seeds ? (uint64_t)rt_attr_int(n, "seed") : 0;
    uint64_t hi = has_seeds ? (uint64_t)rt_attr_int(n, "seed2") : 0;
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

static enum rt_status take_from_node(struct rt_run *r, uint64_t n_skipped, struct kn_philox *out)
{
    struct generator *g = rt_run_node_state(r, sizeof *g, init);
    if (!g)
        return r->err->code;
    rt_mutex_lock(&g->mu);
    *out = g->next;
    kn_philox_skip(&g->next, n_skipped);
    rt_mutex_unlock(&g->mu);
    return RT_OK;
}

/* ---- seeds in an input ---- */

struct kn_philox kn_seeded_philox(const struct rt_tensor *seed)
{
    /* As in TensorFlow, a generator with this fixed key mixes the two seeds, so that each bit of
     * both seeds affects the key and the counter. */
    const uint64_t s0 = (uint64_t)kn_int_at(seed, 0), s1 = (uint64_t)kn_int_at(seed, 1);
    struct kn_philox mixer = {
        .counter = {(uint32_t)s0, (uint32_t)(s0 >> 32), (uint32_t)s1, (uint32_t)(s1 >> 32)},
        .key = {0x3ec8f720, 0x02461e29}};
    uint32_t mix[4];

    kn_philox_draw(&mixer, mix);
    return (struct kn_philox){.counter = {0, 0, mix[2], mix[3]}, .key = {mix[0], mix[1]}};
}

static enum rt_status check_seed(struct rt_run *r)
{
    const struct rt_tensor *seed = &r->in[1];

    if (seed->rank != 1 || seed->dim[0] != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "seed must have shape [2], not %s",
                       KN_TEXT(seed));
    if (seed->dtype != RT_I32 && seed->dtype != RT_I64)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid seed type: %s",
                       rt_dtype_name((enum rt_dtype)seed->dtype));
    return RT_OK;
}

/* ---- a key and a counter in inputs ---- */

static struct kn_philox philox_of(const uint64_t counter[2], uint64_t key)
{
    return (struct kn_philox){.counter = {(uint32_t)counter[0], (uint32_t)(counter[0] >> 32),
                                          (uint32_t)counter[1], (uint32_t)(counter[1] >> 32)},
                              .key = {(uint32_t)key, (uint32_t)(key >> 32)}};
}

enum rt_status kn_check_algorithm(struct rt_run *r, int input, const char *unsupported)
{
    int64_t algorithm;

    if (!kn_scalar(&r->in[input], &algorithm))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "input %d (0-based) must have shape [], not %s",
                       input, KN_TEXT(&r->in[input]));
    if (algorithm == KN_ALG_PHILOX || algorithm == KN_ALG_AUTO)
        return RT_OK;
    if (algorithm == KN_ALG_THREEFRY && unsupported)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "%s", unsupported);
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "Unsupported algorithm id: %lld",
                   (long long)algorithm);
}

static enum rt_status check_key(struct rt_run *r)
{
    const struct rt_tensor *key = &r->in[1], *counter = &r->in[2];
    int64_t algorithm;

    if (!kn_scalar(&r->in[3], &algorithm))
        return kn_check_algorithm(r, 3, NULL);
    if (key->rank != 1 || key->dim[0] != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "key must have shape [1], not %s. (Note that batched keys are not supported "
                       "yet.)",
                       KN_TEXT(key));
    /* By mistake, TensorFlow compares the length with the number of the algorithm. It therefore
     * reads beyond the end of a counter with a single element. */
    const int64_t least = algorithm == KN_ALG_AUTO ? KN_ALG_PHILOX : algorithm;
    if (counter->rank != 1 || counter->dim[0] < least)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "counter must be a vector with length at least %lld; got shape: %s. (Note "
                       "that batched counters are not supported yet.)",
                       (long long)least, KN_TEXT(counter));
    if (counter->dim[0] < 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "counter must have 2 elements");
    return RT_OK;
}

static enum rt_status take_from_key(struct rt_run *r, struct kn_philox *out)
{
    const uint64_t *key = r->in[1].data;
    const enum rt_status st = kn_check_algorithm(r, 3, NULL);

    if (!st)
        *out = philox_of(r->in[2].data, *key);
    return st;
}

/* ---- a variable ---- */

struct advance {
    uint64_t n_skipped;
    int64_t *old;
};

/* The state of Philox in a variable: the low half of the counter, the high half, and the key. */
enum { STATE_SIZE = 3 };

static enum rt_status advance(void *arg, struct rt_tensor *value, struct rt_error *err)
{
    const struct advance *a = arg;
    int64_t *v = value->data;

    if (value->dtype != RT_I64)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "dtype of RNG state variable must be int64, not %s",
                       rt_dtype_name((enum rt_dtype)value->dtype));
    if (value->rank != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "RNG state must have one and only one dimension, not %d", value->rank);
    if (value->dim[0] < STATE_SIZE)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "For the Philox algorithm, the size of state must be at least %d; got %lld",
                       STATE_SIZE, (long long)value->dim[0]);
    memcpy(a->old, v, STATE_SIZE * sizeof *v);
    struct kn_philox p = philox_of((const uint64_t *)value->data, 0);
    kn_philox_skip(&p, a->n_skipped);
    v[0] = (int64_t)((uint64_t)p.counter[1] << 32 | p.counter[0]);
    v[1] = (int64_t)((uint64_t)p.counter[3] << 32 | p.counter[2]);
    return RT_OK;
}

enum rt_status kn_advance_variable(struct rt_run *r, uint64_t n_skipped, int64_t old[3])
{
    struct rt_variable *v = rt_variable_of(&r->in[0]);
    struct advance a = {n_skipped, old};

    if (!v)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "input 0 of %s is not the handle of a variable",
                       r->node->schema->name);
    const struct rt_check check = rt_run_as_check(r);
    return rt_variable_update(v, false, advance, &a, &check, rt_run_state(r), r->err);
}

static enum rt_status take_from_variable(struct rt_run *r, uint64_t n_skipped,
                                         struct kn_philox *out)
{
    int64_t old[STATE_SIZE];
    const enum rt_status st = kn_advance_variable(r, n_skipped, old);

    if (!st)
        *out = philox_of((const uint64_t *)old, (uint64_t)old[2]);
    return st;
}

/* ---- any source ---- */

enum rt_status kn_source_check(struct rt_run *r, enum kn_source source)
{
    switch (source) {
    case KN_FROM_SEED:
        return check_seed(r);
    case KN_FROM_KEY:
        return check_key(r);
    case KN_FROM_VARIABLE:
        return kn_check_algorithm(r, 1, "Non-XLA devices don't support the ThreeFry algorithm.");
    default:
        return RT_OK;
    }
}

enum rt_status kn_source_take(struct rt_run *r, enum kn_source source, uint64_t n_skipped,
                              struct kn_philox *out)
{
    switch (source) {
    case KN_FROM_SEED:
        *out = kn_seeded_philox(&r->in[1]);
        return RT_OK;
    case KN_FROM_KEY:
        return take_from_key(r, out);
    case KN_FROM_VARIABLE:
        return take_from_variable(r, n_skipped, out);
    default:
        return take_from_node(r, n_skipped, out);
    }
}
