/* Tests loads that are cancelled because their version is no longer wanted or because the manager
 * stops. */
#include "tests/unit/versions/manager_fixture.h"

#include <unistd.h>

#include "runtime/base/clock.h"
#include "server/versions/loader.h"
#include "tests/support/folder.h"

static void a_load_ends_when_its_version_is_not_wanted_any_more(void **state)
{
    (void)state;
    char text[256];
    atomic_store(&fixture.load_held, true);
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    assert_true(mf_comes_above_0(&fixture.n_held));
    folder_delete("m/1");
    assert_true(mf_comes_to("m", 1, SRV_END));
    mf_state_of("m", 1, text, sizeof text);
    assert_string_equal(text, "this version was not wanted any more while it was loaded");
    assert_int_equal(atomic_load(&fixture.n_loaded), 0);
    atomic_store(&fixture.load_held, false);
    mf_add_version("m/1", "ok");
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
}

/* Asserts that "m", whose cancelled load has not ended yet, is loaded once more after the load has
 * ended. The manager handles models in the order of their names, so "m" has been handled again once
 * "z" is loading. */
static void expect_one_more_load_of_m(int n_others)
{
    assert_true(mf_comes_to("z", 1, SRV_LOADING));
    assert_int_equal(mf_state_of("m", 1, NULL, 0), SRV_LOADING);
    atomic_store(&fixture.load_held, false);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    assert_true(mf_comes_to("z", 1, SRV_AVAILABLE));
    assert_int_equal(atomic_load(&fixture.n_loads), 2 + n_others);
}

static void a_version_that_comes_back_while_its_load_is_cancelled_is_loaded_again(void **state)
{
    (void)state;
    atomic_store(&fixture.load_held, true);
    atomic_store(&fixture.load_deaf, true);
    mf_add_version("models/m/1", "ok");
    assert_ok(MF_START(mf_flag("models", "models")), &fixture.err);
    assert_true(mf_comes_above_0(&fixture.n_held));
    folder_delete("models/m/1");
    assert_true(mf_comes_above_0(&fixture.n_cancelled_loads));
    mf_add_version("models/m/1", "ok");
    mf_add_version("models/z/1", "ok");
    expect_one_more_load_of_m(1);
}

/* The loads of one model do not end and occupy all slots. The load of another model must begin
 * although no load ends to make way for it. */
static void loads_that_never_end_keep_no_other_model_waiting(void **state)
{
    (void)state;
    enum { N = 2 * SRV_LOAD_LEVELS };
    char dir[64], config[2048];
    atomic_store(&fixture.load_held, true);
    for (int i = 1; i <= N; i++) {
        snprintf(dir, sizeof dir, "many/%d", i);
        mf_add_version(dir, "ok");
    }
    folder_make("other");
    snprintf(config, sizeof config,
             "model_config_list { config { name: 'many' base_path: '%s' model_platform: "
             "'tensorflow' model_version_policy { all {} } } config { name: 'other' base_path: "
             "'%s' model_platform: 'tensorflow' } }\n",
             folder_path("many"), folder_path("other"));
    folder_write("models.config", config);
    assert_ok(MF_START(mf_flag("model_config_file", "models.config"), "--num_load_threads=1",
                       "--max_num_load_retries=0"),
              &fixture.err);
    assert_true(mf_comes_above_0(&fixture.n_held));
    mf_add_version("other/1", "counted");
    assert_true(mf_comes_above_0(&fixture.n_counted));
    assert_int_equal(mf_state_of("other", 1, NULL, 0), SRV_LOADING);
    for (int i = 1; i <= N; i++)
        assert_int_equal(mf_state_of("many", i, NULL, 0), SRV_LOADING);
}

/* The only load thread loads one version while two other versions wait for the thread. */
static void the_end_of_the_manager_waits_for_no_load(void **state)
{
    (void)state;
    atomic_store(&fixture.load_held, true);
    mf_add_version("models/a/1", "ok");
    mf_add_version("models/b/1", "ok");
    mf_add_version("models/c/1", "ok");
    assert_ok(MF_START(mf_flag("models", "models"), "--num_load_threads=1"), &fixture.err);
    assert_true(mf_comes_to("a", 1, SRV_LOADING));
    assert_true(mf_comes_to("b", 1, SRV_LOADING));
    assert_true(mf_comes_to("c", 1, SRV_LOADING));
    assert_true(mf_comes_above_0(&fixture.n_held));
    srv_manager_stop(fixture.manager);
    for (int i = 0; i < 3; i++) {
        char text[256];
        assert_int_equal(mf_state_of((const char[]){(char)('a' + i), '\0'}, 1, text, sizeof text),
                         SRV_END);
        assert_string_equal(text, "the server is stopping");
    }
    fixture.manager = NULL;
    mf_stop_io_loops();
    srv_manager_free(fixture.server.manager);
}

/* The unload threads have low priority, so the stop must not wait for them. */
static void a_manager_that_stops_frees_versions_on_its_own_thread(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    srv_manager_stop(fixture.manager);
    assert_int_equal(atomic_load(&fixture.n_freed), 1);
    assert_int_equal(atomic_load(&fixture.n_freed_by_manager), 1);
    assert_int_equal(mf_state_of("m", 1, NULL, 0), SRV_END);
    fixture.manager = NULL;
    mf_stop_io_loops();
    srv_manager_free(fixture.server.manager);
}

static void
a_model_that_is_configured_again_while_its_load_is_cancelled_is_loaded_again(void **state)
{
    (void)state;
    atomic_store(&fixture.load_held, true);
    atomic_store(&fixture.load_deaf, true);
    mf_add_version("m/1", "ok");
    mf_add_version("x/1", "ok");
    mf_add_version("z/1", "ok");
    MF_CONFIG("m");
    assert_ok(MF_START(mf_flag("model_config_file", "models.config")), &fixture.err);
    assert_true(mf_comes_above_0(&fixture.n_held));
    MF_CONFIG("x");
    srv_manager_reread(fixture.manager);
    assert_true(mf_comes_above_0(&fixture.n_cancelled_loads));
    MF_CONFIG("m", "x", "z");
    srv_manager_reread(fixture.manager);
    expect_one_more_load_of_m(2);
    assert_true(mf_comes_to("x", 1, SRV_AVAILABLE));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, mf_set_up, mf_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_load_ends_when_its_version_is_not_wanted_any_more),
        TEST(a_version_that_comes_back_while_its_load_is_cancelled_is_loaded_again),
        TEST(loads_that_never_end_keep_no_other_model_waiting),
        TEST(the_end_of_the_manager_waits_for_no_load),
        TEST(a_manager_that_stops_frees_versions_on_its_own_thread),
        TEST(a_model_that_is_configured_again_while_its_load_is_cancelled_is_loaded_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
