#include "tests/support/test.h"

#include "clients/c/message.h"
#include "proto/unpack.h"
#include "proto/wire.h"
#include "tensorflow_serving/apis/predict.pb-c.h"

static struct rt_error err;

struct fixture {
    struct rt_arena *arena;
    struct rt_bytes bytes;
    size_t budget;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->arena = rt_arena_new(1 << 20);
    f->budget = 1 << 16;
    rt_bytes_init(&f->bytes, 1 << 16);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    rt_arena_free(f->arena);
    rt_bytes_clear(&f->bytes);
    free(f);
    return 0;
}

static struct rt_span written(const struct fixture *f)
{
    return rt_span_of(f->bytes.p, f->bytes.n);
}

/* Returns the bytes of the input tensor in the request that the client wrote. The request has only
 * one input. */
static struct rt_span written_input(const struct fixture *f)
{
    struct rt_span rest = written(f), name, tensor;
    assert_int_equal(pb_entry_next(&rest, 2, &name, &tensor), 1);
    assert_true(rt_span_is(name, "x"));
    return tensor;
}

static void a_tensor_of_each_type_comes_back_as_it_was(void **state)
{
    struct fixture *f = *state;
    static const int types[] = {
        SLIPWAY_FLOAT, SLIPWAY_DOUBLE,    SLIPWAY_INT32,      SLIPWAY_UINT8,  SLIPWAY_INT16,
        SLIPWAY_INT8,  SLIPWAY_COMPLEX64, SLIPWAY_INT64,      SLIPWAY_HALF,   SLIPWAY_BFLOAT16,
        SLIPWAY_BOOL,  SLIPWAY_UINT16,    SLIPWAY_COMPLEX128, SLIPWAY_UINT32, SLIPWAY_UINT64,
    };
    const struct slipway_model m = {.name = "m"};
    unsigned char data[6 * 16];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = (unsigned char)(types[t] == SLIPWAY_BOOL ? i % 2 : i * 37 + 1);
        const struct slipway_tensor in = {
            .name = "x", .dtype = types[t], .rank = 2, .dim = {2, 3}, .data = data};
        struct slipway_tensor out = {0};
        rt_bytes_clear(&f->bytes);
        assert_ok(cl_write_predict(&f->bytes, &m, &in, 1, NULL, 0, &err), &err);
        assert_ok(cl_read_tensor(written_input(f), f->arena, &f->budget, &out, &err), &err);
        assert_int_equal(out.dtype, types[t]);
        assert_int_equal(out.rank, 2);
        assert_int_equal(out.dim[1], 3);
        assert_memory_equal(out.data, data, 6 * slipway_dtype_size(types[t]));
    }
}

static void strings_keep_their_zeros(void **state)
{
    struct fixture *f = *state;
    const struct slipway_string words[] = {{"a\0b", 3}, {"", 0}, {NULL, 0}};
    const struct slipway_tensor in = {
        .name = "x", .dtype = SLIPWAY_STRING, .rank = 1, .dim = {3}, .data = words};
    struct slipway_tensor out = {0};
    const struct slipway_model m = {.name = "m"};
    assert_ok(cl_write_predict(&f->bytes, &m, &in, 1, NULL, 0, &err), &err);
    assert_ok(cl_read_tensor(written_input(f), f->arena, &f->budget, &out, &err), &err);
    const struct slipway_string *got = out.data;
    assert_int_equal(got[0].n, 3);
    assert_memory_equal(got[0].p, "a\0b", 4);
    assert_int_equal(got[1].n, 0);
}

static void a_request_names_its_model_and_its_outputs(void **state)
{
    struct fixture *f = *state;
    const struct slipway_model m = {
        .name = "half", .has_version = true, .version = 0, .signature = "sig"};
    const char *const outputs[] = {"y"};
    assert_ok(cl_write_predict(&f->bytes, &m, NULL, 0, outputs, 1, &err), &err);
    ProtobufCMessage *message = pb_unpack(&tensorflow__serving__predict_request__descriptor,
                                          written(f), "the request", &err);
    const Tensorflow__Serving__PredictRequest *r = (const void *)message;
    assert_non_null(r);
    assert_string_equal(r->model_spec->name, "half");
    assert_string_equal(r->model_spec->signature_name, "sig");
    assert_non_null(r->model_spec->version);
    assert_int_equal(r->model_spec->version->value, 0);
    assert_int_equal(r->n_output_filter, 1);
    assert_string_equal(r->output_filter[0], "y");
    pb_free(message);
}

/* a TensorProto: dtype FLOAT, shape [3], float_val 1, 2 */
static const unsigned char short_float[] = {8, 1, 0x12, 4,    0x12, 2, 8, 3, 0x2a,
                                            8, 0, 0,    0x80, 0x3f, 0, 0, 0, 0x40};

