/*
 * Simplifies attention masks in the forms that Keras generates, so that the masks do not depend on
 * the scores:
 *
 *   If a mask is combined (LogicalAnd) with ones in the shape of the scores, the ones are removed,
 *   because the selection broadcasts the mask anyway.
 *
 *   If the lengths of a mask come from the shape of the scores (a causal mask), they are read from
 *   the shapes of queries and keys instead.
 */
#include "runtime/fusion/fuse.h"

#include <string.h>

/* Returns whether e is `Fill(Shape(of), true)`. */
static bool is_all_true(const struct pl_graph *g, struct pl_edge e, struct pl_edge of)
{
    const struct pl_node *fill = pl_made_by(g, e, "Fill", 2);
    const struct pl_node *shape = fill ? pl_made_by(g, fill->in[0], "Shape", 1) : NULL;
    const struct rt_tensor *t = fill ? pl_constant(g, fill->in[1]) : NULL;
    return shape && pl_same(shape->in[0], of) && t && t->dtype == RT_BOOL && t->rank == 0 &&
           !rt_tensor_is_lazy(t) && *(const bool *)t->data;
}

static bool drop_ones(struct pl_graph *g)
{
    bool changed = false;

    for (int i = 0; i < g->n; i++) {
        struct pl_node *n = &g->node[i];
        if (!pl_is(n, "SelectV2") || n->n_in != 3)
            continue;
        const struct pl_node *both = pl_made_by(g, n->in[0], "LogicalAnd", 2);
        for (int k = 0; both && k < 2; k++)
            if (is_all_true(g, both->in[k], n->in[1]) || is_all_true(g, both->in[k], n->in[2])) {
                n->in[0] = both->in[1 - k];
                changed = true;
                break;
            }
    }
    return changed;
}

/* ---- shapes of scores ---- */

/* Returns whether e is Einsum(q, k) and axis `at` of e is an axis of q or k. Sets *whose to q or k,
 * and *axis to that axis. */
static bool is_axis_of_einsum(const struct pl_graph *g, struct pl_edge e, int at,
                              struct pl_edge *whose, int *axis)
{
    const struct pl_node *scores = pl_float_by(g, e, "Einsum", 2);
    const struct rt_span eq = scores ? rt_attr_str(scores->def, "equation") : (struct rt_span){0};
    if (eq.n != 15 || memchr(eq.p, '.', eq.n))
        return false;
    /* The equation has the form "abcd,efgh->ijkl". */
    for (int k = 0; k < 2; k++) {
        const char *const letters = (const char *)eq.p + 5 * k;
        const char *const found = memchr(letters, eq.p[11 + at], 4);
        if (found) {
            *whose = scores->in[k];
            *axis = (int)(found - letters);
            return true;
        }
    }
    return false;
}

/* Works like is_axis_of_einsum, but for a matrix product of transposed q and k. The Transposes show
 * that q and k have four axes. Only the last two axes of e can be found. *axis is an axis of a
 * Transpose's input. */
static bool is_axis_of_matmul(const struct pl_graph *g, struct pl_edge e, int at,
                              struct pl_edge *whose, int *axis)
{
    int64_t perm[2][RT_MAX_RANK];
    struct pl_edge from[2];
    const struct pl_node *scores = pl_float_by(g, e, "BatchMatMulV2", 2);
    if (!scores || at < 2 || rt_attr_bool(scores->def, "adj_x"))
        return false;
    for (int k = 0; k < 2; k++) {
        const struct pl_node *transposed = pl_float_by(g, scores->in[k], "Transpose", 2);
        if (!transposed || pl_some_ints(g, transposed->in[1], perm[k]) != 4)
            return false;
        from[k] = transposed->in[0];
    }
    const int64_t of = perm[at - 2][at == 3 && rt_attr_bool(scores->def, "adj_y") ? 2 : at];
    *whose = from[at - 2];
    *axis = (int)of;
    return of >= 0 && of < 4;
}

