/*
 * Reductions over axes.
 */
#include "kernels/math/reduce.h"

#include "kernels/array/array.h"
#include "kernels/math/elementwise.h"
#include "kernels/cpu/parallel.h"
#include "runtime/base/checked.h"

#include <math.h>
#include <string.h>
#include <tgmath.h>

/* ---- reducers ---- */

enum { BLOCK = 16, LANES = 64, SHORT = 64 };

/* Defines a reducer. Within a block, values are accumulated in type A by PLUS(dt, a, x), where x =
 * LOAD(dt, element). Blocks are combined in type B by JOIN(dt, b, a). The result is FINISH(dt, b,
 * count). */
#define REDUCER(dt, T, NAME, A, B, START, LOAD, PLUS, JOIN, FINISH)                                \
    static void NAME##_init_##dt(void *acc_, int64_t n)                                            \
    {                                                                                              \
        B *acc = acc_;                                                                             \
        for (int64_t j = 0; j < n; j++)                                                            \
            acc[j] = START(dt);                                                                    \
    }                                                                                              \
    KN_FAST(dt)                                                                                    \
    static void NAME##_columns_##dt(void *acc_, const void *src, int64_t n_rows, int64_t stride,   \
                                    int64_t n)                                                     \
    {                                                                                              \
        B *restrict acc = acc_;                                                                    \
        A part[KN_REDUCE_WIDTH];                                                                   \
        for (int64_t first = 0; first < n_rows; first += BLOCK) {                                  \
            const T *s = (const T *)src + first * stride;                                          \
            const int64_t rows = n_rows - first < BLOCK ? n_rows - first : BLOCK;                  \
            for (int64_t j = 0; j < n; j++)                                                        \
                part[j] = START(dt);                                                               \
            int64_t r = 0;                                                                         \
            for (; r + 4 <= rows; r += 4, s += 4 * stride)                                         \
                for (int64_t j = 0; j < n; j++) {                                                  \
                    A a = PLUS(dt, part[j], LOAD(dt, KN_GET(dt, s[j])));                           \
                    a = PLUS(dt, a, LOAD(dt, KN_GET(dt, s[j + stride])));                          \
                    a = PLUS(dt, a, LOAD(dt, KN_GET(dt, s[j + 2 * stride])));                      \
                    part[j] = PLUS(dt, a, LOAD(dt, KN_GET(dt, s[j + 3 * stride])));                \
                }                                                                                  \
            for (; r < rows; r++, s += stride)                                                     \
                for (int64_t j = 0; j < n; j++)                                                    \
                    part[j] = PLUS(dt, part[j], LOAD(dt, KN_GET(dt, s[j])));                       \
            for (int64_t j = 0; j < n; j++)                                                        \
                acc[j] = JOIN(dt, acc[j], part[j]);                                                \
        }                                                                                          \
    }                                                                                              \
    static void NAME##_lines_##dt(void *acc_, const void *src, int64_t n_lines, int64_t stride,    \
                                  int64_t n)                                                       \
    {                                                                                              \
        B *acc = acc_;                                                                             \
        for (int64_t k = 0; k < n_lines; k++) {                                                    \
            const T *s = (const T *)src + k * stride;                                              \
            B lane[LANES];                                                                         \
            int64_t lanes = LANES;                                                                 \
            if (n < SHORT) { /* the line is too short to fill the vector lanes */                  \
                A a = START(dt), b = START(dt), c = START(dt), d = START(dt);                      \
                int64_t i = 0;                                                                     \
                for (; i + 4 <= n; i += 4) {                                                       \
                    a = PLUS(dt, a, LOAD(dt, KN_GET(dt, s[i])));                                   \
                    b = PLUS(dt, b, LOAD(dt, KN_GET(dt, s[i + 1])));                               \
                    c = PLUS(dt, c, LOAD(dt, KN_GET(dt, s[i + 2])));                               \
                    d = PLUS(dt, d, LOAD(dt, KN_GET(dt, s[i + 3])));                               \
                }                                                                                  \
                for (; i < n; i++)                                                                 \
                    a = PLUS(dt, a, LOAD(dt, KN_GET(dt, s[i])));                                   \
                a = PLUS(dt, a, b);                                                                \
                c = PLUS(dt, c, d);                                                                \
                acc[k] = JOIN(dt, acc[k], PLUS(dt, a, c));                                         \
                continue;                                                                          \
            }                                                                                      \
            NAME##_init_##dt(lane, lanes);                                                         \
            NAME##_columns_##dt(lane, s, n / lanes, lanes, lanes);                                 \
            if (n % lanes)                                                                         \
                NAME##_columns_##dt(lane, s + n / lanes * lanes, 1, lanes, n % lanes);             \
            for (; lanes > 1; lanes = (lanes + 1) / 2)                                             \
                for (int64_t j = 0; j < lanes / 2; j++)                                            \
                    lane[j] = JOIN(dt, lane[j], lane[j + (lanes + 1) / 2]);                        \
            acc[k] = JOIN(dt, acc[k], lane[0]);                                                    \
        }                                                                                          \
    }                                                                                              \
    static void NAME##_finish_##dt(void *dst, const void *acc_, int64_t n, int64_t count)          \
    {                                                                                              \
        T *d = dst;                                                                                \
        const B *acc = acc_;                                                                       \
        (void)count;                                                                               \
        for (int64_t j = 0; j < n; j++)                                                            \
            d[j] = KN_PUT(dt, FINISH(dt, acc[j], count));                                          \
    }

