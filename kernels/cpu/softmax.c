/*
 * Softmax and LogSoftmax over the last axis.
 */
#include "kernels/cpu/softmax.h"

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec_math.h"

#include <math.h>

enum {
    LANES = 16,  /* side by side in one vector loop */
    PIECE = 1024 /* values that one call of exp_all is worth making for */
};

KN_CLONES static float max_of(const float *s, int64_t n)
{
    float max[LANES];
    int64_t i = 0;
    if (n < 2 * LANES) { /* not worth the set-up */
        float a = -INFINITY, b = -INFINITY;
        for (; i + 2 <= n; i += 2) {
            a = s[i] > a ? s[i] : a;
            b = s[i + 1] > b ? s[i + 1] : b;
        }
        if (i < n)
            a = s[i] > a ? s[i] : a;
        return a > b ? a : b;
    }
    for (int64_t l = 0; l < LANES; l++)
        max[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int64_t l = 0; l < LANES; l++)
            max[l] = s[i + l] > max[l] ? s[i + l] : max[l];
    for (; i < n; i++)
        max[0] = s[i] > max[0] ? s[i] : max[0];
    for (int64_t l = 1; l < LANES; l++)
        max[0] = max[l] > max[0] ? max[l] : max[0];
    return max[0];
}

KN_CLONES static float sum_of(const float *s, int64_t n)
{
    float sum[LANES] = {0};
    int64_t i = 0;
    if (n < 2 * LANES) {
        float a = 0, b = 0;
        for (; i + 2 <= n; i += 2) {
            a += s[i];
            b += s[i + 1];
        }
        return i < n ? a + b + s[i] : a + b;
    }
    for (; i + LANES <= n; i += LANES)
        for (int64_t l = 0; l < LANES; l++)
            sum[l] += s[i + l];
    for (; i < n; i++)
        sum[0] += s[i];
    for (int64_t step = LANES / 2; step; step /= 2)
        for (int64_t l = 0; l < step; l++)
            sum[l] += sum[l + step];
    return sum[0];
}

KN_CLONES static void exp_all(float *d, const float *s, int64_t n)
{
    KN_IVDEP
    for (int64_t i = 0; i < n; i++)
        d[i] = kn_exp_f32(s[i]);
}

/* Short rows share the calls of exp_all. */
void kn_softmax_f32(float *d, const float *s, int64_t n_rows, int64_t n, bool logarithm)
{
    const int64_t together = n < PIECE ? PIECE / n : 1;
    float piece[PIECE];
    for (int64_t r = 0; r < n_rows; r += together) {
        const int64_t rows = n_rows - r < together ? n_rows - r : together;
        for (int64_t k = 0; k < rows; k++) {
            const float *from = s + (r + k) * n, top = max_of(from, n);
            float *to = d + (r + k) * n;
            KN_IVDEP
            for (int64_t i = 0; i < n; i++)
                to[i] = from[i] - top;
        }
        float *const row = d + r * n;
        if (!logarithm) {
            exp_all(row, row, rows * n);
            for (int64_t k = 0; k < rows; k++) {
                const float scale = 1 / sum_of(row + k * n, n);
                for (int64_t i = 0; i < n; i++)
                    row[k * n + i] *= scale;
            }
        } else if (n <= PIECE) {
            exp_all(piece, row, rows * n);
            for (int64_t k = 0; k < rows; k++) {
                const float low = logf(sum_of(piece + k * n, n));
                for (int64_t i = 0; i < n; i++)
                    row[k * n + i] -= low;
            }
        } else {
            float sum = 0;
            for (int64_t i = 0; i < n; i += PIECE) {
                const int64_t m = n - i < PIECE ? n - i : PIECE;
                exp_all(piece, row + i, m);
                sum += sum_of(piece, m);
            }
            const float low = logf(sum);
            for (int64_t i = 0; i < n; i++)
                row[i] -= low;
        }
    }
}

static void softmax_f64(double *d, const double *s, int64_t n, bool logarithm)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        top = s[i] > top ? s[i] : top;
    for (int64_t i = 0; i < n; i++)
        sum += exp(s[i] - top);
    const double low = log(sum);
    for (int64_t i = 0; i < n; i++)
        d[i] = logarithm ? (s[i] - top) - low : exp(s[i] - top) / sum;
}

struct softmax_plan {
    int64_t n_rows, n;
    bool logarithm;
};

