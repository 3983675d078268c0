#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/thread.h"
#include "runtime/files/checkpoint.h"
#include "runtime/files/file.h"
#include "runtime/core/slice.h"
#include "runtime/files/sstable.h"

#define PLAIN  "tests/goldens/checkpoint/plain"
#define SLICED "tests/goldens/checkpoint/sliced"
#define WHOLE  rt_span_of(NULL, 0)

static char dir[] = "/tmp/slipway-checkpoint-XXXXXX";

static const char *in_dir(const char *name)
{
    static char buffer[4][256];
    static int k;
    k = (k + 1) % 4;
    snprintf(buffer[k], sizeof buffer[k], "%s/%s", dir, name);
    return buffer[k];
}

static const struct rt_checkpoint_entry *entry(const struct rt_checkpoint *c, const char *name)
{
    for (int i = 0; i < rt_checkpoint_count(c); i++)
        if (strcmp(rt_checkpoint_at(c, i)->name, name) == 0)
            return rt_checkpoint_at(c, i);
    return NULL;
}

static void get(struct rt_checkpoint *c, const char *name, enum rt_dtype dtype, const char *slice,
                struct rt_tensor *t)
{
    struct rt_error err = {0};
    assert_ok(
        rt_checkpoint_tensor(c, name, slice ? rt_span_str(slice) : WHOLE, dtype, NULL, t, &err),
        &err);
    assert_ok(rt_tensor_load(t, &err), &err);
}

static void every_type_that_tensorflow_saved_is_read(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t;

    assert_ok(rt_checkpoint_open(&c, PLAIN, &err), &err);
    assert_ok(rt_checkpoint_check_files(c, &err), &err);
    assert_int_equal(rt_checkpoint_count(c), 13);
    for (int i = 1; i < 13; i++)
        assert_true(strcmp(rt_checkpoint_at(c, i - 1)->name, rt_checkpoint_at(c, i)->name) < 0);
    assert_null(entry(c, "nothing"));
    assert_null(entry(c, ""));
    assert_int_equal(entry(c, "f64")->bytes, 16);

    assert_ok(rt_checkpoint_tensor(c, "f32", WHOLE, RT_F32, NULL, &t, &err), &err);
    assert_true(rt_tensor_is_lazy(&t));
    assert_ok(rt_tensor_load(&t, &err), &err);
    assert_memory_equal(t.data, ((float[]){0, 1, 2, 3, 4, 5}), 24);
    assert_int_equal((uintptr_t)t.data % 64, 0);
    assert_true(t.rank == 2 && t.dim[0] == 2 && t.dim[1] == 3);
    rt_tensor_clear(&t);
    get(c, "f64", RT_F64, NULL, &t);
    assert_memory_equal(t.data, ((double[]){1.5, -2}), 16);
    rt_tensor_clear(&t);
    get(c, "i8", RT_I8, NULL, &t);
    assert_memory_equal(t.data, "\xff\x02", 2);
    rt_tensor_clear(&t);
    get(c, "bf16", RT_BF16, NULL, &t);
    assert_memory_equal(t.data, ((uint16_t[]){0x3fc0, 0xc040, 0x4380}), 6);
    rt_tensor_clear(&t);
    get(c, "half", RT_F16, NULL, &t);
    assert_memory_equal(t.data, ((uint16_t[]){0x3c00, 0x4000}), 4);
    rt_tensor_clear(&t);
    get(c, "bool", RT_BOOL, NULL, &t);
    assert_memory_equal(t.data, "\1\0", 2);
    rt_tensor_clear(&t);
    get(c, "c64", RT_C64, NULL, &t);
    assert_memory_equal(t.data, ((float[]){1, 2}), 8);
    rt_tensor_clear(&t);
    get(c, "u64", RT_U64, NULL, &t);
    assert_true(*(uint64_t *)t.data == UINT64_C(1) << 63);
    rt_tensor_clear(&t);
    get(c, "scalar", RT_F32, NULL, &t);
    assert_true(t.rank == 0 && *(float *)t.data == 7);
    rt_tensor_clear(&t);
    get(c, "empty", RT_F32, NULL, &t);
    assert_true(t.rank == 2 && t.dim[0] == 0 && t.dim[1] == 4);
    rt_tensor_clear(&t);
    get(c, "long/name/with/prefix/b", RT_NO_DTYPE, NULL, &t);
    assert_int_equal(*(int32_t *)t.data, 2);
    rt_tensor_clear(&t);

    get(c, "str", RT_STRING, NULL, &t);
    assert_int_equal(t.dim[0], 3);
    assert_int_equal(rt_strs(&t)[0].n, 0);
    assert_string_equal(rt_str_data(&rt_strs(&t)[1]), "abc");
    assert_int_equal(rt_strs(&t)[2].n, 300);
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
}

