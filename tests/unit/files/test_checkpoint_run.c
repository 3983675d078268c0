/* Tests that a run's memory limit and its cancellation apply when the run reads or writes a
 * checkpoint. */
#include "tests/unit/files/checkpoint_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/file.h"
#include "runtime/files/sstable.h"

static enum rt_status go_on(void *arg, struct rt_error *err)
{
    (void)arg;
    (void)err;
    return RT_OK;
}

/* A cancellation check that succeeds `left` times and then reports that the run was cancelled. */
static enum rt_status cancel_after(void *arg, struct rt_error *err)
{
    int *left = arg;

    return (*left)-- > 0 ? RT_OK : rt_fail(err, RT_CANCELLED, "the run was cancelled");
}

static void a_lazy_tensor_is_read_in_pieces_until_its_run_ends(void **state)
{
    (void)state;
    const char *const name = "bytes";
    /* The tensor is read in five windows, and the run is cancelled before the fourth window is
     * read. */
    int left = 3;
    const struct rt_check check = {cancel_after, &left};
    struct rt_pool *pool = rt_pool_new(0);
    const struct rt_checkpoint_run run = {.check = go_on, .pool = pool};
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t, back;

    assert_ok(rt_tensor_new(&t, NULL, RT_U8, 1, (int64_t[]){5 << 20}, &err), &err);
    memset(t.data, 7, rt_tensor_bytes(&t));
    assert_ok(rt_checkpoint_write(folder_path("lazy"), 1, &name, &t, NULL, NULL, &err), &err);
    assert_ok(rt_checkpoint_open(&c, folder_path("lazy"), NULL, &err), &err);
    assert_ok(rt_checkpoint_tensor(c, name, CK_WHOLE, RT_U8, &run, &back, &err), &err);
    assert_fails(rt_tensor_load_checked(&back, &check, &err), RT_CANCELLED, &err, "was cancelled");
    assert_int_equal(left, -1);
    assert_true(rt_tensor_is_lazy(&back));
    assert_int_equal(rt_pool_in_use(pool), 0);
    /* The tensor is still lazy, so another run can load it. */
    assert_ok(rt_tensor_load(&back, &err), &err);
    assert_memory_equal(back.data, t.data, rt_tensor_bytes(&t));
    rt_tensor_clear(&back);
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
    rt_pool_unref(pool);
}

static void a_long_string_is_read_in_pieces_until_its_run_ends(void **state)
{
    (void)state;
    enum { BYTES = 5 << 20 };
    const char *const name = "text";
    /* The reader calls the check before it reads the lengths, the string, and each of six windows.
     * The last window contains the bytes after the fifth megabyte. */
    int left = 1000;
    struct rt_pool *pool = rt_pool_new(0);
    const struct rt_checkpoint_run run = {.check = cancel_after, .arg = &left, .pool = pool};
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t, back;

    assert_ok(rt_tensor_new(&t, NULL, RT_STRING, 0, NULL, &err), &err);
    char *bytes = rt_str_resize(t.data, NULL, BYTES, &err);
    assert_non_null(bytes);
    memset(bytes, 7, BYTES);
    assert_ok(rt_checkpoint_write(folder_path("long"), 1, &name, &t, NULL, NULL, &err), &err);
    assert_ok(rt_checkpoint_open(&c, folder_path("long"), NULL, &err), &err);
    assert_ok(rt_checkpoint_tensor(c, name, CK_WHOLE, RT_STRING, &run, &back, &err), &err);
    assert_int_equal(rt_strs(&back)[0].n, BYTES);
    assert_memory_equal(rt_str_data(rt_strs(&back)), bytes, BYTES);
    rt_tensor_clear(&back);
    assert_in_range(1000 - left, 8, 10);
    for (int i = 1000 - left - 1; i >= 0; i--) {
        left = i;
        assert_fails(rt_checkpoint_tensor(c, name, CK_WHOLE, RT_STRING, &run, &back, &err),
                     RT_CANCELLED, &err, "the run was cancelled");
        assert_int_equal(rt_pool_in_use(pool), 0);
    }
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
    rt_pool_unref(pool);
}

