/*
 * FractionalMaxPool, FractionalAvgPool and their gradients (Graham: "Fractional max-pooling",
 * 2014). The rows and columns of the windows come from random sequences: window i of an axis covers
 * the positions from sequence[i] up to sequence[i + 1], which belongs to the window only if windows
 * overlap.
 */
#include <float.h>
#include <stdio.h>

#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/random/source.h"
#include "runtime/base/checked.h"

enum { RANK = 4, PIXEL_WORK = 4 };
enum { MAXIMUM, AVERAGE };

#define TYPES(M, ...) KN_FOR_WIDE(M, __VA_ARGS__) KN_FOR_I32_I64(M, __VA_ARGS__)
#define NUMBERS       (RT_T(RT_F32) | RT_T(RT_F64) | RT_T(RT_I32) | RT_T(RT_I64))

/* The windows of an axis with n positions. */
struct axis {
    const int64_t *sequence;
    int64_t n, n_windows;
    bool overlaps;
};

/* Sets the range of positions that window i covers. The sequence must not be negative. */
static void axis_window(const struct axis *a, int64_t i, int64_t *from, int64_t *to)
{
    const int64_t last = a->sequence[i + 1] - (a->overlaps ? 0 : 1);

    *from = a->sequence[i];
    *to = (last < a->n - 1 ? last : a->n - 1) + 1;
}

struct range {
    int64_t row, end_row, column, end_column;
};
static struct range window(const struct axis axis[2], int64_t row, int64_t column)
{
    struct range w;

    axis_window(&axis[0], row, &w.row, &w.end_row);
    axis_window(&axis[1], column, &w.column, &w.end_column);
    return w;
}

/* ---- random sequences ---- */

/* Makes the sequence of an axis, whose windows have two different lengths in random order. */
static void random_sequence(struct kn_philox *p, int64_t n, int64_t n_windows, int64_t *out)
{
    struct kn_singles s = {.philox = *p};
    int64_t *length = out + 1;

    kn_philox_skip(p, (uint64_t)(n_windows + 3) / 4);
    for (int64_t i = 0; i < n_windows; i++)
        length[i] = n / n_windows + (i < n % n_windows);
    for (int64_t i = 0; i < n_windows - 1; i++) {
        const int64_t k = i + (int64_t)(kn_next_bits(&s) % (uint32_t)(n_windows - i));
        const int64_t v = length[i];
        length[i] = length[k];
        length[k] = v;
    }
    out[0] = 0;
    for (int64_t i = 0; i < n_windows; i++)
        out[i + 1] += out[i];
}

/* Makes the sequence ceil(alpha * (i + u)) - 1 with one random number u. The limit of u keeps the
 * lengths of the first and the last window within the lengths of the others. */
static void pseudo_random_sequence(struct kn_philox *p, int64_t n, int64_t n_windows, int64_t *out)
{
    struct kn_singles s = {.philox = *p};
    const double alpha = (double)n / (double)n_windows;
    const int64_t k = n / n_windows;
    const double first = (double)(k + 2) / alpha - 1;
    const double last = (double)(n + 1 - k) / alpha - (double)(n_windows - 1);
    const double u = kn_single_double(&s) * (last < first ? last : first);

    kn_philox_skip(p, 1);
    out[0] = 0;
    out[n_windows] = n;
    for (int64_t i = 1; i < n_windows; i++)
        out[i] = (int64_t)ceil(alpha * ((double)i + u)) - 1;
}

/* As in TensorFlow, an axis that is divided evenly takes its part of the generator's numbers too.
 */
static void make_sequence(struct kn_philox *p, bool is_pseudo_random, const struct axis *a,
                          int64_t *out)
{
    if (is_pseudo_random)
        pseudo_random_sequence(p, a->n, a->n_windows, out);
    else
        random_sequence(p, a->n, a->n_windows, out);
    if (a->n % a->n_windows == 0)
        for (int64_t i = 0; i <= a->n_windows; i++)
            out[i] = i * (a->n / a->n_windows);
}

