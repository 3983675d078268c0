#include "kernels/list/list_internal.h"

#include "runtime/base/checked.h"

/* ---- reading lists ---- */

static enum rt_status length_run(struct rt_run *r)
{
    const struct kn_list *l = kn_list_input(r, 0);

    if (!l || !kn_out(r, 0, 0, NULL))
        return r->err->code;
    kn_put_int(&r->out[0], 0, l->n);
    return RT_OK;
}

KN_LIST_OP(tensor_list_length, "TensorListLength", kn_infer_scalars, length_run)

static enum rt_status element_shape_run(struct rt_run *r)
{
    const struct kn_list *l = kn_list_input(r, 0);

    if (!l)
        return r->err->code;
    const int64_t n = l->shape.rank;
    if (!kn_out(r, 0, n < 0 ? 0 : 1, &n))
        return r->err->code;
    if (n < 0)
        kn_put_int(&r->out[0], 0, -1);
    for (int64_t i = 0; i < n; i++)
        kn_put_int(&r->out[0], i, l->shape.dim[i]);
    return RT_OK;
}

KN_LIST_OP(tensor_list_element_shape, "TensorListElementShape", NULL, element_shape_run)

static enum rt_status get_item_run(struct rt_run *r)
{
    const struct kn_list *l = kn_list_typed(r);
    struct rt_shape s;
    int64_t i;

    if (!l)
        return r->err->code;
    /* TensorFlow crashes on an index with several elements, but accepts an index with one element,
     * whatever its rank. */
    if (!kn_single(&r->in[1], &i))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "index expected to be a scalar but got shape: %s", KN_TEXT(&r->in[1]));
    if (i < 0 || i >= l->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Trying to access element %lld in a list with %lld elements.", (long long)i,
                       (long long)l->n);
    if (l->item[i].dtype) {
        rt_out_tensor(r, 0, &l->item[i]);
        return RT_OK;
    }
    enum rt_status st = kn_list_merged_shape(r, l, 2, &s);
    if (st || (st = kn_list_items_shape(r, l, &s)))
        return st;
    if (!kn_shape_known(&s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Trying to read an uninitialized tensor but element_shape is not fully "
                       "defined: %s and no list element is set.",
                       KN_PARTIAL(&s));
    return kn_list_zeros(r, 0, &s);
}

KN_LIST_OP(tensor_list_get_item, "TensorListGetItem", NULL, get_item_run)

/* Allocates output 0 for n items of shape s, which are stacked along a new first dimension. */
static enum rt_status stack_out(struct rt_run *r, const struct rt_shape *s, int64_t n)
{
    int64_t dim[RT_MAX_RANK];

    if (s->rank == RT_MAX_RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: more than %d dimensions are not supported",
                       r->node->schema->name, RT_MAX_RANK);
    dim[0] = n;
    memcpy(dim + 1, s->dim, (size_t)s->rank * sizeof dim[0]);
    return kn_out(r, 0, s->rank + 1, dim) ? RT_OK : r->err->code;
}

/* Sets *yes to whether the items lie contiguously and in order in one buffer, as slices of one
 * tensor do. */
static enum rt_status is_contiguous(struct rt_run *r, const struct kn_list *l, int64_t n_each,
                                    bool *yes)
{
    const size_t step = (size_t)n_each * rt_dtype_size(l->elem);
    enum rt_status st = RT_OK;

    *yes = l->n > 0 && step > 0;
    for (int64_t i = 0; i < l->n && *yes && !st; i++) {
        *yes = l->item[i].buf && l->item[i].buf == l->item[0].buf &&
               (char *)l->item[i].data == (char *)l->item[0].data + (size_t)i * step;
        st = rt_run_tick(r, i);
    }
    return st;
}

static enum rt_status stack_run(struct rt_run *r)
{
    const struct kn_list *l = kn_list_typed(r);
    struct rt_shape s, is;

    if (!l)
        return r->err->code;
    const int64_t want = rt_attr_int(r->node, "num_elements");
    if (want != -1 && want != l->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Operation expected a list with %lld elements but got a list with %lld "
                       "elements.",
                       (long long)want, (long long)l->n);
    enum rt_status st = kn_list_merged_shape(r, l, 1, &s);
    if (st || (st = kn_list_items_shape(r, l, &s)))
        return st;
    if (!kn_shape_known(&s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       l->n == 0 ? "Tried to stack elements of an empty list with "
                                   "non-fully-defined element_shape: %s"
                                 : "Tried to stack list which only contains uninitialized tensors "
                                   "and has a non-fully-defined element_shape: %s",
                       KN_PARTIAL(&s));
    for (int64_t i = 0; i < l->n; i++) {
        if ((st = rt_run_tick(r, i)))
            return st;
        if (!l->item[i].dtype)
            continue;
        kn_shape_get(&l->item[i], &is);
        if ((st = kn_partial_merge(&is, &s, r->err)))
            return st;
    }
    const int64_t each = rt_count(s.rank, s.dim);
    bool contiguous;
    if ((st = is_contiguous(r, l, each, &contiguous)))
        return st;
    if (contiguous && s.rank < RT_MAX_RANK) {
        struct rt_tensor all = l->item[0];
        all.rank = (int8_t)(s.rank + 1);
        all.dim[0] = l->n;
        memcpy(all.dim + 1, s.dim, (size_t)s.rank * sizeof s.dim[0]);
        rt_out_tensor(r, 0, &all);
        return RT_OK;
    }
    st = stack_out(r, &s, l->n);
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < l->n && !st; i++)
        if (!(st = kn_list_put_item(r, 0, i * each, &l->item[i], each)))
            st = rt_run_spend(r, &left, each + 8);
    return st;
}

