/*
 * Replaces dense layers on more than two axes with one matmul. Frameworks write such a layer as
 * several nodes, in two patterns:
 *
 * Keras' Tensordot transposes x by the identity permutation, reshapes x to a matrix, multiplies,
 * and reshapes the product back. The Reshapes compute their shapes from the shape of x, so row-wise
 * analysis fails. BatchMatMulV2(x, w) is equivalent, and its analysis succeeds.
 *
 * A bias may follow a Reshape that splits the last axis of the product into attention heads. The
 * bias moves before the Reshape, where it can become part of the epilogue.
 *
 * The extra attribute "_rank" of the matmul is the number of axes that x must have. An x of another
 * rank is refused.
 */
#include "runtime/fusion/fuse.h"

#include <string.h>

/* Returns whether e is a constant that consists of the integers from `first` to `end - 1`. */
static bool counts(const struct pl_graph *g, struct pl_edge e, int first, int end)
{
    int64_t v[RT_MAX_RANK];
    const int n = pl_some_ints(g, e, v);
    for (int i = 0; i < n; i++)
        if (v[i] != first + i)
            return false;
    return n == end - first;
}

static bool is_zero(const struct pl_graph *g, struct pl_edge e)
{
    return counts(g, e, 0, 1);
}

/* ---- Tensordot ---- */

/* Returns whether e is a vector of the lengths of axes `first` to `end - 1` of x. */
static bool is_part_of_shape(const struct pl_graph *g, struct pl_edge e, struct pl_edge x,
                             int first, int end)
{
    const struct pl_node *n = pl_made_by(g, e, "GatherV2", 3);
    const struct pl_node *shape = n ? pl_made_by(g, n->in[0], "Shape", 1) : NULL;
    return shape && pl_same(shape->in[0], x) && rt_attr_int(n->def, "batch_dims") == 0 &&
           counts(g, n->in[1], first, end) && is_zero(g, n->in[2]);
}

/* Returns whether e is the product of the lengths of axes `first` to `end - 1` of x. */
static bool is_size_of_part(const struct pl_graph *g, struct pl_edge e, struct pl_edge x, int first,
                            int end)
{
    const struct pl_node *n = pl_made_by(g, e, "Prod", 2);
    return n && !rt_attr_bool(n->def, "keep_dims") && is_zero(g, n->in[1]) &&
           is_part_of_shape(g, n->in[0], x, first, end);
}

/* Returns whether node i multiplies x, along its last axis, by a constant matrix w. */
static bool is_tensordot(const struct pl_graph *g, int i, struct pl_edge *x, struct pl_edge *w,
                         int *rank)
{
    int64_t perm[RT_MAX_RANK], units[RT_MAX_RANK];
    const struct pl_node *n = pl_made_by(g, (struct pl_edge){i, 0}, "Reshape", 2);
    const struct pl_node *matmul = n ? pl_made_by(g, n->in[0], "MatMul", 2) : NULL;

    if (!matmul || matmul->def->out_dtype[0] != RT_F32 ||
        rt_attr_bool(matmul->def, "transpose_a") || rt_attr_bool(matmul->def, "transpose_b"))
        return false;
    const struct rt_tensor *m = pl_matrix_constant(g, matmul->in[1]);
    const struct pl_node *flat = pl_made_by(g, matmul->in[0], "Reshape", 2);
    const struct pl_node *moved = flat ? pl_made_by(g, flat->in[0], "Transpose", 2) : NULL;
    const struct pl_node *size = flat ? pl_made_by(g, flat->in[1], "Pack", 2) : NULL;
    const struct pl_node *back = pl_made_by(g, n->in[1], "ConcatV2", 3);
    if (!m || !moved || !size || !back || rt_attr_int(size->def, "axis") != 0)
        return false;
    *rank = pl_some_ints(g, moved->in[1], perm);
    *x = moved->in[0];
    *w = matmul->in[1];
    return *rank >= 2 && counts(g, moved->in[1], 0, *rank) &&
           is_size_of_part(g, size->in[0], *x, 0, *rank - 1) &&
           is_size_of_part(g, size->in[1], *x, *rank - 1, *rank) &&
           is_part_of_shape(g, back->in[0], *x, 0, *rank - 1) &&
           pl_some_ints(g, back->in[1], units) == 1 && units[0] == m->dim[1] &&
           g->node[back->in[1].node].value.rank == 1 && is_zero(g, back->in[2]);
}

