/*
 * Runs a plan on a context. The order executor runs the nodes one by one and frees each value after
 * its last reader. If a segment has a specialisation for the current shapes, the executor runs the
 * specialisation instead of the nodes. The token executor (exec_token.c) runs plans with TensorFlow
 * 1's control flow.
 */
#include "runtime/exec/executor.h"
#include "runtime/plan/specialisation.h"

#include <string.h>

#include "runtime/session/resource.h"
#include "runtime/session/session_internal.h"

/* Minimum size in bytes of a large output. The deadline is checked after each large output, because
 * computing a large output may take long. */
enum { LARGE = 1 << 20 };

enum rt_status rt_exec_in_place(struct rt_context *c, int i, uint64_t last_use,
                                struct rt_error *err)
{
    const struct rt_plan *p = c->plan;
    const struct rt_plan_step *n = &p->node[i];
    struct rt_tensor *in = c->in, *out = c->out;
    for (int k = 0; k < n->n_in; k++) {
        int v = n->in_value[k];
        rt_alias_follow(&c->shared->aliases, &c->value[v]);
        in[k] = p->constant[v] ? *p->constant[v] : c->value[v];
    }
    if (n->n_out)
        memset(out, 0, (size_t)n->n_out * sizeof *out);
    enum rt_status st = rt_exec_node(c, i, in, last_use, out, err);
    /* The context no longer owns a value that the node took over, even if the node failed. */
    for (int k = 0; k < n->n_in && k < 64; k++)
        if ((last_use >> k & 1) && c->value[n->in_value[k]].buf && !in[k].buf)
            c->value[n->in_value[k]] = (struct rt_tensor){0};
    for (int o = 0; o < n->n_out && !st; o++)
        c->value[n->first_value + o] = out[o];
    return st;
}

static bool may_begin(const struct rt_context *c, int i)
{
    return i == 0 || atomic_load_explicit(&c->plan->segment[i], memory_order_relaxed);
}

enum rt_status rt_exec_order(struct rt_context *c, struct rt_error *err)
{
    const struct rt_plan *p = c->plan;
    const bool compiled = p->segment && c->shared->box;
    enum rt_status st = RT_OK;
    for (int i = 0; i < p->n_nodes;) {
        const struct rt_plan_step *n = &p->node[i];
        struct rt_instance *f = compiled && may_begin(c, i) ? rt_instance_find(c, i) : NULL;
        if (f) {
            st = rt_instance_run(c, f, err);
            if (st)
                break;
            i = rt_instance_end(f);
            continue;
        }
        i++;
        if (n->kind == PL_CONST || n->kind == PL_FEED)
            continue;
        st = rt_exec_in_place(c, i - 1, n->last_use, err);
        if (st)
            break;
        for (int k = 0; k < n->n_release; k++)
            rt_tensor_clear(&c->value[n->release[k]]);
        bool is_large =
            n->n_out && c->value[n->first_value].buf && c->value[n->first_value].buf->size >= LARGE;
        if (((i & 7) == 0 || is_large) && (st = rt_context_check(c, err)) != RT_OK)
            break;
    }
    return st;
}

static enum rt_status take_fetch(const struct rt_context *c, int k, struct rt_tensor *out,
                                 struct rt_error *err)
{
    const struct rt_plan *p = c->plan;
    int v = p->fetch_value[k];
    const struct rt_tensor *t = p->constant[v] ? p->constant[v] : &c->value[v];
    rt_alias_follow(&c->shared->aliases, &c->value[v]);
    if (t->dtype == RT_RESOURCE && p->fetch_dtype[k] != RT_RESOURCE) {
        struct rt_variable *var = rt_variable_of(t);
        if (!var)
            return rt_fail(err, RT_INVALID_ARGUMENT, "fetch %d is a handle of no variable", k);
        const struct rt_check check = rt_context_as_check(c);
        return rt_alias_read(&c->shared->aliases, var, out, &check, err);
    }
    if (!t->dtype)
        return rt_fail(err, RT_INTERNAL, "fetch %d has no value", k);
    rt_tensor_ref(out, t);
    return RT_OK;
}

enum rt_status rt_context_run(struct rt_context *c, const struct rt_tensor *feeds,
                              struct rt_tensor *fetches, struct rt_error *err)
{
    const struct rt_plan *p = c->plan;
    const bool moving = c->shared->moving;
    enum rt_status st = RT_OK;
    c->shared->moving = false;
    if (p->n_fetches)
        memset(fetches, 0, (size_t)p->n_fetches * sizeof *fetches);
    for (int k = 0; k < p->n_feeds; k++) {
        int v = p->feed_value[k];
        if (v < 0)
            continue;
        if (moving) {
            c->value[v] = feeds[k];
            ((struct rt_tensor *)(uintptr_t)feeds)[k] = (struct rt_tensor){0};
        } else
            rt_tensor_ref(&c->value[v], &feeds[k]);
    }
    st = p->tokens ? rt_exec_token(c, err) : rt_exec_order(c, err);
    for (int k = 0; k < p->n_fetches && !st; k++)
        st = take_fetch(c, k, &fetches[k], err);
    if (st)
        for (int k = 0; k < p->n_fetches; k++)
            rt_tensor_clear(&fetches[k]);
    for (int v = 0; v < p->n_values; v++)
        if (c->value[v].buf)
            rt_tensor_clear(&c->value[v]);
        else
            c->value[v].dtype = c->value[v].alias_of = 0;
    return st;
}

enum rt_status rt_plan_run(struct rt_plan *p, struct rt_run_shared *shared,
                           const struct rt_tensor *feeds, struct rt_tensor *fetches,
                           struct rt_error *err)
{
    struct rt_context *c = rt_context_take(p, shared);
    if (!c) {
        shared->moving = false;
        return rt_fail_memory(err, "a run", (size_t)p->n_values * sizeof *c->value);
    }
    const enum rt_status st = rt_context_run(c, feeds, fetches, err);
    rt_context_give(c);
    return st;
}
