#include "kernels/matmul/einsum_internal.h"

#include <string.h>

enum { GROUP_BATCH, GROUP_ROWS, GROUP_COLUMNS, GROUP_INNER, N_GROUPS };

static void strides_of(const struct kn_einsum_equation *e, const struct kn_einsum_labels *l,
                       const struct rt_shape *s, struct kn_einsum_operand *o)
{
    int64_t stride = 1;
    for (int k = l->n - 1; k >= 0; k--) {
        const int i = kn_einsum_find(e, l->id[k]);
        o->has[i] = true;
        /* A dimension of length 1 whose label has another length is broadcast, so its stride is not
         * added. */
        if (s->dim[k] == e->dim[i] || s->dim[k] != 1)
            o->stride[i] += stride;
        stride *= s->dim[k];
    }
    o->elements = stride;
}

/* Returns whether a single stride can replace the strides of all labels of `group`. If so, sets
 * *len to the group's length and *by to this stride. */
static bool collapse(const struct kn_einsum_plan *s, const int *order, int n, const int64_t *stride,
                     int group, int64_t *len, int64_t *by)
{
    *len = 1;
    *by = 0;
    for (int k = n - 1; k >= 0; k--) {
        const int i = order[k];
        if (s->group[i] != group || s->dim[i] == 1)
            continue;
        if (*len == 1)
            *by = stride[i];
        else if (stride[i] != *by * *len)
            return false;
        *len *= s->dim[i];
    }
    return true;
}

/* Returns whether a strided matrix [rows, cols] can be passed to BLAS. If so, sets its
 * transposition and leading dimension. */
static bool blas_view(int64_t rows, int64_t sr, int64_t cols, int64_t sc, enum kn_trans *t,
                      int64_t *ld)
{
    if ((sc == 1 || cols == 1) && (rows == 1 || sr >= cols)) {
        *t = KN_AS_IS;
        *ld = rows == 1 ? cols : sr;
        return true;
    }
    if ((sr == 1 || rows == 1) && (cols == 1 || sc >= rows)) {
        *t = KN_TRANS;
        *ld = cols == 1 ? rows : sc;
        return true;
    }
    return false;
}

/* Makes the GEMM use a dense copy of operand or result `o`. The copy's axes are sorted by label
 * group: batch, then `first`, then `second`. */
static void make_dense(struct kn_einsum_plan *s, struct kn_einsum_operand *o, const int *order,
                       int n, int first, int second)
{
    const int groups[] = {GROUP_BATCH, first, second};

    o->dense = true;
    o->keep.n = 0;
    for (int gi = 0; gi < 3; gi++)
        for (int k = 0; k < n; k++) {
            const int i = order[k];
            if (s->group[i] != groups[gi] || !o->has[i])
                continue;
            /* a broadcast axis has length 1 in the copy */
            o->keep.dim[o->keep.n] = o->stride[i] ? s->dim[i] : 1;
            o->keep.stride[o->keep.n++] = o->stride[i];
        }
    int64_t step_ = 1;
    int at = o->keep.n;
    for (int gi = 2; gi >= 0; gi--)
        for (int k = n - 1; k >= 0; k--) {
            const int i = order[k];
            if (s->group[i] != groups[gi] || !o->has[i])
                continue;
            at--;
            o->step[i] = o->stride[i] ? step_ : 0;
            step_ *= o->keep.dim[at];
        }
}

static bool needs_sum(const struct kn_einsum_operand *o)
{
    return o->sum.n > 0;
}

/* Adds the labels that occur only in operand `o`, and not in the result, to o->sum. These labels
 * are summed while `o` is copied. */
static void find_sums(struct kn_einsum_plan *s, struct kn_einsum_operand *o,
                      const struct kn_einsum_operand *other)
{
    for (int i = 0; i < s->n_labels; i++)
        if (o->has[i] && !s->out.has[i] && !(other && other->has[i])) {
            s->group[i] = -1;
            o->sum.dim[o->sum.n] = s->dim[i];
            o->sum.stride[o->sum.n++] = o->stride[i];
        }
}

