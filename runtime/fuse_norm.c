/*
 * Finds layer normalisation as frameworks write it out, and makes it one "_LayerNorm":
 *
 *   mean = Mean(x, axis), variance = Mean((x - mean)^2, axis), factor = Rsqrt(variance + epsilon)
 *   y = x * m + (offset - mean * m), m = factor * scale          Keras, tf.nn.batch_normalization
 *   y = (x - mean) * m + offset                                  by hand
 *   y = ((x - mean) * factor) * scale + offset                   and the same with a division
 *
 * Scale and offset are constant vectors over the last axis, or left out; the order of commuting
 * operands does not matter. Whether the normalised axis is the last one shows when shapes are
 * known: the kernel is right for any.
 */
#include "runtime/fuse.h"

#include <string.h>

struct match {
    const struct pl_graph *g;
    struct pl_edge x, mean, scale, offset; /* node -1: none */
    int64_t axis;
    float epsilon;
    int member[16], n; /* nodes of the pattern, the last of them first */
};

static const struct pl_edge none = {-1, 0};

/* The node that makes e, if it is this op on float32 with n inputs and nothing to wait for. */
static const struct pl_node *as(struct match *m, struct pl_edge e, const char *op, int n_in)
{
    const struct pl_node *n = &m->g->node[e.node];
    if (e.out != 0 || !pl_is(n, op) || !n->def || n->call || n->n_in != n_in || n->n_ctrl != 0 ||
        n->def->out_dtype[0] != RT_F32)
        return NULL;
    return n;
}

static void take(struct match *m, struct pl_edge e)
{
    for (int i = 0; i < m->n; i++)
        if (m->member[i] == e.node)
            return;
    if (m->n < (int)(sizeof m->member / sizeof *m->member))
        m->member[m->n++] = e.node;
}

static const struct pl_node *sum_of(struct match *m, struct pl_edge e)
{
    const struct pl_node *n = as(m, e, "AddV2", 2);
    return n ? n : as(m, e, "Add", 2);
}

/* A constant float vector over the last axis. */
static bool is_vector(const struct match *m, struct pl_edge e)
{
    if (!pl_is_constant(m->g, e))
        return false;
    const struct rt_tensor *t = &m->g->node[e.node].value;
    if (t->dtype != RT_F32 || t->rank < 1)
        return false;
    for (int i = 0; i < t->rank - 1; i++)
        if (t->dim[i] != 1)
            return false;
    return true;
}

/* The only element of a constant, as a number. */
static bool read_scalar(const struct match *m, struct pl_edge e, enum rt_dtype dtype, int most_rank,
                        double *out)
{
    struct rt_tensor t;
    struct rt_error err = {0};

    if (!pl_is_constant(m->g, e))
        return false;
    const struct rt_tensor *c = &m->g->node[e.node].value;
    if (c->dtype != dtype || c->rank > most_rank || rt_tensor_count(c) != 1)
        return false;
    rt_tensor_ref(&t, c);
    const bool ok = rt_tensor_load(&t, &err) == RT_OK;
    if (ok)
        *out = dtype == RT_F32   ? (double)*(const float *)t.data
               : dtype == RT_I32 ? (double)*(const int32_t *)t.data
                                 : (double)*(const int64_t *)t.data;
    rt_tensor_clear(&t);
    return ok;
}

/* e is the mean of something along one axis, which stays with length 1. */
static bool is_mean(struct match *m, struct pl_edge e, struct pl_edge *of, int64_t *axis)
{
    const struct pl_node *n = as(m, e, "Mean", 2);
    double at;
    if (!n || !rt_attr_bool(n->def, "keep_dims") ||
        !(read_scalar(m, n->in[1], RT_I32, 1, &at) || read_scalar(m, n->in[1], RT_I64, 1, &at)))
        return false;
    if (!(at >= -RT_MAX_RANK && at < RT_MAX_RANK))
        return false;
    *of = n->in[0];
    *axis = (int64_t)at;
    take(m, e);
    return true;
}

/* e is x - mean. */
static bool is_centred(struct match *m, struct pl_edge e)
{
    const struct pl_node *n = as(m, e, "Sub", 2);
    if (!n || !pl_same(n->in[0], m->x) || !pl_same(n->in[1], m->mean))
        return false;
    take(m, e);
    return true;
}

