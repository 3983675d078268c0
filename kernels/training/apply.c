/* Applies an update rule to variables: reads and checks the inputs, and runs the rule's loop on the
 * elements. */
#include "kernels/training/apply.h"

#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/types.h"
#include "runtime/core/copy.h"

enum {
    CHUNK = 1 << 13, /* number of elements between two deadline checks */
    COST = 32,       /* work per element, in units of rt_run_spend */
    INDEX_COST = 32, /* work per index */
    STEP = 64,       /* Shards begin at multiples of this many elements. */
};

struct job {
    struct rt_run *r;
    const struct kn_apply *op;
    struct kn_update u; /* pointers to the first elements of the variables and the gradient */
};

static const char *input_name(const struct rt_run *r, int k)
{
    return r->node->schema->in[k].name;
}

/* ---- hyperparameters ---- */

/* Returns TensorFlow's name for a hyperparameter in error messages. */
static const char *scalar_name(const char *input, bool is_sparse)
{
    static const char *const name[][2] = {
        {"l1", "l1 regularization strength"},
        {"l2", "l2 regularization strength"},
        {"l2_shrinkage", "l2 shrinkage regularization strength"},
    };
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (strcmp(input, name[i][0]) == 0)
            return name[i][1];
    return is_sparse && strcmp(input, "alpha") == 0 ? "lr" : input;
}

/* Returns the value of a real tensor. Complex hyperparameters are not checked. */
static double real_at(const struct rt_tensor *t)
{
    double v = 0;

    switch (t->dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        v = (double)KN_GET(dt, *(const T *)t->data);                                               \
        break;
        KN_FLOATS(X)
        KN_HALFS(X)
#undef X
    }
    return v;
}

static enum rt_status check_scalar(const struct job *j, int input, enum kn_scalar_check check)
{
    static const char *const what[] = {
        [KN_ANY] = "a scalar",
        [KN_SINGLE] = "a scalar",
        [KN_POSITIVE] = "a positive scalar",
        [KN_POSITIVE_OR_FLAG] = "a positive scalar (or zero if multiply_linear_by_lr is set)",
        [KN_NOT_NEGATIVE] = "a non-negative scalar",
        [KN_NOT_POSITIVE] = "a non-positive scalar",
    };
    const struct rt_tensor *t = &j->r->in[input];
    const char *name = input_name(j->r, input);
    bool good = check == KN_SINGLE ? rt_tensor_count(t) == 1 : t->rank == 0;

    if (good && check > KN_SINGLE) {
        const double v = real_at(t);
        good = (check == KN_POSITIVE && v > 0) || (check == KN_NOT_NEGATIVE && v >= 0) ||
               (check == KN_NOT_POSITIVE && v <= 0) ||
               (check == KN_POSITIVE_OR_FLAG && (v > 0 || (v >= 0 && j->u.flag)));
    }
    if (good)
        return RT_OK;
    const bool is_lr = strcmp(name, "lr") == 0, is_power = strcmp(name, "lr_power") == 0;
    const char *end = is_lr && j->op->space_after_lr ? " : "
                      : is_power && check == KN_ANY  ? ""
                                                     : ": ";
    return rt_fail(j->r->err, RT_INVALID_ARGUMENT, "%s is not %s%s%s",
                   scalar_name(name, j->op->is_sparse), what[check], end, KN_TEXT(t));
}

/* Sets u.scalar to the hyperparameters: all inputs except the variables, the gradient and its
 * indices. */
static enum rt_status read_scalars(struct job *j)
{
    const struct kn_rule *rule = j->op->rule;
    int n = 0;

    for (int k = rule->n_vars; k < j->r->n_in; k++) {
        if (k >= rule->grad && k <= rule->grad + j->op->is_sparse)
            continue;
        const enum rt_status st = check_scalar(j, k, j->op->check[n]);
        if (st)
            return st;
        j->u.scalar[n++] = j->r->in[k].data;
    }
    return RT_OK;
}

/* ---- shapes ---- */

static bool same_shape(const struct rt_tensor *a, const struct rt_tensor *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

static enum rt_status check_variables(const struct job *j, struct rt_tensor *const *value,
                                      struct rt_error *err)
{
    const struct kn_rule *rule = j->op->rule;
    const struct rt_tensor *grad = &j->r->in[rule->grad];

    for (int k = 0; k < rule->n_vars; k++) {
        if (value[k]->dtype != grad->dtype)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%s is a variable of type %s, not %s",
                           input_name(j->r, k), rt_dtype_name(kn_dtype(value[k])),
                           rt_dtype_name(kn_dtype(grad)));
        /* TensorFlow does not check the slot `vhat`. In the dense form, it does not check
         * accum_update either. */
        if (!same_shape(value[0], value[k]))
            return rt_fail(err, RT_INVALID_ARGUMENT, "var and %s do not have the same shape%s %s",
                           j->op->slot[k - 1] ? j->op->slot[k - 1] : input_name(j->r, k),
                           KN_TEXT(value[0]), KN_TEXT(value[k]));
    }
    return RT_OK;
}

static enum rt_status check_sparse(struct job *j, const struct rt_tensor *var, struct rt_error *err)
{
    const struct rt_tensor *grad = &j->r->in[j->op->rule->grad], *indices = grad + 1;

