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
        if (fabs(right) > 0x1p-126) /* 2^-126 is the smallest normal float */
            assert_true(apart <= 1e-5 * fabs(right));
        if (fabs(right) > 1e-6)
            assert_true(apart <= 2e-6 * fabs(right));
        assert_true(apart <= 0x1p-126 || fabs(right) > 0x1p-126);
    }
}

static void gelu_ends_where_erfc_does(void **state)
{
    (void)state;
    assert_true(isnan(kn_gelu_f32(NAN)));
    /* For -infinity, GELU multiplies infinity by zero. */
    assert_true(isnan(kn_gelu_f32(-INFINITY)));
    assert_true(kn_gelu_f32(INFINITY) == INFINITY);
    assert_true(kn_gelu_f32(1e30f) == 1e30f);
    assert_true(kn_gelu_f32(-1e30f) == 0 && signbit(kn_gelu_f32(-1e30f)));
    assert_true(kn_gelu_f32(-13.5f) == 0 && kn_gelu_f32(13.5f) == 13.5f);
    assert_true(kn_gelu_f32(0) == 0);
    assert_true(signbit(kn_gelu_f32(-0.0f)));
}

static double largest_apart(float (*f)(float), double (*right)(double), float from, float to)
{
    double most = 0;
    for (int i = 0; i <= 40000; i++) {
        const float x = from + (to - from) * (float)i / 40000;
        const double want = right((double)x), apart = fabs((double)f(x) - want) / fabs(want);
        most = apart > most ? apart : most;
    }
    return most;
}

static void exponentials_are_within_their_last_places(void **state)
{
    (void)state;
    /* The relative size of 1 ulp is largest at a power of two. */
    const double ulp = 0x1p-23;
    assert_true(largest_apart(kn_exp_f32, exp, -87.3f, 88.7f) <= 1.5 * ulp);
    assert_true(largest_apart(kn_expm1_f32, expm1, 0.001f, 88) <= 3 * ulp);
    assert_true(largest_apart(kn_expm1_f32, expm1, -20, -0.001f) <= 3 * ulp);
    assert_true(largest_apart(kn_tanh_f32, tanh, 0.001f, 20) <= 3 * ulp);
    assert_true(isnan(kn_exp_f32(NAN)) && kn_exp_f32(-INFINITY) == 0);
    assert_true(kn_exp_f32(INFINITY) == INFINITY && kn_exp_f32(89) == INFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gelu_is_as_exact_as_it_says),
        cmocka_unit_test(gelu_ends_where_erfc_does),
        cmocka_unit_test(exponentials_are_within_their_last_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
