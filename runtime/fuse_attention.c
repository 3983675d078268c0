/*
 * Finds attention as Keras writes it, and makes it one "_Attention" (attention.h):
 *
 *   scores = Einsum(queries, keys) "BTNH,BSNH->BNTS" (any letters, either order)
 *   scaled, masked: Mul, RealDiv, AddV2, SelectV2
 *   context = Einsum(Softmax(scores), values) "BNTS,BSNH->BTNH"
 *
 * Scores stay in the cache, head by head, and heads are shared out over the cores.
 *
 * Before that, a mask that is joined with ones as large as the scores loses them: what selects
 * broadcasts anyway.
 */
#include "runtime/fuse.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/attention.h"

/* ---- masks ---- */

/* Fill(Shape(of), true) */
static bool is_all_true(const struct pl_graph *g, struct pl_edge e, struct pl_edge of)
{
    const struct pl_node *fill = pl_made_by(g, e, "Fill", 2);
    const struct pl_node *shape = fill ? pl_made_by(g, fill->in[0], "Shape", 1) : NULL;
    const struct rt_tensor *t = fill ? pl_constant(g, fill->in[1]) : NULL;
    return shape && pl_same(shape->in[0], of) && t && t->dtype == RT_BOOL && t->rank == 0 &&
           !rt_tensor_is_lazy(t) && *(const bool *)t->data;
}

enum rt_status pl_fuse_masks(struct pl_graph *g, struct rt_error *err)
{
    bool changed = false;

    (void)err;
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
    if (changed)
        pl_prune(g); /* or what is left of it would still count as a reader */
    return RT_OK;
}

/* ---- the pattern ---- */

struct match {
    const struct pl_graph *g;
    const struct pl_uses *uses;
    struct pl_edge in[3 + 2 * RT_ATTENTION_MOST]; /* queries, keys, values, operands */
    int n_in, n_steps;
    struct rt_attention_step step[RT_ATTENTION_MOST]; /* the last one first */
    int member[RT_ATTENTION_MOST + 3], n;             /* nodes, the last one first */
};

/* "abcd,efgh->ijkl": the 12 letters. */
static bool read_equation(const struct pl_node *n, char letter[12])
{
    const struct rt_span eq = rt_attr_str(n->def, "equation");
    const char *s = (const char *)eq.p;
    if (eq.n != 15 || s[4] != ',' || s[9] != '-' || s[10] != '>')
        return false;
    memcpy(letter, s, 4);
    memcpy(letter + 4, s + 5, 4);
    memcpy(letter + 8, s + 11, 4);
    for (int i = 0; i < 12; i++) {
        if (!((letter[i] >= 'a' && letter[i] <= 'z') || (letter[i] >= 'A' && letter[i] <= 'Z')))
            return false;
        for (int j = i / 4 * 4; j < i; j++) /* none twice in an operand */
            if (letter[i] == letter[j])
                return false;
    }
    return true;
}

/* letter[at] to letter[at + 3] are those of `want`. */
static bool is_labels(const char *letter, char a, char b, char c, char d)
{
    return letter[0] == a && letter[1] == b && letter[2] == c && letter[3] == d;
}

/* e = queries x keys */
static bool is_scores(struct match *m, struct pl_edge e)
{
    const struct pl_node *n = pl_float_by(m->g, e, "Einsum", 2);
    char l[12];

    if (!n || !read_equation(n, l))
        return false;
    const char b = l[8], heads = l[9], t = l[10], s = l[11];
    for (int q = 0; q < 2; q++) { /* which operand has the queries */
        const char *const lq = l + 4 * q, *const lk = l + 4 * (1 - q);
        const char h = lq[3];
        if (h == s || !is_labels(lq, b, t, heads, h) || !is_labels(lk, b, s, heads, h))
            continue;
        m->in[0] = n->in[q];
        m->in[1] = n->in[1 - q];
        m->member[m->n++] = e.node;
        return true;
    }
    return false;
}

static bool is_scalar(const struct match *m, struct pl_edge e)
{
    return pl_is_constant(m->g, e) && m->g->node[e.node].value.dtype == RT_F32 &&
           m->g->node[e.node].value.rank == 0;
}

static bool walk(struct match *m, struct pl_edge e);

/* The step that n is, `from` the input that goes on towards the scores. */
static bool step(struct match *m, struct pl_edge e, const struct pl_node *n, int from,
                 enum rt_attention_op op, int a, int b)
{
    const struct match before = *m;