/* Returns whether node i reads one length from the shape of the scores. Sets *whose to the queries
 * or the keys, depending on which of them has an axis of this length, and *axis to that axis. */
static bool is_axis_of_scores(const struct pl_graph *g, int i, struct pl_edge *whose, int *axis)
{
    int64_t at, end, step;
    float factor;
    const struct pl_node *n = pl_made_by(g, (struct pl_edge){i, 0}, "StridedSlice", 4);
    const struct pl_node *shape = n ? pl_made_by(g, n->in[0], "Shape", 1) : NULL;

    if (!shape || n->def->in_dtype[1] != RT_I32 || !pl_ints_constant(g, n->in[1], 1, &at) ||
        !pl_ints_constant(g, n->in[2], 1, &end) || !pl_ints_constant(g, n->in[3], 1, &step) ||
        at < 0 || at >= 4 || end != at + 1 || step != 1 ||
        rt_attr_int(n->def, "shrink_axis_mask") != 1 || rt_attr_int(n->def, "begin_mask") ||
        rt_attr_int(n->def, "end_mask") || rt_attr_int(n->def, "new_axis_mask") ||
        rt_attr_int(n->def, "ellipsis_mask"))
        return false;
    /* The graph may scale the scores before it reads their shape. */
    struct pl_edge e = shape->in[0];
    const struct pl_node *by = pl_float_by(g, e, "Mul", 2);
    if (!by)
        by = pl_float_by(g, e, "RealDiv", 2);
    if (by && pl_float_constant(g, by->in[1], &factor))
        e = by->in[0];
    else if (by && pl_is(by, "Mul") && pl_float_constant(g, by->in[0], &factor))
        e = by->in[1];
    return is_axis_of_einsum(g, e, (int)at, whose, axis) ||
           is_axis_of_matmul(g, e, (int)at, whose, axis);
}

static struct pl_edge add_index(struct pl_graph *g, int like, int v, struct rt_error *err)
{
    struct rt_tensor t = {0};
    if (rt_tensor_new(&t, NULL, RT_I32, 1, (int64_t[]){1}, err))
        return pl_no_edge;
    *(int32_t *)t.data = v;
    return pl_add_constant(g, like, &t, err);
}

/* Makes node i read the length of one axis of `whose`. */
static enum rt_status put_query(struct pl_graph *g, int i, struct pl_edge whose, int axis,
                                struct rt_error *err)
{
    const int old = g->node[i].in[0].node;
    const struct pl_edge begin = add_index(g, i, axis, err), end = add_index(g, i, axis + 1, err);
    const int shape = begin.node < 0 || end.node < 0 ? -1 : pl_add(g, err);
    struct pl_edge *in = rt_arena_array(g->arena, 4, sizeof *in);
    struct pl_edge *of = rt_arena_array(g->arena, 1, sizeof *of);

    if (shape < 0 || !in || !of)
        return rt_fail_memory(err, "a plan", 0);
    struct pl_node *n = &g->node[i];
    in[0] = (struct pl_edge){shape, 0};
    in[1] = begin;
    in[2] = end;
    in[3] = n->in[3];
    n->in = in;
    *of = whose;
    g->node[shape] = g->node[old];
    g->node[shape].in = of;
    return RT_OK;
}

enum rt_status pl_fuse_masks(struct pl_graph *g, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    bool changed = drop_ones(g);
    const int n = g->n; /* new nodes are appended, so g->n grows */

    for (int i = 0; i < n && !st; i++) {
        struct pl_edge whose;
        int axis;
        if (!is_axis_of_scores(g, i, &whose, &axis))
            continue;
        st = put_query(g, i, whose, axis, err);
        changed = true;
    }
    if (changed && !st)
        pl_prune(g); /* removes unused nodes, so that they do not count as readers of the scores */
    return st;
}
