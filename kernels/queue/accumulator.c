/* The functions that dense and sparse conditional accumulators share, and the dense ops
 * (accumulator.h). */
#include "kernels/queue/accumulator.h"

#include <stdlib.h>

#include "kernels/cpu/half.h"
#include "runtime/core/copy.h"
#include "runtime/session/state.h"

/* A run that waits. The struct is on the stack of the run's thread. */
struct kn_taker {
    struct kn_taker *next;
};

static void clear_parts(struct kn_accumulator *a)
{
    for (int k = 0; k < KN_ACCUMULATED; k++)
        rt_tensor_clear(&a->part[k]);
}

static void accumulator_free(struct rt_object *o)
{
    struct kn_accumulator *a = (struct kn_accumulator *)o;

    clear_parts(a);
    rt_cond_clear(&a->changed);
    rt_mutex_clear(&a->mu);
    free(a);
}

static const struct rt_object_type accumulator_type = {"accumulator", accumulator_free};

enum rt_status kn_accumulator_make(const struct rt_make *make, struct rt_object **out)
{
    const struct rt_span reduction = rt_attr_str(make->node, "reduction_type");
    const struct rt_shape *shape = rt_attr_shape(make->node, "shape");
    struct kn_accumulator *a = calloc(1, sizeof *a);
    const enum rt_status st = kn_check_container(make->node, make->err);

    if (st || !a) {
        free(a);
        return st ? st : rt_fail_memory(make->err, make->node->name, sizeof *a);
    }
    rt_object_init(&a->o, &accumulator_type);
    rt_mutex_init(&a->mu);
    rt_cond_init(&a->changed);
    a->dtype = rt_attr_dtype(make->node, "dtype");
    a->shape.rank = -1;
    if (shape)
        a->shape = *shape;
    a->is_sparse = make->node->schema->name[0] == 'S';
    a->takes_mean = reduction.n == 4 && memcmp(reduction.p, "MEAN", 4) == 0;
    *out = &a->o;
    return RT_OK;
}

struct kn_accumulator *kn_accumulator_of(struct rt_run *r, bool is_sparse)
{
    struct kn_accumulator *a =
        (struct kn_accumulator *)kn_resource_of(r, &accumulator_type, "an accumulator");
    const struct rt_attr *dtype = rt_attr(r->node, "dtype");

    if (!a)
        return NULL;
    if (dtype && a->is_sparse != is_sparse) {
        rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the accumulator is %s", r->node->schema->name,
                a->is_sparse ? "sparse" : "dense");
        return NULL;
    }
    if (dtype && a->dtype != rt_attr_dtype(r->node, "dtype")) {
        rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: the accumulator has type %s, not %s",
                r->node->schema->name, rt_dtype_name(a->dtype),
                rt_dtype_name(rt_attr_dtype(r->node, "dtype")));
        return NULL;
    }
    return a;
}

/* ---- arithmetic ---- */

static void half_add(struct kn_half *dst, const struct kn_half *a, const struct kn_half *b,
                     int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = kn_to_f16(kn_from_f16(a[i]) + kn_from_f16(b[i]));
}

static void float_add(float *dst, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = a[i] + b[i];
}

static void double_add(double *dst, const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = a[i] + b[i];
}

void kn_add_gradients(enum rt_dtype dtype, void *dst, const void *a, const void *b, int64_t n)
{
    if (dtype == RT_F16)
        half_add(dst, a, b, n);
    else if (dtype == RT_F32)
        float_add(dst, a, b, n);
    else
        double_add(dst, a, b, n);
}

void kn_divide_gradients(enum rt_dtype dtype, void *dst, const void *a, int64_t count, int64_t n)
{
    const float half_count = kn_from_f16(kn_to_f16((float)count)), float_count = (float)count;
    const double double_count = (double)count;

    for (int64_t i = 0; i < n; i++) {
        if (dtype == RT_F16)
            ((struct kn_half *)dst)[i] =
                kn_to_f16(kn_from_f16(((const struct kn_half *)a)[i]) / half_count);
        else if (dtype == RT_F32)
            ((float *)dst)[i] = ((const float *)a)[i] / float_count;
        else
            ((double *)dst)[i] = ((const double *)a)[i] / double_count;
    }
}

/* ---- applying and taking ---- */

