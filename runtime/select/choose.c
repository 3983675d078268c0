/*
 * Kernel selection chooses the kernel that runs a node with given shapes. The rule chooses the
 * kernel whose `can` returns the highest rank. If this kernel and others are RT_K_TIMED, the
 * autotune cache (autotune.h) chooses instead. If the cache has no entry and the session has time
 * left for benchmarks, a benchmark (benchmark.c) chooses. After pl_chooser_seal, neither the cache
 * nor benchmarks are used.
 *
 * A choice made before pl_chooser_seal holds for all later shapes with the same op and constant, so
 * that the constant is packed in only one form. Every later choice is made by the rule alone and
 * holds for one shape. It therefore does not depend on the order of requests.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/select/autotune.h"
#include "runtime/base/log.h"
#include "runtime/select/candidate.h"
#include "runtime/select/benchmark.h"
#include "runtime/select/choose.h"
#include "runtime/select/prepared.h"
#include "runtime/session/session_internal.h"
#include "runtime/core/op.h"

enum { BENCHMARK_MS = 300, REASON_BYTES = 1 << 20 };

struct pl_chooser {
    struct rt_mutex mu;
    struct rt_map held; /* Maps a struct held_key to a struct rt_kernel. Guarded by mu. */
    /* Maps a struct held_key to the reason why its kernel was chosen, a string in `arena`. Guarded
     * by mu. */
    struct rt_map reason;
    struct rt_arena *arena;
    /* Generated constants for benchmarks, or NULL while a benchmark uses them. Guarded by mu. */
    struct rt_pack *packs;
    bool sealed;      /* whether pl_chooser_seal was called; guarded by mu */
    int64_t left_ns;  /* time left for benchmarks, in ns; guarded by mu */
    int n_benchmarks; /* number of nodes whose kernels were timed; guarded by mu */
    /* number of nodes whose kernel was found in the autotune cache; guarded by mu */
    int remembered;
    /* number of nodes that were not timed because no time was left for benchmarks; guarded by mu */
    int untimed;
};

struct pl_chooser *pl_chooser_new(void)
{
    struct pl_chooser *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    rt_mutex_init(&c->mu);
    rt_map_init(&c->held);
    rt_map_init(&c->reason);
    /* Without an arena, the reasons for choices are less detailed. */
    c->arena = rt_arena_new(REASON_BYTES);
    c->left_ns = BENCHMARK_MS * INT64_C(1000000);
    return c;
}

void pl_chooser_free(struct pl_chooser *c)
{
    if (!c)
        return;
    rt_map_clear(&c->held);
    rt_map_clear(&c->reason);
    rt_arena_free(c->arena);
    pl_benchmark_packs_free(c->packs);
    rt_mutex_clear(&c->mu);
    free(c);
}

void pl_chooser_seal(struct rt_session *s)
{
    struct rt_error err = {.arena = NULL};

    rt_mutex_lock(&s->chooser->mu);
    s->chooser->sealed = true;
    pl_benchmark_packs_free(s->chooser->packs);
    s->chooser->packs = NULL;
    rt_mutex_unlock(&s->chooser->mu);
    if (s->options.autotune && !s->options.tuning.no_autotune &&
        rt_autotune_save(s->options.autotune, &err))
        RT_LOG(RT_LOG_WARNING, "autotune_cache: what timing found is not kept: %s",
               rt_error_text(&err));
}

struct rt_autotune_stats rt_autotune_stats(struct rt_session *s)
{
    rt_mutex_lock(&s->chooser->mu);
    const struct rt_autotune_stats took = {.timed = s->chooser->n_benchmarks,
                                           .remembered = s->chooser->remembered,
                                           .untimed = s->chooser->untimed,
                                           .ns = BENCHMARK_MS * INT64_C(1000000) -
                                                 s->chooser->left_ns};
    rt_mutex_unlock(&s->chooser->mu);
    return took;
}

/* ---- candidates ---- */

struct candidates {
    /* `n_timed` is the number of RT_K_TIMED kernels, which come first. `n_timed` is 0 if the best
     * kernel is not RT_K_TIMED. */
    int n, n_timed;
    const struct rt_kernel *kernel[PL_MOST_KERNELS];
    int rank[PL_MOST_KERNELS];
};

static void add_sorted(struct candidates *c, const struct rt_kernel *k, int rank)
{
    int at = c->n++;
    for (; at > 0 && c->rank[at - 1] < rank; at--) {
        c->kernel[at] = c->kernel[at - 1];
        c->rank[at] = c->rank[at - 1];
    }
    c->kernel[at] = k;
    c->rank[at] = rank;
}

/* Sorts the kernels that can run the node by rank; kernels of equal rank keep the order of the
 * table. If the best kernel is RT_K_TIMED, moves all RT_K_TIMED kernels to the front. */
