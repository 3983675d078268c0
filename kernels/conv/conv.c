/*
 * Convolutions over two or three spatial axes: Conv, Conv2D, Conv3D, DepthwiseConv2dNative, and the
 * transposed convolutions Conv2DBackpropInput and Conv3DBackpropInputV2. conv_shape.c computes
 * their shapes. conv_kernel.h declares the kernels that compute any convolution, and other headers
 * declare kernels that are faster for some shapes.
 */
#include "kernels/conv/conv_gemm.h"
#include "kernels/conv/conv_kernel.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/conv/depthwise_conv.h"
#include "kernels/conv/winograd_1d_conv.h"
#include "kernels/conv/winograd_conv.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "kernels/fused/epilogue.h"
#include "runtime/base/checked.h"

/* Returns whether the output may be written over the residual. The depthwise kernels do not write
 * over the residual, and no known network adds a residual to a depthwise convolution. */
static bool may_lie_over(const struct rt_node *n, const struct rt_info *filter)
{
    return filter->dtype == RT_F32 && !kn_conv_is_depthwise(n);
}

/* Reports errors of the convolution before errors of its epilogue, in the order in which separate
 * nodes would fail. */
static enum rt_status conv_infer(struct rt_infer *x)
{
    enum rt_status st = kn_conv_infer(x);
    const struct rt_shape own = x->out[0].shape;
    struct kn_conv_shape ignored;

    if (st)
        return st;
    if ((st = kn_epilogue_infer(x)) == RT_OK) {
        if (may_lie_over(x->node, &x->in[1]))
            kn_epilogue_infer_in_place(x, &own);
        return st;
    }
    x->out[0].shape = own;
    const struct rt_prep p = {.node = x->node,
                              .n_in = x->n_in,
                              .n_out = x->n_out,
                              .in = x->in,
                              .out = x->out,
                              .err = x->err};
    st = kn_conv_prepare(&p, &ignored);
    return st ? st : kn_epilogue_infer(x);
}

static void rows(struct rt_rows *r)
{
    kn_epilogue_rows(r, rt_rows_first);
}

static int64_t epilogue(const struct rt_node *n, const struct rt_info *in, int *rank)
{
    const struct rt_shape *f = &in[1].shape;
    *rank = kn_conv_n_spatial(n) + 2;
    if (f->rank != *rank || kn_channels_first(n))
        return 0;
    if (!kn_conv_is_depthwise(n))
        return f->dim[*rank - 1];
    int64_t channels;
    return rt_mul(f->dim[2], f->dim[3], &channels) ? channels : 0;
}

/* ---- registration ---- */

#define ONEDNN_TYPES (RT_T(RT_F32) | KN_SET(KN_HALFS))
#define PLAIN_TYPES  (ONEDNN_TYPES | RT_T(RT_F64) | RT_T(RT_I32))

#define ROWS(op_, name_, plain)                                                                    \
    {.op = op_,                                                                                    \
     .device = "CPU",                                                                              \
     .name = name_ ".onednn",                                                                      \
     .types = ONEDNN_TYPES,                                                                        \
     .flags = RT_K_TIMED,                                                                          \
     .can = kn_conv_onednn_can,                                                                    \
     .prepare = kn_conv_onednn_prepare,                                                            \
     .run = kn_conv_run},                                                                          \
    {                                                                                              \
        .op = op_, .device = "CPU", .name = name_ ".plain", .types = plain,                        \
        .prepare = kn_conv_plain_prepare, .run = kn_conv_run                                       \
    }
#define KERNELS(op_, name_, plain) KN_KERNELS(ROWS(op_, name_, plain))

const struct kn_entry kn_conv2d = {
    .op = {.name = "Conv2D",
           .check = kn_conv_check,
           .infer = conv_infer,
           .rows = rows,
           .epilogue = epilogue,
           .flops = kn_conv_flops},
    .kernels = KN_KERNELS({.op = "Conv2D",
                           .device = "CPU",
                           .name = "conv2d.line",
                           .types = RT_T(RT_F32),
                           .flags = RT_K_TIMED,
                           .can = kn_winograd_1d_can,
                           .prepare = kn_winograd_1d_prepare,
                           .run = kn_winograd_1d_conv},
                          {.op = "Conv2D",
                           .device = "CPU",
                           .name = "conv2d.winograd4",
                           .types = RT_T(RT_F32),
                           .flags = RT_K_TIMED,
                           .can = kn_winograd4_can,
                           .prepare = kn_winograd4_prepare,
                           .run = kn_winograd_conv},
                          {.op = "Conv2D",
                           .device = "CPU",
                           .name = "conv2d.winograd2",
                           .types = RT_T(RT_F32),
                           .flags = RT_K_TIMED,
                           .can = kn_winograd2_can,
                           .prepare = kn_winograd2_prepare,
                           .run = kn_winograd_conv},
                          {.op = "Conv2D",
                           .device = "CPU",
                           .name = "conv2d.product",
                           .types = RT_T(RT_F32),
                           .flags = RT_K_TIMED,
                           .can = kn_conv_gemm_can,
                           .prepare = kn_conv_gemm_prepare,
                           .run = kn_conv_gemm},
                          ROWS("Conv2D", "conv2d", PLAIN_TYPES)),
};
const struct kn_entry kn_conv = {
    .op = {.name = "Conv",
           .infer = kn_conv_infer_general,
           .rows = kn_conv_rows_general,
           .flops = kn_conv_flops},
    .kernels = KERNELS("Conv", "conv", PLAIN_TYPES),
};
const struct kn_entry kn_conv3d = {
    .op = {.name = "Conv3D",
           .check = kn_conv_check,
           .infer = conv_infer,
           .rows = rows,
           .epilogue = epilogue,
           .flops = kn_conv_flops},
    .kernels = KERNELS("Conv3D", "conv3d", PLAIN_TYPES & ~RT_T(RT_I32)),
};
const struct kn_entry kn_depthwise_conv2d_native = {
    .op = {.name = "DepthwiseConv2dNative",
           .check = kn_conv_check,
           .infer = conv_infer,
           .rows = rows,
           .epilogue = epilogue,
           .flops = kn_conv_flops_depthwise},
    .kernels = KN_KERNELS({.op = "DepthwiseConv2dNative",
                           .device = "CPU",
                           .name = "depthwise.rows",
                           .types = RT_T(RT_F32),
                           .can = kn_depthwise_conv_can,
                           .prepare = kn_depthwise_conv_prepare,
                           .run = kn_depthwise_conv},
                          ROWS("DepthwiseConv2dNative", "depthwise", PLAIN_TYPES & ~RT_T(RT_I32))),
};
const struct kn_entry kn_conv2d_backprop_input = {
    .op = {.name = "Conv2DBackpropInput",
           .shape_in = 1,
           .check = kn_conv_check,
           .infer = kn_conv_infer_transposed,
           .rows = kn_conv_rows_transposed,
           .flops = kn_conv_flops_transposed},
    .kernels = KERNELS("Conv2DBackpropInput", "conv2d_transpose", PLAIN_TYPES),
};
const struct kn_entry kn_conv3d_backprop_input_v2 = {
    .op = {.name = "Conv3DBackpropInputV2",
           .shape_in = 1,
           .check = kn_conv_check,
           .infer = kn_conv_infer_transposed,
           .rows = kn_conv_rows_transposed},
    .kernels = KERNELS("Conv3DBackpropInputV2", "conv3d_transpose", PLAIN_TYPES & ~RT_T(RT_I32)),
};
