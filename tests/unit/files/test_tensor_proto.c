#include "tests/support/test.h"

#include "proto/unpack.h"
#include "proto/wire.h"
#include "runtime/core/tensor_proto.h"
#include "tensorflow/core/framework/attr_value.pb-c.h"

static Tensorflow__TensorProto *proto_of(enum rt_dtype dtype, int64_t n)
{
    static Tensorflow__TensorShapeProto__Dim d;
    static Tensorflow__TensorShapeProto__Dim *dims[] = {&d};
    static Tensorflow__TensorShapeProto shape;
    static Tensorflow__TensorProto p;
    tensorflow__tensor_shape_proto__dim__init(&d);
    tensorflow__tensor_shape_proto__init(&shape);
    tensorflow__tensor_proto__init(&p);
    d.size = n;
    shape.n_dim = 1;
    shape.dim = dims;
    p.tensor_shape = &shape;
    p.dtype = (Tensorflow__DataType)dtype;
    return &p;
}

#define CONTENT(p_, bytes)                                                                         \
    ((p_)->tensor_content = (ProtobufCBinaryData){sizeof(bytes) - 1, B(bytes)})
static uint8_t *B(const char *s)
{
    static uint8_t buffer[64];
    memcpy(buffer, s, strlen(s) + 1);
    return buffer;
}

static void the_last_value_fills_what_is_left(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    Tensorflow__TensorProto *p = proto_of(RT_F32, 7);
    float f[] = {1, 2, 3};
    p->float_val = f;
    p->n_float_val = 3;
    assert_ok(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), &err);
    const float want[] = {1, 2, 3, 3, 3, 3, 3};
    assert_memory_equal(t.data, want, sizeof want);
    rt_tensor_clear(&t);

    p->tensor_shape->dim[0]->size = 2;
    assert_ok(rt_tensor_from_proto(p, 0, &t, NULL, NULL, &err), &err);
    assert_memory_equal(t.data, want, 8);
    rt_tensor_clear(&t);

    p = proto_of(RT_C64, 3);
    float c[] = {1, 2, 3};
    p->scomplex_val = c;
    p->n_scomplex_val = 3;
    assert_ok(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), &err);
    const float want_c[] = {1, 2, 1, 2, 1, 2};
    assert_memory_equal(t.data, want_c, sizeof want_c);
    rt_tensor_clear(&t);

    int32_t i[] = {300, -1};
    p = proto_of(RT_U8, 3);
    p->int_val = i;
    p->n_int_val = 2;
    assert_ok(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), &err);
    assert_memory_equal(t.data, "\x2c\xff\xff", 3);
    rt_tensor_clear(&t);

    p = proto_of(RT_BF16, 3);
    p->half_val = i;
    p->n_half_val = 2;
    assert_ok(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), &err);
    const uint16_t want_h[] = {300, 0xffff, 0xffff};
    assert_memory_equal(t.data, want_h, sizeof want_h);
    rt_tensor_clear(&t);

    p = proto_of(RT_I64, 3);
    assert_ok(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), &err);
    const int64_t zeros[3] = {0};
    assert_memory_equal(t.data, zeros, sizeof zeros);
    rt_tensor_clear(&t);
}

static void content_must_have_the_shapes_bytes(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    Tensorflow__TensorProto *p = proto_of(RT_F32, 2);
    CONTENT(p, "abcdefgh");
    assert_ok(rt_tensor_from_proto(p, 0, &t, NULL, NULL, &err), &err);
    assert_memory_equal(t.data, "abcdefgh", 8);
    rt_tensor_clear(&t);
    p->tensor_shape->dim[0]->size = 3;
    assert_fails(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), RT_INVALID_ARGUMENT, &err,
                 "holds 8 bytes, not those of shape [3] and type float");
    p->tensor_shape->dim[0]->size = INT64_MAX;
    assert_fails(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), RT_INVALID_ARGUMENT, &err,
                 "8");
    p->tensor_shape->dim[0]->size = 0;
    assert_ok(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), &err);
    rt_tensor_clear(&t);
    p = proto_of(RT_BOOL, 2);
    CONTENT(p, "\1\2");
    assert_fails(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), RT_INVALID_ARGUMENT, &err,
                 "no bool");
}

static void strings_come_as_values_or_as_content(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    Tensorflow__TensorProto *p = proto_of(RT_STRING, 2);
    CONTENT(p, "\1\2abc");
    assert_ok(rt_tensor_from_proto(p, 0, &t, NULL, NULL, &err), &err);
    assert_string_equal(rt_str_data(&rt_strs(&t)[1]), "bc");
    rt_tensor_clear(&t);
    CONTENT(p, "\1\3abc");
    assert_fails(rt_tensor_from_proto(p, 0, &t, NULL, NULL, &err), RT_INVALID_ARGUMENT, &err,
                 "lengths");
    CONTENT(p, "\377\377\377\377\377\377\377\377\377\1\1a");
    assert_fails(rt_tensor_from_proto(p, 0, &t, NULL, NULL, &err), RT_INVALID_ARGUMENT, &err,
                 "bad");
    p->tensor_shape->dim[0]->size = INT64_MAX;
    assert_fails(rt_tensor_from_proto(p, 0, &t, NULL, NULL, &err), RT_INVALID_ARGUMENT, &err,
                 "too few");
    p = proto_of(RT_STRING, 3);
    ProtobufCBinaryData s[] = {{1, B("ab")}, {2, B("ab")}};
    p->string_val = s;
    p->n_string_val = 2;
    assert_ok(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), &err);
    assert_string_equal(rt_str_data(&rt_strs(&t)[0]), "a");
    assert_string_equal(rt_str_data(&rt_strs(&t)[2]), "ab");
    rt_tensor_clear(&t);
}

