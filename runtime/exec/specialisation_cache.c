/*
 * The cache of the specialisations of a session's plans, by segment and shapes, and the queue of
 * pending compilations. The segment stores a hash of the shapes of each miss. A second miss with
 * the same shapes enqueues a compilation (rt_session_compile). When there are too many
 * specialisations, the least recently used are evicted. A run holds a reference to each
 * specialisation that it uses, until the run ends.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/session/compiler.h"
#include "runtime/plan/specialisation.h"
#include "runtime/exec/context.h"
#include "runtime/session/session_internal.h"

enum {
    MAX_PER_SEGMENT = 48,
    MAX_SESSION_BYTES = 256 << 20,
    /*
     * Maximum number of specialisations of all sessions that share an idle cache. The idle cache
     * also limits their total size. Regardless of both limits, each session may have
     * LEAST_PER_SESSION specialisations, and specialisations of LEAST_SESSION_BYTES bytes in total.
     */
    MAX_IN_ALL = 2048,
    LEAST_PER_SESSION = 16,
    LEAST_SESSION_BYTES = 4 << 20,
    /* maximum number of hashes of missed shapes that a segment stores */
    MAX_SEEN = 256,
    MAX_PENDING = 64,
    /* A new specialisation may evict an old one only if the session has made more than STILL_USED
     * runs since the last use of the old one. Otherwise, a model with more shapes than the cache
     * can hold would compile the same shapes again and again. */
    STILL_USED = 2000,
};

enum sight { SEEN, REQUESTED, REFUSED };

struct rt_segment {
    int begin, n_live;
    int *live; /* values that exist where the segment begins and are read or fetched later */
    struct rt_specialisation *first;
    int n;
    struct {
        uint64_t hash; /* hash of the shapes, or 0 for an unused entry of `seen` */
        enum sight sight;
    } seen[MAX_SEEN];
    int next_seen;
};

static struct rt_segment *segment_new(struct rt_plan *p, int begin)
{
    struct rt_segment *g = calloc(1, sizeof *g);
    bool *live = calloc((size_t)p->n_values + 1, sizeof *live);
    if (!g || !live || !(g->live = calloc((size_t)p->n_values + 1, sizeof *g->live))) {
        free(g);
        free(live);
        return NULL;
    }
    g->begin = begin;
    for (int i = begin; i < p->n_nodes; i++)
        for (int k = 0; k < p->node[i].n_in; k++)
            live[p->node[i].in_value[k]] = true;
    for (int k = 0; k < p->n_fetches; k++)
        live[p->fetch_value[k]] = true;
    for (int i = 0; i < p->n_nodes; i++)
        if (i < begin || p->node[i].kind == PL_FEED)
            for (int o = 0; o < p->node[i].n_out; o++) {
                int v = p->node[i].first_value + o;
                if (live[v] && !p->constant[v])
                    g->live[g->n_live++] = v;
            }
    free(live);
    int *fitting = realloc(g->live, ((size_t)g->n_live + 1) * sizeof *fitting);
    g->live = fitting ? fitting : g->live;
    return g;
}

/* Returns the number of bytes that the segment adds to its session's plan_bytes. */
static size_t segment_bytes(const struct rt_segment *g)
{
    return sizeof *g + ((size_t)g->n_live + 1) * sizeof *g->live;
}

static void segment_free(struct rt_segment *g)
{
    free(g->live);
    free(g);
}

/* Returns the segment that begins at a node, or NULL if out of memory. Makes the segment on first
 * use. Making it reads the complete plan, so no lock is held. */
static struct rt_segment *segment_at(struct rt_plan *p, int begin)
{
    struct rt_segment *there = atomic_load_explicit(&p->segment[begin], memory_order_acquire);
    if (there)
        return there;
    struct rt_segment *g = segment_new(p, begin);
    if (!g)
        return NULL;
    if (atomic_compare_exchange_strong(&p->segment[begin], &there, g)) {
        atomic_fetch_add(&p->session->plan_bytes, segment_bytes(g));
        return g;
    }
    segment_free(g); /* Another thread has already made the segment. */
    return there;
}

