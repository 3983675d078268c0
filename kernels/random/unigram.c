#include "kernels/random/unigram.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "kernels/array/array.h"
#include "kernels/io/lines.h"
#include "kernels/string/parse.h"
#include "kernels/string/text.h"
#include "runtime/base/thread.h"
#include "runtime/core/copy.h"
#include "runtime/session/resource.h"
#include "runtime/session/state.h"

/* ---- learned distributions ---- */

struct kn_learned {
    struct rt_object o;
    int64_t range;
    struct rt_mutex mu;
    /* mu guards all members from here on */
    int64_t total; /* sum of all weights */
    /*
     * A Fenwick tree of the counts of true classes: element i - 1 is the sum of the counts of the
     * classes from i - b to i - 1, where b is the lowest bit that is set in i. The tensor is empty
     * until the first class is counted.
     */
    struct rt_tensor counts;
};

static void learned_free(struct rt_object *o)
{
    struct kn_learned *u = (struct kn_learned *)o;

    rt_tensor_clear(&u->counts);
    rt_mutex_clear(&u->mu);
    free(u);
}

static const struct rt_object_type learned_type = {"learned unigram distribution", learned_free};

static enum rt_status learned_make(const struct rt_make *make, struct rt_object **out)
{
    struct kn_learned *u = calloc(1, sizeof *u);

    if (!u)
        return rt_fail_memory(make->err, make->node->name, sizeof *u);
    rt_object_init(&u->o, &learned_type);
    rt_mutex_init(&u->mu);
    u->range = u->total = rt_attr_int(make->node, "range_max");
    *out = &u->o;
    return RT_OK;
}

enum rt_status kn_learned_of(struct rt_run *r, struct kn_learned **out)
{
    struct rt_object *o = NULL;
    const enum rt_status st =
        rt_run_node_resource(r, "learned unigram distribution", learned_make, &o);

    *out = (struct kn_learned *)o;
    return st;
}

void kn_learned_unref(struct kn_learned *u)
{
    rt_object_unref(u ? &u->o : NULL);
}

int64_t kn_learned_draw(struct kn_learned *u, struct kn_singles *random)
{
    int64_t at = 0, step = 1;

    rt_mutex_lock(&u->mu);
    const int32_t *counts = u->counts.data;
    int64_t rest = kn_below_32(random, (uint32_t)u->total);
    if (!counts)
        at = rest;
    while (step <= u->range / 2)
        step *= 2;
    for (; counts && step > 0; step /= 2)
        if (at + step <= u->range && rest >= step + counts[at + step - 1]) {
            at += step;
            rest -= step + counts[at - 1];
        }
    rt_mutex_unlock(&u->mu);
    return at;
}

/* Returns the sum of the counts of the first n classes. */
static int64_t counted_below(const int32_t *counts, int64_t n)
{
    int64_t sum = 0;

    for (; n > 0; n &= n - 1)
        sum += counts[n - 1];
    return sum;
}

float kn_learned_probability(struct kn_learned *u, int64_t id)
{
    int64_t weight = 1;

    rt_mutex_lock(&u->mu);
    const int32_t *counts = u->counts.data;
    if (counts)
        weight += counted_below(counts, id + 1) - counted_below(counts, id);
    const float p = (float)weight / (float)u->total;
    rt_mutex_unlock(&u->mu);
    return p;
}

/* Makes *kept a tensor of the session's state with the memory of *t, and clears *t. The run's limit
 * applied to the memory when the tensor was made. */
static enum rt_status keep_in_state(struct rt_run *r, struct rt_tensor *kept, struct rt_tensor *t)
{
    const struct rt_check check = rt_run_as_check(r);
    const enum rt_status st = rt_state_keep(rt_run_state(r), kept, t, NULL, &check, r->err);

    rt_tensor_clear(t);
    return st;
}

/* Makes the tree of a distribution that has not counted any class. */
static enum rt_status make_counts(struct rt_run *r, struct kn_learned *u)
{
    struct rt_tensor fresh = {0}, kept = {0};
    const struct rt_check check = rt_run_as_check(r);

