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
        /* A part of the expected error, NULL if one entry is read, or "" if no entry is read. */
        const char *words;
    } rows[] = {
        /* A table with one entry, "k" with the value "v", and one restart point. The rows store it
         * uncompressed, as a Snappy literal, and with unsupported types of compression. */
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
        enum rt_status st = rt_sstable_read(rt_span_of(t.p, t.n), count_any, &n, &err);
        if (!rows[i].words || !*rows[i].words) {
            assert_ok(st, &err);
            assert_int_equal(n, rows[i].words ? 0 : 1);
        } else {
            assert_fails(st, RT_DATA_LOSS, &err, rows[i].words);
        }
        rt_bytes_clear(&t);
    }
}

/* The file stores a key as its difference from the preceding key. 1,500 entries of 6 bytes whose
 * keys share 5,000 bytes therefore make 7.5 MB of names from a file of 14 KB. */
static void names_take_no_more_than_their_file_allows(void **state)
{
    (void)state;
    enum { LONG = 5000, MANY = 1500 };
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_bytes b, t;

    rt_bytes_init(&b, 1 << 20);
    rt_bytes_add(&b, "\0\0\2\x08\1", 5); /* the header states one shard */
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
    assert_int_equal(rt_checkpoint_open_index(&c, "x", rt_span_of(t.p, t.n), &err),
                     RT_RESOURCE_EXHAUSTED);
    rt_bytes_clear(&t);
    rt_bytes_clear(&b);
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
    char key[64], value[64] = {0};
    int n = 0;
    rt_sstable_begin(&w, 500);
    for (int i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "some/name/%05d", i);
        rt_sstable_add(&w, rt_span_str(key), rt_span_of(value, (size_t)i % 50));
    }
    assert_true(rt_sstable_end(&w));
    assert_ok(rt_sstable_read(rt_span_of(w.file.p, w.file.n), count_entries, &n, &err), &err);
    assert_int_equal(n, 3000);
    rt_sstable_clear(&w);
    rt_sstable_begin(&w, 0);
    assert_true(rt_sstable_end(&w));
    assert_ok(rt_sstable_read(rt_span_of(w.file.p, w.file.n), count_entries, &n, &err), &err);
    rt_sstable_clear(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_refused_by_what_is_wrong_with_it),
        cmocka_unit_test(names_take_no_more_than_their_file_allows),
        cmocka_unit_test(a_table_of_many_blocks_gives_all_its_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
