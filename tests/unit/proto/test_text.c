#include "tests/support/test.h"

#include <math.h>

#include "proto/text.h"
#include "proto/unpack.h"
#include "runtime/base/bytes.h"
#include "google/protobuf/wrappers.pb-c.h"
#include "tensorflow/core/framework/graph.pb-c.h"
#include "tensorflow/core/framework/tensor.pb-c.h"
#include "tensorflow/core/protobuf/config.pb-c.h"
#include "tensorflow_serving/config/logging_config.pb-c.h"
#include "tensorflow_serving/config/platform_config.pb-c.h"
#include "tensorflow_serving/config/model_server_config.pb-c.h"

static struct rt_error err;

static void *graph(const char *text)
{
    ProtobufCMessage *m = NULL;
    assert_ok(pb_text_parse(&m, &tensorflow__graph_def__descriptor, rt_span_str(text), &err), &err);
    return m;
}

static void refused(const char *text, const char *words)
{
    ProtobufCMessage *m = NULL;
    assert_fails(pb_text_parse(&m, &tensorflow__graph_def__descriptor, rt_span_str(text), &err),
                 RT_INVALID_ARGUMENT, &err, words);
    assert_null(m);
}

static void a_model_config_as_people_write_it_is_read(void **state)
{
    (void)state;
    static const char text[] = "# Which models.\n"
                               "model_config_list: {\n"
                               "  config: {\n"
                               "    name: 'half' \"_plus_two\",\n"
                               "    base_path: \"/models/\\x68alf\\137plus_two\";\n"
                               "    model_platform: \"tensorflow\"\n"
                               "    model_version_policy { specific < versions: [1, 0x2, 03] > }\n"
                               "    version_labels { key: 'stable' value: 1 }\n"
                               "    version_labels { key: 'canary', value: 2 } # both\n"
                               "  }\n"
                               "  config { name: 'b' }\n"
                               "}";
    ProtobufCMessage *m;
    assert_ok(pb_text_parse(&m, &tensorflow__serving__model_server_config__descriptor,
                            rt_span_str(text), &err),
              &err);
    const Tensorflow__Serving__ModelServerConfig *c = (void *)m;
    assert_int_equal(c->config_case,
                     TENSORFLOW__SERVING__MODEL_SERVER_CONFIG__CONFIG_MODEL_CONFIG_LIST);
    assert_int_equal(c->model_config_list->n_config, 2);
    const Tensorflow__Serving__ModelConfig *one = c->model_config_list->config[0];
    assert_string_equal(one->name, "half_plus_two");
    assert_string_equal(one->base_path, "/models/half_plus_two");
    const void *specific = one->model_version_policy->specific;
    assert_non_null(specific);
    assert_int_equal(one->model_version_policy->specific->n_versions, 3);
    assert_int_equal(one->model_version_policy->specific->versions[2], 3);
    assert_int_equal(one->n_version_labels, 2);
    assert_string_equal(one->version_labels[1]->key, "canary");
    assert_int_equal(one->version_labels[1]->value, 2);
    pb_free(m);
}

static void every_form_of_value_is_read(void **state)
{
    (void)state;
    Tensorflow__GraphDef *g = graph(
        "node { name: \"\\u00e9\\x41\\7\\\"\\U0001F600\\uD83D\\uDE00\" input: ['a', 'b'] input: "
        "'c'\n"
        "attr { key: 'f' value { f: -1.5e+3f } } attr { key: 'n' value { f: nan } }\n"
        "attr { key: 'i' value { f: -  Infinity } } attr { key: 't' value { type: DT_HALF } }\n"
        "attr { key: 'u' value { type: 1 } } attr { key: 'b' value { b: t } }\n"
        "attr { key: 's' value { s: '\\000\\xff' } } attr { key: 'h' value { i: -0x10 } }\n"
        "attr { key: 'l' value { list { i: [] f: .5 f: 12345678901234567890123 b: [true, False, 1] "
        "} } }\n"
        "attr { key: 'm' value { i: -9223372036854775808 } } }\n"
        "node: [{ name: 'x' }, < name: 'y' >] versions < producer: 7; bad_consumers: 010 >\n"
        "#end");
    assert_int_equal(g->n_node, 3);
    const Tensorflow__NodeDef *n = g->node[0];
    assert_string_equal(n->name, "\xc3\xa9"
                                 "A\7\"\xf0\x9f\x98\x80\xf0\x9f\x98\x80");
    assert_int_equal(n->n_input, 3);
    assert_string_equal(n->input[2], "c");
    assert_true(n->attr[0]->value->f == -1500);
    assert_true(isnan(n->attr[1]->value->f));
    assert_true(n->attr[2]->value->f == -INFINITY);
    assert_int_equal(n->attr[3]->value->type, 19);
    assert_int_equal(n->attr[4]->value->type, 1);
    assert_int_equal(n->attr[5]->value->b, 1);
    assert_int_equal(n->attr[6]->value->s.len, 2);
    assert_memory_equal(n->attr[6]->value->s.data, "\0\xff", 2);
    assert_true(n->attr[7]->value->i == -16);
    assert_int_equal(n->attr[8]->value->list->n_i, 0);
    assert_int_equal(n->attr[8]->value->list->n_b, 3);
    assert_true(n->attr[8]->value->list->f[0] == 0.5f);
    assert_true(n->attr[9]->value->i == INT64_MIN);
    assert_string_equal(g->node[2]->name, "y");
    assert_int_equal(g->versions->bad_consumers[0], 8);
    pb_free(g);
    pb_free(graph(""));
    pb_free(graph(" # nothing"));
}

