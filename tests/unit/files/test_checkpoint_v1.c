#include "tests/support/test.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/core/slice.h"
#include "runtime/files/checkpoint_v1.h"
#include "runtime/files/file.h"
#include "tests/support/folder.h"

/* tests/goldens/checkpoint/make_v1.py wrote the files with TensorFlow 2.21 and read them back. */
#define GOLDEN "tests/goldens/checkpoint/"
#define WHOLE  rt_span_of(NULL, 0)

static struct rt_error err;

enum { BIG = 4 << 20, WIRE_F32 = 1, WIRE_I32 = 3, WIRE_U8 = 4, WIRE_STRING = 7, WIRE_BOOL = 10 };

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
        assert_string_equal(rt_checkpoint_v1_name(c, 0), "bool");
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
    c = opened(GOLDEN "v1-00000-of-00002");
    assert_fails(rt_checkpoint_v1_tensor(c, "w", WHOLE, RT_F32, NULL, &t, &err),
                 RT_INVALID_ARGUMENT, &err, "Error copying slice data");
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
    assert_ok(rt_checkpoint_v1_tensor(c, "str", rt_span_str("3 1,2"), RT_STRING, NULL, &t, &err),
              &err);
    assert_string_equal(rt_str_data(t.data), "abc");
    assert_int_equal(((struct rt_str *)t.data)[1].n, 300);
    rt_tensor_clear(&t);
    rt_checkpoint_v1_close(c);
    static const char *const nothing[] = {GOLDEN "none", GOLDEN "none*", "no/such/folder/*"};
    for (int i = 0; i < 3; i++)
        assert_fails(rt_checkpoint_v1_open(&c, nothing[i], NULL, &err), RT_NOT_FOUND, &err,
                     "Unsuccessful TensorSliceReader constructor: Failed to find any matching "
                     "files for ");
    assert_fails(rt_checkpoint_v1_open(&c, GOLDEN "make_v1.py", NULL, &err), RT_DATA_LOSS, &err,
                 "not an sstable (bad magic number)");
    /* The index of a checkpoint of version 2 is a list without tensors. */
    c = opened(GOLDEN "plain.index");
    assert_fails(rt_checkpoint_v1_tensor(c, "f32", WHOLE, RT_F32, NULL, &t, &err), RT_NOT_FOUND,
                 &err, "Tensor name \"f32\" not found in checkpoint files " GOLDEN "plain.index");
    rt_checkpoint_v1_close(c);
    folder_new();
    assert_int_equal(mkfifo(folder_path("fifo"), 0600), 0);
    assert_fails(rt_checkpoint_v1_open(&c, folder_path("fifo"), NULL, &err), RT_FAILED_PRECONDITION,
                 &err, "is a FIFO, not a regular file");
    folder_remove();
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void copy_file(const char *from, const char *to)
{
    char *p;
    size_t n;
    assert_ok(rt_file_read(from, 1 << 20, &p, &n, &err), &err);
    write_file(to, p, n);
    free(p);
}

/* Appends a length-delimited field of n bytes. If `bytes` is NULL, each byte is 1. */
static void add_field(struct rt_bytes *b, int number, const void *bytes, size_t n)
{
    rt_bytes_addc(b, (char)(number << 3 | 2));
    for (size_t left = n;; left >>= 7) {
        rt_bytes_addc(b, (char)((left & 127) | (left > 127 ? 128 : 0)));
        if (left <= 127)
            break;
    }
    for (size_t i = 0; !bytes && i < n; i++)
        rt_bytes_addc(b, 1);
    if (bytes)
        rt_bytes_add(b, bytes, n);
}

/* Wraps the message in *b: *b becomes a message whose field `number` contains the old message. */
static void wrap(struct rt_bytes *b, int number)
{
    struct rt_bytes outer;
    rt_bytes_init(&outer, SIZE_MAX / 2);
    add_field(&outer, number, b->p, b->n);
    rt_bytes_clear(b);
    *b = outer;
}

/* Returns a table with the tensor `name` of n elements. The TensorProto `values` contains its
 * values. */
