#include "runtime/ir/match.h"

#include <stdlib.h>
#include <string.h>

/* ---- nodes ---- */

const struct pl_node *pl_op_node(const struct pl_graph *g, struct pl_edge e, const char *op,
                                 int n_in)
{
    const struct pl_node *n = &g->node[e.node];
    return e.out == 0 && pl_is(n, op) && n->n_in == n_in && !n->call ? n : NULL;
}

const struct pl_node *pl_made_by(const struct pl_graph *g, struct pl_edge e, const char *op,
                                 int n_in)
{
    const struct pl_node *n = pl_op_node(g, e, op, n_in);
    return n && n->n_ctrl == 0 ? n : NULL;
}

const struct pl_node *pl_float_by(const struct pl_graph *g, struct pl_edge e, const char *op,
                                  int n_in)
{
    const struct pl_node *n = pl_made_by(g, e, op, n_in);
    return n && n->def->n_out > 0 && n->def->out_dtype[0] == RT_F32 ? n : NULL;
}

bool pl_is_add(const struct pl_node *n)
{
    return pl_is(n, "AddV2") || pl_is(n, "Add");
}

const struct pl_node *pl_sum_node(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = pl_op_node(g, e, "AddV2", 2);
    return n ? n : pl_op_node(g, e, "Add", 2);
}

const struct pl_node *pl_float_sum(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = pl_float_by(g, e, "AddV2", 2);
    return n ? n : pl_float_by(g, e, "Add", 2);
}

/* ---- origins ---- */

bool pl_is_ref(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = &g->node[e.node];
    return n->def && e.out < 64 && (n->def->out_ref >> e.out & 1) &&
           !(n->kind == PL_CONST && n->frozen);
}

static struct pl_edge origin(const struct pl_graph *g, struct pl_edge e, bool may_wait)
{
    for (int hops = 0; hops < 64; hops++) {
        const struct pl_node *n = &g->node[e.node];
        if (!pl_is(n, "Identity") || n->n_in != 1 || (n->n_ctrl && !may_wait) ||
            pl_is_ref(g, n->in[0]))
            break;
        e = n->in[0];
    }
    return e;
}

struct pl_edge pl_origin(const struct pl_graph *g, struct pl_edge e)
{
    return origin(g, e, true);
}

struct pl_edge pl_pure_origin(const struct pl_graph *g, struct pl_edge e)
{
    return origin(g, e, false);
}

/* ---- constants ---- */

const struct rt_tensor *pl_constant(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = &g->node[e.node];
    return n->kind == PL_CONST && e.out == 0 && n->n_ctrl == 0 && n->value.dtype != RT_RESOURCE
               ? &n->value
               : NULL;
}

bool pl_is_constant(const struct pl_graph *g, struct pl_edge e)
{
    const struct pl_node *n = &g->node[e.node];
    return n->kind == PL_CONST && e.out == 0 && n->n_ctrl == 0;
}

bool pl_float_constant(const struct pl_graph *g, struct pl_edge e, float *v)
{
    const struct rt_tensor *t = pl_constant(g, e);
    struct rt_tensor held;
    struct rt_error err = {0};

    if (!t || t->rank != 0 || t->dtype != RT_F32)
        return false;
    rt_tensor_ref(&held, t); /* The value of a variable might not be loaded yet. */
    const bool is_there = rt_tensor_load(&held, &err) == RT_OK && held.data;
    if (is_there)
        memcpy(v, held.data, sizeof *v);
    rt_tensor_clear(&held);
    return is_there;
}

int pl_some_ints(const struct pl_graph *g, struct pl_edge e, int64_t v[RT_MAX_RANK])
{
    const struct rt_tensor *t = pl_constant(g, e);
    if (!t || (t->dtype != RT_I32 && t->dtype != RT_I64) || t->rank > 1 || rt_tensor_is_lazy(t) ||
        rt_tensor_count(t) > RT_MAX_RANK)
        return -1;
    const int n = (int)rt_tensor_count(t);
    for (int i = 0; i < n; i++)
        v[i] = t->dtype == RT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
    return n;
}

bool pl_int_constant(const struct pl_graph *g, struct pl_edge e, int64_t *v)
{
    int64_t all[RT_MAX_RANK];
    if (pl_some_ints(g, e, all) != 1 || pl_constant(g, e)->rank != 0)
        return false;
    *v = all[0];
    return true;
}

bool pl_ints_constant(const struct pl_graph *g, struct pl_edge e, int n, int64_t *v)
{
    int64_t all[RT_MAX_RANK];
    if (pl_some_ints(g, e, all) != n || pl_constant(g, e)->rank != 1)
        return false;
    memcpy(v, all, (size_t)n * sizeof *v);
    return true;
}

