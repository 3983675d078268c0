/*
 * Softmax and LogSoftmax over the last axis.
 */
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/vec_math.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

/*
 * One row of n values; d may be s. All work is on whole blocks of LANES, the last one filled up
 * with -infinity, which adds nothing to the sum.
 */
KN_CLONES static void softmax_f32(float *d, const float *s, int64_t n, bool logarithm)
{
    float max[LANES], sum[LANES], tail[LANES];
    const int64_t rest = n % LANES, whole = n - rest;
    for (int64_t l = 0; l < LANES; l++) {
        max[l] = tail[l] = -INFINITY;
        sum[l] = 0;
    }
    memcpy(tail, s + whole, (size_t)rest * sizeof *s);
    for (int64_t i = 0; i < whole; i += LANES)
        for (int64_t l = 0; l < LANES; l++)
            max[l] = s[i + l] > max[l] ? s[i + l] : max[l];
    for (int64_t l = 0; l < LANES; l++)
        max[l] = tail[l] > max[l] ? tail[l] : max[l];
    for (int64_t step = LANES / 2; step; step /= 2)
        for (int64_t l = 0; l < step; l++)
            max[l] = max[l + step] > max[l] ? max[l + step] : max[l];
    const float top = max[0];

    for (int64_t i = 0; i < whole; i += LANES)
        for (int64_t l = 0; l < LANES; l++) {
            const float e = kn_exp_f32(s[i + l] - top);
            sum[l] += e;
            if (!logarithm)
                d[i + l] = e;
        }
    if (rest)
        for (int64_t l = 0; l < LANES; l++) {
            const float x = tail[l] - top, e = kn_exp_f32(x);
            sum[l] += l < rest ? e : 0;
            tail[l] = logarithm ? x : e;
        }
    for (int64_t step = LANES / 2; step; step /= 2)
        for (int64_t l = 0; l < step; l++)
            sum[l] += sum[l + step];

    if (logarithm) {
        const float low = logf(sum[0]);
        KN_IVDEP
        for (int64_t i = 0; i < whole; i++)
            d[i] = (s[i] - top) - low;
        for (int64_t l = 0; l < LANES; l++)
            tail[l] -= low;
    } else {
        const float scale = 1 / sum[0];
        for (int64_t i = 0; i < whole; i++)
            d[i] *= scale;
        for (int64_t l = 0; l < LANES; l++)
            tail[l] *= scale;
    }
    memcpy(d + whole, tail, (size_t)rest * sizeof *d);
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
            softmax_f32(row, row, k->n, k->logarithm);                                             \
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

static enum rt_status softmax_run(struct rt_run *r)
{
    const struct softmax_plan *k = r->state;
    const void *s = r->in[0].data;
    void *d = r->out[0].data;
    switch (r->in[0].dtype) {
    case RT_F32:
        for (int64_t i = 0; i < k->n_rows; i++)
            softmax_f32((float *)d + i * k->n, (const float *)s + i * k->n, k->n, k->logarithm);
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
    return RT_OK;
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
