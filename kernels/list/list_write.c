#include "kernels/list/list_internal.h"

#include "kernels/math/elementwise.h"
#include "runtime/base/checked.h"

/* ---- making lists ---- */

static enum rt_status empty_run(struct rt_run *r)
{
    struct rt_shape s;
    int64_t max;
    enum rt_status st = kn_list_scalar(r, 1, "max_num_elements", &max);

    if (st || (st = kn_partial_shape(&r->in[0], &s, r->err)))
        return st;
    struct kn_list *l = kn_list_new(r, rt_attr_dtype(r->node, "element_dtype"), &s, 0);
    if (!l)
        return r->err->code;
    l->max = max;
    return rt_out_object(r, 0, &l->o);
}

KN_LIST_OP(empty_tensor_list, "EmptyTensorList", kn_infer_scalars, empty_run)

static enum rt_status reserve_run(struct rt_run *r)
{
    struct rt_shape s;
    int64_t n;
    enum rt_status st = kn_list_scalar(r, 1, "The num_elements to reserve", &n);

    if (st || (st = kn_partial_shape(&r->in[0], &s, r->err)))
        return st;
    if (n < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The num_elements to reserve must be a non negative number, but got %lld",
                       (long long)n);
    struct kn_list *l = kn_list_new(r, rt_attr_dtype(r->node, "element_dtype"), &s, n);
    return l ? rt_out_object(r, 0, &l->o) : r->err->code;
}

KN_LIST_OP(tensor_list_reserve, "TensorListReserve", kn_infer_scalars, reserve_run)

/* Refuses a tensor whose rows do not match s, the list's element shape. */
static enum rt_status rows_fit(struct rt_run *r, const struct rt_tensor *t, struct rt_shape *s)
{
    struct rt_shape row;

    if (t->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tensor must be at least a vector, but saw shape: %s", KN_TEXT(t));
    row.rank = t->rank - 1;
    memcpy(row.dim, t->dim + 1, (size_t)row.rank * sizeof row.dim[0]);
    if (!kn_partial_fits(s, &row))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Specified a list with shape %s from a tensor with shape %s", KN_PARTIAL(s),
                       KN_TEXT(&row));
    return RT_OK;
}

static enum rt_status from_tensor_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    struct rt_shape s;
    enum rt_status st = kn_partial_shape(&r->in[1], &s, r->err);

    if (st || (st = rows_fit(r, t, &s)))
        return st;
    struct kn_list *l = kn_list_new(r, kn_dtype(t), &s, t->dim[0]);
    if (!l)
        return r->err->code;
    for (int64_t i = 0; i < l->n && !st; i++) {
        const struct rt_tensor row = kn_row(t, i);
        if (!(st = kn_keep(r, &l->item[i], &row)))
            st = rt_run_tick(r, i);
    }
    if (st) {
        rt_object_unref(&l->o);
        return st;
    }
    return rt_out_object(r, 0, &l->o);
}

KN_LIST_OP(tensor_list_from_tensor, "TensorListFromTensor", kn_infer_scalars, from_tensor_run)

static enum rt_status split_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0], *len = &r->in[2];
    struct rt_shape s, ts;
    int64_t at = 0;

    if (len->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected lengths to be a vector, received shape: %s", KN_TEXT(len));
    enum rt_status st = kn_partial_shape(&r->in[1], &s, r->err);
    if (st)
        return st;
    if (t->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tensor must be at least a vector, but saw shape: %s", KN_TEXT(t));
    kn_shape_get(t, &ts);
    struct rt_shape free_first = s;
    if (free_first.rank > 0)
        free_first.dim[0] = -1;
    if (!kn_partial_fits(&free_first, &ts))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "tensor shape %s is not compatible with element_shape %s", KN_TEXT(t),
                       KN_PARTIAL(&s));
    struct kn_list *l = kn_list_new(r, kn_dtype(t), &s, len->dim[0]);
    if (!l)
        return r->err->code;
    for (int64_t i = 0; i < l->n && !st; i++) {
        const int64_t n = kn_int_at(len, i);
        if (n < 0) {
            st = rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid value in lengths: %lld",
                         (long long)n);
        } else if (n > t->dim[0] - at) {
            st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                         "Attempting to slice [%lld, %lld] from tensor with length %lld",
                         (long long)at, (long long)rt_add_saturated(at, n), (long long)t->dim[0]);
        } else {
            const struct rt_tensor rows = kn_rows_of(t, at, n);
            st = kn_keep(r, &l->item[i], &rows);
            at += n;
        }
        if (!st)
            st = rt_run_tick(r, i);
    }
    if (!st && at != t->dim[0])
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Unused values in tensor. Length of tensor: %lld Values used: %lld",
                     (long long)t->dim[0], (long long)at);
    if (st) {
        rt_object_unref(&l->o);
        return st;
    }
    return rt_out_object(r, 0, &l->o);
}

