#include "kernels/nn/pool.h"

#include "kernels/cuda/axis.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/vector.h"
#include "kernels/math/elementwise.h"

int kc_pool_can(const struct rt_prep *p)
{
    struct kn_pool_windows w;
    return kn_pool_windows(p, &w);
}

enum rt_status kc_pool_prepare(struct rt_prep *p, void **state)
{
    struct kn_pool_windows w;
    struct kc_pool *s = rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    if (!kn_pool_windows(p, &w))
        return rt_fail(p->err, RT_FAILED_PRECONDITION, "the GPU cannot run this pooling");
    *s = (struct kc_pool){.n = kn_shape_count(&p->out[0].shape),
                          .channels = w.channels,
                          .average = w.average,
                          .zeros = w.zeros,
                          .may_be_infinite = w.n_spatial == 3};
    for (int i = 0; i < KN_MAX_SPATIAL; i++)
        s->axis[i] = kc_axis_of(&w.axis[i]);
    *state = s;
    return RT_OK;
}

enum rt_status kc_pool_run(struct rt_run *r)
{
    struct kc_pool s = *(const struct kc_pool *)r->state;
    s.in = r->in[0].data;
    s.out = r->out[0].data;
    s.width = s.channels % 4 == 0 && kc_is_aligned(s.in) && kc_is_aligned(s.out) ? 4 : 1;
    return cuda_launch(r->stream, kc_pool_module, cuda_blocks(s.n / s.width), &s, r->err);
}
