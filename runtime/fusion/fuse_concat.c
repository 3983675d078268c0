/*
 * Removes concatenations that only fused element-wise ops ("_Chain") read. These ops then read the
 * operands of the concatenation instead.
 *
 * In a DenseNet, the output of every layer is concatenated with the outputs of all earlier layers,
 * normalised and convolved. Without this pass, layer n copies n tensors to concatenate them, and
 * copies them once more to normalise them. If an operand of a removed concatenation is itself a
 * removed concatenation along the same axis, its own operands replace it.
 */
#include "runtime/fusion/fuse.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/fusion/elementwise.h"

enum {
    MOST_OPERANDS = 48,
    MOST_IN = RT_ELEMENTWISE_MOST_IN,
};

struct pass {
    struct pl_graph *g;
    bool *can;  /* for each node, whether it is a concatenation that can be removed */
    int *stack; /* concatenations that must stay and whose operands have not been marked yet */
    int n_stack;
};

static bool is_elementwise(const struct pl_node *n)
{
    struct rt_elementwise fused;
    if (!pl_is(n, "_Chain"))
        return false;
    rt_elementwise_read(n->def, &fused);
    return fused.pieces == 0;
}

/* Returns whether the node is a float concatenation along a constant axis and has no control
 * inputs. */
static bool is_concat(const struct pl_graph *g, const struct pl_node *n, int64_t *axis)
{
    return pl_is(n, "ConcatV2") && !n->call && n->n_ctrl == 0 && n->n_in >= 3 &&
           n->def->out_dtype[0] == RT_F32 && pl_int_constant(g, n->in[n->n_in - 1], axis);
}

static void must_be_made(struct pass *p, int i)
{
    if (p->can[i])
        p->stack[p->n_stack++] = i;
    p->can[i] = false;
}

/* If a concatenation must stay, each concatenation that is its operand must stay too. Marks all
 * these operands. */
static void propagate(struct pass *p)
{
    while (p->n_stack) {
        const struct pl_node *n = &p->g->node[p->stack[--p->n_stack]];
        for (int k = 0; k < n->n_in; k++)
            must_be_made(p, n->in[k].node);
    }
}

/* Marks each concatenation that must stay because a reader needs its result in one tensor. Two
 * kinds of readers accept several tensors instead: a fused element-wise op that has no other
 * concatenation among its earlier inputs, and a concatenation along the same axis. */
static void query_readers(struct pass *p)
{
    const struct pl_graph *g = p->g;

    for (int k = 0; k < g->n_fetches; k++)
        must_be_made(p, g->fetch[k].node);
    for (int k = 0; k < g->n_targets; k++)
        must_be_made(p, g->target[k]);
    for (int i = 0; i < g->n; i++) {
        const struct pl_node *n = &g->node[i];
        int64_t axis = 0, own;
        bool has_one = false;
        if (n->kind == PL_GONE)
            continue;
        const bool is_concatenating = is_concat(g, n, &own);
        for (int k = 0; k < n->n_ctrl; k++)
            must_be_made(p, n->ctrl[k]);
        for (int k = 0; k < n->n_in; k++) {
            const int from = n->in[k].node;
            if (!p->can[from])
                continue;
            if (is_concatenating && is_concat(g, &g->node[from], &axis) && axis == own)
                continue;
            if (is_elementwise(n) && !has_one)
                has_one = true;
            else
                must_be_made(p, from);
        }
    }
}

/* Lists the operands of concatenation i. Replaces each removed concatenation among them with its
 * own operands. Returns their number, or -1 if there are too many. */
static int operands_of(const struct pass *p, int i, struct pl_edge operand[MOST_OPERANDS])
{
    struct pl_edge todo[MOST_OPERANDS];
    int n_todo = 1, n = 0;

    todo[0] = (struct pl_edge){i, 0};
    while (n_todo) { /* `todo` is a stack. */
        const struct pl_edge e = todo[--n_todo];
        const struct pl_node *from = &p->g->node[e.node];
        if (!p->can[e.node]) {
            operand[n++] = e;
            continue;
        }
        if (n + n_todo + from->n_in - 1 > MOST_OPERANDS)
            return -1;
        for (int k = from->n_in - 2; k >= 0; k--)
            todo[n_todo++] = from->in[k];
    }
    return n;
}