static uint64_t hash_of(const struct rt_segment *g, const struct rt_tensor *value, int accelerator)
{
    uint64_t h = (uint64_t)accelerator;
    for (int k = 0; k < g->n_live; k++) {
        const struct rt_tensor *t = &value[g->live[k]];
        uint64_t x = rt_hash(t->dim, (size_t)(t->rank > 0 ? t->rank : 0) * sizeof *t->dim);
        h = (h ^ x ^ (uint64_t)t->dtype << 8 ^ (uint64_t)t->rank) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h | 1;
}

static bool is_for(const struct rt_specialisation *l, const struct rt_live *live)
{
    for (int k = 0; k < l->n_live; k++) {
        const struct rt_live *x = &l->live[k], *y = &live[k];
        if (x->dtype != y->dtype || x->shape.rank != y->shape.rank ||
            memcmp(x->shape.dim, y->shape.dim,
                   (size_t)(x->shape.rank > 0 ? x->shape.rank : 0) * sizeof *x->shape.dim) != 0)
            return false;
    }
    return true;
}

/* Returns whether the segment has a specialisation for these live values that runs on the
 * accelerator may use. Called under spec_mu. */
static bool is_made(const struct rt_segment *g, const struct rt_live *live, int accelerator)
{
    for (const struct rt_specialisation *l = g->first; l; l = l->next)
        if ((!l->n_regions || l->accelerator == accelerator) && is_for(l, live))
            return true;
    return false;
}

/* ---- pending compilations ---- */

static struct rt_pending_compilation *pending_new(struct rt_context *c, const struct rt_segment *g,
                                                  int accelerator)
{
    struct rt_pending_compilation *w = calloc(1, sizeof *w + (size_t)g->n_live * sizeof *w->live);
    if (!w)
        return NULL;
    w->plan = (struct rt_plan *)(uintptr_t)c->plan;
    w->box = rt_plan_box_ref(c->shared->box);
    w->begin = g->begin;
    w->accelerator = accelerator;
    w->n_live = g->n_live;
    for (int k = 0; k < g->n_live; k++) {
        const struct rt_tensor *t = &c->value[g->live[k]];
        w->live[k] = (struct rt_live){.value = g->live[k], .dtype = t->dtype};
        w->live[k].shape.rank = t->rank;
        memcpy(w->live[k].shape.dim, t->dim, sizeof t->dim);
    }
    return w;
}

static struct rt_specialisation *least_used(struct rt_session *s, const struct rt_segment *of);

/* Returns whether the limits allow `bytes` more bytes of specialisations. Each session is
 * guaranteed LEAST_SESSION_BYTES bytes. Called under spec_mu. */
static bool has_bytes(const struct rt_session *s, size_t bytes)
{
    const size_t all = atomic_load(&s->specialisation_bytes) + bytes;
    return all <= LEAST_SESSION_BYTES ||
           (all <= MAX_SESSION_BYTES && rt_idle_cache_fits_specialisation(s->idle_cache, bytes));
}

/* Returns whether a new specialisation must evict another one of its session. Called under
 * spec_mu. */
static bool is_full(const struct rt_session *s, size_t bytes)
{
    return s->n_specialisations &&
           (s->n_specialisations >= RT_SESSION_SPECIALISATIONS || !has_bytes(s, bytes) ||
            (s->n_specialisations >= LEAST_PER_SESSION &&
             rt_idle_cache_specialisations(s->idle_cache) >= MAX_IN_ALL));
}

/* Each accelerator has specialisations of its own. */
static int max_per_segment(const struct rt_session *s)
{
    return s->options.accelerators.n > 1 ? s->options.accelerators.n * MAX_PER_SEGMENT
                                         : MAX_PER_SEGMENT;
}

/* Returns whether the cache would accept a new specialisation of this segment. Called under
 * spec_mu. */
static bool has_capacity(struct rt_session *s, const struct rt_segment *g)
{
    const struct rt_specialisation *l = g->n >= max_per_segment(s) ? least_used(s, g)
                                        : is_full(s, 1)            ? least_used(s, NULL)
                                                                   : NULL;
    return !l || atomic_load(&s->runs) - atomic_load(&l->used) > STILL_USED;
}

static void enqueue(struct rt_session *s, struct rt_pending_compilation *w)
{
    *s->pending_end = w;
    s->pending_end = &w->next;
}

/* Records a cache miss. Returns true if it has counted a new compilation in n_pending; the caller
 * must then call `request` to enqueue it. Called under spec_mu. */
static bool missed(struct rt_session *s, struct rt_segment *g, uint64_t hash)
{
    int at = 0;
    while (at < MAX_SEEN && g->seen[at].hash != hash)
        at++;
    bool again = at < MAX_SEEN;
    if (!again) {
        at = g->next_seen;
        g->next_seen = (at + 1) % MAX_SEEN;
        g->seen[at].hash = hash;
        g->seen[at].sight = SEEN;
    }
    if (g->seen[at].sight != SEEN || (!again && !s->is_loading) || s->n_pending >= MAX_PENDING ||
        !has_capacity(s, g))
        return false;
    g->seen[at].sight = REQUESTED;
    s->n_pending++;
    return true;
}

/* While a version is being loaded, runs use only one accelerator. Requests the compilation for the
 * others too, because any of them may run the version later. */
static void request_on_others(struct rt_session *s, struct rt_context *c, struct rt_segment *g)
{
    for (int k = 0; k < s->options.accelerators.n; k++) {
        struct rt_pending_compilation *w =
            k == c->shared->accelerator ? NULL : pending_new(c, g, k);
        if (!w)
            continue;
        rt_mutex_lock(&s->spec_mu);
        const bool requests =
            s->is_loading && s->n_pending < MAX_PENDING && !is_made(g, w->live, k);
        s->n_pending += requests;
        if (requests)
            enqueue(s, w);
        rt_mutex_unlock(&s->spec_mu);
        if (!requests)
            rt_pending_compilation_free(w);
    }
}

/* Creates a pending compilation without holding the lock, and enqueues it. Called after `missed`
 * returned true. Returns false if out of memory; the next miss requests the compilation again. */
static bool request(struct rt_session *s, struct rt_context *c, struct rt_segment *g, uint64_t hash)
{
    struct rt_pending_compilation *w = pending_new(c, g, c->shared->accelerator);
    if (w)
        w->hash = hash;
    rt_mutex_lock(&s->spec_mu);
    if (w)
        enqueue(s, w);
    else
        s->n_pending--;
    for (int k = 0; !w && k < MAX_SEEN; k++)
        if (g->seen[k].hash == hash && g->seen[k].sight == REQUESTED)
            g->seen[k].sight = SEEN;
    rt_mutex_unlock(&s->spec_mu);
    if (w)
        request_on_others(s, c, g);
    return w != NULL;
}

static struct rt_specialisation *find(struct rt_context *c, int begin, bool *pending)
{
    struct rt_session *s = c->shared->session;
    struct rt_plan *p = (struct rt_plan *)(uintptr_t)c->plan;
    struct rt_specialisation *l = NULL;
    struct rt_segment *g = segment_at(p, begin);
    rt_mutex_lock(&s->spec_mu);
    for (struct rt_specialisation **at = g ? &g->first : NULL; at && *at; at = &(*at)->next)
        if (rt_segment_fits(*at, c)) {
            l = *at;
            *at = l->next;
            l->next = g->first;
            g->first = l;
            atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
            atomic_store_explicit(&l->used, atomic_load(&s->runs), memory_order_relaxed);
            break;
        }
    uint64_t hash = 0;
    bool requests = false;
    if (g && !l) {
        hash = hash_of(g, c->value, c->shared->accelerator);
        requests = missed(s, g, hash);
    }
    rt_mutex_unlock(&s->spec_mu);
    *pending = requests && request(s, c, g, hash);
    return l;
}

/* Wakes the compiler's thread, unless the session's version is still being loaded. A compilation in
 * progress at the end of loading would choose kernels after the model has been sealed. */
static void wake_compiler(struct rt_session *s)
{
    rt_mutex_lock(&s->spec_mu);
    const bool wake = s->options.compiler && s->pending && !s->is_loading;
    rt_mutex_unlock(&s->spec_mu);
    if (wake)
        rt_compiler_enqueue(s->options.compiler, s);
}

struct rt_specialisation *rt_segment_specialisation(struct rt_context *c, int begin)
{
    struct rt_session *s = c->shared->session;
    bool pending = false, ignored = false;
    struct rt_specialisation *l = find(c, begin, &pending);
    if (pending && s->options.compiles_inline) {
        s->compile(s);
        l = find(c, begin, &ignored);
    } else if (pending) {
        wake_compiler(s);
    }
    return l;
}

struct rt_specialisation *rt_segment_last(struct rt_plan *p, int begin)
{
    struct rt_session *s = p->session;
    struct rt_specialisation *l = NULL;
    rt_mutex_lock(&s->spec_mu);
    struct rt_segment *g = p->segment ? atomic_load(&p->segment[begin]) : NULL;
    for (l = g ? g->first : NULL; l && l->micro_batch;)
        l = l->next;
    if (l)
        atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    rt_mutex_unlock(&s->spec_mu);
    return l;
}

/* ---- publishing and eviction ---- */

/* Returns the number of rows of the first feed, or -1 if plan->compiled has no bit for this
 * number. */
static int64_t rows_of(const struct rt_specialisation *l)
{
    const struct rt_plan *p = l->plan;
    if (!p->compiled || l->begin || !l->n_live || l->live[0].shape.rank < 1)
        return -1;
    return l->live[0].shape.dim[0] < RT_COMPILED_ROWS ? l->live[0].shape.dim[0] : -1;
}

static void publish_rows(const struct rt_specialisation *l, bool compiled)
{
    const int64_t rows = rows_of(l);
    if (rows < 0)
        return;
    _Atomic uint64_t *word = &l->plan->compiled[rows / 64];
    if (compiled)
        atomic_fetch_or(word, UINT64_C(1) << rows % 64);
    else
        atomic_fetch_and(word, ~(UINT64_C(1) << rows % 64));
}

/*
 * Specialisations and instances that were removed under spec_mu, to be freed after the lock has
 * been released. Runs wait for this lock. A low-priority thread may hold it for as long as other
 * threads occupy its core, so the work under the lock is bounded and calls no allocator.
 * PTHREAD_PRIO_INHERIT would not help: in Linux, the holder of a mutex inherits only real-time
 * priorities, not nice values.
 */
struct forgotten {
    struct rt_specialisation *spec; /* list of specialisations, linked by `next` */
    struct rt_instance *instance;
};

static void forgotten_free(struct forgotten *f)
{
    rt_instances_free_list(f->instance);
    for (struct rt_specialisation *l = f->spec, *next; l; l = next) {
        next = l->next;
        rt_specialisation_unref(l);
    }
}

/* Removes a specialisation from its segment, and its instances from idle contexts. Called under
 * spec_mu. */
static void forget(struct rt_session *s, struct rt_specialisation *l, struct forgotten *to)
{
    struct rt_segment *g = atomic_load(&l->plan->segment[l->begin]);
    struct rt_specialisation **at = &g->first;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    g->n--;
    for (int k = 0; k < s->n_specialisations; k++)
        if (s->spec[k] == l) {
            s->spec[k] = s->spec[--s->n_specialisations];
            break;
        }
    atomic_fetch_sub(&s->specialisation_bytes, l->bytes);
    rt_idle_cache_remove_specialisation(s->idle_cache, l->bytes);
    bool others = false;
    for (const struct rt_specialisation *x = g->first; x; x = x->next)
        others |= rows_of(x) == rows_of(l);
    if (!others)
        publish_rows(l, false);
    atomic_store(&l->retired, true);
    atomic_fetch_add(&s->retirements, 1);
    /* Shapes of an evicted specialisation count as new when they occur again. */
    for (int k = 0; k < MAX_SEEN; k++)
        if (g->seen[k].sight == REQUESTED)
            g->seen[k].hash = 0;
    /* Collects the retired instances under the lock, because the plan may be freed once the lock is
     * released. */
    rt_contexts_take_retired(l->plan, &to->instance);
    l->next = to->spec;
    to->spec = l;
}

static struct rt_specialisation *least_used(struct rt_session *s, const struct rt_segment *of)
{
    struct rt_specialisation *least = NULL;
    for (int k = 0; k < s->n_specialisations; k++) {
        struct rt_specialisation *l = s->spec[k];
        if (of && (l->plan->segment[l->begin] != of))
            continue;
        if (!least || atomic_load(&l->used) < atomic_load(&least->used))
            least = l;
    }
    return least;
}

void rt_specialisation_publish(struct rt_session *s, struct rt_specialisation *l)
{
    struct rt_plan *p = l->plan;
    const int end = l->end;
    struct rt_segment *g = segment_at(p, l->begin);
    struct forgotten old = {NULL, NULL};
    rt_mutex_lock(&s->spec_mu);
    bool fits = g && !is_made(g, l->live, l->accelerator);
    if (fits && g->n >= max_per_segment(s))
        forget(s, least_used(s, g), &old);
    while (fits && is_full(s, l->bytes))
        forget(s, least_used(s, NULL), &old);
    fits = fits && has_bytes(s, l->bytes);
    if (fits) {
        s->spec[s->n_specialisations++] = l;
        atomic_fetch_add(&s->specialisation_bytes, l->bytes);
        rt_idle_cache_add_specialisation(s->idle_cache, l->bytes);
        atomic_store(&l->used, atomic_load(&s->runs));
        l->next = g->first;
        g->first = l;
        g->n++;
        publish_rows(l, true);
    }
    rt_mutex_unlock(&s->spec_mu);
    forgotten_free(&old);
    if (!fits)
        rt_specialisation_unref(l);
    else if (end < p->n_nodes)
        segment_at(p, end);
}

bool rt_pending_compilation_is_made(struct rt_session *s, const struct rt_pending_compilation *w)
{
    const struct rt_segment *g = segment_at(w->plan, w->begin);
    rt_mutex_lock(&s->spec_mu);
    const bool made = g && is_made(g, w->live, w->accelerator);
    rt_mutex_unlock(&s->spec_mu);
    return made;
}

void rt_pending_compilation_refuse(struct rt_session *s, const struct rt_pending_compilation *w)
{
    struct rt_segment *g = segment_at(w->plan, w->begin);
    rt_mutex_lock(&s->spec_mu);
    for (int k = 0; g && k < MAX_SEEN; k++)
        if (g->seen[k].hash == w->hash)
            g->seen[k].sight = REFUSED;
    rt_mutex_unlock(&s->spec_mu);
}

struct rt_pending_compilation *rt_pending_compilation_take(struct rt_session *s)
{
    rt_mutex_lock(&s->spec_mu);
    struct rt_pending_compilation *w = s->pending;
    if (w) {
        s->pending = w->next;
        s->n_pending--;
        if (!w->next)
            s->pending_end = &s->pending;
        w->next = NULL;
        w->memory_freed = s->memory_freed;
    }
    rt_mutex_unlock(&s->spec_mu);
    return w;
}

bool rt_pending_compilation_waits(struct rt_session *s, struct rt_pending_compilation *w,
                                  enum rt_status st)
{
    if (st != RT_RESOURCE_EXHAUSTED || !(s->options.accelerators.waits >> w->accelerator & 1))
        return false;
    rt_mutex_lock(&s->spec_mu);
    const bool waits = s->n_waiting < MAX_PENDING;
    if (waits && w->memory_freed != s->memory_freed) {
        enqueue(s, w); /* Memory has been freed meanwhile. */
        s->n_pending++;
    } else if (waits) {
        w->next = s->waiting;
        s->waiting = w;
        s->n_waiting++;
    }
    rt_mutex_unlock(&s->spec_mu);
    return waits;
}

/* Puts the waiting compilations back into the queue. */
static void end_waits(struct rt_session *s)
{
    rt_mutex_lock(&s->spec_mu);
    s->memory_freed++;
    for (struct rt_pending_compilation *w; (w = s->waiting);) {
        s->waiting = w->next;
        w->next = NULL;
        enqueue(s, w);
        s->n_pending++;
    }
    s->n_waiting = 0;
    rt_mutex_unlock(&s->spec_mu);
}

void rt_session_memory_freed(struct rt_session *s)
{
    if (!s->options.accelerators.waits)
        return;
    end_waits(s);
    wake_compiler(s);
}

void rt_pending_compilation_free(struct rt_pending_compilation *w)
{
    rt_plan_box_unref(w->box);
    free(w);
}

void rt_session_loading(struct rt_session *s, bool yes, const _Atomic bool *cancelled)
{
    rt_mutex_lock(&s->spec_mu);
    s->is_loading = yes || s->options.compiles_inline;
    rt_mutex_unlock(&s->spec_mu);
    if (yes && s->options.compiler)
        rt_compiler_leave(s->options.compiler, s);
    /* No lock is needed: the compiler's thread no longer serves the session, and no other thread
     * reads s->options.cancelled now. */
    s->options.cancelled = cancelled;
    rt_session_count_as_load(s, yes);
    if (!yes)
        wake_compiler(s);
}

/* Fills `live` with the feeds, in the order of the live values of the plan's first segment. Returns
 * their number, or -1 if out of memory. */
static int live_feeds(struct rt_plan *p, const struct rt_shape *shapes, struct rt_live *live)
{
    const struct rt_segment *g = segment_at(p, 0);
    /* For each value, the index of its feed plus 1, or 0 if the value is not fed. */
    int *feed_of = calloc((size_t)p->n_values + 1, sizeof *feed_of);
    int n = 0;
    for (int k = 0; feed_of && k < p->n_feeds; k++)
        if (p->feed_value[k] >= 0)
            feed_of[p->feed_value[k]] = k + 1;
    for (int j = 0; g && feed_of && j < g->n_live; j++) {
        const int k = feed_of[g->live[j]] - 1;
        if (k >= 0)
            live[n++] = (struct rt_live){
                .value = g->live[j], .dtype = p->feed_dtype[k], .shape = shapes[k]};
    }
    const bool ok = g && feed_of;
    free(feed_of);
    return ok ? n : -1;
}

static void request_on(struct rt_plan_box *b, const struct rt_shape *shapes, int accelerator)
{
    struct rt_session *s = b->plan->session;
    struct rt_pending_compilation *w =
        calloc(1, sizeof *w + ((size_t)b->plan->n_feeds + 1) * sizeof *w->live);
    const int n = w ? live_feeds(b->plan, shapes, w->live) : -1;
    if (n < 0) {
        free(w);
        return;
    }
    w->plan = b->plan;
    w->accelerator = accelerator;
    w->box = rt_plan_box_ref(b);
    w->n_live = n;
    const struct rt_segment *g = segment_at(b->plan, 0);
    rt_mutex_lock(&s->spec_mu);
    const bool requests = s->n_pending < MAX_PENDING && g && !is_made(g, w->live, accelerator);
    if (requests) {
        s->n_pending++;
        enqueue(s, w);
    }
    rt_mutex_unlock(&s->spec_mu);
    if (!requests)
        rt_pending_compilation_free(w);
    else
        wake_compiler(s);
}

void rt_segment_request(struct rt_plan_box *b, const struct rt_shape *shapes)
{
    request_on(b, shapes, 0);
    for (int k = 1; k < b->plan->session->options.accelerators.n; k++)
        request_on(b, shapes, k);
}

/* ---- freeing ---- */

void rt_segments_free(struct rt_plan *p)
{
    if (!p->segment)
        return;
    struct forgotten old = {NULL, NULL};
    rt_mutex_lock(&p->session->spec_mu);
    for (int i = 0; i <= p->n_nodes; i++)
        for (struct rt_segment *g = atomic_load(&p->segment[i]); g && g->first;)
            forget(p->session, g->first, &old);
    rt_mutex_unlock(&p->session->spec_mu);
    forgotten_free(&old);
    for (int i = 0; i <= p->n_nodes; i++) {
        struct rt_segment *g = atomic_load(&p->segment[i]);
        if (g) {
            atomic_fetch_sub(&p->session->plan_bytes, segment_bytes(g));
            segment_free(g);
        }
        atomic_store(&p->segment[i], NULL);
    }
}

void rt_pending_compilations_free(struct rt_session *s)
{
    end_waits(s);
    for (struct rt_pending_compilation *w; (w = rt_pending_compilation_take(s));)
        rt_pending_compilation_free(w);
}