    rt_mutex_lock(&u->mu);
    const bool is_made = u->counts.data != NULL;
    rt_mutex_unlock(&u->mu);
    if (is_made)
        return RT_OK;
    enum rt_status st =
        rt_tensor_new_checked(&fresh, rt_run_pool(r), RT_I32, 1, &u->range, &check, r->err);
    if (!st)
        st = kn_zero_chunks(r, fresh.data, rt_tensor_bytes(&fresh));
    if (!st)
        st = keep_in_state(r, &kept, &fresh);
    rt_mutex_lock(&u->mu);
    if (!st && !u->counts.data) {
        u->counts = kept;
        kept = (struct rt_tensor){0};
    }
    rt_mutex_unlock(&u->mu);
    rt_tensor_clear(&fresh);
    rt_tensor_clear(&kept);
    return st;
}

enum rt_status kn_learned_update(struct rt_run *r, struct kn_learned *u,
                                 const struct rt_tensor *ids)
{
    const int64_t n = rt_tensor_count(ids);
    enum rt_status st = n ? make_counts(r, u) : RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        rt_mutex_lock(&u->mu);
        int32_t *counts = u->counts.data;
        if (u->total < INT32_MAX) {
            for (int64_t k = kn_int_at(ids, i) + 1; k <= u->range; k += k & -k)
                counts[k - 1]++;
            u->total++;
        }
        rt_mutex_unlock(&u->mu);
        st = rt_run_spend(r, &r->left, 64);
    }
    return st;
}

/* ---- fixed distributions ---- */

/* A cell of the alias table (Walker, 1977; construction by Vose, 1991). A draw chooses a cell
 * uniformly, and yields the cell's own class with probability `keep`, otherwise `alias`. */
struct cell {
    float keep;
    int32_t alias;
};

struct kn_fixed {
    struct rt_object o;
    struct rt_mutex mu;
    /* Set once, when the members below are complete, which do not change afterwards. */
    _Atomic bool is_read;
    int64_t n;
    float total;
    struct rt_tensor table; /* n weights, followed by n cells */
};

static const float *weights_of(const struct kn_fixed *u)
{
    return u->table.data;
}
static const struct cell *cells_of(const struct kn_fixed *u)
{
    return (const struct cell *)(const void *)(weights_of(u) + u->n);
}

static void fixed_free(struct rt_object *o)
{
    struct kn_fixed *u = (struct kn_fixed *)o;

    rt_tensor_clear(&u->table);
    rt_mutex_clear(&u->mu);
    free(u);
}

static const struct rt_object_type fixed_type = {"fixed unigram distribution", fixed_free};

static enum rt_status fixed_make(const struct rt_make *make, struct rt_object **out)
{
    struct kn_fixed *u = calloc(1, sizeof *u);

    if (!u)
        return rt_fail_memory(make->err, make->node->name, sizeof *u);
    rt_object_init(&u->o, &fixed_type);
    rt_mutex_init(&u->mu);
    *out = &u->o;
    return RT_OK;
}

/* Weights that are being read. Reserved classes come first and have weight 0. Weights beyond the
 * range of the sampler are counted, but not stored. */
struct reading {
    struct rt_run *r;
    int64_t range, n, next_id;
    int32_t n_shards, shard;
    float total, distortion;
    struct rt_bytes weights;
};

static enum rt_status add_weight(struct reading *x, float w)
{
    const bool is_ours = x->next_id++ % x->n_shards == x->shard;

    if (is_ours && x->n++ < x->range)
        rt_bytes_add(&x->weights, &w, sizeof w);
    if (x->weights.failed)
        return kn_text_failed(&x->weights);
    return rt_run_spend(x->r, &x->r->left, 16);
}

static enum rt_status add_distorted(struct reading *x, float w)
{
    w = powf(w, x->distortion);
    if (x->next_id % x->n_shards == x->shard)
        x->total += w;
    return add_weight(x, w);
}