KN_LIST_OP(tensor_list_split, "TensorListSplit", kn_infer_scalars, split_run)

/* ---- changing lists ---- */

static enum rt_status set_item_run(struct rt_run *r)
{
    const struct rt_tensor *item = &r->in[2];
    struct kn_list *l = kn_list_input(r, 0);
    struct rt_tensor own;
    struct rt_shape s;
    int64_t i;

    if (!l)
        return r->err->code;
    enum rt_status st = kn_list_scalar(r, 1, "index", &i);
    if (st || (st = kn_list_check_type(r, l, rt_attr_dtype(r->node, "element_dtype"))))
        return st;
    const bool grow = rt_attr_bool(r->node, "resize_if_index_out_of_bounds");
    if (i < 0 || (i >= l->n && !grow))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Trying to modify element %lld in a list with %lld elements.", (long long)i,
                       (long long)l->n);
    kn_shape_get(item, &s);
    if (!kn_partial_fits(&l->shape, &s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tried to set a tensor with incompatible shape at a list index. Item "
                       "element shape: %s list shape: %s",
                       KN_TEXT(item), KN_PARTIAL(&l->shape));
    l = kn_list_write_begin(r, &own);
    if (!l)
        return r->err->code;
    if (i >= l->n && !kn_list_resize(r, l, i + 1))
        return kn_list_write_done(r, 0, &own, r->err->code);
    rt_tensor_clear(&l->item[i]);
    return kn_list_write_done(r, 0, &own, kn_keep(r, &l->item[i], item));
}

KN_LIST_OP(tensor_list_set_item, "TensorListSetItem", kn_infer_scalars, set_item_run)

static enum rt_status push_run(struct rt_run *r)
{
    const struct rt_tensor *item = &r->in[1];
    struct kn_list *l = kn_list_typed(r);
    struct rt_tensor own;
    struct rt_shape s;

    if (!l)
        return r->err->code;
    kn_shape_get(item, &s);
    if (!kn_partial_fits(&l->shape, &s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tried to append a tensor with incompatible shape to a list. Op element "
                       "shape: %s list shape: %s",
                       KN_TEXT(item), KN_PARTIAL(&l->shape));
    if (l->max >= 0 && l->n >= l->max)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tried to push item into a full list list size: %lld max_num_elements: "
                       "%lld",
                       (long long)l->n, (long long)l->max);
    l = kn_list_write_begin(r, &own);
    if (!l)
        return r->err->code;
    if (!kn_list_resize(r, l, l->n + 1))
        return kn_list_write_done(r, 0, &own, r->err->code);
    return kn_list_write_done(r, 0, &own, kn_keep(r, &l->item[l->n - 1], item));
}

KN_LIST_OP(tensor_list_push_back, "TensorListPushBack", kn_infer_scalars, push_run)

/* Makes object i of output 0 a copy of list i of input 0 with row i of input 1 at its end. As in
 * TensorFlow, the lists may grow beyond their maximum number of items. */
static enum rt_status push_row(struct rt_run *r, int64_t i)
{
    const struct rt_tensor handle = kn_row(&r->in[0], i), row = kn_row(&r->in[1], i);
    const struct kn_list *l = kn_list_of(&handle);
    struct rt_shape s;