static int group_of(const struct kn_einsum_plan *s, int i)
{
    const bool a = s->in[0].has[i], b = s->in[1].has[i], c = s->out.has[i];
    return a && b && c ? GROUP_BATCH : a && b ? GROUP_INNER : a ? GROUP_ROWS : GROUP_COLUMNS;
}

static void plan_operand(struct kn_einsum_plan *s, int k, const int *order, int n)
{
    struct kn_einsum_operand *o = &s->in[k];
    const int first = k ? GROUP_INNER : GROUP_ROWS, second = k ? GROUP_COLUMNS : GROUP_INNER;
    int64_t rows = 1, sr = 0, cols = 1, sc = 0, ld = 1;
    enum kn_trans t = KN_AS_IS;

    memcpy(o->step, o->stride, sizeof o->step);
    if (needs_sum(o) || !collapse(s, order, n, o->stride, first, &rows, &sr) ||
        !collapse(s, order, n, o->stride, second, &cols, &sc) ||
        !blas_view(rows, sr, cols, sc, &t, &ld)) {
        make_dense(s, o, order, n, first, second);
        collapse(s, order, n, o->step, first, &rows, &sr);
        collapse(s, order, n, o->step, second, &cols, &sc);
        blas_view(rows, sr, cols, sc, &t, &ld);
    }
    if (k == 0) {
        s->g.m = rows;
        s->g.k = cols;
        s->g.ta = t;
        s->g.lda = ld;
    } else {
        s->g.n = cols;
        s->g.tb = t;
        s->g.ldb = ld;
    }
}

static void plan_result(struct kn_einsum_plan *s, const int *order, int n, bool diagonal)
{
    struct kn_einsum_operand *o = &s->out;
    int64_t m = 1, sm = 0, cols = 1, sn = 0, ld = 1;
    enum kn_trans t = KN_AS_IS;

    memcpy(o->step, o->stride, sizeof o->step);
    if (diagonal || !collapse(s, order, n, o->stride, GROUP_ROWS, &m, &sm) ||
        !collapse(s, order, n, o->stride, GROUP_COLUMNS, &cols, &sn) ||
        !blas_view(m, sm, cols, sn, &t, &ld)) {
        make_dense(s, o, order, n, GROUP_ROWS, GROUP_COLUMNS);
        t = KN_AS_IS;
        ld = s->g.n;
    }
    s->g.ldc = ld;
    s->swapped = t == KN_TRANS;
    if (s->swapped) { /* the GEMM computes `C' [n, m] = B' A'` */
        const struct kn_gemm g = s->g;
        s->g.m = g.n;
        s->g.n = g.m;
        s->g.ta = g.tb == KN_AS_IS ? KN_TRANS : KN_AS_IS;
        s->g.tb = g.ta == KN_AS_IS ? KN_TRANS : KN_AS_IS;
        s->g.lda = g.ldb;
        s->g.ldb = g.lda;
    }
}

static void plan_batch(struct kn_einsum_plan *s, const int *order, int n)
{
    const struct kn_einsum_operand *const o[] = {&s->in[0], &s->in[1], &s->out};
    for (int k = 0; k < n; k++) {
        const int i = order[k];
        if (s->group[i] != GROUP_BATCH || s->dim[i] == 1)
            continue;
        s->batch.dim[s->batch.n] = s->dim[i];
        for (int j = 0; j < 3; j++)
            s->batch_step[j][s->batch.n] = o[j]->step[i];
        s->batch.n++;
    }
}

static size_t place(size_t *used, int64_t elements, enum rt_dtype d)
{
    const size_t at = *used;
    *used += ((size_t)elements * rt_dtype_size(d) + 63) / 64 * 64;
    return at;
}

static void release(void *state)
{
    kn_fully_connected_clear(&((struct kn_einsum_plan *)state)->pack);
}

