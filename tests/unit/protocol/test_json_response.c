/* Tests JSON responses, which contain either an error or outputs in row or columnar form. */
#include "tests/support/test.h"

#include "server/protocol/tfs/json_tensor.h"
#include "tests/unit/protocol/shape_argument.h"

enum { MAX_OUTPUTS = 8 };

static void assert_encodes(int n, const char *const *names, const struct rt_tensor *t,
                           enum srv_json_form form, enum rt_status code, const char *want)
{
    struct rt_tensor_spec specs[MAX_OUTPUTS] = {{0}};
    for (int i = 0; i < n; i++)
        specs[i].alias = names[i];
    struct rt_signature sig = {.n_outputs = n, .outputs = specs};
    struct rt_bytes out;
    struct rt_error err = {0};
    rt_bytes_init(&out, SIZE_MAX);
    enum rt_status st = srv_json_encode_predict(&out, &sig, t, form, NULL, &err);
    assert_int_equal(st, code);
    assert_string_equal(st ? rt_error_text(&err) : out.p, want);
    rt_bytes_clear(&out);
}

static struct rt_tensor view(enum rt_dtype dtype, int rank, const int64_t *dim, void *data)
{
    struct rt_tensor t = {.dtype = (uint8_t)dtype, .rank = (int8_t)rank, .data = data};
    if (rank)
        memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
    return t;
}

static void outputs_are_written_in_both_forms(void **state)
{
    (void)state;
    int32_t i[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -12};
    const char *const names[] = {"y", "z"};
    struct rt_tensor t[2];
    t[0] = view(RT_I32, SHAPE(2, 3, 2), i);
    assert_encodes(1, names, t, SRV_JSON_ROW, RT_OK,
                   "{\n    \"predictions\": [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, "
                   "-12]]\n    ]\n}");
    assert_encodes(1, names, t, SRV_JSON_COLUMNAR, RT_OK,
                   "{\n    \"outputs\": [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, "
                   "-12]]]\n}");
    float f[2] = {2.5f, 3};
    t[0] = view(RT_I32, SHAPE(2, 2), i);
    t[1] = view(RT_F32, SHAPE(2), f);
    assert_encodes(2, names, t, SRV_JSON_ROW, RT_OK,
                   "{\n    \"predictions\": [{\"y\": [1, 2], \"z\": 2.5}, {\"y\": [3, 4], \"z\": "
                   "3.0}\n    ]\n}");
    assert_encodes(2, names, t, SRV_JSON_COLUMNAR, RT_OK,
                   "{\n    \"outputs\": {\"y\": [[1, 2], [3, 4]], \"z\": [2.5, 3.0]}\n}");
    t[1] = view(RT_F32, SHAPE(1), f);
    assert_encodes(2, names, t, SRV_JSON_ROW, RT_INVALID_ARGUMENT,
                   "Tensor name: z has inconsistent batch size: 1 expecting: 2, that of y");
    t[0] = view(RT_F32, 0, NULL, f);
    assert_encodes(1, names, t, SRV_JSON_ROW, RT_INVALID_ARGUMENT,
                   "Tensor name: y has no shape information ");
    assert_encodes(1, names, t, SRV_JSON_COLUMNAR, RT_OK, "{\n    \"outputs\": 2.5\n}");
    t[0] = view(RT_F32, SHAPE(0), NULL);
    t[1] = view(RT_F32, SHAPE(0, 3), NULL);
    assert_encodes(2, names, t, SRV_JSON_ROW, RT_OK, "{\n    \"predictions\": [\n    ]\n}");
    assert_encodes(0, names, t, SRV_JSON_ROW, RT_INVALID_ARGUMENT,
                   "Cannot convert empty tensor map to JSON");
    t[0] = view(RT_C64, SHAPE(1), i);
    assert_encodes(1, names, t, SRV_JSON_ROW, RT_INVALID_ARGUMENT,
                   "Failed to write JSON value for tensor type: complex64");
}

