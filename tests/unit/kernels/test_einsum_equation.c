/* Tests how Einsum equations are matched with shapes. Covers which axes share a label, which shapes
 * match, and which of TensorFlow's error messages a refusal returns. */
#include "tests/support/test.h"

#include "kernels/matmul/einsum_equation.h"

enum { MOST_INPUTS = 2, MOST_ATTRS = 8 };

static enum rt_status solve(const char *equation, int n_in, const struct rt_shape *in,
                            struct kn_einsum_equation *e, struct rt_error *err)
{
    const struct rt_schema *const schema = rt_schema_find("Einsum");
    struct rt_attr attr[MOST_ATTRS] = {{.n = 0}};
    const struct rt_node node = {.name = "y", .schema = schema, .n_in = n_in, .attr = attr};
    struct rt_info info[MOST_INPUTS] = {{.dtype = RT_F32}, {.dtype = RT_F32}};

    assert_true(schema && schema->n_attr <= MOST_ATTRS);
    attr[rt_schema_attr(schema, "equation")] =
        (struct rt_attr){.type = RT_ATTR_STRING, .n = strlen(equation), .v.s = equation};
    for (int k = 0; k < n_in && k < MOST_INPUTS; k++)
        info[k].shape = in[k];
    return kn_einsum_solve(&node, info, e, err);
}

#define SHAPE(rank_, ...)                                                                          \
    {                                                                                              \
        .rank = (rank_), .dim = { __VA_ARGS__ }                                                    \
    }

static int64_t length_of(const struct kn_einsum_equation *e, int id)
{
    const int i = kn_einsum_find(e, id);
    return i < 0 ? -1 : e->dim[i];
}

static void axes_with_one_letter_have_one_label(void **state)
{
    static const struct rt_shape in[] = {SHAPE(3, 2, 3, 4), SHAPE(2, 4, 5)};
    struct rt_error err = {.arena = NULL};
    struct kn_einsum_equation e;
    (void)state;
    assert_ok(solve("abc,cd->dab", 2, in, &e, &err), &err);
    assert_int_equal(e.n_in, 2);
    assert_int_equal(e.n_labels, 4);
    assert_int_equal(e.in[0].n, 3);
    assert_int_equal(e.in[1].n, 2);
    assert_int_equal(e.out.n, 3);
    assert_int_equal(e.in[0].id[2], e.in[1].id[0]);
    assert_int_equal(e.out.id[0], 'd');
    assert_int_equal(length_of(&e, 'a'), 2);
    assert_int_equal(length_of(&e, 'c'), 4);
    assert_int_equal(length_of(&e, 'd'), 5);
    assert_int_equal(kn_einsum_find(&e, 'x'), -1);
}

static void axes_of_an_ellipsis_are_matched_from_the_right_and_broadcast(void **state)
{
    static const struct rt_shape in[] = {SHAPE(4, 6, 1, 2, 3), SHAPE(3, 7, 3, 5)};
    struct rt_error err = {.arena = NULL};
    struct kn_einsum_equation e;
    (void)state;
    assert_ok(solve("...ab,...bc->...ac", 2, in, &e, &err), &err);
    assert_int_equal(e.out.n, 4);
    assert_int_equal(e.in[0].id[1], KN_EINSUM_ELLIPSIS);
    assert_int_equal(e.in[1].id[0], KN_EINSUM_ELLIPSIS);
    assert_int_equal(e.out.id[0], KN_EINSUM_ELLIPSIS + 1);
    assert_int_equal(length_of(&e, KN_EINSUM_ELLIPSIS), 7);
    assert_int_equal(length_of(&e, KN_EINSUM_ELLIPSIS + 1), 6);
}

static void an_ellipsis_may_stand_for_no_axis(void **state)
{
    static const struct rt_shape in[] = {SHAPE(2, 2, 3)};
    struct rt_error err = {.arena = NULL};
    struct kn_einsum_equation e;
    (void)state;
    assert_ok(solve("a...b->b...a", 1, in, &e, &err), &err);
    assert_int_equal(e.out.n, 2);
    assert_int_equal(e.out.id[0], 'b');
    assert_int_equal(e.out.id[1], 'a');
}

static void a_letter_that_repeats_is_a_diagonal(void **state)
{
    static const struct rt_shape in[] = {SHAPE(3, 4, 4, 2)};
    struct rt_error err = {.arena = NULL};
    struct kn_einsum_equation e;
    (void)state;
    assert_ok(solve("aab->ba", 1, in, &e, &err), &err);
    assert_true(kn_einsum_has_diagonal(&e.in[0]));
    assert_false(kn_einsum_has_diagonal(&e.out));
    assert_int_equal(e.n_labels, 2);
}

