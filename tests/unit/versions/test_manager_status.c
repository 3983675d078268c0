/* Tests what the manager answers about readiness and states when it has many models or versions. */
#include "tests/unit/versions/manager_fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "tests/support/folder.h"

/* Returns the processor time of 2,000 calls. */
static int64_t time_ready(void)
{
    const int64_t begin = rt_thread_cpu_ns();

    for (int i = 0; i < 2000; i++)
        assert_true(srv_is_ready(fixture.manager));
    return rt_thread_cpu_ns() - begin;
}

static int64_t time_lookup(void)
{
    const int64_t begin = rt_thread_cpu_ns();

    for (int i = 0; i < 2000; i++)
        assert_true(srv_model_is_ready(fixture.manager, rt_span_str("good")));
    return rt_thread_cpu_ns() - begin;
}

static void readiness_does_not_take_longer_with_many_models(void **state)
{
    (void)state;
    char dir[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(dir, sizeof dir, "models/empty%d", i);
        folder_make(dir);
    }
    mf_add_version("models/good/1", "ok");
    assert_ok(MF_START(mf_flag("models", "models"), "--model_wait_seconds=1"), &fixture.err);
    assert_true(mf_comes_to("good", 1, SRV_AVAILABLE));
    const int64_t end = rt_now_ns() + MF_SAFETY_LIMIT_MS * INT64_C(1000000);
    while (!srv_is_ready(fixture.manager) && rt_now_ns() < end)
        usleep(10000);
    assert_true(time_ready() < 20 * time_lookup());
}

/* Waits until the server is ready, or is not. */
static bool comes_to_ready(bool want)
{
    const int64_t end = rt_now_ns() + MF_SAFETY_LIMIT_MS * INT64_C(1000000);

    while (srv_is_ready(fixture.manager) != want && rt_now_ns() < end)
        usleep(10000);
    return srv_is_ready(fixture.manager) == want;
}

static void readiness_follows_loads_and_configurations(void **state)
{
    (void)state;
    static const char *const models[] = {"a", "b"};
    mf_add_version("a/1", "ok");
    mf_add_version("b/1", "bad");
    MF_CONFIG("a", "b");
    atomic_store(&fixture.load_held, true);
    assert_ok(MF_START(mf_flag("model_config_file", "models.config"),
                       "--model_config_file_poll_wait_seconds=1"),
              &fixture.err);
    assert_true(mf_comes_to("a", 1, SRV_LOADING));
    assert_false(srv_is_ready(fixture.manager));
    atomic_store(&fixture.load_held, false);
    assert_true(comes_to_ready(true));
    assert_true(mf_comes_to("a", 1, SRV_AVAILABLE));
    assert_int_equal(mf_state_of("b", 1, NULL, 0), SRV_END);
    mf_write_config(models + 1, 1);
    assert_true(comes_to_ready(false));
    assert_fails(srv_fail_not_ready(fixture.manager, &fixture.err), RT_UNAVAILABLE, &fixture.err,
                 "none of 1 model is available");
    mf_write_config(models, 2);
    assert_true(comes_to_ready(true));
}

/* The lists are longer than two slices. */
static void long_lists_are_whole_and_sorted(void **state)
{
    (void)state;
    enum { N = 600 };
    char text[1024];
    for (int i = 1; i <= N; i++) {
        snprintf(text, sizeof text, "m/%d", i);
        mf_add_version(text, "ok");
        snprintf(text, sizeof text, "models/x%03d", i);
        folder_make(text);
    }
    snprintf(text, sizeof text,
             "model_config_list { config { name: 'm' base_path: '%s' model_platform: 'tensorflow' "
             "model_version_policy { all {} } } }",
             folder_path("m"));
    folder_write("models.config", text);
    assert_ok(MF_START(mf_flag("model_config_file", "models.config"), mf_flag("models", "models")),
              &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    assert_int_equal(srv_status_size(fixture.manager, rt_span_str("m")), N);
    assert_int_equal(srv_status_size_of_all(fixture.manager), 2 * N + 1);

    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct srv_version_status *s, one;
    const char *const *names;
    int n;
    assert_ok(
        srv_status_of(fixture.manager, rt_span_str("m"), false, 0, arena, &s, &n, &fixture.err),
        &fixture.err);
    assert_int_equal(n, N);
    for (int i = 0; i < N; i++)
        assert_int_equal(s[i].version, N - i);
    assert_ok(
        srv_status_one(fixture.manager, rt_span_str("m"), false, 0, arena, &one, &fixture.err),
        &fixture.err);
    assert_int_equal(one.version, N);
    assert_int_equal(srv_status_models(fixture.manager, false, arena, &names, &n), RT_OK);
    assert_int_equal(n, N + 1);
    for (int i = 1; i < n; i++)
        assert_true(strcmp(names[i - 1], names[i]) < 0);
    assert_int_equal(srv_status_models(fixture.manager, true, arena, &names, &n), RT_OK);
    assert_int_equal(n, 1);
    assert_string_equal(names[0], "m");
    rt_arena_free(arena);
}

/* The versions that srv_manager_look has passed, in the order of the calls. */
struct passed {
    int n, most;
    char last[16];
};

static bool pass(void *arg, const struct srv_version *v)
{
    struct passed *passed = arg;

    assert_true(strcmp(passed->last, v->model) < 0);
    snprintf(passed->last, sizeof passed->last, "%s", v->model);
    return ++passed->n == passed->most;
}

/* These are more versions than are passed under one hold of the manager's lock. */
static void a_look_passes_each_version_once(void **state)
{
    (void)state;
    enum { N = 100 };
    struct passed all = {.most = N + 1}, some = {.most = N / 2};
    char text[32];
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "models/m%03d/1", i);
        mf_add_version(text, "ok");
    }
    folder_make("models/empty");
    assert_ok(MF_START(mf_flag("models", "models")), &fixture.err);
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "m%03d", i);
        assert_true(mf_comes_to(text, 1, SRV_AVAILABLE));
    }
    assert_int_equal(srv_status_size_of_available(fixture.manager), N);
    assert_false(srv_manager_look(fixture.manager, pass, &all));
    assert_int_equal(all.n, N);
    assert_true(srv_manager_look(fixture.manager, pass, &some));
    assert_int_equal(some.n, N / 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, mf_set_up, mf_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(readiness_does_not_take_longer_with_many_models),
        TEST(readiness_follows_loads_and_configurations),
        TEST(long_lists_are_whole_and_sorted),
        TEST(a_look_passes_each_version_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
