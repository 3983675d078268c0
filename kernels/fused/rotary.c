/*
 * The kernel of "_Rotary" (runtime/fusion/rotary.h). A row of x stays in the cache until its result
 * is written. cos and sin are read in place and broadcast if necessary. Products and sums are
 * rounded separately, as in the ops that the fusion replaced.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/cpu/parallel.h"
#include "kernels/math/elementwise.h"
#include "runtime/fusion/rotary.h"

/* The work per element, in units of rt_run_spend. Each element requires three reads and one
 * write. */
enum { WORK = 4 };

/* ---- shapes ---- */

/* Checks the shape of x, and fails if the Split, Pack or Reshape that the fusion replaced would
 * have failed. */
static enum rt_status check(const struct rt_rotary *op, const struct rt_shape *x,
                            struct rt_error *err)
{
    bool fits = !op->dims.n || (size_t)x->rank == op->dims.n;

    if (x->rank < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "a scalar has no last axis to be rotated along");
    for (size_t k = 0; fits && k < op->dims.n; k++)
        fits = op->dims.v[k] < 0 || x->dim[k] < 0 || x->dim[k] == op->dims.v[k];
    if (!fits)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Input to reshape is a tensor of shape %s, which is not the requested shape",
                       KN_TEXT(x));
    const int64_t n = x->dim[x->rank - 1];
    if (n >= 0 && n % 2 && (op->interleaved || !op->half))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Number of ways to split should evenly divide the split dimension, but got "
                       "split_dim %d (size = %lld) and num_split 2",
                       x->rank - 1, (long long)n);
    return RT_OK;
}

static enum rt_status infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[RT_ROTARY_X].shape;
    struct rt_shape plain, turned;
    struct rt_rotary op;

    rt_rotary_read(x->node, &op);
    for (int k = 0; k < x->n_in; k++)
        if (x->in[k].shape.rank < 0)
            return RT_OK;
    enum rt_status st = check(&op, in, x->err);
    if (!st)
        st = kn_broadcast(&plain, in, &x->in[RT_ROTARY_COS].shape, x->err);
    if (!st)
        st = kn_broadcast(&turned, in, &x->in[RT_ROTARY_SIN].shape, x->err);
    return st ? st : kn_broadcast(&x->out[0].shape, &plain, &turned, x->err);
}

/* Applies the rule for element-wise ops, except that the op is not row-wise if the rows lie along
 * the last axis, whose elements are combined. */
static void rows(struct rt_rows *r)
{
    rt_rows_each(r);
    if (r->out_dep[0].kind == RT_DEP_ROWS && r->out_dep[0].axis >= r->out[0].shape.rank - 1)
        r->out_dep[0] = (struct rt_dep){RT_DEP_MIXED, 0};
}

/* ---- prepare ---- */

struct rotary {
    bool interleaved;
    int64_t n, half;     /* length of x along its last axis, and half of that length */
    int64_t n_rows, out; /* The output has n_rows rows of `out` elements. */
    int rank;            /* number of output dimensions, not counting the last one */
    int64_t dim[RT_MAX_RANK];
    /* strides of each input, which are 0 along dimensions where it is broadcast */
    int64_t stride[RT_ROTARY_N_IN][RT_MAX_RANK];
    /* stride along the last axis: 1, or 0 if the input is broadcast along it */
    int64_t step[RT_ROTARY_N_IN];
};

static enum rt_status prepare(struct rt_prep *p, void **state)
{
    struct rotary *k = rt_prep_alloc(p, sizeof *k);
    const struct rt_shape *x = &p->in[RT_ROTARY_X].shape, *out = &p->out[0].shape;
    struct rt_rotary op;

