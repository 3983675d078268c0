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
    struct srv_total t = {.name = rt_span_str(name)};
    srv_metrics_totals(rt_span_str(page), &t, 1);
    return (int64_t)t.value;
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
    assert_int_equal(total("# HELP"), 0);
    struct srv_total t = {.name = rt_span_str("plain"), .value = 1};
    srv_metrics_totals(rt_span_of(NULL, 0), &t, 1);
    assert_true(t.value == 0);
    srv_metrics_totals(rt_span_str(page), NULL, 0);
}

static void several_counters_are_read_in_one_pass(void **state)
{
    (void)state;
    const char *const names[] = {"plain", "/a/b_c", "", "last", "/a/b-c", "nothing", "/a/b", "/a"};
    const double want[] = {7, 7, 0, 1, 7, 0, 9, 0};
    struct srv_total t[8];
    for (int i = 0; i < 8; i++)
        t[i] = (struct srv_total){.name = rt_span_str(names[i]), .index = i};
    srv_metrics_totals(rt_span_str(page), t, 8);
    for (int i = 0; i < 8; i++) {
        assert_true(rt_span_is(t[i].name, names[t[i].index]));
        assert_true(t[i].value == want[t[i].index]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_of_all_labels_are_summed),
        cmocka_unit_test(what_is_not_there_or_no_number_is_0),
        cmocka_unit_test(several_counters_are_read_in_one_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
