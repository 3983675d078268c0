/* Ops that select between two inputs, and ops that clip. */
#include "kernels/math/elementwise.h"

#include <string.h>

/* ---- Select, SelectV2 ---- */

/* Copies n elements from t where c is true, and from e elsewhere. The strides of c, t and e are 0
 * or 1. */
typedef void select_row(enum rt_dtype dtype, void *d, const bool *c, const void *t, const void *e,
                        int64_t n, int64_t sc, int64_t st, int64_t se);

#define SELECT_ROW(BYTES, T)                                                                       \
    KN_CLONES static void select_##BYTES(enum rt_dtype dtype, void *dst, const bool *c,            \
                                         const void *then, const void *other, int64_t n,           \
                                         int64_t sc, int64_t st, int64_t se)                       \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *t = then, *e = other;                                                             \
        (void)dtype;                                                                               \
        if (!sc) {                                                                                 \
            const T *s = *c ? t : e;                                                               \
            const int64_t step = *c ? st : se;                                                     \
            KN_IVDEP                                                                               \
            for (int64_t i = 0; i < n; i++)                                                        \
                d[i] = s[i * step];                                                                \
        } else if (st && se) {                                                                     \
            KN_IVDEP                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const T x = t[i], y = e[i];                                                        \
                d[i] = c[i] ? x : y;                                                               \
            }                                                                                      \
        } else {                                                                                   \
            KN_IVDEP                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const T x = t[i * st], y = e[i * se];                                              \
                d[i] = c[i * sc] ? x : y;                                                          \
            }                                                                                      \
        }                                                                                          \
    }
KN_SIZES(SELECT_ROW)

/* Selects elements of 16 bytes, and elements that are not plain bytes, such as strings. */
static void select_any(enum rt_dtype dtype, void *dst, const bool *c, const void *then,
                       const void *other, int64_t n, int64_t sc, int64_t st, int64_t se)
{
    const int64_t size = (int64_t)rt_dtype_size(dtype);
    char *d = dst;
    const char *t = then, *e = other;
    for (int64_t i = 0; i < n; i++) {
        const char *s = c[i * sc] ? t + i * st * size : e + i * se * size;
        rt_copy_elements(dtype, d + i * size, s, 1);
    }
}

static select_row *row_for(enum rt_dtype d)
{
    if (rt_dtype_is_plain(d))
        switch (rt_dtype_size(d)) {
#define X(BYTES, T)                                                                                \
    case BYTES:                                                                                    \
        return select_##BYTES;
            KN_SIZES(X)
#undef X
        }
    return select_any;
}

/* The state of a select op, which runs as nested loops over its three broadcast inputs. Loops are
 * ordered innermost first, and strides are in elements. */
struct select_plan {
    select_row *row;
    int rank;
    int64_t n_rows, dim[RT_MAX_RANK], step[3][RT_MAX_RANK];
};

static enum rt_status make_plan(struct rt_prep *p, const struct rt_shape *const in[3], void **state)
{
    struct select_plan *k = rt_prep_alloc(p, sizeof *k);
    if (!k)
        return p->err->code;
    const struct rt_shape *o = &p->out[0].shape;
    int64_t n[3] = {1, 1, 1}, count = 1;
    k->row = row_for(p->out[0].dtype);
    for (int i = o->rank - 1; i >= 0; i--) {
        int64_t step[3];
        bool joins = k->rank > 0;
        count *= o->dim[i];
        if (o->dim[i] == 1)
            continue;
        for (int j = 0; j < 3; j++) {
            const int at = i - (o->rank - in[j]->rank);
            const int64_t dim = at < 0 ? 1 : in[j]->dim[at];
            step[j] = dim == 1 ? 0 : n[j];
            n[j] *= dim;
            joins = joins && !step[j] == !k->step[j][k->rank - 1];
        }
        if (joins) {
            k->dim[k->rank - 1] *= o->dim[i];
            continue;
        }
        k->dim[k->rank] = o->dim[i];
        for (int j = 0; j < 3; j++)
            k->step[j][k->rank] = step[j];
        k->rank++;
    }
    if (k->rank == 0) {
        k->rank = 1;
        k->dim[0] = 1;
    }
    k->n_rows = count ? count / k->dim[0] : 0;
    *state = k;
    return RT_OK;
}

