/*
 * Einsum, of one or two operands, as TensorFlow's CPU kernel computes it: labels may repeat in an
 * operand (a diagonal) or in the result (written on a diagonal), "..." broadcasts.
 *
 * Every tensor is accessed by a stride per label. Labels that only one operand has are summed while
 * it is copied. What remains is a batched GEMM over four groups of labels: batch, rows (of A only),
 * columns (of B only), inner. A tensor in which each group collapses to one stride is used where it
 * lies; any other operand or result goes through a dense copy.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/fully_connected.h"
#include "kernels/entry.h"

/* A label is a character, or for an axis of "..." ELLIPSIS plus its position from the right. */
enum { MAX_LABELS = 2 * RT_MAX_RANK, ELLIPSIS = 256 };

struct labels {
    int n;
    int id[RT_MAX_RANK];
};

/* An equation with its shapes: every distinct label has an index. */
struct equation {
    int n_in, n_labels;
    int id[MAX_LABELS];
    int64_t dim[MAX_LABELS];
    struct labels in[2], out;
};

/* ---- parsing ---- */

/* The subscripts of one operand; dots: number of labels before "...", or -1. */
struct subscripts {
    struct rt_span text;
    int n_named, dots;
};

static struct subscripts subscripts_of(struct rt_span text)
{
    struct subscripts s = {.text = text, .dots = -1};
    for (size_t i = 0; i < text.n; i++) {
        if (i + 2 < text.n && memcmp(text.p + i, "...", 3) == 0) {
            s.dots = s.n_named;
            i += 2;
        } else if (s.n_named < INT32_MAX) {
            s.n_named++;
        }
    }
    return s;
}

struct parts {
    int n_in;
    struct subscripts in[2], out;
};

static enum rt_status split(const struct rt_node *n, struct parts *p, struct rt_error *err)
{
    const struct rt_span eq = rt_attr_str(n, "equation");
    int arrows = 0, commas = 0;
    size_t arrow = 0, comma = 0;

    for (size_t i = 0; i + 1 < eq.n; i++)
        if (eq.p[i] == '-' && eq.p[i + 1] == '>') {
            arrows++;
            arrow = i;
        }
    if (arrows != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expecting exactly one '->' in einsum equation: %.*s", (int)eq.n,
                       (const char *)eq.p);
    for (size_t i = 0; i < arrow; i++)
        if (eq.p[i] == ',') {
            commas++;
            comma = i;
        }
    if (commas > 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expecting 1 or 2 input subscripts in equation '%.*s' but got: %d",
                       (int)eq.n, (const char *)eq.p, commas + 1);
    p->n_in = commas + 1;
    if (n->n_in != p->n_in)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Expected %d inputs but got: %d", p->n_in,
                       n->n_in);
    p->in[0] = subscripts_of(rt_span_of(eq.p, commas ? comma : arrow));
    if (commas)
        p->in[1] = subscripts_of(rt_span_of(eq.p + comma + 1, arrow - comma - 1));
    p->out = subscripts_of(rt_span_of(eq.p + arrow + 2, eq.n - arrow - 2));
    return RT_OK;
}

static enum rt_status einsum_check(const struct rt_node *n, struct rt_error *err)
{
    struct parts p;
    return split(n, &p, err);
}

/* Sets the labels of an operand of this rank. The caller has checked the rank. */
static void assign(const struct subscripts *s, int rank, struct labels *l)
{
    const int n_dots = rank - s->n_named;
    size_t at = 0;

    l->n = rank;
    for (int k = 0, named = 0; k < rank;) {
        if (named == s->dots && k == named) {
            for (int i = 0; i < n_dots; i++)
                l->id[k++] = ELLIPSIS + n_dots - 1 - i;
            at += 3;
            if (n_dots)
                continue;
        }
        l->id[k++] = s->text.p[at++];
        named++;
    }
}

static int find(const struct equation *e, int id)
{
    for (int i = 0; i < e->n_labels; i++)
        if (e->id[i] == id)
            return i;
    return -1;
}

