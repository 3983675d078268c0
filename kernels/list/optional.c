/*
 * Optionals: variants that hold the components of a value, or no value. TensorFlow's gradient of a
 * branch passes the tensors of the branch that ran in optionals, because the other branch has no
 * value for them. An optional never changes. Its components are references to tensors, so their
 * elements are not copied.
 */
#include "kernels/list/list_internal.h"

struct optional {
    struct rt_object o;
    bool has_value;
    int n; /* number of components; 0 without a value */
    struct rt_tensor component[];
};

static void optional_free(struct rt_object *o)
{
    struct optional *v = (struct optional *)o;

    for (int k = 0; k < v->n; k++)
        rt_tensor_clear(&v->component[k]);
    rt_pool_free(v);
}

static const struct rt_object_type optional_type = {"tensorflow::data::Optional", optional_free};

/* Returns a new optional with n components, which the caller fills in. On failure, returns NULL and
 * sets r->err. */
static struct optional *optional_new(struct rt_run *r, bool has_value, int n)
{
    struct optional *v = rt_run_alloc(r, sizeof *v + (size_t)n * sizeof v->component[0]);

    if (v) {
        rt_object_init(&v->o, &optional_type);
        v->has_value = has_value;
        v->n = n;
    }
    return v;
}

static struct optional *optional_of(const struct rt_tensor *t)
{
    struct rt_object *o = t->rank == 0 ? rt_tensor_handle(t) : NULL;

    return o && o->type == &optional_type ? (struct optional *)o : NULL;
}

bool kn_is_optional(const struct rt_tensor *t)
{
    return optional_of(t) != NULL;
}

bool kn_is_empty_optional(const struct rt_tensor *t)
{
    const struct optional *v = optional_of(t);

    return v && !v->has_value;
}

/* Returns the optional in input 0, or NULL if input 0 is not an optional. */
static struct optional *optional_input(struct rt_run *r)
{
    struct optional *v = optional_of(&r->in[0]);

    if (!v)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "Input to %s must be %s OptionalVariant object.",
                r->node->schema->name, r->in[0].rank ? "a scalar tensor containing an" : "an");
    return v;
}

/* ---- making ---- */

static enum rt_status from_value_check(const struct rt_node *n, struct rt_error *err)
{
    for (int k = 0; k < n->n_in; k++)
        if (!kn_items_check((enum rt_dtype)n->in_dtype[k], "an optional", err))
            return err->code;
    return RT_OK;
}

static enum rt_status from_value_run(struct rt_run *r)
{
    struct optional *v = optional_new(r, true, r->n_in);
    enum rt_status st = v ? RT_OK : r->err->code;

    for (int k = 0; k < r->n_in && !st; k++)
        st = kn_keep(r, &v->component[k], &r->in[k]);
    if (!st)
        return rt_out_object(r, 0, &v->o);
    if (v)
        rt_object_unref(&v->o);
    return st;
}

const struct kn_entry kn_optional_from_value = {
    .op = {.name = "OptionalFromValue",
           .check = from_value_check,
           .infer = kn_infer_scalars,
           .rows = kn_rows_sizes},
    .kernels = KN_KERNELS({.op = "OptionalFromValue",
                           .device = "CPU",
                           .name = "optional_from_value",
                           .flags = RT_K_VIEWS,
                           .run = from_value_run}),
};

static enum rt_status none_run(struct rt_run *r)
{
    struct optional *v = optional_new(r, false, 0);

    return v ? rt_out_object(r, 0, &v->o) : r->err->code;
}

KN_LIST_OP(optional_none, "OptionalNone", kn_infer_scalars, none_run)

/* ---- reading ---- */

static enum rt_status has_value_run(struct rt_run *r)
{
    const struct optional *v = optional_input(r);

    if (!v || !rt_out(r, 0, 0, NULL))
        return r->err->code;
    *(bool *)r->out[0].data = v->has_value;
    return RT_OK;
}

KN_LIST_OP(optional_has_value, "OptionalHasValue", kn_infer_scalars, has_value_run)

