/*
 * Ops that pass references to TensorFlow 1 variables on (RefIdentity, RefSelect), and variables
 * that live during a single run (TemporaryVariable, DestroyTemporaryVariable).
 *
 * Owner: a temporary variable belongs to the handles of the run that made it.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "runtime/core/copy.h"
#include "runtime/session/resource.h"

/* ---- RefIdentity, RefSelect ---- */

static enum rt_status identity_run(struct rt_run *r)
{
    rt_out_tensor(r, 0, &r->in[0]);
    return RT_OK;
}

static enum rt_status select_run(struct rt_run *r)
{
    const int n = r->n_in - 1;
    int64_t index;

    if (!kn_scalar(&r->in[0], &index))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Index must be a scalar, but it has shape %s",
                       KN_TEXT(&r->in[0]));
    if (index < 0 || index >= n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Index must be in the range [0, %d) but got %lld", n, (long long)index);
    rt_out_tensor(r, 0, &r->in[1 + index]);
    return RT_OK;
}

const struct kn_entry kn_ref_identity = {
    .op = {.name = "RefIdentity"},
    .kernels = KN_KERNELS({.op = "RefIdentity",
                           .device = "CPU",
                           .name = "ref_identity",
                           .flags = RT_K_VIEWS,
                           .run = identity_run}),
};
const struct kn_entry kn_ref_select = {
    .op = {.name = "RefSelect"},
    .kernels = KN_KERNELS({.op = "RefSelect",
                           .device = "CPU",
                           .name = "ref_select",
                           .flags = RT_K_VIEWS,
                           .run = select_run}),
};

/* ---- TemporaryVariable, DestroyTemporaryVariable ---- */

static struct rt_span name_of(const struct rt_node *n)
{
    const struct rt_span name = rt_attr_str(n, "var_name");
    return name.n ? name : rt_span_of(n->name, strlen(n->name));
}

static enum rt_status make(struct rt_run *r, const struct rt_shape *shape, struct rt_variable **out)
{
    const struct rt_span name = name_of(r->node);
    const enum rt_dtype dtype = rt_attr_dtype(r->node, "dtype");
    char *text = strndup((const char *)name.p, name.n);
    struct rt_variable *v = text ? rt_variable_new(text, dtype, shape) : NULL;
    struct rt_tensor t;
    enum rt_status st;

    free(text);
    if (!v)
        return rt_fail_memory(r->err, r->node->name, 0);
    st = rt_tensor_new(&t, rt_run_pool(r), dtype, shape->rank, shape->dim, r->err);
    if (!st) {
        /* TensorFlow leaves the elements uninitialised. */
        if (rt_dtype_is_plain(dtype))
            st = kn_zero_chunks(r, t.data, rt_tensor_bytes(&t));
        if (!st)
            st = rt_variable_assign(v, &t, NULL, NULL, r->err);
        rt_tensor_clear(&t);
    }
    if (st)
        rt_object_unref((struct rt_object *)v);
    else
        rt_variable_set_temporary(*out = v);
    return st;
}

static enum rt_status temporary_run(struct rt_run *r)
{
    const struct rt_shape *s = rt_attr_shape(r->node, "shape");
    /* TensorFlow treats an unknown rank as []. */
    const struct rt_shape scalar = {.rank = 0};
    struct rt_variable *v = NULL;

    if (rt_attr_dtype(r->node, "dtype") == RT_RESOURCE)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "a variable of resource handles");
    if (s->rank >= 0 && !kn_shape_known(s))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Shape %s is not fully defined", KN_TEXT(s));
    const enum rt_status st = make(r, s->rank < 0 ? &scalar : s, &v);
    return st ? st : rt_out_object(r, 0, (struct rt_object *)v);
}

static enum rt_status destroy_run(struct rt_run *r)
{
    struct rt_variable *v = rt_variable_of(&r->in[0]);
    const struct rt_span name = rt_attr_str(r->node, "var_name");
    struct rt_tensor t;

    if (!v || !rt_variable_end(v, name))
        return rt_fail(r->err, RT_NOT_FOUND, "Resource %.*s does not exist.", (int)name.n,
                       (const char *)name.p);
    const struct rt_check check = rt_run_as_check(r);
    enum rt_status st = rt_variable_read(v, true, &t, &check, r->err);
    if (st)
        return st;
    rt_out_tensor(r, 0, &t);
    rt_tensor_clear(&t);
    return st;
}

/* RT_RANDOM: each node makes its own variable, so equal nodes must not be merged. */
const struct kn_entry kn_temporary_variable = {
    .op = {.name = "TemporaryVariable", .effect = RT_RANDOM},
    .kernels = KN_KERNELS({.op = "TemporaryVariable",
                           .device = "CPU",
                           .name = "temporary_variable",
                           .type_attr = "dtype",
                           .flags = RT_K_VIEWS,
                           .run = temporary_run}),
};
const struct kn_entry kn_destroy_temporary_variable = {
    .op = {.name = "DestroyTemporaryVariable", .effect = RT_WRITES},
    .kernels = KN_KERNELS({.op = "DestroyTemporaryVariable",
                           .device = "CPU",
                           .name = "destroy_temporary_variable",
                           .flags = RT_K_VIEWS,
                           .run = destroy_run}),
};
