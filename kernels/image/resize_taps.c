#include "kernels/image/resize_taps.h"

#include <float.h>
#include <math.h>

#include "runtime/base/checked.h"

static int64_t clamp(int64_t v, int64_t hi)
{
    return v < 0 ? 0 : v > hi ? hi : v;
}

float kn_resize_scale(int64_t in, int64_t out, bool align)
{
    return align && out > 1 && in > 1 ? (float)(in - 1) / (float)(out - 1) : (float)in / (float)out;
}

void kn_tap_bilinear(struct kn_tap *t, int64_t i, int64_t in, float scale, bool half)
{
    const float x = half ? ((float)i + 0.5f) * scale - 0.5f : (float)i * scale;
    const float low = floorf(x);
    const int64_t upper = rt_int64_of((double)ceilf(x));

    t->at[1] = upper < in - 1 ? upper : in - 1;
    t->at[0] = low > 0 ? rt_int64_of((double)low) : 0;
    if (t->at[1] < 0)
        t->at[1] = 0;
    if (t->at[0] > t->at[1])
        t->at[0] = t->at[1];
    t->weight[0] = x - low;
}

/* Weights of cubic convolution at distances d and 1 + d, where d is a multiple of 1/1024. The
 * parameter a is -0.5 (Keys) or -0.75. */
enum { CUBIC_STEPS = 1024 };

static float cubic_near(double a, int64_t step)
{
    const float x = (float)((double)step / CUBIC_STEPS);
    return (float)(((a + 2) * x - (a + 3)) * x * x + 1);
}

static float cubic_far(double a, int64_t step)
{
    const float x = (float)((double)step / CUBIC_STEPS) + 1;
    return (float)(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
}

void kn_tap_bicubic(struct kn_tap *t, int64_t i, int64_t in, float scale, bool half)
{
    const float x = half ? ((float)i + 0.5f) * scale - 0.5f : (float)i * scale;
    const int64_t base = rt_int64_of((double)floorf(x));
    const int64_t step = lrintf((x - (float)base) * CUBIC_STEPS);
    const double a = half ? -0.5 : -0.75;
    const float w[4] = {cubic_far(a, step), cubic_near(a, step), cubic_near(a, CUBIC_STEPS - step),
                        cubic_far(a, CUBIC_STEPS - step)};
    float sum = 0;

    for (int k = 0; k < 4; k++) {
        t->at[k] = clamp(base - 1 + k, in - 1);
        /* With half_pixel_centers, positions outside the image have weight 0. Without
         * half_pixel_centers, edge pixels repeat. */
        t->weight[k] = half && t->at[k] != base - 1 + k ? 0 : w[k];
        sum += t->weight[k];
    }
    if (half && fabsf(sum) >= 1000 * FLT_MIN)
        for (int k = 0; k < 4; k++)
            t->weight[k] /= sum;
}

bool kn_crop_at(float lo, float hi, int64_t in, int64_t out, int64_t i, float *at)
{
    const float scale = out > 1 ? (hi - lo) * (float)(in - 1) / (float)(out - 1) : 0;
    *at = out > 1 ? lo * (float)(in - 1) + (float)i * scale : 0.5f * (lo + hi) * (float)(in - 1);
    /* If the box spans the complete range of floats, *at is NaN, which is treated as outside the
     * image. */
    return *at >= 0 && *at <= (float)(in - 1);
}

int64_t kn_crop_pixel(float at, int64_t n)
{
    const int64_t k = rt_int64_of((double)at);

    return k < 0 ? 0 : k < n ? k : n - 1;
}
