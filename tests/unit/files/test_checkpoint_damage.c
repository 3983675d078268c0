/* Tests checkpoints with a flipped bit, a missing byte or a missing file. */
#include "tests/unit/files/checkpoint_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/file.h"
#include "runtime/files/sstable.h"

static void every_flipped_bit_of_a_compressed_index_is_noticed(void **state)
{
    (void)state;
    struct rt_error err = {0};
    char *p;
    size_t n;
    int refused = 0, tried = 0;

    assert_ok(rt_file_read("tests/goldens/checkpoint/snappy.index", 1 << 20, &p, &n, &err), &err);
    const struct rt_sstable_source index = {.size = n, .p = (unsigned char *)p};
    for (size_t bit = 0; bit < n * 8; bit += 3, tried++) {
        struct rt_checkpoint *c = NULL;
        p[bit / 8] ^= (char)(1 << bit % 8);
        refused += rt_checkpoint_open_index(&c, "x", &index, &err) != RT_OK;
        rt_checkpoint_unref(c);
        p[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(p);
    /* Only the padding of the footer and the unused metaindex block have no checksum. Together they
     * have fewer than 60 bytes. */
    assert_true((tried - refused) * 3 < 60 * 8);
}

static void every_flipped_bit_of_the_index_is_noticed(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct stat s;
    assert_int_equal(stat(CK_SLICED ".index", &s), 0);
    int refused = 0;
    for (int bit = 0; bit < (int)s.st_size * 8; bit += 3) {
        struct rt_checkpoint *c = NULL;
        ck_copy_file(CK_SLICED ".index", folder_path("flip.index"), 0, bit);
        if (rt_checkpoint_open(&c, folder_path("flip"), NULL, &err) != RT_OK) {
            refused++;
            assert_non_null(strstr(err.msg, "flip"));
        }
        rt_checkpoint_unref(c);
    }
    assert_true(refused * 3 > ((int)s.st_size - 60) * 8);
    for (size_t cut = 1; cut <= (size_t)s.st_size; cut++) {
        struct rt_checkpoint *c;
        ck_copy_file(CK_SLICED ".index", folder_path("flip.index"), cut, -1);
        assert_int_equal(rt_checkpoint_open(&c, folder_path("flip"), NULL, &err), RT_DATA_LOSS);
    }
}

static void every_flipped_bit_and_missing_byte_of_the_data_is_noticed(void **state)
{
    (void)state;
    struct rt_error err = {0};
    int64_t bytes = 0;
    struct stat s;
    ck_copy_file(CK_PLAIN ".index", folder_path("data.index"), 0, -1);
    assert_int_equal(stat(CK_PLAIN ".data-00000-of-00001", &s), 0);
    for (int bit = 0; bit < (int)s.st_size * 8; bit += 5) {
        struct rt_checkpoint *c;
        int bad = 0;
        ck_copy_file(CK_PLAIN ".data-00000-of-00001", folder_path("data.data-00000-of-00001"), 0,
                     bit);
        assert_ok(rt_checkpoint_open(&c, folder_path("data"), NULL, &err), &err);
        for (int i = 0; i < rt_checkpoint_count(c); i++) {
            struct rt_tensor t;
            struct ck_collected to = {.n = 0};
            const char *name = rt_checkpoint_at(c, i)->name;
            enum rt_status st =
                rt_checkpoint_tensor(c, name, CK_WHOLE, RT_NO_DTYPE, NULL, &t, &err);
            if (!st && t.buf && t.buf->stream)
                assert_int_equal(t.buf->stream(t.buf, ck_collect, &to, &err) != RT_OK,
                                 rt_tensor_load(&t, &err) != RT_OK);
            if (!st)
                st = rt_tensor_load(&t, &err);
            if (st) {
                bad++;
                assert_int_equal(st, RT_DATA_LOSS);
                assert_non_null(strstr(err.msg, name));
            }
            rt_tensor_clear(&t);
        }
        assert_int_equal(bad, 1);
        rt_checkpoint_unref(c);
    }
    struct rt_checkpoint *c;
    struct rt_tensor t;
    ck_copy_file(CK_PLAIN ".data-00000-of-00001", folder_path("data.data-00000-of-00001"), 1, -1);
    assert_ok(rt_checkpoint_open(&c, folder_path("data"), NULL, &err), &err);
    assert_fails(rt_checkpoint_measure(folder_path("data"), NULL, &bytes, &err), RT_DATA_LOSS, &err,
                 "data.data-00000-of-00001 has 392 bytes");
    assert_fails(
        rt_checkpoint_tensor(c, "long/name/with/prefix/b", CK_WHOLE, RT_I32, NULL, &t, &err),
        RT_DATA_LOSS, &err, "prefix/b");
    assert_ok(rt_checkpoint_tensor(c, "c64", CK_WHOLE, RT_C64, NULL, &t, &err), &err);
    assert_int_equal(truncate(folder_path("data.data-00000-of-00001"), 100), 0);
    assert_fails(rt_tensor_load(&t, &err), RT_DATA_LOSS, &err, "\"c64\"");
    assert_fails(rt_checkpoint_check_unchanged(c, &err), RT_DATA_LOSS, &err, "was changed");
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
    unlink(folder_path("data.data-00000-of-00001"));
    assert_ok(rt_checkpoint_open(&c, folder_path("data"), NULL, &err), &err);
    assert_fails(rt_checkpoint_measure(folder_path("data"), NULL, &bytes, &err), RT_NOT_FOUND, &err,
                 "No such file or directory");
    rt_checkpoint_unref(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_bit_of_a_compressed_index_is_noticed),
        cmocka_unit_test(every_flipped_bit_of_the_index_is_noticed),
        cmocka_unit_test(every_flipped_bit_and_missing_byte_of_the_data_is_noticed),
    };
    return cmocka_run_group_tests(tests, ck_set_up, ck_tear_down);
}
