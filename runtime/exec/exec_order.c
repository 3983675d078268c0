/* Runs a plan's nodes in their order; memory goes back as soon as nobody reads it any more. What is
 * compiled for the shapes that are there is run as a whole. */
#include "runtime/plan/layout.h"

#include <string.h>

/* Bytes of an output whose making takes long enough to look at the clock after it. */
enum { LARGE = 1 << 20 };

enum rt_status rt_exec_in_place(struct rt_context *c, int i, uint64_t last_use,
                                struct rt_error *err)
{
    const struct rt_plan *p = c->plan;
    const struct pl_node *n = &p->node[i];
    struct rt_tensor *in = c->in, *out = c->out;
    for (int k = 0; k < n->n_in; k++) {
        int v = n->in_value[k];
        rt_alias_follow(&c->shared->aliases, &c->value[v]);
        in[k] = p->constant[v] ? *p->constant[v] : c->value[v];
    }
    if (n->n_out)
        memset(out, 0, (size_t)n->n_out * sizeof *out);
    enum rt_status st = rt_exec_node(c, i, in, last_use, out, err);
    /* What the node took is not ours to release, even if it failed. */
    for (int k = 0; k < n->n_in && k < 64; k++)
        if ((last_use >> k & 1) && c->value[n->in_value[k]].buf && !in[k].buf)
            c->value[n->in_value[k]] = (struct rt_tensor){0};
    for (int o = 0; o < n->n_out && !st; o++)
        c->value[n->first_value + o] = out[o];
    return st;
}

/* Whether a segment may begin at node i. */
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
        const struct pl_node *n = &p->node[i];
        struct rt_frame *f = compiled && may_begin(c, i) ? rt_frame_find(c, i) : NULL;
        if (f) {
            st = rt_frame_run(c, f, err);
            if (st)
                break;
            i = rt_frame_end(f);
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