/* Returns the input of fused op i that is a concatenation to be removed, or -1 if there is none. */
static int concat_input(const struct pass *p, int i)
{
    const struct pl_node *n = &p->g->node[i];
    if (is_elementwise(n))
        for (int k = 0; k < n->n_in; k++)
            if (p->can[n->in[k].node])
                return k;
    return -1;
}

/* Input `at` of an op is removed, and n operands are inserted before the other inputs. Returns the
 * new index of the input `operand`. */
static int64_t moved(int64_t operand, int at, int n)
{
    if (operand < 0) /* A negative operand is an encoded number, or -1 if absent. */
        return operand;
    return operand == at ? 0 : operand < at ? operand + n : operand + n - 1;
}

/* Makes fused op i read `n` operands instead of input `at`. */
static enum rt_status put(struct pl_graph *g, int i, int at, const struct pl_edge *operand, int n,
                          struct rt_error *err)
{
    const struct pl_node *old = &g->node[i];
    const int n_in = old->n_in - 1 + n, was = old->n_in;
    struct rt_elementwise fused;
    struct pl_edge in[MOST_IN];
    int n_steps;

    rt_elementwise_read(old->def, &fused);
    const struct rt_elementwise_step *from = rt_elementwise_steps(&fused, &n_steps);
    struct rt_elementwise_step *step = rt_arena_array(g->arena, (size_t)n_steps, sizeof *step);
    if (!step)
        return rt_fail_memory(err, "a plan", (size_t)n_steps * sizeof *step);
    for (int j = 0; j < n_steps; j++)
        step[j] = (struct rt_elementwise_step){.op = from[j].op,
                                               .a = moved(from[j].a, at, n),
                                               .b = moved(from[j].b, at, n),
                                               .c = moved(from[j].c, at, n)};
    memcpy(in, operand, (size_t)n * sizeof *in);
    for (int k = 0, to = n; k < was; k++)
        if (k != at)
            in[to++] = old->in[k];
    is_concat(g, &g->node[old->in[at].node], &fused.axis);
    fused.steps = rt_elementwise_of_steps(step, n_steps);
    fused.pieces = n;
    return pl_put_fused(g, &i, 1, rt_elementwise_op(&fused), in, n_in, err);
}

enum rt_status pl_fuse_concats(struct pl_graph *g, struct rt_error *err)
{
    struct pass p = {.g = g};
    struct pl_edge operand[MOST_OPERANDS];
    enum rt_status st = RT_OK;
    int64_t axis;

    p.can = calloc((size_t)g->n + 1, sizeof *p.can);
    p.stack = calloc((size_t)g->n + 1, sizeof *p.stack);
    if (!p.can || !p.stack)
        st = rt_fail_memory(err, "a plan", (size_t)g->n * sizeof *p.stack);
    for (int i = 0; i < g->n && !st; i++)
        p.can[i] = is_concat(g, &g->node[i], &axis);
    if (!st) {
        query_readers(&p);
        propagate(&p);
    }
    /* If an op would get too many inputs, its concatenations stay. */
    for (int i = 0; i < g->n && !st; i++) {
        const int at = concat_input(&p, i);
        if (at < 0)
            continue;
        const int n = operands_of(&p, g->node[i].in[at].node, operand);
        if (n < 0 || n + g->node[i].n_in - 1 > MOST_IN) {
            must_be_made(&p, g->node[i].in[at].node);
            propagate(&p);
        }
    }
    for (int i = 0; i < g->n && !st; i++) {
        const int at = concat_input(&p, i);
        if (at >= 0) {
            const int n = operands_of(&p, g->node[i].in[at].node, operand);
            st = put(g, i, at, operand, n, err);
        }
    }
    free(p.can);
    free(p.stack);
    return st;
}