/* Every tensor of `c` has the bytes of its namesake in PLAIN. */
static void assert_as_plain(struct rt_checkpoint *c)
{
    struct rt_error err = {0};
    struct rt_checkpoint *plain;

    assert_ok(rt_checkpoint_open(&plain, PLAIN, &err), &err);
    assert_int_equal(rt_checkpoint_count(c), rt_checkpoint_count(plain));
    for (int i = 0; i < rt_checkpoint_count(c); i++) {
        const struct rt_checkpoint_entry *e = rt_checkpoint_at(c, i);
        struct rt_tensor a, b;
        get(plain, e->name, e->dtype, NULL, &a);
        get(c, e->name, e->dtype, NULL, &b);
        assert_int_equal(rt_tensor_count(&a), rt_tensor_count(&b));
        for (int64_t k = 0; k < rt_tensor_count(&a) && e->dtype == RT_STRING; k++)
            assert_true(rt_span_eq(rt_span_of(rt_str_data(&rt_strs(&a)[k]), rt_strs(&a)[k].n),
                                   rt_span_of(rt_str_data(&rt_strs(&b)[k]), rt_strs(&b)[k].n)));
        if (e->dtype != RT_STRING && rt_tensor_count(&a))
            assert_memory_equal(a.data, b.data, rt_tensor_bytes(&a));
        rt_tensor_clear(&a);
        rt_tensor_clear(&b);
    }
    rt_checkpoint_unref(plain);
}

struct collected {
    char bytes[64];
    size_t n;
};

static enum rt_status collect(void *arg, size_t off, const void *p, size_t n, struct rt_error *err)
{
    struct collected *to = arg;
    (void)err;
    assert_int_equal(off, to->n);
    memcpy(to->bytes + off, p, n);
    to->n += n;
    return RT_OK;
}

