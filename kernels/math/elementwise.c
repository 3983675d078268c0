#include "kernels/math/elementwise.h"

#include <stdatomic.h>
#include <string.h>

#include "kernels/cpu/parallel.h"

/* ---- shapes ---- */

bool kn_shape_known(const struct rt_shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0)
            return false;
    return s->rank >= 0;
}

bool kn_shape_eq(const struct rt_shape *a, const struct rt_shape *b)
{
    return a->rank == b->rank &&
           (a->rank <= 0 || memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0);
}

int64_t kn_shape_count(const struct rt_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

enum rt_status kn_infer_same(struct rt_infer *x)
{
    for (int k = 0; k < x->n_out; k++) {
        x->out[k].shape = x->in[0].shape;
        if (k == 0 && x->out[k].dtype == x->in[0].dtype)
            x->alias[k] = 0;
    }
    return RT_OK;
}

enum rt_status kn_broadcast(struct rt_shape *out, const struct rt_shape *a,
                            const struct rt_shape *b, struct rt_error *err)
{
    out->rank = -1;
    if (a->rank < 0 || b->rank < 0)
        return RT_OK;
    const int rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 0; i < rank; i++) {
        const int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        const int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
        if (da == 1 || da == db) {
            out->dim[i] = db;
        } else if (db == 1) {
            out->dim[i] = da;
        } else if (da < 0 || db < 0) {
            /* In a run, the unknown dimension must be 1 or equal the known dimension. */
            out->dim[i] = da >= 0 ? da : db;
        } else {
            char ta[160], tb[160];
            return rt_fail(err, RT_INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s",
                           rt_shape_text(ta, sizeof ta, a->rank, a->dim),
                           rt_shape_text(tb, sizeof tb, b->rank, b->dim));
        }
    }
    out->rank = rank;
    return RT_OK;
}

enum rt_status kn_infer_broadcast(struct rt_infer *x)
{
    struct rt_info *out = &x->out[0];
    const enum rt_status st = kn_broadcast(&out->shape, &x->in[0].shape, &x->in[1].shape, x->err);
    if (st)
        return st;
    for (int k = 1; k >= 0; k--)
        if (x->in[k].dtype == out->dtype && kn_shape_eq(&x->in[k].shape, &out->shape))
            x->alias[0] = (int8_t)k;
    return RT_OK;
}

/* ---- one input ---- */

enum rt_status kn_map_prepare(struct rt_prep *p, const struct kn_map *op, void **state)
{
    kn_map_row **row = rt_prep_alloc(p, sizeof *row);
    if (!row)
        return p->err->code;
    *row = op->row[p->in[0].dtype];
    *state = row;
    return RT_OK;
}

/* Shards begin at multiples of STEP elements, so that vectors begin at the same elements as in an
 * unsharded run. */
enum {
    STEP = 64,
    MAP_COST = 4, /* cost per element of any op, in units of rt_run_spend */
};

static enum rt_status map_shard(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    kn_map_row *const *row = r->state;
    const size_t size_in = rt_dtype_size((enum rt_dtype)r->in[0].dtype);
    const size_t size_out = rt_dtype_size((enum rt_dtype)r->out[0].dtype);
    int64_t n = to - from;
    (void)arg;
    if (n == 0) /* empty tensors may have NULL data */
        return RT_OK;
    const char *s = (const char *)r->in[0].data + (size_t)from * size_in;
    char *d = (char *)r->out[0].data + (size_t)from * size_out;
    for (; n > KN_CHUNK; n -= KN_CHUNK) {
        (*row)(d, s, KN_CHUNK);
        s += KN_CHUNK * size_in;
        d += KN_CHUNK * size_out;
        if (rt_run_check(r))
            return r->err->code;
    }
    (*row)(d, s, n);
    return RT_OK;
}

enum rt_status kn_map_run(struct rt_run *r)
{
    const int64_t n = rt_tensor_count(&r->in[0]);
    if (!n)
        return RT_OK; /* empty tensors may have NULL data */
    if (!rt_dtype_is_plain((enum rt_dtype)r->in[0].dtype))
        return map_shard(r, NULL, 0, n);
    return kn_parallel_rows(r, n, MAP_COST, STEP, map_shard, NULL);
}

/* ---- two inputs ---- */

