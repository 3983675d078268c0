/*
 * Softmax and LogSoftmax along the last axis.
 */
#include "kernels/nn/softmax_internal.h"

#include "kernels/math/elementwise.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec_math.h"

#include <math.h>

#define KN_LOOPS      "kernels/nn/softmax_loops.h"
#define KN_LOOPS_TYPE struct kn_softmax_loops
#define KN_LOOPS_OF   kn_softmax_loops_of
#include "kernels/cpu/vector_sets.h"

void kn_softmax_f32(float *d, const float *s, int64_t n_rows, int64_t n, bool logarithm)
{
    const struct kn_softmax_loops *l = loops_of(0);
    (logarithm ? l->log_rows : l->rows)(d, s, n_rows, n);
}

static enum rt_status softmax_f64(struct rt_run *r, double *d, const double *s, int64_t n,
                                  bool logarithm)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        top = s[i] > top ? s[i] : top;
    for (int64_t i = 0; i < n; i++) {
        sum += exp(s[i] - top);
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    const double low = log(sum);
    for (int64_t i = 0; i < n; i++) {
        d[i] = logarithm ? (s[i] - top) - low : exp(s[i] - top) / sum;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

struct softmax_plan {
    int64_t n_rows, n;
    bool logarithm;
};

/* Half-precision types are computed in float, one row at a time, in the buffer `row`. */
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

/* Marks the op as row-wise unless the batch axis is the last axis, along which rows are
 * combined. */
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

static enum rt_status softmax_part(struct rt_run *r, const struct softmax_plan *k, const void *s,
                                   void *d)
{
    switch (r->in[0].dtype) {
    case RT_F32:
        kn_softmax_f32(d, s, k->n_rows, k->n, k->logarithm);
        break;
    case RT_F64:
        for (int64_t i = 0; i < k->n_rows; i++)
            if (softmax_f64(r, (double *)d + i * k->n, (const double *)s + i * k->n, k->n,
                            k->logarithm))
                return r->err->code;
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

static enum rt_status softmax_some(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct softmax_plan *k = r->state;
    const size_t row = (size_t)k->n * rt_dtype_size((enum rt_dtype)r->in[0].dtype);
    const int64_t many = k->n > KN_CHUNK ? 1 : KN_CHUNK / k->n;
    (void)arg;
    for (int64_t i = from; i < to; i += many) {
        struct softmax_plan part = *k;
        part.n_rows = to - i < many ? to - i : many;
        if (softmax_part(r, &part, (const char *)r->in[0].data + (size_t)i * row,
                         (char *)r->out[0].data + (size_t)i * row) ||
            (i + many < to && rt_run_check(r)))
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
    if (r->in[0].dtype != RT_F32) /* for half-precision types, scratch memory holds only one row */
        return softmax_some(r, NULL, 0, k->n_rows);
    return kn_parallel_rows(r, k->n_rows, COST * k->n, 1, softmax_some, NULL);
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
