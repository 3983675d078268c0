#include "tests/support/test.h"

#include "server/inference/sample_body.h"

static const char *body_of(const struct rt_signature *s)
{
    static struct rt_bytes b;
    rt_bytes_clear(&b);
    rt_bytes_init(&b, 4096);
    srv_sample_body(s, &b);
    return b.p;
}

#define SHAPE(...)                                                                                 \
    {                                                                                              \
        (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                                 \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static void rows_are_tried_where_the_first_dimension_is_open(void **state)
{
    (void)state;
    const struct rt_tensor_spec x = {.alias = "x", .dtype = RT_F32, .shape = SHAPE(-1)};
    struct rt_signature s = {.name = "serving_default", .n_inputs = 1, .inputs = &x};
    assert_string_equal(body_of(&s), "{\"instances\": [1.0, 2.0]}");
    const struct rt_tensor_spec y = {.alias = "y", .dtype = RT_I64, .shape = SHAPE(-1, 2, -1)};
    s.inputs = &y;
    assert_string_equal(body_of(&s), "{\"instances\": [[[1], [1]], [[2], [2]]]}");
}

static void several_inputs_are_named(void **state)
{
    (void)state;
    const struct rt_tensor_spec in[] = {
        {.alias = "a", .dtype = RT_F32, .shape = SHAPE(-1)},
        {.alias = "b", .dtype = RT_BOOL, .shape = SHAPE(-1)},
    };
    const struct rt_signature s = {.name = "other", .n_inputs = 2, .inputs = in};
    assert_string_equal(body_of(&s), "{\"signature_name\": \"other\", \"instances\": [{\"a\": 1.0, "
                                     "\"b\": true}, {\"a\": 2.0, \"b\": true}]}");
}

static void a_fixed_shape_is_filled_and_an_unknown_rank_is_a_scalar(void **state)
{
    (void)state;
    const struct rt_tensor_spec x = {.alias = "x", .dtype = RT_I32, .shape = SHAPE(2, 1)};
    const struct rt_tensor_spec any = {.alias = "x", .dtype = RT_F32, .shape = {.rank = -1}};
    struct rt_signature s = {.name = "serving_default", .n_inputs = 1, .inputs = &x};
    assert_string_equal(body_of(&s), "{\"inputs\": [[1], [1]]}");
    s.inputs = &any;
    assert_string_equal(body_of(&s), "{\"inputs\": 1.0}");
}

static void only_signatures_that_plain_numbers_can_call_are_chosen(void **state)
{
    (void)state;
    const struct rt_tensor_spec text = {.alias = "t", .dtype = RT_STRING, .shape = SHAPE(-1)};
    const struct rt_tensor_spec number = {.alias = "n", .dtype = RT_F32, .shape = SHAPE(-1)};
    const struct rt_signature defs[] = {
        {.name = "a_text", .n_inputs = 1, .inputs = &text},
        {.name = "b_writes", .n_inputs = 1, .inputs = &number},
        {.name = "c_unsupported", .n_inputs = 1, .inputs = &number},
        {.name = "d_good", .n_inputs = 1, .inputs = &number},
    };
    int anything;
    struct rt_model_signature signatures[] = {
        {.def = &defs[0], .call = (void *)&anything},
        {.def = &defs[1], .call = (void *)&anything, .writes = true},
        {.def = &defs[2]},
        {.def = &defs[3], .call = (void *)&anything},
    };
    struct rt_model m = {.n_signatures = 4, .signatures = signatures};
    assert_ptr_equal(srv_sample_signature(&m), &signatures[3]);
    m.n_signatures = 3;
    assert_null(srv_sample_signature(&m));
}

static void an_enormous_shape_ends_with_the_buffer(void **state)
{
    (void)state;
    const struct rt_tensor_spec in[] = {
        {.alias = "x", .dtype = RT_F32, .shape = SHAPE(-1, INT64_C(1) << 40)},
        {.alias = "y", .dtype = RT_F32, .shape = SHAPE(-1, INT64_C(1) << 40, 0)},
    };
    const struct rt_signature s = {.name = "serving_default", .n_inputs = 2, .inputs = in};
    struct rt_bytes b;
    rt_bytes_init(&b, 4096);
    srv_sample_body(&s, &b);
    assert_true(b.failed && !b.no_memory);
    rt_bytes_clear(&b);
}

static void names_that_a_shell_would_interpret_are_not_chosen(void **state)
{
    (void)state;
    static const char *const bad[] = {"x'; id; '", "a b", "x\"", "x\n", "$(id)", "\xc3\xa9"};
    const struct rt_tensor_spec good_input = {.alias = "x", .dtype = RT_F32, .shape = SHAPE(-1)};
    int anything;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct rt_tensor_spec input = {.alias = bad[i], .dtype = RT_F32, .shape = SHAPE(-1)};
        const struct rt_signature defs[] = {
            {.name = "input", .n_inputs = 1, .inputs = &input},
            {.name = bad[i], .n_inputs = 1, .inputs = &good_input},
            {.name = "good", .n_inputs = 1, .inputs = &good_input},
        };
        struct rt_model_signature signatures[] = {
            {.def = &defs[0], .call = (void *)&anything},
            {.def = &defs[1], .call = (void *)&anything},
            {.def = &defs[2], .call = (void *)&anything},
        };
        struct rt_model m = {.n_signatures = 3, .signatures = signatures};
        assert_ptr_equal(srv_sample_signature(&m), &signatures[2]);
        assert_false(srv_sample_is_plain_name(bad[i]));
    }
    assert_true(srv_sample_is_plain_name("dir/model-1.2_a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_tried_where_the_first_dimension_is_open),
        cmocka_unit_test(several_inputs_are_named),
        cmocka_unit_test(a_fixed_shape_is_filled_and_an_unknown_rank_is_a_scalar),
        cmocka_unit_test(only_signatures_that_plain_numbers_can_call_are_chosen),
        cmocka_unit_test(an_enormous_shape_ends_with_the_buffer),
        cmocka_unit_test(names_that_a_shell_would_interpret_are_not_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
