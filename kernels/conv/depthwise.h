/*
 * Depthwise convolutions on float32 NHWC tensors without reordering. Every channel has its own
 * window, and vectors run along the channels. The sums of several neighbouring outputs stay in
 * registers while their windows are read, so each input pixel is read once per row of the window.
 * The sums start from the shift, and the activation is applied before the outputs are written.
 *
 * Pixels outside the image are left out of the sums. They are not multiplied as zeros. The sums do
 * not depend on the batch size or on how rows are sharded.
 *
 * Threads: any; these functions are pure.
 */
#ifndef KN_CONV_DEPTHWISE_H
#define KN_CONV_DEPTHWISE_H

#include "kernels/nn/window.h"
#include "runtime/fusion/activation.h"

struct kn_depthwise_loops;

struct kn_depthwise {
    struct kn_axis y, x;
    int64_t channels;
    enum rt_activation act; /* an activation that kn_depthwise_activates accepts */
    float alpha;
    const struct kn_depthwise_loops *loops; /* kn_depthwise_init sets the loops */
};

/* Returns whether the loops support the shape. The windows must have 3 or 5 columns and stride 1 or
 * 2, and there must be at least as many channels as a vector has lanes. */
bool kn_depthwise_init(struct kn_depthwise *d);
bool kn_depthwise_activates(enum rt_activation act);
/*
 * Computes output rows [from, to) of one image. `filter` has the shape [y.size, x.size, channels].
 * `shift` has one float per channel, or is NULL.
 */
void kn_depthwise_rows(const struct kn_depthwise *d, const float *image, const float *filter,
                       const float *shift, float *dst, int64_t from, int64_t to);

#endif
