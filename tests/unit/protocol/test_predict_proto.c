#include "tests/support/test.h"

#include "runtime/base/arena.h"
#include "server/protocol/tfs/predict_proto.h"

struct golden {
    int dtype;
    const char *memory;
    size_t n_memory;
    const char *request;
    size_t n_request;
    const char *request_content;
    size_t n_request_content;
    const char *response;
    size_t n_response;
    const char *response_content;
    size_t n_response_content;
};
/* clang-format off */
static const struct golden goldens[] = {
#include "predict_golden.inc"
};
/* clang-format on */

static struct rt_tensor_spec input = {.alias = "x", .name = "x:0"};
static struct rt_tensor_spec output = {.alias = "y", .name = "y:0"};
static struct rt_signature sig = {
    .name = "sig", .n_inputs = 1, .n_outputs = 1, .inputs = &input, .outputs = &output};

/* Returns a cursor over the message in slices of `step` bytes. */
static struct srv_cursor cut(struct rt_arena *a, const void *p, size_t n, size_t step)
{
    struct rt_span *s = rt_arena_array(a, n / step + 2, sizeof *s);
    int k = 0;
    for (size_t at = 0; at < n; at += step)
        s[k++] = rt_span_of((const char *)p + at, n - at < step ? n - at : step);
    return srv_cursor_of(s, n);
}

static enum rt_status bind(struct srv_cursor c, struct rt_tensor *feed, bool *wanted,
                           struct rt_arena *a, struct rt_error *err)
{
    struct srv_predict_request r;
    enum rt_status st = srv_predict_read(c, &r, a, err);
    *feed = (struct rt_tensor){0};
    if (st)
        return st;
    st = srv_predict_bind(&r, &sig, NULL, &(struct srv_allowance){.left = 1 << 20}, feed, wanted,
                          err);
    if (st)
        rt_tensor_clear(feed);
    return st;
}

static void every_type_is_read_in_both_forms_wherever_the_slices_are_cut(void **state)
{
    (void)state;
    for (size_t g = 0; g < sizeof goldens / sizeof goldens[0]; g++) {
        const struct golden *x = &goldens[g];
        for (int form = 0; form < 2; form++)
            for (size_t step = 1; step < 200; step = step * 2 + 1) {
                struct rt_arena *a = rt_arena_new(1 << 20);
                struct rt_error err = {0};
                struct rt_tensor t;
                bool wanted[1];
                assert_ok(bind(cut(a, form ? x->request_content : x->request,
                                   form ? x->n_request_content : x->n_request, step),
                               &t, wanted, a, &err),
                          &err);
                assert_int_equal(t.dtype, x->dtype);
                assert_int_equal(t.rank, 3);
                assert_int_equal(t.dim[0], 2);
                assert_int_equal(t.dim[1], 1);
                assert_int_equal(rt_tensor_bytes(&t), x->n_memory);
                assert_memory_equal(t.data, x->memory, x->n_memory);
                assert_true(wanted[0]);
                rt_tensor_clear(&t);
                rt_arena_free(a);
            }
    }
}

/* Reads a request, with a limit on its number of fields, and binds its tensors to the signature's
 * inputs. */
static enum rt_status bind_fields(const struct golden *x, int64_t *fields_left,
                                  struct rt_error *err)
{
    struct rt_arena *a = rt_arena_new(1 << 20);
    struct srv_cursor c = cut(a, x->request, x->n_request, x->n_request);
    struct rt_tensor t;
    bool wanted[1];

    c.fields_left = fields_left;
    enum rt_status st = bind(c, &t, wanted, a, err);
    if (!st)
        rt_tensor_clear(&t);
    rt_arena_free(a);
    return st;
}

