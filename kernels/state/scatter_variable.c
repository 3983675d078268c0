/*
 * Ops that write into a part of a variable: Scatter*, ScatterNd*, StridedSliceAssign and their
 * resource forms. The variable's lock is held while the op writes. If an index is invalid or the
 * run ends early, changes made for earlier indices may remain, as in TensorFlow.
 */
#include "kernels/array/array.h"
#include "kernels/array/slice.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/core/copy.h"
#include "runtime/session/resource.h"
#include "runtime/session/state.h"

enum how { SET, ADD, SUB, MUL, DIV, MIN, MAX };

struct job {
    struct rt_run *r;
    enum how how;
    bool is_ref;
};

/* ---- one slice: dst = dst <how> src; src has n elements (step 1), or one for all (step 0) ---- */

#define ADD_OF(a, b) ((a) + (b))
#define SUB_OF(a, b) ((a) - (b))
#define MUL_OF(a, b) ((a) * (b))
#define DIV_OF(a, b) ((a) / (b))
#define MIN_OF(a, b) ((b) < (a) ? (b) : (a))
#define MAX_OF(a, b) ((a) < (b) ? (b) : (a))

#define LOOP(dt, T, KIND, OF)                                                                      \
    case dt: {                                                                                     \
        T *d = dst;                                                                                \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i] =                                                                                 \
                (T)KN_PUT(dt, OF((KIND(dt))KN_GET(dt, d[i]), (KIND(dt))KN_GET(dt, s[i * step])));  \
        return RT_OK;                                                                              \
    }
#define LOOP_HALF(dt, T, KIND, OF)                                                                 \
    case dt: {                                                                                     \
        T *d = dst;                                                                                \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i] = KN_PUT(dt, OF(KN_GET(dt, d[i]), KN_GET(dt, s[i * step])));                      \
        return RT_OK;                                                                              \
    }
/* Unsigned types, and sums and products of all integers, use unsigned arithmetic, so that overflow
 * wraps around. */
#define ARITHMETIC(OF)                                                                             \
    KN_FOR_INTS(LOOP, KN_U, OF)                                                                    \
    KN_FOR_WIDE(LOOP, KN_U, OF)                                                                    \
    KN_FOR_COMPLEX(LOOP, KN_U, OF)                                                                 \
    KN_FOR_HALFS(LOOP_HALF, KN_U, OF)
#define ORDERED(OF)                                                                                \
    KN_FOR_INTS(LOOP, KN_C, OF)                                                                    \
    KN_FOR_WIDE(LOOP, KN_C, OF)                                                                    \
    KN_FOR_HALFS(LOOP_HALF, KN_C, OF)

static enum rt_status add(enum rt_dtype dt, void *dst, const void *src, int64_t n, int64_t step)
{
    switch (dt) {
        ARITHMETIC(ADD_OF)
    default:
        return RT_UNIMPLEMENTED;
    }
}

static enum rt_status subtract(enum rt_dtype dt, void *dst, const void *src, int64_t n,
                               int64_t step)
{
    switch (dt) {
        ARITHMETIC(SUB_OF)
    default:
        return RT_UNIMPLEMENTED;
    }
}

static enum rt_status scatter_variable_multiply(enum rt_dtype dt, void *dst, const void *src,
                                                int64_t n, int64_t step)
{
    switch (dt) {
        ARITHMETIC(MUL_OF)
    default:
        return RT_UNIMPLEMENTED;
    }
}

/* The minimum signed number divided by -1 overflows, and the result wraps around to the minimum
 * number. */
#define BY_SIGNED(dt, T, a, b)   ((b) == -1 ? (T)(0 - (KN_U(dt))(a)) : (T)((a) / (b)))
#define BY_UNSIGNED(dt, T, a, b) ((T)((a) / (b)))
#define DIVIDE(dt, T, BY)                                                                          \
    case dt: {                                                                                     \
        T *d = dst;                                                                                \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            if (s[i * step] == 0)                                                                  \
                return RT_INVALID_ARGUMENT;                                                        \
            d[i] = BY(dt, T, d[i], s[i * step]);                                                   \
        }                                                                                          \
        return RT_OK;                                                                              \
    }

