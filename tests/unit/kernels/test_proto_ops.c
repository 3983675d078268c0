/* Tests DecodeProtoV2 with messages that protobuf's own writer does not produce, and EncodeProto
 * with negative sizes. What is expected is what TensorFlow 2.21 answers. */
#include "tests/support/op.h"
#include "tests/support/test.h"

/* message M {
 *   group G g = 1; repeated E e = 2; int32 i = 3 [default = -5]; repeated int32 r = 4;
 *   repeated fixed32 p = 5 [packed = true]; repeated uint32 q = 6 [packed = true];
 *   enum E { X = 3; Y = 7; }
 * } */
#define DESCRIPTOR                                                                                 \
    "\012z\012\001m\042u\012\001M"                                                                 \
    "\022\017\012\001g\030\001 \001(\0122\004.M.G"                                                 \
    "\022\017\012\001e\030\002 \003(\0162\004.M.E"                                                 \
    "\022\015\012\001i\030\003 \001(\005:\002-5"                                                   \
    "\022\011\012\001r\030\004 \003(\005"                                                          \
    "\022\015\012\001p\030\005 \003(\007B\002\020\001"                                             \
    "\022\015\012\001q\030\006 \003(\015B\002\020\001"                                             \
    "\032\003\012\001G"                                                                            \
    "\042\021\012\001E\022\005\012\001X\020\003\022\005\012\001Y\020\007"
#define SOURCE " message_type='M' descriptor_source='bytes://" DESCRIPTOR "'"
#define DECODE(name, type)                                                                         \
    "message_format='binary' sanitize=false field_names=['" name "'] output_types=[" type "]" SOURCE
#define ENCODE(name, type) "field_names=['" name "'] Tinput_types=[" type "]" SOURCE

/* The message and an empty one are decoded. */
static enum rt_status decode(struct op_call *c, const char *attrs, const char *message, size_t n)
{
    *c = (struct op_call){.op = "DecodeProtoV2", .attrs = attrs, .n_in = 1, .n_out = 2};
    c->in[0] = op_tensor(RT_STRING, 1, (int64_t[]){2}, NULL);
    assert_true(rt_str_set(c->in[0].data, NULL, message, n, NULL));
    return op_run(c);
}

/* Fails unless the field is refused, if `refusal` is not NULL, or has this size and these values.
 * `values` has the elements of the message's row and of the empty message's. */
static void expect_ints(const char *attrs, const char *message, size_t n, const char *refusal,
                        int32_t size, int width, const int64_t *values)
{
    struct op_call c;
    const enum rt_status st = decode(&c, attrs, message, n);

    if (refusal) {
        assert_int_equal(st, RT_DATA_LOSS);
        assert_non_null(strstr(c.err.msg, refusal));
        op_clear(&c);
        return;
    }
    assert_ok(st, &c.err);
    assert_int_equal(((const int32_t *)c.out[0].data)[0], size);
    assert_int_equal(c.out[1].dim[1], width);
    for (int k = 0; k < 2 * width; k++) {
        const bool is_long = c.out[1].dtype == RT_I64;
        assert_int_equal(is_long ? ((const int64_t *)c.out[1].data)[k]
                                 : ((const int32_t *)c.out[1].data)[k],
                         values[k]);
    }
    op_clear(&c);
}
#define MESSAGE(text) (text), sizeof(text) - 1
#define INTS(message, size, width, ...)                                                            \
    MESSAGE(message), NULL, size, width, (const int64_t[])                                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define REFUSED(message, text) MESSAGE(message), text, 0, 0, NULL
#define TOO_MANY               "Tried to write more entries than allowed"

static void an_enum_without_a_value_is_its_first_value(void **state)
{
    static const char e[] = DECODE("e", "int32");
    (void)state;
    expect_ints(e, INTS("", 0, 1, 3, 3));
    expect_ints(e, INTS("\x10\x07\x12\x01\x07", 2, 2, 7, 7, 3, 3));
}

static void packed_values_of_a_singular_field_are_not_written(void **state)
{
    static const char i[] = DECODE("i", "int32");
    (void)state;
    expect_ints(i, INTS("\x1a\x00", 0, 1, -5, -5));
    expect_ints(i, INTS("\x1a\x02\x07\x08", 1, 1, -5, -5));
    expect_ints(i, INTS("\x1a\x01\x07\x18\x02", 1, 1, 2, -5));
    expect_ints(i, REFUSED("\x18\x02\x1a\x00", TOO_MANY));
    expect_ints(i, REFUSED("\x18\x02\x1a\x02\x07\x08", TOO_MANY));
}

static void packed_values_need_room_in_the_row(void **state)
{
    static const char r[] = DECODE("r", "int32");
    (void)state;
    expect_ints(r, INTS("\x22\x00\x20\x01", 1, 1, 1, 0));
    expect_ints(r, REFUSED("\x20\x01\x22\x00", TOO_MANY));
}