#define REDUCER_ROW(dt, T, NAME)                                                                   \
    [dt] = {NAME##_init_##dt, NAME##_columns_##dt, NAME##_lines_##dt, NAME##_finish_##dt},

#define ZERO(dt)             0
#define ONE(dt)              1
#define AS_IS(dt, x)         (x)
#define ADD(dt, a, b)        ((a) + (b))
#define MULTIPLY(dt, a, b)   ((a) * (b))
#define RESULT(dt, a, count) (a)
#define F32_HALFS(M, ...)    M(RT_F32, float, __VA_ARGS__) KN_FOR_HALFS(M, __VA_ARGS__)
#define F64_ONLY(M, ...)     M(RT_F64, double, __VA_ARGS__)

KN_FOR_INTS(REDUCER, sum, uint64_t, uint64_t, ZERO, AS_IS, ADD, ADD, RESULT)
F32_HALFS(REDUCER, sum, float, double, ZERO, AS_IS, ADD, ADD, RESULT)
F64_ONLY(REDUCER, sum, double, double, ZERO, AS_IS, ADD, ADD, RESULT)
KN_FOR_COMPLEX(REDUCER, sum, double _Complex, double _Complex, ZERO, AS_IS, ADD, ADD, RESULT)
const struct kn_reducer kn_reduce_sum[RT_N_DTYPES] = {KN_FOR_NUMBERS(REDUCER_ROW, sum)};

/*
 * A Mean of integers is truncated. The mean of no elements is 0 for integers and NaN for floats.
 * Sums of signed integers stay unsigned until the end, because gcc 12 miscompiles additions that
 * change the signedness of a partial sum.
 */
#define MEAN_SIGNED(dt, a, count)   ((count) ? (int64_t)(a) / (count) : 0)
#define MEAN_UNSIGNED(dt, a, count) ((count) ? (a) / (uint64_t)(count) : 0)
#define MEAN_FLOAT(dt, a, count)    ((a) / (double)(count))
#define MEAN_COMPLEX(dt, a, count)  ((count) ? (a) / (double)(count) : 0)
KN_FOR_SIGNED(REDUCER, mean, uint64_t, uint64_t, ZERO, AS_IS, ADD, ADD, MEAN_SIGNED)
KN_FOR_UNSIGNED(REDUCER, mean, uint64_t, uint64_t, ZERO, AS_IS, ADD, ADD, MEAN_UNSIGNED)
F32_HALFS(REDUCER, mean, float, double, ZERO, AS_IS, ADD, ADD, MEAN_FLOAT)
F64_ONLY(REDUCER, mean, double, double, ZERO, AS_IS, ADD, ADD, MEAN_FLOAT)
KN_FOR_COMPLEX(REDUCER, mean, double _Complex, double _Complex, ZERO, AS_IS, ADD, ADD, MEAN_COMPLEX)
const struct kn_reducer kn_reduce_mean[RT_N_DTYPES] = {KN_FOR_NUMBERS(REDUCER_ROW, mean)};

KN_FOR_INTS(REDUCER, prod, uint64_t, uint64_t, ONE, AS_IS, MULTIPLY, MULTIPLY, RESULT)
F32_HALFS(REDUCER, prod, float, float, ONE, AS_IS, MULTIPLY, MULTIPLY, RESULT)
F64_ONLY(REDUCER, prod, double, double, ONE, AS_IS, MULTIPLY, MULTIPLY, RESULT)
KN_FOR_COMPLEX(REDUCER, prod, double _Complex, double _Complex, ONE, AS_IS, MULTIPLY, MULTIPLY,
               RESULT)
const struct kn_reducer kn_reduce_prod[RT_N_DTYPES] = {KN_FOR_NUMBERS(REDUCER_ROW, prod)};

/* Max and Min return a NaN if one of the elements is a NaN. */
#define LARGER(dt, a, b)   ((b) > (a) || (b) != (b) ? (b) : (a))
#define SMALLER(dt, a, b)  ((b) < (a) || (b) != (b) ? (b) : (a))
#define MINUS_INFINITY(dt) (-(KN_C(dt))INFINITY)
#define PLUS_INFINITY(dt)  ((KN_C(dt))INFINITY)
#define EXTREME(dt, T, NAME, START, PLUS)                                                          \
    REDUCER(dt, T, NAME, KN_C(dt), KN_C(dt), START, AS_IS, PLUS, PLUS, RESULT)
KN_FOR_INTS(EXTREME, max, KN_LEAST, LARGER)
KN_FOR_INTS(EXTREME, min, KN_GREATEST, SMALLER)
KN_FOR_FLOATS(EXTREME, max, MINUS_INFINITY, LARGER)
KN_FOR_FLOATS(EXTREME, min, PLUS_INFINITY, SMALLER)
const struct kn_reducer kn_reduce_max[RT_N_DTYPES] = {KN_FOR_REALS(REDUCER_ROW, max)};
const struct kn_reducer kn_reduce_min[RT_N_DTYPES] = {KN_FOR_REALS(REDUCER_ROW, min)};

#define BOTH(dt, a, b)   ((a) & (b))
#define EITHER(dt, a, b) ((a) | (b))
KN_FOR_BOOL(REDUCER, all, uint8_t, uint8_t, ONE, AS_IS, BOTH, BOTH, RESULT)
KN_FOR_BOOL(REDUCER, any, uint8_t, uint8_t, ZERO, AS_IS, EITHER, EITHER, RESULT)
static const struct kn_reducer reduce_all[RT_N_DTYPES] = {KN_FOR_BOOL(REDUCER_ROW, all)};
static const struct kn_reducer reduce_any[RT_N_DTYPES] = {KN_FOR_BOOL(REDUCER_ROW, any)};

/* EuclideanNorm is the square root of the sum of squares. */
#define SQUARED(dt, x)     ((x) * (x))
#define SQUARED_INT(dt, x) ((uint64_t)(x) * (uint64_t)(x))
#define MODULUS(dt, x)     ((x)*conj(x))
#define ROOT(dt, a, count) sqrt(a)
/* If a sum wrapped around and became negative, its square root is NaN. As in TensorFlow, the NaN is
 * converted to int64 for 64-bit types, and to int32 for the others. */
#define ROOT_INT(dt, a, count)                                                                     \
    ((dt) == RT_I64 || (dt) == RT_U64 ? rt_int64_of(sqrt((double)KN_PUT(dt, a)))                   \
                                      : rt_int32_of(sqrt((double)KN_PUT(dt, a))))
KN_FOR_INTS(REDUCER, norm, uint64_t, uint64_t, ZERO, SQUARED_INT, ADD, ADD, ROOT_INT)
F32_HALFS(REDUCER, norm, float, double, ZERO, SQUARED, ADD, ADD, ROOT)
F64_ONLY(REDUCER, norm, double, double, ZERO, SQUARED, ADD, ADD, ROOT)
KN_FOR_COMPLEX(REDUCER, norm, double _Complex, double _Complex, ZERO, MODULUS, ADD, ADD, ROOT)
static const struct kn_reducer reduce_norm[RT_N_DTYPES] = {KN_FOR_NUMBERS(REDUCER_ROW, norm)};

/* L2Loss halves each square before adding it, because the sum of the complete squares would
 * overflow earlier. */
#define HALF_SQUARE(dt, x) ((x) * (x) / 2)
F32_HALFS(REDUCER, l2, float, double, ZERO, HALF_SQUARE, ADD, ADD, RESULT)
F64_ONLY(REDUCER, l2, double, double, ZERO, HALF_SQUARE, ADD, ADD, RESULT)
static const struct kn_reducer reduce_l2[RT_N_DTYPES] = {KN_FOR_FLOATS(REDUCER_ROW, l2)};

/* ---- axes ---- */

enum rt_status kn_reduce_axes(const struct rt_tensor *axes, int rank, unsigned *reduced,
                              struct rt_error *err)
{
    const int64_t n = rt_tensor_count(axes);
    *reduced = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t a = axes->dtype == RT_I32 ? ((const int32_t *)axes->data)[i]
                                          : ((const int64_t *)axes->data)[i];
        if (a < -rank || a >= rank)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Invalid reduction dimension (%lld for input with %d dimension(s)",
                           (long long)a, rank);
        a = a < 0 ? a + rank : a;
        if (*reduced >> a & 1)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Invalid reduction arguments: Axes contains duplicate dimension: %lld",
                           (long long)a);
        *reduced |= 1u << a;
    }
    return RT_OK;
}

