#include "tests/support/test.h"

#include <unistd.h>

#include "runtime/base/clock.h"
#include "server/versions/source.h"
#include "tests/support/folder.h"

static struct rt_arena *arena;
static struct rt_error err;
static struct srv_scan scan;

static int set_up(void **state)
{
    (void)state;
    folder_new();
    arena = rt_arena_new(SIZE_MAX);
    err = (struct rt_error){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    folder_remove();
    rt_arena_free(arena);
    return 0;
}

static struct srv_model_config config(enum srv_policy policy, int64_t n_latest)
{
    return (struct srv_model_config){
        .name = "m", .base_path = folder_path("m"), .policy = policy, .n_latest = n_latest};
}

static void latest_takes_the_highest_numbers(void **state)
{
    (void)state;
    folder_make("m/1");
    folder_make("m/20170111173521");
    folder_make("m/3");
    folder_make("m/temp");
    folder_make("m/4x");
    folder_make("m/-7");
    folder_make("m/.hidden");
    struct srv_model_config c = config(SRV_POLICY_LATEST, 1);
    assert_ok(srv_source_scan(&c, SRV_SCAN_MAX_NAMES, arena, &scan, &err), &err);
    assert_int_equal(scan.n, 1);
    assert_int_equal(scan.n_there, 3);
    assert_int_equal(scan.found[0].version, 20170111173521);
    c.n_latest = 2;
    assert_ok(srv_source_scan(&c, SRV_SCAN_MAX_NAMES, arena, &scan, &err), &err);
    assert_int_equal(scan.n, 2);
    assert_int_equal(scan.found[1].version, 3);
    c.policy = SRV_POLICY_ALL;
    assert_ok(srv_source_scan(&c, SRV_SCAN_MAX_NAMES, arena, &scan, &err), &err);
    assert_int_equal(scan.n, 3);
    assert_null(scan.warning);
}

static void leading_zeros_belong_to_the_name_only(void **state)
{
    (void)state;
    folder_make("m/00000123");
    struct srv_model_config c = config(SRV_POLICY_LATEST, 1);
    assert_ok(srv_source_scan(&c, SRV_SCAN_MAX_NAMES, arena, &scan, &err), &err);
    assert_int_equal(scan.found[0].version, 123);
    assert_string_equal(scan.found[0].name, "00000123");
    assert_null(scan.found[0].warning);
    folder_make("m/123");
    folder_make("m/0123");
    folder_make("m/2");
    c.n_latest = 5;
    assert_ok(srv_source_scan(&c, SRV_SCAN_MAX_NAMES, arena, &scan, &err), &err);
    assert_int_equal(scan.n, 2);
    assert_int_equal(scan.n_there, 2);
    assert_string_equal(scan.found[0].name, "00000123");
    assert_non_null(strstr(scan.found[0].warning, "3 directories are one version, 123; "));
    assert_non_null(strstr(scan.found[0].warning, "/00000123 is used, not 0123"));
    assert_null(scan.found[1].warning);
    assert_null(scan.warning);
}

static void specific_versions_that_are_missing_are_told(void **state)
{
    (void)state;
    folder_make("m/1");
    folder_make("m/2");
    static const int64_t want[] = {2, 7};
    struct srv_model_config c = config(SRV_POLICY_SPECIFIC, 0);
    c.specific = want;
    c.n_specific = 2;
    assert_ok(srv_source_scan(&c, SRV_SCAN_MAX_NAMES, arena, &scan, &err), &err);
    assert_int_equal(scan.n, 1);
    assert_int_equal(scan.found[0].version, 2);
    assert_non_null(strstr(scan.warning, "Version 7 of servable m"));
}

static void a_version_may_be_nested_as_in_tritons_repositories(void **state)
{
    (void)state;
    folder_make("m/1");
    folder_make("m/2/model.savedmodel");
    folder_make("m/3/model.savedmodel");
    folder_write("m/3/saved_model.pb", "");
    folder_make("m/4");
    folder_write("m/4/model.savedmodel", "");
    static const char *const expected[] = {"1", "2/model.savedmodel", "3", "4"};
    for (int i = 0; i < 4; i++) {
        const char name[] = {(char)('1' + i), '\0'};
        char want[4096];
        snprintf(want, sizeof want, "%s/%s", folder_path("m"), expected[i]);
        char *dir = srv_source_version_dir(folder_path("m"), name);
        assert_string_equal(dir, want);
        free(dir);
    }
}

static void a_base_path_has_a_limit_of_names(void **state)
{
    (void)state;
    folder_make("m/1");
    folder_make("m/junk");
    folder_make("m/2");
    struct srv_model_config c = config(SRV_POLICY_LATEST, 1);
    assert_ok(srv_source_scan(&c, 3, arena, &scan, &err), &err);
    assert_int_equal(scan.n_names, 3);
    assert_fails(srv_source_scan(&c, 2, arena, &scan, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "of servable m: more than 2 files and directories");
    assert_int_equal(scan.n_names, 3);
}

static void specific_versions_may_be_named_in_any_order(void **state)
{
    (void)state;
    folder_make("m/1");
    folder_make("m/2");
    folder_make("m/3");
    folder_make("m/4");
    static const int64_t want[] = {3, 1, 4, 3};
    struct srv_model_config c = config(SRV_POLICY_SPECIFIC, 0);
    c.specific = want;
    c.n_specific = 4;
    assert_ok(srv_source_scan(&c, SRV_SCAN_MAX_NAMES, arena, &scan, &err), &err);
    assert_int_equal(scan.n, 3);
    assert_int_equal(scan.found[0].version, 4);
    assert_int_equal(scan.found[1].version, 3);
    assert_int_equal(scan.found[2].version, 1);
    assert_null(scan.warning);
}

static void a_missing_base_path_is_not_an_empty_one(void **state)
{
    (void)state;
    struct srv_model_config c = config(SRV_POLICY_LATEST, 1);
    assert_fails(srv_source_scan(&c, SRV_SCAN_MAX_NAMES, arena, &scan, &err), RT_NOT_FOUND, &err,
                 "Could not find base path");
    folder_make("m");
    assert_ok(srv_source_scan(&c, SRV_SCAN_MAX_NAMES, arena, &scan, &err), &err);
    assert_int_equal(scan.n, 0);
}

static void a_fingerprint_changes_with_anything_below_the_directory(void **state)
{
    (void)state;
    struct srv_fingerprint a, b;
    folder_write("m/1/saved_model.pb", "x");
    folder_write("m/1/variables/variables.index", "yy");
    assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, &a, &err), &err);
    assert_int_equal(a.bytes, 3);
    assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, &b, &err), &err);
    assert_true(srv_fingerprint_eq(&a, &b));
    folder_write("m/1/variables/variables.index", "yyy");
    assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, &b, &err), &err);
    assert_false(srv_fingerprint_eq(&a, &b));
    a = b;
    folder_age("m/1/saved_model.pb", 100);
    assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, &b, &err), &err);
    assert_false(srv_fingerprint_eq(&a, &b));
    assert_fails(srv_source_fingerprint(folder_path("m/2"), NULL, &b, &err), RT_NOT_FOUND, &err,
                 "m/2");
}