static void reading_at_once_ends_when_its_run_does(void **state)
{
    (void)state;
    enum { BYTES = 3 << 20, STRINGS = 50000 };
    const char *names[] = {"bytes", "strings"};
    const char *const slices[] = {"3145728 0,3145728", ""};
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t[2], back;

    assert_ok(rt_tensor_new(&t[0], NULL, RT_U8, 1, (int64_t[]){BYTES}, &err), &err);
    memset(t[0].data, 7, BYTES);
    assert_ok(rt_tensor_new(&t[1], NULL, RT_STRING, 1, (int64_t[]){STRINGS}, &err), &err);
    assert_ok(rt_checkpoint_write(folder_path("ends"), 2, names, t, NULL, NULL, &err), &err);
    assert_ok(rt_checkpoint_open(&c, folder_path("ends"), NULL, &err), &err);
    for (int k = 0; k < 2; k++) {
        const struct rt_span slice = rt_span_str(slices[k]);
        const enum rt_dtype dtype = t[k].dtype;
        int left = 1000, asked;
        struct rt_checkpoint_run run = {.check = cancel_after, .arg = &left};
        assert_ok(rt_checkpoint_tensor(c, names[k], slice, dtype, &run, &back, &err), &err);
        rt_tensor_clear(&back);
        asked = 1000 - left;
        assert_true(asked >= 3);
        for (int i = 0; i < asked; i++) {
            left = i;
            assert_fails(rt_checkpoint_tensor(c, names[k], slice, dtype, &run, &back, &err),
                         RT_CANCELLED, &err, "the run was cancelled");
        }
        rt_tensor_clear(&t[k]);
    }
    rt_checkpoint_unref(c);
}

static void what_is_read_counts_in_the_pool_of_its_run(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    const char *names[] = {"bytes", "strings"};
    const char *const slices[] = {"1048576 0,1048576", "", ""};
    const char *const wanted[] = {"bytes", "bytes", "strings"};
    struct rt_pool *pool = rt_pool_new_plain(5 * BYTES / 2, "--a_limit");
    const struct rt_checkpoint_run run = {.check = go_on, .pool = pool};
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t[2], back[2];

    assert_non_null(pool);
    assert_ok(rt_tensor_new(&t[0], NULL, RT_U8, 1, (int64_t[]){BYTES}, &err), &err);
    memset(t[0].data, 7, BYTES);
    assert_ok(rt_tensor_new(&t[1], NULL, RT_STRING, 0, NULL, &err), &err);
    assert_true(rt_str_set(t[1].data, NULL, t[0].data, BYTES, &err));
    assert_ok(rt_checkpoint_write(folder_path("counted"), 2, names, t, NULL, NULL, &err), &err);
    assert_ok(rt_checkpoint_open(&c, folder_path("counted"), NULL, &err), &err);
    for (int k = 0; k < 3; k++) { /* reads a slice, a lazy tensor and strings */
        const struct rt_span slice = rt_span_str(slices[k]);
        const enum rt_dtype dtype = k == 2 ? RT_STRING : RT_U8;
        assert_ok(rt_checkpoint_tensor(c, wanted[k], slice, dtype, &run, &back[0], &err), &err);
        assert_ok(rt_tensor_load(&back[0], &err), &err);
        assert_in_range(rt_pool_in_use(pool), BYTES, BYTES + 4096);
        assert_ok(rt_pool_hold(pool, BYTES, 0, "more", &err), &err);
        enum rt_status st = rt_checkpoint_tensor(c, wanted[k], slice, dtype, &run, &back[1], &err);
        st = st ? st : rt_tensor_load(&back[1], &err);
        assert_int_equal(st, RT_RESOURCE_EXHAUSTED);
        assert_non_null(strstr(rt_error_text(&err), "--a_limit"));
        rt_pool_release(pool, BYTES);
        rt_tensor_clear(&back[0]);
        rt_tensor_clear(&back[1]);
        assert_int_equal(rt_pool_in_use(pool), 0);
    }
    rt_tensor_clear(&t[0]);
    rt_tensor_clear(&t[1]);
    rt_checkpoint_unref(c);
    rt_pool_unref(pool);
}

/* Writes a checkpoint of small tensors with long names. Its index is about 60 KB, and takes about
 * 2.5 MB of memory. */
static void write_many(const char *prefix)
{
    enum { MANY = 2500, LENGTH = 600 };
    static char texts[MANY][LENGTH + 8];
    static const char *names[MANY];
    static struct rt_tensor tensors[MANY];
    struct rt_error err = {0};
    struct rt_tensor t;

    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 0, NULL, &err), &err);
    memset(t.data, 0, 4);
    for (int i = 0; i < MANY; i++) {
        memset(texts[i], 'n', LENGTH);
        snprintf(texts[i] + LENGTH, 8, "%d", i);
        names[i] = texts[i];
        tensors[i] = t;
    }
    assert_ok(rt_checkpoint_write(prefix, MANY, names, tensors, NULL, NULL, &err), &err);
    rt_tensor_clear(&t);
}