static void what_is_wrong_is_named_with_its_place(void **state)
{
    (void)state;
    refused("node {\n  name: \"x\"\n  bogus: 1 }",
            "3:8: Message type \"tensorflow.NodeDef\" has no field named \"bogus\".");
    refused("node { name: 1 }", "1:14: Expected string, got: 1");
    refused("node { name: 'x' name: 'y' }",
            "1:22: Non-repeated field \"name\" is specified multiple times.");
    refused("node { attr { value { i: 1 f: 2 } } }",
            "Field \"f\" is specified along with field \"i\"");
    refused("versions { producer: 99999999999 }", "1:22: Integer out of range (99999999999)");
    refused("versions { producer: 1", "1:23: Expected identifier, got: ");
    refused("versions { producer: 1 >", "1:24: Expected \"}\", found \">\".");
    refused("\t versions {\n \tproducer: 'a b' }", "2:19: Expected integer, got: 'a b'");
    refused("versions { producer: 1.5 }", "1:22: Expected integer, got: 1.5");
    refused("\xff", "1:1: Interpreting non ascii codepoint 255.");
    refused("node { name: 'a", "1:16: Unexpected end of string.");
    refused("node { name: '\\xg' }", "1:17: Expected hex digits for escape sequence.");
    refused("versions { producer: '0123456789012345678901234567890' }",
            "1:22: Expected integer, got: '01234567890123456789012");
    refused("versions { producer: 08 }", "Integer out of range (08)");
    refused("versions { producer: 1x }", "1x");
    refused("versions { producer: '1' }", "Expected integer, got: '");
    refused("versions { producer 1 }", "1:21: Expected \":\", found \"1\".");
    refused("versions: 1", "1:11: Expected \"{\", found \"1\".");
    refused("node { attr { value { type: DT_BOGUS } } }",
            "1:38: Unknown enumeration value of \"DT_BOGUS\" for field \"type\".");
    refused("node { name: \"a\nb\" }", "1:16: String literals cannot cross line boundaries.");
    refused("node { name: \"\\q\" }", "1:16: Invalid escape sequence");
    refused("node { name: \"\\400\" }", "Octal");
    refused("node { name: \"\\ud800\" }", "No character");
    refused("node { name: \"\\0\" }", "holds a NUL");
    refused("node { attr { value { f: 0x10 } } }", "Expected double, got: 0x10");
    refused("node { attr { value { f: 1e } } }", "Expected double, got: 1e");
    refused("node { attr { value { f: 010 } } }", "Expected double, got: 010");
    refused("node { attr { value { f: 1.2.3 } } }", "Expected double");
    refused("node { attr { value { b: 2 } } }", "Expected \"true\" or \"false\", got: 2");
    refused("node { attr { value { list { i: [1, 2,] } } } }", "Expected integer, got: ]");
    refused("node { name: ['a'] }", "Expected string, got: [");
    refused("[foo.bar]: 1", "1:10: Extension \"foo.bar\" is not defined or is not an extension of "
                            "\"tensorflow.GraphDef\".");
    refused("node { input: 'a',; }", "Expected identifier, got: ;");
    refused("{}", "Expected identifier, got: {");
    refused("}", "Expected identifier, got: }");
    refused("\x01", "1:1: Invalid control characters encountered in text.");
    refused("node { attr { key: 'a' value { list { func: { attr { key",
            "Expected \":\", found \"\".");
}

