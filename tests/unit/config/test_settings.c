#include "tests/support/test.h"

#include "server/config/batching.h"
#include "server/config/settings.h"
#include "tests/support/folder.h"

static struct srv_options o;
static struct rt_arena *arena;
static struct rt_error err;

static enum rt_status resolve_args(int argc, const char *const *argv)
{
    rt_arena_free(arena);
    arena = rt_arena_new(SIZE_MAX);
    err = (struct rt_error){0};
    assert_int_equal(srv_options_parse(&o, true, argc, argv, stdout), SRV_PARSE_RUN);
    return srv_settings_resolve(&o, arena, &err);
}

#define RESOLVE(...)                                                                               \
    resolve_args((int)(sizeof((const char *const[]){"x", __VA_ARGS__}) / sizeof(const char *)),    \
                 (const char *const[]){"x", __VA_ARGS__})

static const char *file(const char *text)
{
    folder_write("file", text);
    return folder_path("file");
}

static const char *flag(const char *name, const char *value)
{
    static char buffer[4][4096];
    static int i;
    char *to = buffer[i++ % 4];
    snprintf(to, sizeof buffer[0], "--%s=%s", name, value);
    return to;
}

static void without_files_the_settings_are_the_flags(void **state)
{
    (void)state;
    assert_ok(RESOLVE("--port=1"), &err);
    assert_string_equal(o.prometheus_path, "/monitoring/prometheus/metrics");
    assert_null(o.platform_batching);
    srv_settings_threads(&o, 16);
    assert_int_equal(o.num_workers, 16);
    assert_int_equal(o.num_rest_threads, 4);
    assert_int_equal(o.num_grpc_threads, 4);
}

static void parallelism_is_the_number_of_workers_and_the_cores_of_a_run(void **state)
{
    (void)state;
    assert_ok(RESOLVE("--tensorflow_session_parallelism=3"), &err);
    assert_int_equal(o.num_workers, 3);
    assert_int_equal(o.cores_per_run, 3);
    assert_ok(RESOLVE("--tensorflow_intra_op_parallelism=2", "--tensorflow_inter_op_parallelism=5"),
              &err);
    assert_int_equal(o.num_workers, 5);
    assert_int_equal(o.cores_per_run, 2);
    assert_ok(RESOLVE("--tensorflow_inter_op_parallelism=5"), &err);
    srv_settings_threads(&o, 16);
    assert_int_equal(o.num_workers, 5);
    assert_int_equal(o.cores_per_run, 5);
    assert_ok(RESOLVE("--tensorflow_intra_op_parallelism=2", "--cores_per_run=4"), &err);
    assert_int_equal(o.cores_per_run, 4);
    assert_ok(RESOLVE("--tensorflow_intra_op_parallelism=2", "--tensorflow_session_parallelism=7"),
              &err);
    /* The flags for intra-op and inter-op parallelism take precedence over
     * --tensorflow_session_parallelism. */
    assert_int_equal(o.num_workers, 2);
    assert_ok(RESOLVE("--tensorflow_intra_op_parallelism=2", "--num_workers=9"), &err);
    assert_int_equal(o.num_workers, 9);
    assert_ok(RESOLVE("--tensorflow_intra_op_parallelism=-1"), &err);
    assert_int_equal(o.num_workers, 0);
}

static void all_three_parallelisms_are_refused(void **state)
{
    (void)state;
    assert_int_equal(RESOLVE("--tensorflow_session_parallelism=1",
                             "--tensorflow_intra_op_parallelism=1",
                             "--tensorflow_inter_op_parallelism=1"),
                     RT_INVALID_ARGUMENT);
    assert_string_equal(rt_error_text(&err),
                        "Either configure server_options.tensorflow_session_parallelism or "
                        "(server_options.tensorflow_intra_op_parallelism, "
                        "server_options.tensorflow_inter_op_parallelism) separately. You cannot "
                        "configure all.");
}

static void numbers_of_network_threads_are_limits(void **state)
{
    (void)state;
    assert_ok(RESOLVE("--rest_api_num_threads=2", "--grpc_max_threads=64"), &err);
    srv_settings_threads(&o, 16);
    assert_int_equal(o.num_rest_threads, 2);
    assert_int_equal(o.num_grpc_threads, 4);
}

