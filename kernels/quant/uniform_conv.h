/*
 * The geometry of UniformQuantizedConvolution and UniformQuantizedConvolutionHybrid: the meaning
 * of each dimension of the input, the kernel and the output, and the windows along each spatial
 * axis.
 *
 * Threads: any; all functions are pure.
 */
#ifndef KN_QUANT_UNIFORM_CONV_H
#define KN_QUANT_UNIFORM_CONV_H

#include "kernels/quant/uniform.h"

enum { KN_U_SPATIAL = RT_MAX_RANK - 2 };

/* Which dimensions of a tensor have which meaning. The kernel has output features in place of a
 * batch. */
struct kn_u_layout {
    int64_t batch, feature, spatial[KN_U_SPATIAL];
};

/* Window i along a spatial axis covers the positions `i * stride - lo + j * dilation`, for j in
 * [0, size), of the input, between whose elements `in_dilation` - 1 zeros have been inserted. */
struct kn_u_window {
    int64_t in, out, size, stride, dilation, in_dilation, lo;
};

struct kn_u_conv {
    int n_spatial;
    struct kn_u_layout input, kernel, output;
    struct kn_u_window window[KN_U_SPATIAL];
    int64_t batch_groups, feature_groups;
};

enum rt_status kn_u_conv_infer(struct rt_infer *x);
/* Row rule: images are independent if batches come first and are not divided into groups. */
void kn_u_conv_rows(struct rt_rows *r);
/* Reads the attributes of a node whose inputs have the given shapes. Also sets *out to the shape of
 * the output. Dimensions of all shapes, and members of the windows, may be -1. */
enum rt_status kn_u_conv_read(const struct rt_node *n, const struct rt_shape *lhs,
                              const struct rt_shape *rhs, struct kn_u_conv *c, struct rt_shape *out,
                              struct rt_error *err);

#endif
