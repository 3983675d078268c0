/*
 * InplaceUpdate, InplaceAdd and InplaceSub change rows of a tensor, and TensorStridedSliceUpdate
 * changes a strided slice. The result reuses the tensor's memory if nothing else reads the tensor.
 */
#include "kernels/array/slice.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"

enum how { UPDATE, ADD, SUB };

static enum how how_of(const struct rt_node *n)
{
    const char *name = n->schema->name;
    return name[7] == 'U' ? UPDATE : name[7] == 'A' ? ADD : SUB;
}

static enum rt_status inplace_check(struct rt_run *r)
{
    const struct rt_tensor *x = &r->in[0], *i = &r->in[1], *v = &r->in[2];

    if (i->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "i must be a vector. %s", KN_TEXT(i));
    if (x->rank != v->rank)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "x and v shape doesn't match (ranks differ): %s vs. %s", KN_TEXT(x),
                       KN_TEXT(v));
    for (int d = 1; d < x->rank; d++)
        if (x->dim[d] != v->dim[d])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "x and v shape doesn't match at index %d : %s vs. %s", d, KN_TEXT(x),
                           KN_TEXT(v));
    if (x->rank == 0 || i->dim[0] != v->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "i and x shape doesn't match at index 0: %s vs. %s", KN_TEXT(i), KN_TEXT(v));
    if (how_of(r->node) != UPDATE && !(KN_SET(KN_NUMBERS) & RT_T(x->dtype)))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Unsupported data type: %s",
                       rt_dtype_name(kn_dtype(x)));
    return RT_OK;
}

/* Adds n elements to dst, or subtracts them from it. */
static void add_row(enum rt_dtype dtype, void *dst, const void *src, int64_t n, bool subtracts)
{
    switch (dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        for (int64_t k = 0; k < n; k++) {                                                          \
            const KN_U(dt) a = (KN_U(dt))KN_GET(dt, ((T *)dst)[k]);                                \
            const KN_U(dt) b = (KN_U(dt))KN_GET(dt, ((const T *)src)[k]);                          \
            ((T *)dst)[k] = KN_PUT(dt, subtracts ? a - b : a + b);                                 \
        }                                                                                          \
        return;
        KN_NUMBERS(X)
#undef X
    default:
        return;
    }
}

static enum rt_status inplace_run(struct rt_run *r)
{
    enum { PART = 1 << 16 };
    const struct rt_tensor *x = &r->in[0], *v = &r->in[2];
    const enum rt_dtype dt = kn_dtype(x);
    const int64_t rows = x->rank ? x->dim[0] : 0, total = rt_tensor_count(x);
    const int64_t each = rows ? total / rows : 0;
    const enum how how = how_of(r->node);
    enum rt_status st = inplace_check(r);

    if (!st && !kn_out(r, 0, x->rank, x->dim))
        return r->err->code;
    if (!st && r->out[0].data != x->data)
        st = kn_copy_run(r, dt, r->out[0].data, x->data, total);
    for (int64_t k = 0; k < r->in[1].dim[0] && !st && total; k++) {
        const int64_t i = kn_int_at(&r->in[1], k), row = (i % rows + rows) % rows;
        for (int64_t from = 0; from < each && !st; from += PART) {
            const int64_t n = each - from < PART ? each - from : PART;
            void *dst = kn_at_mut(&r->out[0], row * each + from);
            const void *src = kn_at(v, k * each + from);
            if (how == UPDATE)
                kn_copy(dt, dst, src, n);
            else
                add_row(dt, dst, src, n, how == SUB);
            st = rt_run_spend(r, &r->left, rt_dtype_is_plain(dt) ? n : 128 * n);
        }
    }
    return st;
}

static enum rt_status inplace_infer(struct rt_infer *x)
{
    x->out[0].shape = x->in[0].shape;
    x->alias[0] = 0;
    return RT_OK;
}

#define INPLACE(symbol, op_)                                                                       \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = inplace_infer},                                             \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, inplace_run),                                     \
    };
INPLACE(inplace_add, "InplaceAdd")
INPLACE(inplace_sub, "InplaceSub")
INPLACE(inplace_update, "InplaceUpdate")

/* ---- TensorStridedSliceUpdate ---- */

static enum rt_status slice_update_run(struct rt_run *r)
{
    const struct rt_tensor *x = &r->in[0], *value = &r->in[4];
    struct kn_slice s;
    struct kn_walk get, put;
    int64_t first;
    enum rt_status st =
        kn_slice_of(r->node, x->rank, x->dim, &r->in[1], &r->in[2], &r->in[3], &s, r->err);

    if (!st && !kn_out(r, 0, x->rank, x->dim))
        return r->err->code;
    if (!st && r->out[0].data != x->data)
        st = kn_copy_run(r, kn_dtype(x), r->out[0].data, x->data, rt_tensor_count(x));
    if (st || rt_count(s.rank, s.count) == 0)
        return st;
    kn_slice_walk(&s, x->dim, &get, &first);
    put = get;
    for (int i = 0; i < put.rank; i++)
        put.dst[i] = get.src[i];
    if (!kn_slice_source(&s, value, put.src))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Cannot broadcast input shape %s into final shape %s", KN_TEXT(value),
                       KN_TEXT(&s.shape));
    return kn_walk_copy(kn_dtype(x), &put, kn_at_mut(&r->out[0], first), value->data, r);
}

const struct kn_entry kn_tensor_strided_slice_update = {
    .op = {.name = "TensorStridedSliceUpdate", .infer = inplace_infer},
    .kernels = KN_CPU("TensorStridedSliceUpdate", "tensor_strided_slice_update", 0, NULL,
                      slice_update_run),
};
