/* Tests that writing a checkpoint of format version 1 produces the same file as TensorFlow. */
#include "tests/unit/files/checkpoint_fixture.h"

#include <dirent.h>
#include <string.h>

#include "runtime/core/pool.h"
#include "runtime/files/checkpoint_v1.h"
#include "runtime/files/checkpoint_v1_write.h"
#include "runtime/files/file.h"

#define V1 "tests/goldens/checkpoint/v1"

enum { MOST = 32 };

static int n_files(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;

    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void make_folder(char buffer[300], const char *name)
{
    struct rt_error err = {0};

    snprintf(buffer, 300, "%s", folder_path(name));
    assert_ok(rt_file_make_dirs(buffer, &err), &err);
}

static void what_is_written_is_what_tensorflow_writes(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint_v1 *c;
    struct rt_tensor t[MOST];
    const char *names[MOST];
    char folder[300], path[400], *a, *b;
    size_t na, nb;

    make_folder(folder, "same");
    snprintf(path, sizeof path, "%s/saved", folder);
    assert_ok(rt_checkpoint_v1_open(&c, V1, NULL, &err), &err);
    const int n = rt_checkpoint_v1_count(c);
    assert_in_range(n, 5, MOST);
    for (int i = 0; i < n; i++) {
        /* The order of the tensors does not matter. */
        names[i] = rt_checkpoint_v1_name(c, n - 1 - i);
        assert_ok(rt_checkpoint_v1_tensor(c, names[i], CK_WHOLE, RT_NO_DTYPE, NULL, &t[i], &err),
                  &err);
    }
    assert_ok(rt_checkpoint_v1_write(path, n, names, t, NULL, NULL, &err), &err);
    assert_ok(rt_file_read(V1, 1 << 20, &a, &na, &err), &err);
    assert_ok(rt_file_read(path, 1 << 20, &b, &nb, &err), &err);
    assert_int_equal(na, nb);
    assert_memory_equal(a, b, na);
    assert_int_equal(n_files(folder), 1);
    free(a);
    free(b);
    for (int i = 0; i < n; i++)
        rt_tensor_clear(&t[i]);
    rt_checkpoint_v1_close(c);
}

/* The file has several blocks, of which some are larger than what is written at once. */
static void large_tensors_are_read_as_they_were_written(void **state)
{
    (void)state;
    enum { N = 5, COUNT = 700000 };
    struct rt_error err = {0};
    struct rt_checkpoint_v1 *c;
    struct rt_tensor t[N], got;
    static const char *const names[N] = {"a", "w", "w", "s", ""};
    static const enum rt_dtype types[N] = {RT_F64, RT_I32, RT_I32, RT_STRING, RT_I8};
    const char *cuts[N] = {"", "1400000 0,700000", "1400000 700000,700000", "", ""};
    struct rt_span slices[N];
    char folder[300], path[400];

    make_folder(folder, "large");
    snprintf(path, sizeof path, "%s/saved", folder);
    for (int k = 0; k < N; k++) {
        assert_ok(rt_tensor_new(&t[k], NULL, types[k], 1, (int64_t[]){COUNT}, &err), &err);
        slices[k] = rt_span_str(cuts[k]);
        for (int i = 0; i < COUNT; i++) {
            char text[32];
            if (types[k] == RT_F64)
                ((double *)t[k].data)[i] = i / 3.0;
            else if (types[k] == RT_I32)
                ((int32_t *)t[k].data)[i] = (i - 350000) * (k + 1);
            else if (types[k] == RT_I8)
                ((int8_t *)t[k].data)[i] = (int8_t)i;
            else
                assert_true(rt_str_set((struct rt_str *)t[k].data + i, NULL, text,
                                       (size_t)snprintf(text, sizeof text, "text %d", i), &err));
        }
    }
    assert_ok(rt_checkpoint_v1_write(path, N, names, t, slices, NULL, &err), &err);
    assert_ok(rt_checkpoint_v1_open(&c, path, NULL, &err), &err);
    assert_int_equal(rt_checkpoint_v1_count(c), N - 1);
    for (int k = 0; k < N; k++) {
        assert_ok(rt_checkpoint_v1_tensor(c, names[k], slices[k], types[k], NULL, &got, &err),
                  &err);
        assert_int_equal(rt_tensor_count(&got), COUNT);
        if (types[k] != RT_STRING)
            assert_memory_equal(got.data, t[k].data, rt_tensor_bytes(&got));
        for (int i = 0; types[k] == RT_STRING && i < COUNT; i++)
            assert_string_equal(rt_str_data((struct rt_str *)got.data + i),
                                rt_str_data((struct rt_str *)t[k].data + i));
        rt_tensor_clear(&got);
        rt_tensor_clear(&t[k]);
    }
    rt_checkpoint_v1_close(c);
}

static enum rt_status count_down(void *arg, struct rt_error *err)
{
    int *left = arg;

    return (*left)-- > 0 ? RT_OK : rt_fail(err, RT_DEADLINE_EXCEEDED, "the run has ended");
}

static void a_run_that_ends_leaves_no_file(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    struct rt_error err = {0};
    struct rt_tensor t;
    static const char *const names[] = {"t"};
    char folder[300], path[400];
    int n_checks = 0;

    make_folder(folder, "ended");
    snprintf(path, sizeof path, "%s/saved", folder);
    assert_ok(rt_tensor_new(&t, NULL, RT_I64, 1, (int64_t[]){COUNT}, &err), &err);
    memset(t.data, 0xff, rt_tensor_bytes(&t));
    for (;; n_checks++) {
        int left = n_checks;
        const struct rt_checkpoint_run run = {count_down, &left, NULL};
        const enum rt_status st = rt_checkpoint_v1_write(path, 1, names, &t, NULL, &run, &err);
        if (!st)
            break;
        assert_fails(st, RT_DEADLINE_EXCEEDED, &err, "the run has ended");
        assert_int_equal(n_files(folder), 0);
    }
    assert_true(n_checks > 2 * COUNT / (1 << 14));
    rt_tensor_clear(&t);
}

/* A byte of -1 is encoded as ten bytes. */
static void the_size_of_encoded_values_is_limited(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20 };
    struct rt_error err = {0};
    struct rt_tensor t;
    struct rt_pool *pool = rt_pool_new(8 * COUNT);
    static const char *const names[] = {"t"};
    char folder[300], path[400];

    assert_non_null(pool);
    make_folder(folder, "encoded");
    snprintf(path, sizeof path, "%s/saved", folder);
    int left = 1 << 30;
    const struct rt_checkpoint_run counted = {count_down, &left, pool};
    assert_ok(rt_tensor_new(&t, NULL, RT_I8, 1, (int64_t[]){COUNT}, &err), &err);
    assert_ok(rt_checkpoint_v1_write(path, 1, names, &t, NULL, &counted, &err), &err);
    memset(t.data, 0xff, COUNT);
    assert_fails(rt_checkpoint_v1_write(path, 1, names, &t, NULL, &counted, &err),
                 RT_RESOURCE_EXHAUSTED, &err, "the values of a checkpoint");
    assert_int_equal(n_files(folder), 1);
    rt_tensor_clear(&t);
    rt_pool_unref(pool);
}

