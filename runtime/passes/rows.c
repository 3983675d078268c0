/*
 * Row-wise analysis proves that requests may be merged along dimension 0. By induction over the
 * plan, each value is assigned a dependence (enum rt_dep_kind) that holds for every batch size. The
 * analysis infers exact shapes for several batch sizes and calls each op's row rule with the shapes
 * for each size. A result is used only if it is the same for all sizes.
 *
 * An argument of an op (a shape, an axis, a bound) may depend on the batch size, so its value is
 * evaluated for each size. A few sizes cannot distinguish min(n, 100) from n, but they do
 * distinguish polynomials: if a polynomial of a degree below the number of sizes equals `a + b * n`
 * for each of these sizes, the two are equal for every n. Hence a result is RT_DEP_SIZE only if its
 * op computes polynomials of integers (makes_polynomials) and no step of the computation overflows.
 * Nothing is proved about a value that any other op computes from the batch size.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/passes/row_extremes.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/constant_evaluation.h"
#include "runtime/select/prepared.h"

/* ---- state of the analysis ---- */

/*
 * The first batch size is 1 and serves only to check shapes, because ops that broadcast or squeeze
 * a dimension of 1 treat one row differently from several. Row rules identify rows by the length of
 * a dimension. Row rules are called only with the other sizes, which are unlikely to be lengths of
 * other dimensions; length 1 is common.
 */
enum { N_SIZES = 4 };
static const int64_t batch_size[N_SIZES] = {1, 67, 239, 4093};

struct walk {
    const struct rt_plan *plan;
    /* for each value, its type, shape and contents at each batch size */
    struct rt_info *info[N_SIZES];
    /* For each value, the tensor that `info` points to, if this analysis evaluated the value. */
    struct rt_tensor *value[N_SIZES];
    struct rt_dep *dep;       /* for each value, a dependence that holds for all batch sizes */
    enum rt_extreme *extreme; /* for each value, which extreme it is (row_extremes.h) */
    struct rt_error *why;
    bool *is_refused; /* whether some node refuses its inputs at every batch size */
    /* Set if memory ran out. A later attempt may succeed. */
    bool *no_memory;
};

static bool walk_plan(struct walk *w);

static bool open_walk(struct walk *w)
{
    const size_t n = (size_t)w->plan->n_values + 1;
    struct rt_info *info = calloc(n, N_SIZES * sizeof *info);
    struct rt_tensor *value = calloc(n, N_SIZES * sizeof *value);
    w->dep = calloc(n, sizeof *w->dep);
    w->extreme = calloc(n, sizeof *w->extreme);
    w->info[0] = info;
    w->value[0] = value;
    if (!info || !value || !w->dep || !w->extreme) {
        *w->no_memory = true;
        return false;
    }
    for (size_t s = 1; s < N_SIZES; s++) {
        w->info[s] = info + s * n;
        w->value[s] = value + s * n;
    }
    return true;
}

static void close_walk(struct walk *w)
{
    for (int s = 0; s < N_SIZES; s++)
        for (int v = 0; w->value[s] && v < w->plan->n_values; v++)
            rt_tensor_clear(&w->value[s][v]);
    free(w->info[0]);
    free(w->value[0]);
    free(w->dep);
    free(w->extreme);
}

/* ---- properties of a value over all batch sizes ---- */

static bool is_same_shape(const struct rt_shape *a, const struct rt_shape *b)
{
    return a->rank == b->rank &&
           (a->rank <= 0 || memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->rank) == 0);
}

static bool has_one_shape(const struct walk *w, int v)
{
    for (int s = 1; s < N_SIZES; s++)
        if (!is_same_shape(&w->info[0][v].shape, &w->info[s][v].shape))
            return false;
    return true;
}

/* Returns whether `axis` is the only axis with the length of the batch. A shape of unknown rank
 * cannot be checked, so the result of the row rule is trusted (has_unknown_rows). */
