/* Tests JSON requests, including TensorFlow Serving's examples, the conversion of values, and
 * errors. */
#include "tests/support/test.h"

#include <math.h>

#include "runtime/base/arena.h"
#include "runtime/base/half.h"
#include "server/protocol/tfs/json_tensor.h"
#include "tests/unit/protocol/shape_argument.h"

enum { MAX_IO = 8 };

/* A request for a signature. The signature's inputs are sorted by alias, as in a model. */
struct request {
    struct rt_tensor_spec specs[MAX_IO];
    struct rt_signature sig;
    struct rt_tensor feeds[MAX_IO];
    struct rt_arena *arena;
    struct rt_span signature_name;
    enum srv_json_form form;
    struct rt_error err;
};

static void open_request(struct request *r, int n, const char *const *names,
                         const enum rt_dtype *dtypes)
{
    memset(r, 0, sizeof *r);
    for (int i = 0; i < n; i++) {
        r->specs[i].alias = names[i];
        r->specs[i].dtype = dtypes[i];
    }
    r->sig = (struct rt_signature){.name = "serving_default", .n_inputs = n, .inputs = r->specs};
    r->arena = rt_arena_new(SIZE_MAX);
    r->err.arena = r->arena;
}

static void close_request(struct request *r)
{
    for (int i = 0; i < MAX_IO; i++)
        rt_tensor_clear(&r->feeds[i]);
    rt_arena_free(r->arena);
}

static enum rt_status decode(struct request *r, const char *text, size_t n)
{
    struct srv_json_doc doc;
    /* The copy of the text has no spare bytes, so that a sanitizer reports a read beyond it. */
    unsigned char *body = malloc(n ? n : 1);
    memcpy(body, text, n);
    enum rt_status st = srv_json_check(&doc, rt_span_of(body, n), NULL, &r->err);
    if (!st)
        st = srv_json_signature(&doc, r->arena, &r->signature_name, &r->err);
    if (!st)
        st = srv_json_decode_predict(&doc, &r->sig, r->signature_name,
                                     &(struct srv_allowance){.left = SIZE_MAX}, r->feeds, &r->form,
                                     &r->err);
    free(body);
    return st;
}

static enum rt_status decode_one(struct request *r, enum rt_dtype dtype, const char *text)
{
    open_request(r, 1, (const char *const[]){"default"}, &dtype);
    return decode(r, text, strlen(text));
}

static void assert_shape(const struct rt_tensor *t, int rank, const int64_t *dim)
{
    assert_int_equal(t->rank, rank);
    for (int i = 0; i < rank; i++)
        assert_int_equal(t->dim[i], dim[i]);
}

static void refused(enum rt_dtype dtype, const char *text, enum rt_status code, const char *words)
{
    struct request r;
    assert_fails(decode_one(&r, dtype, text), code, &r.err, words);
    close_request(&r);
}

static void rows_of_lists_become_one_tensor(void **state)
{
    (void)state;
    struct request r;
    assert_ok(decode_one(&r, RT_I32, "{\"instances\": [[1,2],[3,4],[5,6]]}"), &r.err);
    assert_int_equal(r.form, SRV_JSON_ROW);
    assert_shape(&r.feeds[0], SHAPE(3, 2));
    for (int i = 0; i < 6; i++)
        assert_int_equal(((int32_t *)r.feeds[0].data)[i], i + 1);
    close_request(&r);
}

static void scalar_rows_become_a_vector_of_floats(void **state)
{
    (void)state;
    struct request r;
    assert_ok(decode_one(&r, RT_F32, "{\"instances\":[1,2.0,3,4.5,5.003,0.007,0.0]}"), &r.err);
    assert_shape(&r.feeds[0], SHAPE(7));
    const float want[] = {1, 2, 3, 4.5f, 5.003f, 0.007f, 0};
    assert_memory_equal(r.feeds[0].data, want, sizeof want);
    close_request(&r);
    assert_ok(decode_one(&r, RT_F32, "{\"instances\":[1435774380, 1435774380.0]}"), &r.err);
    assert_true(((float *)r.feeds[0].data)[0] == 1435774336.0f);
    assert_true(((float *)r.feeds[0].data)[1] == 1435774336.0f);
    close_request(&r);
}

