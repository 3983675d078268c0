/* Liveness analysis finds the last step that reads each value, so that the order executor can free
 * the value's memory after that step. */
#include <stdlib.h>

#include "runtime/passes/passes.h"

enum rt_status pl_find_last_uses(struct rt_plan *p, struct rt_error *err)
{
    int *last = malloc(((size_t)p->n_values + 1) * sizeof *last);
    int *count = calloc((size_t)p->n_nodes + 1, sizeof *count);
    enum rt_status st = RT_OK;
    if (!last || !count) {
        st = rt_fail_memory(err, "a plan", 0);
        goto end;
    }
    enum { KEPT = -2, UNREAD = -1 };
    for (int v = 0; v < p->n_values; v++)
        last[v] = UNREAD;
    for (int i = 0; i < p->n_nodes; i++)
        for (int k = 0; k < p->node[i].n_in; k++)
            last[p->node[i].in_value[k]] = i;
    for (int k = 0; k < p->n_fetches; k++)
        last[p->fetch_value[k]] = KEPT;
    for (int v = 0; v < p->n_values; v++)
        if (p->constant[v])
            last[v] = KEPT;
    for (int i = 0; i < p->n_nodes; i++)
        for (int o = 0; o < p->node[i].n_out; o++) {
            int v = p->node[i].first_value + o;
            if (last[v] == UNREAD && p->node[i].kind != PL_FEED)
                /* A value that no step reads is released after the step that makes it. */
                last[v] = i;
            if (last[v] >= 0)
                count[last[v]]++;
        }
    for (int i = 0; i < p->n_nodes; i++) {
        p->node[i].release = rt_arena_array(p->arena, (size_t)count[i] + 1, sizeof(int));
        if (!p->node[i].release) {
            st = rt_fail_memory(err, "a plan", 0);
            goto end;
        }
    }
    for (int v = 0; v < p->n_values; v++)
        if (last[v] >= 0) {
            struct rt_plan_step *n = &p->node[last[v]];
            n->release[n->n_release++] = v;
        }
    for (int i = 0; i < p->n_nodes; i++) {
        struct rt_plan_step *n = &p->node[i];
        for (int k = 0; k < n->n_in && k < 64; k++) {
            bool again = false;
            for (int j = 0; j < n->n_in; j++)
                again |= j != k && n->in_value[j] == n->in_value[k];
            if (last[n->in_value[k]] == i && !again)
                n->last_use |= UINT64_C(1) << k;
        }
    }
end:
    free(last);
    free(count);
    return st;
}