KN_LIST_OP(tensor_list_stack, "TensorListStack", NULL, stack_run)

static enum rt_status gather_run(struct rt_run *r)
{
    const struct kn_list *l = kn_list_typed(r);
    const struct rt_tensor *index = &r->in[1];
    const int64_t n = rt_tensor_count(index);
    struct rt_shape s, is;

    if (!l)
        return r->err->code;
    enum rt_status st = kn_list_merged_shape(r, l, 2, &s);
    if (st)
        return st;
    if (!kn_shape_known(&s)) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = kn_int_at(index, i);
            if ((st = rt_run_tick(r, i)))
                return st;
            if (at < 0 || at >= l->n || !l->item[at].dtype)
                continue;
            kn_shape_get(&l->item[at], &is);
            if ((st = kn_partial_merge(&s, &is, r->err)))
                return st;
        }
    }
    if (n == 0 && !kn_shape_known(&s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tried to gather 0-elements from a list with non-fully-defined shape: %s",
                       KN_PARTIAL(&s));
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = kn_int_at(index, i);
        if (at < 0 || at >= l->n)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Trying to gather element %lld in a list with %lld elements.",
                           (long long)at, (long long)l->n);
        if ((st = rt_run_tick(r, i)))
            return st;
        if (!l->item[at].dtype)
            continue;
        kn_shape_get(&l->item[at], &is);
        if ((st = kn_partial_merge(&is, &s, r->err)))
            return st;
    }
    if (!kn_shape_known(&s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Tried to gather uninitialized tensors from a list with "
                       "non-fully-defined element_shape: %s",
                       KN_PARTIAL(&s));
    const int64_t each = rt_count(s.rank, s.dim);
    st = stack_out(r, &s, n);
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < n && !st; i++)
        if (!(st = kn_list_put_item(r, 0, i * each, &l->item[kn_int_at(index, i)], each)))
            st = rt_run_spend(r, &left, each + 8);
    return st;
}

KN_LIST_OP(tensor_list_gather, "TensorListGather", NULL, gather_run)

/* ---- TensorListConcat(list), ...V2(list, element_shape, leading_dims) -> tensor, lengths ---- */

/* The inputs and the result of TensorListConcat. `rest` is the item shape without its first
 * dimension. `first` is the first dimension of element_shape or, if that dimension is unknown, the
 * first dimension that all written items share. `first` is -1 if they share none. */
struct concat {
    const struct kn_list *list;
    /* the input leading_dims of TensorListConcatV2 (the first dimensions of unwritten items), or
     * NULL in TensorListConcat */
    const struct rt_tensor *lead;
    struct rt_shape rest;
    int64_t first;
};

static enum rt_status concat_shape(struct rt_run *r, struct concat *c)
{
    struct rt_shape s;
    enum rt_status st = RT_OK;

    if (r->n_in > 1)
        st = kn_partial_shape(&r->in[1], &s, r->err);
    else
        s = *rt_attr_shape(r->node, "element_shape");
    /* TensorListConcatV2 merges its input element_shape with the list's element shape.
     * TensorListConcat has only the attribute element_shape, which is not merged. */
    if (st || (r->n_in > 1 && (st = kn_partial_merge(&s, &c->list->shape, r->err))))
        return st;
    if (s.rank == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Concat requires elements to be at least vectors, found scalars instead.");
    if (s.rank > 0) {
        c->first = s.dim[0];
        c->rest.rank = s.rank - 1;
        memcpy(c->rest.dim, s.dim + 1, (size_t)c->rest.rank * sizeof c->rest.dim[0]);
    }
    if (c->list->n == 0 && !kn_shape_known(&c->rest))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "All except the first dimension must be fully defined when concating an "
                       "empty tensor list. element_shape: %s",
                       KN_PARTIAL(&s));
    return RT_OK;
}

/* Refuses a list that has only unwritten items and whose item shape is not fully known. */
static enum rt_status concat_has_shape(struct rt_run *r, const struct concat *c)
{
    bool any = c->list->n == 0;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < c->list->n && !any && !st; i++) {
        any = c->list->item[i].dtype;
        st = rt_run_tick(r, i);
    }
    if (!st && !any && !kn_shape_known(&c->rest))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Trying to concat list with only uninitialized tensors but "
                       "element_shape_except_first_dim is not fully defined: %s",
                       KN_PARTIAL(&c->rest));
    return st;
}

/* If c->first is -1 and all written items have the same first dimension, sets c->first to this
 * dimension. */
