#include "tests/support/test.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/checkpoint_v1.h"
#include "runtime/files/file.h"
#include "tests/support/folder.h"

/* tests/goldens/checkpoint/make_v1.py wrote the files with TensorFlow 2.21 and read them back. */
#define GOLDEN "tests/goldens/checkpoint/"
#define WHOLE  rt_span_of(NULL, 0)

static struct rt_error err;

static struct rt_checkpoint_v1 *opened(const char *pattern)
{
    struct rt_checkpoint_v1 *c;
    assert_ok(rt_checkpoint_v1_open(&c, pattern, NULL, &err), &err);
    return c;
}

static void holds(const struct rt_checkpoint_v1 *c, const char *name, enum rt_dtype dtype,
                  const void *bytes, size_t n)
{
    struct rt_tensor t;
    assert_ok(rt_checkpoint_v1_tensor(c, name, WHOLE, dtype, NULL, &t, &err), &err);
    assert_int_equal(rt_tensor_bytes(&t), n);
    if (n)
        assert_memory_equal(t.data, bytes, n);
    rt_tensor_clear(&t);
}

static void every_type_that_the_first_format_has_is_read(void **state)
{
    (void)state;
    static const char *const files[] = {GOLDEN "v1", GOLDEN "v1-snappy"};
    for (int i = 0; i < 2; i++) {
        struct rt_checkpoint_v1 *c = opened(files[i]);
        struct rt_tensor t;
        assert_int_equal(rt_checkpoint_v1_count(c), 11);
        assert_string_equal(rt_checkpoint_v1_name(c, 0), "bool"); /* tensors are sorted by name */
        holds(c, "f32", RT_F32, ((float[]){0, 1, 2, 3, 4, 5}), 24);
        holds(c, "f64", RT_F64, ((double[]){1.5, -2}), 16);
        holds(c, "i8", RT_I8, "\xff\x02", 2);
        holds(c, "i32", RT_I32, ((int32_t[]){-7}), 4);
        holds(c, "i64", RT_I64, ((int64_t[]){INT64_C(1) << 62, -1}), 16);
        holds(c, "u8", RT_U8, "\xff", 1);
        holds(c, "half", RT_F16, ((uint16_t[]){0x3c00, 0x4000}), 4);
        holds(c, "bool", RT_BOOL, "\1\0", 2);
        holds(c, "c64", RT_C64, ((float[]){1, 2}), 8);
        holds(c, "empty", RT_F32, "", 0);
        assert_ok(rt_checkpoint_v1_tensor(c, "str", WHOLE, RT_STRING, NULL, &t, &err), &err);
        assert_true(t.rank == 1 && t.dim[0] == 3);
        assert_string_equal(rt_str_data(&rt_strs(&t)[1]), "abc");
        assert_int_equal(rt_strs(&t)[2].n, 300);
        rt_tensor_clear(&t);
        rt_checkpoint_v1_close(c);
    }
}

static void slices_in_several_files_come_together(void **state)
{
    (void)state;
    struct rt_checkpoint_v1 *c = opened(GOLDEN "v1-0000?-of-0000[2]");
    struct rt_tensor t;
    float all[40];
    for (int i = 0; i < 40; i++)
        all[i] = (float)i;
    holds(c, "w", RT_F32, all, sizeof all);
    holds(c, "b", RT_F32, ((float[]){1}), 4);
    assert_ok(rt_checkpoint_v1_tensor(c, "w", rt_span_str("5 8 1,2:2,3"), RT_F32, NULL, &t, &err),
              &err);
    assert_memory_equal(t.data, ((float[]){10, 11, 12, 18, 19, 20}), 24);
    rt_tensor_clear(&t);
    rt_checkpoint_v1_close(c);
    /* The second of the checkpoint's two files is missing. */
    c = opened(GOLDEN "v1-00000-of-00002");
    assert_fails(rt_checkpoint_v1_tensor(c, "w", WHOLE, RT_F32, NULL, &t, &err),
                 RT_INVALID_ARGUMENT, &err,
                 "Does not have sufficient slices for partitioned tensor w");
    rt_checkpoint_v1_close(c);
}