/* The rule and the cases are those of TensorFlow. */
static void a_label_whose_first_length_is_0_may_have_another_length_later(void **state)
{
    static const struct {
        const char *equation;
        int n_in;
        struct rt_shape in[MOST_INPUTS];
        bool accepted;
        char label;
    } cases[] = {
        /* a label that is summed */
        {"ij,jk->ik", 2, {SHAPE(2, 2, 0), SHAPE(2, 3, 2)}, true, 'j'},
        {"ii->", 1, {SHAPE(2, 0, 3)}, true, 'i'},
        {"ii,i->", 2, {SHAPE(2, 0, 3), SHAPE(1, 3)}, true, 'i'},
        {"ii,i->", 2, {SHAPE(2, 0, 3), SHAPE(1, 0)}, false, 'i'},
        {"i,ii->", 2, {SHAPE(1, 0), SHAPE(2, 3, 0)}, false, 'i'},
        {"ij,jk->ik", 2, {SHAPE(2, 2, 3), SHAPE(2, 0, 2)}, false, 'j'},
        /* a label of the result */
        {"i,i->i", 2, {SHAPE(1, 0), SHAPE(1, 1)}, true, 'i'},
        {"i,ii->i", 2, {SHAPE(1, 0), SHAPE(2, 0, 1)}, true, 'i'},
        {"i,i->i", 2, {SHAPE(1, 0), SHAPE(1, 3)}, false, 'i'},
        {"i,i->i", 2, {SHAPE(1, 1), SHAPE(1, 0)}, false, 'i'},
        {"ii->i", 1, {SHAPE(2, 0, 1)}, false, 'i'},
        {"ii->i", 1, {SHAPE(2, 0, 3)}, false, 'i'},
        {"...i,...i->...i", 2, {SHAPE(2, 0, 0), SHAPE(2, 1, 3)}, false, 'i'},
        {"...i,...i->...", 2, {SHAPE(2, 0, 0), SHAPE(2, 1, 3)}, true, 'i'},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err = {.arena = NULL};
        struct kn_einsum_equation e;
        const enum rt_status st = solve(cases[i].equation, cases[i].n_in, cases[i].in, &e, &err);
        assert_int_equal(st, cases[i].accepted ? RT_OK : RT_INVALID_ARGUMENT);
        if (!st)
            assert_int_equal(length_of(&e, cases[i].label), 0);
    }
}

static void equations_and_shapes_are_refused_with_tensorflows_texts(void **state)
{
    static const struct {
        const char *equation;
        int n_in;
        struct rt_shape in[MOST_INPUTS];
        const char *why;
    } cases[] = {
        {"ab", 1, {SHAPE(2, 2, 3)}, "Expecting exactly one '->' in einsum equation: ab"},
        {"a->b->c", 1, {SHAPE(1, 2)}, "Expecting exactly one '->' in einsum equation: a->b->c"},
        {"a,b,c->", 2, {SHAPE(1, 2)}, "Expecting 1 or 2 input subscripts in equation 'a,b,c->'"},
        {"a->a", 2, {SHAPE(1, 2), SHAPE(1, 2)}, "Expected 1 inputs but got: 2"},
        {"ab->a", 1, {SHAPE(3, 1, 2, 3)}, "Expected input 0 to have rank 2 but got: 3"},
        {"a...b->", 1, {SHAPE(1, 2)}, "Expected input 0 to have rank at least 2 but got: 1"},
        {"ab,bc->ac",
         2,
         {SHAPE(2, 2, 3), SHAPE(2, 4, 5)},
         "Expected dimension 3 at axis 0 of the input shaped [4,5] but got dimension 4"},
        {"...,...->...",
         2,
         {SHAPE(1, 2), SHAPE(1, 3)},
         "Invalid broadcasting dimensions: [2] vs. [3]"},
        {"...a->a", 1, {SHAPE(2, 2, 3)}, "Output contains 1 broadcasting dimension(s)"},
        {"a->b", 1, {SHAPE(1, 2)}, "Einsum: output subscript 'b' is in no input"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error err = {.arena = NULL};
        struct kn_einsum_equation e;
        assert_fails(solve(cases[i].equation, cases[i].n_in, cases[i].in, &e, &err),
                     RT_INVALID_ARGUMENT, &err, cases[i].why);
        assert_int_equal(solve(cases[i].equation, cases[i].n_in, cases[i].in, &e, NULL),
                         RT_INVALID_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_with_one_letter_have_one_label),
        cmocka_unit_test(axes_of_an_ellipsis_are_matched_from_the_right_and_broadcast),
        cmocka_unit_test(an_ellipsis_may_stand_for_no_axis),
        cmocka_unit_test(a_letter_that_repeats_is_a_diagonal),
        cmocka_unit_test(a_label_whose_first_length_is_0_may_have_another_length_later),
        cmocka_unit_test(equations_and_shapes_are_refused_with_tensorflows_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
