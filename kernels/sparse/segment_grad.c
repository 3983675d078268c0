/*
 * The gradients of embedding bags: SparseSegmentSumGrad, SparseSegmentMeanGrad and
 * SparseSegmentSqrtNGrad. Row segment_ids[i] of `grad` is added to row indices[i] of the result.
 * The ops whose names end in V2 return only the rows to which something is added, and a list of
 * these rows.
 */
#include "kernels/array/array.h"
#include "kernels/array/sort.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"

#include <math.h>

enum how { SUM, MEAN, SQRT_N };

/* number of columns that are processed between two calls of rt_run_spend */
enum { COLUMNS = 1 << 14 };

/* Adds n elements of a row of `grad` to a row of sums. If `is_first` is set, copies them instead.
 * As in TensorFlow, half-precision elements are summed as float. */
#define ADD(dt, T)                                                                                 \
    static void add_##dt(KN_C(dt) * dst, const T *src, int64_t n, double by, bool is_first)        \
    {                                                                                              \
        const KN_C(dt) scale = (KN_C(dt))by;                                                       \
        for (int64_t j = 0; j < n; j++) {                                                          \
            const KN_C(dt) v = KN_GET(dt, src[j]) * scale;                                         \
            dst[j] = is_first ? v : dst[j] + v;                                                    \
        }                                                                                          \
    }
KN_FLOATS(ADD)
KN_HALFS(ADD)

static void add(enum rt_dtype dtype, void *dst, const void *src, int64_t n, double by,
                bool is_first)
{
    switch (dtype) {
#define CASE(dt, T)                                                                                \
    case dt:                                                                                       \
        add_##dt(dst, src, n, by, is_first);                                                       \
        break;
        KN_FLOATS(CASE)
        KN_HALFS(CASE)
#undef CASE
    default:
        break;
    }
}

static enum rt_status round_sums(struct rt_run *r, enum rt_dtype dtype, void *out,
                                 const float *sums, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (dtype == RT_F16)
            ((struct kn_half *)out)[i] = kn_to_f16(sums[i]);
        else
            ((struct kn_bfloat *)out)[i] = kn_to_bf16(sums[i]);
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status segment_grad_infer(struct rt_infer *x)
{
    const struct rt_shape *grad = &x->in[0].shape;

    if (grad->rank > 0) {
        x->out[0].shape = *grad;
        x->out[0].shape.dim[0] = -1;
    }
    if (x->n_out > 1) {
        x->out[1].shape.rank = 1;
        x->out[1].shape.dim[0] = -1;
    }
    return RT_OK;
}

/* Returns the number of rows of the dense result, or -1 with the reason in r->err. */
static int64_t check_inputs(struct rt_run *r)
{
    const struct rt_tensor *grad = &r->in[0], *indices = &r->in[1], *ids = &r->in[2];
    const struct rt_tensor *dim0 = &r->in[3];

    if (indices->rank != 1)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "indices should be a vector.");
    else if (ids->rank != 1)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "segment_ids should be a vector.");
    else if (dim0->rank != 0)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "%soutput_dim0 should be a scalar.",
                r->n_out > 1 ? "dense_" : "");
    else if (ids->dim[0] != indices->dim[0])
        rt_fail(r->err, RT_INVALID_ARGUMENT, "segment_ids and indices should have same size.");
    else if (grad->rank == 0)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "Index must be less than 0, got 0");
    else if (kn_int_at(dim0, 0) < 0)
        rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected a non-negative size, got %lld",
                (long long)kn_int_at(dim0, 0));
    else
        return kn_int_at(dim0, 0);
    return -1;
}

static enum rt_status check_id(struct rt_run *r, int64_t i)
{
    const int64_t id = kn_int_at(&r->in[2], i);

    if (id < 0 || id >= r->in[0].dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Segment id %lld out of range [0, %lld).",
                       (long long)id, (long long)r->in[0].dim[0]);
    return RT_OK;
}

/* Checks all indices and segment ids. As in TensorFlow, an op that computes a dense mean checks all
 * segment ids before the first index. */
static enum rt_status check_elements(struct rt_run *r, enum how how, int64_t rows)
{
    const int64_t n = r->in[1].dim[0];
    enum rt_status st = RT_OK;

    if (n && kn_int_at(&r->in[2], n - 1) >= r->in[0].dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid number of segments");
    for (int64_t i = 0; i < n && how != SUM && r->n_out == 1 && !st; i++) {
        st = check_id(r, i);
        st = st ? st : rt_run_tick(r, i);
    }
    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t to = kn_int_at(&r->in[1], i);
        if (to < 0 || to >= rows)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Index %lld out of range [0, %lld).",
                           (long long)to, (long long)rows);
        st = check_id(r, i);
        st = st ? st : rt_run_tick(r, i);
    }
    return st;
}

static int by_size(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? -1 : a > b;
}

/* Writes the distinct indices in ascending order to output 1 and to `list`. Returns their number,
 * or -1 with the reason in r->err. */
static int64_t list_rows(struct rt_run *r, int64_t n, int64_t *list)
{
    int64_t different = 0;

    for (int64_t i = 0; i < n; i++) {
        list[i] = kn_int_at(&r->in[1], i);
        if (rt_run_tick(r, i))
            return -1;
    }
    if (kn_sort(r, list, n, sizeof *list, by_size))
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || list[i] != list[different - 1])
            list[different++] = list[i];
    void *out = rt_out(r, 1, 1, &different);
    for (int64_t i = 0; i < different && out; i++) {
        if (kn_dtype(&r->in[1]) == RT_I32)
            ((int32_t *)out)[i] = (int32_t)list[i];
        else
            ((int64_t *)out)[i] = list[i];
        if (rt_run_tick(r, i))
            return -1;
    }
    return out ? different : -1;
}

