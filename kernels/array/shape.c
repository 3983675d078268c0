/* Ops that read only the shape of their input: Shape, ShapeN, Size, Rank. */
#include "kernels/array/array.h"
#include "kernels/entry.h"

static enum rt_status shape_infer(struct rt_infer *x)
{
    for (int k = 0; k < x->n_out; k++)
        if (x->in[k].shape.rank >= 0)
            kn_set_vector(&x->out[k], x->in[k].shape.rank);
    return RT_OK;
}

static enum rt_status shape_run(struct rt_run *r)
{
    for (int k = 0; k < r->n_out; k++) {
        const struct rt_tensor *t = &r->in[k];
        const int64_t rank = t->rank;
        if (!kn_out(r, k, 1, &rank))
            return r->err->code;
        for (int i = 0; i < t->rank; i++) {
            /* as in TensorFlow, INT32_MAX itself is refused too */
            if (r->out[k].dtype == RT_I32 && t->dim[i] >= INT32_MAX)
                return rt_fail(r->err, RT_INVALID_ARGUMENT,
                               "Shape output type is 32-bit  but dim %d is %lld", i,
                               (long long)t->dim[i]);
            kn_put_int(&r->out[k], i, t->dim[i]);
        }
    }
    return RT_OK;
}

static enum rt_status size_run(struct rt_run *r)
{
    const int64_t n = rt_tensor_count(&r->in[0]);

    if (!kn_out(r, 0, 0, NULL))
        return r->err->code;
    if (r->out[0].dtype == RT_I32 && n >= INT32_MAX)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Number of elements was larger than representable by 32-bit output type");
    kn_put_int(&r->out[0], 0, n);
    return RT_OK;
}

static enum rt_status rank_run(struct rt_run *r)
{
    if (!kn_out(r, 0, 0, NULL))
        return r->err->code;
    kn_put_int(&r->out[0], 0, r->in[0].rank);
    return RT_OK;
}

#define LOOKS(symbol, op_, infer_, run_)                                                           \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = (infer_), .rows = rt_rows_shape},                           \
        .kernels = KN_KERNELS(                                                                     \
            {.op = (op_), .device = "CPU", .name = #symbol, .flags = RT_K_LAZY, .run = (run_)}),   \
    };
LOOKS(shape, "Shape", shape_infer, shape_run)
LOOKS(shape_n, "ShapeN", shape_infer, shape_run)
LOOKS(size, "Size", kn_infer_scalars, size_run)
LOOKS(rank, "Rank", kn_infer_scalars, rank_run)