static void a_session_file_counts_where_no_flag_does(void **state)
{
    (void)state;
    folder_new();
    const char *path = file("intra_op_parallelism_threads: 3 inter_op_parallelism_threads: 2\n"
                            "log_device_placement: true gpu_options { allow_growth: true }\n"
                            "device_count { key: 'CPU' value: 1 }");
    assert_ok(RESOLVE(flag("tensorflow_session_config_file", path)), &err);
    assert_int_equal(o.num_workers, 3);
    assert_int_equal(o.cores_per_run, 3);
    assert_true(o.log_device_placement);
    assert_ok(
        RESOLVE(flag("tensorflow_session_config_file", path), "--tensorflow_session_parallelism=8"),
        &err);
    assert_int_equal(o.num_workers, 8);
    path = file("intra_op_parallelism: 3");
    assert_int_equal(RESOLVE(flag("tensorflow_session_config_file", path)), RT_INVALID_ARGUMENT);
    assert_non_null(strstr(rt_error_text(&err), "Invalid protobuf file: '"));
    assert_non_null(strstr(rt_error_text(&err), "1:21: "));
    folder_remove();
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    assert_int_equal(RESOLVE("--monitoring_config_file=/nowhere/m"), RT_NOT_FOUND);
    assert_string_equal(rt_error_text(&err), "/nowhere/m; No such file or directory");
}

static void a_monitoring_file_moves_the_prometheus_page(void **state)
{
    (void)state;
    folder_new();
    const char *path = file("prometheus_config { enable: true, path: \"/metrics\" }");
    assert_ok(RESOLVE(flag("monitoring_config_file", path)), &err);
    assert_string_equal(o.prometheus_path, "/metrics");
    path = file("prometheus_config { enable: true }");
    assert_ok(RESOLVE(flag("monitoring_config_file", path)), &err);
    assert_string_equal(o.prometheus_path, "/monitoring/prometheus/metrics");
    path = file("prometheus_config: { enable: false path: '/x' }");
    assert_ok(RESOLVE(flag("monitoring_config_file", path)), &err);
    assert_string_equal(o.prometheus_path, "");
    path = file("prometheus_config { enable: true path: 'metrics' }");
    assert_int_equal(RESOLVE(flag("monitoring_config_file", path)), RT_INVALID_ARGUMENT);
    assert_non_null(strstr(rt_error_text(&err), "path \"metrics\" does not begin with a slash"));
    folder_remove();
}

static void a_metrics_path_that_no_request_has_or_that_hides_health_is_refused(void **state)
{
    (void)state;
    static const char *const paths[] = {"/a b",    "/m?x=1",   "/m#f",    "/m\\303\\244",
                                        "/m\\177", "/healthz", "/readyz", "/readyz/m"};
    static const char *const whys[] = {"cannot be requested", "would hide the server's own"};
    char text[128];
    folder_new();
    for (int i = 0; i < 8; i++) {
        snprintf(text, sizeof text, "prometheus_config { enable: true path: \"%s\" }", paths[i]);
        assert_int_equal(RESOLVE(flag("monitoring_config_file", file(text))), RT_INVALID_ARGUMENT);
        assert_non_null(strstr(rt_error_text(&err), whys[i >= 5]));
    }
    for (int i = 0; i < 2; i++) {
        static const char *const served[] = {"/healthz/metrics", "/v1/metrics%20~"};
        snprintf(text, sizeof text, "prometheus_config { enable: true path: \"%s\" }", served[i]);
        assert_ok(RESOLVE(flag("monitoring_config_file", file(text))), &err);
        assert_string_equal(o.prometheus_path, served[i]);
    }
    folder_remove();
}

static void a_thread_pool_file_without_a_factory_is_taken(void **state)
{
    (void)state;
    folder_new();
    assert_ok(RESOLVE(flag("thread_pool_factory_config_file", file("# none\n"))), &err);
    const char *path = file("thread_pool_factory_config { type_url: 'x/y.Z' }");
    assert_int_equal(RESOLVE(flag("thread_pool_factory_config_file", path)), RT_NOT_FOUND);
    assert_non_null(strstr(rt_error_text(&err), "\"x/y.Z\""));
    folder_remove();
}

#define PLATFORM(config)                                                                           \
    "platform_configs { key: 'tensorflow' value { source_adapter_config {\n"                       \
    " [type.googleapis.com/tensorflow.serving.SavedModelBundleSourceAdapterConfig] {\n"            \
    "  legacy_config { " config " } } } } }\n"

