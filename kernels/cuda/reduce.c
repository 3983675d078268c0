/* Sum, Mean, Prod, Max and Min over axes on a GPU. */
#include <string.h>

#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/math/elementwise.h"
#include "kernels/math/reduce.h"
#include "runtime/base/checked.h"

_Static_assert((int)KC_REDUCE_THREADS == (int)KC_THREADS, "the number of threads per block");

enum {
    MANY_BLOCKS = 256, /* number of blocks that keeps a large GPU busy */
    /* maximum numbers of output elements per block, if the input elements of neighbouring output
     * elements are neighbours in memory, and if the input elements of one output element are */
    MOST_LANES = 32,
    MOST_ROWS = 8,
};

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

/* Appends an axis to a list of axes, innermost first. Merges it with the last axis of the list if
 * both are next to each other in memory. */
static void add_axis(int64_t *length, int64_t *stride, int32_t *n, int64_t own_length,
                     int64_t own_stride)
{
    if (*n && rt_mul_saturated(length[*n - 1], stride[*n - 1]) == own_stride) {
        length[*n - 1] = rt_mul_saturated(length[*n - 1], own_length);
        return;
    }
    length[*n] = own_length;
    stride[(*n)++] = own_stride;
}

/* Divides the threads of a block among output elements. Few output elements are computed by many
 * threads each, so that all of the GPU is used. */
static void share_threads(struct kc_reduce *s)
{
    s->along_outputs = s->n_kept && (!s->n_reduced || s->kept_stride[0] < s->reduced_stride[0]);
    int most = s->along_outputs ? MOST_LANES : MOST_ROWS, lanes = 1;
    while (most < KC_REDUCE_THREADS && KC_REDUCE_THREADS / most > s->n_each)
        most *= 2;
    while (lanes < most && s->n_out / (2 * lanes) >= MANY_BLOCKS)
        lanes *= 2;
    s->slices = KC_REDUCE_THREADS / lanes;
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
            add_axis(s->reduced, s->reduced_stride, &s->n_reduced, in->dim[i], stride);
            s->n_each = rt_mul_saturated(s->n_each, in->dim[i]);
        } else {
            add_axis(s->kept, s->kept_stride, &s->n_kept, in->dim[i], stride);
            s->n_out = rt_mul_saturated(s->n_out, in->dim[i]);
        }
        stride = rt_mul_saturated(stride, in->dim[i]);
    }
    share_threads(s);
    *state = s;
    return RT_OK;
}

enum rt_status kc_reduce_run(struct rt_run *r)
{
    struct kc_reduce s = *(const struct kc_reduce *)r->state;
    s.in = r->in[0].data;
    s.out = r->out[0].data;
    const int64_t lanes = KC_REDUCE_THREADS / s.slices;
    return cuda_launch(r->stream, kc_reduce_module, (s.n_out + lanes - 1) / lanes, &s, r->err);
}
