/*
 * Finds layer normalisation in the forms that frameworks generate, and replaces it with one
 * "_LayerNorm":
 *
 *   mean = Mean(x, axis), variance = Mean((x - mean)^2, axis), factor = Rsqrt(variance + epsilon)
 *   y = x * m + (offset - mean * m), m = factor * scale          Keras, tf.nn.batch_normalization
 *   y = (x - mean) * m + offset                                  by hand
 *   y = ((x - mean) * factor) * scale + offset                   by hand, or with a division
 *   y = Reshape(FusedBatchNormV3(Reshape(x, [1, before, behind, 1]), ones, zeros), Shape(x))
 *                                                                Keras 2; scale and offset follow
 *   y = x * Rsqrt(Mean(x^2, axis) + epsilon)                     no mean: RMS; scale follows
 *       or x * Reciprocal(Sqrt(..)), or x / Sqrt(..); x^2 may be x * x, Square or Pow
 *
 * Scale and offset are constant vectors along the last axis, or omitted; commuting operands may
 * come in either order. Whether the normalised axis is the last one is known only when the shapes
 * are known, so the kernel handles any axis.
 */
#include "runtime/fusion/fuse.h"

#include "runtime/fusion/layer_norm.h"

struct norm {
    struct pl_cluster nodes;
    struct pl_edge x, mean, scale, offset; /* All edges are pl_no_edge until they are found. */
    struct rt_layer_norm op;
};

static void take(struct norm *m, struct pl_edge e)
{
    pl_cluster_take(&m->nodes, e);
}

/* Returns whether e is the mean of *of along one axis, which is kept with length 1. */
static bool is_mean(struct norm *m, struct pl_edge e, struct pl_edge *of, int64_t *axis)
{
    const struct pl_node *n = pl_float_by(m->nodes.g, e, "Mean", 2);
    int64_t at[RT_MAX_RANK];
    if (!n || !rt_attr_bool(n->def, "keep_dims") || pl_some_ints(m->nodes.g, n->in[1], at) != 1 ||
        at[0] < -RT_MAX_RANK || at[0] >= RT_MAX_RANK)
        return false;
    *of = n->in[0];
    *axis = at[0];
    take(m, e);
    return true;
}

/* Returns whether e is `x - mean`. */
static bool is_centred(struct norm *m, struct pl_edge e)
{
    const struct pl_node *n = pl_float_by(m->nodes.g, e, "Sub", 2);
    if (!n || !pl_same(n->in[0], m->x) || !pl_same(n->in[1], m->mean))
        return false;
    take(m, e);
    return true;
}

/* Returns whether e is the mean of the squares of `x - mean`. Sets x, mean and axis of *m. */
static bool is_variance(struct norm *m, struct pl_edge e)
{
    struct pl_edge squares;
    int64_t axis, other;
    const struct pl_node *n;

    if (!is_mean(m, e, &squares, &axis))
        return false;
    if ((n = pl_float_by(m->nodes.g, squares, "SquaredDifference", 2)) != NULL) {
        take(m, squares);
        for (int k = 0; k < 2; k++) {
            struct norm try = *m;
            struct pl_edge of;
            if (is_mean(&try, n->in[1 - k], &of, &other) && pl_same(of, n->in[k]) &&
                other == axis) {
                *m = try;
                m->x = n->in[k];
                m->mean = n->in[1 - k];
                m->op.axis = axis;
                return true;
            }
        }
        return false;
    }
    struct pl_edge centred;
    if ((n = pl_float_by(m->nodes.g, squares, "Square", 1)) != NULL)
        centred = n->in[0];
    else if ((n = pl_float_by(m->nodes.g, squares, "Mul", 2)) != NULL &&
             pl_same(n->in[0], n->in[1]))
        centred = n->in[0];
    else
        return false;
    take(m, squares);
    n = pl_float_by(m->nodes.g, centred, "Sub", 2);
    struct pl_edge of;
    if (!n || !is_mean(m, n->in[1], &of, &other) || !pl_same(of, n->in[0]) || other != axis)
        return false;
    m->x = n->in[0];
    m->mean = n->in[1];
    m->op.axis = axis;
    return is_centred(m, centred);
}

/* Returns whether e is `variance + epsilon`. */
static bool is_safe_variance(struct norm *m, struct pl_edge e)
{
    const struct pl_node *n = pl_float_sum(m->nodes.g, e);
    float epsilon;

    for (int k = 0; n && k < 2; k++)
        if (pl_float_constant(m->nodes.g, n->in[1 - k], &epsilon)) {
            take(m, e);
            m->op.epsilon = epsilon;
            return is_variance(m, n->in[k]);
        }
    return false;
}

