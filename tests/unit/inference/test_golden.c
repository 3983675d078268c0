/* Tests how responses are compared with golden responses, how a difference is described, and by how
 * much numbers may differ. String literals contain the serialized messages. */
#include "tests/support/test.h"

#include <math.h>

#include "runtime/base/arena.h"
#include "server/replay/golden.h"
#include "server/replay/golden_compare.h"

static enum rt_status tensors(enum rt_dtype dtype, int64_t n, const void *got, const void *want,
                              double tolerance, struct rt_error *err)
{
    struct rt_tensor a, b;
    const int64_t dim[2] = {n / 2, 2};
    size_t bytes = (size_t)n * rt_dtype_size(dtype);
    *err = (struct rt_error){0};
    assert_ok(rt_tensor_new(&a, NULL, dtype, 2, dim, err), err);
    assert_ok(rt_tensor_new(&b, NULL, dtype, 2, dim, err), err);
    memcpy(a.data, got, bytes);
    memcpy(b.data, want, bytes);
    enum rt_status st = srv_golden_tensor("y", &a, &b, tolerance, err);
    rt_tensor_clear(&a);
    rt_tensor_clear(&b);
    return st;
}

static void floats_may_be_off_by_a_part_of_the_largest(void **state)
{
    (void)state;
    struct rt_error err;
    const float want[4] = {1000, 0, -1, 2}, close_enough[4] = {1000, 0.09F, -1.09F, 2},
                far[4] = {1000, 0, -1.2F, 2}, zero[4] = {0}, tiny[4] = {0, 0, 0, 0.00005F};
    assert_ok(tensors(RT_F32, 4, want, want, 0, &err), &err);
    assert_ok(tensors(RT_F32, 4, close_enough, want, 1e-4, &err), &err);
    assert_fails(tensors(RT_F32, 4, far, want, 1e-4, &err), RT_FAILED_PRECONDITION, &err,
                 "output \"y\"[1,0] is -1.20000005, recorded was -1");
    assert_fails(tensors(RT_F32, 4, close_enough, want, 0, &err), RT_FAILED_PRECONDITION, &err,
                 "output \"y\"[0,1] is 0.0900000036, recorded was 0");
    assert_ok(tensors(RT_F32, 4, tiny, zero, 1e-4, &err), &err);
}

static void nan_is_nan_and_infinity_is_infinity(void **state)
{
    (void)state;
    struct rt_error err;
    const double want[4] = {NAN, INFINITY, -INFINITY, 1}, other[4] = {NAN, INFINITY, INFINITY, 1},
                 lost[4] = {1, INFINITY, -INFINITY, 1};
    assert_ok(tensors(RT_F64, 4, want, want, 1e-4, &err), &err);
    assert_fails(tensors(RT_F64, 4, other, want, 1e-4, &err), RT_FAILED_PRECONDITION, &err,
                 "[1,0] is inf, recorded was -inf");
    assert_fails(tensors(RT_F64, 4, lost, want, 1e9, &err), RT_FAILED_PRECONDITION, &err,
                 "[0,0] is 1, recorded was nan");
}

static void halves_may_be_off_by_a_unit(void **state)
{
    (void)state;
    struct rt_error err;
    const uint16_t want[2] = {0x3c00, 0}, close_enough[2] = {0x3c01, 0}, far[2] = {0x3c02, 0};
    assert_ok(tensors(RT_F16, 2, close_enough, want, 1e-6, &err), &err);
    assert_fails(tensors(RT_F16, 2, far, want, 1e-6, &err), RT_FAILED_PRECONDITION, &err,
                 "output \"y\"[0,0] is 1.00195312, recorded was 1");
    assert_fails(tensors(RT_F16, 2, close_enough, want, 0, &err), RT_FAILED_PRECONDITION, &err, "");
}

static void complex_numbers_are_compared_in_both_parts(void **state)
{
    (void)state;
    struct rt_error err;
    const float want[4] = {1, 2, 3, 4}, got[4] = {1, 2, 3, 5};
    assert_fails(tensors(RT_C64, 2, got, want, 1e-4, &err), RT_FAILED_PRECONDITION, &err,
                 "output \"y\"[0,1] is (3,5), recorded was (3,4)");
}

static void integers_are_exact(void **state)
{
    (void)state;
    struct rt_error err;
    const int8_t a[2] = {-1, 5}, b[2] = {-2, 5};
    const uint64_t c[2] = {UINT64_MAX, 1}, d[2] = {UINT64_MAX, 2};
    assert_fails(tensors(RT_I8, 2, a, b, 1, &err), RT_FAILED_PRECONDITION, &err,
                 "[0,0] is -1, recorded was -2");
    assert_fails(tensors(RT_U64, 2, c, d, 1, &err), RT_FAILED_PRECONDITION, &err,
                 "[0,1] is 1, recorded was 2");
}

static enum rt_status answers(enum srv_api api, const char *got, size_t n_got, const char *want,
                              size_t n_want, struct rt_error *err)
{
    *err = (struct rt_error){0};
    return srv_golden_compare(api, rt_span_of(got, n_got), rt_span_of(want, n_want), 1e-4, NULL,
                              err);
}
#define ANSWERS(api, got, want) answers(api, got, sizeof(got) - 1, want, sizeof(want) - 1, &err)

#define TWO   "\x00\x00\x00\x40"
#define THREE "\x00\x00\x40\x40"
/* Entries of a response's outputs. TYPED stores a float [1] in float_val, and CONTENT stores the
 * same tensor in tensor_content. */