static void values_beyond_a_float_become_infinite_or_zero(void **state)
{
    (void)state;
    struct request r;
    assert_ok(decode_one(&r, RT_F32,
                         "{\"instances\":[1.7976931348623157e+308,-1.7976931348623157e308,"
                         "2.2250738585072014e-308,-2.2250738585072014E-308]}"),
              &r.err);
    const float *x = r.feeds[0].data;
    assert_true(isinf(x[0]) && x[0] > 0 && isinf(x[1]) && x[1] < 0);
    assert_true(x[2] == 0 && !signbit(x[2]) && x[3] == 0 && signbit(x[3]));
    close_request(&r);
}

static void nan_and_infinities_are_numbers(void **state)
{
    (void)state;
    struct request r;
    assert_ok(decode_one(&r, RT_F64, "{\"instances\":[NaN,Inf,Infinity,-Inf,-Infinity]}"), &r.err);
    const double *x = r.feeds[0].data;
    assert_true(isnan(x[0]) && x[1] > 1e308 && x[2] > 1e308 && x[3] < -1e308 && x[4] < -1e308);
    close_request(&r);
}

static void integers_are_exact_and_checked_by_type(void **state)
{
    (void)state;
    struct request r;
    assert_ok(
        decode_one(&r, RT_I64, "{\"instances\":[9223372036854775807,-9223372036854775808,-0]}"),
        &r.err);
    assert_true(((int64_t *)r.feeds[0].data)[0] == INT64_MAX);
    assert_true(((int64_t *)r.feeds[0].data)[1] == INT64_MIN);
    close_request(&r);
    assert_ok(decode_one(&r, RT_U64, "{\"instances\":[18446744073709551615]}"), &r.err);
    assert_true(((uint64_t *)r.feeds[0].data)[0] == UINT64_MAX);
    close_request(&r);
    assert_ok(decode_one(&r, RT_U8, "{\"instances\":[255, 256, -1]}"), &r.err);
    assert_memory_equal(r.feeds[0].data, "\xff\x00\xff", 3);
    close_request(&r);
    refused(RT_I64, "{\"instances\":[9223372036854775808]}", RT_INVALID_ARGUMENT,
            "JSON Value: 9223372036854775808 Type: Number is not of expected type: int64");
    refused(RT_I32, "{\"instances\":[1.0]}", RT_INVALID_ARGUMENT,
            "JSON Value: 1.0 Type: Number is not of expected type: int32");
    refused(RT_I32, "{\"instances\":[2147483648]}", RT_INVALID_ARGUMENT, "expected type: int32");
    refused(RT_U32, "{\"instances\":[-1]}", RT_INVALID_ARGUMENT, "expected type: uint32");
    refused(RT_BOOL, "{\"instances\":[1]}", RT_INVALID_ARGUMENT, "expected type: bool");
}

static void a_type_that_json_cannot_say_is_refused_by_name(void **state)
{
    (void)state;
    refused(RT_C64, "{\"inputs\":[3]}", RT_UNIMPLEMENTED,
            "Conversion of JSON Value: 3 to type: complex64");
    refused(RT_C128, "{\"instances\":[0]}", RT_INVALID_ARGUMENT,
            "Failed to process element: 0 of 'instances' list. Error: UNIMPLEMENTED: Conversion of "
            "JSON Value: 0 to type: complex128");
}

static void the_16_bit_floats_round_once_and_come_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 0x10000; i++) {
        uint16_t h = (uint16_t)i;
        if (!isnan(rt_half_value(h)))
            assert_int_equal(rt_half_from((double)rt_half_value(h)), h);
        if (!isnan(rt_bfloat_value(h)))
            assert_int_equal(rt_bfloat_from((double)rt_bfloat_value(h)), h);
        if ((i & 0x7fff) >= 0x7bff)
            continue;
        /* The midpoint of two neighbouring numbers rounds to the number whose last bit is 0. The
         * doubles next to the midpoint round to the nearer number. */
        double low = (double)rt_half_value(h), high = (double)rt_half_value((uint16_t)(i + 1));
        double middle = (low + high) / 2;
        assert_int_equal(rt_half_from(middle), i + (i & 1));
        assert_int_equal(rt_half_from(nextafter(middle, high)), i + 1);
        assert_int_equal(rt_half_from(nextafter(middle, low)), i);
    }
    assert_int_equal(rt_half_from(65519.99), 0x7bff);
    assert_int_equal(rt_half_from(65520), 0x7c00);
    assert_int_equal(rt_half_from(-1e300), 0xfc00);
    assert_int_equal(rt_half_from(1e-300), 0);
    assert_int_equal(rt_bfloat_from(1e300), 0x7f80);
    /* The number is halfway between two bfloat16 numbers. It rounds to the number whose last
     * bit is 0. */
    assert_int_equal(rt_bfloat_from(1.00390625), 0x3f80);
    /* The number is just above halfway between two bfloat16 numbers. If it were rounded to a float
     * first, it would lie exactly halfway. */
    assert_int_equal(rt_bfloat_from(nextafter(1.00390625, 2)), 0x3f81);

    struct request r;
    assert_ok(decode_one(&r, RT_F16, "{\"instances\":[0.1, -2, Infinity, 65504]}"), &r.err);
    const uint16_t half[] = {0x2e66, 0xc000, 0x7c00, 0x7bff};
    assert_memory_equal(r.feeds[0].data, half, sizeof half);
    close_request(&r);
    assert_ok(decode_one(&r, RT_BF16, "{\"inputs\":[[3.14159], [NaN]]}"), &r.err);
    const uint16_t bfloat[] = {0x4049, 0x7fc0};
    assert_memory_equal(r.feeds[0].data, bfloat, sizeof bfloat);
    close_request(&r);
    refused(RT_F16, "{\"inputs\":[true]}", RT_INVALID_ARGUMENT,
            "JSON Value: true Type: True is not of expected type: half");
}