/* The squares that are averaged: says which x, mean and axis they speak of. */
static bool is_variance(struct match *m, struct pl_edge e)
{
    struct pl_edge squares;
    int64_t axis, other;
    const struct pl_node *n;

    if (!is_mean(m, e, &squares, &axis))
        return false;
    if ((n = as(m, squares, "SquaredDifference", 2)) != NULL) {
        take(m, squares);
        for (int k = 0; k < 2; k++) {
            struct match try = *m;
            struct pl_edge of;
            if (is_mean(&try, n->in[1 - k], &of, &other) && pl_same(of, n->in[k]) &&
                other == axis) {
                *m = try;
                m->x = n->in[k];
                m->mean = n->in[1 - k];
                m->axis = axis;
                return true;
            }
        }
        return false;
    }
    struct pl_edge centred;
    if ((n = as(m, squares, "Square", 1)) != NULL)
        centred = n->in[0];
    else if ((n = as(m, squares, "Mul", 2)) != NULL && pl_same(n->in[0], n->in[1]))
        centred = n->in[0];
    else
        return false;
    take(m, squares);
    n = as(m, centred, "Sub", 2);
    struct pl_edge of;
    if (!n || !is_mean(m, n->in[1], &of, &other) || !pl_same(of, n->in[0]) || other != axis)
        return false;
    m->x = n->in[0];
    m->mean = n->in[1];
    m->axis = axis;
    return is_centred(m, centred);
}

/* variance + epsilon */
static bool is_safe_variance(struct match *m, struct pl_edge e)
{
    const struct pl_node *n = sum_of(m, e);
    double epsilon;

    for (int k = 0; n && k < 2; k++)
        if (read_scalar(m, n->in[1 - k], RT_F32, 0, &epsilon)) {
            take(m, e);
            m->epsilon = (float)epsilon;
            return is_variance(m, n->in[k]);
        }
    return false;
}

/* 1 / sqrt(variance + epsilon) */
static bool is_factor(struct match *m, struct pl_edge e)
{
    const struct pl_node *n = as(m, e, "Rsqrt", 1);
    if (!n)
        return false;
    take(m, e);
    return is_safe_variance(m, n->in[0]);
}

/* The factor, alone or times the scale. */
static bool is_scaled_factor(struct match *m, struct pl_edge e)
{
    const struct pl_node *n = as(m, e, "Mul", 2);
    if (!n)
        return is_factor(m, e);
    take(m, e);
    for (int k = 0; k < 2; k++)
        if (is_vector(m, n->in[1 - k])) {
            m->scale = n->in[1 - k];
            return is_factor(m, n->in[k]);
        }
    return false;
}

/* offset - mean * factor, in one of its forms; the factor is `by`. */
static bool is_shift(struct match *m, struct pl_edge e, struct pl_edge by)
{
    const struct pl_node *n = as(m, e, "Sub", 2), *p;

    if (n && is_vector(m, n->in[0]) && (p = as(m, n->in[1], "Mul", 2)) != NULL &&
        ((pl_same(p->in[0], m->mean) && pl_same(p->in[1], by)) ||
         (pl_same(p->in[1], m->mean) && pl_same(p->in[0], by)))) {
        m->offset = n->in[0];
        take(m, e);
        take(m, n->in[1]);
        return true;
    }
    /* (-mean) * factor, and offset added to it */
    struct pl_edge product = e;
    n = sum_of(m, e);
    for (int k = 0; n && k < 2; k++)
        if (is_vector(m, n->in[1 - k])) {
            m->offset = n->in[1 - k];
            product = n->in[k];
            take(m, e);
            break;
        }
    p = as(m, product, "Mul", 2);
    for (int k = 0; p && k < 2; k++) {
        const struct pl_node *neg = as(m, p->in[k], "Neg", 1);
        if (neg && pl_same(neg->in[0], m->mean) && pl_same(p->in[1 - k], by)) {
            take(m, product);
            take(m, p->in[k]);
            return true;
        }
    }
    return false;
}

