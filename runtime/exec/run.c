/* The functions of the runtime that a running kernel may call. */
#include "runtime/core/run.h"
#include "runtime/exec/context.h"
#include "runtime/session/session_internal.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/files/file_access.h"
#include "runtime/session/run_end.h"
#include "runtime/exec/parallel.h"
#include "runtime/select/prepared.h"
#include "runtime/session/resource.h"
#include "runtime/session/state.h"

void *rt_out(struct rt_run *r, int k, int rank, const int64_t *dim)
{
    struct rt_tensor *t = &r->out[k];
    rt_tensor_clear(t);
    if (rt_context_tensor(r->ctx, t, (enum rt_dtype)r->node->out_dtype[k], rank, dim, r->err))
        return NULL;
    return t->data;
}

enum rt_status rt_out_view(struct rt_run *r, int k, int in, int rank, const int64_t *dim)
{
    if (rank > RT_MAX_RANK)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "rank %d is above %d", rank, RT_MAX_RANK);
    const enum rt_status st =
        rt_shape_check((enum rt_dtype)r->in[in].dtype, rank, dim, NULL, r->err);
    if (st)
        return st;
    rt_tensor_clear(&r->out[k]);
    rt_tensor_ref(&r->out[k], &r->in[in]);
    r->out[k].rank = (int8_t)rank;
    if (rank)
        memmove(r->out[k].dim, dim, (size_t)rank * sizeof *dim);
    return RT_OK;
}

void rt_out_tensor(struct rt_run *r, int k, const struct rt_tensor *t)
{
    rt_tensor_clear(&r->out[k]);
    rt_tensor_ref(&r->out[k], t);
}

enum rt_status rt_out_object(struct rt_run *r, int k, struct rt_object *o)
{
    rt_tensor_clear(&r->out[k]);
    enum rt_dtype d = (enum rt_dtype)r->node->out_dtype[k];
    if (d != RT_VARIANT)
        d = RT_RESOURCE; /* A ref output contains a handle, whatever its declared dtype. */
    enum rt_status st = rt_tensor_object(&r->out[k], rt_run_pool(r), d, o, r->err);
    if (st)
        rt_object_unref(o);
    return st;
}

bool rt_take(struct rt_run *r, int k, struct rt_tensor *out)
{
    struct rt_tensor *in = &r->ctx->in[r->in - r->ctx->in + k];
    if (k >= 64 || !(r->last_use >> k & 1) || !in->buf || atomic_load(&in->buf->refs) != 1 ||
        in->buf->kind != RT_BUF_HEAP)
        return false;
    *out = *in;
    out->alias_of = 0;
    *in = (struct rt_tensor){0};
    return true;
}

void *rt_scratch(struct rt_run *r, size_t bytes)
{
    struct rt_context *c = r->ctx;
    return rt_context_scratch(c, &c->extra, &c->extra_capacity, bytes, r->node->name, r->err)
               ? NULL
               : c->extra;
}

void *rt_run_alloc(struct rt_run *r, size_t bytes)
{
    return rt_pool_alloc(rt_run_pool(r), bytes, r->node->name, r->err);
}

struct rt_pool *rt_run_pool(struct rt_run *r)
{
    return r->ctx->shared->pool;
}

const struct rt_state *rt_run_state(struct rt_run *r)
{
    return &r->ctx->shared->session->state;
}

const struct rt_file_access *rt_run_file_access(struct rt_run *r)
{
    return &r->ctx->shared->session->options.files;
}

bool rt_run_is_fetched(const struct rt_run *r, int k)
{
    const struct rt_plan *p = r->ctx->plan;
    if (!p || r->ctx->shared->depth > 0)
        return false;
    for (int i = 0; i < p->n_nodes; i++)
        for (int f = 0; p->node[i].def == r->node && f < p->n_fetches; f++)
            if (p->fetch_value[f] == p->node[i].first_value + k)
                return true;
    return false;
}

