/* Tests reload requests, and config files that are read again after a change. */
#include "tests/unit/versions/manager_fixture.h"

#include <stdio.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "tensorflow_serving/config/model_server_config.pb-c.h"
#include "tests/support/folder.h"

static atomic_int reload_status; /* -1 until a response arrives */
static char reload_text[512];

static void note_reload(void *arg, enum rt_status status, const struct rt_error *e)
{
    (void)arg;
    snprintf(reload_text, sizeof reload_text, "%s", status ? rt_error_text(e) : "");
    atomic_store(&reload_status, (int)status);
}

static void reload_m_and_n(void)
{
    char paths[2][600], names[2][2] = {"m", "n"}, platform[] = "tensorflow";
    snprintf(paths[0], sizeof paths[0], "%s", folder_path("m"));
    snprintf(paths[1], sizeof paths[1], "%s", folder_path("n"));
    Tensorflow__Serving__ModelConfig models[2], *all[2] = {&models[0], &models[1]};
    for (int i = 0; i < 2; i++) {
        tensorflow__serving__model_config__init(&models[i]);
        models[i].name = names[i];
        models[i].base_path = paths[i];
        models[i].model_platform = platform;
    }
    Tensorflow__Serving__ModelConfigList list;
    tensorflow__serving__model_config_list__init(&list);
    list.n_config = 2;
    list.config = all;
    Tensorflow__Serving__ModelServerConfig config;
    tensorflow__serving__model_server_config__init(&config);
    config.config_case = TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__CONFIG_MODEL_CONFIG_LIST;
    config.model_config_list = &list;
    uint8_t bytes[2048];
    assert_true(protobuf_c_message_get_packed_size(&config.base) <= sizeof bytes);
    size_t n = protobuf_c_message_pack(&config.base, bytes);
    atomic_store(&reload_status, -1);
    assert_ok(srv_manager_reload(fixture.manager, rt_span_of(bytes, n), NULL, note_reload, NULL,
                                 &fixture.err),
              &fixture.err);
}

static int wait_for_reload(int within_ms)
{
    int64_t end = rt_now_ns() + (int64_t)within_ms * 1000000;
    while (atomic_load(&reload_status) < 0 && rt_now_ns() < end)
        usleep(5000);
    return atomic_load(&reload_status);
}

static void start_with_m_then_ask_for_n(void)
{
    mf_add_version("m/1", "ok");
    folder_make("n");
    MF_CONFIG("m");
    assert_ok(MF_START(mf_flag("model_config_file", "models.config")), &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    reload_m_and_n();
    assert_int_equal(wait_for_reload(100), -1);
}

/* Starts the manager with the models m and n, removes n while requests hold it, and configures it
 * again after more than --model_wait_seconds. */
static void a_reload_waits_for_a_model_that_is_still_being_unloaded(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    mf_add_version("n/1", "ok");
    MF_CONFIG("m", "n");
    assert_ok(MF_START(mf_flag("model_config_file", "models.config"), "--model_wait_seconds=5"),
              &fixture.err);
    assert_true(mf_comes_to("n", 1, SRV_AVAILABLE));
    mf_hold_handles(true);
    MF_CONFIG("m");
    srv_manager_reread(fixture.manager);
    assert_true(mf_comes_to("n", 1, SRV_UNLOADING));
    usleep(5100000); /* more than --model_wait_seconds after n was first configured */
    reload_m_and_n();
    const int early = wait_for_reload(300);
    mf_hold_handles(false);
    assert_int_equal(early, -1);
    assert_int_equal(wait_for_reload(MF_SAFETY_LIMIT_MS), RT_OK);
    assert_true(mf_comes_to("n", 1, SRV_AVAILABLE));
}

static void a_reload_waits_on_when_the_config_file_is_read_again(void **state)
{
    (void)state;
    mf_add_version("x/1", "ok");
    start_with_m_then_ask_for_n();
    MF_CONFIG("m", "n", "x");
    srv_manager_reread(fixture.manager);
    assert_true(mf_comes_to("x", 1, SRV_AVAILABLE));
    assert_int_equal(wait_for_reload(0), -1);
    mf_add_version("n/1", "ok");
    assert_int_equal(wait_for_reload(MF_SAFETY_LIMIT_MS), RT_OK);
    assert_true(mf_comes_to("n", 1, SRV_AVAILABLE));
}

static void a_reload_ends_when_the_config_file_takes_its_models_out(void **state)
{
    (void)state;
    mf_add_version("x/1", "ok");
    start_with_m_then_ask_for_n();
    MF_CONFIG("m", "x");
    srv_manager_reread(fixture.manager);
    assert_int_equal(wait_for_reload(MF_SAFETY_LIMIT_MS), RT_UNKNOWN);
    assert_non_null(strstr(reload_text, "1 model(s) did not become available: {{{name: n} due to "
                                        "error: the model was taken out of the configuration}"));
}

static void a_reload_that_waits_ends_with_the_manager(void **state)
{
    (void)state;
    start_with_m_then_ask_for_n();
    srv_manager_stop(fixture.manager);
    assert_int_equal(atomic_load(&reload_status), RT_UNAVAILABLE);
    mf_stop_io_loops();
    srv_manager_free(fixture.manager);
    fixture.manager = NULL;
}

/* Writes a config file with n models for each prefix. Their base paths do not exist. */
static void write_many(const char *const *prefixes, int n_prefixes, int n)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    fputs("model_config_list {", f);
    for (int p = 0; p < n_prefixes; p++)
        for (int i = 0; i < n; i++)
            fprintf(f, "config { name: '%s%05d' base_path: '%s' model_platform: 'tensorflow' }\n",
                    prefixes[p], i, folder_path("none"));
    fputs("}", f);
    assert_int_equal(fclose(f), 0);
    folder_write("models.config", text);
    free(text);
}

