#include "tests/support/test.h"

#include <math.h>

#include "server/base/number.h"
#include "server/config/options.h"

static struct srv_options o;
static char printed[65536];

static enum srv_parse parse(bool as_tensorflow, int argc, const char *const *argv)
{
    memset(printed, 0, sizeof printed);
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
    assert_int_equal(PARSE(false, "--port=9", "--model_name", "m", "--rest_api_port", "10",
                           "--enable_batching", "--drain_timeout=2.5", "--max_body_bytes=2K"),
                     SRV_PARSE_RUN);
    assert_int_equal(o.port, 9);
    assert_string_equal(o.model_name, "m");
    assert_int_equal(o.rest_api_port, 10);
    assert_int_equal(o.enable_batching, SRV_YES);
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
    assert_int_equal(PARSE(false, "--port"), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(false, "--version_transition=x"), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(false, "--log_format=xml"), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(false, "--precision=int8"), SRV_PARSE_EXIT_USAGE);
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

static void an_unknown_flag_gets_a_hint_if_one_flag_is_near(void **state)
{
    static const struct {
        const char *arg, *hint;
    } cases[] = {
        {"--model_bas_path=/m", "did you mean --model_base_path?\n"},
        {"--prot=7", "did you mean --port?\n"},
        {"-port=7", "did you mean --port?\n"},
        {"--rest_api_port_=7", "did you mean --rest_api_port?\n"},
        {"--models_=/m", "did you mean --models?\n"},
        {"--nonsense=1", NULL},
        {"--rest_tls_ke_file", "did you mean --rest_tls_key_file?\n"},
        {"--po", NULL},
        {"--num_XX_threads=1", NULL}, /* num_load_threads and num_rest_threads are farther */
        {"--gpu=1", "did you mean --gpus?\n"},
        {"--", NULL},
        {"---", NULL},
        {"models", NULL}, /* no flag, but perhaps a command or a value */
        {"--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        PARSE(false, cases[i].arg, "--port=7");
        assert_non_null(strstr(printed, "unknown argument: "));
        const char *hint = strstr(printed, "did you mean");
        assert_int_equal(!hint, !cases[i].hint);
        if (hint)
            assert_string_equal(hint, cases[i].hint);
    }
    PARSE(true, "--prot=7");
    assert_null(strstr(printed, "did you mean")); /* prints what tensorflow_model_server does */
}

/* TensorFlow parses a float flag with sscanf("%f%c"). */
static void a_float_is_parsed_as_tensorflow_does(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {{".5", .5},          {"+0.5", .5},      {" 0.5", .5},
                 {"\t5e-1", .5},      {"0x1p-1", .5},    {"5.", 5},
                 {"1e999", INFINITY}, {"inf", INFINITY}, {"-Infinity", -INFINITY},
                 {"-.25", -.25}};
    static const char *const bad[] = {"", " ", "0.5 ", "0.5x", "0,5", "+", ".", "--1", "half"};
    char arg[96];

    for (int theirs = 0; theirs < 2; theirs++) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            snprintf(arg, sizeof arg, "--per_process_gpu_memory_fraction=%s", cases[i].text);
            assert_int_equal(PARSE(theirs == 1, arg), SRV_PARSE_RUN);
            assert_true(o.gpu_memory_fraction == cases[i].value);
        }
        assert_int_equal(PARSE(theirs == 1, "--per_process_gpu_memory_fraction=nan"),
                         SRV_PARSE_RUN);
        assert_true(isnan(o.gpu_memory_fraction));
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            snprintf(arg, sizeof arg, "--per_process_gpu_memory_fraction=%s", bad[i]);
            assert_int_not_equal(PARSE(theirs == 1, arg), SRV_PARSE_RUN);
            assert_non_null(strstr(printed, "Couldn't interpret value"));
        }
        assert_int_equal(PARSE(theirs == 1, "--golden_tolerance=.5"), SRV_PARSE_RUN);
        assert_int_not_equal(PARSE(theirs == 1, "--golden_tolerance=-1"), SRV_PARSE_RUN);
        assert_int_not_equal(PARSE(theirs == 1, "--golden_tolerance=inf"), SRV_PARSE_RUN);
        assert_int_not_equal(PARSE(theirs == 1, "--golden_tolerance=nan"), SRV_PARSE_RUN);
        assert_int_equal(PARSE(theirs == 1, "--trace_sampling_ratio=1"), SRV_PARSE_RUN);
        assert_int_not_equal(PARSE(theirs == 1, "--trace_sampling_ratio=1.1"), SRV_PARSE_RUN);
        assert_int_not_equal(PARSE(theirs == 1, "--quota_queue_share=2"), SRV_PARSE_RUN);
    }
}