static void types_beyond_tensorflow_servings_keep_to_their_range(void **state)
{
    (void)state;
    static const struct {
        enum rt_dtype dtype;
        const char *good, *bad;
        uint32_t low, high;
        size_t size;
    } cases[] = {
        {RT_U16, "[0, 65535]", "[65536]", 0, 0xffff, 2},
        {RT_QU16, "[0, 65535]", "[-1]", 0, 0xffff, 2},
        {RT_QI16, "[-32768, 32767]", "[32768]", 0x8000, 0x7fff, 2},
        {RT_QI8, "[-128, 127]", "[128]", 0x80, 0x7f, 1},
        {RT_QU8, "[0, 255]", "[256]", 0, 0xff, 1},
        {RT_QI32, "[-2147483648, 2147483647]", "[2147483648]", 0x80000000, 0x7fffffff, 4},
        {RT_U16, "[1, 2]", "[1.0]", 1, 2, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct request r;
        char text[100], words[64];
        snprintf(text, sizeof text, "{\"instances\": %s}", cases[i].good);
        assert_ok(decode_one(&r, cases[i].dtype, text), &r.err);
        assert_memory_equal(r.feeds[0].data, &cases[i].low, cases[i].size);
        assert_memory_equal((char *)r.feeds[0].data + cases[i].size, &cases[i].high, cases[i].size);
        close_request(&r);
        snprintf(text, sizeof text, "{\"instances\": %s}", cases[i].bad);
        snprintf(words, sizeof words, "is not of expected type: %s", rt_dtype_name(cases[i].dtype));
        refused(cases[i].dtype, text, RT_INVALID_ARGUMENT, words);
    }
}

static bool string_is(const struct rt_tensor *t, int64_t i, const char *want, size_t n)
{
    const struct rt_str *s = &rt_strs(t)[i];
    return s->n == n && memcmp(rt_str_data(s), want, n) == 0;
}

static void strings_and_base64_become_bytes(void **state)
{
    (void)state;
    struct request r;
    assert_ok(decode_one(&r, RT_STRING,
                         "{\"instances\": [{\"b64\":\"aGVsbG8=\"}, {\"b64\":\"d29ybGQ\"}]}"),
              &r.err);
    assert_shape(&r.feeds[0], SHAPE(2));
    assert_true(string_is(&r.feeds[0], 0, "hello", 5) && string_is(&r.feeds[0], 1, "world", 5));
    close_request(&r);
    assert_ok(decode_one(&r, RT_STRING,
                         "{\"instances\": [{\"default\": [[{\"b64\":\"aGVsbG8=\"}],[\"a string "
                         "longer than it takes inside\"]]}]}"),
              &r.err);
    assert_shape(&r.feeds[0], SHAPE(1, 2, 1));
    close_request(&r);
    assert_ok(
        decode_one(&r, RT_STRING, "{\"inputs\": \"\\u0041\\n\\\\\\u00e9\\ud83d\\ude00\\u0000x\"}"),
        &r.err);
    assert_shape(&r.feeds[0], 0, NULL);
    assert_true(string_is(&r.feeds[0], 0, "A\n\\\xc3\xa9\xf0\x9f\x98\x80\0x", 11));
    close_request(&r);
    assert_ok(decode_one(&r, RT_STRING, "{\"inputs\": [{\"b64\": \"a-_b\"}, {\"b64\": \"a+/b\"}]}"),
              &r.err);
    assert_true(string_is(&r.feeds[0], 0, "k\xef\xdb", 3));
    assert_true(string_is(&r.feeds[0], 1, "k\xef\xdb", 3));
    close_request(&r);
    refused(RT_STRING, "{\"inputs\": {\"b64\": \"a~_b\"}}", RT_INVALID_ARGUMENT,
            "Unable to base64 decode");
    refused(RT_STRING, "{\"inputs\": [{\"b64\": 5}]}", RT_INVALID_ARGUMENT,
            "JSON Value: {\n    \"b64\": 5\n} not formatted correctly for base64 data");
}

static void named_inputs_may_come_in_any_order(void **state)
{
    (void)state;
    struct request r;
    const enum rt_dtype types[] = {RT_F64, RT_F32, RT_I32, RT_STRING};
    const char *const names[] = {"d", "f", "i", "s"};
    open_request(&r, 4, names, types);
    const char *text =
        "{\"instances\": [{\"i\": [[1,2],[3,4],[5,6]], \"f\": [NaN, Infinity], \"d\": [-Inf, 1],"
        "\"s\": [\"foo\"]}, {\"s\": [{\"b64\": \"YmFy\"}], \"d\": [2,3.5], \"f\": [1,2],"
        "\"i\": [[7,8],[9,10],[11,12]]}]}";
    assert_ok(decode(&r, text, strlen(text)), &r.err);
    assert_shape(&r.feeds[0], SHAPE(2, 2));
    assert_shape(&r.feeds[1], SHAPE(2, 2));
    assert_shape(&r.feeds[2], SHAPE(2, 3, 2));
    assert_shape(&r.feeds[3], SHAPE(2, 1));
    for (int i = 0; i < 12; i++)
        assert_int_equal(((int32_t *)r.feeds[2].data)[i], i + 1);
    assert_true(((double *)r.feeds[0].data)[3] == 3.5);
    assert_true(string_is(&r.feeds[3], 1, "bar", 3));
    close_request(&r);
}

static void columns_have_shapes_of_their_own(void **state)
{
    (void)state;
    struct request r;
    assert_ok(decode_one(&r, RT_I32, "{\"inputs\":{\"default\":[[[1,2],[3,4],[5,6]]]}}"), &r.err);
    assert_int_equal(r.form, SRV_JSON_COLUMNAR);
    assert_shape(&r.feeds[0], SHAPE(1, 3, 2));
    close_request(&r);
    assert_ok(decode_one(&r, RT_I32, "{\"inputs\":[[[1,2],[3,4],[5,6]]]}"), &r.err);
    assert_shape(&r.feeds[0], SHAPE(1, 3, 2));
    close_request(&r);
    const enum rt_dtype types[] = {RT_STRING, RT_F32};
    const char *const names[] = {"bin", "x"};
    open_request(&r, 2, names, types);
    const char *text = "{\"inputs\":{\"more\":null,\"x\":[1,2,3],\"bin\":{\"b64\":\"aGVsbG8=\"}}}";
    assert_ok(decode(&r, text, strlen(text)), &r.err);
    assert_shape(&r.feeds[0], 0, NULL);
    assert_shape(&r.feeds[1], SHAPE(3));
    close_request(&r);
    open_request(&r, 2, names, types);
    text = "{\"inputs\":{\"x\":1}}";
    assert_fails(decode(&r, text, strlen(text)), RT_INVALID_ARGUMENT, &r.err,
                 "Missing named input: bin in 'inputs' object.");
    close_request(&r);
    open_request(&r, 2, names, types);
    text = "{\"inputs\":[1]}";
    assert_fails(decode(&r, text, strlen(text)), RT_INVALID_ARGUMENT, &r.err,
                 "inputs is a plain value/list, but expecting an object");
    close_request(&r);
}

static void empty_lists_have_a_shape(void **state)
{
    (void)state;
    struct request r;
    assert_ok(decode_one(&r, RT_F32, "{\"inputs\":[]}"), &r.err);
    assert_shape(&r.feeds[0], SHAPE(0));
    close_request(&r);
    assert_ok(decode_one(&r, RT_F32, "{\"inputs\":[ [ ] , [] ]}"), &r.err);
    assert_shape(&r.feeds[0], SHAPE(2, 0));
    close_request(&r);
    assert_ok(decode_one(&r, RT_F32, "{\"instances\":[[],[]]}"), &r.err);
    assert_shape(&r.feeds[0], SHAPE(2, 0));
    close_request(&r);
}

static void ragged_lists_are_refused_where_they_differ(void **state)
{
    (void)state;
    refused(RT_I32, "{\"instances\":[[1,2],[3,4],[5,6,7]]}", RT_INVALID_ARGUMENT,
            "Failed to process element: 2 of 'instances' list. Error: INVALID_ARGUMENT: Expecting "
            "tensor size: 2 but got: 3");
    refused(RT_I32, "{\"instances\":[[1,2],[3,4],[[5,6]]]}", RT_INVALID_ARGUMENT,
            "Expecting shape [2] but got: [1,2]");
    refused(RT_I32, "{\"instances\":[1,[1]]}", RT_INVALID_ARGUMENT,
            "Expecting shape [] but got: [1]");
    refused(RT_I32, "{\"inputs\":[[1,2],[3,4],[5,6,7]]}", RT_INVALID_ARGUMENT,
            "Encountered list at unexpected size: 3 at level: 1 expected size: 2");
    refused(RT_I32, "{\"inputs\":[[1,2],3]}", RT_INVALID_ARGUMENT,
            "JSON Value: 3 found at incorrect level: 2 in the JSON DOM. Expected at level: 2");
    refused(RT_I32, "{\"inputs\":[1,[2]]}", RT_INVALID_ARGUMENT,
            "Encountered list at unexpected level: 1 expected < 1");
    refused(RT_F32, "{\"inputs\":[[1,2],[\"a\"]]}", RT_INVALID_ARGUMENT,
            "Encountered list at unexpected size: 1 at level: 1");
    /* The product of the dimensions is far larger than the text, so no memory may be allocated for
     * that number of elements. */
    refused(RT_F64, "{\"inputs\":[[[1,2,3,4,5,6,7,8,9]],[],[],[],[],[],[],[],[],[],[],[],[]]}",
            RT_INVALID_ARGUMENT, "Encountered list at unexpected size: 0 at level: 1");
}

static void wrong_elements_are_named_with_their_type(void **state)
{
    (void)state;
    refused(
        RT_F32, "{\"instances\":[\"x\",\"y\"]}", RT_INVALID_ARGUMENT,
        "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: "
        "\"x\" Type: String is not of expected type: float");
    refused(RT_I32, "{\"instances\":[[1,2],[\"a\",\"b\"]]}", RT_INVALID_ARGUMENT,
            "element: 1 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: \"a\" Type: "
            "String is not of expected type: int32");
    refused(RT_STRING, "{\"inputs\":[1,2,3,4]}", RT_INVALID_ARGUMENT,
            "JSON Value: 1 Type: Number is not of expected type: string");
    refused(RT_F32, "{\"inputs\":[null]}", RT_INVALID_ARGUMENT, "Type: Null");
    refused(RT_F32, "{\"inputs\":[true]}", RT_INVALID_ARGUMENT, "Type: True");
    refused(RT_F32, "{\"inputs\":[{\"a\":1}]}", RT_INVALID_ARGUMENT,
            "JSON Value: {\n    \"a\": 1\n} Type: Object is not of expected type: float");
}

static void objects_and_lists_do_not_mix(void **state)
{
    (void)state;
    refused(RT_I32, "{\"instances\":[{\"default\":1},[2]]}", RT_INVALID_ARGUMENT,
            "Expecting object but got list at item 1 of input list");
    refused(RT_I32, "{\"instances\":[1,{\"default\":1}]}", RT_INVALID_ARGUMENT,
            "Expecting value/list but got object at item 1 of input list");
    refused(RT_I32, "{\"instances\":[{\"other\":1}]}", RT_INVALID_ARGUMENT,
            "Failed to process element: 0 key: other of 'instances' list. Error: INVALID_ARGUMENT: "
            "JSON object: does not have named input: other");
    refused(RT_I32, "{\"instances\":[{\"default\":[1]},{\"default\":[[1]]}]}", RT_INVALID_ARGUMENT,
            "Failed to process element: 1 key: default of 'instances' list. Error: "
            "INVALID_ARGUMENT: Expecting shape [1] but got: [1,1]");
    struct request r;
    open_request(&r, 2, (const char *const[]){"a", "b"}, (const enum rt_dtype[]){RT_F32, RT_F32});
    const char *text = "{\"instances\":[{\"a\":1}]}";
    assert_fails(
        decode(&r, text, strlen(text)), RT_INVALID_ARGUMENT, &r.err,
        "Failed to process element: 0 of 'instances' list. JSON object: {\n    \"a\": 1\n} "
        "keys must be equal to: a,b");
    close_request(&r);
    open_request(&r, 2, (const char *const[]){"a", "b"}, (const enum rt_dtype[]){RT_F32, RT_F32});
    text = "{\"instances\":[1]}";
    assert_fails(decode(&r, text, strlen(text)), RT_INVALID_ARGUMENT, &r.err,
                 "instances is a plain list, but expecting list of objects as multiple input "
                 "tensors required as per tensorinfo_map");
    close_request(&r);
}

static void the_envelope_is_checked_in_order(void **state)
{
    (void)state;
    refused(RT_F32, "", RT_INVALID_ARGUMENT, "JSON Parse error: The document is empty");
    refused(RT_F32, "[1]", RT_INVALID_ARGUMENT, "JSON Value: [\n    1\n] Is not object");
    refused(RT_F32, "{\"signature_name\": 5}", RT_INVALID_ARGUMENT,
            "not formatted correctly. 'signature_name' key must be a string value.");
    refused(RT_F32, "{\"instances\":[1],\"inputs\":[1]}", RT_INVALID_ARGUMENT,
            "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ");
    refused(RT_F32, "{}", RT_INVALID_ARGUMENT, "Missing 'inputs' or 'instances' key");
    refused(RT_F32, "{\"instances\":5}", RT_INVALID_ARGUMENT,
            "Expecting 'instances' to be an list/array");
    refused(RT_F32, "{\"instances\":[ ]}", RT_INVALID_ARGUMENT, "No values in 'instances' array");
    struct request r;
    open_request(&r, 0, NULL, NULL);
    assert_fails(decode(&r, "{\"inputs\":1}", 12), RT_INVALID_ARGUMENT, &r.err,
                 "Failed to get input map for signature: DEFAULT");
    close_request(&r);
}

static void syntax_errors_have_rapidjsons_words_and_offsets(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"   ", "The document is empty. at offset: 3"},
        {"instances = [1, 2]", "Invalid value. at offset: 0"},
        {"{\"a\": tru}", "Invalid value. at offset: 9"},
        {"{\"a\": nul", "Invalid value. at offset: 9"},
        {"{", "Missing a name for object member. at offset: 1"},
        {"{\"a\":1,}", "Missing a name for object member. at offset: 7"},
        {"{a:1}", "Missing a name for object member. at offset: 1"},
        {"{\"a\" 1}", "Missing a colon after a name of object member. at offset: 5"},
        {"{\"a\":1 \"b\":2}", "Missing a comma or } after an object member. at offset: 7"},
        {"{\"a\":[1 2]}", "Missing a comma or ] after an array element. at offset: 8"},
        {"{\"a\":[1,]}", "Invalid value. at offset: 8"},
        {"{\"a\":[,]}", "Invalid value. at offset: 6"},
        {"{\"a\":[1", "Missing a comma or ] after an array element. at offset: 7"},
        {"{\"a\":}", "Invalid value. at offset: 5"},
        {"{\"a\":\"\\u12x4\"}", "Incorrect hex digit after \\u escape in string. at offset: 6"},
        {"{\"a\":\"\\ud800x\"}", "The surrogate pair in string is invalid. at offset: 6"},
        {"{\"a\":\"\\q\"}", "Invalid escape character in string. at offset: 6"},
        {"{\"a\":\"abc", "Missing a closing quotation mark in string. at offset: 9"},
        {"{\"a\":1e309}", "Number too big to be stored in double. at offset: 5"},
        {"{\"a\":1.}", "Miss fraction part in number. at offset: 7"},
        {"{\"a\":1e}", "Miss exponent in number. at offset: 7"},
        {"{\"a\":01}", "Missing a comma or } after an object member. at offset: 6"},
        {"{\"a\":-}", "Invalid value. at offset: 6"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct request r;
        char want[200];
        snprintf(want, sizeof want, "JSON Parse error: %s", cases[i].words);
        assert_fails(decode_one(&r, RT_F32, cases[i].text), RT_INVALID_ARGUMENT, &r.err, want);
        close_request(&r);
    }
}

