/* Comparisons and logical ops, element by element. */
#include "kernels/math/elementwise.h"
#include "kernels/string/each.h"

#include <math.h>
#include <string.h>

#define LESS(dt, x, y)          ((x) < (y))
#define LESS_EQUAL(dt, x, y)    ((x) <= (y))
#define GREATER(dt, x, y)       ((x) > (y))
#define GREATER_EQUAL(dt, x, y) ((x) >= (y))

#define COMPARISON(NAME, TF, EXPR)                                                                 \
    KN_FOR_REALS(KN_BINARY_BOOL, NAME, EXPR) KN_BINARY_OP(NAME, TF, REALS, NULL)
COMPARISON(less, "Less", LESS)
COMPARISON(less_equal, "LessEqual", LESS_EQUAL)
COMPARISON(greater, "Greater", GREATER)
COMPARISON(greater_equal, "GreaterEqual", GREATER_EQUAL)

/* ---- equality: every type, and shapes that may be incompatible ---- */

#define EQUAL(dt, x, y)     ((x) == (y))
#define NOT_EQUAL(dt, x, y) ((x) != (y))
KN_FOR_NUMBERS(KN_BINARY_BOOL, equal, EQUAL)
KN_FOR_NUMBERS(KN_BINARY_BOOL, not_equal, NOT_EQUAL)

/* Writes whether the strings of each pair are equal or, if `is_equal` is false, whether they are
 * unequal. compare_strings is not a row function, because a row function cannot check the deadline
 * between two long strings. */
static enum rt_status compare_strings(struct rt_run *r, bool is_equal)
{
    const struct rt_str *a = rt_strs(&r->in[0]), *b = rt_strs(&r->in[1]);
    const int64_t n = rt_tensor_count(&r->out[0]);
    bool *d = r->out[0].data;
    int64_t left = RT_WORK;
    struct kn_reader read = {.r = r, .left = &left};
    struct kn_pairs at;

    kn_pairs_begin(&at, &r->out[0], &r->in[0], &r->in[1]);
    for (int64_t i = 0; i < n; i++, kn_pairs_next(&at)) {
        const struct rt_str *x = &a[at.a], *y = &b[at.b];
        const bool same_length = x->n == y->n;
        d[i] =
            (same_length && kn_same_text(rt_str_data(x), rt_str_data(y), x->n, &read)) == is_equal;
        if (read.st || kn_spend_string(r, &left, same_length ? x->n : 0))
            return r->err->code;
    }
    return RT_OK;
}

/* Quantized numbers are equal if the integers that store them are equal. */
#define EQUALITY_ROWS(NAME)                                                                        \
    {                                                                                              \
        .row = {                                                                                   \
            KN_FOR_NUMBERS(KN_ROW_OF, NAME)[RT_BOOL] = NAME##_RT_U8,                               \
            [RT_QI8] = NAME##_RT_I8,                                                               \
            [RT_QU8] = NAME##_RT_U8,                                                               \
            [RT_QI16] = NAME##_RT_I16,                                                             \
            [RT_QU16] = NAME##_RT_U16,                                                             \
            [RT_QI32] = NAME##_RT_I32,                                                             \
        }                                                                                          \
    }
static const struct kn_binary equal_rows = EQUALITY_ROWS(equal);
static const struct kn_binary not_equal_rows = EQUALITY_ROWS(not_equal);

/* Returns whether the result is a scalar. If the shapes are incompatible and the attribute
 * incompatible_shape_error is off, the tensors count as unequal, and the result is one scalar. */
static bool is_scalar_answer(const struct rt_node *n, const struct rt_info *in)
{
    struct rt_shape o;
    return !rt_attr_bool(n, "incompatible_shape_error") &&
           kn_broadcast(&o, &in[0].shape, &in[1].shape, NULL) != RT_OK;
}

static enum rt_status equality_infer(struct rt_infer *x)
{
    if (is_scalar_answer(x->node, x->in)) {
        x->out[0].shape.rank = 0;
        return RT_OK;
    }
    return kn_infer_broadcast(x);
}

static enum rt_status equal_prepare(struct rt_prep *p, void **state)
{
    if (is_scalar_answer(p->node, p->in))
        return RT_OK;
    return kn_binary_prepare(p, &equal_rows, state);
}

static enum rt_status not_equal_prepare(struct rt_prep *p, void **state)
{
    if (is_scalar_answer(p->node, p->in))
        return RT_OK;
    return kn_binary_prepare(p, &not_equal_rows, state);
}

static enum rt_status equality_run(struct rt_run *r, bool is_equal)
{
    if (r->state)
        return r->in[0].dtype == RT_STRING ? compare_strings(r, is_equal) : kn_binary_run(r);
    *(bool *)r->out[0].data = !is_equal;
    return RT_OK;
}