/* Fields that TensorFlow writes into a SavedModel and that the server does not read are missing in
 * the message. Their values are checked like all others. */
static void what_is_not_read_is_checked_and_discarded(void **state)
{
    (void)state;
    Tensorflow__GraphDef *g = graph(
        "node { name: 'a' experimental_type { type_id: TFT_PRODUCT args < type_id: TFT_TENSOR args "
        "{ type_id: 209 i: -1 } >, args { s: 'T' } }; op: 'b' }\n"
        "library { function { signature { name: 'f' input_arg { name: 'x' experimental_full_type: "
        "{ type_id: TFT_OPTIONAL } type: DT_FLOAT } } } }\n"
        "debug_info { files: ['a.py', 'b.py'] frames_by_id { key: 5 value { line: 3 func: 'f' } } "
        "traces { key: 'n' value { frame_id: [1, 2] } } name_to_trace_id { key: 'n' value: 7 } }");
    assert_int_equal(g->n_node, 1);
    assert_string_equal(g->node[0]->op, "b");
    assert_int_equal(g->node[0]->base.n_unknown_fields, 0);
    assert_int_equal(g->library->function[0]->signature->input_arg[0]->type, 1);
    pb_free(g);

    refused("node { experimental_type { bogus: 1 } }",
            "1:33: Message type \"tensorflow.FullTypeDef\" has no field named \"bogus\".");
    refused("node { experimental_type { type_id: TFT_BOGUS } }",
            "1:47: Unknown enumeration value of \"TFT_BOGUS\" for field \"type_id\".");
    refused("node { experimental_type { s: 'a' i: 1 } }",
            "Field \"i\" is specified along with field \"s\"");
    refused("node { experimental_type { } experimental_type { } }",
            "1:48: Non-repeated field \"experimental_type\" is specified multiple times.");
    refused("node { experimental_type: 1 }", "1:27: Expected \"{\", found \"1\".");
    refused("node { experimental_type { s: 'a'", "1:34: Expected identifier, got: ");
    refused("experimental_type { }",
            "1:19: Message type \"tensorflow.GraphDef\" has no field named \"experimental_type\".");
    refused("object_graph_def { }", "has no field named \"object_graph_def\".");

    static char text[20000];
    size_t n = 0;
    while (n < sizeof text - 30)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s",
                              n ? "args { " : "node { experimental_type { ");
    refused(text, "recursion limit of 100");
}

static void depth_is_limited(void **state)
{
    (void)state;
    static char text[100000];
    size_t n = 0;
    while (n < sizeof text - 200)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s",
                              n ? "func { attr { value { " : "node { attr { value { ");
    refused(text, "recursion limit of 100");
}

/* Where protobuf's Python and C++ parsers read a text differently, Slipway reads it as the C++
 * parser does. */
static void what_only_python_reads_is_refused(void **state)
{
    (void)state;
    refused("versions { producer: 0b1 }", "0b1");
    refused("versions { producer: 1_0 }", "1_0");
    refused("versions { producer: +1 }", "Expected integer, got: +");
    refused("node { attr { value { f: 1ff } } }", "Expected double, got: 1ff");
    Tensorflow__GraphDef *g = graph("versions { producer: - 1 } node { attr { value { b: 0x1 } } }"
                                    "node { name: '\\?\\u20ac' }");
    assert_int_equal(g->versions->producer, -1);
    assert_int_equal(g->node[0]->attr[0]->value->b, 1);
    assert_string_equal(g->node[1]->name, "?\xe2\x82\xac");
    pb_free(g);
}

static void a_mark_of_utf8_at_the_start_is_skipped(void **state)
{
    (void)state;
    pb_free(graph("\xef\xbb\xbfversions {}"));
    refused("\xef\xbb\xbf x", "1:3: ");
}

static void an_any_holds_what_is_written_in_it(void **state)
{
    (void)state;
    static const char text[] =
        "platform_configs { key: 'tensorflow' value { source_adapter_config {\n"
        "  [type.googleapis.com/ # one type\n"
        "   tensorflow.serving.SavedModelBundleSourceAdapterConfig]: {\n"
        "  legacy_config { enable_model_warmup: true } }; } } }";
    ProtobufCMessage *m = NULL;
    assert_ok(pb_text_parse(&m, &tensorflow__serving__platform_config_map__descriptor,
                            rt_span_str(text), &err),
              &err);
    const Tensorflow__Serving__PlatformConfigMap *map = (void *)m;
    const Google__Protobuf__Any *any = map->platform_configs[0]->value->source_adapter_config;
    assert_string_equal(any->type_url, "type.googleapis.com/"
                                       "tensorflow.serving.SavedModelBundleSourceAdapterConfig");
    assert_true(any->value.len > 0);
    pb_free(m);
}