/* Sets *out to the generator of this run. As in TensorFlow, a deterministic node draws the same
 * numbers in every run, even if its seeds are random. */
static enum rt_status take_generator(struct rt_run *r, struct kn_philox *out)
{
    if (rt_attr_bool(r->node, "deterministic"))
        return kn_source_take(r, KN_FROM_NODE, 0, out);
    const uint64_t seed[2] = {rt_run_entropy(r), rt_run_entropy(r)};
    *out = (struct kn_philox){.counter = {0}};
    memcpy(out->key, &seed[0], sizeof seed[0]);
    memcpy(out->counter + 2, &seed[1], sizeof seed[1]);
    return RT_OK;
}

/* ---- pooling ---- */

static enum rt_status check_attributes(const struct rt_node *n, struct rt_error *err)
{
    const struct rt_attr *ratio = rt_attr(n, "pooling_ratio");
    const float *v = ratio->v.floats;

    if (ratio->n != RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT, "pooling_ratio field must specify 4 dimensions");
    for (int d = 0; d < RANK; d++)
        if (!(v[d] >= 1))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "pooling_ratio cannot be smaller than 1, got: %g", (double)v[d]);
    if (v[0] != 1 || v[RANK - 1] != 1)
        return rt_fail(err, RT_UNIMPLEMENTED,
                       "Fractional %s pooling is not yet supported on the batch nor channel "
                       "dimension.",
                       strcmp(n->schema->name, "FractionalMaxPool") ? "average" : "max");
    if (!rt_attr_bool(n, "deterministic") && (rt_attr_int(n, "seed") || rt_attr_int(n, "seed2")))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Both seed and seed2 should be 0 if deterministic is false.");
    return RT_OK;
}

static enum rt_status pool_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape;
    const float *ratio = rt_attr(x->node, "pooling_ratio")->v.floats;
    struct rt_shape out = {.rank = RANK};
    const enum rt_status st = check_attributes(x->node, x->err);

    if (st)
        return st;
    if (in->rank >= 0 && in->rank != RANK)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "tensor_in must be 4-dimensional");
    for (int d = 0; d < RANK; d++) {
        const int64_t n = in->rank < 0 ? -1 : in->dim[d];
        if (n >= 0 && !((float)n >= ratio[d]))
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Pooling ratio is higher than input dimension size for dimension %d. "
                           "Input dim size: %lld pooling ratio: %g",
                           d, (long long)n, (double)ratio[d]);
        if (n > INT32_MAX)
            return rt_fail(x->err, RT_UNIMPLEMENTED, "%s of %lld positions", x->node->schema->name,
                           (long long)n);
        out.dim[d] = n < 0 ? -1 : (int64_t)floorf((float)n / ratio[d]);
    }
    x->out[0].shape = out;
    for (int k = 1; k < 3; k++)
        kn_set_vector(&x->out[k], out.dim[k] < 0 ? -1 : out.dim[k] + 1);
    return RT_OK;
}

#define LOWEST_RT_F32 (-FLT_MAX)
#define LOWEST_RT_F64 (-DBL_MAX)
#define LOWEST_RT_I32 INT32_MIN
#define LOWEST_RT_I64 INT64_MIN

/* As in TensorFlow, a maximum is at least the smallest finite number, and ignores NaN. */
#define POOL(dt, T, X)                                                                             \
    static void max_##dt(void *dst, const void *src, int64_t n)                                    \
    {                                                                                              \
        T *y = dst;                                                                                \
        const T *x = src;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = y[i] < x[i] ? x[i] : y[i];                                                      \
    }                                                                                              \
    static void sum_##dt(void *dst, const void *src, int64_t n)                                    \
    {                                                                                              \
        T *y = dst;                                                                                \
        const T *x = src;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = (T)((KN_U(dt))y[i] + (KN_U(dt))x[i]);                                           \
    }                                                                                              \
    static void fill_##dt(void *dst, int how, int64_t n)                                           \
    {                                                                                              \
        T *y = dst;                                                                                \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = how == MAXIMUM ? LOWEST_##dt : 0;                                               \
    }                                                                                              \
    static void divide_##dt(void *dst, int64_t by, int64_t n)                                      \
    {                                                                                              \
        T *y = dst;                                                                                \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] /= (T)by;                                                                         \
    }
