#include "tests/support/test.h"

#include "runtime/base/arena.h"
#include "server/protocol/tfs/json_examples.h"

static enum rt_status decode(const char *text, size_t budget, struct rt_tensor *out,
                             struct rt_error *err)
{
    struct srv_json_doc doc;
    enum rt_status st = srv_json_check(&doc, rt_span_of(text, strlen(text)), NULL, err);
    return st ? st
              : srv_json_decode_examples(&doc, &(struct srv_allowance){.left = budget}, out, err);
}

/* Asserts that the text decodes to one Example, which serializes to the bytes `want`. */
static void becomes(const char *text, const char *want, size_t n)
{
    struct rt_error err = {0};
    struct rt_tensor t;

    assert_ok(decode(text, 1 << 20, &t, &err), &err);
    assert_int_equal(t.dtype, RT_STRING);
    assert_int_equal(t.rank, 1);
    assert_int_equal(t.dim[0], 1);
    assert_int_equal(rt_strs(&t)[0].n, n);
    assert_memory_equal(rt_str_data(&rt_strs(&t)[0]), want, n);
    rt_tensor_clear(&t);
}
#define BECOMES(text, want) becomes(text, want, sizeof(want) - 1)

static void a_token_says_the_kind_of_a_feature(void **state)
{
    (void)state;
    /* A BytesList has one field per value, whereas a FloatList and an Int64List are packed. */
    BECOMES("{\"examples\":[{\"x\":\"ab\"}]}", "\x0a\x0d\x0a\x0b\x0a\x01x\x12\x06\x0a\x04\x0a\x02"
                                               "ab");
    BECOMES("{\"examples\":[{\"x\":[\"a\",{\"b64\":\"Yg==\"},\"\"]}]}",
            "\x0a\x11\x0a\x0f\x0a\x01x\x12\x0a\x0a\x08\x0a\x01"
            "a\x0a\x01"
            "b\x0a\x00");
    BECOMES("{\"examples\":[{\"x\":1.0}]}",
            "\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04\x00\x00\x80\x3f");
    BECOMES("{\"examples\":[{\"x\":[NaN]}]}",
            "\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04\x00\x00\xc0\x7f");
    BECOMES("{\"examples\":[{\"x\":[300,true,false]}]}",
            "\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x1a\x06\x0a\x04\xac\x02\x01\x00");
    BECOMES("{\"examples\":[{\"x\":-1}]}",
            "\x0a\x15\x0a\x13\x0a\x01x\x12\x0e\x1a\x0c\x0a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff"
            "\x01");
    BECOMES("{\"examples\":[{\"x\":[]}]}", "\x0a\x07\x0a\x05\x0a\x01x\x12\x00");
    BECOMES("{\"examples\":[{}]}", "");
}