/*
 * The state of a broadcast binary op, which runs as nested loops. Loops are ordered innermost
 * first. Neighbouring axes are merged if each input is broadcast along both or along neither.
 * Strides are in bytes, but the row function receives 0 or 1 for the innermost loop's strides.
 */
struct plan {
    kn_binary_row *row;
    const struct kn_refusal *refusal;
    int64_t n_rows; /* product of dim[1] and all later dimensions, or 0 if there are no elements */
    /* If `repeats` is positive, b is one short row that is broadcast to all rows of a, and
     * walk_short_rows processes `repeats` rows at a time. */
    int64_t repeats;
    int64_t sa0, sb0, row_bytes;
    int64_t cost;  /* cost per element, in units of rt_run_spend */
    int64_t chunk; /* maximum number of elements that `row` may compute between two checks */
    int rank;
    int64_t dim[RT_MAX_RANK], sa[RT_MAX_RANK], sb[RT_MAX_RANK];
};

enum {
    SHORT_ROW = 128,
    LINE_BYTES = 4096,
    /* cost per element of any op on real numbers, in units of rt_run_spend */
    COST = 8,
    COMPLEX_COST = 64,
};

enum rt_status kn_binary_prepare(struct rt_prep *p, const struct kn_binary *op, void **state)
{
    struct plan *k = rt_prep_alloc(p, sizeof *k);
    if (!k)
        return p->err->code;
    struct rt_shape o;
    const struct rt_shape *a = &p->in[0].shape, *b = &p->in[1].shape;
    const enum rt_status st = kn_broadcast(&o, a, b, p->err);
    if (st)
        return st;
    const int64_t size_a = (int64_t)rt_dtype_size(p->in[0].dtype);
    const int64_t size_b = (int64_t)rt_dtype_size(p->in[1].dtype);
    int64_t na = 1, nb = 1, count = 1;
    k->row = op->row[p->in[0].dtype];
    k->refusal = op->refusal;
    const bool is_complex = p->in[0].dtype == RT_C64 || p->in[0].dtype == RT_C128;
    k->cost = op->work ? op->work : is_complex ? COMPLEX_COST : COST;
    k->chunk = op->work ? RT_WORK / op->work + 1 : KN_CHUNK;
    for (int i = o.rank - 1; i >= 0; i--) {
        const int ia = i - (o.rank - a->rank), ib = i - (o.rank - b->rank), last = k->rank - 1;
        const int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib], n = o.dim[i];
        count *= n;
        if (n == 1)
            continue;
        const int64_t sa = da == 1 ? 0 : na * size_a, sb = db == 1 ? 0 : nb * size_b;
        if (k->rank && !sa == !k->sa[last] && !sb == !k->sb[last]) {
            k->dim[last] *= n;
        } else {
            k->dim[k->rank] = n;
            k->sa[k->rank] = sa;
            k->sb[k->rank] = sb;
            k->rank++;
        }
        na *= da;
        nb *= db;
    }
    if (k->rank == 0) {
        k->rank = 1;
        k->dim[0] = k->sa[0] = k->sb[0] = 1;
    }
    k->sa0 = k->sa[0] != 0;
    k->sb0 = k->sb[0] != 0;
    k->row_bytes = k->dim[0] * (int64_t)rt_dtype_size(p->out[0].dtype);
    k->n_rows = count ? count / k->dim[0] : 0;
    if (k->rank == 2 && k->sa0 && k->sb0 && k->sa[1] && !k->sb[1] && k->dim[0] <= SHORT_ROW)
        k->repeats = LINE_BYTES / (k->dim[0] * size_b);
    *state = k;
    return RT_OK;
}

/* Computes several short rows at a time, such as the three channels of an image's pixels, because
 * one call per row would cost more than the row's arithmetic. */
