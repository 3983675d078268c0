/*
 * Fuses constant padding with zeros into the convolution or MaxPool that reads the padded image, so
 * that this image is neither written nor read again. The reader gets the padding "EXPLICIT". A
 * MaxPool normally ignores padded pixels; the extra attribute "_zeros" makes it treat them as
 * zeros.
 *
 * Padding is fused only if it pads the rows and columns of [batch, height, width, channels], and
 * only if the reader's own padding is VALID or EXPLICIT. The padding must also be shorter than the
 * window, so that every window that covered a pixel of the image still covers one.
 */
#include "runtime/fusion/fuse.h"

#include <string.h>

/* Reads the padding before and after height and width from a constant of shape [4, 2]. */
static bool read_paddings(const struct pl_graph *g, struct pl_edge e, int64_t pad[4])
{
    if (!pl_is_constant(g, e))
        return false;
    const struct rt_tensor *t = &g->node[e.node].value;
    if (t->rank != 2 || t->dim[0] != 4 || t->dim[1] != 2 || !t->data || rt_tensor_is_lazy(t) ||
        (t->dtype != RT_I32 && t->dtype != RT_I64))
        return false;
    for (int i = 0; i < 8; i++) {
        const int64_t v =
            t->dtype == RT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
        if (v < 0 || v > INT32_MAX || ((i < 2 || i > 5) && v != 0))
            return false;
        if (i >= 2 && i <= 5)
            pad[i - 2] = v;
    }
    return true;
}

static bool is_zero(const struct pl_graph *g, struct pl_edge e)
{
    float v;
    return pl_float_constant(g, e, &v) && v == 0;
}

/* Returns whether node n pads a float image with zeros. Sets `pad` to the padding. */
static bool is_pad(const struct pl_graph *g, const struct pl_node *n, int64_t pad[4])
{
    if (n->kind != PL_OP || !n->def || !n->def->op || n->call || n->n_ctrl ||
        n->def->out_dtype[0] != RT_F32)
        return false;
    if (!(pl_is(n, "Pad") && n->n_in == 2) &&
        !(pl_is(n, "PadV2") && n->n_in == 3 && is_zero(g, n->in[2])))
        return false;
    return read_paddings(g, n->in[1], pad);
}

/* Adds the reader's own padding to `pad`. Returns false if the reader cannot apply the combined
 * padding. */
static bool add_own(const struct pl_graph *g, const struct pl_node *n, int64_t pad[4])
{
    const int64_t *own = NULL, *dilation;

    if (!rt_span_is(rt_attr_str(n->def, "data_format"), "NHWC") || !pl_is_constant(g, n->in[1]))
        return false;
    const struct rt_tensor *filter = &g->node[n->in[1].node].value;
    if (filter->rank != 4 || rt_attr_ints(n->def, "dilations", &dilation) != 4)
        return false;
    if (rt_span_is(rt_attr_str(n->def, "padding"), "EXPLICIT")) {
        if (rt_attr_ints(n->def, "explicit_paddings", &own) != 8)
            return false;
    } else if (!rt_span_is(rt_attr_str(n->def, "padding"), "VALID")) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        const int64_t size = filter->dim[i / 2];
        pad[i] += own ? own[2 + i] : 0;
        if (size < 1 || size > INT32_MAX || dilation[1 + i / 2] < 1 ||
            pad[i] > (size - 1) * dilation[1 + i / 2])
            return false;
    }
    return true;
}

/* Returns whether pool n has no padding and has windows longer than `pad`. */
static bool fits_pool(const struct pl_node *n, const int64_t pad[4])
{
    const int64_t *k, *s;

    if (!rt_span_is(rt_attr_str(n->def, "data_format"), "NHWC") ||
        !rt_span_is(rt_attr_str(n->def, "padding"), "VALID") || n->def->n_extra ||
        rt_attr_ints(n->def, "ksize", &k) != 4 || rt_attr_ints(n->def, "strides", &s) != 4 ||
        k[0] != 1 || k[3] != 1 || s[0] != 1 || s[3] != 1)
        return false;
    for (int i = 0; i < 4; i++)
        if (pad[i] >= k[1 + i / 2])
            return false;
    return true;
}

static enum rt_status put(struct pl_graph *g, int i, const int64_t pad[4], bool zeros,
                          struct rt_error *err)
{
    struct pl_node *n = &g->node[i];
    const struct rt_node *old = n->def;
    const int i_padding = rt_schema_attr(old->schema, "padding");
    const int i_explicit = rt_schema_attr(old->schema, "explicit_paddings");

    if (i_padding < 0 || i_explicit < 0)
        return RT_NOT_FOUND;
    struct rt_node *def = rt_arena_alloc(g->arena, sizeof *def);
    struct rt_attr *attr = rt_arena_array(g->arena, old->schema->n_attr, sizeof *attr);
    int64_t *v = rt_arena_array(g->arena, 8, sizeof *v);
    struct pl_edge *in = rt_arena_array(g->arena, (size_t)n->n_in, sizeof *in);
    if (!def || !attr || !v || !in)
        return rt_fail_memory(err, "a plan", 0);
    memset(v, 0, 8 * sizeof *v);
    memcpy(v + 2, pad, 4 * sizeof *v);
    memcpy(attr, old->attr, old->schema->n_attr * sizeof *attr);
    attr[i_padding] = (struct rt_attr){.type = RT_ATTR_STRING, .n = 8, .v.s = "EXPLICIT"};
    attr[i_explicit] = (struct rt_attr){.type = RT_ATTR_INT | RT_ATTR_LIST, .n = 8, .v.ints = v};
    memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    *def = *old;
    def->attr = attr;
    in[0] = g->node[in[0].node].in[0];
    n->def = def;
    n->in = in;
    return zeros ? pl_add_extra(g, i, "_zeros", (struct rt_attr){.type = RT_ATTR_BOOL, .v.b = true},
                                err)
                 : RT_OK;
}

enum rt_status pl_fuse_pads(struct pl_graph *g, struct rt_error *err)
{
    struct pl_uses uses;
    enum rt_status st = pl_uses_count(&uses, g, err);

    for (int i = 0; i < g->n && !st; i++) {
        struct pl_node *n = &g->node[i];
        int64_t pad[4];

        const bool pools = pl_is(n, "MaxPool");
        if (!(pools || pl_is(n, "Conv2D") || pl_is(n, "DepthwiseConv2dNative")) ||
            n->n_in < (pools ? 1 : 2) || n->def->in_dtype[0] != RT_F32)
            continue;
        const int from = n->in[0].node;
        if (uses.n[from] != 1 || !is_pad(g, &g->node[from], pad) ||
            !(pools ? fits_pool(n, pad) : add_own(g, n, pad)))
            continue;
        st = put(g, i, pad, pools, err);
        if (st == RT_NOT_FOUND)
            st = RT_OK;
        else
            g->node[from].kind = PL_GONE;
    }
    pl_uses_free(&uses);
    return st;
}
