/* Tests that writing and merging checkpoints produces the same files as TensorFlow. */
#include "tests/unit/files/checkpoint_fixture.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/files/file.h"
#include "runtime/files/sstable.h"

/* This program replaces statvfs of the C library. Each call reports `disk` and then takes
 * `shrinks_by` bytes from the free space of `disk`. */
static struct statvfs disk;
static size_t shrinks_by;

int statvfs(const char *path, struct statvfs *v)
{
    if (access(path, F_OK))
        return -1;
    *v = disk;
    disk.f_bavail -= shrinks_by / 4096;
    return 0;
}

static int set_up(void **state)
{
    disk = (struct statvfs){.f_frsize = 4096,
                            .f_blocks = 1 << 20,
                            .f_bavail = 1 << 20,
                            .f_files = 1000,
                            .f_favail = 50};
    shrinks_by = 0;
    return ck_set_up(state);
}

static void what_is_written_is_what_tensorflow_writes(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t[13];
    /* The script that made the goldens saved the tensors in this order. */
    static const char *const names[] = {"f32",
                                        "f64",
                                        "i8",
                                        "bf16",
                                        "half",
                                        "str",
                                        "scalar",
                                        "empty",
                                        "bool",
                                        "c64",
                                        "u64",
                                        "long/name/with/prefix/a",
                                        "long/name/with/prefix/b"};
    static const char *const files[] = {".index", ".data-00000-of-00001"};
    assert_ok(rt_checkpoint_open(&c, CK_PLAIN, NULL, &err), &err);
    for (int i = 0; i < 13; i++)
        assert_ok(rt_checkpoint_tensor(c, names[i], CK_WHOLE, RT_NO_DTYPE, NULL, &t[i], &err),
                  &err);
    assert_ok(rt_checkpoint_write(folder_path("new/sub/w"), 13, names, t, NULL, NULL, &err), &err);
    for (int i = 0; i < 2; i++) {
        char *a, *b, path[300];
        size_t na, nb;
        snprintf(path, sizeof path, CK_PLAIN "%s", files[i]);
        assert_ok(rt_file_read(path, 1 << 20, &a, &na, &err), &err);
        snprintf(path, sizeof path, "%s%s", folder_path("new/sub/w"), files[i]);
        assert_ok(rt_file_read(path, 1 << 20, &b, &nb, &err), &err);
        assert_int_equal(na, nb);
        assert_memory_equal(a, b, na);
        free(a);
        free(b);
    }
    static const char *const twice[] = {"a", "a"};
    assert_fails(rt_checkpoint_write(folder_path("x"), 2, twice, t, NULL, NULL, &err),
                 RT_INVALID_ARGUMENT, &err, "Adding duplicate key: a");
    for (int i = 0; i < 13; i++)
        rt_tensor_clear(&t[i]);
    rt_checkpoint_unref(c);
}

/* As in TensorFlow, the files of the first prefix remain unchanged. */
static void a_merge_that_names_a_tensor_twice_touches_no_file(void **state)
{
    (void)state;
    struct rt_error err = {0};
    int64_t bytes = 0;
    struct rt_checkpoint *c;
    struct rt_tensor t, got;
    const char *const names[] = {"u", "v"}, *const only[] = {"v"};
    char buffer[2][256];

    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 0, NULL, &err), &err);
    *(float *)t.data = 3;
    snprintf(buffer[0], sizeof buffer[0], "%s", folder_path("one"));
    snprintf(buffer[1], sizeof buffer[1], "%s", folder_path("two"));
    assert_ok(
        rt_checkpoint_write(buffer[0], 2, names, (struct rt_tensor[]){t, t}, NULL, NULL, &err),
        &err);
    assert_ok(rt_checkpoint_write(buffer[1], 1, only, &t, NULL, NULL, &err), &err);
    /* The first checkpoint is merged with itself, and then with a second checkpoint that also has
     * the tensor "v". */
    for (int k = 0; k < 2; k++) {
        const char *prefixes[] = {buffer[0], buffer[k]};
        char words[700];
        snprintf(words, sizeof words,
                 "Duplicate tensor keyed by %s encountered, when merging prefix: %s", k ? "v" : "u",
                 buffer[k]);
        assert_fails(rt_checkpoint_merge(prefixes, 2, folder_path("both"), false, NULL, &err),
                     RT_INVALID_ARGUMENT, &err, words);
    }
    const char *const twice[] = {"u", "u"};
    assert_fails(
        rt_checkpoint_write(buffer[0], 2, twice, (struct rt_tensor[]){t, t}, NULL, NULL, &err),
        RT_INVALID_ARGUMENT, &err, "Adding duplicate key: u");
    for (int k = 0; k < 2; k++) {
        assert_ok(rt_checkpoint_open(&c, buffer[k], NULL, &err), &err);
        assert_ok(rt_checkpoint_measure(buffer[k], NULL, &bytes, &err), &err);
        ck_get(c, "v", RT_F32, NULL, &got);
        assert_true(*(float *)got.data == 3);
        rt_tensor_clear(&got);
        rt_checkpoint_unref(c);
    }
    rt_tensor_clear(&t);
}

