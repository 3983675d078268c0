/*
 * Embedding bags: for each segment, these ops add up the rows of `data` that `indices` select. The
 * ops are SparseSegmentSum, SparseSegmentMean and SparseSegmentSqrtN, and their variants with a
 * given number of segments.
 *
 * "_EmbedBag" (runtime/fusion/embedding.h) adds up rows of a table. Its error messages are those of
 * the nodes that it replaces. These nodes look up each distinct index once, so a message gives the
 * position of an index among the distinct indices.
 */
#include "kernels/array/array.h"
#include "kernels/array/gather_rows.h"
#include "kernels/array/sort.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/fusion/embedding.h"

#include <math.h>
#include <stdio.h>

/* number of columns that are processed together, in registers and the L1 cache */
enum { WIDTH = 128 };
/* number of rows of a bag that are added up between two calls of rt_run_spend */
enum { ROWS = 1 << 12 };

struct bag {
    const char *data;
    const struct rt_tensor *indices;
    int64_t width;    /* number of elements per row of `data` */
    int64_t first, n; /* the bag's first position in `indices`, and its number of indices */
    double by;        /* divisor of the bag's sum */
    struct rt_run *r;
    int64_t *left;
};

static inline int64_t index_at(const struct rt_tensor *t, int64_t i)
{
    return t->dtype == RT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

#define PLAIN(x)     (x)
#define DIVIDE(x, A) ((x) / (A)b->by)
#define AS_IS(x, A)  (x)
/* As in TensorFlow, float and double elements are summed in their own type. Half-precision elements
 * are summed as float. Integer sums wrap around. */
#define ADD(dt, T, A, LOAD, STORE, SCALE)                                                          \
    KN_FAST(dt) static bool add_##dt(const struct bag *b, void *out)                               \
    {                                                                                              \
        for (int64_t at = 0; at < b->width; at += WIDTH) {                                         \
            const int64_t m = b->width - at < WIDTH ? b->width - at : WIDTH;                       \
            A acc[WIDTH] = {0};                                                                    \
            for (int64_t i = 0; i < b->n; i++) {                                                   \
                const T *src = (const T *)(const void *)b->data +                                  \
                               index_at(b->indices, b->first + i) * b->width + at;                 \
                for (int64_t j = 0; j < m; j++)                                                    \
                    acc[j] += (A)LOAD(src[j]);                                                     \
                if ((i & (ROWS - 1)) == ROWS - 1 && rt_run_spend(b->r, b->left, ROWS * (m + 8)))   \
                    return false;                                                                  \
            }                                                                                      \
            for (int64_t j = 0; j < m; j++)                                                        \
                ((T *)out)[at + j] = STORE(SCALE(acc[j], A));                                      \
            if (rt_run_spend(b->r, b->left, (b->n & (ROWS - 1)) * (m + 8) + 8))                    \
                return false;                                                                      \
        }                                                                                          \
        return true;                                                                               \
    }
#define ADD_INT(dt, T) ADD(dt, T, uint64_t, PLAIN, (T), AS_IS)
KN_INTS(ADD_INT)
ADD(RT_F32, float, float, PLAIN, PLAIN, DIVIDE)
ADD(RT_F64, double, double, PLAIN, PLAIN, DIVIDE)
ADD(RT_F16, struct kn_half, float, kn_from_f16, kn_to_f16, DIVIDE)
ADD(RT_BF16, struct kn_bfloat, float, kn_from_bf16, kn_to_bf16, DIVIDE)

static bool (*adder(enum rt_dtype dtype))(const struct bag *b, void *out)
{
    switch (dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return add_##dt;
        KN_REALS(X)
#undef X
    default:
        return NULL;
    }
}

static enum rt_status sparse_segment_infer(struct rt_infer *x)
{
    const struct rt_shape *data = &x->in[0].shape;

    if (data->rank > 0) {
        x->out[0].shape = *data;
        x->out[0].shape.dim[0] = -1;
    }
    return RT_OK;
}

/* Returns the number of output rows. On failure, returns -1 and sets r->err. */
static int64_t count_rows(struct rt_run *r)
{
    const struct rt_tensor *ids = &r->in[2], *num = r->n_in > 3 ? &r->in[3] : NULL;
    const int64_t n = rt_tensor_count(ids), last = n ? index_at(ids, n - 1) : -1;

    if (num && num->rank != 0)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "num_segments should be a scalar, not shape %s",
                KN_TEXT(num));
    else if (num && index_at(num, 0) < 0)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "segment ids must be >= 0");
    else if (r->in[1].rank != 1)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "indices should be a vector.");
    else if (ids->rank != 1)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "segment_ids should be a vector.");
    else if (n != r->in[1].dim[0])
        rt_fail(r->err, RT_INVALID_ARGUMENT, "segment_ids and indices should have same size.");
    else if (r->in[0].rank < 1)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "Shape must be at least rank 1");
    else if (!num && n && last < 0)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "segment ids must be >= 0");
    else if (num && last >= index_at(num, 0))
        rt_fail(r->err, RT_INVALID_ARGUMENT, "segment ids must be < num_segments");
    else if (last == INT64_MAX)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "segment id %lld is too large", (long long)last);
    else
        return num ? index_at(num, 0) : last + 1;
    return -1;
}

static enum rt_status sparse_segment_run(struct rt_run *r, enum rt_embedding_bag_how how)
{
    const struct rt_tensor *data = &r->in[0], *indices = &r->in[1], *ids = &r->in[2];
    const int64_t rows = count_rows(r), n = rows < 0 ? 0 : ids->dim[0];
    bool (*const add)(const struct bag *b, void *out) = adder(kn_dtype(data));
    int64_t dim[RT_MAX_RANK], next = 0, left = RT_WORK;
    struct bag b = {.data = data->data, .indices = indices, .by = 1, .r = r, .left = &left};