static void what_tensorflow_serving_overlooks_is_overlooked(void **state)
{
    (void)state;
    struct request r;
    assert_ok(decode_one(&r, RT_F32,
                         "\xef\xbb\xbf {\"instances\":[1],\"instances\":[2,3],\"x\":{\"y\":[[]]}}"
                         " and more"),
              &r.err);
    assert_shape(&r.feeds[0], SHAPE(1));
    close_request(&r);
    assert_ok(decode_one(&r, RT_F32, "{\"\\u0069nputs\": 2, \"signature_name\": \"a\\u0062\"}"),
              &r.err);
    assert_true(rt_span_is(r.signature_name, "ab"));
    close_request(&r);
}

static void half_a_million_brackets_in_an_unused_key_are_skipped(void **state)
{
    (void)state;
    enum { DEEP = 500000 };
    char *text = malloc(2 * DEEP + 64);
    size_t n = (size_t)snprintf(text, 64, "{\"unused\":");
    memset(text + n, '[', DEEP);
    memset(text + n + DEEP, ']', DEEP);
    n += 2 * DEEP;
    n += (size_t)snprintf(text + n, 32, ",\"instances\":[1]}");
    struct request r;
    open_request(&r, 1, (const char *const[]){"x"}, (const enum rt_dtype[]){RT_F32});
    assert_ok(decode(&r, text, n), &r.err);
    close_request(&r);
    memcpy(text, "{\"inputs\":  ", 10);
    n -= strlen(",\"instances\":[1]}");
    text[n++] = '}';
    open_request(&r, 1, (const char *const[]){"x"}, (const enum rt_dtype[]){RT_F32});
    assert_fails(decode(&r, text, n), RT_INVALID_ARGUMENT, &r.err, "nested deeper than 8");
    close_request(&r);
    memcpy(text, "{\"signature_name\"    :", 10);
    open_request(&r, 1, (const char *const[]){"x"}, (const enum rt_dtype[]){RT_F32});
    assert_int_not_equal(decode(&r, text, n), RT_OK);
    close_request(&r);
    free(text);
}