static void find_candidates(struct candidates *c, const struct rt_prep *prep,
                            const struct rt_kernel *const *kernels, int n)
{
    struct candidates all = {0};

    assert(n <= PL_MOST_KERNELS);
    for (int k = 0; k < n; k++) {
        const int rank = kernels[k]->can ? kernels[k]->can(prep) : 1;
        if (rank > 0)
            add_sorted(&all, kernels[k], rank);
    }
    const bool timed = all.n && (all.kernel[0]->flags & RT_K_TIMED);
    *c = (struct candidates){0};
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < all.n; k++)
            if (!(timed && (all.kernel[k]->flags & RT_K_TIMED)) == (pass == 1)) {
                c->n_timed += pass == 0;
                c->rank[c->n] = all.rank[k];
                c->kernel[c->n++] = all.kernel[k];
            }
}

static void put_first(struct candidates *c, int k)
{
    const struct rt_kernel *best = c->kernel[k];
    memmove(c->kernel + 1, c->kernel, (size_t)k * sizeof *c->kernel);
    c->kernel[0] = best;
}

/* Moves a timed candidate to the front of the list. The candidate is `kernel`, or the kernel with
 * the name `name`. Returns false if the list does not contain the candidate. */
static bool prefer(struct candidates *c, const struct rt_kernel *kernel, const char *name)
{
    for (int k = 0; k < c->n_timed; k++)
        if (c->kernel[k] == kernel || (name && strcmp(c->kernel[k]->name, name) == 0)) {
            put_first(c, k);
            return true;
        }
    return false;
}

/* ---- choices that hold for a constant ---- */

struct held_key {
    const struct rt_buffer *buf;
    const struct rt_op *op;
};

/* Makes the key of a choice from the op and the node's largest constant, because this constant is
 * the packed one. Returns false if the node has no constant. */
static bool held_key(const struct rt_prep *prep, struct held_key *key)
{
    const struct rt_plan_step *n = prep->self->node;
    size_t most = 0;

    memset(key, 0, sizeof *key); /* Keys are compared as bytes, including padding. */
    key->op = prep->node->op;
    for (int k = 0; k < prep->n_in && k < 64; k++) {
        const struct rt_tensor *t = prep->in[k].value;
        if ((n->const_in >> k & 1) && t && t->buf && rt_tensor_bytes(t) > most) {
            most = rt_tensor_bytes(t);
            key->buf = t->buf;
        }
    }
    return key->buf != NULL;
}

/* ---- choice by timing ---- */

/* Returns the shape of the first input that is not a constant, for the log. */
static const char *benchmarked_shape(const struct rt_prep *prep, char *buffer, size_t n)
{
    for (int k = 0; k < prep->n_in && k < 64; k++)
        if (!(prep->self->node->const_in >> k & 1) && prep->in[k].shape.rank >= 0)
            return rt_shape_text(buffer, n, prep->in[k].shape.rank, prep->in[k].shape.dim);
    return "";
}

/* Returns a string that lists the times of a benchmark, the fastest kernel first. The caller holds
 * mu. */
static const char *benchmark_text(struct pl_chooser *chooser, const struct rt_prep *prep,
                                  const struct candidates *c, int best, const int64_t *ns)
{
    static const char plain[] = "by timing";
    char buffer[256];
    const char *shape = benchmarked_shape(prep, buffer, sizeof buffer), *text = plain;
    for (int k = 0; k < c->n_timed && chooser->arena; k++) {
        const int j = k == 0 ? best : k <= best ? k - 1 : k;
        if (ns[j] < 0)
            continue;
        text = text != plain ? rt_arena_printf(chooser->arena, "%s, %s %.4f ms", text,
                                               c->kernel[j]->name, (double)ns[j] / 1e6)
                             : rt_arena_printf(chooser->arena, "%s%s%s: %s %.4f ms", plain,
                                               *shape ? " at " : "", shape, c->kernel[j]->name,
                                               (double)ns[j] / 1e6);
        if (!text)
            return plain;
    }
    return text;
}

