#include "kernels/matmul/einsum_internal.h"

#include <string.h>

#include "kernels/array/array.h"

/* ---- strided views ---- */

/* Advances `at` to the next index over the first n axes, and moves *p by the strides of the
 * view. */
static void step(const struct kn_einsum_view *v, int n, int64_t *at, int64_t *p)
{
    for (int i = n - 1; i >= 0; i--) {
        *p += v->stride[i];
        if (++at[i] < v->dim[i])
            return;
        *p -= v->stride[i] * v->dim[i];
        at[i] = 0;
    }
}

/* Defines loops that write dst densely. For the i-th index of view `keep`, dst[i] is the sum of the
 * elements of src over all indices of view `sum`. */
#define SUMS(dt, T, U)                                                                             \
    static enum rt_status sums_##dt(struct rt_run *r, T *dst, const T *src,                        \
                                    const struct kn_einsum_view *keep,                             \
                                    const struct kn_einsum_view *sum)                              \
    {                                                                                              \
        enum { CHUNK = 1 << 20 };                                                                  \
        const int last = sum->n - 1;                                                               \
        const int64_t n = kn_einsum_view_count(keep), m = kn_einsum_view_count(sum);               \
        const int64_t len = sum->dim[last], by = sum->stride[last];                                \
        int64_t at[KN_EINSUM_MAX_LABELS] = {0}, off = 0, left = RT_WORK;                           \
        for (int64_t i = 0; i < n; i++) {                                                          \
            int64_t inner[KN_EINSUM_MAX_LABELS] = {0}, p = off;                                    \
            U s = 0;                                                                               \
            for (int64_t j = 0; j < m; j += len) {                                                 \
                for (int64_t from = 0; from < len; from += CHUNK) {                                \
                    const int64_t to = len - from < CHUNK ? len : from + CHUNK;                    \
                    for (int64_t k = from; k < to; k++)                                            \
                        s += (U)src[p + k * by];                                                   \
                    /* 8 is the cost of step(), in units of rt_run_spend */                        \
                    if (rt_run_spend(r, &left, 2 * (to - from) + 8))                               \
                        return r->err->code;                                                       \
                }                                                                                  \
                step(sum, last, inner, &p);                                                        \
            }                                                                                      \
            dst[i] = (T)s;                                                                         \
            step(keep, keep->n, at, &off);                                                         \
        }                                                                                          \
        return RT_OK;                                                                              \
    }
#define BODIES(X)                                                                                  \
    X(RT_F32, float, float)                                                                        \
    X(RT_F64, double, double)                                                                      \
    X(RT_I32, int32_t, uint32_t)                                                                   \
    X(RT_I64, int64_t, uint64_t)                                                                   \
    X(RT_C64, float _Complex, float _Complex)                                                      \
    X(RT_C128, double _Complex, double _Complex)
BODIES(SUMS)

/* Copies the elements of src, whose strides are `from`, to the same indices of dst, whose strides
 * are `to`. */
static enum rt_status copy(struct rt_run *r, enum rt_dtype d, void *dst, const int64_t *to,
                           const void *src, const int64_t *from, int n, const int64_t *dim)
{
    struct kn_walk w = {.rank = n};

    for (int i = 0; i < n; i++) {
        w.dim[i] = dim[i];
        w.dst[i] = to[i];
        w.src[i] = from[i];
    }
    return kn_walk_copy(d, &w, dst, src, r);
}

/* Writes dst densely. For the i-th index of view `keep`, dst[i] is the sum of the elements of src
 * over all indices of view `sum`. */
static enum rt_status gather(struct rt_run *r, enum rt_dtype d, void *dst, const void *src,
                             const struct kn_einsum_view *keep, const struct kn_einsum_view *sum)
{
    int64_t dense[KN_EINSUM_MAX_LABELS];

    if (!sum->n) {
        kn_strides(keep->n, keep->dim, dense);
        return copy(r, d, dst, dense, src, keep->stride, keep->n, keep->dim);
    }
    switch (d) {
#define X(dt, T, U)                                                                                \
    case dt:                                                                                       \
        return sums_##dt(r, dst, src, keep, sum);
        BODIES(X)
#undef X
    default:
        return RT_OK;
    }
}

/* ---- running ---- */

/* Converts the data of operand k to float if necessary, and makes a dense copy if the GEMM needs
 * one. Sets *src to the result. */
static enum rt_status ready(const struct kn_einsum_plan *s, int k, const void **src,
                            char *workspace, struct rt_run *r)
{
    const struct kn_einsum_operand *o = &s->in[k];
    enum rt_status st = RT_OK;

    if (s->compute != s->dtype) {
        float *wide = (void *)(workspace + o->wide_at);
        st = kn_to_float_rows(r, s->dtype, *src, o->elements, wide, 1, o->elements);
        *src = wide;
    }
    if (!st && o->dense) {
        st = gather(r, s->compute, workspace + o->copy_at, *src, &o->keep, &o->sum);
        *src = workspace + o->copy_at;
    }
    return st;
}

/* Copies the dense result, whose stride for label i is steps[i], to dst, which has the strides of
 * the output tensor. */