    if (!k)
        return p->err->code;
    *state = k;
    rt_rotary_read(p->node, &op);
    if (rt_count(out->rank, out->dim) <= 0)
        return RT_OK;
    k->interleaved = op.interleaved;
    k->n = x->dim[x->rank - 1];
    k->half = !op.half ? k->n / 2 : op.half < k->n ? op.half : k->n;
    k->rank = out->rank - 1;
    k->out = out->dim[k->rank];
    k->n_rows = 1;
    for (int i = 0; i < k->rank; i++)
        k->n_rows *= k->dim[i] = out->dim[i];
    for (int j = 0; j < RT_ROTARY_N_IN; j++) {
        const struct rt_shape *s = &p->in[j].shape;
        const int shift = out->rank - s->rank;
        int64_t stride[RT_MAX_RANK];
        kn_strides(s->rank, s->dim, stride);
        for (int i = shift; i < k->rank; i++)
            k->stride[j][i] = s->dim[i - shift] == 1 ? 0 : stride[i - shift];
        k->step[j] = s->rank && s->dim[s->rank - 1] != 1;
    }
    return RT_OK;
}

/* ---- run ---- */

/* Computes `y[i] = x[i] * c[i] + sign * turned[i] * s[i]` for n elements. `sign` is 1 or -1, so
 * multiplying by it is exact. */
KN_CLONES static void span(float *restrict y, const float *x, const float *turned,
                           const float *restrict c, const float *restrict s, int64_t n, float sign)
{
    KN_IVDEP
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * c[i] + (sign * turned[i]) * s[i];
}

KN_CLONES static void pairs(float *restrict y, const float *x, const float *restrict c,
                            const float *restrict s, int64_t n)
{
    KN_IVDEP
    for (int64_t i = 0; i < n; i += 2) {
        y[i] = x[i] * c[i] + -x[i + 1] * s[i];
        y[i + 1] = x[i + 1] * c[i + 1] + x[i] * s[i + 1];
    }
}

/* Returns element i of rotate(x). */
static float turned_at(const struct rotary *k, const float *x, int64_t i)
{
    if (k->interleaved)
        return i % 2 ? x[i - 1] : -x[i + 1];
    const int64_t rest = k->n - k->half;
    return i < rest ? -x[k->half + i] : x[i - rest];
}

static void row(const struct rotary *k, float *y, const float *const in[RT_ROTARY_N_IN])
{
    const float *x = in[RT_ROTARY_X], *c = in[RT_ROTARY_COS], *s = in[RT_ROTARY_SIN];
    const int64_t rest = k->n - k->half;

    if (k->out != k->n || !k->step[RT_ROTARY_COS] || !k->step[RT_ROTARY_SIN]) {
        for (int64_t i = 0; i < k->out; i++) {
            const int64_t j = k->n == 1 ? 0 : i;
            y[i] = x[j] * c[i * k->step[RT_ROTARY_COS]] +
                   turned_at(k, x, j) * s[i * k->step[RT_ROTARY_SIN]];
        }
    } else if (k->interleaved) {
        pairs(y, x, c, s, k->n);
    } else {
        span(y, x, x + k->half, c, s, rest, -1);
        span(y + rest, x + rest, x, c + rest, s + rest, k->half, 1);
    }
}

static enum rt_status run_rows(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct rotary *k = arg;
    int64_t left = RT_WORK;

    for (int64_t i = from; i < to; i++) {
        int64_t at[RT_ROTARY_N_IN] = {0}, rest = i;
        const float *in[RT_ROTARY_N_IN];
        for (int a = k->rank - 1; a >= 0; a--) {
            for (int j = 0; j < RT_ROTARY_N_IN; j++)
                at[j] += rest % k->dim[a] * k->stride[j][a];
            rest /= k->dim[a];
        }
        for (int j = 0; j < RT_ROTARY_N_IN; j++)
            in[j] = (const float *)r->in[j].data + at[j];
        row(k, (float *)r->out[0].data + i * k->out, in);
        if (rt_run_spend(r, &left, WORK * k->out))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run(struct rt_run *r)
{
    const struct rotary *k = r->state;

    if (!rt_tensor_count(&r->out[0]))
        return RT_OK;
    return kn_parallel_rows(r, k->n_rows, WORK * k->out, 1, run_rows, (void *)(uintptr_t)k);
}

const struct kn_entry kn_rotary = {
    .op = {.name = "_Rotary", .infer = infer, .rows = rows, .internal_schema = &rt_rotary_schema},
    .kernels = KN_CPU("_Rotary", "rotary", 0, prepare, run),
};