static enum rt_status divide(enum rt_dtype dt, void *dst, const void *src, int64_t n, int64_t step)
{
    switch (dt) {
        KN_FOR_SIGNED(DIVIDE, BY_SIGNED)
        KN_FOR_UNSIGNED(DIVIDE, BY_UNSIGNED)
        KN_FOR_WIDE(LOOP, KN_C, DIV_OF)
        KN_FOR_COMPLEX(LOOP, KN_C, DIV_OF)
        KN_FOR_HALFS(LOOP_HALF, KN_C, DIV_OF)
    default:
        return RT_UNIMPLEMENTED;
    }
}

static enum rt_status lowest(enum rt_dtype dt, void *dst, const void *src, int64_t n, int64_t step)
{
    switch (dt) {
        ORDERED(MIN_OF)
    default:
        return RT_UNIMPLEMENTED;
    }
}

static enum rt_status highest(enum rt_dtype dt, void *dst, const void *src, int64_t n, int64_t step)
{
    switch (dt) {
        ORDERED(MAX_OF)
    default:
        return RT_UNIMPLEMENTED;
    }
}

static enum rt_status apply(const struct job *j, enum rt_dtype dt, void *dst, const void *src,
                            int64_t n, int64_t step, struct rt_error *err)
{
    enum rt_status st = RT_UNIMPLEMENTED;

    switch (j->how) {
    case SET:
        if (step)
            kn_copy(dt, dst, src, n);
        else
            kn_walk_write(dt, &(struct kn_walk){.rank = 1, .dim = {n}, .dst = {1}, .src = {0}}, dst,
                          src);
        return RT_OK;
    case ADD:
        st = add(dt, dst, src, n, step);
        break;
    case SUB:
        st = subtract(dt, dst, src, n, step);
        break;
    case MUL:
        st = scatter_variable_multiply(dt, dst, src, n, step);
        break;
    case DIV:
        st = divide(dt, dst, src, n, step);
        break;
    case MIN:
        st = lowest(dt, dst, src, n, step);
        break;
    case MAX:
        st = highest(dt, dst, src, n, step);
        break;
    }
    if (st == RT_INVALID_ARGUMENT)
        return rt_fail(err, st, "Integer division by zero");
    if (st)
        return rt_fail(err, st, "%s of a variable of %s", j->r->node->schema->name,
                       rt_dtype_name(dt));
    return RT_OK;
}

/* Applies n update elements to n elements of the variable, starting at `to`. If `step` is 0,
 * applies the same update element to each of them. Fails if the run is cancelled or its deadline
 * passes. Some elements may have changed by then. */
static enum rt_status apply_slice(const struct job *j, struct rt_tensor *value, int64_t to,
                                  int64_t from, int64_t n, int64_t step, int64_t *left,
                                  struct rt_error *err)
{
    /* CHUNK is the number of elements between two calls of rt_run_spend. COST is the work per
     * element of the slowest operations: divisions and half-precision arithmetic. */
    enum { CHUNK = 1 << 16, COST = 8 };
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i += CHUNK) {
        const int64_t some = n - i < CHUNK ? n - i : CHUNK;
        st = apply(j, kn_dtype(value), kn_at_mut(value, to + i),
                   kn_at(&j->r->in[2], from + i * step), some, step, err);
        st = st ? st : rt_run_spend(j->r, left, COST * some);
    }
    return st;
}

/* the work of reading and checking an index, in units of rt_run_spend */
enum { INDEX_WORK = 8 };

/* ---- Scatter: an index selects a row ---- */

static enum rt_status check_type(const struct rt_tensor *value, const struct rt_tensor *updates,
                                 struct rt_error *err)
{
    if (value->dtype == updates->dtype)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "DType of scatter resource and updates does not match.");
}

/*
 * Checks the shape of non-scalar updates, which must hold one slice of `inner` elements per index.
 *
 * As in TensorFlow, the ops on resource variables check only the rank if there are no indices. If
 * slices have no elements, these ops check only the dimensions of the indices. In all other cases,
 * Slipway also checks the dimensions of the slices. TensorFlow's ops on resource variables do not
 * check these dimensions, and may access memory beyond the end of the slices.
 */