static struct rt_sstable_writer table_of(const char *name, int dtype, int64_t n,
                                         struct rt_bytes *values)
{
    const struct rt_slice all = {.rank = 1, .length = {-1}};
    struct rt_sstable_writer w;
    struct rt_bytes list, shape, key;
    rt_bytes_init(&list, 1000);
    rt_bytes_init(&shape, 1000);
    rt_bytes_init(&key, 1000);
    rt_bytes_addc(&shape, 1 << 3);
    for (int64_t left = n; left || shape.n == 1; left >>= 7)
        rt_bytes_addc(&shape, (char)((left & 127) | (left > 127 ? 128 : 0)));
    wrap(&shape, 2);
    add_field(&list, 1, name, strlen(name));
    add_field(&list, 2, shape.p, shape.n);
    rt_bytes_addc(&list, 3 << 3);
    rt_bytes_addc(&list, (char)dtype);
    add_field(&list, 4, "\x0a\0", 2); /* a slice with one extent, which is the full dimension */
    wrap(&list, 1);
    wrap(&list, 1);
    wrap(values, 3);
    wrap(values, 2);
    rt_slice_key(&key, rt_span_str(name), &all);
    rt_sstable_begin(&w, 0);
    rt_sstable_add(&w, rt_span_of("", 0), rt_span_of(list.p, list.n));
    rt_sstable_add(&w, rt_span_of(key.p, key.n), rt_span_of(values->p, values->n));
    assert_true(rt_sstable_end(&w));
    rt_bytes_clear(&list);
    rt_bytes_clear(&shape);
    rt_bytes_clear(&key);
    return w;
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
    for (int i = 0; i < FILES; i++) {
        struct rt_bytes values;
        rt_bytes_init(&values, 1000);
        snprintf(name, sizeof name, "v1-%03d", i);
        add_field(&values, 5, NULL, 4);
        struct rt_sstable_writer w = table_of(name, WIRE_F32, 1, &values);
        write_file(folder_path(name), w.file.p, w.file.n);
        rt_sstable_clear(&w);
        rt_bytes_clear(&values);
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
    assert_int_equal(rt_checkpoint_v1_count(c), FILES);
    rt_checkpoint_v1_close(c);

    /* Loads share the cached checkpoint until one of its files changes. Then the checkpoint is read
     * again. */
    snprintf(pattern, sizeof pattern, "%s", folder_path("v1-000"));
    c = opened(pattern);
    struct rt_checkpoint_v1 *again = opened(pattern);
    assert_ptr_not_equal(c, again);
    rt_checkpoint_v1_close(again);
    rt_checkpoint_v1_keep(c);
    again = opened(pattern);
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

    /* finds the amount of memory that opening the checkpoint needs */
    for (size_t limit = 0;; limit += 16) {
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
    /* The list of tensors stays in memory, so the rest of the limit is too small for the tensor's
     * block. */
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

static enum rt_status fail_at(void *arg, struct rt_error *why)
{
    return --*(int *)arg ? RT_OK : rt_fail(why, RT_CANCELLED, "cancelled");
}

/* Reads the tensor "t". The run's check function fails in call number *at, counted from 1. */
static enum rt_status read_until(const struct rt_sstable_writer *w, int *at, struct rt_tensor *t)
{
    const struct rt_checkpoint_run run = {.check = fail_at, .arg = at};
    const struct rt_sstable_source from = {
        .size = w->file.n, .p = (const unsigned char *)w->file.p, .run = &run};
    struct rt_checkpoint_v1 *c;
    enum rt_status st = rt_checkpoint_v1_over(&c, "x", &from, &err);
    if (st)
        return st;
    st = rt_checkpoint_v1_tensor(c, "t", WHOLE, RT_NO_DTYPE, &run, t, &err);
    rt_checkpoint_v1_close(c);
    return st;
}

/* One row for each way in which the values of a slice may be stored. */
static const struct stored {
    int dtype, field;
    size_t n_bytes; /* size in bytes of each occurrence of the field */
    int n_fields;   /* number of occurrences */
    int64_t n;      /* number of elements */
    size_t first;   /* the tensor's first byte, or the length of its first string */
} stored[] = {
    {WIRE_F32, 5, BIG, 1, BIG / 4, 1}, /* packed values */
    {WIRE_I32, 7, BIG, 1, BIG, 1},         {WIRE_U8, 7, BIG, 1, BIG, 1},
    {WIRE_BOOL, 11, BIG, 1, BIG, 1},       {WIRE_STRING, 8, 20, BIG / 22, BIG / 22, 20},
    {WIRE_I32, 7, 1, BIG / 3, BIG / 3, 1}, /* the field occurs once for each value */
};

static void a_run_is_checked_while_a_large_slice_is_decoded(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof stored / sizeof *stored; k++) {
        const struct stored *s = &stored[k];
        struct rt_bytes values;
        struct rt_tensor t;
        rt_bytes_init(&values, SIZE_MAX / 2);
        for (int i = 0; i < s->n_fields; i++)
            add_field(&values, s->field, NULL, s->n_bytes);
        struct rt_sstable_writer w = table_of("t", s->dtype, s->n, &values);
        rt_bytes_clear(&values);
        int left = INT32_MAX;
        assert_ok(read_until(&w, &left, &t), &err);
        const int n_checks = INT32_MAX - left;
        assert_int_equal(rt_tensor_count(&t), s->n);
        if (s->dtype == WIRE_STRING)
            assert_int_equal(rt_strs(&t)[0].n, s->first);
        else
            assert_int_equal(*(unsigned char *)t.data, s->first);
        rt_tensor_clear(&t);
        /* There is a check for each 256 KiB that is decoded. Reading the blocks alone makes fewer
         * than 16 checks. */
        assert_in_range(n_checks, BIG >> 18, 10000);
        for (int at = 1; at <= n_checks; at += 1 + n_checks / 6) {
            left = at;
            assert_int_equal(read_until(&w, &left, &t), RT_CANCELLED);
            assert_int_equal(left, 0);
            assert_null(t.data);
        }
        rt_sstable_clear(&w);
    }
}

/* Reads the tensor "t" of n elements, whose values are in the TensorProto `values`. */
static enum rt_status decode(int dtype, int64_t n, const char *values, size_t size,
                             struct rt_tensor *t)
{
    struct rt_bytes b;
    rt_bytes_init(&b, 1000);
    rt_bytes_add(&b, values, size);
    struct rt_sstable_writer w = table_of("t", dtype, n, &b);
    int never = INT32_MAX;
    const enum rt_status st = read_until(&w, &never, t);
    rt_bytes_clear(&b);
    rt_sstable_clear(&w);
    return st;
}

static void values_that_do_not_fit_the_tensor_are_refused(void **state)
{
    (void)state;
    static const struct {
        int dtype;
        int64_t n;
        const char *values;
        size_t size;
        const char *why;
    } wrong[] = {
        {WIRE_I32, 3, "\x3a\2\1\1", 4, "a slice of 3 values of type int32 has 2 values"},
        {WIRE_I32, 1, "\x3a\1\x80", 3, "not a tensorflow.SavedTensorSlices"},
        {WIRE_I32, 1, "\x3d\1\1\1\1", 5, "a slice of 1 values of type int32 has 0 values"},
        /* damage to fields that are not read: int64_val, the shape and the name of a variant */
        {WIRE_I32, 1, "\x3a\1\1\x52\1\x80", 6, "not a tensorflow.SavedTensorSlices"},
        {WIRE_I32, 1, "\x3a\1\1\x12\1\7", 6, "not a tensorflow.SavedTensorSlices"},
        {WIRE_I32, 1, "\x3a\1\1\x7a\3\x0a\1\xff", 8, "field \"type_name\" of a VariantTensorData"},
        {WIRE_F32, 1, "\x2a\3\1\1\1", 5, "not a tensorflow.SavedTensorSlices"},
        {WIRE_F32, 1, "\x2a\7\1\1\1", 5, "not a tensorflow.SavedTensorSlices"},
        {WIRE_I32, 3, "\x3a\4\1\1\1\1", 6, "a slice of 3 values of type int32 has 4 values"},
        {WIRE_I32, 3, "\x3a\2\1\2\x38\3\x3a\1\4", 9,
         "a slice of 3 values of type int32 has 4 values"},
        {WIRE_F32, 1, "\x2a\x8\1\1\1\1\2\2\2\2", 10,
         "a slice of 1 values of type float has 2 values"},
        {WIRE_U8, 2, "\x22\2\1\1", 4, "a slice of 2 values of type uint8 has 0 values"},
        {WIRE_STRING, 2, "\x42\0", 2, "a slice of 2 values of type string has 1 values"},
        {WIRE_STRING, 2, "\x42\0\x42\0\x42\0", 6,
         "a slice of 2 values of type string has 3 values"},
    };
    struct rt_tensor t;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_fails(decode(wrong[i].dtype, wrong[i].n, wrong[i].values, wrong[i].size, &t),
                     RT_DATA_LOSS, &err, wrong[i].why);
        assert_null(t.data);
    }
    /* The values of several fields are concatenated. tensor_content and fields of another wire type
     * are ignored. */
    assert_ok(decode(WIRE_I32, 3, "\x3a\2\1\2\x3d\1\1\1\1\x38\3", 11, &t), &err);
    assert_memory_equal(t.data, ((int32_t[]){1, 2, 3}), 12);
    rt_tensor_clear(&t);
    assert_ok(decode(WIRE_STRING, 2, "\x42\1x\x22\3\0\1y\x42\1z", 11, &t), &err);
    assert_string_equal(rt_str_data(&rt_strs(&t)[0]), "x");
    assert_string_equal(rt_str_data(&rt_strs(&t)[1]), "z");
    rt_tensor_clear(&t);
    /* A signalling NaN keeps its bits. */
    assert_ok(decode(WIRE_F32, 1, "\x2a\4\1\0\xa0\x7f", 6, &t), &err);
    assert_memory_equal(t.data, "\1\0\xa0\x7f", 4);
    rt_tensor_clear(&t);
}

/* Opens a table that has only the list of tensors `list`. The run's check function fails in call
 * number *at, counted from 1. */
static enum rt_status open_list(const struct rt_bytes *list, int *at)
{
    const struct rt_checkpoint_run run = {.check = fail_at, .arg = at};
    struct rt_checkpoint_v1 *c;
    struct rt_sstable_writer w;
    rt_sstable_begin(&w, 0);
    rt_sstable_add(&w, rt_span_of("", 0), rt_span_of(list->p, list->n));
    assert_true(rt_sstable_end(&w));
    const struct rt_sstable_source from = {
        .size = w.file.n, .p = (const unsigned char *)w.file.p, .run = &run};
    const enum rt_status st = rt_checkpoint_v1_over(&c, "x", &from, &err);
    if (!st)
        rt_checkpoint_v1_close(c);
    rt_sstable_clear(&w);
    return st;
}

static void a_run_is_checked_while_a_long_list_is_read(void **state)
{
    (void)state;
    enum { TENSORS = 200000, BYTES = TENSORS * 14 };
    struct rt_bytes list;
    rt_bytes_init(&list, SIZE_MAX / 2);
    for (int i = 0; i < TENSORS; i++)
        rt_bytes_addf(&list, "\x0a\x0c\x0a\x08%08d\x18\1", i);
    assert_int_equal(list.n, BYTES);
    wrap(&list, 1);
    int left = INT32_MAX;
    assert_ok(open_list(&list, &left), &err);
    const int n_checks = INT32_MAX - left;
    assert_in_range(n_checks, BYTES >> 17, 10000);
    for (int at = 1; at <= n_checks; at += 1 + n_checks / 6) {
        left = at;
        assert_int_equal(open_list(&list, &left), RT_CANCELLED);
        assert_int_equal(left, 0);
    }
    rt_bytes_clear(&list);
}

/* One comparison of a name with a pattern of many bracket expressions may take milliseconds. */
static void a_run_is_checked_while_a_pattern_is_compared_with_names(void **state)
{
    (void)state;
    enum { FILES = 20 };
    int left = FILES;
    const struct rt_checkpoint_run run = {.check = fail_at, .arg = &left};
    struct rt_checkpoint_v1 *c;
    char pattern[600], name[32];
    folder_new();
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "v1-%03d", i);
        folder_write(name, "");
    }
    snprintf(pattern, sizeof pattern, "%s", folder_path("[x]*"));
    assert_int_equal(rt_checkpoint_v1_open(&c, pattern, &run, &err), RT_CANCELLED);
    assert_int_equal(left, 0);
    /* A pattern of more bytes than a file's name may have is refused before any comparison. */
    const size_t n = (size_t)snprintf(pattern, sizeof pattern, "%s", folder_path("*"));
    memset(pattern + n, 'x', 255);
    pattern[n + 254] = '\0';
    assert_fails(rt_checkpoint_v1_open(&c, pattern, NULL, &err), RT_NOT_FOUND, &err,
                 "Failed to find any matching files");
    pattern[n + 254] = 'x';
    pattern[n + 255] = '\0';
    assert_fails(rt_checkpoint_v1_open(&c, pattern, NULL, &err), RT_FAILED_PRECONDITION, &err,
                 "File name too long");
    folder_remove();
}

