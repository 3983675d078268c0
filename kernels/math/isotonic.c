/* IsotonicRegression fits each row by the non-increasing sequence with the least squared error. The
 * fit consists of segments of equal values, each of which is the mean of its inputs (pool adjacent
 * violators, Best and Chakravarti: "Active set algorithms for isotonic regression", 1990). */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

static enum rt_status infer(struct rt_infer *x)
{
    for (int k = 0; k < x->n_out; k++)
        x->out[k].shape = x->in[0].shape;
    return RT_OK;
}

/* The segments of one row. Segment k begins at element first[k]. */
struct segments {
    int64_t n, *first;
    void *sum;
};

enum { SEGMENT_WORK = 16 };

/* Makes the function that fits one row of n elements. Sums and means are rounded to the type of the
 * output, as in TensorFlow. */
#define FIT(dt, T, to, O)                                                                          \
    static KN_C(to) mean_##dt(const struct segments *s, int64_t k, int64_t end)                    \
    {                                                                                              \
        const KN_C(to) n = KN_ROUND(to, (KN_C(to))(end - s->first[k]));                            \
        return KN_ROUND(to, ((KN_C(to) *)s->sum)[k] / n);                                          \
    }                                                                                              \
    static enum rt_status fit_##dt(struct rt_run *r, struct segments *s, const void *in,           \
                                   void *fit, int32_t *segment, int64_t n)                         \
    {                                                                                              \
        const T *x = in;                                                                           \
        O *y = fit;                                                                                \
        KN_C(to) *sum = s->sum;                                                                    \
        s->n = 0;                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                          \
            s->first[s->n] = i;                                                                    \
            sum[s->n++] = KN_ROUND(to, (KN_C(to))KN_GET(dt, x[i]));                                \
            for (; s->n > 1; s->n--) {                                                             \
                const int64_t k = s->n - 2;                                                        \
                if (!(mean_##dt(s, k, s->first[k + 1]) < mean_##dt(s, k + 1, i + 1)))              \
                    break;                                                                         \
                sum[k] = KN_ROUND(to, sum[k] + sum[k + 1]);                                        \
                if (rt_run_spend(r, &r->left, SEGMENT_WORK))                                       \
                    return r->err->code;                                                           \
            }                                                                                      \
            if (rt_run_spend(r, &r->left, SEGMENT_WORK))                                           \
                return r->err->code;                                                               \
        }                                                                                          \
        for (int64_t k = 0; k < s->n; k++) {                                                       \
            const int64_t end = k + 1 < s->n ? s->first[k + 1] : n;                                \
            const KN_C(to) v = mean_##dt(s, k, end);                                               \
            for (int64_t i = s->first[k]; i < end; i++) {                                          \
                y[i] = KN_PUT(to, v);                                                              \
                segment[i] = (int32_t)k;                                                           \
            }                                                                                      \
        }                                                                                          \
        return rt_run_spend(r, &r->left, 2 * n);                                                   \
    }

/* the pairs of types for which TensorFlow has a kernel: M(input, C type, output, C type) */
#define PAIRS(M)                                                                                   \
    M(RT_F32, float, RT_F32, float)                                                                \
    M(RT_F64, double, RT_F64, double)                                                              \
    M(RT_F16, struct kn_half, RT_F16, struct kn_half)                                              \
    M(RT_BF16, struct kn_bfloat, RT_BF16, struct kn_bfloat)                                        \
    M(RT_I8, int8_t, RT_F32, float)                                                                \
    M(RT_I16, int16_t, RT_F32, float)                                                              \
    M(RT_I32, int32_t, RT_F64, double)                                                             \
    M(RT_I64, int64_t, RT_F64, double)
PAIRS(FIT)

static enum rt_status run(struct rt_run *r)
{
    const struct rt_tensor *x = &r->in[0];
    const int64_t count = rt_tensor_count(x);
    int64_t n = x->rank ? x->dim[x->rank - 1] : 1;
    void *y = kn_out(r, 0, x->rank, x->dim);
    int32_t *segment = kn_out(r, 1, x->rank, x->dim);
    enum rt_status st = y && segment ? RT_OK : r->err->code;
    size_t bytes;

    if (st || count == 0)
        return st;
    if (n > INT32_MAX)
        return rt_fail(r->err, RT_UNIMPLEMENTED, "IsotonicRegression of rows of %lld elements",
                       (long long)n);
    if (!rt_mul_size((size_t)n, sizeof(int64_t) + sizeof(double), &bytes))
        return rt_fail_memory(r->err, r->node->name, 0);
    struct segments s = {.first = rt_scratch(r, bytes)};
    if (!s.first)
        return r->err->code;
    s.sum = s.first + n;
    for (int64_t i = 0; i < count && !st; i += n) {
        switch (kn_dtype(x)) {
#define X(dt, T, to, O)                                                                            \
    case dt:                                                                                       \
        st = fit_##dt(r, &s, kn_at(x, i), kn_at_mut(&r->out[0], i), segment + i, n);               \
        break;
            PAIRS(X)
#undef X
        default:
            return rt_fail(r->err, RT_UNIMPLEMENTED, "IsotonicRegression of %s",
                           rt_dtype_name(kn_dtype(x)));
        }
    }
    return st;
}

#define KERNEL(dt, T, to, O)                                                                       \
    KN_CPU_PAIR("IsotonicRegression", "isotonic_regression", dt, "output_dtype", to, NULL, run),
const struct kn_entry kn_isotonic_regression = {
    .op = {.name = "IsotonicRegression", .infer = infer},
    .kernels = (const struct rt_kernel[]){PAIRS(KERNEL){.op = NULL}},
};
