/* Ops that move blocks of spatial elements to the batch or depth dimension and back:
 * SpaceToBatch(ND), BatchToSpace(ND), SpaceToDepth, DepthToSpace. */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

enum { MAX_BLOCK = RT_MAX_RANK - 1 };

struct block {
    int n; /* the tensor's dimensions 1 to n are divided into blocks */
    int64_t size[MAX_BLOCK], before[MAX_BLOCK], after[MAX_BLOCK], product;
    struct rt_shape shape;
};

/* Reads the block sizes. For SpaceToBatch and BatchToSpace, `sizes` is NULL, and the attribute
 * block_size is the block size of both spatial dimensions. */
static enum rt_status block_of(const struct rt_node *node, const struct rt_shape *in,
                               const struct rt_tensor *sizes, const struct rt_tensor *pads,
                               bool to_batch, struct block *b, struct rt_error *err)
{
    b->n = 2;
    if (sizes) {
        if (sizes->rank != 1)
            return rt_fail(err, RT_INVALID_ARGUMENT, "block_shape rank should be 1 instead of %d",
                           sizes->rank);
        if (sizes->dim[0] > MAX_BLOCK)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "%s: more than %d dimensions are not supported", node->schema->name,
                           RT_MAX_RANK);
        b->n = (int)sizes->dim[0];
    } else if (in->rank != 4) {
        return rt_fail(err, RT_INVALID_ARGUMENT, "Input rank should be: 4instead of: %d", in->rank);
    }
    if (in->rank < 1 + b->n)
        return rt_fail(err, RT_INVALID_ARGUMENT, "input rank should be >= %d instead of %d",
                       1 + b->n, in->rank);
    if (pads->rank != 2 || pads->dim[0] != b->n || pads->dim[1] != 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s should have shape [%d, 2] instead of %s",
                       to_batch ? "paddings" : "crops", b->n, KN_TEXT(pads));
    b->product = 1;
    for (int i = 0; i < b->n; i++) {
        b->size[i] = sizes ? kn_int_at(sizes, i) : rt_attr_int(node, "block_size");
        if (b->size[i] < 1)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "All values in block_shape must be positive, got value, %lld at index "
                           "%d.",
                           (long long)b->size[i], i);
        if (!rt_mul(b->product, b->size[i], &b->product))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Product of block sizes exceeds the largest integer");
        b->before[i] = kn_int_at(pads, 2 * i);
        b->after[i] = kn_int_at(pads, 2 * i + 1);
        if (b->before[i] < 0 || b->after[i] < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%s must be non-negative",
                           to_batch ? "Paddings" : "Crops");
    }
    b->shape = *in;
    if (!to_batch && in->dim[0] % b->product != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Input batch dimension (%lld) is not divisible by product of block sizes "
                       "(%lld)",
                       (long long)in->dim[0], (long long)b->product);
    if (to_batch && !rt_mul(in->dim[0], b->product, &b->shape.dim[0]))
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: too many elements", node->schema->name);
    if (!to_batch)
        b->shape.dim[0] = in->dim[0] / b->product;
    for (int i = 0; i < b->n; i++) {
        int64_t *d = &b->shape.dim[1 + i];
        if (to_batch) {
            if (!rt_add(*d, b->before[i], d) || !rt_add(*d, b->after[i], d))
                return rt_fail(err, RT_INVALID_ARGUMENT, "%s: too many elements",
                               node->schema->name);
            if (*d % b->size[i] != 0)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "padded_shape[%d]=%lld is not divisible by block_shape[%d]=%lld", i,
                               (long long)*d, i, (long long)b->size[i]);
            *d /= b->size[i];
        } else {
            if (!rt_mul(*d, b->size[i], d) || !rt_sub(*d, b->before[i], d) ||
                !rt_sub(*d, b->after[i], d))
                return rt_fail(err, RT_INVALID_ARGUMENT, "%s: too many elements",
                               node->schema->name);
            if (*d < 0)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "cropped_shape[%d]=%lld must be non-negative", i, (long long)*d);
        }
    }
    if (kn_shape_total(&b->shape) < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: too many elements", node->schema->name);
    return RT_OK;
}

