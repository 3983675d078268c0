/* Finds the kernels of a node's op that support the node's device and types. */
#include <string.h>

#include "runtime/core/kernel.h"
#include "runtime/select/choose.h"
#include "runtime/select/prepared.h"
#include "runtime/session/session_internal.h"
#include "runtime/core/op.h"

enum rt_status pl_find_kernels(const struct rt_session *s, struct rt_arena *arena,
                               struct rt_plan_step *n, struct rt_error *err)
{
    if (n->kind != PL_OP || !n->def)
        return RT_OK;
    const char *device = s->devices[n->device]->type;
    if (!n->def->op)
        return rt_registry_can_run(s->options.registry, n->def, device, err);
    if (n->def->op->slot_kind || pl_is_token(n->def))
        return RT_OK;
    int count;
    const struct rt_kernel *const *all =
        rt_registry_kernels(s->options.registry, n->def->op->name, &count);
    n->kernels = rt_arena_array(arena, (size_t)count + 1, sizeof *n->kernels);
    if (!n->kernels)
        return rt_fail_memory(err, "a plan", 0);
    for (int i = 0; i < count; i++) {
        if (strcmp(all[i]->device, device) != 0)
            continue;
        if (!rt_kernel_takes(all[i], n->def))
            continue;
        n->lazy = (n->lazy || !n->n_kernels) && (all[i]->flags & RT_K_LAZY);
        n->kernels[n->n_kernels++] = all[i];
    }
    if (!n->n_kernels)
        return rt_registry_can_run(s->options.registry, n->def, device, err) != RT_OK
                   ? err->code
                   : rt_fail(err, RT_UNIMPLEMENTED, "op %s has no kernel on %s", n->def->op->name,
                             device);
    n->prepared = rt_prepared_cache_new(arena);
    return n->prepared ? RT_OK : rt_fail_memory(err, "a plan", 0);
}
