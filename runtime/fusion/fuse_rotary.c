/*
 * Finds rotary position embedding in the forms that exporters generate, and replaces it with one
 * "_Rotary" (rotary.h):
 *
 *   y = x * cos + r * sin, r = rotate(x)
 *   r = ConcatV2(-b, a, -1)                 a, b = Split(x, 2, -1)              HuggingFace's ESM
 *                                           a, b = x[..., :half], x[..., half:] Llama
 *   r = Reshape(Pack(-b, a, -2), Shape(x))  a, b as above                       KerasHub
 *   r = Reshape(Pack(-b, a, -1), Shape(x))  a, b = x[..., ::2], x[..., 1::2]    GPT-J, RoFormer
 *
 * Factors and terms may come in either order. The shape may be that of the Pack except for its last
 * axes, and lengths in the shape may be constants. In this case, an x with other lengths is
 * refused, but exporters never produce such an x.
 */
#include "runtime/fusion/fuse.h"

#include <string.h>

#include "runtime/fusion/rotary.h"

struct rotary {
    struct pl_cluster nodes;
    struct pl_edge x;
    struct rt_rotary op;
    int64_t dims[RT_MAX_RANK]; /* op.dims becomes a copy of this array in the arena. */
};

static void take(struct rotary *m, struct pl_edge e)
{
    pl_cluster_take(&m->nodes, e);
}

/* Requires x to have `rank` axes, of any length. Returns false if x must have another rank. */
static bool needs_rank(struct rotary *m, int rank)
{
    if (m->op.dims.n)
        return m->op.dims.n == (size_t)rank;
    for (int k = 0; k < rank; k++)
        m->dims[k] = -1;
    m->op.dims.n = (size_t)rank;
    return true;
}

/* ---- the two parts of x ---- */

/* Returns whether e consists of the elements first:end:step of x's last axis. *end is -1 for all
 * elements from *first on. The form x[:, :, first:] also determines x's number of axes. */
static bool is_part(struct rotary *m, struct pl_edge e, int64_t *first, int64_t *end, int64_t *step)
{
    const struct pl_graph *g = m->nodes.g;
    const struct pl_node *n = pl_float_by(g, e, "StridedSlice", 4);
    int64_t from[RT_MAX_RANK], to[RT_MAX_RANK], by[RT_MAX_RANK];
    const int rank = n ? pl_some_ints(g, n->in[1], from) : -1;

    if (rank < 2 || pl_some_ints(g, n->in[2], to) != rank ||
        pl_some_ints(g, n->in[3], by) != rank || rt_attr_int(n->def, "new_axis_mask") ||
        rt_attr_int(n->def, "shrink_axis_mask"))
        return false;
    const int64_t begins = rt_attr_int(n->def, "begin_mask"),
                  ends = rt_attr_int(n->def, "end_mask");
    const int64_t dots = rt_attr_int(n->def, "ellipsis_mask"), last = INT64_C(1) << (rank - 1);
    if (dots && (dots != 1 || rank != 2))
        return false;
    for (int k = 0; k < rank - 1 && !dots; k++)
        if (by[k] != 1 || !(begins >> k & 1) || !(ends >> k & 1))
            return false;
    if (!dots && !needs_rank(m, rank))
        return false;
    *first = begins & last ? 0 : from[rank - 1];
    *end = ends & last ? -1 : to[rank - 1];
    *step = by[rank - 1];
    m->x = n->in[0];
    take(m, e);
    return *first >= 0 && (*end >= 0 || ends & last);
}

/* Returns whether a and b are the two halves of x's last axis. */
static bool are_halves(struct rotary *m, struct pl_edge a, struct pl_edge b)
{
    const struct pl_graph *g = m->nodes.g;
    const struct pl_node *split = &g->node[a.node];
    int64_t axis, first, end, step, second, rest, step_too;

    if (a.node == b.node) {
        if (a.out != 0 || b.out != 1 || !pl_is(split, "Split") || split->n_in != 2 ||
            split->n_ctrl || split->def->n_out != 2 || split->def->out_dtype[0] != RT_F32 ||
            !pl_int_constant(g, split->in[0], &axis) || axis != -1)
            return false;
        m->x = split->in[1];
        take(m, a);
        return true;
    }
    if (!is_part(m, a, &first, &end, &step))
        return false;
    const struct pl_edge x = m->x;
    if (!is_part(m, b, &second, &rest, &step_too) || !pl_same(m->x, x) || first != 0 || end < 1 ||
        second != end || rest != -1 || step != 1 || step_too != 1)
        return false;
    m->op.half = end;
    return true;
}