static void not_any(const char *text, const char *words)
{
    ProtobufCMessage *m = NULL;
    assert_fails(pb_text_parse(&m, &tensorflow__serving__platform_config__descriptor,
                               rt_span_str(text), &err),
                 RT_INVALID_ARGUMENT, &err, words);
}

static void an_any_of_another_type_is_refused_with_its_place(void **state)
{
    (void)state;
    not_any("source_adapter_config {\n [x.com/no.Such] {} }",
            "2:18: Could not find type \"x.com/no.Such\" stored in google.protobuf.Any.");
    not_any("source_adapter_config { [no.Such] {} }", "1:33: Expected \"/\", found \"]\".");
    not_any("source_adapter_config { [x/google.protobuf.Int64Value] { value: 1 }\n"
            " [x/google.protobuf.Int64Value] { value: 2 } }",
            "2:33: Non-repeated Any specified multiple times.");
    not_any("source_adapter_config { [x/google.protobuf.Int64Value] { value: 'a' } }",
            "1:65: Expected integer");
    not_any("source_adapter_config { [x/google.protobuf.Int64Value", "Expected \"]\", found \"\".");
    not_any("source_adapter_config { [x/!] {} }", "Expected identifier, got: !");
    not_any("source_adapter_config { [] {} }", "1:26: Expected identifier, got: ]");
}

/* ---- answers of Python's protobuf, text_golden.inc ---- */

#define REFUSED (-1), ""
static const struct golden {
    const char *kind;
    const ProtobufCMessageDescriptor *type;
    int n;
    const char *text;
    int n_packed; /* -1 if the text is refused */
    const char *packed;
} goldens[] = {
#define TYPE_GRAPH                 &tensorflow__graph_def__descriptor
#define TYPE_ATTR                  &tensorflow__attr_value__descriptor
#define TYPE_TENSOR                &tensorflow__tensor_proto__descriptor
#define TYPE_SESSION               &tensorflow__config_proto__descriptor
#define TYPE_MODELS                &tensorflow__serving__model_server_config__descriptor
#define TYPE_LOGGING               &tensorflow__serving__logging_config__descriptor
#define TYPE_I32                   &google__protobuf__int32_value__descriptor
#define TYPE_I64                   &google__protobuf__int64_value__descriptor
#define TYPE_U32                   &google__protobuf__uint32_value__descriptor
#define TYPE_U64                   &google__protobuf__uint64_value__descriptor
#define TYPE_F32                   &google__protobuf__float_value__descriptor
#define TYPE_F64                   &google__protobuf__double_value__descriptor
#define TYPE_BOOL                  &google__protobuf__bool_value__descriptor
#define TYPE_STRING                &google__protobuf__string_value__descriptor
#define TYPE_BYTES                 &google__protobuf__bytes_value__descriptor
#define GOLDEN(kind, n, text, ...) {#kind, TYPE_##kind, n, text, __VA_ARGS__},
#include "tests/unit/proto/text_golden.inc"
};

static void pythons_protobuf_agrees(void **state)
{
    (void)state;
    int n_wrong = 0;
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        const struct golden *g = &goldens[i];
        ProtobufCMessage *m = NULL;
        uint8_t packed[1024];
        err = (struct rt_error){0};
        bool read = !pb_text_parse(&m, g->type, rt_span_of(g->text, (size_t)g->n), &err);
        size_t n = read ? protobuf_c_message_get_packed_size(m) : 0;
        assert_true(n <= sizeof packed);
        if (read)
            protobuf_c_message_pack(m, packed);
        bool same = read == (g->n_packed >= 0) &&
                    (!read || (n == (size_t)g->n_packed && memcmp(packed, g->packed, n) == 0));
        if (!same)
            print_error("%s: %s\n  python: %s, here: %s\n", g->kind, g->text,
                        g->n_packed < 0 ? "refused" : "read",
                        read ? "read, differently or alone" : rt_error_text(&err));
        n_wrong += !same;
        pb_free(m);
    }
    assert_int_equal(n_wrong, 0);
}

static struct rt_bytes repeated(const char *piece, size_t n)
{
    struct rt_bytes text;
    rt_bytes_init(&text, SIZE_MAX);
    for (size_t i = 0; i < n; i++)
        rt_bytes_adds(&text, piece);
    assert_false(text.failed);
    return text;
}