    if (!l)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Input handle at index %lld is not a list. Saw: '%s'", (long long)i,
                       kn_variant_text(&handle));
    enum rt_status st = kn_list_check_type(r, l, kn_dtype(&row));
    if (st)
        return st;
    kn_shape_get(&row, &s);
    if (!kn_partial_fits(&l->shape, &s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tried to append a tensor with incompatible shape to a list at index %lld. "
                       "Op element shape: %s list shape: %s",
                       (long long)i, KN_TEXT(&s), KN_PARTIAL(&l->shape));
    struct kn_list *copy = kn_list_new(r, l->elem, &l->shape, l->n + 1);
    if (!copy)
        return r->err->code;
    copy->max = l->max;
    ((struct rt_object **)r->out[0].data)[i] = &copy->o;
    st = kn_list_copy_items(r, copy, 0, l, l->n);
    return st ? st : kn_keep(r, &copy->item[l->n], &row);
}

static enum rt_status push_batch_run(struct rt_run *r)
{
    const struct rt_tensor *handles = &r->in[0], *t = &r->in[1];
    enum rt_status st = RT_OK;

    if (handles->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Shape must be rank 1 but is rank %d",
                       handles->rank);
    if (t->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected tensor to be at least a vector, but saw shape: %s", KN_TEXT(t));
    if (t->dim[0] != handles->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected tensor.shape[0] == input_handles.size, but saw %lld vs. %lld",
                       (long long)t->dim[0], (long long)handles->dim[0]);
    if (!rt_out(r, 0, 1, handles->dim))
        return r->err->code;
    for (int64_t i = 0; i < handles->dim[0] && !st; i++)
        if (!(st = push_row(r, i)))
            st = rt_run_tick(r, i);
    return st;
}

static enum rt_status push_batch_infer(struct rt_infer *x)
{
    const struct rt_shape *s = &x->in[0].shape;

    if (s->rank == 1)
        x->out[0].shape = *s;
    return RT_OK;
}

KN_LIST_OP(tensor_list_push_back_batch, "TensorListPushBackBatch", push_batch_infer, push_batch_run)

static enum rt_status first_scalar(struct rt_infer *x)
{
    x->out[0].shape.rank = 0;
    return RT_OK;
}

static enum rt_status pop_run(struct rt_run *r)
{
    struct kn_list *l = kn_list_typed(r);
    struct rt_tensor own;
    struct rt_shape s;

    if (!l)
        return r->err->code;
    if (l->n == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Trying to pop from an empty list.");
    const struct rt_tensor *last = &l->item[l->n - 1];
    enum rt_status st = RT_OK;
    if (last->dtype) {
        rt_out_tensor(r, 1, last);
    } else {
        /* As in TensorFlow, and unlike in TensorListGetItem, the shape is not taken from other
         * items. */
        if ((st = kn_list_merged_shape(r, l, 1, &s)))
            return st;
        if (!kn_shape_known(&s))
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Trying to read an uninitialized tensor but element_shape is not fully "
                           "defined.%s",
                           KN_PARTIAL(&s));
        st = kn_list_zeros(r, 1, &s);
    }
    if (st)
        return st;
    l = kn_list_write_begin(r, &own);
    if (!l)
        return r->err->code;
    kn_list_resize(r, l, l->n - 1);
    return kn_list_write_done(r, 0, &own, RT_OK);
}

KN_LIST_OP(tensor_list_pop_back, "TensorListPopBack", first_scalar, pop_run)

static enum rt_status resize_run(struct rt_run *r)
{
    struct rt_tensor own;
    int64_t n;

