/*
 * Ops that create variable handles, read variables and assign to them. TensorFlow 2's resource
 * variables and TensorFlow 1's ref variables are created by different ops. Both are stored in
 * session slots and represented by handles (runtime/session/resource.h).
 */
#include "runtime/session/resource.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/core/copy.h"
#include "runtime/session/state.h"

/* ---- handles ---- */

static enum rt_status make_variable(const struct rt_node *n, const char *type_attr,
                                    struct rt_object **out, struct rt_error *err)
{
    struct rt_span shared = rt_attr_str(n, "shared_name");
    /* A variable that holds handles could hold its own handle, and would then never be freed. */
    if (rt_attr_dtype(n, type_attr) == RT_RESOURCE)
        return rt_fail(err, RT_UNIMPLEMENTED, "a variable of resource handles");
    char *name =
        strndup(shared.n ? (const char *)shared.p : n->name, shared.n ? shared.n : strlen(n->name));
    struct rt_variable *v =
        name ? rt_variable_new(name, rt_attr_dtype(n, type_attr), rt_attr_shape(n, "shape")) : NULL;
    free(name);
    if (!v)
        return rt_fail_memory(err, n->name, 0);
    *out = (struct rt_object *)v;
    return RT_OK;
}

static enum rt_status make_slot(const struct rt_make *make, struct rt_object **out)
{
    return make_variable(make->node, "dtype", out, make->err);
}

static enum rt_status make_ref_slot(const struct rt_make *make, struct rt_object **out)
{
    const struct rt_shape *s = rt_attr_shape(make->node, "shape");
    enum rt_status st = kn_check_container(make->node, make->err);

    /* TensorFlow accepts only fully known shapes and shapes of unknown rank. */
    if (!st && s->rank >= 0 && !kn_shape_known(s))
        st = rt_fail(make->err, RT_INVALID_ARGUMENT, "Shape %s is not fully defined", KN_TEXT(s));
    if (!st)
        st = make_slot(make, out);
    if (st || !kn_shape_known(s) || kn_shape_total(s) != 0)
        return st;
    /* In TensorFlow, a ref variable without elements is always regarded as initialized. */
    struct rt_tensor t;
    st = rt_tensor_new(&t, NULL, rt_attr_dtype(make->node, "dtype"), s->rank, s->dim, make->err);
    if (!st) {
        st = rt_variable_assign((struct rt_variable *)*out, &t, NULL, NULL, make->err);
        rt_tensor_clear(&t);
    }
    if (st) {
        rt_object_unref(*out);
        *out = NULL;
    }
    return st;
}

/* As in TensorFlow, a VarHandleOp and a VariableV2 of the same name refer to different
 * variables. */
const struct kn_entry kn_var_handle_op = {
    .op = {.name = "VarHandleOp", .slot_kind = "resource variable", .make = make_slot},
};
const struct kn_entry kn_variable_v2 = {
    .op = {.name = "VariableV2", .slot_kind = "ref variable", .make = make_ref_slot},
};
const struct kn_entry kn_variable = {
    .op = {.name = "Variable", .slot_kind = "ref variable", .make = make_ref_slot},
};

static enum rt_status need_variable(struct rt_run *r, struct rt_variable **v)
{
    *v = rt_variable_of(&r->in[0]);
    if (!*v)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "input 0 of %s is not the handle of a variable",
                       r->node->schema->name);
    return RT_OK;
}

/* ---- reading ---- */

static enum rt_status infer_scalar(struct rt_infer *x)
{
    x->out[0].shape.rank = 0;
    return RT_OK;
}

static enum rt_status read_variable(struct rt_run *r, struct rt_variable *v, bool is_ref,
                                    struct rt_tensor *out)
{
    const struct rt_check check = rt_run_as_check(r);

    return rt_variable_read(v, is_ref, out, &check, r->err);
}

static enum rt_status run_read(struct rt_run *r)
{
    struct rt_variable *v;
    struct rt_tensor t;
    enum rt_status st = need_variable(r, &v);
    if (!st)
        st = read_variable(r, v, false, &t);
    if (st)
        return st;
    if (t.dtype != r->node->out_dtype[0])
        st = rt_fail(r->err, RT_INVALID_ARGUMENT,
                     "Trying to read variable with wrong dtype. Expected %s got %s",
                     rt_dtype_name((enum rt_dtype)r->node->out_dtype[0]),
                     rt_dtype_name((enum rt_dtype)t.dtype));
    else
        rt_out_tensor(r, 0, &t);
    rt_tensor_clear(&t);
    return st;
}

