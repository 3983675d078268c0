#include "tests/support/test.h"

#include <math.h>

#include "kernels/fused/epilogue.h"

/* Tests how the steps of an epilogue are read from the words of the attribute "_tail", and how
 * accurate the step for GELU is. */

static enum rt_status read_words(const char *text, int n_in, struct kn_epilogue *t)
{
    const struct rt_schema schema = {.n_in = 2};
    const struct rt_named_attr extra = {
        .name = "_tail", .value = {.type = RT_ATTR_STRING, .n = strlen(text), .v.s = text}};
    const struct rt_node node = {
        .name = "y", .schema = &schema, .n_in = n_in, .n_extra = 1, .extra = &extra};
    struct rt_error err = {.arena = NULL};
    const struct rt_prep p = {.node = &node, .err = &err};
    size_t broadcast_bytes = 1;
    const enum rt_status st = kn_epilogue_prepare(t, &p, &broadcast_bytes);

    assert_true(st || !broadcast_bytes);
    return st;
}

static void every_activation_is_known_by_its_word(void **state)
{
    struct kn_epilogue t;
    (void)state;
#define X(id, word)                                                                                \
    assert_int_equal(read_words(#word, 2, &t), RT_OK);                                             \
    assert_int_equal(t.act, RT_ACT_##id);
    RT_ACTIVATIONS(X)
#undef X
    assert_int_equal(read_words("mul add leaky_relu=0x1p-2", 4, &t), RT_OK);
    assert_int_equal(t.scale, 2);
    assert_int_equal(t.shift, 3);
    assert_int_equal(t.act, RT_ACT_LEAKY_RELU);
    assert_true(t.alpha == 0.25f);
    assert_int_equal(read_words("", 2, &t), RT_OK);
    assert_false(kn_epilogue_any(&t));
}

static void a_word_that_is_none_of_an_epilogue_is_refused(void **state)
{
    static const char *const text[] = {"rel", "relux", "mul selu", "add=1 relu7", "=1", " relu"};
    struct kn_epilogue t;
    (void)state;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        assert_int_equal(read_words(text[i], 5, &t), RT_INTERNAL);
    assert_int_equal(read_words("mul add", 3, &t), RT_INTERNAL);
}

/* Computes GELU, `x / 2 * (1 + erf(x / sqrt(2)))`, as `x / 2 * erfc(-x / sqrt(2))`, which loses no
 * digits where erf is near -1. */
static double gelu(double x)
{
    return 0.5 * x * erfc(x * -0.70710678118654752);
}
static double gelu_tanh(double x)
{
    const double y = 0.79788456080286536 * (x + 0.044715 * x * x * x);
    /* The formula `x / 2 * (1 + tanh(y))` would lose digits where tanh is near -1. */
    return x / (1 + exp(-2 * y));
}

static void both_gelus_are_right_at_their_ends(void **state)
{
    static const float at[] = {-12, -10,   -8,  -5.5f, -1e-3f,   -0.0f,     0,   1e-3f, -1e30f,
                               10,  1e30f, -13, 5.5f,  INFINITY, -INFINITY, NAN, -NAN};
    static double (*const right[])(double) = {gelu, gelu_tanh};
    static const char *const word[] = {"gelu", "gelu_tanh"};
    enum { N = sizeof at / sizeof *at };
    float y[N];
    (void)state;
    for (int f = 0; f < 2; f++) {
        struct kn_epilogue t;
        assert_int_equal(read_words(word[f], 2, &t), RT_OK);
        memcpy(y, at, sizeof y);
        kn_epilogue_activate(&t, y, 1, N, N);
        for (int i = 0; i < N; i++) {
            const double want = right[f]((double)at[i]);
            assert_true(!isnan(y[i]) == !isnan(want));
            if (isnan(want))
                continue;
            assert_true(!signbit(y[i]) == !signbit(want));
            assert_true((double)y[i] == want ||
                        fabs((double)y[i] - want) <= 2e-5 * fabs(want) + 0x1p-126);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_activation_is_known_by_its_word),
        cmocka_unit_test(a_word_that_is_none_of_an_epilogue_is_refused),
        cmocka_unit_test(both_gelus_are_right_at_their_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
