/* Runs a plan's nodes in their order; memory goes back as soon as nobody reads it any more. */
#include "runtime/plan.h"

#include <string.h>

/* Bytes of an output whose making takes long enough to look at the clock after it. */
enum { LARGE = 1 << 20 };

enum rt_status rt_exec_order(struct rt_context *c, const struct rt_tensor *feeds,
                             struct rt_error *err)
{
    const struct rt_plan *p = c->plan;
    enum rt_status st = RT_OK;
    (void)feeds; /* in their values already */
    for (int i = 0; i < p->n_nodes; i++) {
        const struct pl_node *n = &p->node[i];
        if (n->kind == PL_CONST || n->kind == PL_FEED)
            continue;
        struct rt_tensor *in = c->in, *out = c->out;
        for (int k = 0; k < n->n_in; k++) {
            int v = n->in_value[k];
            in[k] = p->constant[v] ? *p->constant[v] : c->value[v];
        }
        memset(out, 0, (size_t)n->n_out * sizeof *out);
        st = rt_exec_node(c, i, in, n->last_use, out, err);
        /* What the node took is not ours to release, even if it failed. */
        for (int k = 0; k < n->n_in && k < 64; k++)
            if ((n->last_use >> k & 1) && c->value[n->in_value[k]].buf && !in[k].buf)
                c->value[n->in_value[k]] = (struct rt_tensor){0};
        if (st)
            break;
        for (int o = 0; o < n->n_out; o++)
            c->value[n->first_value + o] = out[o];
        for (int k = 0; k < n->n_release; k++)
            rt_tensor_clear(&c->value[n->release[k]]);
        bool is_large =
            n->n_out && c->value[n->first_value].buf && c->value[n->first_value].buf->size >= LARGE;
        if (((i & 7) == 7 || is_large) && (st = rt_context_check(c, err)) != RT_OK)
            break;
    }
    return st;
}
