/* Ops that make keys and counters from seeds, and ops that read and advance a generator in a
 * variable. */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/random/source.h"

/* ---- StatelessRandomGetKeyCounter, StatelessRandomGetKeyCounterAlg, StatelessRandomGetAlg ---- */

static enum rt_status key_counter_run(struct rt_run *r)
{
    const struct rt_tensor *seed = &r->in[0];
    const int64_t one = 1, two = 2;

    if (seed->rank != 1 || seed->dim[0] != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "seed must have shape [2], not %s",
                       KN_TEXT(seed));
    uint64_t *key = kn_out(r, 0, 1, &one), *counter = key ? kn_out(r, 1, 1, &two) : NULL;
    int32_t *algorithm = counter && r->n_out > 2 ? kn_out(r, 2, 0, NULL) : NULL;
    if (!counter || (r->n_out > 2 && !algorithm))
        return r->err->code;
    const struct kn_philox p = kn_seeded_philox(seed);
    *key = (uint64_t)p.key[1] << 32 | p.key[0];
    counter[0] = 0;
    counter[1] = (uint64_t)p.counter[3] << 32 | p.counter[2];
    if (algorithm)
        *algorithm = KN_ALG_PHILOX;
    return RT_OK;
}

static enum rt_status key_counter_infer(struct rt_infer *x)
{
    kn_set_vector(&x->out[0], 1);
    kn_set_vector(&x->out[1], 2);
    if (x->n_out > 2)
        x->out[2].shape.rank = 0;
    return RT_OK;
}

const struct kn_entry kn_stateless_random_get_key_counter = {
    .op = {.name = "StatelessRandomGetKeyCounter", .infer = key_counter_infer},
    .kernels = KN_KERNELS({.op = "StatelessRandomGetKeyCounter",
                           .device = "CPU",
                           .name = "key_counter",
                           .run = key_counter_run}),
};
const struct kn_entry kn_stateless_random_get_key_counter_alg = {
    .op = {.name = "StatelessRandomGetKeyCounterAlg", .infer = key_counter_infer},
    .kernels = KN_KERNELS({.op = "StatelessRandomGetKeyCounterAlg",
                           .device = "CPU",
                           .name = "key_counter_alg",
                           .run = key_counter_run}),
};

static enum rt_status alg_run(struct rt_run *r)
{
    int32_t *o = kn_out(r, 0, 0, NULL);

    if (!o)
        return r->err->code;
    *o = KN_ALG_PHILOX;
    return RT_OK;
}

const struct kn_entry kn_stateless_random_get_alg = {
    .op = {.name = "StatelessRandomGetAlg", .infer = kn_infer_scalars},
    .kernels = KN_KERNELS(
        {.op = "StatelessRandomGetAlg", .device = "CPU", .name = "random_get_alg", .run = alg_run}),
};

/* ---- RngSkip, RngReadAndSkip ---- */

static const char no_threefry[] = "Non-XLA devices don't support the ThreeFry algorithm.";

static enum rt_status skip_run(struct rt_run *r)
{
    int64_t delta, old[3];
    const int64_t n_out = 3;
    enum rt_status st = kn_check_algorithm(r, 1, no_threefry);

    if (st)
        return st;
    if (!kn_scalar(&r->in[2], &delta))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "input 2 (0-based) must have shape [], not %s",
                       KN_TEXT(&r->in[2]));
    st = kn_advance_variable(r, (uint64_t)delta * KN_RESERVED, old);
    if (st || r->n_out == 0)
        return st;
    int64_t *o = kn_out(r, 0, 1, &n_out);
    if (!o)
        return r->err->code;
    memcpy(o, old, sizeof old);
    return RT_OK;
}

const struct kn_entry kn_rng_skip = {
    .op = {.name = "RngSkip", .effect = RT_WRITES},
    .kernels = KN_KERNELS({.op = "RngSkip", .device = "CPU", .name = "rng_skip", .run = skip_run}),
};

/* The output is as long as the variable, so its shape is unknown before the op runs. */
const struct kn_entry kn_rng_read_and_skip = {
    .op = {.name = "RngReadAndSkip", .effect = RT_WRITES},
    .kernels = KN_KERNELS(
        {.op = "RngReadAndSkip", .device = "CPU", .name = "rng_read_and_skip", .run = skip_run}),
};
