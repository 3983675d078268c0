/* Gather and GatherV2 on a GPU. */
#include "kernels/array/gather.h"

#include "kernels/cuda/device/gather.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/math/elementwise.h"

/* Fills in the parameter, except for the addresses. Returns false if the GPU cannot run the op. */
static bool fill(const struct rt_prep *p, struct kc_gather *g, struct rt_error *err)
{
    struct kn_gathered shapes;
    const struct rt_tensor *axis = p->n_in > 2 ? p->in[2].value : NULL;
    if ((p->n_in > 2 && !axis) ||
        kn_gathered_of(p->node, &p->in[0].shape, &p->in[1].shape, axis, &shapes, err))
        return false;
    *g = (struct kc_gather){.n_batch = shapes.n_batch,
                            .outer = shapes.outer,
                            .limit = shapes.limit,
                            .n_index = shapes.n_index,
                            .inner = shapes.inner,
                            .is_long = p->in[1].dtype == RT_I64};
    return p->in[1].dtype == RT_I32 || p->in[1].dtype == RT_I64;
}

int kc_gather_can(const struct rt_prep *p)
{
    struct rt_error err = {0};
    struct kc_gather g;
    return fill(p, &g, &err);
}

enum rt_status kc_gather_prepare(struct rt_prep *p, void **state)
{
    struct kc_gather *g = rt_prep_alloc(p, sizeof *g);
    if (!g)
        return p->err->code;
    *state = g;
    return fill(p, g, p->err) ? RT_OK
                              : rt_fail(p->err, RT_FAILED_PRECONDITION, "the GPU cannot run it");
}

enum rt_status kc_gather_run(struct rt_run *r)
{
    const struct cuda_stream *s = r->stream;
    struct kc_gather g = *(const struct kc_gather *)r->state;
    const int64_t n = rt_tensor_count(&r->out[0]);
    if (!n)
        return RT_OK;
    g.out = r->out[0].data;
    g.params = r->in[0].data;
    g.index = r->in[1].data;
    g.fault = s->fault;
    g.step = s->step;
    const enum rt_status st = cuda_launch(s, kc_gather_module, 1, &g, r->err);
    g.step = 0;
    return st ? st : cuda_launch(s, kc_gather_module, cuda_blocks(n), &g, r->err);
}

enum rt_status kc_gather_explain(const struct rt_run *r, int64_t position, int64_t value,
                                 struct rt_error *err)
{
    const struct kc_gather *g = r->state;
    return kn_gather_outside(r->in[1].rank, r->in[1].dim, position, value, g->limit, err);
}
