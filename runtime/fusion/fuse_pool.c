/*
 * Moves an average pool that follows a 1x1 convolution (as in DenseNet's transitions) before the
 * convolution. The result is equal, because a 1x1 convolution of the average is the average of the
 * convolution, but fewer multiplications are needed. The weights of an average sum to 1 with any
 * padding, because TensorFlow does not count padded pixels.
 */
#include "runtime/fusion/fuse.h"

static const struct pl_node *image_by(const struct pl_graph *g, int i, const char *op, int n_in)
{
    const struct pl_node *n = pl_float_by(g, (struct pl_edge){i, 0}, op, n_in);
    return n && rt_span_is(rt_attr_str(n->def, "data_format"), "NHWC") ? n : NULL;
}

static bool is_all_ones(const struct rt_node *n, const char *attr)
{
    const int64_t *v;
    const size_t count = rt_attr_ints(n, attr, &v);
    for (size_t i = 0; i < count; i++)
        if (v[i] != 1)
            return false;
    return true;
}

/* Returns whether convolution n is 1x1, with stride 1 and without padding. */
static bool is_pointwise(const struct pl_graph *g, const struct pl_node *n)
{
    const struct rt_tensor *filter = pl_constant(g, n->in[1]);
    return filter && is_all_ones(n->def, "strides") && filter->rank == 4 && filter->dim[0] == 1 &&
           filter->dim[1] == 1 && !rt_span_is(rt_attr_str(n->def, "padding"), "EXPLICIT");
}

/* Returns whether the pool averages only over height and width, and has at most half as many output
 * pixels as input pixels. */
static bool thins_out(const struct pl_node *n)
{
    const int64_t *k, *s;
    return rt_attr_ints(n->def, "ksize", &k) == 4 && rt_attr_ints(n->def, "strides", &s) == 4 &&
           k[0] == 1 && k[3] == 1 && s[0] == 1 && s[3] == 1 && s[1] >= 1 && s[2] >= 1 &&
           (s[1] > 1 || s[2] > 1);
}

enum rt_status pl_fuse_pools(struct pl_graph *g, struct rt_error *err)
{
    struct pl_uses uses;
    enum rt_status st = pl_uses_count(&uses, g, err);

    for (int i = 0; i < g->n && !st; i++) {
        struct pl_node *pool = &g->node[i];
        if (!image_by(g, i, "AvgPool", 1) || !thins_out(pool) || pool->in[0].out != 0)
            continue;
        const int c = pool->in[0].node;
        struct pl_node *conv = &g->node[c];
        if (!image_by(g, c, "Conv2D", 2) || uses.n[c] != 1 || !is_pointwise(g, conv))
            continue;
        struct pl_edge *in = rt_arena_array(g->arena, 2, sizeof *in);
        if (!in) {
            st = rt_fail_memory(err, "a plan", 2 * sizeof *in);
            break;
        }
        in[0] = (struct pl_edge){c, 0};
        in[1] = conv->in[1];
        const struct rt_node *def = pool->def;
        const char *name = pool->name;
        pool->def = conv->def;
        pool->name = conv->name;
        pool->in = in;
        pool->n_in = 2;
        conv->def = def;
        conv->name = name;
        conv->n_in = 1;
    }
    pl_uses_free(&uses);
    return st;
}
