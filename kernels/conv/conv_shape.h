/*
 * The shapes of convolutions over two or three spatial axes and of their transposes: attributes,
 * TensorFlow's checks with its error messages, and shape inference.
 *
 * One struct describes all of these convolutions. Activations are [batch, spatial..., channels];
 * weights are [spatial..., ci / groups, co]. A depthwise filter [h, w, ci, m] has the same bytes as
 * the weights [h, w, 1, ci * m] of a convolution in ci groups. For a transposed convolution, ci, co
 * and the axes describe the forward convolution. The input of the forward convolution is the op's
 * output.
 */
#ifndef KN_CONV_CONV_SHAPE_H
#define KN_CONV_CONV_SHAPE_H

#include "kernels/nn/window.h"
#include "runtime/core/op.h"

struct kn_conv_shape {
    bool transposed, depthwise;
    int n_spatial;
    int64_t batch, ci, co, groups;
    struct kn_axis axis[KN_MAX_SPATIAL];
};

bool kn_conv_is_transposed(const struct rt_node *n);
bool kn_conv_is_depthwise(const struct rt_node *n);
int kn_conv_n_spatial(const struct rt_node *n);

/* Reads the strides, dilations and explicit paddings of the spatial axes. */
void kn_conv_read_windows(const struct rt_node *n, struct kn_conv_shape *g);

/* Checks the attribute "explicit_paddings", which must be empty unless the padding is explicit. */
enum rt_status kn_conv_check_paddings(const struct rt_node *n, struct rt_error *err);

/* The rt_op.check, .infer and .rows functions of the convolution ops. */
enum rt_status kn_conv_check(const struct rt_node *n, struct rt_error *err);
enum rt_status kn_conv_infer(struct rt_infer *x);
enum rt_status kn_conv_infer_transposed(struct rt_infer *x);
void kn_conv_rows_transposed(struct rt_rows *r);
/* Those of Conv, whose number of batch dimensions is an attribute (general_conv.c). */
enum rt_status kn_conv_infer_general(struct rt_infer *x);
void kn_conv_rows_general(struct rt_rows *r);
/* The rt_op.flops functions of the convolution ops. */
double kn_conv_flops(const struct rt_node *n, const struct rt_shape *in, int n_in,
                     const struct rt_shape *out);
double kn_conv_flops_depthwise(const struct rt_node *n, const struct rt_shape *in, int n_in,
                               const struct rt_shape *out);
double kn_conv_flops_transposed(const struct rt_node *n, const struct rt_shape *in, int n_in,
                                const struct rt_shape *out);

/* Computes the convolution's shape from the exact shapes of the node's inputs, while a kernel is
 * prepared. Refuses convolutions that TensorFlow's CPU kernels do not implement, such as those
 * whose data format has channels first. */
enum rt_status kn_conv_prepare(const struct rt_prep *p, struct kn_conv_shape *out);
/* Sets the output shape of a convolution that is not transposed. */
void kn_conv_out_shape(const struct rt_node *n, const struct kn_conv_shape *g, struct rt_shape *o);

#endif
