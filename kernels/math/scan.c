/*
 * Cumulative sums, products and log-sum-exps along an axis, and two ops that inspect elements one
 * by one: CheckNumerics and Bucketize.
 */
#include "kernels/array/array.h"
#include "kernels/math/elementwise.h"

#include <math.h>
#include <string.h>

/* ---- cumulative ops ---- */

/* Sets *axis to the value of the axis tensor. Returns false if the value is unknown or not a
 * scalar. */
static bool axis_value(const struct rt_tensor *t, int64_t *axis)
{
    return t && kn_scalar(t, axis);
}

static enum rt_status scan_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[0].shape, *a = &x->in[1].shape;
    int64_t axis;
    char text[160];
    if (kn_shape_known(a) && a->rank != 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "ScanOp: axis must be a scalar, not %s",
                       rt_shape_text(text, sizeof text, a->rank, a->dim));
    if (in->rank >= 0 && axis_value(x->in[1].value, &axis) &&
        (axis < -in->rank || axis >= in->rank))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "ScanOp: Expected scan axis in the range [%d, %d), but got %lld", -in->rank,
                       in->rank, (long long)(axis < 0 ? axis + in->rank : axis));
    x->out[0].shape = *in;
    return RT_OK;
}

/* Marks the op as row-wise unless the op scans along the axis of the rows. */
static void scan_rows(struct rt_rows *r)
{
    int64_t axis;
    if (r->in_dep[1].kind != RT_DEP_NONE || !axis_value(r->in[1].value, &axis))
        return;
    if (axis < 0)
        axis += r->in[0].shape.rank;
    if (r->in_dep[0].kind == RT_DEP_ROWS && r->in_dep[0].axis != axis)
        r->out_dep[0] = r->in_dep[0];
    else if (r->in_dep[0].kind == RT_DEP_NONE)
        r->out_dep[0] = r->in_dep[0];
}

/* A scan of `outer` blocks of n steps. A step has `inner` columns, which are scanned side by side.
 * One call computes steps [from, to) of the first `cols` columns; the steps before `from` have
 * already been computed. */
struct scan {
    int64_t outer, n, inner;
    bool exclusive, reverse;
    int64_t from, to, cols;
};
typedef void scan_fn(void *d, const void *s, const struct scan *k);