/* Waits until `want` models are listed, and asserts that they are sorted by name. */
static void expect_listed(int want)
{
    const int64_t end = rt_now_ns() + MF_SAFETY_LIMIT_MS * INT64_C(1000000);
    int n = -1;
    bool ascend = true;
    while (n != want && rt_now_ns() < end) {
        struct rt_arena *arena = rt_arena_new(SIZE_MAX);
        const char *const *names;
        assert_int_equal(srv_status_models(fixture.manager, false, arena, &names, &n), RT_OK);
        for (int i = 1; i < n; i++)
            ascend = ascend && strcmp(names[i - 1], names[i]) < 0;
        rt_arena_free(arena);
        usleep(20000);
    }
    assert_int_equal(n, want);
    assert_true(ascend);
}

static void a_model_is_gone_once_its_last_version_has_ended(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    mf_add_version("n/1", "ok");
    folder_make("none");
    MF_CONFIG("m", "n", "none");
    assert_ok(MF_START(mf_flag("model_config_file", "models.config"),
                       "--model_config_file_poll_wait_seconds=1", "--default_deadline_seconds=0"),
              &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    assert_true(mf_comes_to("n", 1, SRV_AVAILABLE));
    mf_hold_handles(true);
    MF_CONFIG("m", "none");
    assert_true(mf_comes_to("n", 1, SRV_UNLOADING));
    assert_int_equal(atomic_load(&fixture.n_gone), 0);
    mf_hold_handles(false);
    assert_true(mf_comes_above_0(&fixture.n_gone));
    assert_string_equal(fixture.gone, "n");
    assert_int_equal(mf_state_of("n", 1, NULL, 0), SRV_END);
    atomic_store(&fixture.n_gone, 0);
    MF_CONFIG("m"); /* a model that never had a version is also reported as gone */
    assert_true(mf_comes_above_0(&fixture.n_gone));
    assert_string_equal(fixture.gone, "none");
    atomic_store(&fixture.n_gone, 0);
    MF_CONFIG("m", "n"); /* a model that was configured again is reported again */
    assert_true(mf_comes_to("n", 1, SRV_AVAILABLE));
    assert_int_equal(atomic_load(&fixture.n_gone), 0);
    MF_CONFIG("m");
    assert_true(mf_comes_above_0(&fixture.n_gone));
    assert_string_equal(fixture.gone, "n");
}

/* Applying a new list of models takes time proportional to the lengths of the old and the new list.
 * An earlier version inserted each model separately, which took 10^9 comparisons (4.3 s) under the
 * manager's lock. */
static void many_models_come_and_go_at_once(void **state)
{
    (void)state;
    enum { MANY = 20000, GONE_LISTED = 1000 };
    write_many((const char *const[]){"m", "z"}, 2, MANY);
    assert_ok(MF_START(mf_flag("model_config_file", "models.config")), &fixture.err);
    expect_listed(2 * MANY);
    write_many((const char *const[]){"a", "m", "n", "z", "zz"}, 5, MANY);
    srv_manager_reread(fixture.manager);
    expect_listed(5 * MANY);
    write_many((const char *const[]){"n"}, 1, MANY);
    srv_manager_reread(fixture.manager);
    expect_listed(MANY + GONE_LISTED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, mf_set_up, mf_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_reload_waits_for_a_model_that_is_still_being_unloaded),
        TEST(a_reload_waits_on_when_the_config_file_is_read_again),
        TEST(a_reload_ends_when_the_config_file_takes_its_models_out),
        TEST(a_reload_that_waits_ends_with_the_manager),
        TEST(a_model_is_gone_once_its_last_version_has_ended),
        TEST(many_models_come_and_go_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
