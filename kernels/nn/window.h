/*
 * Sliding windows of convolutions and poolings. There is one struct per spatial axis; TensorFlow's
 * padding rules and its error texts are here once.
 */
#ifndef KN_NN_WINDOW_H
#define KN_NN_WINDOW_H

#include "runtime/core/op.h"

enum { KN_MAX_SPATIAL = 3 };

/* Window i covers the input positions i * stride - lo + j * dilation, j in [0, size). Positions
 * outside [0, in) are padding. -1: not known yet (possible for in, out, and for lo and hi with
 * SAME padding). */
struct kn_axis {
    int64_t in, out, size, stride, dilation, lo, hi;
};

enum kn_padding { KN_VALID, KN_SAME, KN_EXPLICIT };

/* The node's "padding" attribute. */
enum kn_padding kn_padding(const struct rt_node *n);
/* Whether the channels precede the spatial axes: "NCHW", "NCDHW". */
bool kn_channels_first(const struct rt_node *n);
/* The index in a shape of spatial axis i, and of the channels. */
int kn_spatial_axis(bool channels_first, int i);
int kn_channel_axis(bool channels_first, int n_spatial);

/* Sets out (and lo, hi unless the padding is explicit) from in, size, stride and dilation. */
enum rt_status kn_axis_solve(struct kn_axis *a, enum kn_padding padding, struct rt_error *err);
/* The part of window i that lies inside the input: j in [*from, *to). */
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