static void a_link_to_nothing_is_seen_and_no_hindrance(void **state)
{
    (void)state;
    struct srv_fingerprint a, b;
    folder_write("m/1/saved_model.pb", "x");
    assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, &a, &err), &err);
    assert_int_equal(symlink("nowhere", folder_path("m/1/.#lock")), 0);
    assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, &b, &err), &err);
    assert_false(srv_fingerprint_eq(&a, &b));
    folder_write("m/1/nowhere", "y");
    assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, &a, &err), &err);
    assert_false(srv_fingerprint_eq(&a, &b));
    assert_int_equal(symlink("itself", folder_path("m/1/itself")), 0);
    assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, &b, &err), &err);
    /* A dangling link is not a version yet. */
    assert_int_equal(symlink("nowhere", folder_path("m/2")), 0);
    assert_fails(srv_source_fingerprint(folder_path("m/2"), NULL, &b, &err), RT_NOT_FOUND, &err,
                 "m/2");
}

static void a_fingerprint_sees_behind_links(void **state)
{
    (void)state;
    struct srv_fingerprint a, b;
    folder_write("data1/saved_model.pb", "x");
    folder_write("data2/saved_model.pb", "x");
    char target[512];
    snprintf(target, sizeof target, "%s", folder_path("data1"));
    folder_make("m");
    assert_int_equal(symlink(target, folder_path("m/1")), 0);
    assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, &a, &err), &err);
    folder_delete("m/1");
    snprintf(target, sizeof target, "%s", folder_path("data2"));
    assert_int_equal(symlink(target, folder_path("m/1")), 0);
    assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, &b, &err), &err);
    assert_false(srv_fingerprint_eq(&a, &b));
}