static void write_file(const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

/* Merges the checkpoints "a", "b" and "c", whose last one has no tensors. */
static enum rt_status merge_three(bool twice, struct rt_error *err)
{
    char from[3][256];
    const char *const prefixes[] = {from[0], from[1], from[2], from[2]};

    for (int k = 0; k < 3; k++)
        snprintf(from[k], sizeof from[k], "%s%c", folder_path("shards/"), 'a' + k);
    return rt_checkpoint_merge(prefixes, twice ? 4 : 3, folder_path("target/all"), false, NULL,
                               err);
}

/* TensorFlow leaves some shards moved. */
static void a_merge_that_is_refused_moves_no_shard(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t;
    char missing[256];

    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 0, NULL, &err), &err);
    for (int k = 0; k < 3; k++) {
        char prefix[256];
        const char *const name = k ? "y" : "x";
        snprintf(prefix, sizeof prefix, "%s%c", folder_path("shards/"), 'a' + k);
        assert_ok(rt_checkpoint_write(prefix, k < 2, &name, &t, NULL, NULL, &err), &err);
    }
    rt_tensor_clear(&t);
    assert_int_equal(mkdir(folder_path("target"), 0777), 0);
    /* Each of these is in the way of the last shard, or of the index. */
    static const char *const in_the_way[] = {"target/all.data-00002-of-00003", "target/all.index"};
    for (size_t i = 0; i < sizeof in_the_way / sizeof *in_the_way; i++) {
        assert_int_equal(mkdir(folder_path(in_the_way[i]), 0777), 0);
        assert_int_equal(merge_three(false, &err), RT_FAILED_PRECONDITION);
        assert_int_equal(rmdir(folder_path(in_the_way[i])), 0);
        assert_int_equal(mkfifo(folder_path(in_the_way[i]), 0777), 0);
        assert_fails(merge_three(false, &err), RT_FAILED_PRECONDITION, &err, "no regular file");
        assert_int_equal(unlink(folder_path(in_the_way[i])), 0);
        assert_int_equal(ck_n_files(folder_path("shards")), 6);
        assert_int_equal(ck_n_files(folder_path("target")), 0);
    }
    /* The last shard is missing. */
    snprintf(missing, sizeof missing, "%s", folder_path("shards/c.data-00000-of-00001"));
    assert_int_equal(unlink(missing), 0);
    assert_fails(merge_three(false, &err), RT_NOT_FOUND, &err, missing);
    assert_int_equal(ck_n_files(folder_path("shards")), 5);
    assert_int_equal(ck_n_files(folder_path("target")), 0);
    /* The last shard is moved twice, which only the second move shows. */
    write_file(missing);
    assert_fails(merge_three(true, &err), RT_NOT_FOUND, &err, missing);
    assert_int_equal(ck_n_files(folder_path("shards")), 6);
    assert_int_equal(ck_n_files(folder_path("target")), 0);

    assert_ok(merge_three(false, &err), &err);
    assert_int_equal(ck_n_files(folder_path("shards")), 0);
    assert_int_equal(ck_n_files(folder_path("target")), 4);
    assert_ok(rt_checkpoint_open(&c, folder_path("target/all"), NULL, &err), &err);
    assert_int_equal(rt_checkpoint_count(c), 2);
    rt_checkpoint_unref(c);
}