static bool is_nd(const struct rt_node *n)
{
    return n->schema->n_in == 3;
}

static bool is_to_batch(const struct rt_node *n)
{
    return n->schema->name[0] == 'S';
}

static enum rt_status batch_infer(struct rt_infer *x)
{
    const bool nd = is_nd(x->node);
    struct block b;

    if (!kn_known(x, nd ? 6 : 2))
        return RT_OK;
    enum rt_status st = block_of(x->node, &x->in[0].shape, nd ? x->in[1].value : NULL,
                                 x->in[nd ? 2 : 1].value, is_to_batch(x->node), &b, x->err);
    if (!st)
        x->out[0].shape = b.shape;
    return st;
}

/*
 * Each block of entry n of the space tensor has one element at position `offset`. These elements
 * form entry `offset * N + n` of the batch tensor, where N is the number of entries of the space
 * tensor. One strided copy per offset moves them to or from the batch tensor.
 */
static enum rt_status batch_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const bool nd = is_nd(r->node), to_batch = is_to_batch(r->node);
    struct rt_shape in = {.rank = t->rank};
    struct block b;
    int64_t space_stride[RT_MAX_RANK], batch_stride[RT_MAX_RANK];

    memcpy(in.dim, t->dim, sizeof in.dim);
    enum rt_status st =
        block_of(r->node, &in, nd ? &r->in[1] : NULL, &r->in[nd ? 2 : 1], to_batch, &b, r->err);
    if (st)
        return st;
    if (!kn_out(r, 0, b.shape.rank, b.shape.dim))
        return r->err->code;
    struct rt_tensor *o = &r->out[0];
    const struct rt_tensor *space = to_batch ? t : o, *batch = to_batch ? o : t;
    const bool is_all = b.product == 1 && rt_tensor_count(o) == rt_tensor_count(t);
    if (rt_tensor_count(o) == 0 || (is_all && kn_hand_on(r, 0)))
        return RT_OK;
    if (to_batch && rt_dtype_is_plain(kn_dtype(o)) &&
        kn_zero_chunks(r, o->data, rt_tensor_bytes(o)))
        return r->err->code;
    kn_strides(space->rank, space->dim, space_stride);
    kn_strides(batch->rank, batch->dim, batch_stride);
    for (int64_t off = 0; off < b.product && !st; off++) {
        struct kn_walk w = {.rank = t->rank};
        int64_t left = off, in_space = 0, in_batch = off * space->dim[0] * batch_stride[0];
        bool none = false;
        for (int i = t->rank - 1; i >= 0; i--) {
            w.dim[i] = space->dim[i];
            int64_t ss = space_stride[i], bs = batch_stride[i];
            if (i >= 1 && i <= b.n) {
                const int64_t size = b.size[i - 1], at = left % size, before = b.before[i - 1];
                left /= size;
                /* Element k of the batch tensor is element `k * size + at - before` of the space
                 * tensor. Only elements within the space tensor are copied. */
                const int64_t need = before - at;
                const int64_t from = need > 0 ? (need + size - 1) / size : 0;
                /* exclusive upper bound of `k * size` */
                const int64_t end = space->dim[i] + before - at;
                const int64_t most = end > 0 ? (end + size - 1) / size : 0;
                const int64_t to = most < batch->dim[i] ? most : batch->dim[i];
                w.dim[i] = to > from ? to - from : 0;
                none = none || to <= from;
                in_space += (from * size + at - before) * ss;
                in_batch += from * bs;
                ss *= size;
            }
            w.src[i] = to_batch ? ss : bs;
            w.dst[i] = to_batch ? bs : ss;
        }
        if (!none)
            st = kn_walk_copy(kn_dtype(t), &w, kn_at_mut(o, to_batch ? in_batch : in_space),
                              kn_at(t, to_batch ? in_space : in_batch), r);
    }
    return st;
}