static void a_limit_on_fields_counts_those_of_nested_messages(void **state)
{
    (void)state;
    for (size_t g = 0; g < sizeof goldens / sizeof goldens[0]; g++) {
        struct rt_error err = {0};
        int64_t left = 1000;
        assert_ok(bind_fields(&goldens[g], &left, &err), &err);
        int64_t n_reads = 1000 - left;
        assert_true(n_reads > 5);
        for (int64_t most = 0; most < n_reads; most++) {
            left = most;
            bind_fields(&goldens[g], &left, &err);
            assert_true(left < 0);
        }
        left = n_reads;
        assert_ok(bind_fields(&goldens[g], &left, &err), &err);
        assert_int_equal(left, 0);
    }
}

static void every_type_is_written_as_protobuf_would(void **state)
{
    (void)state;
    for (size_t g = 0; g < sizeof goldens / sizeof goldens[0]; g++) {
        const struct golden *x = &goldens[g];
        struct rt_error err = {0};
        struct rt_tensor t;
        const int64_t dim[3] = {2, 1, 2};
        bool wanted = true;
        unsigned char *p;
        size_t n;
        assert_ok(rt_tensor_new(&t, NULL, (enum rt_dtype)x->dtype, 3, dim, &err), &err);
        memcpy(t.data, x->memory, x->n_memory);
        struct srv_predict_response r = {
            .echo = {"m", "sig", 7}, .sig = &sig, .fetches = &t, .wanted = &wanted};
        assert_ok(srv_predict_write(&r, &p, &n, &err), &err);
        assert_int_equal(n, x->n_response);
        assert_memory_equal(p, x->response, n);
        free(p);
        r.as_content = true;
        assert_ok(srv_predict_write(&r, &p, &n, &err), &err);
        assert_int_equal(n, x->n_response_content);
        assert_memory_equal(p, x->response_content, n);
        free(p);
        rt_tensor_clear(&t);
    }
}

static enum rt_status read_tensor(const void *p, size_t n, size_t budget, struct rt_tensor *t,
                                  struct rt_error *err)
{
    struct rt_span s = rt_span_of(p, n);
    return srv_tensor_read(srv_cursor_of(&s, n), RT_NO_DTYPE, t,
                           &(struct srv_allowance){.left = budget}, err);
}

#define READ(bytes, budget, t, err) read_tensor(bytes, sizeof(bytes) - 1, budget, t, err)

static void the_last_value_fills_what_is_missing(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    /* a TensorProto: float [4] with the values 1 and 2, which are not packed */
    assert_ok(READ("\x08\x01\x12\x04\x12\x02\x08\x04\x2d\x00\x00\x80\x3f\x2d\x00\x00\x00\x40", 100,
                   &t, &err),
              &err);
    const float want[] = {1, 2, 2, 2};
    assert_memory_equal(t.data, want, sizeof want);
    rt_tensor_clear(&t);
    /* a TensorProto: int32 [3] without values */
    assert_ok(READ("\x08\x03\x12\x04\x12\x02\x08\x03", 100, &t, &err), &err);
    const int32_t zeros[3] = {0};
    assert_memory_equal(t.data, zeros, sizeof zeros);
    rt_tensor_clear(&t);
    /* a TensorProto: int32 [1] with three values, of which the last two are ignored */
    assert_ok(READ("\x08\x03\x12\x04\x12\x02\x08\x01\x3a\x03\x05\x06\x07", 100, &t, &err), &err);
    assert_int_equal(*(int32_t *)t.data, 5);
    rt_tensor_clear(&t);
}

static void one_value_fills_a_shape_of_any_size(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    /* two TensorProtos: double [100003] with the values 1 and 2, and complex128 [100003] with the
     * value 1+2i */
    assert_ok(
        READ("\x08\x02\x12\x06\x12\x04\x08\xa3\x8d\x06\x32\x10\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0"
             "\0\x40",
             1 << 20, &t, &err),
        &err);
    assert_true(((double *)t.data)[0] == 1);
    for (int i = 1; i < 100003; i++)
        assert_true(((double *)t.data)[i] == 2);
    rt_tensor_clear(&t);
    assert_ok(
        READ("\x08\x12\x12\x06\x12\x04\x08\xa3\x8d\x06\x62\x10\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0"
             "\0\x40",
             2 << 20, &t, &err),
        &err);
    for (int i = 0; i < 100003; i++)
        assert_true(((double *)t.data)[2 * i] == 1 && ((double *)t.data)[2 * i + 1] == 2);
    rt_tensor_clear(&t);
}