static enum rt_status plan_gemm(struct kn_einsum_plan *s, const struct kn_einsum_equation *e,
                                struct rt_prep *p, size_t *used)
{
    int order[KN_EINSUM_MAX_LABELS];

    /* Row labels and inner labels are in A's order, and column labels are in B's order. */
    for (int i = 0; i < s->n_labels; i++)
        order[i] = i;
    for (int i = 0; i < s->n_labels; i++)
        s->group[i] = group_of(s, i);
    find_sums(s, &s->in[0], &s->in[1]);
    find_sums(s, &s->in[1], &s->in[0]);
    s->g.dtype = s->compute;
    plan_operand(s, 0, order, s->n_labels);
    plan_operand(s, 1, order, s->n_labels);
    plan_result(s, order, s->n_labels, kn_einsum_has_diagonal(&e->out));
    plan_batch(s, order, s->n_labels);

    if (!s->empty && !s->batch.n && !s->swapped && !s->in[1].dense && !s->out.dense &&
        s->compute == s->dtype && kn_fully_connected_pays(p, 1, &s->g)) {
        size_t bytes = 0;
        const enum rt_status st = kn_fully_connected_prepare(&s->pack, p, 1, &s->g, &bytes);
        if (st)
            return st;
        s->packed = true;
        p->release = release;
        s->gemm_at = place(used, (int64_t)bytes, RT_U8);
    }
    for (int k = 0; k < 2; k++)
        if (s->in[k].dense)
            s->in[k].copy_at = place(used, kn_einsum_view_count(&s->in[k].keep), s->compute);
    if (s->out.dense)
        s->out.copy_at = place(used, kn_einsum_view_count(&s->out.keep), s->compute);
    return RT_OK;
}

/* Plans an equation with one operand. The operand is summed and transposed directly into the
 * result, unless a diagonal of the result is written. */
static void plan_single(struct kn_einsum_plan *s, const struct kn_einsum_equation *e, size_t *used)
{
    struct kn_einsum_operand *o = &s->in[0];

    s->out.dense = kn_einsum_has_diagonal(&e->out);
    find_sums(s, o, NULL);
    for (int k = 0; k < (s->out.dense ? s->n_labels : e->out.n); k++) {
        const int i = s->out.dense ? k : kn_einsum_find(e, e->out.id[k]);
        if (!s->out.has[i])
            continue;
        o->keep.dim[o->keep.n] = s->dim[i];
        o->keep.stride[o->keep.n++] = o->stride[i];
    }
    if (s->out.dense)
        o->copy_at = place(used, kn_einsum_view_count(&o->keep), s->compute);
}

enum rt_status kn_einsum_prepare(struct rt_prep *p, void **state)
{
    struct kn_einsum_equation e;
    size_t used = 0;
    struct kn_einsum_plan *s = rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    enum rt_status st = kn_einsum_solve(p->node, p->in, &e, p->err);
    if (st)
        return st;
    s->dtype = p->in[0].dtype;
    s->compute = s->dtype == RT_F16 || s->dtype == RT_BF16 ? RT_F32 : s->dtype;
    s->n_in = e.n_in;
    s->n_labels = e.n_labels;
    memcpy(s->dim, e.dim, sizeof s->dim);
    for (int k = 0; k < e.n_in; k++) {
        strides_of(&e, &e.in[k], &p->in[k].shape, &s->in[k]);
        if (!s->in[k].elements)
            s->empty = true;
        if (s->compute != s->dtype)
            s->in[k].wide_at = place(&used, s->in[k].elements, RT_F32);
    }
    strides_of(&e, &e.out, &p->out[0].shape, &s->out);
    if (s->compute != s->dtype)
        s->out.wide_at = place(&used, s->out.elements, RT_F32);
    *state = s;
    if (e.n_in == 2)
        st = plan_gemm(s, &e, p, &used);
    else
        plan_single(s, &e, &used);
    p->scratch_bytes = used;
    return st;
}
