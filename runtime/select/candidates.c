/* Finds the kernels of a node's op that support the node's device and types. */
#include <string.h>

#include "runtime/core/device.h"
#include "runtime/core/kernel.h"
#include "runtime/select/choose.h"
#include "runtime/select/prepared.h"
#include "runtime/session/session_internal.h"
#include "runtime/core/op.h"

/* Returns the kernels on `device` that accept the node's types, and sets *n to their number.
 * Returns NULL if memory runs out. */
static const struct rt_kernel **find(const struct rt_kernel *const *all, int count,
                                     const char *device, const struct rt_node *def,
                                     struct rt_arena *arena, int *n)
{
    const struct rt_kernel **found = rt_arena_array(arena, (size_t)count + 1, sizeof *found);
    for (int i = 0; found && i < count; i++)
        if (strcmp(all[i]->device, device) == 0 && rt_kernel_takes(all[i], def))
            found[(*n)++] = all[i];
    return found;
}

enum rt_status pl_find_kernels(const struct rt_session *s, struct rt_arena *arena,
                               struct rt_plan_step *n, struct rt_error *err)
{
    if (n->kind != PL_OP || !n->def)
        return RT_OK;
    if (!n->def->op)
        return rt_registry_can_run(s->options.registry, n->def, RT_CPU, err);
    if (n->def->op->slot_kind || pl_is_token(n->def))
        return RT_OK;
    int count;
    const struct rt_kernel *const *all =
        rt_registry_kernels(s->options.registry, n->def->op->name, &count);
    n->kernels = find(all, count, RT_CPU, n->def, arena, &n->n_kernels);
    if (n->on_accelerator)
        n->device_kernels = find(all, count, s->options.accelerators.device[0]->type, n->def, arena,
                                 &n->n_device_kernels);
    if (!n->kernels || (n->on_accelerator && !n->device_kernels))
        return rt_fail_memory(err, "a plan", 0);
    if (!n->n_kernels)
        return rt_registry_can_run(s->options.registry, n->def, RT_CPU, err) != RT_OK
                   ? err->code
                   : rt_fail(err, RT_UNIMPLEMENTED, "op %s has no kernel on %s", n->def->op->name,
                             RT_CPU);
    n->lazy = true;
    for (int i = 0; i < n->n_kernels; i++)
        n->lazy = n->lazy && (n->kernels[i]->flags & RT_K_LAZY);
    /* A fusion may have made an op for which the accelerator has no kernel. */
    n->on_accelerator = n->on_accelerator && n->n_device_kernels && n->effect == RT_PURE;
    n->prepared = rt_prepared_cache_new(arena);
    return n->prepared ? RT_OK : rt_fail_memory(err, "a plan", 0);
}
