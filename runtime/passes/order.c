/* The topological order of a graph's nodes, in which a plan runs them. */
#include <stdlib.h>
#include <string.h>

#include "runtime/passes/passes.h"

/* The walk is depth first from targets and fetches, so that nodes that depend on each other run
 * close together. The only cycles are those that import allows, through NextIteration, which the
 * token executor runs. */
enum rt_status pl_order(const struct pl_graph *g, int *order, int *n_order, struct rt_error *err)
{
    enum { NEW, OPEN, DONE };
    unsigned char *mark = calloc((size_t)g->n + 1, 1);
    struct {
        int node, k;
    } *stack = malloc(((size_t)g->n + 1) * sizeof *stack);
    enum rt_status st = RT_OK;
    int depth = 0, n = 0;
    if (!mark || !stack) {
        st = rt_fail_memory(err, "a plan", (size_t)g->n);
        goto end;
    }
    for (int r = 0; r < g->n_targets + g->n_fetches + g->n_feeds; r++) {
        int root = r < g->n_targets                  ? g->target[r]
                   : r < g->n_targets + g->n_fetches ? g->fetch[r - g->n_targets].node
                                                     : r - g->n_targets - g->n_fetches;
        if (mark[root] != NEW)
            continue;
        mark[root] = OPEN;
        stack[depth].node = root;
        stack[depth++].k = 0;
        while (depth) {
            const struct pl_node *at = &g->node[stack[depth - 1].node];
            int k = stack[depth - 1].k;
            if (k < at->n_in + at->n_ctrl) {
                stack[depth - 1].k++;
                int from = k < at->n_in ? at->in[k].node : at->ctrl[k - at->n_in];
                bool back = at->def && g->node[from].def && pl_is_token(g->node[from].def) &&
                            strstr(g->node[from].def->schema->name, "NextIteration");
                if (mark[from] == NEW && !back) {
                    mark[from] = OPEN;
                    stack[depth].node = from;
                    stack[depth++].k = 0;
                } else if (mark[from] == OPEN && !back) {
                    st = rt_fail(err, RT_INVALID_ARGUMENT, "node '%s' is part of a cycle",
                                 g->node[from].name);
                    goto end;
                }
                continue;
            }
            mark[stack[--depth].node] = DONE;
            order[n++] = (int)(at - g->node);
        }
    }
    /* Adds the nodes that only a back edge reaches, of data or of control: NextIteration nodes and
     * their ancestors. Every node that a node in the plan waits for is in the order. */
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < g->n; i++) {
            if (mark[i] != DONE)
                continue;
            const struct pl_node *to = &g->node[i];
            for (int k = 0; k < to->n_in + to->n_ctrl; k++) {
                int root = k < to->n_in ? to->in[k].node : to->ctrl[k - to->n_in];
                if (mark[root] != NEW)
                    continue;
                again = true;
                mark[root] = OPEN;
                depth = 0;
                stack[depth].node = root;
                stack[depth++].k = 0;
                while (depth) {
                    const struct pl_node *at = &g->node[stack[depth - 1].node];
                    int j = stack[depth - 1].k++;
                    if (j < at->n_in + at->n_ctrl) {
                        int from = j < at->n_in ? at->in[j].node : at->ctrl[j - at->n_in];
                        if (mark[from] == NEW) {
                            mark[from] = OPEN;
                            stack[depth].node = from;
                            stack[depth++].k = 0;
                        }
                        continue;
                    }
                    mark[stack[--depth].node] = DONE;
                    order[n++] = (int)(at - g->node);
                }
            }
        }
    }
end:
    *n_order = n;
    free(mark);
    free(stack);
    return st;
}