static void merged_parts_are_as_tensorflow_merges_them(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t[2];
    static const char *const names[3][2] = {{"w", "b"}, {"w", "c"}, {"w", NULL}};
    static const char *const slices[3] = {"5 8 0,2:-", "5 8 2,3:0,3", "5 8 2,3:3,5"};
    char buffer[3][256];
    const char *prefixes[3] = {buffer[0], buffer[1], buffer[2]};

    assert_ok(rt_checkpoint_open(&c, CK_SLICED, NULL, &err), &err);
    for (int i = 0; i < 3; i++) {
        struct rt_span s[2] = {rt_span_str(slices[i]), {NULL, 0}};
        snprintf(buffer[i], sizeof buffer[i], "%s-%d", folder_path("temp/part"), i);
        ck_get(c, "w", RT_F32, slices[i], &t[0]);
        if (names[i][1])
            ck_get(c, names[i][1], RT_NO_DTYPE, NULL, &t[1]);
        assert_ok(rt_checkpoint_write(prefixes[i], names[i][1] ? 2 : 1, names[i], t, s, NULL, &err),
                  &err);
        rt_tensor_clear(&t[0]);
        if (names[i][1])
            rt_tensor_clear(&t[1]);
    }
    rt_checkpoint_unref(c);
    assert_ok(rt_checkpoint_merge(prefixes, 3, folder_path("merged"), true, NULL, &err), &err);
    assert_int_not_equal(access(folder_path("temp"), F_OK), 0);
    char *a, *b;
    size_t na, nb;
    assert_ok(rt_file_read(CK_SLICED ".index", 1 << 20, &a, &na, &err), &err);
    assert_ok(rt_file_read(folder_path("merged.index"), 1 << 20, &b, &nb, &err), &err);
    assert_int_equal(na, nb);
    assert_memory_equal(a, b, na);
    free(a);
    free(b);
    assert_ok(rt_checkpoint_open(&c, folder_path("merged"), NULL, &err), &err);
    ck_get(c, "w", RT_F32, NULL, &t[0]);
    for (int i = 0; i < 40; i++)
        assert_true(((float *)t[0].data)[i] == (float)i);
    rt_tensor_clear(&t[0]);
    rt_checkpoint_unref(c);
}

static void a_tensor_larger_than_a_window_is_read_whole(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t, back;
    const char *name = "large";
    assert_ok(rt_tensor_new(&t, NULL, RT_I32, 1, (int64_t[]){700001}, &err), &err);
    for (int i = 0; i < 700001; i++)
        ((int32_t *)t.data)[i] = i * 7;
    assert_ok(rt_checkpoint_write(folder_path("large"), 1, &name, &t, NULL, NULL, &err), &err);
    assert_ok(rt_checkpoint_open(&c, folder_path("large"), NULL, &err), &err);
    ck_get(c, name, RT_I32, NULL, &back);
    assert_memory_equal(back.data, t.data, rt_tensor_bytes(&t));
    rt_tensor_clear(&back);
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
}

/* Writes a checkpoint index with `n_shards` shards and one scalar, which is in shard `shard`. If
 * `shard` is -1, the index has no tensor. */
static void write_index(const char *path, int n_shards, int shard)
{
    unsigned char header[8], entry[16];
    struct rt_sstable_writer w;
    struct rt_error err = {0};
    size_t n = 0, m = 0;

    header[n++] = 1 << 3; /* num_shards */
    for (; n_shards > 127; n_shards >>= 7)
        header[n++] = (unsigned char)(n_shards | 128);
    header[n++] = (unsigned char)n_shards;
    entry[m++] = 1 << 3; /* dtype */
    entry[m++] = RT_F32;
    entry[m++] = 3 << 3; /* shard_id */
    for (unsigned id = (unsigned)shard; id || m == 3; id >>= 7)
        entry[m++] = (unsigned char)(id > 127 ? id | 128 : id);
    rt_sstable_begin(&w, 0);
    rt_sstable_add(&w, rt_span_of("", 0), rt_span_of(header, n));
    if (shard >= 0)
        rt_sstable_add(&w, rt_span_str("a"), rt_span_of(entry, m));
    assert_true(rt_sstable_end(&w));
    assert_ok(rt_file_write(path, w.file.p, w.file.n, &err), &err);
    rt_sstable_clear(&w);
}

static void a_merge_refuses_shards_that_cannot_be_numbered(void **state)
{
    (void)state;
    enum { SHARDS = 10000, MANY = 11 };
    static const char *prefixes[MANY];
    struct rt_error err = {0};
    char one[256];

    snprintf(one, sizeof one, "%s", folder_path("shards"));
    for (int i = 0; i < MANY; i++)
        prefixes[i] = one;
    write_index(folder_path("shards.index"), SHARDS, -1);
    assert_fails(rt_checkpoint_merge(prefixes, MANY, folder_path("to"), false, NULL, &err),
                 RT_INVALID_ARGUMENT, &err, "more than 100000 shards in all");
    write_index(folder_path("shards.index"), SHARDS, INT32_MAX);
    assert_fails(rt_checkpoint_merge(prefixes, 1, folder_path("to"), false, NULL, &err),
                 RT_DATA_LOSS, &err, "shard 2147483647 of 10000");
}