/* Returns whether e is `1 / sqrt(variance + epsilon)`. */
static bool is_factor(struct norm *m, struct pl_edge e)
{
    const struct pl_node *n = pl_float_by(m->nodes.g, e, "Rsqrt", 1);
    if (!n)
        return false;
    take(m, e);
    return is_safe_variance(m, n->in[0]);
}

/* Returns whether e is the factor `1 / sqrt(variance + epsilon)`, or the product of this factor and
 * the scale. */
static bool is_scaled_factor(struct norm *m, struct pl_edge e)
{
    const struct pl_node *n = pl_float_by(m->nodes.g, e, "Mul", 2);
    if (!n)
        return is_factor(m, e);
    take(m, e);
    for (int k = 0; k < 2; k++)
        if (pl_row_constant(m->nodes.g, n->in[1 - k])) {
            m->scale = n->in[1 - k];
            return is_factor(m, n->in[k]);
        }
    return false;
}

/* Returns whether e is `offset - mean * by`, `-mean * by + offset` or `-mean * by`, where `by` is
 * the factor. */
static bool is_shift(struct norm *m, struct pl_edge e, struct pl_edge by)
{
    const struct pl_node *n = pl_float_by(m->nodes.g, e, "Sub", 2), *p;

    if (n && pl_row_constant(m->nodes.g, n->in[0]) &&
        (p = pl_float_by(m->nodes.g, n->in[1], "Mul", 2)) != NULL &&
        ((pl_same(p->in[0], m->mean) && pl_same(p->in[1], by)) ||
         (pl_same(p->in[1], m->mean) && pl_same(p->in[0], by)))) {
        m->offset = n->in[0];
        take(m, e);
        take(m, n->in[1]);
        return true;
    }
    /* e must be `-mean * factor`, or the sum of this product and the offset. */
    struct pl_edge product = e;
    n = pl_float_sum(m->nodes.g, e);
    for (int k = 0; n && k < 2; k++)
        if (pl_row_constant(m->nodes.g, n->in[1 - k])) {
            m->offset = n->in[1 - k];
            product = n->in[k];
            take(m, e);
            break;
        }
    p = pl_float_by(m->nodes.g, product, "Mul", 2);
    for (int k = 0; p && k < 2; k++) {
        const struct pl_node *neg = pl_float_by(m->nodes.g, p->in[k], "Neg", 1);
        if (neg && pl_same(neg->in[0], m->mean) && pl_same(p->in[1 - k], by)) {
            take(m, product);
            take(m, p->in[k]);
            return true;
        }
    }
    return false;
}

/* Returns whether the node computes `x * m + (offset - mean * m)`. */
static bool is_folded(struct norm *m, const struct pl_node *root)
{
    for (int k = 0; k < 2; k++) {
        const struct pl_node *n = pl_float_by(m->nodes.g, root->in[k], "Mul", 2);
        for (int j = 0; n && j < 2; j++) {
            struct norm try = *m;
            take(&try, root->in[k]);
            if (is_scaled_factor(&try, n->in[1 - j]) && pl_same(try.x, n->in[j]) &&
                is_shift(&try, root->in[1 - k], n->in[1 - j])) {
                *m = try;
                return true;
            }
        }
    }
    return false;
}

/* ---- normalisation by FusedBatchNormV3 ---- */

enum { SHAPE_OPEN = -1 };

/* Returns whether e consists of elements *first to *end - 1 of x's shape, or all elements from
 * *first on if *end is SHAPE_OPEN. If `shrinks` is set, e must be the length of a single axis. */
static bool is_slice(const struct pl_graph *g, struct pl_edge e, struct pl_edge x, bool shrinks,
                     int64_t *first, int64_t *end)
{
    int64_t step;
    const struct pl_node *n = pl_made_by(g, e, "StridedSlice", 4);
    const struct pl_node *shape = n ? pl_made_by(g, n->in[0], "Shape", 1) : NULL;

    if (!shape || !pl_same(shape->in[0], x) || !pl_ints_constant(g, n->in[1], 1, first) ||
        !pl_ints_constant(g, n->in[2], 1, end) || !pl_ints_constant(g, n->in[3], 1, &step) ||
        step != 1 || rt_attr_int(n->def, "shrink_axis_mask") != shrinks ||
        rt_attr_int(n->def, "new_axis_mask") || rt_attr_int(n->def, "ellipsis_mask"))
        return false;
    const bool from_0 = rt_attr_int(n->def, "begin_mask") & 1;
    const bool to_end = rt_attr_int(n->def, "end_mask") & 1;
    *first = from_0 ? 0 : *first;
    *end = to_end ? SHAPE_OPEN : *end;
    return *first >= 0 && (to_end ? !shrinks : *end >= *first) && *first < RT_MAX_RANK &&
           *end <= RT_MAX_RANK && !(shrinks && from_0);
}