TYPES(POOL, )

typedef void pixel_fn(void *dst, const void *src, int64_t n);
struct pool_fns {
    pixel_fn *add[2]; /* adds a pixel to a maximum or a sum */
    void (*fill)(void *dst, int how, int64_t n);
    void (*divide)(void *dst, int64_t by, int64_t n);
};
#define POOL_ROW(dt, T, X) [dt] = {{max_##dt, sum_##dt}, fill_##dt, divide_##dt},
static const struct pool_fns pool_fns[RT_N_DTYPES] = {TYPES(POOL_ROW, )};

/* Pools one window of all channels of an image into y. */
static enum rt_status pool_window(struct rt_run *r, const struct axis axis[2], struct range w,
                                  const char *image, int64_t channels, void *y, int how)
{
    const enum rt_dtype dtype = kn_dtype(&r->in[0]);
    const struct pool_fns *f = &pool_fns[dtype];
    const int64_t pixel = channels * (int64_t)rt_dtype_size(dtype);

    f->fill(y, how, channels);
    for (int64_t i = w.row; i < w.end_row; i++)
        for (int64_t j = w.column; j < w.end_column; j++) {
            f->add[how](y, image + (i * axis[1].n + j) * pixel, channels);
            if (rt_run_spend(r, &r->left, PIXEL_WORK + channels))
                return r->err->code;
        }
    const int64_t n = (w.end_row - w.row) * (w.end_column - w.column);
    if (how == AVERAGE && n > 0)
        f->divide(y, n, channels);
    return RT_OK;
}

static enum rt_status pool(struct rt_run *r, int how)
{
    const struct rt_tensor *x = &r->in[0];
    const bool overlaps = rt_attr_bool(r->node, "overlapping");
    const bool is_pseudo_random = rt_attr_bool(r->node, "pseudo_random");
    struct kn_philox p;
    enum rt_status st = kn_outputs(r, pool_infer);

    if (!st)
        st = take_generator(r, &p);
    if (st)
        return st;
    struct rt_tensor *y = &r->out[0];
    int64_t *sequence[2] = {r->out[1].data, r->out[2].data};
    const struct axis axis[2] = {{sequence[0], x->dim[1], y->dim[1], overlaps},
                                 {sequence[1], x->dim[2], y->dim[2], overlaps}};
    const int64_t channels = x->dim[3];
    int64_t at = 0;
    for (int k = 0; k < 2; k++)
        make_sequence(&p, is_pseudo_random, &axis[k], sequence[k]);
    for (int64_t b = 0; b < y->dim[0] && !st; b++)
        for (int64_t i = 0; i < y->dim[1] && !st; i++)
            for (int64_t j = 0; j < y->dim[2] && !st; j++, at += channels)
                st = pool_window(r, axis, window(axis, i, j),
                                 kn_at(x, b * axis[0].n * axis[1].n * channels), channels,
                                 kn_at_mut(y, at), how);
    return st;
}

static enum rt_status max_run(struct rt_run *r)
{
    return pool(r, MAXIMUM);
}

static enum rt_status average_run(struct rt_run *r)
{
    return pool(r, AVERAGE);
}

/* ---- gradient of the maximum ---- */

static enum rt_status max_grad_infer(struct rt_infer *x)
{
    x->out[0].shape = x->in[0].shape;
    return RT_OK;
}

static enum rt_status check_image(struct rt_run *r, int input, const char *name)
{
    const struct rt_tensor *t = &r->in[input];

    if (t->rank != RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s should be a tensor of rank 4, got shape %s",
                       name, KN_TEXT(t));
    if (rt_tensor_count(t) == 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "%s must not be empty, got Tensor<type: %s shape: %s values: >", name,
                       rt_dtype_name(kn_dtype(t)), KN_TEXT(t));
    return RT_OK;
}

