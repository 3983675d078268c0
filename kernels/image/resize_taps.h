/*
 * Source positions and weights of resized images along one axis. The ops that resize images and
 * their gradients use them. Coordinates are computed in float, in TensorFlow's order of operations.
 *
 * Threads: any; these functions are pure.
 */
#ifndef KN_IMAGE_RESIZE_TAPS_H
#define KN_IMAGE_RESIZE_TAPS_H

#include <stdbool.h>
#include <stdint.h>

struct kn_tap { /* The source positions and weights of one output position along one axis. */
    int64_t at[4];
    /* In bilinear interpolation, the weight of position at[1] is weight[0], and the weight of
     * position at[0] is 1 - weight[0]. */
    float weight[4];
};

/* Returns the distance, in pixels of the image, between two adjacent pixels of the output. `align`
 * is the attribute "align_corners". */
float kn_resize_scale(int64_t in, int64_t out, bool align);
/* Sets *t for output position i. `half` is the attribute "half_pixel_centers". */
void kn_tap_bilinear(struct kn_tap *t, int64_t i, int64_t in, float scale, bool half);
void kn_tap_bicubic(struct kn_tap *t, int64_t i, int64_t in, float scale, bool half);

/* Sets *at to the source position of pixel i of a crop on one axis. Along this axis, the image has
 * `in` pixels, the crop has `out` pixels, and the box spans lo to hi. Returns whether the position
 * lies inside the image. */
bool kn_crop_at(float lo, float hi, int64_t in, int64_t out, int64_t i, float *at);
/* Returns the index of the pixel at a position. On an axis of more than 2^24 pixels, rounding may
 * move the last position outside the image, so the index is clamped. */
int64_t kn_crop_pixel(float at, int64_t n);

#endif
