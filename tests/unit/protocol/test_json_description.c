/* Tests that status and metadata responses are, byte for byte, the JSON that protobuf prints for
 * TensorFlow Serving. */
#include "tests/support/test.h"

#include "server/protocol/tfs/tfs.h"
#include "server/versions/status.h"

/* The start of the expected metadata, up to the first default value of an input. */
static const char metadata_start[] = "{\n"
                                     "\"model_spec\":{\n"
                                     " \"name\": \"m\",\n"
                                     " \"signature_name\": \"\",\n"
                                     " \"version\": \"123\"\n"
                                     "}\n"
                                     ",\n"
                                     "\"metadata\": {\"signature_def\": {\n"
                                     " \"signature_def\": {\n"
                                     "  \"a\": {\n"
                                     "   \"inputs\": {\n"
                                     "    \"x\": {\n"
                                     "     \"dtype\": \"DT_FLOAT\",\n"
                                     "     \"tensor_shape\": {\n"
                                     "      \"dim\": [\n"
                                     "       {\n"
                                     "        \"size\": \"-1\",\n"
                                     "        \"name\": \"\"\n"
                                     "       },\n"
                                     "       {\n"
                                     "        \"size\": \"1\",\n"
                                     "        \"name\": \"\"\n"
                                     "       }\n"
                                     "      ],\n"
                                     "      \"unknown_rank\": false\n"
                                     "     },\n"
                                     "     \"name\": \"x:0\"\n"
                                     "    }\n"
                                     "   },\n"
                                     "   \"outputs\": {\n"
                                     "    \"y\\u003c\": {\n"
                                     "     \"dtype\": \"DT_STRING\",\n"
                                     "     \"tensor_shape\": {\n"
                                     "      \"dim\": [],\n"
                                     "      \"unknown_rank\": true\n"
                                     "     },\n"
                                     "     \"name\": \"y:0\"\n"
                                     "    }\n"
                                     "   },\n"
                                     "   \"method_name\": \"tensorflow/serving/predict\",\n"
                                     "   \"defaults\": {}\n"
                                     "  },\n"
                                     "  \"b\": {\n"
                                     "   \"inputs\": {\n"
                                     "    \"x\": {\n"
                                     "     \"dtype\": \"DT_FLOAT\",\n"
                                     "     \"tensor_shape\": {\n"
                                     "      \"dim\": [],\n"
                                     "      \"unknown_rank\": false\n"
                                     "     },\n"
                                     "     \"name\": \"x:0\"\n"
                                     "    }\n"
                                     "   },\n"
                                     "   \"outputs\": {},\n"
                                     "   \"method_name\": \"\",\n"
                                     "   \"defaults\": {\n"
                                     "    \"x\": {\n"
                                     "     \"dtype\": \"DT_FLOAT\",\n"
                                     "     \"tensor_shape\": {\n";

static void metadata_is_laid_out_as_tensorflow_servings(void **state)
{
    (void)state;
    float two = 2;
    const struct rt_tensor def = {.dtype = RT_F32, .rank = 1, .dim = {1}, .data = &two};
    const struct rt_tensor_spec in = {
        .alias = "x", .name = "x:0", .dtype = RT_F32, .shape = {.rank = 2, .dim = {-1, 1}}};
    /* dtype: DT_FLOAT tensor_shape { dim { size: 1 } } float_val: 2 */
    static const unsigned char proto[] = {0x08, 1,    0x12, 4, 0x12, 2, 0x08,
                                          1,    0x2a, 4,    0, 0,    0, 0x40};
    const struct rt_tensor_spec with_default = {.alias = "x",
                                                .name = "x:0",
                                                .dtype = RT_F32,
                                                .default_value = &def,
                                                .default_proto = rt_span_of(proto, sizeof proto)};
    const struct rt_tensor_spec out = {
        .alias = "y<", .name = "y:0", .dtype = RT_STRING, .shape = {.rank = -1}};
    const struct rt_signature sigs[] = {
        {.name = "a",
         .method_name = "tensorflow/serving/predict",
         .n_inputs = 1,
         .n_outputs = 1,
         .inputs = &in,
         .outputs = &out},
        {.name = "b", .method_name = "", .n_inputs = 1, .inputs = &with_default},
    };
    const struct rt_meta_graph graph = {.n_signatures = 2, .signatures = sigs};
    struct rt_bytes text;
    rt_bytes_init(&text, SIZE_MAX);
    srv_tfs_write_metadata_json(&text, "m", 123, &graph);
    assert_true(text.n > sizeof metadata_start);
    assert_memory_equal(text.p, metadata_start, sizeof metadata_start - 1);
    assert_non_null(strstr(text.p, "     \"float_val\": [\n      2.0\n     ],\n"));
    assert_non_null(strstr(text.p, "     \"uint64_val\": []\n    }\n   }\n  }\n }\n}\n}\n}\n"));
    rt_bytes_clear(&text);
}

/* Checks the description of a model whose only default value is `value`, in protobuf's text format.
 * The description must contain `expected`. */
