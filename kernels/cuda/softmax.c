/* Softmax and LogSoftmax along the last axis on a GPU. */
#include <string.h>

#include "kernels/cuda/device/softmax.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/math/elementwise.h"

int kc_softmax_can(const struct rt_prep *p)
{
    return p->in[0].shape.rank > 0;
}

enum rt_status kc_softmax_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *in = &p->in[0].shape;
    struct kc_softmax *s = rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    const int64_t n = kn_shape_count(in), columns = in->dim[in->rank - 1];
    *s = (struct kc_softmax){.rows = n ? n / columns : 0,
                             .columns = columns,
                             .logarithm = strcmp(p->node->op->name, "LogSoftmax") == 0};
    *state = s;
    return RT_OK;
}

enum rt_status kc_softmax_run(struct rt_run *r)
{
    struct kc_softmax s = *(const struct kc_softmax *)r->state;
    s.in = r->in[0].data;
    s.out = r->out[0].data;
    return cuda_launch(r->stream, kc_softmax_module, s.rows, &s, r->err);
}
