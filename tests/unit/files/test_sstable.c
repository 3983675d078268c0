/* Tests the tables of a checkpoint's index, including blocks, compression, and errors for damaged
 * tables. */
#include "tests/support/test.h"

#include "runtime/base/crc32c.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/sstable.h"

static void add_varint(struct rt_bytes *b, size_t v)
{
    for (; v > 127; v >>= 7)
        rt_bytes_addc(b, (char)(v | 128));
    rt_bytes_addc(b, (char)v);
}

/* Appends the stored bytes of a block to `table`, with the block's type and checksum, and the
 * block's handle to `handles`. */
static void add_block(struct rt_bytes *table, const char *stored, size_t n, char type,
                      struct rt_bytes *handles)
{
    size_t at = table->n;
    add_varint(handles, at);
    add_varint(handles, n);
    rt_bytes_add(table, stored, n);
    rt_bytes_addc(table, type);
    uint32_t crc = rt_crc32c_mask(rt_crc32c(0, table->p + at, n + 1));
    rt_bytes_add(table, &crc, 4);
}

/* Returns a table of one data block with the given stored bytes and compression type. The index has
 * `times` entries for the block. */
static struct rt_bytes table_with(const char *stored, size_t n, char type, int times)
{
    static const char magic[] = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
    struct rt_bytes t, index, handle, footer;

    rt_bytes_init(&t, 1 << 20);
    rt_bytes_init(&index, 1 << 20);
    rt_bytes_init(&handle, 100);
    rt_bytes_init(&footer, 100);
    add_block(&t, stored, n, type, &handle);
    for (int i = 0; i < times; i++) {
        char key[16];
        int len = snprintf(key, sizeof key, "%d", 1000000 + i);
        rt_bytes_addc(&index, 0);
        rt_bytes_addc(&index, (char)len);
        rt_bytes_addc(&index, (char)handle.n);
        rt_bytes_add(&index, key, (size_t)len);
        rt_bytes_add(&index, handle.p, handle.n);
    }
    rt_bytes_add(&index, "\0\0\0\0\1\0\0\0", 8);
    rt_bytes_add(&footer, "\0\0", 2); /* the handle of the metaindex block, which no reader reads */
    add_block(&t, index.p, index.n, 0, &footer);
    while (footer.n < 40)
        rt_bytes_addc(&footer, 0);
    rt_bytes_add(&t, footer.p, footer.n);
    rt_bytes_add(&t, magic, 8);
    rt_bytes_clear(&index);
    rt_bytes_clear(&handle);
    rt_bytes_clear(&footer);
    assert_false(t.failed);
    return t;
}

static struct rt_sstable_source source_of(const struct rt_bytes *table)
{
    return (struct rt_sstable_source){.size = table->n, .p = (const unsigned char *)table->p};
}

static enum rt_status count_any(void *arg, struct rt_span key, struct rt_span value,
                                struct rt_error *err)
{
    (void)key, (void)value, (void)err;
    ++*(int *)arg;
    return RT_OK;
}

