/*
 * Gradients of pooling ops: MaxPoolGrad, MaxPoolGradV2, MaxPool3DGrad, MaxPoolGradWithArgmax,
 * AvgPoolGrad, AvgPool3DGrad, and the gradients of the gradients, MaxPoolGradGrad,
 * MaxPoolGradGradV2 and MaxPool3DGradGrad. This file checks attributes and infers shapes.
 */
#include "kernels/nn/pool_grad.h"

#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/math/elementwise.h"
#include "runtime/base/checked.h"

#define MAX_DEPTH   "MaxPoolingGrad is not yet supported on the depth dimension."
#define MAX_FORMAT  "Default MaxPoolingGradOp only supports NHWC on device type CPU"
#define PICK_DEPTH  "MaxPoolingGradGrad is not yet supported on the depth dimension."
#define PICK_FORMAT "Default MaxPoolingGradGradOp only supports NHWC on device type CPU"
#define DEEP_DEPTH  "Pooling is not yet supported on the depth dimension."

static const struct kn_pool_grad_op ops[] = {
    {"MaxPoolGrad", KN_POOL_GRAD_FIRST, 2, MAX_DEPTH, MAX_FORMAT},
    {"MaxPoolGradV2", KN_POOL_GRAD_FIRST, 2, MAX_DEPTH, MAX_FORMAT},
    {"MaxPool3DGrad", KN_POOL_GRAD_EQUAL, 3, DEEP_DEPTH,
     "Default MaxPooling3dGradOp only supports NDHWC on device type CPU"},
    {"MaxPoolGradGrad", KN_POOL_GRAD_PICK, 2, PICK_DEPTH, PICK_FORMAT},
    {"MaxPoolGradGradV2", KN_POOL_GRAD_PICK, 2, MAX_DEPTH, PICK_FORMAT},
    {"MaxPool3DGradGrad", KN_POOL_GRAD_PICK, 3,
     "MaxPooling3dGradGrad is not yet supported on the depth dimension.",
     "Default MaxPooling3dGradGradOp only supportsNDHWC on CPU device type"},
    {"AvgPoolGrad", KN_POOL_GRAD_SPREAD, 2,
     "Non-spatial pooling is not yet supported. Volunteers? :)",
     "Default AvgPoolingGradOp only supports NHWC on device type CPU"},
    {"AvgPool3DGrad", KN_POOL_GRAD_SPREAD, 3, DEEP_DEPTH,
     "Default AvgPooling3dGradOp only supports NDHWC on device type CPU"},
    {"MaxPoolGradWithArgmax", KN_POOL_GRAD_INDEX, 2, NULL, NULL},
};

static const struct kn_pool_grad_op *op_of(const struct rt_node *n)
{
    size_t i = 0;

    while (strcmp(ops[i].name, n->schema->name))
        i++;
    return &ops[i];
}

/* ---- windows ---- */

enum { AXES = KN_MAX_SPATIAL + 2 };

/* The values of "ksize" and "strides", one for each dimension. */
struct windows {
    int64_t size[AXES], stride[AXES];
};

/* Reads the windows from attributes or, if the op has none, from the values of inputs 3 and 4. */
static enum rt_status read_values(const struct kn_pool_grad_op *op, const struct rt_node *n,
                                  const struct rt_info *in, struct windows *w, struct rt_error *err)
{
    static const char *const name[] = {"ksize", "strides"};
    int64_t *const to[] = {w->size, w->stride};

    for (int i = 0; i < 2; i++) {
        const int64_t *v = NULL;
        const bool is_attr = rt_attr(n, "ksize") != NULL;
        const int64_t len =
            is_attr ? (int64_t)rt_attr_ints(n, name[i], &v) : rt_tensor_count(in[3 + i].value);
        if (len != op->n_spatial + 2)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Sliding window %s field must specify %d dimensions", name[i],
                           op->n_spatial + 2);
        for (int j = 0; j < len; j++)
            to[i][j] = is_attr ? v[j] : kn_int_at(in[3 + i].value, j);
    }
    return RT_OK;
}

