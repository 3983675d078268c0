/*
 * CTCBeamSearchDecoder by prefix beam search. The prefixes that have been considered form a tree.
 * Each prefix has two probabilities: that of ending in a blank, and that of ending in its last
 * class. `old` holds them before a time step, and `now` after it. Probabilities are stored as
 * logarithms.
 */
#include <math.h>

#include "kernels/array/sort.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/nn/ctc.h"

enum {
    BLOCK = 64,      /* number of prefixes that are allocated together */
    EXTEND_COST = 8, /* work of extending a prefix by one class */
    MOVE_COST = 128, /* work per prefix that enters or leaves the beam */
};

struct score {
    double total, blank, label;
};
static const struct score impossible = {-INFINITY, -INFINITY, -INFINITY};

/* The prefix consists of `parent` followed by the class `label`. */
struct prefix {
    struct prefix *parent, *child, *next; /* `next` is the next child of the same parent */
    int64_t label;
    /* position in the order of entry into the beam; sorts prefixes of equal probability */
    int64_t order;
    bool is_branch; /* whether the prefix was in the beam before this time step */
    struct score old, now;
};
struct block {
    struct block *next;
    struct prefix at[BLOCK];
};

/* The most probable prefixes. When there are `most` of them, `at` is a heap with the least probable
 * one first. `branch` is the beam before this time step. */
struct search {
    struct rt_run *r;
    struct prefix **at, **branch;
    int64_t n, capacity, most, n_branches, order;
    struct prefix *root, *unused;
    struct block *blocks;
    struct prefix **child; /* the children of the prefix that is being extended, by class */
    double *logit;
    int64_t blank; /* the last class */
    bool is_float; /* whether probabilities are rounded to float, as TensorFlow's are */
    int64_t left;
};

static double rounded(const struct search *s, double v)
{
    return s->is_float ? (double)(float)v : v;
}

static double add_logs(const struct search *s, double a, double b)
{
    const double hi = a > b ? a : b, lo = a > b ? b : a;
    return lo == (double)-INFINITY ? hi : rounded(s, hi + log1p(exp(lo - hi)));
}

static bool is_active(const struct prefix *p)
{
    return p->now.total != (double)-INFINITY;
}

/* ---- the tree ---- */

static struct prefix *prefix_new(struct search *s, struct prefix *parent, int64_t label)
{
    if (!s->unused) {
        struct block *b = rt_run_alloc(s->r, sizeof *b);
        if (!b)
            return NULL;
        b->next = s->blocks;
        s->blocks = b;
        for (int i = 0; i < BLOCK; i++) {
            b->at[i].next = s->unused;
            s->unused = &b->at[i];
        }
    }
    struct prefix *p = s->unused;
    s->unused = p->next;
    *p = (struct prefix){.parent = parent, .label = label, .old = impossible, .now = impossible};
    if (parent) {
        p->next = parent->child;
        parent->child = p;
    }
    return p;
}

static void unlink_child(struct prefix *p)
{
    struct prefix **at = &p->parent->child;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
}

/* Removes a prefix if it is not in the beam and has no children, and then its ancestors under the
 * same conditions. */
static void prune(struct search *s, struct prefix *p)
{
    while (p->parent && !p->child && !p->is_branch && !is_active(p)) {
        struct prefix *parent = p->parent;
        unlink_child(p);
        p->next = s->unused;
        s->unused = p;
        p = parent;
    }
}

/* ---- the beam ---- */

static bool is_worse(const struct prefix *a, const struct prefix *b)
{
    return a->now.total < b->now.total || (a->now.total == b->now.total && a->order > b->order);
}

static void sink(struct search *s, int64_t i)
{
    struct prefix *p = s->at[i];

    for (int64_t c; (c = 2 * i + 1) < s->n; i = c) {
        if (c + 1 < s->n && is_worse(s->at[c + 1], s->at[c]))
            c++;
        if (!is_worse(s->at[c], p))
            break;
        s->at[i] = s->at[c];
        s->at[c] = p;
    }
}