#define BATCH(symbol, op_, shape_in_)                                                              \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .shape_in = (shape_in_), .infer = batch_infer},                      \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, batch_run),                                       \
    };
BATCH(space_to_batch_nd, "SpaceToBatchND", 6)
BATCH(batch_to_space_nd, "BatchToSpaceND", 6)
BATCH(space_to_batch, "SpaceToBatch", 2)
BATCH(batch_to_space, "BatchToSpace", 2)

/* ---- depth ---- */

static enum rt_status depth_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    const int64_t b = rt_attr_int(x->node, "block_size");
    const bool to_depth = is_to_batch(x->node);

    if (!kn_known(x, 0))
        return RT_OK;
    if (in->rank != 4)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input rank should be 4 instead of %d",
                       in->rank);
    struct rt_shape o = *in;
    bool fits = true;
    if (to_depth) {
        if (in->dim[1] % b != 0 || in->dim[2] % b != 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Image width %lld and height %lld should be divisible by block_size: "
                           "%lld",
                           (long long)in->dim[2], (long long)in->dim[1], (long long)b);
        o.dim[1] /= b;
        o.dim[2] /= b;
        fits = rt_mul(in->dim[3], b * b, &o.dim[3]); /* depth_check has limited the size of b */
    } else {
        if (in->dim[3] % (b * b) != 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Input depth dimension %lld should be divisible by: %lld",
                           (long long)in->dim[3], (long long)(b * b));
        fits = rt_mul(in->dim[1], b, &o.dim[1]) && rt_mul(in->dim[2], b, &o.dim[2]);
        o.dim[3] /= b * b;
    }
    if (!fits)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "%s: too many elements", x->node->schema->name);
    x->out[0].shape = o;
    return RT_OK;
}

static enum rt_status depth_check(const struct rt_node *n, struct rt_error *err)
{
    const int64_t b = rt_attr_int(n, "block_size");

    if (b < 2 || b > 1 << 20)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: Block size should be > 1, but was: %lld",
                       n->name, (long long)b);
    if (!rt_span_is(rt_attr_str(n, "data_format"), "NHWC"))
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: Only NHWC data_format supported on CPU.",
                       n->name);
    return RT_OK;
}

static enum rt_status depth_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const bool to_depth = is_to_batch(r->node);
    enum rt_status st = kn_outputs(r, depth_infer);

    if (st)
        return st;
    const struct rt_tensor *o = &r->out[0], *deep = to_depth ? o : t, *wide = to_depth ? t : o;
    const int64_t b = rt_attr_int(r->node, "block_size"), c = wide->dim[3];
    const int64_t h = deep->dim[1], w = deep->dim[2];
    /* The dimensions are image, row, row in block, column, column in block, and channel. */
    struct kn_walk walk = {.rank = 6, .dim = {t->dim[0], h, b, w, b, c}};
    const int64_t d[6] = {h * w * b * b * c, w * b * b * c, b * c, b * b * c, c, 1};
    const int64_t s[6] = {h * b * w * b * c, b * w * b * c, w * b * c, b * c, c, 1};
    memcpy(walk.dst, to_depth ? d : s, sizeof d);
    memcpy(walk.src, to_depth ? s : d, sizeof d);
    return kn_walk_copy(kn_dtype(t), &walk, r->out[0].data, t->data, r);
}

#define DEPTH(symbol, op_)                                                                         \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .check = depth_check, .infer = depth_infer, .rows = rt_rows_first},  \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, depth_run),                                       \
    };
DEPTH(space_to_depth, "SpaceToDepth")
DEPTH(depth_to_space, "DepthToSpace")