static enum rt_status select_run(struct rt_run *r)
{
    const struct select_plan *k = r->state;
    const enum rt_dtype dtype = (enum rt_dtype)r->out[0].dtype;
    const int64_t size = (int64_t)rt_dtype_size(dtype);
    const bool *c = r->in[0].data;
    const char *t = r->in[1].data, *e = r->in[2].data;
    char *d = r->out[0].data;
    const int64_t sc = k->step[0][0] != 0, st = k->step[1][0] != 0, se = k->step[2][0] != 0;
    int64_t at[RT_MAX_RANK] = {0}, left = RT_WORK;
    for (int64_t row = 0; row < k->n_rows; row++) {
        for (int64_t j = 0; j < k->dim[0]; j += KN_CHUNK) {
            const int64_t n = k->dim[0] - j < KN_CHUNK ? k->dim[0] - j : KN_CHUNK;
            k->row(dtype, d + j * size, c + j * sc, t + j * st * size, e + j * se * size, n, sc, st,
                   se);
            const enum rt_status status = rt_run_spend(r, &left, n);
            if (status)
                return status;
        }
        d += k->dim[0] * size;
        for (int i = 1; i < k->rank; i++) {
            const bool wraps = ++at[i] == k->dim[i];
            const int64_t by = wraps ? 1 - k->dim[i] : 1;
            c += by * k->step[0][i];
            t += by * k->step[1][i] * size;
            e += by * k->step[2][i] * size;
            if (!wraps)
                break;
            at[i] = 0;
        }
    }
    return RT_OK;
}

static void may_overwrite(struct rt_infer *x)
{
    for (int k = 2; k >= 1; k--)
        if (kn_shape_known(&x->out[0].shape) && kn_shape_eq(&x->in[k].shape, &x->out[0].shape))
            x->alias[0] = (int8_t)k;
}

static enum rt_status select_v2_infer(struct rt_infer *x)
{
    const struct rt_shape *c = &x->in[0].shape, *t = &x->in[1].shape, *e = &x->in[2].shape;
    struct rt_shape te;
    char tc[160], tt[160], text[160];
    if (kn_broadcast(&te, t, e, NULL) || kn_broadcast(&x->out[0].shape, &te, c, NULL))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "condition %s, then %s, and else %s must be broadcastable",
                       rt_shape_text(tc, sizeof tc, c->rank, c->dim),
                       rt_shape_text(tt, sizeof tt, t->rank, t->dim),
                       rt_shape_text(text, sizeof text, e->rank, e->dim));
    may_overwrite(x);
    return RT_OK;
}

static enum rt_status select_v2_prepare(struct rt_prep *p, void **state)
{
    const struct rt_shape *const in[3] = {&p->in[0].shape, &p->in[1].shape, &p->in[2].shape};
    return make_plan(p, in, state);
}

/* Select does not broadcast its inputs. The condition must have the shape of the other two inputs,
 * be a scalar, or be a vector that selects complete rows. */
static enum rt_status select_infer(struct rt_infer *x)
{
    const struct rt_shape *c = &x->in[0].shape, *t = &x->in[1].shape, *e = &x->in[2].shape;
    char one[160], two[160];
    if (!kn_shape_known(c) || !kn_shape_known(t) || !kn_shape_known(e))
        return RT_OK;
    if (!kn_shape_eq(t, e))
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "'then' and 'else' must have the same size.  but received: %s vs. %s",
                       rt_shape_text(one, sizeof one, t->rank, t->dim),
                       rt_shape_text(two, sizeof two, e->rank, e->dim));
    if (c->rank != 0 && !kn_shape_eq(c, t)) {
        if (c->rank != 1)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "'cond' must be a vector, but saw shape: %s",
                           rt_shape_text(one, sizeof one, c->rank, c->dim));
        if (t->rank == 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "'then' must be at least a vector, but saw shape: []");
        if (t->dim[0] != c->dim[0])
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Number of batches of 'then' must match size of 'cond', but saw: %lld "
                           "vs. %lld",
                           (long long)t->dim[0], (long long)c->dim[0]);
    }
    x->out[0].shape = *t;
    may_overwrite(x);
    return RT_OK;
}

static enum rt_status select_prepare(struct rt_prep *p, void **state)
{
    struct rt_shape c = p->in[0].shape;
    if (c.rank == 1) { /* a condition that is a vector selects complete rows */
        c.rank = p->in[1].shape.rank;
        for (int i = 1; i < c.rank; i++)
            c.dim[i] = 1;
    }
    const struct rt_shape *const in[3] = {&c, &p->in[1].shape, &p->in[2].shape};
    return make_plan(p, in, state);
}