static void a_type_that_is_not_wanted_is_not_expanded(void **state)
{
    (void)state;
    static const char many[] = "\x08\x07\x12\x07\x12\x05\x08\x80\xad\xe2\x04\x42\x01"
                               /* The tensor's only value stands for 10,000,000 strings. */
                               "a";
    struct rt_span s = rt_span_of(many, sizeof many - 1);
    struct rt_error err = {0};
    struct rt_tensor t;
    struct srv_allowance allowance = {.left = 100};
    assert_ok(srv_tensor_read(srv_cursor_of(&s, s.n), RT_F32, &t, &allowance, &err), &err);
    assert_int_equal(t.dtype, RT_STRING);
    assert_int_equal(rt_tensor_count(&t), 0);
    assert_int_equal(allowance.left, 100);
    rt_tensor_clear(&t);
    assert_fails(srv_tensor_read(srv_cursor_of(&s, s.n), RT_STRING, &t, &allowance, &err),
                 RT_RESOURCE_EXHAUSTED, &err, "at most 2 values are given");
    /* If a message is malformed and also has the wrong type, the error states that it is
     * malformed. */
    s = rt_span_of("\x08\x01\x12\x04\x12\x02\x08\x02\x22\x03"
                   "abc",
                   13);
    assert_fails(srv_tensor_read(srv_cursor_of(&s, s.n), RT_STRING, &t, &allowance, &err),
                 RT_INVALID_ARGUMENT, &err, "tensor_content holds 3 bytes");
}

static void the_budget_is_charged_before_a_value_is_repeated(void **state)
{
    (void)state;
    /* two TensorProtos: float [10,000,000] with one value, and a string [10,000,000] with one */
    static const char floats[] = "\x08\x01\x12\x07\x12\x05\x08\x80\xad\xe2\x04\x2d\0\0\x80\x3f";
    static const char strings[] = "\x08\x07\x12\x07\x12\x05\x08\x80\xad\xe2\x04\x42\x01"
                                  "a";
    const struct rt_span messages[] = {rt_span_of(floats, sizeof floats - 1),
                                       rt_span_of(strings, sizeof strings - 1)};
    const size_t sizes[] = {40000000, 240000000};
    for (int i = 0; i < 2; i++) {
        struct srv_budget budget = {.limit = (int64_t)sizes[i] - 1};
        struct rt_error err = {0};
        struct rt_tensor t;
        size_t own = 0;
        struct srv_allowance allowance = {
            .left = SIZE_MAX, .budget = &budget, .own = &own, .what = "the request as tensors"};
        assert_fails(srv_tensor_read(srv_cursor_of(&messages[i], messages[i].n), RT_NO_DTYPE, &t,
                                     &allowance, &err),
                     RT_RESOURCE_EXHAUSTED, &err,
                     "the request as tensors is larger than --max_bytes_in_flight");
        assert_null(t.data);
        assert_int_equal(own, 0);
    }
}

static void strings_are_read_from_fields_and_from_content(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    assert_ok(READ("\x08\x07\x12\x04\x12\x02\x08\x03\x42\x02hi\x42\x18"
                   "a string of 24 bytes....",
                   1000, &t, &err),
              &err);
    assert_string_equal(rt_str_data(&rt_strs(&t)[0]), "hi");
    assert_string_equal(rt_str_data(&rt_strs(&t)[2]), "a string of 24 bytes....");
    rt_tensor_clear(&t);
    assert_ok(READ("\x08\x07\x12\x04\x12\x02\x08\x02\x22\x05\x01\x02xyz", 1000, &t, &err), &err);
    assert_string_equal(rt_str_data(&rt_strs(&t)[1]), "yz");
    rt_tensor_clear(&t);
    assert_fails(READ("\x08\x07\x12\x04\x12\x02\x08\x02\x22\x05\x01\x09xyz", 1000, &t, &err),
                 RT_INVALID_ARGUMENT, &err, "tensor_content of strings");
}

