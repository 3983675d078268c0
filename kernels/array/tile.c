/* Ops that repeat values along dimensions (Tile, BroadcastTo) and ops that compute broadcast shapes
 * (BroadcastArgs, BroadcastGradientArgs). */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

/*
 * Sets the row dependence of an output that repeats an input, if only the number of repetitions
 * depends on the batch. If exactly one axis has grown from length 1 to the batch size, the rows lie
 * along this axis. If none has, the output depends on the batch size only.
 */
static void rows_made(struct rt_rows *r, int64_t (*was)(const struct rt_rows *, int))
{
    const struct rt_shape *o = &r->out[0].shape;
    int axis = -1;

    for (int i = 0; i < o->rank; i++)
        if (was(r, i) == 1 && o->dim[i] == r->n_rows) {
            if (axis >= 0)
                return;
            axis = i;
        }
    if (axis >= 0)
        kn_rows_set(r, RT_DEP_ROWS, axis);
    else
        kn_rows_set(r, RT_DEP_SIZE, 0);
}

/* ---- Tile(input, multiples) ---- */

static enum rt_status tile_infer(struct rt_infer *x)
{
    if (!kn_known(x, 2))
        return RT_OK;
    const struct rt_shape *in = &x->in[0].shape;
    const struct rt_tensor *m = x->in[1].value;
    struct rt_shape o = {.rank = in->rank};

    if (m->rank != 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Expected multiples to be 1-D, but got shape %s", KN_TEXT(m));
    if (m->dim[0] != in->rank)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Expected multiples argument to be a vector of length %d but got length "
                       "%lld",
                       in->rank, (long long)m->dim[0]);
    for (int i = 0; i < in->rank; i++) {
        const int64_t k = kn_int_at(m, i);
        if (k < 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Expected multiples[%d] >= 0, but got %lld",
                           i, (long long)k);
        if (!rt_mul(in->dim[i], k, &o.dim[i]))
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Tile: too many elements");
    }
    if (kn_shape_total(&o) < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape %s has too many elements", KN_TEXT(&o));
    x->out[0].shape = o;
    return RT_OK;
}

static enum rt_status tile_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    int64_t in[RT_MAX_RANK], out[RT_MAX_RANK];
    struct kn_walk w = {.rank = 2 * t->rank};
    struct rt_info o;
    bool once = true;
    enum rt_status st = kn_infer_now(r, tile_infer, &o);

    if (st)
        return st;
    for (int i = 0; i < t->rank; i++)
        once = once && o.shape.dim[i] == t->dim[i];
    if (once)
        return kn_view(r, 0, 0, t->rank, t->dim);
    if (!kn_out(r, 0, o.shape.rank, o.shape.dim))
        return r->err->code;
    /* The strides of an empty output may overflow, so they are not computed. */
    if (rt_tensor_count(&r->out[0]) == 0)
        return RT_OK;
    kn_strides(t->rank, t->dim, in);
    kn_strides(t->rank, o.shape.dim, out);
    for (int i = 0; i < t->rank; i++) {
        w.dim[2 * i] = kn_int_at(&r->in[1], i);
        w.dst[2 * i] = out[i] * t->dim[i];
        w.src[2 * i] = 0;
        w.dim[2 * i + 1] = t->dim[i];
        w.dst[2 * i + 1] = out[i];
        w.src[2 * i + 1] = in[i];
    }
    return kn_walk_copy(kn_dtype(t), &w, r->out[0].data, t->data, r);
}

static int64_t tile_was(const struct rt_rows *r, int i)
{
    return r->in[0].shape.dim[i];
}

static void tile_rows(struct rt_rows *r)
{
    const struct rt_tensor *m = r->in[1].value;
    const struct rt_dep d = r->in_dep[0];

    if (r->in_dep[1].kind > RT_DEP_SIZE || !m || !kn_shape_known(&r->out[0].shape)) {
        kn_rows_independent(r);
        return;
    }
    if (d.kind == RT_DEP_ROWS) {
        if (kn_int_at(m, d.axis) == 1)
            kn_rows_set(r, RT_DEP_ROWS, d.axis);
    } else if (d.kind == RT_DEP_NONE && r->in_dep[1].kind == RT_DEP_SIZE) {
        rows_made(r, tile_was);
    } else {
        kn_rows_independent(r);
    }
}

