/*
 * AddN of variants. Lists are added item by item, and maps key by key: a sum of maps has the keys
 * of both maps. Items may be lists and maps themselves.
 */
#include "kernels/list/list_internal.h"
#include "kernels/cpu/types.h"
#include "kernels/math/op_rows.h"

bool kn_is_number(enum rt_dtype dtype)
{
    return KN_SET(KN_NUMBERS) >> dtype & 1;
}

enum rt_status kn_numbers_add(struct rt_run *r, const struct rt_tensor *a,
                              const struct rt_tensor *b, struct rt_tensor *out)
{
    enum { CHUNK = 4096, COST = 4 /* cost per element, in units of rt_run_spend */ };
    const enum rt_dtype dtype = kn_dtype(a);
    const int64_t n = rt_tensor_count(a);
    enum rt_status st =
        rt_tensor_new(out, rt_run_pool(r), dtype, a->rank, a->rank ? a->dim : NULL, r->err);

    for (int64_t i = 0; i < n && !st; i += CHUNK) {
        const int64_t m = n - i < CHUNK ? n - i : CHUNK;
        kn_binary_add_v2.row[dtype](kn_at_mut(out, i), kn_at(a, i), kn_at(b, i), m, 1, 1);
        st = rt_run_spend(r, &r->left, COST * m);
    }
    return st;
}

static enum rt_status fail_shapes(struct rt_run *r, const struct rt_shape *a,
                                  const struct rt_shape *b, const char *what)
{
    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "Trying to add two %s with incompatible element shapes. One is %s and the other "
                   "is %s",
                   what, KN_PARTIAL(a), KN_PARTIAL(b));
}

enum rt_status kn_item_add(struct rt_run *r, const struct rt_tensor *a, const struct rt_tensor *b,
                           int depth, struct rt_tensor *out)
{
    struct rt_shape s, t;

    if (!a->dtype || !b->dtype) {
        rt_tensor_ref(out, a->dtype ? a : b);
        return RT_OK;
    }
    if (a->dtype != b->dtype)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Trying to add two tensors with incompatible element types. One is %s and "
                       "the other is %s",
                       rt_dtype_name(kn_dtype(a)), rt_dtype_name(kn_dtype(b)));
    kn_shape_get(a, &s);
    kn_shape_get(b, &t);
    if (!kn_shape_eq(&s, &t))
        return fail_shapes(r, &s, &t, "tensors");
    if (a->dtype == RT_VARIANT && a->rank == 0)
        return kn_variant_add(r, a, b, depth + 1, out);
    if (!kn_is_number(kn_dtype(a)))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Trying to add unsupported dtype %d",
                       (int)a->dtype);
    return kn_numbers_add(r, a, b, out);
}

static enum rt_status add_lists(struct rt_run *r, const struct kn_list *a, const struct kn_list *b,
                                int depth, struct rt_object **out)
{
    struct rt_shape s = a->shape;
    enum rt_status st = RT_OK;

    if (a->elem != b->elem)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Trying to add two lists of tensors of different dtypes. One is %s and the "
                       "other is %s",
                       rt_dtype_name(a->elem), rt_dtype_name(b->elem));
    if (!kn_partial_fits(&a->shape, &b->shape))
        return fail_shapes(r, &a->shape, &b->shape, "lists of tensors");
    if (a->n != b->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Trying to add two lists of tensors with different lengths. One is %lld and "
                       "the other is %lld",
                       (long long)a->n, (long long)b->n);
    kn_partial_merge(&s, &b->shape, r->err);
    struct kn_list *l = kn_list_new(r, a->elem, &s, a->n);
    if (!l)
        return r->err->code;
    for (int64_t i = 0; i < a->n && !st; i++) {
        st = kn_item_add(r, &a->item[i], &b->item[i], depth, &l->item[i]);
        if (!st)
            st = rt_run_spend(r, &r->left, KN_ITEM_WORK);
    }
    if (st) {
        rt_object_unref(&l->o);
        return st;
    }
    *out = &l->o;
    return RT_OK;
}