static bool has_rows(const struct walk *w, int v, int axis)
{
    for (int s = 0; s < N_SIZES; s++) {
        struct rt_shape shape = w->info[s][v].shape;
        if (axis < 0)
            return false;
        if (shape.rank >= 0) {
            if (axis >= shape.rank || shape.dim[axis] != batch_size[s])
                return false;
            shape.dim[axis] = batch_size[0];
        }
        if (!is_same_shape(&shape, &w->info[0][v].shape))
            return false;
    }
    return true;
}

static int64_t element(const struct walk *w, int s, int v, int64_t i)
{
    const struct rt_tensor *t = w->info[s][v].value;
    return t->dtype == RT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

static bool is_constant(const struct walk *w, int v, int64_t i)
{
    for (int s = 1; s < N_SIZES; s++)
        if (element(w, s, v, i) != element(w, 0, v, i))
            return false;
    return true;
}

static bool is_batch_size(const struct walk *w, int v, int64_t i)
{
    for (int s = 0; s < N_SIZES; s++)
        if (element(w, s, v, i) != batch_size[s])
            return false;
    return true;
}

static int64_t count_elements(const struct walk *w, int v)
{
    return rt_tensor_count(w->info[0][v].value);
}

/* Returns the number of elements of value v that depend on the batch size. */
static int64_t count_varying(const struct walk *w, int v)
{
    int64_t n = 0;
    for (int64_t i = 0; i < count_elements(w, v); i++)
        n += !is_constant(w, v, i);
    return n;
}

/* Returns whether all elements of value v are known integers at every batch size n, and have the
 * form `a + b * n` with integers a and b. */
static bool is_linear(const struct walk *w, int v)
{
    for (int s = 0; s < N_SIZES; s++) {
        const struct rt_tensor *t = w->info[s][v].value;
        if (!t || (t->dtype != RT_I32 && t->dtype != RT_I64))
            return false;
    }
    if (!has_one_shape(w, v))
        return false;
    for (int64_t i = 0; i < count_elements(w, v); i++) {
        const int64_t run = batch_size[1] - batch_size[0];
        const uint64_t at = (uint64_t)element(w, 0, v, i);
        const int64_t rise = (int64_t)((uint64_t)element(w, 1, v, i) - at);
        for (int s = 1; s < N_SIZES; s++)
            if ((uint64_t)element(w, s, v, i) - at !=
                (uint64_t)(rise / run) * (uint64_t)(batch_size[s] - batch_size[0]))
                return false;
    }
    return true;
}

/* Returns whether `q * b = a` holds element by element at every batch size. A value with a single
 * element is broadcast. */
static bool is_exact_quotient(const struct walk *w, int q, int a, int b)
{
    const int64_t n = count_elements(w, q), n_a = count_elements(w, a), n_b = count_elements(w, b);
    if ((n_a != n && n_a != 1) || (n_b != n && n_b != 1))
        return false;
    for (int s = 0; s < N_SIZES; s++)
        for (int64_t i = 0; i < n; i++)
            if ((uint64_t)element(w, s, q, i) * (uint64_t)element(w, s, b, n_b == 1 ? 0 : i) !=
                (uint64_t)element(w, s, a, n_a == 1 ? 0 : i))
                return false;
    return true;
}

/* ---- one op ---- */

struct visit {
    struct rt_plan_step *n;
    const struct rt_op *op;
    struct rt_info *in[N_SIZES], *out[N_SIZES];
    struct rt_dep *in_dep, *out_dep, *answer;
    enum rt_extreme *in_extreme;
    bool varies;      /* whether an input depends on the size or the contents of the batch */
    bool has_content; /* whether an input depends on the batch's contents, not only on its size */
};

static bool open_visit(struct walk *w, struct rt_plan_step *n, struct visit *x)
{
    const size_t n_in = (size_t)n->n_in + 1;
    *x = (struct visit){.n = n, .op = n->def->op, .out_dep = &w->dep[n->first_value]};
    x->in[0] = calloc(n_in, N_SIZES * sizeof *x->in[0]);
    x->in_dep = calloc(n_in, sizeof *x->in_dep);
    x->in_extreme = calloc(n_in, sizeof *x->in_extreme);
    x->answer = calloc((size_t)n->n_out + 1, sizeof *x->answer);
    if (!x->in[0] || !x->in_dep || !x->in_extreme || !x->answer) {
        *w->no_memory = true;
        return false;
    }
    for (size_t s = 0; s < N_SIZES; s++) {
        x->in[s] = x->in[0] + s * n_in;
        x->out[s] = &w->info[s][n->first_value];
        for (int k = 0; k < n->n_in; k++) {
            x->in[s][k] = w->info[s][n->in_value[k]];
            if (pl_reads_variable(n->def, k, (uint8_t)x->in[s][k].dtype))
                x->in[s][k] =
                    (struct rt_info){.dtype = (enum rt_dtype)n->def->in_dtype[k], .shape.rank = -1};
        }
        for (int o = 0; o < n->n_out; o++) {
            x->out[s][o].dtype = (enum rt_dtype)n->def->out_dtype[o];
            x->out[s][o].shape.rank = -1;
        }
    }
    for (int k = 0; k < n->n_in; k++) {
        x->in_dep[k] = w->dep[n->in_value[k]];
        x->in_extreme[k] = w->extreme[n->in_value[k]];
        x->varies |= x->in_dep[k].kind != RT_DEP_NONE;
        x->has_content |= x->in_dep[k].kind > RT_DEP_SIZE;
    }
    return true;
}

static void close_visit(struct visit *x)
{
    free(x->in[0]);
    free(x->in_dep);
    free(x->in_extreme);
    free(x->answer);
}

static bool infer(struct walk *w, struct visit *x, int s)
{
    struct rt_plan_step *n = x->n;
    struct rt_error err = {0};
    struct rt_infer i = {.node = n->def,
                         .n_in = n->n_in,
                         .n_out = n->n_out,
                         .in = x->in[s],
                         .out = x->out[s],
                         .err = &err};
    if (!x->op->infer)
        return true;
    /* The infer function is not called with an input of unknown rank, because the input may have a
     * rank in other calls. */
    for (int k = 0; k < n->n_in; k++)
        if (x->in[s][k].shape.rank < 0 && x->in[s][k].dtype != RT_RESOURCE &&
            x->in[s][k].dtype != RT_VARIANT)
            return true;
    i.alias = calloc((size_t)n->n_out + 1, 1);
    if (!i.alias) {
        *w->no_memory = true;
        return false;
    }
    const enum rt_status st = rt_infer_shapes(&i);
    free(i.alias);
    if (st == RT_OK)
        return true;
    if (err.code == RT_RESOURCE_EXHAUSTED)
        *w->no_memory = true;
    rt_fail(w->why, RT_FAILED_PRECONDITION, "node '%s' (%s) refuses a batch of %lld: %s", n->name,
            x->op->name, (long long)batch_size[s], rt_error_text(&err));
    return false;
}

static void evaluate(struct walk *w, struct visit *x, int s)
{
    const int v = x->n->first_value;
    if (x->n->n_out == 1 && rt_plan_evaluate(w->plan->session, x->n, x->in[s], x->out[s],
                                             &w->value[s][v], w->no_memory))
        rt_info_of(&w->info[s][v], &w->value[s][v]);
}

static bool is_listed(const char *name, const char *const *list)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

/* Returns whether each element of the result is a polynomial in the batch size n, of a degree below
 * N_SIZES, if every element of the inputs is `a + b * n`. A quotient is a polynomial only without a
 * remainder, which `check` verifies. */
static bool makes_polynomials(const struct walk *w, const struct visit *x)
{
    static const char *const of_first_input[] = {"Cast",       "DeepCopy",     "EnsureShape",
                                                 "ExpandDims", "Gather",       "GatherV2",
                                                 "Identity",   "Neg",          "PreventGradient",
                                                 "Prod",       "Reshape",      "Reverse",
                                                 "ReverseV2",  "Slice",        "Snapshot",
                                                 "Squeeze",    "StopGradient", "StridedSlice",
                                                 "Sum",        "Transpose",    NULL};
    static const char *const of_all_inputs[] = {"Add",    "AddN",     "AddV2",    "BroadcastArgs",
                                                "Concat", "ConcatV2", "FloorDiv", "Mul",
                                                "Pack",   "Sub",      NULL};
    const bool of_first = is_listed(x->op->name, of_first_input);
    if (x->op->rows == rt_rows_shape)
        return true;
    if (x->has_content || (!of_first && !is_listed(x->op->name, of_all_inputs)))
        return false;
    for (int k = 0; k < x->n->n_in; k++)
        if (x->in_dep[k].kind == RT_DEP_SIZE &&
            ((of_first && k > 0) || rt_op_reads_value(x->op, k, x->n->n_in)))
            return false;
    return strcmp(x->op->name, "Prod") != 0 || count_varying(w, x->n->in_value[0]) < N_SIZES;
}

static double magnitude(const struct walk *w, int s, int v, bool multiply)
{
    const struct rt_tensor *t = w->info[s][v].value;
    double m = multiply;
    if (!t || (t->dtype != RT_I32 && t->dtype != RT_I64))
        return INFINITY;
    for (int64_t i = 0; i < rt_tensor_count(t); i++) {
        const double e = fabs((double)element(w, s, v, i));
        m = multiply ? m * fmax(e, 1) : fmax(m, e);
    }
    return m;
}

/* Returns whether the op's arithmetic, if it has any, stays within its type for every batch size. A
 * result that wraps around is not a polynomial over the integers. For example, `n * -2^31` has the
 * same value for all odd n. */
static bool is_within_type(const struct walk *w, const struct visit *x)
{
    const char *name = x->op->name;
    const int *in = x->n->in_value;
    const double most = x->out[0][0].dtype == RT_I32 ? 0x1p31 : 0x1p62;
    const bool multiplies = strcmp(name, "Mul") == 0, sums = strcmp(name, "Sum") == 0;
    const bool adds = strcmp(name, "Add") == 0 || strcmp(name, "AddV2") == 0 ||
                      strcmp(name, "AddN") == 0 || strcmp(name, "Sub") == 0;
    const bool takes_one = sums || strcmp(name, "Prod") == 0 || strcmp(name, "Cast") == 0 ||
                           strcmp(name, "Neg") == 0 || strcmp(name, "FloorDiv") == 0;
    for (int s = 0; s < N_SIZES && (multiplies || adds || takes_one); s++) {
        double m = magnitude(w, s, in[0], strcmp(name, "Prod") == 0);
        for (int k = 1; k < x->n->n_in && !takes_one; k++)
            m = multiplies ? m * magnitude(w, s, in[k], false) : m + magnitude(w, s, in[k], false);
        if (sums)
            m *= (double)rt_tensor_count(w->info[s][in[0]].value);
        if (!(m < most))
            return false;
    }
    return true;
}

/* Checks the inputs that depend only on the batch size. Returns whether the op's infer function
 * reads all these inputs, and whether all their elements are constants or the batch size. The op's
 * row rule then returns the same result for all sizes. */
static bool takes_sizes(const struct walk *w, const struct visit *x)
{
    for (int k = 0; k < x->n->n_in; k++) {
        const int v = x->n->in_value[k];
        if (x->in_dep[k].kind != RT_DEP_SIZE)
            continue;
        if (!rt_op_reads_value(x->op, k, x->n->n_in))
            return false;
        for (int64_t i = 0; i < count_elements(w, v); i++)
            if (!is_constant(w, v, i) && !is_batch_size(w, v, i))
                return false;
    }
    return true;
}

/*
 * Returns whether an input has rows but an unknown rank, such as the result of a gather from a
 * variable that is assigned. Row rules count axes from the last one, so they are not called for
 * such an input. The exception is the rule of element-wise ops with one operand. This rule needs no
 * rank.
 */
static bool has_unknown_rows(const struct visit *x)
{
    for (int k = 0; k < x->n->n_in && x->op->rows != rt_rows_same; k++)
        if (x->in_dep[k].kind == RT_DEP_ROWS && x->in[0][k].shape.rank < 0)
            return true;
    return false;
}

/* Calls the op's row rule, and uses its result if it is the same for every batch size. */
static void query_rule(struct visit *x)
{
    for (int s = 1; s < N_SIZES; s++) {
        struct rt_rows r = {.node = x->n->def,
                            .n_rows = batch_size[s],
                            .n_in = x->n->n_in,
                            .n_out = x->n->n_out,
                            .in = x->in[s],
                            .out = x->out[s],
                            .in_dep = x->in_dep,
                            .out_dep = x->answer};
        for (int o = 0; o < x->n->n_out; o++)
            x->answer[o] = (struct rt_dep){.kind = RT_DEP_MIXED};
        x->op->rows(&r);
        for (int o = 0; o < x->n->n_out; o++) {
            const struct rt_dep *a = &x->answer[o];
            if (s == 1)
                x->out_dep[o] = *a;
            else if (a->kind != x->out_dep[o].kind || a->axis != x->out_dep[o].axis)
                x->out_dep[o].kind = RT_DEP_MIXED;
        }
    }
}

/* Checks the dependence of output o against the output's shapes and values at every batch size. If
 * they contradict the dependence, replaces it with RT_DEP_MIXED. */
static void check(const struct walk *w, struct visit *x, int o)
{
    const int v = x->n->first_value + o, *in = x->n->in_value;
    struct rt_dep *d = &x->out_dep[o];
    bool holds = false;
    switch (d->kind) {
    case RT_DEP_NONE:
        holds = has_one_shape(w, v);
        break;
    case RT_DEP_SIZE:
        holds = is_linear(w, v) && is_within_type(w, x) &&
                (strcmp(x->op->name, "FloorDiv") != 0 || is_exact_quotient(w, v, in[0], in[1]));
        if (holds && count_varying(w, v) == 0)
            d->kind = RT_DEP_NONE;
        break;
    case RT_DEP_ROWS:
        holds = has_rows(w, v, d->axis);
        break;
    case RT_DEP_MIXED:
        break;
    }
    if (holds)
        return;
    d->kind = RT_DEP_MIXED;
    if (!w->why->code)
        rt_fail(w->why, RT_FAILED_PRECONDITION, "node '%s' (%s) is not proved row by row",
                x->n->name, x->op->name);
}

/* Returns whether each element of `a - b` has the same sign for all positive batch sizes. The
 * elements of a and b are linear in the batch size. */
static bool has_one_order(const struct walk *w, int a, int b)
{
    const int64_t n_a = count_elements(w, a), n_b = count_elements(w, b), limit = INT64_C(1) << 61;
    for (int64_t i = 0; n_a > 0 && n_b > 0 && (i < n_a || i < n_b); i++) {
        int64_t d[2];
        for (int k = 0; k < 2; k++) {
            const int64_t l = element(w, k * (N_SIZES - 1), a, n_a == 1 ? 0 : i),
                          r = element(w, k * (N_SIZES - 1), b, n_b == 1 ? 0 : i);
            if (l > limit || l < -limit || r > limit || r < -limit)
                return false;
            d[k] = l - r;
        }
        if (d[0] < 0 ? d[1] > d[0] : d[0] > 0 ? d[1] < d[0] : d[1] != 0)
            return false;
    }
    return true;
}

/* Returns whether the op compares lengths and its result is the same for all batch sizes. An
 * example is `n > 0`. */
static bool compares_sizes(const struct walk *w, const struct visit *x)
{
    static const char *const comparisons[] = {"Equal",   "NotEqual",     "Less", "LessEqual",
                                              "Greater", "GreaterEqual", NULL};
    const int *in = x->n->in_value;
    if (x->has_content || !is_listed(x->op->name, comparisons) || !is_linear(w, in[0]) ||
        !is_linear(w, in[1]))
        return false;
    return (count_elements(w, in[0]) == 1 || count_elements(w, in[1]) == 1 ||
            is_same_shape(&x->in[0][0].shape, &x->in[0][1].shape)) &&
           has_one_order(w, in[0], in[1]);
}

static void find_dependence(struct walk *w, struct visit *x)
{
    bool is_mixed = false;
    for (int k = 0; k < x->n->n_in; k++)
        is_mixed |= x->in_dep[k].kind == RT_DEP_MIXED;
    for (int o = 0; o < x->n->n_out; o++)
        x->out_dep[o].kind = RT_DEP_MIXED;
    if (!is_mixed && makes_polynomials(w, x)) {
        for (int s = 0; s < N_SIZES; s++)
            evaluate(w, x, s);
        for (int o = 0; o < x->n->n_out; o++)
            x->out_dep[o].kind = RT_DEP_SIZE;
    } else if (!is_mixed && compares_sizes(w, x)) {
        for (int s = 0; s < N_SIZES; s++)
            evaluate(w, x, s);
        x->out_dep[0].kind = RT_DEP_NONE;
    } else if (takes_sizes(w, x)) {
        if (x->op->rows && !has_unknown_rows(x))
            query_rule(x);
        for (int o = 0; o < x->n->n_out; o++)
            if (x->out_dep[o].kind == RT_DEP_SIZE)
                x->out_dep[o].kind = RT_DEP_MIXED;
            else if (x->n->effect == RT_RANDOM && !x->has_content && x->out[0][o].shape.rank > 0)
                x->out_dep[o] = (struct rt_dep){RT_DEP_ROWS, 0};
    }
    for (int o = 0; o < x->n->n_out; o++)
        check(w, x, o);
    if (x->n->n_out == 1 && x->out_dep[0].kind == RT_DEP_MIXED)
        w->extreme[x->n->first_value] =
            rt_extreme_of_output(x->op, x->n->n_in, x->in[0], x->in_dep, x->in_extreme);
}

/* Returns whether the op's effect allows merging. An op that may fail must fail for a batch exactly
 * when it fails for a part of the batch. */
static bool has_effect_of_parts(const struct walk *w, const struct visit *x)
{
    static const char *const prints[] = {"Print", "PrintV2", NULL};
    const struct rt_plan_step *n = x->n;
    if (n->effect != RT_IO || !x->varies || is_listed(x->op->name, prints))
        return true;
    bool is_mixed = n->n_out == 0;
    for (int o = 0; o < n->n_out; o++)
        is_mixed |= x->out_dep[o].kind == RT_DEP_MIXED;
    if (strcmp(x->op->name, "Assert") == 0) {
        is_mixed = x->in_dep[0].kind != RT_DEP_NONE && x->in_extreme[0] != RT_LEAST;
        for (int k = 1; k < n->n_in; k++)
            is_mixed |= x->in_dep[k].kind == RT_DEP_MIXED && !x->in_extreme[k];
    }
    if (is_mixed)
        rt_fail(w->why, RT_FAILED_PRECONDITION,
                "node '%s' (%s) is not proved to fail just when it fails for one of the rows",
                n->name, x->op->name);
    return !is_mixed;
}

static bool walk_op(struct walk *w, struct rt_plan_step *n)
{
    struct visit x;
    bool ok = open_visit(w, n, &x);
    int n_refused = 0;
    const int n_walks = x.varies ? N_SIZES : 1;
    for (int s = 0; s < n_walks && ok; s++)
        n_refused += !infer(w, &x, s);
    if (n_refused) {
        *w->is_refused = n_refused == n_walks;
        ok = false;
    }
    if (ok && x.varies) {
        find_dependence(w, &x);
        ok = has_effect_of_parts(w, &x);
    } else if (ok) {
        evaluate(w, &x, 0);
        for (int s = 1; s < N_SIZES; s++)
            for (int o = 0; o < n->n_out; o++)
                x.out[s][o] = x.out[0][o];
    }
    close_visit(&x);
    return ok;
}

/* ---- the plan ---- */

/* Copies the results of a call or of a branch. Results that differ between branches become
 * RT_DEP_MIXED. */
static void take_results(struct walk *w, const struct rt_plan_step *n, const struct walk *sub,
                         bool is_first)
{
    for (int o = 0; o < n->n_out; o++) {
        const int to = n->first_value + o, from = sub->plan->fetch_value[o];
        struct rt_dep *d = &w->dep[to];
        const struct rt_dep *e = &sub->dep[from];
        for (int s = 0; s < N_SIZES; s++) {
            struct rt_info *x = &w->info[s][to];
            const struct rt_info *y = &sub->info[s][from];
            const bool same = is_first || is_same_shape(&x->shape, &y->shape);
            *x = (struct rt_info){.dtype = y->dtype, .shape = y->shape};
            if (!same)
                x->shape.rank = -1;
        }
        if (is_first) {
            *d = *e;
            w->extreme[to] = sub->extreme[from];
        } else if (w->extreme[to] != sub->extreme[from]) {
            w->extreme[to] = RT_NO_EXTREME;
        }
        if (d->kind != e->kind || d->axis != e->axis || d->kind == RT_DEP_SIZE)
            /* The contents of two RT_DEP_SIZE results are not compared, but assumed to differ. */
            d->kind = RT_DEP_MIXED;
    }
}

static bool walk_sub(struct walk *w, struct rt_plan_step *n, int k_sub, int skip)
{
    struct rt_plan *sub = n->sub[k_sub];
    struct walk inner = {
        .plan = sub, .why = w->why, .is_refused = w->is_refused, .no_memory = w->no_memory};
    bool ok = open_walk(&inner);
    for (int k = 0; k < sub->n_feeds && ok; k++) {
        const int to = sub->feed_value[k], from = n->in_value[k + skip];
        if (to < 0)
            continue;
        inner.dep[to] = w->dep[from];
        inner.extreme[to] = w->extreme[from];
        for (int s = 0; s < N_SIZES; s++)
            inner.info[s][to] = w->info[s][from];
    }
    ok = ok && walk_plan(&inner);
    if (ok)
        take_results(w, n, &inner, k_sub == 0);
    close_walk(&inner);
    return ok;
}

static bool walk_branches(struct walk *w, struct rt_plan_step *n)
{
    if (w->dep[n->in_value[0]].kind != RT_DEP_NONE) {
        rt_fail(w->why, RT_FAILED_PRECONDITION, "the branch that '%s' takes depends on the batch",
                n->name);
        return false;
    }
    for (int b = 0; b < n->n_sub; b++)
        if (!walk_sub(w, n, b, 1)) {
            *w->is_refused = false; /* A run may take another branch, and that branch may
                                     * accept the inputs. */
            return false;
        }
    return true;
}

static bool walk_loop(struct walk *w, struct rt_plan_step *n)
{
    bool varies = false;
    for (int k = 0; k < n->n_in; k++)
        varies |= w->dep[n->in_value[k]].kind != RT_DEP_NONE;
    for (int o = 0; o < n->n_out; o++) {
        for (int s = 0; s < N_SIZES; s++)
            w->info[s][n->first_value + o] =
                (struct rt_info){.dtype = (enum rt_dtype)n->def->out_dtype[o], .shape.rank = -1};
        w->dep[n->first_value + o].kind = varies ? RT_DEP_MIXED : RT_DEP_NONE;
    }
    if (varies && !w->why->code)
        rt_fail(w->why, RT_FAILED_PRECONDITION, "loop '%s' is not proved row by row", n->name);
    return !varies || !(n->effects & 1u << RT_IO);
}

static bool walk_plan(struct walk *w)
{
    const struct rt_plan *p = w->plan;
    if (p->tokens) {
        rt_fail(w->why, RT_FAILED_PRECONDITION, "its control flow (Switch, Merge) is not proved");
        return false;
    }
    for (int i = 0; i < p->n_nodes; i++) {
        struct rt_plan_step *n = &p->node[i];
        if (rt_session_check(p->session, w->why))
            return false;
        switch ((enum pl_kind)n->kind) {
        case PL_CONST:
            for (int s = 0; s < N_SIZES; s++)
                rt_info_of(&w->info[s][n->first_value], &n->value);
            break;
        case PL_OP:
            if (n->def && !walk_op(w, n))
                return false;
            break;
        case PL_CALL:
            if (!walk_sub(w, n, 0, n->call_skip))
                return false;
            break;
        case PL_IF:
        case PL_CASE:
            if (!walk_branches(w, n))
                return false;
            break;
        case PL_WHILE:
        case PL_FOR:
        case PL_MAP:
        case PL_BATCH:
            if (!walk_loop(w, n))
                return false;
            break;
        case PL_FEED:
        case PL_GONE:
            break;
        }
    }
    return true;
}

/* Returns whether every output is proved to have its rows along dimension 0. */
static bool has_rows_in_outputs(const struct walk *w)
{
    for (int k = 0; k < w->plan->n_fetches; k++) {
        const struct rt_dep *d = &w->dep[w->plan->fetch_value[k]];
        if (d->kind == RT_DEP_ROWS && d->axis == 0)
            continue;
        if (d->kind == RT_DEP_ROWS)
            rt_fail(w->why, RT_FAILED_PRECONDITION, "output %d has its rows along dimension %d", k,
                    d->axis);
        else if (d->kind != RT_DEP_MIXED || !w->why->code)
            rt_fail(w->why, RT_FAILED_PRECONDITION, "output %d does not hold one part per row", k);
        return false;
    }
    return true;
}

/* Returns whether the plan is row-wise if the unknown dimensions of the feeds, except dimension 0,
 * have the length `other`. */
static bool is_rowwise_for(const struct rt_plan *p, const struct rt_shape *shapes, int64_t other,
                           bool *is_refused, struct rt_error *why)
{
    bool no_memory = false;
    struct walk w = {.plan = p, .why = why, .is_refused = is_refused, .no_memory = &no_memory};
    bool ok = open_walk(&w);
    why->code = RT_OK;
    for (int k = 0; k < p->n_feeds && ok; k++) {
        const int v = p->feed_value[k];
        if (v < 0)
            continue;
        w.dep[v] = (struct rt_dep){RT_DEP_ROWS, 0};
        for (int s = 0; s < N_SIZES; s++) {
            struct rt_info *x = &w.info[s][v];
            *x = (struct rt_info){.dtype = (enum rt_dtype)p->feed_dtype[k], .shape = shapes[k]};
            x->shape.dim[0] = batch_size[s];
            for (int d = 1; d < x->shape.rank; d++)
                if (x->shape.dim[d] < 0)
                    x->shape.dim[d] = other;
        }
    }
    ok = ok && walk_plan(&w) && has_rows_in_outputs(&w);
    if (ok) {
        why->code = RT_OK;
    } else if (no_memory) {
        *is_refused = false;
        rt_fail(why, RT_RESOURCE_EXHAUSTED, "out of memory for the proof of the rows");
    }
    close_walk(&w);
    return ok;
}

bool rt_plan_is_rowwise(const struct rt_plan *p, const struct rt_shape *shapes,
                        struct rt_error *why)
{
    /* Lengths to try in turn for the unknown dimensions of the feeds, except dimension 0. A length
     * that the plan refuses at every batch size is ignored. The proof holds only for the lengths
     * tried. A caller that needs another length must have the plan analysed for it. */
    static const int64_t others[] = {4, 1, 2, 3, 5, 9, 1008};
    bool has_others = false, is_rowwise = false;
    why->code = RT_OK;
    for (int k = 0; k < p->n_feeds; k++) {
        if (shapes[k].rank < 1) {
            rt_fail(why, RT_FAILED_PRECONDITION, "input %d has %s", k,
                    shapes[k].rank < 0 ? "an unknown rank" : "no dimension to merge along");
            return false;
        }
        if (shapes[k].dim[0] >= 0) {
            rt_fail(why, RT_FAILED_PRECONDITION, "input %d has a fixed dimension 0 of %lld", k,
                    (long long)shapes[k].dim[0]);
            return false;
        }
        for (int d = 1; d < shapes[k].rank; d++)
            has_others |= shapes[k].dim[d] < 0;
    }
    for (size_t i = 0; i < (has_others ? sizeof others / sizeof *others : 1) && p->n_feeds; i++) {
        bool is_refused = false;
        if (is_rowwise_for(p, shapes, others[i], &is_refused, why))
            is_rowwise = true;
        else if (!is_refused)
            return false;
    }
    if (is_rowwise)
        why->code = RT_OK;
    return is_rowwise;
}
