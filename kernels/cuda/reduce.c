/* Sum, Mean, Prod, Max and Min over axes on a GPU. */
#include <string.h>

#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/math/elementwise.h"
#include "kernels/math/reduce.h"
#include "runtime/base/checked.h"

static int reduction_of(const char *op)
{
    static const char *const name[] = {[KC_SUM] = "Sum",
                                       [KC_MEAN] = "Mean",
                                       [KC_PROD] = "Prod",
                                       [KC_MAX] = "Max",
                                       [KC_MIN] = "Min"};
    for (int k = 0; k < (int)(sizeof name / sizeof *name); k++)
        if (strcmp(name[k], op) == 0)
            return k;
    return -1;
}

int kc_reduce_can(const struct rt_prep *p)
{
    return p->in[1].value && p->in[0].shape.rank <= KC_REDUCE_MOST_RANK;
}

enum rt_status kc_reduce_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *in = &p->in[0].shape;
    unsigned reduced;
    const enum rt_status st = kn_reduce_axes(p->in[1].value, in->rank, &reduced, p->err);
    struct kc_reduce *s = st ? NULL : rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    *s = (struct kc_reduce){.op = reduction_of(p->node->op->name), .n_out = 1, .n_each = 1};
    /* A product can be saturated only if the input has no elements. The product is then not
     * used. */
    int64_t stride = 1;
    for (int i = in->rank - 1; i >= 0; i--) {
        if (reduced >> i & 1) {
            s->reduced[s->n_reduced] = in->dim[i];
            s->reduced_stride[s->n_reduced++] = stride;
            s->n_each = rt_mul_saturated(s->n_each, in->dim[i]);
        } else {
            s->kept[s->n_kept] = in->dim[i];
            s->kept_stride[s->n_kept++] = stride;
            s->n_out = rt_mul_saturated(s->n_out, in->dim[i]);
        }
        stride = rt_mul_saturated(stride, in->dim[i]);
    }
    *state = s;
    return RT_OK;
}

enum rt_status kc_reduce_run(struct rt_run *r)
{
    struct kc_reduce s = *(const struct kc_reduce *)r->state;
    s.in = r->in[0].data;
    s.out = r->out[0].data;
    return cuda_launch(r->stream, kc_reduce_module, s.n_out, &s, r->err);
}