static enum rt_status check_sizes(const struct kn_pool_grad_op *op, const int64_t *size,
                                  struct rt_error *err)
{
    /* `strict` is set if TensorFlow's kernel refuses empty windows, and for MaxPoolGrad, whose
     * kernel crashes on them. TensorFlow's other kernels accept empty windows. */
    const bool index = op->how == KN_POOL_GRAD_INDEX;
    const bool strict = index || op->how == KN_POOL_GRAD_FIRST ||
                        (op->how == KN_POOL_GRAD_SPREAD && op->n_spatial == 3);

    for (int i = 0; i < op->n_spatial + 2; i++) {
        if (size[i] >= strict && size[i] <= INT32_MAX)
            continue;
        if (!index)
            return rt_fail(err, RT_INVALID_ARGUMENT, "ksize must be positive, got: %lld",
                           (long long)size[i]);
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Sliding window ksize must be positive. The specified or inferred ksize "
                       "is: %lld,%lld,%lld,%lld",
                       (long long)size[0], (long long)size[1], (long long)size[2],
                       (long long)size[3]);
    }
    return RT_OK;
}

static enum rt_status check_windows(const struct kn_pool_grad_op *op, const struct rt_node *n,
                                    const struct windows *w, struct rt_error *err)
{
    const bool first = kn_channels_first(n);
    const int ch = kn_channel_axis(first, op->n_spatial);

    if (w->size[0] > 1 || w->stride[0] != 1)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Pooling is not yet supported on the batch dimension.");
    if (op->how != KN_POOL_GRAD_INDEX) {
        const bool ignores = op->how == KN_POOL_GRAD_SPREAD && op->n_spatial == 2;
        if (w->size[0] != 1)
            return rt_fail(err, RT_UNIMPLEMENTED,
                           "Pooling is not yet supported on the batch dimension.");
        if (w->size[ch] != 1 || (w->stride[ch] != 1 && !ignores))
            return rt_fail(err, RT_UNIMPLEMENTED, "%s", op->depth);
    }
    const enum rt_status st = check_sizes(op, w->size, err);
    if (st)
        return st;
    for (int i = 0; i < op->n_spatial; i++) {
        const int64_t stride = w->stride[kn_spatial_axis(first, i)];
        if (stride <= 0 || stride > INT32_MAX)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Stride must be > 0, but got %lld",
                           (long long)stride);
    }
    return RT_OK;
}

static enum rt_status read_windows(const struct kn_pool_grad_op *op, const struct rt_node *n,
                                   const struct rt_info *in, struct windows *w,
                                   struct rt_error *err)
{
    enum rt_status st = read_values(op, n, in, w, err);

    if (!st && rt_attr(n, "explicit_paddings") && kn_padding(n) == KN_EXPLICIT)
        st = kn_check_paddings(n, err);
    return st ? st : check_windows(op, n, w, err);
}

/* ---- shapes ---- */

/* Checks the windows of MaxPoolGradWithArgmax along channels. */
static enum rt_status check_depth(const struct windows *w, int64_t channels, struct rt_error *err)
{
    const int64_t depth = w->size[3];

    if (depth == 1)
        return RT_OK;
    if (w->size[1] != 1 || w->size[2] != 1)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "MaxPooling supports exactly one of pooling across depth or pooling across "
                       "width/height.");
    if (channels % depth)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Depthwise max pooling requires the depth window to evenly divide the input "
                       "depth");
    if (depth != w->stride[3])
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Depthwise max pooling requires the depth window to equal the depth stride");
    return RT_OK;
}

/* Sets *g from the node, its windows and the shape of the pooling's input, which must be known. The
 * channels must be the last axis. */
static enum rt_status solve(struct kn_pool_grad *g, const struct rt_node *n,
                            const struct windows *w, const struct rt_shape *in,
                            struct rt_error *err)
{
    const struct kn_pool_grad_op *op = op_of(n);
    const int lead = KN_MAX_SPATIAL - op->n_spatial;
    const int64_t *pads = NULL;
    enum rt_status st = RT_OK;