enum rt_status pl_put_dense(struct pl_graph *g, int at, struct pl_edge x, struct pl_edge w,
                            int rank, struct rt_error *err)
{
    const struct pl_edge in[2] = {x, w};
    const enum rt_status st = pl_put_op(g, &at, 1, "BatchMatMulV2", RT_F32, in, 2, err);
    return st ? st
              : pl_add_extra(g, at, "_rank", (struct rt_attr){.type = RT_ATTR_INT, .v.i = rank},
                             err);
}

/* ---- biases after a Reshape ---- */

/* If a matmul with a constant matrix makes e, returns the number of columns of e. Otherwise returns
 * 0. */
static int64_t matmul_columns(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = pl_made_by(g, e, "MatMul", 2);
    const bool is_batch = !n;
    if (is_batch)
        n = pl_made_by(g, e, "BatchMatMulV2", 2);
    const struct rt_tensor *m = n ? pl_matrix_constant(g, n->in[1]) : NULL;
    return m ? m->dim[rt_attr_bool(n->def, is_batch ? "adj_y" : "transpose_b") ? 0 : 1] : 0;
}

/*
 * Returns whether node i adds a constant to the result of a GEMM whose last axis a Reshape has
 * split. Sets *which to the index of the Reshape among the node's inputs. The constant's axes must
 * be the last axes of the new shape. The product of their lengths must be the length of the axis
 * that was split.
 */
static bool is_split_bias(const struct pl_graph *g, const struct pl_uses *uses, int i, int *which)
{
    int64_t shape[RT_MAX_RANK], length = 1;
    const struct pl_node *n = pl_made_by(g, (struct pl_edge){i, 0}, "AddV2", 2);

    if (!n || n->def->out_dtype[0] != RT_F32)
        return false;
    for (*which = 0; *which < 2; ++*which) {
        const struct pl_edge from = n->in[*which], other = n->in[1 - *which];
        const struct pl_node *split = pl_made_by(g, from, "Reshape", 2);
        if (!split || uses->n[from.node] != 1 || uses->n[split->in[0].node] != 1 ||
            !pl_is_constant(g, other))
            continue;
        const struct rt_tensor *c = &g->node[other.node].value;
        const int64_t want = matmul_columns(g, split->in[0]);
        const int rank = pl_some_ints(g, split->in[1], shape);
        if (want <= 0 || c->dtype != RT_F32 || c->rank < 1 || c->rank > rank)
            return false;
        for (int k = 0; k < c->rank; k++) {
            if (c->dim[k] <= 0 || c->dim[k] != shape[rank - c->rank + k] ||
                __builtin_mul_overflow(length, c->dim[k], &length))
                return false;
        }
        return length == want;
    }
    return false;
}

static enum rt_status swap(struct pl_graph *g, int sum, int which, struct rt_error *err)
{
    const int split = g->node[sum].in[which].node;
    const struct rt_tensor *c = &g->node[g->node[sum].in[1 - which].node].value;
    struct rt_tensor flat;

    rt_tensor_ref(&flat, c);
    flat.dim[0] = rt_tensor_count(c);
    flat.rank = 1;
    /* pl_add_constant may reallocate g->node. */
    const struct pl_edge bias = pl_add_constant(g, sum, &flat, err);
    if (bias.node < 0)
        return err->code;
    struct pl_node *s = &g->node[sum], *r = &g->node[split];
    const struct rt_node *def = s->def;
    const char *name = s->name;
    const struct pl_edge matmul = r->in[0], shape = r->in[1];
    s->def = r->def;
    s->name = r->name;
    s->in[0] = (struct pl_edge){split, 0};
    s->in[1] = shape;
    r->def = def;
    r->name = name;
    r->in[which] = matmul;
    r->in[1 - which] = bias;
    return RT_OK;
}

enum rt_status pl_fuse_dense(struct pl_graph *g, struct rt_error *err)
{
    struct pl_uses uses;
    bool changed = false;
    enum rt_status st = RT_OK;

    if (!rt_registry_op(g->session->options.registry, "BatchMatMulV2"))
        return RT_OK;
    for (int i = 0; i < g->n && !st; i++) {
        struct pl_edge x, w;
        int rank;
        if (is_tensordot(g, i, &x, &w, &rank)) {
            st = pl_put_dense(g, i, x, w, rank, err);
            changed = true;
        }
    }
    if (changed)
        /* Removes nodes that computed shapes only for the fused nodes, so that they do not count as
         * readers below. */
        pl_prune(g);
    if (!st)
        st = pl_uses_count(&uses, g, err);
    if (st)
        return st;
    const int n = g->n; /* New constants are appended, so g->n grows. */
    for (int i = 0; i < n && !st; i++) {
        int which;
        if (is_split_bias(g, &uses, i, &which))
            st = swap(g, i, which, err);
    }
    pl_uses_free(&uses);
    return st;
}
