/* Tests how the client commands collect durations in a histogram and compare responses. */
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

static bool same_tensors(const struct slipway_tensor *got, const struct slipway_tensor *want,
                         double tolerance)
{
    err = (struct rt_error){0};
    return cl_same_tensor(got, want, tolerance, &err);
}

static void tensors_are_the_same_within_the_tolerance(void **state)
{
    (void)state;
    const float x[] = {1, NAN, INFINITY}, y[] = {1.00001f, NAN, INFINITY}, z[] = {1, NAN, 3};
    struct slipway_tensor a = floats("a", x, 3), b = floats("a", y, 3), c = floats("a", z, 3);
    assert_true(same_tensors(&a, &b, 1e-4));
    assert_false(same_tensors(&a, &b, 1e-6));
    assert_string_equal(err.msg, "output \"a\": element 0 is 1, not 1.00001");
    assert_false(same_tensors(&a, &c, 1e9));
    assert_string_equal(err.msg, "output \"a\": element 2 is inf, not 3");
    c.dim[0] = 2;
    assert_false(same_tensors(&a, &c, 1));
    assert_string_equal(err.msg, "output \"a\": another shape");
}

/* The cases equal those of test_golden.c, because a replay must accept every response that the
 * comparison with a golden accepts. */
static void a_tolerance_is_a_part_of_the_largest_of_the_output(void **state)
{
    (void)state;
    const float want[4] = {1000, 0, -1, 2}, close_enough[4] = {1000, 0.09f, -1.09f, 2},
                far[4] = {1000, 0, -1.2f, 2}, zero[4] = {0}, tiny[4] = {0, 0, 0, 0.00005f};
    struct slipway_tensor w = floats("y", want, 4), n = floats("y", close_enough, 4),
                          f = floats("y", far, 4), z = floats("y", zero, 4),
                          t = floats("y", tiny, 4);
    assert_true(same_tensors(&n, &w, 1e-4));
    assert_false(same_tensors(&f, &w, 1e-4));
    assert_string_equal(err.msg, "output \"y\": element 2 is -1.2, not -1");
    assert_true(same_tensors(&t, &z, 1e-4));
    assert_false(same_tensors(&t, &z, 0));

    const uint16_t one[2] = {0x3c00, 0}, next[2] = {0x3c01, 0}, other[2] = {0x3c02, 0};
    w = (struct slipway_tensor){
        .name = "h", .dtype = SLIPWAY_HALF, .rank = 1, .dim = {2}, .data = one};
    n = f = w;
    n.data = next;
    f.data = other;
    assert_true(same_tensors(&n, &w, 1e-6));
    assert_false(same_tensors(&f, &w, 1e-6));
    assert_false(same_tensors(&n, &w, 0));
}

static void complex_numbers_are_told_in_both_parts(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 5}, y[] = {1, 2, 3, 4};
    struct slipway_tensor a = {
        .name = "c", .dtype = SLIPWAY_COMPLEX64, .rank = 1, .dim = {2}, .data = x};
    struct slipway_tensor b = a;
    b.data = y;
    assert_true(same_tensors(&a, &b, 0.5));
    assert_false(same_tensors(&a, &b, 1e-4));
    assert_string_equal(err.msg, "output \"c\": element 1 is (3,5), not (3,4)");
}

static bool same(enum pb_log_type type, const char *a, size_t n, const char *b, size_t m,
                 double tolerance)
{
    err = (struct rt_error){0};
    return cl_same_responses(type, rt_span_of(a, n), rt_span_of(b, m), tolerance, &err);
}

static void classes_are_compared_but_not_the_version_that_gave_them(void **state)
{
    (void)state;
    /* a response: result { classifications { classes { label: "a" score: 1 } } }
     * model_spec { name } */
    static const char a[] = "\x0a\x0c\x0a\x0a\x0a\x08\x0a\x01"
                            "a\x15\0\0\x80\x3f\x12\x03\x0a\x01m";
    static const char b[] = "\x0a\x0c\x0a\x0a\x0a\x08\x0a\x01"
                            "a\x15\1\0\x80\x3f\x12\x03\x0a\x01n";
    static const char c[] = "\x0a\x0c\x0a\x0a\x0a\x08\x0a\x01"
                            "z\x15\0\0\x80\x3f\x12\x03\x0a\x01m";
    assert_true(same(PB_LOG_CLASSIFY, b, sizeof b - 1, a, sizeof a - 1, 1e-4));
    assert_false(same(PB_LOG_CLASSIFY, b, sizeof b - 1, a, sizeof a - 1, 0));
    assert_non_null(strstr(err.msg, "score is 1"));
    assert_false(same(PB_LOG_CLASSIFY, c, sizeof c - 1, a, sizeof a - 1, 1));
    assert_string_equal(err.msg, "label is \"z\", not \"a\"");
    assert_false(same(PB_LOG_CLASSIFY, "", 0, a, sizeof a - 1, 1));
    /* a response with regressions { value } */
    assert_true(same(PB_LOG_REGRESS, "\x0a\x07\x0a\x05\x0d\0\0\x80\x3f", 9,
                     "\x0a\x07\x0a\x05\x0d\1\0\x80\x3f", 9, 1e-4));
    assert_false(same(PB_LOG_REGRESS, "\x0a\x07\x0a\x05\x0d\0\0\0\x40", 9,
                      "\x0a\x07\x0a\x05\x0d\1\0\x80\x3f", 9, 1e-4));
}

