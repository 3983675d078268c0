/* OneHot(indices, depth, on_value, off_value) sets at most one element of each row to on_value. */
#include "kernels/array/array.h"
#include "kernels/entry.h"

static enum rt_status one_hot_infer(struct rt_infer *x)
{
    static const char *const name[] = {"", "depth", "on_value", "off_value"};

    if (!kn_known(x, 2))
        return RT_OK;
    const struct rt_shape *in = &x->in[0].shape;
    struct rt_shape o;
    int64_t axis = rt_attr_int(x->node, "axis");

    if (axis != -1 && (axis < 0 || axis > in->rank))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Expected axis to be -1 or between [0, %d).  But received: %lld",
                       in->rank + 1, (long long)axis);
    for (int k = 1; k < 4; k++)
        if (x->in[k].shape.rank != 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "%s must be a scalar, but got: %s", name[k],
                           KN_TEXT(&x->in[k].shape));
    const int64_t depth = kn_int_at(x->in[1].value, 0);
    if (depth < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "depth must be non-negative, got: %lld",
                       (long long)depth);
    if (in->rank == RT_MAX_RANK)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "OneHot: more than %d dimensions are not supported", RT_MAX_RANK);
    if (axis < 0)
        axis = in->rank;
    o.rank = in->rank + 1;
    for (int i = 0; i < o.rank; i++)
        o.dim[i] = i < axis ? in->dim[i] : i == axis ? depth : in->dim[i - 1];
    if (kn_shape_total(&o) < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "OneHot result would have shape %s, which exceeds 2**63 - 1 elements",
                       KN_TEXT(&o));
    x->out[0].shape = o;
    return RT_OK;
}

/* The cost of copying one element to its position in the output, in units of rt_run_spend. */
enum { COPY_WORK = 8 };

static enum rt_status one_hot_run(struct rt_run *r)
{
    enum rt_status st = kn_outputs(r, one_hot_infer);

    if (st)
        return st;
    struct rt_tensor *o = &r->out[0];
    const enum rt_dtype dt = kn_dtype(o);
    const int64_t depth = kn_int_at(&r->in[1], 0);
    int64_t axis = rt_attr_int(r->node, "axis"), inner = 1;
    if (rt_tensor_count(o) == 0)
        return RT_OK;
    st = kn_repeat(dt, o->data, r->in[3].data, rt_tensor_count(o), r);
    if (st)
        return st;
    if (axis < 0)
        axis = r->in[0].rank;
    for (int i = (int)axis; i < r->in[0].rank; i++)
        inner *= r->in[0].dim[i];
    const int64_t outer = rt_tensor_count(&r->in[0]) / inner;
    int64_t left = RT_WORK;
    for (int64_t a = 0; a < outer; a++)
        for (int64_t b = 0; b < inner; b++) {
            if (rt_run_spend(r, &left, COPY_WORK))
                return r->err->code;
            const int64_t v = kn_int_at(&r->in[0], a * inner + b);
            if (v < 0 || v >= depth)
                continue;
            kn_copy(dt, kn_at_mut(o, (a * depth + v) * inner + b), r->in[2].data, 1);
        }
    return RT_OK;
}

static void one_hot_rows(struct rt_rows *r)
{
    if (kn_rows_independent(r) || r->in_dep[0].kind != RT_DEP_ROWS || !kn_rows_free(r, 1))
        return;
    const int64_t axis = rt_attr_int(r->node, "axis");
    const int a = r->in_dep[0].axis;
    kn_rows_set(r, RT_DEP_ROWS, axis >= 0 && axis <= a ? a + 1 : a);
}

const struct kn_entry kn_one_hot = {
    .op = {.name = "OneHot", .shape_in = 2, .infer = one_hot_infer, .rows = one_hot_rows},
    .kernels = KN_CPU("OneHot", "one_hot", 0, NULL, one_hot_run),
};
