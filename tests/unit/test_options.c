#include "tests/support/test.h"

#include "server/number.h"
#include "server/options.h"

static struct srv_options o;
static char printed[65536];

static enum srv_parse parse(bool as_tensorflow, int argc, const char *const *argv)
{
    FILE *out = fmemopen(printed, sizeof printed, "w");
    assert_non_null(out);
    enum srv_parse r = srv_options_parse(&o, as_tensorflow, argc, argv, out);
    fclose(out);
    return r;
}

#define PARSE(as_tensorflow, ...)                                                                  \
    parse(as_tensorflow,                                                                           \
          (int)(sizeof((const char *const[]){"x", __VA_ARGS__}) / sizeof(const char *)),           \
          (const char *const[]){"x", __VA_ARGS__})

static void defaults_depend_on_the_name_it_is_called_by(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--"), SRV_PARSE_RUN);
    assert_int_equal(o.port, 8500);
    assert_int_equal(o.rest_api_port, 0);
    assert_string_equal(o.bind_address, "");
    assert_string_equal(o.model_name, "default");
    assert_int_equal(o.rest_api_timeout_in_ms, 30000);
    assert_int_equal(o.load_retry_interval_micros, 60000000);
    assert_true(o.enable_model_warmup);
    assert_int_equal(PARSE(false, "--"), SRV_PARSE_RUN);
    assert_int_equal(o.rest_api_port, 8501);
    assert_string_equal(o.bind_address, "127.0.0.1");
    assert_int_equal(o.max_body_bytes, 256 << 20);
    assert_int_equal(o.drain_timeout_ms, 20000);
}

static void values_come_after_an_equals_sign_or_a_space(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--port=9", "--model_name", "m", "--rest_api_port", "10",
                           "--enable_batching", "--drain_timeout=2.5", "--max_body_bytes=2K"),
                     SRV_PARSE_RUN);
    assert_int_equal(o.port, 9);
    assert_string_equal(o.model_name, "m");
    assert_int_equal(o.rest_api_port, 10);
    assert_true(o.enable_batching);
    assert_int_equal(o.drain_timeout_ms, 2500);
    assert_int_equal(o.max_body_bytes, 2048);
}

static void the_last_of_two_values_holds(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--port=9", "--port=11"), SRV_PARSE_RUN);
    assert_int_equal(o.port, 11);
}

static void a_boolean_is_true_or_false_and_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--enable_model_warmup=false"), SRV_PARSE_RUN);
    assert_false(o.enable_model_warmup);
    assert_int_equal(PARSE(true, "--enable_batching=1"), SRV_PARSE_EXIT_USAGE);
    assert_non_null(strstr(printed, "enable_batching"));
    assert_non_null(strstr(printed, "usage: tensorflow_model_server"));
}

static void a_value_out_of_range_or_missing_ends_with_usage(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--port=70000"), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(true, "--port="), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(true, "--port=8500x"), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(true, "--port=99999999999999999999"), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(true, "--port"), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(false, "--log_format=xml"), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(false, "--max_body_bytes=9999999999G"), SRV_PARSE_EXIT_USAGE);
}

static void an_unknown_flag_is_told_and_stops_only_slipway(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--nonsense=1", "--port=7"), SRV_PARSE_RUN);
    assert_non_null(strstr(printed, "unknown argument: --nonsense=1"));
    assert_non_null(strstr(printed, "Flags"));
    assert_int_equal(o.port, 7);
    assert_int_equal(PARSE(false, "--nonsense=1"), SRV_PARSE_EXIT_USAGE);
    assert_non_null(strstr(printed, "unknown argument: --nonsense=1"));
    assert_int_equal(PARSE(true, "--", "--port=5"), SRV_PARSE_RUN);
    assert_int_equal(o.port, 8500);
}

static void every_flag_of_tensorflow_serving_is_accepted(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--flush_filesystem_caches=false", "--enable_profiler=false",
                           "--per_process_gpu_memory_fraction=0.5", "--prefer_tflite_model",
                           "--num_tflite_pools=3", "--mixed_precision=bfloat16"),
                     SRV_PARSE_RUN);
    assert_non_null(strstr(printed, "--enable_profiler is accepted and has no effect here"));
    assert_null(strstr(printed, "unknown argument"));
}

static void tls_is_refused_and_not_ignored(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--ssl_config_file=f"), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(true, "--ssl_config_file="), SRV_PARSE_RUN);
}

static void version_and_help_end_the_program(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--version"), SRV_PARSE_EXIT_0);
    assert_non_null(strstr(printed, "TensorFlow ModelServer: "));
    assert_non_null(strstr(printed, "TensorFlow Library: "));
    assert_int_equal(PARSE(true, "--help"), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(false, "--help"), SRV_PARSE_EXIT_0);
    assert_non_null(strstr(printed, "--rest_api_port=8501"));
    assert_int_equal(PARSE(false, "--help=markdown"), SRV_PARSE_EXIT_0);
    assert_non_null(strstr(printed, "| `--rest_api_port` | 8501 (0) |"));
}

static void integers_keep_their_range(void **state)
{
    (void)state;
    int64_t v;
    assert_true(srv_parse_int64("-9223372036854775808", 20, &v) && v == INT64_MIN);
    assert_true(srv_parse_int64("9223372036854775807", 19, &v) && v == INT64_MAX);
    assert_false(srv_parse_int64("9223372036854775808", 19, &v));
    assert_false(srv_parse_int64("-", 1, &v));
    assert_false(srv_parse_int64("", 0, &v));
    assert_true(srv_parse_int64("00000123", 8, &v) && v == 123);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_depend_on_the_name_it_is_called_by),
        cmocka_unit_test(values_come_after_an_equals_sign_or_a_space),
        cmocka_unit_test(the_last_of_two_values_holds),
        cmocka_unit_test(a_boolean_is_true_or_false_and_nothing_else),
        cmocka_unit_test(a_value_out_of_range_or_missing_ends_with_usage),
        cmocka_unit_test(an_unknown_flag_is_told_and_stops_only_slipway),
        cmocka_unit_test(every_flag_of_tensorflow_serving_is_accepted),
        cmocka_unit_test(tls_is_refused_and_not_ignored),
        cmocka_unit_test(version_and_help_end_the_program),
        cmocka_unit_test(integers_keep_their_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
