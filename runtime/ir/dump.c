#include "runtime/ir/dump.h"

#include "runtime/base/print.h"
#include "runtime/ir/subgraph.h"

static const char *op_of(const struct pl_node *n)
{
    switch ((enum pl_kind)n->kind) {
    case PL_CONST:
        return n->frozen ? "(frozen variable)" : "(constant)";
    case PL_FEED:
        return "(feed)";
    default:
        return n->def && n->def->schema ? n->def->schema->name : "(pivot)";
    }
}

static void add_edge(struct rt_bytes *out, struct pl_edge e, const char *before)
{
    rt_bytes_addf(out, "%s%d:%d", before, e.node, e.out);
}

static void add_types(const struct pl_graph *g, int i, struct rt_bytes *out)
{
    const struct pl_node *n = &g->node[i];
    const char *before = " -> ";
    char text[256];

    for (int o = 0; o < n->n_out; o++, before = ", ") {
        const uint8_t d =
            n->kind == PL_FEED ? n->feed_dtype : (uint8_t)pl_edge_dtype(g, (struct pl_edge){i, o});
        rt_bytes_addf(out, "%s%s", before, d ? rt_dtype_name((enum rt_dtype)d) : "?");
        if (n->kind == PL_CONST)
            rt_bytes_addf(out, " %s",
                          rt_shape_text(text, sizeof text, n->value.rank, n->value.dim));
    }
}

static void add_node(const struct pl_graph *g, int i, struct rt_bytes *out)
{
    const struct pl_node *n = &g->node[i];
    const char *before = "";

    rt_bytes_addf(out, "%5d ", i);
    rt_bytes_add_escaped(out, n->name ? n->name : "");
    rt_bytes_adds(out, ": ");
    rt_bytes_add_escaped(out, op_of(n));
    rt_bytes_adds(out, n->on_accelerator ? "@accelerator(" : "(");
    for (int k = 0; k < n->n_in; k++, before = ", ")
        add_edge(out, n->in[k], before);
    for (int k = 0; k < n->n_ctrl; k++, before = ", ")
        rt_bytes_addf(out, "%s^%d", before, n->ctrl[k]);
    rt_bytes_addc(out, ')');
    add_types(g, i, out);
    rt_bytes_addc(out, '\n');
}

void pl_dump(const struct pl_graph *g, const char *pass, struct rt_bytes *out)
{
    const char *before = "";
    int n = 0;

    for (int i = 0; i < g->n; i++)
        n += g->node[i].kind != PL_GONE;
    rt_bytes_addf(out, "after %s: %d nodes, %s, depth %d, roots ", pass, n,
                  g->serving ? "serving" : "loading", g->depth);
    for (int k = 0; k < g->n_fetches; k++, before = ", ")
        add_edge(out, g->fetch[k], before);
    for (int k = 0; k < g->n_targets; k++, before = ", ")
        rt_bytes_addf(out, "%s^%d", before, g->target[k]);
    rt_bytes_addc(out, '\n');
    for (int i = 0; i < g->n; i++)
        if (g->node[i].kind != PL_GONE)
            add_node(g, i, out);
}