static void every_flag_of_tensorflow_serving_is_accepted(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--flush_filesystem_caches=false", "--enable_profiler=false",
                           "--per_process_gpu_memory_fraction=0.5", "--prefer_tflite_model",
                           "--num_tflite_pools=3", "--mixed_precision=bfloat16"),
                     SRV_PARSE_RUN);
    assert_null(strstr(printed, "unknown argument"));
    const char *name, *reason;
    int i = 0, n = 0;
    for (; srv_options_next_note(&o, &i, &name, &reason); n++)
        assert_true(*reason != 0);
    assert_int_equal(n, 5);
    i = 0;
    PARSE(true, "--enable_profiler=true", "--num_tflite_pools=0");
    assert_false(srv_options_next_note(&o, &i, &name, &reason));
}

/* ---- the parser of tensorflow_model_server ---- */

static void theirs_knows_no_space_before_a_value(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--port", "9"), SRV_PARSE_RUN);
    assert_non_null(strstr(printed, "unknown argument: --port\nusage: tensorflow_model_server"));
    assert_int_equal(o.port, 8500);
}

static void theirs_tells_each_bad_value_then_usage(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--port=x", "--rest_api_port=7", "--enable_batching=yes"),
                     SRV_PARSE_EXIT_USAGE);
    assert_int_equal(o.rest_api_port, 7);
    assert_non_null(strstr(printed, "Couldn't interpret value x for flag port."));
    assert_non_null(strstr(printed, "Couldn't interpret value =yes for flag enable_batching."));
}

static void ours_tells_what_a_flag_takes(void **state)
{
    (void)state;
    PARSE(false, "--max_header_bytes=512");
    assert_non_null(strstr(printed, "takes a number of bytes, as 4096, 16K, 8M or 1G, from 1024 "
                                    "to 16777216\n"));
    PARSE(false, "--max_queue_jobs=0");
    assert_non_null(
        strstr(printed, "--max_queue_jobs takes a whole number from 1 to 2147483647\n"));
    PARSE(false, "--drain_timeout=1e9");
    assert_non_null(strstr(printed, "takes a number of seconds from 0 to 86400\n"));
    PARSE(false, "--specialise=maybe");
    assert_non_null(strstr(printed, "--specialise takes on or off\n"));
    PARSE(true, "--port=99999");
    assert_null(strstr(printed, "takes a whole number"));
}

static void theirs_takes_a_longer_boolean_name_for_a_bad_value(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--enable_batchings"), SRV_PARSE_EXIT_USAGE);
    assert_non_null(strstr(printed, "Couldn't interpret value s for flag enable_batching."));
    assert_int_equal(PARSE(true, "--version_transition=resource_preserving"), SRV_PARSE_RUN);
}

static void theirs_numbers_may_have_a_plus_and_space_before_them(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--port=+9"), SRV_PARSE_RUN);
    assert_int_equal(o.port, 9);
    assert_int_equal(PARSE(true, "--port= 10"), SRV_PARSE_RUN);
    assert_int_equal(o.port, 10);
    assert_int_equal(PARSE(true, "--port=10 "), SRV_PARSE_EXIT_USAGE);
}

static void theirs_help_counts_only_as_the_first_thing_left_over(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--port=9", "--help"), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(true, "x", "--help"), SRV_PARSE_RUN);
    assert_non_null(strstr(printed, "unknown argument: x"));
    assert_int_equal(PARSE(true, "--", "--help"), SRV_PARSE_RUN);
    assert_non_null(strstr(printed, "unknown argument: --\n"));
    assert_int_equal(PARSE(true, "-h"), SRV_PARSE_RUN);
    assert_non_null(strstr(printed, "unknown argument: -h"));
}