static enum rt_status add_dims(struct equation *e, const struct labels *l, const struct rt_shape *s,
                               const struct rt_shape *other, struct rt_error *err)
{
    char ts[160], to[160];

    for (int k = 0; k < l->n; k++) {
        int i = find(e, l->id[k]);
        if (i < 0) {
            i = e->n_labels++;
            e->id[i] = l->id[k];
            e->dim[i] = s->dim[k];
        } else if (l->id[k] >= ELLIPSIS && (e->dim[i] == 1 || s->dim[k] == 1)) {
            if (e->dim[i] == 1)
                e->dim[i] = s->dim[k];
        } else if (e->dim[i] != s->dim[k]) {
            if (l->id[k] >= ELLIPSIS)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "Invalid broadcasting dimensions: %s vs. %s",
                               rt_shape_text(to, sizeof to, other->rank, other->dim),
                               rt_shape_text(ts, sizeof ts, s->rank, s->dim));
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Expected dimension %lld at axis %d of the input shaped %s but got "
                           "dimension %lld",
                           (long long)e->dim[i], k, rt_shape_text(ts, sizeof ts, s->rank, s->dim),
                           (long long)s->dim[k]);
        }
    }
    return RT_OK;
}

/* Matches the equation with the inputs' shapes, which must be exact. */
static enum rt_status solve(const struct rt_node *n, const struct rt_info *in, struct equation *e,
                            struct rt_error *err)
{
    struct parts p;
    int n_dots = 0;

    enum rt_status st = split(n, &p, err);
    if (st)
        return st;
    memset(e, 0, sizeof *e);
    e->n_in = p.n_in;
    for (int k = 0; k < p.n_in; k++) {
        const int rank = in[k].shape.rank, named = p.in[k].n_named;
        if (p.in[k].dots < 0 && rank != named)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Expected input %d to have rank %d but got: %d", k, named, rank);
        if (rank < named)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Expected input %d to have rank at least %d but got: %d", k, named,
                           rank);
        if (rank - named > n_dots)
            n_dots = rank - named;
        assign(&p.in[k], rank, &e->in[k]);
        st = add_dims(e, &e->in[k], &in[k].shape, &in[0].shape, err);
        if (st)
            return st;
    }
    if (n_dots && p.out.dots < 0)
        return rt_fail(
            err, RT_INVALID_ARGUMENT,
            "Output contains %d broadcasting dimension(s) but no ellipsis (...) was found "
            "in the output subscripts.",
            n_dots);
    const int rank = p.out.n_named + (p.out.dots < 0 ? 0 : n_dots);
    if (rank > RT_MAX_RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Einsum: an output of rank %d", rank);
    assign(&p.out, rank, &e->out);
    for (int k = 0; k < rank; k++)
        if (find(e, e->out.id[k]) < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Einsum: output subscript '%c' is in no input",
                           e->out.id[k]);
    return RT_OK;
}

static bool is_exact(const struct rt_shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0)
            return false;
    return s->rank >= 0;
}

static enum rt_status einsum_infer(struct rt_infer *x)
{
    struct equation e;

    for (int k = 0; k < x->n_in; k++)
        if (!is_exact(&x->in[k].shape))
            return RT_OK;
    const enum rt_status st = solve(x->node, x->in, &e, x->err);
    if (st)
        return st;
    x->out[0].shape.rank = e.out.n;
    for (int k = 0; k < e.out.n; k++)
        x->out[0].shape.dim[k] = e.dim[find(&e, e.out.id[k])];
    return RT_OK;
}

/* ---- row dependence: by the label of the row axis ---- */

static int count_label(const struct labels *l, int id, int *axis)
{
    int n = 0;
    for (int k = 0; k < l->n; k++)
        if (l->id[k] == id) {
            n++;
            *axis = k;
        }
    return n;
}

static void rows(struct rt_rows *r)
{
    struct equation e;
    int id = -1, axis = 0;
    bool sized = false;

    for (int k = 0; k < r->n_in; k++)
        if (!is_exact(&r->in[k].shape))
            return;
    if (solve(r->node, r->in, &e, NULL))
        return;
    for (int k = 0; k < r->n_in; k++) {
        const struct rt_dep *d = &r->in_dep[k];
        if (d->kind == RT_DEP_MIXED)
            return;
        sized = sized || d->kind == RT_DEP_SIZE;
        if (d->kind != RT_DEP_ROWS)
            continue;
        const int own = e.in[k].id[d->axis];
        if (id >= 0 && own != id)
            return;
        id = own;
    }
    if (id < 0) {
        r->out_dep[0].kind = sized ? RT_DEP_SIZE : RT_DEP_NONE;
        return;
    }
    for (int k = 0; k < r->n_in; k++) {
        const int n = count_label(&e.in[k], id, &axis);
        if (r->in_dep[k].kind == RT_DEP_ROWS
                ? n != 1 || r->in[k].shape.dim[axis] != e.dim[find(&e, id)]
                : n != 0 && r->in[k].shape.dim[axis] != 1)
            return;
    }
    if (count_label(&e.out, id, &axis) == 1)
        r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, axis};
}

