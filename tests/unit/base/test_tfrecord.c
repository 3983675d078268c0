#include "tests/support/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/tfrecord.h"

static struct rt_error err;

/* The bytes that TensorFlow 2.21 writes for the record "abc". */
static const unsigned char abc[] = {3,    0,    0,    0,    0,    0,    0,    0,    0xb0, 0x99,
                                    0x49, 0x0e, 0x61, 0x62, 0x63, 0x6e, 0x57, 0xf1, 0x21};

static void what_tensorflow_wrote_is_written(void **state)
{
    (void)state;
    struct rt_bytes out;
    rt_bytes_init(&out, 1000);
    rt_tfrecord_add(&out, "abc", 3);
    assert_int_equal(out.n, 19);
    assert_memory_equal(out.p, abc, 19);
    rt_bytes_clear(&out);
}

static void the_same(struct rt_tfrecord *r, const char *text)
{
    struct rt_span record;
    assert_ok(rt_tfrecord_next(r, &record, &err), &err);
    assert_int_equal(record.n, strlen(text));
    assert_memory_equal(record.p, text, record.n);
}

static void records_come_back_in_order_and_the_end_is_told(void **state)
{
    (void)state;
    struct rt_bytes out;
    struct rt_span record;
    rt_bytes_init(&out, 1000);
    rt_tfrecord_add(&out, "one", 3);
    rt_tfrecord_add(&out, "", 0);
    rt_tfrecord_add(&out, "three", 5);
    struct rt_tfrecord *r = rt_tfrecord_over(rt_span_of(out.p, out.n));
    assert_non_null(r);
    the_same(r, "one");
    the_same(r, "");
    the_same(r, "three");
    for (int i = 0; i < 2; i++)
        assert_int_equal(rt_tfrecord_next(r, &record, &err), RT_OUT_OF_RANGE);
    rt_tfrecord_close(r);
    rt_bytes_clear(&out);
}

static void a_cut_record_is_truncated_wherever_it_is_cut(void **state)
{
    (void)state;
    struct rt_span record;
    for (size_t n = 1; n < 19; n++) {
        struct rt_tfrecord *r = rt_tfrecord_over(rt_span_of(abc, n));
        assert_fails(rt_tfrecord_next(r, &record, &err), RT_DATA_LOSS, &err,
                     "truncated record at 0");
        rt_tfrecord_close(r);
    }
}

static void a_changed_byte_is_corruption_wherever_it_is(void **state)
{
    (void)state;
    struct rt_span record;
    for (size_t i = 0; i < 19; i++) {
        unsigned char bytes[19];
        memcpy(bytes, abc, 19);
        bytes[i] ^= 0x10;
        struct rt_tfrecord *r = rt_tfrecord_over(rt_span_of(bytes, 19));
        assert_fails(rt_tfrecord_next(r, &record, &err), RT_DATA_LOSS, &err, "corrupted record");
        rt_tfrecord_close(r);
    }
}

static void write_file(char *path, const void *p, size_t n)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, p, n), (ssize_t)n);
    close(fd);
}

static void a_file_is_read_record_by_record_whatever_their_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 65519, 65520, 65521, 200000, 3};
    struct rt_bytes out;
    rt_bytes_init(&out, 1 << 20);
    char *text = malloc(200000);
    assert_non_null(text);
    for (size_t i = 0; i < 200000; i++)
        text[i] = (char)(i * 7);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        rt_tfrecord_add(&out, text, sizes[i]);
    assert_false(out.failed);
    char path[] = "/tmp/slipway-tfrecord-XXXXXX";
    write_file(path, out.p, out.n);
    struct rt_tfrecord *r;
    struct rt_span record;
    assert_ok(rt_tfrecord_open(&r, path, 200000, &err), &err);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_ok(rt_tfrecord_next(r, &record, &err), &err);
        assert_int_equal(record.n, sizes[i]);
        assert_memory_equal(record.p, text, record.n);
    }
    assert_int_equal(rt_tfrecord_next(r, &record, &err), RT_OUT_OF_RANGE);
    rt_tfrecord_close(r);

    assert_ok(rt_tfrecord_open(&r, path, 199999, &err), &err);
    enum rt_status st;
    while ((st = rt_tfrecord_next(r, &record, &err)) == RT_OK)
        ;
    assert_int_equal(st, RT_RESOURCE_EXHAUSTED);
    rt_tfrecord_close(r);
    unlink(path);
    rt_bytes_clear(&out);
    free(text);
}

static void a_length_that_is_a_lie_takes_no_memory(void **state)
{
    (void)state;
    unsigned char bytes[RT_TFRECORD_HEADER];
    char path[] = "/tmp/slipway-tfrecord-XXXXXX";
    struct rt_tfrecord *r;
    struct rt_span record;
    rt_tfrecord_header(bytes, UINT64_C(1) << 50);
    write_file(path, bytes, sizeof bytes);
    assert_ok(rt_tfrecord_open(&r, path, SIZE_MAX, &err), &err);
    assert_fails(rt_tfrecord_next(r, &record, &err), RT_DATA_LOSS, &err, "truncated record at 0");
    rt_tfrecord_close(r);
    unlink(path);
    assert_fails(rt_tfrecord_open(&r, path, 10, &err), RT_NOT_FOUND, &err, path);
    assert_null(r);
}

static void what_is_no_file_is_refused_without_waiting(void **state)
{
    (void)state;
    char path[] = "/tmp/slipway-tfrecord-XXXXXX";
    struct rt_tfrecord *r;
    assert_non_null(mkdtemp(path));
    assert_fails(rt_tfrecord_open(&r, path, 10, &err), RT_FAILED_PRECONDITION, &err,
                 "not a regular file");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_fails(rt_tfrecord_open(&r, path, 10, &err), RT_FAILED_PRECONDITION, &err,
                 "not a regular file");
    assert_null(r);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_tensorflow_wrote_is_written),
        cmocka_unit_test(records_come_back_in_order_and_the_end_is_told),
        cmocka_unit_test(a_cut_record_is_truncated_wherever_it_is_cut),
        cmocka_unit_test(a_changed_byte_is_corruption_wherever_it_is),
        cmocka_unit_test(a_file_is_read_record_by_record_whatever_their_sizes),
        cmocka_unit_test(a_length_that_is_a_lie_takes_no_memory),
        cmocka_unit_test(what_is_no_file_is_refused_without_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
