/* Tests versions whose files appear, change and disappear while the manager watches their
 * folder. */
#include "tests/unit/versions/manager_fixture.h"

#include <stdio.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "server/versions/source.h"
#include "tests/support/folder.h"

/* While this is true, every fingerprint differs from the one before, as if a file had changed. */
static _Atomic bool all_files_change;

/* Lists directories for the manager. While `holds` is true, a listing waits until the manager is
 * stopping. `n_held` is the number of listings that began while `holds` was true. */
struct lists {
    _Atomic bool holds;
    atomic_int n_held;
};
static struct lists looks, scans;

static void wait_if_held(struct lists *lists)
{
    const int64_t end = rt_now_ns() + MF_SAFETY_LIMIT_MS * INT64_C(1000000);

    if (!atomic_load(&lists->holds))
        return;
    atomic_fetch_add(&lists->n_held, 1);
    while (srv_is_ready(fixture.manager) && rt_now_ns() < end)
        usleep(1000);
}

enum rt_status __real_srv_source_scan(const struct srv_model_config *m, int max_names,
                                      struct rt_arena *arena, struct srv_scan *out,
                                      struct rt_error *err);
enum rt_status __wrap_srv_source_scan(const struct srv_model_config *m, int max_names,
                                      struct rt_arena *arena, struct srv_scan *out,
                                      struct rt_error *err);

enum rt_status __wrap_srv_source_scan(const struct srv_model_config *m, int max_names,
                                      struct rt_arena *arena, struct srv_scan *out,
                                      struct rt_error *err)
{
    wait_if_held(&scans);
    return __real_srv_source_scan(m, max_names, arena, out, err);
}

enum rt_status __real_srv_source_fingerprint(const char *dir, const struct rt_check *check,
                                             struct srv_fingerprint *out, struct rt_error *err);
enum rt_status __wrap_srv_source_fingerprint(const char *dir, const struct rt_check *check,
                                             struct srv_fingerprint *out, struct rt_error *err);

enum rt_status __wrap_srv_source_fingerprint(const char *dir, const struct rt_check *check,
                                             struct srv_fingerprint *out, struct rt_error *err)
{
    static _Atomic uint64_t n_changes;
    wait_if_held(&looks);
    const enum rt_status st = __real_srv_source_fingerprint(dir, check, out, err);

    if (atomic_load(&all_files_change)) {
        out->a += 1 + atomic_fetch_add(&n_changes, 1);
        out->newest_ns = INT64_MAX;
    }
    return st;
}

static void a_half_written_version_is_waited_for(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    folder_make("m/2");
    /* A file is added every 250 ms, so the version is never unchanged for a second, unless this
     * program gets no processor for so long. */
    bool was_steady = true;
    for (int i = 0; i < 8; i++) {
        const int64_t start_ns = rt_now_ns();
        char name[64];
        snprintf(name, sizeof name, "m/2/part%d", i);
        folder_write(name, "x");
        usleep(250000);
        was_steady = was_steady && rt_now_ns() - start_ns < 900000000;
    }
    if (was_steady)
        assert_int_equal(mf_state_of("m", 2, NULL, 0), SRV_START);
    folder_write("m/2/saved_model.pb", "ok");
    assert_true(mf_comes_to("m", 2, SRV_AVAILABLE));
    if (was_steady)
        assert_int_equal(atomic_load(&fixture.n_loads), 2);
}

static void files_that_change_during_a_load_are_loaded_again(void **state)
{
    (void)state;
    atomic_store(&fixture.load_held, true);
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_LOADING));
    folder_write("m/1/variables/new", "x");
    atomic_store(&fixture.load_held, false);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    assert_int_equal(atomic_load(&fixture.n_loads), 2);
    assert_int_equal(atomic_load(&fixture.n_freed), 1);
}

static void wait_for_loads(int n)
{
    const int64_t end = rt_now_ns() + MF_SAFETY_LIMIT_MS * INT64_C(1000000);
    while (atomic_load(&fixture.n_loads) < n && rt_now_ns() < end)
        usleep(5000);
    assert_int_equal(atomic_load(&fixture.n_loads), n);
}

static void a_version_that_writes_into_its_own_directory_fails_with_a_reason(void **state)
{
    (void)state;
    const int64_t end = rt_now_ns() + MF_SAFETY_LIMIT_MS * INT64_C(1000000);
    char text[2048] = "";
    mf_add_version("m/1", "writer");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    for (bool seen = false; !seen && rt_now_ns() < end; usleep(5000))
        seen = mf_state_of("m", 1, text, sizeof text) == SRV_START && *text;
    assert_non_null(strstr(text, "m/1 changed while the version was being loaded; it is loaded "
                                 "again when they have come to rest"));
    assert_true(mf_comes_to("m", 1, SRV_END));
    mf_state_of("m", 1, text, sizeof text);
    assert_non_null(strstr(text, "m/1 changed while the version was being loaded, as in each of 4 "
                                 "loads: the model itself or another program writes there"));
    assert_int_equal(atomic_load(&fixture.n_loads), 4);
    /* The manager retries the failed load only when a file has changed. */
    usleep(1500000);
    assert_int_equal(atomic_load(&fixture.n_loads), 4);
    folder_write("m/1/by_another", "x");
    wait_for_loads(5);
    assert_true(mf_comes_to("m", 1, SRV_END));
    folder_write("m/1/saved_model.pb", "ok");
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    assert_int_equal(atomic_load(&fixture.n_loads), 6);
}