static enum rt_status read_reserved(struct reading *x)
{
    const int64_t n = (int32_t)rt_attr_int(x->r->node, "num_reserved_ids");
    const float zero = 0;
    enum rt_status st = RT_OK;

    if (x->shard >= 0 && x->shard < x->n_shards && x->shard < n)
        x->n = (n - x->shard + x->n_shards - 1) / x->n_shards;
    for (int64_t i = 0; i < x->n && x->n <= x->range && !st; i++) {
        rt_bytes_add(&x->weights, &zero, sizeof zero);
        st = x->weights.failed ? kn_text_failed(&x->weights) : rt_run_tick(x->r, i);
    }
    /* As in TensorFlow, the shard of the next class follows from the number of stored classes. */
    x->next_id = x->n;
    return st;
}

static enum rt_status read_file(struct reading *x, struct rt_span path)
{
    struct kn_lines l;
    bool any = true;
    enum rt_status st = kn_lines_open(&l, x->r, path);

    if (st)
        return st;
    while (!st && !(st = kn_lines_next(&l, &any)) && any) {
        const char *line = l.line.p;
        const size_t n = l.line.n;
        if (n == 0)
            continue;
        const char *comma = memrchr(line, ',', n), *p = comma ? comma + 1 : line;
        float w = 0;
        /* As in TensorFlow, the weights of other shards are not read. */
        if (x->next_id % x->n_shards != x->shard)
            st = add_weight(x, 0);
        else if (kn_parse_float(p, n - (size_t)(p - line), &w))
            st = add_distorted(x, w);
        else
            st = rt_fail(x->r->err, RT_INVALID_ARGUMENT, "Wrong vocabulary format at line: %.*s",
                         (int)(n < 512 ? n : 512), line);
    }
    kn_lines_close(&l);
    return st;
}

static enum rt_status read_weights(struct reading *x)
{
    const struct rt_node *n = x->r->node;
    const struct rt_span path = rt_attr_str(n, "vocab_file");
    const struct rt_attr *list = rt_attr(n, "unigrams");
    const size_t n_listed = list ? list->n : 0;

    if (path.n == 0 && n_listed == 0)
        return rt_fail(x->r->err, RT_INVALID_ARGUMENT,
                       "Must provide either vocab_file or unigrams.");
    if (path.n > 0 && n_listed > 0)
        return rt_fail(x->r->err, RT_INVALID_ARGUMENT,
                       "Must only provide one of vocab_file and unigrams.");
    if (x->n_shards <= 0) /* TensorFlow divides by this number */
        return rt_fail(x->r->err, RT_INVALID_ARGUMENT, "%s: num_shards is %d", n->schema->name,
                       (int)x->n_shards);
    enum rt_status st = read_reserved(x);
    if (!st && path.n > 0)
        st = read_file(x, path);
    for (size_t i = 0; i < n_listed && !st; i++)
        st = add_distorted(x, list->v.floats[i]);
    if (!st && x->n != x->range)
        st = rt_fail(x->r->err, RT_INVALID_ARGUMENT,
                     "range is %lld must be equal to weights size  %lld", (long long)x->range,
                     (long long)x->n);
    return st;
}

/* Makes the alias table. `share` has space for n numbers: the share of a class, which is 1 on
 * average. `stack` has space for n classes: at its start those with a share below 1, at its end the
 * others. */
static enum rt_status make_cells(struct rt_run *r, const float *weight, int64_t n,
                                 struct cell *cell, double *share, int32_t *stack)
{
    int64_t n_low = 0, n_high = 0;
    double sum = 0;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n; i++)
        sum += (double)weight[i];
    for (int64_t i = 0; i < n && !st; i++) {
        share[i] = (double)(weight[i] * (float)n) / sum;
        if (share[i] < 1)
            stack[n_low++] = (int32_t)i;
        else
            stack[n - ++n_high] = (int32_t)i;
        st = rt_run_spend(r, &r->left, 32);
    }
    while (n_low > 0 && n_high > 0 && !st) {
        const int32_t low = stack[--n_low], high = stack[n - n_high--];
        cell[low] = (struct cell){(float)share[low], high};
        share[high] -= 1 - share[low];
        if (share[high] < 1)
            stack[n_low++] = high;
        else
            stack[n - ++n_high] = high;
        st = rt_run_spend(r, &r->left, 32);
    }
    /* The shares of these classes differ from 1 by rounding errors only. */
    while (n_low > 0)
        cell[stack[n_low - 1]] = (struct cell){1, stack[n_low - 1]}, n_low--;
    for (; n_high > 0; n_high--)
        cell[stack[n - n_high]] = (struct cell){1, stack[n - n_high]};
    return st;
}