/* Returns whether e is a product of the lengths of different axes of x, and sets the bit of each of
 * these axes in *axes. */
static bool is_product_of_axes(const struct pl_graph *g, struct pl_edge e, struct pl_edge x,
                               unsigned *axes)
{
    int64_t first, end, one;

    for (int hops = 0; hops <= RT_MAX_RANK; hops++) {
        const struct pl_node *n = pl_made_by(g, e, "Mul", 2);
        const struct pl_edge factor = n ? n->in[1] : e;
        const bool is_one = pl_int_constant(g, factor, &one) && one == 1;
        if (!is_one) {
            if (!is_slice(g, factor, x, true, &first, &end) || *axes >> first & 1)
                return false;
            *axes |= 1u << first;
        }
        if (!n)
            return true;
        e = n->in[0];
    }
    return false;
}

/* Returns whether `before` is the product of the lengths of some leading axes of x, and `behind`
 * the product of the lengths of all other axes. Sets *axis to the first of the other axes. Sets
 * *rank to the rank of x, or to 0 if it is not known. */
static bool splits(const struct pl_graph *g, struct pl_edge before, struct pl_edge behind,
                   struct pl_edge x, int64_t *axis, int64_t *rank)
{
    int64_t first, end, all;
    unsigned axes = 0, rest = 0;
    const struct pl_node *p = pl_made_by(g, before, "Prod", 2);
    const struct pl_node *q = pl_made_by(g, behind, "Prod", 2);

    *rank = 0;
    if (p && q)
        return !rt_attr_bool(p->def, "keep_dims") && !rt_attr_bool(q->def, "keep_dims") &&
               pl_ints_constant(g, p->in[1], 1, &all) && all == 0 &&
               pl_ints_constant(g, q->in[1], 1, &all) && all == 0 &&
               is_slice(g, p->in[0], x, false, &first, axis) && first == 0 && *axis != SHAPE_OPEN &&
               is_slice(g, q->in[0], x, false, &first, &end) && first == *axis && end == SHAPE_OPEN;
    if (!is_product_of_axes(g, before, x, &axes) || !is_product_of_axes(g, behind, x, &rest))
        return false;
    while (axes >> *rank & 1)
        ++*rank;
    *axis = *rank;
    while (rest >> *rank & 1)
        ++*rank;
    return axes == (1u << *axis) - 1 && (axes | rest) == (1u << *rank) - 1 && !(axes & rest) &&
           rest;
}

/* Returns whether e is `Fill([n], value)`. */
static bool is_filled(const struct pl_graph *g, struct pl_edge e, struct pl_edge n, float value)
{
    float v;
    const struct pl_node *fill = pl_float_by(g, e, "Fill", 2);
    const struct pl_node *dims = fill ? pl_made_by(g, fill->in[0], "Pack", 1) : NULL;
    return dims && rt_attr_int(dims->def, "axis") == 0 && pl_same(dims->in[0], n) &&
           pl_float_constant(g, fill->in[1], &v) && v == value;
}

static bool is_empty(const struct pl_graph *g, struct pl_edge e)
{
    const struct rt_tensor *t = pl_constant(g, e);
    return t && t->dtype == RT_F32 && t->rank == 1 && t->dim[0] == 0;
}

/* Returns whether e is x reshaped to [1, before, behind, 1], normalised over the axis of length
 * `behind`, and reshaped to the shape of x. */
