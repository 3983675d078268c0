#include "kernels/conv/depthwise_conv.h"

#include <string.h>

#include "kernels/conv/conv_shape.h"
#include "kernels/conv/depthwise.h"
#include "kernels/cpu/parallel.h"
#include "kernels/fused/epilogue.h"

struct state {
    struct kn_depthwise d;
    struct kn_epilogue epilogue; /* the epilogue steps that run after the rows are computed */
    /* index of the input with the initial values of the sums, or 0 if there is none */
    int shift;
    int64_t batch;
    const struct rt_pack *filter;
    size_t broadcast_bytes;
};

static bool init(const struct kn_conv_shape *g, struct kn_depthwise *d)
{
    *d = (struct kn_depthwise){.y = g->axis[0], .x = g->axis[1], .channels = g->ci};
    return g->depthwise && g->n_spatial == 2 && g->ci == g->co && d->y.size > 0 &&
           kn_depthwise_init(d);
}

int kn_depthwise_conv_can(const struct rt_prep *p)
{
    struct rt_error ignored = {.arena = NULL};
    struct rt_prep quiet = *p;
    struct kn_conv_shape g;
    struct kn_depthwise d;

    quiet.err = &ignored;
    return p->in[1].value && p->out[0].dtype == RT_F32 && !kn_channels_first(p->node) &&
                   kn_conv_prepare(&quiet, &g) == RT_OK && init(&g, &d)
               ? 3
               : 0;
}

/* The key of a packed filter. This struct is followed by n_scale floats, by which the filter's
 * channels are multiplied. */
struct format {
    char name[8];
    int64_t channels, n_scale;
};

static enum rt_status depthwise_pack(const struct rt_tensor *src, void *dst, const void *fmt,
                                     struct rt_error *err)
{
    const struct format *f = fmt;
    (void)err;
    if (f->n_scale)
        kn_epilogue_scale(dst, src->data, (const void *)(f + 1), rt_tensor_count(src) / f->channels,
                          f->channels);
    else
        memcpy(dst, src->data, rt_tensor_bytes(src));
    return RT_OK;
}

static enum rt_status pack_filter(struct state *s, struct rt_prep *p, const float *scale)
{
    const struct format f = {
        .name = "deep", .channels = s->d.channels, .n_scale = scale ? s->d.channels : 0};
    const size_t bytes = (size_t)(s->d.y.size * s->d.x.size * s->d.channels) * sizeof(float);
    const enum rt_status st = kn_epilogue_pack(p, 1, &f, sizeof f, scale, s->d.channels, bytes,
                                               depthwise_pack, &s->filter);

    if (!st && !s->filter)
        return rt_fail(p->err, RT_INTERNAL, "%s: the filter is no constant", p->node->name);
    return st;
}

enum rt_status kn_depthwise_conv_prepare(struct rt_prep *p, void **state)
{
    struct state *s = rt_prep_alloc(p, sizeof *s);
    struct kn_conv_shape g;

    if (!s)
        return p->err->code;
    enum rt_status st = kn_conv_prepare(p, &g);
    if (st)
        return st;
    if (!init(&g, &s->d))
        return rt_fail(p->err, RT_INTERNAL, "%s: no loops for this shape", p->node->name);
    s->batch = g.batch;
    if ((st = kn_epilogue_prepare(&s->epilogue, p, &p->scratch_bytes)) != RT_OK)
        return st;
    const float *scale = kn_epilogue_constant(p, s->epilogue.scale);
    if ((st = pack_filter(s, p, scale)) != RT_OK)
        return st;
    s->epilogue.scale = scale ? 0 : s->epilogue.scale;
    if (!s->epilogue.scale) {
        s->shift = s->epilogue.shift;
        s->epilogue.shift = 0;
    }
    if (!s->epilogue.scale && !s->epilogue.residual && kn_depthwise_activates(s->epilogue.act)) {
        s->d.act = s->epilogue.act;
        s->d.alpha = s->epilogue.alpha;
        s->epilogue.act = RT_ACT_NONE;
    }
    *state = s;
    return RT_OK;
}

/* Computes output rows [from, to), which are numbered across all images. */
static enum rt_status depthwise_shard(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct state *s = r->state;
    const struct kn_depthwise *d = &s->d;
    const float *src = r->in[0].data, *shift = s->shift ? r->in[s->shift].data : NULL;
    const int64_t line = d->x.out * d->channels;
    float *dst = arg;

    for (int64_t i = from, n; i < to; i += n) {
        const int64_t image = i / d->y.out, row = i % d->y.out;
        n = d->y.out - row < to - i ? d->y.out - row : to - i;
        kn_depthwise_rows(d, src + image * d->y.in * d->x.in * d->channels, rt_pack_data(s->filter),
                          shift, dst + image * d->y.out * line, row, row + n);
        if (kn_epilogue_any(&s->epilogue))
            kn_epilogue_apply(&s->epilogue, r, KN_EPILOGUE_ALL, dst + i * line, i * line,
                              n * d->x.out, d->channels);
        if (i + n < to && rt_run_check(r))
            return r->err->code;
    }
    return RT_OK;
}

enum rt_status kn_depthwise_conv(struct rt_run *r)
{
    const struct state *s = r->state;
    const struct kn_depthwise *d = &s->d;
    float *dst = kn_epilogue_output(&s->epilogue, r, r->scratch);
    /* An activation other than a clip takes as long as eight taps of the window. Reading or writing
     * a value takes as long as two taps. */
    const int64_t ends = s->d.act > RT_ACT_RELU6 || s->epilogue.act > RT_ACT_RELU6 ? 8 : 0;
    const int64_t steps = d->y.size * d->x.size + 2 * d->y.stride * d->x.stride + ends;
    const int64_t work = d->x.out * d->channels * steps / 8 + 1;
    const enum rt_status st =
        kn_parallel_rows(r, s->batch * d->y.out, work, 1, depthwise_shard, dst);
    return st ? st : kn_epilogue_broadcast(&s->epilogue, r, dst);
}
