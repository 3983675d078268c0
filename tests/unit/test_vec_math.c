#include "tests/support/test.h"

#include "kernels/cpu/vec_math.h"

static double gelu(double x)
{
    return 0.5 * x * erfc(x * -0.70710678118654752);
}

static void gelu_is_as_exact_as_it_says(void **state)
{
    (void)state;
    for (int i = -20000; i <= 20000; i++) {
        const float x = (float)i / 1024;
        const double right = gelu((double)x), apart = fabs((double)kn_gelu_f32(x) - right);
        if (fabs(right) > 1e-35)
            assert_true(apart <= 5e-6 * fabs(right));
        if (fabs(right) > 1e-6)
            assert_true(apart <= 1e-6 * fabs(right));
        assert_true(apart <= 1e-36 || fabs(right) > 1e-35);
    }
}

static void gelu_ends_where_erfc_does(void **state)
{
    (void)state;
    assert_true(isnan(kn_gelu_f32(NAN)));
    assert_true(isnan(kn_gelu_f32(-INFINITY))); /* infinity times 0 */
    assert_true(kn_gelu_f32(INFINITY) == INFINITY);
    assert_true(kn_gelu_f32(1e30f) == 1e30f);
    assert_true(kn_gelu_f32(-1e30f) == 0);
    assert_true(kn_gelu_f32(0) == 0);
    assert_true(signbit(kn_gelu_f32(-0.0f)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gelu_is_as_exact_as_it_says),
        cmocka_unit_test(gelu_ends_where_erfc_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