static bool is_batch_normed(struct norm *m, struct pl_edge e)
{
    const struct pl_graph *g = m->nodes.g;
    int64_t one, other;
    const struct pl_node *back = pl_float_by(g, e, "Reshape", 2);
    const struct pl_node *norm = back ? pl_float_by(g, back->in[0], "FusedBatchNormV3", 5) : NULL;
    const struct pl_node *flat = norm ? pl_float_by(g, norm->in[0], "Reshape", 2) : NULL;
    const struct pl_node *dims = flat ? pl_made_by(g, flat->in[1], "Pack", 4) : NULL;
    const struct pl_node *shape = back ? pl_made_by(g, back->in[1], "Shape", 1) : NULL;

    if (!dims || !shape || !pl_same(shape->in[0], flat->in[0]) ||
        !rt_attr_bool(norm->def, "is_training") ||
        !rt_span_is(rt_attr_str(norm->def, "data_format"), "NCHW") ||
        rt_attr_int(dims->def, "axis") != 0 || !pl_int_constant(g, dims->in[0], &one) || one != 1 ||
        !pl_int_constant(g, dims->in[3], &other) || other != 1 ||
        !splits(g, dims->in[1], dims->in[2], flat->in[0], &m->op.axis, &m->op.rank) ||
        !is_filled(g, norm->in[1], dims->in[1], 1) || !is_filled(g, norm->in[2], dims->in[1], 0) ||
        !is_empty(g, norm->in[3]) || !is_empty(g, norm->in[4]))
        return false;
    m->x = flat->in[0];
    m->op.joins = true;
    m->op.epsilon = rt_attr_float(norm->def, "epsilon");
    take(m, e);
    take(m, back->in[0]);
    take(m, norm->in[0]);
    return true;
}

/* ---- RMS normalisation (by the mean of squares) ---- */

/* Returns whether e is the square of a value, and sets *of to the value. */
static bool is_square(struct norm *m, struct pl_edge e, struct pl_edge *of)
{
    const struct pl_graph *g = m->nodes.g;
    const struct pl_node *n = pl_float_by(g, e, "Square", 1);
    float exponent;

    if (!n && (n = pl_float_by(g, e, "Mul", 2)) != NULL && !pl_same(n->in[0], n->in[1]))
        return false;
    if (!n && (n = pl_float_by(g, e, "Pow", 2)) != NULL &&
        !(pl_float_constant(g, n->in[1], &exponent) && exponent == 2))
        return false;
    if (!n)
        return false;
    *of = n->in[0];
    take(m, e);
    return true;
}

/* Returns whether e is `1 / sqrt(*of)` or, with `divides`, `sqrt(*of)`. */
static bool is_root(struct norm *m, struct pl_edge e, bool divides, struct pl_edge *of)
{
    const struct pl_graph *g = m->nodes.g;
    const struct pl_node *n = divides ? NULL : pl_float_by(g, e, "Rsqrt", 1);
    struct pl_edge root = e;

    if (!n && !divides) {
        if (!(n = pl_float_by(g, e, "Reciprocal", 1)) && !(n = pl_float_by(g, e, "Inv", 1)))
            return false;
        take(m, e);
        root = n->in[0];
        n = NULL;
    }
    if (!n && !(n = pl_float_by(g, root, "Sqrt", 1)))
        return false;
    *of = n->in[0];
    take(m, root);
    return true;
}

/* Returns whether `x * by` or, with `divides`, `x / by` is the RMS normalisation of x. */
static bool is_rms_normed_by(struct norm *m, struct pl_edge x, struct pl_edge by, bool divides)
{
    struct pl_edge safe, squares, of;
    const struct pl_node *sum;

    if (!is_root(m, by, divides, &safe) || !(sum = pl_float_sum(m->nodes.g, safe)))
        return false;
    for (int j = 0; j < 2; j++) {
        struct norm try = *m;
        if (!pl_float_constant(m->nodes.g, sum->in[1 - j], &try.op.epsilon) ||
            !is_mean(&try, sum->in[j], &squares, &try.op.axis) || !is_square(&try, squares, &of) ||
            !pl_same(of, x))
            continue;
        take(&try, safe);
        *m = try;
        m->x = x;
        m->op.no_mean = true;
        return true;
    }
    return false;
}

/* Returns whether e is `x * Rsqrt(Mean(x^2) + epsilon)` or `x / Sqrt(Mean(x^2) + epsilon)`. */
static bool is_rms_normed(struct norm *m, struct pl_edge e)
{
    const struct pl_node *n = pl_float_by(m->nodes.g, e, "Mul", 2);
    const bool divides = !n;

    if (divides)
        n = pl_float_by(m->nodes.g, e, "RealDiv", 2);
    for (int k = 0; n && k < (divides ? 1 : 2); k++) {
        struct norm try = *m;
        take(&try, e);
        if (!is_rms_normed_by(&try, n->in[k], n->in[1 - k], divides))
            continue;
        *m = try;
        return true;
    }
    return false;
}

/* ---- the complete pattern ---- */

/* Returns whether e is `(x - mean) * factor` or `(x - mean) / sqrt(variance + epsilon)`. The factor
 * may include the scale. */