static enum rt_status grow(struct search *s)
{
    const int64_t capacity = s->capacity ? 2 * s->capacity : BLOCK;
    struct prefix **at = rt_run_alloc(s->r, 2 * (size_t)capacity * sizeof *at);

    if (!at)
        return s->r->err->code;
    for (int64_t i = 0; i < s->n; i++)
        at[i] = s->at[i];
    for (int64_t i = 0; i < s->n_branches; i++)
        at[capacity + i] = s->branch[i];
    rt_pool_free(s->at);
    s->at = at;
    s->branch = at + capacity;
    s->capacity = capacity;
    return RT_OK;
}

/* Adds a prefix to the beam. If the beam is full, the least probable prefix is removed. */
static enum rt_status push(struct search *s, struct prefix *p)
{
    p->order = s->order++;
    if (s->n == s->most) {
        struct prefix *bottom = s->at[0];
        s->at[0] = p;
        sink(s, 0);
        bottom->now = impossible;
        prune(s, bottom);
        return rt_run_spend(s->r, &s->left, MOVE_COST);
    }
    if (s->n == s->capacity && grow(s))
        return s->r->err->code;
    s->at[s->n++] = p;
    for (int64_t i = s->n / 2; s->n == s->most && i-- > 0;)
        sink(s, i);
    return rt_run_spend(s->r, &s->left, s->n == s->most ? MOVE_COST + 8 * s->n : MOVE_COST);
}

/* Returns whether a prefix with probability `total` may enter the beam. */
static bool is_candidate(const struct search *s, double total)
{
    return total > (double)-INFINITY && (s->n < s->most || total > s->at[0]->now.total);
}

static int most_probable_first(const void *a, const void *b)
{
    const struct prefix *x = *(struct prefix *const *)a, *y = *(struct prefix *const *)b;
    return is_worse(y, x) ? -1 : is_worse(x, y);
}

/* ---- one time step ---- */

/* Computes the probabilities after this time step for the prefixes that were in the beam. */
static enum rt_status keep_branches(struct search *s)
{
    for (int64_t i = 0; i < s->n_branches; i++) {
        s->branch[i]->old = s->branch[i]->now;
        s->branch[i]->is_branch = true;
    }
    for (int64_t i = 0; i < s->n_branches; i++) {
        struct prefix *b = s->branch[i];
        const struct prefix *parent = b->parent;
        if (parent && is_active(parent))
            b->now.label = add_logs(
                s, b->now.label, b->label == parent->label ? parent->old.blank : parent->old.total);
        if (parent)
            b->now.label = rounded(s, b->now.label + s->logit[b->label]);
        b->now.blank = rounded(s, b->old.total + s->logit[s->blank]);
        b->now.total = add_logs(s, b->now.blank, b->now.label);
        if (push(s, b))
            return s->r->err->code;
    }
    return RT_OK;
}

/* Extends prefix b by every class. */
static enum rt_status extend(struct search *s, struct prefix *b)
{
    enum rt_status st = RT_OK;

    for (struct prefix *c = b->child; c; c = c->next)
        s->child[c->label] = c;
    for (int64_t k = 0; k < s->blank && !st; k++) {
        struct prefix *c = s->child[k];
        s->child[k] = NULL;
        st = rt_run_spend(s->r, &s->left, EXTEND_COST);
        if (st || (c && is_active(c)))
            continue;
        const double before = k == b->label ? b->old.blank : b->old.total;
        const double total = rounded(s, before + s->logit[k]);
        if (!is_candidate(s, total)) {
            /* As in TensorFlow, a branch that has left the beam is not extended. */
            if (c)
                c->old = impossible;
            continue;
        }
        if (!c && !(c = prefix_new(s, b, k)))
            return s->r->err->code;
        c->now = (struct score){total, -INFINITY, total};
        st = push(s, c);
    }
    return st;
}