static void a_block_is_refused_by_what_is_wrong_with_it(void **state)
{
    (void)state;
    static const char only_restarts[200] = {[196] = 49};
    static const struct {
        const char *stored;
        size_t n;
        char type;
        int times;
        /* Part of the expected error, NULL if one entry is read, or "" if no entry is read. */
        const char *words;
    } rows[] = {
        /* A table with one entry, "k" with the value "v", and one restart point. It occurs
         * uncompressed, compressed as a Snappy literal, and marked with types of compression that
         * are not supported. */
        {"\0\1\1kv\0\0\0\0\1\0\0\0", 13, 0, 1, NULL},
        {"\x0d\x30\0\1\1kv\0\0\0\0\1\0\0\0", 15, 1, 1, NULL},
        {"\0\1\1kv\0\0\0\0\1\0\0\0", 13, 2, 1, "compression 2 (zstd)"},
        {"\0\1\1kv\0\0\0\0\1\0\0\0", 13, 4, 1, "bad block type: compression 4"},
        /* In the following rows, the varint of the uncompressed length is not terminated, the
         * compressed bytes cannot decompress to that length, or the decompressed bytes have a
         * different length. */
        {"\xff\xff\xff\xff\xff\xff", 6, 1, 1, "is no snappy data"},
        {"", 0, 1, 1, "is no snappy data"},
        {"\xff\xff\xff\xff\x0f\x30\0", 7, 1, 1, "of snappy data announces 4294967295"},
        {"\xff\xff\x03\x30\0\1\1kv\0\0\0\0\1\0\0\0", 17, 1, 1, "data announces 65535"},
        {"\x0e\x30\0\1\1kv\0\0\0\0\1\0\0\0", 15, 1, 1, "corrupted compressed block contents"},
        {"\x0d\x30\0\1\1kv\0\0", 9, 1, 1, "corrupted compressed block contents"},
        {"\x02\x04\0\0", 4, 1, 1, "a block of 2 bytes"},
        {"\x04\x0c\xff\xff\xff\x7f", 6, 1, 1, "restarts"},
        /* An empty block is accepted, but an index may not refer to one block repeatedly. */
        {only_restarts, sizeof only_restarts, 0, 1, ""},
        {only_restarts, sizeof only_restarts, 0, 30, "blocks that overlap"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rt_error err = {0};
        int n = 0;
        struct rt_bytes t = table_with(rows[i].stored, rows[i].n, rows[i].type, rows[i].times);
        const struct rt_sstable_source source = source_of(&t);
        enum rt_status st = rt_sstable_read(&source, count_any, &n, &err);
        if (!rows[i].words || !*rows[i].words) {
            assert_ok(st, &err);
            assert_int_equal(n, rows[i].words ? 0 : 1);
        } else {
            assert_fails(st, RT_DATA_LOSS, &err, rows[i].words);
        }
        rt_bytes_clear(&t);
    }
}

/* The file stores a key as its difference from the preceding key. An index of 14 KB could therefore
 * make 7.5 MB of names, from 1,500 entries of 6 bytes whose keys share 5,000 bytes. */
static void names_take_no_more_than_their_file_allows(void **state)
{
    (void)state;
    enum { LONG = 5000, MANY = 1500, FOOTER = 48 };
    static const char hole[1 << 16];
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_bytes b, t, padded;

    rt_bytes_init(&b, 1 << 20);
    rt_bytes_add(&b, "\0\0\2\x08\1", 5); /* num_shards is 1 in the header */
    rt_bytes_add(&b, "\0\x88\x27\0", 4);
    for (int i = 0; i < LONG; i++)
        rt_bytes_addc(&b, 'x');
    for (int i = 1; i <= MANY; i++) {
        rt_bytes_add(&b, "\x88\x27\2\0", 4);
        rt_bytes_addc(&b, (char)(i >> 8));
        rt_bytes_addc(&b, (char)i);
    }
    rt_bytes_add(&b, "\0\0\0\0\1\0\0\0", 8);
    t = table_with(b.p, b.n, 0, 1);
    /* Bytes that belong to no block do not raise the limit on the length of the names, because
     * these bytes may be a hole in the file. */
    rt_bytes_init(&padded, 1 << 20);
    rt_bytes_add(&padded, t.p, t.n - FOOTER);
    rt_bytes_add(&padded, hole, sizeof hole);
    rt_bytes_add(&padded, t.p + t.n - FOOTER, FOOTER);
    struct rt_sstable_source source = source_of(&t);
    assert_fails(rt_checkpoint_open_index(&c, "x", &source, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "names that are too long");
    source = source_of(&padded);
    assert_fails(rt_checkpoint_open_index(&c, "x", &source, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "names that are too long");
    rt_bytes_clear(&padded);
    rt_bytes_clear(&t);
    rt_bytes_clear(&b);
}

static enum rt_status keep_value(void *arg, struct rt_span value, struct rt_error *err)
{
    (void)err;
    *(int *)arg = value.n ? value.p[0] : -1;
    return RT_OK;
}

/* If entries could repeat a key, a few bytes would cause many comparisons of a long key. The test
 * looks up a key between the last key of the block and the key of the index entry. */
static void keys_increase_and_have_a_limit(void **state)
{
    (void)state;
    static const char repeats[] = "\0\1\1\060v\1\0\0\0\0\0\0\1\0\0\0";
    static const char falls[] = "\0\1\1\060v\0\1\1/v\0\0\0\0\1\0\0\0";
    static const char *const words[] = {"keys out of order", "keys out of order",
                                        "a key of 65537 bytes, more than the limit of 65536"};
    struct rt_bytes b, t[3];

    rt_bytes_init(&b, 1 << 20);
    rt_bytes_addc(&b, 0);
    add_varint(&b, RT_SSTABLE_MAX_KEY + 1);
    rt_bytes_addc(&b, 0);
    for (int i = 0; i <= RT_SSTABLE_MAX_KEY; i++)
        rt_bytes_addc(&b, '0');
    rt_bytes_add(&b, "\0\0\0\0\1\0\0\0", 8);
    t[0] = table_with(repeats, sizeof repeats - 1, 0, 1);
    t[1] = table_with(falls, sizeof falls - 1, 0, 1);
    t[2] = table_with(b.p, b.n, 0, 1);
    for (int i = 0; i < 3; i++) {
        const struct rt_sstable_source source = source_of(&t[i]);
        struct rt_error err = {0};
        int n = 0;
        assert_fails(rt_sstable_read(&source, count_any, &n, &err), RT_DATA_LOSS, &err, words[i]);
        err = (struct rt_error){0};
        assert_fails(rt_sstable_find(&source, rt_span_str("1"), keep_value, &n, &err), RT_DATA_LOSS,
                     &err, words[i]);
        rt_bytes_clear(&t[i]);
    }
    rt_bytes_clear(&b);
}

/* The keys are all numbers in base 3 with at most 6 digits, so that they share prefixes of every
 * length and some are prefixes of others. Every second key is in the table. */
static void a_look_up_finds_each_key_and_no_other(void **state)
{
    (void)state;
    enum { DIGITS = 6 };
    struct rt_error err = {0};
    struct rt_sstable_writer w;
    char key[DIGITS + 2] = "";

    for (int pass = 0; pass < 2; pass++) {
        int i = 0;
        if (!pass)
            rt_sstable_begin(&w, 200);
        for (size_t n = 0;; i++) {
            if (n < DIGITS) {
                key[n++] = '0';
            } else {
                while (n && key[n - 1] == '2')
                    n--;
                if (!n)
                    break;
                key[n - 1]++;
            }
            const char value = (char)(i % 100);
            if (!pass && i % 2) {
                rt_sstable_add(&w, rt_span_of(key, n), rt_span_of(&value, 1));
            } else if (pass) {
                const struct rt_sstable_source source = source_of(&w.file);
                int got = -1;
                enum rt_status st =
                    rt_sstable_find(&source, rt_span_of(key, n), keep_value, &got, &err);
                assert_int_equal(st, i % 2 ? RT_OK : RT_NOT_FOUND);
                assert_int_equal(got, i % 2 ? value : -1);
            }
        }
        assert_int_equal(i, 3 + 9 + 27 + 81 + 243 + 729);
        if (!pass)
            assert_true(rt_sstable_end(&w));
    }
    rt_sstable_clear(&w);
}

static enum rt_status append(void *arg, const void *p, size_t n, struct rt_error *err)
{
    struct rt_bytes *to = arg;

    if (to->n + n > to->limit)
        return rt_fail(err, RT_RESOURCE_EXHAUSTED, "the sink is full");
    rt_bytes_add(to, p, n);
    return RT_OK;
}

/* Writes the same table to a sink as to memory. Some values are larger than what a sink receives at
 * once, and arrive in pieces. */
static void a_sink_receives_the_same_table(void **state)
{
    (void)state;
    enum { N = 60, BIG = 2500000, PIECE = 777777 };
    struct rt_error err = {0};
    struct rt_sstable_writer w, to_sink;
    struct rt_bytes received;
    char *value = malloc(BIG);

    assert_non_null(value);
    for (int i = 0; i < BIG; i++)
        value[i] = (char)(i * 7 + i / 251);
    for (int is_full = 0; is_full < 2; is_full++) {
        rt_bytes_init(&received, is_full ? 3 << 20 : SIZE_MAX / 2);
        rt_sstable_begin(&w, 0);
        rt_sstable_begin_sink(&to_sink, append, &received, &err);
        for (int i = 0; i < N; i++) {
            char key[8];
            const size_t n = i % 20 == 7 ? BIG : (size_t)i * 1000;
            const int n_key = snprintf(key, sizeof key, "k%02d", i);
            rt_sstable_add(&w, rt_span_of(key, (size_t)n_key), rt_span_of(value, n));
            rt_sstable_add_key(&to_sink, rt_span_of(key, (size_t)n_key), n);
            for (size_t at = 0; at < n; at += PIECE)
                rt_sstable_put(&to_sink, value + at, n - at < PIECE ? n - at : PIECE);
        }
        assert_true(rt_sstable_end(&w));
        assert_int_equal(rt_sstable_end(&to_sink), !is_full);
        assert_int_equal(to_sink.status, is_full ? RT_RESOURCE_EXHAUSTED : RT_OK);
        assert_int_equal(received.n, is_full ? 3 << 20 : w.file.n);
        assert_memory_equal(received.p, w.file.p, received.n);
        rt_sstable_clear(&w);
        rt_sstable_clear(&to_sink);
        rt_bytes_clear(&received);
    }
    free(value);
}

struct counted {
    const struct rt_bytes *table;
    int n_reads;
};

static enum rt_status read_counted(void *arg, uint64_t offset, void *dst, size_t n,
                                   struct rt_error *err)
{
    struct counted *c = arg;

    (void)err;
    c->n_reads++;
    memcpy(dst, c->table->p + offset, n);
    return RT_OK;
}

/* The even numbers below 2 * N are in the table, in blocks of about ten. */
static void a_finder_reads_a_block_once_for_all_its_keys(void **state)
{
    (void)state;
    enum { N = 2000, LOOK_UPS = 20000 };
    struct rt_error err = {0};
    struct rt_sstable_writer w;
    struct rt_sstable_finder *f;
    char key[16];
    uint32_t random = 1;

    rt_sstable_begin(&w, 100);
    for (int i = 0; i < N; i++) {
        const char value = (char)(i % 100);
        snprintf(key, sizeof key, "%06d", 2 * i);
        rt_sstable_add(&w, rt_span_str(key), rt_span_of(&value, 1));
    }
    assert_true(rt_sstable_end(&w));
    struct counted counted = {.table = &w.file};
    const struct rt_sstable_source source = {
        .size = w.file.n, .read = read_counted, .arg = &counted};
    assert_ok(rt_sstable_finder_new(&f, &source, &err), &err);
    for (int i = 0; i < 2 * N + LOOK_UPS; i++) {
        random = random * 1664525 + 1013904223;
        const int n = i < 2 * N ? i : (int)((random >> 8) % (2 * N));
        int got = -1;
        snprintf(key, sizeof key, "%06d", n);
        const enum rt_status st =
            rt_sstable_finder_find(f, rt_span_str(key), keep_value, &got, &err);
        assert_int_equal(st, n % 2 ? RT_NOT_FOUND : RT_OK);
        assert_int_equal(got, n % 2 ? -1 : n / 2 % 100);
        if (i + 1 == 2 * N) /* the reads of the footer, the index and each block */
            assert_in_range(counted.n_reads, 100, N / 5);
    }
    rt_sstable_finder_free(f);
    rt_sstable_clear(&w);
}

/* A check that succeeds `left` times and then reports that the run was cancelled. */
static enum rt_status cancel_after(void *arg, struct rt_error *err)
{
    int *left = arg;

    return (*left)-- > 0 ? RT_OK : rt_fail(err, RT_CANCELLED, "the run was cancelled");
}

/* A table of one block with a megabyte of entries. */
static void reading_a_block_ends_when_its_run_does(void **state)
{
    (void)state;
    enum { MANY = 200000 };
    struct rt_error err = {0};
    struct rt_sstable_writer w;
    char key[16];
    int left, n = 0;

    rt_sstable_begin(&w, 1 << 28);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "%08d", i);
        rt_sstable_add(&w, rt_span_str(key), rt_span_of(NULL, 0));
    }
    assert_true(rt_sstable_end(&w));
    const struct rt_checkpoint_run run = {.check = cancel_after, .arg = &left};
    struct rt_sstable_source source = source_of(&w.file);
    const int least = (int)(w.file.n / RT_SSTABLE_CHECK_BYTES);
    source.run = &run;
    assert_true(least > 5);
    for (int succeed = 0; succeed < least; succeed++) {
        left = succeed;
        assert_fails(rt_sstable_read(&source, count_any, &n, &err), RT_CANCELLED, &err, "cancel");
        left = succeed;
        assert_fails(rt_sstable_find(&source, rt_span_str("00199999"), keep_value, &n, &err),
                     RT_CANCELLED, &err, "cancel");
    }
    left = 1000;
    assert_ok(rt_sstable_find(&source, rt_span_str("00199999"), keep_value, &n, &err), &err);
    rt_sstable_clear(&w);
}

static enum rt_status count_entries(void *arg, struct rt_span key, struct rt_span value,
                                    struct rt_error *err)
{
    char want[64];
    (void)err;
    int n = snprintf(want, sizeof want, "some/name/%05d", *(int *)arg);
    assert_true(rt_span_eq(key, rt_span_of(want, (size_t)n)));
    assert_int_equal(value.n, *(int *)arg % 50);
    ++*(int *)arg;
    return RT_OK;
}

static void a_table_of_many_blocks_gives_all_its_entries(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_sstable_writer w;
    struct rt_sstable_source source;
    char key[64], value[64] = {0};
    int n = 0;
    rt_sstable_begin(&w, 500);
    for (int i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "some/name/%05d", i);
        rt_sstable_add(&w, rt_span_str(key), rt_span_of(value, (size_t)i % 50));
    }
    assert_true(rt_sstable_end(&w));
    source = source_of(&w.file);
    assert_ok(rt_sstable_read(&source, count_entries, &n, &err), &err);
    assert_int_equal(n, 3000);
    rt_sstable_clear(&w);
    rt_sstable_begin(&w, 0);
    assert_true(rt_sstable_end(&w));
    source = source_of(&w.file);
    assert_ok(rt_sstable_read(&source, count_entries, &n, &err), &err);
    rt_sstable_clear(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_refused_by_what_is_wrong_with_it),
        cmocka_unit_test(names_take_no_more_than_their_file_allows),
        cmocka_unit_test(keys_increase_and_have_a_limit),
        cmocka_unit_test(a_look_up_finds_each_key_and_no_other),
        cmocka_unit_test(a_sink_receives_the_same_table),
        cmocka_unit_test(a_finder_reads_a_block_once_for_all_its_keys),
        cmocka_unit_test(reading_a_block_ends_when_its_run_does),
        cmocka_unit_test(a_table_of_many_blocks_gives_all_its_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
