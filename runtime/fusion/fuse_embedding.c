/*
 * Finds embedding lookups whose rows are only summed, and replaces them with one "_EmbedSum", which
 * never materialises the tensor of all rows that are looked up:
 *
 *   Sum or Mean over one axis of     GatherV2(table, indices, 0)    or    ResourceGather
 *   of rows with weights             rows * weights                 Keras 2's masked average
 *   of rows selected by a mask       SelectV2(mask, rows, 0)        Keras 3's
 *
 * tf.nn.embedding_lookup_sparse finds the unique ids, looks up their rows, and sums the rows of
 * each bag of ids. These nodes become one "_EmbedBag", which neither searches for equal ids nor
 * materialises the rows:
 *
 *   SparseSegmentSum, ~Mean or ~SqrtN of    table[y], i, segments    where y, i = Unique(ids)
 *
 * The table is a constant float matrix. Weights and mask are used unchanged, including an axis
 * added at the end (ExpandDims, a slice). The axis of the sum and the broadcasting are known only
 * when the shapes are known, so the kernel handles all cases.
 */
#include "runtime/fusion/fuse.h"

#include "runtime/fusion/embedding.h"

struct embed {
    struct pl_cluster nodes; /* The first node of the cluster is the reduction. */
    /* NULL if there are neither weights nor a mask */
    const struct pl_node *gather, *scaled;
    struct pl_edge table, indices, by;
    struct rt_embedding_sum op;
};

static void take(struct embed *m, struct pl_edge e)
{
    pl_cluster_take(&m->nodes, e);
}

/* Returns whether e looks up entire rows of a table, along its first axis. */
static bool is_lookup(struct embed *m, struct pl_edge e)
{
    int64_t axis;
    const struct pl_node *n = pl_float_by(m->nodes.g, e, "GatherV2", 3);

    if (n && (!pl_int_constant(m->nodes.g, n->in[2], &axis) || axis != 0))
        return false;
    if (!n)
        n = pl_float_by(m->nodes.g, e, "ResourceGather", 2);
    if (!n || rt_attr_int(n->def, "batch_dims") != 0)
        return false;
    const struct rt_tensor *t = pl_matrix_constant(m->nodes.g, n->in[0]);
    const uint8_t dtype = n->def->in_dtype[1];
    if (!t || t->dim[1] < 1 || (dtype != RT_I32 && dtype != RT_I64))
        return false;
    m->gather = n;
    m->table = n->in[0];
    m->indices = n->in[1];
    take(m, e);
    return true;
}

static bool is_scaled(struct embed *m, struct pl_edge e)
{
    float otherwise;
    const struct pl_node *n = pl_float_by(m->nodes.g, e, "Mul", 2);

    take(m, e);
    m->scaled = n;
    for (int k = 0; n && k < 2; k++)
        if (is_lookup(m, n->in[k])) {
            m->by = n->in[1 - k];
            m->op.how = k ? RT_EMBEDDING_BY_WEIGHTS_FIRST : RT_EMBEDDING_BY_WEIGHTS;
            return !pl_same(m->by, n->in[k]);
        }
    n = pl_float_by(m->nodes.g, e, "SelectV2", 3);
    if (!n || !pl_float_constant(m->nodes.g, n->in[2], &otherwise) || otherwise != 0)
        return false;
    m->scaled = n;
    m->by = n->in[0];
    m->op.how = RT_EMBEDDING_BY_MASK;
    return is_lookup(m, n->in[1]);
}

static void start(struct embed *m, const struct pl_graph *g, int i, const struct pl_uses *uses)
{
    *m = (struct embed){.nodes = pl_cluster_from(g, uses, i), .by = pl_no_edge};
}

