#include "kernels/conv/conv_shape.h"
#include "kernels/cuda/axis.h"
#include "kernels/cuda/device/conv.h"
#include "kernels/cuda/epilogue.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/math/elementwise.h"

struct state {
    struct kc_conv conv; /* without addresses */
    struct rt_epilogue epilogue;
};

/* Fills in the kernel's parameter, except for the addresses of the tensors. */
static enum rt_status fill(const struct rt_prep *p, struct kc_conv *c)
{
    struct kn_conv_shape g;
    const enum rt_status st = kn_conv_prepare(p, &g);
    if (st)
        return st;
    *c = (struct kc_conv){
        .n = kn_shape_count(&p->out[0].shape), .ci = g.ci, .co = g.co, .groups = g.groups};
    for (int i = 0; i < KN_MAX_SPATIAL; i++) {
        const struct kn_axis none = {.in = 1, .out = 1, .size = 1, .stride = 1, .dilation = 1};
        const int at = i - (KN_MAX_SPATIAL - g.n_spatial);
        c->axis[i] = kc_axis_of(at < 0 ? &none : &g.axis[at]);
    }
    return RT_OK;
}

int kc_conv_can(const struct rt_prep *p)
{
    struct kc_conv c;
    return fill(p, &c) == RT_OK && (c.n == 0 || c.groups > 0) && kc_epilogue_can(p);
}

enum rt_status kc_conv_prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    *state = s;
    const enum rt_status st = rt_epilogue_read(p->node, &s->epilogue, p->err);
    return st ? st : fill(p, &s->conv);
}

enum rt_status kc_conv_run(struct rt_run *r)
{
    const struct state *s = r->state;
    struct kc_conv c = s->conv;
    c.in = r->in[0].data;
    c.filter = r->in[1].data;
    c.out = r->out[0].data;
    c.epilogue = kc_epilogue_bind(&s->epilogue, r);
    return cuda_launch(r->stream, kc_conv_module, cuda_blocks(c.n), &c, r->err);
}