static enum rt_status reduce_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    const bool keep = rt_attr_bool(x->node, "keep_dims");
    struct rt_shape *out = &x->out[0].shape;
    unsigned reduced;
    if (in->rank < 0)
        return RT_OK;
    if (!x->in[1].value) {
        if (keep) {
            out->rank = in->rank;
            for (int i = 0; i < in->rank; i++)
                out->dim[i] = in->dim[i] == 1 ? 1 : -1;
        }
        return RT_OK;
    }
    const enum rt_status st = kn_reduce_axes(x->in[1].value, in->rank, &reduced, x->err);
    if (st)
        return st;
    out->rank = 0;
    for (int i = 0; i < in->rank; i++)
        if (!(reduced >> i & 1))
            out->dim[out->rank++] = in->dim[i];
        else if (keep)
            out->dim[out->rank++] = 1;
    return RT_OK;
}

/* Marks the op as row-wise unless the axis of the rows is reduced. Without keep_dims, each reduced
 * axis before the rows' axis decreases the index of the rows' axis by one. */
static void reduce_rows(struct rt_rows *r)
{
    const struct rt_tensor *axes = r->in[1].value;
    const struct rt_dep *in = &r->in_dep[0];
    unsigned reduced;
    if (!axes || r->in[0].shape.rank < 0 || r->in_dep[1].kind == RT_DEP_ROWS ||
        r->in_dep[1].kind == RT_DEP_MIXED ||
        kn_reduce_axes(axes, r->in[0].shape.rank, &reduced, NULL) != RT_OK)
        return;
    if (in->kind != RT_DEP_ROWS) {
        r->out_dep[0] = *in;
        return;
    }
    if (reduced >> in->axis & 1)
        return;
    int axis = in->axis;
    if (!rt_attr_bool(r->node, "keep_dims"))
        for (int i = 0; i < in->axis; i++)
            axis -= (int)(reduced >> i & 1);
    r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, axis};
}

