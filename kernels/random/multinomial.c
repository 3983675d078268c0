/*
 * Multinomial and StatelessMultinomial draw classes with probabilities given by logits. TensorFlow
 * divides large batches among its threads, and each thread draws from a different part of the
 * generator's numbers. The results here are those of TensorFlow with one thread.
 */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/random/source.h"

enum { COST = 32 }; /* work per class and per sample, in units of rt_run_spend */

#define TYPES (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS))

static double logit_at(const struct rt_tensor *t, int64_t i)
{
    switch (t->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return (double)KN_GET(dt, ((const T *)t->data)[i]);
        KN_FLOATS(X)
        KN_HALFS(X)
#undef X
    default:
        return 0;
    }
}

/* Sets sum[k] to the sum of the unnormalised probabilities of classes 0 to k of a row. Classes
 * whose logit is not finite have probability 0. */
static enum rt_status add_up(struct rt_run *r, int64_t *left, int64_t row, double *sum, int64_t n)
{
    const struct rt_tensor *logits = &r->in[0];
    const enum rt_dtype dtype = kn_dtype(logits);
    /* the smallest finite number of the type, for rows without a finite logit */
    double most = dtype == RT_F16    ? -65504
                  : dtype == RT_BF16 ? -3.3895313892515355e38
                  : dtype == RT_F32  ? -3.4028234663852886e38
                                     : -1.7976931348623157e308;
    double total = 0;

    for (int64_t k = 0; k < n; k++) {
        sum[k] = logit_at(logits, row * n + k);
        if (isfinite(sum[k]) && sum[k] > most)
            most = sum[k];
        if (rt_run_spend(r, left, COST))
            return r->err->code;
    }
    for (int64_t k = 0; k < n; k++) {
        if (isfinite(sum[k]))
            total += exp(sum[k] - most);
        sum[k] = total;
        if (rt_run_spend(r, left, COST))
            return r->err->code;
    }
    return RT_OK;
}

/* Returns the first class whose cumulative sum is above v, or n if there is no such class. */
static int64_t find_class(const double *sum, int64_t n, double v)
{
    int64_t least = 0, most = n;

    while (least < most) {
        const int64_t middle = least + (most - least) / 2;
        if (v < sum[middle])
            most = middle;
        else
            least = middle + 1;
    }
    return least;
}

static enum rt_status draw(struct rt_run *r, struct kn_philox philox, int64_t n_samples)
{
    const int64_t n = r->in[0].dim[1];
    struct kn_singles s = {.philox = philox};
    int64_t left = RT_WORK;
    double *sum = rt_scratch(r, (size_t)n * sizeof *sum);

    if (!sum)
        return r->err->code;
    for (int64_t row = 0; row < r->in[0].dim[0]; row++) {
        if (add_up(r, &left, row, sum, n))
            return r->err->code;
        for (int64_t i = 0; i < n_samples; i++) {
            const double v = kn_single_double(&s) * sum[n - 1];
            kn_put_int(&r->out[0], row * n_samples + i, find_class(sum, n, v));
            if (rt_run_spend(r, &left, COST))
                return r->err->code;
        }
    }
    return RT_OK;
}

static enum rt_status run(struct rt_run *r, enum kn_source source)
{
    const struct rt_tensor *logits = &r->in[0];
    struct kn_philox philox;
    int64_t n_samples;

    if (source == KN_FROM_SEED) {
        const struct rt_tensor *seed = &r->in[2];
        if (seed->rank != 1 || seed->dim[0] != 2)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "seed must have shape [2], not %s",
                           KN_TEXT(seed));
    }
    if (logits->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "logits should be a matrix, got shape %s",
                       KN_TEXT(logits));
    if (!kn_scalar(&r->in[1], &n_samples))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "num_samples should be a scalar, got shape %s",
                       KN_TEXT(&r->in[1]));
    if (n_samples < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "num_samples should be %s, got %lld",
                       source == KN_FROM_SEED ? "non-negative" : "nonnegative",
                       (long long)n_samples);
    if (logits->dim[1] <= 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "num_classes should be positive, got %lld",
                       (long long)logits->dim[1]);
    const int64_t dim[2] = {logits->dim[0], n_samples};
    if (!kn_out(r, 0, 2, dim))
        return r->err->code;
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    if (source == KN_FROM_SEED) {
        philox = kn_seeded_philox(&r->in[2]);
    } else {
        /* A sample takes two of the four numbers of a counter value. */
        const uint64_t reserved = ((uint64_t)n_samples + 3) / 4 * 4 * 2 * KN_RESERVED;
        if (kn_source_take(r, source, reserved * (uint64_t)dim[0], &philox))
            return r->err->code;
    }
    return draw(r, philox, n_samples);
}

static enum rt_status infer(struct rt_infer *x)
{
    int64_t n;

    if (!kn_known(x, 2) || x->in[0].shape.rank != 2 || !kn_scalar(x->in[1].value, &n) || n < 0)
        return RT_OK;
    kn_set_shape(&x->out[0], 2, (int64_t[]){x->in[0].shape.dim[0], n});
    return RT_OK;
}

static enum rt_status node_run(struct rt_run *r)
{
    return run(r, KN_FROM_NODE);
}

static enum rt_status seed_run(struct rt_run *r)
{
    return run(r, KN_FROM_SEED);
}

const struct kn_entry kn_multinomial = {
    .op = {.name = "Multinomial", .effect = RT_RANDOM, .shape_in = 2, .infer = infer},
    .kernels = KN_CPU("Multinomial", "multinomial", TYPES, NULL, node_run),
};
const struct kn_entry kn_stateless_multinomial = {
    .op = {.name = "StatelessMultinomial", .shape_in = 2, .infer = infer},
    .kernels = KN_CPU("StatelessMultinomial", "stateless_multinomial", TYPES, NULL, seed_run),
};