static enum rt_status get_value_check(const struct rt_node *n, struct rt_error *err)
{
    const struct rt_attr *types = rt_attr(n, "output_types"), *shapes = rt_attr(n, "output_shapes");

    return types->n == shapes->n
               ? RT_OK
               : rt_fail(err, RT_INVALID_ARGUMENT,
                         "`output_shapes` must be the same length as `output_types` (%zu vs. %zu",
                         shapes->n, types->n);
}

static enum rt_status get_value_infer(struct rt_infer *x)
{
    const struct rt_attr *shapes = rt_attr(x->node, "output_shapes");

    for (int k = 0; k < x->n_out; k++)
        x->out[k].shape = shapes->v.shapes[k];
    return RT_OK;
}

static enum rt_status get_component(struct rt_run *r, const struct optional *v, int k)
{
    const struct rt_shape *want = &rt_attr(r->node, "output_shapes")->v.shapes[k];
    const struct rt_tensor *t = &v->component[k];
    struct rt_shape shape;

    if (t->dtype != r->node->out_dtype[k])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The given optional does not match the expected type for component %d. "
                       "Expected: %s. Actual: %s.",
                       k, rt_dtype_name((enum rt_dtype)r->node->out_dtype[k]),
                       rt_dtype_name(kn_dtype(t)));
    kn_shape_get(t, &shape);
    if (!kn_partial_fits(want, &shape))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The given optional does not match the expected shape for component %d. "
                       "Expected: %s. Actual: %s.",
                       k, KN_PARTIAL(want), KN_TEXT(&shape));
    rt_out_tensor(r, k, t);
    return RT_OK;
}

static enum rt_status get_value_run(struct rt_run *r)
{
    const struct optional *v = optional_input(r);
    enum rt_status st = RT_OK;

    if (!v)
        return r->err->code;
    if (!v->has_value)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "The given optional does not have a value.");
    if (v->n != r->n_out)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "The given optional has %d components, expected %d", v->n, r->n_out);
    for (int k = 0; k < v->n && !st; k++)
        st = get_component(r, v, k);
    return st;
}

const struct kn_entry kn_optional_get_value = {
    .op = {.name = "OptionalGetValue",
           .check = get_value_check,
           .infer = get_value_infer,
           .rows = kn_rows_sizes},
    .kernels = KN_KERNELS({.op = "OptionalGetValue",
                           .device = "CPU",
                           .name = "optional_get_value",
                           .flags = RT_K_VIEWS,
                           .run = get_value_run}),
};

/* ---- sums and zeros ---- */

enum rt_status kn_optional_add(struct rt_run *r, const struct rt_tensor *a,
                               const struct rt_tensor *b, int depth, struct rt_object **out)
{
    const struct optional *x = optional_of(a), *y = optional_of(b);
    enum rt_status st = RT_OK;

    if (x->has_value != y->has_value)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Cannot add optionals because one has a value and the other doesn't.");
    if (x->n != y->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Cannot add optionals because they have different numbers of components "
                       "(%d vs. %d).",
                       x->n, y->n);
    struct optional *v = optional_new(r, x->has_value, x->n);
    if (!v)
        return r->err->code;
    for (int k = 0; k < x->n && !st; k++)
        st = kn_item_add(r, &x->component[k], &y->component[k], depth, &v->component[k]);
    if (st) {
        rt_object_unref(&v->o);
        return st;
    }
    *out = &v->o;
    return RT_OK;
}

enum rt_status kn_optional_zeros(struct rt_run *r, const struct rt_tensor *t, int depth,
                                 struct rt_object **out)
{
    const struct optional *x = optional_of(t);
    struct optional *v = optional_new(r, x->has_value, x->n);
    enum rt_status st = v ? RT_OK : r->err->code;

    for (int k = 0; k < x->n && !st; k++)
        st = kn_item_zeros(r, &x->component[k], depth, &v->component[k]);
    if (!st)
        *out = &v->o;
    else if (v)
        rt_object_unref(&v->o);
    return st;
}