/* A nested value is skipped eight bytes at a time. Every bracket, quote and escape must be found at
 * any offset in a word of eight bytes, and bytes after the end of the value must be ignored. */
static void a_nested_value_ends_where_its_brackets_do(void **state)
{
    static const char *const values[] = {
        "[]",
        "[[]]",
        "[1,2]",
        "[[1,2],[3,4]]",
        "[[[0.25, 0.5], [1]], [[2], []], [[3, 4.125, 5.0625]]]",
        "{\"a\": [1, {\"b\": []}], \"c\": {}}",
        "[\"]\", [\"\\\"]]]\"], \"[[[\"]",
        "[[[[[[[[[[1]]]]]]]]]]",
        "[[1, 2, 3, 4, 5, 6, 7, 8, 9], \"x\", {\"k]\": \"v[\"}]",
    };
    static const char *const behind[] = {"", "]", "]]]]]]]]]]]]]]]]", ", [[[[[[[[1", "}", "\"]]]]"};
    (void)state;
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        for (size_t b = 0; b < sizeof behind / sizeof *behind; b++)
            for (size_t shift = 0; shift < 8; shift++) {
                const size_t length = strlen(values[v]), n = shift + length + strlen(behind[b]);
                /* The text fills its allocation exactly, so that a sanitizer reports reads beyond
                 * it. */
                unsigned char *text = malloc(n + 1);
                assert_non_null(text);
                snprintf((char *)text, n + 1, "%.*s%s%s", (int)shift, "        ", values[v],
                         behind[b]);
                const struct srv_json value = {text + shift, text + n, NULL};
                assert_ptr_equal(srv_json_after(value), text + shift + length);
                free(text);
            }
}

