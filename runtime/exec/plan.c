/* Frees a plan together with its idle contexts, its specialisations and the prepared kernels of its
 * nodes. */
#include <stdlib.h>

#include "runtime/exec/context.h"
#include "runtime/plan/specialisation.h"
#include "runtime/select/prepared.h"

void rt_plan_free(struct rt_plan *p)
{
    if (!p)
        return;
    rt_contexts_end(p);
    rt_segments_free(p);
    for (int i = 0; i < p->n_nodes; i++) {
        struct rt_plan_step *n = &p->node[i];
        rt_tensor_clear(&n->value);
        for (int k = 0; k < n->n_sub; k++)
            rt_plan_free(n->sub[k]);
        if (n->prepared)
            rt_prepared_cache_clear(n->prepared);
    }
    rt_mutex_clear(&p->mu);
    rt_arena_free(p->arena);
    free(p);
}

struct rt_plan_box *rt_plan_box_ref(struct rt_plan_box *b)
{
    atomic_fetch_add(&b->refs, 1);
    return b;
}

void rt_plan_box_unref(struct rt_plan_box *b)
{
    if (b && atomic_fetch_sub(&b->refs, 1) == 1) {
        rt_plan_free(b->plan);
        rt_row_analyses_clear(&b->row_analyses);
        free(b);
    }
}
