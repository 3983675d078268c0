/*
 * Embeddings that are looked up only to be added up become one "_EmbedSum", which never makes the
 * tensor of all the rows that are looked up:
 *
 *   Sum or Mean over one axis of    GatherV2(table, indices, 0)    or    ResourceGather
 *   the same with its rows weighted     rows * weights             Keras 2's masked average
 *   the same with some rows left out    SelectV2(mask, rows, 0)    Keras 3's
 *
 * Bags of ids, each id of which is looked up once (tf.nn.embedding_lookup_sparse), become one
 * "_EmbedBag", which neither finds equal ids nor makes their rows:
 *
 *   SparseSegmentSum, ~Mean or ~SqrtN of    table[y], i, segments    where y, i = Unique(ids)
 *
 * The table is a constant float matrix. Weights and mask are what is there before, one more axis at
 * the end (ExpandDims, a slice) included; which axis is summed and how shapes go together shows
 * when they are known: the kernel is right for any.
 */
#include "runtime/fusion/fuse.h"

#include <string.h>

/* EMBED_* of kernels/fused/embed_sum.c, in the attribute "by". */
enum by { BY_NOTHING, BY_WEIGHTS, BY_WEIGHTS_FIRST, BY_MASK };

struct match {
    const struct pl_graph *g;
    const struct pl_node *gather, *scaled; /* scaled: NULL without weights or mask */
    struct pl_edge table, indices, by;
    enum by how;
    int64_t axis;
    int member[3], n; /* the reduction first */
};

static void take(struct match *m, struct pl_edge e)
{
    m->member[m->n++] = e.node;
}

/* Whole rows of a table, by its first axis. */
static bool is_lookup(struct match *m, struct pl_edge e)
{
    int64_t axis;
    const struct pl_node *n = pl_float_by(m->g, e, "GatherV2", 3);

    if (n && (!pl_int_constant(m->g, n->in[2], &axis) || axis != 0))
        return false;
    if (!n)
        n = pl_float_by(m->g, e, "ResourceGather", 2);
    if (!n || rt_attr_int(n->def, "batch_dims") != 0)
        return false;
    const struct rt_tensor *t = pl_matrix_constant(m->g, n->in[0]);
    const uint8_t dtype = n->def->in_dtype[1];
    if (!t || t->dim[1] < 1 || (dtype != RT_I32 && dtype != RT_I64))
        return false;
    m->gather = n;
    m->table = n->in[0];
    m->indices = n->in[1];
    take(m, e);
    return true;
}

static bool is_scaled(struct match *m, struct pl_edge e)
{
    float otherwise;
    const struct pl_node *n = pl_float_by(m->g, e, "Mul", 2);

    take(m, e);
    m->scaled = n;
    for (int k = 0; n && k < 2; k++)
        if (is_lookup(m, n->in[k])) {
            m->by = n->in[1 - k];
            m->how = k ? BY_WEIGHTS_FIRST : BY_WEIGHTS;
            return !pl_same(m->by, n->in[k]);
        }
    n = pl_float_by(m->g, e, "SelectV2", 3);
    if (!n || !pl_float_constant(m->g, n->in[2], &otherwise) || otherwise != 0)
        return false;
    m->scaled = n;
    m->by = n->in[0];
    m->how = BY_MASK;
    return is_lookup(m, n->in[1]);
}

static bool is_embed_sum(struct match *m, const struct pl_graph *g, int i, bool *is_mean)
{
    const struct pl_edge e = {i, 0};
    const struct pl_node *n = pl_float_by(g, e, "Sum", 2);
    int64_t axis[RT_MAX_RANK];

    *is_mean = !n;
    if (!n)
        n = pl_float_by(g, e, "Mean", 2);
    if (!n || pl_some_ints(g, n->in[1], axis) != 1)
        return false;
    *m = (struct match){.g = g, .axis = axis[0], .member = {i}, .n = 1};
    if (is_lookup(m, n->in[0]))
        return true;
    *m = (struct match){.g = g, .axis = axis[0], .member = {i}, .n = 1};
    return is_scaled(m, n->in[0]);
}

static struct rt_attr text(const char *s)
{
    return (struct rt_attr){.type = RT_ATTR_STRING, .n = strlen(s), .v.s = s};
}

