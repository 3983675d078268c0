/*
 * Element-wise fusion merges element-wise float32 nodes into one "_Chain" (elementwise.h). A node
 * is merged with the producers that only it reads, then with the producers that only merged nodes
 * read, and so on. The fused op takes the place of the last node, the only one whose value other
 * nodes read. Comparisons, casts to float32 and selections are fused too. A selection of TensorFlow
 * 1 is fused only if all its operands have the same shape.
 *
 * Typical groups of fused nodes are a swish, a GELU, and a residual addition with its activation.
 */
#include "runtime/fusion/fuse.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/fusion/elementwise.h"

/* The types of the inputs and the output of each op. RT_NO_DTYPE stands for any type that
 * rt_elementwise_input accepts. */
static const struct {
    const char *name;
    uint8_t op, n_in, in[3], out;
} elementwise_ops[] = {
#define X(op, kernel) {#op, RT_ELEMENTWISE_##op, 1, {RT_F32}, RT_F32},
    RT_ELEMENTWISE_UNARY(X) X(LeakyRelu, )
#undef X
#define X(op, kernel) {#op, RT_ELEMENTWISE_##op, 2, {RT_F32, RT_F32}, RT_F32},
        RT_ELEMENTWISE_BINARY(X) X(BiasAdd, )
#undef X
#define X(op, kernel) {#op, RT_ELEMENTWISE_##op, 2, {RT_F32, RT_F32}, RT_BOOL},
            RT_ELEMENTWISE_TRUTH(X)
#undef X
#define X(op, kernel) {#op, RT_ELEMENTWISE_##op, 2, {RT_BOOL, RT_BOOL}, RT_BOOL},
                RT_ELEMENTWISE_LOGICAL(X)
#undef X
                    {"LogicalNot", RT_ELEMENTWISE_LogicalNot, 1, {RT_BOOL}, RT_BOOL},
    {"Cast", RT_ELEMENTWISE_Cast, 1, {RT_NO_DTYPE}, RT_F32},
    {"SelectV2", RT_ELEMENTWISE_SelectV2, 3, {RT_BOOL, RT_F32, RT_F32}, RT_F32},
    {"Select", RT_ELEMENTWISE_SelectV2, 3, {RT_BOOL, RT_F32, RT_F32}, RT_F32},
};
enum { N_OPS = sizeof elementwise_ops / sizeof *elementwise_ops };

static bool has_types(const struct rt_node *n, int i)
{
    for (int k = 0; k < elementwise_ops[i].n_in; k++) {
        const enum rt_dtype d = (enum rt_dtype)n->in_dtype[k];
        if (elementwise_ops[i].in[k] == RT_NO_DTYPE ? !rt_elementwise_input(d)
                                                    : d != elementwise_ops[i].in[k])
            return false;
    }
    return n->out_dtype[0] == elementwise_ops[i].out;
}

static bool has_attributes(const struct rt_node *n, int op)
{
    if (op == RT_ELEMENTWISE_BiasAdd)
        return rt_span_is(rt_attr_str(n, "data_format"), "NHWC");
    if (op == RT_ELEMENTWISE_Equal || op == RT_ELEMENTWISE_NotEqual)
        return rt_attr_bool(n, "incompatible_shape_error");
    return true;
}

static int step_of(const struct pl_graph *g, const struct pl_node *n);

/* Follows e back through element-wise ops that read one tensor and at most one scalar constant.
 * Returns the value at which this path begins; its shape is that of e. */
static struct pl_edge shape_of(const struct pl_graph *g, struct pl_edge e)
{
    for (int hops = 0; hops < 16; hops++) {
        const struct pl_node *n = &g->node[e.node];
        if (pl_made_by(g, e, "ZerosLike", 1) || pl_made_by(g, e, "OnesLike", 1)) {
            e = n->in[0];
            continue;
        }
        const bool is_step = e.out == 0 && n->n_in > 0 && n->n_in < 3 && step_of(g, n) >= 0;
        float v;
        if (is_step && (n->n_in == 1 || pl_float_constant(g, n->in[1], &v)))
            e = n->in[0];
        else if (is_step && pl_float_constant(g, n->in[0], &v))
            e = n->in[1];
        else
            break;
    }
    return e;
}

