/*
 * Algebraic simplification removes multiplications and divisions by a constant 1, such as the beta
 * of a swish or the scale of a layer. These operations change no float32 value except a signalling
 * NaN. Their readers then read the other operand directly, so that the patterns of other passes
 * match.
 */
#include "runtime/fusion/fuse.h"

#include <stdlib.h>

static bool is_one(const struct pl_graph *g, struct pl_edge e)
{
    float v; /* A scalar operand does not change the shape of the result. */
    return pl_float_constant(g, e, &v) && v == 1;
}

/* Returns the index of the input that the node passes on unchanged, or -1 if there is none. */
static int source_of(const struct pl_graph *g, const struct pl_node *n)
{
    if (!(pl_is(n, "Mul") || pl_is(n, "RealDiv")) || !n->def || n->call || n->n_in != 2 ||
        n->n_ctrl != 0 || n->def->out_dtype[0] != RT_F32)
        return -1;
    if (is_one(g, n->in[1]))
        return 0;
    return pl_is(n, "Mul") && is_one(g, n->in[0]) ? 1 : -1;
}

/* Returns the edge that replaces e: skips multiplications and divisions by 1. Shortens the path
 * through these nodes for later calls (path compression). */
static struct pl_edge resolve(struct pl_graph *g, const int *source, struct pl_edge e)
{
    while (e.out == 0 && source[e.node] >= 0) {
        struct pl_edge *from = &g->node[e.node].in[source[e.node]];
        if (from->out == 0 && source[from->node] >= 0)
            *from = g->node[from->node].in[source[from->node]];
        e = *from;
    }
    return e;
}

enum rt_status pl_simplify_algebra(struct pl_graph *g, struct rt_error *err)
{
    /* For each node, whether it is a fetch, a target, or the source of a control edge. */
    bool *stays = calloc((size_t)g->n + 1, sizeof *stays);
    int *source = calloc((size_t)g->n + 1, sizeof *source);

    if (!stays || !source) {
        free(stays);
        free(source);
        return rt_fail_memory(err, "a plan", (size_t)g->n * sizeof *source);
    }
    for (int i = 0; i < g->n; i++)
        for (int k = 0; g->node[i].kind != PL_GONE && k < g->node[i].n_ctrl; k++)
            stays[g->node[i].ctrl[k]] = true;
    for (int k = 0; k < g->n_fetches; k++)
        stays[g->fetch[k].node] = true;
    for (int k = 0; k < g->n_targets; k++)
        stays[g->target[k]] = true;
    for (int i = 0; i < g->n; i++) {
        const int k = stays[i] ? -1 : source_of(g, &g->node[i]);
        source[i] = k < 0 ? -1 : k;
    }
    for (int i = 0; i < g->n; i++)
        for (int k = 0; g->node[i].kind != PL_GONE && k < g->node[i].n_in; k++)
            g->node[i].in[k] = resolve(g, source, g->node[i].in[k]);
    for (int i = 0; i < g->n; i++)
        if (source[i] >= 0)
            g->node[i].kind = PL_GONE;
    free(stays);
    free(source);
    return RT_OK;
}
