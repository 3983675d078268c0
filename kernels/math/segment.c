/* Reductions of rows that have equal segment ids, for sorted and for unsorted ids. */
#include "kernels/array/array.h"
#include "kernels/math/elementwise.h"
#include "kernels/math/reduce.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

static int64_t id_at(const struct rt_tensor *ids, int64_t i)
{
    return ids->dtype == RT_I32   ? ((const int32_t *)ids->data)[i]
           : ids->dtype == RT_I16 ? ((const int16_t *)ids->data)[i]
                                  : ((const int64_t *)ids->data)[i];
}

/* ---- sorted ---- */

static enum rt_status segment_infer(struct rt_infer *x)
{
    const struct rt_shape *data = &x->in[0].shape, *ids = &x->in[1].shape;
    if (data->rank < 0 || ids->rank < 0)
        return RT_OK;
    if (ids->rank != 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "segment_ids should be a vector.");
    if (data->rank == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "input must be at least rank 1");
    if (ids->dim[0] >= 0 && data->dim[0] >= 0 && ids->dim[0] != data->dim[0])
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "segment_ids should be the same size as dimension 0 of input.");
    x->out[0].shape = *data;
    /* the number of segments is the last id plus one, which is unknown before the run */
    x->out[0].shape.dim[0] = -1;
    return RT_OK;
}

/* Divides n integer sums of SegmentMean by `by`. Unlike the 64-bit sums of Mean, these sums have
 * the integers' own type and may have wrapped around. */
static void divide_ints(enum rt_dtype dtype, void *d, int64_t n, int64_t by)
{
    switch (dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        for (int64_t j = 0; j < n; j++)                                                            \
            ((T *)d)[j] = (T)(((T *)d)[j] / by);                                                   \
        break;
        KN_INTS(X)
#undef X
    default:
        break;
    }
}

/*
 * Max and Min of floats. TensorFlow uses Eigen, which has two rules for NaN. The rules were
 * measured with TensorFlow 2.21, whose builds for x86-64 have AVX.
 *
 * In columns that fill a packet of 32 bytes (16 bytes for half-precision types), Max starts at
 * -infinity and replaces its result only by a greater value. The result is thus never NaN. If the
 * maximum is zero, the result is the first of the zeros 0 and -0.
 *
 * In the remaining columns, Max replaces its result by every value that is not less than the
 * result. The result is thus the last of several equal values, and a NaN is replaced by the next
 * value.
 *
 * Min starts at infinity, and has the same rules with "less" and "greater" exchanged. If a segment
 * has only one row, the row is copied.
 */
#define FIRST_LARGER(a, b)  ((b) > (a) ? (b) : (a))
#define FIRST_SMALLER(a, b) ((b) < (a) ? (b) : (a))
#define LATER_LARGER(a, b)  ((b) < (a) ? (a) : (b))
#define LATER_SMALLER(a, b) ((b) > (a) ? (a) : (b))
#define FOLD(dt, T, NAME, START, TAKE)                                                             \
    static void NAME##_init_##dt(void *acc_, int64_t n)                                            \
    {                                                                                              \
        KN_C(dt) *acc = acc_;                                                                      \
        for (int64_t j = 0; j < n; j++)                                                            \
            acc[j] = START;                                                                        \
    }                                                                                              \
    KN_FAST(dt)                                                                                    \
    static void NAME##_columns_##dt(void *acc_, const void *src, int64_t n_rows, int64_t stride,   \
                                    int64_t n)                                                     \
    {                                                                                              \
        KN_C(dt) *restrict acc = acc_;                                                             \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n_rows; i++, s += stride)                                          \
            for (int64_t j = 0; j < n; j++)                                                        \
                acc[j] = TAKE(acc[j], KN_GET(dt, s[j]));                                           \
    }                                                                                              \
    static void NAME##_finish_##dt(void *dst, const void *acc_, int64_t n, int64_t count)          \
    {                                                                                              \
        T *d = dst;                                                                                \
        const KN_C(dt) *acc = acc_;                                                                \
        (void)count;                                                                               \
        for (int64_t j = 0; j < n; j++)                                                            \
            d[j] = KN_PUT(dt, acc[j]);                                                             \
    }