static void tensors_larger_than_the_budget_are_refused(void **state)
{
    (void)state;
    struct request r;
    open_request(&r, 1, (const char *const[]){"x"}, (const enum rt_dtype[]){RT_I64});
    const char *text = "{\"inputs\":[1,2,3,4]}";
    struct srv_json_doc doc;
    assert_ok(srv_json_check(&doc, rt_span_str(text), NULL, &r.err), &r.err);
    assert_fails(srv_json_decode_predict(&doc, &r.sig, r.signature_name,
                                         &(struct srv_allowance){.left = 31}, r.feeds, &r.form,
                                         &r.err),
                 RT_RESOURCE_EXHAUSTED, &r.err, "input \"x\" takes 32 bytes");
    close_request(&r);
}

/* Asserts that neither the check nor the decoding of `head`, 3,000,000 times `unit`, and `tail`
 * comes to its end after the deadline of the request. */
static void stops_at_the_deadline(const char *head, const char *unit, const char *tail,
                                  enum rt_dtype dtype)
{
    enum { UNITS = 3000000 };
    struct srv_cancellation cancellation = {.deadline_ns = RT_NEVER};
    const size_t n_unit = strlen(unit), n_head = strlen(head);
    const size_t n = n_head + UNITS * n_unit + strlen(tail);
    struct request r;
    struct srv_json_doc doc;
    char *text = malloc(n + 1);
    assert_non_null(text);
    memcpy(text, head, n_head);
    for (size_t i = 0; i < UNITS; i++)
        memcpy(text + n_head + i * n_unit, unit, n_unit);
    memcpy(text + n - strlen(tail), tail, strlen(tail));
    open_request(&r, 1, (const char *const[]){"x"}, &dtype);
    assert_ok(srv_json_check(&doc, rt_span_of(text, n), &cancellation, &r.err), &r.err);
    cancellation.deadline_ns = 1;
    assert_true(srv_json_decode_predict(&doc, &r.sig, r.signature_name,
                                        &(struct srv_allowance){.left = SIZE_MAX}, r.feeds, &r.form,
                                        &r.err) != RT_OK);
    assert_int_equal(cancellation.over, RT_DEADLINE_EXCEEDED);
    cancellation.over = RT_OK;
    assert_fails(srv_json_check(&doc, rt_span_of(text, n), &cancellation, &r.err),
                 RT_DEADLINE_EXCEEDED, &r.err, "the deadline passed while the request was read");
    close_request(&r);
    free(text);
}