/* Returns whether all inputs of a Select have the same shape. Otherwise, Select may behave
 * differently from SelectV2: it selects rows if its condition is a vector, and it refuses operands
 * that SelectV2 would broadcast. */
static bool is_of_one_shape(const struct pl_graph *g, const struct pl_node *n)
{
    const struct pl_edge e = shape_of(g, n->in[0]);
    return !pl_is_ref(g, e) && pl_same(shape_of(g, n->in[1]), e) &&
           pl_same(shape_of(g, n->in[2]), e);
}

/* Returns the enum rt_elementwise_op of the node, or -1 if it has none. */
static int step_of(const struct pl_graph *g, const struct pl_node *n)
{
    if (n->kind != PL_OP || !n->def || !n->def->op || n->call || n->effect != RT_PURE ||
        n->def->n_out != 1 || n->n_in > 3)
        return -1;
    for (int i = 0; i < N_OPS; i++)
        if (elementwise_ops[i].n_in == n->n_in && pl_is(n, elementwise_ops[i].name))
            return has_types(n->def, i) && has_attributes(n->def, elementwise_ops[i].op) &&
                           (!pl_is(n, "Select") || is_of_one_shape(g, n))
                       ? elementwise_ops[i].op
                       : -1;
    return -1;
}

struct pass {
    struct pl_graph *g;
    struct pl_uses uses;
    int n;
    /* For each node, its enum rt_elementwise_op; -1 if it has none or is already fused. */
    int8_t *step;
    int *taken;   /* for each node, how many times the nodes collected so far read it */
    int *order;   /* indexes of the nodes, ordered so that each node follows all its readers */
    int *touched; /* nodes whose element of `taken` must be reset */
    int n_touched;
};

/* Orders the nodes so that each node follows all its readers (in a loop, most of its readers). The
 * traversal does not recurse, because a path may be as long as the graph. */
static enum rt_status set_order(struct pass *p, struct rt_error *err)
{
    const struct pl_graph *g = p->g;
    int *stack = calloc((size_t)p->n + 1, 2 * sizeof *stack);
    bool *seen = calloc((size_t)p->n + 1, sizeof *seen);
    /* The traversal finishes producers first, but `order` lists readers first, so it is filled from
     * its end. */
    int at = p->n;

    for (int i = 0; i < p->n && stack && seen; i++) {
        int depth = 0;
        if (seen[i] || g->node[i].kind == PL_GONE)
            continue;
        seen[i] = true;
        stack[0] = i;
        stack[1] = 0;
        while (depth >= 0) {
            const struct pl_node *n = &g->node[stack[2 * depth]];
            int *k = &stack[2 * depth + 1];
            while (*k < n->n_in && seen[n->in[*k].node])
                ++*k;
            if (*k < n->n_in) {
                const int next = n->in[*k].node;
                seen[next] = true;
                ++depth;
                stack[2 * depth] = next;
                stack[2 * depth + 1] = 0;
            } else {
                p->order[--at] = stack[2 * depth];
                --depth;
            }
        }
    }
    /* `order` was filled from the end, and removed nodes left a gap at its start. */
    memmove(p->order, p->order + at, (size_t)(p->n - at) * sizeof *p->order);
    p->n -= at;
    const bool ok = stack && seen;
    free(stack);
    free(seen);
    return ok ? RT_OK : rt_fail_memory(err, "a plan", (size_t)g->n * 2 * sizeof *stack);
}

static enum rt_status set_up(struct pass *p, struct rt_error *err)
{
    const size_t n = (size_t)p->g->n + 1;
    enum rt_status st = pl_uses_count(&p->uses, p->g, err);

    p->step = malloc(n);
    p->taken = calloc(n, sizeof *p->taken);
    p->order = calloc(n, sizeof *p->order);
    p->touched = calloc(n, sizeof *p->touched);
    if (!st && (!p->step || !p->taken || !p->order || !p->touched))
        st = rt_fail_memory(err, "a plan", n * sizeof *p->order);
    for (int i = 0; i < p->n && !st; i++)
        p->step[i] = (int8_t)step_of(p->g, &p->g->node[i]);
    return st ? st : set_order(p, err);
}