static void a_name_that_cannot_be_written_is_refused(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    static const char *const names[] = {"t"};
    static char path[5000];
    char folder[300];

    make_folder(folder, "names");
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 0, NULL, &err), &err);
    *(float *)t.data = 1;
    snprintf(path, sizeof path, "%s/none/saved", folder);
    assert_fails(rt_checkpoint_v1_write(path, 1, names, &t, NULL, NULL, &err), RT_NOT_FOUND, &err,
                 "No such file or directory");
    assert_fails(rt_checkpoint_v1_write("", 1, names, &t, NULL, NULL, &err), RT_NOT_FOUND, &err,
                 "No such file or directory");
    assert_fails(rt_checkpoint_v1_write(folder, 1, names, &t, NULL, NULL, &err),
                 RT_FAILED_PRECONDITION, &err, "Is a directory");
    memset(path, 'x', sizeof path - 1);
    assert_fails(rt_checkpoint_v1_write(path, 1, names, &t, NULL, NULL, &err), RT_INVALID_ARGUMENT,
                 &err, "xxx");
    assert_int_equal(n_files(folder), 0);
    rt_tensor_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_what_tensorflow_writes),
        cmocka_unit_test(large_tensors_are_read_as_they_were_written),
        cmocka_unit_test(a_run_that_ends_leaves_no_file),
        cmocka_unit_test(the_size_of_encoded_values_is_limited),
        cmocka_unit_test(a_name_that_cannot_be_written_is_refused),
    };
    return cmocka_run_group_tests(tests, ck_set_up, ck_tear_down);
}