/* ---- the loops ---- */

struct loop {
    int64_t n, step; /* `step` is the distance from one iteration to the next, in input elements */
};
/*
 * The loops of a reduction. Axes of length 1 are dropped. Neighbouring axes that are both kept or
 * both reduced are merged, so that kept and reduced axes alternate. The reducer processes the two
 * innermost axes: it reduces lines ([kept, reduced]) or combines rows ([reduced, kept]).
 */
struct plan {
    const struct kn_reducer *reducer;
    bool keeps_one;            /* whether the reduction of a single element is the element itself */
    int64_t count;             /* number of values that are reduced to one result */
    bool by_lines;             /* whether the innermost axis is reduced */
    int64_t inner, rows;       /* lengths of the innermost axis and of the next outer axis */
    int64_t in_size, out_size; /* bytes per element */
    /* number of loops over kept axes and of loops over reduced axes, without the two innermost
     * axes; the arrays hold the innermost loop first */
    int n_kept, n_reduced;
    struct loop kept[RT_MAX_RANK], reduced[RT_MAX_RANK];
    int64_t kept_total, reduced_total;
};

static enum rt_status make_plan(struct rt_prep *p, const struct kn_reducer *table, unsigned reduced,
                                void **state)
{
    struct plan *k = rt_prep_alloc(p, sizeof *k);
    if (!k)
        return p->err->code;
    const struct rt_shape *in = &p->in[0].shape;
    int64_t dim[RT_MAX_RANK + 2];
    bool red[RT_MAX_RANK + 2];
    int n = 0;
    k->reducer = &table[p->in[0].dtype];
    k->keeps_one = table != reduce_norm && table != reduce_l2;
    k->in_size = (int64_t)rt_dtype_size(p->in[0].dtype);
    k->out_size = (int64_t)rt_dtype_size(p->out[0].dtype);
    k->count = k->kept_total = k->reduced_total = 1;
    for (int i = 0; i < in->rank; i++) {
        const bool r = reduced >> i & 1;
        if (r)
            k->count *= in->dim[i];
        if (in->dim[i] == 1)
            continue;
        if (n && red[n - 1] == r) {
            dim[n - 1] *= in->dim[i];
        } else {
            dim[n] = in->dim[i];
            red[n++] = r;
        }
    }
    /* The reducer always receives two axes: [.., kept, reduced] or [.., reduced, kept]. */
    k->by_lines = n > 0 && red[n - 1];
    k->inner = n > 0 ? dim[--n] : 1;
    k->rows = n > 0 ? dim[--n] : 1;
    int64_t step = k->inner * k->rows;
    for (int i = n - 1; i >= 0; i--) {
        struct loop l = {dim[i], step};
        if (red[i]) {
            k->reduced[k->n_reduced++] = l;
            k->reduced_total *= dim[i];
        } else {
            k->kept[k->n_kept++] = l;
            k->kept_total *= dim[i];
        }
        step *= dim[i];
    }
    *state = k;
    return RT_OK;
}

