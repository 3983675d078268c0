/* Tests that checkpoints written by TensorFlow are read, and that open checkpoints are shared. */
#include "tests/unit/files/checkpoint_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/base/thread.h"
#include "runtime/core/slice.h"

static void every_type_that_tensorflow_saved_is_read(void **state)
{
    (void)state;
    struct rt_error err = {0};
    int64_t bytes = 0;
    struct rt_checkpoint *c;
    struct rt_tensor t;

    assert_ok(rt_checkpoint_open(&c, CK_PLAIN, NULL, &err), &err);
    assert_ok(rt_checkpoint_measure(CK_PLAIN, NULL, &bytes, &err), &err);
    assert_int_equal(rt_checkpoint_count(c), 13);
    for (int i = 1; i < 13; i++)
        assert_true(strcmp(rt_checkpoint_at(c, i - 1)->name, rt_checkpoint_at(c, i)->name) < 0);
    assert_null(ck_entry(c, "nothing"));
    assert_null(ck_entry(c, ""));
    assert_int_equal(ck_entry(c, "f64")->bytes, 16);

    assert_ok(rt_checkpoint_tensor(c, "f32", CK_WHOLE, RT_F32, NULL, &t, &err), &err);
    assert_true(rt_tensor_is_lazy(&t));
    assert_ok(rt_tensor_load(&t, &err), &err);
    assert_memory_equal(t.data, ((float[]){0, 1, 2, 3, 4, 5}), 24);
    assert_int_equal((uintptr_t)t.data % 64, 0);
    assert_true(t.rank == 2 && t.dim[0] == 2 && t.dim[1] == 3);
    rt_tensor_clear(&t);
    ck_get(c, "f64", RT_F64, NULL, &t);
    assert_memory_equal(t.data, ((double[]){1.5, -2}), 16);
    rt_tensor_clear(&t);
    ck_get(c, "i8", RT_I8, NULL, &t);
    assert_memory_equal(t.data, "\xff\x02", 2);
    rt_tensor_clear(&t);
    ck_get(c, "bf16", RT_BF16, NULL, &t);
    assert_memory_equal(t.data, ((uint16_t[]){0x3fc0, 0xc040, 0x4380}), 6);
    rt_tensor_clear(&t);
    ck_get(c, "half", RT_F16, NULL, &t);
    assert_memory_equal(t.data, ((uint16_t[]){0x3c00, 0x4000}), 4);
    rt_tensor_clear(&t);
    ck_get(c, "bool", RT_BOOL, NULL, &t);
    assert_memory_equal(t.data, "\1\0", 2);
    rt_tensor_clear(&t);
    ck_get(c, "c64", RT_C64, NULL, &t);
    assert_memory_equal(t.data, ((float[]){1, 2}), 8);
    rt_tensor_clear(&t);
    ck_get(c, "u64", RT_U64, NULL, &t);
    assert_true(*(uint64_t *)t.data == UINT64_C(1) << 63);
    rt_tensor_clear(&t);
    ck_get(c, "scalar", RT_F32, NULL, &t);
    assert_true(t.rank == 0 && *(float *)t.data == 7);
    rt_tensor_clear(&t);
    ck_get(c, "empty", RT_F32, NULL, &t);
    assert_true(t.rank == 2 && t.dim[0] == 0 && t.dim[1] == 4);
    rt_tensor_clear(&t);
    ck_get(c, "long/name/with/prefix/b", RT_NO_DTYPE, NULL, &t);
    assert_int_equal(*(int32_t *)t.data, 2);
    rt_tensor_clear(&t);

    ck_get(c, "str", RT_STRING, NULL, &t);
    assert_int_equal(t.dim[0], 3);
    assert_int_equal(rt_strs(&t)[0].n, 0);
    assert_string_equal(rt_str_data(&rt_strs(&t)[1]), "abc");
    assert_int_equal(rt_strs(&t)[2].n, 300);
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
}

static void a_lazy_tensor_streams_and_outlives_its_checkpoint(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t;
    struct ck_collected to = {.n = 0};

    assert_ok(rt_checkpoint_open(&c, CK_PLAIN, NULL, &err), &err);
    assert_ok(rt_checkpoint_tensor(c, "f32", CK_WHOLE, RT_F32, NULL, &t, &err), &err);
    assert_ok(rt_checkpoint_check_unchanged(c, &err), &err);
    rt_checkpoint_unref(c);
    assert_ok(t.buf->stream(t.buf, ck_collect, &to, &err), &err);
    assert_true(rt_tensor_is_lazy(&t));
    assert_memory_equal(to.bytes, ((float[]){0, 1, 2, 3, 4, 5}), 24);
    rt_tensor_clear(&t);
}