static enum rt_status step(struct search *s)
{
    struct prefix **before = s->at;
    enum rt_status st = kn_sort(s->r, s->at, s->n, sizeof *s->at, most_probable_first);

    s->n_branches = s->n;
    s->n = 0;
    for (int64_t i = 0; i < s->n_branches; i++)
        s->branch[i] = before[i];
    st = st ? st : keep_branches(s);
    for (int64_t i = 0; i < s->n_branches && !st; i++)
        if (is_candidate(s, s->branch[i]->old.total))
            st = extend(s, s->branch[i]);
    for (int64_t i = 0; i < s->n_branches && !st; i++) {
        s->branch[i]->is_branch = false;
        if (!is_active(s->branch[i]))
            prune(s, s->branch[i]);
        st = rt_run_spend(s->r, &s->left, MOVE_COST);
    }
    return st;
}

/* Reads the logits of a time step and converts them to log-probabilities. */
static enum rt_status read_logits(struct search *s, const struct rt_tensor *x, int64_t from)
{
    double hi = -INFINITY, sum = 0;

    for (int64_t k = 0; k <= s->blank; k++) {
        s->logit[k] = x->dtype == RT_F32 ? (double)((const float *)x->data)[from + k]
                                         : ((const double *)x->data)[from + k];
        hi = s->logit[k] > hi ? s->logit[k] : hi;
        if (rt_run_spend(s->r, &s->left, 1))
            return s->r->err->code;
    }
    for (int64_t k = 0; k <= s->blank; k++) {
        sum += exp(s->logit[k] - hi);
        if (rt_run_spend(s->r, &s->left, EXTEND_COST))
            return s->r->err->code;
    }
    const double offset = rounded(s, hi + log(sum));
    for (int64_t k = 0; k <= s->blank; k++)
        s->logit[k] = rounded(s, s->logit[k] - offset);
    return rt_run_spend(s->r, &s->left, s->blank);
}

/* Searches batch element b. Afterwards, the beam is sorted. */
static enum rt_status search_one(struct search *s, const struct kn_ctc *c, int64_t b)
{
    enum rt_status st = RT_OK;

    s->unused = NULL;
    for (struct block *k = s->blocks; k; k = k->next)
        for (int i = 0; i < BLOCK; i++) {
            k->at[i].next = s->unused;
            s->unused = &k->at[i];
        }
    s->n = s->n_branches = s->order = 0;
    s->root = prefix_new(s, NULL, -1);
    if (!s->root)
        return s->r->err->code;
    s->root->now = (struct score){0, 0, -INFINITY};
    st = push(s, s->root);
    for (int64_t t = 0; t < c->length[b] && !st; t++) {
        st = read_logits(s, &s->r->in[0], (t * c->batch + b) * c->classes);
        st = st ? st : step(s);
    }
    return st ? st : kn_sort(s->r, s->at, s->n, sizeof *s->at, most_probable_first);
}

/* ---- results ---- */

/* The label sequences of one rank among the most probable paths, one sequence for each batch
 * element. */
struct path {
    int64_t *length; /* length of each batch element's sequence */
    int32_t *label;
    int64_t n, capacity;
};

static enum rt_status add_label(struct search *s, struct path *p, int64_t label)
{
    if (p->n == p->capacity) {
        const int64_t capacity = p->capacity ? 2 * p->capacity : BLOCK;
        int32_t *at = rt_run_alloc(s->r, (size_t)capacity * sizeof *at);
        if (!at)
            return s->r->err->code;
        for (int64_t i = 0; i < p->n; i++)
            at[i] = p->label[i];
        rt_pool_free(p->label);
        p->label = at;
        p->capacity = capacity;
    }
    p->label[p->n++] = (int32_t)label;
    return rt_run_spend(s->r, &s->left, 4);
}