const struct rt_tensor *pl_matrix_constant(const struct pl_graph *g, struct pl_edge e)
{
    const struct rt_tensor *t = pl_constant(g, e);
    return t && t->dtype == RT_F32 && t->rank == 2 ? t : NULL;
}

const struct rt_tensor *pl_row_constant(const struct pl_graph *g, struct pl_edge e)
{
    const struct rt_tensor *t = pl_constant(g, e);
    if (!t || t->dtype != RT_F32 || t->rank < 1)
        return NULL;
    for (int i = 0; i < t->rank - 1; i++)
        if (t->dim[i] != 1)
            return NULL;
    return t;
}

/* ---- readers ---- */

enum rt_status pl_uses_count(struct pl_uses *u, const struct pl_graph *g, struct rt_error *err)
{
    u->n = calloc((size_t)g->n + 1, 2 * sizeof *u->n);
    if (!u->n) {
        u->user = NULL;
        return rt_fail_memory(err, "a plan", (size_t)g->n * 2 * sizeof *u->n);
    }
    u->user = u->n + g->n;
    for (int i = 0; i < g->n; i++) {
        const struct pl_node *n = &g->node[i];
        if (n->kind == PL_GONE)
            continue;
        for (int k = 0; k < n->n_in; k++) {
            u->n[n->in[k].node]++;
            u->user[n->in[k].node] = i;
        }
        for (int k = 0; k < n->n_ctrl; k++)
            u->n[n->ctrl[k]] += 2;
    }
    for (int k = 0; k < g->n_fetches; k++)
        u->n[g->fetch[k].node] += 2;
    for (int k = 0; k < g->n_targets; k++)
        u->n[g->target[k]] += 2;
    return RT_OK;
}

void pl_uses_free(struct pl_uses *u)
{
    free(u->n);
    *u = (struct pl_uses){0};
}

static int n_sources(const struct pl_node *n, bool waits)
{
    return n->kind == PL_GONE ? 0 : n->n_in + (waits ? n->n_ctrl : 0);
}

static int source_of(const struct pl_node *n, int k)
{
    return k < n->n_in ? n->in[k].node : n->ctrl[k - n->n_in];
}

struct pl_readers *pl_readers_new(const struct pl_graph *g, bool waits, struct rt_error *err)
{
    struct pl_readers *r = calloc(1, sizeof *r);
    size_t edges = 0;

    for (int i = 0; i < g->n; i++)
        edges += (size_t)n_sources(&g->node[i], waits);
    if (r) {
        r->first = calloc((size_t)g->n + 2, sizeof *r->first);
        r->of = malloc((edges + 1) * sizeof *r->of);
    }
    if (!r || !r->first || !r->of) {
        pl_readers_free(r);
        rt_fail_memory(err, "a plan", edges * sizeof *r->of);
        return NULL;
    }
    /* First, first[i + 2] counts the readers of node i. After summation, first[i + 1] is the index
     * in `of` at which the readers of node i begin. While `of` is filled, first[i + 1] advances to
     * the index at which the readers of node i + 1 begin. */
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < n_sources(&g->node[i], waits); k++)
            r->first[source_of(&g->node[i], k) + 2]++;
    for (int i = 0; i < g->n; i++)
        r->first[i + 2] += r->first[i + 1];
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < n_sources(&g->node[i], waits); k++)
            r->of[r->first[source_of(&g->node[i], k) + 1]++] = (struct pl_reader){i, k};
    return r;
}

void pl_readers_free(struct pl_readers *r)
{
    if (r) {
        free(r->first);
        free(r->of);
    }
    free(r);
}

bool pl_is_closed(const struct pl_graph *g, const struct pl_uses *u, const int *node, int n)
{
    for (int i = 1; i < n; i++) {
        int reads = 0;
        if (g->node[node[i]].on_accelerator != g->node[node[0]].on_accelerator)
            return false;
        for (int j = 0; j < n; j++) {
            const struct pl_node *reader = &g->node[node[j]];
            for (int k = 0; k < reader->n_in; k++)
                reads += reader->in[k].node == node[i];
        }
        if (reads != u->n[node[i]])
            return false;
    }
    return true;
}

/* ---- clusters ---- */

struct pl_cluster pl_cluster_from(const struct pl_graph *g, const struct pl_uses *uses, int root)
{
    return (struct pl_cluster){.g = g, .uses = uses, .node = {root}, .n = 1};
}

void pl_cluster_take(struct pl_cluster *c, struct pl_edge e)
{
    if (c->n > PL_CLUSTER_MOST)
        return;
    for (int i = 0; i < c->n; i++)
        if (c->node[i] == e.node)
            return;
    if (c->n < PL_CLUSTER_MOST)
        c->node[c->n] = e.node;
    c->n++;
}

bool pl_cluster_is_closed(const struct pl_cluster *c)
{
    return c->n <= PL_CLUSTER_MOST && pl_is_closed(c->g, c->uses, c->node, c->n);
}
