#include "tests/support/test.h"

#include "server/telemetry/metrics_total.h"

static const char page[] = "# HELP :a:b_c of it\n"
                           "# TYPE :a:b_c counter\n"
                           ":a:b_c{x=\"1 2\"} 3\n"
                           ":a:b_c{x=\"2\"} 4\n"
                           ":a:b_cd 100\n"
                           ":a:b 9\n"
                           "plain 7\n"
                           "nan NaN\n"
                           "huge 1e300\n"
                           "last 1";

static int64_t total(const char *name)
{
    return srv_metrics_total(rt_span_str(page), rt_span_str(name));
}

static void samples_of_all_labels_are_summed(void **state)
{
    (void)state;
    assert_int_equal(total("/a/b_c"), 7);
    assert_int_equal(total("/a/b-c"), 7);
    assert_int_equal(total(":a:b_c"), 7);
    assert_int_equal(total("/a/b"), 9);
    assert_int_equal(total("plain"), 7);
    assert_int_equal(total("last"), 1);
}

static void what_is_not_there_or_no_number_is_0(void **state)
{
    (void)state;
    assert_int_equal(total("/a"), 0);
    assert_int_equal(total(""), 0);
    assert_int_equal(total("nan"), 0);
    assert_int_equal(total("huge"), 0);
    assert_int_equal(total("# HELP"), 0);
    assert_int_equal(srv_metrics_total(rt_span_of(NULL, 0), rt_span_str("plain")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_of_all_labels_are_summed),
        cmocka_unit_test(what_is_not_there_or_no_number_is_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