static void wishes_that_cannot_be_met_get_tensorflows_words(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t;

    assert_fails(rt_checkpoint_open(&c, folder_path("nofile"), NULL, &err), RT_NOT_FOUND, &err,
                 "Unsuccessful TensorSliceReader constructor: Failed to find any matching files "
                 "for /tmp");
    assert_ok(rt_checkpoint_open(&c, CK_PLAIN, NULL, &err), &err);
    assert_fails(rt_checkpoint_tensor(c, "nope", CK_WHOLE, RT_F32, NULL, &t, &err), RT_NOT_FOUND,
                 &err, "Key nope not found in checkpoint");
    assert_fails(rt_checkpoint_tensor(c, "f32", CK_WHOLE, RT_F64, NULL, &t, &err),
                 RT_INVALID_ARGUMENT, &err,
                 "tensor_name = f32; expected dtype double does not equal original dtype float");
    assert_fails(rt_checkpoint_tensor(c, "f32", rt_span_str("2 4 0,1:-"), RT_F32, NULL, &t, &err),
                 RT_INVALID_ARGUMENT, &err,
                 "tensor_name = f32; shape in shape_and_slice spec [2,4] does not match the shape "
                 "stored in checkpoint: [2,3]");
    assert_fails(rt_checkpoint_tensor(c, "str", rt_span_str("3 1,1"), RT_STRING, NULL, &t, &err),
                 RT_INVALID_ARGUMENT, &err, "Dtype string not supported.");
    static const char *const bad[] = {"2 3",
                                      "2 3 0,1",
                                      "2 3 0,5:-",
                                      "zz",
                                      "2 3 0,1:-:-",
                                      " ",
                                      "2 3 0,1:",
                                      "2 3 -1:-",
                                      "2 3 1,2:-",
                                      "2 x -",
                                      "2 3 99999999999999999999,1:-"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_not_equal(
            rt_checkpoint_tensor(c, "f32", rt_span_str(bad[i]), RT_F32, NULL, &t, &err), RT_OK);
    ck_get(c, "f32", RT_F32, "2 3 1,1:0,2", &t);
    assert_memory_equal(t.data, ((float[]){3, 4}), 8);
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
}

static void parts_in_several_shards_come_together(void **state)
{
    (void)state;
    struct rt_error err = {0};
    int64_t bytes = 0;
    struct rt_checkpoint *c;
    struct rt_tensor t;

    assert_ok(rt_checkpoint_open(&c, CK_SLICED, NULL, &err), &err);
    assert_ok(rt_checkpoint_measure(CK_SLICED, NULL, &bytes, &err), &err);
    assert_int_equal(rt_checkpoint_count(c), 3);
    assert_true(ck_entry(c, "w")->is_sliced);
    ck_get(c, "w", RT_F32, NULL, &t);
    for (int i = 0; i < 40; i++)
        assert_true(((float *)t.data)[i] == (float)i);
    rt_tensor_clear(&t);
    ck_get(c, "w", RT_F32, "5 8 1,2:2,3", &t);
    assert_memory_equal(t.data, ((float[]){10, 11, 12, 18, 19, 20}), 24);
    rt_tensor_clear(&t);
    ck_get(c, "c", RT_STRING, NULL, &t);
    assert_string_equal(rt_str_data(&rt_strs(&t)[1]), "you");
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
}

static void keys_of_parts_are_tensorflows(void **state)
{
    (void)state;
    /* The expected keys are the bytes that TensorFlow 2.21 wrote for slices with the given `start`
     * and `length`. */
    static const struct {
        int64_t start, length;
        const char *key;
        size_t n;
    } rows[] = {
        {0, 40, "\0v\0\1\1\1\x80\xa8", 8},
        {40, 100, "\0v\0\1\1\1\xa8\xc0\x64", 9},
        {140, 8860, "\0v\0\1\1\1\xc0\x8c\xe0\x22\x9c", 11},
        {9000, 64, "\0v\0\1\1\1\xe0\x23\x28\xc0\x40", 11},
        {9064, 1090936, "\0v\0\1\1\1\xe0\x23\x68\xf0\x10\xa5\x78", 13},
        {0, -1, "\0v\0\1\1\1\x80\x7f", 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rt_slice s = {.rank = 1, .start = {rows[i].start}, .length = {rows[i].length}};
        struct rt_bytes key;
        rt_bytes_init(&key, 1000);
        rt_slice_key(&key, rt_span_str("v"), &s);
        assert_int_equal(key.n, rows[i].n);
        assert_memory_equal(key.p, rows[i].key, key.n);
        rt_bytes_clear(&key);
    }
    struct rt_slice s = {.rank = 2, .start = {INT64_MAX, 5}, .length = {INT64_MAX, -1}};
    struct rt_bytes key;
    rt_bytes_init(&key, 1000);
    rt_slice_key(&key, rt_span_of("a\0b\xff", 4), &s);
    assert_memory_equal(key.p, "\0a\0\xff\x62\xff\0\0\1\1\2\xff\xc0", 13);
    assert_int_equal(key.n, 11 + 10 + 10 + 2);
    rt_bytes_clear(&key);
}

/* tests/goldens/checkpoint/make_forms.py wrote the files, and TensorFlow 2.21 read each of them. */
static void tables_of_other_writers_are_read(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    static const char *const forms[] = {"snappy", "restarts"};

    ck_copy_file(CK_PLAIN ".data-00000-of-00001", folder_path("form.data-00000-of-00001"), 0, -1);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char path[200];
        snprintf(path, sizeof path, "tests/goldens/checkpoint/%s.index", forms[i]);
        ck_copy_file(path, folder_path("form.index"), 0, -1);
        assert_ok(rt_checkpoint_open(&c, folder_path("form"), NULL, &err), &err);
        ck_assert_as_plain(c);
        rt_checkpoint_unref(c);
    }
}

static void a_checkpoint_of_the_other_byte_order_is_read(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t;
    struct ck_collected to = {.n = 0};

    assert_ok(rt_checkpoint_open(&c, "tests/goldens/checkpoint/big", NULL, &err), &err);
    ck_assert_as_plain(c);
    assert_ok(rt_checkpoint_tensor(c, "f32", CK_WHOLE, RT_F32, NULL, &t, &err), &err);
    assert_ok(t.buf->stream(t.buf, ck_collect, &to, &err), &err);
    assert_memory_equal(to.bytes, ((float[]){0, 1, 2, 3, 4, 5}), 24);
    rt_tensor_clear(&t);
    ck_get(c, "f32", RT_F32, "2 3 1,1:0,2", &t);
    assert_memory_equal(t.data, ((float[]){3, 4}), 8);
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
}

static int open_files(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void one_that_is_open_is_shared_until_its_file_changes(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *a, *b, *c;
    struct rt_tensor t[2];
    int files = open_files();
    ck_copy_file(CK_PLAIN ".index", folder_path("shared.index"), 0, -1);
    ck_copy_file(CK_PLAIN ".data-00000-of-00001", folder_path("shared.data-00000-of-00001"), 0, -1);
    assert_ok(rt_checkpoint_open(&a, folder_path("shared"), NULL, &err), &err);
    assert_ok(rt_checkpoint_tensor(a, "f32", CK_WHOLE, RT_F32, NULL, &t[0], &err), &err);
    rt_checkpoint_unref(a);
    assert_ok(rt_checkpoint_open(&b, folder_path("shared"), NULL, &err), &err);
    assert_ptr_equal(a, b);
    assert_ok(rt_checkpoint_tensor(b, "f64", CK_WHOLE, RT_F64, NULL, &t[1], &err), &err);
    assert_int_equal(open_files(), files + 1);
    ck_copy_file(CK_SLICED ".index", folder_path("shared.index"), 0, -1);
    assert_ok(rt_checkpoint_open(&c, folder_path("shared"), NULL, &err), &err);
    assert_ptr_not_equal(b, c);
    assert_int_equal(rt_checkpoint_count(c), 3);
    rt_checkpoint_unref(c);
    rt_checkpoint_unref(b);
    assert_ok(rt_tensor_load(&t[0], &err), &err);
    rt_tensor_clear(&t[0]);
    rt_tensor_clear(&t[1]);
    assert_int_equal(open_files(), files);
}

static void *open_and_close(void *arg)
{
    struct rt_tensor t;
    (void)arg;
    for (int i = 0; i < 300; i++) {
        struct rt_checkpoint *c;
        if (rt_checkpoint_open(&c, CK_PLAIN, NULL, NULL))
            return NULL;
        bool good = rt_checkpoint_tensor(c, "f32", CK_WHOLE, RT_F32, NULL, &t, NULL) == RT_OK;
        rt_checkpoint_unref(c);
        good = good && rt_tensor_load(&t, NULL) == RT_OK;
        rt_tensor_clear(&t);
        if (!good)
            return NULL;
    }
    return arg;
}

static void threads_open_and_close_one_at_the_same_time(void **state)
{
    pthread_t thread[4];
    int alive;
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(rt_thread_start(&thread[i], "open", open_and_close, &alive), 0);
    for (int i = 0; i < 4; i++) {
        void *good;
        pthread_join(thread[i], &good);
        assert_non_null(good);
    }
}

/* A checkpoint of 100 tensors, "t00" to "t99". Tensor i has the value i and is in shard i. */
enum { SHARDS = 100 };

static void write_shards(void)
{
    static char prefix[SHARDS][256];
    const char *prefixes[SHARDS];
    struct rt_error err = {0};

    for (int32_t i = 0; i < SHARDS; i++) {
        char name[16];
        struct rt_tensor t;
        snprintf(name, sizeof name, "t%02d", i);
        snprintf(prefix[i], sizeof prefix[i], "%s", folder_path(name));
        prefixes[i] = prefix[i];
        assert_ok(rt_tensor_new(&t, NULL, RT_I32, 0, NULL, &err), &err);
        *(int32_t *)t.data = i;
        assert_ok(rt_checkpoint_write(prefix[i], 1, &(const char *){name}, &t, NULL, NULL, &err),
                  &err);
        rt_tensor_clear(&t);
    }
    assert_ok(rt_checkpoint_merge(prefixes, SHARDS, folder_path("many"), false, NULL, &err), &err);
}

static void *stream_all(void *tensors)
{
    struct rt_tensor *t = tensors;

    for (int32_t i = 0; i < SHARDS; i++) {
        struct ck_collected to = {.n = 0};
        if (t[i].buf->stream(t[i].buf, ck_collect, &to, NULL) || memcmp(to.bytes, &i, sizeof i))
            return NULL;
    }
    return tensors;
}

/* Tests the shards with RLIMIT_NOFILE at 80, which lets a checkpoint keep 10 shards open. */
static void check_shards(int files)
{
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t[SHARDS];
    char name[16];
    pthread_t thread[4];

    assert_ok(rt_checkpoint_open(&c, folder_path("many"), NULL, &err), &err);
    for (int i = 0; i < SHARDS; i++) {
        snprintf(name, sizeof name, "t%02d", i);
        assert_ok(rt_checkpoint_tensor(c, name, CK_WHOLE, RT_I32, NULL, &t[i], &err), &err);
    }
    assert_int_equal(open_files(), files + 10);
    for (int i = 0; i < 4; i++)
        assert_int_equal(rt_thread_start(&thread[i], "read", stream_all, t), 0);
    for (int i = 0; i < 4; i++) {
        void *good;
        pthread_join(thread[i], &good);
        assert_non_null(good);
    }
    assert_int_equal(open_files(), files + 10);
    assert_ok(rt_checkpoint_check_unchanged(c, &err), &err);

    /* The removal of a shard goes unnoticed only while that shard is kept open. */
    folder_rename("many.data-00001-of-00100", "kept");
    folder_rename("many.data-00098-of-00100", "other");
    assert_ok(rt_tensor_load(&t[1], &err), &err);
    assert_int_equal(*(int32_t *)t[1].data, 1);
    assert_fails(rt_tensor_load(&t[98], &err), RT_NOT_FOUND, &err, "many.data-00098-of-00100");
    ck_copy_file(folder_path("other"), folder_path("many.data-00098-of-00100"), 0, -1);
    assert_fails(rt_tensor_load(&t[98], &err), RT_DATA_LOSS, &err,
                 "many.data-00098-of-00100 was changed while it was read");
    assert_fails(rt_checkpoint_check_unchanged(c, &err), RT_DATA_LOSS, &err, "was changed");
    folder_rename("kept", "many.data-00001-of-00100");
    folder_rename("other", "many.data-00098-of-00100");
    assert_ok(rt_tensor_load(&t[98], &err), &err);
    assert_int_equal(*(int32_t *)t[98].data, 98);
    assert_int_equal(open_files(), files + 10);
    for (int i = 0; i < SHARDS; i++)
        rt_tensor_clear(&t[i]);
    rt_checkpoint_unref(c);
}

static void many_shards_need_few_descriptors(void **state)
{
    struct rlimit before, few;
    const int files = open_files();
    (void)state;
    write_shards();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 80;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    /* The second checkpoint may also keep 10 shards open, because the first one has been closed. */
    for (int i = 0; i < 2; i++) {
        check_shards(files);
        assert_int_equal(open_files(), files);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_that_tensorflow_saved_is_read),
        cmocka_unit_test(a_lazy_tensor_streams_and_outlives_its_checkpoint),
        cmocka_unit_test(wishes_that_cannot_be_met_get_tensorflows_words),
        cmocka_unit_test(parts_in_several_shards_come_together),
        cmocka_unit_test(keys_of_parts_are_tensorflows),
        cmocka_unit_test(tables_of_other_writers_are_read),
        cmocka_unit_test(a_checkpoint_of_the_other_byte_order_is_read),
        cmocka_unit_test(one_that_is_open_is_shared_until_its_file_changes),
        cmocka_unit_test(threads_open_and_close_one_at_the_same_time),
        cmocka_unit_test(many_shards_need_few_descriptors),
    };
    return cmocka_run_group_tests(tests, ck_set_up, ck_tear_down);
}