static enum rt_status equal_run(struct rt_run *r)
{
    return equality_run(r, true);
}

static enum rt_status not_equal_run(struct rt_run *r)
{
    return equality_run(r, false);
}

#define EQUALITY_TYPES                                                                             \
    (KN_SET(KN_NUMBERS) | RT_T(RT_BOOL) | RT_T(RT_STRING) | RT_T(RT_QI8) | RT_T(RT_QU8) |          \
     RT_T(RT_QI16) | RT_T(RT_QU16) | RT_T(RT_QI32))
const struct kn_entry kn_equal = {
    .op = {.name = "Equal", .infer = equality_infer, .rows = rt_rows_each},
    .kernels = KN_CPU("Equal", "equal", EQUALITY_TYPES, equal_prepare, equal_run),
};
const struct kn_entry kn_not_equal = {
    .op = {.name = "NotEqual", .infer = equality_infer, .rows = rt_rows_each},
    .kernels = KN_CPU("NotEqual", "not_equal", EQUALITY_TYPES, not_equal_prepare, not_equal_run),
};

/* ---- approximate equality: no broadcasting ---- */

static enum rt_status approximate_equal_infer(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;
    char ta[160], tb[160];
    if (kn_shape_known(a) && kn_shape_known(b) && !kn_shape_eq(a, b))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "x and y must be of the same shape. x shape: %s. y shape: %s",
                       rt_shape_text(ta, sizeof ta, a->rank, a->dim),
                       rt_shape_text(tb, sizeof tb, b->rank, b->dim));
    x->out[0].shape = *a;
    return RT_OK;
}

static enum rt_status approximate_equal_run(struct rt_run *r)
{
    const float tolerance = rt_attr_float(r->node, "tolerance");
    const int64_t n = rt_tensor_count(&r->in[0]);
    bool *d = r->out[0].data;
    for (int64_t i = 0, end; i < n; i = end) {
        end = n - i < KN_CHUNK ? n : i + KN_CHUNK;
        if (r->in[0].dtype == RT_F32) {
            const float *a = r->in[0].data, *b = r->in[1].data;
            for (int64_t j = i; j < end; j++)
                d[j] = fabsf(a[j] - b[j]) <= tolerance;
        } else {
            const double *a = r->in[0].data, *b = r->in[1].data;
            for (int64_t j = i; j < end; j++)
                d[j] = fabs(a[j] - b[j]) <= (double)tolerance;
        }
        if (rt_run_spend(r, &r->left, 3 * (end - i)))
            return r->err->code;
    }
    return RT_OK;
}

const struct kn_entry kn_approximate_equal = {
    .op = {.name = "ApproximateEqual", .infer = approximate_equal_infer, .rows = rt_rows_each},
    .kernels = KN_CPU("ApproximateEqual", "approximate_equal", KN_SET(KN_FLOATS), NULL,
                      approximate_equal_run),
};

/* ---- logical ops: one type, no attribute T ---- */

#define AND(dt, x, y) ((x) & (y))
#define OR(dt, x, y)  ((x) | (y))
#define NOT(dt, x)    (!(x))
KN_FOR_BOOL(KN_BINARY_BOOL, logical_and, AND)
KN_FOR_BOOL(KN_BINARY_BOOL, logical_or, OR)
KN_FOR_BOOL(KN_MAP_BOOL, logical_not, NOT)

#define LOGICAL(NAME, TF)                                                                          \
    static enum rt_status NAME##_prepare(struct rt_prep *p, void **state)                          \
    {                                                                                              \
        static const struct kn_binary op = {.row = {[RT_BOOL] = NAME##_RT_BOOL}};                  \
        return kn_binary_prepare(p, &op, state);                                                   \
    }                                                                                              \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = kn_infer_broadcast, .rows = rt_rows_each},                     \
        .kernels = KN_CPU(TF, #NAME, 0, NAME##_prepare, kn_binary_run),                            \
    };
LOGICAL(logical_and, "LogicalAnd")
LOGICAL(logical_or, "LogicalOr")

static enum rt_status logical_not_prepare(struct rt_prep *p, void **state)
{
    static const struct kn_map op = {.row = {[RT_BOOL] = logical_not_RT_BOOL}};
    return kn_map_prepare(p, &op, state);
}

const struct kn_entry kn_logical_not = {
    .op = {.name = "LogicalNot", .infer = kn_infer_same, .rows = rt_rows_same},
    .kernels = KN_CPU("LogicalNot", "logical_not", 0, logical_not_prepare, kn_map_run),
};