static void strict_flags_refuse_the_unknown(void **state)
{
    (void)state;
    assert_int_equal(PARSE(true, "--nonsense", "--strict_flags"), SRV_PARSE_EXIT_USAGE);
    assert_int_equal(PARSE(false, "--nonsense", "--strict_flags=false"), SRV_PARSE_RUN);
}

static void what_was_given_is_known(void **state)
{
    (void)state;
    PARSE(true, "--port=8500");
    assert_true(srv_options_is_given(&o, "port"));
    assert_false(srv_options_is_given(&o, "model_name"));
    assert_false(srv_options_is_given(&o, "nonsense"));
}

static void help_lists_every_flag(void **state)
{
    (void)state;
    static const char *const flags[] = {"port",
                                        "grpc_socket_path",
                                        "rest_api_port",
                                        "rest_api_num_threads",
                                        "rest_api_timeout_in_ms",
                                        "rest_api_enable_cors_support",
                                        "enable_batching",
                                        "batching_parameters_file",
                                        "enable_per_model_batching_parameters",
                                        "allow_version_labels_for_unavailable_models",
                                        "model_config_file",
                                        "model_config_file_poll_wait_seconds",
                                        "model_name",
                                        "model_base_path",
                                        "num_load_threads",
                                        "num_unload_threads",
                                        "max_num_load_retries",
                                        "load_retry_interval_micros",
                                        "file_system_poll_wait_seconds",
                                        "flush_filesystem_caches",
                                        "tensorflow_session_parallelism",
                                        "tensorflow_intra_op_parallelism",
                                        "tensorflow_inter_op_parallelism",
                                        "tensorflow_session_config_file",
                                        "per_process_gpu_memory_fraction",
                                        "saved_model_tags",
                                        "grpc_channel_arguments",
                                        "grpc_max_threads",
                                        "enable_model_warmup",
                                        "num_request_iterations_for_warmup",
                                        "version",
                                        "monitoring_config_file",
                                        "remove_unused_fields_from_bundle_metagraph",
                                        "use_alts_credentials",
                                        "ssl_config_file",
                                        "platform_config_file",
                                        "prefer_tflite_model",
                                        "num_tflite_pools",
                                        "num_tflite_interpreters_per_pool",
                                        "enable_signature_method_name_check",
                                        "xla_cpu_compilation_enabled",
                                        "xla_gpu_compilation_enabled",
                                        "enable_profiler",
                                        "thread_pool_factory_config_file",
                                        "mixed_precision",
                                        "skip_initialize_tpu",
                                        "enable_grpc_healthcheck_service",
                                        "enable_serialization_as_tensor_content"};
    for (int theirs = 0; theirs < 2; theirs++) {
        PARSE(theirs == 1, "--help");
        for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
            char line[96];
            snprintf(line, sizeof line, "\t--%s=", flags[i]);
            if (!strstr(printed, line))
                fail_msg("--help does not list %s", flags[i]);
        }
    }
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
        cmocka_unit_test(an_unknown_flag_gets_a_hint_if_one_flag_is_near),
        cmocka_unit_test(a_float_is_parsed_as_tensorflow_does),
        cmocka_unit_test(every_flag_of_tensorflow_serving_is_accepted),
        cmocka_unit_test(theirs_knows_no_space_before_a_value),
        cmocka_unit_test(theirs_tells_each_bad_value_then_usage),
        cmocka_unit_test(ours_tells_what_a_flag_takes),
        cmocka_unit_test(theirs_takes_a_longer_boolean_name_for_a_bad_value),
        cmocka_unit_test(theirs_numbers_may_have_a_plus_and_space_before_them),
        cmocka_unit_test(theirs_help_counts_only_as_the_first_thing_left_over),
        cmocka_unit_test(strict_flags_refuse_the_unknown),
        cmocka_unit_test(what_was_given_is_known),
        cmocka_unit_test(help_lists_every_flag),
        cmocka_unit_test(version_and_help_end_the_program),
        cmocka_unit_test(integers_keep_their_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