#define FOLD_ROW(dt, T, NAME)                                                                      \
    [dt] = {NAME##_init_##dt, NAME##_columns_##dt, NULL, NAME##_finish_##dt},
KN_FOR_FLOATS(FOLD, packed_max, -INFINITY, FIRST_LARGER)
KN_FOR_FLOATS(FOLD, packed_min, INFINITY, FIRST_SMALLER)
KN_FOR_FLOATS(FOLD, rest_max, -INFINITY, LATER_LARGER)
KN_FOR_FLOATS(FOLD, rest_min, INFINITY, LATER_SMALLER)

/* Reducers of float types, indexed by type. The entries of integer types are zero, because integers
 * have no NaN and use the ordinary reducers. */
struct extreme {
    struct kn_reducer packed[RT_N_DTYPES], rest[RT_N_DTYPES];
};
static const struct extreme extreme_max = {{KN_FOR_FLOATS(FOLD_ROW, packed_max)},
                                           {KN_FOR_FLOATS(FOLD_ROW, rest_max)}};
static const struct extreme extreme_min = {{KN_FOR_FLOATS(FOLD_ROW, packed_min)},
                                           {KN_FOR_FLOATS(FOLD_ROW, rest_min)}};

/* `extreme` holds the reducers for floats, or is NULL if `table` holds the reducers for all
 * types. */
static enum rt_status segment_run(struct rt_run *r, const struct kn_reducer *table,
                                  const struct extreme *extreme, bool gaps_are_1)
{
    const struct rt_tensor *data = &r->in[0], *ids = &r->in[1];
    const bool divides = table == kn_reduce_mean && (KN_SET(KN_INTS) >> data->dtype & 1);
    const bool folds = extreme && extreme->rest[data->dtype].init;
    const struct kn_reducer *f = divides ? &kn_reduce_sum[data->dtype] : &table[data->dtype];
    const int64_t n = ids->dim[0], size = (int64_t)rt_dtype_size((enum rt_dtype)data->dtype);
    const int64_t last = n ? id_at(ids, n - 1) : -1;
    int64_t dim[RT_MAX_RANK], width = 1;
    memcpy(dim, data->dim, sizeof dim);
    for (int i = 1; i < data->rank; i++)
        width *= dim[i];
    const int64_t packed = folds ? width - width % (size == 8 ? 4 : 8) : width;
    if (n && last < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "segment ids must be >= 0");
    if (last == INT64_MAX)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "segment id %lld is too large",
                       (long long)last);
    dim[0] = last + 1;
    char *out = rt_out(r, 0, data->rank, dim);
    if (!out)
        return r->err->code;
    /* `gap` is the output value of a segment without rows */
    union kn_acc acc[KN_REDUCE_WIDTH], gap;
    const struct kn_reducer *of_none =
        gaps_are_1 ? &kn_reduce_prod[data->dtype] : &kn_reduce_sum[data->dtype];
    of_none->init(acc, 1);
    of_none->finish(&gap, acc, 1, 1);
    int64_t next = 0; /* the first output row that is not written yet */
    int64_t left = RT_WORK;
    for (int64_t i = 0, end; i < n; i = end) {
        const int64_t id = id_at(ids, i);
        for (end = i + 1; end < n && id_at(ids, end) == id;)
            end++;
        if (end < n && id_at(ids, end) < id)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "segment ids are not increasing");
        if (id < 0 || id > last)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Segment id %lld out of range [0, %lld), possibly because 'segment_ids' "
                           "input is not sorted.",
                           (long long)id, (long long)(last + 1));
        for (int64_t j = next * width; j < id * width; j++) {
            if (rt_run_tick(r, j))
                return r->err->code;
            memcpy(out + j * size, &gap, (size_t)size);
        }
        for (int64_t j = 0, m; j < width; j += m) {
            const int64_t until = j < packed ? packed : width;
            m = until - j < KN_REDUCE_WIDTH ? until - j : KN_REDUCE_WIDTH;
            if (rt_run_spend(r, &left, (end - i) * m))
                return r->err->code;
            if (folds && end - i == 1) {
                memcpy(out + (id * width + j) * size,
                       (const char *)data->data + (i * width + j) * size, (size_t)(m * size));
                continue;
            }
            if (folds)
                f = j < packed ? &extreme->packed[data->dtype] : &extreme->rest[data->dtype];
            f->init(acc, m);
            f->columns(acc, (const char *)data->data + (i * width + j) * size, end - i, width, m);
            f->finish(out + (id * width + j) * size, acc, m, end - i);
            if (divides)
                divide_ints((enum rt_dtype)data->dtype, out + (id * width + j) * size, m, end - i);
        }
        next = id + 1;
    }
    return RT_OK;
}

