#include "tests/support/test.h"

#include <math.h>

#include "tests/support/draw.h"
#include "tests/support/op.h"

/* Compares pooling of floats, which computes several channels at a time, with pooling of doubles,
 * which computes one pixel at a time. */

static int64_t between(int64_t lo, int64_t hi)
{
    return lo + draw_below(hi - lo + 1);
}

static void one_shape(const char *op, const char *attrs, const int64_t *dim)
{
    struct op_call single = {.op = op, .n_in = 1, .n_out = 1}, twice = single;
    const int64_t n = dim[0] * dim[1] * dim[2] * dim[3];
    float *f = calloc((size_t)n, sizeof *f);
    double *d = calloc((size_t)n, sizeof *d);
    char text[2][200];

    for (int64_t i = 0; i < n; i++) {
        f[i] = between(0, 40) == 0 ? NAN : (float)between(-1000, 1000);
        d[i] = (double)f[i];
    }
    snprintf(text[0], sizeof text[0], "T=float %s", attrs);
    snprintf(text[1], sizeof text[1], "T=double %s", attrs);
    single.attrs = text[0];
    twice.attrs = text[1];
    single.in[0] = op_tensor(RT_F32, 4, dim, f);
    twice.in[0] = op_tensor(RT_F64, 4, dim, d);
    assert_ok(op_run(&single), &single.err);
    assert_ok(op_run(&twice), &twice.err);
    assert_int_equal(rt_tensor_count(&single.out[0]), rt_tensor_count(&twice.out[0]));
    const bool is_max = strcmp(op, "MaxPool") == 0;
    for (int64_t i = 0; i < rt_tensor_count(&single.out[0]); i++) {
        const float a = ((float *)single.out[0].data)[i];
        const double b = ((double *)twice.out[0].data)[i];
        /* The maximum of a window that contains only NaN is the lowest finite value of its type. */
        if (!(a == (float)b) && !(isnan(a) && isnan(b)) && !(is_max && b < -1e300 && a < -1e38f) &&
            !(fabs((double)a - b) <= 1e-4))
            fail_msg("%s %s, %lld channels: %g, not %g", op, attrs, (long long)dim[3], (double)a,
                     b);
    }
    op_clear(&single);
    op_clear(&twice);
    free(f);
    free(d);
}

static void many_channels_are_pooled_as_one_by_one(void **state)
{
    (void)state;
    static const char *const ops[] = {"MaxPool", "AvgPool"};
    static const int64_t channels[] = {1, 15, 16, 17, 48, 64, 79, 131, 192};
    for (size_t c = 0; c < sizeof channels / sizeof *channels; c++)
        for (int i = 0; i < 6; i++) {
            const int64_t h = between(1, 4), w = between(1, 4);
            char attrs[160];
            snprintf(attrs, sizeof attrs, "ksize=[1,%d,%d,1] strides=[1,%d,%d,1] padding='%s'",
                     (int)h, (int)w, (int)between(1, 3), (int)between(1, 3),
                     i % 2 ? "SAME" : "VALID");
            one_shape(ops[i % 2], attrs,
                      (int64_t[]){between(1, 3), between(4, 12), between(4, 12), channels[c]});
            one_shape(ops[(i + 1) % 2], attrs,
                      (int64_t[]){between(1, 3), between(4, 12), between(4, 12), channels[c]});
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_channels_are_pooled_as_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