static bool is_embedding_sum(struct embed *m, const struct pl_graph *g, int i,
                             const struct pl_uses *uses)
{
    const struct pl_edge e = {i, 0};
    const struct pl_node *n = pl_float_by(g, e, "Sum", 2);
    const bool is_mean = !n;
    int64_t axis[RT_MAX_RANK];

    if (!n)
        n = pl_float_by(g, e, "Mean", 2);
    if (!n || pl_some_ints(g, n->in[1], axis) != 1)
        return false;
    start(m, g, i, uses);
    if (!is_lookup(m, n->in[0])) {
        start(m, g, i, uses);
        if (!is_scaled(m, n->in[0]))
            return false;
    }
    m->op.axis = axis[0];
    m->op.keep_dims = rt_attr_bool(n->def, "keep_dims");
    m->op.mean = is_mean;
    m->op.gather = m->gather->name;
    m->op.scaled = m->scaled ? m->scaled->name : "";
    return pl_cluster_is_closed(&m->nodes);
}

static enum rt_status put(struct pl_graph *g, const struct embed *m, struct rt_error *err)
{
    const struct pl_edge in[RT_EMBEDDING_SUM_N_IN] = {
        [RT_EMBEDDING_SUM_TABLE] = m->table,
        [RT_EMBEDDING_SUM_INDICES] = m->indices,
        [RT_EMBEDDING_SUM_BY] = m->by,
    };
    return pl_put_fused(g, m->nodes.node, m->nodes.n, rt_embedding_sum_op(&m->op), in,
                        RT_EMBEDDING_SUM_N_IN, err);
}

/* ---- bags of ids ---- */

static const char *const segments[] = {[RT_EMBEDDING_BAG_SUM] = "SparseSegmentSum",
                                       [RT_EMBEDDING_BAG_MEAN] = "SparseSegmentMean",
                                       [RT_EMBEDDING_BAG_SQRT_N] = "SparseSegmentSqrtN"};
enum { N_SEGMENTS = sizeof segments / sizeof *segments };

/* If node i sums looked-up rows of unique ids, returns the kind of segment sum (enum
 * rt_embedding_bag_how). Otherwise returns -1. */
static int which_bag(struct embed *m, const struct pl_graph *g, int i, const struct pl_uses *uses)
{
    const struct pl_node *n = NULL;
    int how = -1;

    while (!n && ++how < N_SEGMENTS)
        n = pl_float_by(g, (struct pl_edge){i, 0}, segments[how], 3);
    if (!n)
        return -1;
    start(m, g, i, uses);
    if (!is_lookup(m, n->in[0]) || !pl_made_by(g, m->indices, "Unique", 1) ||
        n->in[1].node != m->indices.node || n->in[1].out != 1)
        return -1;
    take(m, m->indices);
    return pl_cluster_is_closed(&m->nodes) ? how : -1;
}

static enum rt_status put_bag(struct pl_graph *g, const struct embed *m, int how,
                              struct rt_error *err)
{
    const struct pl_node *n = &g->node[m->nodes.node[0]], *unique = &g->node[m->indices.node];
    const struct pl_edge in[RT_EMBEDDING_BAG_N_IN] = {
        [RT_EMBEDDING_BAG_TABLE] = m->table,
        [RT_EMBEDDING_BAG_IDS] = unique->in[0],
        [RT_EMBEDDING_BAG_SEGMENTS] = n->in[2],
    };
    const struct rt_embedding_bag bag = {
        .how = how, .gather = m->gather->name, .unique = unique->name};
    return pl_put_fused(g, m->nodes.node, m->nodes.n, rt_embedding_bag_op(&bag), in,
                        RT_EMBEDDING_BAG_N_IN, err);
}

enum rt_status pl_fuse_embeddings(struct pl_graph *g, struct rt_error *err)
{
    struct pl_uses uses;
    struct embed m;
    enum rt_status st = RT_OK;

    if (!rt_registry_op(g->session->options.registry, "_EmbedSum") ||
        !rt_registry_op(g->session->options.registry, "_EmbedBag"))
        return RT_OK;
    st = pl_uses_count(&uses, g, err);
    if (st)
        return st;
    for (int i = 0; i < g->n && !st; i++)
        if (is_embedding_sum(&m, g, i, &uses))
            st = put(g, &m, err);
    for (int i = 0; i < g->n && !st; i++) {
        const int how = which_bag(&m, g, i, &uses);
        if (how >= 0)
            st = put_bag(g, &m, how, err);
    }
    pl_uses_free(&uses);
    return st;
}