enum rt_status kn_accumulator_set(struct rt_run *r, struct kn_accumulator *a, struct rt_tensor *t,
                                  int n)
{
    const struct rt_check check = rt_run_as_check(r);
    struct rt_tensor kept[KN_ACCUMULATED] = {{0}};
    enum rt_status st = RT_OK;

    for (int k = 0; k < n && !st; k++)
        st = rt_state_keep(rt_run_state(r), &kept[k], &t[k], &a->part[k], &check, r->err);
    for (int k = 0; k < n; k++) {
        rt_tensor_clear(&t[k]);
        rt_tensor_clear(st ? &kept[k] : &a->part[k]);
        if (!st)
            a->part[k] = kept[k];
    }
    return st;
}

/* Fails unless input 1 is a scalar. `what` is the input's name in the message. */
static enum rt_status check_scalar(struct rt_run *r, const char *what)
{
    struct rt_shape shape;

    if (r->in[1].rank == 0)
        return RT_OK;
    kn_shape_get(&r->in[1], &shape);
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "Argument %s must be scalar, but had bad shape %s",
                   what, KN_TEXT(&shape));
}

enum rt_status kn_accumulator_apply(struct rt_run *r, bool is_sparse,
                                    enum rt_status (*add)(struct rt_run *r,
                                                          struct kn_accumulator *a))
{
    struct kn_accumulator *a = kn_accumulator_of(r, is_sparse);

    if (!a)
        return r->err->code;
    if (rt_tensor_count(&r->in[1]) != 1)
        return check_scalar(r, "local_step");
    enum rt_status st = rt_run_lock(r, &a->mu);
    if (st)
        return st;
    if (kn_int_at(&r->in[1], 0) >= a->step) {
        st = add(r, a);
        a->n += !st;
        rt_cond_broadcast(&a->changed);
    }
    rt_mutex_unlock(&a->mu);
    /* As in TensorFlow, the shape of the step is checked last. */
    return st ? st : check_scalar(r, "local_step");
}

static void takers_remove(struct kn_accumulator *a, const struct kn_taker *t)
{
    struct kn_taker **at = &a->first;

    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    rt_cond_broadcast(&a->changed);
}

enum rt_status kn_accumulator_take(struct rt_run *r, bool is_sparse,
                                   enum rt_status (*give)(struct rt_run *r,
                                                          struct kn_accumulator *a))
{
    struct kn_accumulator *a = kn_accumulator_of(r, is_sparse);
    struct kn_taker me = {0}, **at;
    int64_t n;

    if (!a)
        return r->err->code;
    if (!kn_scalar(&r->in[1], &n))
        return check_scalar(r, "num_required");
    if (n < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Argument num_required must be positive, but was %lld", (long long)n);
    enum rt_status st = rt_run_lock(r, &a->mu);
    if (st)
        return st;
    for (at = &a->first; *at;)
        at = &(*at)->next;
    *at = &me;
    while (!st && (a->first != &me || a->n < n))
        st = rt_run_wait(r, &a->changed, &a->mu);
    if (!st)
        st = give(r, a);
    if (!st) {
        a->n = 0;
        a->step++;
        clear_parts(a);
    }
    takers_remove(a, &me);
    rt_mutex_unlock(&a->mu);
    return st;
}

/* ---- dense gradients ---- */

enum { CHUNK = 1 << 16 };

static enum rt_status dense_add(struct rt_run *r, struct kn_accumulator *a)
{
    const struct rt_tensor *t = &r->in[2];
    const int64_t n = rt_tensor_count(t);
    struct rt_shape have, want = a->shape;
    struct rt_tensor sum = {0};

    kn_shape_get(t, &have);
    if (a->n)
        kn_shape_get(&a->part[KN_SUM], &want);
    if (!kn_partial_fits(&want, &have))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Shape mismatch: expected %s, got %s",
                       KN_PARTIAL(&want), KN_TEXT(&have));
    if (!a->n) {
        rt_tensor_ref(&sum, t);
        return kn_accumulator_set(r, a, &sum, 1);
    }
    enum rt_status st = rt_tensor_new(&sum, rt_run_pool(r), a->dtype, t->rank, t->dim, r->err);
    for (int64_t i = 0; i < n && !st; i += CHUNK) {
        const int64_t m = n - i < CHUNK ? n - i : CHUNK;
        kn_add_gradients(a->dtype, kn_at_mut(&sum, i), kn_at(&a->part[KN_SUM], i), kn_at(t, i), m);
        st = rt_run_spend(r, &r->left, 3 * m);
    }
    if (!st)
        return kn_accumulator_set(r, a, &sum, 1);
    rt_tensor_clear(&sum);
    return st;
}