static void a_platform_file_takes_the_place_of_its_flags(void **state)
{
    (void)state;
    folder_new();
    const char *path = file(PLATFORM(
        "enable_model_warmup: true enable_per_model_batching_params: true "
        "model_warmup_options { num_request_iterations { value: 3 }\n"
        "  num_model_warmup_threads { value: 2 } }\n"
        "saved_model_tags: ['serve', 'gpu']\n"
        "session_config { intra_op_parallelism_threads: 6 use_per_session_threads: true }\n"
        "batching_parameters { max_batch_size { value: 8 } allowed_batch_sizes: [2, 8]\n"
        "  thread_pool_name { value: 'a\"b' } pad_variable_length_inputs: true }"));
    assert_ok(RESOLVE(flag("platform_config_file", path), "--tensorflow_session_parallelism=2",
                      "--enable_batching=false", "--batching_parameters_file=/no/such"),
              &err);
    assert_int_equal(o.num_workers, 6);
    assert_int_equal(o.enable_batching, SRV_YES);
    assert_true(o.enable_model_warmup);
    assert_int_equal(o.num_request_iterations_for_warmup, 3);
    assert_int_equal(o.num_model_warmup_threads, 2);
    assert_true(o.enable_per_model_batching_parameters);
    assert_string_equal(o.saved_model_tags, "serve,gpu");
    assert_string_equal(o.batching_parameters_file, "");
    const struct srv_batching *b = o.platform_batching;
    assert_non_null(b);
    assert_int_equal(b->max_batch_size, 8);
    assert_int_equal(b->n_sizes, 2);
    assert_int_equal(b->sizes[0], 2);
    assert_int_equal(b->sizes[1], 8);
    assert_true(b->pads);
    struct srv_batching server;
    assert_ok(srv_batching_of_server(&server, &o, &err), &err);
    assert_int_equal(server.max_batch_size, 8);

    path = file(PLATFORM("batching_parameters { max_batch_size { value: 0 } }"));
    assert_fails(RESOLVE(flag("platform_config_file", path)), RT_INVALID_ARGUMENT, &err,
                 "max_batch_size must be positive; was 0");
    folder_remove();
}

static void an_empty_platform_config_is_all_defaults(void **state)
{
    (void)state;
    folder_new();
    const char *path = file(PLATFORM(""));
    assert_ok(RESOLVE(flag("platform_config_file", path), "--enable_batching"), &err);
    assert_int_equal(o.enable_batching, SRV_UNSET);
    /* As in TensorFlow Serving, an absent enable_model_warmup is treated as false. */
    assert_false(o.enable_model_warmup);
    assert_string_equal(o.saved_model_tags, "serve");
    folder_remove();
}

static void a_platform_file_that_cannot_be_followed_is_refused(void **state)
{
    (void)state;
    folder_new();
    const char *path = file("platform_configs { key: 'other' value {} }");
    assert_int_equal(RESOLVE(flag("platform_config_file", path)), RT_FAILED_PRECONDITION);
    assert_string_equal(rt_error_text(&err),
                        "PlatformConfigMap has no entry for platform tensorflow");
    path = file("platform_configs { key: 'tensorflow' value { source_adapter_config {\n"
                " [type.googleapis.com/google.protobuf.Int64Value] {} } } }");
    assert_int_equal(RESOLVE(flag("platform_config_file", path)), RT_UNIMPLEMENTED);
    path = file(PLATFORM("experimental_fixed_input_tensors { name: 'x' }"));
    assert_int_equal(RESOLVE(flag("platform_config_file", path)), RT_UNIMPLEMENTED);
    path = file(PLATFORM("batching_parameters { max_batch_size: 8 }"));
    assert_int_equal(RESOLVE(flag("platform_config_file", path)), RT_INVALID_ARGUMENT);
    assert_string_equal(strstr(rt_error_text(&err), "3:"), "3:57: Expected \"{\", found \"8\".");
    folder_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_files_the_settings_are_the_flags),
        cmocka_unit_test(parallelism_is_the_number_of_workers_and_the_cores_of_a_run),
        cmocka_unit_test(all_three_parallelisms_are_refused),
        cmocka_unit_test(numbers_of_network_threads_are_limits),
        cmocka_unit_test(a_session_file_counts_where_no_flag_does),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
        cmocka_unit_test(a_monitoring_file_moves_the_prometheus_page),
        cmocka_unit_test(a_metrics_path_that_no_request_has_or_that_hides_health_is_refused),
        cmocka_unit_test(a_thread_pool_file_without_a_factory_is_taken),
        cmocka_unit_test(a_platform_file_takes_the_place_of_its_flags),
        cmocka_unit_test(an_empty_platform_config_is_all_defaults),
        cmocka_unit_test(a_platform_file_that_cannot_be_followed_is_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rt_arena_free(arena);
    return failed;
}
