/* ZerosLike of variants. Items of lists and components of optionals may be variants themselves. */
#include "kernels/list/list_internal.h"

#include "kernels/cpu/types.h"

/* Makes *out the zero of scalar variant t. */
static enum rt_status variant_zeros(struct rt_run *r, const struct rt_tensor *t, int depth,
                                    struct rt_tensor *out)
{
    struct rt_object *o = NULL;
    enum rt_status st;

    if (depth > KN_VARIANTS_DEEP)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "ZerosLike: variants nested more than %d deep",
                       KN_VARIANTS_DEEP);
    if (kn_list_of(t))
        st = kn_list_of_zeros(r, t, depth, &o);
    else if (kn_is_tensor_map(t))
        st = kn_tensor_map_zeros(r, &o);
    else if (kn_is_ragged(t))
        st = kn_ragged_zeros(r, t, &o);
    else if (kn_is_optional(t))
        st = kn_optional_zeros(r, t, depth, &o);
    else if (kn_is_composite(t))
        st = rt_fail(r->err, RT_INTERNAL,
                     "No unary variant unary_op function found for op ZEROS_LIKE Variant "
                     "type_name: %s for device type: CPU",
                     kn_variant_type(t));
    else
        st = rt_fail(r->err, RT_INVALID_ARGUMENT, "Input handle is not a list. Saw: '%s'",
                     kn_variant_text(t));
    if (!st && (st = rt_tensor_object(out, rt_run_pool(r), RT_VARIANT, o, r->err)))
        rt_object_unref(o);
    return st;
}

enum rt_status kn_item_zeros(struct rt_run *r, const struct rt_tensor *t, int depth,
                             struct rt_tensor *out)
{
    const enum rt_dtype dtype = kn_dtype(t);

    if (dtype == RT_VARIANT && t->rank == 0)
        return variant_zeros(r, t, depth + 1, out);
    if (dtype != RT_BOOL && !kn_is_number(dtype))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Trying to compute zeros_like for unsupported dtype %s",
                       rt_dtype_name(dtype));
    enum rt_status st = rt_tensor_new(out, rt_run_pool(r), dtype, t->rank, t->dim, r->err);
    if (!st && out->data)
        st = kn_zero_chunks(r, out->data, rt_tensor_bytes(out));
    return st ? st : rt_run_spend(r, &r->left, rt_tensor_count(out));
}

enum rt_status kn_variant_zeros_like(struct rt_run *r)
{
    struct rt_tensor zeros = {0};
    const enum rt_status st = variant_zeros(r, &r->in[0], 0, &zeros);

    if (!st)
        rt_out_tensor(r, 0, &zeros);
    rt_tensor_clear(&zeros);
    return st;
}