static enum rt_status check_updates(const struct job *j, const struct rt_tensor *value,
                                    int64_t inner, struct rt_error *err)
{
    const struct rt_tensor *index = &j->r->in[1], *updates = &j->r->in[2];
    bool fits = updates->rank == index->rank + value->rank - 1, begins = fits;

    for (int i = 0; begins && i < index->rank; i++)
        begins = updates->dim[i] == index->dim[i];
    if (fits && !j->is_ref) {
        if (rt_tensor_count(index) == 0)
            return RT_OK;
        if (!begins)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "The shape of indices (%s) must be a prefix of the shape of updates "
                           "(%s)",
                           KN_TEXT(index), KN_TEXT(updates));
        if (inner == 0)
            return RT_OK;
    }
    fits = begins;
    for (int i = index->rank; fits && i < updates->rank; i++)
        fits = updates->dim[i] == value->dim[i - index->rank + 1];
    if (fits)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "Must have updates.shape = indices.shape + params.shape[1:] or "
                   "updates.shape = [], got updates.shape %s, indices.shape %s, params.shape "
                   "%s",
                   KN_TEXT(updates), KN_TEXT(index), KN_TEXT(value));
}

#define IS_ZERO(dt, T)                                                                             \
    case dt:                                                                                       \
        return KN_GET(dt, ((const T *)t->data)[i]) == 0;

/* Returns whether element i of a numeric tensor is 0 or -0.0. */
static bool is_zero(const struct rt_tensor *t, int64_t i)
{
    /* A subnormal bfloat16 is not 0, but would be flushed to 0 as a float. */
    if (kn_dtype(t) == RT_BF16)
        return (((const struct kn_bfloat *)t->data)[i].bits & 0x7fff) == 0;
    switch (kn_dtype(t)) {
        KN_NUMBERS(IS_ZERO)
    default:
        return false;
    }
}

/* Fails if an update is 0. Called before the variable is written. TensorFlow's ResourceScatterDiv
 * refuses a 0 of any type, even if there are no indices. Its ScatterDiv divides floats by 0. */
static enum rt_status check_divisors(const struct job *j, struct rt_error *err)
{
    const struct rt_tensor *updates = &j->r->in[2];
    const int64_t n = rt_tensor_count(updates);

    for (int64_t i = 0; i < n; i++) {
        if (is_zero(updates, i))
            return rt_fail(err, RT_INVALID_ARGUMENT, "updates must not contain 0");
        if (rt_run_tick(j->r, i))
            return j->r->err->code;
    }
    return RT_OK;
}

static enum rt_status scatter(void *arg, struct rt_tensor *value, struct rt_error *err)
{
    const struct job *j = arg;
    const struct rt_tensor *index = &j->r->in[1], *updates = &j->r->in[2];
    int64_t left = RT_WORK;
    enum rt_status st = check_type(value, updates, err);

    if (st)
        return st;
    if (value->rank < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "params must be at least 1-D, got shape %s",
                       KN_TEXT(value));
    if (j->how == DIV && !j->is_ref && (st = check_divisors(j, err)))
        return st;
    const bool scalar = updates->rank == 0;
    const int64_t n = rt_tensor_count(index), limit = value->dim[0];
    const int64_t inner = rt_count(value->rank - 1, value->dim + 1);
    if (!scalar && (st = check_updates(j, value, inner, err)))
        return st;
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = kn_int_at(index, i);
        if (v < 0 || v >= limit) {
            char buf[RT_MAX_RANK * 22];
            return rt_fail(err, RT_INVALID_ARGUMENT, "indices%s = %lld is not in [0, %lld)",
                           kn_place_text(buf, sizeof buf, index, i), (long long)v,
                           (long long)limit);
        }
        st = apply_slice(j, value, v * inner, scalar ? 0 : i * inner, inner, !scalar, &left, err);
        if (st || (st = rt_run_spend(j->r, &left, INDEX_WORK)))
            return st;
    }
    return RT_OK;
}

/* ---- ScatterNd: an index selects a slice by its first dimensions ---- */

struct nd {
    int depth;
    int64_t n, inner;
};

