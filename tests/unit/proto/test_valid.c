#include "tests/support/test.h"

#include "proto/unpack.h"
#include "proto/valid.h"
#include "runtime/base/bytes.h"
#include "tensorflow/core/framework/tensor.pb-c.h"

static struct rt_error err;

/* The fields of a TensorProto: shape 2 (dim 2: size 1, name 2), version_number 3, tensor_content 4,
 * float_val 5, double_val 6, string_val 8, int64_val 10, variant_val 15 (type_name 1, tensors 3).
 */
#define T &tensorflow__tensor_proto__descriptor

static void messages_are_valid_or_refused_as_by_protobuf(void **state)
{
    (void)state;
    /* TensorFlow 2.21 reads the rows without `why`, and refuses the others. */
    static const struct {
        const char *bytes;
        size_t n;
        const char *why;
    } rows[] = {
        {"", 0, NULL},
        {"\x12\4\x12\2\x08\5", 6, NULL},
        {"\x12\3\x12\1\x08", 5, "x: not a tensorflow.TensorProto"},
        {"\x12\1\7", 3, "x: not a tensorflow.TensorProto"},
        {"\x12\5\x12\3\x12\1\xff", 7, "x: field \"name\" of a Dim is not UTF-8"},
        {"\x12\6\x12\4\x12\2\xc3\xa9", 8, NULL},
        {"\x12\5\x12\3\x12\1\xc3", 7, "is not UTF-8"},         /* incomplete */
        {"\x12\7\x12\5\x12\3\xed\xa0\x80", 9, "is not UTF-8"}, /* a surrogate */
        {"\x12\5\x12\3\x12\1\0", 7, NULL},
        {"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11, NULL},
        {"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 12, "not a tensorflow"},
        {"\x1a\1\x80", 3, NULL}, /* version_number as bytes, which is an unknown field */
        {"\x22\1\xff", 3, NULL},
        {"\x42\1\xff", 3, NULL},
        {"\x28\1", 2, NULL},
        {"\x2a\5\1\1\1\1\1", 7, "not a tensorflow"},
        {"\x32\7\1\1\1\1\1\1\1", 9, "not a tensorflow"},
        {"\x52\1\x80", 3, "not a tensorflow"},
        {"\x52\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 12, NULL},
        {"\x52\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 13, "not a tensorflow"},
        {"\x7a\3\x0a\1\xff", 5, "field \"type_name\" of a VariantTensorDataProto is not UTF-8"},
        {"\x7a\3\x1a\1\7", 5, "not a tensorflow"},
        {"\xa0\6\1", 3, NULL}, /* field 100, which the type does not have */
        {"\xa0\x86\x80\x80\0\1", 6, NULL},
        {"\xa0\x86\x80\x80\x80\0\1", 7, "not a tensorflow"}, /* a tag of six bytes */
        {"\xa0", 1, "not a tensorflow"},
        {"\x26\1", 2, "not a tensorflow"}, /* wire type 6 */
        {"\x12\5\x12", 3, "not a tensorflow"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const enum rt_status st =
            pb_validate(T, rt_span_of(rows[i].bytes, rows[i].n), "x", NULL, &err);
        if (rows[i].why)
            assert_fails(st, RT_DATA_LOSS, &err, rows[i].why);
        else
            assert_ok(st, &err);
    }
}

static void put(struct rt_bytes *b, int number, const struct rt_bytes *inner)
{
    rt_bytes_addc(b, (char)(number << 3 | 2));
    for (size_t left = inner->n;; left >>= 7) {
        rt_bytes_addc(b, (char)((left & 127) | (left > 127 ? 128 : 0)));
        if (left <= 127)
            break;
    }
    rt_bytes_add(b, inner->p ? inner->p : "", inner->n);
}

/* Returns `inner` inside n messages, of which each second is a VariantTensorDataProto. */
static struct rt_bytes nest(int n, struct rt_bytes inner)
{
    for (int i = 0; i < n; i++) {
        struct rt_bytes outer;
        rt_bytes_init(&outer, SIZE_MAX / 2);
        put(&outer, (n - i) % 2 ? 3 : 15, &inner);
        rt_bytes_clear(&inner);
        inner = outer;
    }
    return inner;
}

static void a_hundred_messages_may_be_nested(void **state)
{
    (void)state;
    for (int n = 100; n <= 101; n++) {
        struct rt_bytes b;
        rt_bytes_init(&b, SIZE_MAX / 2);
        b = nest(n, b);
        const enum rt_status st =
            pb_validate(n % 2 ? &tensorflow__variant_tensor_data_proto__descriptor : T,
                        rt_span_of(b.p, b.n), "x", NULL, &err);
        if (n == 100)
            assert_ok(st, &err);
        else
            assert_fails(st, RT_DATA_LOSS, &err, "messages nested deeper than 100");
        rt_bytes_clear(&b);
    }
}

static enum rt_status fail_at(void *arg, struct rt_error *why)
{
    return --*(int *)arg ? RT_OK : rt_fail(why, RT_CANCELLED, "cancelled");
}

/* Validates a message whose field `number` has n bytes of 1 until a check fails, and returns the
 * number of checks. */
static int count_checks(int number, size_t n, size_t n_fields)
{
    struct rt_bytes b, value;
    int left = INT32_MAX;
    const struct rt_check check = {fail_at, &left};

    rt_bytes_init(&b, SIZE_MAX / 2);
    rt_bytes_init(&value, SIZE_MAX / 2);
    for (size_t i = 0; i < n; i++)
        rt_bytes_addc(&value, 1);
    if (number == 1) { /* the name of a dimension */
        put(&b, 2, &value);
        rt_bytes_clear(&value);
        put(&value, 2, &b);
        rt_bytes_clear(&b);
        number = 2;
    }
    for (size_t i = 0; i < n_fields; i++)
        put(&b, number, &value);
    assert_ok(pb_validate(T, rt_span_of(b.p, b.n), "x", &check, &err), &err);
    const int n_checks = INT32_MAX - left;
    left = n_checks / 2;
    assert_int_equal(pb_validate(T, rt_span_of(b.p, b.n), "x", &check, &err), RT_CANCELLED);
    assert_int_equal(left, 0);
    rt_bytes_clear(&b);
    rt_bytes_clear(&value);
    return n_checks;
}

static void a_check_is_called_in_long_fields_and_between_many(void **state)
{
    (void)state;
    assert_in_range(count_checks(1, 4 << 20, 1), 16, 100);  /* a string */
    assert_in_range(count_checks(10, 4 << 20, 1), 16, 100); /* packed varints */
    assert_in_range(count_checks(8, 1, 1 << 18), 16, 100);  /* many fields */
    assert_in_range(count_checks(10, 1, 1 << 18), 16, 100); /* many packed fields */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_valid_or_refused_as_by_protobuf),
        cmocka_unit_test(a_hundred_messages_may_be_nested),
        cmocka_unit_test(a_check_is_called_in_long_fields_and_between_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