/* Returns whether a consists of the elements at even indexes of x's last axis, and b of the
 * elements at odd indexes. */
static bool are_interleaved(struct rotary *m, struct pl_edge a, struct pl_edge b)
{
    int64_t first, end, step, second, rest, step_too;

    if (a.node == b.node || !is_part(m, a, &first, &end, &step))
        return false;
    const struct pl_edge x = m->x;
    m->op.interleaved = true;
    return is_part(m, b, &second, &rest, &step_too) && pl_same(m->x, x) && first == 0 &&
           end == -1 && second == 1 && rest == -1 && step == 2 && step_too == 2;
}

/* ---- the shape that a Pack is reshaped to ---- */

/* Returns whether e is the length of axis `axis` of x. If `pack` is not pl_no_edge, e may also be
 * the length of this axis of the Pack. */
static bool is_axis(struct rotary *m, struct pl_edge e, struct pl_edge pack, int64_t axis)
{
    const struct pl_graph *g = m->nodes.g;
    int64_t at, end, step;
    const struct pl_node *n = pl_made_by(g, e, "StridedSlice", 4);
    const struct pl_node *shape = n ? pl_made_by(g, n->in[0], "Shape", 1) : NULL;

    if (!shape || !pl_ints_constant(g, n->in[1], 1, &at) ||
        !pl_ints_constant(g, n->in[2], 1, &end) || !pl_ints_constant(g, n->in[3], 1, &step) ||
        at != axis || end != at + 1 || step != 1 || rt_attr_int(n->def, "shrink_axis_mask") != 1 ||
        rt_attr_int(n->def, "begin_mask") || rt_attr_int(n->def, "end_mask") ||
        rt_attr_int(n->def, "new_axis_mask") || rt_attr_int(n->def, "ellipsis_mask"))
        return false;
    if (pl_same(shape->in[0], m->x))
        return true;
    if (!pl_same(shape->in[0], pack))
        return false;
    /* e and its Shape read the Pack, which is removed, so they belong to the pattern too. */
    take(m, e);
    take(m, n->in[0]);
    return true;
}

/* Returns whether `shape` is the shape of x. All axes of the Pack, except its last two, have the
 * same lengths in x, so `shape` may read these lengths from either tensor. */
static bool is_shape_of_x(struct rotary *m, struct pl_edge shape, struct pl_edge pack)
{
    const struct pl_graph *g = m->nodes.g;
    const struct pl_node *n = pl_made_by(g, shape, "Shape", 1);
    int64_t dim[RT_MAX_RANK];
    int rank = pl_some_ints(g, shape, dim);

    if (n)
        return pl_same(n->in[0], m->x);
    if (rank > 0) {
        if (!needs_rank(m, rank))
            return false;
        memcpy(m->dims, dim, (size_t)rank * sizeof *dim);
        return true;
    }
    n = &g->node[shape.node];
    rank = n->n_in;
    if (!pl_is(n, "Pack") || shape.out != 0 || n->n_ctrl || rank < 2 || rank > RT_MAX_RANK ||
        rt_attr_int(n->def, "axis") != 0 || !needs_rank(m, rank))
        return false;
    for (int k = 0; k < rank; k++) {
        const bool is_constant = pl_int_constant(g, n->in[k], &m->dims[k]);
        if (!is_constant && !is_axis(m, n->in[k], k < rank - 1 ? pack : pl_no_edge, k))
            return false;
    }
    /* If the Pack has a second reader, this reader may compute a length in `shape` from the Pack.
     * `shape` is then part of the pattern. */
    if (m->nodes.uses->n[pack.node] > 1)
        take(m, shape);
    return true;
}

