/*
 * ConstrainedSequence of TensorFlow Text finds the best sequence of states for the scores of each
 * step, by Viterbi's algorithm or greedily. Transitions between states may be forbidden, and have
 * weights. In log space weights and scores are added, and otherwise multiplied.
 */
#include <float.h>
#include <math.h>

#include "kernels/entry.h"
#include "kernels/text/tokens.h"

enum { COST = 6, NO_STATE = -1 };

/* The inputs that hold for all sequences. `allowed` and `weights` are square matrices from the
 * former state to the latter, or NULL. With bounds, their last row and column are for the bounds of
 * a sequence. */
struct rules {
    struct rt_run *r;
    const bool *allowed;
    const float *weights;
    int64_t n_states, n_columns;
    bool is_log, has_bounds;
    int64_t left;
};

/* TensorFlow's threads read and write numbers below FLT_MIN as 0, and a long product gets there. */
static float flush(float x)
{
    return fabsf(x) < FLT_MIN ? 0 : x;
}

static float combine(const struct rules *k, float a, float b)
{
    return k->is_log ? a + b : flush(a * b);
}

/* Changes *score by the transition. Returns false if the transition is forbidden. */
static bool go(const struct rules *k, int64_t from, int64_t to, float *score)
{
    const int64_t at = from * k->n_columns + to;

    if (k->allowed && !k->allowed[at])
        return false;
    if (k->weights)
        *score = combine(k, *score, k->weights[at]);
    return true;
}

/* A state, and its score. */
struct best {
    int64_t state;
    float score;
};

static struct best no_state(void)
{
    return (struct best){.state = NO_STATE, .score = -FLT_MAX};
}

/* The last of equal states counts. */
static void improve(struct best *b, int64_t state, float score)
{
    if (score >= b->score)
        *b = (struct best){.state = state, .score = score};
}

/* ---- greedy ---- */

static enum rt_status greedy(struct rules *k, const float *scores, int64_t n_steps, int32_t *to)
{
    int64_t from = k->n_states; /* the bound of the sequence */

    for (int64_t t = 0; t < n_steps; t++, scores += k->n_states) {
        const bool is_first = t == 0 && !k->has_bounds;
        const bool is_last = t == n_steps - 1 && k->has_bounds;
        struct best b = no_state();
        for (int64_t s = 0; s < k->n_states && from != NO_STATE; s++) {
            float score = scores[s];
            if ((is_first || go(k, from, s, &score)) && (!is_last || go(k, s, k->n_states, &score)))
                improve(&b, s, score);
            if (rt_run_spend(k->r, &k->left, COST))
                return k->r->err->code;
        }
        to[t] = (int32_t)b.state;
        from = b.state;
        if (rt_run_spend(k->r, &k->left, COST))
            return k->r->err->code;
    }
    return RT_OK;
}

/* ---- Viterbi ---- */

/* The scores of the states after the last step and the one before it, and the states that each
 * state is best reached from, for each step: NO_STATE if a state cannot be reached. */
struct table {
    float *score, *before;
    int32_t *from;
};

/* Computes the best way to each state of step t. */
static enum rt_status step(struct rules *k, const float *scores, int64_t t, struct table *table)
{
    const int64_t n = k->n_states;
    int32_t *from = table->from + t * n;

    for (int64_t s = 0; s < n; s++) {
        struct best b = no_state();
        for (int64_t f = 0; f < n && t > 0; f++) {
            if (from[f - n] == NO_STATE)
                continue;
            float score = combine(k, table->before[f], scores[s]);
            if (go(k, f, s, &score))
                improve(&b, f, score);
            if (rt_run_spend(k->r, &k->left, COST))
                return k->r->err->code;
        }
        if (t == 0) {
            b.score = scores[s];
            b.state = !k->has_bounds || go(k, n, s, &b.score) ? n : NO_STATE;
        }
        table->score[s] = b.score;
        from[s] = (int32_t)b.state;
        if (rt_run_spend(k->r, &k->left, COST))
            return k->r->err->code;
    }
    return RT_OK;
}

/* Divides the scores of step t by the sum of those above 0. */
static void normalise(const struct rules *k, int64_t t, struct table *table)
{
    const int64_t n = k->n_states;
    const int32_t *from = table->from + t * n;
    double sum = 0;

    for (int64_t s = 0; s < n; s++)
        if (from[s] != NO_STATE && table->score[s] > 0)
            sum += (double)table->score[s];
    for (int64_t s = 0; s < n && sum > 0; s++)
        table->score[s] = flush((float)((double)table->score[s] / sum));
}

/* `memory` is for the table. */
static enum rt_status viterbi(struct rules *k, struct rt_bytes *memory, const float *scores,
                              int64_t n_steps, int32_t *to)
{
    const int64_t n = k->n_states;
    const size_t line = (size_t)n * sizeof(float);
    struct best b = no_state();
    struct table table;

    memory->n = 0;
    if (n > 0 && (size_t)n_steps + 2 > SIZE_MAX / 2 / line)
        return rt_fail(k->r->err, RT_RESOURCE_EXHAUSTED, "%s: too many steps",
                       k->r->node->schema->name);
    if (!rt_bytes_reserve(memory, ((size_t)n_steps + 2) * line + 1))
        return kn_text_failed(memory);
    table.score = (float *)(void *)memory->p;
    table.before = table.score + n;
    table.from = (int32_t *)(void *)(table.before + n);
    for (int64_t t = 0; t < n_steps && n > 0; t++) {
        enum rt_status st = step(k, scores + t * n, t, &table);
        if (st)
            return st;
        if (!k->is_log)
            normalise(k, t, &table);
        float *free = table.before;
        table.before = table.score;
        table.score = free;
        if (rt_run_spend(k->r, &k->left, 2 * n))
            return k->r->err->code;
    }
    for (int64_t s = 0; s < n; s++) {
        float score = table.before[s];
        if (table.from[(n_steps - 1) * n + s] != NO_STATE &&
            (!k->has_bounds || go(k, s, n, &score)))
            improve(&b, s, score);
        if (rt_run_spend(k->r, &k->left, COST))
            return k->r->err->code;
    }
    for (int64_t t = n_steps - 1; t >= 0; t--) {
        to[t] = (int32_t)b.state;
        if (b.state != NO_STATE)
            b.state = table.from[t * n + b.state];
        if (rt_run_spend(k->r, &k->left, COST))
            return k->r->err->code;
    }
    return RT_OK;
}