    *g = (struct kn_pool_grad){
        .op = op, .batch = in->dim[0], .channels = in->dim[op->n_spatial + 1]};
    if (kn_padding(n) == KN_EXPLICIT)
        rt_attr_ints(n, "explicit_paddings", &pads);
    for (int i = 0; i < KN_MAX_SPATIAL && !st; i++) {
        struct kn_axis *a = &g->axis[i];
        const int at = 1 + i - lead;
        *a = kn_axis_none();
        if (i < lead)
            continue;
        a->in = in->dim[at];
        a->size = w->size[at];
        a->stride = w->stride[at];
        if (pads) {
            a->lo = pads[2 * at];
            a->hi = pads[2 * at + 1];
            st = kn_axis_check_padding(a, i - lead, err);
        }
        if (!st)
            st = kn_axis_solve(a, kn_padding(n), err);
    }
    if (!st && op->how == KN_POOL_GRAD_INDEX)
        st = check_depth(w, g->channels, err);
    g->channels_out = g->channels / (op->how == KN_POOL_GRAD_INDEX ? w->size[3] : 1);
    return st;
}

/* Returns the shape of the pooling's output. */
static struct rt_shape pooled(const struct kn_pool_grad *g)
{
    const int sp = g->op->n_spatial;
    struct rt_shape o = {.rank = sp + 2};

    o.dim[0] = g->batch;
    for (int i = 0; i < sp; i++)
        o.dim[1 + i] = g->axis[KN_MAX_SPATIAL - sp + i].out;
    o.dim[sp + 1] = g->channels_out;
    return o;
}

static enum rt_status check_rank(const struct rt_shape *s, const char *name, int rank,
                                 struct rt_error *err)
{
    return s->rank < 0 || s->rank == rank
               ? RT_OK
               : rt_fail(err, RT_INVALID_ARGUMENT, "%s must be %d-dimensional", name, rank);
}

static enum rt_status check_ranks(struct rt_infer *x, const struct kn_pool_grad_op *op)
{
    const char *const names[] = {"tensor_in", "tensor_out",
                                 op->how == KN_POOL_GRAD_PICK ? "out_grad_backprop"
                                                              : "out_backprop"};
    enum rt_status st = RT_OK;

    if (op->how == KN_POOL_GRAD_INDEX) {
        const int rank = x->in[0].shape.rank;
        return rank < 0 || rank == 4
                   ? RT_OK
                   : rt_fail(x->err, RT_INVALID_ARGUMENT,
                             "tensor_in_shape must have 2 spatial dimensions. %d 0", rank);
    }
    for (int i = 0; i < 3 && !st; i++)
        st = check_rank(&x->in[i].shape, names[i], op->n_spatial + 2, x->err);
    return st;
}

static enum rt_status expect(struct rt_infer *x, int input, const char *name,
                             const struct rt_shape *want)
{
    const struct rt_shape *s = &x->in[input].shape;

    if (!kn_shape_known(s) || kn_shape_eq(s, want))
        return RT_OK;
    return rt_fail(x->err, RT_INVALID_ARGUMENT, "Expected %s shape to be %s, but got %s", name,
                   KN_TEXT(want), KN_TEXT(s));
}

/* Infers the output shapes of the gradient ops whose input 0 is the input of the pooling. */
static enum rt_status max_grad_infer(struct rt_infer *x)
{
    const struct kn_pool_grad_op *op = op_of(x->node);
    const struct rt_shape *in = &x->in[0].shape;
    const bool pick = op->how == KN_POOL_GRAD_PICK, index = op->how == KN_POOL_GRAD_INDEX;
    struct windows w;
    struct kn_pool_grad g;

    x->out[0].shape = x->in[pick ? 1 : 0].shape;
    enum rt_status st = check_ranks(x, op);
    if (st || kn_channels_first(x->node) || !kn_shape_known(in) ||
        (!rt_attr(x->node, "ksize") && (!x->in[3].value || !x->in[4].value)))
        return st;
    if ((st = read_windows(op, x->node, x->in, &w, x->err)) ||
        (st = solve(&g, x->node, &w, in, x->err)))
        return st;
    const struct rt_shape out = pooled(&g);
    if (pick && op->n_spatial == 3 && !kn_shape_total(in))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "received empty tensor tensor_in: ");
    st = expect(x, 1, index ? "grad" : "orig_output", &out);
    if (!st)
        st = expect(x, 2, index ? "argmax" : "grad", pick ? in : &out);
    return st;
}