static void an_index_counts_in_the_pool_of_its_run(void **state)
{
    (void)state;
    enum { LEAST = 1500000, ENOUGH = 4 << 20 };
    struct rt_error err = {0};
    struct rt_checkpoint *c, *same, *other;

    write_many(folder_path("many"));
    struct rt_pool *pool = rt_pool_new_plain(LEAST, "--a_limit"), *free_pool = rt_pool_new(0);
    const struct rt_checkpoint_run run = {.check = go_on, .pool = pool},
                                   free_run = {.check = go_on, .pool = free_pool};
    assert_fails(rt_checkpoint_open(&c, folder_path("many"), &run, &err), RT_RESOURCE_EXHAUSTED,
                 &err, "--a_limit");
    assert_int_equal(rt_pool_in_use(pool), 0);
    rt_pool_set_limit(pool, ENOUGH, "--a_limit");
    assert_ok(rt_checkpoint_open(&c, folder_path("many"), &run, &err), &err);
    const size_t held = rt_pool_in_use(pool);
    assert_in_range(held, LEAST, ENOUGH);
    /* Runs with the same pool share the open checkpoint, whose memory counts once. */
    assert_ok(rt_checkpoint_open(&same, folder_path("many"), &run, &err), &err);
    assert_ptr_equal(same, c);
    assert_int_equal(rt_pool_in_use(pool), held);
    assert_ok(rt_checkpoint_open(&other, folder_path("many"), &free_run, &err), &err);
    assert_ptr_not_equal(other, c);
    rt_checkpoint_unref(same);
    assert_int_equal(rt_pool_in_use(pool), held);
    rt_checkpoint_unref(c);
    assert_int_equal(rt_pool_in_use(pool), 0);
    rt_checkpoint_unref(other);
    assert_int_equal(rt_pool_in_use(free_pool), 0);
    rt_pool_unref(pool);
    rt_pool_unref(free_pool);
}

static void reading_an_index_ends_when_its_run_does(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    int64_t bytes = 0;
    int left = 1000;
    const struct rt_checkpoint_run run = {.check = cancel_after, .arg = &left};

    write_many(folder_path("many"));
    const char *const prefixes[] = {folder_path("many")};
    assert_ok(rt_checkpoint_open(&c, prefixes[0], &run, &err), &err);
    rt_checkpoint_unref(c);
    const int asked = 1000 - left;
    assert_true(asked >= 3);
    for (int i = 0; i < asked; i++) {
        left = i;
        assert_fails(rt_checkpoint_open(&c, prefixes[0], &run, &err), RT_CANCELLED, &err,
                     "the run was cancelled");
        left = i;
        assert_fails(rt_checkpoint_measure(prefixes[0], &run, &bytes, &err), RT_CANCELLED, &err,
                     "the run was cancelled");
        left = i;
        assert_fails(rt_checkpoint_merge(prefixes, 1, prefixes[0], false, &run, &err), RT_CANCELLED,
                     &err, "the run was cancelled");
    }
    bytes = 5;
    assert_ok(rt_checkpoint_measure(prefixes[0], NULL, &bytes, &err), &err);
    assert_int_equal(bytes, 5 + 2500 * 4);
}

/* Writes a checkpoint of `n` scalars whose names begin with `first`. The data file is empty. */
static void write_scalars(const char *prefix, char first, int n)
{
    /* `header` has the field num_shards. `entry` has the fields dtype and size. */
    static const char header[] = {1 << 3, 1}, entry[] = {1 << 3, RT_F32, 5 << 3, 4};
    struct rt_sstable_writer w;
    struct rt_error err = {0};
    char path[700], key[16];

    rt_sstable_begin(&w, 0);
    rt_sstable_add(&w, rt_span_of("", 0), rt_span_of(header, sizeof header));
    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%c%07d", first, i);
        rt_sstable_add(&w, rt_span_str(key), rt_span_of(entry, sizeof entry));
    }
    assert_true(rt_sstable_end(&w));
    snprintf(path, sizeof path, "%s.index", prefix);
    assert_ok(rt_file_write(path, w.file.p, w.file.n, &err), &err);
    snprintf(path, sizeof path, "%s.data-00000-of-00001", prefix);
    assert_ok(rt_file_write(path, "", 0, &err), &err);
    rt_sstable_clear(&w);
}