static void assert_default(const char *value, const char *expected)
{
    struct rt_saved_model *m = NULL;
    struct rt_error err = {0};
    struct rt_bytes in, out;
    rt_bytes_init(&in, 1 << 20);
    rt_bytes_addf(&in,
                  "meta_graphs { signature_def { key: 's' value {"
                  " inputs { key: 'x' value { name: 'x:0' } }"
                  " defaults { key: 'x' value { %s } } } } }",
                  value);
    assert_ok(rt_saved_model_parse(&m, rt_span_of(in.p, in.n), true, &err), &err);
    rt_bytes_init(&out, 1 << 20);
    srv_tfs_write_metadata_json(&out, "m", 1, m->meta_graphs);
    assert_false(out.failed);
    if (!strstr(out.p, expected))
        fail_msg("no %s in %s", expected, out.p);
    rt_bytes_clear(&out);
    rt_bytes_clear(&in);
    rt_saved_model_free(m);
}

/* `expected` is what protobuf prints for the TensorProto `value` of a model file. */
static void defaults_have_the_values_of_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *value, *expected;
    } rows[] = {
        {"dtype: DT_BOOL bool_val: true tensor_shape { dim { size: 30000000 } }",
         "\"bool_val\": [\n      true\n     ],\n"},
        {"dtype: DT_FLOAT tensor_shape { dim { size: 30 } }", "\"float_val\": [],\n"},
        {"dtype: DT_INT8 tensor_content: 'abc' tensor_shape { dim { size: 3 } }",
         "\"version_number\": 0,\n     \"tensor_content\": \"YWJj\",\n     \"half_val\": [],\n"},
        {"dtype: DT_INT8 int_val: -1 int_val: 2 tensor_shape { dim { size: 2 } }",
         "\"int_val\": [\n      -1,\n      2\n     ],\n"},
        {"dtype: DT_HALF half_val: 15360", "\"half_val\": [\n      15360\n     ],\n"},
        {"dtype: DT_DOUBLE double_val: inf", "\"double_val\": [\n      \"Infinity\"\n     ],\n"},
        {"dtype: DT_INT64 int64_val: -5", "\"int64_val\": [\n      \"-5\"\n     ],\n"},
        {"dtype: DT_UINT32 uint32_val: 4000000000",
         "\"uint32_val\": [\n      4000000000\n     ],\n"},
        {"dtype: DT_UINT64 uint64_val: 5", "\"uint64_val\": [\n      \"5\"\n     ]\n"},
        {"dtype: DT_STRING string_val: 'a'", "\"string_val\": [\n      \"YQ==\"\n     ],\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_default(rows[i].value, rows[i].expected);
}

static void names_that_are_not_utf8_are_written_as_utf8(void **state)
{
    (void)state;
    const struct rt_tensor_spec in = {.alias = "x\xff", .name = "\xc3\xa9\xc3<:0", .dtype = RT_F32};
    const struct rt_signature sig = {
        .name = "\x80", .inputs = &in, .n_inputs = 1, .method_name = ""};
    const struct rt_meta_graph graph = {.n_signatures = 1, .signatures = &sig};
    struct rt_bytes text;
    rt_bytes_init(&text, 1 << 20);
    srv_tfs_write_metadata_json(&text, "m", 123, &graph);
    assert_non_null(strstr(text.p, "\"\xef\xbf\xbd\": {"));
    assert_non_null(strstr(text.p, "\"x\xef\xbf\xbd\": {"));
    assert_non_null(strstr(text.p, "\"name\": \"\xc3\xa9\xef\xbf\xbd\\u003c:0\""));
    rt_bytes_clear(&text);
}

static void status_lists_versions_with_their_errors(void **state)
{
    (void)state;
    const struct srv_version_status versions[] = {
        {2, SRV_AVAILABLE, RT_OK, ""},
        {1, SRV_END, RT_NOT_FOUND, "no \"file\""},
    };
    struct rt_bytes text;
    rt_bytes_init(&text, SIZE_MAX);
    srv_tfs_write_status_json(&text, versions, 2);
    assert_string_equal(text.p, "{\n"
                                " \"model_version_status\": [\n"
                                "  {\n"
                                "   \"version\": \"2\",\n"
                                "   \"state\": \"AVAILABLE\",\n"
                                "   \"status\": {\n"
                                "    \"error_code\": \"OK\",\n"
                                "    \"error_message\": \"\"\n"
                                "   }\n"
                                "  },\n"
                                "  {\n"
                                "   \"version\": \"1\",\n"
                                "   \"state\": \"END\",\n"
                                "   \"status\": {\n"
                                "    \"error_code\": \"NOT_FOUND\",\n"
                                "    \"error_message\": \"no \\\"file\\\"\"\n"
                                "   }\n"
                                "  }\n"
                                " ]\n"
                                "}\n");
    rt_bytes_clear(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_is_laid_out_as_tensorflow_servings),
        cmocka_unit_test(defaults_have_the_values_of_the_file),
        cmocka_unit_test(names_that_are_not_utf8_are_written_as_utf8),
        cmocka_unit_test(status_lists_versions_with_their_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