const struct kn_entry kn_tile = {
    .op = {.name = "Tile", .shape_in = 2, .infer = tile_infer, .rows = tile_rows},
    .kernels = KN_CPU("Tile", "tile", 0, NULL, tile_run),
};

/* ---- BroadcastTo(input, shape) ---- */

static enum rt_status broadcast_infer(struct rt_infer *x)
{
    struct rt_shape s;

    if (!kn_known(x, 2))
        return RT_OK;
    const struct rt_shape *in = &x->in[0].shape;
    const struct rt_tensor *t = x->in[1].value;
    if (t->rank != 1)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "shape must be a vector of {int32,int64}, got shape %s", KN_TEXT(t));
    s.rank = kn_ints(t, s.dim, RT_MAX_RANK);
    if (s.rank < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "BroadcastTo: more than %d dimensions are not supported", RT_MAX_RANK);
    for (int i = 0; i < s.rank; i++)
        if (s.dim[i] < 0)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Dimension %lld must be >= 0",
                           (long long)s.dim[i]);
    if (kn_shape_total(&s) < 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "Shape %s has too many elements", KN_TEXT(&s));
    if (in->rank > s.rank)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Rank of input (%d) must be no greater than rank of output shape (%d).",
                       in->rank, s.rank);
    for (int i = 0; i < in->rank; i++) {
        const int64_t to = s.dim[s.rank - in->rank + i];
        if (in->dim[i] != to && in->dim[i] != 1)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s",
                           KN_TEXT(in), KN_TEXT(&s));
    }
    x->out[0].shape = s;
    return RT_OK;
}

static enum rt_status broadcast_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    int64_t in[RT_MAX_RANK];
    struct rt_info o;
    enum rt_status st = kn_infer_now(r, broadcast_infer, &o);

    if (st)
        return st;
    const int rank = o.shape.rank, more = rank - t->rank;
    struct kn_walk w = {.rank = rank};
    if (kn_shape_total(&o.shape) == rt_tensor_count(t)) {
        st = kn_view(r, 0, 0, rank, o.shape.dim);
        if (more) /* TensorFlow copies the input if the rank grows, so the output is not an alias */
            r->out[0].alias_of = 0;
        return st;
    }
    if (!kn_out(r, 0, rank, o.shape.dim))
        return r->err->code;
    kn_strides(t->rank, t->dim, in);
    kn_strides(rank, o.shape.dim, w.dst);
    for (int i = 0; i < rank; i++) {
        w.dim[i] = o.shape.dim[i];
        w.src[i] = i < more || t->dim[i - more] == 1 ? 0 : in[i - more];
    }
    return kn_walk_copy(kn_dtype(t), &w, r->out[0].data, t->data, r);
}

static int64_t broadcast_was(const struct rt_rows *r, int i)
{
    const int more = r->out[0].shape.rank - r->in[0].shape.rank;

    return i < more ? 1 : r->in[0].shape.dim[i - more];
}

static void broadcast_rows(struct rt_rows *r)
{
    const struct rt_dep d = r->in_dep[0];
    const struct rt_shape *in = &r->in[0].shape, *o = &r->out[0].shape;

    if (r->in_dep[1].kind > RT_DEP_SIZE || !kn_shape_known(o) || !kn_shape_known(in)) {
        kn_rows_independent(r);
        return;
    }
    if (d.kind == RT_DEP_ROWS) {
        const int to = d.axis + o->rank - in->rank;
        if (in->dim[d.axis] == o->dim[to])
            kn_rows_set(r, RT_DEP_ROWS, to);
    } else if (d.kind == RT_DEP_NONE && r->in_dep[1].kind == RT_DEP_SIZE) {
        rows_made(r, broadcast_was);
    } else {
        kn_rows_independent(r);
    }
}

const struct kn_entry kn_broadcast_to = {
    .op = {.name = "BroadcastTo", .shape_in = 2, .infer = broadcast_infer, .rows = broadcast_rows},
    .kernels = KN_CPU("BroadcastTo", "broadcast_to", 0, NULL, broadcast_run),
};