static void a_small_message_cannot_ask_for_much_memory(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    /* a TensorProto of float [2^40] */
    assert_fails(READ("\x08\x01\x12\x09\x12\x07\x08\x80\x80\x80\x80\x80\x20", 1000, &t, &err),
                 RT_RESOURCE_EXHAUSTED, &err, "[1099511627776]");
    /* a TensorProto: string [100] with one value of 24 bytes, which all elements share */
    assert_fails(READ("\x08\x07\x12\x04\x12\x02\x08\x64\x42\x18"
                      "a string of 24 bytes....",
                      2448, &t, &err),
                 RT_RESOURCE_EXHAUSTED, &err, "more than the 2448 bytes");
    assert_ok(READ("\x08\x07\x12\x04\x12\x02\x08\x64\x42\x18"
                   "a string of 24 bytes....",
                   2449, &t, &err),
              &err);
    assert_ptr_equal(rt_str_data(rt_strs(&t)), rt_str_data(rt_strs(&t) + 99));
    rt_tensor_clear(&t);
    /* a TensorProto of float [2^63 - 1, 2^63 - 1] */
    assert_fails(READ("\x08\x01\x12\x18\x12\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x12\x0a\x08"
                      "\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
                      1000, &t, &err),
                 RT_INVALID_ARGUMENT, &err, "");
}

/* Asserts that reading a TensorProto of the shape [N_VALUES] stops after the deadline of the
 * request. `begin` is the text before the values and `value` one of the values. */
static void stops_at_the_deadline(const char *begin, size_t n_begin, const char *value,
                                  size_t n_value)
{
    enum { N_VALUES = 1000000 };
    struct srv_cancellation cancellation = {.deadline_ns = 1};
    struct rt_error err = {0};
    struct rt_tensor t = {0};
    struct rt_bytes text;

    rt_bytes_init(&text, SIZE_MAX);
    rt_bytes_add(&text, begin, n_begin);
    for (int i = 0; i < N_VALUES; i++)
        rt_bytes_add(&text, value, n_value);
    assert_false(text.failed);
    const struct rt_span span = rt_span_of(text.p, text.n);
    struct srv_cursor c = srv_cursor_of(&span, span.n);
    c.cancellation = &cancellation;
    if (!srv_tensor_read(c, RT_NO_DTYPE, &t, &(struct srv_allowance){.left = SIZE_MAX}, &err))
        rt_tensor_clear(&t);
    assert_int_equal(cancellation.over, RT_DEADLINE_EXCEEDED);
    rt_bytes_clear(&text);
}

static void reading_stops_at_the_deadline(void **state)
{
    (void)state;
#define SHAPE               "\x12\x06\x12\x04\x08\xc0\x84\x3d"
#define STOPS(begin, value) stops_at_the_deadline(begin, sizeof begin - 1, value, sizeof value - 1)
    STOPS("\x08\x0a" SHAPE, "\x58\x01");                /* bools, each in a field */
    STOPS("\x08\x09" SHAPE "\x52\xc0\x84\x3d", "\x01"); /* packed 64-bit integers */
    STOPS("\x08\x07" SHAPE, "\x42\x01x");               /* strings, each in a field */
    STOPS("\x08\x07" SHAPE "\x22\xc0\x84\x3d", "\0");   /* empty strings in tensor_content */
#undef STOPS
#undef SHAPE
}