/* Marks the op as row-wise. A condition with one value per row lies along axis 0 of the other
 * inputs. */
static void select_rows(struct rt_rows *r)
{
    if (r->in[0].shape.rank != 1 || r->in[1].shape.rank == 1) {
        rt_rows_each(r);
        return;
    }
    for (int k = 0; k < 3; k++)
        if (r->in_dep[k].kind != RT_DEP_ROWS || r->in_dep[k].axis != 0)
            return;
    r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, 0};
}

const struct kn_entry kn_select = {
    .op = {.name = "Select", .infer = select_infer, .rows = select_rows},
    .kernels = KN_CPU("Select", "select", 0, select_prepare, select_run),
};
const struct kn_entry kn_select_v2 = {
    .op = {.name = "SelectV2", .infer = select_v2_infer, .rows = rt_rows_each},
    .kernels = KN_CPU("SelectV2", "select_v2", 0, select_v2_prepare, select_run),
};

/* ---- ClipByValue ---- */

/* If the lower bound is greater than the upper bound, the result is the lower bound. NaN stays
 * NaN. */
#define CLIP_ROW(dt, T, NAME)                                                                      \
    KN_FAST(dt)                                                                                    \
    static void NAME##_##dt(void *dst, const void *src, const void *low, const void *high,         \
                            int64_t n, int64_t sl, int64_t sh)                                     \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *s = src, *l = low, *h = high;                                                     \
        if (!sl && !sh && n) {                                                                     \
            const KN_C(dt) lo = KN_GET(dt, l[0]), hi = KN_GET(dt, h[0]);                           \
            KN_IVDEP                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                KN_C(dt) x = KN_GET(dt, s[i]);                                                     \
                x = hi < x ? hi : x;                                                               \
                d[i] = KN_PUT(dt, x < lo ? lo : x);                                                \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const KN_C(dt) lo = KN_GET(dt, l[i * sl]), hi = KN_GET(dt, h[i * sh]);                 \
            KN_C(dt) x = KN_GET(dt, s[i]);                                                         \
            x = hi < x ? hi : x;                                                                   \
            d[i] = KN_PUT(dt, x < lo ? lo : x);                                                    \
        }                                                                                          \
    }
KN_FOR_REALS(CLIP_ROW, clip)

static enum rt_status clip_infer(struct rt_infer *x)
{
    const struct rt_shape *t = &x->in[0].shape;
    x->out[0].shape = *t;
    x->alias[0] = 0;
    for (int k = 1; k < 3; k++) {
        const struct rt_shape *b = &x->in[k].shape;
        if (!kn_shape_known(t) || !kn_shape_known(b) || b->rank == 0 || kn_shape_eq(b, t))
            continue;
        char text[3][120];
        for (int j = 0; j < 3; j++)
            rt_shape_text(text[j], sizeof text[j], x->in[j].shape.rank, x->in[j].shape.dim);
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "clip_value_min and clip_value_max must be either of the same shape as "
                       "input, or a scalar. input shape: %sclip_value_min shape: "
                       "%sclip_value_max shape: %s",
                       text[0], text[1], text[2]);
    }
    return RT_OK;
}

static enum rt_status clip_run(struct rt_run *r)
{
    const struct rt_tensor *in = r->in;
    const int64_t n = rt_tensor_count(&in[0]), sl = in[1].rank > 0, sh = in[2].rank > 0;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i += KN_CHUNK) {
        const int64_t some = n - i < KN_CHUNK ? n - i : KN_CHUNK;
        switch (in[0].dtype) {
#define X(dt, T, NAME)                                                                             \
    case dt:                                                                                       \
        NAME##_##dt((T *)r->out[0].data + i, (const T *)in[0].data + i,                            \
                    (const T *)in[1].data + i * sl, (const T *)in[2].data + i * sh, some, sl, sh); \
        break;
            KN_FOR_REALS(X, clip)
#undef X
        }
        if (n > KN_CHUNK)
            st = rt_run_check(r);
    }
    return st;
}

const struct kn_entry kn_clip_by_value = {
    .op = {.name = "ClipByValue", .infer = clip_infer, .rows = rt_rows_each},
    .kernels = KN_CPU("ClipByValue", "clip_by_value", KN_SET(KN_REALS), NULL, clip_run),
};