static enum rt_status concat_first(struct rt_run *r, struct concat *c)
{
    int64_t shared = -1;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < c->list->n && c->first < 0 && !st; i++) {
        const struct rt_tensor *t = &c->list->item[i];
        if (t->dtype && t->rank > 0) {
            if (shared >= 0 && t->dim[0] != shared)
                return RT_OK;
            shared = t->dim[0];
        }
        st = rt_run_tick(r, i);
    }
    c->first = c->first < 0 ? shared : c->first;
    return st;
}

/* Returns the first dimension of item i, or -1 if it is unknown. For an unwritten item, it is the
 * entry in leading_dims or, if there is none, c->first. */
static int64_t concat_rows(const struct concat *c, int64_t i)
{
    if (c->list->item[i].dtype)
        return c->list->item[i].dim[0];
    return c->lead && i < rt_tensor_count(c->lead) ? kn_int_at(c->lead, i) : c->first;
}

/* Sets *n to the first dimension of item i, and merges the item's other dimensions into c->rest. */
static enum rt_status concat_item(struct rt_run *r, struct concat *c, int64_t i, int64_t *n)
{
    const struct rt_tensor *t = &c->list->item[i];
    struct rt_shape is;

    *n = 0;
    if (!t->dtype) {
        const int64_t n_lead = c->lead ? rt_tensor_count(c->lead) : 0;
        if (c->first < 0 && i >= n_lead)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "List contains uninitialized tensor at index %lld but leading_dims has "
                           "only %lld elements.",
                           (long long)i, (long long)n_lead);
        *n = concat_rows(c, i);
        return RT_OK;
    }
    if (t->rank < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Concat saw a scalar shape at index %lld but requires at least vectors.",
                       (long long)i);
    is.rank = t->rank - 1;
    memcpy(is.dim, t->dim + 1, (size_t)is.rank * sizeof is.dim[0]);
    const enum rt_status st = kn_partial_merge(&c->rest, &is, r->err);
    *n = t->dim[0];
    /* TensorFlow skips the check of the first dimension if the list's own element shape is fully
     * known. */
    if (!st && r->n_in > 1 && c->first >= 0 && *n != c->first && !kn_shape_known(&c->list->shape))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "First entry of element_shape input does not match the first dim of list "
                       "element at index: %lld Expected: %lld Actual: %lld",
                       (long long)i, (long long)c->first, (long long)*n);
    return st;
}

static enum rt_status concat_length(struct rt_run *r, struct concat *c, int64_t *total)
{
    enum rt_status st = RT_OK;
    int64_t n;

    *total = 0;
    for (int64_t i = 0; i < c->list->n && !st; i++) {
        if ((st = rt_run_tick(r, i)) || (st = concat_item(r, c, i, &n)))
            break;
        if (n < 0 || !rt_add(*total, n, total))
            st = rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: leading dimension %lld is not valid",
                         r->node->schema->name, (long long)n);
    }
    return st;
}

static enum rt_status concat_run(struct rt_run *r)
{
    struct concat c = {.list = kn_list_typed(r),
                       .lead = r->n_in > 2 ? &r->in[2] : NULL,
                       .rest = {.rank = -1},
                       .first = -1};
    int64_t total, at = 0, left = RT_WORK;

    if (!c.list)
        return r->err->code;
    enum rt_status st = concat_shape(r, &c);
    if (st || (st = concat_has_shape(r, &c)) || (st = concat_first(r, &c)) ||
        (st = concat_length(r, &c, &total)))
        return st;
    st = stack_out(r, &c.rest, total);
    if (st || !kn_out(r, 1, 1, &c.list->n))
        return r->err->code;
    const int64_t each = rt_count(c.rest.rank, c.rest.dim);
    for (int64_t i = 0; i < c.list->n && !st; i++) {
        const struct rt_tensor *t = &c.list->item[i];
        const int64_t n = concat_rows(&c, i);
        kn_put_int(&r->out[1], i, n);
        st = kn_list_put_item(r, 0, at * each, t, n * each);
        if (!st)
            st = rt_run_spend(r, &left, n * each + 8);
        at += n;
    }
    return st;
}

KN_LIST_OP(tensor_list_concat, "TensorListConcat", NULL, concat_run)
KN_LIST_OP(tensor_list_concat_v2, "TensorListConcatV2", NULL, concat_run)

/* ---- zeros ---- */

enum rt_status kn_list_of_zeros(struct rt_run *r, const struct rt_tensor *t, int depth,
                                struct rt_object **out)
{
    const struct kn_list *l = kn_list_of(t);
    struct kn_list *o = kn_list_new(r, l->elem, &l->shape, l->n);
    enum rt_status st = RT_OK;

    if (!o)
        return r->err->code;
    o->max = l->max;
    for (int64_t i = 0; i < l->n && !st; i++)
        if (!(st = rt_run_spend(r, &r->left, KN_ITEM_WORK)) && l->item[i].dtype)
            st = kn_item_zeros(r, &l->item[i], depth, &o->item[i]);
    if (st) {
        rt_object_unref(&o->o);
        return st;
    }
    *out = &o->o;
    return RT_OK;
}