static void what_is_no_tensor_is_refused(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    assert_fails(READ("", 100, &t, &err), RT_INVALID_ARGUMENT, &err, "is no value");
    assert_fails(READ("\x08\x65", 100, &t, &err), RT_INVALID_ARGUMENT, &err, "is no value");
    assert_fails(READ("\x08\x14", 100, &t, &err), RT_INVALID_ARGUMENT, &err, "resource");
    assert_fails(
        READ("\x08\x01\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 100, &t, &err),
        RT_INVALID_ARGUMENT, &err, "[");
    assert_fails(READ("\x08\x01\x22\x03"
                      "abc",
                      100, &t, &err),
                 RT_INVALID_ARGUMENT, &err, "tensor_content holds 3 bytes");
    assert_fails(READ("\x08\x01\x12\x7f", 100, &t, &err), RT_INVALID_ARGUMENT, &err, "protobuf");
    assert_fails(READ("\x08\x01\x12\x04\x12\x02\x08\x01\x2a\x03xyz", 100, &t, &err),
                 RT_INVALID_ARGUMENT, &err, "packed values");
}

/* ---- binding ---- */

#define X(value)          "\x12\x0a\x0a\x01x\x12\x05\x08\x03\x3a\x01" value
#define Z(value)          "\x12\x0a\x0a\x01z\x12\x05\x08\x03\x3a\x01" value
#define SPEC              "\x0a\x03\x0a\x01m"
#define BIND(bytes, t, w) bind(cut(a, bytes, sizeof(bytes) - 1, 1000), t, w, a, &err)

static void inputs_and_filters_are_checked_with_servings_texts(void **state)
{
    (void)state;
    struct rt_arena *a = rt_arena_new(1 << 20);
    struct rt_error err = {.arena = a};
    struct rt_tensor t;
    bool w[1];

    assert_fails(BIND(SPEC, &t, w), RT_INVALID_ARGUMENT, &err,
                 "input size does not match signature: 0!=1 len({}) != len({x}). Sent extra: {}. "
                 "Missing but required: {x}.");
    assert_fails(BIND(SPEC Z("\x01") X("\x02"), &t, w), RT_INVALID_ARGUMENT, &err,
                 "2!=1 len({x,z}) != len({x}). Sent extra: {z}. Missing but required: {}.");
    assert_fails(BIND(SPEC Z("\x01"), &t, w), RT_INVALID_ARGUMENT, &err,
                 "Signature input alias: x(feed name: x:0) not found in request and no default "
                 "value provided");
    assert_fails(BIND(SPEC X("\x01") "\x1a\x01q", &t, w), RT_INVALID_ARGUMENT, &err,
                 "output tensor alias not found in signature: q Outputs expected to be in the set "
                 "{y}.");
    assert_fails(BIND(SPEC X("\x01") "\x1a\x01y\x1a\x01y", &t, w), RT_INVALID_ARGUMENT, &err,
                 "duplicate output tensor alias: y");
    assert_fails(BIND(SPEC "\x12\x07\x0a\x01x\x12\x02\x08\x00", &t, w), RT_INVALID_ARGUMENT, &err,
                 "tensor parsing error: x");
    /* Of two map entries with the same key, the last one is used. */
    assert_ok(BIND(SPEC X("\x01") X("\x02"), &t, w), &err);
    assert_int_equal(*(int32_t *)t.data, 2);
    rt_tensor_clear(&t);
    rt_arena_free(a);
}

static void a_missing_input_takes_its_default(void **state)
{
    (void)state;
    struct rt_arena *a = rt_arena_new(1 << 20);
    struct rt_error err = {.arena = a};
    struct rt_tensor t, seven;
    bool w[1];

    assert_ok(rt_tensor_new(&seven, NULL, RT_I32, 0, NULL, &err), &err);
    *(int32_t *)seven.data = 7;
    input.default_value = &seven;
    assert_ok(BIND(SPEC, &t, w), &err);
    assert_int_equal(*(int32_t *)t.data, 7);
    rt_tensor_clear(&t);
    assert_fails(BIND(SPEC Z("\x01"), &t, w), RT_INVALID_ARGUMENT, &err,
                 "Inputs contains invalid name. Used request inputs: , request input: ");
    input.default_value = NULL;
    rt_tensor_clear(&seven);
    rt_arena_free(a);
}

static void the_model_spec_is_read(void **state)
{
    (void)state;
    struct rt_arena *a = rt_arena_new(1 << 20);
    struct rt_error err = {.arena = a};
    struct srv_predict_request r;
    const char none[] = "";

    assert_ok(srv_predict_read(cut(a, none, 0, 1), &r, a, &err), &err);
    assert_false(r.has_spec);
    const char label[] = "\x0a\x0e\x0a\x01m\x12\x02\x08\x05\x22\x05newer";
    assert_ok(srv_predict_read(cut(a, label, sizeof label - 1, 3), &r, a, &err), &err);
    assert_true(r.has_spec);
    /* Version and label form a oneof, so only the field that comes last is used. */
    assert_false(r.spec.has_version);
    assert_true(rt_span_is(r.spec.label, "newer"));
    assert_true(rt_span_is(r.spec.name, "m"));
    const char version[] = "\x0a\x0d\x0a\x01m\x22\x04last\x12\x02\x08\x05";
    assert_ok(srv_predict_read(cut(a, version, sizeof version - 1, 3), &r, a, &err), &err);
    assert_true(r.spec.has_version);
    assert_int_equal(r.spec.version, 5);
    assert_null(r.spec.label.p);
    const char bad[] = "\x0a\x20\x0a\x01m";
    assert_fails(srv_predict_read(cut(a, bad, sizeof bad - 1, 3), &r, a, &err), RT_INVALID_ARGUMENT,
                 &err, "not well formed protobuf");
    rt_arena_free(a);
}

static void string_outputs_are_written(void **state)
{
    (void)state;
    struct rt_error err = {0};
    struct rt_tensor t;
    const int64_t dim[1] = {2};
    bool wanted = true;
    unsigned char *p;
    size_t n;

    assert_ok(rt_tensor_new(&t, NULL, RT_STRING, 1, dim, &err), &err);
    rt_str_set((struct rt_str *)t.data, NULL, "ab", 2, NULL);
    struct srv_predict_response r = {
        .echo = {"m", "s", 0}, .sig = &sig, .fetches = &t, .wanted = &wanted};
    assert_ok(srv_predict_write(&r, &p, &n, &err), &err);
    const char want[] = "\x0a\x13\x0a\x01y\x12\x0e\x08\x07\x12\x04\x12\x02\x08\x02\x42\x02"
                        "ab\x42\x00\x12\x08\x0a\x01m\x12\x00\x1a\x01s";
    assert_int_equal(n, sizeof want - 1);
    assert_memory_equal(p, want, n);
    free(p);
    rt_tensor_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_read_in_both_forms_wherever_the_slices_are_cut),
        cmocka_unit_test(a_limit_on_fields_counts_those_of_nested_messages),
        cmocka_unit_test(every_type_is_written_as_protobuf_would),
        cmocka_unit_test(the_last_value_fills_what_is_missing),
        cmocka_unit_test(one_value_fills_a_shape_of_any_size),
        cmocka_unit_test(a_type_that_is_not_wanted_is_not_expanded),
        cmocka_unit_test(the_budget_is_charged_before_a_value_is_repeated),
        cmocka_unit_test(strings_are_read_from_fields_and_from_content),
        cmocka_unit_test(a_small_message_cannot_ask_for_much_memory),
        cmocka_unit_test(reading_stops_at_the_deadline),
        cmocka_unit_test(what_is_no_tensor_is_refused),
        cmocka_unit_test(inputs_and_filters_are_checked_with_servings_texts),
        cmocka_unit_test(a_missing_input_takes_its_default),
        cmocka_unit_test(the_model_spec_is_read),
        cmocka_unit_test(string_outputs_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