/* ---- strided views ---- */

/* Axes outermost first; strides in elements. */
struct view {
    int n;
    int64_t dim[MAX_LABELS], stride[MAX_LABELS];
};

static int64_t view_count(const struct view *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->n; i++)
        n *= v->dim[i];
    return n;
}

/* Advances to the next index over the first n axes; *p follows by their strides. */
static void step(const struct view *v, int n, int64_t *at, int64_t *p)
{
    for (int i = n - 1; i >= 0; i--) {
        *p += v->stride[i];
        if (++at[i] < v->dim[i])
            return;
        *p -= v->stride[i] * v->dim[i];
        at[i] = 0;
    }
}

/* Writes dense dst in the order of view `keep` of src, the sum over view `sum` at each position. */
#define SUMS(dt, T, U)                                                                             \
    static enum rt_status sums_##dt(struct rt_run *r, T *dst, const T *src,                        \
                                    const struct view *keep, const struct view *sum)               \
    {                                                                                              \
        enum { CHUNK = 1 << 20 };                                                                  \
        const int last = sum->n - 1;                                                               \
        const int64_t n = view_count(keep), m = view_count(sum);                                   \
        const int64_t len = sum->dim[last], by = sum->stride[last];                                \
        int64_t at[MAX_LABELS] = {0}, off = 0, left = RT_WORK;                                     \
        for (int64_t i = 0; i < n; i++) {                                                          \
            int64_t inner[MAX_LABELS] = {0}, p = off;                                              \
            U s = 0;                                                                               \
            for (int64_t j = 0; j < m; j += len) {                                                 \
                for (int64_t from = 0; from < len; from += CHUNK) {                                \
                    const int64_t to = len - from < CHUNK ? len : from + CHUNK;                    \
                    for (int64_t k = from; k < to; k++)                                            \
                        s += (U)src[p + k * by];                                                   \
                    if (rt_run_spend(r, &left, 2 * (to - from) + 8)) /* 8: the cost of a step */   \
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

/* dst[i] = src[j], where i and j step through the same index with their own strides. */
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

/* Writes dense dst in the order of view `keep` of src, summing over view `sum` at each position. */
static enum rt_status gather(struct rt_run *r, enum rt_dtype d, void *dst, const void *src,
                             const struct view *keep, const struct view *sum)
{
    int64_t dense[MAX_LABELS];

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

/* ---- planning ---- */

enum { GROUP_BATCH, GROUP_ROWS, GROUP_COLUMNS, GROUP_INNER, N_GROUPS };

/* An operand or the result: strides per label, in the tensor and as the GEMM uses them. */
struct operand {
    /* in the tensor; 0: the tensor lacks the label, or is broadcast along it */
    int64_t stride[MAX_LABELS];
    bool has[MAX_LABELS];
    int64_t elements, step[MAX_LABELS]; /* step: per label, as the GEMM uses it */
    bool dense;                         /* goes through a copy in the order of groups */
    struct view keep, sum;   /* order of the dense copy's axes, and axes that are summed for it */
    size_t wide_at, copy_at; /* in scratch memory: float form of halves, dense copy */
};

struct einsum {
    enum rt_dtype dtype, compute;
    int n_in, n_labels, group[MAX_LABELS];
    int64_t dim[MAX_LABELS];
    struct operand in[2], out;
    bool empty;
    /* The following fields are for two operands. */
    struct view batch;
    int64_t batch_step[3][MAX_LABELS];
    struct kn_gemm g;
    bool swapped; /* C is computed as its transpose: B' A' */
    bool packed;
    struct kn_fully_connected pack;
    size_t gemm_at;
};

static void strides_of(const struct equation *e, const struct labels *l, const struct rt_shape *s,
                       struct operand *o)
{
    int64_t stride = 1;
    for (int k = l->n - 1; k >= 0; k--) {
        const int i = find(e, l->id[k]);
        o->has[i] = true;
        /* Otherwise the tensor is broadcast along the label. */
        if (s->dim[k] == e->dim[i] || s->dim[k] != 1)
            o->stride[i] += stride;
        stride *= s->dim[k];
    }
    o->elements = stride;
}

/* Whether the labels of a group collapse to one stride; sets the group's length and stride. */
static bool collapse(const struct einsum *s, const int *order, int n, const int64_t *stride,
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

/* Whether a strided matrix [rows, cols] can be passed to BLAS; sets its transposition and ld. */
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

/* Makes operand o a dense copy in the order batch, first group, second group. */
static void make_dense(struct einsum *s, struct operand *o, const int *order, int n, int first,
                       int second)
{
    const int groups[] = {GROUP_BATCH, first, second};

    o->dense = true;
    o->keep.n = 0;
    for (int gi = 0; gi < 3; gi++)
        for (int k = 0; k < n; k++) {
            const int i = order[k];
            if (s->group[i] != groups[gi] || !o->has[i])
                continue;
            /* a broadcast axis of length 1 keeps that length */
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

static bool needs_sum(const struct operand *o)
{
    return o->sum.n > 0;
}

/* Labels that only one operand has, and not the result, are summed while it is copied. */
static void find_sums(struct einsum *s, struct operand *o, const struct operand *other)
{
    for (int i = 0; i < s->n_labels; i++)
        if (o->has[i] && !s->out.has[i] && !(other && other->has[i])) {
            s->group[i] = -1;
            o->sum.dim[o->sum.n] = s->dim[i];
            o->sum.stride[o->sum.n++] = o->stride[i];
        }
}

static int group_of(const struct einsum *s, int i)
{
    const bool a = s->in[0].has[i], b = s->in[1].has[i], c = s->out.has[i];
    return a && b && c ? GROUP_BATCH : a && b ? GROUP_INNER : a ? GROUP_ROWS : GROUP_COLUMNS;
}

static void plan_operand(struct einsum *s, int k, const int *order, int n)
{
    struct operand *o = &s->in[k];
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

static bool has_diagonal(const struct labels *l)
{
    for (int k = 0; k < l->n; k++)
        for (int j = 0; j < k; j++)
            if (l->id[j] == l->id[k])
                return true;
    return false;
}

static void plan_result(struct einsum *s, const int *order, int n, bool diagonal)
{
    struct operand *o = &s->out;
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
    if (s->swapped) { /* C' [n, m] = B' A' */
        const struct kn_gemm g = s->g;
        s->g.m = g.n;
        s->g.n = g.m;
        s->g.ta = g.tb == KN_AS_IS ? KN_TRANS : KN_AS_IS;
        s->g.tb = g.ta == KN_AS_IS ? KN_TRANS : KN_AS_IS;
        s->g.lda = g.ldb;
        s->g.ldb = g.lda;
    }
}

static void plan_batch(struct einsum *s, const int *order, int n)
{
    const struct operand *const o[] = {&s->in[0], &s->in[1], &s->out};
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
    kn_fully_connected_clear(&((struct einsum *)state)->pack);
}

static enum rt_status plan_gemm(struct einsum *s, const struct equation *e, struct rt_prep *p,
                                size_t *used)
{
    int order[MAX_LABELS];

    /* Rows and inner labels are in A's order, columns in B's. */
    for (int i = 0; i < s->n_labels; i++)
        order[i] = i;
    for (int i = 0; i < s->n_labels; i++)
        s->group[i] = group_of(s, i);
    find_sums(s, &s->in[0], &s->in[1]);
    find_sums(s, &s->in[1], &s->in[0]);
    s->g.dtype = s->compute;
    plan_operand(s, 0, order, s->n_labels);
    plan_operand(s, 1, order, s->n_labels);
    plan_result(s, order, s->n_labels, has_diagonal(&e->out));
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
            s->in[k].copy_at = place(used, view_count(&s->in[k].keep), s->compute);
    if (s->out.dense)
        s->out.copy_at = place(used, view_count(&s->out.keep), s->compute);
    return RT_OK;
}

/* Plans one operand: it is written straight into the result, in the result's order of labels,
 * unless the result is a diagonal. */
static void plan_single(struct einsum *s, const struct equation *e, size_t *used)
{
    struct operand *o = &s->in[0];

    s->out.dense = has_diagonal(&e->out);
    find_sums(s, o, NULL);
    for (int k = 0; k < (s->out.dense ? s->n_labels : e->out.n); k++) {
        const int i = s->out.dense ? k : find(e, e->out.id[k]);
        if (!s->out.has[i])
            continue;
        o->keep.dim[o->keep.n] = s->dim[i];
        o->keep.stride[o->keep.n++] = o->stride[i];
    }
    if (s->out.dense)
        o->copy_at = place(used, view_count(&o->keep), s->compute);
}

static enum rt_status einsum_prepare(struct rt_prep *p, void **state)
{
    struct equation e;
    size_t used = 0;
    struct einsum *s = rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    enum rt_status st = solve(p->node, p->in, &e, p->err);
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

/* ---- running ---- */

/* Makes *src, the data of operand k, what the GEMM reads: widened and copied where necessary. */
static enum rt_status ready(const struct einsum *s, int k, const void **src, char *workspace,
                            struct rt_run *r)
{
    const struct operand *o = &s->in[k];
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

/* Copies the dense form, whose strides per label are `steps`, to the result. */
static enum rt_status put(const struct einsum *s, const void *src, const int64_t *steps, void *dst,
                          struct rt_run *r)
{
    int64_t dim[MAX_LABELS], from[MAX_LABELS], to[MAX_LABELS];
    int n = 0;

    for (int i = 0; i < s->n_labels; i++)
        if (s->out.has[i]) {
            from[n] = steps[i];
            dim[n] = s->dim[i];
            to[n++] = s->out.stride[i];
        }
    return copy(r, s->compute, dst, to, src, from, n, dim);
}

static enum rt_status einsum_multiply(const struct einsum *s, const char *a, const char *b, char *c,
                                      struct rt_run *r)
{
    const int64_t size = (int64_t)rt_dtype_size(s->compute), n = view_count(&s->batch);
    int64_t at[MAX_LABELS] = {0}, oa = 0, ob = 0, oc = 0, budget = RT_WORK;

    if (s->packed) {
        char *workspace = r->scratch; /* NULL: the GEMM needs no scratch memory */
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

/* Computes an equation of one operand into c. */
static enum rt_status rearrange(const struct einsum *s, const void *src, char *c, struct rt_run *r)
{
    const struct operand *o = &s->in[0];
    char *workspace = r->scratch;
    int64_t steps[MAX_LABELS], dense = 1;
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

/* Computes an equation of two operands into c. */
static enum rt_status contract(const struct einsum *s, const void *a, const void *b, char *c,
                               struct rt_run *r)
{
    char *workspace = r->scratch;
    enum rt_status st = ready(s, 0, &a, workspace, r);

    if (!st)
        st = ready(s, 1, &b, workspace, r);
    if (!st)
        st = einsum_multiply(s, a, b, s->out.dense ? workspace + s->out.copy_at : c, r);
    return !st && s->out.dense ? put(s, workspace + s->out.copy_at, s->out.step, c, r) : st;
}

/* Whether both sides have the same labels, so that the result is the operand. */
static bool is_identity(const struct rt_node *n)
{
    const struct rt_span e = rt_attr_str(n, "equation");

    return e.n % 2 == 0 && e.n >= 2 && memcmp(e.p + e.n / 2 - 1, "->", 2) == 0 &&
           memcmp(e.p, e.p + e.n / 2 + 1, e.n / 2 - 1) == 0;
}

static enum rt_status einsum_run(struct rt_run *r)
{
    const struct einsum *s = r->state;
    char *dst = r->out[0].data, *c = dst;
    enum rt_status st = RT_OK;

    if (!s->out.elements ||
        (r->in[0].alias_of && !s->out.dense && is_identity(r->node) && kn_hand_on(r, 0)))
        return RT_OK;
    if (s->empty) /* the sums have no terms */
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

#define EINSUM_TYPES                                                                               \
    (KN_SET(KN_FLOATS) | KN_SET(KN_HALFS) | KN_SET(KN_COMPLEX) | RT_T(RT_I32) | RT_T(RT_I64))

const struct kn_entry kn_einsum = {
    .op = {.name = "Einsum", .check = einsum_check, .infer = einsum_infer, .rows = rows},
    .kernels = KN_CPU("Einsum", "einsum", EINSUM_TYPES, einsum_prepare, einsum_run),
};
