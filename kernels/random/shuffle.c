/* RandomShuffle and StatelessShuffle permute a tensor along its first axis. */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/random/source.h"
#include "runtime/base/checked.h"

enum { COST = 16 }; /* work per row */

/* Sets p[0], ..., p[n - 1] to a random permutation of 0, ..., n - 1 (Fisher-Yates shuffle). */
static enum rt_status permute(struct rt_run *r, struct kn_philox philox, int64_t *p, int64_t n)
{
    struct kn_singles s = {.philox = philox};
    int64_t left = RT_WORK;

    for (int64_t i = 0; i < n; i++)
        p[i] = i;
    for (int64_t i = 0; i + 1 < n; i++) {
        /* As in TensorFlow, the random number and the divisor have 32 bits. */
        const int64_t k = i + (int64_t)(kn_next_bits(&s) % (uint32_t)(n - i)), swapped = p[i];
        p[i] = p[k];
        p[k] = swapped;
        if (rt_run_spend(r, &left, COST))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status gather(struct rt_run *r, const int64_t *p, int64_t n)
{
    const struct rt_tensor *in = &r->in[0];
    const enum rt_dtype dtype = kn_dtype(in);
    const int64_t row = rt_tensor_count(in) / n;
    int64_t left = RT_WORK;

    if (!kn_out(r, 0, in->rank, in->dim))
        return r->err->code;
    for (int64_t i = 0; i < n; i++)
        if (kn_copy_run(r, dtype, kn_at_mut(&r->out[0], i * row), kn_at(in, p[i] * row), row) ||
            rt_run_spend(r, &left, COST + row))
            return r->err->code;
    return RT_OK;
}

static enum rt_status shuffle(struct rt_run *r, enum kn_source source)
{
    const struct rt_tensor *in = &r->in[0];
    const int64_t n = in->rank ? in->dim[0] : 0;
    struct kn_philox philox;
    size_t bytes;
    enum rt_status st = kn_source_check(r, source);

    if (!st && source == KN_FROM_KEY)
        st = kn_check_algorithm(r, 3, NULL);
    if (st)
        return st;
    if (n <= 1 || rt_tensor_count(in) <= 1) {
        if (!kn_out(r, 0, in->rank, in->dim))
            return r->err->code;
        return kn_copy_run(r, kn_dtype(in), r->out[0].data, in->data, rt_tensor_count(in));
    }
    if (n > UINT32_MAX || !rt_mul_size((size_t)n, sizeof(int64_t), &bytes))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%lld rows are too many to shuffle",
                       (long long)n);
    int64_t *p = rt_scratch(r, bytes);
    if (!p)
        return r->err->code;
    st = kn_source_take(r, source, (uint64_t)(n - 1 + 3) / 4, &philox);
    if (!st)
        st = permute(r, philox, p, n);
    return st ? st : gather(r, p, n);
}

static enum rt_status node_run(struct rt_run *r)
{
    return shuffle(r, KN_FROM_NODE);
}

static enum rt_status key_run(struct rt_run *r)
{
    return shuffle(r, KN_FROM_KEY);
}

const struct kn_entry kn_random_shuffle = {
    .op = {.name = "RandomShuffle", .effect = RT_RANDOM, .infer = kn_infer_copy},
    .kernels = KN_KERNELS(
        {.op = "RandomShuffle", .device = "CPU", .name = "random_shuffle", .run = node_run}),
};
const struct kn_entry kn_stateless_shuffle = {
    .op = {.name = "StatelessShuffle", .infer = kn_infer_copy},
    .kernels = KN_KERNELS(
        {.op = "StatelessShuffle", .device = "CPU", .name = "stateless_shuffle", .run = key_run}),
};
