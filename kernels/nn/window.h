/*
 * Sliding windows of convolution and pooling ops along one spatial axis (struct kn_axis), with
 * TensorFlow's padding rules and error messages.
 */
#ifndef KN_NN_WINDOW_H
#define KN_NN_WINDOW_H

#include "runtime/core/op.h"

enum { KN_MAX_SPATIAL = 3 };

/* Window i covers the input positions `i * stride - lo + j * dilation` for all j in [0, size).
 * Positions outside [0, in) are padding. `in` and `out`, and with SAME padding `lo` and `hi`, are
 * -1 while they are not known. */
struct kn_axis {
    int64_t in, out, size, stride, dilation, lo, hi;
};

enum kn_padding { KN_VALID, KN_SAME, KN_EXPLICIT };

enum kn_padding kn_padding(const struct rt_node *n);
/* Returns whether channels precede the spatial axes, as in "NCHW", "NCDHW" and Conv's
 * "CHANNELS_FIRST". */
bool kn_channels_first(const struct rt_node *n);
/* Checks the attribute "explicit_paddings" of a node whose padding is explicit. */
enum rt_status kn_check_paddings(const struct rt_node *n, struct rt_error *err);
/* Fails if a window of a pooling op with explicit padding could lie outside the input along spatial
 * axis `axis`. */
enum rt_status kn_axis_check_padding(const struct kn_axis *a, int axis, struct rt_error *err);
/* kn_spatial_axis returns the index of the dimension that is spatial axis i. kn_channel_axis
 * returns the index of the channels' dimension. */
int kn_spatial_axis(bool channels_first, int i);
int kn_channel_axis(bool channels_first, int n_spatial);

/* Computes `out` from the other members. Unless the padding is explicit, also computes `lo` and
 * `hi`. */
enum rt_status kn_axis_solve(struct kn_axis *a, enum kn_padding padding, struct rt_error *err);
/* Returns an axis with one window of one position, for a tensor that lacks the axis. */
static inline struct kn_axis kn_axis_none(void)
{
    return (struct kn_axis){.in = 1, .out = 1, .size = 1, .stride = 1, .dilation = 1};
}
/* Sets [*from, *to) to the range of j for which the positions of window i lie inside the input. */
static inline void kn_axis_inside(const struct kn_axis *a, int64_t i, int64_t *from, int64_t *to)
{
    const int64_t start = i * a->stride - a->lo;
    int64_t f = 0, t = a->size;
    if (start < 0)
        f = (-start + a->dilation - 1) / a->dilation;
    if (start + (a->size - 1) * a->dilation >= a->in)
        t = a->in > start ? (a->in - start + a->dilation - 1) / a->dilation : 0;
    *from = f;
    *to = t > f ? t : f;
}

#endif