static void a_wrong_list_is_refused(void **state)
{
    (void)state;
    /* TensorFlow 2.21 reads the lists without `why`, and refuses the others. */
    static const struct {
        const char *list;
        size_t n;
        enum rt_status code;
        const char *why;
    } wrong[] = {
#define LIST(text) text, sizeof text - 1
        {LIST(""), RT_OK, NULL},
        {LIST("\x12\0"), RT_OK, NULL}, /* the message of a slice */
        {LIST("\x08\0"), RT_OK, NULL},
        {LIST("\x0a\2\x08\0"), RT_OK, NULL},
        {LIST("\x0a\3\x0a\1\x0a"), RT_DATA_LOSS, "not a tensorflow.SavedTensorSlices"},
        {LIST("\x0a\5\x0a\3\x0a\1\0"), RT_DATA_LOSS, "a tensor's name holds a NUL"},
        {LIST("\x0a\5\x0a\3\x0a\1\xff"), RT_DATA_LOSS,
         "the list: field \"name\" of a SavedSliceMeta is not UTF-8"},
        {LIST("\x12\3\x0a\1\xff"), RT_DATA_LOSS, "field \"name\" of a SavedSlice is not UTF-8"},
        {LIST("\x0a\5\x0a\3\x12\1\7"), RT_DATA_LOSS, "not a tensorflow.SavedTensorSlices"},
        {LIST("\x0a\4\x12\2\x10\2"), RT_UNIMPLEMENTED, "needs a reader of version 2, this is 1"},
        {LIST("\x0a\4\x12\2\x10\2\x0a\4\x12\2\x10\1"), RT_OK, NULL},
        {LIST("\x0a\4\x12\2\x18\1"), RT_INVALID_ARGUMENT, "disallows readers of version 1"},
        {LIST("\x0a\6\x12\4\x1a\2\0\1"), RT_INVALID_ARGUMENT, "disallows readers of version 1"},
        {LIST("\x0a\5\x12\3\x1a\1\0"), RT_OK, NULL},
        {LIST("\x0a\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"), RT_INVALID_ARGUMENT,
         "its writer has the version -1"},
    };
#undef LIST
    int never = INT32_MAX;
    struct rt_bytes list;
    rt_bytes_init(&list, SIZE_MAX / 2);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        list.n = 0;
        rt_bytes_add(&list, wrong[i].list, wrong[i].n);
        if (wrong[i].why)
            assert_fails(open_list(&list, &never), wrong[i].code, &err, wrong[i].why);
        else
            assert_ok(open_list(&list, &never), &err);
    }
    list.n = 0; /* an entry of 6 MB, which has three million slices */
    for (int i = 0; i < 3 << 20; i++)
        rt_bytes_add(&list, "\x22\0", 2);
    wrap(&list, 1);
    wrap(&list, 1);
    assert_fails(open_list(&list, &never), RT_RESOURCE_EXHAUSTED, &err,
                 "a tensor whose entry has 6291456 bytes, more than 4194304");
    rt_bytes_clear(&list);
}