static enum rt_status parse_limited(const struct rt_bytes *text, size_t max_bytes,
                                    const struct rt_check *check)
{
    ProtobufCMessage *m = NULL;
    err = (struct rt_error){0};
    const enum rt_status st =
        pb_text_parse_limited(&m, &tensorflow__graph_def__descriptor, rt_span_of(text->p, text->n),
                              max_bytes, check, &err);
    assert_true((m != NULL) == (st == RT_OK));
    pb_free(m);
    return st;
}

/* The limit counts messages, strings and the arrays of repeated fields. */
static void memory_is_limited(void **state)
{
    (void)state;
    enum { N = 10000 };
    struct rt_bytes nodes = repeated("node{}", N);
    assert_ok(parse_limited(&nodes, N * (sizeof(Tensorflow__NodeDef) + 64), NULL), &err);
    assert_fails(parse_limited(&nodes, N * sizeof(Tensorflow__NodeDef), NULL), RT_INVALID_ARGUMENT,
                 &err, "bytes of memory, the limit for a text of 60000 bytes.");
    rt_bytes_clear(&nodes);
    struct rt_bytes strings = repeated("node{input:['','','','','','','','']}", N);
    assert_ok(parse_limited(&strings, N * (sizeof(Tensorflow__NodeDef) + 1024), NULL), &err);
    assert_fails(parse_limited(&strings, N * (sizeof(Tensorflow__NodeDef) + 256), NULL),
                 RT_INVALID_ARGUMENT, &err, "The message takes more than");
    rt_bytes_clear(&strings);
    struct rt_bytes numbers = repeated("versions{bad_consumers:[1", 1);
    for (int i = 0; i < N; i++)
        rt_bytes_adds(&numbers, ",1");
    rt_bytes_adds(&numbers, "]}");
    assert_ok(parse_limited(&numbers, N * 16, NULL), &err);
    assert_fails(parse_limited(&numbers, N * 4, NULL), RT_INVALID_ARGUMENT, &err,
                 "The message takes more than 40000 bytes of memory");
    rt_bytes_clear(&numbers);
}

struct countdown {
    int left; /* number of calls after which the check fails */
    int calls;
};

static enum rt_status count_down(void *arg, struct rt_error *e)
{
    struct countdown *c = arg;
    c->calls++;
    return c->left-- > 0 ? RT_OK : rt_fail(e, RT_CANCELLED, "the load was cancelled");
}

/* The check ends the parsing of messages, of a long string, of a long number, and of comments.
 * Parsing returns the check's status and error even at positions where the text could end. */
static void the_check_ends_the_parsing(void **state)
{
    (void)state;
    static const char *const pieces[] = {"node{}", "node{input:['','']}", "# comment\n", "'", "0",
                                         "\n"};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        const char c = pieces[i][0];
        const size_t n = 16 * PB_TEXT_CHECK_EVERY / strlen(pieces[i]);
        struct rt_bytes body = repeated(c == '\'' ? "a" : pieces[i], n), text = body;
        if (c == '\'' || c == '0') {
            rt_bytes_init(&text, SIZE_MAX);
            rt_bytes_adds(&text, c == '0' ? "versions{producer:" : "node{name:'");
            rt_bytes_add(&text, body.p, body.n);
            rt_bytes_adds(&text, c == '0' ? "}" : "'}");
            rt_bytes_clear(&body);
        }
        struct countdown never = {.left = 1 << 30}, third = {.left = 2};
        assert_ok(parse_limited(&text, SIZE_MAX, &(struct rt_check){count_down, &never}), &err);
        assert_in_range(never.calls, 14, 40);
        assert_fails(parse_limited(&text, SIZE_MAX, &(struct rt_check){count_down, &third}),
                     RT_CANCELLED, &err, "the load was cancelled");
        assert_int_equal(third.calls, 3);
        rt_bytes_clear(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_config_as_people_write_it_is_read),
        cmocka_unit_test(every_form_of_value_is_read),
        cmocka_unit_test(what_is_wrong_is_named_with_its_place),
        cmocka_unit_test(what_is_not_read_is_checked_and_discarded),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(what_only_python_reads_is_refused),
        cmocka_unit_test(a_mark_of_utf8_at_the_start_is_skipped),
        cmocka_unit_test(an_any_holds_what_is_written_in_it),
        cmocka_unit_test(an_any_of_another_type_is_refused_with_its_place),
        cmocka_unit_test(pythons_protobuf_agrees),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(the_check_ends_the_parsing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