#define TYPED(name, value)                                                                         \
    "\x0a\x13\x0a\x01" name "\x12\x0e\x08\x01\x12\x04\x12\x02\x08\x01\x2a\x04" value
#define CONTENT(name, value)                                                                       \
    "\x0a\x13\x0a\x01" name "\x12\x0e\x08\x01\x12\x04\x12\x02\x08\x01\x22\x04" value
#define INT(name) "\x0a\x10\x0a\x01" name "\x12\x0b\x08\x03\x12\x04\x12\x02\x08\x01\x3a\x01\x02"
#define WORD(name, word)                                                                           \
    "\x0a\x12\x0a\x01" name "\x12\x0d\x08\x07\x12\x04\x12\x02\x08\x01\x42\x03" word

static void outputs_are_found_by_name_and_new_ones_do_not_matter(void **state)
{
    (void)state;
    struct rt_error err;
    assert_ok(ANSWERS(SRV_PREDICT, TYPED("z", TWO) TYPED("y", TWO), CONTENT("y", TWO)), &err);
    assert_fails(ANSWERS(SRV_PREDICT, TYPED("z", TWO), TYPED("y", TWO)), RT_FAILED_PRECONDITION,
                 &err, "output \"y\" was recorded and is not answered");
    assert_fails(ANSWERS(SRV_PREDICT, TYPED("y", TWO), TYPED("y", THREE)), RT_FAILED_PRECONDITION,
                 &err, "output \"y\"[0] is 2, recorded was 3");
    assert_fails(ANSWERS(SRV_PREDICT, TYPED("y", TWO), INT("y")), RT_FAILED_PRECONDITION, &err,
                 "output \"y\" is of type float, recorded was int32");
    assert_fails(ANSWERS(SRV_PREDICT, TYPED("y", TWO),
                         "\x0a\x11\x0a\x01y\x12\x0c\x08\x01\x12\x02\x12\x00\x2a\x04" TWO),
                 RT_FAILED_PRECONDITION, &err, "has shape [1], recorded was [0]");
    assert_fails(ANSWERS(SRV_PREDICT, WORD("y", "one"), WORD("y", "two")), RT_FAILED_PRECONDITION,
                 &err, "output \"y\"[0] is \"one\", recorded was \"two\"");
    assert_ok(ANSWERS(SRV_SESSION_RUN, TYPED("y", TWO), TYPED("y", TWO)), &err);
    assert_fails(ANSWERS(SRV_PREDICT, TYPED("y", TWO), "\x0a\x7f"), RT_INVALID_ARGUMENT, &err,
                 "not well formed");
}

#define CLASS(label, score) "\x0a\x08\x0a\x01" label "\x15" score
#define CLASSES(class)      "\x0a\x0c\x0a\x0a" class
#define VALUES(value)       "\x0a\x07\x0a\x05\x0d" value

static void scores_are_compared_one_by_one(void **state)
{
    (void)state;
    struct rt_error err;
    assert_ok(ANSWERS(SRV_CLASSIFY, CLASSES(CLASS("a", TWO)), CLASSES(CLASS("a", TWO))), &err);
    assert_fails(ANSWERS(SRV_CLASSIFY, CLASSES(CLASS("a", TWO)), CLASSES(CLASS("a", THREE))),
                 RT_FAILED_PRECONDITION, &err, "score of example 0, class 0 is 2, recorded was 3");
    assert_fails(ANSWERS(SRV_CLASSIFY, CLASSES(CLASS("a", TWO)), CLASSES(CLASS("b", TWO))),
                 RT_FAILED_PRECONDITION, &err,
                 "example 0, class 0 is labelled \"a\", recorded was \"b\"");
    assert_fails(ANSWERS(SRV_REGRESS, VALUES(TWO), VALUES(THREE)), RT_FAILED_PRECONDITION, &err,
                 "value of example 0 is 2, recorded was 3");
    assert_fails(ANSWERS(SRV_REGRESS, VALUES(TWO), ""), RT_FAILED_PRECONDITION, &err,
                 "1 scores in all, recorded were 0");
    assert_fails(ANSWERS(SRV_MULTI_INFERENCE, "\x0a\x09\x1a\x07\x0a\x05\x0d" TWO,
                         "\x0a\x09\x1a\x07\x0a\x05\x0d" THREE),
                 RT_FAILED_PRECONDITION, &err, "task 0, value of example 0 is 2, recorded was 3");
}

static void a_tolerance_is_one_number(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", " ", "-1", "1 2", "x", "NaN", "1e999", "0.1x"};
    double v = 0;
    assert_true(srv_golden_read_tolerance(rt_span_str(" 1e-3\n"), &v) && v == 1e-3);
    assert_true(srv_golden_read_tolerance(rt_span_str("0"), &v) && v == 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (srv_golden_read_tolerance(rt_span_str(wrong[i]), &v))
            fail_msg("\"%s\" is taken as %g", wrong[i], v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_may_be_off_by_a_part_of_the_largest),
        cmocka_unit_test(nan_is_nan_and_infinity_is_infinity),
        cmocka_unit_test(halves_may_be_off_by_a_unit),
        cmocka_unit_test(complex_numbers_are_compared_in_both_parts),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(outputs_are_found_by_name_and_new_ones_do_not_matter),
        cmocka_unit_test(scores_are_compared_one_by_one),
        cmocka_unit_test(a_tolerance_is_one_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
