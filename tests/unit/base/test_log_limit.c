/* Tests the limit on how many messages of a subject are logged per second. */
#include "tests/support/test.h"

#include "server/base/log_limit.h"

static void a_second_has_a_limit_and_the_next_tells_how_many_were_left_out(void **state)
{
    struct srv_log_limit limit = {0};
    const int64_t second = 1000000000;
    int64_t left_out;
    (void)state;

    for (int i = 0; i < SRV_LOG_LINES; i++) {
        assert_true(srv_log_limit_admits(&limit, 5 * second + i, &left_out));
        assert_int_equal(left_out, 0);
    }
    for (int i = 0; i < 100; i++) {
        assert_false(srv_log_limit_admits(&limit, 6 * second - 1, &left_out));
        assert_int_equal(left_out, 0);
    }
    assert_true(srv_log_limit_admits(&limit, 6 * second, &left_out));
    assert_int_equal(left_out, 100);
    assert_true(srv_log_limit_admits(&limit, 9 * second, &left_out));
    assert_int_equal(left_out, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_has_a_limit_and_the_next_tells_how_many_were_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