/* Returns the position of a number in a sorted list that contains it. */
static int64_t position(const int64_t *list, int64_t n, int64_t value)
{
    int64_t low = 0;

    for (int64_t high = n - 1; low < high;) {
        const int64_t middle = low + (high - low) / 2;
        if (list[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct sums {
    enum how how;
    int64_t rows, width;
    int64_t *list;   /* the rows of the result in ascending order; NULL if all rows are present */
    int64_t *length; /* the number of indices in each segment */
    bool *is_set;    /* whether a row was added to this row of the result */
};

/* Sets the arrays of `s` to zeroed parts of scratch memory. `n` is the number of indices. */
static enum rt_status take_scratch(struct rt_run *r, struct sums *s, int64_t n)
{
    const int64_t segments = n && s->width ? r->in[0].dim[0] : 0;
    const int64_t listed = r->n_out > 1 ? n : 0;
    const int64_t flags = segments == 0 ? 0 : r->n_out > 1 ? n : s->rows;
    const size_t bytes = (size_t)(segments + listed) * sizeof(int64_t) + (size_t)flags;

    s->length = rt_scratch(r, bytes + 1);
    if (!s->length || kn_zero_chunks(r, s->length, bytes))
        return r->err->code;
    s->list = r->n_out > 1 ? s->length + segments : NULL;
    s->is_set = (bool *)(s->length + segments + listed);
    return RT_OK;
}

static enum rt_status add_rows(struct rt_run *r, const struct sums *s, char *out)
{
    const struct rt_tensor *grad = &r->in[0];
    const int64_t n = r->in[1].dim[0], width = s->width;
    const enum rt_dtype dtype = kn_dtype(grad);
    const size_t size = rt_dtype_size(dtype), wide = size < sizeof(float) ? sizeof(float) : size;
    int64_t left = RT_WORK;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i++) {
        s->length[kn_int_at(&r->in[2], i)]++;
        st = rt_run_tick(r, i);
    }
    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t id = kn_int_at(&r->in[2], i), index = kn_int_at(&r->in[1], i);
        const int64_t to = s->list ? position(s->list, s->rows, index) : index;
        const double count = (double)s->length[id];
        const double by = s->how == SUM ? 1 : s->how == MEAN ? 1 / count : 1 / sqrt(count);
        for (int64_t j = 0; j < width && !st; j += COLUMNS) {
            const int64_t m = width - j < COLUMNS ? width - j : COLUMNS;
            add(dtype, out + (size_t)(to * width + j) * wide,
                (const char *)grad->data + (size_t)(id * width + j) * size, m, by, !s->is_set[to]);
            st = rt_run_spend(r, &left, m + 64);
        }
        s->is_set[to] = true;
    }
    return st;
}

static enum rt_status segment_grad_run(struct rt_run *r, enum how how)
{
    const struct rt_tensor *grad = &r->in[0];
    struct sums s = {.how = how, .rows = check_inputs(r)};
    int64_t dim[RT_MAX_RANK];

    if (s.rows < 0)
        return r->err->code;
    const int64_t n = s.rows ? r->in[1].dim[0] : 0;
    s.width = rt_count(grad->rank - 1, grad->dim + 1);
    if ((n && check_elements(r, how, s.rows)) || take_scratch(r, &s, n))
        return r->err->code;
    if (s.list)
        s.rows = list_rows(r, n, s.list);
    if (s.rows < 0)
        return r->err->code;
    memcpy(dim, grad->dim, sizeof dim);
    dim[0] = s.rows;
    const size_t size = rt_dtype_size(kn_dtype(grad));
    char *out = rt_out(r, 0, grad->rank, dim);
    const int64_t total = out ? s.rows * s.width : 0;
    if (!out || kn_zero_chunks(r, out, (size_t)total * size))
        return r->err->code;
    if (!n || !s.width)
        return RT_OK;
    if (size == sizeof(float) || size == sizeof(double))
        return add_rows(r, &s, out);
    float *sums = rt_run_alloc(r, (size_t)total * sizeof *sums);
    enum rt_status st = sums ? add_rows(r, &s, (char *)sums) : r->err->code;
    st = st ? st : round_sums(r, kn_dtype(grad), out, sums, total);
    rt_pool_free(sums);
    return st;
}

#define TYPES (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS))
#define SEGMENT_GRAD(symbol, op_, how_)                                                            \
    static enum rt_status symbol##_run(struct rt_run *r)                                           \
    {                                                                                              \
        return segment_grad_run(r, how_);                                                          \
    }                                                                                              \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = segment_grad_infer},                                        \
        .kernels = KN_CPU(op_, #symbol, TYPES, NULL, symbol##_run),                                \
    };                                                                                             \
    const struct kn_entry kn_##symbol##_v2 = {                                                     \
        .op = {.name = op_ "V2", .infer = segment_grad_infer},                                     \
        .kernels = KN_CPU(op_ "V2", #symbol "_v2", TYPES, NULL, symbol##_run),                     \
    };
SEGMENT_GRAD(sparse_segment_mean_grad, "SparseSegmentMeanGrad", MEAN)
SEGMENT_GRAD(sparse_segment_sqrt_n_grad, "SparseSegmentSqrtNGrad", SQRT_N)
SEGMENT_GRAD(sparse_segment_sum_grad, "SparseSegmentSumGrad", SUM)