/* Returns the offset of iteration `at` of nested loops, ordered innermost first. */
static int64_t offset_of(const struct loop *l, int n, int64_t at)
{
    int64_t offset = 0;
    for (int i = 0; i < n; i++) {
        offset += at % l[i].n * l[i].step;
        at /= l[i].n;
    }
    return offset;
}

static int64_t blocks_of(int64_t wide)
{
    return (wide + KN_REDUCE_WIDTH - 1) / KN_REDUCE_WIDTH;
}

/* Longer lines are reduced in parts of this length, with a deadline check after each part. */
enum { LONG_LINE = 1 << 22 };

static enum rt_status add_lines(struct rt_run *r, const struct plan *k, union kn_acc *acc,
                                const char *src, int64_t n, int64_t *left)
{
    for (int64_t i = 0; i < k->inner; i += LONG_LINE) {
        const int64_t m = k->inner - i < LONG_LINE ? k->inner - i : LONG_LINE;
        k->reducer->lines(acc, src + i * k->in_size, n, k->inner, m);
        if (rt_run_spend(r, left, n * m))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status add_columns(struct rt_run *r, const struct plan *k, union kn_acc *acc,
                                  const char *src, int64_t n, int64_t *left)
{
    enum { MANY = LONG_LINE / KN_REDUCE_WIDTH };
    for (int64_t i = 0; i < k->rows; i += MANY) {
        const int64_t m = k->rows - i < MANY ? k->rows - i : MANY;
        k->reducer->columns(acc, src + i * k->inner * k->in_size, m, k->inner, n);
        if (rt_run_spend(r, left, n * m))
            return r->err->code;
    }
    return RT_OK;
}

/* Computes blocks [from, to) of the results. A block has KN_REDUCE_WIDTH neighbouring results. */
static enum rt_status reduce_blocks(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct plan *k = r->state;
    const struct kn_reducer *f = k->reducer;
    const char *src = r->in[0].data;
    union kn_acc acc[KN_REDUCE_WIDTH];
    int64_t left = RT_WORK;
    const int64_t wide = k->by_lines ? k->rows : k->inner, per = blocks_of(wide);
    (void)arg;
    for (int64_t b = from; b < to; b++) {
        const int64_t o = b / per, first = b % per * KN_REDUCE_WIDTH;
        const int64_t base = offset_of(k->kept, k->n_kept, o);
        const int64_t n = wide - first < KN_REDUCE_WIDTH ? wide - first : KN_REDUCE_WIDTH;
        f->init(acc, n);
        for (int64_t i = 0; k->count && i < k->reduced_total; i++) {
            const int64_t at = base + offset_of(k->reduced, k->n_reduced, i);
            const enum rt_status st =
                k->by_lines
                    ? add_lines(r, k, acc, src + (at + first * k->inner) * k->in_size, n, &left)
                    : add_columns(r, k, acc, src + (at + first) * k->in_size, n, &left);
            if (st)
                return st;
        }
        f->finish((char *)r->out[0].data + (o * wide + first) * k->out_size, acc, n, k->count);
    }
    return RT_OK;
}

static enum rt_status reduce_run(struct rt_run *r)
{
    const struct plan *k = r->state;
    const int64_t wide = k->by_lines ? k->rows : k->inner, n = k->kept_total * blocks_of(wide);
    const bool is_all = rt_tensor_count(&r->in[0]) == rt_tensor_count(&r->out[0]);
    if (is_all && k->keeps_one && kn_hand_on(r, 0))
        return RT_OK;
    const double all = (double)rt_tensor_count(&r->in[0]);
    return kn_parallel_rows(r, n, n ? (int64_t)(all / (double)n) + 1 : 1, 1, reduce_blocks, NULL);
}

/* Defines a reduction op and its kernel. TABLE holds its reducers. */
#define REDUCTION(NAME, TF, TABLE, TYPES)                                                          \
    static enum rt_status NAME##_prepare(struct rt_prep *p, void **state)                          \
    {                                                                                              \
        unsigned reduced;                                                                          \
        const enum rt_status st =                                                                  \
            kn_reduce_axes(p->in[1].value, p->in[0].shape.rank, &reduced, p->err);                 \
        return st ? st : make_plan(p, TABLE, reduced, state);                                      \
    }                                                                                              \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = reduce_infer, .rows = reduce_rows, .shape_in = 1 << 1},        \
        .kernels = KN_CPU(TF, #NAME, TYPES, NAME##_prepare, reduce_run),                           \
    };
REDUCTION(sum, "Sum", kn_reduce_sum, KN_SET(KN_NUMBERS))
REDUCTION(mean, "Mean", kn_reduce_mean, KN_SET(KN_NUMBERS))
REDUCTION(prod, "Prod", kn_reduce_prod, KN_SET(KN_NUMBERS))
REDUCTION(max, "Max", kn_reduce_max, KN_SET(KN_REALS))
REDUCTION(min, "Min", kn_reduce_min, KN_SET(KN_REALS))
REDUCTION(all, "All", reduce_all, 0)
REDUCTION(any, "Any", reduce_any, 0)
REDUCTION(euclidean_norm, "EuclideanNorm", reduce_norm, KN_SET(KN_NUMBERS))

/* ---- L2Loss: reduces everything to one number ---- */

static enum rt_status l2_loss_infer(struct rt_infer *x)
{
    x->out[0].shape.rank = 0;
    return RT_OK;
}

static enum rt_status l2_loss_prepare(struct rt_prep *p, void **state)
{
    return make_plan(p, reduce_l2, ~0u, state);
}

const struct kn_entry kn_l2_loss = {
    .op = {.name = "L2Loss", .infer = l2_loss_infer},
    .kernels = KN_CPU("L2Loss", "l2_loss", KN_SET(KN_FLOATS) | KN_SET(KN_HALFS), l2_loss_prepare,
                      reduce_run),
};

/* ---- BiasAddGrad: reduces all axes but that of the channels ---- */

static int channel_axis(const struct rt_node *n, int rank)
{
    return rt_span_is(rt_attr_str(n, "data_format"), "NCHW") ? 1 : rank - 1;
}

static enum rt_status bias_grad_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;

    if (in->rank < 0)
        return RT_OK;
    if (in->rank < 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input tensor must be at least 2D: %s",
                       KN_TEXT(in));
    kn_set_vector(&x->out[0], in->dim[channel_axis(x->node, in->rank)]);
    return RT_OK;
}