/* x * m + (offset - mean * m) */
static bool is_folded(struct match *m, const struct pl_node *root)
{
    for (int k = 0; k < 2; k++) {
        const struct pl_node *n = as(m, root->in[k], "Mul", 2);
        for (int j = 0; n && j < 2; j++) {
            struct match try = *m;
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

/* (x - mean) * factor or (x - mean) / sqrt(...), the factor perhaps times the scale. */
static bool is_straight(struct match *m, struct pl_edge e)
{
    const struct pl_node *n = as(m, e, "RealDiv", 2), *root;

    if (n && (root = as(m, n->in[1], "Sqrt", 1)) != NULL) {
        take(m, e);
        take(m, n->in[1]);
        return is_safe_variance(m, root->in[0]) && is_centred(m, n->in[0]);
    }
    n = as(m, e, "Mul", 2);
    for (int k = 0; n && k < 2; k++) {
        struct match try = *m;
        take(&try, e);
        if (is_scaled_factor(&try, n->in[1 - k]) && is_centred(&try, n->in[k])) {
            *m = try;
            return true;
        }
    }
    return false;
}

/* The straight form, and a scale behind it where it has none yet. */
static bool is_scaled(struct match *m, struct pl_edge e)
{
    const struct pl_node *n = as(m, e, "Mul", 2);

    for (int k = 0; n && k < 2; k++) {
        struct match try = *m;
        take(&try, e);
        if (!is_vector(m, n->in[1 - k]) || !is_straight(&try, n->in[k]) || try.scale.node >= 0)
            continue;
        *m = try;
        m->scale = n->in[1 - k];
        return true;
    }
    return is_straight(m, e);
}

/* Nobody outside reads what is inside, but for the root. */
static bool is_closed(const struct match *m, const struct pl_uses *uses)
{
    for (int i = 1; i < m->n; i++) {
        int reads = 0;
        for (int j = 0; j < m->n; j++) {
            const struct pl_node *n = &m->g->node[m->member[j]];
            for (int k = 0; k < n->n_in; k++)
                reads += n->in[k].node == m->member[i];
        }
        if (reads != uses->n[m->member[i]])
            return false;
    }
    return true;
}

static void start(struct match *m, const struct pl_graph *g, int root)
{
    *m = (struct match){
        .g = g, .x = none, .mean = none, .scale = none, .offset = none, .member = {root}, .n = 1};
}

/* A normalisation that ends in this sum. */
static bool ends_in_sum(struct match *m, const struct pl_graph *g, int i,
                        const struct pl_uses *uses)
{
    start(m, g, i);
    const struct pl_node *n = sum_of(m, (struct pl_edge){i, 0});
    if (!n)
        return false;
    if (is_folded(m, n) && is_closed(m, uses))
        return true;
    for (int k = 0; k < 2; k++) {
        start(m, g, i);
        if (!is_vector(m, n->in[1 - k]) || !is_scaled(m, n->in[k]) || !is_closed(m, uses))
            continue;
        m->offset = n->in[1 - k];
        return true;
    }
    return false;
}

/* One without an offset. */
static bool ends_in_product(struct match *m, const struct pl_graph *g, int i,
                            const struct pl_uses *uses)
{
    start(m, g, i);
    return is_scaled(m, (struct pl_edge){i, 0}) && is_closed(m, uses);
}

static enum rt_status put(struct pl_graph *g, const struct match *m, struct rt_error *err)
{
    static const uint8_t dtype[3] = {RT_F32, RT_F32, RT_F32};
    const struct rt_attr attr[] = {
        {.type = RT_ATTR_INT, .v.i = m->axis},
        {.type = RT_ATTR_FLOAT, .v.f = m->epsilon},
        {.type = RT_ATTR_BOOL, .v.b = m->scale.node >= 0},
        {.type = RT_ATTR_BOOL, .v.b = m->offset.node >= 0},
    };
    struct pl_edge in[3] = {m->x};
    int n_in = 1;

    if (m->scale.node >= 0)
        in[n_in++] = m->scale;
    if (m->offset.node >= 0)
        in[n_in++] = m->offset;
    const struct pl_own own = {.op = "_LayerNorm",
                               .n_in = n_in,
                               .n_out = 1,
                               .in = in,
                               .in_dtype = dtype,
                               .out_dtype = dtype,
                               .attr = attr};
    const enum rt_status st = pl_make_own(g, m->member[0], &own, err);
    for (int i = 1; i < m->n && !st; i++)
        g->node[m->member[i]].kind = PL_GONE;
    return st;
}

enum rt_status pl_fuse_norms(struct pl_graph *g, struct rt_error *err)
{
    struct pl_uses uses;

    if (!rt_registry_op(g->session->options.registry, "_LayerNorm"))
        return RT_OK;
    enum rt_status st = pl_uses_count(&uses, g, err);
    /* Those with an offset first: the others look like their inner part. What is put there reads
     * nothing new, so that the counts stay true for what is still to be found. */
    for (int products = 0; products < 2; products++)
        for (int i = 0; i < g->n && !st; i++) {
            struct match m;
            if (products ? ends_in_product(&m, g, i, &uses) : ends_in_sum(&m, g, i, &uses))
                st = put(g, &m, err);
        }
    pl_uses_free(&uses);
    return st;
}