    if (m->n_steps == RT_ATTENTION_MOST || m->uses->n[e.node] != 1)
        return false;
    m->member[m->n++] = e.node;
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

/* From e back to the scores, by steps that nobody else reads. */
static bool walk(struct match *m, struct pl_edge e)
{
    const struct pl_node *n;

    if (m->uses->n[e.node] != 1)
        return false;
    if (is_scores(m, e))
        return true;
    if ((n = pl_float_by(m->g, e, "SelectV2", 3)) != NULL)
        return (is_scalar(m, n->in[2]) && step(m, e, n, 1, RT_ATTENTION_KEEP, 0, 2)) ||
               (is_scalar(m, n->in[1]) && step(m, e, n, 2, RT_ATTENTION_REPLACE, 0, 1));
    if ((n = pl_float_by(m->g, e, "RealDiv", 2)) != NULL)
        return step(m, e, n, 0, RT_ATTENTION_DIV, 1, -1);
    enum rt_attention_op op = RT_ATTENTION_MUL;
    if (!(n = pl_float_by(m->g, e, "Mul", 2))) {
        op = RT_ATTENTION_ADD;
        n = pl_float_sum(m->g, e);
    }
    return n && (step(m, e, n, 0, op, 1, -1) || step(m, e, n, 1, op, 0, -1));
}

/* Node i is a context: its values, and what its softmax is made of. */
static bool find(struct match *m, const struct pl_graph *g, int i, const struct pl_uses *uses)
{
    const struct pl_node *n = pl_float_by(g, (struct pl_edge){i, 0}, "Einsum", 2);
    char l[12];

    if (!n || !read_equation(n, l))
        return false;
    const char b = l[8], t = l[9], heads = l[10], d = l[11];
    for (int p = 0; p < 2; p++) { /* which operand has the softmax */
        const char *const lp = l + 4 * p, *const lv = l + 4 * (1 - p);
        const char s = lp[3];
        const struct pl_node *soft = pl_float_by(g, n->in[p], "Softmax", 1);
        if (!soft || uses->n[n->in[p].node] != 1 || s == d || !is_labels(lp, b, heads, t, s) ||
            !is_labels(lv, b, s, heads, d))
            continue;
        *m = (struct match){.g = g, .uses = uses, .n_in = 3, .member = {i, n->in[p].node}, .n = 2};
        m->in[2] = n->in[1 - p];
        return walk(m, soft->in[0]);
    }
    return false;
}

static enum rt_status put(struct pl_graph *g, const struct match *m, struct rt_error *err)
{
    struct rt_attention_step *steps =
        rt_arena_array(g->arena, (size_t)m->n_steps + 1, sizeof *steps);
    uint8_t dtype[3 + 2 * RT_ATTENTION_MOST];
    const uint8_t out_dtype = RT_F32;

    if (!steps)
        return rt_fail_memory(err, "a plan", (size_t)m->n_steps * sizeof *steps);
    memset(dtype, RT_F32, sizeof dtype);
    for (int j = 0; j < m->n_steps; j++) {
        steps[j] = m->step[m->n_steps - 1 - j];
        if (steps[j].op == RT_ATTENTION_KEEP || steps[j].op == RT_ATTENTION_REPLACE)
            dtype[steps[j].a] = RT_BOOL;
    }
    const struct rt_attr attr = {.type = RT_ATTR_INT | RT_ATTR_LIST,
                                 .n = (size_t)m->n_steps * 3,
                                 .v.ints = (const int64_t *)(const void *)steps};
    const struct pl_own own = {.op = "_Attention",
                               .n_in = m->n_in,
                               .n_out = 1,
                               .in = m->in,
                               .in_dtype = dtype,
                               .out_dtype = &out_dtype,
                               .attr = &attr};
    const enum rt_status st = pl_make_own(g, m->member[0], &own, err);
    for (int j = 1; j < m->n && !st; j++)
        g->node[m->member[j]].kind = PL_GONE;
    return st;
}

enum rt_status pl_fuse_attention(struct pl_graph *g, struct rt_error *err)
{
    struct pl_uses uses;

    if (!rt_registry_op(g->session->options.registry, "_Attention"))
        return RT_OK;
    enum rt_status st = pl_uses_count(&uses, g, err);
    for (int i = 0; i < g->n && !st; i++) {
        struct match m;
        if (find(&m, g, i, &uses))
            st = put(g, &m, err);
    }
    pl_uses_free(&uses);
    return st;
}