static enum rt_status put(const struct kn_einsum_plan *s, const void *src, const int64_t *steps,
                          void *dst, struct rt_run *r)
{
    int64_t dim[KN_EINSUM_MAX_LABELS], from[KN_EINSUM_MAX_LABELS], to[KN_EINSUM_MAX_LABELS];
    int n = 0;

    for (int i = 0; i < s->n_labels; i++)
        if (s->out.has[i]) {
            from[n] = steps[i];
            dim[n] = s->dim[i];
            to[n++] = s->out.stride[i];
        }
    return copy(r, s->compute, dst, to, src, from, n, dim);
}

static enum rt_status einsum_multiply(const struct kn_einsum_plan *s, const char *a, const char *b,
                                      char *c, struct rt_run *r)
{
    const int64_t size = (int64_t)rt_dtype_size(s->compute), n = kn_einsum_view_count(&s->batch);
    int64_t at[KN_EINSUM_MAX_LABELS] = {0}, oa = 0, ob = 0, oc = 0, budget = RT_WORK;

    if (s->packed) {
        char *workspace = r->scratch; /* `workspace` is NULL if the GEMM needs no scratch memory. */
        return kn_fully_connected_run(&s->pack, a, b, c, workspace ? workspace + s->gemm_at : NULL,
                                      r);
    }
    for (int64_t i = 0; i < n; i++) {
        const char *left = a + oa * size, *right = b + ob * size;
        if (kn_gemm_blocks(&s->g, false, s->swapped ? right : left, s->swapped ? left : right,
                           c + oc * size, NULL, r))
            return r->err->code;
        for (int k = s->batch.n - 1; k >= 0; k--) {
            oa += s->batch_step[0][k];
            ob += s->batch_step[1][k];
            oc += s->batch_step[2][k];
            if (++at[k] < s->batch.dim[k])
                break;
            oa -= s->batch_step[0][k] * s->batch.dim[k];
            ob -= s->batch_step[1][k] * s->batch.dim[k];
            oc -= s->batch_step[2][k] * s->batch.dim[k];
            at[k] = 0;
        }
        if (rt_run_spend(r, &budget, kn_gemm_work(&s->g)))
            return r->err->code;
    }
    return RT_OK;
}

/* Computes an equation with one operand and writes the result to c. */
static enum rt_status rearrange(const struct kn_einsum_plan *s, const void *src, char *c,
                                struct rt_run *r)
{
    const struct kn_einsum_operand *o = &s->in[0];
    char *workspace = r->scratch;
    int64_t steps[KN_EINSUM_MAX_LABELS], dense = 1;
    enum rt_status st = ready(s, 0, &src, workspace, r);

    if (!st)
        st = gather(r, s->compute, s->out.dense ? workspace + o->copy_at : c, src, &o->keep,
                    &o->sum);
    for (int i = s->n_labels - 1; i >= 0; i--) {
        steps[i] = dense;
        if (s->out.has[i])
            dense *= s->dim[i];
    }
    return !st && s->out.dense ? put(s, workspace + o->copy_at, steps, c, r) : st;
}

/* Computes an equation with two operands and writes the result to c. */
static enum rt_status contract(const struct kn_einsum_plan *s, const void *a, const void *b,
                               char *c, struct rt_run *r)
{
    char *workspace = r->scratch;
    enum rt_status st = ready(s, 0, &a, workspace, r);

    if (!st)
        st = ready(s, 1, &b, workspace, r);
    if (!st)
        st = einsum_multiply(s, a, b, s->out.dense ? workspace + s->out.copy_at : c, r);
    return !st && s->out.dense ? put(s, workspace + s->out.copy_at, s->out.step, c, r) : st;
}

/* Returns whether both sides of the equation are identical, so that the result equals the
 * operand. */
static bool is_identity(const struct rt_node *n)
{
    const struct rt_span e = rt_attr_str(n, "equation");

    return e.n % 2 == 0 && e.n >= 2 && memcmp(e.p + e.n / 2 - 1, "->", 2) == 0 &&
           memcmp(e.p, e.p + e.n / 2 + 1, e.n / 2 - 1) == 0;
}

enum rt_status kn_einsum_run(struct rt_run *r)
{
    const struct kn_einsum_plan *s = r->state;
    char *dst = r->out[0].data, *c = dst;
    enum rt_status st = RT_OK;

    if (!s->out.elements ||
        (r->in[0].alias_of && !s->out.dense && is_identity(r->node) && kn_hand_on(r, 0)))
        return RT_OK;
    if (s->empty) /* all sums are empty, so the result is zero */
        return kn_zero_chunks(r, dst, rt_tensor_bytes(&r->out[0]));
    if (s->compute != s->dtype)
        c = (char *)r->scratch + s->out.wide_at;
    if (s->out.dense) /* elements off the diagonal stay 0 */
        st = kn_zero_chunks(r, c, (size_t)s->out.elements * rt_dtype_size(s->compute));
    if (!st)
        st = s->n_in == 1 ? rearrange(s, r->in[0].data, c, r)
                          : contract(s, r->in[0].data, r->in[1].data, c, r);
    if (!st && s->compute != s->dtype)
        st = kn_from_float_rows(r, s->dtype, (const void *)c, dst, s->out.elements, 1,
                                s->out.elements);
    return st;
}