/* A process that runs as root could otherwise replace a device that the system needs. */
static void a_save_replaces_no_fifo(void **state)
{
    (void)state;
    static const char *const files[] = {"fifo.data-00000-of-00001", "fifo.index"};
    const char *const name = "bytes";
    struct rt_error err = {0};
    struct rt_tensor t;
    struct stat info;

    assert_ok(rt_tensor_new(&t, NULL, RT_U8, 1, (int64_t[]){1}, &err), &err);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mkfifo(folder_path(files[i]), 0600), 0);
        assert_fails(rt_checkpoint_write(folder_path("fifo"), 1, &name, &t, NULL, NULL, &err),
                     RT_FAILED_PRECONDITION, &err, "exists, and is no regular file");
        assert_int_equal(lstat(folder_path(files[i]), &info), 0);
        assert_true(S_ISFIFO(info.st_mode));
        assert_int_equal(unlink(folder_path(files[i])), 0);
    }
    assert_ok(rt_checkpoint_write(folder_path("fifo"), 1, &name, &t, NULL, NULL, &err), &err);
    rt_tensor_clear(&t);
}

/* The file system has 4 GiB, of which 52,428 blocks are kept free. */
static void a_save_leaves_a_part_of_the_file_system_free(void **state)
{
    (void)state;
    enum { KEPT = (1 << 20) / 20, MEGABYTE = 256 /* in blocks */ };
    const char *const name = "bytes";
    struct rt_error err = {0};
    struct rt_tensor t;

    assert_ok(rt_tensor_new(&t, NULL, RT_U8, 1, (int64_t[]){5 << 20}, &err), &err);
    memset(t.data, 7, rt_tensor_bytes(&t));
    disk.f_bavail = KEPT - 1;
    assert_fails(rt_checkpoint_write(folder_path("a/b/c"), 1, &name, &t, NULL, NULL, &err),
                 RT_RESOURCE_EXHAUSTED, &err,
                 "the file system has 214740992 bytes left, of which 214745088 are kept free");
    assert_int_not_equal(access(folder_path("a"), F_OK), 0);
    /* Another program fills the file system while the third megabyte is written. */
    disk.f_bavail = KEPT + 4 * MEGABYTE;
    shrinks_by = 1 << 20;
    assert_fails(rt_checkpoint_write(folder_path("sub/b"), 1, &name, &t, NULL, NULL, &err),
                 RT_RESOURCE_EXHAUSTED, &err, "are kept free");
    assert_int_equal(rmdir(folder_path("sub")), 0);
    shrinks_by = 0;
    disk.f_bavail = KEPT + MEGABYTE;
    assert_ok(rt_checkpoint_write(folder_path("b"), 1, &name, &t, NULL, NULL, &err), &err);
    disk.f_favail = 49;
    assert_fails(rt_checkpoint_write(folder_path("c"), 1, &name, &t, NULL, NULL, &err),
                 RT_RESOURCE_EXHAUSTED, &err, "room for 49 more files, which are kept free");
    /* Some file systems report no number of files. */
    disk.f_files = disk.f_favail = 0;
    assert_ok(rt_checkpoint_write(folder_path("c"), 1, &name, &t, NULL, NULL, &err), &err);
    rt_tensor_clear(&t);
}

/* A file system without a known size is full only when a write fails. */
static void a_file_system_that_reports_no_blocks_can_be_written(void **state)
{
    (void)state;
    static const struct statvfs unknown[] = {
        {.f_frsize = 4096}, /* as of ramfs */
        {.f_blocks = 1 << 20, .f_bavail = 1 << 19},
        {.f_bsize = 4096, .f_blocks = 1 << 20, .f_bavail = 1 << 19},
    };
    const char *const name = "bytes";
    struct rt_error err = {0};
    struct rt_tensor t;

    assert_ok(rt_tensor_new(&t, NULL, RT_U8, 1, (int64_t[]){3 << 20}, &err), &err);
    memset(t.data, 7, rt_tensor_bytes(&t));
    for (int i = 0; i < 3; i++) {
        disk = unknown[i];
        assert_ok(rt_checkpoint_write(folder_path("u"), 1, &name, &t, NULL, NULL, &err), &err);
    }
    /* If f_frsize is 0, f_bsize is the block size. */
    disk.f_bavail = 0;
    assert_fails(rt_checkpoint_write(folder_path("u"), 1, &name, &t, NULL, NULL, &err),
                 RT_RESOURCE_EXHAUSTED, &err, "has 0 bytes left");
    rt_tensor_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_what_tensorflow_writes),
        cmocka_unit_test(a_merge_that_names_a_tensor_twice_touches_no_file),
        cmocka_unit_test(a_merge_that_is_refused_moves_no_shard),
        cmocka_unit_test(merged_parts_are_as_tensorflow_merges_them),
        cmocka_unit_test(a_merge_refuses_shards_that_cannot_be_numbered),
        cmocka_unit_test(a_tensor_larger_than_a_window_is_read_whole),
        cmocka_unit_test(a_save_replaces_no_fifo),
        cmocka_unit_test(a_save_leaves_a_part_of_the_file_system_free),
        cmocka_unit_test(a_file_system_that_reports_no_blocks_can_be_written),
    };
    return cmocka_run_group_tests(tests, set_up, ck_tear_down);
}