static enum rt_status bias_grad_prepare(struct rt_prep *p, void **state)
{
    const unsigned reduced = ~(1u << channel_axis(p->node, p->in[0].shape.rank));
    const enum rt_status st = make_plan(p, kn_reduce_sum, reduced, state);

    if (!st)
        ((struct plan *)*state)->keeps_one = false; /* the output never shares the input's memory */
    return st;
}

const struct kn_entry kn_bias_add_grad = {
    .op = {.name = "BiasAddGrad", .infer = bias_grad_infer},
    .kernels =
        KN_CPU("BiasAddGrad", "bias_add_grad", KN_SET(KN_NUMBERS), bias_grad_prepare, reduce_run),
};

/* ---- ArgMax, ArgMin ---- */

static enum rt_status read_dimension(const struct rt_tensor *t, int rank, int64_t *axis,
                                     struct rt_error *err)
{
    char text[160];
    if (!kn_scalar(t, axis))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "dim must be a scalar, but received tensor of shape: %s",
                       rt_shape_text(text, sizeof text, t->rank, t->dim));
    if (*axis < -rank || *axis >= rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expected dimension in the range [%d, %d), but got %lld", -rank, rank,
                       (long long)*axis);
    *axis = *axis < 0 ? *axis + rank : *axis;
    return RT_OK;
}