/* ---- BroadcastArgs, BroadcastGradientArgs (s0, s1) ---- */

/* Two shapes to broadcast, both padded with leading ones to the same rank. */
struct pair {
    int rank;
    int64_t a[RT_MAX_RANK], b[RT_MAX_RANK];
};

static enum rt_status pair_of(struct rt_run *r, struct pair *p)
{
    int64_t v[2][RT_MAX_RANK];
    int n[2];

    for (int k = 0; k < 2; k++) {
        if (r->in[k].rank != 1)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "In[%d] must be a vector.%s", k,
                           KN_TEXT(&r->in[k]));
        n[k] = kn_ints(&r->in[k], v[k], RT_MAX_RANK);
        if (n[k] < 0)
            return rt_fail(r->err, RT_INVALID_ARGUMENT,
                           "%s: more than %d dimensions are not supported", r->node->schema->name,
                           RT_MAX_RANK);
    }
    p->rank = n[0] > n[1] ? n[0] : n[1];
    for (int i = 0; i < p->rank; i++) {
        const int ia = i - (p->rank - n[0]), ib = i - (p->rank - n[1]);
        p->a[i] = ia < 0 ? 1 : v[0][ia];
        p->b[i] = ib < 0 ? 1 : v[1][ib];
        if (p->a[i] != p->b[i] && p->a[i] != 1 && p->b[i] != 1) {
            struct rt_shape s[2] = {{.rank = n[0]}, {.rank = n[1]}};
            memcpy(s[0].dim, v[0], sizeof v[0]);
            memcpy(s[1].dim, v[1], sizeof v[1]);
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s",
                           KN_TEXT(&s[0]), KN_TEXT(&s[1]));
        }
    }
    return RT_OK;
}

static enum rt_status args_infer(struct rt_infer *x)
{
    if (!kn_known(x, 0) || x->in[0].shape.rank != 1 || x->in[1].shape.rank != 1)
        return RT_OK;
    const int64_t a = x->in[0].shape.dim[0], b = x->in[1].shape.dim[0];
    kn_set_vector(&x->out[0], a > b ? a : b);
    return RT_OK;
}

static enum rt_status args_run(struct rt_run *r)
{
    struct pair p;
    enum rt_status st = pair_of(r, &p);

    if (st)
        return st;
    const int64_t n = p.rank;
    if (!kn_out(r, 0, 1, &n))
        return r->err->code;
    for (int i = 0; i < p.rank; i++)
        kn_put_int(&r->out[0], i, p.a[i] == 1 ? p.b[i] : p.a[i]);
    return RT_OK;
}

const struct kn_entry kn_broadcast_args = {
    .op = {.name = "BroadcastArgs", .infer = args_infer, .rows = NULL},
    .kernels = KN_CPU("BroadcastArgs", "broadcast_args", 0, NULL, args_run),
};

/* Finds the axes over which the gradient of each argument is summed. An axis along which both
 * shapes have length 1 is listed for both arguments, unless the shapes are equal. */
static enum rt_status gradient_run(struct rt_run *r)
{
    int64_t axis[2][RT_MAX_RANK], n[2] = {0, 0};
    struct pair p;
    enum rt_status st = pair_of(r, &p);

    if (st)
        return st;
    bool same = r->in[0].dim[0] == r->in[1].dim[0];
    for (int i = 0; i < p.rank; i++)
        same = same && p.a[i] == p.b[i];
    for (int i = 0; !same && i < p.rank; i++) {
        if (p.a[i] == 1)
            axis[0][n[0]++] = i;
        if (p.b[i] == 1)
            axis[1][n[1]++] = i;
    }
    for (int k = 0; k < 2; k++) {
        if (!kn_out(r, k, 1, &n[k]))
            return r->err->code;
        for (int64_t i = 0; i < n[k]; i++)
            kn_put_int(&r->out[k], i, axis[k][i]);
    }
    return RT_OK;
}

const struct kn_entry kn_broadcast_gradient_args = {
    .op = {.name = "BroadcastGradientArgs"},
    .kernels = KN_CPU("BroadcastGradientArgs", "broadcast_gradient_args", 0, NULL, gradient_run),
};
