/*
 * Puts element-wise steps behind the product or convolution that they follow: what is scaled,
 * shifted and cut off at zero while it is in the cache need not be written and read again.
 *
 * The steps become the node's tail (rt_op.tail in op.h). Only where nothing else sees the values
 * in between, and the operands of the steps are constant vectors over the last axis.
 */
#include "runtime/fuse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 4 };

struct tail {
    int n, n_operands;
    char text[MAX_STEPS * 8];
    struct pl_edge operand[MAX_STEPS];
    bool done; /* nothing may follow */
};

static bool is_float_op(const struct pl_node *n)
{
    return n->kind == PL_OP && n->def && n->def->op && !n->call && n->n_ctrl == 0 &&
           n->effect == RT_PURE && n->def->n_out >= 1 && n->def->out_dtype[0] == RT_F32;
}

/* Channels of a node that takes a tail and the rank of its output; 0: it takes none. */
static int64_t head_channels(const struct pl_graph *g, const struct pl_node *n, int *rank)
{
    struct rt_info in[8];

    if (!is_float_op(n) || !n->def->op->tail || n->n_in != n->def->schema->n_in || n->n_in > 8)
        return 0;
    for (int k = 0; k < n->n_in; k++) {
        in[k] = (struct rt_info){.dtype = (enum rt_dtype)n->def->in_dtype[k], .shape.rank = -1};
        if (!pl_is_constant(g, n->in[k]))
            continue;
        const struct rt_tensor *t = &g->node[n->in[k].node].value;
        in[k].value = t;
        in[k].shape.rank = t->rank;
        memcpy(in[k].shape.dim, t->dim, sizeof in[k].shape.dim);
    }
    return n->def->op->tail(n->def, in, rank);
}

/* A constant float vector along the last axis of an output of this rank. */
static bool is_vector(const struct pl_graph *g, struct pl_edge e, int64_t channels, int rank)
{
    if (!pl_is_constant(g, e))
        return false;
    const struct rt_tensor *t = &g->node[e.node].value;
    if (t->dtype != RT_F32 || t->rank < 1 || t->rank > rank || t->dim[t->rank - 1] != channels)
        return false;
    for (int i = 0; i < t->rank - 1; i++)
        if (t->dim[i] != 1)
            return false;
    return true;
}

static bool add_step(struct tail *t, const char *name, const struct pl_edge *operand)
{
    if (t->n == MAX_STEPS || t->done)
        return false;
    const size_t used = strlen(t->text);
    snprintf(t->text + used, sizeof t->text - used, "%s%s", t->n++ ? " " : "", name);
    if (operand)
        t->operand[t->n_operands++] = *operand;
    t->done = !operand; /* an activation ends it */
    return true;
}

/* ---- batch normalisation by constants: a mul and an add ---- */

static int add_constant(struct pl_graph *g, int like, struct rt_tensor *t, struct rt_error *err)
{
    const int c = pl_add(g, err); /* may move the nodes */
    if (c < 0) {
        rt_tensor_clear(t);
        return -1;
    }
    struct pl_node *n = &g->node[c];
    n->kind = PL_CONST;
    n->name = g->node[like].name;
    n->depth = g->node[like].depth;
    n->n_out = 1;
    n->value = *t;
    return c;
}

/* Whether node i normalises by constants along its last axis and only its output 0 is used. */
static bool is_normalisation(const struct pl_graph *g, int i, int from, int64_t channels)
{
    const struct pl_node *n = &g->node[i];

    if (!is_float_op(n) || n->n_in != 5 || n->in[0].node != from || n->in[0].out != 0 ||
        !(pl_is(n, "FusedBatchNormV3") || pl_is(n, "FusedBatchNormV2") ||
          pl_is(n, "FusedBatchNorm")) ||
        rt_attr_bool(n->def, "is_training") || rt_attr_str(n->def, "data_format").p[1] == 'C')
        return false;
    for (int k = 1; k < 5; k++)
        if (!is_vector(g, n->in[k], channels, 1))
            return false;
    for (int j = 0; j < g->n; j++)
        for (int k = 0; g->node[j].kind != PL_GONE && k < g->node[j].n_in; k++)
            if (g->node[j].in[k].node == i && g->node[j].in[k].out != 0)
                return false;
    for (int k = 0; k < g->n_fetches; k++)
        if (g->fetch[k].node == i && g->fetch[k].out != 0)
            return false;
    return true;
}

/* y = (x - mean) / sqrt(variance + epsilon) * scale + offset, as x * factor + shift. */
static enum rt_status normalisation_constants(struct pl_graph *g, int i, int64_t channels,
                                              struct pl_edge *mul, struct pl_edge *add,
                                              struct rt_error *err)
{
    const float epsilon = rt_attr_float(g->node[i].def, "epsilon");
    struct rt_tensor in[5] = {{0}}, factor = {0}, shift = {0};
    enum rt_status st = RT_OK;