void rt_run_at_end(struct rt_run *r, struct rt_run_end *e)
{
    struct rt_run_shared *s = r->ctx->shared;

    e->next = s->ends;
    s->ends = e;
}

void rt_run_shared_end(struct rt_run_shared *s, bool has_succeeded)
{
    while (s->ends) {
        struct rt_run_end *e = s->ends;
        s->ends = e->next;
        e->end(e, has_succeeded);
    }
}

enum rt_status rt_run_shared_check(const struct rt_run_shared *s, struct rt_error *err)
{
    const struct rt_run_options options = {.deadline_ns = s->deadline_ns,
                                           .cancelled = s->cancelled,
                                           .all_cancelled = s->all_cancelled,
                                           .n_all_cancelled = s->n_all_cancelled};
    const enum rt_status st = rt_run_options_check(&options, err);
    if (st)
        return st;
    if (atomic_load_explicit(&s->session->ends, memory_order_relaxed))
        return rt_fail(err, RT_UNAVAILABLE, "the version was unloaded while the model ran");
    if (s->cpu_end_ns && rt_thread_cpu_ns() > s->cpu_end_ns)
        return rt_fail(err, RT_DEADLINE_EXCEEDED, "the time for this fold ended");
    return RT_OK;
}

enum rt_status rt_context_check(const struct rt_context *c, struct rt_error *err)
{
    return rt_run_shared_check(c->shared, err);
}

static enum rt_status check_shared(void *s, struct rt_error *err)
{
    return rt_run_shared_check(s, err);
}

struct rt_check rt_context_as_check(const struct rt_context *c)
{
    return (struct rt_check){check_shared, c->shared};
}

enum rt_status rt_run_shared_load(struct rt_run_shared *s, struct rt_tensor *t,
                                  struct rt_error *err)
{
    const struct rt_check check = {check_shared, s};
    return rt_tensor_load_checked(t, &check, err);
}

enum rt_status rt_context_load(struct rt_context *c, struct rt_tensor *t, struct rt_error *err)
{
    return rt_run_shared_load(c->shared, t, err);
}

enum rt_status rt_run_load(struct rt_run *r, struct rt_tensor *t)
{
    return rt_context_load(r->ctx, t, r->err);
}

enum rt_status rt_context_tensor(struct rt_context *c, struct rt_tensor *t, enum rt_dtype dtype,
                                 int rank, const int64_t *dim, struct rt_error *err)
{
    const struct rt_check check = rt_context_as_check(c);
    return rt_tensor_new_checked(t, c->shared->pool, dtype, rank, dim, &check, err);
}

enum rt_status rt_run_check(struct rt_run *r)
{
    return rt_context_check(r->ctx, r->err);
}

enum rt_status rt_run_lock(struct rt_run *r, struct rt_mutex *mu) RT_NO_ANALYSIS
{
    const struct rt_check check = rt_context_as_check(r->ctx);
    return rt_mutex_lock_checked(mu, &check, r->err);
}

/* Calls the run's hook before its first wait. */
static enum rt_status begin_waiting(struct rt_run *r, struct rt_mutex *mu) RT_NO_ANALYSIS
{
    struct rt_run_shared *s = r->ctx->shared;
    const struct rt_wait_hook *hook = s->on_wait;
    if (!hook)
        return RT_OK;
    s->on_wait = NULL;
    rt_mutex_unlock(mu);
    const enum rt_status st = hook->begin(hook->arg, r->err);
    s->computes_since_ns = st ? NULL : hook->computes_since_ns;
    rt_mutex_lock(mu);
    return st;
}

static void note_computing(const struct rt_run_shared *s, int64_t since_ns)
{
    if (s->computes_since_ns)
        atomic_store_explicit(s->computes_since_ns, since_ns, memory_order_relaxed);
}

