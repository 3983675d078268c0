/*
 * Sliding windows of convolutions and poolings, with one struct per spatial axis, TensorFlow's
 * padding rules, and TensorFlow's error messages.
 */
#ifndef KN_NN_WINDOW_H
#define KN_NN_WINDOW_H

#include "runtime/core/op.h"

enum { KN_MAX_SPATIAL = 3 };

/* Window i covers the input positions `i * stride - lo + j * dilation` for all j in [0, size).
 * Positions outside [0, in) are padding. A member is -1 if it is not known yet, which is possible
 * for in, out, and, with SAME padding, lo and hi. */
struct kn_axis {
    int64_t in, out, size, stride, dilation, lo, hi;
};

enum kn_padding { KN_VALID, KN_SAME, KN_EXPLICIT };

/* Returns the node's "padding" attribute. */
enum kn_padding kn_padding(const struct rt_node *n);
/* Returns whether channels precede the spatial axes, as in "NCHW" and "NCDHW". */
bool kn_channels_first(const struct rt_node *n);
/* Return the index of the dimension that holds spatial axis i, or the channels. */
int kn_spatial_axis(bool channels_first, int i);
int kn_channel_axis(bool channels_first, int n_spatial);

/* Computes `out`, and `lo` and `hi` unless the padding is explicit, from `in`, `size`, `stride` and
 * `dilation`. */
enum rt_status kn_axis_solve(struct kn_axis *a, enum kn_padding padding, struct rt_error *err);
/* Sets the part of window i that lies inside the input, as j in [*from, *to). */
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