static enum rt_status walk_short_rows(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct plan *k = r->state;
    _Alignas(64) char line[LINE_BYTES];
    const size_t size = (size_t)k->dim[0] * rt_dtype_size((enum rt_dtype)r->in[1].dtype);
    const int64_t lines = k->repeats < to - from ? k->repeats : to - from;
    const char *a = (const char *)r->in[0].data + from * k->sa[1];
    char *d = (char *)r->out[0].data + from * k->row_bytes;
    int64_t left = RT_WORK;
    bool good = true;
    for (int64_t i = 0; i < lines; i++)
        memcpy(line + (size_t)i * size, r->in[1].data, size);
    for (int64_t row = from; row < to; row += lines) {
        const int64_t n = to - row < lines ? to - row : lines;
        good &= k->row(d, a, line, n * k->dim[0], 1, 1);
        a += n * k->sa[1];
        d += n * k->row_bytes;
        if (rt_run_spend(r, &left, k->cost * n * k->dim[0]))
            return r->err->code;
    }
    if (!good)
        atomic_store((atomic_bool *)arg, true);
    return RT_OK;
}

/* Computes elements [from, to) of one row in chunks. */
static enum rt_status walk_row(struct rt_run *r, const struct plan *k, char *d, const char *a,
                               const char *b, int64_t from, int64_t to, int64_t *left, bool *good)
{
    const int64_t size_a = (int64_t)rt_dtype_size((enum rt_dtype)r->in[0].dtype);
    const int64_t size_b = (int64_t)rt_dtype_size((enum rt_dtype)r->in[1].dtype);
    const int64_t size_d = (int64_t)rt_dtype_size((enum rt_dtype)r->out[0].dtype);
    for (int64_t i = from; i < to; i += k->chunk) {
        const int64_t n = to - i < k->chunk ? to - i : k->chunk;
        *good &= k->row(d + i * size_d, a + i * size_a * k->sa0, b + i * size_b * k->sb0, n, k->sa0,
                        k->sb0);
        if (rt_run_spend(r, left, k->cost * n))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status walk_only_row(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    int64_t left = RT_WORK;
    bool good = true;
    const enum rt_status st =
        walk_row(r, r->state, r->out[0].data, r->in[0].data, r->in[1].data, from, to, &left, &good);
    if (!good)
        atomic_store((atomic_bool *)arg, true);
    return st;
}

static enum rt_status walk_rows(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct plan *k = r->state;
    const char *a = r->in[0].data, *b = r->in[1].data;
    char *d = (char *)r->out[0].data + from * k->row_bytes;
    int64_t at[RT_MAX_RANK] = {0}, left = RT_WORK, index = from;
    bool good = true;
    for (int i = 1; i < k->rank && index; i++) {
        at[i] = index % k->dim[i];
        index /= k->dim[i];
        a += at[i] * k->sa[i];
        b += at[i] * k->sb[i];
    }
    for (int64_t row = from; row < to; row++) {
        if (k->dim[0] <= k->chunk) {
            good &= k->row(d, a, b, k->dim[0], k->sa0, k->sb0);
            if (rt_run_spend(r, &left, k->cost * k->dim[0]))
                return r->err->code;
        } else if (walk_row(r, k, d, a, b, 0, k->dim[0], &left, &good)) {
            return r->err->code;
        }
        d += k->row_bytes;
        for (int i = 1; i < k->rank; i++) { /* advances the index `at` to the next row */
            a += k->sa[i];
            b += k->sb[i];
            if (++at[i] < k->dim[i])
                break;
            a -= k->sa[i] * k->dim[i];
            b -= k->sb[i] * k->dim[i];
            at[i] = 0;
        }
    }
    if (!good)
        atomic_store((atomic_bool *)arg, true);
    return RT_OK;
}

enum rt_status kn_binary_walk(struct rt_run *r, bool *all_good)
{
    const struct plan *k = r->state;
    atomic_bool bad = false;
    enum rt_status st;

    if (k->repeats)
        st = kn_parallel_rows(r, k->n_rows, 2 * k->dim[0], k->repeats, walk_short_rows, &bad);
    else if (k->n_rows == 1)
        st = kn_parallel_rows(r, k->dim[0], 2, STEP, walk_only_row, &bad);
    else
        st = kn_parallel_rows(r, k->n_rows, 2 * k->dim[0], 1, walk_rows, &bad);
    if (!st)
        *all_good = !atomic_load(&bad);
    return st;
}

enum rt_status kn_binary_run(struct rt_run *r)
{
    bool good = true;
    const enum rt_status st = kn_binary_walk(r, &good);
    if (st || good)
        return st;
    const struct kn_refusal *f = ((const struct plan *)r->state)->refusal;
    return rt_fail(r->err, f->code, "%s", f->text);
}