static void the_last_value_stands_for_those_left_out(void **state)
{
    struct fixture *f = *state;
    struct slipway_tensor out = {0};
    assert_ok(cl_read_tensor(rt_span_of(short_float, sizeof short_float), f->arena, &f->budget,
                             &out, &err),
              &err);
    const float *x = out.data;
    assert_true(x[0] == 1 && x[1] == 2 && x[2] == 2);
    assert_ok(cl_read_tensor(rt_span_of(short_float, 8), f->arena, &f->budget, &out, &err), &err);
    x = out.data;
    assert_true(x[0] == 0 && x[2] == 0);
}

static void negative_numbers_of_int_val_are_cut_to_their_width(void **state)
{
    struct fixture *f = *state;
    /* a TensorProto: dtype INT8, shape [1], int_val -2, as the ten bytes of an int32 */
    static const unsigned char bytes[] = {8,    6,    0x12, 4,    0x12, 2,    8,
                                          1,    0x38, 0xfe, 0xff, 0xff, 0xff, 0xff,
                                          0xff, 0xff, 0xff, 0xff, 1};
    struct slipway_tensor out = {0};
    assert_ok(cl_read_tensor(rt_span_of(bytes, sizeof bytes), f->arena, &f->budget, &out, &err),
              &err);
    assert_int_equal(*(const int8_t *)out.data, -2);
}

static void what_a_response_claims_takes_no_memory_beyond_the_budget(void **state)
{
    struct fixture *f = *state;
    /* a TensorProto of shape [2^40] */
    static const unsigned char bytes[] = {8,    1,    0x12, 9,    0x12, 7,   8,
                                          0x80, 0x80, 0x80, 0x80, 0x80, 0x20};
    struct slipway_tensor out = {0};
    assert_fails(cl_read_tensor(rt_span_of(bytes, sizeof bytes), f->arena, &f->budget, &out, &err),
                 RT_RESOURCE_EXHAUSTED, &err, "larger than the limit");
    assert_int_equal(f->budget, 1 << 16);
}

static void inputs_that_cannot_be_sent_are_named(void **state)
{
    struct fixture *f = *state;
    const float x = 1;
    const struct slipway_model m = {.name = "m"}, nobody = {0};
    struct slipway_tensor in[2] = {
        {.name = "x", .dtype = SLIPWAY_FLOAT, .data = &x},
        {.name = "x", .dtype = SLIPWAY_FLOAT, .data = &x},
    };
    assert_fails(cl_write_predict(&f->bytes, &nobody, in, 1, NULL, 0, &err), RT_INVALID_ARGUMENT,
                 &err, "no model is named");
    assert_fails(cl_write_predict(&f->bytes, &m, in, 2, NULL, 0, &err), RT_INVALID_ARGUMENT, &err,
                 "input \"x\" is given twice");
    in[0].dtype = 99;
    assert_fails(cl_write_predict(&f->bytes, &m, in, 1, NULL, 0, &err), RT_INVALID_ARGUMENT, &err,
                 "input \"x\": dtype 99");
    in[0].dtype = SLIPWAY_FLOAT;
    in[0].rank = 1;
    in[0].dim[0] = -1;
    assert_fails(cl_write_predict(&f->bytes, &m, in, 1, NULL, 0, &err), RT_INVALID_ARGUMENT, &err,
                 "input \"x\"");
    in[0].dim[0] = 1;
    in[0].data = NULL;
    assert_fails(cl_write_predict(&f->bytes, &m, in, 1, NULL, 0, &err), RT_INVALID_ARGUMENT, &err,
                 "input \"x\" has no data");
}

static void a_config_s_text_becomes_a_request_or_its_fault_is_placed(void **state)
{
    struct fixture *f = *state;
    assert_ok(cl_write_reload_request(
                  &f->bytes, "model_config_list { config { name: 'a' base_path: '/b' } }", &err),
              &err);
    assert_int_equal(f->bytes.p[0], 1 << 3 | 2);
    assert_fails(cl_write_reload_request(&f->bytes, "model_config_list {\n  x: 1\n}", &err),
                 RT_INVALID_ARGUMENT, &err, "2:");
    /* a response with error_code 5 and the message "no" */
    static const unsigned char refused[] = {0x0a, 6, 8, 5, 0x12, 2, 'n', 'o'};
    assert_fails(cl_read_reload(rt_span_of(refused, sizeof refused), &err), RT_NOT_FOUND, &err,
                 "no");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_tensor_of_each_type_comes_back_as_it_was),
        TEST(strings_keep_their_zeros),
        TEST(a_request_names_its_model_and_its_outputs),
        TEST(the_last_value_stands_for_those_left_out),
        TEST(negative_numbers_of_int_val_are_cut_to_their_width),
        TEST(what_a_response_claims_takes_no_memory_beyond_the_budget),
        TEST(inputs_that_cannot_be_sent_are_named),
        TEST(a_config_s_text_becomes_a_request_or_its_fault_is_placed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