/* Computes the fingerprint of the version m/1. Returns the number of files and directories in the
 * version. */
static int64_t listed(struct srv_fingerprint *f)
{
    assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, f, &err), &err);
    return f->n_files;
}

static void links_to_directories_are_not_walked_into(void **state)
{
    (void)state;
    static const char *const targets[] = {".", "..", "/", "../2", "../../elsewhere"};
    struct srv_fingerprint f;
    folder_write("m/1/saved_model.pb", "x");
    folder_write("m/2/saved_model.pb", "x");
    folder_write("elsewhere/deep/file", "x");
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        assert_int_equal(symlink(targets[i], folder_path("m/1/link")), 0);
        assert_int_equal(listed(&f), 3);
        assert_int_equal(f.bytes, 1);
        assert_int_equal(unlink(folder_path("m/1/link")), 0);
    }
    char name[64], before[64] = ".";
    for (int i = 0; i < 45; i++) { /* a path may contain at most 40 links */
        snprintf(name, sizeof name, "m/1/link%d", i);
        assert_int_equal(symlink(before, folder_path(name)), 0);
        snprintf(before, sizeof before, "link%d", i);
    }
    assert_int_equal(listed(&f), 47);
}

static void kubernetes_links_are_seen_through(void **state)
{
    (void)state;
    struct srv_fingerprint a, b;
    folder_write("m/1/..2024/saved_model.pb", "x");
    folder_write("m/1/..2024/variables/variables.index", "y");
    assert_int_equal(symlink("..2024", folder_path("m/1/..data")), 0);
    assert_int_equal(symlink("..data/saved_model.pb", folder_path("m/1/saved_model.pb")), 0);
    assert_int_equal(symlink("..data/variables", folder_path("m/1/variables")), 0);
    listed(&a);
    folder_write("m/1/..2024/variables/variables.index", "yy");
    listed(&b);
    assert_false(srv_fingerprint_eq(&a, &b));
    folder_write("m/1/..2025/saved_model.pb", "x");
    folder_write("m/1/..2025/variables/variables.index", "yy");
    listed(&a);
    assert_int_equal(symlink("..2025", folder_path("m/1/..new")), 0);
    folder_rename("m/1/..new", "m/1/..data");
    listed(&b);
    assert_false(srv_fingerprint_eq(&a, &b));
    folder_write("v/..2024/1/saved_model.pb", "x");
    assert_int_equal(symlink("..2024", folder_path("v/..data")), 0);
    assert_int_equal(symlink("..data/1", folder_path("v/1")), 0);
    assert_ok(srv_source_fingerprint(folder_path("v/1"), NULL, &a, &err), &err);
    assert_int_equal(a.n_files, 2);
}

static void a_tree_that_is_too_large_or_too_deep_is_refused(void **state)
{
    (void)state;
    struct srv_fingerprint f;
    char path[200];
    for (int i = 0, n = snprintf(path, sizeof path, "m/1"); i < 40; i++)
        n += snprintf(path + n, sizeof path - (size_t)n, "/d");
    folder_make(path);
    assert_fails(srv_source_fingerprint(folder_path("m/1"), NULL, &f, &err), RT_INVALID_ARGUMENT,
                 &err, "deeper than 16 directories");
    folder_write("m/2/one", "");
    char first[512], next[512];
    snprintf(first, sizeof first, "%s", folder_path("m/2/one"));
    size_t n = strlen(first);
    for (int i = 0; i < 50000; i++) {
        snprintf(next, sizeof next, "%.*s%d", (int)n - 3, first, i);
        assert_int_equal(symlink("nowhere", next), 0);
    }
    assert_fails(srv_source_fingerprint(folder_path("m/2"), NULL, &f, &err), RT_INVALID_ARGUMENT,
                 &err, "m/2: more than 50000 files and directories");
}