static bool is_centred_normed(struct norm *m, struct pl_edge e)
{
    const struct pl_node *n = pl_float_by(m->nodes.g, e, "RealDiv", 2), *root;

    if (n && (root = pl_float_by(m->nodes.g, n->in[1], "Sqrt", 1)) != NULL) {
        take(m, e);
        take(m, n->in[1]);
        return is_safe_variance(m, root->in[0]) && is_centred(m, n->in[0]);
    }
    n = pl_float_by(m->nodes.g, e, "Mul", 2);
    for (int k = 0; n && k < 2; k++) {
        struct norm try = *m;
        take(&try, e);
        if (is_scaled_factor(&try, n->in[1 - k]) && is_centred(&try, n->in[k])) {
            *m = try;
            return true;
        }
    }
    return false;
}

/* Returns whether e is a normalisation of x without an offset, with or without a scale. The RMS
 * form is tried last, because it also matches if its operand is `x - mean`. */
static bool is_straight(struct norm *m, struct pl_edge e)
{
    const struct norm before = *m;

    if (is_batch_normed(m, e))
        return true;
    *m = before;
    if (is_centred_normed(m, e))
        return true;
    *m = before;
    return is_rms_normed(m, e);
}

/* Returns whether e has a form that is_straight matches, or the form `n * scale`, where is_straight
 * matches n and n has no scale. */
static bool is_scaled(struct norm *m, struct pl_edge e)
{
    const struct pl_node *n = pl_float_by(m->nodes.g, e, "Mul", 2);

    for (int k = 0; n && k < 2; k++) {
        struct norm try = *m;
        take(&try, e);
        if (!pl_row_constant(m->nodes.g, n->in[1 - k]) || !is_straight(&try, n->in[k]) ||
            try.scale.node >= 0)
            continue;
        *m = try;
        m->scale = n->in[1 - k];
        return true;
    }
    return is_straight(m, e);
}

static void start(struct norm *m, const struct pl_graph *g, int root, const struct pl_uses *uses)
{
    *m = (struct norm){.nodes = pl_cluster_from(g, uses, root),
                       .x = pl_no_edge,
                       .mean = pl_no_edge,
                       .scale = pl_no_edge,
                       .offset = pl_no_edge};
}

/* Matches a normalisation that ends in the addition i. */
static bool ends_in_sum(struct norm *m, const struct pl_graph *g, int i, const struct pl_uses *uses)
{
    start(m, g, i, uses);
    const struct pl_node *n = pl_float_sum(m->nodes.g, (struct pl_edge){i, 0});
    if (!n)
        return false;
    if (is_folded(m, n) && pl_cluster_is_closed(&m->nodes))
        return true;
    for (int k = 0; k < 2; k++) {
        start(m, g, i, uses);
        if (!pl_row_constant(m->nodes.g, n->in[1 - k]) || !is_scaled(m, n->in[k]) ||
            !pl_cluster_is_closed(&m->nodes))
            continue;
        m->offset = n->in[1 - k];
        return true;
    }
    return false;
}

/* Matches a normalisation without an offset that ends in node i. */
static bool ends_in_product(struct norm *m, const struct pl_graph *g, int i,
                            const struct pl_uses *uses)
{
    start(m, g, i, uses);
    return is_scaled(m, (struct pl_edge){i, 0}) && pl_cluster_is_closed(&m->nodes);
}

static enum rt_status put(struct pl_graph *g, const struct norm *m, struct rt_error *err)
{
    const struct pl_edge in[RT_LAYER_NORM_N_IN] = {
        [RT_LAYER_NORM_X] = m->x,
        [RT_LAYER_NORM_SCALE] = m->scale,
        [RT_LAYER_NORM_OFFSET] = m->offset,
    };
    return pl_put_fused(g, m->nodes.node, m->nodes.n, rt_layer_norm_op(&m->op), in,
                        RT_LAYER_NORM_N_IN, err);
}

enum rt_status pl_fuse_norms(struct pl_graph *g, struct rt_error *err)
{
    struct pl_uses uses;
    bool found = false;

    if (!rt_registry_op(g->session->options.registry, "_LayerNorm"))
        return RT_OK;
    enum rt_status st = pl_uses_count(&uses, g, err);
    /* Forms with an offset are matched first, because they contain a form without an offset. A
     * fused node reads only values that the replaced nodes read, so the counts of readers stay
     * correct for later matches. */
    for (int products = 0; products < 2; products++)
        for (int i = 0; i < g->n && !st; i++) {
            struct norm m;
            if (products ? ends_in_product(&m, g, i, &uses) : ends_in_sum(&m, g, i, &uses)) {
                st = put(g, &m, err);
                found = true;
            }
        }
    pl_uses_free(&uses);
    if (found)
        pl_prune(g); /* Removes nodes that computed shapes only for the fused nodes. */
    return st;
}