/* ---- both ---- */

/* Checks a matrix of transitions. It does not exist if it has no elements. */
static enum rt_status check_matrix(const struct rules *k, int in, const char *name, bool *exists)
{
    const struct rt_tensor *m = &k->r->in[in];

    *exists = rt_tensor_count(m) > 0;
    if (!*exists)
        return RT_OK;
    if (m->rank != 2)
        return rt_fail(k->r->err, RT_INVALID_ARGUMENT, "%s must be of rank 2", name);
    for (int i = 0; i < 2; i++)
        if (m->dim[i] != k->n_columns)
            return rt_fail(k->r->err, RT_INVALID_ARGUMENT,
                           "%s must have a %s dimension of size %lld when num_states is %lld and "
                           "use_start_and_end_states is %d",
                           name, i ? "first" : "zeroth", (long long)k->n_columns,
                           (long long)k->n_states, k->has_bounds);
    return RT_OK;
}

static enum rt_status read_rules(struct rules *k)
{
    struct rt_run *r = k->r;
    const struct rt_tensor *w = &r->in[3];
    bool has_allowed, has_weights;
    enum rt_status st = check_matrix(k, 2, "allowed_transitions", &has_allowed);

    if (!st)
        st = check_matrix(k, 3, "transition_weights", &has_weights);
    if (st)
        return st;
    k->allowed = has_allowed ? r->in[2].data : NULL;
    k->weights = has_weights ? w->data : NULL;
    for (int64_t i = 0; has_weights && !k->is_log && i < rt_tensor_count(w); i++) {
        if (!(k->weights[i] > -FLT_MIN))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "The transition weights tensor must not contain negative values.");
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

/* Checks the lengths of the sequences, and sets *total to their sum. */
static enum rt_status check_lengths(struct rt_run *r, int64_t n_sequences, int64_t n_steps,
                                    int64_t *total)
{
    const int64_t n = rt_tensor_count(&r->in[1]);

    if (n != n_sequences)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "There should be exactly one length for every batch element. Found %lld "
                       "length elements for a batch size of %lld",
                       (long long)n, (long long)n_sequences);
    *total = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t length = kn_int_at(&r->in[1], i);
        if (length > n_steps)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "The scores tensor is too short for the longest sequence length.");
        if (length < 0) /* TensorFlow Text ends the process. */
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: sequence %lld has length %lld",
                           r->node->schema->name, (long long)i, (long long)length);
        if (length > INT64_MAX - *total)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the lengths are too large",
                           r->node->schema->name);
        *total += length;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return r->out[1].dtype == RT_I32 ? kn_check_i32("states_splits", *total, r->err) : RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    const struct rt_tensor *scores = &r->in[0];
    const bool is_batch = scores->rank == 3, is_viterbi = rt_attr_bool(r->node, "use_viterbi");
    struct rules k = {.r = r,
                      .is_log = rt_attr_bool(r->node, "use_log_space"),
                      .has_bounds = rt_attr_bool(r->node, "use_start_and_end_states"),
                      .left = RT_WORK};
    struct rt_bytes memory;
    int64_t total;

    if (scores->rank != 2 && scores->rank != 3)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "The score tensor must be of rank 2 or 3.");
    const int64_t n_sequences = is_batch ? scores->dim[0] : 1, n_steps = scores->dim[is_batch];
    const int64_t n_splits = n_sequences + 1;
    k.n_states = scores->dim[is_batch + 1];
    k.n_columns = k.n_states + k.has_bounds;
    enum rt_status st = check_lengths(r, n_sequences, n_steps, &total);
    if (!st)
        st = read_rules(&k);
    int32_t *to = st ? NULL : kn_out(r, 0, 1, &total);
    if (!to || !kn_out(r, 1, 1, &n_splits))
        return r->err->code;
    kn_text_begin(&memory, r);
    kn_put_int(&r->out[1], 0, 0);
    for (int64_t i = 0, at = 0; i < n_sequences && !st; i++) {
        const int64_t n = kn_int_at(&r->in[1], i);
        const float *from = (const float *)scores->data + i * n_steps * k.n_states;
        if (n > 0)
            st = is_viterbi ? viterbi(&k, &memory, from, n, to + at) : greedy(&k, from, n, to + at);
        at += n;
        kn_put_int(&r->out[1], i + 1, at);
        if (!st)
            st = rt_run_spend(r, &k.left, 16);
    }
    kn_text_end(&memory);
    return st;
}

const struct kn_entry kn_constrained_sequence = {
    .op = {.name = "ConstrainedSequence"},
    .kernels = KN_KERNELS({.op = "ConstrainedSequence",
                           .device = "CPU",
                           .name = "constrained_sequence",
                           .types = RT_T(RT_I32) | RT_T(RT_I64),
                           .type_attr = "Tin",
                           .run = run}),
};
