/* Device code of depthwise convolutions. Each thread computes a strip of neighbouring output
 * columns, of one or of four channels, at a time, and reads each filter element once per strip. */
#include "kernels/cuda/device/depthwise.h"
#include "kernels/cuda/device/epilogue.cuh"

enum { STRIP = KC_DEPTHWISE_STRIP };

/* The place of a strip. */
struct strip {
    int64_t image, row, column, channel; /* `column` is the first one */
};

KC_DEVICE struct strip strip_of(const struct kc_depthwise *a, int64_t i, int width)
{
    const int64_t across = a->channels / width, strips = (a->axis[1].out + STRIP - 1) / STRIP;
    struct strip s;
    const int64_t column = kc_divide(i, across), row = kc_divide(column, strips);
    s.channel = (i - column * across) * width;
    s.column = (column - row * strips) * STRIP;
    s.image = kc_divide(row, a->axis[0].out);
    s.row = row - s.image * a->axis[0].out;
    return s;
}

KC_DEVICE void convolve(const struct kc_depthwise *a, const struct strip *s, int width,
                        struct kc_vector sum[STRIP])
{
    const struct kc_axis *y = &a->axis[0], *x = &a->axis[1];
    const int64_t row_step = a->channels / a->multiplier;
    const int64_t top = s->row * y->stride - y->lo, left = s->column * x->stride - x->lo;
    const float *in = KC_ADDRESS(a->in) + s->image * y->in * x->in * row_step +
                      (width == 4 ? s->channel : kc_divide(s->channel, a->multiplier));
    const float *filter = KC_ADDRESS(a->filter) + s->channel;
    for (int64_t h = 0; h < y->size; h++) {
        const int64_t at_y = top + h * y->dilation;
        if (at_y < 0 || at_y >= y->in)
            continue;
        for (int64_t w = 0; w < x->size; w++) {
            const struct kc_vector f = kc_load(filter + (h * x->size + w) * a->channels, width);
            for (int k = 0; k < STRIP; k++) {
                const int64_t at_x = left + k * x->stride + w * x->dilation;
                if (at_x < 0 || at_x >= x->in)
                    continue;
                const struct kc_vector v = kc_load(in + (at_y * x->in + at_x) * row_step, width);
                for (int c = 0; c < width; c++)
                    sum[k].v[c] += v.v[c] * f.v[c];
            }
        }
    }
}

KC_DEVICE void run(const struct kc_depthwise *a, int width)
{
    const int64_t columns = a->axis[1].out;
    const int64_t n =
        a->batch * a->axis[0].out * ((columns + STRIP - 1) / STRIP) * (a->channels / width);
    for (int64_t i = KC_INDEX; i < n; i += KC_TOTAL) {
        const struct strip s = strip_of(a, i, width);
        const int64_t first = (s.image * a->axis[0].out + s.row) * columns + s.column;
        struct kc_vector sum[STRIP];
        for (int k = 0; k < STRIP; k++)
            for (int c = 0; c < 4; c++)
                sum[k].v[c] = 0;
        convolve(a, &s, width, sum);
        for (int k = 0; k < STRIP; k++) {
            const int64_t at = (first + k) * a->channels + s.channel;
            if (s.column + k < columns)
                kc_store(KC_ADDRESS(a->out) + at,
                         kc_apply_epilogue_vector(&a->epilogue, sum[k], at, s.channel, width),
                         width);
        }
    }
}

KC_KERNEL_RESIDENT(kc_depthwise, kc_depthwise, args, 3)
{
    if (args.width == 4)
        run(&args, 4);
    else
        run(&args, 1);
}
