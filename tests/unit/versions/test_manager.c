/* Tests how versions are loaded, served, replaced, retried, freed and reported. */
#include "tests/unit/versions/manager_fixture.h"

#include <unistd.h>

#include "runtime/base/clock.h"
#include "tests/support/folder.h"

static void a_version_is_served_and_a_newer_one_takes_over(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    assert_true(srv_is_ready(fixture.manager));
    assert_int_equal(atomic_load(&fixture.server.map)->n_models, 1);
    mf_add_version("m/2", "ok");
    assert_true(mf_comes_to("m", 2, SRV_AVAILABLE));
    assert_true(mf_comes_to("m", 1, SRV_END));
    assert_int_equal(mf_state_of("m", 2, NULL, 0), SRV_AVAILABLE);
    assert_int_equal(atomic_load(&fixture.server.map)->models[0].n_versions, 1);
    assert_int_equal(atomic_load(&fixture.server.map)->models[0].versions[0]->version, 2);
}

static void resource_preserving_holds_one_version_at_a_time(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m"),
                       "--version_transition=resource_preserving", "--num_unload_threads=2"),
              &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    atomic_store(&fixture.load_held, true);
    mf_add_version("m/2", "ok");
    assert_true(mf_comes_to("m", 2, SRV_LOADING));
    assert_int_equal(mf_state_of("m", 1, NULL, 0), SRV_END);
    assert_int_equal(atomic_load(&fixture.n_freed), 1);
    atomic_store(&fixture.load_held, false);
    assert_true(mf_comes_to("m", 2, SRV_AVAILABLE));
}

/* Each version is estimated to take a little more than 8 MiB, so the memory limit permits one
 * version but not two. */
static void models_share_a_limit_of_memory(void **state)
{
    (void)state;
    mf_add_version("a/1", "ok");
    mf_add_version("b/1", "ok");
    folder_write("config", "");
    char text[1024];
    snprintf(text, sizeof text,
             "model_config_list { config { name: 'a' base_path: '%s' model_platform: 'tensorflow' }"
             " config { name: 'b' base_path: '%s' model_platform: 'tensorflow' } }",
             folder_path("a"), folder_path("b"));
    folder_write("config", text);
    assert_ok(MF_START(mf_flag("model_config_file", "config"),
                       "--total_model_memory_limit_bytes=10M", "--max_num_load_retries=0",
                       "--num_load_threads=1"),
              &fixture.err);
    while (mf_state_of("a", 1, NULL, 0) != SRV_AVAILABLE &&
           mf_state_of("b", 1, NULL, 0) != SRV_AVAILABLE)
        usleep(5000);
    bool a_serves = mf_state_of("a", 1, NULL, 0) == SRV_AVAILABLE;
    const char *one = a_serves ? "a" : "b", *other = a_serves ? "b" : "a";
    assert_true(mf_comes_to(other, 1, SRV_END));
    mf_state_of(other, 1, text, sizeof text);
    assert_non_null(strstr(text, "Insufficient resources to load servable {name: "));
    folder_delete(a_serves ? "a/1" : "b/1");
    assert_true(mf_comes_to(one, 1, SRV_END));
    mf_add_version(a_serves ? "b/2" : "a/2", "ok");
    assert_true(mf_comes_to(other, 2, SRV_AVAILABLE));
}

/* Waits until the version has failed, and checks its error message. */
static void fails_with(const char *model, const char *why)
{
    char text[400];
    assert_true(mf_comes_to(model, 1, SRV_END));
    mf_state_of(model, 1, text, sizeof text);
    if (!strstr(text, why))
        fail_msg("\"%s\" is not in \"%s\"", why, text);
}

static void a_model_counts_with_what_it_holds(void **state)
{
    (void)state;
    mf_add_version("models/a/1", "large");
    assert_ok(MF_START(mf_flag("models", "models"), "--total_model_memory_limit_bytes=40M",
                       "--max_num_load_retries=0"),
              &fixture.err);
    assert_true(mf_comes_to("a", 1, SRV_AVAILABLE));
    assert_int_equal(fixture.server.model_memory.used, MF_LARGE_BYTES);
    /* A second model is admitted, because its estimate of 8 MiB fits. The memory that it then holds
     * does not fit. */
    mf_add_version("models/b/1", "large");
    fails_with("b", "Insufficient resources to load servable {name: b version: 1}: it holds "
                    "31457280 bytes already, others hold 31457280 of "
                    "--total_model_memory_limit_bytes=41943040");
    assert_int_equal(fixture.server.model_memory.used, MF_LARGE_BYTES);
    mf_add_version("models/c/1", "ok");
    assert_true(mf_comes_to("c", 1, SRV_AVAILABLE));
    mf_add_version("models/d/1", "ok");
    fails_with("d", "it needs about 8389858 bytes, others hold 39847");
    folder_delete("models/a");
    assert_true(mf_comes_to("a", 1, SRV_END));
    mf_add_version("models/e/1", "large");
    assert_true(mf_comes_to("e", 1, SRV_AVAILABLE));
}