/* ---- the complete pattern ---- */

/* Returns whether e is the negation of *part. */
static bool is_negated(struct rotary *m, struct pl_edge e, struct pl_edge *part)
{
    const struct pl_node *n = pl_float_by(m->nodes.g, e, "Neg", 1);
    if (!n)
        return false;
    *part = n->in[0];
    take(m, e);
    return true;
}

static bool is_rotated(struct rotary *m, struct pl_edge e)
{
    const struct pl_graph *g = m->nodes.g;
    const struct pl_node *n = pl_float_by(g, e, "ConcatV2", 3);
    struct pl_edge b;
    int64_t axis;

    take(m, e);
    if (n)
        return pl_int_constant(g, n->in[2], &axis) && axis == -1 && is_negated(m, n->in[0], &b) &&
               are_halves(m, n->in[1], b);
    n = pl_float_by(g, e, "Reshape", 2);
    const struct pl_node *pack = n ? pl_float_by(g, n->in[0], "Pack", 2) : NULL;
    if (!pack || !is_negated(m, pack->in[0], &b))
        return false;
    take(m, n->in[0]);
    axis = rt_attr_int(pack->def, "axis");
    return ((axis == -2 && are_halves(m, pack->in[1], b)) ||
            (axis == -1 && are_interleaved(m, pack->in[1], b))) &&
           is_shape_of_x(m, n->in[1], n->in[0]);
}

/* Returns whether node i adds `x * cos` to `rotate(x) * sin`. */
static bool find(struct rotary *m, const struct pl_graph *g, int i, const struct pl_uses *uses,
                 struct pl_edge in[RT_ROTARY_N_IN])
{
    const struct pl_node *sum = pl_float_sum(g, (struct pl_edge){i, 0});

    for (int way = 0; sum && way < 8; way++) {
        const struct pl_edge transposed = sum->in[way & 1], plain = sum->in[1 - (way & 1)];
        const struct pl_node *by_sin = pl_float_by(g, transposed, "Mul", 2);
        const struct pl_node *by_cos = pl_float_by(g, plain, "Mul", 2);
        const int r = way >> 1 & 1, x = way >> 2 & 1;
        if (!by_sin || !by_cos)
            return false;
        *m = (struct rotary){.nodes = pl_cluster_from(g, uses, i)};
        take(m, transposed);
        take(m, plain);
        if (!is_rotated(m, by_sin->in[r]) || !pl_same(by_cos->in[x], m->x) ||
            !pl_cluster_is_closed(&m->nodes))
            continue;
        in[RT_ROTARY_X] = m->x;
        in[RT_ROTARY_COS] = by_cos->in[1 - x];
        in[RT_ROTARY_SIN] = by_sin->in[1 - r];
        return true;
    }
    return false;
}

enum rt_status pl_fuse_rotaries(struct pl_graph *g, struct rt_error *err)
{
    struct pl_edge in[RT_ROTARY_N_IN];
    struct pl_uses uses;
    bool found = false;

    if (!rt_registry_op(g->session->options.registry, "_Rotary"))
        return RT_OK;
    enum rt_status st = pl_uses_count(&uses, g, err);
    for (int i = 0; i < g->n && !st; i++) {
        struct rotary m;
        if (!find(&m, g, i, &uses, in))
            continue;
        int64_t *dims = rt_arena_array(g->arena, m.op.dims.n + 1, sizeof *dims);
        if (!dims) {
            st = rt_fail_memory(err, "a plan", 0);
            break;
        }
        memcpy(dims, m.dims, m.op.dims.n * sizeof *dims);
        m.op.dims.v = dims;
        st = pl_put_fused(g, m.nodes.node, m.nodes.n, rt_rotary_op(&m.op), in, RT_ROTARY_N_IN, err);
        found = true;
    }
    pl_uses_free(&uses);
    if (found)
        pl_prune(g); /* Removes nodes that computed shapes only for the fused nodes. */
    return st;
}
