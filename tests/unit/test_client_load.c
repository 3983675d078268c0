/* What the bench counts and compares. */
#include "tests/support/test.h"

#include <math.h>

#include "clients/c/message.h"
#include "clients/cli/compare.h"
#include "clients/cli/histogram.h"

static struct rt_error err;

static void quantiles_are_within_a_percent(void **state)
{
    (void)state;
    struct cl_histogram *h = calloc(1, sizeof *h);
    assert_non_null(h);
    assert_int_equal(cl_histogram_quantile(h, 0.5), 0);
    for (int64_t i = 1; i <= 100000; i++)
        cl_histogram_add(h, i * 1000);
    static const double q[] = {0.001, 0.5, 0.9, 0.99, 0.999};
    for (size_t i = 0; i < sizeof q / sizeof *q; i++) {
        double want = q[i] * 1e8, got = (double)cl_histogram_quantile(h, q[i]);
        assert_true(got >= want && got <= want * 1.016);
    }
    assert_int_equal(cl_histogram_quantile(h, 1), 100000000);
    assert_true(fabs(cl_histogram_mean(h) - 50000500) < 1);
    free(h);
}

static void any_duration_has_its_place(void **state)
{
    (void)state;
    struct cl_histogram *h = calloc(1, sizeof *h), *sum = calloc(1, sizeof *sum);
    assert_true(h && sum);
    cl_histogram_add(h, -5);
    cl_histogram_add(h, 0);
    for (int64_t v = 1; v > 0 && v < INT64_MAX / 2; v *= 2)
        cl_histogram_add(h, v);
    cl_histogram_add(h, INT64_MAX);
    assert_int_equal(cl_histogram_quantile(h, 0), 0);
    assert_int_equal(cl_histogram_quantile(h, 1), INT64_MAX);
    cl_histogram_merge(sum, h);
    cl_histogram_merge(sum, h);
    assert_int_equal(sum->n, 2 * h->n);
    assert_int_equal(cl_histogram_quantile(sum, 0.5), cl_histogram_quantile(h, 0.5));
    free(h);
    free(sum);
}

static struct slipway_tensor floats(const char *name, const float *x, int64_t n)
{
    return (struct slipway_tensor){
        .name = name, .dtype = SLIPWAY_FLOAT, .rank = 1, .dim = {n}, .data = x};
}

static void tensors_are_the_same_within_the_tolerance(void **state)
{
    (void)state;
    const float x[] = {1, NAN, INFINITY}, y[] = {1.00001f, NAN, INFINITY}, z[] = {1, NAN, 3};
    struct slipway_tensor a = floats("a", x, 3), b = floats("a", y, 3), c = floats("a", z, 3);
    assert_true(cl_same_tensors(&a, 1, &b, 1, 1e-4, &err));
    assert_false(cl_same_tensors(&a, 1, &b, 1, 1e-6, &err));
    assert_string_equal(err.msg, "output \"a\": element 0 is 1, not 1.00001");
    assert_false(cl_same_tensors(&a, 1, &c, 1, 1e9, &err));
    assert_string_equal(err.msg, "output \"a\": element 2 is inf, not 3");
    assert_false(cl_same_tensors(&a, 1, &a, 0, 0, &err));
    b.name = "b";
    assert_false(cl_same_tensors(&a, 1, &b, 1, 1, &err));
    c.dim[0] = 2;
    assert_false(cl_same_tensors(&a, 1, &c, 1, 1, &err));
    assert_string_equal(err.msg, "output \"a\": another shape");
}

static bool same(enum cl_api api, const char *a, size_t n, const char *b, size_t m,
                 double tolerance)
{
    return cl_same_answers(api, rt_span_of(a, n), rt_span_of(b, m), tolerance, &err);
}