static void a_file_larger_than_the_limit_is_not_read(void **state)
{
    (void)state;
    mf_add_version("models/a/1", "ok");
    assert_int_equal(truncate(folder_path("models/a/1/saved_model.pb"), 50 << 20), 0);
    assert_ok(MF_START(mf_flag("models", "models"), "--total_model_memory_limit_bytes=40M",
                       "--max_num_load_retries=0"),
              &fixture.err);
    fails_with("a", "it needs about 52428800 bytes, others hold 0 of "
                    "--total_model_memory_limit_bytes=41943040");
}

static void a_version_that_is_overtaken_says_so(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m"), "--num_load_threads=1"),
              &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    folder_write("m/2/part", "x");
    assert_true(mf_comes_to("m", 2, SRV_START));
    mf_add_version("m/3", "ok");
    assert_true(mf_comes_to("m", 2, SRV_END));
    char text[200];
    mf_state_of("m", 2, text, sizeof text);
    assert_string_equal(text, "a higher version came before this one was loaded");
    assert_true(mf_comes_to("m", 3, SRV_AVAILABLE));
}

static void a_failed_version_leaves_the_old_one_and_tells_why(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    mf_add_version("m/2", "bad");
    assert_true(mf_comes_to("m", 2, SRV_END));
    char text[200];
    mf_state_of("m", 2, text, sizeof text);
    assert_string_equal(text, "op Nonsense is missing");
    assert_int_equal(mf_state_of("m", 1, NULL, 0), SRV_AVAILABLE);
    folder_write("m/2/saved_model.pb", "ok");
    assert_true(mf_comes_to("m", 2, SRV_AVAILABLE));
    assert_true(mf_comes_to("m", 1, SRV_END));
}

static void a_failure_that_may_pass_is_tried_again(void **state)
{
    (void)state;
    mf_add_version("m/1", "flaky");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m"),
                       "--max_num_load_retries=2", "--load_retry_interval_micros=1000"),
              &fixture.err);
    int64_t end = rt_now_ns() + MF_SAFETY_LIMIT_MS * INT64_C(1000000);
    while (atomic_load(&fixture.n_loads) < 3 && rt_now_ns() < end)
        usleep(10000);
    usleep(500000);
    assert_int_equal(atomic_load(&fixture.n_loads), 3);
    assert_true(mf_comes_to("m", 1, SRV_END));
}

static void a_version_is_freed_only_when_no_thread_holds_it(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    mf_hold_handles(true);
    mf_add_version("m/2", "ok");
    assert_true(mf_comes_to("m", 1, SRV_UNLOADING));
    usleep(100000);
    assert_int_equal(atomic_load(&fixture.n_freed), 0);
    assert_int_equal(mf_state_of("m", 1, NULL, 0), SRV_UNLOADING);
    mf_hold_handles(false);
    assert_true(mf_comes_to("m", 1, SRV_END));
    assert_int_equal(atomic_load(&fixture.n_freed), 1);
}

static void the_requests_of_an_unloaded_version_are_ended_after_the_default_deadline(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m"),
                       "--default_deadline_seconds=0.5"),
              &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    mf_hold_handles(true);
    mf_add_version("m/2", "ok");
    const bool has_ended = mf_comes_to("m", 1, SRV_END);
    mf_hold_handles(false);
    assert_true(has_ended);
    assert_int_equal(atomic_load(&fixture.n_ended), 1);
    assert_int_equal(mf_state_of("m", 2, NULL, 0), SRV_AVAILABLE);
}

static void one_bad_model_holds_no_other(void **state)
{
    (void)state;
    mf_add_version("models/bad/1", "bad");
    mf_add_version("models/flaky/1", "flaky");
    mf_add_version("models/huge/1", "huge");
    folder_make("models/empty");
    mf_add_version("models/good/1", "ok");
    assert_ok(MF_START(mf_flag("models", "models"), "--model_wait_seconds=1"), &fixture.err);
    assert_true(mf_comes_to("good", 1, SRV_AVAILABLE));
    assert_true(mf_comes_to("huge", 1, SRV_END));
    char text[300];
    mf_state_of("huge", 1, text, sizeof text);
    assert_non_null(strstr(text, "bytes of memory"));
    int64_t end = rt_now_ns() + MF_SAFETY_LIMIT_MS * INT64_C(1000000);
    while (!srv_is_ready(fixture.manager) && rt_now_ns() < end)
        usleep(10000);
    assert_true(srv_is_ready(fixture.manager));
}

static void the_start_waits_for_every_model_or_a_failure(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--", "--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    assert_ok(srv_manager_wait_initial(fixture.manager, &fixture.err), &fixture.err);
    assert_int_equal(mf_state_of("m", 1, NULL, 0), SRV_AVAILABLE);
}

