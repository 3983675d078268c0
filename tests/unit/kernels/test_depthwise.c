#include "tests/support/test.h"

#include <math.h>

#include "kernels/conv/depthwise_internal.h"
#include "tests/support/draw.h"

/* ---- direct sums in double ---- */

static double activate(const struct kn_depthwise *d, double x)
{
    if (d->act == RT_ACT_RELU)
        return x < 0 ? 0 : x;
    if (d->act == RT_ACT_RELU6)
        return x < 0 ? 0 : x > 6 ? 6 : x;
    return d->act == RT_ACT_SWISH ? x / (1 + exp(-(double)d->alpha * x)) : x;
}

static double sum_at(const struct kn_depthwise *d, const float *x, const float *f,
                     const float *shift, int64_t row, int64_t column, int64_t channel)
{
    double sum = shift ? (double)shift[channel] : 0;
    for (int64_t i = 0; i < d->y.size; i++)
        for (int64_t j = 0; j < d->x.size; j++) {
            const int64_t y = row * d->y.stride - d->y.lo + i * d->y.dilation;
            const int64_t c = column * d->x.stride - d->x.lo + j;
            if (y >= 0 && y < d->y.in && c >= 0 && c < d->x.in)
                sum += (double)x[(y * d->x.in + c) * d->channels + channel] *
                       (double)f[(i * d->x.size + j) * d->channels + channel];
        }
    return activate(d, sum);
}

/* ---- shapes ---- */

static struct kn_axis axis(int64_t in, int64_t size, int64_t stride, int64_t lo, int64_t hi)
{
    struct kn_axis a = {.in = in, .size = size, .stride = stride, .dilation = 1, .lo = lo};
    a.hi = hi;
    a.out = in + lo + hi < size ? 0 : (in + lo + hi - size) / stride + 1;
    return a;
}

static void expect(const struct kn_depthwise *d, const float *x, const float *f, const float *shift,
                   const float *y)
{
    for (int64_t i = 0; i < d->y.out * d->x.out * d->channels; i++) {
        const int64_t p = i / d->channels;
        const double right = sum_at(d, x, f, shift, p / d->x.out, p % d->x.out, i % d->channels);
        const double apart = fabs(right - (double)y[i]);
        if (isnan(right) ? !isnan(y[i]) : right != (double)y[i] && !(apart < 1e-5))
            fail_msg("%lldx%lld by %lldx%lld/%lld, %lld channels, activation %d: %g for %g at %lld",
                     (long long)d->y.in, (long long)d->x.in, (long long)d->y.size,
                     (long long)d->x.size, (long long)d->x.stride, (long long)d->channels,
                     (int)d->act, (double)y[i], right, (long long)i);
    }
}

static void one_shape(const struct kn_depthwise_loops *loops, struct kn_depthwise d, bool shifts)
{
    d.loops = loops;
    const int64_t n_x = d.y.in * d.x.in * d.channels, n_y = d.y.out * d.x.out * d.channels;
    float *x = draw_floats(n_x), *f = draw_floats(d.y.size * d.x.size * d.channels);
    float *shift = shifts ? draw_floats(d.channels) : NULL, *y = draw_floats(n_y);

    kn_depthwise_rows(&d, x, f, shift, y, 0, d.y.out);
    expect(&d, x, f, shift, y);
    /* Computing the rows in two calls must not change a single bit of the output. */
    float *other = draw_floats(n_y);
    kn_depthwise_rows(&d, x, f, shift, other, d.y.out / 3, d.y.out);
    kn_depthwise_rows(&d, x, f, shift, other, 0, d.y.out / 3);
    assert_memory_equal(y, other, (size_t)n_y * sizeof *y);
    free(x);
    free(f);
    free(shift);
    free(y);
    free(other);
}