static void every_plain_type_is_written(void **state)
{
    (void)state;
    const char *const names[] = {"y"};
    union {
        int8_t i8[2];
        uint8_t u8[2];
        int16_t i16[2];
        int64_t i64[2];
        uint64_t u64[2];
        uint32_t u32[2];
        double d[2];
    } x;
    static const struct {
        enum rt_dtype dtype;
        const char *want;
    } cases[] = {
        {RT_I8, "-128, 127"},
        {RT_U8, "0, 255"},
        {RT_I16, "-32768, 32767"},
        {RT_I64, "-9223372036854775808, 9223372036854775807"},
        {RT_U64, "0, 18446744073709551615"},
        {RT_U32, "0, 4294967295"},
        {RT_BOOL, "false, true"},
        {RT_U16, "0, 65535"},
        {RT_QI8, "-128, 127"},
        {RT_QU8, "0, 255"},
        {RT_QI16, "-32768, 32767"},
        {RT_QU16, "0, 65535"},
        {RT_F16, "0.0, 0.0999755859"},
        {RT_BF16, "0.0, 3.140625"},
        {RT_F64, "0.1, 0.33333333333333331"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(&x, 0, sizeof x);
        switch (cases[i].dtype) {
        case RT_I8:
        case RT_QI8:
            x.i8[0] = INT8_MIN, x.i8[1] = INT8_MAX;
            break;
        case RT_U8:
        case RT_QU8:
            x.u8[1] = 255;
            break;
        case RT_U16:
        case RT_QU16:
            x.i16[1] = -1;
            break;
        case RT_F16:
            x.i16[1] = 0x2e66;
            break;
        case RT_BF16:
            x.i16[1] = 0x4049;
            break;
        case RT_I16:
        case RT_QI16:
            x.i16[0] = INT16_MIN, x.i16[1] = INT16_MAX;
            break;
        case RT_I64:
            x.i64[0] = INT64_MIN, x.i64[1] = INT64_MAX;
            break;
        case RT_U64:
            x.u64[1] = UINT64_MAX;
            break;
        case RT_U32:
            x.u32[1] = UINT32_MAX;
            break;
        case RT_BOOL:
            x.u8[1] = 1;
            break;
        default:
            x.d[0] = 0.1, x.d[1] = 1.0 / 3;
        }
        struct rt_tensor t = view(cases[i].dtype, SHAPE(2), &x);
        char want[128];
        snprintf(want, sizeof want, "{\n    \"outputs\": [%s]\n}", cases[i].want);
        assert_encodes(1, names, &t, SRV_JSON_COLUMNAR, RT_OK, want);
    }
}

static void strings_are_escaped_or_base64_by_the_outputs_name(void **state)
{
    (void)state;
    struct rt_tensor t;
    struct rt_error err = {0};
    assert_ok(rt_tensor_new(&t, NULL, RT_STRING, 1, (const int64_t[]){3}, &err), &err);
    struct rt_str *s = t.data;
    assert_true(rt_str_set(&s[0], NULL, "a\"\\\n\x01/\xff", 7, NULL) &&
                rt_str_set(&s[1], NULL, "ab", 2, NULL));
    const char *const plain[] = {"y"}, *const bytes[] = {"y_bytes"};
    assert_encodes(1, plain, &t, SRV_JSON_ROW, RT_OK,
                   "{\n    \"predictions\": [\"a\\\"\\\\\\n\\u0001/\xff\", \"ab\", \"\"\n    ]\n}");
    assert_encodes(1, bytes, &t, SRV_JSON_ROW, RT_OK,
                   "{\n    \"predictions\": [{\"b64\": \"YSJcCgEv/w==\"}, {\"b64\": \"YWI=\"}, "
                   "{\"b64\": \"\"}\n    ]\n}");
    rt_tensor_clear(&t);
}

static void errors_are_quoted(void **state)
{
    (void)state;
    struct rt_bytes out;
    rt_bytes_init(&out, SIZE_MAX);
    srv_json_error(&out, "Bad key: \"key\"");
    assert_string_equal(out.p, "{\n    \"error\": \"Bad key: \\\"key\\\"\"\n}");
    rt_bytes_clear(&out);
    /* \xc0\x80 is an overlong encoding of NUL. */
    srv_json_error(&out, "Bad key: \xff\xc3\xa9\xc0\x80");
    assert_string_equal(out.p, "{\n    \"error\": \"Bad key: \xef\xbf\xbd\xc3\xa9\\u0000\"\n}");
    rt_bytes_clear(&out);
}

static void a_response_of_nothing_but_brackets_has_a_limit_too(void **state)
{
    (void)state;
    const char *const y[] = {"y"};
    const int64_t huge = INT64_C(1) << 62;
    const struct rt_tensor t = view(RT_F32, 3, (const int64_t[]){huge, 0, huge}, NULL);
    char want[80];
    snprintf(want, sizeof want, "the response is larger than %zu bytes", SIZE_MAX / 2);
    assert_encodes(1, y, &t, SRV_JSON_COLUMNAR, RT_RESOURCE_EXHAUSTED, want);
    assert_encodes(1, y, &t, SRV_JSON_ROW, RT_RESOURCE_EXHAUSTED, want);
    const struct rt_tensor few = view(RT_F32, 2, (const int64_t[]){3, 0}, NULL);
    assert_encodes(1, y, &few, SRV_JSON_ROW, RT_OK,
                   "{\n    \"predictions\": [[], [], []\n    ]\n}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_written_in_both_forms),
        cmocka_unit_test(every_plain_type_is_written),
        cmocka_unit_test(strings_are_escaped_or_base64_by_the_outputs_name),
        cmocka_unit_test(errors_are_quoted),
        cmocka_unit_test(a_response_of_nothing_but_brackets_has_a_limit_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
