#include "kernels/cuda/table.h"

#include "runtime/core/types.h"
#include "runtime/fusion/elementwise_steps.h"
#include "runtime/fusion/rnn/recurrent.h"

/* A row of the list for an op whose attribute T has one of the types `types_`. Bit k of `host_in_`
 * is set if the host must be able to read input k, for example the axes of a reduction. */
#define ROW(op_, module, types_, host_in_)                                                         \
    {                                                                                              \
        .op = (op_), .device = "GPU", .name = #module ".cuda", .types = (types_),                  \
        .host_in = (host_in_), .can = kc_##module##_can, .prepare = kc_##module##_prepare,         \
        .run = kc_##module##_run                                                                   \
    }
#define FLOAT(op, module)               ROW(op, module, RT_T(RT_F32), 0)
#define FLOAT_HOST(op, module, host_in) ROW(op, module, RT_T(RT_F32), host_in)
/* a gather of float32 */
#define GATHER(op_, host_in_)                                                                      \
    {                                                                                              \
        .op = (op_), .device = "GPU", .name = "gather.cuda", .type_attr = "Tparams",               \
        .types = RT_T(RT_F32), .host_in = (host_in_), .can = kc_gather_can,                        \
        .prepare = kc_gather_prepare, .run = kc_gather_run, .explain = kc_gather_explain           \
    }
/* Cast to float32 */
#define CAST                                                                                       \
    {                                                                                              \
        .op = "Cast", .device = "GPU", .name = "elementwise.cuda", .type_attr = "DstT",            \
        .types = RT_T(RT_F32), .and_type_attr = "SrcT",                                            \
        .and_types = RT_T(RT_BOOL) | RT_T(RT_U8) | RT_T(RT_I32) | RT_T(RT_I64),                    \
        .can = kc_elementwise_can, .prepare = kc_elementwise_prepare, .run = kc_elementwise_run    \
    }

static const struct rt_kernel kernels[] = {
#define X(op, unused) FLOAT(#op, elementwise),
    RT_ELEMENTWISE_UNARY(X) RT_ELEMENTWISE_BINARY(X) RT_ELEMENTWISE_TRUTH(X)
#undef X
        FLOAT("AvgPool", pool),
    FLOAT("AvgPool3D", pool),
    FLOAT("BatchMatMul", matmul),
    FLOAT("BatchMatMul", matmul_blas),
    FLOAT("BatchMatMulV2", matmul),
    FLOAT("BatchMatMulV2", matmul_blas),
    FLOAT("BiasAdd", elementwise),
    FLOAT_HOST("BroadcastTo", copy, 2),
    CAST,
    FLOAT("ConcatV2", copy),
    FLOAT("Conv2D", conv),
    FLOAT("Conv2D", conv_dnn),
    FLOAT("Conv3D", conv),
    FLOAT("Conv3D", conv_dnn),
    FLOAT("DepthwiseConv2dNative", depthwise),
    GATHER("Gather", 0),
    GATHER("GatherV2", 4),
    FLOAT("LeakyRelu", elementwise),
    FLOAT("LogSoftmax", softmax),
    FLOAT("MatMul", matmul),
    FLOAT("MatMul", matmul_blas),
    FLOAT_HOST("Max", reduce, 2),
    FLOAT("MaxPool", pool),
    FLOAT("MaxPool3D", pool),
    FLOAT_HOST("Mean", reduce, 2),
    FLOAT_HOST("Min", reduce, 2),
    FLOAT("Pack", copy),
    FLOAT_HOST("Pad", copy, 2),
    FLOAT_HOST("PadV2", copy, 2),
    FLOAT_HOST("Prod", reduce, 2),
    FLOAT("SelectV2", elementwise),
    FLOAT_HOST("Slice", copy, 6),
    FLOAT("Softmax", softmax),
    FLOAT_HOST("Split", copy, 1),
    FLOAT_HOST("SplitV", copy, 6),
    FLOAT_HOST("StridedSlice", copy, 14),
    FLOAT_HOST("Sum", reduce, 2),
    FLOAT_HOST("Tile", copy, 2),
    FLOAT_HOST("Transpose", copy, 2),
    ROW("_Attention", attention, 0, 0),
    ROW("_Chain", elementwise, 0, 0),
    ROW("_LayerNorm", norm, 0, 0),
    ROW("_RNN", rnn, 0, RT_RNN_LIMITS),
};

const struct rt_kernel *kc_kernels(int *n)
{
    *n = sizeof kernels / sizeof *kernels;
    return kernels;
}