static void sums_agree_with_direct_ones_on_every_instruction_set(void **state)
{
    static const struct {
        int64_t h, w, channels;
    } c[] = {{1, 1, 16},  {3, 2, 17},   {5, 7, 24},  {6, 8, 16},
             {4, 14, 33}, {15, 13, 16}, {9, 29, 20}, {7, 7, 200}};
    static const enum rt_activation acts[] = {RT_ACT_NONE, RT_ACT_RELU, RT_ACT_RELU6, RT_ACT_SWISH};
    int n = 0;

    (void)state;
    for (int l = 0; kn_depthwise_loops_of(l); l++)
        for (size_t i = 0; i < sizeof c / sizeof *c; i++)
            for (int size = 3; size <= 5; size += 2)
                for (int stride = 1; stride <= 2; stride++)
                    for (int pad = 0; pad < 4; pad++, n++) {
                        /* If `pad` is 0, there is no padding. If it is 1, the padding is SAME. If
                         * it is 2, one side is padded. If it is 3, the padding is longer than the
                         * window. */
                        const int64_t lo = pad == 1 ? size / 2 : pad == 3 ? size + 1 : 0;
                        const int64_t hi = pad == 2 ? size - 1 : lo;
                        struct kn_depthwise d = {.y = axis(c[i].h, size, stride, lo, hi),
                                                 .x = axis(c[i].w, size, stride, hi, lo),
                                                 .channels = c[i].channels,
                                                 .act = acts[n % 4],
                                                 .alpha = n & 4 ? 1 : 0.7f};
                        one_shape(kn_depthwise_loops_of(l), d, n & 8);
                    }
}

static void windows_may_differ_in_height_and_width(void **state)
{
    (void)state;
    for (int l = 0; kn_depthwise_loops_of(l); l++)
        for (int64_t size = 1; size <= 7; size++)
            for (int64_t stride = 1; stride <= 3; stride++) {
                struct kn_depthwise d = {.y = axis(12, size, stride, size / 2, 1),
                                         .x = axis(10, 3, 1, 1, 1),
                                         .channels = 19};
                one_shape(kn_depthwise_loops_of(l), d, true);
                d.y.dilation = 2;
                d.y.out = (12 + d.y.lo + d.y.hi - 2 * (size - 1) - 1) / stride + 1;
                if (d.y.out > 0)
                    one_shape(kn_depthwise_loops_of(l), d, false);
            }
}

/* NaN and infinity affect only the outputs whose windows contain them. Pixels outside the image are
 * left out of the sums, so an infinite weight at such a pixel does not produce NaN. */
static void numbers_that_are_none_stay_where_they_are(void **state)
{
    static const enum rt_activation acts[] = {RT_ACT_NONE, RT_ACT_RELU, RT_ACT_RELU6, RT_ACT_SWISH};

    (void)state;
    for (int l = 0; kn_depthwise_loops_of(l); l++)
        for (int a = 0; a < 8; a++) {
            struct kn_depthwise d = {.y = axis(9, 3, 1, 1, 1),
                                     .x = axis(11, 3, 1, 1, 1),
                                     .channels = 18,
                                     .act = acts[a % 4],
                                     .alpha = 1,
                                     .loops = kn_depthwise_loops_of(l)};
            float *x = draw_floats(9 * 11 * 18), *f = draw_floats(9 * 18),
                  *y = draw_floats(9 * 11 * 18);
            x[0] = NAN;
            x[40 * 18 + 3] = INFINITY;
            x[41 * 18 + 4] = -INFINITY;
            x[98 * 18 + 17] = a & 4 ? -3e38f : 3e38f;
            x[70 * 18 + 5] = a & 4 ? 1000 : -1000;
            f[5 * 18 + 7] = INFINITY;
            kn_depthwise_rows(&d, x, f, NULL, y, 0, 9);
            for (int64_t i = 0; i < 9 * 11 * 18; i++) {
                const double right = sum_at(&d, x, f, NULL, i / 18 / 11, i / 18 % 11, i % 18);
                const double apart = fabs(right - (double)y[i]);
                if (isnan(right) ? !isnan(y[i])
                                 : right != (double)y[i] && !(apart <= 1e-5 + 1e-6 * fabs(right)))
                    fail_msg("activation %d: %g for %g at %lld", (int)d.act, (double)y[i], right,
                             (long long)i);
            }
            free(x);
            free(f);
            free(y);
        }
}

static void other_shapes_are_refused(void **state)
{
    struct kn_depthwise d = {.y = axis(9, 3, 1, 1, 1), .x = axis(9, 3, 1, 1, 1), .channels = 32};

    (void)state;
    assert_true(kn_depthwise_init(&d));
    d.x.size = 4;
    assert_false(kn_depthwise_init(&d));
    d.x.size = 3;
    d.x.dilation = 2;
    assert_false(kn_depthwise_init(&d));
    d.x.dilation = 1;
    d.x.stride = 3;
    assert_false(kn_depthwise_init(&d));
    d.x.stride = 1;
    d.channels = 3;
    assert_false(kn_depthwise_init(&d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_agree_with_direct_ones_on_every_instruction_set),
        cmocka_unit_test(windows_may_differ_in_height_and_width),
        cmocka_unit_test(numbers_that_are_none_stay_where_they_are),
        cmocka_unit_test(other_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