static const char *by_timing(struct rt_prep *prep, struct candidates *c)
{
    struct rt_session *s = prep->self->session;
    struct rt_autotune *a = s->options.autotune;
    char key[RT_AUTOTUNE_KEY], name[RT_AUTOTUNE_NAME] = "";
    const char *names[PL_MOST_KERNELS];
    const char *reason = "";
    int64_t ns[PL_MOST_KERNELS];
    int best = -1;

    for (int k = 0; k < c->n_timed; k++)
        names[k] = c->kernel[k]->name;
    const bool has_key = rt_autotune_key(prep, names, c->n_timed, key);
    if (a && has_key) {
        rt_autotune_find(a, key, name);
        if (*name && prefer(c, NULL, name)) {
            rt_mutex_lock(&s->chooser->mu);
            s->chooser->remembered++;
            rt_mutex_unlock(&s->chooser->mu);
            return "remembered";
        }
    }
    rt_mutex_lock(&s->chooser->mu);
    int64_t left = s->chooser->left_ns;
    s->chooser->untimed += left <= 0;
    struct rt_pack *packs = left > 0 ? s->chooser->packs : NULL;
    if (packs)
        s->chooser->packs = NULL;
    rt_mutex_unlock(&s->chooser->mu);
    if (left <= 0)
        return "by rule, the time for trials is over";
    const int64_t before = left;
    best = pl_benchmark(prep, c->kernel, c->n_timed, &packs, &left, ns);
    rt_mutex_lock(&s->chooser->mu);
    if (!s->chooser->packs && !s->chooser->sealed) {
        s->chooser->packs = packs;
        packs = NULL;
    }
    s->chooser->left_ns -= before - left;
    s->chooser->n_benchmarks++;
    if (best >= 0)
        reason = benchmark_text(s->chooser, prep, c, best, ns);
    rt_mutex_unlock(&s->chooser->mu);
    pl_benchmark_packs_free(packs);
    RT_LOG(RT_LOG_DEBUG, "autotune: %s: %s, in %lld us", key,
           best < 0 ? "cannot be tried" : c->kernel[best]->name, (long long)(before - left) / 1000);
    if (best < 0)
        return "by rule, it cannot be tried";
    put_first(c, best);
    if (a && has_key)
        rt_autotune_put(a, key, c->kernel[0]->name);
    return reason;
}

/* ---- the choice ---- */

enum rt_status pl_prepare_candidate(struct rt_prep *prep, const struct rt_kernel *k)
{
    struct rt_prepared *p = prep->self;

    p->kernel = k;
    p->state = NULL;
    p->release = NULL;
    prep->scratch_bytes = 0;
    prep->release = NULL;
    const enum rt_status st = k->prepare ? k->prepare(prep, &p->state) : RT_OK;
    if (!st) {
        p->release = prep->release;
    } else if (p->state) {
        if (prep->release)
            prep->release(p->state);
        p->state = NULL;
    }
    p->scratch_bytes = prep->scratch_bytes;
    return st;
}

enum rt_status rt_choose_kernel(struct rt_prep *prep, const struct rt_kernel *const *kernels, int n)
{
    struct pl_chooser *chooser = prep->self->session->chooser;
    const struct rt_kernel *held = NULL;
    const char *reason = NULL;
    struct held_key key;
    struct candidates c;
    bool holds = false;
    enum rt_status st = RT_OK;

    find_candidates(&c, prep, kernels, n);
    if (!c.n)
        return rt_fail(prep->err, RT_UNIMPLEMENTED, "no kernel of %s takes these inputs (T=%s)",
                       prep->node->op->name,
                       prep->n_in ? rt_dtype_name(prep->in[0].dtype) : "none");
    prep->self->why = c.n > 1 ? "by rule" : "the only one";
    /* Benchmarks time kernels on the CPU only. */
    if (c.n_timed > 1 && !prep->self->device) {
        holds = held_key(prep, &key);
        rt_mutex_lock(&chooser->mu);
        const bool sealed = chooser->sealed;
        if (holds)
            held = rt_map_getn(&chooser->held, (const char *)&key, sizeof key);
        if (held)
            reason = rt_map_getn(&chooser->reason, (const char *)&key, sizeof key);
        rt_mutex_unlock(&chooser->mu);
        holds = holds && !held && !sealed;
        if (held && prefer(&c, held, NULL))
            prep->self->why = reason ? reason : "its constant is held so";
        else if (!sealed && !prep->tuning->no_autotune)
            prep->self->why = by_timing(prep, &c);
    }
    for (int k = 0; k < c.n; k++) {
        st = pl_prepare_candidate(prep, c.kernel[k]);
        /* A kernel returns RT_FAILED_PRECONDITION if the sums that it computes with this constant
         * would not be accurate enough, or if its library does not support the shape. The next
         * candidate is then tried. */
        if (st != RT_FAILED_PRECONDITION || k + 1 >= c.n)
            break;
        prep->self->why = "another refuses";
    }
    if (!st && holds) {
        rt_mutex_lock(&chooser->mu);
        if (!chooser->sealed) { /* Another thread may have sealed the chooser in the meantime. */
            rt_map_putn(&chooser->held, (const char *)&key, sizeof key,
                        (void *)(uintptr_t)prep->self->kernel);
            rt_map_putn(&chooser->reason, (const char *)&key, sizeof key,
                        (void *)(uintptr_t)prep->self->why);
        }
        rt_mutex_unlock(&chooser->mu);
    }
    return st;
}