static void packed_int32_is_not_sign_extended(void **state)
{
    static const char r[] = DECODE("r", "int64");
    (void)state;
    expect_ints(r, INTS("\x20\xff\xff\xff\xff\x0f\x22\x05\xff\xff\xff\xff\x0f", 2, 2, -1,
                        INT64_C(0xffffffff), 0, 0));
}

static void the_low_32_bits_of_a_long_tag_count(void **state)
{
    static const char i[] = DECODE("i", "int32");
    (void)state;
    expect_ints(i, INTS("\x98\x80\x80\x80\x80\x00\x02", 1, 1, 2, -5));
    expect_ints(i, INTS("\x98\x80\x80\x80\x80\x80\x80\x80\x80\x7f\x02", 1, 1, 2, -5));
    expect_ints(i, REFUSED("\x98\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00\x02",
                           "Failed to consume entire buffer"));
    expect_ints(i, INTS("\x9a\x01\x81\x80\x80\x80\x10z\x18\x02", 1, 1, 2, -5));
}

static void expect_group(const char *message, size_t n, const char *group)
{
    struct op_call c;

    assert_ok(decode(&c, DECODE("g", "string"), message, n), &c.err);
    const struct rt_str *s = c.out[1].data;
    assert_int_equal(s[0].n, strlen(group));
    assert_memory_equal(rt_str_data(&s[0]), group, s[0].n);
    assert_int_equal(s[1].n, 0);
    op_clear(&c);
}

static void a_group_has_its_tags_and_the_shortest_varints(void **state)
{
    static const char g[] = DECODE("g", "string");
    (void)state;
    expect_group(MESSAGE("\x0b\x08\x05\x0c"), "\x0b\x08\x05\x0c");
    expect_group(MESSAGE("\x0b\x0c\x0b\x0d"
                         "abcd\x0c"),
                 "\x0b\x0d"
                 "abcd\x0c");
    expect_group(MESSAGE("\x8b\x80\x00\x88\x80\x00\x85\x00\x12\x81\x00z\x1b\x9c\x00\x8c\x00"),
                 "\x0b\x08\x05\x12\x01z\x1b\x1c\x0c");
    expect_ints(g, REFUSED("\x0a\x00", "Non-primitive type encountered as packed"));
    expect_ints(g, REFUSED("\x0b\x0c\x0a\x00", TOO_MANY));
    expect_ints(g, REFUSED("\x0a\x01z", "TYPE_GROUP encountered as packed"));
}

/* The length is the size times the bytes of an element, or 0 if elements differ in size. */
static void a_negative_size_of_a_packed_field_writes_a_length(void **state)
{
    static const struct {
        const char *attrs;
        int32_t size;
        const char *message;
        size_t n;
    } cases[] = {
        {ENCODE("p", "uint32"), -1, MESSAGE("\x2a\xfc\xff\xff\xff\x0f")},
        {ENCODE("p", "uint32"), INT32_MIN, MESSAGE("\x2a\x00")},
        {ENCODE("q", "uint32"), -3, MESSAGE("\x32\x00")},
        {ENCODE("p", "uint32"), 0, MESSAGE("")},
        {ENCODE("p", "uint32"), 1, MESSAGE("\x2a\x04\x01\0\0\0")},
        {ENCODE("r", "int32"), -1, MESSAGE("")},
    };
    (void)state;

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const bool is_signed = strstr(cases[k].attrs, "Tinput_types=[int32]") != NULL;
        struct op_call c = {.op = "EncodeProto", .attrs = cases[k].attrs, .n_in = 2, .n_out = 1};
        c.in[0] = op_tensor(RT_I32, 2, (int64_t[]){1, 1}, &cases[k].size);
        c.in[1] = op_tensor(is_signed ? RT_I32 : RT_U32, 2, (int64_t[]){1, 1}, (int32_t[]){1});
        assert_ok(op_run(&c), &c.err);
        const struct rt_str *s = c.out[0].data;
        assert_int_equal(s->n, cases[k].n);
        assert_memory_equal(rt_str_data(s), cases[k].message, s->n);
        op_clear(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_enum_without_a_value_is_its_first_value),
        cmocka_unit_test(packed_values_of_a_singular_field_are_not_written),
        cmocka_unit_test(packed_values_need_room_in_the_row),
        cmocka_unit_test(packed_int32_is_not_sign_extended),
        cmocka_unit_test(the_low_32_bits_of_a_long_tag_count),
        cmocka_unit_test(a_group_has_its_tags_and_the_shortest_varints),
        cmocka_unit_test(a_negative_size_of_a_packed_field_writes_a_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