/* Reads the shape of the pooling's input from the value of input 0. */
static enum rt_status read_shape(const struct kn_pool_grad_op *op, const struct rt_tensor *t,
                                 struct rt_shape *o, struct rt_error *err)
{
    const int rank = op->n_spatial + 2;

    if (t->rank != 1 || t->dim[0] != rank)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s must be 1-dimensional and %d elements",
                       rank == 4 ? "out_backprop" : "tensor_in", rank);
    for (int i = 0; i < rank; i++) {
        o->dim[i] = kn_int_at(t, i);
        if (o->dim[i] < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Expected a non-negative size, got %lld",
                           (long long)o->dim[i]);
    }
    return RT_OK;
}

/*
 * Sets the number of windows along each axis to that of the gradient of an average pooling. As in
 * TensorFlow, the gradient may have fewer windows than the pooling. The gradient may also have more
 * windows, as long as they begin inside the input. As in TensorFlow, a 2-D gradient is all zeros,
 * whatever its dimensions are, if it or the input has no elements.
 */
static enum rt_status spread_windows(struct kn_pool_grad *g, const struct rt_shape *grad,
                                     const struct rt_shape *in, struct rt_error *err)
{
    const int sp = g->op->n_spatial, lead = KN_MAX_SPATIAL - sp;
    static const char *const end[] = {"first", "last"};
    const bool skipped = sp == 2 && (!kn_shape_total(grad) || !kn_shape_total(in));

    for (int i = 0; i < 2; i++) {
        const int at = i ? sp + 1 : 0;
        if (!skipped && grad->dim[at] != in->dim[at])
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Expected %s dimension of tensor_in_shape and out_backprop to match, "
                           "got %lld and %lld",
                           end[i], (long long)in->dim[at], (long long)grad->dim[at]);
    }
    for (int i = 0; i < sp; i++) {
        struct kn_axis *a = &g->axis[lead + i];
        a->out = skipped || !kn_shape_total(grad) ? 0 : grad->dim[1 + i];
        if (a->out > 0 && a->out - 1 > a->in / a->stride)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "index * stride must be less than or equal to input size");
    }
    return RT_OK;
}

static enum rt_status average_grad_infer(struct rt_infer *x)
{
    const struct kn_pool_grad_op *op = op_of(x->node);
    const struct rt_shape *grad = &x->in[1].shape;
    struct rt_shape *o = &x->out[0].shape;
    struct windows w;
    struct kn_pool_grad g;

    o->rank = op->n_spatial + 2;
    for (int i = 0; i < o->rank; i++)
        o->dim[i] = -1;
    if (!x->in[0].value)
        return RT_OK;
    enum rt_status st = read_shape(op, x->in[0].value, o, x->err);
    if (!st)
        st = check_rank(grad, "out_backprop", o->rank, x->err);
    if (st || kn_channels_first(x->node) || !kn_shape_known(grad))
        return st;
    if ((st = read_windows(op, x->node, x->in, &w, x->err)) ||
        (st = solve(&g, x->node, &w, o, x->err)))
        return st;
    return spread_windows(&g, grad, o, x->err);
}

/* Row i of the output depends on row i of all inputs. An input that holds a shape may contain the
 * number of rows. */
static void pool_grad_rows(struct rt_rows *r)
{
    const bool spread = op_of(r->node)->how == KN_POOL_GRAD_SPREAD;

    if (rt_attr(r->node, "include_batch_in_index") &&
        rt_attr_bool(r->node, "include_batch_in_index"))
        return;
    for (int i = 0; i < r->n_in; i++) {
        const struct rt_dep *d = &r->in_dep[i];
        const bool is_shape = (spread && i == 0) || i > 2;
        if (is_shape ? d->kind != RT_DEP_NONE && (i > 2 || d->kind != RT_DEP_SIZE)
                     : d->kind != RT_DEP_ROWS || d->axis != 0)
            return;
    }
    r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, 0};
}

