#include "runtime/exec/fold.h"
#include "runtime/exec/executor.h"
#include "runtime/select/choose.h"
#include "runtime/select/prepared.h"

#include <stdlib.h>

/* Minimum size in bytes of a large output. The deadline is checked after each large output, because
 * computing a large output may take long. */
enum { LARGE = 1 << 20 };

/* Bit k of the result is set if the value of input k is the same in all runs of the node. */
static uint64_t constant_inputs(const struct rt_fold *n, const struct rt_tensor *in)
{
    uint64_t bits = 0;
    for (int k = 0; k < n->n_in && k < 64; k++)
        if (!pl_reads_variable(n->def, k, in[k].dtype))
            bits |= UINT64_C(1) << k;
    return bits;
}

static enum rt_status run(struct rt_run_shared *shared, struct rt_plan_step *n,
                          struct rt_tensor *tensor, int k_out, struct rt_tensor *out,
                          struct rt_error *err)
{
    struct rt_context c = {.shared = shared,
                           .in = tensor,
                           .handle = tensor + n->n_in,
                           .out = tensor + 2 * (size_t)n->n_in};
    enum rt_status st = rt_exec_op(&c, n, c.in, 0, c.out, err);
    if (!st && c.out[0].buf && c.out[0].buf->size >= LARGE)
        st = rt_context_check(&c, err);
    if (!st && c.out[k_out].dtype == RT_RESOURCE)
        st = rt_fail(err, RT_UNIMPLEMENTED, "objects are made in the run");
    if (!st)
        rt_tensor_ref(out, &c.out[k_out]);
    for (int o = 0; o < n->n_out; o++)
        rt_tensor_clear(&c.out[o]);
    rt_context_drop_scratch(&c);
    free(c.key);
    return st;
}

enum rt_status rt_fold_node(struct rt_run_shared *shared, const struct rt_fold *n,
                            const struct rt_tensor *in, int k_out, struct rt_tensor *out,
                            struct rt_error *err)
{
    struct rt_plan_step self = {.kind = PL_OP,
                                .def = n->def,
                                .name = n->name,
                                .n_in = n->n_in,
                                .n_out = n->n_out,
                                .feed = -1};
    struct rt_arena *arena = rt_arena_new((size_t)1 << 20);
    const size_t n_tensors = 2 * (size_t)n->n_in + (size_t)n->n_out;
    struct rt_tensor *tensor = calloc(n_tensors + 1, sizeof *tensor);
    enum rt_status st = RT_OK;

    *out = (struct rt_tensor){0};
    if (!arena || !tensor) {
        st = rt_fail_memory(err, n->name, n_tensors * sizeof *tensor);
        goto end;
    }
    st = pl_find_kernels(shared->session, arena, &self, err);
    if (!st && !self.prepared)
        st = rt_fail(err, RT_UNIMPLEMENTED, "'%s' has no kernel", n->name);
    if (st)
        goto end;
    for (int k = 0; k < n->n_in; k++)
        rt_tensor_ref(&tensor[k], &in[k]);
    self.const_in = constant_inputs(n, in);
    st = run(shared, &self, tensor, k_out, out, err);
    for (int k = 0; k < n->n_in; k++)
        rt_tensor_clear(&tensor[k]);
end:
    if (self.prepared)
        rt_prepared_cache_clear(self.prepared);
    if (arena)
        rt_arena_free(arena);
    free(tensor);
    return st;
}