static enum rt_status fail_different(struct rt_run *r)
{
    return rt_fail(r->err, RT_INVALID_ARGUMENT, "tensor_out_dup is not the same as tensor_out");
}

/* Formats a sequence for error messages as TensorFlow does: the numbers have equal widths. */
static const char *sequence_text(char *buf, size_t size, const struct rt_tensor *t)
{
    const int64_t n = rt_tensor_count(t), *v = t->data;
    int width = 0;
    size_t at = 0;

    for (int64_t i = 0; i < n; i++) {
        const int len = snprintf(NULL, 0, "%lld", (long long)v[i]);
        width = len > width ? len : width;
    }
    buf[0] = 0;
    for (int64_t i = 0; i < n && at < size; i++)
        at +=
            (size_t)snprintf(buf + at, size - at, "%s%*lld", i ? " " : "", width, (long long)v[i]);
    return buf;
}

static enum rt_status fail_negative(struct rt_run *r, const char *axis, const struct rt_tensor *t)
{
    char text[KN_SHAPE_TEXT];

    return rt_fail(r->err, RT_INVALID_ARGUMENT,
                   "%s sequence tensor values must not be negative, got %s", axis,
                   sequence_text(text, sizeof text, t));
}

/* Checks a sequence with which the output of a maximum pooling is computed again. TensorFlow reads
 * and writes beyond its tensors if a sequence is negative or has too many windows. */
static enum rt_status check_sequence(struct rt_run *r, int input, const char *name,
                                     const char *axis, int64_t n_windows)
{
    const struct rt_tensor *t = &r->in[input];
    const int64_t *v = t->data;

    if (t->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s must be a vector, received shape %s", name,
                       KN_TEXT(t));
    if (t->dim[0] != n_windows + 1)
        return fail_different(r);
    for (int64_t i = 0; i <= n_windows; i++)
        if (v[i] < 0)
            return fail_negative(r, axis, t);
    return RT_OK;
}

/* `best` receives the positions of the maxima of a window: the first element, or the last one that
 * is greater than all elements before it. `most` receives the maxima. */
#define MAX_GRAD(dt, T, X)                                                                         \
    static void first_##dt(void *most, int64_t *best, const void *image, int64_t at, int64_t n)    \
    {                                                                                              \
        T *m = most;                                                                               \
        const T *x = image;                                                                        \
        for (int64_t i = 0; i < n; i++)                                                            \
            if (best[i] < 0 || m[i] < x[at + i]) {                                                 \
                m[i] = x[at + i];                                                                  \
                best[i] = at + i;                                                                  \
            }                                                                                      \
    }                                                                                              \
    static bool same_##dt(const void *a, const void *b, int64_t n)                                 \
    {                                                                                              \
        const T *x = a, *y = b;                                                                    \
        bool same = true;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            same &= x[i] == y[i];                                                                  \
        return same;                                                                               \
    }                                                                                              \
    static enum rt_status scatter_##dt(struct rt_run *r, const int64_t *best)                      \
    {                                                                                              \
        T *d = r->out[0].data;                                                                     \
        const T *g = r->in[2].data;                                                                \
        const int64_t n = rt_tensor_count(&r->in[2]);                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            d[best[i]] = (T)((KN_U(dt))d[best[i]] + (KN_U(dt))g[i]);                               \
            if (rt_run_spend(r, &r->left, PIXEL_WORK))                                             \
                return r->err->code;                                                               \
        }                                                                                          \
        return RT_OK;                                                                              \
    }
TYPES(MAX_GRAD, )

struct max_grad_fns {
    void (*first)(void *most, int64_t *best, const void *image, int64_t at, int64_t n);
    bool (*same)(const void *a, const void *b, int64_t n);
    enum rt_status (*scatter)(struct rt_run *r, const int64_t *best);
};
#define MAX_GRAD_ROW(dt, T, X) [dt] = {first_##dt, same_##dt, scatter_##dt},
static const struct max_grad_fns max_grad_fns[RT_N_DTYPES] = {TYPES(MAX_GRAD_ROW, )};