static enum rt_status put(struct pl_graph *g, const struct match *m, bool is_mean,
                          struct rt_error *err)
{
    static const uint8_t out_dtype = RT_F32;
    const bool keep = rt_attr_bool(g->node[m->member[0]].def, "keep_dims");
    const struct pl_edge in[3] = {m->table, m->indices, m->by};
    const uint8_t dtype[3] = {RT_F32, m->gather->def->in_dtype[1],
                              m->how == BY_MASK ? RT_BOOL : RT_F32};
    const struct rt_attr attr[] = {{.type = RT_ATTR_INT, .v.i = m->axis},
                                   {.type = RT_ATTR_BOOL, .v.b = keep},
                                   {.type = RT_ATTR_BOOL, .v.b = is_mean},
                                   {.type = RT_ATTR_INT, .v.i = m->how},
                                   text(m->gather->name),
                                   text(m->scaled ? m->scaled->name : "")};
    const struct pl_own own = {.op = "_EmbedSum",
                               .n_in = m->how ? 3 : 2,
                               .n_out = 1,
                               .in = in,
                               .in_dtype = dtype,
                               .out_dtype = &out_dtype,
                               .attr = attr};
    return pl_replace(g, m->member, m->n, &own, err);
}

/* ---- bags of ids ---- */

/* SEGMENT_* of kernels/sparse/sparse_segment.c, by their places. */
static const char *const segments[] = {"SparseSegmentSum", "SparseSegmentMean",
                                       "SparseSegmentSqrtN"};
enum { N_SEGMENTS = sizeof segments / sizeof *segments };

/* Which of those node i is, of rows looked up once each; -1: none. */
static int which_bag(struct match *m, const struct pl_graph *g, int i)
{
    const struct pl_node *n = NULL;
    int how = -1;

    while (!n && ++how < N_SEGMENTS)
        n = pl_float_by(g, (struct pl_edge){i, 0}, segments[how], 3);
    if (!n)
        return -1;
    *m = (struct match){.g = g, .member = {i}, .n = 1};
    if (!is_lookup(m, n->in[0]) || !pl_made_by(g, m->indices, "Unique", 1) ||
        n->in[1].node != m->indices.node || n->in[1].out != 1)
        return -1;
    take(m, m->indices);
    return how;
}

static enum rt_status put_bag(struct pl_graph *g, const struct match *m, int how,
                              struct rt_error *err)
{
    static const uint8_t out_dtype = RT_F32;
    const struct pl_node *n = &g->node[m->member[0]], *unique = &g->node[m->indices.node];
    const struct pl_edge in[3] = {m->table, unique->in[0], n->in[2]};
    const uint8_t dtype[3] = {RT_F32, unique->def->in_dtype[0], n->def->in_dtype[2]};
    const struct rt_attr attr[] = {
        {.type = RT_ATTR_INT, .v.i = how}, text(m->gather->name), text(unique->name)};
    const struct pl_own own = {.op = "_EmbedBag",
                               .n_in = 3,
                               .n_out = 1,
                               .in = in,
                               .in_dtype = dtype,
                               .out_dtype = &out_dtype,
                               .attr = attr};
    return pl_replace(g, m->member, m->n, &own, err);
}

enum rt_status pl_fuse_embeds(struct pl_graph *g, struct rt_error *err)
{
    struct pl_uses uses;
    struct match m;
    bool is_mean;
    enum rt_status st = RT_OK;

    if (!rt_registry_op(g->session->options.registry, "_EmbedSum") ||
        !rt_registry_op(g->session->options.registry, "_EmbedBag"))
        return RT_OK;
    st = pl_uses_count(&uses, g, err);
    if (st)
        return st;
    for (int i = 0; i < g->n && !st; i++)
        if (is_embed_sum(&m, g, i, &is_mean) && pl_is_closed(g, &uses, m.member, m.n))
            st = put(g, &m, is_mean, err);
    for (int i = 0; i < g->n && !st; i++) {
        const int how = which_bag(&m, g, i);
        if (how >= 0 && pl_is_closed(g, &uses, m.member, m.n))
            st = put_bag(g, &m, how, err);
    }
    pl_uses_free(&uses);
    return st;
}
