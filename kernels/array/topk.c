/* TopKV2, TopK and ApproxTopK find the largest elements of each row, and NthElement finds the n-th
 * smallest element. */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"

/* The cost of one heap sift-down, in units of rt_run_spend. A sift-down in a heap of millions of
 * elements takes up to 5 us, because most accesses miss the cache. */
enum { SINK = 1024, PART = 1024 /* number of elements between two calls of rt_run_spend */ };

/*
 * Writes the indices of the k largest of n values, in descending order of value. Equal values are
 * ordered by index. `heap` has k elements. Its root is the index of the last-ranked value among
 * them.
 */
#define SELECT_TOP(dt, T, ...)                                                                     \
    static bool before_##dt(const T *v, int64_t a, int64_t b)                                      \
    {                                                                                              \
        if (KN_GET(dt, v[a]) > KN_GET(dt, v[b]))                                                   \
            return true;                                                                           \
        return !(KN_GET(dt, v[b]) > KN_GET(dt, v[a])) && a < b;                                    \
    }                                                                                              \
    static void sink_##dt(const T *v, int64_t *heap, int64_t k, int64_t i)                         \
    {                                                                                              \
        for (;;) {                                                                                 \
            int64_t worst = i;                                                                     \
            for (int64_t c = 2 * i + 1; c <= 2 * i + 2 && c < k; c++)                              \
                if (before_##dt(v, heap[worst], heap[c]))                                          \
                    worst = c;                                                                     \
            if (worst == i)                                                                        \
                return;                                                                            \
            const int64_t x = heap[i];                                                             \
            heap[i] = heap[worst];                                                                 \
            heap[worst] = x;                                                                       \
            i = worst;                                                                             \
        }                                                                                          \
    }                                                                                              \
    static enum rt_status select_top_##dt(struct rt_run *r, int64_t *left, const void *row,        \
                                          int64_t n, int64_t k, int64_t *heap)                     \
    {                                                                                              \
        const T *v = row;                                                                          \
        for (int64_t i = 0; i < k; i++) {                                                          \
            heap[i] = i;                                                                           \
            if (rt_run_spend(r, left, 1))                                                          \
                return r->err->code;                                                               \
        }                                                                                          \
        for (int64_t i = k / 2; i-- > 0;) {                                                        \
            sink_##dt(v, heap, k, i);                                                              \
            if (rt_run_spend(r, left, SINK))                                                       \
                return r->err->code;                                                               \
        }                                                                                          \
        for (int64_t i = k, some; i < n && k > 0; i += some) {                                     \
            some = n - i < PART ? n - i : PART;                                                    \
            int64_t sinks = 0;                                                                     \
            for (int64_t j = i; j < i + some; j++) {                                               \
                if (!before_##dt(v, j, heap[0]))                                                   \
                    continue;                                                                      \
                heap[0] = j;                                                                       \
                sink_##dt(v, heap, k, 0);                                                          \
                sinks++;                                                                           \
            }                                                                                      \
            if (rt_run_spend(r, left, 2 * some + SINK * sinks))                                    \
                return r->err->code;                                                               \
        }                                                                                          \
        for (int64_t end = k - 1; end > 0; end--) { /* moves the last-ranked value to the end */   \
            const int64_t x = heap[0];                                                             \
            heap[0] = heap[end];                                                                   \
            heap[end] = x;                                                                         \
            sink_##dt(v, heap, end, 0);                                                            \
            if (rt_run_spend(r, left, SINK))                                                       \
                return r->err->code;                                                               \
        }                                                                                          \
        return RT_OK;                                                                              \
    }
KN_FOR_REALS(SELECT_TOP, 0)

typedef enum rt_status select_top_fn(struct rt_run *r, int64_t *left, const void *row, int64_t n,
                                     int64_t k, int64_t *heap);

static select_top_fn *select_top_of(enum rt_dtype dtype)
{
    switch (dtype) {
#define X(dt, T)                                                                                   \
    case dt:                                                                                       \
        return select_top_##dt;
        KN_REALS(X)
#undef X
    default:
        return NULL;
    }
}

static enum rt_status k_of(const struct rt_node *n, const struct rt_tensor *t, int64_t *k,
                           struct rt_error *err)
{
    if (!t) {
        *k = rt_attr_int(n, "k");
        return RT_OK;
    }
    *k = 0;
    if (t->rank != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "k must be scalar, got shape %s", KN_TEXT(t));
    *k = kn_int_at(t, 0);
    if (*k < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Need k >= 0, got %lld", (long long)*k);
    return RT_OK;
}

static enum rt_status top_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    int64_t k;

    if (!kn_known(x, x->n_in > 1 ? 2 : 0))
        return RT_OK;
    enum rt_status st = k_of(x->node, x->n_in > 1 ? x->in[1].value : NULL, &k, x->err);
    if (st)
        return st;
    if (in->rank < 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "input must be >= 1-D, got shape %s",
                       KN_TEXT(in));
    if (in->dim[in->rank - 1] < k)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "input must have at least k columns. Had %lld, needed %lld",
                       (long long)in->dim[in->rank - 1], (long long)k);
    x->out[0].shape = *in;
    x->out[0].shape.dim[in->rank - 1] = k;
    x->out[1].shape = x->out[0].shape;
    return RT_OK;
}