#define SEGMENT(NAME, TF, TABLE, EXTREME, GAPS_ARE_1, TYPES)                                       \
    static enum rt_status NAME##_run(struct rt_run *r)                                             \
    {                                                                                              \
        return segment_run(r, TABLE, EXTREME, GAPS_ARE_1);                                         \
    }                                                                                              \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = segment_infer},                                                \
        .kernels = KN_CPU(TF, #NAME, TYPES, NULL, NAME##_run),                                     \
    };
SEGMENT(segment_sum, "SegmentSum", kn_reduce_sum, NULL, false, KN_SET(KN_NUMBERS))
SEGMENT(segment_mean, "SegmentMean", kn_reduce_mean, NULL, false, KN_SET(KN_NUMBERS))
SEGMENT(segment_prod, "SegmentProd", kn_reduce_prod, NULL, true, KN_SET(KN_NUMBERS))
SEGMENT(segment_max, "SegmentMax", kn_reduce_max, &extreme_max, false, KN_SET(KN_REALS))
SEGMENT(segment_min, "SegmentMin", kn_reduce_min, &extreme_min, false, KN_SET(KN_REALS))

/* ---- unsorted ---- */

static enum rt_status unsorted_infer(struct rt_infer *x)
{
    const struct rt_shape *data = &x->in[0].shape, *ids = &x->in[1].shape;
    const struct rt_tensor *num = x->in[2].value;
    struct rt_shape *out = &x->out[0].shape;
    char one[160], two[160];
    if (!kn_shape_known(data) || !kn_shape_known(ids))
        return RT_OK;
    bool starts = ids->rank <= data->rank;
    for (int i = 0; starts && i < ids->rank; i++)
        starts = ids->dim[i] == data->dim[i];
    if (!starts)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "data.shape = %s does not start with segment_ids.shape = %s",
                       rt_shape_text(one, sizeof one, data->rank, data->dim),
                       rt_shape_text(two, sizeof two, ids->rank, ids->dim));
    if (!num)
        return RT_OK;
    int64_t n;
    if (!kn_scalar(num, &n))
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "num_segments should be a scalar, not shape %s",
                       rt_shape_text(one, sizeof one, num->rank, num->dim));
    if (n < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Input num_segments == %lld must not be negative.", (long long)n);
    out->rank = data->rank - ids->rank + 1;
    if (out->rank > RT_MAX_RANK)
        return rt_fail(x->err, RT_UNIMPLEMENTED, "%s: rank %d is above %d", x->node->name,
                       out->rank, RT_MAX_RANK);
    out->dim[0] = n;
    for (int i = 1; i < out->rank; i++)
        out->dim[i] = data->dim[ids->rank + i - 1];
    return RT_OK;
}

struct unsorted {
    /* sets *d to the value of a segment without rows */
    void (*start)(void *d);
    /* combines s[j] with d[j] and writes the result to d[j] */
    void (*take)(void *d, const void *s, int64_t n);
};

#define UNSORTED(dt, T, NAME, START, PLUS)                                                         \
    static void NAME##_start_##dt(void *d)                                                         \
    {                                                                                              \
        *(T *)d = KN_PUT(dt, START(dt));                                                           \
    }                                                                                              \
    static void NAME##_take_##dt(void *dst, const void *src, int64_t n)                            \
    {                                                                                              \
        T *restrict d = dst;                                                                       \
        const T *restrict s = src;                                                                 \
        for (int64_t j = 0; j < n; j++)                                                            \
            d[j] = KN_PUT(dt, PLUS(dt, KN_GET(dt, d[j]), KN_GET(dt, s[j])));                       \
    }