    if (rows < 0)
        return r->err->code;
    memcpy(dim, data->dim, sizeof dim);
    dim[0] = rows;
    b.width = rt_count(data->rank - 1, data->dim + 1);
    char *out = rt_out(r, 0, data->rank, dim);
    if (!out)
        return r->err->code;
    const size_t row_bytes = (size_t)b.width * rt_dtype_size(kn_dtype(data));
    for (int64_t i = 0; i < n; i++) {
        if (rt_run_tick(r, i))
            return r->err->code;
        if (index_at(indices, i) < 0 || index_at(indices, i) >= data->dim[0])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Bad: indices[%lld] == %lld out of range [0, %lld)", (long long)i,
                           (long long)index_at(indices, i), (long long)data->dim[0]);
    }
    for (int64_t end; b.first < n; b.first = end) {
        const int64_t id = index_at(ids, b.first);
        for (end = b.first + 1; end < n && index_at(ids, end) == id;)
            end++;
        if (end < n && index_at(ids, end) < id)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "segment ids are not increasing");
        if (id < 0 || id >= rows)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Segment id %lld out of range [0, %lld), possibly because 'segment_ids' "
                           "input is not sorted.",
                           (long long)id, (long long)rows);
        if (kn_zero_chunks(r, out + (size_t)next * row_bytes, (size_t)(id - next) * row_bytes))
            return r->err->code;
        b.n = end - b.first;
        b.by = how == RT_EMBEDDING_BAG_SUM    ? 1
               : how == RT_EMBEDDING_BAG_MEAN ? (double)b.n
                                              : sqrt((double)b.n);
        if (!add(&b, out + (size_t)id * row_bytes))
            return r->err->code;
        next = id + 1;
    }
    return kn_zero_chunks(r, out + (size_t)next * row_bytes, (size_t)(rows - next) * row_bytes);
}

static enum rt_status sum_run(struct rt_run *r)
{
    return sparse_segment_run(r, RT_EMBEDDING_BAG_SUM);
}

static enum rt_status mean_run(struct rt_run *r)
{
    return sparse_segment_run(r, RT_EMBEDDING_BAG_MEAN);
}

static enum rt_status sqrt_n_run(struct rt_run *r)
{
    return sparse_segment_run(r, RT_EMBEDDING_BAG_SQRT_N);
}

#define FLOATS (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS))
#define SEGMENT(symbol, op_, types_, run_)                                                         \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = sparse_segment_infer},                                      \
        .kernels = KN_CPU(op_, #symbol, types_, NULL, run_),                                       \
    };
SEGMENT(sparse_segment_sum, "SparseSegmentSum", KN_SET(KN_REALS), sum_run)
SEGMENT(sparse_segment_mean, "SparseSegmentMean", FLOATS, mean_run)
SEGMENT(sparse_segment_sqrt_n, "SparseSegmentSqrtN", FLOATS, sqrt_n_run)
SEGMENT(sparse_segment_sum_with_num_segments, "SparseSegmentSumWithNumSegments", KN_SET(KN_REALS),
        sum_run)
SEGMENT(sparse_segment_mean_with_num_segments, "SparseSegmentMeanWithNumSegments", FLOATS, mean_run)
SEGMENT(sparse_segment_sqrt_n_with_num_segments, "SparseSegmentSqrtNWithNumSegments", FLOATS,
        sqrt_n_run)

/* ---- _EmbedBag(table, ids, segment ids) ---- */

static enum rt_status fail_at(struct rt_run *r, const char *node, const char *text)
{
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s\n\t [[{{node %.250s}}]]", text, node);
}

static int by_size(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? -1 : a > b;
}

static int64_t count_different(struct rt_run *r, const struct rt_tensor *ids, int64_t n)
{
    int64_t *v = rt_scratch(r, (size_t)n * sizeof *v + 1), different = 0;

    if (!v)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        v[i] = index_at(ids, i);
        if (rt_run_tick(r, i))
            return -1;
    }
    if (kn_sort(r, v, n, sizeof *v, by_size))
        return -1;
    for (int64_t i = 0; i < n; i++)
        different += i == 0 || v[i] != v[i - 1];
    return different;
}

static enum rt_status embedding_bag_run(struct rt_run *r)
{
    const struct rt_tensor *table = &r->in[RT_EMBEDDING_BAG_TABLE],
                           *ids = &r->in[RT_EMBEDDING_BAG_IDS];
    struct rt_embedding_bag op;
    char text[120];

    rt_embedding_bag_read(r->node, &op);
    if (ids->rank != 1)
        return fail_at(r, op.unique, "unique expects a 1D vector.");
    const int64_t outside = kn_first_outside(ids, table->dim[0]);
    if (outside < 0)
        return sparse_segment_run(r, (enum rt_embedding_bag_how)op.how);
    const int64_t place = count_different(r, ids, outside);
    if (place < 0)
        return r->err->code;
    snprintf(text, sizeof text, "indices[%lld] = %lld is not in [0, %lld)", (long long)place,
             (long long)index_at(ids, outside), (long long)table->dim[0]);
    return fail_at(r, op.gather, text);
}

const struct kn_entry kn_embedding_bag = {
    .op = {.name = "_EmbedBag",
           .infer = sparse_segment_infer,
           .internal_schema = &rt_embedding_bag_schema},
    .kernels = KN_CPU("_EmbedBag", "embed_bag", 0, NULL, embedding_bag_run),
};
