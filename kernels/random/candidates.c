/*
 * Candidate samplers. They draw classes from a distribution, and compute how often a class is
 * expected among the samples. AllCandidateSampler returns every class. With equal seeds, the
 * classes are those of TensorFlow.
 */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/random/source.h"
#include "kernels/random/unigram.h"

enum kind { ALL, UNIFORM, LOG_UNIFORM, FIXED, LEARNED };

struct sampler {
    int64_t range, n;
    enum kind kind;
    bool is_unique;
    double log_range;
    struct kn_fixed *fixed;     /* the distribution of kind FIXED, else NULL */
    struct kn_learned *learned; /* the distribution of kind LEARNED, else NULL */
    struct kn_singles random;
    /* number of draws, which exceeds n if classes must be unique and one was drawn again */
    int64_t n_tries;
};

static int64_t draw_log(struct sampler *s)
{
    const double x = exp(kn_single_double(&s->random) * s->log_range);
    /* Rounding may make the number too large. As in TensorFlow, the remainder then maps it to a
     * valid class. */
    const int64_t id = x < 0x1p63 ? (int64_t)x - 1 : INT64_MAX;
    return id % s->range;
}

static int64_t draw(struct sampler *s)
{
    switch (s->kind) {
    case LOG_UNIFORM:
        return draw_log(s);
    case FIXED:
        return kn_fixed_draw(s->fixed, &s->random);
    case LEARNED:
        return kn_learned_draw(s->learned, &s->random);
    default:
        return (int64_t)kn_below_64(&s->random, (uint64_t)s->range);
    }
}

static float probability(const struct sampler *s, int64_t id)
{
    switch (s->kind) {
    case LOG_UNIFORM:
        return (float)(log(((double)id + 2.0) / ((double)id + 1.0)) / s->log_range);
    case FIXED:
        return kn_fixed_probability(s->fixed, id);
    case LEARNED:
        return kn_learned_probability(s->learned, id);
    default:
        return (float)(1.0 / (double)s->range);
    }
}

/* Returns how often a class is expected among the samples. */
static float expected_count(const struct sampler *s, int64_t id)
{
    if (s->kind == ALL)
        return 1;
    const float p = probability(s, id);
    return s->n_tries == s->n ? p * (float)s->n_tries : -expm1f((float)s->n_tries * log1pf(-p));
}

/* Adds a class to a hash set with open addressing. A used slot holds the class plus 1. Returns
 * whether the class is new. */
static bool set_add(int64_t *slots, uint64_t n_slots, int64_t id)
{
    uint64_t at = ((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15)) >> 20;

    for (at &= n_slots - 1; slots[at]; at = (at + 1) & (n_slots - 1))
        if (slots[at] == id + 1)
            return false;
    slots[at] = id + 1;
    return true;
}

static enum rt_status draw_unique(struct rt_run *r, struct sampler *s, int64_t *out)
{
    uint64_t n_slots = 16;

    while (n_slots < 2 * (uint64_t)s->n)
        n_slots *= 2;
    int64_t *slots = rt_scratch(r, n_slots * sizeof *slots);
    enum rt_status st = slots ? kn_zero_chunks(r, slots, n_slots * sizeof *slots) : r->err->code;
    for (int64_t k = 0; k < s->n && !st; s->n_tries++) {
        const int64_t id = draw(s);
        if (s->n_tries == INT32_MAX) /* TensorFlow aborts its process in this case */
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "%s: too few classes were found in %d tries", r->node->schema->name,
                           INT32_MAX);
        if (set_add(slots, n_slots, id))
            out[k++] = id;
        st = rt_run_spend(r, &r->left, 64);
    }
    return st;
}

static enum rt_status draw_all(struct rt_run *r, struct sampler *s, int64_t *out)
{
    enum rt_status st = RT_OK;

    if (s->is_unique && s->kind != ALL)
        return draw_unique(r, s, out);
    for (int64_t k = 0; k < s->n && !st; k++) {
        out[k] = s->kind == ALL ? k : draw(s);
        st = rt_run_spend(r, &r->left, 64);
    }
    s->n_tries = s->n;
    return st;
}