const struct kn_entry kn_read_variable_op = {
    .op = {.name = "ReadVariableOp", .effect = RT_READS},
    .kernels = KN_KERNELS(
        {.op = "ReadVariableOp", .device = "CPU", .name = "read_variable", .run = run_read}),
};

static enum rt_status run_is_initialized(struct rt_run *r)
{
    struct rt_variable *v = rt_variable_of(&r->in[0]);
    *(bool *)r->out[0].data = v && rt_variable_is_initialized(v);
    return RT_OK;
}

const struct kn_entry kn_var_is_initialized_op = {
    .op = {.name = "VarIsInitializedOp", .effect = RT_READS, .infer = infer_scalar},
    .kernels = KN_KERNELS({.op = "VarIsInitializedOp",
                           .device = "CPU",
                           .name = "var_is_initialized",
                           .run = run_is_initialized}),
};
const struct kn_entry kn_is_variable_initialized = {
    .op = {.name = "IsVariableInitialized", .effect = RT_READS, .infer = infer_scalar},
    .kernels = KN_KERNELS({.op = "IsVariableInitialized",
                           .device = "CPU",
                           .name = "is_variable_initialized",
                           .run = run_is_initialized}),
};

static enum rt_status run_shape(struct rt_run *r)
{
    struct rt_variable *v;
    struct rt_tensor t;
    enum rt_status st = need_variable(r, &v);
    if (!st)
        st = read_variable(r, v, false, &t);
    if (st)
        return st;
    int64_t rank = t.rank;
    void *out = rt_out(r, 0, 1, &rank);
    for (int d = 0; d < t.rank && out; d++)
        if (r->node->out_dtype[0] == RT_I64)
            ((int64_t *)out)[d] = t.dim[d];
        else
            ((int32_t *)out)[d] = (int32_t)t.dim[d];
    rt_tensor_clear(&t);
    return out ? RT_OK : r->err->code;
}

const struct kn_entry kn_variable_shape = {
    .op = {.name = "VariableShape", .effect = RT_READS},
    .kernels = KN_KERNELS(
        {.op = "VariableShape", .device = "CPU", .name = "variable_shape", .run = run_shape}),
};

/* ---- assigning ---- */

/* Assigns input 1. A served session copies the value, so a lazy value is loaded first, and the
 * deadline is checked meanwhile. A session that is being loaded shares the value, which stays
 * lazy. */
static enum rt_status assign(struct rt_run *r, struct rt_variable *v)
{
    const struct rt_check check = rt_run_as_check(r);
    struct rt_tensor t = r->in[1];
    const enum rt_status st = rt_run_state(r)->is_serving ? rt_run_load(r, &t) : RT_OK;

    return st ? st : rt_variable_assign(v, &t, &check, rt_run_state(r), r->err);
}

static enum rt_status run_assign_resource(struct rt_run *r)
{
    struct rt_variable *v;
    enum rt_status st = need_variable(r, &v);
    if (st)
        return st;
    if (rt_variable_dtype(v) != (enum rt_dtype)r->in[1].dtype)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Variable and value dtypes don't match; respectively, %s and %s",
                       rt_dtype_name(rt_variable_dtype(v)),
                       rt_dtype_name((enum rt_dtype)r->in[1].dtype));
    if (rt_attr_bool(r->node, "validate_shape")) {
        struct rt_tensor old;
        if (rt_variable_is_initialized(v) && read_variable(r, v, false, &old) == RT_OK) {
            char a[200], b[200];
            bool same = old.rank == r->in[1].rank &&
                        memcmp(old.dim, r->in[1].dim, (size_t)old.rank * sizeof *old.dim) == 0;
            if (!same)
                rt_fail(r->err, RT_INVALID_ARGUMENT,
                        "Trying to assign to variable with tensor with wrong shape. Expected %s "
                        "got %s",
                        rt_shape_text(a, sizeof a, old.rank, old.dim),
                        rt_shape_text(b, sizeof b, r->in[1].rank, r->in[1].dim));
            rt_tensor_clear(&old);
            if (!same)
                return r->err->code;
        }
    }
    return assign(r, v);
}