static void tensors_are_compared_by_their_names(void **state)
{
    (void)state;
    /* a PredictResponse's output: tensor { name: "y:0" tensor { dtype: 1 float_val: 1 } } */
    static const char a[] = "\x0a\x0f\x0a\x03y:0\x12\x08\x08\x01\x2a\x04\0\0\x80\x3f";
    static const char b[] = "\x0a\x0f\x0a\x03y:0\x12\x08\x08\x01\x2a\x04\0\0\0\x40";
    /* the tensor "y:0" of `a`, preceded by a tensor "x" */
    static const char c[] = "\x0a\x0d\x0a\x01x\x12\x08\x08\x01\x2a\x04\0\0\0\x40"
                            "\x0a\x0f\x0a\x03y:0\x12\x08\x08\x01\x2a\x04\0\0\x80\x3f";
    static const enum pb_log_type types[] = {PB_LOG_SESSION_RUN, PB_LOG_PREDICT};
    for (int i = 0; i < 2; i++) {
        assert_true(same(types[i], a, sizeof a - 1, a, sizeof a - 1, 0));
        assert_false(same(types[i], b, sizeof b - 1, a, sizeof a - 1, 1e-3));
        assert_string_equal(err.msg, "output \"y:0\": element 0 is 2, not 1");
        assert_false(same(types[i], "", 0, a, sizeof a - 1, 1e-3));
        assert_string_equal(err.msg, "output \"y:0\" is not answered");
        assert_true(same(types[i], c, sizeof c - 1, a, sizeof a - 1, 0));
        assert_false(same(types[i], a, sizeof a - 1, c, sizeof c - 1, 0));
        assert_string_equal(err.msg, "output \"x\" is not answered");
        assert_false(same(types[i], a, sizeof a - 2, c, sizeof c - 1, 0));
        assert_string_equal(err.msg, "the answer is not well formed");
    }
}

static void a_log_tells_its_call_and_both_messages(void **state)
{
    (void)state;
    struct pb_prediction_log log;
    /* a PredictionLog: log_metadata {}, regress_log { request "ab" response "c" } */
    static const char text[] = "\x0a\x00\x1a\x07\x0a\x02"
                               "ab\x12\x01"
                               "c";
    assert_true(pb_prediction_log_read(rt_span_of(text, sizeof text - 1), &log));
    assert_int_equal(log.type, PB_LOG_REGRESS);
    assert_true(rt_span_is(log.request, "ab") && rt_span_is(log.response, "c"));
    assert_string_equal(cl_log_method(log.type), "/tensorflow.serving.PredictionService/Regress");

    struct rt_bytes again;
    rt_bytes_init(&again, SIZE_MAX);
    pb_prediction_log_write(&log, rt_span_str(""), &again);
    assert_true(rt_span_eq(rt_span_of(again.p, again.n), rt_span_of(text, sizeof text - 1)));
    again.n = 0;
    log.response = (struct rt_span){0};
    pb_prediction_log_write(&log, (struct rt_span){0}, &again);
    assert_true(rt_span_is(rt_span_of(again.p, again.n), "\x1a\x04\x0a\x02"
                                                         "ab"));
    rt_bytes_clear(&again);

    assert_true(pb_prediction_log_read(rt_span_of(text, 2), &log));
    assert_null(cl_log_method(log.type));
    assert_false(pb_prediction_log_read(rt_span_of(text, sizeof text - 2), &log));
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
    /* The tolerance of an output is relative to the largest magnitude in that output. An output
     * that the recorded response lacks is ignored. */
    assert_ok(cl_json_load(
                  rt_span_str(
                      "{\"predictions\": [{\"y\": 1000.0, \"n\": 1.0}, {\"y\": 0.0, \"n\": 1.0}]}"),
                  &b, &err),
              &err);
    assert_ok(cl_json_load(rt_span_str("{\"predictions\": [{\"y\": 1000.0, \"n\": 1.0, \"k\": 5}, "
                                       "{\"y\": 0.09, \"n\": 1.00005}]}"),
                           &a, &err),
              &err);
    assert_true(cl_same_json(a, b, 1e-4, &err));
    assert_false(cl_same_json(a, b, 1e-5, &err));
    assert_false(cl_same_json(b, a, 1e-4, &err));
    json_decref(a);
    assert_ok(cl_json_load(rt_span_str("{\"predictions\": [{\"y\": 1000.0, \"n\": 1.09}, "
                                       "{\"y\": 0.0, \"n\": 1.0}]}"),
                           &a, &err),
              &err);
    assert_false(cl_same_json(a, b, 1e-4, &err));
    json_decref(a);
    json_decref(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_within_a_percent),
        cmocka_unit_test(any_duration_has_its_place),
        cmocka_unit_test(tensors_are_the_same_within_the_tolerance),
        cmocka_unit_test(a_tolerance_is_a_part_of_the_largest_of_the_output),
        cmocka_unit_test(complex_numbers_are_told_in_both_parts),
        cmocka_unit_test(classes_are_compared_but_not_the_version_that_gave_them),
        cmocka_unit_test(tensors_are_compared_by_their_names),
        cmocka_unit_test(a_log_tells_its_call_and_both_messages),
        cmocka_unit_test(json_is_compared_by_its_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