/* A tensor that is stored in slices has one slice per element. */
static void reading_a_long_entry_ends_when_its_run_does(void **state)
{
    (void)state;
    enum { SLICES = 100000 };
    /* `header` has the field num_shards. The entry has a dtype, a shape of one dimension with
     * SLICES elements, and slices of one element. */
    static const char header[] = {1 << 3, 1}, slice[] = "\x3a\x04\x0a\x02\x10\x01";
    struct rt_sstable_writer w;
    struct rt_bytes entry;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    int left = 1000;
    const struct rt_checkpoint_run run = {.check = cancel_after, .arg = &left};

    rt_bytes_init(&entry, SIZE_MAX / 2);
    rt_bytes_adds(&entry, "\x08\x01\x12\x06\x12\x04\x08\xa0\x8d\x06");
    for (int i = 0; i < SLICES; i++)
        rt_bytes_add(&entry, slice, sizeof slice - 1);
    rt_sstable_begin(&w, 0);
    rt_sstable_add(&w, rt_span_of("", 0), rt_span_of(header, sizeof header));
    rt_sstable_add(&w, rt_span_str("t"), rt_span_of(entry.p, entry.n));
    assert_true(rt_sstable_end(&w));
    const struct rt_sstable_source source = {
        .size = w.file.n, .p = (const unsigned char *)w.file.p, .run = &run};
    assert_ok(rt_checkpoint_open_index(&c, "x", &source, &err), &err);
    rt_checkpoint_unref(c);
    /* The entry is measured, then unpacked, and then read. Each step passes over all slices. */
    const int asked = 1000 - left;
    assert_true(asked >= 3 * (SLICES >> 14));
    for (int i = 0; i < asked; i++) {
        left = i;
        assert_int_equal(rt_checkpoint_open_index(&c, "x", &source, &err), RT_CANCELLED);
    }
    rt_sstable_clear(&w);
    rt_bytes_clear(&entry);
}

/* A merge checks for cancellation while it sorts, compares and writes the names. A merge that is
 * cancelled before it moves the first shard leaves all files unchanged. */
static void merging_many_names_ends_when_its_run_does(void **state)
{
    (void)state;
    enum { MANY = 40000, RUN = 1 << 14 /* number of names between two cancellation checks */ };
    char from[2][300], to[300];
    const char *const prefixes[] = {from[0], from[1]};
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    int left = 1000;
    const struct rt_checkpoint_run run = {.check = cancel_after, .arg = &left};

    assert_int_equal(mkdir(folder_path("merge"), 0777), 0);
    snprintf(to, sizeof to, "%s", folder_path("merge/all"));
    for (int k = 0; k < 2; k++) {
        snprintf(from[k], sizeof from[k], "%s%d", folder_path("merge/part"), k);
        write_scalars(from[k], k ? 'a' : 'b', MANY);
    }
    for (int k = 0; k < 2; k++) {
        assert_ok(rt_checkpoint_open(&c, from[k], &run, &err), &err);
        rt_checkpoint_unref(c);
    }
    const int to_read = 1000 - left;
    for (int asked = 0;; asked++) {
        left = asked;
        if (rt_checkpoint_merge(prefixes, 2, to, false, &run, &err) == RT_OK) {
            /* The names are sorted once, merged three times, compared, and added to the table. */
            assert_true(asked >= to_read + (1 + 3 + 1 + 1) * (2 * MANY / RUN));
            break;
        }
        assert_int_equal(err.code, RT_CANCELLED);
        assert_int_equal(ck_n_files(folder_path("merge")), 4);
    }
    assert_int_equal(ck_n_files(folder_path("merge")), 3);
    assert_ok(rt_checkpoint_open(&c, to, NULL, &err), &err);
    assert_int_equal(rt_checkpoint_count(c), 2 * MANY);
    rt_checkpoint_unref(c);
}