const struct kn_entry kn_assign_variable_op = {
    .op = {.name = "AssignVariableOp", .effect = RT_WRITES},
    .kernels = KN_KERNELS({.op = "AssignVariableOp",
                           .device = "CPU",
                           .name = "assign_variable",
                           .type_attr = "dtype",
                           .flags = RT_K_LAZY,
                           .run = run_assign_resource}),
};

static enum rt_status run_assign_ref(struct rt_run *r)
{
    struct rt_variable *v;
    enum rt_status st = need_variable(r, &v);
    if (st)
        return st;
    if (rt_attr_bool(r->node, "validate_shape")) {
        const struct rt_shape *declared = rt_variable_shape(v);
        struct rt_tensor old = {0};
        /* TensorFlow treats an unknown shape as []. */
        int rank = declared->rank < 0 ? 0 : declared->rank;
        const int64_t *dim = declared->dim;
        if (rt_variable_is_initialized(v) && read_variable(r, v, true, &old) == RT_OK) {
            rank = old.rank;
            dim = old.dim;
        }
        bool same =
            rank == r->in[1].rank && memcmp(dim, r->in[1].dim, (size_t)rank * sizeof *dim) == 0;
        char a[200], b[200];
        if (!same)
            rt_fail(r->err, RT_INVALID_ARGUMENT,
                    "Assign requires shapes of both tensors to match. lhs shape= %s rhs shape= %s",
                    rt_shape_text(a, sizeof a, rank, dim),
                    rt_shape_text(b, sizeof b, r->in[1].rank, r->in[1].dim));
        rt_tensor_clear(&old);
        if (!same)
            return r->err->code;
    }
    st = assign(r, v);
    if (!st)
        rt_out_tensor(r, 0, &r->in[0]); /* an op on a ref variable returns the reference itself */
    return st;
}

const struct kn_entry kn_assign = {
    .op = {.name = "Assign", .effect = RT_WRITES},
    .kernels = KN_KERNELS({.op = "Assign",
                           .device = "CPU",
                           .name = "assign",
                           .flags = RT_K_LAZY,
                           .run = run_assign_ref}),
};

/* ---- adding and subtracting in place ---- */

struct change {
    const struct rt_tensor *by;
    bool subtract;
};

static enum rt_status add_in_place(void *arg, struct rt_tensor *value, struct rt_error *err)
{
    const struct change *c = arg;
    int64_t n = rt_tensor_count(value);
    if (value->dtype != c->by->dtype)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Variable and value dtypes don't match; respectively, %s and %s",
                       rt_dtype_name((enum rt_dtype)value->dtype),
                       rt_dtype_name((enum rt_dtype)c->by->dtype));
    if (value->rank != c->by->rank ||
        memcmp(value->dim, c->by->dim, (size_t)value->rank * sizeof *value->dim) != 0) {
        char a[200], b[200];
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Cannot update variable with shape %s using a Tensor with shape %s, shapes "
                       "must be equal.",
                       rt_shape_text(a, sizeof a, value->rank, value->dim),
                       rt_shape_text(b, sizeof b, c->by->rank, c->by->dim));
    }
    switch (value->dtype) {
/* Integers are added as unsigned numbers, so that overflow wraps around. */
#define X(dt, T, U)                                                                                \
    case dt: {                                                                                     \
        T *v = value->data;                                                                        \
        const T *b = c->by->data;                                                                  \
        for (int64_t i = 0; i < n; i++)                                                            \
            v[i] = (T)(c->subtract ? (U)v[i] - (U)b[i] : (U)v[i] + (U)b[i]);                       \
        return RT_OK;                                                                              \
    }
        X(RT_F32, float, float)
        X(RT_F64, double, double)
        X(RT_I8, int8_t, uint8_t)
        X(RT_U8, uint8_t, uint8_t)
        X(RT_I16, int16_t, uint16_t)
        X(RT_U16, uint16_t, uint16_t)
        X(RT_I32, int32_t, uint32_t)
        X(RT_U32, uint32_t, uint32_t)
        X(RT_I64, int64_t, uint64_t)
        X(RT_U64, uint64_t, uint64_t)
        X(RT_C64, float _Complex, float _Complex)
        X(RT_C128, double _Complex, double _Complex)
#undef X
#define X(dt, T, up, down)                                                                         \
    case dt: {                                                                                     \
        T *v = value->data;                                                                        \
        const T *b = c->by->data;                                                                  \
        for (int64_t i = 0; i < n; i++)                                                            \
            v[i] = down(c->subtract ? up(v[i]) - up(b[i]) : up(v[i]) + up(b[i]));                  \
        return RT_OK;                                                                              \
    }
        X(RT_F16, struct kn_half, kn_from_f16, kn_to_f16)
        X(RT_BF16, struct kn_bfloat, kn_from_bf16, kn_to_bf16)
#undef X
    default:
        return rt_fail(err, RT_UNIMPLEMENTED, "a variable of %s cannot be added to",
                       rt_dtype_name((enum rt_dtype)value->dtype));
    }
}