static enum rt_status check_classes(struct rt_run *r, const struct sampler *s)
{
    const struct rt_tensor *t = &r->in[0];
    const int64_t columns = rt_attr_int(r->node, "num_true"), n = rt_tensor_count(t);
    enum rt_status st = RT_OK;

    if (t->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "true_classes must be a matrix");
    if (t->dim[1] != columns)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "true_classes must have num_true columns, expected: %lld was: %lld",
                       (long long)t->dim[1], (long long)columns);
    if (s->is_unique && s->n > s->range)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Sampler's range is too small.");
    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t id = kn_int_at(t, i);
        if (id < 0 || id >= s->range)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "`true_candidate` out of range [0, %lld), received %lld",
                           (long long)s->range, (long long)id);
        st = rt_run_tick(r, i);
    }
    return st;
}

static enum rt_status count_expected(struct rt_run *r, const struct sampler *s,
                                     const struct rt_tensor *ids, float *out)
{
    const int64_t n = rt_tensor_count(ids);
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        out[i] = expected_count(s, kn_int_at(ids, i));
        st = rt_run_spend(r, &r->left, 64);
    }
    return st;
}

static enum rt_status sample(struct rt_run *r, struct sampler *s)
{
    enum rt_status st = check_classes(r, s);

    if (st)
        return st;
    int64_t *ids = rt_out(r, 0, 1, &s->n);
    float *of_true = ids ? rt_out(r, 1, 2, r->in[0].dim) : NULL;
    float *of_samples = of_true ? rt_out(r, 2, 1, &s->n) : NULL;
    if (!of_samples)
        return r->err->code;
    if (s->kind != ALL) /* TensorFlow reserves 2048 numbers for each sample */
        st = kn_source_take(r, KN_FROM_NODE, 512 * (uint64_t)s->n, &s->random.philox);
    if (!st)
        st = draw_all(r, s, ids);
    if (!st)
        st = count_expected(r, s, &r->in[0], of_true);
    if (!st)
        st = count_expected(r, s, &r->out[0], of_samples);
    return st || !s->learned ? st : kn_learned_update(r, s->learned, &r->in[0]);
}

static enum kind kind_of(const struct rt_node *n)
{
    switch (n->schema->name[0]) {
    case 'A':
        return ALL;
    case 'U':
        return UNIFORM;
    case 'F':
        return FIXED;
    case 'T': /* ThreadUnsafeUnigramCandidateSampler */
        return LEARNED;
    default:
        return n->schema->name[1] == 'o' ? LOG_UNIFORM : LEARNED;
    }
}

static enum rt_status sample_run(struct rt_run *r)
{
    struct sampler s = {
        .n = rt_attr_int(r->node, "num_sampled"),
        .kind = kind_of(r->node),
        .is_unique = rt_attr_bool(r->node, "unique"),
    };
    enum rt_status st = RT_OK;

    s.range = s.kind == ALL ? s.n : rt_attr_int(r->node, "range_max");
    s.log_range = log1p((double)s.range);
    if (s.kind == FIXED)
        st = kn_fixed_of(r, &s.fixed);
    else if (s.kind == LEARNED)
        st = kn_learned_of(r, &s.learned);
    if (!st)
        st = sample(r, &s);
    kn_fixed_unref(s.fixed);
    kn_learned_unref(s.learned);
    return st;
}

static enum rt_status check(const struct rt_node *n, struct rt_error *err)
{
    /* TensorFlow aborts its process if the range is larger. */
    if (kind_of(n) == LEARNED && rt_attr_int(n, "range_max") >= INT32_MAX)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: range_max must be below %d", n->schema->name,
                       INT32_MAX);
    return RT_OK;
}

#define SAMPLER(symbol, op_)                                                                       \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_RANDOM, .check = check},                                \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, sample_run),                                      \
    };
SAMPLER(all_candidate_sampler, "AllCandidateSampler")
SAMPLER(fixed_unigram_candidate_sampler, "FixedUnigramCandidateSampler")
SAMPLER(learned_unigram_candidate_sampler, "LearnedUnigramCandidateSampler")
SAMPLER(log_uniform_candidate_sampler, "LogUniformCandidateSampler")
SAMPLER(thread_unsafe_unigram_candidate_sampler, "ThreadUnsafeUnigramCandidateSampler")
SAMPLER(uniform_candidate_sampler, "UniformCandidateSampler")