static enum rt_status keep_path(struct search *s, struct path *p, int64_t b, int64_t rank,
                                bool merges)
{
    const int64_t from = p->n;
    int64_t before = -1;

    for (const struct prefix *at = s->at[rank]; at->parent; at = at->parent) {
        if (!(merges && at->label == before) && add_label(s, p, at->label))
            return s->r->err->code;
        before = at->label;
    }
    for (int64_t i = from, k = p->n - 1; i < k; i++, k--) {
        const int32_t label = p->label[i];
        p->label[i] = p->label[k];
        p->label[k] = label;
    }
    p->length[b] = p->n - from;
    return rt_run_spend(s->r, &s->left, p->n - from);
}

static enum rt_status decode(struct search *s, const struct kn_ctc *c, struct path *path,
                             int64_t n_paths)
{
    struct rt_run *r = s->r;
    const bool merges = rt_attr_bool(r->node, "merge_repeated");
    void *score = kn_out(r, (int)(3 * n_paths), 2, (int64_t[]){c->batch, n_paths});
    enum rt_status st = score ? RT_OK : r->err->code;

    for (int64_t b = 0; b < c->batch && !st; b++) {
        st = search_one(s, c, b);
        if (!st && s->n < n_paths)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Less leaves in the beam search than requested.");
        for (int64_t k = 0; k < n_paths && !st; k++) {
            const double total = s->at[k]->now.total;
            if (s->is_float)
                ((float *)score)[b * n_paths + k] = (float)total;
            else
                ((double *)score)[b * n_paths + k] = total;
            st = keep_path(s, &path[k], b, k, merges);
        }
    }
    for (int64_t k = 0; k < n_paths && !st; k++) {
        int64_t *value;
        st = kn_ctc_sparse(r, (int)k, (int)n_paths, c->batch, path[k].length, &value);
        for (int64_t i = 0; i < path[k].n && !st; i++) {
            value[i] = path[k].label[i];
            st = rt_run_tick(r, i);
        }
    }
    return st;
}

static enum rt_status beam_run(struct rt_run *r)
{
    const int64_t n_paths = rt_attr_int(r->node, "top_paths");
    struct kn_ctc c;
    enum rt_status st = kn_ctc_read(r, &c);

    if (st)
        return st;
    struct search s = {
        .r = r,
        .most = rt_attr_int(r->node, "beam_width"),
        .blank = c.classes - 1,
        .is_float = r->in[0].dtype == RT_F32,
        .left = RT_WORK,
    };
    if (n_paths > s.most)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "requested more paths than the beam width.");
    struct path *path = rt_run_alloc(r, (size_t)n_paths * (sizeof *path + (size_t)c.batch * 8));
    s.logit = path ? rt_run_alloc(r, (size_t)(c.classes + 1) * sizeof *s.logit) : NULL;
    s.child = s.logit ? rt_run_alloc(r, (size_t)(c.classes + 1) * sizeof(void *)) : NULL;
    for (int64_t k = 0; k < n_paths && s.child; k++)
        path[k].length = (int64_t *)(path + n_paths) + k * c.batch;
    st = s.child ? decode(&s, &c, path, n_paths) : r->err->code;
    for (int64_t k = 0; k < n_paths && path; k++)
        rt_pool_free(path[k].label);
    for (struct block *b = s.blocks, *next; b; b = next) {
        next = b->next;
        rt_pool_free(b);
    }
    rt_pool_free(s.at);
    rt_pool_free(s.child);
    rt_pool_free(s.logit);
    rt_pool_free(path);
    return st;
}

static enum rt_status beam_infer(struct rt_infer *x)
{
    return kn_ctc_infer_decoder(x, rt_attr_int(x->node, "top_paths"));
}

const struct kn_entry kn_ctc_beam_search_decoder = {
    .op = {.name = "CTCBeamSearchDecoder", .infer = beam_infer},
    .kernels = KN_CPU("CTCBeamSearchDecoder", "ctc_beam_search_decoder", KN_SET(KN_FLOATS), NULL,
                      beam_run),
};