static void decoding_stops_at_the_deadline(void **state)
{
    (void)state;
    stops_at_the_deadline("{\"instances\":[", "1,", "1]}", RT_F32);
    stops_at_the_deadline("{\"instances\":[", "[1],", "[1]]}", RT_I64);
    stops_at_the_deadline("{\"instances\":[", "{\"x\":1},", "{\"x\":1}]}", RT_F64);
    stops_at_the_deadline("{\"instances\":[", "\"\",", "\"\"]}", RT_STRING);
    stops_at_the_deadline("{\"instances\":[", "{\"b64\":\"\"},", "\"\"]}", RT_STRING);
    stops_at_the_deadline("{\"instances\":[\"", "\\u20ac", "\"]}", RT_STRING);
    stops_at_the_deadline("{\"inputs\":[", "1,", "1]}", RT_I32);
    stops_at_the_deadline("{\"inputs\":{\"x\":[[", "[1],", "[1]]]}}", RT_F32);
    stops_at_the_deadline("{\"inputs\":[[", "[],", "[]]]}", RT_F32);
    /* an error in the last element is not searched for after the deadline */
    stops_at_the_deadline("{\"inputs\":[[", "[1],", "[\"\"]]]}", RT_F32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_stops_at_the_deadline),
        cmocka_unit_test(rows_of_lists_become_one_tensor),
        cmocka_unit_test(scalar_rows_become_a_vector_of_floats),
        cmocka_unit_test(values_beyond_a_float_become_infinite_or_zero),
        cmocka_unit_test(nan_and_infinities_are_numbers),
        cmocka_unit_test(integers_are_exact_and_checked_by_type),
        cmocka_unit_test(a_type_that_json_cannot_say_is_refused_by_name),
        cmocka_unit_test(the_16_bit_floats_round_once_and_come_back),
        cmocka_unit_test(types_beyond_tensorflow_servings_keep_to_their_range),
        cmocka_unit_test(strings_and_base64_become_bytes),
        cmocka_unit_test(named_inputs_may_come_in_any_order),
        cmocka_unit_test(columns_have_shapes_of_their_own),
        cmocka_unit_test(empty_lists_have_a_shape),
        cmocka_unit_test(ragged_lists_are_refused_where_they_differ),
        cmocka_unit_test(wrong_elements_are_named_with_their_type),
        cmocka_unit_test(objects_and_lists_do_not_mix),
        cmocka_unit_test(the_envelope_is_checked_in_order),
        cmocka_unit_test(syntax_errors_have_rapidjsons_words_and_offsets),
        cmocka_unit_test(what_tensorflow_serving_overlooks_is_overlooked),
        cmocka_unit_test(half_a_million_brackets_in_an_unused_key_are_skipped),
        cmocka_unit_test(a_nested_value_ends_where_its_brackets_do),
        cmocka_unit_test(tensors_larger_than_the_budget_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
