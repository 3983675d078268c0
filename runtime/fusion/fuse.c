#include "runtime/fusion/fuse.h"

#include <stdlib.h>
#include <string.h>

/* Removes targets that are pure and have readers. The stateful nodes of a function are targets,
 * because they must run even if no node reads them. A lookup in a frozen variable is one of these
 * targets, but it is pure and needs to run only if a running node reads its value. */
enum rt_status pl_drop_targets(struct pl_graph *g, struct rt_error *err)
{
    bool *is_read = calloc((size_t)g->n + 1, sizeof *is_read);
    int kept = 0;

    if (!is_read)
        return rt_fail_memory(err, "a plan", (size_t)g->n);
    pl_prune(g);
    for (int i = 0; i < g->n; i++)
        for (int k = 0; g->node[i].kind != PL_GONE && k < g->node[i].n_in; k++)
            is_read[g->node[i].in[k].node] = true;
    for (int k = 0; k < g->n_targets; k++) {
        const struct pl_node *n = &g->node[g->target[k]];
        if (n->kind != PL_OP || n->effect != RT_PURE || n->call || !is_read[g->target[k]])
            g->target[kept++] = g->target[k];
    }
    g->n_targets = kept;
    free(is_read);
    return RT_OK;
}