static void the_context_goes_before_each_example(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;

    BECOMES("{\"context\":{\"x\":true},\"examples\":[{\"y\":true}]}",
            "\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x01"
            "\x0a\x0c\x0a\x0a\x0a\x01y\x12\x05\x1a\x03\x0a\x01\x01");
    assert_ok(decode("{\"examples\":[{},{}],\"context\":{\"x\":[]}}", 1000, &t, &err), &err);
    assert_int_equal(t.dim[0], 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(rt_strs(&t)[i].n, 9);
    rt_tensor_clear(&t);
}

static void no_more_memory_is_taken_than_was_allowed(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    const char *text = "{\"context\":{\"x\":\"twenty bytes of text\"},\"examples\":[{},{},{}]}";

    assert_ok(decode(text, 1000, &t, &err), &err);
    rt_tensor_clear(&t);
    assert_fails(decode(text, 90, &t, &err), RT_RESOURCE_EXHAUSTED, &err, "90 bytes");
    assert_fails(decode(text, 20, &t, &err), RT_RESOURCE_EXHAUSTED, &err, "20 bytes");
    assert_fails(decode("{\"examples\":[{},{},{}]}", 2, &t, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "3 examples");
}

/* Each number of the example takes ten bytes among the values of the feature, again among the
 * features, and again in the example. */
static void an_example_is_charged_while_it_is_written(void **state)
{
    enum { NUMBERS = 1000, MOST = 10 * NUMBERS };
    (void)state;
    struct srv_budget budget = {.limit = INT64_MAX};
    size_t own = 0;
    struct srv_allowance allowance = {
        .left = SIZE_MAX, .budget = &budget, .own = &own, .what = "the request as tensors"};
    struct rt_error err = {0};
    struct rt_bytes text;
    struct srv_json_doc doc;
    struct rt_tensor t;

    rt_bytes_init(&text, SIZE_MAX / 2);
    rt_bytes_adds(&text, "{\"examples\":[{\"a\":[-1");
    for (int i = 1; i < NUMBERS; i++)
        rt_bytes_adds(&text, ",-1");
    rt_bytes_adds(&text, "]}]}");
    assert_ok(srv_json_check(&doc, rt_span_of(text.p, text.n), NULL, &err), &err);
    assert_ok(srv_json_decode_examples(&doc, &allowance, &t, &err), &err);
    /* Afterwards only the tensor remains, apart from what is charged ahead. */
    assert_int_equal(allowance.taken, sizeof(struct rt_str) + rt_strs(&t)[0].n);
    assert_ok(srv_allowance_settle(&allowance, 0, &err), &err);
    rt_tensor_clear(&t);
    budget.limit = 2 * MOST;
    assert_fails(srv_json_decode_examples(&doc, &allowance, &t, &err), RT_RESOURCE_EXHAUSTED, &err,
                 "the request as tensors is larger than --max_bytes_in_flight");
    srv_budget_give(&budget, &own, own);
    assert_int_equal(atomic_load(&budget.held), 0);
    rt_bytes_clear(&text);
}

static void results_are_laid_out_as_the_reference_says(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t[2];
    const int64_t dims[2] = {2, 2};
    struct rt_bytes out;
    struct srv_scoring s = {.api = SRV_CLASSIFY, .classes = 0, .scores = 1};

    rt_bytes_init(&out, 1000);
    assert_ok(rt_tensor_new(&t[0], NULL, RT_STRING, 2, dims, &err), &err);
    assert_ok(rt_tensor_new(&t[1], NULL, RT_F32, 2, dims, &err), &err);
    const float scores[] = {1, 0.25f, -1e30f, 1.0f / 3};
    memcpy(t[1].data, scores, sizeof scores);
    rt_str_set((struct rt_str *)t[0].data + 1, NULL, "a\"b", 3, NULL);
    assert_ok(srv_json_encode_scores(&out, &s, t, 2, NULL, &err), &err);
    assert_string_equal(out.p, "{\n    \"results\": [[[\"\", 1.0], [\"a\\\"b\", 0.25]], [[\"\", "
                               "-1e+30], [\"\", 0.333333343]]\n    ]\n}");
    out.n = 0;
    s.api = SRV_REGRESS;
    s.scores = 1;
    t[1].rank = 1;
    assert_ok(srv_json_encode_scores(&out, &s, t, 2, NULL, &err), &err);
    assert_string_equal(out.p, "{\n    \"results\": [1.0, 0.25]\n}");
    assert_fails(srv_json_encode_scores(&out, &s, t, 0, NULL, &err), RT_INVALID_ARGUMENT, &err,
                 "Cannot convert empty RegressionResults to JSON");
    rt_tensor_clear(&t[0]);
    rt_tensor_clear(&t[1]);
    rt_bytes_clear(&out);
}

static void decoding_stops_at_the_deadline(void **state)
{
    enum { UNITS = 100000 };
    static const char *const heads[] = {"{\"examples\":[", "{\"examples\":[{\"a\":["};
    static const char *const units[] = {"{\"a\":1,\"b\":2},",
                                        "0.0000000000000000000000000000000000000001,"};
    static const char *const tails[] = {"{}]}", "1.5]}]}"};
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct srv_cancellation cancellation = {.deadline_ns = RT_NEVER};
        struct rt_error err = {0};
        struct rt_bytes text;
        struct rt_tensor t;
        struct srv_json_doc doc;
        rt_bytes_init(&text, SIZE_MAX);
        rt_bytes_adds(&text, heads[k]);
        for (int i = 0; i < UNITS; i++)
            rt_bytes_adds(&text, units[k]);
        rt_bytes_adds(&text, tails[k]);
        assert_false(text.failed);
        assert_ok(srv_json_check(&doc, rt_span_of(text.p, text.n), &cancellation, &err), &err);
        cancellation.deadline_ns = 1;
        if (srv_json_decode_examples(&doc, &(struct srv_allowance){.left = SIZE_MAX}, &t, &err) ==
            RT_OK)
            rt_tensor_clear(&t);
        assert_int_equal(cancellation.over, RT_DEADLINE_EXCEEDED);
        rt_bytes_clear(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_stops_at_the_deadline),
        cmocka_unit_test(a_token_says_the_kind_of_a_feature),
        cmocka_unit_test(the_context_goes_before_each_example),
        cmocka_unit_test(no_more_memory_is_taken_than_was_allowed),
        cmocka_unit_test(an_example_is_charged_while_it_is_written),
        cmocka_unit_test(results_are_laid_out_as_the_reference_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