static void the_status_says_that_the_files_of_a_version_are_still_changing(void **state)
{
    (void)state;
    const int64_t end = rt_now_ns() + MF_SAFETY_LIMIT_MS * INT64_C(1000000);
    char text[2048] = "";
    mf_add_version("m/1", "ok");
    atomic_store(&all_files_change, true);
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    for (; !*text && rt_now_ns() < end; usleep(5000)) {
        const enum srv_state s = mf_state_of("m", 1, text, sizeof text);
        assert_true(!s || s == SRV_START); /* 0 until the version has been found */
    }
    atomic_store(&all_files_change, false);
    assert_non_null(strstr(text, "m/1 are still changing"));
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    mf_state_of("m", 1, text, sizeof text);
    assert_string_equal(text, "");
}

static void an_overwritten_version_is_told_and_not_reloaded(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    folder_write("m/1/saved_model.pb", "bad");
    int64_t end = rt_now_ns() + MF_SAFETY_LIMIT_MS * INT64_C(1000000);
    while (!atomic_load(&fixture.n_events) && rt_now_ns() < end)
        usleep(10000);
    usleep(1200000);
    assert_int_equal(atomic_load(&fixture.n_events), 1);
    assert_int_equal(mf_state_of("m", 1, NULL, 0), SRV_AVAILABLE);
    assert_int_equal(atomic_load(&fixture.n_loads), 1);
}

static void a_folder_of_models_may_grow_and_shrink(void **state)
{
    (void)state;
    mf_add_version("models/a/1", "ok");
    folder_make("models/.hidden/1");
    folder_write("models/make.py", "x");
    assert_ok(MF_START(mf_flag("models", "models")), &fixture.err);
    assert_true(mf_comes_to("a", 1, SRV_AVAILABLE));
    mf_add_version("models/b/7", "ok");
    assert_true(mf_comes_to("b", 7, SRV_AVAILABLE));
    folder_delete("models/a");
    assert_true(mf_comes_to("a", 1, SRV_END));
    assert_true(srv_model_is_ready(fixture.manager, rt_span_str("b")));
    assert_false(srv_model_is_ready(fixture.manager, rt_span_str("a")));
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    const char *const *names;
    int n;
    assert_int_equal(srv_status_models(fixture.manager, false, arena, &names, &n), RT_OK);
    assert_int_equal(n, 2);
    assert_string_equal(names[0], "a");
    rt_arena_free(arena);
}

static void a_base_path_that_vanishes_changes_nothing(void **state)
{
    (void)state;
    mf_add_version("m/1", "ok");
    assert_ok(MF_START("--model_name=m", mf_flag("model_base_path", "m")), &fixture.err);
    assert_true(mf_comes_to("m", 1, SRV_AVAILABLE));
    folder_rename("m", "gone");
    usleep(1500000);
    assert_int_equal(mf_state_of("m", 1, NULL, 0), SRV_AVAILABLE);
    folder_rename("gone", "m");
    folder_delete("m/1");
    assert_true(mf_comes_to("m", 1, SRV_END));
}

/* Stops the manager while it lists the directory of one of several models. */
static void stop_during(struct lists *lists)
{
    char dir[32];
    for (int i = 0; i < 8; i++) {
        snprintf(dir, sizeof dir, "models/m%d/1", i);
        mf_add_version(dir, "ok");
    }
    assert_ok(MF_START(mf_flag("models", "models"), "--file_system_poll_wait_seconds=1"),
              &fixture.err);
    for (int i = 0; i < 8; i++) {
        snprintf(dir, sizeof dir, "m%d", i);
        assert_true(mf_comes_to(dir, 1, SRV_AVAILABLE));
    }
    atomic_store(&lists->n_held, 0);
    atomic_store(&lists->holds, true);
    assert_true(mf_comes_above_0(&lists->n_held));
    srv_manager_stop(fixture.manager);
    atomic_store(&lists->holds, false);
    fixture.manager = NULL;
    mf_stop_io_loops();
    srv_manager_free(fixture.server.manager);
    assert_int_equal(atomic_load(&lists->n_held), 1);
}

static void a_stop_does_not_wait_until_all_base_paths_are_scanned(void **state)
{
    (void)state;
    stop_during(&scans);
}

static void a_stop_does_not_wait_until_all_versions_are_listed(void **state)
{
    (void)state;
    stop_during(&looks);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, mf_set_up, mf_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_half_written_version_is_waited_for),
        TEST(files_that_change_during_a_load_are_loaded_again),
        TEST(a_version_that_writes_into_its_own_directory_fails_with_a_reason),
        TEST(the_status_says_that_the_files_of_a_version_are_still_changing),
        TEST(an_overwritten_version_is_told_and_not_reloaded),
        TEST(a_folder_of_models_may_grow_and_shrink),
        TEST(a_base_path_that_vanishes_changes_nothing),
        TEST(a_stop_does_not_wait_until_all_base_paths_are_scanned),
        TEST(a_stop_does_not_wait_until_all_versions_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