enum rt_status kn_variant_add(struct rt_run *r, const struct rt_tensor *a,
                              const struct rt_tensor *b, int depth, struct rt_tensor *out)
{
    struct rt_object *o = NULL;
    enum rt_status st;

    if (depth > KN_VARIANTS_DEEP)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "AddN: variants nested more than %d deep",
                       KN_VARIANTS_DEEP);
    const struct kn_list *list_a = kn_list_of(a), *list_b = kn_list_of(b);
    if (list_a && list_b)
        st = add_lists(r, list_a, list_b, depth, &o);
    else if (kn_is_tensor_map(a) && kn_is_tensor_map(b))
        st = kn_tensor_map_add(r, a, b, depth, &o);
    else if (kn_is_ragged(a) && kn_is_ragged(b))
        st = kn_ragged_add(r, a, b, depth, &o);
    else if (kn_is_optional(a) && kn_is_optional(b))
        st = kn_optional_add(r, a, b, depth, &o);
    else if (kn_is_composite(a) && kn_is_composite(b))
        st = rt_fail(r->err, RT_INTERNAL,
                     "No unary variant binary_op function found for op ADD Variant type_name: '%s' "
                     "for device type: CPU",
                     kn_variant_type(a));
    else
        st = rt_fail(r->err, RT_INTERNAL,
                     "BinaryOpVariants: Variants a and b have different type ids.  Type names: "
                     "'%s' vs. '%s'",
                     kn_variant_type(a), kn_variant_type(b));
    if (!st && (st = rt_tensor_object(out, rt_run_pool(r), RT_VARIANT, o, r->err)))
        rt_object_unref(o);
    return st;
}

/* Replaces *a by the sum of *a and *b, and clears *b. */
static enum rt_status add_to(struct rt_run *r, struct rt_tensor *a, struct rt_tensor *b)
{
    struct rt_tensor sum = {0};
    const enum rt_status st = kn_variant_add(r, a, b, 0, &sum);

    rt_tensor_clear(a);
    rt_tensor_clear(b);
    *a = sum;
    return st;
}

/* Adds pairs of neighbours, then pairs of sums, and so on. Of an odd number of tensors, the last
 * one is added to the first sum. TensorFlow adds in this order, which determines how sums of floats
 * are rounded. */
static enum rt_status add_pairs(struct rt_run *r, struct rt_tensor *t, int n)
{
    enum rt_status st = RT_OK;

    for (; n > 1 && !st; n /= 2) {
        for (int i = 0; i < n / 2 && !st; i++) {
            st = add_to(r, &t[2 * i], &t[2 * i + 1]);
            const struct rt_tensor sum = t[2 * i];
            t[2 * i] = (struct rt_tensor){0};
            t[i] = sum;
        }
        if (n % 2 && !st)
            st = add_to(r, &t[0], &t[n - 1]);
    }
    return st;
}

enum rt_status kn_variant_add_n(struct rt_run *r)
{
    if (r->n_in == 1) {
        rt_out_tensor(r, 0, &r->in[0]);
        return RT_OK;
    }
    for (int k = 0; k < r->n_in; k++)
        if (r->in[k].rank)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "AddN of non-scalar Tensor with dtype=DT_VARIANT is not supported; "
                           "inputs[%d has shape: %s.",
                           k, KN_TEXT(&r->in[k]));
    struct rt_tensor *t = rt_scratch(r, (size_t)r->n_in * sizeof *t);
    if (!t)
        return r->err->code;
    for (int k = 0; k < r->n_in; k++)
        rt_tensor_ref(&t[k], &r->in[k]);
    const enum rt_status st = add_pairs(r, t, r->n_in);
    if (!st)
        rt_out_tensor(r, 0, &t[0]);
    for (int k = 0; k < r->n_in; k++)
        rt_tensor_clear(&t[k]);
    return st;
}
