/*
 * Finds attention in the forms that frameworks generate, and replaces it with one "_Attention"
 * (attention.h):
 *
 *   scores = Einsum(queries, keys) "BTNH,BSNH->BNTS" (any letters, either order)       Keras
 *          = BatchMatMul(queries, keys) of [B,N,T,H] and [B,N,S,H], or [B,N,H,S]       others
 *   scaled, masked: Mul, RealDiv, AddV2, Sub, SelectV2
 *   context = Einsum(Softmax(scores), values) "BNTS,BSNH->BTNH"
 *           = BatchMatMul(Softmax(scores), values)
 *
 * The scores of one head at a time stay in the cache, and the heads are sharded over the cores. A
 * Transpose is removed if it only moves the axis of heads before the axis of rows, or back.
 */
#include "runtime/fusion/fuse.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/fusion/attention.h"

/* ---- the pattern ---- */

struct attention {
    struct pl_cluster nodes;
    struct pl_edge in[RT_ATTENTION_OPERANDS + 2 * RT_ATTENTION_MOST];
    int n_in, n_steps;
    /* the steps, from the softmax back to the scores */
    struct rt_attention_step step[RT_ATTENTION_MOST];
    struct rt_attention op;
    int scaled; /* node that scales the transposed queries, or -1 if there is none */
};

static void take(struct attention *m, int i)
{
    pl_cluster_take(&m->nodes, (struct pl_edge){i, 0});
}

/* Reads an equation of the form "abcd,efgh->ijkl" as 12 letters. */
static bool read_letters(const struct pl_node *n, char letter[12])
{
    struct rt_span part[3];

    if (!pl_einsum_letters(n, part))
        return false;
    for (int k = 0; k < 3; k++) {
        if (part[k].n != 4)
            return false;
        memcpy(letter + 4 * k, part[k].p, 4);
    }
    return true;
}

/* Returns whether `letter` starts with the letters a, b, c and d, in this order. */
static bool is_labels(const char *letter, char a, char b, char c, char d)
{
    return letter[0] == a && letter[1] == b && letter[2] == c && letter[3] == d;
}

/* ---- heads ---- */

/* Returns whether e is a Transpose by the permutation [0, second, third, fourth], and sets *of to
 * its input. */
static bool is_transposed(const struct pl_graph *g, struct pl_edge e, int second, int third,
                          int fourth, struct pl_edge *of)
{
    int64_t perm[4];
    const struct pl_node *n = pl_float_by(g, e, "Transpose", 2);
    if (!n || !pl_ints_constant(g, n->in[1], 4, perm) || perm[0] != 0 || perm[1] != second ||
        perm[2] != third || perm[3] != fourth)
        return false;
    *of = n->in[0];
    return true;
}

/* Returns whether node e multiplies or divides a value by a scalar constant. Sets *which to the
 * index of the input that is the value. */
static bool is_scaling(const struct pl_graph *g, struct pl_edge e, int *which)
{
    const struct pl_node *n = pl_float_by(g, e, "Mul", 2);
    float factor;

    *which = 0;
    if (!n)
        n = pl_float_by(g, e, "RealDiv", 2);
    else if (pl_float_constant(g, n->in[0], &factor))
        *which = 1;
    return n && pl_float_constant(g, n->in[1 - *which], &factor);
}

/* Returns whether e is known to have four axes. Skips nodes that only scale a value. */
static bool has_four_axes(const struct pl_graph *g, struct pl_edge e)
{
    int64_t v[RT_MAX_RANK];
    const struct rt_tensor *t;
    const struct pl_node *n;
    int which;

    for (int hops = 0; hops < 8 && is_scaling(g, e, &which); hops++)
        e = g->node[e.node].in[which];
    if ((t = pl_constant(g, e)) != NULL)
        return t->rank == 4;
    if ((n = pl_float_by(g, e, "Transpose", 2)) != NULL)
        return pl_some_ints(g, n->in[1], v) == 4;
    if (!(n = pl_float_by(g, e, "Reshape", 2)))
        return false;
    return pl_some_ints(g, n->in[1], v) == 4 || pl_made_by(g, n->in[1], "Pack", 4);
}

