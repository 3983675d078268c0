#include "tests/support/test.h"

#include <math.h>

#include "server/inference/difference.h"
#include "tests/support/op.h"

static struct rt_error err;

static struct srv_difference of(struct rt_tensor want, struct rt_tensor got)
{
    struct srv_difference d;
    err = (struct rt_error){0};
    assert_ok(srv_difference(&want, &got, &d, &err), &err);
    rt_tensor_clear(&want);
    rt_tensor_clear(&got);
    return d;
}

static void numbers_differ_by_most_mean_and_the_place_of_the_largest(void **state)
{
    (void)state;
    const int64_t dim[] = {2, 3};
    const struct srv_difference d = of(op_tensor(RT_F32, 2, dim, (float[]){1, 2, -4, 5, 6, 7}),
                                       op_tensor(RT_F32, 2, dim, (float[]){1, 2.5f, -4, 5, 8, 7}));
    assert_int_equal(d.n, 6);
    assert_int_equal(d.n_differ, 2);
    assert_true(d.largest == 7 && d.most == 2);
    assert_true(fabs(d.mean - 2.5 / 6) < 1e-12);
    assert_int_equal(d.rows, 2);
    assert_int_equal(d.rows_agree, 1);
}

static void what_is_no_number_is_equal_to_its_like_alone(void **state)
{
    (void)state;
    struct srv_difference d =
        of(op_floats(3, (float[]){NAN, INFINITY, 1}), op_floats(3, (float[]){NAN, INFINITY, 1}));
    assert_int_equal(d.n_differ, 0);
    assert_true(d.most == 0 && d.largest == 1);
    assert_int_equal(d.rows_agree, 1);
    d = of(op_floats(2, (float[]){NAN, 1}), op_floats(2, (float[]){2, 1}));
    assert_int_equal(d.n_differ, 1);
    assert_true(isinf(d.most));
}

static void integers_and_texts_are_compared_too(void **state)
{
    (void)state;
    struct srv_difference d = of(op_ints(2, (int32_t[]){3, 4}), op_ints(2, (int32_t[]){3, 9}));
    assert_int_equal(d.n_differ, 1);
    assert_true(d.most == 5);
    const bool yes[] = {true, false}, no[] = {true, true};
    const int64_t two = 2;
    d = of(op_tensor(RT_BOOL, 1, &two, yes), op_tensor(RT_BOOL, 1, &two, no));
    assert_int_equal(d.n_differ, 1);
    assert_int_equal(d.rows, 0);
    d = of(op_floats(0, NULL), op_floats(0, NULL));
    assert_int_equal(d.n + d.n_differ + d.rows, 0);
}

static void other_shapes_and_types_are_refused(void **state)
{
    (void)state;
    struct srv_difference d;
    struct rt_tensor a = op_floats(2, (float[]){1, 2}), b = op_floats(3, (float[]){1, 2, 3}),
                     c = op_ints(2, (int32_t[]){1, 2});
    err = (struct rt_error){0};
    assert_fails(srv_difference(&a, &b, &d, &err), RT_INVALID_ARGUMENT, &err, "type or shape");
    err = (struct rt_error){0};
    assert_fails(srv_difference(&a, &c, &d, &err), RT_INVALID_ARGUMENT, &err, "type or shape");
    rt_tensor_clear(&a);
    rt_tensor_clear(&b);
    rt_tensor_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_differ_by_most_mean_and_the_place_of_the_largest),
        cmocka_unit_test(what_is_no_number_is_equal_to_its_like_alone),
        cmocka_unit_test(integers_and_texts_are_compared_too),
        cmocka_unit_test(other_shapes_and_types_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