#define UNSORTED_ROW(dt, T, NAME) [dt] = {NAME##_start_##dt, NAME##_take_##dt},

#define ZERO(dt)      0
#define ONE(dt)       1
#define ADD(dt, a, b) ((KN_U(dt))(a) + (KN_U(dt))(b))
#define MUL(dt, a, b) ((KN_U(dt))(a) * (KN_U(dt))(b))
/* As in TensorFlow, the result is the later value if both values are equal or one of them is
 * NaN. */
#define LARGER(dt, a, b)  LATER_LARGER(a, b)
#define SMALLER(dt, a, b) LATER_SMALLER(a, b)
KN_FOR_NUMBERS(UNSORTED, sum, ZERO, ADD)
KN_FOR_NUMBERS(UNSORTED, prod, ONE, MUL)
KN_FOR_REALS(UNSORTED, max, KN_LEAST, LARGER)
KN_FOR_REALS(UNSORTED, min, KN_GREATEST, SMALLER)

/* Runs a segment op with unsorted ids. Rows with negative ids are ignored. */
static enum rt_status unsorted_run(struct rt_run *r, const struct unsorted *table)
{
    const struct rt_tensor *data = &r->in[0], *ids = &r->in[1];
    const struct unsorted *f = &table[data->dtype];
    const int64_t n = rt_tensor_count(ids), n_out = r->out[0].dim[0];
    const int64_t size = (int64_t)rt_dtype_size((enum rt_dtype)data->dtype);
    int64_t width = 1;
    for (int i = ids->rank; i < data->rank; i++)
        width *= data->dim[i];
    char *out = r->out[0].data;
    union kn_acc start;
    f->start(&start);
    if (kn_repeat(kn_dtype(data), out, &start, rt_tensor_count(&r->out[0]), r))
        return r->err->code;
    if (width == 0) /* TensorFlow does not check the ids of rows without elements. */
        return RT_OK;
    int64_t left = RT_WORK;
    for (int64_t i = 0; i < n; i++) {
        if (rt_run_spend(r, &left, 2 + width))
            return r->err->code;
        const int64_t id = id_at(ids, i);
        if (id < 0)
            continue;
        if (id >= n_out) {
            char where[200] = "";
            size_t used = 0;
            int64_t rest = i, inner = n;
            for (int k = 0; k < ids->rank && used < sizeof where; k++) {
                inner /= ids->dim[k];
                used +=
                    (size_t)snprintf(where + used, sizeof where - used, "%s%lld%s", k ? "," : "[",
                                     (long long)(rest / inner), k + 1 < ids->rank ? "" : "]");
                rest %= inner;
            }
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "segment_ids%s = %lld is out of range [0, %lld)", where, (long long)id,
                           (long long)n_out);
        }
        f->take(out + id * width * size, (const char *)data->data + i * width * size, width);
    }
    return RT_OK;
}

#define UNSORTED_OP(NAME, TF, OF, LIST)                                                            \
    static enum rt_status NAME##_run(struct rt_run *r)                                             \
    {                                                                                              \
        static const struct unsorted table[RT_N_DTYPES] = {KN_FOR_##LIST(UNSORTED_ROW, OF)};       \
        return unsorted_run(r, table);                                                             \
    }                                                                                              \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = unsorted_infer, .shape_in = 1 << 2},                           \
        .kernels = KN_CPU(TF, #NAME, 0 KN_FOR_##LIST(KN_TYPE_OF, OF), NULL, NAME##_run),           \
    };
UNSORTED_OP(unsorted_segment_sum, "UnsortedSegmentSum", sum, NUMBERS)
UNSORTED_OP(unsorted_segment_prod, "UnsortedSegmentProd", prod, NUMBERS)
UNSORTED_OP(unsorted_segment_max, "UnsortedSegmentMax", max, REALS)
UNSORTED_OP(unsorted_segment_min, "UnsortedSegmentMin", min, REALS)