static enum rt_status nd_check(const struct rt_tensor *value, const struct rt_tensor *index,
                               const struct rt_tensor *updates, struct nd *x, struct rt_error *err)
{
    if (value->rank < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Output must be at least 1-D, got shape: %s",
                       KN_TEXT(value));
    if (index->rank < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Indices shape must have rank at least one. Found:%s", KN_TEXT(index));
    /* A vector of indices is treated as a matrix with one column. */
    const int batch = index->rank > 1 ? index->rank - 1 : 1;
    const int64_t depth = index->rank > 1 ? index->dim[index->rank - 1] : 1;
    if (depth > value->rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Index depth %lld of indices%s is more than the rank of the output %s",
                       (long long)depth, KN_TEXT(index), KN_TEXT(value));
    bool fits = updates->rank == batch + value->rank - (int)depth;
    for (int i = 0; fits && i < updates->rank; i++)
        fits = updates->dim[i] == (i < batch ? index->dim[i] : value->dim[i - batch + (int)depth]);
    if (!fits)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Dimensions [0,%d) of indices[shape=%s] must match dimensions [0,%d) of "
                       "updates[shape=%s], and the rest of updates dimensions [%lld,%d) of "
                       "output[shape=%s]",
                       batch, KN_TEXT(index), batch, KN_TEXT(updates), (long long)depth,
                       value->rank, KN_TEXT(value));
    x->depth = (int)depth;
    x->n = x->inner = 1;
    for (int i = 0; i < batch; i++)
        x->n *= index->dim[i];
    for (int i = (int)depth; i < value->rank; i++)
        x->inner *= value->dim[i];
    const int64_t n_index = rt_tensor_count(index), n_updates = rt_tensor_count(updates);
    if ((n_index || n_updates) && !(n_index && n_updates && rt_tensor_count(value)))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Indices and updates specified for empty output.  indices shape: %s",
                       KN_TEXT(index));
    return RT_OK;
}

static enum rt_status scatter_nd(void *arg, struct rt_tensor *value, struct rt_error *err)
{
    const struct job *j = arg;
    const struct rt_tensor *index = &j->r->in[1], *updates = &j->r->in[2];
    int64_t stride[RT_MAX_RANK], left = RT_WORK;
    struct nd x = {0};
    bool skips_bad;
    enum rt_status st = kn_bad_indices(j->r->node, &skips_bad, err);

    if (!st)
        st = check_type(value, updates, err);
    if (!st)
        st = nd_check(value, index, updates, &x, err);
    if (st)
        return st;
    kn_strides(value->rank, value->dim, stride);
    for (int64_t i = 0; i < x.n; i++) {
        int64_t to = 0;
        bool good = true;
        if ((st = rt_run_spend(j->r, &left, INDEX_WORK * (1 + x.depth))))
            return st;
        for (int k = 0; k < x.depth; k++) {
            const int64_t v = kn_int_at(index, i * x.depth + k);
            good = good && v >= 0 && v < value->dim[k];
            to += good ? v * stride[k] : 0;
        }
        if (!good && skips_bad)
            continue;
        if (!good)
            return kn_fail_outside(err, index, index->rank > 1 ? index->rank - 1 : 1, x.depth, i,
                                   value, NULL);
        st = apply_slice(j, value, to, i * x.inner, x.inner, 1, &left, err);
        if (st)
            return st;
    }
    return RT_OK;
}

/* ---- StridedSliceAssign ---- */

static enum rt_status assign_slice(void *arg, struct rt_tensor *value, struct rt_error *err)
{
    const struct job *j = arg;
    const struct rt_tensor *in = j->r->in;
    struct kn_slice s;
    struct kn_walk get, put;
    int64_t first;
    enum rt_status st = check_type(value, &in[4], err);

    if (!st)
        st = kn_slice_of(j->r->node, value->rank, value->dim, &in[1], &in[2], &in[3], &s, err);
    if (st)
        return st;
    /* as in TensorFlow, t may have any shape if the slice is empty */
    if (rt_count(s.rank, s.count) == 0)
        return RT_OK;
    kn_slice_walk(&s, value->dim, &get, &first);
    put = get;
    memcpy(put.dst, get.src, sizeof put.dst);
    if (!kn_slice_source(&s, &in[4], put.src))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Cannot broadcast input shape %s into final shape %s", KN_TEXT(&in[4]),
                       KN_TEXT(&s.shape));
    kn_walk_write(kn_dtype(value), &put, kn_at_mut(value, first), in[4].data);
    return RT_OK;
}