static void a_lazy_tensor_streams_and_outlives_its_checkpoint(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t;
    struct collected to = {.n = 0};

    assert_ok(rt_checkpoint_open(&c, PLAIN, &err), &err);
    assert_ok(rt_checkpoint_tensor(c, "f32", WHOLE, RT_F32, NULL, &t, &err), &err);
    assert_ok(rt_checkpoint_check_unchanged(c, &err), &err);
    rt_checkpoint_unref(c);
    assert_ok(t.buf->stream(t.buf, collect, &to, &err), &err);
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

    assert_fails(rt_checkpoint_open(&c, in_dir("nofile"), &err), RT_NOT_FOUND, &err,
                 "Unsuccessful TensorSliceReader constructor: Failed to find any matching files "
                 "for /tmp");
    assert_ok(rt_checkpoint_open(&c, PLAIN, &err), &err);
    assert_fails(rt_checkpoint_tensor(c, "nope", WHOLE, RT_F32, NULL, &t, &err), RT_NOT_FOUND, &err,
                 "Key nope not found in checkpoint");
    assert_fails(rt_checkpoint_tensor(c, "f32", WHOLE, RT_F64, NULL, &t, &err), RT_INVALID_ARGUMENT,
                 &err,
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
    get(c, "f32", RT_F32, "2 3 1,1:0,2", &t);
    assert_memory_equal(t.data, ((float[]){3, 4}), 8);
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
}

static void parts_in_several_shards_come_together(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t;

    assert_ok(rt_checkpoint_open(&c, SLICED, &err), &err);
    assert_ok(rt_checkpoint_check_files(c, &err), &err);
    assert_int_equal(rt_checkpoint_count(c), 3);
    assert_true(entry(c, "w")->is_sliced);
    get(c, "w", RT_F32, NULL, &t);
    for (int i = 0; i < 40; i++)
        assert_true(((float *)t.data)[i] == (float)i);
    rt_tensor_clear(&t);
    get(c, "w", RT_F32, "5 8 1,2:2,3", &t);
    assert_memory_equal(t.data, ((float[]){10, 11, 12, 18, 19, 20}), 24);
    rt_tensor_clear(&t);
    get(c, "c", RT_STRING, NULL, &t);
    assert_string_equal(rt_str_data(&rt_strs(&t)[1]), "you");
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
}

static void keys_of_parts_are_tensorflows(void **state)
{
    (void)state;
    /* Bytes as TensorFlow 2.21 wrote them. */
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

static void copy_file(const char *from, const char *to, size_t cut, int flip)
{
    struct rt_error err = {0};
    char *p;
    size_t n;
    assert_ok(rt_file_read(from, 1 << 20, &p, &n, &err), &err);
    if (flip >= 0)
        p[flip / 8] ^= (char)(1 << flip % 8);
    assert_ok(rt_file_write(to, p, n - cut, &err), &err);
    free(p);
}

/* tests/goldens/checkpoint/make_forms.py: TensorFlow 2.21 read each of them. */
static void tables_of_other_writers_are_read(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    static const char *const forms[] = {"snappy", "restarts"};

    copy_file(PLAIN ".data-00000-of-00001", in_dir("form.data-00000-of-00001"), 0, -1);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char path[200];
        snprintf(path, sizeof path, "tests/goldens/checkpoint/%s.index", forms[i]);
        copy_file(path, in_dir("form.index"), 0, -1);
        assert_ok(rt_checkpoint_open(&c, in_dir("form"), &err), &err);
        assert_as_plain(c);
        rt_checkpoint_unref(c);
    }
}

static void a_checkpoint_of_the_other_byte_order_is_read(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t;
    struct collected to = {.n = 0};

    assert_ok(rt_checkpoint_open(&c, "tests/goldens/checkpoint/big", &err), &err);
    assert_as_plain(c);
    assert_ok(rt_checkpoint_tensor(c, "f32", WHOLE, RT_F32, NULL, &t, &err), &err);
    assert_ok(t.buf->stream(t.buf, collect, &to, &err), &err);
    assert_memory_equal(to.bytes, ((float[]){0, 1, 2, 3, 4, 5}), 24);
    rt_tensor_clear(&t);
    get(c, "f32", RT_F32, "2 3 1,1:0,2", &t);
    assert_memory_equal(t.data, ((float[]){3, 4}), 8);
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
}

static void add_varint(struct rt_bytes *b, size_t v)
{
    for (; v > 127; v >>= 7)
        rt_bytes_addc(b, (char)(v | 128));
    rt_bytes_addc(b, (char)v);
}

/* Appends a block as it is stored, and its handle to `handles`. */
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

/* A table of one data block: `stored` bytes with compression `type`, `times` times in its index. */
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
    rt_bytes_add(&footer, "\0\0", 2); /* a block of meta data, which nobody reads */
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
        const char *words; /* NULL: read, one entry each time */
    } rows[] = {
        /* an entry "k": "v", one restart; as it is, and as a literal of snappy's */
        {"\0\1\1kv\0\0\0\0\1\0\0\0", 13, 0, 1, NULL},
        {"\x0d\x30\0\1\1kv\0\0\0\0\1\0\0\0", 15, 1, 1, NULL},
        {"\0\1\1kv\0\0\0\0\1\0\0\0", 13, 2, 1, "compression 2 (zstd)"},
        {"\0\1\1kv\0\0\0\0\1\0\0\0", 13, 4, 1, "bad block type: compression 4"},
        /* lengths that do not end, that the bytes cannot make, that are not those of the bytes */
        {"\xff\xff\xff\xff\xff\xff", 6, 1, 1, "is no snappy data"},
        {"", 0, 1, 1, "is no snappy data"},
        {"\xff\xff\xff\xff\x0f\x30\0", 7, 1, 1, "of snappy data announces 4294967295"},
        {"\xff\xff\x03\x30\0\1\1kv\0\0\0\0\1\0\0\0", 17, 1, 1, "data announces 65535"},
        {"\x0e\x30\0\1\1kv\0\0\0\0\1\0\0\0", 15, 1, 1, "corrupted compressed block contents"},
        {"\x0d\x30\0\1\1kv\0\0", 9, 1, 1, "corrupted compressed block contents"},
        {"\x02\x04\0\0", 4, 1, 1, "a block of 2 bytes"},
        {"\x04\x0c\xff\xff\xff\x7f", 6, 1, 1, "restarts"},
        /* empty blocks are fine, but not the same one again and again */
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

static void every_flipped_bit_of_a_compressed_index_is_noticed(void **state)
{
    (void)state;
    struct rt_error err = {0};
    char *p;
    size_t n;
    int refused = 0, tried = 0;

    assert_ok(rt_file_read("tests/goldens/checkpoint/snappy.index", 1 << 20, &p, &n, &err), &err);
    for (size_t bit = 0; bit < n * 8; bit += 3, tried++) {
        struct rt_checkpoint *c = NULL;
        p[bit / 8] ^= (char)(1 << bit % 8);
        refused += rt_checkpoint_open_index(&c, "x", rt_span_of(p, n), &err) != RT_OK;
        rt_checkpoint_unref(c);
        p[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(p);
    /* All but the padding of the footer and the unused block of meta data. */
    assert_true((tried - refused) * 3 < 60 * 8);
}

/* Entries of 6 bytes whose keys share 5,000 with the key before: 7.5 MB of names in 14 KB. */
static void names_take_no_more_than_their_file_allows(void **state)
{
    (void)state;
    enum { LONG = 5000, MANY = 1500 };
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_bytes b, t;

    rt_bytes_init(&b, 1 << 20);
    rt_bytes_add(&b, "\0\0\2\x08\1", 5); /* the header: one shard */
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

static void every_flipped_bit_of_the_index_is_noticed(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct stat s;
    assert_int_equal(stat(SLICED ".index", &s), 0);
    int refused = 0;
    for (int bit = 0; bit < (int)s.st_size * 8; bit += 3) {
        struct rt_checkpoint *c = NULL;
        copy_file(SLICED ".index", in_dir("flip.index"), 0, bit);
        if (rt_checkpoint_open(&c, in_dir("flip"), &err) != RT_OK) {
            refused++;
            assert_non_null(strstr(err.msg, "flip"));
        }
        rt_checkpoint_unref(c);
    }
    /* All but the padding of the footer and the unused block of meta data. */
    assert_true(refused * 3 > ((int)s.st_size - 60) * 8);
    for (size_t cut = 1; cut <= (size_t)s.st_size; cut++) {
        struct rt_checkpoint *c;
        copy_file(SLICED ".index", in_dir("flip.index"), cut, -1);
        assert_int_equal(rt_checkpoint_open(&c, in_dir("flip"), &err), RT_DATA_LOSS);
    }
}

static void every_flipped_bit_and_missing_byte_of_the_data_is_noticed(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct stat s;
    copy_file(PLAIN ".index", in_dir("data.index"), 0, -1);
    assert_int_equal(stat(PLAIN ".data-00000-of-00001", &s), 0);
    for (int bit = 0; bit < (int)s.st_size * 8; bit += 5) {
        struct rt_checkpoint *c;
        int bad = 0;
        copy_file(PLAIN ".data-00000-of-00001", in_dir("data.data-00000-of-00001"), 0, bit);
        assert_ok(rt_checkpoint_open(&c, in_dir("data"), &err), &err);
        for (int i = 0; i < rt_checkpoint_count(c); i++) {
            struct rt_tensor t;
            struct collected to = {.n = 0};
            const char *name = rt_checkpoint_at(c, i)->name;
            enum rt_status st = rt_checkpoint_tensor(c, name, WHOLE, RT_NO_DTYPE, NULL, &t, &err);
            if (!st && t.buf && t.buf->stream)
                assert_int_equal(t.buf->stream(t.buf, collect, &to, &err) != RT_OK,
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
    copy_file(PLAIN ".data-00000-of-00001", in_dir("data.data-00000-of-00001"), 1, -1);
    assert_ok(rt_checkpoint_open(&c, in_dir("data"), &err), &err);
    assert_fails(rt_checkpoint_check_files(c, &err), RT_DATA_LOSS, &err,
                 "data.data-00000-of-00001 has 392 bytes");
    assert_fails(rt_checkpoint_tensor(c, "long/name/with/prefix/b", WHOLE, RT_I32, NULL, &t, &err),
                 RT_DATA_LOSS, &err, "prefix/b");
    /* Cut while it is in use. */
    assert_ok(rt_checkpoint_tensor(c, "c64", WHOLE, RT_C64, NULL, &t, &err), &err);
    assert_int_equal(truncate(in_dir("data.data-00000-of-00001"), 100), 0);
    assert_fails(rt_tensor_load(&t, &err), RT_DATA_LOSS, &err, "\"c64\"");
    assert_fails(rt_checkpoint_check_unchanged(c, &err), RT_DATA_LOSS, &err, "was changed");
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
    unlink(in_dir("data.data-00000-of-00001"));
    assert_ok(rt_checkpoint_open(&c, in_dir("data"), &err), &err);
    assert_fails(rt_checkpoint_check_files(c, &err), RT_NOT_FOUND, &err,
                 "No such file or directory");
    rt_checkpoint_unref(c);
}

static void what_is_written_is_what_tensorflow_writes(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t[13];
    /* The order in which the script saved them. */
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
    assert_ok(rt_checkpoint_open(&c, PLAIN, &err), &err);
    for (int i = 0; i < 13; i++)
        assert_ok(rt_checkpoint_tensor(c, names[i], WHOLE, RT_NO_DTYPE, NULL, &t[i], &err), &err);
    assert_ok(rt_checkpoint_write(in_dir("new/sub/w"), 13, names, t, NULL, &err), &err);
    for (int i = 0; i < 2; i++) {
        char *a, *b, path[300];
        size_t na, nb;
        snprintf(path, sizeof path, PLAIN "%s", files[i]);
        assert_ok(rt_file_read(path, 1 << 20, &a, &na, &err), &err);
        snprintf(path, sizeof path, "%s%s", in_dir("new/sub/w"), files[i]);
        assert_ok(rt_file_read(path, 1 << 20, &b, &nb, &err), &err);
        assert_int_equal(na, nb);
        assert_memory_equal(a, b, na);
        free(a);
        free(b);
    }
    static const char *const twice[] = {"a", "a"};
    assert_fails(rt_checkpoint_write(in_dir("x"), 2, twice, t, NULL, &err), RT_INVALID_ARGUMENT,
                 &err, "Adding duplicate key: a");
    for (int i = 0; i < 13; i++)
        rt_tensor_clear(&t[i]);
    rt_checkpoint_unref(c);
}

/* TensorFlow leaves the files of the first alone too. */
static void a_merge_that_names_a_tensor_twice_touches_no_file(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t, got;
    const char *const names[] = {"u", "v"}, *const only[] = {"v"};
    char buffer[2][256];

    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 0, NULL, &err), &err);
    *(float *)t.data = 3;
    snprintf(buffer[0], sizeof buffer[0], "%s", in_dir("one"));
    snprintf(buffer[1], sizeof buffer[1], "%s", in_dir("two"));
    assert_ok(rt_checkpoint_write(buffer[0], 2, names, (struct rt_tensor[]){t, t}, NULL, &err),
              &err);
    assert_ok(rt_checkpoint_write(buffer[1], 1, only, &t, NULL, &err), &err);
    for (int k = 0; k < 2; k++) { /* the same prefix again, and another that has one of its names */
        const char *prefixes[] = {buffer[0], buffer[k]};
        char words[700];
        snprintf(words, sizeof words,
                 "Duplicate tensor keyed by %s encountered, when merging prefix: %s", k ? "v" : "u",
                 buffer[k]);
        assert_fails(rt_checkpoint_merge(prefixes, 2, in_dir("both"), false, &err),
                     RT_INVALID_ARGUMENT, &err, words);
    }
    const char *const twice[] = {"u", "u"};
    assert_fails(rt_checkpoint_write(buffer[0], 2, twice, (struct rt_tensor[]){t, t}, NULL, &err),
                 RT_INVALID_ARGUMENT, &err, "Adding duplicate key: u");
    for (int k = 0; k < 2; k++) {
        assert_ok(rt_checkpoint_open(&c, buffer[k], &err), &err);
        assert_ok(rt_checkpoint_check_files(c, &err), &err);
        get(c, "v", RT_F32, NULL, &got);
        assert_true(*(float *)got.data == 3);
        rt_tensor_clear(&got);
        rt_checkpoint_unref(c);
    }
    rt_tensor_clear(&t);
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

    assert_ok(rt_checkpoint_open(&c, SLICED, &err), &err);
    for (int i = 0; i < 3; i++) {
        struct rt_span s[2] = {rt_span_str(slices[i]), {NULL, 0}};
        snprintf(buffer[i], sizeof buffer[i], "%s/temp/part-%d", dir, i);
        get(c, "w", RT_F32, slices[i], &t[0]);
        if (names[i][1])
            get(c, names[i][1], RT_NO_DTYPE, NULL, &t[1]);
        assert_ok(rt_checkpoint_write(prefixes[i], names[i][1] ? 2 : 1, names[i], t, s, &err),
                  &err);
        rt_tensor_clear(&t[0]);
        if (names[i][1])
            rt_tensor_clear(&t[1]);
    }
    rt_checkpoint_unref(c);
    assert_ok(rt_checkpoint_merge(prefixes, 3, in_dir("merged"), true, &err), &err);
    assert_int_not_equal(access(in_dir("temp"), F_OK), 0);
    char *a, *b;
    size_t na, nb;
    assert_ok(rt_file_read(SLICED ".index", 1 << 20, &a, &na, &err), &err);
    assert_ok(rt_file_read(in_dir("merged.index"), 1 << 20, &b, &nb, &err), &err);
    assert_int_equal(na, nb);
    assert_memory_equal(a, b, na);
    free(a);
    free(b);
    assert_ok(rt_checkpoint_open(&c, in_dir("merged"), &err), &err);
    get(c, "w", RT_F32, NULL, &t[0]);
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
    assert_ok(rt_checkpoint_write(in_dir("large"), 1, &name, &t, NULL, &err), &err);
    assert_ok(rt_checkpoint_open(&c, in_dir("large"), &err), &err);
    get(c, name, RT_I32, NULL, &back);
    assert_memory_equal(back.data, t.data, rt_tensor_bytes(&t));
    rt_tensor_clear(&back);
    rt_tensor_clear(&t);
    rt_checkpoint_unref(c);
}

static enum rt_status go_on(void *arg, struct rt_error *err)
{
    (void)arg;
    (void)err;
    return RT_OK;
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
    assert_ok(rt_checkpoint_write(in_dir("counted"), 2, names, t, NULL, &err), &err);
    assert_ok(rt_checkpoint_open(&c, in_dir("counted"), &err), &err);
    for (int k = 0; k < 3; k++) { /* in parts, lazy, strings */
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

/* Succeeds `left` times, then the run is cancelled. */
static enum rt_status cancel_after(void *arg, struct rt_error *err)
{
    int *left = arg;

    return (*left)-- > 0 ? RT_OK : rt_fail(err, RT_CANCELLED, "the run was cancelled");
}

static void a_lazy_tensor_is_read_in_pieces_until_its_run_ends(void **state)
{
    (void)state;
    const char *const name = "bytes";
    int left = 3; /* windows of the five */
    const struct rt_check check = {cancel_after, &left};
    struct rt_pool *pool = rt_pool_new(0);
    const struct rt_checkpoint_run run = {.check = go_on, .pool = pool};
    struct rt_error err = {0};
    struct rt_checkpoint *c;
    struct rt_tensor t, back;

    assert_ok(rt_tensor_new(&t, NULL, RT_U8, 1, (int64_t[]){5 << 20}, &err), &err);
    memset(t.data, 7, rt_tensor_bytes(&t));
    assert_ok(rt_checkpoint_write(in_dir("lazy"), 1, &name, &t, NULL, &err), &err);
    assert_ok(rt_checkpoint_open(&c, in_dir("lazy"), &err), &err);
    assert_ok(rt_checkpoint_tensor(c, name, WHOLE, RT_U8, &run, &back, &err), &err);
    assert_fails(rt_tensor_load_checked(&back, &check, &err), RT_CANCELLED, &err, "was cancelled");
    assert_int_equal(left, -1);
    assert_true(rt_tensor_is_lazy(&back));
    assert_int_equal(rt_pool_in_use(pool), 0);
    assert_ok(rt_tensor_load(&back, &err), &err); /* for the next who wants it */
    assert_memory_equal(back.data, t.data, rt_tensor_bytes(&t));
    rt_tensor_clear(&back);
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
    assert_ok(rt_checkpoint_write(in_dir("ends"), 2, names, t, NULL, &err), &err);
    assert_ok(rt_checkpoint_open(&c, in_dir("ends"), &err), &err);
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
    copy_file(PLAIN ".index", in_dir("shared.index"), 0, -1);
    copy_file(PLAIN ".data-00000-of-00001", in_dir("shared.data-00000-of-00001"), 0, -1);
    assert_ok(rt_checkpoint_open(&a, in_dir("shared"), &err), &err);
    assert_ok(rt_checkpoint_tensor(a, "f32", WHOLE, RT_F32, NULL, &t[0], &err), &err);
    rt_checkpoint_unref(a);
    assert_ok(rt_checkpoint_open(&b, in_dir("shared"), &err), &err);
    assert_ptr_equal(a, b);
    assert_ok(rt_checkpoint_tensor(b, "f64", WHOLE, RT_F64, NULL, &t[1], &err), &err);
    assert_int_equal(open_files(), files + 1);
    copy_file(SLICED ".index", in_dir("shared.index"), 0, -1);
    assert_ok(rt_checkpoint_open(&c, in_dir("shared"), &err), &err);
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
        if (rt_checkpoint_open(&c, PLAIN, NULL))
            return NULL;
        bool good = rt_checkpoint_tensor(c, "f32", WHOLE, RT_F32, NULL, &t, NULL) == RT_OK;
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

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[256];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
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
        cmocka_unit_test(a_block_is_refused_by_what_is_wrong_with_it),
        cmocka_unit_test(names_take_no_more_than_their_file_allows),
        cmocka_unit_test(every_flipped_bit_of_a_compressed_index_is_noticed),
        cmocka_unit_test(every_flipped_bit_of_the_index_is_noticed),
        cmocka_unit_test(every_flipped_bit_and_missing_byte_of_the_data_is_noticed),
        cmocka_unit_test(what_is_written_is_what_tensorflow_writes),
        cmocka_unit_test(a_merge_that_names_a_tensor_twice_touches_no_file),
        cmocka_unit_test(merged_parts_are_as_tensorflow_merges_them),
        cmocka_unit_test(a_tensor_larger_than_a_window_is_read_whole),
        cmocka_unit_test(a_lazy_tensor_is_read_in_pieces_until_its_run_ends),
        cmocka_unit_test(reading_at_once_ends_when_its_run_does),
        cmocka_unit_test(what_is_read_counts_in_the_pool_of_its_run),
        cmocka_unit_test(one_that_is_open_is_shared_until_its_file_changes),
        cmocka_unit_test(threads_open_and_close_one_at_the_same_time),
        cmocka_unit_test(a_table_of_many_blocks_gives_all_its_entries),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
