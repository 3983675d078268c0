#include "server/tracing/own_times.h"

#include "runtime/base/arena.h"

bool srv_own_times(const struct rt_trace *t,
                   bool (*visit)(void *arg, const struct rt_trace_node *n, int64_t own_ns),
                   void *arg)
{
    /* the visited nodes that no visited node contains */
    const struct rt_trace_node **outer =
        rt_arena_array(t->arena, (size_t)t->n_nodes + 1, sizeof(*outer));
    bool goes_on = outer != NULL;
    int n_outer = 0;

    for (const struct rt_trace_node *n = t->first; n && goes_on; n = n->next) {
        int64_t inside = 0;
        while (n_outer && outer[n_outer - 1]->start_ns >= n->start_ns) {
            n_outer--;
            inside += outer[n_outer]->end_ns - outer[n_outer]->start_ns;
        }
        outer[n_outer++] = n;
        goes_on = visit(arg, n, n->end_ns - n->start_ns - inside);
    }
    return goes_on;
}
