/* Tests files that grow by appended pieces (rt_file_append, rt_file_access_create), directories
 * (rt_file_access_make_dir), and the descriptors that files may keep (rt_file_check_unreserved). */
#include "tests/support/test.h"

#include <fcntl.h>
#include <unistd.h>

#include "runtime/files/file.h"
#include "runtime/files/file_access.h"

static struct rt_span text(const char *s)
{
    return rt_span_of(s, strlen(s));
}

/* Fails when it has been called *arg times. */
static enum rt_status count_down(void *arg, struct rt_error *err)
{
    int *left = arg;

    return (*left)-- > 0 ? RT_OK : rt_fail(err, RT_CANCELLED, "the run has been cancelled");
}

static void pieces_are_appended_whole_or_not_at_all(void **state)
{
    char name[] = "/tmp/slipway-append-XXXXXX", *read = NULL;
    const int fd = mkostemp(name, O_APPEND | O_CLOEXEC);
    const struct rt_span first[] = {text("one "), text(""), text("two")}, more = text(" three");
    struct rt_error err = {0};
    int64_t size = 0;
    size_t n;

    (void)state;
    assert_true(fd >= 0);
    assert_ok(rt_file_append(fd, name, &size, first, 3, NULL, &err), &err);
    assert_int_equal(size, 7);
    for (int calls = 0; calls < 2; calls++) {
        int left = calls;
        const struct rt_check check = {count_down, &left};
        const struct rt_span two[] = {more, more};
        assert_int_equal(rt_file_append(fd, name, &size, two, 2, &check, &err), RT_CANCELLED);
        assert_int_equal(size, 7);
        err = (struct rt_error){0};
    }
    assert_ok(rt_file_append(fd, name, &size, &more, 1, NULL, &err), &err);
    assert_int_equal(size, 13);
    assert_ok(rt_file_read(name, 100, &read, &n, &err), &err);
    assert_string_equal(read, "one two three");
    free(read);
    close(fd);
    unlink(name);
}

static void a_closed_descriptor_is_an_error(void **state)
{
    const struct rt_span piece = text("x");
    struct rt_error err = {0};
    int64_t size = 0;

    (void)state;
    assert_int_not_equal(rt_file_append(-1, "a file", &size, &piece, 1, NULL, &err), RT_OK);
    assert_non_null(strstr(err.msg, "a file"));
    assert_int_equal(size, 0);
}

static void a_file_is_created_once_below_permitted_directories_alone(void **state)
{
    char dir[] = "/tmp/slipway-create-XXXXXX", deep[64], name[96];
    struct rt_error err = {0};
    int fd, again;

    (void)state;
    assert_non_null(mkdtemp(dir));
    const struct rt_file_access none = {.read_dirs = dir}, one = {.write_dirs = dir};
    snprintf(deep, sizeof deep, "%s/a/b", dir);
    assert_int_equal(rt_file_access_create(&none, text(deep), "f", &fd, &err),
                     RT_PERMISSION_DENIED);
    assert_non_null(strstr(err.msg, "--model_write_directories"));
    assert_int_equal(fd, -1);
    assert_int_equal(access(deep, F_OK), -1);
    err = (struct rt_error){0};
    assert_ok(rt_file_access_create(&one, text(deep), "f", &fd, &err), &err);
    assert_true(fd >= 0);
    assert_int_equal(rt_file_access_create(&one, text(deep), "f", &again, &err), RT_ALREADY_EXISTS);
    err = (struct rt_error){0};
    assert_int_equal(rt_file_access_create(&one, text(deep), "../f", &again, &err), RT_NOT_FOUND);
    err = (struct rt_error){0};
    close(fd);
    snprintf(name, sizeof name, "%s/a/b/f", dir);
    assert_int_equal(rt_file_access_create(&one, text(name), "g", &again, &err),
                     RT_FAILED_PRECONDITION);
    unlink(name);
    rmdir(deep);
    snprintf(name, sizeof name, "%s/a", dir);
    rmdir(name);
    rmdir(dir);
}

static void directories_are_made_below_permitted_ones_alone(void **state)
{
    char dir[] = "/tmp/slipway-make-XXXXXX", deep[64], name[96];
    struct rt_error err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    const struct rt_file_access one = {.write_dirs = dir};
    snprintf(deep, sizeof deep, "%s/a/b", dir);
    for (int i = 0; i < 2; i++) { /* the second time, it is there */
        assert_ok(rt_file_access_make_dir(&one, text(deep), &err), &err);
        assert_int_equal(access(deep, F_OK), 0);
    }
    assert_ok(rt_file_access_make_dir(&one, text(dir), &err), &err);
    assert_int_equal(rt_file_access_make_dir(&one, text("/tmp/slipway-other"), &err),
                     RT_PERMISSION_DENIED);
    err = (struct rt_error){0};
    snprintf(name, sizeof name, "%s/a/link", dir);
    assert_int_equal(symlink("/tmp", name), 0);
    assert_int_equal(rt_file_access_make_dir(&one, text(name), &err), RT_PERMISSION_DENIED);
    assert_non_null(strstr(err.msg, "symbolic links"));
    unlink(name);
    rmdir(deep);
    snprintf(name, sizeof name, "%s/a", dir);
    rmdir(name);
    rmdir(dir);
}

static void a_reserved_descriptor_is_refused(void **state)
{
    const int n = rt_file_unreserved(rt_file_limit());
    struct rt_error err = {0};

    (void)state;
    assert_ok(rt_file_check_unreserved(n - 1, "an event file", &err), &err);
    assert_fails(rt_file_check_unreserved(n, "an event file", &err), RT_RESOURCE_EXHAUSTED, &err,
                 "the limit of open files leaves no descriptor for an event file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_appended_whole_or_not_at_all),
        cmocka_unit_test(a_closed_descriptor_is_an_error),
        cmocka_unit_test(a_file_is_created_once_below_permitted_directories_alone),
        cmocka_unit_test(directories_are_made_below_permitted_ones_alone),
        cmocka_unit_test(a_reserved_descriptor_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