static void files_are_stable_when_they_rest_or_are_old(void **state)
{
    (void)state;
    const int64_t s = 1000000000;
    struct srv_fingerprint f = {.newest_ns = 100 * s};
    assert_false(srv_source_is_stable(&f, 50 * s, 50 * s, 101 * s));
    assert_false(srv_source_is_stable(&f, 50 * s, 50 * s + s / 2, 102 * s));
    assert_true(srv_source_is_stable(&f, 50 * s, 51 * s, 102 * s));
    assert_true(srv_source_is_stable(&f, 50 * s, 50 * s, 104 * s));
    /* The modification time of the newest file is in the future. */
    assert_false(srv_source_is_stable(&f, 50 * s, 50 * s, 90 * s));
}

/* A check that succeeds *arg times and then reports that the listing is cancelled. */
static enum rt_status cancel_after(void *arg, struct rt_error *e)
{
    int *left = arg;
    return (*left)-- > 0 ? RT_OK : rt_fail(e, RT_CANCELLED, "the listing is cancelled");
}

static void a_listing_ends_when_its_check_fails(void **state)
{
    (void)state;
    enum { FILES = 4 * SRV_CHECK_FILES };
    char name[32];
    int left = 1000;
    const struct rt_check check = {cancel_after, &left};
    struct srv_fingerprint f, same;
    folder_make("m/1");
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "m/1/%d", i);
        folder_write(name, "");
    }
    assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, &same, &err), &err);
    assert_ok(srv_source_fingerprint(folder_path("m/1"), &check, &f, &err), &err);
    assert_true(srv_fingerprint_eq(&f, &same));
    assert_int_equal(left, 1000 - 4);
    for (int i = 0; i < 4; i++) {
        left = i;
        assert_fails(srv_source_fingerprint(folder_path("m/1"), &check, &f, &err), RT_CANCELLED,
                     &err, "the listing is cancelled");
    }
}

/* A check that takes as long as listing a directory on a slow file system. */
static enum rt_status sleep_once(void *arg, struct rt_error *e)
{
    bool *has_slept = arg;
    (void)e;
    if (!*has_slept)
        usleep(5100000);
    *has_slept = true;
    return RT_OK;
}

static void a_listing_may_take_long(void **state)
{
    (void)state;
    char name[32];
    bool has_slept = false;
    const struct rt_check check = {sleep_once, &has_slept};
    struct srv_fingerprint f;
    folder_make("m/1");
    for (int i = 0; i < 2 * SRV_CHECK_FILES; i++) {
        snprintf(name, sizeof name, "m/1/%d", i);
        folder_write(name, "");
    }
    assert_ok(srv_source_fingerprint(folder_path("m/1"), &check, &f, &err), &err);
    assert_true(has_slept);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(latest_takes_the_highest_numbers),
        TEST(leading_zeros_belong_to_the_name_only),
        TEST(specific_versions_that_are_missing_are_told),
        TEST(specific_versions_may_be_named_in_any_order),
        TEST(a_version_may_be_nested_as_in_tritons_repositories),
        TEST(a_base_path_has_a_limit_of_names),
        TEST(a_missing_base_path_is_not_an_empty_one),
        TEST(a_fingerprint_changes_with_anything_below_the_directory),
        TEST(a_link_to_nothing_is_seen_and_no_hindrance),
        TEST(a_fingerprint_sees_behind_links),
        TEST(links_to_directories_are_not_walked_into),
        TEST(kubernetes_links_are_seen_through),
        TEST(a_tree_that_is_too_large_or_too_deep_is_refused),
        TEST(a_listing_ends_when_its_check_fails),
        TEST(a_listing_may_take_long),
        TEST(files_are_stable_when_they_rest_or_are_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