static void writing_ends_when_its_run_does(void **state)
{
    (void)state;
    enum { BYTES = 3 << 20, STRINGS = 50000, TEXT = 2 << 20 };
    const char *const names[] = {"bytes", "strings"};
    struct rt_error err = {0};
    struct rt_tensor t[2];
    int left = 1000;
    const struct rt_checkpoint_run run = {.check = cancel_after, .arg = &left};

    assert_ok(rt_tensor_new(&t[0], NULL, RT_U8, 1, (int64_t[]){BYTES}, &err), &err);
    memset(t[0].data, 7, BYTES);
    assert_ok(rt_tensor_new(&t[1], NULL, RT_STRING, 1, (int64_t[]){STRINGS}, &err), &err);
    assert_true(rt_str_set(t[1].data, NULL, t[0].data, TEXT, &err));
    assert_ok(rt_checkpoint_write(folder_path("done/w"), 2, names, t, NULL, &run, &err), &err);
    const int asked = 1000 - left;
    /* Cancellation is checked for each tensor, for each megabyte, and twice for every 16,384
     * strings, because the lengths of all strings are written before their bytes. */
    assert_true(asked >= 2 + 3 + 4 + 4 + 2);
    for (int i = 0; i < asked; i++) {
        left = i;
        assert_fails(rt_checkpoint_write(folder_path("cut/w"), 2, names, t, NULL, &run, &err),
                     RT_CANCELLED, &err, "the run was cancelled");
        assert_int_equal(rmdir(folder_path("cut")), 0);
    }
    rt_tensor_clear(&t[0]);
    rt_tensor_clear(&t[1]);
}

static void a_lazy_tensor_is_read_for_the_run_that_writes_it(void **state)
{
    (void)state;
    const char *const name = "bytes";
    int left = 4; /* one check for the tensor, and one for each of three megabytes */
    const struct rt_checkpoint_run run = {.check = cancel_after, .arg = &left};
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t;

    assert_ok(rt_tensor_new(&t, NULL, RT_U8, 1, (int64_t[]){5 << 20}, &err), &err);
    memset(t.data, 7, rt_tensor_bytes(&t));
    assert_ok(rt_checkpoint_write(folder_path("lazy"), 1, &name, &t, NULL, NULL, &err), &err);
    rt_tensor_clear(&t);
    assert_ok(rt_checkpoint_open(&c, folder_path("lazy"), NULL, &err), &err);
    assert_ok(rt_checkpoint_tensor(c, name, CK_WHOLE, RT_U8, NULL, &t, &err), &err);
    assert_fails(rt_checkpoint_write(folder_path("copy"), 1, &name, &t, NULL, &run, &err),
                 RT_CANCELLED, &err, "the run was cancelled");
    assert_true(rt_tensor_is_lazy(&t));
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
}

/* All names may be copies of one long string, so a small graph can write a large index. */
static void the_index_that_is_written_counts_in_the_pool_of_its_run(void **state)
{
    (void)state;
    enum { LENGTH = 100000, MANY = 20 };
    static char text[LENGTH + 1];
    static const char *names[MANY];
    static struct rt_tensor tensors[MANY];
    struct rt_pool *pool = rt_pool_new_plain(MANY / 2 * LENGTH, "--a_limit");
    const struct rt_checkpoint_run run = {.check = go_on, .pool = pool};
    struct rt_error err = {0};
    struct rt_tensor t;

    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 0, NULL, &err), &err);
    memset(t.data, 0, 4);
    memset(text, 'n', LENGTH);
    for (int i = 0; i < MANY; i++) {
        names[i] = text;
        tensors[i] = t;
    }
    assert_fails(rt_checkpoint_write(folder_path("cut/w"), MANY, names, tensors, NULL, &run, &err),
                 RT_RESOURCE_EXHAUSTED, &err, "--a_limit");
    assert_int_equal(rmdir(folder_path("cut")), 0);
    assert_int_equal(rt_pool_in_use(pool), 0);
    rt_tensor_clear(&t);
    rt_pool_unref(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lazy_tensor_is_read_in_pieces_until_its_run_ends),
        cmocka_unit_test(a_long_string_is_read_in_pieces_until_its_run_ends),
        cmocka_unit_test(reading_at_once_ends_when_its_run_does),
        cmocka_unit_test(what_is_read_counts_in_the_pool_of_its_run),
        cmocka_unit_test(an_index_counts_in_the_pool_of_its_run),
        cmocka_unit_test(reading_an_index_ends_when_its_run_does),
        cmocka_unit_test(reading_a_long_entry_ends_when_its_run_does),
        cmocka_unit_test(merging_many_names_ends_when_its_run_does),
        cmocka_unit_test(writing_ends_when_its_run_does),
        cmocka_unit_test(a_lazy_tensor_is_read_for_the_run_that_writes_it),
        cmocka_unit_test(the_index_that_is_written_counts_in_the_pool_of_its_run),
    };
    return cmocka_run_group_tests(tests, ck_set_up, ck_tear_down);
}