/* entries of a list: the names "t" and "u", shapes, types, and slices of one dimension */
#define T_ENTRY(shape, type, slice) "\x0a\1t" shape type slice
#define U_ENTRY(shape, type, slice) "\x0a\1u" shape type slice
#define SHAPE_2                     "\x12\4\x12\2\x08\2"
#define SHAPE_3                     "\x12\4\x12\2\x08\3"
#define SHAPE_MINUS_1               "\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"
#define IS_FLOAT                    "\x18\1"
#define IS_INT                      "\x18\3"
#define SLICE                       "\x22\2\x0a\0"
#define SLICE_0                     "\x22\4\x0a\2\x10\1"
#define SLICE_1                     "\x22\6\x0a\4\x08\1\x10\1"

/* If a list contradicts itself in one tensor, TensorFlow reads no tensor of the checkpoint. */
static void a_list_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    /* two entries of a list; TensorFlow 2.21 reads the lists without `why`, and refuses the others
     * with these words */
    static const struct {
        const char *entry[2];
        enum rt_status code;
        const char *why;
        size_t n[2];
    } rows[] = {
#define ROW(first, second, code, why)                                                              \
    {                                                                                              \
        {first, second}, code, why,                                                                \
        {                                                                                          \
            sizeof first - 1, sizeof second - 1                                                    \
        }                                                                                          \
    }
        ROW(T_ENTRY(SHAPE_2, IS_FLOAT, SLICE), U_ENTRY(SHAPE_3, IS_INT, SLICE), RT_OK, NULL),
        ROW(T_ENTRY(SHAPE_2, IS_FLOAT, SLICE_0), T_ENTRY(SHAPE_2, IS_FLOAT, SLICE_1), RT_OK, NULL),
        ROW(T_ENTRY(SHAPE_2, IS_FLOAT, SLICE), T_ENTRY(SHAPE_2, IS_FLOAT, SLICE), RT_INTERNAL,
            "Overlapping slices: existing slice = -, new slice = -"),
        ROW(T_ENTRY(SHAPE_2, IS_FLOAT, SLICE_0), T_ENTRY(SHAPE_3, IS_FLOAT, SLICE_1), RT_INTERNAL,
            "Incompatible tensor shapes detected for tensor t: existing = [2], new = [3]"),
        ROW(T_ENTRY(SHAPE_2, IS_FLOAT, SLICE_0), T_ENTRY(SHAPE_2, IS_INT, SLICE_1), RT_INTERNAL,
            "Incompatible tensor types detected for tensor t: existing = float, new = int32"),
        ROW(T_ENTRY(SHAPE_2, IS_FLOAT, SLICE), T_ENTRY(SHAPE_3, IS_INT, ""), RT_OK, NULL),
        ROW(T_ENTRY(SHAPE_3, IS_INT, ""), T_ENTRY(SHAPE_2, IS_FLOAT, SLICE), RT_OK, NULL),
        ROW(T_ENTRY("\x12\0", IS_FLOAT, SLICE_1), U_ENTRY(SHAPE_2, IS_FLOAT, SLICE), RT_INTERNAL,
            "Mismatching ranks"),
        ROW(T_ENTRY(SHAPE_2, IS_FLOAT, "\x22\6\x0a\4\x08\1\x10\2"),
            U_ENTRY(SHAPE_2, IS_FLOAT, SLICE), RT_INTERNAL, "out of bounds"),
        ROW(T_ENTRY(SHAPE_2, IS_FLOAT, "\x22\6\x0a\4\x08\1\x10\0"),
            U_ENTRY(SHAPE_2, IS_FLOAT, SLICE), RT_INVALID_ARGUMENT,
            "Expected non-negative start and positive length but got start = 1, length = 0"),
        ROW(T_ENTRY(SHAPE_MINUS_1, IS_FLOAT, SLICE), U_ENTRY(SHAPE_2, IS_FLOAT, SLICE),
            RT_INVALID_ARGUMENT, "tensor \"t\": a tensor of shape [?]"),
        ROW(T_ENTRY(SHAPE_MINUS_1, IS_FLOAT, ""), U_ENTRY(SHAPE_2, IS_FLOAT, SLICE),
            RT_INVALID_ARGUMENT, "tensor \"t\": a tensor of shape [?]"),
        /* a shape of unknown rank, and a type that does not exist */
        ROW(T_ENTRY("\x12\2\x18\1", IS_FLOAT, "\x22\0"), U_ENTRY(SHAPE_2, IS_FLOAT, SLICE), RT_OK,
            NULL),
        ROW(T_ENTRY(SHAPE_2, "\x18\x7f", SLICE), U_ENTRY(SHAPE_2, IS_FLOAT, SLICE), RT_OK, NULL),
#undef ROW
    };
    int never = INT32_MAX;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rt_bytes list;
        rt_bytes_init(&list, 1000);
        add_field(&list, 1, rows[i].entry[0], rows[i].n[0]);
        add_field(&list, 1, rows[i].entry[1], rows[i].n[1]);
        wrap(&list, 1);
        const enum rt_status st = open_list(&list, &never);
        if (rows[i].why)
            assert_fails(st, rows[i].code, &err, rows[i].why);
        else
            assert_ok(st, &err);
        rt_bytes_clear(&list);
    }
}