    if (var->rank < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "var must be at least 1 dimensional");
    if (indices->rank != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "indices must be one-dimensional");
    /* TensorFlow accepts a gradient with too few or too many dimensions, and then reads beyond its
     * end. */
    if (grad->rank < var->rank || (grad->rank > var->rank && j->op->needs_rank) ||
        rt_count(grad->rank - var->rank, grad->dim + var->rank) != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "grad must have the same number of dimensions as var");
    for (int i = 1; i < var->rank; i++)
        if (grad->dim[i] != var->dim[i])
            return rt_fail(err, RT_INVALID_ARGUMENT, "var and grad must match in dimension %d", i);
    j->u.inner = rt_count(var->rank - 1, var->dim + 1);
    if (j->u.inner == 0 && j->op->needs_inner)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Inner dimension should be greater than zero.");
    if (grad->dim[0] != indices->dim[0])
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "grad must be the same size as indices in the first dimension.");
    return RT_OK;
}

/* ---- elements ---- */

/* Updates n elements of the variables, beginning with element `to`. The gradient's elements begin
 * at element `from`. */
static enum rt_status update(struct rt_run *r, const struct job *j, int64_t to, int64_t from,
                             int64_t n, int64_t *left)
{
    const struct kn_rule *rule = j->op->rule;
    const enum rt_dtype dtype = kn_dtype(&r->in[rule->grad]);
    const size_t size = rt_dtype_size(dtype);
    struct kn_update u = j->u;

    for (int k = 0; k < rule->n_vars; k++)
        u.var[k] = (char *)u.var[k] + (size_t)to * size;
    u.grad = (const char *)u.grad + (size_t)from * size;
    while (n > 0) {
        const int64_t some = n < CHUNK ? n : CHUNK;
        rule->fn[dtype](&u, some);
        for (int k = 0; k < rule->n_vars; k++)
            u.var[k] = (char *)u.var[k] + (size_t)some * size;
        u.grad = (const char *)u.grad + (size_t)some * size;
        n -= some;
        if (rt_run_spend(r, left, COST * some))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status update_range(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    int64_t left = RT_WORK;
    return update(r, arg, from, from, to - from, &left);
}

static enum rt_status check_index(const struct job *j, int64_t i, int64_t row, int64_t n_rows,
                                  struct rt_error *err)
{
    if (row >= 0 && row < n_rows)
        return RT_OK;
    if (j->op->gather_words)
        return rt_fail(err, RT_INVALID_ARGUMENT, "indices[%lld] = %lld is not in [0, %lld)",
                       (long long)i, (long long)row, (long long)n_rows);
    return rt_fail(err, RT_INVALID_ARGUMENT, "Index %lld at offset %lld in indices is out of range",
                   (long long)row, (long long)i);
}

static enum rt_status update_rows(struct job *j, int64_t n_rows, struct rt_error *err)
{
    const struct rt_tensor *indices = &j->r->in[j->op->rule->grad + 1];
    const int64_t n = rt_tensor_count(indices);
    int64_t left = RT_WORK;
    enum rt_status st;

    for (int64_t i = 0; i < n && j->op->checks_first; i++)
        if ((st = check_index(j, i, kn_int_at(indices, i), n_rows, err)) ||
            (st = rt_run_spend(j->r, &left, INDEX_COST)))
            return st;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = kn_int_at(indices, i), inner = j->u.inner;
        if ((st = check_index(j, i, row, n_rows, err)) ||
            (st = update(j->r, j, row * inner, i * inner, inner, &left)) ||
            (st = rt_run_spend(j->r, &left, INDEX_COST)))
            return st;
    }
    return RT_OK;
}

static enum rt_status change(void *arg, struct rt_tensor *const *value, struct rt_error *err)
{
    struct job *j = arg;
    const struct kn_rule *rule = j->op->rule;
    const struct rt_tensor *grad = &j->r->in[rule->grad], *var = value[0];
    enum rt_status st = check_variables(j, value, err);

    if (!st)
        st = read_scalars(j);
    if (!st && j->op->is_sparse)
        st = check_sparse(j, var, err);
    if (!st && !j->op->is_sparse && !same_shape(var, grad))
        st = rt_fail(err, RT_INVALID_ARGUMENT, "var and %s do not have the same shape%s %s",
                     input_name(j->r, rule->grad), KN_TEXT(var), KN_TEXT(grad));
    if (st)
        return st;
    for (int k = 0; k < rule->n_vars; k++)
        j->u.var[k] = value[k]->data;
    j->u.grad = grad->data;
    if (j->op->is_sparse)
        return update_rows(j, var->dim[0], err);
    return kn_parallel_rows(j->r, rt_tensor_count(var), COST, STEP, update_range, j);
}

enum rt_status kn_apply_run(struct rt_run *r, const struct kn_apply *op)
{
    const struct kn_rule *rule = op->rule;
    struct rt_variable *v[RT_UPDATED_TOGETHER];
    struct job j = {.r = r, .op = op};

    for (int k = 0; k < rule->n_vars; k++) {
        v[k] = rt_variable_of(&r->in[k]);
        if (!v[k])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "input %d of %s is not the handle of a variable", k,
                           r->node->schema->name);
        if (!op->is_ref && !rt_variable_is_initialized(v[k]))
            return rt_fail(r->err, RT_INTERNAL, "Invalid variable reference.");
    }
    j.u.flag = rule->flag && rt_attr_bool(r->node, rule->flag);
    const enum rt_status st =
        rt_variables_update(v, rule->n_vars, op->is_ref, change, &j,
                            &(const struct rt_check){rt_run_check_of, r}, rt_run_state(r), r->err);
    if (!st && op->is_ref)
        rt_out_tensor(r, 0, &r->in[0]); /* an op on a ref variable returns the reference itself */
    return st;
}
