#include "kernels/kernels.h"

#include "kernels/cuda/driver/gpus.h"
#include "kernels/entry.h"

#define KN_OP(name) extern const struct kn_entry kn_##name;
#include "kernels/table.inc"
#undef KN_OP

static const struct kn_entry *const entries[] = {
#define KN_OP(name) &kn_##name,
#include "kernels/table.inc"
#undef KN_OP
    NULL,
};

bool kn_register(struct rt_registry *r)
{
    for (const struct kn_entry *const *e = entries; *e; e++) {
        if (!rt_registry_add_op(r, &(*e)->op))
            return false;
        for (const struct rt_kernel *k = (*e)->kernels; k && k->op; k++)
            if (!rt_registry_add_kernel(r, k))
                return false;
    }
    return cuda_register(r);
}