/* Halves are computed in float, a row at a time in `row`. */
#define HALF_ROWS(dt, T, unused)                                                                   \
    KN_CLONES static void rows_##dt(T *d, const T *s, float *row, const struct softmax_plan *k)    \
    {                                                                                              \
        for (int64_t r = 0; r < k->n_rows; r++, d += k->n, s += k->n) {                            \
            for (int64_t i = 0; i < k->n; i++)                                                     \
                row[i] = KN_GET(dt, s[i]);                                                         \
            kn_softmax_f32(row, row, 1, k->n, k->logarithm);                                       \
            for (int64_t i = 0; i < k->n; i++)                                                     \
                d[i] = KN_PUT(dt, row[i]);                                                         \
        }                                                                                          \
    }
KN_FOR_HALFS(HALF_ROWS, 0)

static enum rt_status softmax_infer(struct rt_infer *x)
{
    if (x->in[0].shape.rank == 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "logits must have >= 1 dimension, got []");
    return kn_infer_same(x);
}

/* Each row of the last axis by itself. */
static void softmax_rows(struct rt_rows *r)
{
    const int last = r->in[0].shape.rank - 1;
    if (r->in_dep[0].kind != RT_DEP_ROWS || (last >= 0 && r->in_dep[0].axis != last))
        r->out_dep[0] = r->in_dep[0];
}

static enum rt_status softmax_prepare(struct rt_prep *p, bool logarithm, void **state)
{
    struct softmax_plan *k = rt_prep_alloc(p, sizeof *k);
    const struct rt_shape *in = &p->in[0].shape;
    if (!k)
        return p->err->code;
    k->logarithm = logarithm;
    k->n = in->dim[in->rank - 1];
    k->n_rows = k->n ? kn_shape_count(in) / k->n : 0;
    if (p->in[0].dtype == RT_F16 || p->in[0].dtype == RT_BF16)
        p->scratch_bytes = (size_t)k->n * sizeof(float);
    *state = k;
    return RT_OK;
}

static void softmax_part(struct rt_run *r, const struct softmax_plan *k, const void *s, void *d)
{
    switch (r->in[0].dtype) {
    case RT_F32:
        kn_softmax_f32(d, s, k->n_rows, k->n, k->logarithm);
        break;
    case RT_F64:
        for (int64_t i = 0; i < k->n_rows; i++)
            softmax_f64((double *)d + i * k->n, (const double *)s + i * k->n, k->n, k->logarithm);
        break;
    case RT_F16:
        rows_RT_F16(d, s, r->scratch, k);
        break;
    case RT_BF16:
        rows_RT_BF16(d, s, r->scratch, k);
        break;
    }
}

static enum rt_status softmax_some(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct softmax_plan *k = r->state;
    const size_t row = (size_t)k->n * rt_dtype_size((enum rt_dtype)r->in[0].dtype);
    const int64_t many = k->n > KN_CHUNK ? 1 : KN_CHUNK / k->n;
    (void)arg;
    for (int64_t i = from; i < to; i += many) {
        struct softmax_plan part = *k;
        part.n_rows = to - i < many ? to - i : many;
        softmax_part(r, &part, (const char *)r->in[0].data + (size_t)i * row,
                     (char *)r->out[0].data + (size_t)i * row);
        if (i + many < to && rt_run_check(r))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status softmax_run(struct rt_run *r)
{
    const struct softmax_plan *k = r->state;
    enum { COST = 8 };
    if (!k->n_rows)
        return RT_OK;
    /* Short rows are done together, so many at a time; halves have room for one row. */
    if (r->in[0].dtype != RT_F32)
        return softmax_some(r, NULL, 0, k->n_rows);
    return kn_parallel_rows(r, k->n_rows, COST * k->n, k->n < PIECE ? PIECE / k->n : 1,
                            softmax_some, NULL);
}

static enum rt_status plain_prepare(struct rt_prep *p, void **state)
{
    return softmax_prepare(p, false, state);
}

static enum rt_status log_prepare(struct rt_prep *p, void **state)
{
    return softmax_prepare(p, true, state);
}

#define SOFTMAX_TYPES (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS))
const struct kn_entry kn_softmax = {
    .op = {.name = "Softmax", .infer = softmax_infer, .rows = softmax_rows},
    .kernels = KN_CPU("Softmax", "softmax", SOFTMAX_TYPES, plain_prepare, softmax_run),
};
const struct kn_entry kn_log_softmax = {
    .op = {.name = "LogSoftmax", .infer = softmax_infer, .rows = softmax_rows},
    .kernels = KN_CPU("LogSoftmax", "log_softmax", SOFTMAX_TYPES, log_prepare, softmax_run),
};