static enum rt_status arg_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    struct rt_shape *out = &x->out[0].shape;
    int64_t axis = 0;
    char text[160];
    if (in->rank < 0 || !x->in[1].value)
        return RT_OK;
    const enum rt_status st = read_dimension(x->in[1].value, in->rank, &axis, x->err);
    if (st)
        return st;
    if (in->dim[axis] == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Reduction axis %lld is empty in shape %s",
                       (long long)kn_int_at(x->in[1].value, 0),
                       rt_shape_text(text, sizeof text, in->rank, in->dim));
    out->rank = 0;
    for (int i = 0; i < in->rank; i++)
        if (i != axis)
            out->dim[out->rank++] = in->dim[i];
    return RT_OK;
}

static void arg_rows(struct rt_rows *r)
{
    const struct rt_dep *in = &r->in_dep[0];
    int64_t axis = 0;
    if (!r->in[1].value || r->in[0].shape.rank < 0 || r->in_dep[1].kind != RT_DEP_NONE ||
        read_dimension(r->in[1].value, r->in[0].shape.rank, &axis, NULL) != RT_OK)
        return;
    if (in->kind != RT_DEP_ROWS)
        r->out_dep[0] = *in;
    else if (in->axis != axis)
        r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, in->axis - (in->axis > axis)};
}

/* Returns the index of the largest or smallest of n values that are `step` elements apart. If
 * several are equal, returns the index of the first. Skips NaN, and returns 0 if all values are
 * NaN. */
typedef int64_t arg_fn(const void *src, int64_t n, int64_t step);

/* Defines a function that finds the extreme element of contiguous floats. The function first finds
 * the extreme value, then its index. */
#define ARG_LINE(NAME, START, BETTER)                                                              \
    KN_CLONES static int64_t NAME(const float *s, int64_t n)                                       \
    {                                                                                              \
        enum { ARG_LANES = 16 };                                                                   \
        float best[ARG_LANES];                                                                     \
        int64_t i = 0;                                                                             \
        for (int64_t l = 0; l < ARG_LANES; l++)                                                    \
            best[l] = START;                                                                       \
        for (; i + ARG_LANES <= n; i += ARG_LANES)                                                 \
            for (int64_t l = 0; l < ARG_LANES; l++)                                                \
                best[l] = s[i + l] BETTER best[l] ? s[i + l] : best[l];                            \
        for (; i < n; i++)                                                                         \
            best[0] = s[i] BETTER best[0] ? s[i] : best[0];                                        \
        for (int64_t l = 1; l < ARG_LANES; l++)                                                    \
            best[0] = best[l] BETTER best[0] ? best[l] : best[0];                                  \
        if (best[0] == START)                                                                      \
            return 0;                                                                              \
        for (i = 0; s[i] != best[0]; i++)                                                          \
            ;                                                                                      \
        return i;                                                                                  \
    }