static void wishes_that_cannot_be_met_get_tensorflows_words(void **state)
{
    (void)state;
    struct rt_checkpoint_v1 *c = opened(GOLDEN "v1");
    struct rt_tensor t;
    assert_fails(rt_checkpoint_v1_tensor(c, "nope", WHOLE, RT_F32, NULL, &t, &err), RT_NOT_FOUND,
                 &err, "Tensor name \"nope\" not found in checkpoint files " GOLDEN "v1");
    assert_fails(rt_checkpoint_v1_tensor(c, "f32", WHOLE, RT_F64, NULL, &t, &err),
                 RT_INVALID_ARGUMENT, &err,
                 "Expected to restore a tensor of type double, got a tensor of type float instead: "
                 "tensor_name = f32");
    assert_fails(
        rt_checkpoint_v1_tensor(c, "f32", rt_span_str("2 4 1,1:-"), RT_F32, NULL, &t, &err),
        RT_INVALID_ARGUMENT, &err,
        "Shape in shape_and_slice spec does not match the shape in the save file: [2,4], "
        "save file shape: [2,3]");
    assert_fails(rt_checkpoint_v1_tensor(c, "str", rt_span_str("3 1,1"), RT_STRING, NULL, &t, &err),
                 RT_UNIMPLEMENTED, &err, "a part of strings");
    rt_checkpoint_v1_close(c);
    static const char *const nothing[] = {GOLDEN "none", GOLDEN "none*", "no/such/folder/*"};
    for (int i = 0; i < 3; i++)
        assert_fails(rt_checkpoint_v1_open(&c, nothing[i], NULL, &err), RT_NOT_FOUND, &err,
                     "Unsuccessful TensorSliceReader constructor: Failed to find any matching "
                     "files for ");
    assert_fails(rt_checkpoint_v1_open(&c, GOLDEN "make_v1.py", NULL, &err), RT_DATA_LOSS, &err,
                 "not an sstable (bad magic number)");
    assert_fails(rt_checkpoint_v1_open(&c, GOLDEN "plain.index", NULL, &err), RT_DATA_LOSS, &err,
                 "Unable to open table file ");
    folder_new();
    assert_int_equal(mkfifo(folder_path("fifo"), 0600), 0);
    assert_fails(rt_checkpoint_v1_open(&c, folder_path("fifo"), NULL, &err), RT_FAILED_PRECONDITION,
                 &err, "is a FIFO, not a regular file");
    folder_remove();
}

