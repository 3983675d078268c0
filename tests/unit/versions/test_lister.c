/* Tests that directories are listed on the lister's thread. */
#include "tests/support/test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "server/versions/lister.h"
#include "tests/support/folder.h"

static struct srv_lister *lister;
static atomic_int n_done;

static void done(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static int set_up(void **state)
{
    (void)state;
    folder_new();
    folder_make("m/1");
    folder_write("m/1/saved_model.pb", "x");
    atomic_store(&n_done, 0);
    lister = srv_lister_new(done, &n_done);
    assert_non_null(lister);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    srv_lister_free(lister);
    folder_remove();
    return 0;
}

static void list(const char *path, struct srv_listing *out)
{
    const int before = atomic_load(&n_done);
    assert_true(srv_lister_begin(lister, "m", 7, folder_path(path)));
    assert_non_null(srv_lister_current(lister));
    while (atomic_load(&n_done) == before)
        usleep(1000);
    assert_true(srv_lister_take(lister, out));
    assert_null(srv_lister_current(lister));
}

static void a_listing_gives_the_fingerprint(void **state)
{
    (void)state;
    struct srv_listing g;
    struct srv_fingerprint f;
    struct rt_error err = {0};
    assert_null(srv_lister_current(lister));
    assert_false(srv_lister_take(lister, &g));
    for (int i = 0; i < 3; i++) {
        list("m/1", &g);
        assert_ok(g.status, &g.err);
        assert_ok(srv_source_fingerprint(folder_path("m/1"), NULL, &f, &err), &err);
        assert_true(srv_fingerprint_eq(&f, &g.seen));
        assert_string_equal(g.model, "m");
        assert_string_equal(g.dir, folder_path("m/1"));
        assert_int_equal(g.version, 7);
        srv_listing_clear(&g);
    }
}

static void a_listing_that_fails_says_why(void **state)
{
    (void)state;
    struct srv_listing g;
    list("m/2", &g);
    assert_fails(g.status, RT_NOT_FOUND, &g.err, "m/2: No such file or directory");
    srv_listing_clear(&g);
}

/* The lister may be freed before, while and after it lists. */
static void a_listing_that_is_not_taken_is_freed(void **state)
{
    (void)state;
    assert_true(srv_lister_begin(lister, "m", 7, folder_path("m/1")));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_listing_gives_the_fingerprint),
        TEST(a_listing_that_fails_says_why),
        TEST(a_listing_that_is_not_taken_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