    if (!kn_list_input(r, 0))
        return r->err->code;
    enum rt_status st = kn_list_scalar(r, 1, "size", &n);
    if (st)
        return st;
    if (n < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorListSlice expects size to be non-negative. Got: %lld", (long long)n);
    struct kn_list *l = kn_list_write_begin(r, &own);
    if (!l)
        return r->err->code;
    return kn_list_write_done(r, 0, &own, kn_list_resize(r, l, n) ? RT_OK : r->err->code);
}

KN_LIST_OP(tensor_list_resize, "TensorListResize", kn_infer_scalars, resize_run)

/* Writes row i of `t` to item index[i]. If `grow` is set, first extends the list to hold the
 * largest index. */
static enum rt_status scatter(struct rt_run *r, struct kn_list *l, const struct rt_tensor *t,
                              const struct rt_tensor *index, bool grow)
{
    enum rt_status st = RT_OK;
    const int64_t n = rt_tensor_count(index);
    int64_t top = -1;

    if (t->dim[0] != n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Invalid number of rows in input tensor. Expected: %lld Actual: %lld",
                       (long long)n, (long long)t->dim[0]);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = kn_int_at(index, i);
        if (at < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Indices in TensorListScatter must all be non-negative.");
        if (!grow && at >= l->n)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "TensorListScatter: Trying to scatter at index %lld in list with size "
                           "%lld",
                           (long long)at, (long long)l->n);
        top = at > top ? at : top;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    if (top >= l->n && !kn_list_resize(r, l, top + 1))
        return r->err->code;
    for (int64_t i = 0; i < n && !st; i++) {
        const struct rt_tensor row = kn_row(t, i);
        struct rt_tensor *to = &l->item[kn_int_at(index, i)];
        rt_tensor_clear(to);
        if (!(st = kn_keep(r, to, &row)))
            st = rt_run_tick(r, i);
    }
    return st;
}

static enum rt_status scatter_run(struct rt_run *r)
{
    struct rt_shape s;
    int64_t n = -1;
    enum rt_status st = kn_partial_shape(&r->in[2], &s, r->err);

    if (!st && r->n_in > 3)
        st = kn_list_scalar(r, 3, "num_elements", &n);
    if (st || (st = rows_fit(r, &r->in[0], &s)))
        return st;
    if (n < -1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "TensorListScatter expects num_elements >= -1, found: %lld", (long long)n);
    struct kn_list *l = kn_list_new(r, kn_dtype(&r->in[0]), &s, n < 0 ? 0 : n);
    if (!l)
        return r->err->code;
    st = scatter(r, l, &r->in[0], &r->in[1], n < 0);
    if (st) {
        rt_object_unref(&l->o);
        return st;
    }
    return rt_out_object(r, 0, &l->o);
}

KN_LIST_OP(tensor_list_scatter, "TensorListScatter", kn_infer_scalars, scatter_run)
KN_LIST_OP(tensor_list_scatter_v2, "TensorListScatterV2", kn_infer_scalars, scatter_run)

static enum rt_status scatter_into_run(struct rt_run *r)
{
    struct kn_list *l = kn_list_typed(r);
    struct rt_tensor own;

    if (!l)
        return r->err->code;
    if (r->in[2].rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected indices to be a vector, but received shape: %s",
                       KN_TEXT(&r->in[2]));
    struct rt_shape s = l->shape;
    enum rt_status st = rows_fit(r, &r->in[1], &s);
    if (st)
        return st;
    l = kn_list_write_begin(r, &own);
    if (!l)
        return r->err->code;
    return kn_list_write_done(r, 0, &own, scatter(r, l, &r->in[1], &r->in[2], true));
}

KN_LIST_OP(tensor_list_scatter_into_existing_list, "TensorListScatterIntoExistingList",
           kn_infer_scalars, scatter_into_run)

static enum rt_status concat_lists_run(struct rt_run *r)
{
    const struct kn_list *a = kn_list_typed(r), *b = kn_list_input(r, 1);
    struct rt_tensor own;

    if (!a || !b)
        return r->err->code;
    enum rt_status st = kn_list_check_type(r, b, rt_attr_dtype(r->node, "element_dtype"));
    if (!st && !kn_shape_eq(&a->shape, &b->shape))
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "input_a and input_b TensorList element shapes are not identical at index 0.  "
                     "Saw %s vs. %s",
                     KN_PARTIAL(&a->shape), KN_PARTIAL(&b->shape));
    struct kn_list *l = st ? NULL : kn_list_write_begin(r, &own);
    if (!l)
        return r->err->code;
    const int64_t n = l->n, more = b->n; /* the lists l and b may be identical */
    if (!kn_list_resize(r, l, n + more))
        return kn_list_write_done(r, 0, &own, r->err->code);
    return kn_list_write_done(r, 0, &own, kn_list_copy_items(r, l, n, b, more));
}

KN_LIST_OP(tensor_list_concat_lists, "TensorListConcatLists", kn_infer_scalars, concat_lists_run)