static void tear_down(struct pass *p)
{
    pl_uses_free(&p->uses);
    free(p->step);
    free(p->taken);
    free(p->order);
    free(p->touched);
}

/* Collects the nodes to fuse with `root`. In `member`, readers precede producers. */
static int collect(struct pass *p, int root, int member[RT_ELEMENTWISE_MOST])
{
    int n = 0;

    member[n++] = root;
    for (int i = 0; i < n; i++) {
        const struct pl_node *m = &p->g->node[member[i]];
        for (int k = 0; k < m->n_in; k++) {
            const int from = m->in[k].node;
            if (!p->taken[from]++)
                p->touched[p->n_touched++] = from;
            if (p->taken[from] == p->uses.n[from] && p->step[from] >= 0 &&
                p->g->node[from].n_ctrl == 0 && n < RT_ELEMENTWISE_MOST &&
                p->g->node[from].on_accelerator == m->on_accelerator)
                member[n++] = from;
        }
    }
    while (p->n_touched)
        p->taken[p->touched[--p->n_touched]] = 0;
    return n;
}

enum { IN_CAPACITY = 3 * RT_ELEMENTWISE_MOST };
struct inputs {
    struct pl_edge edge[IN_CAPACITY];
    int n;
};

/* Returns the index of `e` among the inputs of the new node. Adds `e` if it is not an input yet. */
static int64_t input(struct inputs *in, struct pl_edge e)
{
    for (int k = 0; k < in->n; k++)
        if (pl_same(in->edge[k], e))
            return k;
    in->edge[in->n] = e;
    return in->n++;
}

/* Returns the index of the step that makes `e`, or -1 if no node of `member` makes `e`. Steps are
 * in the reverse order of `member`, so that producers precede their readers. */
static int step_at(const int *member, int n, struct pl_edge e)
{
    for (int j = 0; j < n; j++)
        if (member[j] == e.node)
            return n - 1 - j;
    return -1;
}

static enum rt_status put(struct pass *p, const int *member, int n, struct rt_error *err)
{
    struct rt_elementwise_step *step = rt_arena_array(p->g->arena, (size_t)n, sizeof *step);
    struct inputs in;

    in.n = 0;
    if (!step)
        return rt_fail_memory(err, "a plan", (size_t)n * sizeof *step);
    /* Step results are numbered after the inputs, whose number is known only at the end of the
     * first pass. The second pass sets the operands again. */
    for (int pass = 0; pass < 2; pass++)
        for (int j = n - 1; j >= 0; j--) {
            const struct pl_node *m = &p->g->node[member[j]];
            int64_t of[3] = {-1, -1, -1};
            for (int k = 0; k < m->n_in; k++) {
                const int from = step_at(member, n, m->in[k]);
                of[k] = from < 0 ? input(&in, m->in[k]) : in.n + from;
            }
            if (p->step[member[j]] == RT_ELEMENTWISE_LeakyRelu)
                of[2] = rt_elementwise_number(rt_attr_float(m->def, "alpha"));
            step[n - 1 - j] = (struct rt_elementwise_step){p->step[member[j]], of[0], of[1], of[2]};
        }
    if (in.n > RT_ELEMENTWISE_MOST_IN)
        return RT_OK;
    const struct rt_elementwise chain = {.steps = rt_elementwise_of_steps(step, n)};
    for (int j = 0; j < n; j++)
        p->step[member[j]] = -1;
    return pl_put_fused(p->g, member, n, rt_elementwise_op(&chain), in.edge, in.n, err);
}

enum rt_status pl_fuse_elementwise(struct pl_graph *g, struct rt_error *err)
{
    struct pass p = {.g = g, .n = g->n};
    int member[RT_ELEMENTWISE_MOST];

    if (!rt_registry_op(g->session->options.registry, "_Chain"))
        return RT_OK;
    enum rt_status st = set_up(&p, err);
    for (int i = 0; i < p.n && !st; i++) {
        if (p.step[p.order[i]] < 0 || g->node[p.order[i]].def->out_dtype[0] != RT_F32)
            continue;
        const int n = collect(&p, p.order[i], member);
        if (n > 1)
            st = put(&p, member, n, err);
    }
    tear_down(&p);
    return st;
}
