/*
 * Convolutions on a GPU by a library (dnn.h). The filter is multiplied by the epilogue's scale and
 * packed once per session. The library applies as many steps of the epilogue as it can. The device
 * kernel `finish` applies the other steps.
 */
#include <string.h>

#include "kernels/conv/conv_shape.h"
#include "kernels/cuda/library/dnn.h"
#include "kernels/cuda/epilogue.h"
#include "kernels/cuda/driver/gpu.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/workspace.h"
#include "kernels/fused/epilogue.h"
#include "kernels/math/elementwise.h"
#include "runtime/base/checked.h"

enum {
    RANK = 2, /* tried before the plain kernel (conv.c) */
};

struct state {
    struct kc_dnn_plan *plan;
    const void *filter; /* [co, spatial..., ci / groups], in the GPU's memory */
    struct rt_epilogue epilogue;
    struct dnn_conv conv;
    struct kc_epilogue_part done; /* the steps that the plan applies */
    bool must_finish;             /* whether there are steps that `finish` must apply */
    size_t residual_at; /* offset of the residual's copy from the start of the workspace */
};

/* Describes the node as a convolution of the library, with its whole epilogue. Returns false if
 * struct dnn_conv cannot describe the node. Also returns false if the filter or the scale is not a
 * constant, because both are packed. */
static bool describe(const struct rt_prep *p, const struct rt_epilogue *e, struct dnn_conv *c)
{
    struct kn_conv_shape g;
    const int scale = e->in[RT_EPILOGUE_MUL];
    if (kn_conv_prepare(p, &g) || g.depthwise || g.groups < 1 || !p->in[1].value ||
        (scale && !kn_epilogue_constant(p, scale)) || kn_shape_count(&p->out[0].shape) < 1 ||
        kn_shape_count(&p->in[0].shape) < 1 || kn_shape_count(&p->in[1].shape) < 1)
        return false;
    *c = (struct dnn_conv){.n_spatial = g.n_spatial,
                           .batch = g.batch,
                           .ci = g.ci,
                           .co = g.co,
                           .groups = g.groups,
                           .has_residual = e->in[RT_EPILOGUE_RESIDUAL] != 0,
                           .has_bias = e->in[RT_EPILOGUE_ADD] != 0,
                           .has_relu = e->act == RT_ACT_RELU};
    memcpy(c->axis, g.axis, sizeof c->axis);
    return true;
}

int kc_conv_dnn_can(const struct rt_prep *p)
{
    struct rt_epilogue e;
    struct dnn_conv c;
    return p->device && kc_epilogue_can(p) && !rt_epilogue_read(p->node, &e, p->err) &&
                   describe(p, &e, &c)
               ? RANK
               : 0;
}

/* ---- the plan ---- */

/* Makes a plan that applies as much of the epilogue as the library can. */
static enum rt_status make_plan(struct state *s, struct kc_dnn *dnn, struct rt_error *err)
{
    struct dnn_conv *c = &s->conv;
    const struct dnn_conv whole = *c;
    enum rt_status st = dnn->plan(dnn, c, &s->plan, err);
    if (st == RT_FAILED_PRECONDITION && whole.has_relu) {
        c->has_relu = false;
        st = dnn->plan(dnn, c, &s->plan, err);
    }
    if (st == RT_FAILED_PRECONDITION && whole.has_residual) {
        c->has_residual = false;
        st = dnn->plan(dnn, c, &s->plan, err);
    }
    if (st == RT_FAILED_PRECONDITION && whole.has_bias) {
        c->has_bias = false;
        st = dnn->plan(dnn, c, &s->plan, err);
    }
    s->done = (struct kc_epilogue_part){.has_mul = true,
                                        .has_add = c->has_bias,
                                        .has_residual = c->has_residual,
                                        .has_act = c->has_relu};
    s->must_finish = kc_epilogue_is_left(&s->epilogue, &s->done);
    return st;
}

static void release(void *state)
{
    const struct state *s = state;
    if (s->plan)
        s->plan->dnn->free_plan(s->plan);
}

/* ---- the filter ---- */

/* The format of the packed filter. If has_scale is set, the scale follows this struct in memory. */
struct format {
    char name[8];
    int64_t rows; /* product of the spatial sizes and of the input channels per group */
    int64_t co;
    int64_t has_scale;
};