/* Sets input k of the attention to e, whose shape is [B,N,T,H]. If a Transpose makes e, sets input
 * k to the input of the Transpose instead. */
static bool take_heads(struct attention *m, int k, struct pl_edge e)
{
    struct pl_edge of;
    int which;

    if (is_transposed(m->nodes.g, e, 2, 1, 3, &m->in[k]))
        return true;
    if (!has_four_axes(m->nodes.g, e))
        return false;
    /* Scaling by a scalar gives the same values before and after the Transpose. */
    if (k == RT_ATTENTION_QUERIES && m->nodes.uses->n[e.node] == 1 &&
        is_scaling(m->nodes.g, e, &which) &&
        is_transposed(m->nodes.g, m->nodes.g->node[e.node].in[which], 2, 1, 3, &of))
        m->scaled = e.node;
    else
        m->op.heads_first |= 1 << k;
    m->in[k] = e;
    return true;
}

/* A matmul of float32 tensors, batched over all axes but the last two. */
struct matmul {
    const struct pl_node *node;
    bool transposes_second, broadcasts;
};

static bool is_matmul(const struct pl_graph *g, struct pl_edge e, struct matmul *p)
{
    static const char *const ops[] = {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"};
    for (int i = 0; i < 3; i++) {
        const struct pl_node *n = pl_float_by(g, e, ops[i], 2);
        if (!n || n->def->in_dtype[0] != RT_F32 || n->def->in_dtype[1] != RT_F32 ||
            n->def->n_extra || rt_attr_bool(n->def, "adj_x"))
            continue;
        *p = (struct matmul){
            .node = n, .transposes_second = rt_attr_bool(n->def, "adj_y"), .broadcasts = i > 0};
        return true;
    }
    return false;
}

/* ---- scores ---- */

/* Returns whether the four letters are [B,T,N,H] or [B,N,T,H]. Sets *first to whether they are
 * [B,N,T,H]. */
static bool is_heads(const char *letter, char b, char heads, char rows, char h, bool *first)
{
    *first = is_labels(letter, b, heads, rows, h);
    return *first || is_labels(letter, b, rows, heads, h);
}

/* Returns whether e is an Einsum that multiplies queries by keys. */
static bool is_einsum_scores(struct attention *m, struct pl_edge e)
{
    const struct pl_node *n = pl_float_by(m->nodes.g, e, "Einsum", 2);
    char l[12];

    if (!n || !read_letters(n, l))
        return false;
    const char b = l[8], heads = l[9], t = l[10], s = l[11];
    for (int q = 0; q < 2; q++) { /* `q` is the index of the operand that holds the queries. */
        const char *const lq = l + 4 * q, *const lk = l + 4 * (1 - q);
        const char h = lq[3];
        bool first[2];
        if (h == s || !is_heads(lq, b, heads, t, h, &first[0]) ||
            !is_heads(lk, b, heads, s, h, &first[1]))
            continue;
        for (int k = 0; k < 2; k++) {
            m->in[k] = n->in[k ? 1 - q : q];
            if (first[k] && !take_heads(m, k, m->in[k]))
                /* The equation of the Einsum shows that the input has four axes. */
                m->op.heads_first |= 1 << k;
        }
        take(m, e.node);
        return true;
    }
    return false;
}

/* Matches `e` if it has shape [B,N,H,S] and a Transpose makes it from keys of shape [B,N,S,H]. */
static bool take_transposed(struct attention *m, struct pl_edge e)
{
    if (!is_transposed(m->nodes.g, e, 1, 3, 2, &m->in[RT_ATTENTION_KEYS]))
        return false;
    m->op.heads_first |= 1 << RT_ATTENTION_KEYS;
    return true;
}

static bool is_matmul_scores(struct attention *m, struct pl_edge e)
{
    struct matmul p;
    const struct attention before = *m;

    if (!is_matmul(m->nodes.g, e, &p))
        return false;
    const struct pl_edge keys = p.node->in[1];
    if (!(p.transposes_second
              ? take_heads(m, RT_ATTENTION_KEYS, keys)
              : is_transposed(m->nodes.g, keys, 2, 3, 1, &m->in[RT_ATTENTION_KEYS]) ||
                    take_transposed(m, keys)) ||
        !take_heads(m, RT_ATTENTION_QUERIES, p.node->in[0])) {
        *m = before;
        return false;
    }
    m->op.broadcasts |= p.broadcasts ? RT_ATTENTION_SCORES : 0;
    take(m, e.node);
    return true;
}

static bool is_scores(struct attention *m, struct pl_edge e)
{
    return is_einsum_scores(m, e) || is_matmul_scores(m, e);
}

/* ---- steps ---- */

static bool is_scalar(const struct attention *m, struct pl_edge e)
{
    const struct rt_tensor *t = pl_constant(m->nodes.g, e);
    return t && t->dtype == RT_F32 && t->rank == 0;
}

static bool walk(struct attention *m, struct pl_edge e);

/* Adds node n as a step, and follows the node's input `from` towards the scores. Returns false, and
 * leaves *m unchanged, if the scores are not reached. */
static bool step(struct attention *m, struct pl_edge e, const struct pl_node *n, int from,
                 enum rt_attention_op op, int a, int b)
{
    const struct attention before = *m;

    if (m->n_steps == RT_ATTENTION_MOST || m->nodes.uses->n[e.node] != 1)
        return false;
    take(m, e.node);
    struct rt_attention_step *s = &m->step[m->n_steps++];
    *s = (struct rt_attention_step){op, m->n_in, -1};
    m->in[m->n_in++] = n->in[a];
    if (b >= 0) {
        s->b = m->n_in;
        m->in[m->n_in++] = n->in[b];
    }
    if (walk(m, n->in[from]))
        return true;
    *m = before;
    return false;
}

/* Follows e back to the scores, through steps whose values no other node reads. */
static bool walk(struct attention *m, struct pl_edge e)
{
    const struct pl_node *n;

    if (m->nodes.uses->n[e.node] != 1)
        return false;
    if (is_scores(m, e))
        return true;
    if ((n = pl_float_by(m->nodes.g, e, "SelectV2", 3)) != NULL)
        return (is_scalar(m, n->in[2]) && step(m, e, n, 1, RT_ATTENTION_KEEP, 0, 2)) ||
               (is_scalar(m, n->in[1]) && step(m, e, n, 2, RT_ATTENTION_REPLACE, 0, 1));
    if ((n = pl_float_by(m->nodes.g, e, "RealDiv", 2)) != NULL)
        return step(m, e, n, 0, RT_ATTENTION_DIV, 1, -1);
    if ((n = pl_float_by(m->nodes.g, e, "Sub", 2)) != NULL)
        return step(m, e, n, 0, RT_ATTENTION_SUB, 1, -1);
    enum rt_attention_op op = RT_ATTENTION_MUL;
    if (!(n = pl_float_by(m->nodes.g, e, "Mul", 2))) {
        op = RT_ATTENTION_ADD;
        n = pl_float_sum(m->nodes.g, e);
    }
    return n && (step(m, e, n, 0, op, 1, -1) || step(m, e, n, 1, op, 0, -1));
}

/* ---- context ---- */

/* Follows the softmax back to the scores. The nodes that make the context are already in the
 * cluster. */
static bool find_scores(struct attention *m, struct pl_edge softmax)
{
    const struct pl_node *n = pl_float_by(m->nodes.g, softmax, "Softmax", 1);
    if (!n || m->nodes.uses->n[softmax.node] != 1)
        return false;
    take(m, softmax.node);
    return walk(m, n->in[0]);
}

static bool is_einsum_context(struct attention *m, int i)
{
    const struct pl_node *n = pl_float_by(m->nodes.g, (struct pl_edge){i, 0}, "Einsum", 2);
    const struct attention before = *m;
    char l[12];

    if (!n || !read_letters(n, l))
        return false;
    const char b = l[8], d = l[11];
    for (int p = 0; p < 2; p++) { /* `p` is the index of the operand that is the softmax. */
        const char *const lp = l + 4 * p, *const lv = l + 4 * (1 - p);
        const char heads = lp[1], t = lp[2], s = lp[3];
        bool out_first, v_first;
        *m = before;
        if (s == d || lp[0] != b || !is_heads(l + 8, b, heads, t, d, &out_first) ||
            !is_heads(lv, b, heads, s, d, &v_first))
            continue;
        take(m, i);
        m->in[RT_ATTENTION_VALUES] = n->in[1 - p];
        m->op.heads_first = out_first << RT_ATTENTION_OUT | v_first << RT_ATTENTION_VALUES;
        if (find_scores(m, n->in[p]))
            return true;
    }
    *m = before;
    return false;
}

/* Matches a context that is a matmul followed by a Transpose. The Transpose moves the axis of rows
 * back before the axis of heads. The Transpose has four axes, so no mask has added a fifth axis to
 * the scores. */
static bool is_matmul_context(struct attention *m, int i)
{
    struct pl_edge of;
    struct matmul p;

    if (!is_transposed(m->nodes.g, (struct pl_edge){i, 0}, 2, 1, 3, &of) ||
        m->nodes.uses->n[of.node] != 1 || !is_matmul(m->nodes.g, of, &p) || p.transposes_second ||
        !take_heads(m, RT_ATTENTION_VALUES, p.node->in[1]))
        return false;
    m->op.broadcasts |= p.broadcasts ? RT_ATTENTION_CONTEXT : 0;
    take(m, i);
    take(m, of.node);
    return find_scores(m, p.node->in[0]);
}

/* Matches attention whose context is made by node i. */
static bool find(struct attention *m, const struct pl_graph *g, int i, const struct pl_uses *uses)
{
    *m = (struct attention){
        .nodes = pl_cluster_from(g, uses, i), .n_in = RT_ATTENTION_OPERANDS, .scaled = -1};
    return is_einsum_context(m, i) || is_matmul_context(m, i);
}

/* Node `scaled` scales the transposed queries. Makes it scale the input of the Transpose
 * instead. */
static void scale_first(struct pl_graph *g, int scaled)
{
    struct pl_node *n = &g->node[scaled];
    int which;
    if (is_scaling(g, (struct pl_edge){scaled, 0}, &which))
        n->in[which] = g->node[n->in[which].node].in[0];
}

static enum rt_status put(struct pl_graph *g, struct attention *m, struct rt_error *err)
{
    struct rt_attention_step *steps =
        rt_arena_array(g->arena, (size_t)m->n_steps + 1, sizeof *steps);

    if (!steps)
        return rt_fail_memory(err, "a plan", (size_t)m->n_steps * sizeof *steps);
    for (int j = 0; j < m->n_steps; j++)
        steps[j] = m->step[m->n_steps - 1 - j];
    m->op.steps = rt_attention_of_steps(steps, m->n_steps);
    const enum rt_status st =
        pl_put_fused(g, m->nodes.node, m->nodes.n, rt_attention_op(&m->op), m->in, m->n_in, err);
    if (!st && m->scaled >= 0)
        scale_first(g, m->scaled);
    return st;
}

enum rt_status pl_fuse_attention(struct pl_graph *g, struct rt_error *err)
{
    struct pl_uses uses;

    if (!rt_registry_op(g->session->options.registry, "_Attention"))
        return RT_OK;
    enum rt_status st = pl_uses_count(&uses, g, err);
    bool found = false;
    for (int i = 0; i < g->n && !st; i++) {
        struct attention m;
        if (!find(&m, g, i, &uses))
            continue;
        st = put(g, &m, err);
        found = true;
    }
    pl_uses_free(&uses);
    if (found)
        /* Removes the Transposes that moved the axis of heads, if they have no readers left. */
        pl_prune(g);
    return st;
}