/* Sets *out to the n weights, followed by the n cells. */
static enum rt_status make_table(struct reading *x, struct rt_tensor *out)
{
    struct rt_run *r = x->r;
    const int64_t n = x->n, size = 3 * n;
    const struct rt_check check = rt_run_as_check(r);
    double *share = rt_scratch(r, (size_t)n * (sizeof(double) + sizeof(int32_t)));
    enum rt_status st =
        share ? rt_tensor_new_checked(out, rt_run_pool(r), RT_F32, 1, &size, &check, r->err)
              : r->err->code;

    if (st)
        return st;
    float *weight = out->data;
    memcpy(weight, x->weights.p, (size_t)n * sizeof *weight);
    return make_cells(r, weight, n, (struct cell *)(void *)(weight + n), share,
                      (int32_t *)(void *)(share + n));
}

/* Reads the distribution without the lock, so that runs that wait for the lock wait only shortly.
 * Several runs may read it at the same time, and the first one stores its result. */
static enum rt_status fixed_read(struct rt_run *r, struct kn_fixed *u)
{
    struct reading x = {
        .r = r,
        .range = rt_attr_int(r->node, "range_max"),
        .n_shards = (int32_t)rt_attr_int(r->node, "num_shards"),
        .shard = (int32_t)rt_attr_int(r->node, "shard"),
        .distortion = rt_attr_float(r->node, "distortion"),
    };
    struct rt_tensor fresh = {0}, table = {0};

    kn_text_begin(&x.weights, r);
    enum rt_status st = read_weights(&x);
    if (!st && x.n > INT32_MAX) /* TensorFlow holds classes in 32 bits */
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: range_max is %lld", r->node->schema->name,
                     (long long)x.n);
    if (!st)
        st = make_table(&x, &fresh);
    if (!st)
        st = keep_in_state(r, &table, &fresh);
    rt_mutex_lock(&u->mu);
    if (!st && !atomic_load(&u->is_read)) {
        u->n = x.n;
        u->total = x.total;
        u->table = table;
        table = (struct rt_tensor){0};
        atomic_store(&u->is_read, true);
    }
    rt_mutex_unlock(&u->mu);
    rt_tensor_clear(&fresh);
    rt_tensor_clear(&table);
    kn_text_end(&x.weights);
    return st;
}

enum rt_status kn_fixed_of(struct rt_run *r, struct kn_fixed **out)
{
    struct rt_object *o = NULL;
    enum rt_status st = rt_run_node_resource(r, "fixed unigram distribution", fixed_make, &o);
    struct kn_fixed *u = (struct kn_fixed *)o;

    if (!st && !atomic_load(&u->is_read))
        st = fixed_read(r, u);
    if (st) {
        kn_fixed_unref(u);
        return st;
    }
    *out = u;
    return RT_OK;
}

void kn_fixed_unref(struct kn_fixed *u)
{
    rt_object_unref(u ? &u->o : NULL);
}

int64_t kn_fixed_draw(const struct kn_fixed *u, struct kn_singles *random)
{
    const float x = kn_unit_float(kn_next_bits(random));
    const uint32_t at = kn_below_32(random, (uint32_t)u->n);

    return x < cells_of(u)[at].keep ? (int64_t)at : cells_of(u)[at].alias;
}

float kn_fixed_probability(const struct kn_fixed *u, int64_t id)
{
    return weights_of(u)[id] / u->total;
}