#define SCAN(dt, T, NAME, START, STEP)                                                             \
    static void NAME##_##dt(void *dst, const void *src, const struct scan *k)                      \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *s = src;                                                                          \
        const int64_t step = k->reverse ? -k->inner : k->inner;                                    \
        for (int64_t o = 0; o < k->outer; o++) {                                                   \
            int64_t at = (o * k->n + (k->reverse ? k->n - 1 - k->from : k->from)) * k->inner;      \
            for (int64_t i = k->from; i < k->to; i++, at += step) {                                \
                T *const row = d + at;                                                             \
                const T *const add = k->exclusive ? s + at - step : s + at, *const last =          \
                                                                                row - step;        \
                if (i == 0) {                                                                      \
                    const KN_U(dt) start = (KN_U(dt))START;                                        \
                    for (int64_t j = 0; j < k->cols; j++)                                          \
                        row[j] = KN_PUT(                                                           \
                            dt, k->exclusive ? start : STEP(start, (KN_U(dt))KN_GET(dt, add[j]))); \
                    continue;                                                                      \
                }                                                                                  \
                for (int64_t j = 0; j < k->cols; j++) {                                            \
                    const KN_U(dt) x = (KN_U(dt))KN_GET(dt, last[j]);                              \
                    const KN_U(dt) y = (KN_U(dt))KN_GET(dt, add[j]);                               \
                    row[j] = KN_PUT(dt, STEP(x, y));                                               \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* Returns log(exp(sum) + exp(x)) without overflow. As in TensorFlow, the result for two positive
 * infinities is NaN, and an x that is NaN is treated as equal to `sum`. */
static inline double log_add_exp(double sum, double x)
{
    const double high = x > sum ? x : sum, low = x < sum ? x : sum;
    return low == -INFINITY ? high : high + log1p(exp(low - high));
}

#define PLUS(x, y)  ((x) + (y))
#define TIMES(x, y) ((x) * (y))
KN_FOR_NUMBERS(SCAN, cumsum, 0, PLUS)
KN_FOR_NUMBERS(SCAN, cumprod, 1, TIMES)
KN_FOR_FLOATS(SCAN, cumlogsumexp, -INFINITY, log_add_exp)

struct scan_state {
    scan_fn *fn;
    struct scan k;
};

static enum rt_status scan_prepare(struct rt_prep *p, scan_fn *fn, void **state)
{
    struct scan_state *s = rt_prep_alloc(p, sizeof *s);
    const struct rt_shape *in = &p->in[0].shape;
    int64_t axis;
    if (!s)
        return p->err->code;
    if (!axis_value(p->in[1].value, &axis))
        return rt_fail(p->err, RT_INVALID_ARGUMENT, "ScanOp: axis must be a scalar");
    if (axis < 0)
        axis += in->rank;
    s->fn = fn;
    s->k = (struct scan){.outer = 1,
                         .n = in->dim[axis],
                         .inner = 1,
                         .exclusive = rt_attr_bool(p->node, "exclusive"),
                         .reverse = rt_attr_bool(p->node, "reverse")};
    for (int i = 0; i < in->rank; i++)
        if (i < axis)
            s->k.outer *= in->dim[i];
        else if (i > axis)
            s->k.inner *= in->dim[i];
    if (s->k.inner == 0 || s->k.n == 0)
        s->k.outer = 0;
    *state = s;
    return RT_OK;
}

/* Cost per step, in units of rt_run_spend. A step of a log-sum-exp takes 30 ns. */
enum { COST = 16 };

static enum rt_status scan_run(struct rt_run *r)
{
    const struct scan_state *s = r->state;
    const int64_t size = (int64_t)rt_dtype_size((enum rt_dtype)r->in[0].dtype);
    const int64_t one = s->k.n * s->k.inner, many = one && one < KN_CHUNK ? KN_CHUNK / one : 1;
    const int64_t cols = s->k.inner < KN_CHUNK ? s->k.inner : KN_CHUNK;
    const int64_t steps = one < KN_CHUNK ? s->k.n : KN_CHUNK / cols;
    int64_t left = RT_WORK;

    if (!one)
        return RT_OK; /* empty tensors may have NULL data */
    for (int64_t i = 0; i < s->k.outer; i += many)
        for (int64_t c = 0; c < s->k.inner; c += cols)
            for (int64_t from = 0; from < s->k.n; from += steps) {
                struct scan part = s->k;
                const int64_t at = (i * one + c) * size;
                part.outer = s->k.outer - i < many ? s->k.outer - i : many;
                part.cols = s->k.inner - c < cols ? s->k.inner - c : cols;
                part.from = from;
                part.to = s->k.n - from < steps ? s->k.n : from + steps;
                s->fn((char *)r->out[0].data + at, (const char *)r->in[0].data + at, &part);
                if (rt_run_spend(r, &left, COST * part.outer * part.cols * (part.to - from)))
                    return r->err->code;
            }
    return RT_OK;
}

#define SCAN_OP(NAME, FN, TF, LIST)                                                                \
    static enum rt_status FN##_prepare(struct rt_prep *p, void **state)                            \
    {                                                                                              \
        static scan_fn *const fn[RT_N_DTYPES] = {KN_FOR_##LIST(KN_ROW_OF, FN)};                    \
        return scan_prepare(p, fn[p->in[0].dtype], state);                                         \
    }                                                                                              \
    const struct kn_entry kn_##NAME = {                                                            \
        .op = {.name = TF, .infer = scan_infer, .rows = scan_rows, .shape_in = 1 << 1},            \
        .kernels = KN_CPU(TF, #NAME, 0 KN_FOR_##LIST(KN_TYPE_OF, FN), FN##_prepare, scan_run),     \
    };
SCAN_OP(cumsum, cumsum, "Cumsum", NUMBERS)
SCAN_OP(cumprod, cumprod, "Cumprod", NUMBERS)
SCAN_OP(cumulative_logsumexp, cumlogsumexp, "CumulativeLogsumexp", FLOATS)

/* ---- CheckNumerics ---- */

enum { SAW_NAN = 1, SAW_PLUS = 2, SAW_MINUS = 4 };

#define LOOK(dt, T, NAME)                                                                          \
    KN_FAST(dt) static unsigned NAME##_##dt(const void *src, int64_t n)                            \
    {                                                                                              \
        const T *s = src;                                                                          \
        unsigned saw = 0;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const KN_C(dt) x = KN_GET(dt, s[i]);                                                   \
            saw |= (x != x ? SAW_NAN : 0u) | (x == INFINITY ? SAW_PLUS : 0u) |                     \
                   (x == -INFINITY ? SAW_MINUS : 0u);                                              \
        }                                                                                          \
        return saw;                                                                                \
    }
KN_FOR_FLOATS(LOOK, look)

static enum rt_status check_numerics(struct rt_run *r, bool tell_signs)
{
    const struct rt_tensor *in = &r->in[0];
    const int64_t n = rt_tensor_count(in);
    int64_t left = RT_WORK;
    unsigned saw = 0;
    switch (in->dtype) {
#define X(dt, T, NAME)                                                                             \
    case dt:                                                                                       \
        for (int64_t i = 0; i < n; i += KN_CHUNK) {                                                \
            const int64_t some = n - i < KN_CHUNK ? n - i : KN_CHUNK;                              \
            saw |= NAME##_##dt((const T *)in->data + i, some);                                     \
            if (rt_run_spend(r, &left, 4 * some))                                                  \
                return r->err->code;                                                               \
        }                                                                                          \
        break;
        KN_FOR_FLOATS(X, look)
#undef X
    }
    if (saw) {
        const char *minus = tell_signs ? "-Inf" : "Inf", *plus = tell_signs ? "+Inf" : "Inf";
        const char *part[3];
        int k = 0;
        if (saw & SAW_MINUS)
            part[k++] = minus;
        if ((saw & SAW_PLUS) && (tell_signs || !(saw & SAW_MINUS)))
            part[k++] = plus;
        if (saw & SAW_NAN)
            part[k++] = "NaN";
        const struct rt_span message = rt_attr_str(r->node, "message");
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "%.*s : Tensor had %s%s%s%s%s values",
                       (int)(message.n < 300 ? message.n : 300), (const char *)message.p, part[0],
                       k == 3   ? ", "
                       : k == 2 ? " and "
                                : "",
                       k > 1 ? part[1] : "", k == 3 ? ", and " : "", k == 3 ? part[2] : "");
    }
    if (in->data == r->out[0].data || kn_hand_on(r, 0))
        return RT_OK;
    return kn_copy_run(r, kn_dtype(in), r->out[0].data, in->data, n);
}

static enum rt_status check_numerics_run(struct rt_run *r)
{
    return check_numerics(r, false);
}

static enum rt_status check_numerics_v2_run(struct rt_run *r)
{
    return check_numerics(r, true);
}

/* The effect is RT_IO, because the op may fail on purpose and must therefore not be removed or
 * folded. */
const struct kn_entry kn_check_numerics = {
    .op = {.name = "CheckNumerics", .effect = RT_IO, .infer = kn_infer_same, .rows = rt_rows_same},
    .kernels = KN_CPU("CheckNumerics", "check_numerics", KN_SET(KN_FLOATS) | KN_SET(KN_HALFS), NULL,
                      check_numerics_run),
};
const struct kn_entry kn_check_numerics_v2 = {
    .op = {.name = "CheckNumericsV2",
           .effect = RT_IO,
           .infer = kn_infer_same,
           .rows = rt_rows_same},
    .kernels = KN_CPU("CheckNumericsV2", "check_numerics_v2", KN_SET(KN_FLOATS) | KN_SET(KN_HALFS),
                      NULL, check_numerics_v2_run),
};

/* ---- Bucketize ---- */

static enum rt_status bucketize_check(const struct rt_node *n, struct rt_error *err)
{
    const struct rt_attr *b = rt_attr(n, "boundaries");
    for (size_t i = 1; i < b->n; i++)
        if (b->v.floats[i] < b->v.floats[i - 1])
            return rt_fail(err, RT_INVALID_ARGUMENT, "Expected sorted boundaries");
    return RT_OK;
}

/* Computes the number of boundaries that are not greater than x. A NaN is treated as greater than
 * all boundaries. */
#define BUCKETS(dt, T, NAME)                                                                       \
    static void NAME##_##dt(int32_t *d, const void *src, int64_t n, const float *b, size_t n_b)    \
    {                                                                                              \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            size_t low = 0, high = n_b;                                                            \
            while (low < high) {                                                                   \
                const size_t middle = (low + high) / 2;                                            \
                if (s[i] < b[middle])                                                              \
                    high = middle;                                                                 \
                else                                                                               \
                    low = middle + 1;                                                              \
            }                                                                                      \
            d[i] = (int32_t)low;                                                                   \
        }                                                                                          \
    }
#define KN_FOR_BUCKETS(M, ...) KN_FOR_I32_I64(M, __VA_ARGS__) KN_FOR_WIDE(M, __VA_ARGS__)
KN_FOR_BUCKETS(BUCKETS, buckets)

static enum rt_status bucketize_run(struct rt_run *r)
{
    const struct rt_attr *b = rt_attr(r->node, "boundaries");
    const int64_t all = rt_tensor_count(&r->in[0]);
    for (int64_t i = 0; i < all; i += KN_CHUNK) {
        const int64_t n = all - i < KN_CHUNK ? all - i : KN_CHUNK;
        int32_t *out = (int32_t *)r->out[0].data + i;
        switch (r->in[0].dtype) {
#define X(dt, T, NAME)                                                                             \
    case dt:                                                                                       \
        NAME##_##dt(out, (const T *)r->in[0].data + i, n, b->v.floats, b->n);                      \
        break;
            KN_FOR_BUCKETS(X, buckets)
#undef X
        }
        if (all > KN_CHUNK && rt_run_check(r))
            return r->err->code;
    }
    return RT_OK;
}

const struct kn_entry kn_bucketize = {
    .op = {.name = "Bucketize",
           .check = bucketize_check,
           .infer = kn_infer_same,
           .rows = rt_rows_same},
    .kernels =
        KN_CPU("Bucketize", "bucketize", 0 KN_FOR_BUCKETS(KN_TYPE_OF, 0), NULL, bucketize_run),
};