/* Finds the maxima of one window and compares them with the output of the pooling. */
static enum rt_status find_window(struct rt_run *r, const struct axis axis[2], struct range w,
                                  int64_t image, int64_t at, void *most, int64_t *best)
{
    const struct rt_tensor *x = &r->in[0];
    const struct max_grad_fns *f = &max_grad_fns[kn_dtype(x)];
    const int64_t channels = x->dim[3];

    for (int64_t c = 0; c < channels; c++)
        best[at + c] = -1;
    for (int64_t i = w.row; i < w.end_row; i++)
        for (int64_t j = w.column; j < w.end_column; j++) {
            const int64_t pixel = (image * axis[0].n + i) * axis[1].n + j;
            f->first(most, best + at, x->data, pixel * channels, channels);
            if (rt_run_spend(r, &r->left, PIXEL_WORK + channels))
                return r->err->code;
        }
    if (w.row >= w.end_row || w.column >= w.end_column ||
        !f->same(most, kn_at(&r->in[1], at), channels))
        return fail_different(r);
    return rt_run_spend(r, &r->left, PIXEL_WORK + channels);
}

static enum rt_status max_grad(struct rt_run *r, const struct axis axis[2])
{
    const struct rt_tensor *x = &r->in[0], *y = &r->in[1];
    const int64_t n = rt_tensor_count(y), channels = x->dim[3];
    enum rt_status st = RT_OK;
    size_t bytes, most;
    int64_t at = 0;

    if (!rt_mul_size((size_t)n, sizeof(int64_t), &bytes) ||
        !rt_mul_size((size_t)channels, sizeof(double), &most) || !rt_add_size(bytes, most, &bytes))
        return rt_fail_memory(r->err, r->node->name, 0);
    int64_t *best = rt_scratch(r, bytes);
    if (!best || !kn_out(r, 0, RANK, x->dim))
        return r->err->code;
    for (int64_t b = 0; b < y->dim[0] && !st; b++)
        for (int64_t i = 0; i < y->dim[1] && !st; i++)
            for (int64_t j = 0; j < y->dim[2] && !st; j++, at += channels)
                st = find_window(r, axis, window(axis, i, j), b, at, best + n, best);
    if (!st)
        st = kn_zero_chunks(r, r->out[0].data,
                            (size_t)rt_tensor_count(x) * rt_dtype_size(kn_dtype(x)));
    return st ? st : max_grad_fns[kn_dtype(x)].scatter(r, best);
}

static enum rt_status max_grad_run(struct rt_run *r)
{
    const struct rt_tensor *x = &r->in[0], *y = &r->in[1];
    const bool overlaps = rt_attr_bool(r->node, "overlapping");
    enum rt_status st = check_image(r, 0, "orig_input");

    if (!st)
        st = check_image(r, 1, "orig_output");
    if (!st)
        st = check_sequence(r, 3, "row_pooling_sequence", "Row", y->dim[1]);
    if (!st)
        st = check_sequence(r, 4, "col_pooling_sequence", "Column", y->dim[2]);
    if (st)
        return st;
    if (y->dim[0] != x->dim[0] || y->dim[3] != x->dim[3])
        return fail_different(r);
    /* As in TensorFlow, the gradient may have any shape with at most as many elements. */
    if (rt_tensor_count(&r->in[2]) > rt_tensor_count(y))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Invalid input backprop index: %lld, %lld",
                       (long long)rt_tensor_count(y), (long long)rt_tensor_count(x));
    const struct axis axis[2] = {{r->in[3].data, x->dim[1], y->dim[1], overlaps},
                                 {r->in[4].data, x->dim[2], y->dim[2], overlaps}};
    return max_grad(r, axis);
}

/* ---- gradient of the average ---- */