static void tensors_without_stored_slices_get_tensorflows_codes(void **state)
{
    (void)state;
    /* The tensors of shape [2] are float. "a" has no slices; "b" has the slice of all elements,
     * which is not stored; "c" is listed first without slices and shape, then as "b" is. */
    static const char entries[] = "\x0a\x0b\x0a\1a\x12\4\x12\2\x08\2\x18\1"
                                  "\x0a\x0f\x0a\1b\x12\4\x12\2\x08\2\x18\1\x22\2\x0a\0"
                                  "\x0a\3\x0a\1c"
                                  "\x0a\x0f\x0a\1c\x12\4\x12\2\x08\2\x18\1\x22\2\x0a\0";
    struct rt_bytes list;
    struct rt_checkpoint_v1 *c;
    struct rt_sstable_writer w;
    struct rt_tensor t;
    rt_bytes_init(&list, 1000);
    rt_bytes_add(&list, entries, sizeof entries - 1);
    wrap(&list, 1);
    rt_sstable_begin(&w, 0);
    rt_sstable_add(&w, rt_span_of("", 0), rt_span_of(list.p, list.n));
    assert_true(rt_sstable_end(&w));
    const struct rt_sstable_source from = {.size = w.file.n, .p = (const unsigned char *)w.file.p};
    assert_ok(rt_checkpoint_v1_over(&c, "x", &from, &err), &err);
    assert_int_equal(rt_checkpoint_v1_count(c), 2);
    assert_fails(rt_checkpoint_v1_tensor(c, "a", WHOLE, RT_F32, NULL, &t, &err), RT_NOT_FOUND, &err,
                 "Tensor name \"a\" not found in checkpoint files x");
    static const char *const unstored[] = {"b", "c"};
    for (int i = 0; i < 2; i++)
        assert_fails(rt_checkpoint_v1_tensor(c, unstored[i], WHOLE, RT_F32, NULL, &t, &err),
                     RT_INVALID_ARGUMENT, &err,
                     "Error copying slice data: slice - is listed, but not stored");
    rt_checkpoint_v1_close(c);
    rt_sstable_clear(&w);
    rt_bytes_clear(&list);
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
        cmocka_unit_test(a_run_is_checked_while_a_large_slice_is_decoded),
        cmocka_unit_test(a_run_is_checked_while_a_long_list_is_read),
        cmocka_unit_test(a_run_is_checked_while_a_pattern_is_compared_with_names),
        cmocka_unit_test(a_wrong_list_is_refused),
        cmocka_unit_test(a_list_that_contradicts_itself_is_refused),
        cmocka_unit_test(tensors_without_stored_slices_get_tensorflows_codes),
        cmocka_unit_test(values_that_do_not_fit_the_tensor_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