static void copy_file(const char *from, const char *to)
{
    char *p;
    size_t n;
    assert_ok(rt_file_read(from, 1 << 20, &p, &n, &err), &err);
    FILE *f = fopen(to, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(p);
}

/* A checkpoint may have more files than the process may have open at the same time, because each
 * file is open only while it is read. */
static void many_files_need_few_descriptors(void **state)
{
    enum { FILES = 100, DESCRIPTORS = 30 };
    struct rlimit before, few;
    struct rt_tensor t;
    char name[32];
    (void)state;
    folder_new();
    /* All files have the same tensors, which are read from the first file. */
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "v1-%03d", i);
        copy_file(GOLDEN "v1-00000-of-00002", folder_path(name));
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = DESCRIPTORS;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    char pattern[256];
    snprintf(pattern, sizeof pattern, "%s", folder_path("v1-*"));
    struct rt_checkpoint_v1 *c = NULL;
    const enum rt_status st = rt_checkpoint_v1_open(&c, pattern, NULL, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_ok(st, &err);
    assert_true(rt_checkpoint_v1_count(c) >= FILES);
    rt_checkpoint_v1_close(c);

    /* An open checkpoint is shared until one of its files changes. Then the checkpoint is read
     * again. */
    snprintf(pattern, sizeof pattern, "%s", folder_path("v1-000"));
    c = opened(pattern);
    struct rt_checkpoint_v1 *again = opened(pattern);
    assert_ptr_equal(c, again);
    rt_checkpoint_v1_close(again);
    copy_file(GOLDEN "v1", folder_path("v1-000"));
    assert_fails(
        rt_checkpoint_v1_tensor(c, rt_checkpoint_v1_name(c, 0), WHOLE, RT_NO_DTYPE, NULL, &t, &err),
        RT_DATA_LOSS, &err, "was changed while it was read");
    again = opened(pattern);
    assert_ptr_not_equal(c, again);
    assert_int_equal(rt_checkpoint_v1_count(again), 11);
    rt_checkpoint_v1_close(again);
    rt_checkpoint_v1_close(c);
    rt_checkpoint_v1_forget();
    folder_remove();
}

static void a_directory_that_cannot_be_read_is_no_missing_file(void **state)
{
    struct rlimit before, none;
    struct rt_checkpoint_v1 *c;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    rt_checkpoint_v1_forget();
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const enum rt_status listed = rt_checkpoint_v1_open(&c, GOLDEN "v1*", NULL, &err);
    const enum rt_status open = rt_checkpoint_v1_open(&c, GOLDEN "v1", NULL, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(listed, RT_RESOURCE_EXHAUSTED);
    assert_int_equal(open, RT_RESOURCE_EXHAUSTED);
    /* A name that is too long for the file system is not reported as a missing file. */
    char pattern[400];
    snprintf(pattern, sizeof pattern, GOLDEN "%0280d", 0);
    assert_fails(rt_checkpoint_v1_open(&c, pattern, NULL, &err), RT_FAILED_PRECONDITION, &err,
                 "File name too long");
}

/* A checksum reveals any damage to a file, except in bytes that are never read. */
static void flipped_bits_and_missing_bytes_are_refused(void **state)
{
    (void)state;
    static const char *const files[] = {GOLDEN "v1", GOLDEN "v1-snappy"};
    for (int i = 0; i < 2; i++) {
        char *p;
        size_t n;
        int unnoticed = 0;
        assert_ok(rt_file_read(files[i], 1 << 20, &p, &n, &err), &err);
        for (size_t bit = 0; bit < n * 8; bit += 7) {
            const struct rt_sstable_source from = {.size = n, .p = (unsigned char *)p};
            struct rt_checkpoint_v1 *c;
            struct rt_tensor t;
            bool noticed = false;
            p[bit / 8] ^= (char)(1 << bit % 8);
            noticed = rt_checkpoint_v1_over(&c, "x", &from, &err) != RT_OK;
            for (int k = 0; !noticed && k < rt_checkpoint_v1_count(c); k++) {
                noticed = rt_checkpoint_v1_tensor(c, rt_checkpoint_v1_name(c, k), WHOLE,
                                                  RT_NO_DTYPE, NULL, &t, &err) != RT_OK;
                rt_tensor_clear(&t);
            }
            rt_checkpoint_v1_close(c);
            unnoticed += !noticed;
            p[bit / 8] ^= (char)(1 << bit % 8);
        }
        /* Nothing reads the padding of the footer or the unused metaindex block, which together
         * have fewer than 60 bytes. */
        assert_true(unnoticed * 7 < 60 * 8);
        for (size_t cut = 1; cut <= n; cut++) {
            const struct rt_sstable_source from = {.size = n - cut, .p = (unsigned char *)p};
            struct rt_checkpoint_v1 *c;
            assert_int_equal(rt_checkpoint_v1_over(&c, "x", &from, &err), RT_DATA_LOSS);
        }
        free(p);
    }
}

static enum rt_status go_on(void *arg, struct rt_error *why)
{
    (void)arg, (void)why;
    return RT_OK;
}

static void what_is_read_counts_in_the_pool_of_its_run(void **state)
{
    (void)state;
    enum { ENOUGH = 1 << 20 };
    struct rt_pool *pool = rt_pool_new_plain(ENOUGH, "--a_limit");
    const struct rt_checkpoint_run run = {.check = go_on, .pool = pool};
    struct rt_checkpoint_v1 *c;
    struct rt_tensor t;
    size_t needed = 0;

    for (size_t limit = 0;; limit += 16) { /* finds the memory that the list and its block need */
        rt_pool_set_limit(pool, limit + 1, "--a_limit");
        if (rt_checkpoint_v1_open(&c, GOLDEN "v1", &run, &err) == RT_OK)
            break;
        assert_int_equal(err.code, RT_RESOURCE_EXHAUSTED);
        assert_non_null(strstr(rt_error_text(&err), "--a_limit"));
        assert_int_equal(rt_pool_in_use(pool), 0);
        needed = limit;
        err = (struct rt_error){0};
    }
    const size_t list = rt_pool_in_use(pool);
    assert_in_range(list, 1000, needed + 16);
    /* The block of the tensor does not fit beside the list. */
    rt_pool_set_limit(pool, list + 100, "--a_limit");
    assert_fails(rt_checkpoint_v1_tensor(c, "f32", WHOLE, RT_F32, &run, &t, &err),
                 RT_RESOURCE_EXHAUSTED, &err, "--a_limit");
    assert_int_equal(rt_pool_in_use(pool), list);
    rt_pool_set_limit(pool, ENOUGH, "--a_limit");
    assert_ok(rt_checkpoint_v1_tensor(c, "f32", WHOLE, RT_F32, &run, &t, &err), &err);
    rt_tensor_clear(&t);
    assert_int_equal(rt_pool_in_use(pool), list);
    rt_checkpoint_v1_close(c);
    rt_checkpoint_v1_forget();
    assert_int_equal(rt_pool_in_use(pool), 0);
    rt_pool_unref(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_that_the_first_format_has_is_read),
        cmocka_unit_test(slices_in_several_files_come_together),
        cmocka_unit_test(wishes_that_cannot_be_met_get_tensorflows_words),
        cmocka_unit_test(many_files_need_few_descriptors),
        cmocka_unit_test(a_directory_that_cannot_be_read_is_no_missing_file),
        cmocka_unit_test(flipped_bits_and_missing_bytes_are_refused),
        cmocka_unit_test(what_is_read_counts_in_the_pool_of_its_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