static void a_shape_never_sizes_memory_unchecked(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    Tensorflow__TensorProto *p = proto_of(RT_F32, 251);
    assert_fails(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "more than 1000 bytes");
    p->tensor_shape->dim[0]->size = INT64_MAX;
    assert_fails(rt_tensor_from_proto(p, SIZE_MAX, &t, NULL, NULL, &err), RT_RESOURCE_EXHAUSTED,
                 &err, "");
    p->tensor_shape->dim[0]->size = -1;
    assert_fails(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), RT_INVALID_ARGUMENT, &err,
                 "[?]");
    p->tensor_shape->dim[0]->size = -2;
    assert_fails(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), RT_INVALID_ARGUMENT, &err,
                 "-1");
    p = proto_of(RT_RESOURCE, 1);
    assert_fails(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), RT_UNIMPLEMENTED, &err,
                 "resource");
    p = proto_of((enum rt_dtype)77, 1);
    assert_fails(rt_tensor_from_proto(p, 1000, &t, NULL, NULL, &err), RT_INVALID_ARGUMENT, &err,
                 "77");
}

/* Writes `depth` messages, each of which is the only field of the message before it: an AttrValue,
 * its NameAttrList, an entry of its map, the entry's AttrValue, and so on. Returns the length of
 * the outermost message. */
static size_t nested(unsigned char *buffer, size_t size, int depth)
{
    size_t at = size;
    for (int i = 0; i < depth; i++) {
        /* The fields are AttrValue.func, NameAttrList.attr, and the value of a map entry. */
        static const unsigned char tags[] = {10 << 3 | 2, 2 << 3 | 2, 2 << 3 | 2};
        size_t len = size - at;
        unsigned char head[8];
        size_t n = 0;
        head[n++] = tags[(depth - 1 - i) % 3];
        do {
            head[n++] = (unsigned char)((len & 127) | (len > 127 ? 128 : 0));
            len >>= 7;
        } while (len);
        at -= n;
        memcpy(buffer + at, head, n);
    }
    memmove(buffer, buffer + at, size - at);
    return size - at;
}

static void a_deep_message_is_refused_before_it_is_unpacked(void **state)
{
    (void)state;
    static unsigned char buffer[1 << 20];
    struct rt_error err = {0};
    size_t n = nested(buffer, sizeof buffer, 100000);
    assert_null(
        pb_unpack(&tensorflow__attr_value__descriptor, rt_span_of(buffer, n), "a thing", &err));
    assert_non_null(strstr(err.msg, "a thing: messages nested deeper than 100"));
    n = nested(buffer, sizeof buffer, 90);
    void *m =
        pb_unpack(&tensorflow__attr_value__descriptor, rt_span_of(buffer, n), "a thing", &err);
    assert_non_null(m);
    pb_free(m);
    assert_null(pb_unpack(&tensorflow__attr_value__descriptor, rt_span_of("\x0b", 1), "a", &err));
    assert_int_equal(err.code, RT_INVALID_ARGUMENT);
}

static void fields_are_walked_and_lies_noticed(void **state)
{
    (void)state;
    static const unsigned char good[] = {0x08, 0x96, 0x01, 0x12, 2, 'h', 'i', 0x1d, 1, 0, 0, 0};
    struct rt_span rest = rt_span_of(good, sizeof good);
    struct pb_field f;
    assert_int_equal(pb_field_next(&rest, &f), 1);
    assert_true(f.number == 1 && f.type == PB_VARINT && f.value == 150 && f.whole.n == 3);
    assert_int_equal(pb_field_next(&rest, &f), 1);
    assert_true(f.number == 2 && rt_span_is(f.bytes, "hi"));
    assert_int_equal(pb_field_next(&rest, &f), 1);
    assert_true(f.number == 3 && f.value == 1);
    assert_int_equal(pb_field_next(&rest, &f), 0);
    for (size_t n = 1; n < sizeof good; n++) {
        rest = rt_span_of(good, n);
        while (pb_field_next(&rest, &f) > 0)
            ;
        assert_int_equal(pb_field_next(&rest, &f), n == 3 || n == 7 ? 0 : -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_value_fills_what_is_left),
        cmocka_unit_test(content_must_have_the_shapes_bytes),
        cmocka_unit_test(strings_come_as_values_or_as_content),
        cmocka_unit_test(a_shape_never_sizes_memory_unchecked),
        cmocka_unit_test(a_deep_message_is_refused_before_it_is_unpacked),
        cmocka_unit_test(fields_are_walked_and_lies_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