static void the_start_fails_with_the_models_error(void **state)
{
    (void)state;
    mf_add_version("m/1", "bad");
    assert_ok(MF_START("--", "--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    assert_fails(srv_manager_wait_initial(fixture.manager, &fixture.err), RT_UNKNOWN, &fixture.err,
                 "1 servable(s) did not become available: {{{name: m version: 1} due to error: "
                 "UNIMPLEMENTED: op Nonsense is missing}");
}

static void a_start_without_models_is_refused(void **state)
{
    (void)state;
    assert_fails(MF_START("--"), RT_INVALID_ARGUMENT, &fixture.err, "model_base_path");
    mf_stop_io_loops();
    assert_fails(MF_START("--model_base_path=s3://b/m"), RT_UNIMPLEMENTED, &fixture.err, "s3");
    mf_stop_io_loops();
    assert_fails(MF_START("--", "--model_base_path=m"), RT_INVALID_ARGUMENT, &fixture.err,
                 "Expected model default to have an absolute path or URI; got base_path()=m");
    mf_stop_io_loops();
}

static void unknown_models_and_versions_are_told(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_version_status *s;
    int n;
    assert_fails(
        srv_status_of(fixture.manager, rt_span_str("x"), false, 0, arena, &s, &n, &fixture.err),
        RT_NOT_FOUND, &fixture.err, "Could not find any versions of model x");
    assert_fails(
        srv_status_of(fixture.manager, rt_span_str("m"), true, 5, arena, &s, &n, &fixture.err),
        RT_NOT_FOUND, &fixture.err, "Could not find version 5 of model m");
    rt_arena_free(arena);
}

static void a_base_path_without_versions_says_why(void **state)
{
    (void)state;
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_version_status *s;
    int n;
    do
        assert_int_equal(
            srv_status_of(fixture.manager, rt_span_str("m"), false, 0, arena, &s, &n, &fixture.err),
            RT_NOT_FOUND);
    while (!strstr(rt_error_text(&fixture.err), "of model m: Could not find base path "));
    rt_arena_free(arena);
}

/* The number of serving versions is not limited. An earlier version had a table for at most 4,096
 * versions of all models. */
static void any_number_of_versions_may_serve(void **state)
{
    (void)state;
    enum { N = 4100 };
    char dir[32], config[1024];
    for (int i = 1; i <= N; i++) {
        snprintf(dir, sizeof dir, "m/%d", i);
        mf_add_version(dir, "ok");
    }
    mf_add_version("n/1", "ok");
    snprintf(config, sizeof config,
             "model_config_list { config { name: 'm' base_path: '%s' model_platform: 'tensorflow' "
             "model_version_policy { all {} } } }",
             folder_path("m"));
    folder_write("models.config", config);
    assert_ok(MF_START(mf_flag("model_config_file", "models.config"),
                       "--model_config_file_poll_wait_seconds=1"),
              &fixture.err);
    for (int i = 1; i <= N; i++)
        assert_true(mf_comes_to("m", i, SRV_AVAILABLE));
    assert_int_equal(atomic_load(&fixture.n_attached), N);
    MF_CONFIG("n");
    assert_true(mf_comes_above_0(&fixture.n_gone));
    assert_true(atomic_load(&fixture.n_freed) >= N); /* a load that makes way frees its version */
    assert_true(mf_comes_to("n", 1, SRV_AVAILABLE));
}

static void a_warning_about_a_version_stands_at_that_version(void **state)
{
    (void)state;
    static const char *const dirs[] = {"m/0", "m/00", "m/000", "m/1", "m/2"};
    char config[1024], text[1024];
    for (int i = 0; i < 5; i++)
        mf_add_version(dirs[i], "ok");
    snprintf(config, sizeof config,
             "model_config_list { config { name: 'm' base_path: '%s' model_platform: 'tensorflow' "
             "model_version_policy { all {} } } }",
             folder_path("m"));
    folder_write("models.config", config);
    assert_ok(MF_START(mf_flag("model_config_file", "models.config")), &fixture.err);
    for (int i = 0; i <= 2; i++) {
        assert_true(mf_comes_to("m", i, SRV_AVAILABLE));
        mf_state_of("m", i, text, sizeof text);
        assert_int_equal(strstr(text, "3 directories are one version, 0") != NULL, i == 0);
        assert_int_equal(text[0] == 0, i != 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, mf_set_up, mf_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_version_is_served_and_a_newer_one_takes_over),
        TEST(resource_preserving_holds_one_version_at_a_time),
        TEST(models_share_a_limit_of_memory),
        TEST(a_model_counts_with_what_it_holds),
        TEST(a_file_larger_than_the_limit_is_not_read),
        TEST(a_version_that_is_overtaken_says_so),
        TEST(a_failed_version_leaves_the_old_one_and_tells_why),
        TEST(a_failure_that_may_pass_is_tried_again),
        TEST(a_version_is_freed_only_when_no_thread_holds_it),
        TEST(the_requests_of_an_unloaded_version_are_ended_after_the_default_deadline),
        TEST(one_bad_model_holds_no_other),
        TEST(the_start_waits_for_every_model_or_a_failure),
        TEST(the_start_fails_with_the_models_error),
        TEST(a_start_without_models_is_refused),
        TEST(unknown_models_and_versions_are_told),
        TEST(a_base_path_without_versions_says_why),
        TEST(any_number_of_versions_may_serve),
        TEST(a_warning_about_a_version_stands_at_that_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