ARG_LINE(arg_max_line, -FLT_MAX, >)
ARG_LINE(arg_min_line, FLT_MAX, <)

#define ARG(dt, T, NAME, START, BETTER)                                                            \
    static int64_t NAME##_##dt(const void *src, int64_t n, int64_t step)                           \
    {                                                                                              \
        const T *s = src;                                                                          \
        if ((dt) == RT_F32 && step == 1)                                                           \
            return NAME##_line(src, n);                                                            \
        KN_C(dt) best = START(dt);                                                                 \
        int64_t at = 0;                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const KN_C(dt) x = KN_GET(dt, s[i * step]);                                            \
            if (x BETTER best) {                                                                   \
                best = x;                                                                          \
                at = i;                                                                            \
            }                                                                                      \
        }                                                                                          \
        return at;                                                                                 \
    }
#define KN_FOR_ARG(M, ...) KN_FOR_REALS(M, __VA_ARGS__) KN_FOR_BOOL(M, __VA_ARGS__)
KN_FOR_ARG(ARG, arg_max, KN_LEAST, >)
KN_FOR_ARG(ARG, arg_min, KN_GREATEST, <)

struct arg_plan {
    arg_fn *fn;
    int64_t outer, n, inner, size;
};

static enum rt_status arg_prepare(struct rt_prep *p, arg_fn *const *table, void **state)
{
    struct arg_plan *k = rt_prep_alloc(p, sizeof *k);
    const struct rt_shape *in = &p->in[0].shape;
    int64_t axis = 0;
    if (!k)
        return p->err->code;
    const enum rt_status st = read_dimension(p->in[1].value, in->rank, &axis, p->err);
    if (st)
        return st;
    k->fn = table[p->in[0].dtype];
    k->size = (int64_t)rt_dtype_size(p->in[0].dtype);
    k->outer = k->inner = 1;
    k->n = in->dim[axis];
    for (int i = 0; i < in->rank; i++)
        if (i < axis)
            k->outer *= in->dim[i];
        else if (i > axis)
            k->inner *= in->dim[i];
    *state = k;
    return RT_OK;
}

static enum rt_status arg_run(struct rt_run *r)
{
    const struct arg_plan *k = r->state;
    const char *src = r->in[0].data;
    void *d = r->out[0].data;
    const enum rt_dtype to = (enum rt_dtype)r->out[0].dtype;
    /* If elements are not contiguous, each is read from a cache line of its own. */
    const int64_t work = rt_add_saturated(rt_mul_saturated(k->n, k->inner > 1 ? 8 : 1), 8);
    int64_t i = 0, left = RT_WORK;
    for (int64_t o = 0; o < k->outer; o++)
        for (int64_t j = 0; j < k->inner; j++, i++) {
            if (rt_run_spend(r, &left, work))
                return r->err->code;
            const int64_t at = k->fn(src + (o * k->n * k->inner + j) * k->size, k->n, k->inner);
            if (to == RT_I64)
                ((int64_t *)d)[i] = at;
            else if (to == RT_I32)
                ((int32_t *)d)[i] = (int32_t)at;
            else /* int16 or uint16 */
                ((uint16_t *)d)[i] = (uint16_t)at;
        }
    return RT_OK;
}

#define ARG_OP(NAME, TF)                                                                           \
    static enum rt_status NAME##_prepare(struct rt_prep *p, void **state)                          \
    {                                                                                              \
        static arg_fn *const fn[RT_N_DTYPES] = {KN_FOR_ARG(KN_ROW_OF, NAME)};                      \
        return arg_prepare(p, fn, state);                                                          \
    }                                                                                              \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = arg_infer, .rows = arg_rows, .shape_in = 1 << 1},              \
        .kernels = KN_CPU(TF, #NAME, 0 KN_FOR_ARG(KN_TYPE_OF, NAME), NAME##_prepare, arg_run),     \
    };
ARG_OP(arg_max, "ArgMax")
ARG_OP(arg_min, "ArgMin")
