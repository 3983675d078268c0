/* DepthwiseConv2dNative with an epilogue on a GPU. */
#include "kernels/conv/conv_shape.h"
#include "kernels/cuda/axis.h"
#include "kernels/cuda/device/depthwise.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/epilogue.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/vector.h"
#include "kernels/math/elementwise.h"

struct state {
    struct kc_depthwise conv; /* without addresses */
    struct rt_epilogue epilogue;
    int64_t n_strips; /* number of strips of one channel; 0 if the output has no elements */
};

/* Fills in the state, except for the epilogue. */
static enum rt_status fill(const struct rt_prep *p, struct state *s)
{
    struct kn_conv_shape g;
    const enum rt_status st = kn_conv_prepare(p, &g);
    if (st)
        return st;
    if (g.n_spatial != 2 || !g.depthwise || g.ci < 1 || g.co % g.ci)
        return rt_fail(p->err, RT_FAILED_PRECONDITION, "the GPU cannot run this convolution");
    s->conv = (struct kc_depthwise){.batch = g.batch, .channels = g.co, .multiplier = g.co / g.ci};
    for (int i = 0; i < 2; i++)
        s->conv.axis[i] = kc_axis_of(&g.axis[i]);
    const int64_t n = kn_shape_count(&p->out[0].shape), columns = g.axis[1].out;
    s->n_strips =
        n < 1 ? 0 : n / columns * ((columns + KC_DEPTHWISE_STRIP - 1) / KC_DEPTHWISE_STRIP);
    return RT_OK;
}

int kc_depthwise_can(const struct rt_prep *p)
{
    struct state s;
    return fill(p, &s) == RT_OK && kc_epilogue_can(p);
}

enum rt_status kc_depthwise_prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    *state = s;
    const enum rt_status st = rt_epilogue_read(p->node, &s->epilogue, p->err);
    return st ? st : fill(p, s);
}

enum rt_status kc_depthwise_run(struct rt_run *r)
{
    const struct state *s = r->state;
    struct kc_depthwise c = s->conv;
    c.in = r->in[0].data;
    c.filter = r->in[1].data;
    c.out = r->out[0].data;
    c.epilogue = kc_epilogue_bind(&s->epilogue, r);
    c.width = c.multiplier == 1 && kc_is_aligned(c.in) && kc_is_aligned(c.filter)
                  ? kc_epilogue_width(&c.epilogue, c.out, c.channels)
                  : 1;
    return cuda_launch(r->stream, kc_depthwise_module, cuda_blocks(s->n_strips / c.width), &c,
                       r->err);
}
