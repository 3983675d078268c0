/*
 * Depthwise convolutions on float32 NHWC as it is: every channel by a window of its own, the
 * channels being the vector. Some outputs along a row are held in registers while their windows'
 * pixels pass by, so that each is read once per row of the window; the shift is what the sums
 * start from, and an activation is done before they are written.
 *
 * What lies outside the image is left out of the sums, not multiplied. They do not depend on the
 * batch or on how rows are divided.
 *
 * Threads: pure.
 */
#ifndef KN_CPU_DEPTHWISE_H
#define KN_CPU_DEPTHWISE_H

#include "kernels/nn/window.h"
#include "runtime/fusion/activation.h"

struct kn_depthwise_loops;

struct kn_depthwise {
    struct kn_axis y, x;
    int64_t channels;
    enum rt_activation act; /* one that kn_depthwise_activates knows */
    float alpha;
    const struct kn_depthwise_loops *loops; /* by kn_depthwise_init */
};

/* Windows of 3 or 5 columns by steps of 1 or 2, as many channels as a vector holds at least. False:
 * other shapes. */
bool kn_depthwise_init(struct kn_depthwise *d);
bool kn_depthwise_activates(enum rt_activation act);
/*
 * Rows [from, to) of one image's outputs. filter [y.size, x.size, channels]; shift [channels] or
 * NULL.
 */
void kn_depthwise_rows(const struct kn_depthwise *d, const float *image, const float *filter,
                       const float *shift, float *dst, int64_t from, int64_t to);

#endif