static enum rt_status read_shape(const struct rt_tensor *t, struct rt_shape *out,
                                 struct rt_error *err)
{
    if (t->rank != 1 || t->dim[0] != RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "original input tensor shape must be1-dimensional and 4 elements");
    out->rank = RANK;
    for (int d = 0; d < RANK; d++)
        out->dim[d] = kn_int_at(t, d);
    return RT_OK;
}

static enum rt_status average_grad_infer(struct rt_infer *x)
{
    struct rt_shape s = {.rank = RANK, .dim = {-1, -1, -1, -1}};

    if (x->in[0].value) {
        const enum rt_status st = read_shape(x->in[0].value, &s, x->err);
        if (st)
            return st;
        for (int d = 0; d < RANK; d++)
            if (s.dim[d] < 0)
                return rt_fail(x->err, RT_INVALID_ARGUMENT,
                               "Expected a non-negative size, got %lld", (long long)s.dim[d]);
    }
    x->out[0].shape = s;
    return RT_OK;
}

static enum rt_status check_average_grad(struct rt_run *r, const struct rt_shape *in)
{
    static const char *const names[2] = {"row", "col"}, *const axes[2] = {"Rows", "Columns"};
    const struct rt_tensor *g = &r->in[1];

    if (g->rank != RANK)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "out_backprop must be 4-dimensional");
    for (int d = 0; d < RANK; d++)
        if (g->dim[d] == 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "out_backprop must be positive for all dimension, got:0");
    for (int k = 0; k < 2; k++)
        if (rt_tensor_count(&r->in[2 + k]) <= g->dim[1 + k])
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "Given out_backprop shape %s, %s_seq_tensor must have at least %lld "
                           "elements, but got %lld",
                           KN_TEXT(g), names[k], (long long)g->dim[1 + k] + 1,
                           (long long)rt_tensor_count(&r->in[2 + k]));
    for (int d = 0; d < RANK; d++)
        if (in->dim[d] < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected a non-negative size, got %lld",
                           (long long)in->dim[d]);
    for (int k = 0; k < 2; k++)
        if (in->dim[1 + k] == 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%s dimension of input must not be 0",
                           axes[k]);
    /* TensorFlow writes beyond the gradient of the input. */
    if (g->dim[0] > in->dim[0] || g->dim[3] > in->dim[3])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "out_backprop of shape %s has more images or channels than the input, %s",
                       KN_TEXT(g), KN_TEXT(in));
    return RT_OK;
}

/* Fails if TensorFlow would find that a window begins or ends at a negative position. */
static enum rt_status check_window(struct rt_run *r, const struct axis *a, int64_t i, int input,
                                   const char *name)
{
    const int64_t end = a->sequence[i + 1];

    if (a->sequence[i] < 0 || end < (a->overlaps ? 0 : 1))
        return fail_negative(r, name, &r->in[input]);
    return RT_OK;
}

/* The sums of the gradient are doubles for every type. */
#define AVERAGE_GRAD(dt, T, X)                                                                     \
    static void spread_##dt(double *d, const void *grad, int64_t at, double by, int64_t n)         \
    {                                                                                              \
        const T *g = grad;                                                                         \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i] += (double)g[at + i] / by;                                                        \
    }                                                                                              \
    static void store_##dt(void *dst, const double *d, int64_t n)                                  \
    {                                                                                              \
        T *y = dst;                                                                                \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = STORE_##dt(d[i]);                                                               \
    }
#define STORE_RT_F32(v) ((float)(v))
#define STORE_RT_F64(v) (v)
#define STORE_RT_I32(v) rt_int32_of(v)
#define STORE_RT_I64(v) rt_int64_of(v)
TYPES(AVERAGE_GRAD, )

struct average_grad_fns {
    void (*spread)(double *d, const void *grad, int64_t at, double by, int64_t n);
    void (*store)(void *dst, const double *d, int64_t n);
};
#define AVERAGE_GRAD_ROW(dt, T, X) [dt] = {spread_##dt, store_##dt},
static const struct average_grad_fns average_grad_fns[RT_N_DTYPES] = {TYPES(AVERAGE_GRAD_ROW, )};