static enum rt_status top_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const enum rt_dtype dt = kn_dtype(t);
    const size_t size = rt_dtype_size(dt);
    select_top_fn *select_top = select_top_of(dt);
    enum rt_status st = kn_outputs(r, top_infer);

    if (st)
        return st;
    if (!select_top)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "%s: no kernel for %s", r->node->schema->name,
                       rt_dtype_name(dt));
    const int64_t n = t->dim[t->rank - 1], k = r->out[0].dim[t->rank - 1];
    const int64_t rows = k ? rt_tensor_count(&r->out[0]) / k : 0;
    int64_t *heap = rt_scratch(r, (size_t)k * sizeof *heap + 1), left = RT_WORK;
    if (!heap)
        return r->err->code;
    for (int64_t i = 0; i < rows; i++) {
        const char *row = kn_at(t, i * n);
        if ((st = select_top(r, &left, row, n, k, heap)))
            return st;
        for (int64_t j = 0; j < k; j++) {
            if (rt_run_spend(r, &left, 16))
                return r->err->code;
            memcpy(kn_at_mut(&r->out[0], i * k + j), row + (size_t)heap[j] * size, size);
            kn_put_int(&r->out[1], i * k + j, heap[j]);
        }
    }
    return RT_OK;
}

/* Marks the op as row-wise unless the batch axis is the last axis, along which the op selects. */
static void top_rows(struct rt_rows *r)
{
    if (kn_rows_independent(r) || r->in_dep[0].kind != RT_DEP_ROWS || !kn_rows_free(r, 1))
        return;
    if (r->in_dep[0].axis < r->in[0].shape.rank - 1)
        kn_rows_set(r, RT_DEP_ROWS, r->in_dep[0].axis);
}

const struct kn_entry kn_top_k_v2 = {
    .op = {.name = "TopKV2", .shape_in = 2, .infer = top_infer, .rows = top_rows},
    .kernels = KN_CPU("TopKV2", "top_k_v2", KN_SET(KN_REALS), NULL, top_run),
};
const struct kn_entry kn_top_k = {
    .op = {.name = "TopK", .infer = top_infer, .rows = top_rows},
    .kernels = KN_CPU("TopK", "top_k", KN_SET(KN_REALS), NULL, top_run),
};

/* On a CPU, TensorFlow has only this form of ApproxTopK, which is exact. */
static bool approx_takes(const struct rt_node *n)
{
    return rt_attr_bool(n, "is_max_k") && rt_attr_int(n, "reduction_dimension") == -1;
}

const struct kn_entry kn_approx_top_k = {
    .op = {.name = "ApproxTopK", .infer = top_infer, .rows = top_rows},
    .kernels = KN_KERNELS({.op = "ApproxTopK",
                           .device = "CPU",
                           .name = "approx_top_k",
                           .takes = approx_takes,
                           .run = top_run}),
};

/* ---- NthElement(input, n) ---- */

static enum rt_status nth_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;

    if (!kn_known(x, 2))
        return RT_OK;
    const struct rt_tensor *t = x->in[1].value;
    if (t->rank != 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "N must be scalar but has rank %d", t->rank);
    const int64_t n = kn_int_at(t, 0);
    if (n < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "n must be non-negative but is %lld",
                       (long long)n);
    if (in->rank < 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input must be at least rank 1 but is rank %d",
                       in->rank);
    if (in->dim[in->rank - 1] <= n)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Input must have last dimension > n = %lld",
                       (long long)n);
    x->out[0].shape = *in;
    x->out[0].shape.rank--;
    return RT_OK;
}

static enum rt_status nth_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const enum rt_dtype dt = kn_dtype(t);
    select_top_fn *select_top = select_top_of(dt);
    enum rt_status st = kn_outputs(r, nth_infer);

    if (st)
        return st;
    if (!select_top)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "NthElement: no kernel for %s", rt_dtype_name(dt));
    const int64_t n = t->dim[t->rank - 1], at = kn_int_at(&r->in[1], 0);
    const int64_t k = rt_attr_bool(r->node, "reverse") ? at + 1 : n - at;
    int64_t *heap = rt_scratch(r, (size_t)k * sizeof *heap + 1), left = RT_WORK;
    if (!heap)
        return r->err->code;
    for (int64_t i = 0; i < rt_tensor_count(&r->out[0]); i++) {
        const char *row = kn_at(t, i * n);
        if ((st = select_top(r, &left, row, n, k, heap)))
            return st;
        memcpy(kn_at_mut(&r->out[0], i), row + (size_t)heap[k - 1] * rt_dtype_size(dt),
               rt_dtype_size(dt));
    }
    return RT_OK;
}

const struct kn_entry kn_nth_element = {
    .op = {.name = "NthElement", .shape_in = 2, .infer = nth_infer, .rows = top_rows},
    .kernels = KN_CPU("NthElement", "nth_element", KN_SET(KN_REALS), NULL, nth_run),
};