enum rt_status rt_run_wait(struct rt_run *r, struct rt_cond *c, struct rt_mutex *mu) RT_NO_ANALYSIS
{
    /* Setting a cancellation flag does not signal `c`, so the flags are polled at this interval. */
    enum { POLL_NS = 50000000 };
    struct rt_run_shared *s = r->ctx->shared;
    const bool calls_hook = s->on_wait;
    const int64_t now = rt_now_ns(), end = s->deadline_ns ? s->deadline_ns : RT_NEVER;

    if (now >= end)
        return rt_fail(r->err, RT_DEADLINE_EXCEEDED, "Timed out waiting for notification");
    enum rt_status st = rt_run_check(r);
    if (!st)
        st = begin_waiting(r, mu);
    if (st || calls_hook) /* The condition may have changed while `mu` was released. */
        return st;
    struct rt_parallel *cores = s->alone ? NULL : s->session->options.parallel;
    rt_parallel_leave(cores);
    note_computing(s, 0);
    rt_cond_wait_until(c, mu, end < now + POLL_NS ? end : now + POLL_NS);
    note_computing(s, rt_thread_cpu_ns());
    rt_parallel_enter(cores);
    return RT_OK;
}

enum rt_status rt_run_resource(struct rt_run *r, const char *kind,
                               enum rt_status (*make)(const struct rt_make *make,
                                                      struct rt_object **out),
                               struct rt_object **out)
{
    return rt_session_resource(r->ctx->shared->session, r->node, kind, RT_KEY_NAME, make, out,
                               r->err);
}

enum rt_status rt_run_node_resource(struct rt_run *r, const char *kind,
                                    enum rt_status (*make)(const struct rt_make *make,
                                                           struct rt_object **out),
                                    struct rt_object **out)
{
    return rt_session_resource(r->ctx->shared->session, r->node, kind, RT_KEY_NODE, make, out,
                               r->err);
}

enum rt_status rt_run_only_resource(struct rt_run *r, const char *kind,
                                    enum rt_status (*make)(const struct rt_make *make,
                                                           struct rt_object **out),
                                    struct rt_object **out)
{
    return rt_session_resource(r->ctx->shared->session, r->node, kind, RT_KEY_NONE, make, out,
                               r->err);
}

static struct rt_parallel *parallel_of(const struct rt_run *r)
{
    const struct rt_run_shared *s = r->ctx->shared;
    return s->alone ? NULL : s->session->options.parallel;
}

int rt_run_width(const struct rt_run *r)
{
    return rt_parallel_free_width(parallel_of(r));
}

int rt_prep_width(const struct rt_prep *p)
{
    return rt_parallel_width(p->self->session->options.parallel);
}

void rt_run_parallel(struct rt_run *r, int64_t n, void (*shard)(void *arg, int64_t i), void *arg)
{
    rt_parallel_run(parallel_of(r), n, shard, arg);
}

uint64_t rt_run_entropy(struct rt_run *r)
{
    struct rt_session *s = r->ctx->shared->session;
    rt_mutex_lock(&s->mu);
    /* One step of splitmix64, which is in the public domain. */
    uint64_t x = s->entropy += UINT64_C(0x9e3779b97f4a7c15);
    rt_mutex_unlock(&s->mu);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void *rt_run_node_state(struct rt_run *r, size_t bytes,
                        void (*init)(void *state, const struct rt_node *n, uint64_t entropy))
{
    struct rt_session *s = r->ctx->shared->session;
    uint64_t entropy = rt_run_entropy(r);
    const struct rt_node *key = r->node;
    rt_mutex_lock(&s->mu);
    void *state = rt_map_getn(&s->node_states, (const char *)&key, sizeof key);
    if (!state && (state = calloc(1, bytes))) {
        init(state, r->node, entropy);
        if (!rt_map_putn(&s->node_states, (const char *)&key, sizeof key, state)) {
            free(state);
            state = NULL;
        }
    }
    rt_mutex_unlock(&s->mu);
    if (!state)
        rt_fail_memory(r->err, r->node->name, bytes);
    return state;
}