/* Divides the gradient at element `at` of input 1 among the pixels of a window of `image`. */
static enum rt_status spread_window(struct rt_run *r, const struct axis axis[2], struct range w,
                                    double *image, int64_t channels, int64_t at)
{
    const struct rt_tensor *g = &r->in[1];
    const double by = (double)(w.end_row - w.row) * (double)(w.end_column - w.column);

    for (int64_t i = w.row; i < w.end_row; i++)
        for (int64_t j = w.column; j < w.end_column; j++) {
            average_grad_fns[kn_dtype(g)].spread(image + (i * axis[1].n + j) * channels, g->data,
                                                 at, by, g->dim[3]);
            if (rt_run_spend(r, &r->left, PIXEL_WORK + g->dim[3]))
                return r->err->code;
        }
    return rt_run_spend(r, &r->left, PIXEL_WORK);
}

static enum rt_status spread_all(struct rt_run *r, const struct axis axis[2], double *sums,
                                 int64_t channels)
{
    const struct rt_tensor *g = &r->in[1];
    enum rt_status st = RT_OK;
    int64_t at = 0;

    for (int64_t b = 0; b < g->dim[0] && !st; b++)
        for (int64_t i = 0; i < g->dim[1] && !st; i++) {
            st = check_window(r, &axis[0], i, 2, "Row");
            for (int64_t j = 0; j < g->dim[2] && !st; j++, at += g->dim[3])
                if (!(st = check_window(r, &axis[1], j, 3, "Column")))
                    st = spread_window(r, axis, window(axis, i, j),
                                       sums + b * axis[0].n * axis[1].n * channels, channels, at);
        }
    return st;
}

static enum rt_status average_grad_run(struct rt_run *r)
{
    const struct rt_tensor *g = &r->in[1];
    const bool overlaps = rt_attr_bool(r->node, "overlapping");
    struct rt_shape in;
    size_t bytes;
    enum rt_status st = read_shape(&r->in[0], &in, r->err);

    if (!st)
        st = check_average_grad(r, &in);
    if (st || !kn_out(r, 0, RANK, in.dim))
        return r->err->code;
    const int64_t n = rt_tensor_count(&r->out[0]);
    if (!rt_mul_size((size_t)n, sizeof(double), &bytes))
        return rt_fail_memory(r->err, r->node->name, 0);
    double *sums = rt_scratch(r, bytes);
    if (!sums)
        return r->err->code;
    const struct axis axis[2] = {{r->in[2].data, in.dim[1], g->dim[1], overlaps},
                                 {r->in[3].data, in.dim[2], g->dim[2], overlaps}};
    st = kn_zero_chunks(r, sums, bytes);
    if (!st)
        st = spread_all(r, axis, sums, in.dim[3]);
    if (!st)
        st = rt_run_spend(r, &r->left, n);
    if (!st)
        average_grad_fns[kn_dtype(g)].store(r->out[0].data, sums, n);
    return st;
}

/* ---- entries ---- */

#define POOL_OP(symbol, op_, run_)                                                                 \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_RANDOM, .infer = pool_infer},                           \
        .kernels = KN_CPU(op_, #symbol, NUMBERS, NULL, run_),                                      \
    };
POOL_OP(fractional_max_pool, "FractionalMaxPool", max_run)
POOL_OP(fractional_avg_pool, "FractionalAvgPool", average_run)

const struct kn_entry kn_fractional_max_pool_grad = {
    .op = {.name = "FractionalMaxPoolGrad", .infer = max_grad_infer},
    .kernels =
        KN_CPU("FractionalMaxPoolGrad", "fractional_max_pool_grad", NUMBERS, NULL, max_grad_run),
};
const struct kn_entry kn_fractional_avg_pool_grad = {
    .op = {.name = "FractionalAvgPoolGrad", .shape_in = 1, .infer = average_grad_infer},
    .kernels = KN_CPU("FractionalAvgPoolGrad", "fractional_avg_pool_grad", NUMBERS, NULL,
                      average_grad_run),
};