/* ---- preparing ---- */

static enum rt_status prepare(struct rt_prep *p, void **state)
{
    const struct kn_pool_grad_op *op = op_of(p->node);
    struct kn_pool_grad *g = rt_prep_alloc(p, sizeof *g);
    const bool spread = op->how == KN_POOL_GRAD_SPREAD;
    const struct rt_shape *in = spread ? &p->out[0].shape : &p->in[0].shape;
    struct windows w;

    if (!g)
        return p->err->code;
    *state = g;
    if (kn_channels_first(p->node))
        return rt_fail(p->err, RT_INVALID_ARGUMENT, "%s", op->format);
    enum rt_status st = read_windows(op, p->node, p->in, &w, p->err);
    if (!st)
        st = solve(g, p->node, &w, in, p->err);
    if (!st && spread)
        st = spread_windows(g, &p->in[1].shape, in, p->err);
    g->dtype = p->out[0].dtype;
    return st;
}

/* ---- registration ---- */

#define FLOATS (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS))
#define DEEP   (RT_T(RT_F32) | RT_T(RT_BF16))
#define VALUES (UINT64_C(3) << 3) /* ksize and strides */
#define ENTRY(symbol, tf, kernel, types_, infer_, values, run_)                                    \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (tf), .shape_in = (values), .infer = (infer_), .rows = pool_grad_rows},     \
        .kernels = KN_CPU(tf, kernel, types_, prepare, run_),                                      \
    };
#define MAX_GRAD(symbol, tf, types_)                                                               \
    ENTRY(symbol, tf, #symbol, types_, max_grad_infer, 0, kn_pool_grad_run)
#define MAX_GRAD_V2(symbol, tf)                                                                    \
    ENTRY(symbol, tf, #symbol, KN_SET(KN_REALS), max_grad_infer, VALUES, kn_pool_grad_run)
#define AVG_GRAD(symbol, tf, types_)                                                               \
    ENTRY(symbol, tf, #symbol, types_, average_grad_infer, 1, kn_pool_grad_run)

MAX_GRAD(max_pool_grad, "MaxPoolGrad", KN_SET(KN_REALS))
MAX_GRAD_V2(max_pool_grad_v2, "MaxPoolGradV2")
MAX_GRAD(max_pool_grad_grad, "MaxPoolGradGrad", KN_SET(KN_REALS))
MAX_GRAD_V2(max_pool_grad_grad_v2, "MaxPoolGradGradV2")
MAX_GRAD(max_pool3d_grad_grad, "MaxPool3DGradGrad", DEEP)
AVG_GRAD(avg_pool_grad, "AvgPoolGrad", FLOATS)
AVG_GRAD(avg_pool3d_grad, "AvgPool3DGrad", DEEP)
const struct kn_entry kn_max_pool3d_grad = {
    .op = {.name = "MaxPool3DGrad", .infer = max_grad_infer, .rows = pool_grad_rows},
    .kernels = KN_KERNELS(KN_CPU_PAIR("MaxPool3DGrad", "max_pool3d_grad", RT_F32, "TInput", RT_F32,
                                      prepare, kn_pool_grad_run),
                          KN_CPU_PAIR("MaxPool3DGrad", "max_pool3d_grad", RT_BF16, "TInput",
                                      RT_BF16, prepare, kn_pool_grad_run)),
};
const struct kn_entry kn_max_pool_grad_with_argmax = {
    .op = {.name = "MaxPoolGradWithArgmax", .infer = max_grad_infer, .rows = pool_grad_rows},
    .kernels = KN_KERNELS({.op = "MaxPoolGradWithArgmax",
                           .device = "CPU",
                           .name = "max_pool_grad_argmax",
                           .types = KN_SET(KN_REALS),
                           .and_type_attr = "Targmax",
                           .and_types = RT_T(RT_I64),
                           .prepare = prepare,
                           .run = kn_pool_grad_index_run}),
};
