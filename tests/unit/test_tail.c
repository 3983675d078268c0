#include "tests/support/test.h"

#include "kernels/cpu/tail.h"

/* The words of the attribute "_tail". */

static enum rt_status read_words(const char *text, int n_in, struct kn_tail *t)
{
    const struct rt_schema schema = {.n_in = 2};
    const struct rt_named_attr extra = {
        .name = "_tail", .value = {.type = RT_ATTR_STRING, .n = strlen(text), .v.s = text}};
    const struct rt_node node = {
        .name = "y", .schema = &schema, .n_in = n_in, .n_extra = 1, .extra = &extra};
    struct rt_error err = {.arena = NULL};
    const struct rt_prep p = {.node = &node, .err = &err};
    size_t odd = 1;
    const enum rt_status st = kn_tail_prepare(t, &p, &odd);

    assert_true(st || !odd);
    return st;
}

static void every_activation_is_known_by_its_word(void **state)
{
    struct kn_tail t;
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
    assert_false(kn_tail_any(&t));
}

static void a_word_that_is_none_of_a_tail_is_refused(void **state)
{
    static const char *const text[] = {"rel", "relux", "mul selu", "add=1 relu7", "=1", " relu"};
    struct kn_tail t;
    (void)state;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        assert_int_equal(read_words(text[i], 5, &t), RT_INTERNAL);
    assert_int_equal(read_words("mul add", 3, &t), RT_INTERNAL); /* no input for the second */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_activation_is_known_by_its_word),
        cmocka_unit_test(a_word_that_is_none_of_a_tail_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