static enum rt_status update(struct rt_run *r, bool is_ref, bool subtract)
{
    struct rt_variable *v;
    struct change c = {&r->in[1], subtract};
    const struct rt_check check = rt_run_as_check(r);
    enum rt_status st = need_variable(r, &v);
    if (!st)
        st = rt_variable_update(v, is_ref, add_in_place, &c, &check, rt_run_state(r), r->err);
    if (!st && is_ref)
        rt_out_tensor(r, 0, &r->in[0]);
    return st;
}

static enum rt_status run_add(struct rt_run *r)
{
    return update(r, false, false);
}

static enum rt_status run_sub(struct rt_run *r)
{
    return update(r, false, true);
}

static enum rt_status run_add_ref(struct rt_run *r)
{
    return update(r, true, false);
}

static enum rt_status run_sub_ref(struct rt_run *r)
{
    return update(r, true, true);
}

#define UPDATE(SYMBOL, NAME, TYPE_ATTR, RUN)                                                       \
    const struct kn_entry SYMBOL = {                                                               \
        .op = {.name = NAME, .effect = RT_WRITES},                                                 \
        .kernels = KN_KERNELS({.op = NAME,                                                         \
                               .device = "CPU",                                                    \
                               .name = "update",                                                   \
                               .type_attr = TYPE_ATTR,                                             \
                               .types = KN_SET(KN_NUMBERS),                                        \
                               .run = RUN}),                                                       \
    }
UPDATE(kn_assign_add_variable_op, "AssignAddVariableOp", "dtype", run_add);
UPDATE(kn_assign_sub_variable_op, "AssignSubVariableOp", "dtype", run_sub);
UPDATE(kn_assign_add, "AssignAdd", "T", run_add_ref);
UPDATE(kn_assign_sub, "AssignSub", "T", run_sub_ref);

static enum rt_status run_destroy(struct rt_run *r)
{
    struct rt_variable *v = rt_variable_of(&r->in[0]);

    if (!v)
        return RT_OK;
    const struct rt_check check = rt_run_as_check(r);
    return rt_variable_destroy(v, rt_attr_bool(r->node, "ignore_lookup_error"), &check,
                               rt_run_state(r), r->err);
}

const struct kn_entry kn_destroy_resource_op = {
    .op = {.name = "DestroyResourceOp", .effect = RT_WRITES},
    .kernels = KN_KERNELS({.op = "DestroyResourceOp",
                           .device = "CPU",
                           .name = "destroy_resource",
                           .run = run_destroy}),
};

/* ---- DisableCopyOnRead ---- */

/* Reading a variable never copies its value, so there is nothing to disable. As in TensorFlow, a
 * variable without a value is refused. */
static enum rt_status run_disable_copy(struct rt_run *r)
{
    struct rt_variable *v;
    struct rt_tensor t;
    enum rt_status st = need_variable(r, &v);

    if (!st)
        st = read_variable(r, v, false, &t);
    if (!st)
        rt_tensor_clear(&t);
    return st;
}

const struct kn_entry kn_disable_copy_on_read = {
    .op = {.name = "DisableCopyOnRead", .effect = RT_WRITES},
    .kernels = KN_KERNELS({.op = "DisableCopyOnRead",
                           .device = "CPU",
                           .name = "disable_copy_on_read",
                           .run = run_disable_copy}),
};