/* ---- the ops ---- */

static enum rt_status write_part(struct rt_run *r, enum how how, bool is_ref,
                                 enum rt_status (*change)(void *, struct rt_tensor *,
                                                          struct rt_error *))
{
    struct rt_variable *v = rt_variable_of(&r->in[0]);
    const struct rt_check check = rt_run_as_check(r);
    struct job j = {r, how, is_ref};

    if (!v)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "input 0 of %s is not the handle of a variable",
                       r->node->schema->name);
    const struct rt_state *state = rt_run_state(r);
    const struct rt_tensor *values = &r->in[r->n_in - 1];
    enum rt_status st = RT_OK;
    if (values->dtype == RT_STRING)
        st = rt_state_keep_strings(state->pool, rt_strs(values), rt_tensor_count(values), NULL, 0,
                                   r->err);
    if (!st)
        st = rt_variable_update(v, is_ref, change, &j, &check, state, r->err);
    if (!st && is_ref)
        rt_out_tensor(r, 0, &r->in[0]); /* an op on a ref variable returns the reference itself */
    return st;
}

#define ENTRY(SYMBOL, NAME, TYPE_ATTR, TYPES, HOW, IS_REF, CHANGE)                                 \
    static enum rt_status run_##SYMBOL(struct rt_run *r)                                           \
    {                                                                                              \
        return write_part(r, HOW, IS_REF, CHANGE);                                                 \
    }                                                                                              \
    const struct kn_entry kn_##SYMBOL = {                                                          \
        .op = {.name = NAME, .effect = RT_WRITES},                                                 \
        .kernels = KN_KERNELS({.op = NAME,                                                         \
                               .device = "CPU",                                                    \
                               .name = #SYMBOL,                                                    \
                               .type_attr = TYPE_ATTR,                                             \
                               .types = TYPES,                                                     \
                               .run = run_##SYMBOL}),                                              \
    }
/* Defines the entries of an op on resource variables and of the equivalent op on ref variables. */
#define PAIR(SYMBOL, NAME, RESOURCE_ATTR, TYPES, HOW, CHANGE)                                      \
    ENTRY(resource_##SYMBOL, "Resource" NAME, RESOURCE_ATTR, TYPES, HOW, false, CHANGE);           \
    ENTRY(SYMBOL, NAME, "T", TYPES, HOW, true, CHANGE)

PAIR(scatter_update, "ScatterUpdate", "dtype", 0, SET, scatter);
PAIR(scatter_add, "ScatterAdd", "dtype", KN_SET(KN_NUMBERS), ADD, scatter);
PAIR(scatter_sub, "ScatterSub", "dtype", KN_SET(KN_NUMBERS), SUB, scatter);
PAIR(scatter_mul, "ScatterMul", "dtype", KN_SET(KN_NUMBERS), MUL, scatter);
PAIR(scatter_div, "ScatterDiv", "dtype", KN_SET(KN_NUMBERS), DIV, scatter);
PAIR(scatter_min, "ScatterMin", "dtype", KN_SET(KN_REALS), MIN, scatter);
PAIR(scatter_max, "ScatterMax", "dtype", KN_SET(KN_REALS), MAX, scatter);
PAIR(scatter_nd_update, "ScatterNdUpdate", "T", 0, SET, scatter_nd);
PAIR(scatter_nd_add, "ScatterNdAdd", "T", KN_SET(KN_NUMBERS), ADD, scatter_nd);
PAIR(scatter_nd_sub, "ScatterNdSub", "T", KN_SET(KN_NUMBERS), SUB, scatter_nd);
PAIR(scatter_nd_min, "ScatterNdMin", "T", KN_SET(KN_REALS), MIN, scatter_nd);
PAIR(scatter_nd_max, "ScatterNdMax", "T", KN_SET(KN_REALS), MAX, scatter_nd);
PAIR(strided_slice_assign, "StridedSliceAssign", "T", 0, SET, assign_slice);