    for (int k = 1; k < 5 && !st; k++) {
        rt_tensor_ref(&in[k], &g->node[g->node[i].in[k].node].value);
        st = rt_tensor_load(&in[k], err);
    }
    if (!st)
        st = rt_tensor_new(&factor, NULL, RT_F32, 1, &channels, err);
    if (!st)
        st = rt_tensor_new(&shift, NULL, RT_F32, 1, &channels, err);
    for (int64_t c = 0; c < channels && !st; c++) {
        const double f =
            ((float *)in[1].data)[c] / sqrt((double)((float *)in[4].data)[c] + epsilon);
        ((float *)factor.data)[c] = (float)f;
        ((float *)shift.data)[c] = (float)(((float *)in[2].data)[c] - ((float *)in[3].data)[c] * f);
    }
    for (int k = 1; k < 5; k++)
        rt_tensor_clear(&in[k]);
    if (st) {
        rt_tensor_clear(&factor);
        rt_tensor_clear(&shift);
        return st;
    }
    *mul = (struct pl_edge){add_constant(g, i, &factor, err), 0};
    *add = (struct pl_edge){add_constant(g, i, &shift, err), 0};
    return mul->node < 0 || add->node < 0 ? RT_RESOURCE_EXHAUSTED : RT_OK;
}

static enum rt_status take_normalisation(struct pl_graph *g, int i, int from, struct tail *t,
                                         int64_t channels, bool *taken, struct rt_error *err)
{
    struct pl_edge mul, add;

    *taken = t->n + 2 <= MAX_STEPS && !t->done && is_normalisation(g, i, from, channels);
    if (!*taken)
        return RT_OK;
    const enum rt_status st = normalisation_constants(g, i, channels, &mul, &add, err);
    if (!st) {
        add_step(t, "mul", &mul);
        add_step(t, "add", &add);
    }
    return st;
}

/* ---- the pass ---- */

/* Whether `n`, the only user of node `from`, becomes the next step. */
static bool take_step(const struct pl_graph *g, const struct pl_node *n, int from, struct tail *t,
                      int64_t channels, int rank)
{
    if (!is_float_op(n))
        return false;
    if (pl_is(n, "Relu") || pl_is(n, "Relu6"))
        return add_step(t, pl_is(n, "Relu") ? "relu" : "relu6", NULL);
    if (n->n_in != 2)
        return false;
    const int other = n->in[0].node == from ? 1 : 0;
    if (n->in[1 - other].out != 0 || !is_vector(g, n->in[other], channels, rank))
        return false;
    if (pl_is(n, "BiasAdd"))
        return other == 1 && rt_span_is(rt_attr_str(n->def, "data_format"), "NHWC") &&
               g->node[n->in[1].node].value.rank == 1 && add_step(t, "add", &n->in[1]);
    if (pl_is(n, "AddV2") || pl_is(n, "Add"))
        return add_step(t, "add", &n->in[other]);
    return pl_is(n, "Mul") && add_step(t, "mul", &n->in[other]);
}

/* The head with its tail, where the chain's last node was. */
static enum rt_status put(struct pl_graph *g, int head, int last, const struct tail *t,
                          struct rt_error *err)
{
    struct pl_node *n = &g->node[last];
    const struct pl_node h = g->node[head];
    const int n_in = h.n_in + t->n_operands;
    struct rt_node *def = rt_arena_alloc(g->arena, sizeof *def);
    struct rt_named_attr *extra =
        rt_arena_array(g->arena, (size_t)h.def->n_extra + 1, sizeof *extra);
    struct pl_edge *in = rt_arena_array(g->arena, (size_t)n_in, sizeof *in);
    uint8_t *dtype = rt_arena_array(g->arena, (size_t)n_in, 1);
    char *text = rt_arena_printf(g->arena, "%s", t->text);

    if (!def || !extra || !in || !dtype || !text)
        return rt_fail_memory(err, "a plan", 0);
    if (h.def->n_extra)
        memcpy(extra, h.def->extra, (size_t)h.def->n_extra * sizeof *extra);
    extra[h.def->n_extra] = (struct rt_named_attr){
        .name = "_tail", .value = {.type = RT_ATTR_STRING, .n = strlen(text), .v.s = text}};
    for (int k = 0; k < n_in; k++) {
        in[k] = k < h.n_in ? h.in[k] : t->operand[k - h.n_in];
        dtype[k] = k < h.n_in ? h.def->in_dtype[k] : RT_F32;
    }
    *def = *h.def;
    def->extra = extra;
    def->n_extra++;
    def->n_in = n_in;
    def->in_dtype = dtype;
    n->def = def;
    n->name = h.name;
    n->depth = h.depth;
    n->in = in;
    n->n_in = n_in;
    n->n_out = h.n_out;
    return RT_OK;
}

/* Follows the chain behind node `head` and puts it there as a tail. */
static enum rt_status fuse(struct pl_graph *g, int head, const int *uses, const int *user,
                           int64_t channels, int rank, struct rt_error *err)
{
    struct tail t = {0};
    int last = head;

    while (uses[last] == 1) {
        const int next = user[last];
        bool taken = false;
        const enum rt_status st = take_normalisation(g, next, last, &t, channels, &taken, err);
        if (st)
            return st;
        if (!taken && !take_step(g, &g->node[next], last, &t, channels, rank))
            break;
        last = next;
    }
    if (!t.n)
        return RT_OK;
    const enum rt_status st = put(g, head, last, &t, err);
    for (int k = head; k != last && !st; k = user[k])
        g->node[k].kind = PL_GONE;
    return st;
}

enum rt_status pl_fuse_tails(struct pl_graph *g, struct rt_error *err)
{
    const int n = g->n; /* more are added behind */
    struct pl_uses uses;
    enum rt_status st = pl_uses_count(&uses, g, err);

    for (int i = 0; i < n && !st; i++) {
        int rank = 0;
        const int64_t channels = head_channels(g, &g->node[i], &rank);
        if (channels > 0)
            st = fuse(g, i, uses.n, uses.user, channels, rank, err);
    }
    pl_uses_free(&uses);
    return st;
}