static void classes_are_compared_but_not_the_version_that_gave_them(void **state)
{
    (void)state;
    /* result { classifications { classes { label: "a" score: 1 } } } model_spec { name } */
    static const char a[] = "\x0a\x0c\x0a\x0a\x0a\x08\x0a\x01"
                            "a\x15\0\0\x80\x3f\x12\x03\x0a\x01m";
    static const char b[] = "\x0a\x0c\x0a\x0a\x0a\x08\x0a\x01"
                            "a\x15\1\0\x80\x3f\x12\x03\x0a\x01n";
    static const char c[] = "\x0a\x0c\x0a\x0a\x0a\x08\x0a\x01"
                            "z\x15\0\0\x80\x3f\x12\x03\x0a\x01m";
    assert_true(same(CL_CLASSIFY, b, sizeof b - 1, a, sizeof a - 1, 1e-4));
    assert_false(same(CL_CLASSIFY, b, sizeof b - 1, a, sizeof a - 1, 0));
    assert_non_null(strstr(err.msg, "score is 1"));
    assert_false(same(CL_CLASSIFY, c, sizeof c - 1, a, sizeof a - 1, 1));
    assert_string_equal(err.msg, "label is \"z\", not \"a\"");
    assert_false(same(CL_CLASSIFY, "", 0, a, sizeof a - 1, 1));
    /* regressions { value } */
    assert_true(same(CL_REGRESS, "\x0a\x07\x0a\x05\x0d\0\0\x80\x3f", 9,
                     "\x0a\x07\x0a\x05\x0d\1\0\x80\x3f", 9, 1e-4));
    assert_false(same(CL_REGRESS, "\x0a\x07\x0a\x05\x0d\0\0\0\x40", 9,
                      "\x0a\x07\x0a\x05\x0d\1\0\x80\x3f", 9, 1e-4));
}

static void tensors_of_session_runs_are_compared_in_their_order(void **state)
{
    (void)state;
    /* tensor { name: "y:0" tensor { dtype: 1 float_val: 1 } } */
    static const char a[] = "\x0a\x0f\x0a\x03y:0\x12\x08\x08\x01\x2a\x04\0\0\x80\x3f";
    static const char b[] = "\x0a\x0f\x0a\x03y:0\x12\x08\x08\x01\x2a\x04\0\0\0\x40";
    assert_true(same(CL_SESSION_RUN, a, sizeof a - 1, a, sizeof a - 1, 0));
    assert_false(same(CL_SESSION_RUN, b, sizeof b - 1, a, sizeof a - 1, 1e-3));
    assert_string_equal(err.msg, "output \"y:0\": element 0 is 2, not 1");
    assert_false(same(CL_SESSION_RUN, "", 0, a, sizeof a - 1, 1e-3));
}

static void a_log_tells_its_call_and_both_messages(void **state)
{
    (void)state;
    struct cl_log log;
    /* log_metadata {}, regress_log { request "ab" response "c" } */
    static const char text[] = "\x0a\x00\x1a\x07\x0a\x02"
                               "ab\x12\x01"
                               "c";
    assert_true(cl_log_read(rt_span_of(text, sizeof text - 1), &log));
    assert_int_equal(log.api, CL_REGRESS);
    assert_true(rt_span_is(log.request, "ab") && rt_span_is(log.response, "c"));
    assert_string_equal(cl_api_method(log.api), "/tensorflow.serving.PredictionService/Regress");
    assert_false(cl_log_read(rt_span_of(text, 2), &log));
    assert_false(cl_log_read(rt_span_of(text, sizeof text - 2), &log));
}

static void json_is_compared_by_its_numbers(void **state)
{
    (void)state;
    json_t *a, *b;
    assert_ok(cl_json_load(rt_span_str("{\"p\": [1.0, {\"x\": NaN}], \"q\": \"s\"}"), &a, &err),
              &err);
    assert_ok(cl_json_load(rt_span_str("{\"q\": \"s\", \"p\": [1.00001, {\"x\": NaN}]}"), &b, &err),
              &err);
    assert_true(cl_same_json(a, b, 1e-4, &err));
    assert_false(cl_same_json(a, b, 1e-7, &err));
    json_object_set_new(b, "q", json_string("t"));
    assert_false(cl_same_json(a, b, 1, &err));
    assert_string_equal(err.msg, "\"s\", not \"t\"");
    json_decref(a);
    json_decref(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_within_a_percent),
        cmocka_unit_test(any_duration_has_its_place),
        cmocka_unit_test(tensors_are_the_same_within_the_tolerance),
        cmocka_unit_test(classes_are_compared_but_not_the_version_that_gave_them),
        cmocka_unit_test(tensors_of_session_runs_are_compared_in_their_order),
        cmocka_unit_test(a_log_tells_its_call_and_both_messages),
        cmocka_unit_test(json_is_compared_by_its_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