/* Transposes [rows, co] to [co, rows], and multiplies by the scale. */
static enum rt_status fill_filter(const struct rt_tensor *src, void *dst, const void *fmt,
                                  struct rt_error *err)
{
    (void)err;
    struct format f;
    memcpy(&f, fmt, sizeof f);
    const char *scale = (const char *)fmt + sizeof f;
    const float *from = src->data;
    float *to = dst;
    for (int64_t c = 0; c < f.co; c++) {
        float factor = 1;
        if (f.has_scale)
            memcpy(&factor, scale + (size_t)c * sizeof factor, sizeof factor);
        for (int64_t r = 0; r < f.rows; r++)
            to[c * f.rows + r] = from[r * f.co + c] * factor;
    }
    return RT_OK;
}

static enum rt_status pack_filter(struct rt_prep *p, struct state *s)
{
    const struct rt_pack *pack;
    const float *scale = kn_epilogue_constant(p, s->epilogue.in[RT_EPILOGUE_MUL]);
    const int64_t n = kn_shape_count(&p->in[1].shape);
    const struct format f = {
        .name = "dnnconv", .rows = n / s->conv.co, .co = s->conv.co, .has_scale = scale != NULL};
    const enum rt_status st = kn_epilogue_pack(p, 1, &f, sizeof f, scale, s->conv.co,
                                               (size_t)n * sizeof(float), fill_filter, &pack);
    if (st)
        return st;
    if (!pack)
        return rt_fail(p->err, RT_FAILED_PRECONDITION, "the filter is not a constant");
    s->filter = rt_pack_data(pack);
    return RT_OK;
}

/* ---- the kernel ---- */

/* Reserves scratch memory for the plan's workspace. If the output shares the residual's memory,
 * also reserves memory for a copy of the residual. */
static enum rt_status reserve(struct rt_prep *p, struct state *s)
{
    size_t bytes = s->plan->workspace_bytes;
    const size_t out_bytes = (size_t)kn_shape_count(&p->out[0].shape) * sizeof(float);
    if (s->epilogue.in[RT_EPILOGUE_RESIDUAL]) {
        s->residual_at = kc_workspace_offset(bytes);
        if (!rt_add_size(s->residual_at, out_bytes, &bytes))
            return rt_fail_memory(p->err, p->node->name, out_bytes);
    }
    if (!rt_add_size(bytes, KC_WORKSPACE_ALIGNMENT, &p->scratch_bytes))
        return rt_fail_memory(p->err, p->node->name, bytes);
    return RT_OK;
}

enum rt_status kc_conv_dnn_prepare(struct rt_prep *p, void **state)
{
    struct cuda_gpu *gpu = p->device->state;
    struct kc_dnn *dnn = kc_dnn_of(gpu);
    if (!dnn)
        return rt_fail(p->err, RT_FAILED_PRECONDITION, "cuDNN cannot be used");
    struct state *s = rt_prep_alloc(p, sizeof *s);
    if (!s)
        return p->err->code;
    *state = s;
    p->release = release;
    enum rt_status st = rt_epilogue_read(p->node, &s->epilogue, p->err);
    if (!st && !describe(p, &s->epilogue, &s->conv))
        st = rt_fail(p->err, RT_FAILED_PRECONDITION, "cuDNN cannot compute this convolution");
    s->conv.precision = cuda_precision(p);
    if (!st)
        st = make_plan(s, dnn, p->err);
    if (!st)
        st = reserve(p, s);
    return st ? st : pack_filter(p, s);
}

enum rt_status kc_conv_dnn_run(struct rt_run *r)
{
    const struct state *s = r->state;
    const int bias = s->epilogue.in[RT_EPILOGUE_ADD];
    char *workspace = kc_workspace(r->scratch);
    const void *residual;
    enum rt_status st =
        kc_epilogue_residual(&s->epilogue, r, workspace + s->residual_at, &residual);
    const void *address[DNN_N_TENSORS] = {[DNN_X] = r->in[0].data,
                                          [DNN_W] = s->filter,
                                          [DNN_Y] = r->out[0].data,
                                          [DNN_RESIDUAL] = residual,
                                          [DNN_BIAS] = bias ? r->in[bias].data : NULL};
    if (!st)
        st = s->plan->dnn->run(s->plan, r->stream, address, workspace, r->err);
    return st || !s->must_finish ? st : kc_epilogue_finish(&s->epilogue, &s->done, r, residual);
}