static enum rt_status dense_give(struct rt_run *r, struct kn_accumulator *a)
{
    const int64_t n = rt_tensor_count(&a->part[KN_SUM]);
    enum rt_status st = RT_OK;

    if (!a->takes_mean) {
        rt_out_tensor(r, 0, &a->part[KN_SUM]);
        return RT_OK;
    }
    if (!rt_out(r, 0, a->part[KN_SUM].rank, a->part[KN_SUM].dim))
        return r->err->code;
    for (int64_t i = 0; i < n && !st; i += CHUNK) {
        const int64_t m = n - i < CHUNK ? n - i : CHUNK;
        kn_divide_gradients(a->dtype, kn_at_mut(&r->out[0], i), kn_at(&a->part[KN_SUM], i), a->n,
                            m);
        st = rt_run_spend(r, &r->left, 3 * m);
    }
    return st;
}

/* ---- the ops ---- */

static enum rt_status apply_run(struct rt_run *r)
{
    return kn_accumulator_apply(r, false, dense_add);
}

static enum rt_status take_run(struct rt_run *r)
{
    return kn_accumulator_take(r, false, dense_give);
}

static enum rt_status number_run(struct rt_run *r)
{
    struct kn_accumulator *a = kn_accumulator_of(r, false);
    int32_t *o = a ? kn_out(r, 0, 0, NULL) : NULL;

    if (!o)
        return r->err->code;
    if (rt_run_lock(r, &a->mu))
        return r->err->code;
    *o = (int32_t)a->n;
    rt_mutex_unlock(&a->mu);
    return RT_OK;
}

static enum rt_status set_step_run(struct rt_run *r)
{
    struct kn_accumulator *a = kn_accumulator_of(r, false);
    int64_t step;

    if (!a)
        return r->err->code;
    if (!kn_scalar(&r->in[1], &step))
        return check_scalar(r, "new_global_step");
    if (rt_run_lock(r, &a->mu))
        return r->err->code;
    a->step = step;
    rt_mutex_unlock(&a->mu);
    return RT_OK;
}

static enum rt_status accumulator_check(const struct rt_node *n, struct rt_error *err)
{
    const enum rt_dtype dtype = rt_attr_dtype(n, "dtype");

    if (dtype == RT_F16 || dtype == RT_F32 || dtype == RT_F64)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "No OpKernel was registered to support Op '%s' used by {{node %s}} with type %s",
                   n->schema->name, n->name, rt_dtype_name(dtype));
}

#define ACCUMULATOR(symbol, op_)                                                                   \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_),                                                                      \
               .check = accumulator_check,                                                         \
               .infer = kn_infer_scalars,                                                          \
               .slot_kind = "accumulator",                                                         \
               .make = kn_accumulator_make},                                                       \
    };
ACCUMULATOR(conditional_accumulator, "ConditionalAccumulator")
ACCUMULATOR(resource_conditional_accumulator, "ResourceConditionalAccumulator")
ACCUMULATOR(sparse_conditional_accumulator, "SparseConditionalAccumulator")

#define ACCUMULATOR_OP(symbol, op_, infer_, run_)                                                  \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_BLOCKS, .infer = (infer_)},                             \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, run_),                                            \
    };
ACCUMULATOR_OP(accumulator_apply_gradient, "AccumulatorApplyGradient", NULL, apply_run)
ACCUMULATOR_OP(accumulator_num_accumulated, "AccumulatorNumAccumulated", kn_infer_scalars,
               number_run)
ACCUMULATOR_OP(accumulator_set_global_step, "AccumulatorSetGlobalStep", NULL, set_step_run)
ACCUMULATOR_OP(accumulator_take_gradient, "AccumulatorTakeGradient", NULL, take_run)
ACCUMULATOR_OP(resource_accumulator_apply_gradient, "ResourceAccumulatorApplyGradient", NULL,
               apply_run)
ACCUMULATOR_OP(resource_accumulator_num_accumulated, "ResourceAccumulatorNumAccumulated",
               kn_infer_scalars, number_run)
ACCUMULATOR_OP(resource_accumulator_set_global_step, "ResourceAccumulatorSetGlobalStep", NULL,
               set_step_run)
ACCUMULATOR_OP(resource_accumulator_take_gradient, "ResourceAccumulatorTakeGradient", NULL,
               take_run)
